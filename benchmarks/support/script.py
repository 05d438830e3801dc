"""A benchmark as a script: its options, and the lines that say where its figures come from."""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from pathlib import Path

from labkit import campaign, provenance
from labkit.analysis.intervals import interval
from labkit.launchers.local.warm import Program, WarmProcesses
from labkit.settings import PROGRESS, WARM
from labkit.trials.frameworks import FRAMEWORKS

QUICK_MODEL = {"tensorflow": "lenet5", "mxnet": "lstm"}
"""What a quick form trains: both models and both frameworks, but not each with each."""


def options(doc):
    """Return a parser of a benchmark's options, to which it may add its own."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true",
        help="a short form that shows that the benchmark works; what depends on the machine's "
        "speed is printed and not judged",
    )  # fmt: skip
    return parser


def parse(parser):
    """Parse the command line; keep a log free of progress, and the quick form short."""
    args = parser.parse_args()
    if not sys.stderr.isatty():
        os.environ.setdefault(PROGRESS, os.devnull)
    if args.quick:
        campaign.OVERLOAD_RETRIES = 0
    return args


def cases(args, models):
    """Yield the frameworks and models that `--only` names, or all; of a quick form one each."""
    for framework in FRAMEWORKS:
        quick = f"{framework}-{QUICK_MODEL[framework]}" if args.quick else ""
        for model in models:
            if (args.only or quick) in ("", f"{framework}-{model}"):
                yield framework, model


def print_machine():
    """Print the machine and the revision that are measured."""
    here = provenance.machine()
    print(f"{here['cpu_model']}, {here['cores']} cores, revision {provenance.revision()}")


def median_of(ratios):
    """Return the median of some ratios and the 95 % interval of their mean as text."""
    text = f"{statistics.median(ratios):.3f}"
    if len(ratios) > 1:
        spread = interval(ratios)
        text += f" ({spread.low:.3f} to {spread.high:.3f})"
    return text


@contextlib.contextmanager
def warm_processes():
    """Import each framework once for all trials of a benchmark."""
    with tempfile.TemporaryDirectory(prefix="labkit-") as directory:
        os.environ[WARM] = directory
        try:
            with WarmProcesses(Path(directory)) as warm:
                for framework in FRAMEWORKS.values():
                    warm.connect(Program.trainer(framework), 1).close()
                yield
        finally:
            del os.environ[WARM]
