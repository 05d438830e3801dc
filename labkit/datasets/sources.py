"""The table of data sets: what each is, and where its files come from."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import LabkitError, nearest
from labkit.settings import REPOSITORY

Progress = Callable[[str, int, "int | None"], None]
"""Called as ``progress(what, done_bytes, total_bytes)``; the total is None where unknown."""


class DataError(LabkitError):
    """A data set is unknown, missing, changed, or cannot be fetched."""


@dataclass(frozen=True)
class File:
    """One file of a data set, as trainers read it.

    Attributes
    ----------
    name : str
        Its name in the data set's directory.
    bytes : int
        Its size.
    sha256 : str
        The hexadecimal SHA-256 of its bytes.
    trained_on : bool
        Trainers read it, so its sum is part of a trial's identity.
    derived : bool
        It is made here from the fetched files.
    """

    name: str
    bytes: int
    sha256: str
    trained_on: bool = False
    derived: bool = False


@dataclass(frozen=True)
class Source:
    """One place that holds the files of a data set.

    Attributes
    ----------
    client : str
        What asks there: http, apt-get, npm or pip.
    address : str
        A package, or a URL in which ``{file}`` stands for a file's name.
    bytes : int
        What is sent for the whole data set.
    member : str
        The name of a file in what comes, with ``{file}`` as above, and ``{part}`` for "train" in
        a name such as ptb.train.txt. It ends in .gz where the file is packed by itself.
    """

    client: str
    address: str
    bytes: int
    member: str

    def __str__(self) -> str:
        return self.address if self.client == "http" else f"{self.client} package {self.address}"


@dataclass(frozen=True)
class Dataset:
    """A data set: its files and where they come from.

    Attributes
    ----------
    name : str
    title : str
        One line for people.
    licence : str
        The licence, and whether the data may be passed on.
    samples : int
        Training samples: images, or for `ptb` sequences of 30 words.
    files : tuple of File
    sources : tuple of Source
        In the order in which they are asked.
    """

    name: str
    title: str
    licence: str
    samples: int
    files: tuple[File, ...]
    sources: tuple[Source, ...]


def read_sources(path: str | Path) -> dict[str, Dataset]:
    """Read a table of data sets such as ``data/sources.toml``.

    Raises
    ------
    DataError
        The table is not there: labkit was not installed from its repository.
    """
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(
            f"{path} is missing: labkit runs from a checkout of its repository; "
            "install it there with: pip install --editable ."
        ) from error
    return {
        name: Dataset(
            name=name,
            title=row["title"],
            licence=row["licence"],
            samples=row["samples"],
            files=tuple(File(**file) for file in row["files"]),
            sources=tuple(Source(**source) for source in row["sources"]),
        )
        for name, row in table.items()
    }


DATASETS: dict[str, Dataset] = read_sources(REPOSITORY / "data" / "sources.toml")


def samples(name: str) -> int:
    """Return the number of training samples: images, or for `ptb` sequences of 30 words.

    Raises
    ------
    DataError
        No data set has this name.
    """
    return find(name).samples


def checksum(name: str) -> str:
    """Return one hexadecimal SHA-256 that stands for all that trainers read of a data set.

    It is the SHA-256 of the lines ``<sum>  <file name>`` (joined by newlines, in the order of
    ``data/sources.toml``) of the files that are trained on.

    Raises
    ------
    DataError
        No data set has this name.
    """
    lines = [f"{file.sha256}  {file.name}" for file in find(name).files if file.trained_on]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def find(name: str) -> Dataset:
    """Return a data set; see `samples` for what is raised."""
    if name in DATASETS:
        return DATASETS[name]
    known = ", ".join(DATASETS)
    raise DataError(f"no data set is called {name!r}{nearest(name, DATASETS)}; known: {known}")
