"""What it costs to read the logs of many pods: memory, connections, and whether all arrives.

    python benchmarks/logs.py [--workers 200] [--steps 600] [--quick]

Runs on the cluster that LABKIT_TEST_CLUSTER names, in a namespace of its own, else on that of the
current kubeconfig, used as ``cluster.toml`` says; in real pods with a trainer that prints as many
events as any but computes nothing (`support/synthetic_trainer.py`): a small node holds hundreds of
those. Every event has to be in the store in the end. labkit is held to 200 MB and to as many
connections as it says it makes.
"""

import resource
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
from support.cluster import own_namespace
from support.script import options, parse, print_machine

from labkit.launchers.kubernetes.connection import CONNECTIONS
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.replicas.events import Event
from labkit.runs import Run
from labkit.runs.check import check
from labkit.trials import Trial
from labkit.trials.frameworks import FRAMEWORKS

MEMORY = 200  # MB

TINY = """
cpu_request = 0.005
memory = "1500Mi"
memory_request = "20Mi"
"""
"""What lets two cores hold 200 pods, which only print."""


TRAINER = Path(__file__).parent / "support" / "synthetic_trainer.py"


def count_connections(most, done):
    """Keep the largest number of connections that this process had, beside those of before."""
    others = connected()
    while not done.wait(0.2):
        most[0] = max(most[0], len(connected() - others))


def connected():
    """Return the addresses of this process's ends of its connections."""
    found = psutil.Process().net_connections()
    return {c.laddr for c in found if c.status == psutil.CONN_ESTABLISHED}


def main():
    """Print one row; leave with 1 if something is missing or beyond its bounds."""
    parser = options(__doc__)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--steps", type=int, default=600)
    args = parse(parser)
    if args.quick:
        args.workers, args.steps = 10, 50
    print_machine()
    with own_namespace(TINY):
        sys.exit(not within_bounds(args.workers, args.steps))


def within_bounds(workers, steps):
    """Run a trial and print what its logs cost; return whether that is within the bounds."""
    FRAMEWORKS["tensorflow"] = replace(FRAMEWORKS["tensorflow"], trainer=TRAINER)
    trial = Trial(
        framework="tensorflow", model="lenet5", workers=workers, servers=1, batch_size=5,
        learning_rate=0.1, steps=steps, eval_samples=0,
    )  # fmt: skip
    connections, done = [0], threading.Event()
    threading.Thread(target=count_connections, args=(connections, done), daemon=True).start()
    shown = 0

    def count(event):
        nonlocal shown
        shown += isinstance(event, Event) and event.role == "worker"

    begin = time.monotonic()
    with KubernetesLauncher() as launcher, tempfile.TemporaryDirectory() as directory:
        run = Run(trial, Path(directory), launcher.run(trial, Path(directory), count))
        seconds = time.monotonic() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        done.set()
        check(run)  # the sequence of each replica has no gap
        events = sum(len(events) for events in run.workers)
        size = sum(path.stat().st_size for path in run.directory.glob("pods/*.log"))
    print(
        f"{workers + 1} pods: {seconds:.0f} s, {run.record['startup_s']:.0f} s of them until "
        f"the barrier; {events} events of workers in {size / 1e6:.1f} MB, none missing, {shown} "
        f"shown live; {launcher.cluster.calls} calls, {connections[0]} connections, {peak:.0f} MB"
    )
    return connections[0] <= CONNECTIONS and peak <= MEMORY


if __name__ == "__main__":
    main()
