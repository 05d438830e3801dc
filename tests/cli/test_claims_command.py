"""``labkit claims``: the verdicts in a terminal, in a file, and one of them whole."""

import io
import json

import made_runs
import pandas as pd
import pytest

from labkit.runs import Store
from labkit.thesis.claims import CLAIMS, VERDICTS, simulated

pytestmark = pytest.mark.unit

NUMBERS = [claim.number for claim in CLAIMS]


@pytest.mark.parametrize("columns", [None, "80", "120"])
def test_every_claim_has_its_verdict_within_the_width(labkit, monkeypatch, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    shown = labkit("claims", "--reference")
    assert shown.exit_code == 0 and shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= int(columns or 80)
    heads = [line.split(maxsplit=1) for line in lines if line and not line.startswith(" ")][:-1]
    assert [number for number, _ in heads] == NUMBERS
    assert {verdict for _, verdict in heads} <= set(VERDICTS)
    counts = [sum(verdict == name for _, verdict in heads) for name in VERDICTS]
    assert lines[-1] == ", ".join(
        f"{count} {name}" for count, name in zip(counts, VERDICTS, strict=True)
    )
    for claim in CLAIMS:
        assert claim.statement in " ".join(shown.stdout.split())


def test_csv_and_json_say_the_same(labkit):
    table = pd.read_csv(io.StringIO(labkit("claims", "--reference", "--format=csv").stdout))
    records = json.loads(labkit("claims", "--reference", "--format=json").stdout)
    assert list(table["claim"]) == [record["claim"] for record in records] == NUMBERS
    assert list(table["verdict"]) == [record["verdict"] for record in records]
    for record in records:
        for check in record["checks"]:
            measured = check["outcome"] != "missing"
            assert (check["estimate"] is not None) == measured == (check["n"] > 0)


def test_one_claim_whole(labkit, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    said = labkit("claims", "6.1.4c", "--reference").stdout
    assert said.startswith("6.1.4c ") and max(map(len, said.splitlines())) <= 80
    for part in ("verdict", "nodes", "checks", "meaning", "about equal: 0.8 to 1.25", "needs",
                 "figure   6.4b (labkit figure 6.4b --reference --profile emulated)", "runs",
                 "mxnet-lenet5-w1-b256"):
        assert part in said  # fmt: skip
    (record,) = json.loads(labkit("claims", "6.1.4c", "--reference", "--format=json").stdout)
    for check in record["checks"]:
        assert check["of"] in " ".join(said.split()) and check["outcome"] in said


@pytest.fixture
def simulated_once(monkeypatch):
    """Simulate each setting once, however often the command is called."""
    found, once = {}, simulated.simulated_trial

    def known(one, workers, **how):
        key = one.framework, one.model, one.batch_size, workers, *how.items()
        if key not in found:
            found[key] = once(one, workers, **how)
        return found[key]

    monkeypatch.setattr(simulated, "simulated_trial", known)


@pytest.mark.usefixtures("simulated_once")
def test_what_slow_nodes_alone_would_say(labkit):
    asked = ("claims", "6.1.5d", "--reference", "--simulated")
    said = " ".join(labkit(*asked).stdout.split())
    (record,) = json.loads(labkit(*asked, "--format=json").stdout)
    (row,) = pd.read_csv(io.StringIO(labkit(*asked, "--format=csv").stdout)).to_dict("records")
    for name in ("from_slow_nodes", "simulated"):
        assert row[name] == record[name] and record[name] in said
    assert "efficiency, TensorFlow, CNN, batch 128, 25 workers" in record["simulated"]
    assert {check["slowdown"] for check in record["simulated_checks"]} == set(simulated.SLOWDOWNS)
    for check in record["simulated_checks"]:
        of = f"slowdown {check['slowdown']:g}, {check['outcome']}: {check['of']}"
        assert f"{of}: {check['estimate']:.3g}" in said
    assert "simulated" not in labkit("claims", "6.1.5d", "--reference").stdout


def test_an_unknown_claim_is_one_error_before_anything_is_read(labkit):
    refused = labkit("claims", "6.9z")
    assert refused.exit_code == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith("labkit: claim '6.9z': no such claim; did you mean '6.")
    assert labkit("claims", "--launcher=locl").exit_code == 1


def test_without_runs_it_says_how_to_get_some(labkit, tmp_path):
    empty = labkit("claims")
    assert empty.exit_code == 1 and "labkit reproduce" in empty.stderr
    made_runs.add(Store(tmp_path / "outputs" / "runs"), made_runs.trial(batch_size=50))
    judged = labkit("claims", "6.1.3b")
    assert judged.exit_code == 0, judged.output
    assert "not measured" in judged.stdout and "figure   6.3 (labkit figure 6.3)" in judged.stdout
