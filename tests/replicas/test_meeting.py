"""Workers of a script meet: all of them, and nobody else."""

import selectors
import socket
import time

import pytest
from processes import cannot

from labkit.replicas import rendezvous
from labkit.replicas.meeting import Meeting

pytestmark = pytest.mark.unit


class Worker:
    """One worker's part, with what its process does beside: it waits for whatever comes."""

    def __init__(self, host, index, count, secret="s"):
        self.meeting = Meeting(host, index, count, secret)
        self.selector = selectors.DefaultSelector()
        self.meeting.register(self.selector)

    def look(self):
        for key, _ in self.selector.select(0.01):
            handle, number = key.data
            handle(key.fileobj, number)
        return self.meeting.over()


def all_over(workers, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if all([worker.look() for worker in workers]):
            return True
    return False


@pytest.fixture(params=["127.0.0.1", "::1"])
def host(request):
    """Return a free ``host:port``, of either version of IP."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((request.param, 0))
            return rendezvous.join(request.param, probe.getsockname()[1])
    except OSError:
        cannot("no IPv6 here")


def test_all_go_when_the_last_has_come(host):
    workers = [Worker(host, index, 3) for index in range(3)]
    for worker in workers[:2]:
        worker.meeting.come()
    assert not all_over(workers[:2], 0.2)
    workers[2].meeting.come()
    assert all_over(workers, 10)


def test_whoever_comes_before_the_first_listens_comes_again(host):
    late = Worker(host, 1, 2)
    late.meeting.come()
    assert not late.look()
    first = Worker(host, 0, 2)
    first.meeting.come()
    assert all_over([first, late], 10)


@pytest.mark.parametrize("line", [b"wrong:1\n", b":1\n", b"s:7\n", b"s:-1\n", b"1\n", b"\n", b""])
def test_others_count_for_nothing(host, line):
    first = Worker(host, 0, 2)
    first.meeting.come()
    name, port = rendezvous.split(host)
    with socket.create_connection((name, int(port))) as stranger:
        stranger.sendall(line)
        if not line:
            stranger.shutdown(socket.SHUT_WR)
        assert not all_over([first], 0.2)
    second = Worker(host, 1, 2)
    second.meeting.come()
    assert all_over([first, second], 10)
