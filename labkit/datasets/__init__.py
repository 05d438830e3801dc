"""Data sets: what they are, fetched from where they are published, verified by SHA-256."""

from labkit.datasets.fetch import fetch
from labkit.datasets.sources import DATASETS, DataError, checksum, samples
from labkit.datasets.verify import verify

__all__ = ["DATASETS", "DataError", "checksum", "fetch", "samples", "verify"]
