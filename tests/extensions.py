"""A framework, a strategy and models of a user's own: a file and a row each."""

from labkit.settings import TEMPLATES
from labkit.trials.frameworks import FRAMEWORKS, Framework
from labkit.trials.models import MODELS, Model
from labkit.trials.strategies import STRATEGIES, Strategy

TRAINER = '''
"""Train with numpy: a linear layer, by the gradient written out by hand."""

import socket
import time

import numpy as np

from labkit.replicas import arguments, checksum, loop


def parse(argv=None):
    return arguments.parse(argv, strategies=("local-sgd",))


CODE = checksum(__file__)


class Layers:
    """What a model is built from: a linear layer, whose weights and last inputs are kept."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.weights = None

    def linear(self, inputs, classes):
        if self.weights is None:
            self.weights = self.random.uniform(-0.01, 0.01, (inputs.shape[1], classes))
        self.inputs = inputs
        return inputs @ self.weights


class Worker(loop.Network):
    """A model that trains alone; it meets the others at the barrier only."""

    def __init__(self, args, model, data):
        self.args, self.model = args, model
        self.layers = Layers(args.seed)

    def _forward(self, inputs, labels):
        scores = self.model.numpy(self.layers, inputs)
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        losses = -np.log(np.maximum(shares[np.arange(len(labels)), labels], 1e-30))
        return shares, losses, shares.argmax(axis=1) == labels

    def _step(self, inputs, labels, rate):
        shares, losses, hits = self._forward(inputs, labels)
        shares[np.arange(len(labels)), labels] -= 1
        self.layers.weights -= rate * self.layers.inputs.T @ shares / len(labels)
        return float(losses.mean()), float(hits.mean())

    def train(self, inputs, labels):
        return self._step(inputs, labels, self.args.learning_rate)

    def warm_up(self, inputs, labels):
        self._step(inputs, labels, 0.0)

    def snapshot(self):
        """Nobody else moves the weights."""

    def evaluate(self, inputs, labels):
        return self._forward(inputs, labels)[1:]

    def finish(self):
        pass

    def barrier(self):
        """Wait until all have come to the first worker."""
        host, _, port = self.args.hosts["worker"][0].rpartition(":")
        others = len(self.args.hosts["worker"]) - 1
        if self.args.index == 0:
            with socket.create_server(("", int(port))) as server:
                met = [server.accept()[0] for _ in range(others)]
            for connection in met:
                connection.close()
            return
        while True:
            try:
                with socket.create_connection((host, int(port))) as connection:
                    connection.recv(1)
                return
            except OSError:  # it does not listen yet
                time.sleep(0.01)

    def close(self):
        pass


def main(args):
    loop.main(args, {}, CODE, Worker, None)


if __name__ == "__main__":
    main(parse())
'''

SOFTMAX = '''
"""A softmax regression."""

DATASETS = ("mnist",)
METRIC = "accuracy"
EVAL_BATCH = 500


def numpy(layers, images):
    """Build it from images of shape (batch, 28, 28)."""
    return layers.linear(images.reshape(len(images), -1), 10)
'''

OWN = '''
"""Three clusters of points, which the file makes itself."""

import numpy as np

METRIC = "accuracy"
EVAL_BATCH = 50


def load(folder):
    random = np.random.RandomState(1)
    labels = random.randint(0, 3, 600)
    points = (random.randint(-2, 3, (600, 8)) + 8 * np.eye(8)[labels]) / 8
    return points[:500], labels[:500], points[500:], labels[500:]


def mxnet(mx, points):
    return mx.sym.FullyConnected(points, num_hidden=3)


def tensorflow(tf, points):
    weights = tf.get_variable("weights", [8, 3])
    bias = tf.get_variable("bias", [3], initializer=tf.zeros_initializer())
    return tf.matmul(points, weights) + bias
'''

READ = OWN.replace("    random = np", """\
    return [np.load(folder / f"{name}.npy") for name in ("x", "y", "test_x", "test_y")]
    random = np""")
"""The same from a file beside it."""

LINEAR = {"workers": 2, "batch_size": 20, "learning_rate": 0.1, "steps": 100}
"""What a trial of `OWN` needs beside a framework."""

MLP = (TEMPLATES / "model.py").read_text()
"""What `labkit model new` writes: a multilayer perceptron with one hidden layer."""

CHANCE = 10
"""Percent that are right by chance, of ten classes."""

NUMPY = {
    "framework": "numpy",
    "strategy": "local-sgd",
    "batch_size": 100,
    "learning_rate": 0.1,
    "steps": 300,
    "eval_samples": 2000,
}
"""What a trial of the added framework needs beside a model and workers."""

PERCEPTRON = {
    "workers": 2,
    "batch_size": 50,
    "learning_rate": 0.1,
    "steps": 200,
    "initializer": "xavier",
    "eval_samples": 2000,
}
"""What a trial of `MLP` needs beside a framework."""


def add_framework(folder, patch):
    """Add a framework, ``numpy``, and a strategy that it can do: a file and two rows."""
    (folder / "train_numpy.py").write_text(TRAINER)
    patch.setitem(STRATEGIES, "local-sgd", Strategy(
        "local-sgd", "workers that each train a network of their own", roles=("worker",),
    ))  # fmt: skip
    patch.setitem(FRAMEWORKS, "numpy", Framework(
        "numpy", "NumPy", modules=("numpy",), strategies=("local-sgd",), scheduler=False,
        servers_per_worker=False, server_threads=False, servers_end_themselves=True,
        trainer=folder / "train_numpy.py", recipe=FRAMEWORKS["mxnet"].recipe,
    ))  # fmt: skip


def add_model(folder, patch):
    """Add a model, ``softmax``: a file among labkit's own, and a row."""
    (folder / "softmax.py").write_text(SOFTMAX)
    patch.setitem(MODELS, "softmax", Model("softmax", "SR", folder / "softmax.py"))
