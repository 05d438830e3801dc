"""What makes a run invalid: replicas that did not do the trial's work with its code and data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labkit.analysis import MetricError
from labkit.replicas.events import (
    Barrier,
    Computed,
    End,
    Evaluation,
    Event,
    Rate,
    Ready,
    Start,
    Step,
)
from labkit.runs.run import Run, RunError


def check(run: Run) -> None:
    """Make sure that every replica finished, with the work, the code and the data of the trial.

    Raises
    ------
    RunError
        Naming the first thing that is not as it should be.
    """
    for role, count in run.trial.replicas.items():
        for index in range(count):
            events = run.workers[index] if role == "worker" else run.events(role, index)
            _compare(f"{role} {index}", _of_start(run, role, events[0]))
    for index, events in enumerate(run.workers):
        who = f"worker {index}"
        if run.reported:
            continue  # no more is known of it than the rates that it printed
        known = [event for event in events if not isinstance(event, Rate)]
        if [type(event) for event in known[1:3]] != [Ready, Barrier]:
            raise RunError(f"{who} did not pass the barrier before training")
        _check_steps(who, run, [event for event in events if isinstance(event, Step)])
        _compare(who, _of_end(run, index, events))
        if run.trial.metric is not None:
            _compare(who, _of_trainer(events))
    try:
        _ = run.window
    except MetricError as error:
        raise RunError(str(error)) from None


def check_events(run: Run) -> None:
    """Make sure that all events of a finished run can still be read.

    Raises
    ------
    RunError
        Naming the replica and the line.
    """
    if run.finished:
        _ = run.workers
        for role, count in run.trial.replicas.items():
            for index in range(0 if role == "worker" else count):
                run.events(role, index)


CHANGED = "; it was changed after this was asked for: ask again, and it is measured as it is now"

Findings = Iterator[tuple[str, Any, Any]]
"""What was looked at, what was found, and what was due: None if the trial does not say."""


def _compare(who: str, findings: Findings) -> None:
    for what, found, due in findings:
        if due is not None and found != due:
            hint = CHANGED if what in ("model", "code", "data") else ""
            raise RunError(f"{who}: {what} is {found!r}, should be {due!r}{hint}")


def _of_start(run: Run, role: str, start: Event) -> Findings:
    yield "the first event", start.kind, Start.kind
    yield "trial", start.trial, run.trial.identity
    yield "code", start.code, run.trial.sums["code"]
    if role == "worker":
        yield "model", start.model, run.trial.sums["model"]
        yield "data", start.data, run.trial.sums["data"]


def _of_trainer(events: list[Event]) -> Findings:
    """Compare what a script may leave out or add, and labkit's own trainers may not."""
    told = [event for event in events if isinstance(event, Step | Evaluation)]
    found = [event for event in told if isinstance(event, Evaluation)]
    yield "number of printed rates", sum(isinstance(event, Rate) for event in events), 0
    yield "reports without a loss", sum(event.loss is None for event in told), 0
    yield "evaluations without samples", sum(event.samples is None for event in found), 0
    yield "evaluations without seconds", sum(event.seconds is None for event in found), 0


def _check_steps(who: str, run: Run, steps: list[Step]) -> None:
    last = 0
    for event in steps:
        if event.steps < last:
            raise RunError(f"{who}: steps fall from {last} to {event.steps}")
        last = event.steps
        due = _samples(run, event.steps)
        what = f"samples after {event.steps} steps"
        if run.trial.metric is None:
            what = f"(leave --batch-size out, if a script's steps differ in size) {what}"
        _compare(who, iter([(what, event.samples, due)]))
    _compare(who, iter([("last step", last, run.trial.total_steps)]))


def _samples(run: Run, steps: int | None) -> int | None:
    """Return the samples of so many steps of a worker, if the trial says how many these are."""
    if steps is None or run.trial.batch_size is None:
        return None
    return steps * run.trial.batch_size


def _evaluated_after(run: Run, number: int) -> int | None:
    """Return the steps after which a worker judges for this time, if the trial says so."""
    if run.trial.metric is None:
        return None
    return min(number * run.trial.steps_per_epoch, run.trial.total_steps)


def _of_end(run: Run, index: int, events: list[Event]) -> Findings:
    end = events[-1]
    assert isinstance(end, End)  # or it would be no whole sequence
    yield "steps", end.steps, run.trial.total_steps
    yield "samples", end.samples, _samples(run, end.steps)
    found = [event for event in events if isinstance(event, Evaluation)]
    due = run.trial.evaluations
    yield "number of evaluations", len(found), due if index == 0 or due is None else 0
    timed = [event.gradients for event in events if isinstance(event, Computed)]
    due = [run.trial.total_steps] if run.trial.slowdown is not None else []
    yield "gradients timed", timed, due
    for number, event in enumerate(found, start=1):
        yield "metric", event.metric, run.trial.metric
        yield f"steps before evaluation {number}", event.steps, _evaluated_after(run, number)
