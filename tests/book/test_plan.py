"""What a book is made of, and when a page has to be made again."""

import fcntl
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tiny import FIGURE, PARAMETERS, TRIAL, up_to_date, write

from labkit.book import pages
from labkit.book import reproduce as module
from labkit.book.pages import Page
from labkit.book.plan import BookError, plan, select
from labkit.book.reproduce import reproduce
from labkit.errors import LabkitError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("profiles", "call", "said"),
    [
        ("[tiny]", {"profile": "tny"}, ["profile 'tny'", "did you mean 'tiny'"]),
        ("[tiny.0-1-tny]\nsteps = 1", {}, ["notebook '0-1-tny'", "did you mean '0-1-tiny'"]),
        ("[tiny.0-1-tiny]\nstep = 1", {}, ["parameter 'step'", "did you mean 'steps'"]),
        ("[tiny.common]\nbatchsize = 1", {}, ["parameter 'batchsize'", "mean 'batch_size'"]),
        ("[tiny]", {"only": ["0-2"]}, ["notebook '0-2'", "known: 0-1-tiny"]),
        ("[tiny]\nnotebooks = ['0-2']", {}, ["profile 'tiny', notebooks", "notebook '0-2'"]),
        ("[tiny", {}, ["profiles.toml"]),
        ("[tiny.common]\nlauncher = 'k8s'", {}, ["launcher: 'k8s'", "local, kubernetes"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_error_before_anything_starts(
    notebooks, rendered, profiles, call, said
):
    (notebooks / "profiles.toml").write_text(profiles)
    with pytest.raises(LabkitError) as caught:
        reproduce(**{"profile": "tiny", "notebooks": notebooks} | call)
    for piece in said:
        assert piece in str(caught.value)
    assert not rendered.parent.exists()


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("steps = 3 * epochs", "not: steps = 3 * epochs"),
        ("import os", "not: import os"),
        ("steps = 1\nworkers = [1, 2", "0-1-tiny.ipynb: the parameters cell, line 2: "),
        ("%matplotlib inline", "0-1-tiny.ipynb: the parameters cell, line 1: "),
    ],
)
def test_parameters_are_literals(notebooks, parameters, said):
    write(notebooks / "0-1-tiny.ipynb", parameters=parameters)
    with pytest.raises(BookError, match=re.escape(said)):
        plan("tiny", notebooks=notebooks)


@pytest.mark.parametrize("content", ["", "<<<<<<< HEAD\n{}", "[]", "{}"])
def test_what_is_no_notebook_is_named(notebooks, content):
    path = notebooks / "0-1-tiny.ipynb"
    path.write_text(content)
    with pytest.raises(LabkitError, match=f"{re.escape(str(path))}: not a notebook"):
        plan("tiny", notebooks=notebooks)


def test_a_notebook_without_parameters_is_refused(notebooks):
    path = notebooks / "0-1-tiny.ipynb"
    path.write_text(path.read_text().replace('"parameters"', '"others"'))
    with pytest.raises(BookError, match="no cell has the tag 'parameters'"):
        plan("tiny", notebooks=notebooks)


def test_values_go_to_the_notebooks_that_know_them(notebooks):
    write(notebooks / "0-2-other.ipynb", parameters='workers = 1\nlauncher = "local"')
    (notebooks / "profiles.toml").write_text(
        "[tiny.common]\nsteps = 5\nworkers = 1\n[tiny.0-1-tiny]\nbatch_size = 3\n"
    )
    first, second = plan("tiny", launcher="kubernetes", notebooks=notebooks)
    assert first.parameters == {"steps": 5, "batch_size": 3, "launcher": "kubernetes"}
    assert second.parameters == {"launcher": "kubernetes"}  # its own value of workers is 1


def test_a_profile_may_say_where_its_trials_run(notebooks):
    """Its pages there have its name alone; those of other places say where."""
    write(notebooks / "0-2-other.ipynb", parameters='workers = 1\nlauncher = "local"')
    (notebooks / "profiles.toml").write_text(
        "[tiny.common]\nlauncher = 'kubernetes'\n[usual]\n[usual.0-1-tiny]\nsteps = 5\n"
    )
    found = {
        (profile, launcher): plan(profile, launcher, notebooks)[1]
        for profile in ("tiny", "usual")
        for launcher in (None, "kubernetes", "local")
    }
    assert {asked: (page.launcher, page.home.name) for asked, page in found.items()} == {
        ("tiny", None): ("kubernetes", "tiny"),
        ("tiny", "kubernetes"): ("kubernetes", "tiny"),
        ("tiny", "local"): ("local", "tiny-local"),
        ("usual", None): ("local", "usual"),
        ("usual", "kubernetes"): ("kubernetes", "usual-kubernetes"),
        ("usual", "local"): ("local", "usual"),
    }


def test_a_profile_may_run_some_of_the_book_only(notebooks):
    (notebooks / "0-2-other.ipynb").write_bytes((notebooks / "0-1-tiny.ipynb").read_bytes())
    assert [page.name for page in plan("tiny", notebooks=notebooks)] == ["0-1-tiny", "0-2-other"]
    (notebooks / "profiles.toml").write_text('[tiny]\nnotebooks = ["0-2-other"]')
    assert [page.name for page in plan("tiny", notebooks=notebooks)] == ["0-2-other"]


def test_two_at_once_do_not_take_each_others_pages_away(notebooks, rendered):
    rendered.mkdir(parents=True)
    other = os.open(rendered, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(BookError, match=f"another labkit reproduce is at work in {rendered}"):
        reproduce("tiny", notebooks=notebooks)
    os.close(other)


def test_only_notebooks_that_are_listed_are_part_of_the_book(notebooks):
    (notebooks / "0-1-tiny-Copy1.ipynb").write_text("not even a notebook")
    write(notebooks / "0-0-last.ipynb")
    (notebooks / "own").mkdir()
    write(notebooks / "own" / "mine.ipynb")
    (notebooks / "profiles.toml").write_text('book = ["0-1-tiny", "0-0-last"]\n[tiny]\n')
    assert [page.name for page in plan("tiny", notebooks=notebooks)] == ["0-1-tiny", "0-0-last"]
    (notebooks / "profiles.toml").write_text('book = ["0-1-tny"]\n[tiny]\n')
    with pytest.raises(BookError, match="book: notebook '0-1-tny' .*did you mean '0-1-tiny'"):
        plan("tiny", notebooks=notebooks)


def git(directory, *words):
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words],
        cwd=directory, check=True, capture_output=True,
    )  # fmt: skip


def test_a_notebook_that_is_not_as_committed_is_named_and_used(
    notebooks, rendered, monkeypatch
):
    def said():
        lines = []
        with pytest.raises(KeyboardInterrupt):
            reproduce("tiny", notebooks=notebooks, echo=lines.append)
        return [line for line in lines if "committed" in line]

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "prepare", stop)
    source = notebooks / "0-1-tiny.ipynb"
    assert said() == []  # git knows nothing of it
    git(notebooks, "init")
    git(notebooks, "add", ".")
    git(notebooks, "commit", "-m", "as it was")
    assert said() == []
    (page,) = plan("tiny", notebooks=notebooks)
    inputs = page.inputs()
    saved = json.loads(source.read_text())
    saved["cells"][2] |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": "7"}]}
    source.write_text(json.dumps(saved, indent=2))  # as JupyterLab leaves it after Run All
    assert said() == [] and page.inputs() == inputs
    saved["cells"][1]["source"] = PARAMETERS.replace("8", "9")
    source.write_text(json.dumps(saved))
    assert said() == ["differs from what is committed, and is used as it is now: 0-1-tiny"]
    assert page.inputs() != inputs


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        ([], ["6-1-1-a", "6-1-2-b", "6-10-c"]),
        (["6-1"], ["6-1-1-a", "6-1-2-b"]),
        (["6-10", "6-1-1"], ["6-1-1-a", "6-10-c"]),
        (["6-1-2-b"], ["6-1-2-b"]),
    ],
)
def test_only_takes_numbers_and_their_beginnings(only, chosen):
    some = [Page(Path(f"{n}.ipynb"), {}, Path()) for n in ("6-1-1-a", "6-1-2-b", "6-10-c")]
    assert [page.name for page in select(some, only)] == chosen


# --- pages ----------------------------------------------------------------------------------


def test_a_page_is_made_again_when_what_it_comes_from_changes(notebooks, rendered, monkeypatch):
    (page,) = plan("tiny", notebooks=notebooks)
    assert not page.is_up_to_date()

    def made():
        (page,) = plan("tiny", notebooks=notebooks)
        record = {"inputs": page.inputs(), "figures": [{"number": "1", "title": "one"}]}
        page.executed.parent.mkdir(parents=True, exist_ok=True)
        page.executed.write_text(json.dumps({"metadata": {"labkit": record}}))
        for path in [page.executed.with_suffix(".html"), *page.files(record)]:
            path.parent.mkdir(exist_ok=True)
            path.touch()
        assert up_to_date(notebooks)
        return page.files(record)

    for change in (
        lambda: made()[0].unlink(),
        lambda: (rendered / "0-1-tiny.html").unlink(),
        lambda: (rendered / "0-1-tiny.ipynb").unlink(),
        lambda: (notebooks / "profiles.toml").write_text("[tiny.common]\nsteps = 7\n"),
        lambda: write(notebooks / "0-1-tiny.ipynb", TRIAL, FIGURE),
        lambda: monkeypatch.setattr(pages, "TEMPLATES", notebooks),
    ):
        made()
        change()
        assert not up_to_date(notebooks)
    monkeypatch.undo()
