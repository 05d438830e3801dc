"""Container images: a framework, pinned, with the data sets in the last layer."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from labkit import datasets
from labkit.errors import LabkitError
from labkit.settings import data_directory
from labkit.trials.frameworks import FRAMEWORKS

TOOLS = ("docker", "podman", "buildah")

PRIVATE = "ptb"
"""The data set that is not ours, nor yours, to pass on."""


class ImageError(LabkitError):
    """An image that cannot be built or pushed."""


def tag(framework: str, public: bool = False) -> str:
    """Return an image's tag: a piece of the checksum of its recipe and of the data.

    Parameters
    ----------
    framework : str
        Whose image.
    public : bool
        Of the one without the data set that may not be passed on.
    """
    digest = hashlib.sha256()
    for path in sorted(FRAMEWORKS[framework].recipe.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    for name in datasets.DATASETS:
        digest.update(datasets.checksum(name).encode())
    return digest.hexdigest()[:12] + "-public" * public


def context(framework: str, directory: Path, public: bool = False) -> None:
    """Lay out what an image is built from.

    Parameters
    ----------
    framework : str
        Whose image.
    directory : Path
        An empty directory.
    public : bool
        Leave out the data set that may not be passed on.

    Raises
    ------
    DataError
        If a data set is missing or has changed.
    """
    shutil.copytree(FRAMEWORKS[framework].recipe, directory, dirs_exist_ok=True)
    for name in datasets.DATASETS:
        if not (public and name == PRIVATE):
            datasets.verify(name)
            home = data_directory() / name
            shutil.copytree(home, directory / "data" / name, ignore=shutil.ignore_patterns(".*"))
    # Pods are another user than the one who builds, whose umask may hide files from all others.
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def build(framework: str, name: str, public: bool = False, extra: Sequence[str] = ()) -> None:
    """Build an image with the first of docker, podman and buildah that works here.

    Parameters
    ----------
    framework : str
        Whose image.
    name : str
        The image's name, with its tag.
    public : bool
        Leave out the data set that may not be passed on.
    extra : sequence of str
        More arguments for the tool, such as proxies.

    Raises
    ------
    ImageError
        If there is no such tool, or it fails.
    """
    tool = find_tool()
    with tempfile.TemporaryDirectory(prefix="labkit-image-") as directory:
        context(framework, Path(directory), public)
        _run([tool, "build", "--tag", name, *extra, directory])


def push(name: str, extra: Sequence[str] = ()) -> None:
    """Push an image to the registry in its name.

    Raises
    ------
    ImageError
        If there is no tool for it, or it fails.
    """
    _run([find_tool(), "push", *extra, name])


def find_tool() -> str:
    """Return the first of docker, podman and buildah that is there and answers.

    Raises
    ------
    ImageError
        If none does.
    """
    seen = []
    for tool in TOOLS:
        if not shutil.which(tool):
            seen.append(f"{tool}: not installed")
            continue
        done = subprocess.run([tool, "info"], capture_output=True, text=True)
        if done.returncode == 0:
            return tool
        seen.append(f"{tool}: {(done.stderr.strip().splitlines() or ['it fails'])[-1]}")
    raise ImageError(
        "images are built by docker, podman or buildah, and none works here:\n  "
        + "\n  ".join(seen)
        + "\nDebian, Ubuntu: apt-get install buildah; Fedora: dnf install podman."
    )


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command)
    if done.returncode:
        raise ImageError(f"{' '.join(command)} left with code {done.returncode}; see above")
