"""Where labkit finds and leaves things, and the environment variables that say otherwise."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

TEMPLATES = REPOSITORY / "templates"

NOTEBOOKS = REPOSITORY / "notebooks"

REFERENCE = REPOSITORY / "outputs" / "reference"
"""The run that is published with labkit."""

OUTPUTS = "LABKIT_OUTPUTS"
"""Environment variable with another directory than ``outputs``."""

DATA = "LABKIT_DATA"
"""Environment variable with another directory than ``data``."""

CLUSTER = "LABKIT_CLUSTER"
"""Environment variable with another file than ``cluster.toml``."""

WARM = "LABKIT_WARM"
"""Environment variable with a directory of warm processes, shared by the notebooks of a book."""

PROGRESS = "LABKIT_PROGRESS"
"""Environment variable with a file to which progress is appended instead of drawing a bar."""

FIGURES = "LABKIT_FIGURES"
"""Environment variable with the directory in which a notebook of a book keeps its figures."""


def environment(**values: str) -> dict[str, str]:
    """Return this process's environment for one that imports this labkit, with further values."""
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | values


def outputs() -> Path:
    """Return the directory of all that is measured and rendered."""
    return _named(OUTPUTS) or REPOSITORY / "outputs"


def data_directory() -> Path:
    """Return where data lies: ``$LABKIT_DATA``, or ``data`` in the repository."""
    return _named(DATA) or REPOSITORY / "data"


def cluster_file() -> Path | None:
    """Return the file with a cluster's settings that ``$LABKIT_CLUSTER`` names, if it does."""
    return _named(CLUSTER)


def places() -> dict[str, str]:
    """Return the variables with which another process, wherever it runs, has the same places."""
    named = {OUTPUTS: outputs(), DATA: data_directory(), CLUSTER: cluster_file()}
    return {variable: str(path) for variable, path in named.items() if path}


def keep_first(path: Path, text: str) -> str:
    """Write a file as a whole, if nobody has written it before; return what is in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent) as file:
        file.write(text)
        file.flush()
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)
    return path.read_text()


def _named(variable: str) -> Path | None:
    """Return the path in a variable: what is relative is so to where labkit was started."""
    value = os.environ.get(variable)
    return Path(value).expanduser().absolute() if value else None
