"""What a run says of the code that made it."""

import subprocess

import pytest

from labkit import provenance

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
