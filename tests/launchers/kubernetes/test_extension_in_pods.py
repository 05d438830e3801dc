"""What users add runs in pods as it does locally: nothing of it is in an image."""

import numpy as np
import pytest
from extensions import (
    CHANCE,
    LINEAR,
    MLP,
    NUMPY,
    OWN,
    PERCEPTRON,
    READ,
    SOFTMAX,
    add_framework,
    add_model,
)

from labkit import Sweep, measure, summarise
from labkit.campaign import SweepFailed

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture
def added(namespace, tmp_path, monkeypatch):
    """Have the framework, the strategy and the model; MXNet's image has all that they need."""
    add_framework(tmp_path, monkeypatch)
    add_model(tmp_path, monkeypatch)
    (tmp_path / "mine.py").write_text(SOFTMAX)
    monkeypatch.chdir(tmp_path)
    namespace.configure(image="localhost/labkit-mxnet:{tag}")


@pytest.mark.usefixtures("added", "datasets", "once")
def test_a_framework_a_strategy_and_a_model_of_ones_own(store):
    sweep = Sweep.grid(workers=2, model=["softmax", "mine.py"], **NUMPY)
    there = measure(sweep, "kubernetes", store=store)
    here = measure(sweep, store=store)
    assert there.table.status.tolist() == ["finished"] * 2
    assert set(there.table.framework) == {"numpy"} and set(there.table.strategy) == {"local-sgd"}
    assert there.table.model.tolist() == ["softmax", "mine.py"]
    assert (there.table.accuracy > 5 * CHANCE).all()
    assert there.table.accuracy.tolist() == pytest.approx(here.table.accuracy.tolist(), rel=1e-2)
    assert summarise(there.table, "accuracy").launcher.unique().tolist() == ["kubernetes"]


@pytest.mark.usefixtures("namespace", "once")
def test_a_learners_model(store, tmp_path, monkeypatch):
    (tmp_path / "my_mlp.py").write_text(MLP)
    monkeypatch.chdir(tmp_path)
    sweep = Sweep.grid(framework="tensorflow", model="my_mlp.py", **PERCEPTRON)
    table = measure(sweep, "kubernetes", store=store).table
    assert table.status.tolist() == ["finished"] and table.model.tolist() == ["my_mlp.py"]
    assert (table.accuracy > 5 * CHANCE).all()


@pytest.mark.usefixtures("namespace", "once")
def test_data_that_a_models_file_makes(store, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    sweep = Sweep.grid(framework=["mxnet", "tensorflow"], model="mine.py", **LINEAR)
    table = measure(sweep, "kubernetes", store=store).table
    assert table.status.tolist() == ["finished"] * 2
    assert set(table.dataset) == {sweep[0].dataset} and (table.accuracy > 90).all()


@pytest.mark.usefixtures("namespace", "once")
def test_data_that_is_not_in_the_pods(store, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(READ)
    monkeypatch.chdir(tmp_path)
    for name in ("x", "test_x"):
        np.save(tmp_path / f"{name}.npy", np.ones((40, 8)))
    for name in ("y", "test_y"):
        np.save(tmp_path / f"{name}.npy", np.arange(40) % 3)
    sweep = Sweep.grid(framework="mxnet", model="mine.py", **LINEAR)
    said = r"load\(\) failed in line 11: FileNotFoundError.*'/labkit/x.npy'.*returned own-40-"
    with pytest.raises(SweepFailed, match=said):
        measure(sweep, "kubernetes", store=store)
