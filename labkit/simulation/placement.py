"""Which server keeps which variable, as the frameworks decide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

BIG = 1_000_000
"""Elements from which on MXNet splits a key over all servers: MXNET_KVSTORE_BIGARRAY_BOUND."""

MXNET_PRIME = 9973
"""By which MXNet multiplies a key before it takes the rest of a division by the servers."""

Share = NDArray[np.float64]
"""Bytes and keys of each variable on each server: shape (2, variables, servers)."""


def by_hash(variables: Sequence[int], servers: int) -> Share:
    """Place variables as MXNet does: small ones whole, by a hash of the key; big ones split.

    Keys are numbered in the order of the variables (``KVStoreDist::EncodeDefaultKey`` in
    MXNet's ``src/kvstore/kvstore_dist.h``).
    """
    placed = np.zeros((2, len(variables), servers))
    for key, size in enumerate(variables):
        if size // 4 < BIG:
            placed[:, key, key * MXNET_PRIME % servers] = size, 1
        else:
            placed[:, key] = [[size / servers], [1]]
    return placed


def in_turn(variables: Sequence[int], servers: int) -> Share:
    """Place variables as TensorFlow's ``replica_device_setter`` does: each on the next server."""
    placed = np.zeros((2, len(variables), servers))
    for number, size in enumerate(variables):
        placed[:, number, number % servers] = size, 1
    return placed


PLACEMENTS: dict[str, Callable[[Sequence[int], int], Share]] = {
    "hash": by_hash,
    "round-robin": in_turn,
}
