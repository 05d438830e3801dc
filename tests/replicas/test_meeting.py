"""Workers of a script meet: all of them, and nobody else."""

import selectors
import socket
import time

import pytest
from processes import cannot

from labkit.replicas import rendezvous
from labkit.replicas.meeting import ENOUGH, READY, Meeting

pytestmark = pytest.mark.unit


class Worker:
    """One worker's part, with what its process does beside: it waits for whatever comes."""

    def __init__(self, host, index, count, secret="s"):
        self.meeting = Meeting(host, index, count, secret)
        self.occasion = READY
        self.selector = selectors.DefaultSelector()
        self.meeting.register(self.selector)

    def come(self, occasion=READY):
        self.occasion = occasion
        self.meeting.come(occasion)

    def look(self):
        for key, _ in self.selector.select(0.01):
            handle, number = key.data
            handle(key.fileobj, number)
        return self.meeting.over(self.occasion)


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
        worker.come()
    assert not all_over(workers[:2], 0.2)
    workers[2].come()
    assert all_over(workers, 10)


def test_whoever_comes_before_the_first_listens_comes_again(host):
    late = Worker(host, 1, 2)
    late.come()
    assert not late.look()
    first = Worker(host, 0, 2)
    first.come()
    assert all_over([first, late], 10)


def test_one_that_is_alone_waits_for_nobody():
    alone = Worker("", 0, 1)
    assert not alone.look()
    alone.come()
    assert alone.look()


def test_they_meet_again_on_another_occasion(host):
    workers = [Worker(host, index, 2) for index in range(2)]
    for occasion in (READY, ENOUGH):
        workers[0].come(occasion)
        assert not workers[0].look() and not all_over(workers[:1], 0.2)
        workers[1].come(occasion)
        assert all_over(workers, 10)


@pytest.mark.parametrize("line", [
    b"wrong:ready:1\n", b":ready:1\n", b"s:ready:7\n", b"s:ready:-1\n", b"s:enough:1\n",
    b"s:never:1\n", b"s:\xff:1\n", b"s:1\n", b"1\n", b"\n", b"",
])  # fmt: skip
def test_others_count_for_nothing(host, line):
    first = Worker(host, 0, 2)
    first.come()
    name, port = rendezvous.split(host)
    with socket.create_connection((name, int(port))) as stranger:
        stranger.sendall(line)
        if not line:
            stranger.shutdown(socket.SHUT_WR)
        assert not all_over([first], 0.2)
    second = Worker(host, 1, 2)
    second.come()
    assert all_over([first, second], 10)
