"""What the thesis used, as data."""

INITIALIZERS = {"tensorflow": "xavier", "mxnet": "uniform"}
"""The initial weights with which the thesis trained: each framework's own default."""
