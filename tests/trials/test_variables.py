"""The table of models knows what each framework makes of them: its variables, in their order."""

import json
import subprocess
import sys

import pytest

from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.beside]

SCRIPTS = {
    "mxnet": """
        from labkit.replicas import train_mxnet as trainer
        symbol = trainer.network(model)
        label = shape if len(shape) == 2 else shape[:1]
        shapes, _, _ = symbol.infer_shape(data=shape, softmax_label=label)
        inputs = ("data", "softmax_label")
        named = zip(symbol.list_arguments(), shapes)
        sizes = [int(np.prod(shape)) for name, shape in named if name not in inputs]
    """,
    "tensorflow": """
        from labkit.replicas.train_tensorflow import tf
        with tf.Graph().as_default():
            model.tensorflow(tf, tf.zeros(shape, tf.float32 if len(shape) == 3 else tf.int32))
            sizes = [int(v.shape.num_elements()) for v in tf.trainable_variables()]
    """,
}

COMMON = """
import json, sys
import numpy as np
from labkit.replicas import models

for name, shape in (("lenet5", (2, 28, 28)), ("lstm", (2, 30))):
    model = models.load(models.path_of(name))
    {script}
    print(json.dumps([name, sizes]))
"""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_variables_are_those_that_the_framework_has(framework):
    script = SCRIPTS[framework].replace("\n        ", "\n    ").strip()
    done = subprocess.run(
        [sys.executable, "-c", COMMON.format(script=script)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    for name, model in MODELS.items():
        assert tuple(found[name]) == model.variables[framework], name
