"""What control groups leave a process of the processors' time and of the memory.

A container, a pod and a systemd slice are control groups (cgroups) within others, and the limits
of all that a process is in hold. Version 1 has a hierarchy for each kind of limit, version 2 one
for all: https://docs.kernel.org/admin-guide/cgroup-v2.html.
"""

from pathlib import Path
from typing import Iterable, Iterator, List, NamedTuple, Optional, Tuple

PROC = Path("/proc/self")

UNITS = {"throttled_usec": 1e6, "throttled_time": 1e9}
"""Of what versions 2 and 1 say of the time in which a group was kept waiting, per second."""


class Quota(NamedTuple):
    """How much of the processors' time a group may use.

    Attributes
    ----------
    cores : float
        Seconds of it per second.
    group : Path
        The directory of the group.
    """

    cores: float
    group: Path

    def used(self) -> Optional[float]:
        """Return the CPU seconds of all processes in the group so far; None if it is not told."""
        for line in _read(self.group / "cpu.stat").splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
        told = _read(self.group / "cpuacct.usage")
        return int(told) / 1e9 if told else None


def cpu_quota() -> Optional[Quota]:
    """Return the least quota of all groups that this process is in, None without any."""
    quotas = []
    for group in groups("cpu"):
        told = _read(group / "cpu.max").split() or [
            _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us"),
        ]  # fmt: skip
        if all(told) and told[0] not in ("max", "-1"):
            quotas.append(Quota(int(told[0]) / int(told[1]), group))
    return min(quotas) if quotas else None


def throttled(groups: Iterable[Path]) -> float:
    """Return for how many seconds the nearest group with a limit has kept its processes waiting.

    0 without any: a group that may use all cores is never kept waiting.

    Parameters
    ----------
    groups : iterable of Path
        What `groups` yields of the kind ``cpu``; finding them takes longer than reading them.
    """
    for group in groups:
        for line in _read(group / "cpu.stat").splitlines():
            name, _, told = line.partition(" ")
            if name in UNITS:
                return int(told) / UNITS[name]
    return 0.0


def memory() -> Optional[Tuple[int, int]]:
    """Return limit and use, in bytes, of the group with the least limit, None without any."""
    limits = []
    for group in groups("memory"):
        for limit, use in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            told = _read(group / limit)
            if told not in ("", "max"):
                limits.append((int(told), int(_read(group / use) or 0)))
    return min(limits) if limits else None


def groups(controller: str) -> Iterator[Path]:
    """Yield the directories of the groups that limit this process, each before those around it.

    Parameters
    ----------
    controller : str
        The kind of limit: ``cpu`` or ``memory``.
    """
    paths = {}
    for line in _read(PROC / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            paths[name] = path  # version 2 names none
    for root, place, kind, options in _mounts():
        if kind == "cgroup2":
            path = paths.get("")
        elif kind == "cgroup" and controller in options:
            path = paths.get(controller)
        else:
            continue
        if path is not None:
            # Where only a part of the hierarchy is mounted, as in a container, its root is ours.
            below = Path(path).parts[len(Path(root).parts) :] if _within(path, root) else ()
            for depth in range(len(below), -1, -1):
                yield Path(place, *below[:depth])


def _within(path: str, root: str) -> bool:
    parts = Path(path).parts
    return ".." not in parts and parts[: len(Path(root).parts)] == Path(root).parts


def _mounts() -> Iterator[Tuple[str, str, str, List[str]]]:
    """Yield root, place, kind and options of what is mounted; see proc_pid_mountinfo(5)."""
    for line in _read(PROC / "mountinfo").splitlines():
        here, _, there = line.partition(" - ")
        root, place = here.split()[3:5]
        kind, _, options = there.split(" ", 2)
        yield root, place, kind, options.split(",")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # of another version, or kept from us
        return ""
