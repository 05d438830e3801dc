r"""What a large trial costs its client, beside the thesis's way of deploying.

    LABKIT_TEST_CLUSTER=/path/to/admin.kubeconfig python benchmarks/control_plane.py \
        [--workers 1000] [--helm /path/to/helm]

The pods are pretended: the cluster has nodes of kwok, labelled ``type=kwok``, with room for all of
them. Counted are objects, the client's calls to the API between the start and the moment in which
all replicas run, its peak memory, and seconds to submit and until all run. labkit is held to at
most 6 objects, 1 s to submit and 200 MB. Beside it a Helm chart with a Pod and a Service for each
process, as the thesis describes it; Helm's calls are not counted.
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

HERE = Path(__file__).parent
SETTINGS = """
namespace = "{namespace}"
cpu_request = 0.02
memory_request = "50Mi"
share_nodes = true
node_selector = {{type = "kwok"}}
tolerations = [{{key = "kwok.x-k8s.io/node", operator = "Exists"}}]
"""


class Done(Exception):
    """All replicas run."""


def labkit(workers):
    """Submit a trial, wait until it runs, delete it; print what that took as JSON."""
    from labkit.launchers.kubernetes.launcher import KubernetesLauncher
    from labkit.trials import Trial

    trial = Trial(framework="mxnet", model="lenet5", workers=workers, batch_size=128,
                  learning_rate=0.025, steps=1000)  # fmt: skip
    begin = time.monotonic()
    found = {}
    with KubernetesLauncher() as launcher, tempfile.TemporaryDirectory() as directory:

        def watch(event):
            if event["kind"] == "submitted":
                found.update(submit_s=time.monotonic() - begin, objects=event["objects"])
            if event["kind"] == "pods":
                running = [s["Running"] + s["Succeeded"] for s in event["roles"].values()]
                if sum(running) == workers + 1:
                    found.update(running_s=time.monotonic() - begin, calls=launcher.cluster.calls)
                    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                    raise Done

        try:
            launcher.run(trial, Path(directory), watch)
        except Done:
            print(json.dumps(found))


def helm(command, workers, namespace, core):
    """Install the thesis's chart, wait until its pods run; return what that took."""
    from labkit.trials.frameworks import HERE as trainers

    with tempfile.TemporaryDirectory() as directory:
        chart = Path(shutil.copytree(HERE / "thesis_chart", Path(directory) / "chart"))
        (chart / "files").mkdir()
        for name in ("common.py", "train_mxnet.py"):
            shutil.copy(trainers / name, chart / "files")
        begin = time.monotonic()
        subprocess.run(
            [command, "install", "thesis", chart, "--namespace", namespace,
             "--set", f"workers={workers}"],
            env=os.environ | {"KUBECONFIG": os.environ["LABKIT_TEST_CLUSTER"]},
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--helm", default=shutil.which("helm"), help="leave it out: labkit alone")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        labkit(args.workers)
        return
    if "LABKIT_TEST_CLUSTER" not in os.environ:
        parser.error("set LABKIT_TEST_CLUSTER to the kubeconfig of a cluster with fake nodes")
    from kubernetes import client, config

    api = config.new_client_from_config(os.environ["LABKIT_TEST_CLUSTER"])
    core = client.CoreV1Api(api)
    namespace = f"labkit-bench-{os.getpid()}"
    core.create_namespace({"metadata": {"name": namespace}})
    rows = {}
    try:
        if args.helm:
            rows["a chart as in the thesis"] = helm(args.helm, args.workers, namespace, core)
            core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
            while core.list_namespaced_pod(namespace, limit=1).items:
                time.sleep(0.5)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as settings:
            settings.write(SETTINGS.format(namespace=namespace))
            settings.flush()
            places = {"KUBECONFIG": os.environ["LABKIT_TEST_CLUSTER"],
                      "LABKIT_CLUSTER": settings.name}  # fmt: skip
            done = subprocess.run(
                [sys.executable, __file__, "--child", "--workers", str(args.workers)],
                env=os.environ | places, check=True, capture_output=True, text=True,
            )  # fmt: skip
        rows["labkit"] = json.loads(done.stdout)
    finally:
        core.delete_namespace(namespace)
    print(f"{args.workers} workers   objects   calls   submit   all running   client's peak")
    for name, row in rows.items():
        print(
            f"{name:24} {row['objects']:7} {row['calls'] or '-':>7} {row['submit_s']:6.1f} s "
            f"{row['running_s']:11.1f} s {row['peak_mb']:12.0f} MB"
        )
    ours = rows["labkit"]
    sys.exit(ours["objects"] > 6 or ours["submit_s"] > 1 or ours["peak_mb"] > 200)


if __name__ == "__main__":
    main()
