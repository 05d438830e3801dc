"""Nobody but a trial's own replicas can reach what they listen on."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

import made_trainer
import pytest
from made_trainer import launch, told
from processes import exit_code, fork

from labkit.campaign import measure
from labkit.replicas import forkserver
from labkit.replicas.events import Ready, Start, Step
from labkit.trials import Trial

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not forkserver.may_leave_network(), reason="no process may leave the network here"
    ),
]

PR_SET_DUMPABLE = 4


def can_connect(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except ConnectionRefusedError:
        return False


def test_what_listens_everywhere_is_out_of_reach(trainer, imported, directory):
    trainer("""
        def act(args, events):
            import socket
            with socket.create_server(("", 0)) as server:
                port = server.getsockname()[1]
                with socket.create_connection(("127.0.0.1", port)):
                    tell(port=port)
                events.write(Ready)
                wait_for("tried")
            train(args, events)
            end(args, events)
    """)
    reached = []

    def see(event):
        if isinstance(event, Ready) and not reached:
            reached.append(can_connect(told(directory)["port"]))
            (imported / "tried").touch()

    launch(made_trainer.single(), directory, see)
    assert reached == [False]


def listening(pid):
    """Return where a process listens in its own network: (address, port), in hexadecimal."""
    sockets = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.exists()}
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *others = line.split()
            if state == "0A" and f"socket:[{others[5]}]" in sockets:
                found.add(tuple(local.split(":")))
    return found


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
@pytest.mark.usefixtures("warm", "once")
def test_frameworks_listen_where_only_their_own_can_connect(framework, store):
    trial = Trial(framework=framework, model="lenet5", workers=2, batch_size=32,
                  learning_rate=0.01, steps=4, eval_samples=0)  # fmt: skip
    pids, networks, reached = [], set(), {}

    def see(event):
        if isinstance(event, Start):
            pids.append(event.pid)
        elif isinstance(event, Step) and not reached:
            for pid in pids:
                networks.add(os.readlink(f"/proc/{pid}/ns/net"))
                for _, port in listening(pid):
                    reached[port] = can_connect(int(port, 16))

    measure([trial], store=store, on_event=see)
    assert len(reached) >= 3 and not any(reached.values())
    assert len(networks) == 1 and networks != {os.readlink("/proc/self/ns/net")}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_who_is_not_root_stays_who_they_are():
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own are closed to others
    folder.chmod(0o1777)

    def as_somebody_else():
        os.setgid(65533)
        os.setuid(65533)
        forkserver.LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as a process that it had started
        if not forkserver.may_leave_network():
            os._exit(7)
        forkserver.leave_network()
        (folder / "mine").touch()
        with socket.create_server(("", 0)) as server, socket.socket() as client:
            client.connect(("127.0.0.1", server.getsockname()[1]))

    code = exit_code(fork(as_somebody_else))
    if code == 7:
        pytest.skip("only root may leave the network here")
    assert code == 0
    made = (folder / "mine").stat()
    shutil.rmtree(folder)
    assert (made.st_uid, made.st_gid) == (65533, 65533)
