"""The three kinds of tests: every test is marked as one of them, and each kind's time is reported.

``unit`` tests compute in this process, on made-up runs, and import no framework. ``process`` tests
start what labkit starts: trials, notebooks, package clients, set-up. ``cluster`` tests need a
Kubernetes cluster; without one they are left out, in one line instead of a skip for each.
"""

import os
import sys
from collections import Counter

import pytest

from labkit.trials.frameworks import FRAMEWORKS

KINDS = ("unit", "process", "cluster")

ADMIN = "LABKIT_TEST_CLUSTER"
"""Environment variable with the kubeconfig of an administrator of a cluster for tests."""

HOW = f"{ADMIN}=/path/to/admin.kubeconfig make test (docs/kubernetes.md)"

LEFT_OUT = pytest.StashKey[int]()


def kind_of(item):
    """Return the kind of a test, None if it has no mark of one or several."""
    marks = {mark.name for mark in item.iter_markers() if mark.name in KINDS}
    return marks.pop() if len(marks) == 1 else None


@pytest.hookimpl(trylast=True)  # after -m and -k have chosen
def pytest_collection_modifyitems(config, items):
    """Refuse tests of no kind; leave out what needs a cluster where there is none."""
    kinds = {item: kind_of(item) for item in items}
    if unknown := dict.fromkeys(item.location[0] for item in items if not kinds[item]):
        raise pytest.UsageError(
            f"each test needs exactly one mark of {', '.join(KINDS)}; some have none or several "
            f"in {', '.join(unknown)}"
        )
    config.stash[LEFT_OUT] = 0
    if os.environ.get(ADMIN):
        return
    left_out = [item for item in items if kinds[item] == "cluster"]
    if left_out and os.environ.get("CI") == "true":
        raise pytest.UsageError(
            f"{len(left_out)} tests need a cluster, which continuous integration must have: {HOW}"
        )
    config.stash[LEFT_OUT] = len(left_out)
    items[:] = [item for item in items if kinds[item] != "cluster"]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Keep frameworks out of unit tests: to import one is an ImportError there."""
    with pytest.MonkeyPatch.context() as patch:
        if kind_of(item) == "unit":
            for framework in FRAMEWORKS.values():
                for module in framework.modules:
                    patch.setitem(sys.modules, module, None)
        return (yield)


class Times:
    """Adds up what each kind of tests takes, wherever the tests run, and says it in one line."""

    def __init__(self):
        self.tests, self.seconds = Counter(), Counter()

    def pytest_runtest_logreport(self, report):
        """Take a test's set-up, call or clean-up; a fixture's time is the test's that needs it."""
        for kind in KINDS:
            if kind in report.keywords:
                self.seconds[kind] += report.duration
                self.tests[kind] += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter, config):
        """Say how long each kind took, and what was left out."""
        parts = [f"{k} {self.tests[k]} tests in {self.seconds[k]:.0f} s" for k in self.tests]
        left_out = config.stash.get(LEFT_OUT, 0)
        if left_out:
            parts.append(f"cluster {left_out} tests left out: {HOW} runs them")
        if parts:
            terminalreporter.write_line(", ".join(parts))


def pytest_configure(config):
    """Listen to what becomes of the tests."""
    config.pluginmanager.register(Times())
