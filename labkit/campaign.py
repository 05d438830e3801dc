"""Run the trials of a sweep, each once and for all, and hand over the tables."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import datasets, provenance
from labkit.errors import LabkitError, nearest
from labkit.launchers.limits import DEADLINE
from labkit.launchers.local.launcher import LocalLauncher
from labkit.launchers.placement import replicas_of
from labkit.launchers.protocol import Launcher, NoRoomForTrial, OnEvent, TrialDiverged, TrialFailed
from labkit.progress import ClusterProgress, SweepProgress
from labkit.runs import Run, RunError, Store, tensorboard
from labkit.trials import Trial, TrialError

if TYPE_CHECKING:
    import pandas as pd


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


@dataclass(frozen=True)
class Results:
    """What a sweep has measured.

    Attributes
    ----------
    trials : sequence of Trial
        The sweep.
    store : Store
        Where its runs are.
    """

    trials: Sequence[Trial]
    store: Store

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a trial; see `Store.table`."""
        return self.store.table(self.trials)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row a step window; see `Store.steps`."""
        return self.store.steps(self.trials)

    @cached_property
    def evals(self) -> pd.DataFrame:
        """One row an evaluation; see `Store.evals`."""
        return self.store.evals(self.trials)


def measure(
    sweep: Sequence[Trial],
    launcher: str = "local",
    *,
    store: Store | None = None,
    force: bool = False,
    deadline: float = DEADLINE,
    on_event: OnEvent | None = None,
) -> Results:
    """Run what has not been run yet.

    Parameters
    ----------
    sweep : sequence of Trial
        Trials that have finished or diverged before are not run again.
    launcher : str
        Where: ``local`` or ``kubernetes``.
    store : Store, optional
        By default the one under ``outputs``, of this launcher's runs.
    force : bool
        Run all trials even so; a new run replaces the old one when it has succeeded.
    deadline : float
        Seconds each trial may take.
    on_event : callable, optional
        Gets all events live, beside the progress bar.

    Returns
    -------
    Results

    Raises
    ------
    LabkitError
        Before anything starts: unknown launcher, data missing or changed, no room.
    SweepFailed
        At the end, if trials have failed; the others' results are kept, and the next call runs
        only what is missing. A diverged trial is a result, not a failure.
    """
    if launcher not in LAUNCHERS:
        hint = nearest(launcher, LAUNCHERS)
        raise TrialError(f"launcher: {launcher!r}{hint}; allowed: {', '.join(LAUNCHERS)}")
    if not deadline > 0:
        raise TrialError(f"deadline: {deadline!r}; allowed: seconds, more than 0")
    store = Store(store and store.root, launcher)
    missing = [trial for trial in sweep if force or store.find(trial) is None]
    if not missing:
        return Results(sweep, store)
    if launcher == "local":  # elsewhere the image has them
        for dataset in sorted({trial.dataset for trial in missing}):
            datasets.verify(dataset)

    failures: list[TrialFailed] = []
    with ExitStack() as stack:
        kind = SweepProgress if launcher == "local" else ClusterProgress
        progress = stack.enter_context(kind(missing))
        runner = stack.enter_context(LAUNCHERS[launcher](deadline=deadline))

        def run(trial: Trial) -> None:
            def show(event: dict[str, Any]) -> None:
                progress.event(trial, event)
                if on_event:
                    on_event(event)

            progress.begin(trial)
            try:
                _run(trial, runner, store, force, show)
            finally:
                progress.end(trial)

        failures += _run_all(missing, run, runner)
    if failures:
        raise SweepFailed(
            f"{len(failures)} of {len(missing)} trials failed; what finished is kept, and the "
            f"next run takes up the rest.\n\n" + "\n\n".join(map(str, failures))
        )
    return Results(sweep, store)


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


def _run(trial: Trial, launcher: Launcher, store: Store, force: bool, on_event: OnEvent) -> Run:
    """Run one trial and keep what came of it."""
    with store.claim(trial) as scratch:
        if not force and (run := store.find(trial)):
            return run  # somebody else has run it meanwhile
        for attempt in range(1 + OVERLOAD_RETRIES):
            common = {"machine": provenance.machine(), "revision": provenance.revision()}
            try:
                record = common | launcher.run(trial, scratch, on_event) | {"status": "finished"}
                run = Run(trial, scratch, record)
                run.check(replicas_of(trial))
            except (TrialFailed, RunError) as error:
                diverged = isinstance(error, TrialDiverged)
                status = "diverged" if diverged else "failed"
                kept = store.keep(trial, scratch, common | {"status": status, "error": str(error)})
                if diverged:
                    return kept
                kind = NoRoomForTrial if isinstance(error, NoRoomForTrial) else TrialFailed
                raise kind(f"{error}\n(all it printed: {kept.directory})") from error
            if not record["overloaded"] or attempt == OVERLOAD_RETRIES:
                break
            _empty(scratch)
        tensorboard.write(run, scratch / "tensorboard")
        return store.keep(trial, scratch, record)


def _empty(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()
