"""What reproducing a book would do: a row per notebook, and nothing started."""

import json

import pytest
from click.testing import CliRunner

from labkit.book import outlook as module
from labkit.book.outlook import outlook
from labkit.book.pages import Page
from labkit.book.plan import BookError
from labkit.cli import main
from labkit.settings import OUTPUTS

pytestmark = pytest.mark.unit


@pytest.fixture
def records(monkeypatch, tmp_path):
    """Have pages say of themselves what a test wants; nothing if it wants nothing."""
    records = {}
    monkeypatch.setenv(OUTPUTS, str(tmp_path / "outputs"))
    monkeypatch.setattr(Page, "record", lambda page: records.get(page.name, {}))
    monkeypatch.setattr(Page, "is_stale", lambda page: page.record().get("stale", False))
    return records


def test_each_notebook_says_why_it_would_be_run_and_how_long_it_took(records):
    records |= {
        "6-1-3-cnn-batch-512": {"seconds": 100.0},
        "6-1-4-cnn-batch-256": {"seconds": 30.0, "stale": True},
        "6-1-5-cnn-batch-128": {"seconds": 20.0, "without_rate": ["a trial"]},
    }
    rows, note = outlook("smoke", ["6-1"])
    states = {row.notebook: row.state for row in rows}
    assert list(states.values()) == [
        "never made", "never made", module.UP_TO_DATE, "its inputs have changed",
        "lacks the rate of a trial",
    ]  # fmt: skip
    assert [row.seconds_last_time for row in rows] == [None, None, 100, 30, 20]
    assert note.startswith(
        "5 notebooks: 1 up to date, 4 to run, 2 of them took 50 s when they were made last"
    )
    rows, note = outlook("smoke", ["6-1-3"], force=True)
    assert rows[0].state == "forced" and "1 to run" in note


def test_a_dry_run_of_the_book_starts_and_writes_nothing(records, tmp_path, monkeypatch):
    def start(*arguments, **options):
        raise AssertionError("started")

    monkeypatch.setattr("labkit.book.reproduce.reproduce", start)
    monkeypatch.delenv("COLUMNS", raising=False)  # as tests that run side by side have it
    shown = CliRunner().invoke(main, ["reproduce", "--profile", "smoke", "--dry-run"])
    assert shown.exit_code == 0, shown.output
    assert "how long they take is unknown" in shown.output.splitlines()[-1]
    words = ["reproduce", "--profile", "smoke", "--only", "6-1-3", "--format", "json"]
    [row] = json.loads(CliRunner().invoke(main, [*words, "--dry-run"]).stdout)
    assert row["state"] == "never made" and row["seconds_last_time"] is None
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 2 and "only with --dry-run" in refused.output
    assert not (tmp_path / "outputs").exists()
    with pytest.raises(BookError, match="did you mean 'smoke'"):
        outlook("smok")
