"""What is printed for people: broken to fit a terminal, as it is everywhere else."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from labkit.cli.terminal import fitted
from labkit.settings import OUTPUTS

pytestmark = pytest.mark.unit

COMMAND = "import sys; from labkit.cli import main; main(sys.argv[1:], prog_name='labkit')"


def test_what_is_broken_is_indented_as_it_was_and_commands_stay_whole_words():
    text = "one\n  two three --batch-size four\nfive"
    assert fitted(text, 20) == "one\n  two three\n  --batch-size four\nfive"
    assert fitted("label value and more", 14, hang=6) == "label value\n      and more"
    assert fitted(text, None) == text
    path = "/a/path-that-is/longer-than/the-line"
    assert fitted(f"{path}: is missing", 20) == f"{path}:\nis missing"


@pytest.fixture
def labkit_in_a_terminal(tmp_path):
    """Return a function that calls the command with what it prints in a terminal's 60 columns."""

    def call(*words, **streams):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        environment[OUTPUTS] = str(tmp_path / "outputs")
        try:
            streams = {"stdout": slave, "stderr": slave} | streams
            command = [sys.executable, "-c", COMMAND, *words]
            with subprocess.Popen(command, env=environment, text=True, **streams) as process:
                os.close(slave)
                shown = _read(master)
                return shown, process.communicate()[1]
        finally:
            os.close(master)

    return call


def _read(master):
    """Return all that is written to a terminal."""
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # how Linux says that nobody can write there any more
            return shown.decode().replace("\r\n", "\n")
        if not piece:
            return shown.decode().replace("\r\n", "\n")
        shown += piece


ERRORS = {
    "results": "nothing that can be shown has been measured",
    "figure 6.3": "nothing that can be shown has been measured",
    "claims": "nothing that can be shown has been measured",
    "figure 6.33": "no such figure",
    "results --output t.xyz": "which format is .xyz?",
    "run --framework mxnet --batch-size 9": "learning_rate: missing",
}


@pytest.mark.slow
@pytest.mark.parametrize("words", ERRORS)
def test_errors_fit_the_terminal(labkit_in_a_terminal, words):
    shown, _ = labkit_in_a_terminal(*words.split())
    assert ERRORS[words] in " ".join(shown.split())
    lines = shown.splitlines()  # a path alone is never broken
    assert all(len(line) <= 60 or " " not in line for line in lines)


def test_errors_are_not_broken_in_a_file_though_the_output_is_a_terminal(labkit_in_a_terminal):
    shown, error = labkit_in_a_terminal("results", stderr=subprocess.PIPE)
    assert shown == ""
    [line] = error.splitlines()
    assert line.startswith("labkit: nothing that can be shown") and len(line) > 120
