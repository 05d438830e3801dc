"""Trials of scripts: what they are, what cannot be, and that a changed script is another one."""

import pytest

from labkit import ScriptTrial, Sweep
from labkit.replicas.environments import placeholders
from labkit.replicas.script import parse
from labkit.trials import Trial, TrialError
from labkit.trials.script import PLACEHOLDERS

pytestmark = pytest.mark.unit


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with a script that imports two files beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import os, numpy\nimport helper\n")
    (tmp_path / "helper.py").write_text("from parts import one\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/__init__.py").write_text("")
    (tmp_path / "parts/one.py").write_text("X = 1\n")
    (tmp_path / "other.py").write_text("")
    return tmp_path


def trial(**values):
    return ScriptTrial(**{"framework": "mxnet", "script": "train.py"} | values)


def test_defaults(here):
    assert trial(workers=3).replicas == {"scheduler": 1, "server": 3, "worker": 3}
    assert trial(workers=3, servers=0).replicas == {"worker": 3}
    assert trial(framework="tensorflow", workers=2).replicas == {"server": 1, "worker": 2}
    assert trial(framework="torch", workers=2).replicas == {"worker": 2}
    assert trial().replace(workers=2).servers == 2
    # What nobody knows of a script is not made up.
    assert trial().total_steps is None and trial().metric is None


def test_files_beside_it_that_it_imports_are_part_of_it(here):
    assert set(trial().sources) == {"train.py", "helper.py", "parts/__init__.py", "parts/one.py"}


def test_folders_without_an_init_are_packages_too(here):
    """A folder may also merely bear the name of something that is installed."""
    (here / "train.py").write_text("import wandb\nfrom utils.data import load\n")
    (here / "wandb").mkdir()
    (here / "utils").mkdir()
    (here / "utils/data.py").write_text("from . import text\nfrom .text import words\n")
    (here / "utils/text.py").write_text("from ..helper import X\nimport train\n")
    assert set(trial().sources) == {"train.py", "utils/data.py", "utils/text.py", "helper.py",
                                    "parts/__init__.py", "parts/one.py"}  # fmt: skip


def test_its_interpreter_is_found_from_wherever_it_is_started(here):
    (here / "python").symlink_to("/bin/sh")
    assert trial(python="./python").runtime.python == here / "python"


@pytest.mark.parametrize("name", ["train.py", "helper.py", "parts/one.py"])
def test_a_changed_file_makes_another_trial(here, name):
    before = trial()
    (here / name).write_text((here / name).read_text() + "\n")
    after = trial()
    assert before != after and before.identity != after.identity and before.name != after.name


def test_what_it_does_not_import_makes_no_other_trial(here):
    before = trial()
    (here / "other.py").write_text("changed")
    assert trial() == before and trial().identity == before.identity


@pytest.mark.parametrize(
    "values",
    [{"arguments": "--steps 5"}, {"workers": 2}, {"servers": 0}, {"seed": 2}, {"batch_size": 8},
     {"pattern": r"(?P<samples>\d+)"}, {"python": "/usr/bin/python3"}, {"image": "mine:1"},
     {"framework": "tensorflow"}],
)  # fmt: skip
def test_every_value_makes_another_trial(here, values):
    assert trial(**values) != trial() and trial(**values).identity != trial().identity


def test_wherever_it_lies_it_is_the_same(here, tmp_path, monkeypatch):
    first = trial()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in first.sources:
        (elsewhere / name).parent.mkdir(exist_ok=True)
        (elsewhere / name).write_bytes((here / name).read_bytes())
    assert trial(script="elsewhere/train.py") == first
    assert trial(arguments="a   'b c'") == trial(arguments="a 'b c'")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"framework": "mxnt"}, ["framework: 'mxnt'; did you mean 'mxnet'?", "torch"]),
        ({"script": "trian.py"}, ["script: 'trian.py'", "no such file"]),
        ({"script": "parts"}, ["script: 'parts'"]),
        ({"framework": "torch", "servers": 1}, ["servers: 1 with torch", "allowed: 0"]),
        ({"workers": 0}, ["workers: 0; allowed: 1 or more"]),
        ({"pattern": "speed"}, ["pattern: 'speed'", "samples or steps"]),
        ({"arguments": "'"}, ["arguments", "No closing quotation"]),
        ({"arguments": "{job_nam}"}, ["{job_nam}; did you mean 'job_name'?"]),
        ({"arguments": "{batch_size}"}, ["batch_size: missing"]),
        ({"learning_rate": 0.1}, ["learning_rate: no such field"]),
        ({"framework": "x", "workers": 0}, ["framework: 'x'", "workers: 0"]),  # both at once
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(here, values, words):
    with pytest.raises(TrialError) as error:
        trial(**values)
    for word in words:
        assert word in str(error.value)


def test_a_script_that_is_not_python_is_named_with_its_line(here):
    (here / "helper.py").write_text("x = 1\ny = = 2\n")
    with pytest.raises(TrialError, match=r"helper\.py, line 2: not Python"):
        trial()


def test_braces_of_something_else_are_left_alone(here):
    found = trial(arguments="""'{"a": 1}' {x}""").options("f", ".")["argument"]
    assert found == ['{"a": 1}', "{x}"]


def test_a_grid_of_scripts(here):
    sweep = Sweep.grid(2, script="train.py", framework="mxnet", workers=[1, 2])
    assert [type(each) for each in sweep] == [ScriptTrial] * 4
    assert [(each.workers, each.seed) for each in sweep] == [(1, 1), (2, 1), (1, 2), (2, 2)]
    assert sweep.axes.keys() == {"workers", "servers", "seed"} or "workers" in sweep.axes


def test_tables_tell_it_from_a_model_of_the_same_file(here):
    columns = trial().columns
    assert columns["model"] == "train.py" and columns["strategy"] == "script"
    assert Trial.model_fields.keys() <= columns.keys()


def test_all_placeholders_are_filled_in(here):
    args = parse(["--framework=mxnet", "--script=train.py"])
    assert set(placeholders(args)) == set(PLACEHOLDERS)
