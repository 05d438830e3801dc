"""Data sets checked, byte for byte, by SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path

from labkit.datasets.sources import DataError, Dataset, File, find
from labkit.settings import data_directory


def verify(name: str, directory: str | Path | None = None) -> None:
    """Check every byte of a data set; change nothing.

    Parameters
    ----------
    name : str
        The data set.
    directory : path, optional
        The data directory; by default `data_directory`.

    Raises
    ------
    DataError
        A file is missing, unreadable, or its SHA-256 is not the expected one. The message names
        the file, for a changed one both sums, and the command that fetches it.
    """
    dataset = find(name)
    for file in dataset.files:
        path = folder_of(dataset, directory) / file.name
        try:
            found = sha256(path)
        except FileNotFoundError as error:
            raise DataError(f"{path} is missing; fetch it with: labkit data") from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        if found != file.sha256:
            raise DataError(
                f"{path} has changed: expected SHA-256 {file.sha256}, found {found}; "
                "fetch it again with: labkit data"
            )


def folder_of(dataset: Dataset, directory: str | Path | None = None) -> Path:
    """Return where a data set's files lie, or will."""
    return Path(directory or data_directory()).absolute() / dataset.name


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def wrong_files(dataset: Dataset, folder: Path) -> list[File]:
    """Return the files of a data set that are missing or changed."""
    return [
        file
        for file in dataset.files
        if not (folder / file.name).exists() or sha256(folder / file.name) != file.sha256
    ]
