"""Run the trials of a sweep, each once and for all, and hand over the tables."""

from __future__ import annotations

import math
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from labkit import analysis, provenance
from labkit.errors import LabkitError, nearest
from labkit.launchers.limits import DEADLINE, check_deadline
from labkit.launchers.local.launcher import LocalLauncher
from labkit.launchers.protocol import (
    Launcher,
    NoRoomForTrial,
    Notice,
    OnEvent,
    Retrying,
    TrialDiverged,
    TrialFailed,
    Waiting,
)
from labkit.planning import Plan, kept
from labkit.planning.rounds import MAX_REPEATS, in_rounds, more_repeats
from labkit.progress import SweepProgress, Tally
from labkit.progress.course import DONE, REUSED
from labkit.replicas.events import Event
from labkit.replicas.function import Job
from labkit.runs import Results, Run, RunError, Store
from labkit.trials import Trial, TrialError
from labkit.trials.function import trials_of


def _kubernetes(**options: Any) -> Launcher:
    # Only now: its client takes most of a second to import.
    from labkit.launchers.kubernetes.launcher import KubernetesLauncher

    return KubernetesLauncher(**options)


LAUNCHERS: dict[str, Callable[..., Launcher]] = {"local": LocalLauncher, "kubernetes": _kubernetes}
"""The ways to run a trial, by the name that notebooks and the command line use."""

OVERLOAD_RETRIES = 1
"""How often a trial is repeated whose machine was too busy with other things to measure on."""


class SweepFailed(LabkitError):
    """Some trials of a sweep failed; the others are kept."""


def measure(
    sweep: Sequence[Trial] | Callable[[Job], object],
    launcher: str = "local",
    *,
    precision: float | None = None,
    max_repeats: int = MAX_REPEATS,
    store: Store | None = None,
    force: bool = False,
    deadline: float = DEADLINE,
    on_event: OnEvent | None = None,
    quiet: bool = False,
    **values: Any,
) -> Results:
    """Run what has not been run yet, in rounds: all settings once, then all once more.

    So what changes slowly about a machine meets all settings alike.

    Parameters
    ----------
    sweep : sequence of Trial, or function
        Trials that have finished or diverged before are not run again, unless other programs kept
        the machine too busy for a rate. A function is a training script of its own: each replica
        calls it with a `labkit.replicas.function.Job`.
    launcher : str
        Where: ``local`` or ``kubernetes``.
    precision : float, optional
        Repeat each setting, with further seeds, until half the width of its throughput's 95 %
        interval is at most this share of the throughput, such as 0.1; three times at least.
        Without it exactly the trials of the sweep are run.
    max_repeats : int
        Of a setting, including those of the sweep, even if it is not precise by then.
    store : Store, optional
        By default the one under ``outputs``, of this launcher's runs.
    force : bool
        Run all trials even so; a new run replaces the old one when it has succeeded.
    deadline : float
        Seconds each trial may take.
    on_event : callable, optional
        Gets all events live, beside the progress bar.
    quiet : bool
        Show nothing.
    **values
        Of a function: ``framework``, ``workers``, ``servers``, ``batch_size``, ``seed``,
        ``threads``, ``duration``, ``pattern``, ``rates``, ``python``, ``image`` and ``repeats``,
        as `Sweep.grid` takes them.

    Returns
    -------
    Results
        Of the sweep's trials in their order, then of the repeats that were added.

    Raises
    ------
    LabkitError
        Before anything starts: unknown launcher, data missing or changed, no room, a function
        that cannot be taken along.
    TypeError
        If there is neither a sweep nor a function of one argument.
    SweepFailed
        At the end, if trials have failed; the others' results are kept, and the next call runs
        only what is missing. A diverged trial is a result, not a failure.
    """
    check_launcher(launcher)
    store = Store(store and store.root, launcher)
    new: dict[Trial, Run] = {}
    failures: list[TrialFailed] = []
    runner, attempted = None, 0
    with ExitStack() as stack:
        sweep = stack.enter_context(trials_of(sweep, launcher, **values))
        _check(precision, max_repeats, deadline)
        _check_durations(sweep, deadline)
        planned = _plan(store, sweep, precision, max_repeats, force)
        trials, missing, said = list(planned.trials), planned.missing, planned.note
        known = {trial: planned.kept[trial] for trial in trials if trial in planned.kept}
        progress = stack.enter_context(SweepProgress(quiet))
        try:
            while missing:
                runner = runner or stack.enter_context(LAUNCHERS[launcher](deadline=deadline))
                runner.check(missing)
                progress.plan(missing, planned.seconds(missing), said)
                attempted, said = attempted + len(missing), ""
                one = _Once(runner, store, force, progress, on_event, known, new)
                failures += _run_all(missing, one, runner)
                missing = []
                while not missing:  # a round of which all is kept may not be the last
                    due = more_repeats(trials, known | new, precision, max_repeats)
                    if not due:
                        break
                    trials += due
                    if not force:
                        known |= kept(store, due)
                    missing = in_rounds(trials, (trial for trial in due if trial not in known))
        except KeyboardInterrupt:
            raise _interruption(len(new)) from None
        tally = Tally.of(new.values(), known.values())
        if not force:
            tally.aside = store.set_aside(trial for trial in trials if trial not in known)
        progress.finish(tally)
    if failures:
        raise SweepFailed(
            f"{len(failures)} of {attempted} trials failed; what finished is kept, and the "
            "next run takes up the rest.\n\n" + "\n\n".join(map(str, failures))
        )
    found = known | new
    return Results([found[trial] for trial in trials], str(tally))


def plan(
    sweep: Sequence[Trial],
    launcher: str = "local",
    *,
    precision: float | None = None,
    max_repeats: int = MAX_REPEATS,
    store: Store | None = None,
    force: bool = False,
    deadline: float = DEADLINE,
) -> Plan:
    """Say what `measure` would do, without doing it: nothing is started and nothing written.

    Parameters
    ----------
    sweep, launcher, precision, max_repeats, store, force, deadline
        As of `measure`.

    Returns
    -------
    Plan
        Which trials are kept and which would be measured, how long that takes, and how much
        memory and disk: shown as a table with a line below, in ``.table`` and ``.note``. What is
        expected is taken from kept runs of this machine, or cluster, that are most alike; NaN,
        and "unknown" in the line, where there are none.

    Raises
    ------
    LabkitError
        As `measure` does before anything starts.
    """
    check_launcher(launcher)
    if callable(sweep):
        raise TrialError(
            "plan: takes trials, such as a Sweep; of a function measure says what it will do, "
            "before it does it"
        )
    _check(precision, max_repeats, deadline)
    _check_durations(sweep, deadline)
    planned = _plan(Store(store and store.root, launcher), sweep, precision, max_repeats, force)
    with LAUNCHERS[launcher](deadline=deadline) as runner:
        runner.check(planned.due)
    return planned


def _plan(
    store: Store, sweep: Sequence[Trial], precision: float | None, most: int, force: bool
) -> Plan:
    where: dict[str, Any] = {}
    if store.launcher == "kubernetes":
        from labkit.launchers.kubernetes.settings import Settings

        where = {"parallel": Settings.load().parallel, "cluster": _cluster}
    return Plan(store, sweep, precision=precision, max_repeats=most, force=force, **where)


def _cluster() -> str:
    """Return the name of the cluster in which trials run, nothing if none can be used."""
    from labkit.launchers.kubernetes.api import Cluster

    try:
        return Cluster().host
    except LabkitError:  # which the launcher's check says
        return ""


def _interruption(finished: int) -> KeyboardInterrupt:
    """Return what an interrupted sweep raises: it says what is kept.

    No class of its own, as only after a KeyboardInterrupt itself Python ends as SIGINT does.
    """
    trials = "1 trial" if finished == 1 else f"{finished} trials"
    error = KeyboardInterrupt(
        f"interrupted; what ran has been ended, what had finished is kept ({trials} of this "
        "call), and the same call goes on from there"
    )
    # What IPython shows instead of a traceback, which would tell a user nothing.
    error._render_traceback_ = lambda: [str(error), *getattr(error, "__notes__", ())]
    return error


def check_launcher(name: str) -> str:
    """Return the name of a launcher, if there is one of this name.

    Raises
    ------
    TrialError
        If there is none, with those that there are.
    """
    if name not in LAUNCHERS:
        known = ", ".join(LAUNCHERS)
        raise TrialError(f"launcher: {name!r}{nearest(name, LAUNCHERS)}; allowed: {known}")
    return name


def _check(precision: float | None, max_repeats: int, deadline: float) -> None:
    if precision is not None and not 0 < precision < math.inf:
        raise TrialError(f"precision: {precision!r}; allowed: more than 0, such as 0.1 for 10 %")
    if isinstance(max_repeats, bool) or not isinstance(max_repeats, int) or max_repeats < 1:
        raise TrialError(f"max_repeats: {max_repeats!r}; allowed: a whole number from 1")
    check_deadline(deadline)


def _check_durations(trials: Sequence[Trial], deadline: float) -> None:
    longest = max((trial.duration or 0.0 for trial in trials), default=0.0)
    if longest >= deadline:
        raise TrialError(
            f"duration: {longest:g} s of training do not fit into the deadline of {deadline:g} s "
            "that a trial has; --deadline allows more"
        )


# --- running them ---------------------------------------------------------------------------


class _Once:
    """Runs each trial that is called for, unless somebody else has done so meanwhile."""

    def __init__(
        self,
        launcher: Launcher,
        store: Store,
        force: bool,
        progress: SweepProgress,
        on_event: OnEvent | None,
        known: dict[Trial, Run],
        new: dict[Trial, Run],
    ) -> None:
        self.launcher, self.store, self.force = launcher, store, force
        self.progress, self.on_event = progress, on_event
        self.known, self.new = known, new

    def __call__(self, trial: Trial) -> None:
        """Run one trial and keep what came of it."""

        def show(event: Event | Notice) -> None:
            self.progress.event(trial, event)
            if self.on_event is not None:
                self.on_event(event)

        with self.progress.trial(trial) as course:
            waits = Waiting("another sweep that runs this very trial")
            with self.store.claim(trial, lambda: show(waits)) as scratch:
                run = None if self.force else self.store.find(trial)
                if run and not run.overloaded:
                    self.known[trial], course.state = run, REUSED
                else:
                    run = self.new[trial] = self._run(trial, scratch, show)
                    course.state = DONE if run.finished else run.record["status"]

    def _run(self, trial: Trial, scratch: Path, show: OnEvent) -> Run:
        retries = OVERLOAD_RETRIES
        while True:
            told: dict[str, Any] = {
                "machine": provenance.machine(), "revision": provenance.revision(),
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            }  # fmt: skip
            try:
                told |= self.launcher.run(trial, scratch, show)
                record = told | {"status": "finished"}
                if Run(trial, scratch, record).overloaded and retries:
                    retries -= 1
                    show(Retrying("the machine was too busy"))
                    _empty(scratch)
                    continue
                return self.store.keep(trial, scratch, record)
            except TrialDiverged as error:
                told |= error.record | _status("diverged", error)
                return self.store.keep(trial, scratch, told)
            except (TrialFailed, RunError, analysis.MetricError) as error:
                told |= getattr(error, "record", {}) | _status("failed", error)
                kept = self.store.keep(trial, scratch, told)
                kind = NoRoomForTrial if isinstance(error, NoRoomForTrial) else TrialFailed
                raise kind(f"{error}\n(all it printed: {kept.directory})") from error


def _status(status: str, error: Exception) -> dict[str, str]:
    return {"status": status, "error": str(error)}


def _empty(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def _run_all(
    trials: Sequence[Trial], run: Callable[[Trial], None], launcher: Launcher
) -> Iterator[TrialFailed]:
    """Run trials, several at once if the launcher may; yield the errors of those that failed."""
    if launcher.parallel == 1:
        for trial in trials:
            try:
                run(trial)
            except TrialFailed as error:
                yield error
        return
    queue, running = deque(trials), {}
    accompanied: set[Trial] = set()  # those beside which others have run
    limit = launcher.parallel
    with ThreadPoolExecutor(limit, thread_name_prefix="labkit-trial") as pool:
        try:
            while queue or running:
                while queue and len(running) < limit:
                    trial = queue.popleft()
                    running[pool.submit(run, trial)] = trial
                    if len(running) > 1:
                        accompanied.update(running.values())
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    trial = running.pop(future)
                    try:
                        future.result()
                    except NoRoomForTrial as error:
                        if trial in accompanied:  # there may be room when the others have ended
                            accompanied.discard(trial)
                            queue.append(trial)
                            limit = max(1, len(running))
                        else:
                            yield error
                    except TrialFailed as error:
                        yield error
        except BaseException:
            launcher.stop()
            raise
