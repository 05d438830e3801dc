"""What users add: a framework, a strategy and a model by a file or a row each, and then run."""

import pytest
from extensions import CHANCE, MLP, NUMPY, PERCEPTRON, SOFTMAX, add_framework, add_model

from labkit import Sweep, Trial, measure, speedups, summarise, throughput
from labkit.figures.page import title_of
from labkit.launchers import load

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("datasets", "once")]


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Have the framework, the strategy and the model, and stand where the user's files are."""
    add_framework(tmp_path, monkeypatch)
    add_model(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    # Rates are wanted here, whatever else keeps the machine busy.
    monkeypatch.setattr(load, "is_overloaded", lambda own, other, cores: False)


@pytest.mark.usefixtures("added")
def test_a_framework_a_strategy_and_a_model_of_ones_own(store, tmp_path):
    sweep = Sweep.grid(2, workers=[1, 2], model="softmax", **NUMPY)
    results = measure(sweep, store=store)
    table = results.table
    assert table.status.tolist() == ["finished"] * 4
    for column, value in (("framework", "numpy"), ("strategy", "local-sgd"), ("servers", 0),
                          ("model", "softmax"), ("dataset", "mnist")):  # fmt: skip
        assert set(table[column]) == {value}
    assert (table.accuracy > 5 * CHANCE).all()
    run = store.find(sweep[1])
    assert {path.name for path in run.directory.glob("*.log")} == {"worker-0.log", "worker-1.log"}
    # All that works on tables works on this one.
    rates = summarise(table)
    assert rates.workers.tolist() == [1, 2] and (rates["mean"] > 0).all()
    found = speedups(table)
    assert found.framework.tolist() == ["numpy"] * len(found) and found.speedup[0] == 1
    figure = throughput(results)
    assert "SR" in title_of(figure)
    assert "NumPy" in figure.axes[0].get_legend_handles_labels()[1]
    # It is in the identity, too: what is changed is run anew.
    before = [trial.identity for trial in sweep]
    trainer = tmp_path / "train_numpy.py"
    trainer.write_text(trainer.read_text() + "# changed\n")
    again = Sweep.grid(2, workers=[1, 2], model="softmax", **NUMPY)
    assert not {trial.identity for trial in again} & set(before)
    assert measure(again[:1], store=store).note.startswith("1 trial: 1 run, 0 re-used")


@pytest.mark.usefixtures("added")
def test_the_same_model_from_a_file(store, tmp_path):
    """It learns the same as in the table, and is another trial."""
    (tmp_path / "mine.py").write_text(SOFTMAX)
    sweep = [Trial(workers=2, model=model, **NUMPY) for model in ("softmax", "mine.py")]
    assert sweep[0].identity != sweep[1].identity
    table = measure(sweep, store=store).table
    assert table.model.tolist() == ["softmax", "mine.py"]
    assert table.accuracy[0] == table.accuracy[1]
    assert store.find(sweep[1]).trial.network.source.decode() == SOFTMAX


@pytest.mark.usefixtures("warm")
def test_a_learners_model_in_both_frameworks(store, tmp_path, monkeypatch):
    (tmp_path / "my_mlp.py").write_text(MLP)
    monkeypatch.chdir(tmp_path)
    sweep = Sweep.grid(framework=["mxnet", "tensorflow"], model="my_mlp.py", **PERCEPTRON)
    table = measure(sweep, store=store).table
    assert table.framework.tolist() == ["mxnet", "tensorflow"]
    assert (table.model == "my_mlp.py").all() and (table.dataset == "fashion-mnist").all()
    assert (table.accuracy > 5 * CHANCE).all()
    assert measure(sweep, store=store).note.startswith("2 trials: 0 run, 2 re-used")
