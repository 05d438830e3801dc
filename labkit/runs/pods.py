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
        for each update, without those of connecting the workers, and without what labkit's own
        process in the pod used (which runs by earlier versions do not tell apart).
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
    if names:
        known = all("own" in rates.get(pod, {}) for pod in names)  # else without samples, or old
        columns["server_cpu_ms_per_update"] = (
            1000 * sum(map(_replicas, map(rates.get, names))) / batches_per_second
            if known else math.nan
        )
    return columns


def _replicas(rates: dict[str, float]) -> float:
    """Return the CPU seconds per second of a pod's replicas."""
    return rates["own"] - rates.get("agent", 0.0)
