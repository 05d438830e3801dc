"""Downloads over HTTP, resumed where they were cut."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.datasets.sources import DataError, Progress

if TYPE_CHECKING:
    import requests

CHUNK = 1 << 16  # bytes

ANSWER_SECONDS = 10
"""To the first byte of an answer, name look-up and every address included."""

CONNECT_SECONDS = 5

SILENCE_SECONDS = 30

CONNECTIONS = 5
"""How often a download is taken up again after a cut."""


def download(url: str, part: Path, what: str, report: Progress) -> None:
    """Download a URL to the file `part`, resuming from what it holds, also after cuts.

    Raises
    ------
    DataError
        The server does not answer, refuses, or cuts the connection too often.
    """
    import urllib3

    for _ in range(CONNECTIONS):
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
    raise DataError(f"the connection was cut {CONNECTIONS} times, the last after {have} bytes")


def _ask(url: str, start: int) -> requests.Response:
    """Open a URL from byte `start` on, in bounded time."""
    import requests

    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    answers: queue.SimpleQueue = queue.SimpleQueue()

    def ask() -> None:
        try:
            seconds = (CONNECT_SECONDS, SILENCE_SECONDS)
            answers.put(requests.get(url, headers=headers, stream=True, timeout=seconds))
        except requests.RequestException as error:
            answers.put(error)

    # In a thread, for the time-outs of requests hold for each address of a host and not for the
    # look-up of its name: behind a firewall that drops packets they add up to minutes.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        answer = requests.Timeout()
    if isinstance(answer, requests.Timeout):
        raise DataError("does not answer") from answer
    if isinstance(answer, requests.ConnectionError):
        raise DataError("cannot be reached") from answer
    if isinstance(answer, requests.RequestException):
        raise DataError(str(answer)) from answer
    return answer
