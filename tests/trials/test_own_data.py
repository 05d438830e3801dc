"""Trials of models that load data of their own: it is a part of what they are."""

import numpy as np
import pytest
from extensions import OWN, READ

from labkit import Sweep
from labkit.trials import Trial, TrialError, own_data

VALUES = {"framework": "mxnet", "batch_size": 10, "learning_rate": 0.1, "epochs": 2}

NAME = "own-500-0123456789abcdef"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with a model's file, ``mine.py``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    return tmp_path


@pytest.fixture
def loads(monkeypatch):
    """Return the files that were asked for their data, which nobody loads."""
    asked = []
    monkeypatch.setattr(own_data, "_named", lambda file: asked.append(file.name) or NAME)
    return asked


@pytest.mark.unit
def test_its_data_is_its_dataset(here, loads):
    trial = Trial(model="mine.py", **VALUES)
    assert trial.dataset == NAME and trial.datasets == ()
    assert trial.sums["data"] == "0123456789abcdef"
    assert (trial.steps_per_epoch, trial.total_steps, trial.evaluations) == (50, 100, 2)
    other = trial.replace(dataset=NAME.replace("0", "1"))
    assert other != trial and other.identity != trial.identity
    # A kept run's values are enough: its data may be gone.
    assert Trial(**trial.model_dump()) == trial and loads == ["mine.py"]


@pytest.mark.unit
def test_it_is_loaded_once_for_a_sweep_and_anew_for_the_next(here, loads):
    grid = {"model": "mine.py", "workers": [1, 2], "repeats": 3}
    assert {trial.dataset for trial in Sweep.grid(**VALUES, **grid)} == {NAME}
    assert loads == ["mine.py"]
    (trial, *_) = Sweep.grid(**VALUES, **grid)
    assert loads == ["mine.py"] * 2
    assert trial.replace(seed=7).dataset == NAME and len(loads) == 2
    (here / "yours.py").write_text(OWN)
    trial.replace(model="yours.py")
    assert loads[2:] == ["yours.py"]


@pytest.mark.unit
@pytest.mark.parametrize(("values", "says"), [
    ({"batch_size": 501}, f"501 is more than the 500 training samples of {NAME}; allowed: 1 to 5"),
    ({"dataset": "mnist"}, "dataset: 'mnist', but model 'mine.py' loads its own; leave it out"),
    ({"dataset": "own"}, "dataset: 'own'; allowed: "),
    ({"model": "lenet5", "dataset": NAME}, f"'{NAME}' is nothing for model 'lenet5'; allowed: f"),
])  # fmt: skip
def test_what_does_not_go_together(values, says, here, loads):
    with pytest.raises(TrialError, match=says):
        Trial(**{"model": "mine.py"} | VALUES | values)


@pytest.mark.unit
@pytest.mark.parametrize(("old", "new", "says"), [
    ("METRIC =", 'DATASETS = ("mnist",)\nMETRIC =', "DATASETS and a function load: .*give one"),
    ("def load(folder)", "def load()", r"load takes one argument.*def load\(folder\)"),
    ("def load(folder)", "def lode(folder)", r"DATASETS is None.*or instead a function load\("),
])  # fmt: skip
def test_what_is_wrong_in_a_file_before_it_is_run(old, new, says, here, loads):
    (here / "mine.py").write_text(OWN.replace(old, new))
    with pytest.raises(TrialError, match=says):
        Trial(model="mine.py", **VALUES)
    assert not loads


@pytest.mark.process
def test_its_name_follows_the_content(here):
    first = Trial(model="mine.py", **VALUES)
    assert own_data.is_name(first.dataset) and own_data.samples(first.dataset) == 500
    assert Trial(model="mine.py", **VALUES).identity == first.identity
    (here / "mine.py").write_text(OWN.replace("RandomState(1)", "RandomState(2)"))
    assert Trial(model="mine.py", **VALUES).dataset != first.dataset


@pytest.mark.process
def test_a_file_beside_it(here, monkeypatch):
    """Found wherever the caller stands; if it changes, the trial is another."""
    (here / "mine.py").write_text(READ)
    with pytest.raises(TrialError, match=r"mine\.py: load\(\) failed in line \d+: FileNotFound"):
        Trial(model="mine.py", **VALUES)
    for name, count in (("x", 30), ("test_x", 20)):
        np.save(here / f"{name}.npy", np.ones((count, 8)))
    for name, count in (("y", 30), ("test_y", 20)):
        np.save(here / f"{name}.npy", np.zeros(count, int))
    monkeypatch.chdir("/")
    trial = Trial(model=str(here / "mine.py"), **VALUES)
    assert trial.dataset.startswith("own-30-")
    np.save(here / "x.npy", np.full((30, 8), 2.0))
    assert Trial(model=str(here / "mine.py"), **VALUES).identity != trial.identity


@pytest.mark.process
@pytest.mark.parametrize(("statement", "says"), [
    ("import os; os._exit(3)", r"load\(\) ended its process \(3\): it said nothing"),
    ("import time; time.sleep(60)", r"load\(\) takes more than 0.1 s"),
    ("import beside", "ModuleNotFoundError: No module named 'beside'"),
    ("return 1", "returned int; wanted four arrays: train inputs, train labels, test "),
])  # fmt: skip
def test_what_load_does_is_done_in_a_process_of_its_own(statement, says, here, monkeypatch):
    if "sleep" in statement:
        monkeypatch.setattr(own_data, "PATIENCE", 0.1)
    (here / "beside.py").touch()
    (here / "mine.py").write_text(OWN.replace("    random =", f"    {statement}\n    random ="))
    with pytest.raises(TrialError, match=says):
        Trial(model="mine.py", **VALUES)
