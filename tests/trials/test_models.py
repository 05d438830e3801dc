"""The table of models: what a file must define, and what is said of one that does not."""

import pytest

from labkit.errors import LabkitError
from labkit.trials import Trial, TrialError
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS, Model, ModelError

pytestmark = pytest.mark.unit

MLP = '''
DATASETS = ("mnist",)
METRIC = "accuracy"
EVAL_BATCH = 100

def mxnet(mx, images):
    return mx.sym.FullyConnected(images, num_hidden=10)
'''


@pytest.fixture
def trial_of(tmp_path, monkeypatch):
    """Return a function that gives a trial of a model's file with this text."""
    monkeypatch.chdir(tmp_path)

    def make(text, name="my_mlp.py", **values):
        (tmp_path / name).write_text(text)
        given = {"framework": "mxnet", "batch_size": 10, "learning_rate": 0.1, "steps": 5}
        return Trial(model=name, **given | values)

    return make


def test_a_file_from_elsewhere(trial_of, tmp_path):
    trial = trial_of(MLP)
    assert trial.dataset == "mnist"
    assert trial.network.path == tmp_path / "my_mlp.py"
    assert trial.name.startswith("mxnet-my_mlp-w1-")
    assert trial.values["model"] == "my_mlp.py"


def test_its_bytes_are_its_identity(trial_of, tmp_path):
    trial = trial_of(MLP)
    assert trial_of(MLP) == trial
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/my_mlp.py").write_text(MLP)
    elsewhere = trial.replace(model="folder/my_mlp.py")
    assert elsewhere == trial and elsewhere.identity == trial.identity  # not where it lies
    changed = trial_of(MLP + "# changed\n")
    assert changed != trial and changed.identity != trial.identity
    assert trial_of(MLP, "other.py") != trial


@pytest.mark.parametrize(("text", "says"), [
    ("def mxnet(:", "my_mlp.py: not Python"),
    (MLP.replace('"mnist",', '"mnst",'), "DATASETS is .*mnst.*wanted: a tuple of names out of"),
    (MLP.replace('("mnist",)', "()"), r"DATASETS is \(\)"),
    (MLP.replace("DATASETS", "DATA"), "DATASETS is None"),
    (MLP.replace("accuracy", "fitness"), "METRIC is 'fitness'; wanted: accuracy or perplexity"),
    (MLP.replace("100", "0"), "EVAL_BATCH is 0; wanted: samples, 1 or more"),
    (MLP.replace("100", "size()"), r"EVAL_BATCH must be a literal, not size\(\)"),
    (MLP + "TIME_STEPS = 'many'\n", "TIME_STEPS is 'many'"),
    (MLP.replace("mxnet(", "build("), "framework: model 'my_mlp.py' defines no function 'mxnet'"),
    (MLP.replace("accuracy", "x").replace("100", "0"), "METRIC is 'x'.*; EVAL_BATCH is 0"),
])  # fmt: skip
def test_what_is_wrong_in_a_file(text, says, trial_of):
    with pytest.raises(TrialError, match=says):
        trial_of(text)


def test_nothing_of_a_file_is_run(trial_of):
    trial_of(MLP + "raise SystemExit('this was run')\n")


@pytest.mark.parametrize(("name", "says"), [
    ("lenet", "did you mean 'lenet5'.*or the path of a model's file"),
    ("nowhere.py", "'nowhere.py': there is no such file in "),
])  # fmt: skip
def test_what_is_no_model(name, says):
    with pytest.raises(ModelError, match=says):
        Model.named(name)
    assert issubclass(ModelError, LabkitError)


@pytest.mark.parametrize("model", MODELS.values(), ids=str)
def test_labkits_own(model):
    assert set(FRAMEWORKS) <= set(model.frameworks)
    assert model.datasets and model.metric
