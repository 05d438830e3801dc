"""What it costs to read the logs of many pods: memory, connections, and whether all arrives.

    python benchmarks/logs.py [--workers 200] [--steps 600]

Runs on the cluster of the current kubeconfig, used as ``cluster.toml`` says, in real pods with a
trainer that prints as many events as any but computes nothing (`talker.py`): a small node holds
hundreds of those. Every event has to be in the store in the end. labkit is held to 200 MB and to
as many connections as it says it makes.
"""

import argparse
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from labkit import provenance
from labkit.launchers.kubernetes.api import CONNECTIONS
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.runs import Run
from labkit.trials import Trial
from labkit.trials.frameworks import FRAMEWORKS, Framework

MEMORY = 200  # MB


class Talker(Framework):
    """TensorFlow's row, with another script."""

    script = Path(__file__).with_name("talker.py")


def count_connections(most, done):
    """Keep the largest number of connections that this process had."""
    me = psutil.Process()
    while not done.wait(0.2):
        open_now = [c for c in me.net_connections() if c.status == psutil.CONN_ESTABLISHED]
        most[0] = max(most[0], len(open_now))


def main():
    """Print one row; leave with 1 if something is missing or beyond its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    FRAMEWORKS["tensorflow"] = Talker(**vars(FRAMEWORKS["tensorflow"]))
    trial = Trial(
        framework="tensorflow", model="lenet5", workers=args.workers, servers=1, batch_size=5,
        learning_rate=0.1, steps=args.steps, eval_samples=0,
    )  # fmt: skip
    connections, done = [0], threading.Event()
    threading.Thread(target=count_connections, args=(connections, done), daemon=True).start()
    shown = 0

    def watch(event):
        nonlocal shown
        shown += event.get("role") == "worker"

    begin = time.monotonic()
    with KubernetesLauncher() as launcher, tempfile.TemporaryDirectory() as directory:
        run = Run(trial, Path(directory), launcher.run(trial, Path(directory), watch))
        seconds = time.monotonic() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        done.set()
        check(run)  # the sequence of each replica has no gap
        events = sum(len(events) for events in run.workers)
        size = sum(path.stat().st_size for path in run.directory.glob("pods/*.log"))
    here = provenance.machine()
    print(f"{here['cpu_model']}, {here['cores']} cores, revision {provenance.revision()}")
    print(
        f"{args.workers + 1} pods: {seconds:.0f} s, {run.record['startup_s']:.0f} s of them until "
        f"the barrier; {events} events of workers in {size / 1e6:.1f} MB, none missing, {shown} "
        f"shown live; {launcher.cluster.calls} calls, {connections[0]} connections, {peak:.0f} MB"
    )
    sys.exit(connections[0] > CONNECTIONS or peak > MEMORY)


if __name__ == "__main__":
    main()
