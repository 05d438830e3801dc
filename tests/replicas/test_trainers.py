"""The trainers: as scripts by themselves, and that they train what the thesis trained."""

import contextlib
import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_runs import trial

from labkit import datasets, replicas
from labkit.launchers.local.ports import reserved_hosts
from labkit.replicas import models
from labkit.replicas.arguments import OPTIMIZERS
from labkit.replicas.events import Evaluation, Step
from labkit.runs.sequence import read
from labkit.settings import REPOSITORY, data_directory
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS

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


def test_mxnet_says_that_it_knows_no_ipv6():
    """Its scheduler would wait for ever for somebody to find it."""
    hosts = {role: ["[fd00::7]:9000"] for role in ("scheduler", "server", "worker")}
    done = script("mxnet", "--strategy=async-ps", "--role=server", f"--hosts={json.dumps(hosts)}")
    assert done.returncode != 0
    assert "MXNet knows IPv4 alone" in done.stderr + done.stdout


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.usefixtures("datasets")
def test_a_worker_that_loses_its_server_says_so():
    """TensorFlow's session would begin anew, whatever had become of the last step."""
    with contextlib.ExitStack() as stack:
        roles = trial(framework="tensorflow", workers=1).replicas
        hosts = stack.enter_context(reserved_hosts(roles))
        server, worker = (
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "labkit.replicas.train_tensorflow",
                     "--strategy=async-ps", f"--role={role}", f"--hosts={json.dumps(hosts)}",
                     "--model=lenet5", f"--data={data_directory()}", "--batch-size=32",
                     "--steps=100000", "--eval-samples=0"],
                    cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                )
            )
            for role in ("server", "worker")
        )  # fmt: skip
        stack.callback(server.kill)
        stack.callback(worker.kill)
        next(line for line in worker.stdout if '"kind": "step"' in line)
        server.kill()
        said = next(line for line in worker.stdout if '"kind": "error"' in line)
    assert json.loads(said.removeprefix("@labkit "))["type"] == "UnavailableError"


# --- the networks ---------------------------------------------------------------------------

PROBE = Path(__file__).with_name("probe.py")


@pytest.fixture(scope="module")
def probes(tmp_path_factory):
    """Look into both frameworks at once, each in a process of its own."""
    directory = tmp_path_factory.mktemp("probes")
    with contextlib.ExitStack() as stack:
        running = {}
        for framework in FRAMEWORKS:
            roles = trial(framework=framework, workers=2).replicas
            hosts = {
                strategy: stack.enter_context(reserved_hosts(roles))
                for strategy in ("async-ps", "sync-ps")
            }
            running[framework] = subprocess.Popen(
                [sys.executable, PROBE, framework, json.dumps(hosts), directory],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            stack.callback(running[framework].kill)
        found = {}
        for framework, process in running.items():
            output, _ = process.communicate()
            assert process.returncode == 0, output
            found[framework] = json.loads((directory / f"{framework}.json").read_text())
            found[framework]["gradients"] = np.load(directory / f"{framework}.npz")
        yield found


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
    ("lenet5", 250, 10), ("lstm", 20 * 6, 10_000),
])  # fmt: skip
def test_loss_and_hits(probe, model, targets, classes):
    found = probe[model]
    assert found["targets"] == [targets, targets]
    assert found["judged"][0] == pytest.approx(math.log(classes), rel=0.1)  # untrained
    # What training reports is the same measure: the mean over all words, whatever the gradient.
    assert found["step"]["loss"] == pytest.approx(found["judged"][0], rel=1e-5)


@pytest.mark.parametrize("model", ["lenet5", "lstm"])
def test_evaluation_judges_a_snapshot(probe, model):
    """Training goes on meanwhile, in this worker or in others, and changes nothing about it."""
    first, during, second = probe[model]["judged"]
    assert during == first
    assert second < first


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


def test_tensorflow_fetches_weights_once_a_step(probes):
    """Not once for each time step: one reading is for training, one is TensorFlow's own."""
    assert probes["tensorflow"]["reads"] <= 2


def test_clipping_bounds_the_global_norm(probe):
    """An embedding's gradient names a row as often as its word occurs: these count together."""
    for model in ("lenet5", "lstm"):
        assert probe[model]["step"]["gradient"] > 0.06
    for clipped in probe["clipped"].values():
        assert clipped["gradient"] == pytest.approx(0.05, rel=0.002)


def test_a_step_is_the_rate_times_the_gradient(probe):
    found = [probe["lenet5"]["step"]["gradient"], probe["ten times"]["gradient"]]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_adagrad_is_its_equation(probe):
    """Each weight's gradient over the root of the sum of its squares and 1e-7, twice."""
    assert max(probe["adagrad"]) < 1e-4


def test_workers_say_how_large_their_variables_are(probes):
    for framework, found in probes.items():
        for model, said in found["variables"].items():
            assert tuple(said) == MODELS[model].variables[framework]


def test_loss_over_time(probes):
    """TensorFlow's own gradient is of the mean over the words, six here, MXNet's of the sum."""
    own = {framework: found["lstm"]["step"] for framework, found in probes.items()}
    other = {framework: found["other"] for framework, found in probes.items()}
    for mean, total in ((own["tensorflow"], other["tensorflow"]), (other["mxnet"], own["mxnet"])):
        assert total["gradient"] == pytest.approx(6 * mean["gradient"], rel=0.02)
        assert total["loss"] == pytest.approx(mean["loss"], rel=1e-5)


@pytest.mark.parametrize("model", ["lenet5", "lstm"])
def test_the_frameworks_gradients_agree(probes, model):
    """From equal weights, of the mean over all targets, each array by itself."""
    ours = [found["gradients"] for found in probes.values()]
    names = [name for name in ours[0] if name.startswith(model)]
    assert len(names) == len(probes["tensorflow"][model]["shapes"])
    for name in names:
        one, other = (gradients[name] for gradients in ours)
        assert np.linalg.norm(one - other) < 0.01 * np.linalg.norm(one), name


@pytest.mark.parametrize("of", ["lenet5", "lstm", "sharing"])
def test_a_step_takes_the_whole_gradient(probe, of):
    """To first order the loss falls by the rate times the gradient's square, here or on servers.

    The gradient is what the step has moved the weights, over the rate.
    """
    found = probe["small step"][of] if of in probe["small step"] else probe[of]
    assert found["drop"] == pytest.approx(found["moved"] ** 2 / 0.01, rel=0.15)


def test_a_score_that_is_no_number_shows_in_the_loss(probe):
    """Or training would go on after it has diverged."""
    assert all(map(math.isnan, probe["no number"].values()))


# --- several workers ------------------------------------------------------------------------


def test_one_workers_update_is_seen_by_the_other(probe):
    """Both have the servers' weights, before and after a step that one of them takes."""
    found = probe["sharing"]
    assert found["first apart"] == 0
    assert found["moved"] > 0
    assert found["second apart"] == 0


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_two_workers_steps_in_turn_are_one_workers(probe, optimizer):
    """Servers apply the gradients, so AdaGrad's sums of squares are of all workers'."""
    assert probe["two steps"][optimizer] < 1e-3


def test_in_lock_step_two_workers_are_one_with_all_their_samples(probe):
    """The step is the mean over the samples of both, of an embedding's rows, too."""
    found = probe["lock step"]
    assert found["workers apart"] == [0, 0]
    assert max(found["off"]) < 1e-4
    assert found["losses"] == pytest.approx(found["own losses"], rel=1e-4)
    assert found["losses"][-1] < found["losses"][0] - 0.01  # enough to see a wrong step in it
