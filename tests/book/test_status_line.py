"""What `labkit reproduce` shows while a notebook runs, and when it makes a page again."""

import json

import pytest

from labkit.book import pages, status
from labkit.book.plan import plan
from labkit.book.status import StatusLine

pytestmark = pytest.mark.unit


def append(path, **values):
    report = {"text": "trial 1 of 2: a trial", "state": "starting", "left": None, "ended": False}
    with path.open("a") as file:
        file.write(json.dumps(report | values) + "\n")


@pytest.fixture
def progress(tmp_path):
    path = tmp_path / "progress"
    path.touch()
    return path


def test_where_lines_stay_they_are_few(progress, capsys):
    said = []
    line = StatusLine(said.append)
    line.begin("[1 of 9] 6-3")
    for step in range(500):
        append(progress, state=f"step {step}", left=100.0)
        line.show(progress)
    assert said == [] and status.INTERVAL >= 60
    append(progress, state="done", left=90.0, ended=True)
    append(progress, text="trial 2 of 2: another")
    line.show(progress)
    line.show(progress)
    with progress.open("a") as file:
        file.write(json.dumps({"tally": {}}) + "\n")
    line.show(progress)
    assert said == ["[1 of 9] 6-3: trial 1 of 2, about 2 min left: a trial, done"]
    progress.write_text("")
    line.begin("[2 of 9] 6-4")
    append(progress, text="trial 1 of 1: third", state="failed", ended=True)
    line.show(progress)
    assert said[1:] == ["[2 of 9] 6-4: trial 1 of 1: third, failed"]
    assert capsys.readouterr() == ("", "")


def test_once_a_minute_a_line_says_what_happens(progress, monkeypatch):
    monkeypatch.setattr(status, "INTERVAL", 0.0)
    said = []
    line = StatusLine(said.append)
    line.begin("[1 of 9] 6-3")
    line.show(progress)
    append(progress, state="waits for another trial")
    line.show(progress)
    assert said == [
        "[1 of 9] 6-3: starts", "[1 of 9] 6-3: trial 1 of 2: a trial, waits for another trial",
    ]  # fmt: skip
    quiet = StatusLine(said.append, quiet=True)
    quiet.begin("[1 of 9] 6-3")
    quiet.show(progress)
    assert len(said) == 2


def test_a_page_that_lacks_a_rate_is_made_again(notebooks, rendered):
    (page,) = plan("tiny", notebooks=notebooks)
    rendered.mkdir(parents=True)
    page.executed.with_suffix(".html").touch()
    for missing in ([], ["mxnet-lenet5-w1"], None):
        record = {"inputs": page.inputs(), "figures": []}
        record |= {} if missing is None else {"without_rate": missing}
        page.executed.write_text(json.dumps({"metadata": {"labkit": record}}))
        assert page.is_up_to_date() is not bool(missing)
        assert not page.is_stale()
    pages.code_hash.cache_clear()
