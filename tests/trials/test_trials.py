"""Trials and sweeps: what can be run and what cannot, and that a trial is always the same one."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import datasets
from labkit.errors import LabkitError
from labkit.trials import Sweep, Trial, TrialError
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = pytest.mark.unit

GOOD = {
    "framework": "mxnet",
    "model": "lenet5",
    "workers": 2,
    "batch_size": 128,
    "learning_rate": 0.025,
    "steps": 200,
}


def without(*names, **others):
    return {name: value for name, value in GOOD.items() if name not in names} | others


# --- values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field", "default"),
    [
        ({}, "dataset", "fashion-mnist"),
        ({"model": "lstm"}, "dataset", "ptb"),
        ({}, "strategy", "async-ps"),
        ({"workers": 3}, "servers", 3),
        ({"workers": 3, "servers": 1}, "servers", 1),
        ({"framework": "tensorflow", "workers": 3}, "servers", 1),
        ({"strategy": "single", "workers": 1}, "servers", 0),
        ({"seed": None, "clip_norm": None}, "seed", 1),
        ({}, "threads", 1),
        ({}, "epochs", None),
        ({}, "eval_samples", None),
    ],
)
def test_defaults(values, field, default):
    assert getattr(Trial(**GOOD | values), field) == default


def test_workers_default_to_one():
    trial = Trial(**without("workers"))
    assert (trial.workers, trial.servers) == (1, 1)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        # what is not a field, or not a value
        ({"wrokers": 3}, ["wrokers", "3", "did you mean 'workers'?"]),
        ({"colour": "red"}, ["colour", "'red'", "known: framework, model, dataset,"]),
        ({"framework": "tensorflw"},
         ["framework: 'tensorflw'", "did you mean 'tensorflow'?", "allowed: tensorflow, mxnet"]),
        ({"framework": "MXNet"}, ["framework: 'MXNet'", "did you mean 'mxnet'?"]),
        ({"framework": "theano"}, ["framework: 'theano'", "allowed: tensorflow, mxnet"]),
        ({"framework": ["mxnet"]}, ["framework: ['mxnet']", "allowed: tensorflow, mxnet"]),
        ({"model": "lenet"}, ["'lenet'", "did you mean 'lenet5'?", "allowed: lenet5, lstm"]),
        ({"model": ["lstm"]}, ["model: ['lstm']"]),
        ({"dataset": "fashon-mnist"}, ["did you mean 'fashion-mnist'?"]),
        ({"strategy": "sync-ps"}, ["strategy: 'sync-ps'", "did you mean 'async-ps'?"]),
        ({"initializer": "xaver"}, ["did you mean 'xavier'?", "default, xavier, uniform"]),
        # what is no sensible number
        ({"workers": 0}, ["workers: 0", "1 or more"]),
        ({"workers": -2}, ["workers: -2", "1 or more"]),
        ({"workers": "2"}, ["workers: '2'", "integer"]),
        ({"workers": 2.0}, ["workers: 2.0", "integer"]),
        ({"workers": True}, ["workers: True", "integer"]),
        ({"threads": 0}, ["threads: 0", "1 or more"]),
        ({"batch_size": 0}, ["batch_size: 0", "1 or more"]),
        ({"batch_size": 60_001}, ["batch_size: 60001", "60000", "fashion-mnist", "1 to 60000"]),
        ({"model": "lstm", "batch_size": 30_987}, ["batch_size: 30987", "30986", "ptb"]),
        ({"learning_rate": -0.1}, ["learning_rate: -0.1", "more than 0"]),
        ({"learning_rate": 0}, ["learning_rate: 0", "more than 0"]),
        ({"learning_rate": float("nan")}, ["learning_rate: nan", "finite"]),
        ({"learning_rate": float("inf")}, ["learning_rate: inf", "finite"]),
        ({"learning_rate": "0.1"}, ["learning_rate: '0.1'", "number"]),
        ({"steps": 1}, ["steps: 1", "2 or more"]),
        ({"seed": -1}, ["seed: -1", "0 or more"]),
        ({"seed": 2**31}, [f"seed: {2**31}", f"{2**31 - 1} or less"]),
        ({"clip_norm": 0.0}, ["clip_norm: 0.0", "more than 0"]),
        ({"eval_samples": -1}, ["eval_samples: -1", "0 or more"]),
        # what does not fit together
        ({"dataset": "ptb"}, ["dataset: 'ptb'", "'lenet5'", "fashion-mnist, mnist"]),
        ({"model": "lstm", "dataset": "mnist"}, ["dataset: 'mnist'", "'lstm'", "allowed: ptb"]),
        ({"epochs": 1}, ["epochs, steps", "both are given"]),
        ({"steps": None}, ["epochs, steps", "neither is given"]),
        ({"servers": 0}, ["servers: 0", "'async-ps'", "1 or more"]),
        ({"strategy": "single"}, ["workers: 2", "'single'", "allowed: 1"]),
        ({"strategy": "single", "workers": 1, "servers": 1},
         ["servers: 1", "'single'", "has none", "allowed: 0"]),
        ({"loss_over_time": "sum"}, ["loss_over_time: 'sum'", "'lenet5'", "allowed: 'default'"]),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_one_error(values, says):
    with pytest.raises(TrialError) as caught:
        Trial(**GOOD | values)
    message = str(caught.value)
    for piece in says:
        assert piece in message
    assert len(message.splitlines()) == 2  # the heading, and nothing but the one mistake
    assert isinstance(caught.value, LabkitError)


@pytest.mark.parametrize("field", ["framework", "model", "batch_size", "learning_rate"])
def test_what_must_be_given(field):
    with pytest.raises(TrialError, match=f"\n  {field}: missing; wanted: .*"):
        Trial(**without(field))


def test_all_mistakes_are_named_at_once():
    with pytest.raises(TrialError) as caught:
        Trial(**GOOD | {"framework": "mxnt", "workers": 0, "bacth_size": 1})
    assert len(str(caught.value).splitlines()) == 4


def test_trials_do_not_change():
    trial = Trial(**GOOD)
    with pytest.raises(Exception, match="frozen"):
        trial.workers = 3
    assert trial.replace(workers=3).workers == 3
    assert trial.workers == 2
    with pytest.raises(TrialError, match="workers: 0"):
        trial.replace(workers=0)


def test_steps_and_epochs():
    trial = Trial(**without("steps", epochs=2))
    assert trial.steps_per_epoch == 60_000 // 128 == 468  # without the smaller batch at its end
    assert trial.total_steps == 2 * 468
    assert Trial(**GOOD).total_steps == 200


# --- identity -------------------------------------------------------------------------------

valid = st.fixed_dictionaries(
    {
        "framework": st.sampled_from(["tensorflow", "mxnet"]),
        "model": st.sampled_from(["lenet5", "lstm"]),
        "workers": st.integers(1, 100),
        "batch_size": st.integers(1, 30_000),
        "learning_rate": st.floats(min_value=1e-300, allow_infinity=False),
        "steps": st.integers(2, 10**9),
    },
    optional={
        "servers": st.integers(1, 100),
        "seed": st.integers(0, 2**31 - 1),
        "initializer": st.sampled_from(["default", "xavier", "uniform"]),
        "clip_norm": st.floats(min_value=1e-300, allow_infinity=False),
        "eval_samples": st.integers(0, 10_000),
        "threads": st.integers(1, 64),
    },
)


@given(valid)
def test_a_trial_is_its_values(values):
    trial = Trial(**values)
    for again in (
        Trial(**dict(reversed(values.items()))),
        Trial(**trial.model_dump()),
        Trial.model_validate_json(trial.model_dump_json()),
        pickle.loads(pickle.dumps(trial)),
        trial.replace(),
    ):
        assert again == trial
        assert hash(again) == hash(trial)
        assert again.identity == trial.identity
        assert again.name == trial.name
    assert os.path.basename(trial.name) == trial.name
    assert len(trial.name) < 128


@given(valid, valid)
def test_different_values_are_different_trials(some, others):
    one, other = Trial(**some), Trial(**others)
    same = one.model_dump() == other.model_dump()
    assert (one == other) is (one.identity == other.identity) is (one.name == other.name) is same


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1.0)])
def test_numbers_of_the_same_value_are_the_same(value):
    assert Trial(**GOOD | {"learning_rate": value}) == Trial(**GOOD | {"learning_rate": 1.0})


def test_defaults_given_or_not_are_the_same():
    assert Trial(**GOOD) == Trial(**GOOD, servers=2, seed=1, dataset="fashion-mnist")


def test_digest_does_not_depend_on_the_process_or_its_python():
    # Worked out once; another Python, another release of pydantic, must come to the same.
    digest = "c7e24d2e2d509703a4b6c8f9febd44f15ebc0a04094ca1a07b6c447a7b2e946f"
    trial = Trial(**GOOD)
    assert trial.digest == digest
    assert hash(trial) == int(digest[:15], 16)
    program = (
        f"from labkit.trials import Trial; t = Trial(**{dict(reversed(GOOD.items()))!r});"
        "print(t.digest, hash(t), t.identity, t.name)"
    )
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split() == [digest, str(hash(trial)), trial.identity, trial.name]


def test_identity_covers_trainer_and_data(monkeypatch):
    trial = Trial(**GOOD)
    identities = {trial.identity}
    with monkeypatch.context() as patch:
        patch.setitem(vars(FRAMEWORKS["mxnet"]), "sum", "another trainer")
        identities.add(trial.replace().identity)
    with monkeypatch.context() as patch:
        patch.setattr(datasets, "checksum", lambda name: f"other {name}")
        identities.add(trial.replace().identity)
    assert len(identities) == 3
    assert trial.replace() == trial  # the values are what they were


def test_the_trainers_source_counts(tmp_path, monkeypatch):
    from labkit import trainers

    row = FRAMEWORKS["mxnet"]
    before = row.sum
    for name in ("common.py", row.script.name):
        (tmp_path / name).write_bytes((trainers.HERE / name).read_bytes())
    monkeypatch.setattr(trainers, "HERE", tmp_path)

    def fresh():
        vars(row).pop("sum")
        return row.sum

    assert fresh() == before
    for name in ("common.py", row.script.name):
        with (tmp_path / name).open("a") as file:
            file.write("# changed\n")
        assert fresh() != before
    monkeypatch.undo()
    assert fresh() == before


def test_equality_with_others():
    assert Trial(**GOOD) != GOOD
    assert Trial(**GOOD) != "trial"


# --- sweeps ---------------------------------------------------------------------------------


def test_grid_is_every_combination_repeats_outermost():
    sweep = Sweep.grid(2, **GOOD | {"workers": [1, 2], "framework": ["mxnet", "tensorflow"]})
    assert [(t.seed, t.framework, t.workers) for t in sweep] == [
        (seed, framework, workers)
        for seed in (1, 2)
        for framework in ("mxnet", "tensorflow")
        for workers in (1, 2)
    ]


def test_repeats_go_on_from_the_seed():
    assert [t.seed for t in Sweep.grid(3, **GOOD, seed=7)] == [7, 8, 9]


def test_a_sweep_holds_a_trial_once():
    one, other = Trial(**GOOD), Trial(**GOOD | {"workers": 4})
    both = Sweep([one, other]) + [Trial(**GOOD)]
    assert list(both) == [one, other]
    assert len(both) == 2
    assert both[1] == other
    assert other in both
    assert repr(both) == "Sweep of 2 trials"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"workers": [1, 0]}, "workers: 0"),
        ({"workers": []}, "workers: an empty list"),
        ({"repeats": 0}, "repeats: 0; allowed: a whole number from 1"),
        ({"repeats": 1.5}, "repeats: 1.5"),
        ({"repeats": True}, "repeats: True"),
        ({"repeats": 2, "seed": 2**31 - 1}, f"seed: {2**31}"),
        ({"wokers": [1, 2]}, "did you mean 'workers'"),
    ],
)
def test_what_is_no_sweep(values, says):
    with pytest.raises(TrialError, match=says):
        Sweep.grid(**GOOD | values)


def test_an_empty_sweep():
    with pytest.raises(TrialError, match="at least one trial"):
        Sweep([])
