"""What is inside a package, an archive or a packed file."""

from __future__ import annotations

import ast
import io
import subprocess
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the members of an archive, name and bytes, one after another.

    The texts of a wheel are those that its modules assign to items of a dictionary: the name is
    ``module:key``. A file that is no archive has one member, itself.
    """
    name = archive.name.removesuffix(".part")
    if name.endswith(".whl"):
        with zipfile.ZipFile(archive) as wheel:
            for module in wheel.namelist():
                if module.endswith(".py"):
                    for key, text in _assigned_texts(wheel.read(module)):
                        yield f"{module}:{key}", io.BytesIO(text.encode())
    elif name.endswith(".tgz"):
        with tarfile.open(archive, "r|gz") as tar:
            yield from _files_of(tar)
    elif name.endswith(".deb"):
        command = ["dpkg-deb", "--fsys-tarfile", archive]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE) as process,
            tarfile.open(fileobj=process.stdout, mode="r|") as tar,
        ):
            yield from _files_of(tar)
    else:
        with archive.open("rb") as stream:
            yield name, stream


def _files_of(tar: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    for member in tar:
        if member.isfile():
            yield member.name, tar.extractfile(member)


def _assigned_texts(module: bytes) -> Iterator[tuple[str, str]]:
    """Yield the key and text of each ``dictionary["key"] = "text"`` in a module's source.

    Each text ends with exactly one newline: one of the texts of PTB is packed with two.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in texts that are not ours to mend
        tree = ast.parse(module)
    for statement in tree.body:
        match statement:
            case ast.Assign(
                targets=[ast.Subscript(slice=ast.Constant(value=str(key)))],
                value=ast.Constant(value=str(text)),
            ):
                yield key, text.rstrip("\n") + "\n"
