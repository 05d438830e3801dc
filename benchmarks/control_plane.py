r"""What a large trial costs its client, beside the thesis's way of deploying.

    LABKIT_TEST_CLUSTER=/path/to/admin.kubeconfig python benchmarks/control_plane.py \
        [--workers 1000] [--helm /path/to/helm] [--quick]

The pods are pretended: the cluster has nodes of kwok, labelled ``type=kwok``, with room for all of
them. Counted are objects, the client's calls to the API between the start and the moment in which
all replicas run, its peak memory, and seconds to submit and until all run. labkit is held to at
most 6 objects, 1 s to submit and 200 MB. Beside it a Helm chart with a Pod and a Service for each
process, as the thesis describes it; Helm's calls are not counted. The quick form pretends 100
workers and leaves Helm out.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.cluster import ADMIN, own_namespace
from support.script import options, parse

HERE = Path(__file__).parent
SETTINGS = """
cpu_request = 0.02
memory_request = "50Mi"
share_nodes = true
node_selector = {type = "kwok"}
tolerations = [{key = "kwok.x-k8s.io/node", operator = "Exists"}]
"""


class Done(Exception):
    """All replicas run."""


def labkit(workers):
    """Submit a trial, wait until it runs, delete it; print what that took as JSON."""
    from labkit.launchers.kubernetes.launcher import KubernetesLauncher
    from labkit.launchers.protocol import Pods, Submitted
    from labkit.trials import Trial

    trial = Trial(framework="mxnet", model="lenet5", workers=workers, batch_size=128,
                  learning_rate=0.025, steps=1000)  # fmt: skip
    begin = time.monotonic()
    found = {}
    with KubernetesLauncher() as launcher, tempfile.TemporaryDirectory() as directory:

        def follow(event):
            if isinstance(event, Submitted):
                found.update(submit_s=time.monotonic() - begin, objects=event.objects)
            if isinstance(event, Pods):
                running = [s["Running"] + s["Succeeded"] for s in event.roles.values()]
                if sum(running) == workers + 1:
                    found.update(running_s=time.monotonic() - begin, calls=launcher.cluster.calls)
                    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                    raise Done

        try:
            launcher.run(trial, Path(directory), follow)
        except Done:
            print(json.dumps(found))


def helm(command, workers, namespace, core):
    """Install the thesis's chart, wait until its pods run; return what that took."""
    from labkit import replicas

    with tempfile.TemporaryDirectory() as directory:
        chart = Path(shutil.copytree(HERE / "support" / "thesis_chart", Path(directory) / "chart"))
        (chart / "files").mkdir()
        for path in replicas.HERE.glob("*.py"):
            shutil.copy(path, chart / "files")
        begin = time.monotonic()
        subprocess.run(
            [command, "install", "thesis", chart, "--namespace", namespace,
             "--set", f"workers={workers}"],
            env=os.environ | {"KUBECONFIG": os.environ[ADMIN]},
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        submit = time.monotonic() - begin
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    while True:
        phases = [p.status.phase for p in core.list_namespaced_pod(namespace).items]
        if sum(phase in ("Running", "Succeeded") for phase in phases) == workers + 1:
            break
        time.sleep(0.5)
    return {"objects": 2 * (workers + 1) + 1, "submit_s": submit, "peak_mb": peak, "calls": None,
            "running_s": time.monotonic() - begin}  # fmt: skip


def main():
    """Print a row for each way, and leave with 1 if labkit's is beyond its bounds."""
    parser = options(__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--helm", default=shutil.which("helm"), help="leave it out: labkit alone")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parse(parser)
    if args.child:
        labkit(args.workers)
        return
    if args.quick:
        args.workers, args.helm = 100, None
    if not os.environ.get(ADMIN):
        parser.error(f"set {ADMIN} to the kubeconfig of a cluster with fake nodes")
    rows = {}
    with own_namespace(SETTINGS) as (namespace, core):
        for node in core.list_node(label_selector="type=kwok").items:  # as real nodes say
            architecture = {"metadata": {"labels": {"kubernetes.io/arch": "amd64"}}}
            core.patch_node(node.metadata.name, architecture)
        if args.helm:
            rows["a chart as in the thesis"] = helm(args.helm, args.workers, namespace, core)
            core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
            while core.list_namespaced_pod(namespace, limit=1).items:
                time.sleep(0.5)
        # in a process of its own, whose peak memory is labkit's alone
        done = subprocess.run(
            [sys.executable, __file__, "--child", "--workers", str(args.workers)],
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        ours = rows["labkit"] = json.loads(done.stdout)
    print(f"{args.workers} workers   objects   calls   submit   all running   client's peak")
    for name, row in rows.items():
        print(
            f"{name:24} {row['objects']:7} {row['calls'] or '-':>7} {row['submit_s']:6.1f} s "
            f"{row['running_s']:11.1f} s {row['peak_mb']:12.0f} MB"
        )
    late = ours["submit_s"] > 1 and not args.quick
    sys.exit(ours["objects"] > 6 or late or ours["peak_mb"] > 200)


if __name__ == "__main__":
    main()
