"""Downloads: from a publisher over HTTP, or as a package with its ordinary client."""

from __future__ import annotations

import importlib.util
import os
import queue
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.datasets.sources import DataError, Progress, Source

if TYPE_CHECKING:
    import requests

_ANSWER_SECONDS = 10  # to the first byte of an answer, name look-up and every address included


_CONNECT_SECONDS = 5


_SILENCE_SECONDS = 30


CHUNK = 1 << 16  # bytes
_CONNECTIONS = 5  # how often a download goes on after a cut


_CAUSES = ("E:", "ERROR", "npm error", "npm ERR!")  # how clients begin the lines that say why


def download(url: str, part: Path, what: str, report: Progress) -> None:
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
                    for chunk in response.raw.stream(CHUNK, decode_content=False):
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


def download_package(source: Source, box: Path, tick: Callable[[], None]) -> Path:
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
