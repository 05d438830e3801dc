"""``labkit clean``: kept runs go after a preview and a question, and no others."""

import json
from datetime import UTC, datetime, timedelta

import made_runs
import pytest
from click.testing import CliRunner

from labkit import provenance
from labkit.cli import main
from labkit.runs import Store

pytestmark = pytest.mark.unit


def days_ago(days):
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S%z")


@pytest.fixture
def runs(tmp_path):
    """Return the directories of runs of all kinds, by what they are."""
    store = Store(tmp_path / "outputs" / "runs")
    kinds = {
        "good": {},
        "old": {"started": days_ago(40)},
        "overloaded": {"overloaded": True},
        "failed": {"status": "failed", "error": "fell over"},
        "changed": {},
        "unreadable": {"started": days_ago(40)},
        "damaged": {},
        "cut off": {},
    }
    made = {}
    for seed, (kind, record) in enumerate(kinds.items(), start=1):
        trial = made_runs.trial(seed=seed)
        made[kind] = made_runs.add(store, trial, **{"started": days_ago(1)} | record).directory
    for kind, values in (("changed", {"identity": "of another trainer"}),
                         ("unreadable", {"values": {"model": "perceptron"}})):  # fmt: skip
        path = made[kind] / "trial.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
    (made["damaged"] / "trial.json").write_text("")
    log = made["cut off"] / "server-1.log"
    log.write_text(log.read_text()[:-50])
    return made


def test_an_images_versions_are_not_those_of_this_machine(labkit, tmp_path):
    """What pods ran stays, whatever is installed here."""
    store, trial = Store(tmp_path / "outputs" / "runs", "kubernetes"), made_runs.trial()
    made_runs.add(store, trial, launcher="kubernetes")
    made_runs.add(Store(store.root), trial)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "versions", lambda framework: {"python": "3.99.0"})
        shown = labkit("clean", "--other-version", "--yes").output
    assert "1 run removed" in shown
    assert store.find(trial) and not list(Store(store.root).runs())


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("--failed", ["failed", "damaged", "cut off"]),
        ("--overloaded", ["overloaded"]),
        ("--failed --overloaded", ["failed", "overloaded", "damaged", "cut off"]),
        ("--other-version", ["changed", "unreadable"]),
        ("--older-than 30", ["old", "unreadable"]),
        ("--other-version --older-than 30", ["unreadable"]),
        ("--older-than 400", []),
        ("--older-than 0",
         ["good", "old", "overloaded", "failed", "changed", "unreadable", "damaged",
          "cut off"]),
    ],
)
def test_what_is_named_goes_and_nothing_else(labkit, runs, words, gone):
    done = labkit("clean", *words.split(), "--yes")
    assert done.exit_code == 0, done.output
    assert {kind for kind, path in runs.items() if not path.exists()} == set(gone)
    for kind, path in runs.items():
        assert (path.name in done.output) == (kind in gone)
    assert f"{len(gone)} run{'s' * (len(gone) != 1)} removed" in done.output or not gone
    root = runs["good"].parent
    assert not list(root.glob(".scratch/*"))


def test_nothing_goes_before_the_question_is_answered(labkit, runs):
    for answer in ("n\n", ""):
        asked = CliRunner().invoke(main, ["clean", "--failed"], input=answer)
        assert asked.exit_code == 1
        assert runs["failed"].name in asked.output and "Remove from" in asked.output
    assert all(path.exists() for path in runs.values())
    assert CliRunner().invoke(main, ["clean", "--failed"], input="y\n").exit_code == 0
    assert not runs["failed"].exists()


def test_an_age_below_zero_is_refused(labkit, runs):
    refused = labkit("clean", "--older-than=-1", "--yes")
    assert refused.exit_code == 1 and "0 or more" in refused.output
    assert all(path.exists() for path in runs.values())
