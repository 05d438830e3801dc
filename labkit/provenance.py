"""Where a number comes from: the code's revision and the machine."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import platform
import secrets
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import platformdirs
import psutil

from labkit.errors import LabkitError
from labkit.replicas import cores
from labkit.replicas.machine import congestion_control
from labkit.settings import REPOSITORY, keep_first
from labkit.trials.frameworks import FRAMEWORKS, Framework

_VERSIONS = """
import json, platform, sys
from importlib import metadata

versions = {"python": platform.python_version()}
for name, packages in json.loads(sys.argv[1]).items():
    for package in packages:
        try:
            versions.setdefault(name, metadata.version(package))
        except metadata.PackageNotFoundError:
            pass
print(json.dumps(versions))
"""


def machine() -> dict[str, Any]:
    """Return the `hardware` and TCP's congestion control, which may change while this lives."""
    return hardware() | {"congestion_control": congestion_control()}


@functools.cache
def hardware() -> dict[str, Any]:
    """Return host, processor, cores that workers can have, memory in bytes, and system."""
    return {
        "host": host(),
        "cpu_model": _cpu_model(),
        "cores": cores.usable(),
        "memory": psutil.virtual_memory().total,
        "system": platform.platform(),
    }


@functools.cache
def host() -> str:
    """Return this machine's name, with six hexadecimal digits that tell it from its namesakes.

    Machines made from one image have the same name, processor and even ``/etc/machine-id``, and
    may differ in speed. The digits are drawn once, and kept in the user's state directory; where
    nothing can be kept there, the name is all.
    """
    kept = platformdirs.user_state_path("labkit") / "machine"
    try:
        digits = kept.read_text() if kept.exists() else keep_first(kept, secrets.token_hex(3))
    except OSError:
        return platform.node()
    return f"{platform.node()}-{digits}"


def cluster_host(address: str) -> str:
    """Return what tells a cluster from others: its address, if this leads elsewhere.

    A loopback address is that of another cluster on each machine.
    """
    name = urlsplit(address).hostname or ""
    loopback = name == "localhost"
    with contextlib.suppress(ValueError):  # it is a name
        loopback = ipaddress.ip_address(name).is_loopback
    return f"{address} on {host()}" if loopback else address


@functools.cache
def versions(row: Framework) -> dict[str, str]:
    """Return what a framework's replicas would run on here: of Python, numpy and the framework.

    It is asked of the environment, without an import; what cannot be found out is left out.
    """
    packages = {"numpy": ["numpy"], row.name: [*filter(None, [row.package]), row.name]}
    try:
        told = subprocess.run(
            [row.python, "-c", _VERSIONS, json.dumps(packages)],
            capture_output=True, text=True, check=True, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    return json.loads(told.stdout)


_IMPORTABLE = """
import importlib.util, sys

print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])
"""


@functools.cache
def check(row: Framework) -> None:
    """Make sure that a framework is there, for the interpreter that its replicas run on.

    Raises
    ------
    LabkitError
        If it is not, or if there is no such interpreter.
    """
    try:
        told = subprocess.run(
            [row.python, "-c", _IMPORTABLE, *row.modules],
            cwd="/", capture_output=True, text=True, check=True, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise LabkitError(f"{row.python}: cannot be run as Python: {error}") from None
    if missing := told.stdout.split():
        own = row in FRAMEWORKS.values()
        advice = "--python names another interpreter for a script"
        advice = "`labkit doctor` says what is missing" if own else advice
        raise LabkitError(
            f"{row.python} has no module {', '.join(missing)}, which {row.title} needs; {advice}"
        )


@functools.cache
def revision() -> str:
    """Return the checkout's git commit, with ``+`` if files differ from it, or ``unknown``.

    What is published there comes from runs, and decides none.
    """
    changed = ["status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)outputs"]
    try:
        commit, differs = (
            subprocess.run(
                ["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=True,
                timeout=30,
            ).stdout.strip()
            for words in (["describe", "--always", "--abbrev=12"], changed)
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}+" if differs else commit


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
