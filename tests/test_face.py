"""The face: one place to import from, and nothing loaded before it is asked for."""

import subprocess
import sys

import pytest

import labkit

pytestmark = pytest.mark.unit


def modules_after(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_loads_nothing():
    heavy = {"numpy", "pandas", "kubernetes", "pydantic", "matplotlib", "scipy", "psutil"}
    assert not modules_after("import labkit") & heavy
    assert "labkit.errors" not in modules_after("import labkit")


def test_what_describes_a_trial_loads_no_library_that_measures_or_draws():
    loaded = modules_after("from labkit import Trial, Sweep, measure")
    assert not loaded & {"pandas", "kubernetes", "matplotlib", "scipy", "tensorflow", "mxnet"}


@pytest.mark.parametrize("name", labkit.__all__)
def test_every_name_is_there_and_says_what_it_is(name):
    assert getattr(labkit, name).__doc__
    assert name in dir(labkit)


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'measre'"):
        _ = labkit.measre
