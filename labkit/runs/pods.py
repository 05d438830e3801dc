"""What the pods of a run used of the network, and servers' pods of the processors."""

from __future__ import annotations

import math

from labkit.runs.run import Run


def use_of_pods(run: Run, batches_per_second: float) -> dict[str, float]:
    """Return columns of a table of trials: as measured in pods, none of a run without.

    Parameters
    ----------
    run : Run
    batches_per_second : float
        Of all workers.

    Returns
    -------
    dict of str to float
        Megabytes that the workers' pods sent, and received, for each step; the Mbit/s of the pod
        that sent or received most; and, of servers in pods of their own, the milliseconds of CPU
        for each update, without those of connecting the workers.
    """
    use = run.record.get("use", {})
    if not use:
        return {}
    rates = {
        pod: {name: used[name] / used["seconds"] for name in used if name != "seconds"}
        for pod, used in use.items()
    }
    workers = [rate for pod, rate in rates.items() if pod.startswith("worker ")]
    columns = {
        "sent_mb_per_step": sum(rate["sent"] for rate in workers) / batches_per_second / 1e6,
        "received_mb_per_step": (
            sum(rate["received"] for rate in workers) / batches_per_second / 1e6
        ),
        "busiest_mbit_per_s": max(
            8 * max(rate["sent"], rate["received"]) / 1e6 for rate in rates.values()
        ),
    }
    names = [pod for pod in run.record.get("pods", use) if pod.startswith("server ")]
    servers = [rates.get(pod, {}).get("own") for pod in names]
    if servers:
        known = None not in servers  # of a pod without samples, or by an earlier version
        columns["server_cpu_ms_per_update"] = (
            1000 * sum(servers) / batches_per_second if known else math.nan
        )
    return columns
