"""A trial of a user's own: a script, its arguments, and how many replicas run it."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from labkit import replicas
from labkit.errors import nearest
from labkit.replicas import function, rates
from labkit.trials.described import Described
from labkit.trials.frameworks import SCRIPTED, Framework
from labkit.trials.trial import Trial

PLACEHOLDERS = (
    "ps_hosts", "worker_hosts", "job_name", "task_index", "workers", "batch_size", "seed", "data",
)  # fmt: skip
"""What may stand between braces in a script's arguments; `labkit.replicas.script` fills it in."""

FIELDS = (*Trial.model_fields, "arguments", "duration", "pattern", "rates", "python", "image")
"""What tells trials of all kinds apart, by the columns of a table of them."""

PASSED_ON = {"framework", "batch_size", "duration", "seed", "threads", "pattern", "rates"}
"""Fields that its replicas find on their command lines as they are."""

KEPT = "script"
"""The folder of a run in which the script and the files beside it are kept."""


class _Fields(Described):
    """What a script's trial consists of, and what may go together in it."""

    TABLES = {"framework": SCRIPTED}

    framework: str = Field(description="which framework's launcher labkit replaces")
    script: str = Field(description="the path of a training script")
    arguments: str = Field("", description="what it finds on its command line")
    workers: int = Field(1, ge=1, description="replicas that train")
    servers: int = Field(ge=0, description="parameter servers, which run the same script")
    batch_size: int | None = Field(None, ge=1, description="samples per step of one worker")
    duration: float | None = Field(None, gt=0, description="seconds of training; default: until "
                                   "the script ends")  # fmt: skip
    seed: int = Field(1, ge=0, le=2**31 - 1, description="{seed} in the arguments")
    threads: int = Field(1, ge=1, description="threads and cores with which each worker computes")
    pattern: str | None = Field(None, description="of the rates that it prints")
    rates: Literal["each", "first", "total"] = Field("each", description="whose they are: each "
        "worker prints its own, or only the first one does, its own or those of all")  # fmt: skip
    python: str | None = Field(None, description="the interpreter")
    function: str | None = Field(None, description="the name of the function that the script "
                                 "calls, if it was made from one")  # fmt: skip
    image: str | None = Field(None, min_length=1, description="that its pods run")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: dict[str, Any]) -> dict[str, Any]:
        values = {name: value for name, value in values.items() if value is not None}
        row, workers = SCRIPTED.get(str(values.get("framework"))), values.get("workers", 1)
        servers = 0
        if row and row.name != "torch" and type(workers) is int:
            servers = row.servers_for(workers)
        return {"servers": servers} | values

    @field_validator("framework")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in SCRIPTED:
            known = ", ".join(SCRIPTED)
            raise ValueError(f"framework: {value!r}{nearest(value, SCRIPTED)}; allowed: {known}")
        return value

    @field_validator("script")
    @classmethod
    def _is_there(cls, value: str) -> str:
        path = Path(value)
        if path.suffix != ".py" or not path.is_file():
            raise ValueError(f"script: {value!r}: there is no such file of Python in {Path.cwd()}")
        return str(path.resolve())

    @field_validator("arguments")
    @classmethod
    def _can_be_read(cls, value: str) -> str:
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ValueError(f"arguments: {value!r}: {error}") from None
        for name in re.findall(r"\{(\w+)\}", value):
            if name not in PLACEHOLDERS and (hint := nearest(name, PLACEHOLDERS)):
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                raise ValueError(f"arguments: {{{name}}}{hint} There are {known}")
        return shlex.join(words)

    @field_validator("pattern")
    @classmethod
    def _finds_a_rate(cls, value: str) -> str:
        try:
            rates.compiled(value)
        except ValueError as error:
            raise ValueError(f"pattern: {error}") from None
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if mistakes := list(self._mistakes()):
            raise ValueError("\n".join(mistakes))
        return self

    def _mistakes(self) -> Iterator[str]:
        if self.servers and self.framework == "torch":
            yield f"servers: {self.servers} with torch, whose scripts have none; allowed: 0"
        if self.batch_size is None and "{batch_size}" in self.arguments:
            yield "batch_size: missing, but {batch_size} is among the arguments"
        try:
            _ = self.sources
        except SyntaxError as error:
            yield f"script: {error.filename}, line {error.lineno}: not Python: {error.msg}"

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """The script and the files beside it that it imports, as they are when first asked for."""
        home = Path(self.script).parent
        found: dict[Path, bytes] = {}
        todo = [Path(self.script)]
        while todo:
            path = todo.pop()
            if path not in found:
                found[path] = path.read_bytes()
                todo += imported(path, found[path], home)
        return {str(path.relative_to(home)): found[path] for path in sorted(found)}


def imported(path: Path, source: bytes, home: Path) -> Iterator[Path]:
    """Yield the files below a folder that a file imports, the packages that they are in as well.

    Folders without ``__init__.py`` are packages, too, which `modulefinder` does not know.
    """
    for node in ast.walk(ast.parse(source, str(path))):
        bases, names = [home], []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names]
            bases = [path.parents[node.level - 1]] if node.level else bases
        for name in names:
            parts = name.split(".")
            for count in range(1, len(parts) + 1):
                module = bases[0].joinpath(*parts[:count])
                for file in (module.with_suffix(".py"), module / "__init__.py"):
                    if file.is_file() and file.is_relative_to(home):
                        yield file


class ScriptTrial(_Fields):
    """A training run by a script of a user's own.

    Parameters
    ----------
    framework : str
        What starts it, as its own launcher would: ``mxnet``, ``tensorflow`` or ``torch``.
    script : str
        The path of the file.
    arguments : str
        What it finds on its command line, as one would type it; placeholders such as
        ``{task_index}`` are filled in.
    workers : int
        Replicas that train.
    servers : int, optional
        Parameter servers, which run the same script; by default as many as the framework's trials
        have, and none of ``torch``.
    batch_size : int, optional
        Samples per step of one worker, if they are always as many.
    duration : float, optional
        Seconds for which all workers train, after which the scripts are ended; by default they
        end by themselves.
    seed : int
        ``{seed}`` in the arguments, by which repeats differ.
    threads : int
        Compute threads and cores of each worker.
    pattern : str, optional
        A regular expression for the rates that it prints, with a group named ``samples`` or
        ``steps`` around the number per second; the usual phrases are known without.
    rates : {"each", "first", "total"}
        Whose rates these are. Each worker prints its own; or only the first one prints, and the
        others are as fast, as where all take each step together; or it prints those of all.
    python : str, optional
        The interpreter; by default labkit's own, in pods the image's ``python3``.
    image : str, optional
        That its pods run; the framework's by default.
    function : str, optional
        The name of the function that the script calls; `labkit.measure` gives it.

    Raises
    ------
    TrialError
        With every mistake in one message.
    """

    # What nobody knows of a script: labkit's own trials say it.
    total_steps = steps_per_epoch = evaluations = metric = property(lambda self: None)
    slowdown = slowdown_spread = cpu = bandwidth = property(lambda self: None)
    lock_step = property(lambda self: False)
    printing = property(lambda self: self.workers if self.rates == "each" else 1)  # the first ones
    datasets = property(lambda self: ())

    @property
    def values(self) -> dict[str, Any]:
        """The values that are not defaults; of the script its name, wherever it lies."""
        return self.model_dump(exclude_defaults=True) | {"script": Path(self.script).name}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the values and the files."""
        values = json.dumps(self.values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{values}\n{self.sums['model']}".encode()).hexdigest()

    @cached_property
    def sums(self) -> dict[str, str]:
        """SHA-256 of what starts it, and of its files; what data it reads nobody knows."""
        return {
            "code": self.runtime.sum,
            "model": replicas.sum_of(self.sources),
            "data": "",
        }

    @property
    def name(self) -> str:
        """A name people can read, unique by a piece of the identity; fit for a directory."""
        batch = f"-b{self.batch_size}" if self.batch_size else ""
        stem = self.function or Path(self.script).stem
        return f"{self.framework}-{stem}-w{self.workers}{batch}-s{self.seed}-{self.identity[:12]}"

    @property
    def runtime(self) -> Framework:
        """The row of the framework, with the interpreter that was asked for."""
        row = SCRIPTED[self.framework]
        if not self.python:
            return row
        found = shutil.which(self.python)  # which a process that stands elsewhere has to find, too
        return replace(row, python=Path(os.path.abspath(found) if found else self.python))

    @property
    def replicas(self) -> dict[str, int]:
        """How many replicas each role has, in the order in which they start."""
        scheduler = int(self.runtime.scheduler and self.servers > 0)
        counts = {"scheduler": scheduler, "server": self.servers, "worker": self.workers}
        return {role: count for role, count in counts.items() if count}

    @property
    def ends_servers(self) -> bool:
        """Whether servers are to be ended with the workers, as those of a stopped script are."""
        return self.duration is not None or not self.runtime.servers_end_themselves

    @property
    def meeting(self) -> dict[str, int]:
        """Further ports that its replicas need: one, where all workers meet before they train."""
        return {"barrier": 1}

    @property
    def file(self) -> Path:
        """The file that its replicas run."""
        return Path(self.script)

    @property
    def files(self) -> dict[str, bytes]:
        """What is to be kept with a run of it."""
        return {f"{KEPT}/{name}": content for name, content in self.sources.items()}

    @property
    def carried(self) -> dict[str, bytes]:
        """What its replicas need where this machine's files are not, `file` first."""
        name = f"{KEPT}/{self.file.name}"
        return {name: self.files[name]} | self.files

    @property
    def columns(self) -> dict[str, Any]:
        """What a table of trials says of it: what runs is the model, the strategy its own."""
        own = self.model_dump(exclude={"script", "function"})
        known = {
            "model": self.function or Path(self.script).name,
            "strategy": "script",
            "arguments": self.arguments or None,
            "rates": None if self.rates == "each" else self.rates,
        }
        return dict.fromkeys(FIELDS) | own | known

    def options(self, file: Path | str, directory: Path | str) -> dict[str, Any]:
        """Return what its replicas find on their command lines.

        Parameters
        ----------
        file : Path or str
            Where the script is.
        directory : Path or str
            Where it runs.
        """
        given = self.model_dump(exclude_none=True, include=PASSED_ON)
        return given | {
            "script": file, "file": list(self.sources), "argument": _words(self),
            "package": self.runtime.package or self.framework, "directory": directory,
        }  # fmt: skip


def _words(trial: ScriptTrial) -> list[str]:
    """Return what the script finds on its command line; a function finds its job there."""
    if not trial.function:
        return shlex.split(trial.arguments)
    fields = {"framework", "workers", "servers", "batch_size", "seed", "threads"}
    return [trial.model_dump_json(include=fields), *function.ARGUMENTS]
