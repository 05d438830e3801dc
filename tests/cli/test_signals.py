"""SIGTERM and SIGHUP end a command as Ctrl-C does, with an exit code that tells which it was."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from processes import REPOSITORY

from labkit import campaign, doctor
from labkit.cli import signals
from labkit.settings import OUTPUTS

RUN = ("run", "--framework=mxnet", "--model=lenet5", "--batch-size=32", "--learning-rate=0.01",
       "--eval-samples=0", "--workers=2", "--steps=1000000")  # fmt: skip


@pytest.fixture(autouse=True)
def no_nohup():
    """The tests themselves may run under nohup, which would let SIGHUP pass unheard."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


ENDINGS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]


@pytest.mark.unit
@pytest.mark.parametrize(("number", "code"), ENDINGS)
def test_the_exit_code_tells_which(number, code, labkit, monkeypatch):
    def measure(*values, **options):
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        finally:
            if number != signal.SIGINT:  # a hub may not wait before it sends another
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(campaign, "measure", measure)
    before = [signal.getsignal(each) for each in signals.NUMBERS]
    done = labkit(*RUN)
    assert done.exit_code == code
    how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    (line,) = filter(None, done.stderr.splitlines())
    assert line.startswith(f"labkit: {how}; everything started has been ended, what had finished")
    assert [signal.getsignal(each) for each in signals.NUMBERS] == before


@pytest.mark.unit
def test_what_keeps_nothing_says_so_of_nothing(labkit, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: os.kill(os.getpid(), signal.SIGINT))
    done = labkit("doctor")
    assert done.exit_code == 130
    assert done.stderr.strip() == "labkit: interrupted; everything started has been ended."


@pytest.mark.unit
def test_what_could_not_be_ended_is_not_said_to_have_been(labkit, monkeypatch):
    def measure(*_, **__):
        error = KeyboardInterrupt()
        error.add_note("what is named above could not be")
        raise error

    monkeypatch.setattr(campaign, "measure", measure)
    said = "everything started has been ended, but what is named above could not be, what had"
    assert said in labkit(*RUN).stderr


@pytest.mark.unit
def test_a_terminal_that_was_closed_takes_no_message(labkit, monkeypatch):
    def measure(*values, **options):
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(60)
        finally:
            raise OSError(5, "Input/output error")  # as a progress bar meets it

    monkeypatch.setattr(campaign, "measure", measure)
    assert labkit(*RUN).exit_code == 129


@pytest.mark.unit
def test_nohup_is_respected(labkit, monkeypatch):
    def measure(*values, **options):
        os.kill(os.getpid(), signal.SIGHUP)
        raise SystemExit(7)

    monkeypatch.setattr(campaign, "measure", measure)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert labkit(*RUN).exit_code == 7
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), ENDINGS[:2])
def test_everything_started_is_ended(number, code, warm, tmp_path):
    process = subprocess.Popen(
        [Path(sys.executable).with_name("labkit"), *RUN], cwd=REPOSITORY, text=True,
        env=os.environ | {OUTPUTS: str(tmp_path)}, stderr=subprocess.PIPE,
    )  # fmt: skip
    logs = tmp_path / "runs" / ".scratch"
    try:
        replicas = []
        while len(replicas) < 2:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
            replicas = [p for p in logs.glob("*/worker-*.log") if '"barrier"' in p.read_text()]
        trained = [p for p in psutil.process_iter() if str(replicas[0].parent) in opened(p)]
        assert len(trained) >= 2
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code, said
    assert f"labkit: ended by {number.name}; everything started has been ended" in said
    assert [p for p in trained if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    assert list(logs.iterdir()) == []


def opened(process):
    """Return the names of the files that a process writes to."""
    try:
        return " ".join(file.path for file in process.open_files())
    except psutil.Error:
        return ""
