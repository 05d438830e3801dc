"""``labkit model``: a starter that works, and what is found in files that do not."""

import pytest

from labkit.settings import TEMPLATES

STARTER = (TEMPLATES / "model.py").read_text()

DIFFERENT = STARTER.replace("tf.nn.relu(", "tf.tanh(").replace(
    'act_type="relu")', 'act_type="relu")\n    hidden = mx.sym.BlockGrad(hidden)'
)

UNBUILT = '''
DATASETS = ("mnist",)
METRIC = "accuracy"
EVAL_BATCH = 100


def mxnet(mx, images):
    weights = mx.sym.Variable("weights_weight", shape=(700, 10))
    return mx.sym.dot(mx.sym.Flatten(images), weights)


def tensorflow(tf, images):
    weights = tf.get_variable("weights", [28 * 28, 7])
    return tf.matmul(tf.reshape(images, [-1, 28 * 28]), weights)
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.unit
def test_new_writes_a_starter_and_never_over_anything(labkit, here):
    done = labkit("model", "new", "my_mlp.py")
    assert done.exit_code == 0 and "labkit model check my_mlp.py" in done.output
    assert (here / "my_mlp.py").read_text() == STARTER
    (here / "my_mlp.py").write_text("mine")
    done = labkit("model", "new", "my_mlp.py")
    assert done.exit_code == 1 and "my_mlp.py exists" in done.output
    assert (here / "my_mlp.py").read_text() == "mine"
    done = labkit("model", "new", "nowhere/my_mlp.py")
    assert done.exit_code == 1 and "nowhere/my_mlp.py: cannot be written: No such f" in done.output
    done = labkit("model", "new", "my_mlp")
    assert done.exit_code == 1 and "name it my_mlp.py" in done.output


@pytest.mark.unit
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.py"], "there is no such file"),
        (["lenet6"], "did you mean 'lenet5'"),
        (["empty.py"], "DATASETS is None"),
        (["mine.py", "--batch-size", "0"], "batch_size: 0; allowed: 1 or more"),
        (["mine.py", "--learning-rate", "-1"], "learning_rate: -1.0; allowed: more than 0"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(labkit, here, arguments, said):
    (here / "empty.py").touch()
    (here / "mine.py").write_text(STARTER)
    done = labkit("model", "check", *arguments)
    assert done.exit_code == 1 and said in done.output


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.beside
@pytest.mark.usefixtures("datasets")
def test_the_starter_is_right(labkit, here):
    (here / "my_mlp.py").write_text(STARTER)
    done = labkit("model", "check", "my_mlp.py")
    assert done.exit_code == 0, done.output
    for framework in ("mxnet", "tensorflow"):
        assert f"{framework}: 4 variables, 50,890 weights, loss 2." in done.output
    assert "nothing wrong was found" in done.output and "not compared" not in done.output


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.beside
@pytest.mark.usefixtures("datasets")
@pytest.mark.parametrize(
    ("source", "findings"),
    [
        (
            DIFFERENT,
            [
                "they compute different networks",
                "MXNet: fullyconnected0_weight has no gradient",
                "MXNet: fullyconnected0_bias has no gradient",
            ],
        ),
        (
            UNBUILT,
            [
                "(784 vs. 700)",
                "TensorFlow: ValueError: scores for 7 classes, but the labels have 10",
            ],
        ),
    ],
    ids=["different", "unbuilt"],
)
def test_what_is_wrong_is_named(labkit, here, source, findings):
    (here / "mine.py").write_text(source)
    done = labkit("model", "check", "mine.py")
    assert done.exit_code == 1 and "nothing wrong" not in done.output
    for text in findings:
        assert text in done.output
