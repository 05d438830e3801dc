"""The event protocol."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import socket
import time
import traceback
from typing import Any

import numpy as np

PREFIX = "@labkit "
"""Begins every event line, so that no print of a framework can be mistaken for one."""


class Events:
    """Writes a replica's events: one JSON line each, numbered from 0 without gaps."""

    def __init__(self, role: str, index: int) -> None:
        self._who = {"role": role, "index": index}
        self._seq = 0

    def __call__(self, kind: str, **fields: Any) -> float:
        """Write one event and return its time in monotonic seconds.

        Beside it goes the CPU time, in seconds, that this process has used so far.
        """
        now = time.monotonic()
        cpu = round(time.process_time(), 4)
        event = {"seq": self._seq, "t": round(now, 6), **self._who, "kind": kind, "cpu": cpu}
        event |= fields
        self._seq += 1
        # One write a line: it cannot be torn by what a framework's threads print meanwhile.
        line = f"{PREFIX}{json.dumps(event)}\n".encode()
        if os.write(1, line) != len(line):
            raise OSError("an event line could not be written whole: is the disk full?")
        return now

    def start(self, args: argparse.Namespace, versions: dict[str, str], data_sum: str) -> None:
        """Say who this is, and on what it runs."""
        self(
            "start",
            trial=args.trial,
            data=data_sum,
            pid=os.getpid(),
            host=socket.gethostname(),
            cpus=len(os.sched_getaffinity(0)),
            threads=args.threads,
            versions={
                "python": platform.python_version(),
                "numpy": np.__version__,
                **versions,
            },
        )

    def end(self, **totals: Any) -> None:
        """Close the sequence: this replica has done all it had to do."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self("end", peak_bytes=peak, **totals)

    def error(self, error: BaseException) -> None:
        """Close the sequence: this replica has failed."""
        self(
            "error",
            type=type(error).__name__,
            message=str(error),
            traceback="".join(traceback.format_exception(error)),
        )
