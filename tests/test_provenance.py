"""What a run says of the code that made it."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from labkit import provenance
from labkit.settings import environment

pytestmark = pytest.mark.unit


def test_the_revision_says_whether_code_differs_from_it(tmp_path, monkeypatch, request):
    """What is published in a checkout comes from runs: replacing it changes none."""

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def revision():
        provenance.revision.cache_clear()
        return provenance.revision()

    request.addfinalizer(provenance.revision.cache_clear)
    monkeypatch.setattr(provenance, "REPOSITORY", tmp_path)
    assert revision() == "unknown"
    code, published = tmp_path / "code.py", tmp_path / "outputs/reference/README.md"
    published.parent.mkdir(parents=True)
    for path in (code, published):
        path.write_text("old")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "--short=12", "HEAD")
    assert revision() == commit
    published.write_text("new")
    (tmp_path / "untracked.py").touch()
    assert revision() == commit
    code.write_text("new")
    assert revision() == f"{commit}+"


def host(home):
    """Return what a new process calls a machine named vm, with a state directory of its own."""
    code = "import platform; platform.node = lambda: 'vm'\n"
    code += "from labkit import provenance; print(provenance.host())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(XDG_STATE_HOME=str(home)),
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_machine_keeps_its_name_and_shares_it_with_no_namesake(tmp_path):
    first = host(tmp_path / "one")
    assert re.fullmatch("vm-[0-9a-f]{6}", first)
    assert host(tmp_path / "one") == first
    assert host(tmp_path / "another") != first


def test_processes_that_name_a_machine_at_once_agree(tmp_path):
    with ThreadPoolExecutor() as pool:
        names = set(pool.map(host, [tmp_path] * 4))
    assert len(names) == 1
    assert [path.name for path in (tmp_path / "labkit").iterdir()] == ["machine"]


def test_where_nothing_can_be_kept_the_name_is_all(tmp_path):
    (tmp_path / "labkit").touch()
    assert host(tmp_path) == "vm"


@pytest.mark.parametrize(
    ("address", "shared"),
    [
        ("https://127.0.0.1:6443", False),
        ("https://localhost:6443", False),
        ("https://[::1]:6443", False),
        ("https://10.96.0.1:443", True),
        ("https://[fd00::1]:6443", True),
        ("https://cluster.example.org", True),
    ],
)
def test_a_loopback_address_names_another_cluster_on_each_machine(address, shared, monkeypatch):
    monkeypatch.setattr(provenance, "host", lambda: "vm-0f1e2d")
    expected = address if shared else f"{address} on vm-0f1e2d"
    assert provenance.cluster_host(address) == expected
