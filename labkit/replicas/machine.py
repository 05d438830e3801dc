"""What a machine is, and how busy it and the processes on it are."""

import contextlib
import os
import platform
from pathlib import Path
from typing import Dict, Optional, Set, Union

from labkit.replicas import cores

TICKS = os.sysconf("SC_CLK_TCK")

CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def describe() -> Dict[str, Union[str, int]]:
    """Return the machine's processor, cores, memory in bytes, system, and `congestion_control`."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    return {
        "cpu_model": model or platform.machine(),
        "cores": cores.count(range(os.cpu_count() or 1)),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
        "congestion_control": congestion_control(),
    }


def congestion_control() -> str:
    """Return by which algorithm TCP decides how fast to send, such as ``cubic``; "" if unknown."""
    try:
        return CONGESTION_CONTROL.read_text().strip()
    except OSError:
        return ""


def busy_seconds() -> Optional[float]:
    """Return the machine's CPU seconds that were not idle, None if it does not report them.

    What a hypervisor took from it (steal) was not idle either.
    """
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / TICKS


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of its ended children; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def family(pid: int) -> Set[int]:
    """Return a process and all that it has started, at any remove, as far as it is running."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
    found, newest = set(), {pid}
    while newest:
        found |= newest
        newest = {child for child, parent in parents.items() if parent in newest} - found
    return found
