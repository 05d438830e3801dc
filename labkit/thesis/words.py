"""What the thesis said, as data, for notebooks to put beside what was measured."""

SAID = {
    ("lenet5", 512): "MXNet ahead; both linear up to 50",
    ("lenet5", 256): "nearer; both linear; MXNet faster with 1 worker",
    ("lenet5", 128): "equal up to 25; TensorFlow ahead after, scales better",
    ("lstm", 20): "MXNet ahead, but flat from 20; TensorFlow ideal up to 25",
    ("lstm", 5): "MXNet ahead by more; both linear only up to 5",
}
"""Of throughput and speedup, by model and batch size."""

INITIALIZERS = {"tensorflow": "xavier", "mxnet": "uniform"}
"""The initial weights with which the thesis trained: each framework's own default."""
