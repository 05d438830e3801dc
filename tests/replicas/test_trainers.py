"""The trainers: as scripts by themselves, and that they train what the thesis trained."""

import hashlib
import json
import math
import os
import subprocess
import sys

import pytest

from labkit import datasets, replicas
from labkit.replicas import models
from labkit.replicas.events import Evaluation, Step, read
from labkit.settings import REPOSITORY, data_directory
from labkit.trials.frameworks import FRAMEWORKS

# Both frameworks are imported several times.
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

# --- by themselves --------------------------------------------------------------------------


def script(framework, *arguments, cwd=REPOSITORY, **options):
    return subprocess.run(
        [sys.executable, "-m", f"labkit.replicas.{FRAMEWORKS[framework].trainer.stem}",
         *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=100, **options,
    )  # fmt: skip


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_help(framework):
    done = script(framework, "--help", env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    for piece in ("python -m labkit.replicas.train_mxnet --model lenet5", "--learning-rate",
                  "--hosts"):  # fmt: skip
        assert piece in done.stdout
    # It answers before the framework is imported.
    assert "labkit.replicas.loop" in done.stderr
    assert FRAMEWORKS[framework].modules[0] not in done.stderr


@pytest.mark.parametrize(("arguments", "says"), [
    (["--strategy=async-ps"], "needs --hosts"),
    (["--initializer=he"], "invalid choice: 'he'"),
    (["--steps=many"], "invalid int value: 'many'"),
])  # fmt: skip
def test_mistakes_on_the_command_line(arguments, says):
    done = script("mxnet", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_mxnet_says_that_it_knows_no_ipv6():
    """Its scheduler would wait for ever for somebody to find it."""
    hosts = {role: ["[fd00::7]:9000"] for role in ("scheduler", "server", "worker")}
    done = script("mxnet", "--strategy=async-ps", "--role=server", f"--hosts={json.dumps(hosts)}")
    assert done.returncode != 0
    assert "MXNet knows IPv4 alone" in done.stderr + done.stdout


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.usefixtures("datasets")
def test_one_process_without_labkit(framework, tmp_path):
    """What a pod mounts is enough: the trainer, what it shares, a model and the data."""
    home = tmp_path / "labkit/replicas"
    (home / "models").mkdir(parents=True)
    for name in ("__init__.py", *replicas.SHARED, FRAMEWORKS[framework].trainer.name):
        (home / name).write_bytes((replicas.HERE / name).read_bytes())
    (tmp_path / "labkit/__init__.py").touch()
    model = models.path_of("lenet5").read_bytes()
    (tmp_path / "model.py").write_bytes(model)
    done = script(
        framework, "--model=model.py", f"--data={data_directory()}", "--batch-size=32",
        "--steps=3", "--eval-samples=300", "--trial=by hand", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = read(done.stdout, "worker", 0)
    assert [event.kind for event in events if not isinstance(event, Step)] == [
        "start", "ready", "barrier", "eval", "end",
    ]  # fmt: skip
    start, end = events[0], events[-1]
    assert start.trial == "by hand"
    assert start.code == FRAMEWORKS[framework].sum
    assert start.model == hashlib.sha256(model).hexdigest()
    assert start.data == datasets.checksum("fashion-mnist")
    assert framework in start.versions
    assert (end.steps, end.samples) == (3, 96)
    assert end.peak_bytes > 100e6
    (evaluated,) = [event for event in events if isinstance(event, Evaluation)]
    assert evaluated.samples == 300


# --- the networks ---------------------------------------------------------------------------

PROBE = """
import json, sys, types
from importlib import import_module
import numpy as np
from labkit.replicas import models
from labkit.replicas.arguments import parse

RATE = 0.01
base = ["--steps=2", "--batch-size=4", "--initializer=xavier", f"--learning-rate={RATE}"]
parse(base)  # sets the threads
trainer = import_module(f"labkit.replicas.train_{sys.argv[1]}")

random = np.random.default_rng(1)
batches = {
    "lenet5": (random.random((4, 28, 28), np.float32), np.array([0, 1, 2, 3], np.int32)),
    "lstm": tuple(random.integers(0, 10_000, (4, 30)).astype(np.int32) for _ in range(2)),
}


inputs = {"lenet5": np.zeros((1, 28, 28), np.uint8), "lstm": np.zeros((1, 30), np.int32)}
labels = {"lenet5": np.zeros(1, np.uint8), "lstm": np.zeros((1, 30), np.int32)}


def make(*options):
    args = parse([*base, *options])
    data = types.SimpleNamespace(train_inputs=inputs[args.model], train_labels=labels[args.model])
    return trainer.Worker(args, models.load(models.path_of(args.model)), data)


def weights(worker):
    if sys.argv[1] == "mxnet":
        return [array.asnumpy() for array in worker.module.get_params()[0].values()]
    return worker.session.run(worker.session.graph.get_collection("trainable_variables"))


def apart(some, others):
    squares = [((one - other) ** 2).sum() for one, other in zip(some, others, strict=True)]
    return float(np.sqrt(sum(squares)))


def step(model, worker, rate=RATE):
    before = weights(worker)
    loss, hits = worker.train(*batches[model])
    return {"loss": loss, "gradient": apart(weights(worker), before) / rate}


found = {}
for model in ("lenet5", "lstm"):
    worker = make(f"--model={model}")
    before = weights(worker)
    worker.warm_up(*batches[model])
    worker.finish()
    losses, hits = worker.evaluate(*batches[model])
    found[model] = {
        "shapes": [array.shape for array in before],
        "dtypes": sorted({str(array.dtype) for array in before}),
        "warm-up": apart(weights(worker), before),
        "losses": np.shape(losses),
        "hits": np.shape(hits),
        "evaluated": float(np.mean(losses)),
        "step": step(model, worker),
    }
first = weights(make())
found["seeds"] = [apart(weights(make(f"--seed={seed}")), first) for seed in (1, 2)]
found["largest"] = {
    name: max(float(abs(array).max()) for array in weights(make(f"--initializer={name}")))
    for name in ("default", "xavier", "uniform")
}
found["ten times"] = step("lenet5", make(f"--learning-rate={10 * RATE}"), 10 * RATE)
found["clipped"] = step("lenet5", make("--clip-norm=0.001"))
found["other"] = step("lstm", make("--model=lstm", f"--loss-over-time={sys.argv[2]}"))
print(json.dumps(found))
"""


OTHER = {"tensorflow": "sum", "mxnet": "mean"}
"""How the lstm's gradient is taken over time if the framework's own way is not wanted."""


@pytest.fixture(scope="module")
def probes():
    """Ask both frameworks at once, each in a process of its own."""
    running = {
        framework: subprocess.Popen(
            [sys.executable, "-c", PROBE, framework, OTHER[framework]], cwd=REPOSITORY,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for framework in FRAMEWORKS
    }  # fmt: skip
    found = {}
    try:
        for framework, process in running.items():
            output, errors = process.communicate()
            assert process.returncode == 0, errors
            found[framework] = json.loads(output.splitlines()[-1])
    finally:
        for process in running.values():
            process.kill()
    return found


@pytest.fixture(params=FRAMEWORKS)
def probe(request, probes):
    return probes[request.param]


def test_lenet5_is_the_networks_of_the_thesis(probes):
    """Two convolutions of 5 x 5 with 20 and 50 filters, 500 units, 10 classes, all with bias."""
    sizes = [5 * 5 * 1 * 20, 20, 5 * 5 * 20 * 50, 50, 4 * 4 * 50 * 500, 500, 500 * 10, 10]
    for found in probes.values():
        assert sorted(map(math.prod, found["lenet5"]["shapes"])) == sorted(sizes)
        assert sum(map(math.prod, found["lenet5"]["shapes"])) == 431_080
        assert found["lenet5"]["dtypes"] == ["float32"]


def test_lstm_is_the_network_of_the_thesis(probes):
    """An embedding, two layers of 200 units with four gates each, 10,000 words."""
    ends = [10_000 * 200, 200 * 10_000, 10_000]
    layer = {
        "tensorflow": [(200 + 200) * 800, 800],
        "mxnet": [200 * 800, 200 * 800, 800, 800],  # input and state apart, each with a bias
    }
    for framework, found in probes.items():
        sizes = sorted(ends + 2 * layer[framework])
        assert sorted(map(math.prod, found["lstm"]["shapes"])) == sizes


@pytest.mark.parametrize(("model", "targets", "classes"), [
    ("lenet5", 4, 10), ("lstm", 4 * 30, 10_000),
])  # fmt: skip
def test_loss_and_hits(probe, model, targets, classes):
    found = probe[model]
    assert math.prod(found["losses"]) == math.prod(found["hits"]) == targets
    assert found["evaluated"] == pytest.approx(math.log(classes), rel=0.1)  # untrained
    # What training reports is the same measure: the mean over all words, whatever the gradient.
    assert found["step"]["loss"] == pytest.approx(found["evaluated"], rel=1e-5)


@pytest.mark.parametrize("model", ["lenet5", "lstm"])
def test_warm_up_leaves_the_weights_as_they_are(probe, model):
    assert probe[model]["warm-up"] == 0


def test_the_seed_decides_the_first_weights(probe):
    same, other = probe["seeds"]
    assert same == 0
    assert other > 1


def test_initializers(probes):
    for framework, found in probes.items():
        largest = found["largest"]
        # Glorot's bound is widest in the first layer: 25 inputs, and 25 outputs for each filter.
        assert largest["xavier"] == pytest.approx(math.sqrt(6 / (25 + 25 * 20)), rel=0.05)
        assert 0.0099 < largest["uniform"] <= 0.01
        own = {"tensorflow": "xavier", "mxnet": "uniform"}[framework]
        assert largest["default"] == largest[own]


def test_clipping_bounds_the_global_norm(probe):
    assert probe["lenet5"]["step"]["gradient"] > 0.1
    assert probe["clipped"]["gradient"] == pytest.approx(0.001, rel=0.02)


def test_a_step_is_the_rate_times_the_gradient(probe):
    found = [probe["lenet5"]["step"]["gradient"], probe["ten times"]["gradient"]]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_loss_over_time(probes):
    """TensorFlow's own gradient is of the mean over the 30 words, MXNet's of the sum."""
    own = {framework: found["lstm"]["step"] for framework, found in probes.items()}
    other = {framework: found["other"] for framework, found in probes.items()}
    for mean, total in ((own["tensorflow"], other["tensorflow"]), (other["mxnet"], own["mxnet"])):
        assert total["gradient"] == pytest.approx(30 * mean["gradient"], rel=0.02)
        assert total["loss"] == pytest.approx(mean["loss"], rel=1e-5)
