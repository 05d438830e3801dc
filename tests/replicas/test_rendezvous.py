"""How pods meet: who is let in at the port where workers register, and by which addresses."""

import contextlib
import socket
import threading
import time

import pytest
from processes import cannot, eventually

from labkit.replicas import rendezvous

pytestmark = pytest.mark.unit

SECRET = "secret"


@pytest.fixture
def coordinate(monkeypatch):
    """Return a function that coordinates some workers in a thread, which it returns."""
    with socket.socket() as free:
        free.bind(("", 0))
        monkeypatch.setattr(rendezvous, "PORT", free.getsockname()[1])
    threads = []

    def begin(count):
        thread = threading.Thread(target=rendezvous.coordinate, args=(count, SECRET))
        thread.daemon = True
        thread.start()
        threads.append(thread)
        return thread

    yield begin
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def send(message, index, secret="secret", timeout=10.0, host="localhost:1"):
    return rendezvous.send(host, message, index, "node-1", secret, timeout)


def call(line=b""):
    """Connect, and send a line."""
    connection = socket.socket()
    eventually(lambda: connection.connect_ex(("127.0.0.1", rendezvous.PORT)) == 0)
    connection.sendall(line)
    connection.settimeout(20)
    return connection


@pytest.mark.parametrize(
    "line",
    [
        b"finished 0 node-1\n",
        b"guessed finished 0 node-1\n",
        b"secret finished 99 node-1\n",
        b"secret finished -1 node-1\n",
        b"secret leave 0 node-1\n",
        b"secret finished \xff node-1\n",
        b"\n",
        b"x" * 5000,
    ],
)
def test_only_the_trials_own_workers_end_it(line, coordinate):
    thread = coordinate(1)
    with call(line) as stranger, contextlib.suppress(ConnectionResetError):
        assert stranger.recv(100) == b""
    assert thread.is_alive()
    assert send("finished", 0) == "ok\n"
    thread.join(10)
    assert not thread.is_alive()


def test_who_drips_or_is_silent_keeps_nobody_waiting(coordinate):
    thread = coordinate(2)
    with call(b"secret regis"), call():
        begin = time.monotonic()
        for index in range(2):
            send("finished", index)
        assert time.monotonic() - begin < rendezvous.PATIENCE
    thread.join(10)
    assert not thread.is_alive()


def test_a_line_has_its_time_as_a_whole(coordinate, monkeypatch):
    monkeypatch.setattr(rendezvous, "PATIENCE", 0.5)
    coordinate(1)
    with call() as dripping, pytest.raises(OSError):
        for _ in range(200):
            dripping.sendall(b"x")
            time.sleep(0.05)
    send("finished", 0)


def test_a_wrong_secret_is_said_by_the_caller(coordinate):
    coordinate(1)
    with pytest.raises(TimeoutError, match="does not answer to 'register'"):
        send("register", 0, secret="wrong", timeout=0.3)
    send("finished", 0)


def addresses(*found):
    """Return what stands for `socket.getaddrinfo`."""

    def find(name, port, *_, **__):
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, 1, 6, "", (address, int(port)))
            for address in found
        ]

    return find


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        (["10.0.0.7"], "10.0.0.7:9000"),
        (["fd00::7"], "[fd00::7]:9000"),
        (["fd00::7", "10.0.0.7"], "10.0.0.7:9000"),
    ],
)
def test_addresses_of_both_versions(found, chosen, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", addresses(*found))
    assert rendezvous.resolve(["w-0.trial:9000"], 1.0) == [chosen]
    assert rendezvous.split(chosen) == (found[-1], "9000")


def test_it_listens_to_ipv6_as_well(coordinate):
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(("::1", 0))
    except OSError as error:
        cannot(f"no IPv6 on this machine: {error}")
    coordinate(1)
    assert send("finished", 0, host="[::1]:9001") == "ok\n"
