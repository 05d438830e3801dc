"""Try a model's file in one framework, in seconds: ``labkit model check`` starts it.

    python model_check.py TRAINER [the arguments of a trainer]

It prints what it finds as a line of JSON, or what went wrong as ``{"error": ...}``. Then it reads
a line: along which axis each variable's values are to differ. It fills the variables so and prints
the loss. A layer whose weights differ by output alone computes the same whichever way a framework
lays them out, so from such weights two frameworks must come to the same loss.
"""

import importlib.util
import json
import sys
import traceback

import numpy as np

from labkit.replicas import models
from labkit.replicas.arguments import parse
from labkit.replicas.arrays import as_inputs, learned

STEPS = 30
"""Steps of training, all on the same samples: whatever can learn learns these."""


MESSAGE = 300
"""Characters of an error that are shown: some list a whole batch."""


class MXNet:
    """The variables of a worker's network in MXNet."""

    def __init__(self, worker):
        self.worker = worker

    def get(self):
        """Return names and values, in the order of the network."""
        values = self.worker.module.get_params()[0]
        trained = getattr(self.worker.module, "_curr_module", self.worker.module)
        names = [name for name in trained.symbol.list_arguments() if name in values]
        return [(name, values[name].asnumpy()) for name in names]

    def set(self, values):
        """Have the next `evaluate` judge these values."""
        import mxnet as mx

        arrays = {name: mx.nd.array(value) for name, value in values}
        self.worker.module.set_params(arrays, {})
        self.worker.snapshot()

    def classes(self):
        """Return for how many classes the network has scores."""
        return self.worker.evaluator.output_shapes[0][1][1]


class TensorFlow:
    """The variables of a worker's network in TensorFlow."""

    def __init__(self, worker):
        self.worker = worker

    def get(self):
        """Return names and values, in the order of the network."""
        variables = self.worker.graph.variables
        values = self.worker.session.run(variables)
        return [(v.op.name, value) for v, value in zip(variables, values)]

    def set(self, values):
        """Have the next `evaluate` judge these values."""
        self.worker.copy.take([value for _, value in values])

    def classes(self):
        """Return for how many classes the network has scores."""
        return int(self.worker.graph.losses.op.inputs[0].shape[-1])


VARIABLES = {"mxnet": MXNet, "tensorflow": TensorFlow}
"""By framework; of any other one labkit does not know the variables."""


class Samples:
    """A few samples to train on and to judge, in the shapes of training and of evaluation.

    Parameters
    ----------
    model : module
    data : Arrays
    size : int
        Samples of a step of training.

    Attributes
    ----------
    batch, judged : tuple of ndarray
        Inputs and labels of a step of training, and of one of evaluation: the same few samples,
        repeated as often as it takes.
    classes : int
        In the labels.
    """

    def __init__(self, model, data, size):
        few = min(size, model.EVAL_BATCH, len(data.train_inputs))
        inputs, labels = as_inputs(data.train_inputs[:few]), data.train_labels[:few]
        trained, judged = (np.arange(n) % few for n in (size, model.EVAL_BATCH))
        self.batch = inputs[trained], labels[trained].astype(np.int32)
        self.judged = inputs[judged], labels[judged].astype(np.int32)
        self.classes = int(max(data.train_labels.max(), data.test_labels.max())) + 1

    def loss(self, worker):
        """Return the mean loss on what was trained on, by a worker's snapshot."""
        inputs, labels = self.judged
        losses, _ = worker.evaluate(inputs, labels)
        if np.size(losses) != labels.size:
            raise ValueError(
                f"{np.size(losses)} rows of scores for {labels.size} targets: the network is to "
                "return one for each target of each sample"
            )
        return float(np.mean(losses))


def examine(worker, samples, variables):
    """Train for some steps; return what was found.

    Returns
    -------
    dict
        ``losses``: before and after; ``variables``: name and shape of each, ``unmoved``: names of
        those that training did not change; both None where the variables are not known.
    """
    worker.snapshot()
    known = variables and variables.classes()
    if known and known < samples.classes:
        raise ValueError(f"scores for {known} classes, but the labels have {samples.classes}")
    losses = [samples.loss(worker)]
    before = variables and variables.get()
    for _ in range(STEPS):
        worker.train(*samples.batch)
    worker.finish()
    worker.snapshot()
    losses.append(samples.loss(worker))
    if not variables:
        return dict(losses=losses, variables=None, unmoved=None)
    pairs = zip(before, variables.get())
    return dict(
        losses=losses,
        variables=[[name, list(value.shape)] for name, value in before],
        unmoved=[name for (name, old), (_, new) in pairs if np.array_equal(old, new)],
    )


def filled(shape, axis, number):
    """Return values of this shape that differ along one axis alone.

    They are as large as keeps what a layer computes near 1, whatever its size.
    """
    along = np.sin(1.0 + number + np.arange(shape[axis]))
    inputs = np.prod(shape) / shape[axis]
    values = 2 * along / inputs if len(shape) > 1 else 0.1 * along
    places = [1] * len(shape)
    places[axis] = -1
    return np.broadcast_to(values.reshape(places), shape).astype(np.float32)


def error_of(error, path):
    """Say what went wrong, and where in the model's file."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    where = f"line {lines[-1]}: " if lines else ""
    words = str(error).strip().splitlines() or ["no message"]
    told = words[0]
    for before, line in zip(words, words[1:]):
        # Both frameworks begin with where they found out; what it was comes further down.
        if "Error in operator" in line or before.startswith("Node: "):
            told = line
    return f"{where}{type(error).__name__}: {told.strip()[:MESSAGE]}"


def main(argv):
    """Be the program."""
    spec = importlib.util.spec_from_file_location("trainer", argv[0])
    trainer = importlib.util.module_from_spec(spec)
    framework = argv[1]
    args = parse(argv[2:])
    path = str(models.path_of(args.model))
    try:
        spec.loader.exec_module(trainer)
        model = models.load(path)
        data = learned(model, args.dataset, args.data)
        worker = trainer.Worker(args, model, data)
        samples = Samples(model, data, args.batch_size)
        variables = VARIABLES[framework](worker) if framework in VARIABLES else None
        found = examine(worker, samples, variables)
    except Exception as error:
        print(json.dumps({"error": error_of(error, path)}), flush=True)
        return
    print(json.dumps(found), flush=True)
    axes = json.loads(sys.stdin.readline() or "null")
    if axes:
        named = zip(found["variables"], axes)
        variables.set([(n, filled(s, axis, k)) for k, ((n, s), axis) in enumerate(named)])
        print(json.dumps(samples.loss(worker)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
