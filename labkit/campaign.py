"""Run the trials of a sweep, each once and for all, and hand over the tables."""

from __future__ import annotations

import math
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from labkit import analysis, provenance
from labkit.errors import LabkitError, nearest
from labkit.launchers.limits import DEADLINE
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
from labkit.progress import SweepProgress, Tally
from labkit.progress.course import DONE, REUSED
from labkit.replicas.events import Event
from labkit.runs import Results, Run, RunError, Store
from labkit.trials import Trial, TrialError


def _kubernetes(**options: Any) -> Launcher:
    # Only now: its client takes most of a second to import.
    from labkit.launchers.kubernetes.launcher import KubernetesLauncher

    return KubernetesLauncher(**options)


LAUNCHERS: dict[str, Callable[..., Launcher]] = {"local": LocalLauncher, "kubernetes": _kubernetes}
"""The ways to run a trial, by the name that notebooks and the command line use."""

OVERLOAD_RETRIES = 1
"""How often a trial is repeated whose machine was too busy with other things to measure on."""

FEWEST_REPEATS = 3
"""From which on an interval is trusted: of two, Student's t is 12.7."""

MAX_REPEATS = 10
"""Of a setting, if the caller does not say: even of repeats that differ by 21 % (coefficient of
variation) ten give an interval of 15 % to either side; what differs more needs another machine."""


class SweepFailed(LabkitError):
    """Some trials of a sweep failed; the others are kept."""


def measure(
    sweep: Sequence[Trial],
    launcher: str = "local",
    *,
    precision: float | None = None,
    max_repeats: int = MAX_REPEATS,
    store: Store | None = None,
    force: bool = False,
    deadline: float = DEADLINE,
    on_event: OnEvent | None = None,
    quiet: bool = False,
) -> Results:
    """Run what has not been run yet, in rounds: all settings once, then all once more.

    So what changes slowly about a machine meets all settings alike.

    Parameters
    ----------
    sweep : sequence of Trial
        Trials that have finished or diverged before are not run again, unless other programs kept
        the machine too busy for a rate.
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

    Returns
    -------
    Results
        Of the sweep's trials in their order, then of the repeats that were added.

    Raises
    ------
    LabkitError
        Before anything starts: unknown launcher, data missing or changed, no room.
    SweepFailed
        At the end, if trials have failed; the others' results are kept, and the next call runs
        only what is missing. A diverged trial is a result, not a failure.
    """
    _check(launcher, precision, max_repeats, deadline)
    store = Store(store and store.root, launcher)
    known: dict[Trial, Run] = {}
    new: dict[Trial, Run] = {}
    failures: list[TrialFailed] = []
    trials, due, runner, attempted = list(sweep), list(sweep), None, 0
    with ExitStack() as stack:
        progress = stack.enter_context(SweepProgress(quiet))
        try:
            while due:
                if not force:
                    known |= {t: r for t, r in store.look_up(due).items() if not r.overloaded}
                missing = _in_rounds(trials, (trial for trial in due if trial not in known))
                if missing:
                    runner = runner or stack.enter_context(LAUNCHERS[launcher](deadline=deadline))
                    runner.check(missing)
                    progress.plan(missing)
                    attempted += len(missing)
                    one = _Once(runner, store, force, progress, on_event, known, new)
                    failures += _run_all(missing, one, runner)
                due = _more_repeats(trials, known | new, precision, max_repeats)
                trials += due
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


def _interruption(kept: int) -> KeyboardInterrupt:
    """Return what an interrupted sweep raises: it says what is kept.

    No class of its own, as only after a KeyboardInterrupt itself Python ends as SIGINT does.
    """
    trials = "1 trial" if kept == 1 else f"{kept} trials"
    error = KeyboardInterrupt(
        f"interrupted; what ran has been ended, what had finished is kept ({trials} of this "
        "call), and the same call goes on from there"
    )
    # What IPython shows instead of a traceback, which would tell a user nothing.
    error._render_traceback_ = lambda: [str(error)]
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


def _check(launcher: str, precision: float | None, max_repeats: int, deadline: float) -> None:
    check_launcher(launcher)
    if precision is not None and not 0 < precision < math.inf:
        raise TrialError(f"precision: {precision!r}; allowed: more than 0, such as 0.1 for 10 %")
    if isinstance(max_repeats, bool) or not isinstance(max_repeats, int) or max_repeats < 1:
        raise TrialError(f"max_repeats: {max_repeats!r}; allowed: a whole number from 1")
    if not deadline > 0:
        raise TrialError(f"deadline: {deadline!r}; allowed: seconds, more than 0")


# --- which trials, in which order -----------------------------------------------------------


def _setting(trial: Trial) -> Trial:
    """Return what repeats have in common: all but the seed."""
    return trial.replace(seed=1)


def _in_rounds(sweep: Sequence[Trial], trials: Iterable[Trial]) -> list[Trial]:
    """Return trials of a sweep in rounds: the first repeat of each setting, then the second, ...

    Within a round those of a framework follow each other.
    """
    repeats: Counter[Trial] = Counter()
    place = {}
    frameworks = list(dict.fromkeys(trial.framework for trial in sweep))
    for trial in sweep:
        place[trial] = repeats[_setting(trial)], frameworks.index(trial.framework)
        repeats[_setting(trial)] += 1
    return sorted(trials, key=place.__getitem__)


def _more_repeats(
    trials: Sequence[Trial], runs: Mapping[Trial, Run], precision: float | None, most: int
) -> list[Trial]:
    """Return the next repeat of each setting whose throughput is not known precisely enough.

    Not of those with a trial that failed or diverged. And where the last run found the machine
    busy, even twice, another would not fare better: the next call measures that one anew.
    """
    if precision is None:
        return []
    settings: dict[Trial, list[Trial]] = {}
    for trial in trials:
        settings.setdefault(_setting(trial), []).append(trial)
    more = []
    for repeats in settings.values():
        found = [runs.get(trial) for trial in repeats]
        if len(found) >= most or not all(run and run.finished for run in found):
            continue
        if not found[-1].overloaded and not _is_precise(found, precision):
            more.append(repeats[-1].replace(seed=1 + max(trial.seed for trial in repeats)))
    return more


def _is_precise(runs: Iterable[Run], precision: float) -> bool:
    rates = [run.window.samples_per_second for run in runs if not run.overloaded]
    if len(rates) < FEWEST_REPEATS:
        return False
    return analysis.geometric_interval(rates).half_width <= precision


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
            common = {"machine": provenance.machine(), "revision": provenance.revision()}
            try:
                record = common | self.launcher.run(trial, scratch, show)
                record["status"] = "finished"
                if Run(trial, scratch, record).overloaded and retries:
                    retries -= 1
                    show(Retrying("the machine was too busy"))
                    _empty(scratch)
                    continue
                return self.store.keep(trial, scratch, record)
            except TrialDiverged as error:
                return self.store.keep(trial, scratch, common | _status("diverged", error))
            except (TrialFailed, RunError, analysis.MetricError) as error:
                kept = self.store.keep(trial, scratch, common | _status("failed", error))
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
