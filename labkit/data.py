"""Data sets: what they are, fetched from where they are published, verified by SHA-256.

The table of data sets is ``data/sources.toml``. Files lie unpacked in
``<data directory>/<data set>/<file>``, where trainers map them into memory, so that all workers
of a machine share one copy. The texts of PTB are encoded once, when fetched, for that reason.
"""

from __future__ import annotations

import ast
import difflib
import fcntl
import gzip
import hashlib
import importlib.util
import io
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import tomllib
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from labkit.errors import LabkitError
from labkit.settings import REPOSITORY, data_directory

if TYPE_CHECKING:
    import numpy as np
    import requests

Progress = Callable[[str, int, "int | None"], None]
"""Called as ``progress(what, done_bytes, total_bytes)``; the total is None where unknown."""

END_OF_SENTENCE = "<eos>"

_ANSWER_SECONDS = 10  # to the first byte of an answer, name look-up and every address included
_CONNECT_SECONDS = 5
_SILENCE_SECONDS = 30
_CONNECTIONS = 5  # how often a download goes on after a cut
_CHUNK = 1 << 16  # bytes
_ELSEWHERE = "name another directory in the environment variable LABKIT_DATA"
_CAUSES = ("E:", "ERROR", "npm error", "npm ERR!")  # how clients begin the lines that say why
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile)


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
        Training samples: images, or for ptb sequences of 30 words.
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
    """Return the number of training samples: images, or for ptb sequences of 30 words.

    Raises
    ------
    DataError
        No data set has this name.
    """
    return _dataset(name).samples


def checksum(name: str) -> str:
    """Return one hexadecimal SHA-256 that stands for all that trainers read of a data set.

    It is the SHA-256 of the lines ``<sum>  <file name>`` (joined by newlines, in the order of
    ``data/sources.toml``) of the files that are trained on.

    Raises
    ------
    DataError
        No data set has this name.
    """
    lines = [f"{file.sha256}  {file.name}" for file in _dataset(name).files if file.trained_on]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


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
    dataset = _dataset(name)
    for file in dataset.files:
        path = _folder(dataset, directory) / file.name
        try:
            found = _sha256(path)
        except FileNotFoundError as error:
            raise DataError(f"{path} is missing; fetch it with: labkit data") from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        if found != file.sha256:
            raise DataError(
                f"{path} has changed: expected SHA-256 {file.sha256}, found {found}; "
                "fetch it again with: labkit data"
            )


def fetch(
    name: str, directory: str | Path | None = None, progress: Progress | None = None
) -> None:
    """Bring a data set to its directory, verified; fetch only what is missing or changed.

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
    dataset = _dataset(name)
    folder = _folder(dataset, directory)
    report = progress or (lambda what, done, total: None)
    try:
        if not _wrong(dataset, folder):
            return
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder, dataset, report):
            wrong = _wrong(dataset, folder)  # less than before where another process was here
            if wrong:
                with _workplace(folder) as work:
                    _Fetch(dataset, wrong, folder, work, report).run()
    except OSError as error:
        raise DataError(
            f"{error.filename or folder} cannot be used: {error.strerror}; "
            f"mend that, or {_ELSEWHERE}"
        ) from error


def vocabulary(text: str) -> list[str]:
    """Return the words of a text by falling count, then alphabetically; a word's id is its place.

    The end of each line is the word ``<eos>``.
    """
    counts = Counter(_words(text))
    return sorted(counts, key=lambda word: (-counts[word], word))


def encode(text: str, words: list[str]) -> np.ndarray:
    """Turn a text into word ids.

    Parameters
    ----------
    text : str
        Words separated by white space; the end of each line is the word ``<eos>``.
    words : list of str
        The vocabulary, in the order of ids. It must hold every word of the text.

    Returns
    -------
    numpy.ndarray
        The ids, shape (number of words,), int32.
    """
    import numpy as np

    ids = {word: number for number, word in enumerate(words)}
    return np.array([ids[word] for word in _words(text)], dtype="<i4")


def _words(text: str) -> list[str]:
    return text.replace("\n", f" {END_OF_SENTENCE} ").split()


def _dataset(name: str) -> Dataset:
    if name in DATASETS:
        return DATASETS[name]
    near = difflib.get_close_matches(name, DATASETS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise DataError(f"no data set is called {name!r}: there are {', '.join(DATASETS)}{hint}")


def _folder(dataset: Dataset, directory: str | Path | None) -> Path:
    return Path(directory or data_directory()).absolute() / dataset.name


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _wrong(dataset: Dataset, folder: Path) -> list[File]:
    """Return the files that are missing or changed."""
    return [
        file
        for file in dataset.files
        if not (folder / file.name).exists() or _sha256(folder / file.name) != file.sha256
    ]


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
def _workplace(folder: Path) -> Iterator[Path]:
    """Give an empty directory for unfinished files, on the same file system as the finished."""
    work = folder / ".work"
    shutil.rmtree(work, ignore_errors=True)  # a killed process may have left it
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


class _Fetch:
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
        self.check_room()
        self.obtain()
        self.derive()
        for part in self.folder.glob("*.part"):  # of a publisher that a package stood in for
            part.unlink()

    def missing(self) -> list[File]:
        """Return the files that a source has to send."""
        return [file for file in self.wrong.values() if not file.derived]

    def check_room(self) -> None:
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
        by_url: dict[str, list[File]] = {}
        for file in self.missing():
            by_url.setdefault(source.address.format(file=file.name), []).append(file)
        for url, files in by_url.items():
            part = self.folder / (url.rpartition("/")[2] + ".part")
            what = f"{self.dataset.name}/{part.stem}"
            resumed = part.exists()
            _download(url, part, what, self.report)
            try:
                self.unpack(part, source, files)
            except DataError:
                part.unlink()
                if not resumed:
                    raise
                # Its beginning may have been of other bytes: once more, from the start.
                _download(url, part, what, self.report)
                self.unpack(part, source, files)
            part.unlink()

    def from_package(self, source: Source) -> None:
        box = Path(tempfile.mkdtemp(dir=self.work))

        def tick() -> None:
            with suppress(FileNotFoundError):  # clients rename their files meanwhile
                came = sum(path.stat().st_size for path in box.iterdir() if path.is_file())
                self.report(f"{self.dataset.name} ({source})", came, source.bytes)

        self.unpack(_download_package(source, box, tick), source, self.missing())

    def unpack(self, archive: Path, source: Source, files: list[File]) -> None:
        """Install these files from an archive."""
        wanted = {
            source.member.format(file=file.name, part=file.name.split(".")[-2:][0]): file
            for file in files
        }
        try:
            for member, stream in _members(archive):
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
        return (self.folder / name).read_text(encoding="utf-8")

    def install(self, stream: IO[bytes], file: File) -> None:
        """Put a file in its place, if its bytes are the right ones."""
        digest = hashlib.sha256()
        new = self.work / file.name
        with new.open("wb") as out:
            while chunk := stream.read(_CHUNK):
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


def _download(url: str, part: Path, what: str, report: Progress) -> None:
    """Bring the bytes of a URL to `part`, going on from what is there, also after cuts."""
    import urllib3

    for _ in range(_CONNECTIONS):
        have = part.stat().st_size if part.exists() else 0
        with _ask(url, have) as response:
            if response.status_code == 416:
                return  # there is no more than what is here; its sum will tell
            if not response.ok:
                raise DataError(f"answers {response.status_code} {response.reason}")
            goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            have = have if goes_on else 0
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else None
            with part.open("ab" if goes_on else "wb") as stream:
                try:
                    # Not decoded, or the sizes would not be those that Range counts in.
                    for chunk in response.raw.stream(_CHUNK, decode_content=False):
                        stream.write(chunk)
                        have += len(chunk)
                        report(what, have, total)
                    return
                except urllib3.exceptions.HTTPError:  # cut, or silent for too long
                    pass
    raise DataError(f"the connection was cut {_CONNECTIONS} times, the last after {have} bytes")


def _ask(url: str, start: int) -> requests.Response:
    """Open a URL from byte `start` on, in bounded time."""
    import requests

    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    answers: queue.SimpleQueue = queue.SimpleQueue()

    def ask() -> None:
        try:
            seconds = (_CONNECT_SECONDS, _SILENCE_SECONDS)
            answers.put(requests.get(url, headers=headers, stream=True, timeout=seconds))
        except requests.RequestException as error:
            answers.put(error)

    # In a thread, for the time-outs of requests hold for each address of a host and not for the
    # look-up of its name: behind a firewall that drops packets they add up to minutes.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=_ANSWER_SECONDS)
    except queue.Empty:
        answer = requests.Timeout()
    if isinstance(answer, requests.Timeout):
        raise DataError("does not answer") from answer
    if isinstance(answer, requests.ConnectionError):
        raise DataError("cannot be reached") from answer
    if isinstance(answer, requests.RequestException):
        raise DataError(str(answer)) from answer
    return answer


def _download_package(source: Source, box: Path, tick: Callable[[], None]) -> Path:
    """Bring a package to the directory `box` with its ordinary client, and return its path.

    Nothing of it is installed or executed: --ignore-scripts, and wheels only, because a source
    distribution would run its own code.
    """
    if source.client == "apt-get":
        try:
            _run(["apt-get", "download", source.address], box, tick)
        except DataError:
            # The system's package lists are missing or old; lists of our own need no root.
            for folder in ("lists/partial", "archives/partial"):
                (box / folder).mkdir(parents=True)
            apt = ["apt-get", "-o", f"Dir::State::lists={box}/lists", "-o", f"Dir::Cache={box}"]
            _run([*apt, "update"], box, tick)
            _run([*apt, "download", source.address], box, tick)
    elif source.client == "npm":
        options = ["--ignore-scripts", "--fetch-retries=1"]
        _run(["npm", "pack", *options, source.address], box, tick)
    elif source.client == "pip":
        pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip"]
        options = ["--no-deps", "--only-binary=:all:", "--retries=1"]
        _run([*pip, "download", *options, source.address], box, tick)
    packages = [path for path in box.iterdir() if path.suffix in (".deb", ".tgz", ".whl")]
    if len(packages) != 1:
        raise DataError(f"{source.client} brought {len(packages)} packages instead of one")
    return packages[0]


def _run(command: list[str], folder: Path, tick: Callable[[], None]) -> None:
    """Run a package client to its end, calling `tick` meanwhile."""
    if shutil.which(command[0]) is None:
        raise DataError(f"the command {command[0]} is not on this machine")
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    ) as process:
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    tick()
            tick()
        except BaseException:
            process.kill()
            process.wait()  # after Ctrl-C, leaving Popen's context would not
            raise
    if process.returncode != 0:
        lines = output.strip().splitlines()
        causes = [line for line in lines if line.startswith(_CAUSES)] or lines[-1:]
        raise DataError(f"`{shlex.join(command)}` failed: {'; '.join(causes[:2])}")


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
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
