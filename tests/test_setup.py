"""Set-up: ``make``, its targets, and what is said where something is missing."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

pytestmark = [pytest.mark.process, pytest.mark.beside]

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


class Newcomer:
    """A fresh copy of what set-up reads, and a PATH on which commands can be replaced."""

    def __init__(self, folder: Path):
        self.folder = folder / "labkit with a space"
        self.commands = folder / "commands"
        self.commands.mkdir()
        self.environment = {
            **os.environ,
            "PATH": f"{self.commands}:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "PIP_NO_INDEX": "1",  # no test may download
            "PIP_FIND_LINKS": "",
            "UV_OFFLINE": "1",
        }
        for name in ("MAKEFLAGS", "MAKELEVEL"):  # of the `make test` that this may run under
            self.environment.pop(name, None)
        for name in ("Makefile", "pyproject.toml", "requirements.lock", ".ci/setup"):
            self.copy(name)
        replicas = [f"replicas/{name}" for name in ("__init__", "cgroups", "cores", "machine")]
        for name in ("__init__", "doctor", *replicas):
            self.copy(f"labkit/{name}.py")
        self.command("df", "printf 'free\\n- - - 10\\n'")  # ends a set-up before it does much
        self.command("id", "echo 1000")

    def copy(self, name: str) -> None:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)

    def command(self, name: str, script: str) -> Path:
        path = self.commands / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def make(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )

    def environment_made_in(self, folder: Path) -> None:
        """Leave what a finished set-up leaves, without what takes long."""
        binaries = self.folder / ".venv" / "bin"
        binaries.mkdir(parents=True, exist_ok=True)
        (binaries / "python").unlink(missing_ok=True)
        (binaries / "python").symlink_to(sys.executable)
        (self.folder / ".venv" / "ready").write_text(f"{folder}\n")

    def up_to_date(self) -> bool:
        return self.make("--question", "setup").returncode == 0


@pytest.fixture
def newcomer(tmp_path):
    return Newcomer(tmp_path)


def test_make_lists_its_targets(newcomer):
    shown = newcomer.make().stdout
    for target in ("setup", "test", "reproduce", "lab", "lint", "bench", "lock", "clean"):
        assert re.search(rf"^make {target} +\w", shown, flags=re.MULTILINE)


def test_set_up_takes_the_pythons_of_pyproject(newcomer):
    allowed = SpecifierSet(PYPROJECT["project"]["requires-python"])
    for minor in range(8, 16):
        # answers the question for the version, and fails the next one, for ensurepip
        fake = newcomer.command(
            "fake", f'case "$2" in *version*) echo 3.{minor};; *) exit 1; esac'
        )
        newcomer.environment["PYTHON"] = str(fake)
        said = newcomer.make("setup").stderr
        if allowed.contains(f"3.{minor}"):
            assert f"python3.{minor}-venv" in said
        else:
            assert "needs Python 3.11 or 3.12" in said and f"(3.{minor})" in said


def test_no_python_that_runs_is_one_clear_message(newcomer):
    del newcomer.environment["PYTHON"]
    newcomer.command("python3.11", "echo pyenv: command not found >&2; exit 127")
    newcomer.command("python3.12", "exit 127")
    newcomer.command("python3", "echo 3.13")
    done = newcomer.make("setup")
    assert done.returncode != 0 and done.stdout == ""
    message = done.stderr.splitlines()[0]
    assert "python3.11 (does not run), python3.12 (does not run), python3 (3.13)" in message
    assert "make setup PYTHON=" in message


def test_the_next_python_is_taken_where_one_does_not_run(newcomer):
    del newcomer.environment["PYTHON"]
    newcomer.command("python3.11", "exit 127")
    newcomer.command("python3.12", f'exec "{sys.executable}" "$@"')
    assert "10 MB free" in newcomer.make("setup").stderr


def test_a_python_without_ensurepip_names_the_package(newcomer, tmp_path):
    (tmp_path / "ensurepip.py").write_text("raise ImportError")
    newcomer.environment["PYTHONPATH"] = str(tmp_path)
    done = newcomer.make("setup")
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    assert done.returncode != 0 and f"apt-get install {package}" in done.stderr


@pytest.fixture
def broken_libgomp(newcomer, tmp_path):
    """Hide libgomp from the loader behind a file that is not a library."""
    library = tmp_path / "libgomp.so.1"
    library.touch()
    newcomer.environment["LD_LIBRARY_PATH"] = str(tmp_path)
    return library


def test_a_missing_library_is_named_with_its_packages(newcomer, broken_libgomp):
    done = newcomer.make("setup")
    assert done.returncode != 0 and not (newcomer.folder / ".venv").exists()
    message = done.stderr.splitlines()[0]
    assert "libgomp.so.1" in message and "libquadmath.so.0" not in message
    assert "apt-get install libgomp1 libquadmath0" in message
    assert "dnf install libgomp libquadmath" in message


def test_a_missing_library_is_installed_by_who_may(newcomer, broken_libgomp, tmp_path):
    newcomer.command("id", "echo 0")
    # knows no package until its lists are there, as in a container's image
    newcomer.command(
        "apt-get",
        f'case "$*" in update*) touch "{tmp_path}/lists";;\n'
        f'*libgomp1\\ libquadmath0) [ -e "{tmp_path}/lists" ] && rm "{broken_libgomp}"; esac',
    )
    done = newcomer.make("setup")
    assert "installing libgomp1 libquadmath0" in done.stdout
    assert "10 MB free" in done.stderr  # set-up went on


def test_a_library_that_cannot_be_installed_is_named(newcomer, broken_libgomp):
    newcomer.command("id", "echo 0")
    newcomer.command("apt-get", "echo no network >&2; exit 100")
    done = newcomer.make("setup")
    assert done.returncode != 0 and "no network" in done.stderr
    assert "apt-get install libgomp1 libquadmath0" in done.stderr


def test_packages_that_cannot_be_fetched_are_one_clear_end(newcomer):
    newcomer.command("df", "printf 'free\\n- - - 9000\\n'")
    done = newcomer.make("setup")
    assert done.returncode != 0 and "It needs a network" in done.stderr
    assert not newcomer.up_to_date()


def test_set_up_is_asked_again_only_where_needed(newcomer, tmp_path):
    del newcomer.environment["PYTHON"]
    assert not newcomer.up_to_date()
    newcomer.environment_made_in(newcomer.folder)
    assert newcomer.up_to_date()
    newcomer.environment_made_in(tmp_path / "elsewhere")  # the folder was moved here
    assert not newcomer.up_to_date()
    newcomer.environment_made_in(newcomer.folder)
    later = (newcomer.folder / ".venv" / "ready").stat().st_mtime + 1
    os.utime(newcomer.folder / "requirements.lock", (later, later))
    assert not newcomer.up_to_date()
    (newcomer.folder / ".venv" / "ready").unlink()  # a set-up was interrupted
    assert not newcomer.up_to_date()


def test_an_environment_that_was_moved_is_made_anew(newcomer, tmp_path):
    newcomer.environment_made_in(tmp_path / "elsewhere")
    assert "10 MB free" in newcomer.make("setup").stderr


def test_a_finished_environment_is_kept_for_its_python_only(newcomer):
    newcomer.environment_made_in(newcomer.folder)
    done = newcomer.make("setup")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    other = "3.12" if sys.version_info[:2] == (3, 11) else "3.11"
    fake = newcomer.command("other", f'case "$2" in *version*) echo {other}; esac')
    assert "10 MB free" in newcomer.make("setup", f"PYTHON={fake}").stderr  # it began anew
