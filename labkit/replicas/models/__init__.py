"""Models, a file each: what a network is in each framework, what it learns, how it is judged.

A model's file defines, with nothing imported at its top but the standard library and numpy,

- ``DATASETS``: names of the data sets that it can learn, its default first; or instead a function
  ``load``, which is given the folder of the file and returns arrays of its own: train inputs,
  train labels, test inputs, test labels (`labkit.replicas.own_data`);
- ``METRIC``: how it is judged on the test set, ``"accuracy"`` or ``"perplexity"``;
- ``EVAL_BATCH``: samples in a step of evaluation, whatever the trial's batch size;
- ``TIME_STEPS``: targets of one sample, where it has several;
- one function for each framework it supports, called as the framework is: given the framework's
  module and a batch of inputs, it returns a score for each class of each target, in the shape
  (targets, classes). The loss is the cross entropy of their softmax, in nats per target.
"""

import hashlib
import types
from pathlib import Path

HERE = Path(__file__).parent


def path_of(model):
    """Return the file of a model: one of those here by its name, any other by its path."""
    own = HERE / f"{model}.py"
    return own if own.exists() else Path(model)


def load(path):
    """Return a model's file as a module, with ``SUM``, the SHA-256 of the very bytes it ran."""
    path = Path(path)
    source = path.read_bytes()
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    exec(compile(source, str(path), "exec"), module.__dict__)
    module.SUM = hashlib.sha256(source).hexdigest()
    return module
