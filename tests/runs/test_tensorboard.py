"""TensorBoard reads what we write."""

import made_runs
import pytest

from labkit.runs import tensorboard

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("values", [{"framework": "tensorflow"}, {"model": "lstm"}])
def test_tensorboard_reads_what_we_write(values, store, tensorboard_scalars):
    trial = made_runs.trial(**values)
    run = made_runs.add(store, trial)
    tensorboard.write(run, run.directory / "tensorboard")
    for index in range(2):
        scalars = tensorboard_scalars(run.directory / "tensorboard" / f"worker-{index}")
        tests = {"lenet5": "accuracy", "lstm": "perplexity"}[trial.model]
        tags = {"train/loss"} | ({"train/accuracy"} if trial.model == "lenet5" else set())
        assert set(scalars) == tags | ({f"test/{tests}"} if index == 0 else set())
        assert [(s.step, s.value) for s in scalars["train/loss"]] == [
            (n, pytest.approx(2 - n / 100)) for n in range(10, 101, 10)
        ]
        apart = [s.wall_time - scalars["train/loss"][0].wall_time for s in scalars["train/loss"]]
        assert apart == pytest.approx([n * (1 + index) for n in range(10)])
    evaluated = tensorboard_scalars(run.directory / "tensorboard" / "worker-0")[f"test/{tests}"]
    assert [(s.step, s.value) for s in evaluated] == [
        (100, {"lenet5": 87.5, "lstm": 321.0}[trial.model])
    ]


def test_what_others_put_there_stays(store, tmp_path):
    runs = [made_runs.add(store, made_runs.trial(seed=seed)) for seed in (1, 2)]
    tensorboard.export(runs, tmp_path / "shown")
    for name in ("mine", "notes-2026"):
        (tmp_path / "shown" / name).mkdir()
    (tmp_path / "shown" / "file").touch()
    tensorboard.export(runs[1:], tmp_path / "shown")
    mine = {"mine", "notes-2026", "file"}
    (there,) = {path.name for path in (tmp_path / "shown").iterdir()} - mine
    assert there.startswith(runs[1].directory.name)
    assert mine < {path.name for path in (tmp_path / "shown").iterdir()}


def test_a_damaged_run_keeps_no_other_from_being_shown(store, tmp_path):
    whole, damaged, shown = (made_runs.add(store, made_runs.trial(seed=n)) for n in (1, 2, 3))
    tensorboard.export([shown], tmp_path / "shown")
    for run in (damaged, shown):
        log = run.directory / "worker-1.log"
        log.write_text(log.read_text()[:-50])
    assert tensorboard.export(store.runs(), tmp_path / "shown") == [damaged]
    there = {path.name.rpartition("-")[0] for path in (tmp_path / "shown").iterdir()}
    assert there == {whole.directory.name, shown.directory.name}
