"""What is added by a row and a file is run in pods, too; so is a model's file from elsewhere."""

import math

import new_rows
import pytest
from small_trials import CASES, both, run

from labkit.launchers.kubernetes import images
from labkit.trials import Trial

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MLP = """
DATASETS = ("mnist",)
METRIC = "accuracy"
EVAL_BATCH = 100
UNITS = (32, 10)

def mxnet(mx, images):
    hidden = mx.sym.FullyConnected(mx.sym.Flatten(images), num_hidden=UNITS[0])
    return mx.sym.FullyConnected(mx.sym.Activation(hidden, act_type="relu"), num_hidden=UNITS[1])

def tensorflow(tf, images):
    net = tf.reshape(images, [-1, 28 * 28])
    for layer, units in enumerate(UNITS):
        net = tf.nn.relu(net) if layer else net
        net = tf.matmul(net, tf.get_variable(f"weights{layer}", [net.shape[-1], units]))
    return net
"""


def test_a_new_model_strategy_and_framework(namespace, tmp_path, monkeypatch, store):
    namespace.configure(image=f"localhost/labkit-mxnet:{images.tag('mxnet')}")
    results = run([new_rows.add(tmp_path, monkeypatch)], store)
    row = results.table.iloc[0]
    assert (row.status, row.workers, row.servers) == ("finished", 2, 0)
    assert results.steps["loss"].iloc[0] == pytest.approx(math.log(10))
    assert 5 < row.accuracy < 15
    bound = results.runs[0].record["bound"]
    assert len({tuple(cores) for cores in bound.values()}) == min(2, row.cores)


@both
def test_a_users_model(framework, namespace, tmp_path, store):
    path = tmp_path / "my mlp.py"
    path.write_text(MLP)
    one = Trial(framework=framework, model=str(path), **CASES["lenet5"])
    row = run([one], store).table.iloc[0]
    assert row.status == "finished" and row.accuracy > 15
