"""The book: notebooks run, rendered, kept while nothing changes, and ended without a trace."""

import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from labkit import book
from labkit.book import pages
from labkit.book.plan import BookError
from labkit.settings import OUTPUTS, REPOSITORY, WARM

PARAMETERS = """\
framework = "mxnet"
dataset = "fashion-mnist"
batch_size = 16
steps = 8  # of every worker
launcher = "local"
"""

TRIAL = """\
from labkit.campaign import measure
from labkit.trials import Trial
trial = Trial(
    framework=framework, model="lenet5", dataset=dataset, batch_size=batch_size,
    steps=steps, learning_rate=0.025, eval_samples=250,
)
results = measure([trial], launcher)
"""

FIGURE = """\
from labkit.book import show
from labkit.figures import figure_6_5a
show(figure_6_5a(results.table), "6.5a", results.table)
"""

KERNEL = """\
import json, sys, psutil
from ipykernel.connect import get_connection_file
print("python", sys.executable)
print("transport", json.load(open(get_connection_file()))["transport"])
print("ports", psutil.Process().net_connections("inet"))
"""

FAILS = "hits, images = 7, 0\nhits / images"


def write(path, *cells, title="# 0.1 A tiny notebook", parameters=PARAMETERS):
    """Write a notebook: its title, its parameters, and these cells of code."""
    cells = [("markdown", [], title), ("code", ["parameters"], parameters)] + [
        ("code", [], source) for source in cells
    ]
    notebook = {
        "cells": [
            {"id": f"cell{i}", "cell_type": kind, "metadata": {"tags": tags}, "source": source}
            | ({"outputs": [], "execution_count": None} if kind == "code" else {})
            for i, (kind, tags, source) in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "x", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook))


@pytest.fixture
def notebooks(tmp_path):
    """Return a directory with one tiny notebook and a profile."""
    directory = tmp_path / "notebooks"
    directory.mkdir()
    write(directory / "0-1-tiny.ipynb", TRIAL, FIGURE, KERNEL)
    (directory / "profiles.toml").write_text("[tiny.common]\nsteps = 6\n")
    return directory


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return the directory in which the profile `tiny` is rendered."""
    monkeypatch.setenv(OUTPUTS, str(tmp_path / "outputs"))
    return tmp_path / "outputs" / "tiny"


@pytest.fixture(scope="session")
def kernels(warm):
    """Import once what the kernels of all tests need."""
    warm.connect(book.KERNEL, 1).close()


def up_to_date(notebooks):
    """Return whether the profile's first page is made from what is there now."""
    pages._code.cache_clear()
    return book.plan("tiny", notebooks=notebooks)[0].is_up_to_date()


# --- a whole book ---------------------------------------------------------------------------


def test_a_notebook_is_run_rendered_and_kept(
    kernels, once, notebooks, place, tmp_path, monkeypatch
):
    # A kernel of the user's by the same name would not even start.
    spec = tmp_path / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["/bin/false"], "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))

    said = []
    index = book.reproduce("tiny", notebooks=notebooks, echo=said.append)
    assert index == place / "index.html"
    assert any("[1 of 1] 0-1-tiny" in line for line in said)
    there = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert there == {
        "index.html", "0-1-tiny.ipynb", "0-1-tiny.html",
        "figures/6.5a.svg", "figures/6.5a.png", "figures/6.5a.csv",
    }  # fmt: skip

    executed = json.loads((place / "0-1-tiny.ipynb").read_text())
    injected = executed["cells"][2]["source"]
    assert "".join(injected).splitlines() == ["# what the profile tiny changes", "steps = 6"]
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", ())]
    printed = "".join(text for output in outputs for text in output.get("text", ()))
    assert f"python {sys.executable}\n" in printed
    assert "transport ipc\n" in printed
    assert "ports []\n" in printed
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert "papermill" not in json.dumps([executed["metadata"], executed["cells"][3]["metadata"]])

    trials = (place / "figures" / "6.5a.csv").read_text().splitlines()
    assert len(trials) == 2 and "mxnet-lenet5-w1-b16" in trials[1]
    assert "host" not in trials[0].split(",")
    page, front = (place / "0-1-tiny.html").read_text(), index.read_text()
    assert '<html lang="en">' in page and "<title>0.1 A tiny notebook</title>" in page
    (image,) = re.findall("<img [^>]+>", page)
    assert 'src="data:image/png;base64,' in image and 'alt="6.5a Throughput, CNN' in image
    assert not re.search(r'(src|href)="https?://', page + front)
    assert 'href="0-1-tiny.html"' in front and 'src="figures/6.5a.png"' in front
    for made in (page.replace(sys.executable, ""), front, json.dumps(executed["metadata"])):
        assert str(tmp_path) not in made
        assert str(REPOSITORY) not in made

    # Nothing has changed: nothing is run.
    with monkeypatch.context() as patch:
        patch.setattr(book, "_workshop", None)
        said.clear()
        assert book.reproduce("tiny", notebooks=notebooks, echo=said.append) == index
    assert said[0] == "1 of 1 notebooks are up to date"
    assert up_to_date(notebooks)

    # And it can be published, with its tables, and without the machine's name.
    published = tmp_path / "published"
    published.mkdir()
    (published / "of-last-time").touch()
    book.publish("tiny", published, notebooks)
    there |= {f"{name}.parquet" for name in ("trials", "steps", "evals")}
    assert {str(p.relative_to(published)) for p in published.rglob("*") if p.is_file()} == there
    trials = pd.read_parquet(published / "trials.parquet")
    assert len(trials) == 1 and trials["accuracy"].notna().all()
    assert "host" not in trials and platform.node() not in trials.to_csv()


def test_a_book_is_published_only_when_it_is_up_to_date(notebooks, place, tmp_path):
    with pytest.raises(BookError, match="0-1-tiny; first: labkit reproduce --profile tiny"):
        book.publish("tiny", tmp_path / "published", notebooks)
    assert not (tmp_path / "published").exists()


def test_a_page_is_made_again_when_what_it_comes_from_changes(notebooks, place, monkeypatch):
    (page,) = book.plan("tiny", notebooks=notebooks)
    assert not page.is_up_to_date()

    def made():
        (page,) = book.plan("tiny", notebooks=notebooks)
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
        lambda: (place / "0-1-tiny.html").unlink(),
        lambda: (place / "0-1-tiny.ipynb").unlink(),
        lambda: (notebooks / "profiles.toml").write_text("[tiny.common]\nsteps = 7\n"),
        lambda: write(notebooks / "0-1-tiny.ipynb", TRIAL, FIGURE),
        lambda: monkeypatch.setattr(pages, "TEMPLATES", notebooks),
    ):
        made()
        change()
        assert not up_to_date(notebooks)
    monkeypatch.undo()


def test_a_failing_cell_is_reported_and_the_others_go_on(kernels, notebooks, place):
    nothing_to_import = 'launcher = "local"'
    write(notebooks / "0-1-tiny.ipynb", FAILS, title="# 0.1 Bad", parameters=nothing_to_import)
    write(notebooks / "0-2-good.ipynb", "6 * 7", title="# 0.2 Good", parameters=nothing_to_import)
    (notebooks / "profiles.toml").write_text("[tiny]")
    said = []
    with pytest.raises(BookError, match="1 of 2 notebooks failed: 0-1-tiny"):
        book.reproduce("tiny", notebooks=notebooks, echo=said.append)
    report = next(line for line in said if "failed" in line)
    assert "    hits / images" in report and "ZeroDivisionError: division by zero" in report
    assert "\x1b" not in report
    partial = Path(report.strip().splitlines()[-1].partition(": ")[2])
    assert "ZeroDivisionError" in partial.read_text()
    assert not (place / "0-1-tiny.ipynb").exists()
    assert "42" in (place / "0-2-good.html").read_text()
    index = (place / "index.html").read_text()
    assert index.index("0.1 Bad") < index.index("failed") < index.index("0.2 Good")
    assert not up_to_date(notebooks)


def test_the_cheapest_notebook_of_the_smoke_profile(kernels, once, place):
    index = book.reproduce("smoke", only=["6-1-2"], echo=print)
    page = (index.parent / "6-1-2-cnn-batch-5.html").read_text()
    assert "6.1.2 What do very small batches change?" in page
    for number in ("6.2a", "6.2b"):
        assert (index.parent / "figures" / f"{number}.svg").stat().st_size > 10_000
    front = index.read_text()
    assert "3 trials" in front and "Not run yet." in front


# --- what cannot be -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profiles", "call", "said"),
    [
        ("[tiny]", {"profile": "tny"}, ["profile 'tny'", "did you mean 'tiny'"]),
        ("[tiny.0-1-tny]\nsteps = 1", {}, ["notebook '0-1-tny'", "did you mean '0-1-tiny'"]),
        ("[tiny.0-1-tiny]\nstep = 1", {}, ["parameter 'step'", "did you mean 'steps'"]),
        ("[tiny.common]\nbatchsize = 1", {}, ["parameter 'batchsize'", "mean 'batch_size'"]),
        ("[tiny]", {"only": ["0-2"]}, ["notebook '0-2'", "known: 0-1-tiny"]),
        ("[tiny", {}, ["profiles.toml"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_error_before_anything_starts(
    notebooks, place, profiles, call, said
):
    (notebooks / "profiles.toml").write_text(profiles)
    with pytest.raises(BookError) as caught:
        book.reproduce(**{"profile": "tiny", "notebooks": notebooks} | call)
    for piece in said:
        assert piece in str(caught.value)
    assert not place.parent.exists()


@pytest.mark.parametrize(
    ("parameters", "said"),
    [("steps = 3 * epochs", "not: steps = 3 * epochs"), ("import os", "not: import os")],
)
def test_parameters_are_literals(notebooks, parameters, said):
    write(notebooks / "0-1-tiny.ipynb", parameters=parameters)
    with pytest.raises(BookError, match=re.escape(said)):
        book.plan("tiny", notebooks=notebooks)


def test_a_notebook_without_parameters_is_refused(notebooks):
    path = notebooks / "0-1-tiny.ipynb"
    path.write_text(path.read_text().replace('"parameters"', '"others"'))
    with pytest.raises(BookError, match="no cell has the tag 'parameters'"):
        book.plan("tiny", notebooks=notebooks)


def test_values_go_to_the_notebooks_that_know_them(notebooks):
    write(notebooks / "0-2-other.ipynb", parameters='workers = 1\nlauncher = "local"')
    (notebooks / "profiles.toml").write_text(
        "[tiny.common]\nsteps = 5\nworkers = 1\n[tiny.0-1-tiny]\nbatch_size = 3\n"
    )
    first, second = book.plan("tiny", launcher="elsewhere", notebooks=notebooks)
    assert first.parameters == {"steps": 5, "batch_size": 3, "launcher": "elsewhere"}
    assert second.parameters == {"launcher": "elsewhere"}  # its own value of workers is 1


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
    some = [pages.Page(Path(f"{n}.ipynb"), {}, Path()) for n in ("6-1-1-a", "6-1-2-b", "6-10-c")]
    assert [page.name for page in book.select(some, only)] == chosen


# --- the end --------------------------------------------------------------------------------


def living(processes):
    """Return which of these processes have not ended."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_nothing_survives_a_book_that_is_ended(kernels, notebooks, place, tmp_path, number, code):
    (notebooks / "profiles.toml").write_text("[tiny.common]\nsteps = 1000000\n")
    temporary = tmp_path / "t"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    if number == signal.SIGKILL:
        environment.pop(WARM)  # with warm processes of its own, which must end with it
    program = (
        "from labkit import book, cli\n"
        f"book.QUIET = 0.2; book.NOTEBOOKS = book.Path({str(notebooks)!r})\n"
        "import functools\n"
        "book.reproduce = functools.partial(book.reproduce, notebooks=book.NOTEBOOKS)\n"
        "cli.main(['reproduce', '--profile', 'tiny'])"
    )
    before = psutil.Process().children(recursive=True)
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, cwd=REPOSITORY,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as labkit:  # fmt: skip
        assert any(", step " in line for line in labkit.stdout), labkit.stderr.read()
        started = set(psutil.Process().children(recursive=True)) - set(before)
        # labkit, its command for the kernel, the kernel, and three replicas at the least
        assert len(started) >= 6
        labkit.send_signal(number)
        assert labkit.wait(timeout=10) == code
    deadline = time.monotonic() + 10
    scratch = place.parent / "runs" / ".scratch"
    while (living(started) or list(scratch.glob("*"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not living(started)
    assert not list(scratch.glob("*"))
    assert not list((place.parent / "runs").glob("*/run.json"))
    assert not (place / "0-1-tiny.ipynb").exists()
    if number == signal.SIGINT:
        assert not [path for path in temporary.iterdir() if path.is_dir()]
