"""What a shell offers when Tab is pressed: bash itself is asked, with the script it would read."""

import os
import shlex
import subprocess
import sys

import pytest
from processes import REPOSITORY

from labkit.book.plan import profiles
from labkit.trials import choices

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.beside, pytest.mark.timeout(300)]

BASH = """
eval "$(_LABKIT_COMPLETE=bash_source labkit)"
offer=$(complete -p labkit | sed 's/.*-F \\([^ ]*\\).*/\\1/')
compopt() { files="files"; }
ask() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=() files=""
    "$offer" labkit
    echo "${COMPREPLY[@]}" $files
}
"""
"""Has bash read the script that it would read, and calls what that has Tab call."""


@pytest.fixture
def environment(tmp_path):
    """Have a command ``labkit`` on the path, as an installed one is."""
    command = tmp_path / "bin" / "labkit"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom labkit.cli import main\n\nmain()\n")
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY)}


def test_bash_offers_commands_options_and_values(environment):
    offered = {
        ("rep",): ["reproduce"],
        ("run", "--learn"): ["--learning-rate"],
        ("run", "--framework", "mx"): ["mxnet"],
        # A list goes on, whatever stands behind its option.
        ("run", "--workers", "1", "--framework", "mxnet", ""): list(choices("framework")),
        ("results", "--model", "lenet5", "ls"): ["lstm"],
        ("run", "--model", "my_"): ["files"],
        ("reproduce", "--profile", ""): profiles(),
        ("reproduce", "--only", "6-1-3"): ["6-1-3-cnn-batch-512"],
        ("figure", "6.1b"): ["6.1b", "6.1b-initializer", "6.1b-rate"],
        ("figure", "6.3", "--launcher", "k"): ["kubernetes"],
    }
    asked = "".join(f"ask labkit {shlex.join(words)}\n" for words in offered)
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH + asked], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert dict(zip(offered, map(str.split, lines), strict=True)) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_of_their_own(shell, environment):
    """It is made, but no such shell is asked here."""
    done = subprocess.run(
        ["labkit"], env=environment | {"_LABKIT_COMPLETE": f"{shell}_source"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"_LABKIT_COMPLETE={shell}_complete" in done.stdout
