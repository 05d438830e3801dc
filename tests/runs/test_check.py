"""What makes a run invalid."""

import tempfile
from pathlib import Path

import made_runs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.runs import Run, RunError
from labkit.runs.check import check

pytestmark = pytest.mark.unit


def lines_of(events):
    return [made_runs.line(event) for event in events]


def checked(trial, directory, change=lambda role, index, lines: lines):
    made_runs.write(trial, directory, change)
    check(Run(trial, directory, made_runs.RECORD))


@pytest.mark.parametrize("values", [
    {}, {"framework": "tensorflow"}, {"strategy": "single"}, {"model": "lstm"},
])  # fmt: skip
def test_a_run_that_is_as_it_should_be(values, tmp_path):
    checked(made_runs.trial(**values), tmp_path)


@pytest.mark.parametrize("role", ["scheduler", "server", "worker"])
def test_every_replica_is_checked(role, tmp_path):
    def drop(who, index, lines):
        return lines[:-1] if (who, index) == (role, count - 1) else lines

    trial = made_runs.trial()
    count = trial.replicas[role]
    with pytest.raises(RunError, match=f"{role} {count - 1}: .*without end"):
        checked(trial, tmp_path, drop)
    (tmp_path / f"{role}-{count - 1}.log").unlink()
    with pytest.raises(RunError, match=f"{role} {count - 1}: .* is missing"):
        check(Run(trial, tmp_path, made_runs.RECORD))


def renumbered(events):
    return lines_of([event | {"seq": seq} for seq, event in enumerate(events)])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda es: [es[0] | {"trial": "f00"}, *es[1:]], "trial is 'f00', should be"),
        (lambda es: [es[0] | {"data": "f00"}, *es[1:]], "data is 'f00', should be"),
        (lambda es: [*es[:-1], es[-1] | {"steps": 99}], "steps is 99, should be 100"),
        (lambda es: [e for e in es if e.get("steps") != 100] + es[-1:],
         "last step is 90, should be 100"),
        (lambda es: [e for e in es if e["kind"] != "step"], "last step is 0, should be 100"),
        (lambda es: es[1:], "the first event is 'ready', should be 'start'"),
        (lambda es: [es[0] | {"code": "f00"}, *es[1:]], "code is 'f00', should be"),
        (lambda es: [es[0] | {"model": "f00"}, *es[1:]], "model is 'f00', should be"),
        (lambda es: [*es[:-1], es[-1] | {"samples": 4999}], "samples is 4999, should be 5000"),
        (lambda es: [e | {"samples": 7} if e.get("steps") == 50 else e for e in es],
         "samples after 50 steps is 7, should be 2500"),
        (lambda es: [e | {"steps": 10, "samples": 500} if e.get("steps") == 50 else e for e in es],
         "steps fall from 40 to 10"),
        (lambda es: [*es[:-1], made_runs.events(made_runs.trial(), "worker", 0)[-2]
                     | {"index": 1, "t": es[-1]["t"]}, es[-1]],
         "number of evaluations is 1, should be 0"),
        (lambda es: [e for e in es if e["kind"] != "barrier"], "did not pass the barrier"),
        (lambda es: [{k: v for k, v in e.items() if k != "loss" or e.get("steps") != 50}
                     for e in es], "reports without a loss is 1, should be 0"),
        (lambda es: [*es[:-1], es[-1] | {"kind": "rate", "rate": 9.0, "unit": "steps"}, es[-1]],
         "number of printed rates is 1, should be 0"),
        (lambda es: [e for e in es if e["kind"] != "ready"], "did not pass the barrier"),
    ],
)  # fmt: skip
def test_a_run_that_is_of_something_else(spoil, says, tmp_path):
    def change(role, index, lines):
        if (role, index) != ("worker", 1):
            return lines
        return renumbered(spoil(made_runs.events(trial, role, index)))

    trial = made_runs.trial()
    with pytest.raises(RunError, match=f"worker 1:? .*{says}|worker 1 {says}"):
        checked(trial, tmp_path, change)


@pytest.mark.parametrize(("role", "spoil", "says"), [
    ("server", lambda es: [es[0] | {"trial": "f00"}, *es[1:]], "server 1: trial is 'f00'"),
    ("scheduler", lambda es: [es[0] | {"code": "f00"}, *es[1:]], "scheduler 0: code is 'f00'"),
])  # fmt: skip
def test_servers_are_of_the_same_trial(role, spoil, says, tmp_path):
    trial = made_runs.trial()

    def change(who, index, lines):
        if (who, index) != (role, trial.replicas[role] - 1):
            return lines
        return lines_of(spoil(made_runs.events(trial, who, index)))

    with pytest.raises(RunError, match=says):
        checked(trial, tmp_path, change)


@pytest.mark.parametrize(("spoil", "says"), [
    (lambda es: [e for e in es if e["kind"] != "eval"], "number of evaluations is 0, should be 1"),
    (lambda es: [e | {"metric": "fitness"} if e["kind"] == "eval" else e for e in es],
     "metric is 'fitness', should be 'accuracy'"),
    (lambda es: [{k: v for k, v in e.items() if k != "samples" or e["kind"] != "eval"}
                 for e in es], "evaluations without samples is 1, should be 0"),
    (lambda es: [{k: v for k, v in e.items() if k != "seconds"} for e in es],
     "evaluations without seconds is 1, should be 0"),
    (lambda es: [e | {"value": float("nan")} if e["kind"] == "eval" else e for e in es],
     "value of eval is nan"),
])  # fmt: skip
def test_a_due_evaluation_is_there_and_a_number(spoil, says, tmp_path):
    trial = made_runs.trial()

    def change(role, index, lines):
        if (role, index) != ("worker", 0):
            return lines
        return renumbered(spoil(made_runs.events(trial, role, index)))

    with pytest.raises(RunError, match=f"worker 0: .*{says}"):
        checked(trial, tmp_path, change)


def test_labkits_own_trainers_meet_even_if_there_is_nobody_else(tmp_path):
    """Only of a script nothing more need be known than the rates that it prints."""
    trial = made_runs.trial(strategy="single")

    def change(role, index, lines):
        kept = [e for e in made_runs.events(trial, role, index) if e["kind"] != "barrier"]
        return renumbered(kept)

    with pytest.raises(RunError, match="worker 0 did not pass the barrier"):
        checked(trial, tmp_path, change)


def test_an_evaluation_is_where_it_is_due(tmp_path):
    trial = made_runs.trial()

    def change(role, index, lines):
        events = made_runs.events(trial, role, index)
        return lines_of(e | {"steps": 70} if e["kind"] == "eval" else e for e in events)

    with pytest.raises(RunError, match="steps before evaluation 1 is 70, should be 100"):
        checked(trial, tmp_path, change)


def mutated(lines, data):
    """Return a replica's lines with one fault: a line, or bytes, lost, doubled or changed."""
    place = data.draw(st.integers(0, len(lines) - 1))
    line = lines[place]
    cut = data.draw(st.integers(0, len(line) - 2))
    end = data.draw(st.integers(cut + 1, len(line) - 1))
    changed = data.draw(st.sampled_from([
        [], [line, line], [line[:cut]], [line[:cut] + "\n"], [line[:cut] + line[end:]],
        [line[:cut] + line[cut:end] * 2 + line[end:]],
        [line[:cut] + chr(data.draw(st.integers(32, 126))) + line[cut + 1 :]],
        [line[: cut + 1] + lines[place - 1] + line[cut + 1 :]],
    ]))  # fmt: skip
    return [*lines[:place], *changed, *lines[place + 1 :]]


KNOWN = {"seq", "role", "index", "kind", "trial", "code", "model", "data", "steps", "samples",
         "metric"}  # fmt: skip
"""Fields that a trial, or an event's place in its sequence, leaves no choice of."""


@settings(max_examples=1000, deadline=None)
@given(st.data())
def test_a_spoilt_log_is_refused_or_says_what_it_said(data):
    """Whatever happens to a log: what the trial knows of it is as it was, or it is an error."""
    trial = made_runs.trial()
    role = data.draw(st.sampled_from(sorted(trial.replicas)))

    fields = KNOWN if role == "worker" else KNOWN - {"model", "data"}  # the others read neither

    def known(events):
        # how many targets a test set has, the trial does not say
        return [{k: v for k, v in event.as_dict().items()
                 if k in fields and (k, event.kind) != ("samples", "eval")} for event in events]

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        made_runs.write(trial, path)
        due = known(Run(trial, path, made_runs.RECORD).events(role, 0))
        log = path / f"{role}-0.log"
        log.write_text("".join(mutated(log.read_text().splitlines(keepends=True), data)))
        run = Run(trial, path, made_runs.RECORD)
        try:
            check(run)
        except RunError:
            return
        assert known(run.events(role, 0)) == due


def test_no_evaluation_is_due_where_none_was_asked_for(tmp_path):
    checked(made_runs.trial(eval_samples=0), tmp_path)
