"""What a machine is, and how busy it and the processes on it are."""

import os
import platform
from pathlib import Path
from typing import Dict, Optional, Union

from labkit.replicas import cores

TICKS = os.sysconf("SC_CLK_TCK")


def describe() -> Dict[str, Union[str, int]]:
    """Return the machine's processor, cores, memory in bytes, and system."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    return {
        "cpu_model": model or platform.machine(),
        "cores": cores.count(range(os.cpu_count() or 1)),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
    }


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
    """Return the CPU seconds of a process, 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS
