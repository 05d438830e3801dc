"""Where the sockets of fork servers are: their paths have to be short."""

import socket
from pathlib import Path

import pytest

from labkit.launchers.local.warm import MAX_DIRECTORY, Program, scratch_directory
from labkit.trials.frameworks import SCRIPTED

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("length", [MAX_DIRECTORY - len("/labkit-12345678"), 100])
def test_a_fork_servers_socket_has_a_path_that_can_be_bound(length, monkeypatch):
    """However long the name of the folder for temporary files is, in whatever letters."""
    temporary = Path("/tmp") / ("ä" * ((length - len("/tmp/")) // 2))
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    directory = scratch_directory()
    try:
        for framework in SCRIPTED.values():
            program = Program(framework.name, framework.trainer, Path("/other/python"),
                              framework.sum, own_network=True)  # fmt: skip
            with socket.socket(socket.AF_UNIX) as listener:
                path = directory / program.socket(threads=64)
                listener.bind(str(path))
                path.unlink()
    finally:
        directory.rmdir()
        temporary.rmdir()
