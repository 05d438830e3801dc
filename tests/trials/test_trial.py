"""Trials: what can be run and what cannot, and that a trial is always the same one."""

import dataclasses
import inspect
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import datasets, replicas
from labkit.errors import LabkitError
from labkit.trials import Trial, TrialError
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS, Model

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
        ({"strategy": "asynch-ps"}, ["strategy: 'asynch-ps'", "did you mean 'async-ps'?"]),
        ({"strategy": "sync"}, ["strategy: 'sync'", "did you mean 'sync-ps'?"]),
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
        ({"slowdown": 10.0, "cpu": 1.0}, ["cpu: 1.0", "less than 1"]),
        ({"slowdown": 10.0, "cpu": 0.0}, ["cpu: 0.0", "more than 0"]),
        # what does not fit together
        ({"dataset": "ptb"}, ["dataset: 'ptb'", "'lenet5'", "fashion-mnist, mnist"]),
        ({"model": "lstm", "dataset": "mnist"}, ["dataset: 'mnist'", "'lstm'", "allowed: ptb"]),
        ({"epochs": 1}, ["epochs, steps", "both are given"]),
        ({"steps": None}, ["epochs, steps", "neither is given"]),
        ({"servers": 0}, ["servers: 0", "'async-ps'", "1 or more"]),
        ({"cpu": 0.5}, ["cpu: 0.5 of no slowdown", "give both"]),
        ({"slowdown": 10.0, "cpu": 0.09}, ["cpu: 0.09 is too little", "allowed: 0.1 or more"]),
        ({"slowdown": 10.0, "cpu": 0.3, "threads": 4}, ["allowed: 0.4 or more"]),
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


@pytest.mark.parametrize(("change", "servers"), [
    ({"workers": 8}, 8),
    ({"workers": 8, "servers": 2}, 2),
    ({"framework": "tensorflow"}, 1),
    ({"strategy": "single", "workers": 1}, 0),
])  # fmt: skip
def test_what_followed_from_other_values_follows_from_the_new_ones(change, servers):
    assert Trial(**GOOD).replace(**change).servers == servers
    assert Trial(**GOOD, servers=1).replace(workers=8).servers == 1  # it was given


def test_a_trial_shows_its_fields():
    signature = inspect.signature(Trial)
    assert list(signature.parameters) == list(Trial.model_fields)
    required = [p.name for p in signature.parameters.values() if p.default is p.empty]
    assert required == ["framework", "model", "batch_size", "learning_rate"]
    for name, field in Trial.model_fields.items():
        assert f"\n{name} : " in Trial.__doc__
        assert field.description.split()[1] in Trial.__doc__
    said = repr(Trial(**GOOD))
    assert "workers=2" in said and "initializer" not in said
    assert eval(said) == Trial(**GOOD)


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
    digest = "daa9645b9f22ac1ac3f13ed662384ebd1a3e18d17243a580164aafe94ab9d2c1"
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
        patch.setattr(replicas, "checksum", lambda *_: "another trainer")
        identities.add(trial.replace().identity)
    with monkeypatch.context() as patch:
        patch.setattr(datasets, "checksum", lambda name: f"other {name}")
        identities.add(trial.replace().identity)
    assert len(identities) == 3
    assert trial.replace() == trial  # the values are what they were


@pytest.mark.parametrize("name", [*replicas.SHARED, "train_mxnet.py"])
def test_the_trainers_source_counts(name, tmp_path, monkeypatch):
    shutil.copytree(replicas.HERE, tmp_path, dirs_exist_ok=True)
    row = dataclasses.replace(FRAMEWORKS["mxnet"], trainer=tmp_path / "train_mxnet.py")
    before = row.sum
    monkeypatch.setattr(replicas, "HERE", tmp_path)
    assert row.sum == before
    with (tmp_path / name).open("a") as file:
        file.write("# changed\n")
    assert row.sum != before


def test_another_models_file_does_not_count(tmp_path, monkeypatch):
    """Changing one model renames its own runs, and no others."""
    mine, other = Trial(**GOOD), Trial(**GOOD | {"model": "lstm"})
    changed = tmp_path / "lenet5.py"
    changed.write_bytes(MODELS["lenet5"].source + b"# changed\n")
    monkeypatch.setitem(MODELS, "lenet5", Model("lenet5", "CNN", changed))
    assert mine.replace().identity != mine.identity
    assert other.replace().identity == other.identity


def test_equality_with_others():
    assert Trial(**GOOD) != GOOD
    assert Trial(**GOOD) != "trial"
