"""Functions as trials: the same one is the same trial, a changed one another; what cannot be."""

import importlib.util
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import REPOSITORY

from labkit import Sweep
from labkit.replicas.function import ARGUMENTS, Job, call, job
from labkit.trials import ScriptTrial, TrialError
from labkit.trials.function import MOST, trials_of

pytestmark = pytest.mark.unit

TRAIN = """
def train(job):
    import math
    job.report.ready()
    for step in range(10):
        job.report.step(rate * 2, loss=math.exp(-step))
"""


def defined(text=TRAIN, cell="a cell", **names):
    """Return the function that is defined last in a text, as in a notebook's cell."""
    space = {"__name__": "__main__", **names}
    exec(compile(text, cell, "exec"), space)
    return [value for value in space.values() if type(value) is type(defined)][-1]


def trials(function, **values):
    with trials_of(function, "local", **{"framework": "mxnet", "servers": 0} | values) as found:
        for trial in found:
            _ = trial.identity  # from its files, which are there only now
        return list(found)


def identity(*args, **names):
    (trial,) = trials(defined(*args, **names))
    return trial.identity


def refused(function, error=TrialError, **values):
    with pytest.raises(error) as found:
        trials(function, **values)
    return str(found.value)


# --- the same function is the same trial ----------------------------------------------------


@given(
    rate=st.integers(0, 9) | st.text() | st.lists(st.floats(allow_nan=False), max_size=3),
    lines=st.integers(0, 50),
    file=st.text(min_size=1).filter(lambda name: "\0" not in name and name.isprintable()),
)
def test_wherever_a_function_is_defined_it_is_the_same(rate, lines, file):
    assert identity(rate=rate) == identity("\n" * lines + TRAIN, file, rate=rate)


@pytest.mark.parametrize("now", ["", '"""Open', "other = [", "  if", "def other():\n    pass\n"])
def test_where_the_file_has_changed_since_no_other_text_is_taken_for_its_own(now, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("\n" + now)
    assert identity(rate=1) == identity(TRAIN, str(file), rate=1)


@given(st.integers(), st.integers())
def test_another_value_that_it_uses_makes_another_trial(one, other):
    assert (identity(rate=one) == identity(rate=other)) == (one == other)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_another_constant_makes_another_trial(one, other):
    texts = [TRAIN.replace("* 2", f"* {number}") for number in (one, other)]
    assert (identity(texts[0], rate=1) == identity(texts[1], rate=1)) == (one == other)


CLOSURE = """
def make(rate):
    class Model:
        size = 3
        def grow(self):
            return self.size + rate
    def helper(x):
        return [each for each in (x, rate) if each not in {"a", "b", "c"}]
    def train(job, *, power=2):
        return Model().grow(), helper(job), power
    return train

train = make(1)
"""


def test_what_it_closes_over_counts_in_functions_and_classes_too():
    others = [CLOSURE.replace(*change) for change in (
        ("make(1)", "make(2)"), ("power=2", "power=3"), ("size = 3", "size = 4"),
        ("(x, rate)", "(rate, x)"), ('"c"', '"d"'), ("self.size +", "self.size -"),
    )]  # fmt: skip
    assert identity("\n\n" + CLOSURE) == identity(CLOSURE)
    found = {identity(text) for text in (CLOSURE, *others)}
    assert len(found) == 1 + len(others)


def test_a_kernel_that_is_started_anew_finds_the_same():
    """Whatever the order of its sets, the place of its files and what else it has imported."""
    text = CLOSURE + "\nimport xml, numpy as np\n" + TRAIN.replace(
        "job.report.ready()", 'x = xml.dom, xml.sax, np.linalg; k = helps in {"x", "y", "zz"}'
    ) + "\nclass helps:\n    a, b = 1, 2\n"  # fmt: skip
    code = """
import sys
{imports}
sys.path[:0] = ["tests/trials", "tests"]
import test_function
print(test_function.identity({text!r}, rate=3, __file__={file!r}))
"""
    said = set()
    for seed, imports in (
        ("1", "import xml.dom.minidom, xml.sax"), ("2", "import xml.sax, xml.dom.minidom"),
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code.format(imports=imports, text=text, file=f"/{seed}.py")],
            cwd=REPOSITORY, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Have modules of a user's own, which the function below needs in all possible ways."""
    for name in ("one", "two", "three", "four", "five", "unused"):
        (tmp_path / f"mine_{name}.py").write_text("X = 1\ndef f():\n    return X\n")
    (tmp_path / "mine_two.py").write_text("import mine_three\nclass C:\n    pass\n")
    (tmp_path / "mine_package").mkdir()
    (tmp_path / "mine_package/__init__.py").write_text("")
    (tmp_path / "mine_package/part.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("mine_")]:
        del sys.modules[name]


USES = """
import mine_one
import mine_two
from mine_four import f

thing = mine_two.C()

def train(job):
    import mine_five
    from mine_package import part
    mine_one.f(), f(), thing, part
"""


def test_modules_of_ones_own_are_part_of_it_and_installed_ones_are_not(beside):
    (trial,) = trials(defined(USES))
    names = {f"mine_{name}.py" for name in ("one", "two", "three", "four", "five")}
    parts = {"mine_package/__init__.py", "mine_package/part.py"}
    assert set(trial.sources) == {"labkit_function.py"} | names | parts


@pytest.mark.parametrize("file", ["mine_one.py", "mine_three.py", "mine_five.py",
                                  "mine_package/part.py"])  # fmt: skip
def test_a_changed_module_of_ones_own_makes_another_trial(beside, file):
    before = identity(USES)
    assert identity(USES) == before
    (beside / file).write_text((beside / file).read_text() + "Y = 2\n")
    assert identity(USES) != before


def test_a_file_of_ones_own_is_never_written_to(beside):
    """Whatever its name: a kept script of a function, which somebody stands beside, for one."""
    (beside / "labkit_function.py").write_text("mine")
    (trial,) = trials(defined(USES))
    assert (beside / "labkit_function.py").read_text() == "mine"
    assert trial.sources["labkit_function.py"] != b"mine"


def test_nobody_but_its_workers_calls_it_unless_asked(beside):
    with trials_of(defined(rate=1), "local", framework="mxnet", workers=2) as (trial,):
        assert trial.replicas == {"worker": 2}


def test_a_function_of_such_a_module_is_taken_from_it(beside):
    (beside / "mine_jobs.py").write_text("def train(job):\n    pass\n")
    import mine_jobs

    (trial,) = trials(mine_jobs.train)
    assert set(trial.sources) == {"labkit_function.py", "mine_jobs.py"}
    assert trial.columns["model"] == "train"


# --- what its trials are --------------------------------------------------------------------


def test_its_trials_are_those_of_a_script_by_its_name():
    found = trials(defined(rate=1), workers=[1, 2], repeats=2, batch_size=8)
    assert [type(trial) for trial in found] == [ScriptTrial] * 4
    assert [(t.workers, t.seed) for t in found] == [(1, 1), (2, 1), (1, 2), (2, 2)]
    assert {trial.columns["model"] for trial in found} == {"train"}
    assert all(trial.name.startswith("mxnet-train-w") for trial in found)
    assert {trial.columns["arguments"] for trial in found} == {None}


def test_a_lambda_has_a_name_and_needs_no_text_around_it():
    (one,) = trials(lambda job: job.report.ready())
    (two,) = trials(lambda job: job.report.ready(), seed=1, workers=1)
    assert one.columns["model"] == "lambda" and one.identity == two.identity


def test_a_sweep_stays_as_it_is():
    sweep = Sweep.grid(framework="mxnet", model="lenet5", batch_size=8, learning_rate=0.1, steps=2)
    with trials_of(sweep, "kubernetes") as found:
        assert found is sweep


def test_it_is_called_with_its_part_in_the_job():
    (trial,) = trials(defined(rate=1), workers=3, servers=2, batch_size=8, seed=7)
    fields, *rest = trial.options(trial.file, ".")["argument"]
    assert rest == list(ARGUMENTS)
    found = job([fields, "ps", "1", "/data"])
    assert isinstance(found, Job)
    assert (found.role, found.index, found.workers, found.servers) == ("server", 1, 3, 2)
    assert (found.framework, found.batch_size, found.seed, found.threads) == ("mxnet", 8, 7, 1)
    assert found.data == "/data" and found.report.ready() is None
    unknown = json.dumps(json.loads(fields) | {"batch_size": None})
    assert job([unknown, "worker", "0", ""]).batch_size is None


# --- what cannot be -------------------------------------------------------------------------


@pytest.mark.parametrize("thing", ["train.py", 3, None, print, dict, Job])
def test_what_is_no_function_is_a_type_error(thing):
    assert "neither trials, such as a Sweep, nor a function" in refused(thing, TypeError)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def train(): pass", "train(): it must take one argument, the job"),
        ("def train(job, rate): pass", "train(job, rate): it must take one argument"),
        ("async def train(job): pass", "does nothing yet"),
        ("def train(job): yield", "does nothing yet"),
    ],
)
def test_what_cannot_be_called_with_a_job_is_a_type_error(text, words):
    assert words in refused(defined(text), TypeError)


def test_values_beside_a_sweep_are_a_type_error():
    with pytest.raises(TypeError, match="presicion: only of a function"), trials_of(
        [], "local", presicion=0.1
    ):
        pass


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"framework": "mxnt"}, "did you mean 'mxnet'?"),
        ({"framework": None}, "framework: missing"),
        ({"worker": 2}, "worker: no such field (value 2); did you mean 'workers'?"),
        ({"workers": [0, 1]}, "workers: 0; allowed: 1 or more"),
        ({"arguments": "--x"}, "arguments: '--x': only of a script"),
        ({"script": "train.py"}, "script: 'train.py': only of a script"),
        ({"python": "/nowhere/python"}, "cannot be run as Python"),
        ({"python": ["/bin/true"]}, "is Python of no known version"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_said(values, words):
    assert words in refused(defined(rate=1), **values)


def python(folder, version, code=""):
    """Return an interpreter that says to be of a version."""
    file = folder / "python"
    file.write_text(f"#!/bin/sh\necho {version}\nexit {code or 0}\n")
    file.chmod(0o755)
    return str(file)


def test_another_python_is_refused(tmp_path):
    said = refused(defined(rate=1), python=python(tmp_path, "3.6"))
    assert "is Python 3.6, and train was defined in 3." in said and "a script can" in said
    here = "{}.{}".format(*sys.version_info)
    said = refused(defined(rate=1), python=python(tmp_path, here, 1))
    assert "has no module cloudpickle" in said
    assert trials(defined(rate=1), python=python(tmp_path, here))


def test_in_pods_the_interpreter_is_the_images():
    values = {"framework": "mxnet", "python": "/opt/python", "image": "mine:1"}
    with trials_of(defined(rate=1), "kubernetes", **values) as (trial,):
        assert trial.python == "/opt/python"


def test_what_cannot_take_a_function_up_says_so(monkeypatch):
    job = ['{"workers": 1}', "worker", "0", "/data"]
    monkeypatch.setattr(sys, "argv", ["labkit_function.py", *job])
    with pytest.raises(SystemExit, match="train was defined in 3.6: a function cannot be taken"):
        call("train", [], "", (3, 6))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="has no module cloudpickle"):
        call("train", [], "", sys.version_info[:2])


def test_all_that_cannot_be_taken_along_is_named(tmp_path):
    text = """
def helper():
    return lock

def train(job):
    helper(), file, fine, job
"""
    with open(tmp_path / "x", "w+") as file:
        said = refused(defined(text, lock=threading.Lock(), file=file, fine=[1]))
    assert said.splitlines() == [
        "train cannot be taken along to the workers:",
        "  lock: cannot pickle '_thread.lock' object, in helper",
        "  file: cannot pickle 'TextIOWrapper' object",
        "Make in the function what cannot be taken along.",
    ]


def test_what_a_closure_or_a_default_holds_is_named_too():
    text = """
def make(lock):
    def train(job, other={}):
        return lock
    train.__defaults__ = lock,
    return train

train = make(lock)
"""
    said = refused(defined(text, lock=threading.Lock()))
    assert "  lock: cannot pickle" in said and "  other: cannot pickle" in said


def test_large_values_are_refused_by_name():
    images = np.zeros(MOST + 1, np.uint8)
    said = refused(defined("def train(job):\n    images, rate, job", images=images, rate=1))
    assert "uses 16 MiB of values" in said and "images (16.0 MiB)" in said
    assert "Read large data in the function" in said
