"""Be a script that is a function of a user's own, as `labkit.trials.function` has packed it."""

import base64
import importlib.util
import json
import linecache
import pickle
import sys
import traceback
from typing import Any, NamedTuple, Optional

from labkit import report

ARGUMENTS = ("{job_name}", "{task_index}", "{data}")
"""Of the script, behind the fields of its trial as JSON; filled in as those of any script."""


OTHER_VERSION = (
    "{} is Python {}, and {} was defined in {}: a function cannot be taken along to another "
    "version; a script can"
)
"""Said of an interpreter, its version, a function, and the version where that was defined."""

NO_CLOUDPICKLE = "{} has no module cloudpickle, which takes functions along"


class Job(NamedTuple):
    """What a function is called with: its part in the job.

    Attributes
    ----------
    role : str
        ``worker``, ``server`` or ``scheduler``; functions of most jobs are workers only.
    index : int
        Of this replica in its role, from 0.
    workers, servers : int
        How many there are.
    framework : str
        Of the trial.
    batch_size : int or None
        Of the trial, if it was given.
    seed, threads : int
        Of the trial; repeats differ in their seed.
    data : str
        The folder of labkit's data sets.
    report : module
        `labkit.report`, with ``ready()``, ``step(samples, loss=None)`` and ``evaluation()``.
    """

    role: str
    index: int
    workers: int
    servers: int
    framework: str
    batch_size: Optional[int]
    seed: int
    threads: int
    data: str
    report: Any


def job(arguments):
    """Return what a function is called with, from the command line of its script."""
    fields, name, index, data = arguments
    role = "server" if name == "ps" else name
    return Job(role=role, index=int(index), data=data, report=report, **json.loads(fields))


def call(name, source, pickled, version):
    """Call a function; what it returns counts for nothing.

    Parameters
    ----------
    name : str
        Of the function: as a file it is called ``<name>``.
    source : list of str
        Its lines, for tracebacks.
    pickled : str
        In base 85.
    version : tuple of int
        Major and minor, of the Python that has pickled it.

    Raises
    ------
    SystemExit
        If this Python cannot take it up; it says why.
    """
    if sys.version_info[:2] != version:
        here, defined = ("{}.{}".format(*each) for each in (sys.version_info, version))
        sys.exit(OTHER_VERSION.format(sys.executable, here, name, defined))
    if not importlib.util.find_spec("cloudpickle"):
        sys.exit(NO_CLOUDPICKLE.format(sys.executable))
    own = job(sys.argv[1:])
    # What is not in a file is found by this module's way of printing alone.
    sys.excepthook = lambda *error: traceback.print_exception(*error)
    file = f"<{name}>"
    linecache.cache[file] = (sum(map(len, source)), None, source, file)
    pickle.loads(base64.b85decode(pickled))(own)
