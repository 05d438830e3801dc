"""One measurement at a time on a machine, whoever measures, and whatever lies in /tmp."""

import contextlib
import json
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

import made_runs
import pytest
from processes import cannot, exit_code, fork

from labkit.errors import LabkitError
from labkit.launchers.local import turn as module
from labkit.launchers.local.turn import turn

pytestmark = pytest.mark.unit


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def names(folder):
    return {path.name for path in folder.iterdir()}


@contextlib.contextmanager
def held(trial):
    """Have another thread measure a trial; gives a function that ends that."""
    inside, leave = threading.Event(), threading.Event()

    def measure():
        with turn(trial, print):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=measure)
    thread.start()
    assert inside.wait(60)
    try:
        yield leave.set
    finally:
        leave.set()
        thread.join()


def test_the_second_waits_and_is_told_for_whom(folder, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    first, said = made_runs.trial(workers=1), []
    with held(first) as leave:

        def hear(event):
            said.append(event.for_)
            leave()

        with turn(made_runs.trial(), hear):
            pass
    assert len(said) == 1
    assert said[0].startswith(f"alice's trial {first.name[:-13]} on this machine, measured since ")
    assert said[0].endswith("; 0 s so far")


def test_it_is_said_again_and_again_how_long_one_has_waited(folder, monkeypatch):
    monkeypatch.setattr(module, "REMIND", 0.01)
    said = []
    with held(made_runs.trial()) as leave:

        def hear(event):
            said.append(event.for_)
            if len(said) == 3:
                leave()

        with turn(made_runs.trial(), hear):
            pass
    assert len(said) >= 3


def test_who_is_alone_hears_nothing(folder):
    for _ in range(2):
        with turn(made_runs.trial(), pytest.fail):
            about = json.loads((folder / "labkit.lock").read_text())
            assert about["trial"] == made_runs.trial().name[:-13] and about["user"]
        assert (folder / "labkit.lock").read_text() == ""
    assert names(folder) == {"labkit.lock"}


@pytest.mark.parametrize(
    "content", [b"", b"\xff\x1b[31m", b"[]", b'{"user": 1}', b'"' + b"x" * 5000]
)
def test_whatever_the_file_says_is_shown_at_most(content, folder):
    said = []
    with held(made_runs.trial()) as leave:
        (folder / "labkit.lock").write_bytes(content)

        def hear(event):
            said.append(event.for_)
            leave()

        with turn(made_runs.trial(), hear):
            pass
    assert said == ["another trial on this machine; 0 s so far"]


def test_no_escape_sequences_reach_a_terminal(folder):
    said = []
    with held(made_runs.trial()) as leave:
        about = {"user": "\x1b[2Jeve\n" + "e" * 100, "trial": "\r", "since": "now"}
        (folder / "labkit.lock").write_text(json.dumps(about))

        def hear(event):
            said.append(event.for_)
            leave()

        with turn(made_runs.trial(), hear):
            pass
    assert said[0].isprintable() and len(said[0]) < 200


def plant(path, what, victim):
    """Put something in the place of a lock."""
    match what:
        case "link":
            path.symlink_to(victim)
        case "dangling link":
            path.symlink_to(victim.with_name("new"))
        case "hard link":
            path.hardlink_to(victim)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()


PLANTED = ("link", "dangling link", "hard link", "pipe", "folder")


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_in_its_place_is_left_alone(what, folder, tmp_path_factory):
    victim = tmp_path_factory.mktemp("home") / "thesis.tex"
    victim.write_text("years of work")
    plant(folder / "labkit.lock", what, victim)
    with turn(made_runs.trial(), pytest.fail):
        assert names(folder) == {"labkit.lock", f"labkit-{os.getuid()}.lock"}
    assert victim.read_text() == "years of work"
    assert names(victim.parent) == {"thesis.tex"}


def test_if_no_lock_can_be_opened_it_says_what_to_do(folder):
    for name in ("labkit.lock", f"labkit-{os.getuid()}.lock"):
        plant(folder / name, "link", folder / "elsewhere")
    wrong = pytest.raises(LabkitError, match="Remove them, or set TMPDIR")
    with wrong, turn(made_runs.trial(), pytest.fail):
        pass


def test_it_is_open_to_all_whatever_the_umask(folder):
    before = os.umask(0o077)
    try:
        with turn(made_runs.trial(), pytest.fail):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "labkit.lock").stat().st_mode) == 0o666


def test_two_users_take_turns(monkeypatch):
    if os.getuid() != 0:
        cannot("only root can become somebody else")
    shared = Path(tempfile.mkdtemp(dir="/tmp"))
    shared.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))

    def as_somebody_else():
        os.setuid(65534)
        with turn(made_runs.trial(), lambda event: os._exit(7)):
            os._exit(8)

    try:
        with turn(made_runs.trial(), pytest.fail):
            assert exit_code(fork(as_somebody_else)) == 7  # it has to wait
        assert exit_code(fork(as_somebody_else)) == 8
    finally:
        shutil.rmtree(shared)
