"""A data set called toy, and the server that publishes it."""

import gzip

import pytest
from publishers import IMAGES, LABELS, PICTURES, Server, toml

from labkit.datasets import sources


@pytest.fixture
def server():
    server = Server()
    server.files = {
        "images.gz": gzip.compress(IMAGES, mtime=0),
        "labels.gz": gzip.compress(LABELS, mtime=0),
    }
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Make a table with the one data set "toy", and read it instead of the real one."""

    def make(*places, files=PICTURES):
        path = tmp_path / "sources.toml"
        path.write_text(
            "[toy]\ntitle = 'made'\nlicence = 'none'\nsamples = 7\n"
            f"files = {toml(list(files))}\nsources = {toml(list(places))}\n"
        )
        monkeypatch.setattr(sources, "DATASETS", sources.read_sources(path))
        return path

    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    return make


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data" / "toy"
