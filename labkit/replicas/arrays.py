"""A data set as arrays, and the batches that a worker draws from it."""

import hashlib
from pathlib import Path
from typing import Iterator, Tuple, Union

import numpy as np

from labkit.replicas.own_data import OWN, OwnData

SEQUENCE_LENGTH = 30
"""Words in a sample of PTB: the time steps over which the thesis unrolled its RNN."""

IMAGES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)

TRAINED_ON = {
    "fashion-mnist": IMAGES,
    "mnist": IMAGES,
    "ptb": ("ptb.train.ids.npy", "ptb.test.ids.npy"),
}


class Arrays:
    """A data set, memory-mapped: processes on one machine share its pages.

    Attributes
    ----------
    train_inputs, test_inputs : array of uint8, shape (n, 28, 28), or of int32, shape (n, 30)
    train_labels, test_labels : array of uint8, shape (n,), or of int32, shape (n, 30)
        Classes; for text the words that follow the inputs.
    sum : str
        SHA-256 over the checksums of the files.
    """

    def __init__(self, dataset: str, directory: Path) -> None:
        paths = [directory / dataset / name for name in TRAINED_ON[dataset]]
        lines = [f"{_sha256(path)}  {path.name}" for path in paths]
        self.sum = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        if dataset == "ptb":
            self.train_inputs, self.train_labels = _sequences(np.load(paths[0], mmap_mode="r"))
            self.test_inputs, self.test_labels = _sequences(np.load(paths[1], mmap_mode="r"))
        else:
            arrays = [_idx(path) for path in paths]
            self.train_inputs, self.train_labels, self.test_inputs, self.test_labels = arrays


def learned(model, dataset: str, directory: Path) -> Union[Arrays, OwnData]:
    """Return what a model learns: a data set of labkit's, or what the model's own file loads."""
    own = dataset.partition("-")[0] == OWN
    return OwnData(model, due=dataset) if own else Arrays(dataset, directory)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _idx(path: Path) -> np.ndarray:
    """Map an IDX file: two zero bytes, a type, the number of dimensions, then each dimension."""
    with path.open("rb") as file:
        head = file.read(4)
        if head[:3] != b"\0\0\x08":
            raise ValueError(f"{path} is not an IDX file of bytes")
        shape = tuple(np.frombuffer(file.read(4 * head[3]), ">i4"))
    return np.memmap(str(path), np.uint8, mode="r", offset=4 + 4 * head[3], shape=shape)


def _sequences(ids: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Cut a text into sequences, each with the same words one place further as labels."""
    n = (len(ids) - 1) // SEQUENCE_LENGTH
    cut = n * SEQUENCE_LENGTH
    return ids[:cut].reshape(n, -1), ids[1 : cut + 1].reshape(n, -1)


def as_inputs(batch: np.ndarray) -> np.ndarray:
    """Bring pixels to [0, 1]; leave words, and floats, as they are."""
    return batch.astype(np.float32) / 255 if batch.dtype == np.uint8 else np.asarray(batch)


def batches(
    inputs: np.ndarray, labels: np.ndarray, batch_size: int, seed: int, worker: int, epoch: int
) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Yield an epoch in a random order that depends on seed, worker and epoch alone.

    The batch at the end that would be smaller is left out, so that all steps are alike and all
    workers take equally many.
    """
    order = np.random.default_rng([seed, worker, epoch]).permutation(len(inputs))
    for begin in range(0, len(order) - batch_size + 1, batch_size):
        chosen = order[begin : begin + batch_size]
        yield as_inputs(inputs[chosen]), labels[chosen].astype(np.int32)
