"""labkit doctor: what it sees, and what it says of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from made_cgroups import Hierarchies, limit

from labkit import doctor
from labkit.cli import main
from labkit.doctor import Check
from labkit.replicas import cgroups

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def frameworks(tmp_path, monkeypatch):
    """Stand in for the frameworks, whose own imports take long; returns where they lie."""
    for name in ("tensorflow", "mxnet"):
        (tmp_path / f"{name}.py").write_text("__version__ = '7.8.9'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Give an idle machine with eight cores, no limits, and no data."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1))
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cgroups, "PROC", tmp_path / "nowhere")
    return monkeypatch


def test_all_is_looked_at_and_nothing_essential_is_missing(frameworks, machine):
    checks = {check.name: check for check in doctor.examine()}
    assert {"Python", "cores", "memory", "load", "system libraries", "outputs"} < checks.keys()
    assert not [check for check in checks.values() if check.ok is False]
    for name in ("tensorflow", "mxnet"):
        assert checks[name].found.startswith("7.8.9, imported in")
    for name in ("fashion-mnist", "mnist", "ptb"):
        assert checks[name].ok is None and "labkit data" in checks[name].advice


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "processor"),
        ("raise SystemExit(3)", "exit code 3"),
    ],
)
def test_a_framework_that_cannot_be_imported_is_essential(frameworks, source, said):
    (frameworks / "mxnet.py").write_text(source)
    check = doctor.framework("mxnet", ("mxnet",))
    assert check.ok is False and said in check.found and check.advice


def test_a_framework_that_hangs_does_not_hold_up(frameworks, monkeypatch):
    monkeypatch.setattr(doctor, "IMPORT_SECONDS", 0.3)
    (frameworks / "mxnet.py").write_text("import time; time.sleep(60)")
    check = doctor.framework("mxnet", ("mxnet",))
    assert check.ok is False and "did not end in 0.3 s" in check.found


def test_a_missing_library_is_essential(tmp_path):
    (tmp_path / "libquadmath.so.0").touch()  # hides the real one
    code = "from labkit.doctor import libraries; print(libraries())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ok=False" in done.stdout and "libgomp.so.1" not in done.stdout
    assert "libquadmath0" in done.stdout


def test_set_up_can_look_before_anything_is_installed():
    """The module needs the standard library alone, as long as nothing else is looked at."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from labkit.doctor import libraries"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_a_busy_machine_is_noted(machine):
    assert doctor.load().ok is True
    machine.setattr(os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    assert doctor.load().ok is None


def test_cores_bound_what_is_measured(machine):
    assert "Up to 8 workers and dedicated servers" in doctor.cores().advice
    machine.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert "CPU affinity: 2 of 8 processors" in doctor.cores().found
    assert "Up to 2 workers" in doctor.cores().advice
    machine.setattr(os, "sched_getaffinity", lambda _: {3})
    assert doctor.cores().ok is None


def test_hardware_threads_are_not_cores(machine, hardware_threads):
    check = doctor.cores()
    assert check.found == "4, with 8 hardware threads" and "Up to 4 workers" in check.advice


def test_what_limits_the_cores_is_said(machine, tmp_path):
    group = Hierarchies(tmp_path, machine).mount()
    limit(group, cpu__max="250000 100000")
    check = doctor.cores()
    assert check.ok is None and check.found == "2 (cgroup quota: the time of 2.5 of 8 cores)"
    assert "more than 2 count as oversubscribed" in check.advice
    machine.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6})
    assert doctor.cores().found == (
        "2 (CPU affinity: 3 of 8 processors; cgroup quota: the time of 2.5 of 3 cores)"
    )
    limit(group, cpu__max="max 100000")
    assert doctor.cores().ok is True


def test_the_memory_of_a_container_counts(machine, tmp_path):
    group = Hierarchies(tmp_path, machine).mount()
    limit(group, memory__max=2_000_000_000, memory__current=500_000_000)
    check = doctor.memory()
    assert check.ok is None and "of 2.0 GB, enough for about 0 workers" in check.found


def test_outputs_that_cannot_be_written_are_essential(machine, tmp_path):
    machine.setenv("LABKIT_OUTPUTS", str(tmp_path / "new" / "folder"))
    assert doctor.outputs().ok is True and not (tmp_path / "new").exists()
    machine.setenv("LABKIT_OUTPUTS", "/proc/labkit")
    check = doctor.outputs()
    assert check.ok is False and "/proc/labkit" in check.found and "LABKIT_OUTPUTS" in check.advice


def test_a_full_disk_is_essential(machine):
    machine.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e6))
    check = doctor.outputs()
    assert check.ok is False and "0.0 GB free" in check.found


@pytest.mark.parametrize(
    ("algorithm", "good", "says"), [("cubic", True, ""), ("bbr", None, "=cubic"), ("", True, "")]
)
def test_what_slows_tcp_between_replicas_is_noted(algorithm, good, says, machine):
    machine.setattr(doctor, "congestion_control", lambda: algorithm)
    check = doctor.tcp()
    assert check.ok is good and says in check.advice and bool(says) == bool(check.advice)
    assert check.found == f"congestion control {algorithm or 'unknown'}"


def test_changed_data_is_noted(machine, tmp_path):
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte").write_bytes(b"changed")
    (check,) = (check for check in doctor.datasets() if check.name == "mnist")
    assert check.ok is None and "has changed" in check.advice


def test_rendering_aligns_and_marks():
    text = doctor.render(
        [
            Check("a", True, "one"),
            Check("longer", None, "two", "word " * 40),
            Check("mid", False, "three", "Do this."),
        ]
    )
    first, second, *advice, third, do, _, verdict = text.splitlines()
    assert (first, second, third) == ("ok  a       one", "--  longer  two", "!!  mid     three")
    assert len(advice) > 1 and all(line.startswith(" " * 12 + "word") for line in advice)
    assert do == " " * 12 + "Do this." and verdict.endswith("mid.")
    assert max(map(len, text.splitlines())) <= 99
    assert "mid" not in doctor.render([Check("a", True, "one")])


@pytest.mark.parametrize(("terminal", "widest"), [("80", 80), ("300", doctor.WIDEST)])
def test_advice_fits_the_terminal(terminal, widest, monkeypatch):
    monkeypatch.setenv("COLUMNS", terminal)
    monkeypatch.setattr(doctor, "examine", lambda: [Check("a", None, "one", "word " * 60)])
    lines = CliRunner().invoke(main, ["doctor"]).output.splitlines()
    assert widest - len("word ") < max(map(len, lines)) <= widest


def test_no_cluster_is_no_fault(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    check = doctor.cluster()
    assert check.ok is None and "no usable kubeconfig" in check.advice
