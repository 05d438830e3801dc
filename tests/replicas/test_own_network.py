"""A network of its own: who is in it finds each other, who is not finds nobody."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from processes import cannot

pytestmark = pytest.mark.process

LISTENS = """
import json, os, socket, sys
from labkit.replicas import own_network

own_network.enter()
if os.fork() == 0:
    listener = socket.create_server(("0.0.0.0", 0))
    port = listener.getsockname()[1]
    print(json.dumps({"port": port, "user": os.geteuid()}), flush=True)
    listener.accept()
    os._exit(0)
port = json.loads(sys.stdin.readline())["port"]
socket.create_connection(("127.0.0.1", port))
os.wait()
print("connected", flush=True)
"""

TELLS = """
from pathlib import Path
from labkit.replicas import machine, own_network

machine.CONGESTION_CONTROL.write_text("reno")  # which the kernel allows everybody
own_network.enter()
print(machine.congestion_control())
"""

OTHER_NETWORK = ("unshare", "--user", "--map-root-user", "--net")
"""Before a command: in a network that can be changed, as in a container."""

SEES = "from labkit import doctor; print(doctor.network())"

USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
"""Before a command: as an ordinary user."""

FORBIDDEN = (
    "unshare", "--user", "--map-root-user", "sh", "-c",
    'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"', "sh",
)  # fmt: skip
"""Likewise: where no other network can be had."""

RUN = [
    Path(sys.executable).with_name("labkit"), "run", "--model=lenet5",
    "--workers=2", "--batch-size=16", "--learning-rate=0.01", "--steps=4", "--eval-samples=250",
]  # fmt: skip


def can(before):
    """Make sure that commands can be run so."""
    try:
        works = not subprocess.run([*before, "true"], stderr=subprocess.DEVNULL).returncode
    except FileNotFoundError:
        works = False
    if not works:
        cannot(f"no command can be run here with {' '.join(before)}")


def sees(before=()):
    """Return what the doctor says of the network."""
    done = subprocess.run([*before, sys.executable, "-c", SEES], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    return done.stdout


def is_possible(before):
    """Make sure that there can be a network of its own for commands that are run so."""
    if before:
        can(before)
    if "have one of their own" not in sees(before):
        cannot("no network of its own can be had here")


@pytest.mark.parametrize("before", [(), USER], ids=["as we are", "as a user"])
def test_those_in_it_find_each_other_and_nobody_else_does(before):
    is_possible(before)
    with subprocess.Popen(
        [*before, sys.executable, "-c", LISTENS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            found = json.loads(process.stdout.readline())
            assert found["user"] == (1000 if before else os.geteuid())
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", found["port"]), timeout=10)
            process.stdin.write(json.dumps(found) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "connected\n"
        finally:
            process.kill()


def test_tcp_sends_in_it_as_outside():
    is_possible(OTHER_NETWORK)
    told = subprocess.run(
        [*OTHER_NETWORK, sys.executable, "-c", TELLS], stdout=subprocess.PIPE, text=True
    )
    assert told.stdout == "reno\n"


def test_where_there_can_be_none_the_doctor_says_what_that_means():
    can(FORBIDDEN)
    assert "use a firewall" in sees(FORBIDDEN)


@pytest.mark.parametrize("framework", ["mxnet", "tensorflow"])
@pytest.mark.parametrize("before", [USER, FORBIDDEN], ids=["as a user", "where there is none"])
def test_trials_run_with_and_without(framework, before, tmp_path):
    can(before)
    done = subprocess.run(
        [*before, *RUN, f"--framework={framework}"],
        env=os.environ | {"LABKIT_OUTPUTS": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert len(list(tmp_path.glob("runs/*/trial.json"))) == 1
