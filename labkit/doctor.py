"""What this machine can do, what is missing, and how to get it.

Set-up calls `libraries` before anything is installed, so this module needs the standard library
alone; what else it checks is imported inside its functions.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from labkit.replicas import cgroups
from labkit.replicas.cores import count, usable
from labkit.replicas.machine import congestion_control

IMPORT_SECONDS = 120
WIDEST = 99
"""Columns of a line of advice, however wide the terminal."""

_GB = 1e9
_FRAMEWORKS_GB = 1.5  # the warm processes of both frameworks, and a notebook's kernel
_WORKER_GB = 0.5  # the largest seen: a TensorFlow worker of 430 MB, an MXNet one of 455 MB
_DISK_GB = 1.0
_SHARED_GB = 0.1
_MARKS = {True: "ok", None: "--", False: "!!"}

# prints the version and the seconds that the import took
_IMPORT = """
import importlib, sys, time, numpy
if "bool" not in vars(numpy):
    numpy.bool = numpy.bool_  # MXNet 1.9 still uses the name
begin = time.monotonic()
modules = [importlib.import_module(name) for name in sys.argv[1:]]
print(modules[0].__version__, format(time.monotonic() - begin, ".1f"))
"""


@dataclass(frozen=True)
class Check:
    """What one check has found.

    Attributes
    ----------
    name : str
        What was checked.
    ok : bool or None
        False where labkit does not work without it, None where it works within limits.
    found : str
        What there is, in a few words.
    advice : str
        What it means or what to do; empty where there is nothing to say.
    """

    name: str
    ok: bool | None
    found: str
    advice: str = ""


def examine() -> list[Check]:
    """Check everything that labkit needs; takes about as long as one import of a framework."""
    from labkit.trials.frameworks import FRAMEWORKS

    busy = load()  # before the imports below add to it
    own_network = network()  # which forks, and so comes before there are threads
    with ThreadPoolExecutor() as pool:
        imports = [pool.submit(framework, row.name, row.modules) for row in FRAMEWORKS.values()]
        machine = [python(), system(), cores(), memory(), busy, shared_memory(), own_network]
        rest = [tcp(), libraries(), outputs(), *datasets(), cluster()]
        return [*machine, *rest, *(check.result() for check in imports)]


def render(checks: list[Check], columns: int = WIDEST) -> str:
    """Return the checks as text: a mark, the name, what was found, and advice beneath.

    The marks are ``ok``, ``--`` (it works within limits) and ``!!`` (labkit needs it). Advice has
    so many columns, and never more than `WIDEST`.
    """
    width = max(len(check.name) for check in checks)
    indent = " " * (width + 6)
    lines = []
    for check in checks:
        lines.append(f"{_MARKS[check.ok]}  {check.name:{width}}  {check.found}")
        lines += textwrap.wrap(
            check.advice,
            width=min(columns, WIDEST),
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    missing = [check.name for check in checks if check.ok is False]
    lines.append("")
    lines.append(
        f"labkit needs what is marked !!: {', '.join(missing)}."
        if missing
        else "labkit has all that it needs here."
    )
    return "\n".join(lines)


def python() -> Check:
    """Check the interpreter's version."""
    good = (3, 11) <= sys.version_info < (3, 13)
    advice = "" if good else "labkit runs on Python 3.11 and 3.12: make setup PYTHON=python3.12"
    return Check("Python", good, platform.python_version(), advice)


def system() -> Check:
    """Check the operating system and the processor's architecture; say the machine's name."""
    from labkit import provenance

    found = f"{platform.system()} {platform.machine()}"
    good = found == "Linux x86_64"
    advice = "" if good else "MXNet and TensorFlow are locked for Linux x86_64 only."
    return Check("system", good, f"{found}, host {provenance.host()}", advice)


def cores() -> Check:
    """Check how many workers can have a core each, which bounds what can be measured, and why."""
    mine, there, cores = os.sched_getaffinity(0), os.cpu_count(), usable()
    found, limits = str(cores), []
    if cores == count(mine) < len(mine):
        found += f", with {len(mine)} hardware threads"
    if len(mine) < there:
        limits.append(f"CPU affinity: {len(mine)} of {there} processors")
    quota = cgroups.cpu_quota()
    if quota and quota.cores < count(mine):
        limits.append(f"cgroup quota: the time of {quota.cores:g} of {count(mine)} cores")
    if limits:
        found += f" ({'; '.join(limits)})"
    if quota and quota.cores < count(mine):
        return Check(
            "cores",
            None,
            found,
            "Processes pause when the quota is spent, which disturbs what is measured, and trials "
            f"that need more than {cores} count as oversubscribed. Lift it, or give whole cores "
            "instead (docker run --cpuset-cpus).",
        )
    if cores == 1:
        return Check(
            "cores", None, found, "Workers share the one core: no scaling can be measured."
        )
    return Check(
        "cores",
        True,
        found,
        f"Up to {cores} workers and dedicated servers are measured as scaling; more share cores, "
        "and are marked so.",
    )


def memory() -> Check:
    """Check the memory that is free, and for how many workers it is enough."""
    from labkit.launchers.local import memory

    free, total = memory.free()
    workers = max(0, int((free / _GB - _FRAMEWORKS_GB) / _WORKER_GB))
    found = f"{free / _GB:.1f} GB free of {total / _GB:.1f} GB, enough for about {workers} workers"
    if workers < 2:
        return Check("memory", None, found, "Two workers need 2.5 GB: end other programs.")
    return Check("memory", True, found)


def load() -> Check:
    """Check what else runs on the machine."""
    running, usable = os.getloadavg()[0], len(os.sched_getaffinity(0))
    found = f"{running:.1f} processes ran or waited in the last minute"
    if running > usable / 4:
        return Check(
            "load",
            None,
            found,
            "The machine is busy: rates come out too low and uneven. End other work before "
            "measuring.",
        )
    return Check("load", True, found)


def shared_memory() -> Check:
    """Check /dev/shm, which containers keep small."""
    try:
        free = shutil.disk_usage("/dev/shm").free / _GB
    except OSError as error:
        return Check("shared memory", None, f"/dev/shm: {error.strerror}")
    good = free >= _SHARED_GB
    return Check(
        "shared memory",
        good or None,
        f"{free:.1f} GB free in /dev/shm",
        "" if good else "In a container, start it with more: docker run --shm-size=1g",
    )


def network() -> Check:
    """Check whether trials can have a network of their own."""
    from labkit.replicas import own_network

    if own_network.possible():
        return Check("network", True, "trials have one of their own")
    return Check(
        "network",
        None,
        "trials share this machine's",
        "The kernel, or this container, allows no namespaces (on Ubuntu: sysctl "
        "kernel.apparmor_restrict_unprivileged_userns). While a trial of TensorFlow runs, "
        "whoever can reach this machine can control its processes: use a firewall.",
    )


def tcp() -> Check:
    """Check by which algorithm TCP decides how fast replicas may send."""
    algorithm = congestion_control()
    if not algorithm.startswith("bbr"):
        return Check("TCP", True, f"congestion control {algorithm or 'unknown'}")
    return Check(
        "TCP",
        None,
        f"congestion control {algorithm}",
        "It spaces packets out, even between processes of one machine: two workers of TensorFlow "
        "made a seventh more batches with cubic. To compare with other machines: sysctl "
        "net.ipv4.tcp_congestion_control=cubic (as root).",
    )


def libraries() -> Check:
    """Check for the system's libraries that MXNet loads and that its wheel does not bring."""
    missing = []
    for name in ("libgomp.so.1", "libquadmath.so.0"):
        try:
            ctypes.CDLL(name)
        except OSError:
            missing.append(name)
    if not missing:
        return Check("system libraries", True, "libgomp, libquadmath")
    return Check(
        "system libraries",
        False,
        f"MXNet cannot load {' and '.join(missing)}",
        "Debian, Ubuntu: apt-get install libgomp1 libquadmath0. "
        "Fedora: dnf install libgomp libquadmath.",
    )


def outputs() -> Check:
    """Check whether runs and notebooks can be written, and the room for them."""
    from labkit.settings import OUTPUTS
    from labkit.settings import outputs as directory

    path = directory()
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free / _GB
    except OSError as error:
        advice = f"Make it writable, or name another directory in the variable {OUTPUTS}."
        return Check("outputs", False, f"{path}: {error.strerror}", advice)
    if free < _DISK_GB:
        advice = (
            f"Data, runs and notebooks take up to {_DISK_GB:g} GB: make room, or name "
            f"another directory in the environment variable {OUTPUTS}."
        )
        return Check("outputs", False, f"{free:.1f} GB free in {path}", advice)
    return Check("outputs", True, f"{free:.1f} GB free in {path}")


def datasets() -> list[Check]:
    """Verify the data sets; a missing one is a note, as labkit fetches it."""
    from labkit.datasets import DATASETS, DataError, verify

    checks = []
    for name in DATASETS:
        try:
            verify(name)
        except DataError as error:
            checks.append(Check(name, None, "not ready", str(error)))
        else:
            checks.append(Check(name, True, "fetched and verified"))
    return checks


def cluster() -> Check:
    """Check whether the cluster of the user's kubeconfig would take trials; none is needed."""
    from labkit.launchers.kubernetes.api import Cluster, ClusterError

    try:
        there = Cluster()
        count = sum(1 for _ in there.list("Job"))
    except ClusterError as error:
        return Check("cluster", None, "none that can be used", str(error))
    found = f"namespace {there.namespace!r} at {there.address}, {count} Jobs of labkit's"
    return Check("cluster", True, found)


def framework(name: str, modules: tuple[str, ...]) -> Check:
    """Import a framework in a process of its own, as it can take that process down.

    Parameters
    ----------
    name : str
        The framework.
    modules : tuple of str
        What to import; the first one tells the version.
    """
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT, *modules],
            env=quiet,
            capture_output=True,
            text=True,
            timeout=IMPORT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return Check(
            name,
            False,
            f"its import did not end in {IMPORT_SECONDS} s",
            "The machine may be out of memory or very busy: see with top, and try again.",
        )
    if done.returncode == 0:
        version, seconds = done.stdout.split()[-2:]
        return Check(name, True, f"{version}, imported in {seconds} s")
    if done.returncode == -signal.SIGILL:
        return Check(
            name,
            False,
            "this processor lacks instructions that it uses",
            "TensorFlow and MXNet need a processor with AVX; some virtual machines hide it.",
        )
    why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return Check(name, False, f"cannot be imported: {why}", "Make the environment: make setup")
