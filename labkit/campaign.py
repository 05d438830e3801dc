"""Run the trials of a sweep, each once and for all, and hand over the tables."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import datasets, provenance
from labkit.errors import LabkitError, nearest
from labkit.launchers.limits import DEADLINE
from labkit.launchers.local.launcher import LocalLauncher
from labkit.launchers.protocol import (
    Launcher,
    NoRoomForTrial,
    Notice,
    OnEvent,
    TrialDiverged,
    TrialFailed,
)
from labkit.progress import ClusterProgress, SweepProgress
from labkit.replicas.events import Event
from labkit.runs import Results, Run, RunError, Store
from labkit.trials import Trial, TrialError

if TYPE_CHECKING:
    pass


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
    known = {} if force else store.look_up(sweep)
    missing = [trial for trial in sweep if trial not in known]
    if launcher == "local":  # elsewhere the image has them
        for dataset in sorted({trial.dataset for trial in missing}):
            datasets.verify(dataset)
    new: dict[Trial, Run] = {}
    failures = list(_run_missing(missing, launcher, store, force, deadline, on_event, new))
    if failures:
        raise SweepFailed(
            f"{len(failures)} of {len(missing)} trials failed; what finished is kept, and the "
            f"next run takes up the rest.\n\n" + "\n\n".join(map(str, failures))
        )
    found = known | new
    note = _note(known, new)
    if not force and (others := store.set_aside(missing)):
        note += f"; {others}"
    return Results([found[trial] for trial in sweep], note)


def _note(known: Mapping[Trial, Run], new: Mapping[Trial, Run]) -> str:
    """Say in a line how many trials have been run and re-used, and how many have no rate."""
    runs = [*known.values(), *new.values()]
    diverged = sum(not run.finished for run in runs)
    overloaded = sum(bool(run.record.get("overloaded")) for run in runs)
    said = [f"{len(new)} run", f"{len(known)} re-used"]
    if diverged:
        said.append(f"{diverged} without a result (diverged)")
    if overloaded:
        said.append(f"{overloaded} without a rate (other programs kept the machine busy)")
    return f"{len(runs)} trial{'s' * (len(runs) != 1)}: {', '.join(said)}"


def _run_missing(
    missing: Sequence[Trial],
    launcher: str,
    store: Store,
    force: bool,
    deadline: float,
    on_event: OnEvent | None,
    new: dict[Trial, Run],
) -> Iterator[TrialFailed]:
    """Run trials and put their runs in `new`; yield the errors of those that failed."""
    if not missing:
        return
    with ExitStack() as stack:
        kind = SweepProgress if launcher == "local" else ClusterProgress
        progress = stack.enter_context(kind(missing))
        runner = stack.enter_context(LAUNCHERS[launcher](deadline=deadline))

        def run(trial: Trial) -> None:
            def show(event: Event | Notice) -> None:
                progress.event(trial, event)
                if on_event is not None:
                    on_event(event)

            progress.begin(trial)
            try:
                new[trial] = _run(trial, runner, store, force, show)
            finally:
                progress.end(trial)

        yield from _run_all(missing, run, runner)


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


def _run(
    trial: Trial, launcher: Launcher, store: Store, force: bool, on_event: OnEvent
) -> Run:
    """Run one trial and keep what came of it."""
    with store.claim(trial) as scratch:
        if not force and (run := store.find(trial)):
            return run  # somebody else has run it meanwhile
        retries = OVERLOAD_RETRIES
        while True:
            common = {"machine": provenance.machine(), "revision": provenance.revision()}
            try:
                record = common | launcher.run(trial, scratch, on_event)
                if record.get("overloaded") and retries:
                    retries -= 1
                    _empty(scratch)
                    continue
                return store.keep(trial, scratch, record | {"status": "finished"})
            except TrialDiverged as error:
                return store.keep(trial, scratch, common | _status("diverged", error))
            except (TrialFailed, RunError) as error:
                kept = store.keep(trial, scratch, common | _status("failed", error))
                kind = NoRoomForTrial if isinstance(error, NoRoomForTrial) else TrialFailed
                raise kind(f"{error}\n(all it printed: {kept.directory})") from error


def _status(status: str, error: Exception) -> dict[str, str]:
    return {"status": status, "error": str(error)}


def _empty(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()
