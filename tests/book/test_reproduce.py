"""A book: notebooks run, rendered, kept while nothing changes, and ended without a trace."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from tiny import FAILS, FIGURE, TRIAL, up_to_date, write

from labkit import provenance
from labkit.book import edition
from labkit.book import publish as publishing
from labkit.book import reproduce as module
from labkit.book.plan import BookError
from labkit.book.publish import publish
from labkit.book.reproduce import reproduce
from labkit.runs import Store
from labkit.settings import REPOSITORY, WARM

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_a_notebook_is_run_rendered_and_kept(
    kernels, once, notebooks, rendered, tmp_path, monkeypatch
):
    # A kernel of the user's by the same name would not even start.
    spec = tmp_path / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["/bin/false"], "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))

    said = []
    index = reproduce("tiny", notebooks=notebooks, echo=said.append)
    assert index == rendered / "index.html"
    assert any("[1 of 1] 0-1-tiny" in line for line in said)
    tally, see = said[-2:]
    assert tally.startswith("1 trial: 1 run, 0 re-used") and see == f"see {index}"
    there = {str(path.relative_to(rendered)) for path in rendered.rglob("*") if path.is_file()}
    assert there == {
        "index.html", "0-1-tiny.ipynb", "0-1-tiny.html",
        "figures/6.5a.svg", "figures/6.5a.png", "figures/6.5a.csv",
    }  # fmt: skip

    executed = json.loads((rendered / "0-1-tiny.ipynb").read_text())
    injected = executed["cells"][2]["source"]
    assert "".join(injected).splitlines() == ["# what the profile tiny changes", "steps = 6"]
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", ())]
    printed = "".join(text for output in outputs for text in output.get("text", ()))
    assert f"python {sys.executable}\n" in printed
    assert "transport ipc\n" in printed
    assert "ports []\n" in printed
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert "papermill" not in json.dumps([executed["metadata"], executed["cells"][3]["metadata"]])

    trials = (rendered / "figures" / "6.5a.csv").read_text().splitlines()
    assert len(trials) == 2 and "mxnet-lenet5-w1-b16" in trials[1]
    assert {"host", "revision"} < set(trials[0].split(","))
    page, front = (rendered / "0-1-tiny.html").read_text(), index.read_text()
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
        patch.setattr(module, "WarmProcesses", None)
        said.clear()
        assert reproduce("tiny", notebooks=notebooks, echo=said.append) == index
    assert said[0] == "1 of 1 notebooks are up to date"
    assert up_to_date(notebooks)

    # And it can be published, with its tables.
    for one in (edition, publishing):
        monkeypatch.setattr(one, "USUAL", "tiny")
    published = tmp_path / "published"
    publish("tiny", destination=published, notebooks=notebooks)
    there |= {f"{name}.parquet" for name in ("trials", "steps", "evals")} | {"README.md"}
    assert {str(p.relative_to(published)) for p in published.rglob("*") if p.is_file()} == there
    trials = pd.read_parquet(published / "trials.parquet")
    assert len(trials) == 1 and trials["accuracy"].notna().all()
    assert set(trials["host"]) == {provenance.host()} and trials["revision"].notna().all()

    # Another profile's pages come into a folder of their own, its trials into the same tables;
    # what is published stays, also where it is no longer at hand.
    with (notebooks / "profiles.toml").open("a") as file:
        file.write("[longer.common]\nsteps = 8\n")
    reproduce("longer", notebooks=notebooks, echo=said.append)
    rendered.rename(tmp_path / "of another sitting")
    publish("longer", destination=published, notebooks=notebooks)
    assert (published / "longer/0-1-tiny.html").exists()
    assert there < {str(p.relative_to(published)) for p in published.rglob("*")}
    assert "(longer/README.md)" in (published / "README.md").read_text()
    assert "--profile tiny" in (published / "README.md").read_text()
    assert "steps = 8" in json.dumps(json.loads((published / "longer/0-1-tiny.ipynb").read_text()))
    for name in ("trials", "steps", "evals"):
        table = pd.read_parquet(published / f"{name}.parquet")
        assert table["trial"].nunique() == 2
    assert len(table) == 2  # evaluations: one of each trial

    # Trials that no page shows any longer go with it.
    (tmp_path / "of another sitting").rename(rendered)
    (notebooks / "profiles.toml").write_text("[tiny.common]\nsteps = 9\n[longer.common]\n"
                                             "steps = 8\n")  # fmt: skip
    write(notebooks / "0-1-tiny.ipynb", TRIAL, FIGURE.replace("6.5a", "6.6"))
    reproduce("tiny", notebooks=notebooks, echo=said.append)
    publish("tiny", destination=published, notebooks=notebooks)
    assert {path.stem for path in (published / "figures").iterdir()} == {"6.6"}
    assert sorted(pd.read_parquet(published / "trials.parquet")["steps"]) == [8, 9]

    # Not without the runs that it shows; what was published before stays.
    trials = pd.read_parquet(published / "trials.parquet")
    run = Store().root / trials.loc[trials["steps"] == 9, "trial"].item()
    run.rename(tmp_path / "gone")
    with pytest.raises(BookError, match=f"no longer there: {run.name}; first: .* --force"):
        publish("tiny", destination=published, notebooks=notebooks)
    assert len(pd.read_parquet(published / "trials.parquet")) == 2


def test_a_failing_cell_is_reported_and_the_others_go_on(kernels, notebooks, rendered):
    nothing_to_import = 'launcher = "local"'
    write(notebooks / "0-1-tiny.ipynb", FAILS, title="# 0.1 Bad", parameters=nothing_to_import)
    write(notebooks / "0-2-good.ipynb", "6 * 7", title="# 0.2 Good", parameters=nothing_to_import)
    (notebooks / "profiles.toml").write_text("[tiny]")
    said = []
    with pytest.raises(BookError, match="1 of 2 notebooks failed: 0-1-tiny"):
        reproduce("tiny", notebooks=notebooks, echo=said.append)
    report = next(line for line in said if "failed" in line)
    assert "    hits / images" in report and "ZeroDivisionError: division by zero" in report
    assert "\x1b" not in report
    partial = Path(report.strip().splitlines()[-1].partition(": ")[2])
    assert "ZeroDivisionError" in partial.read_text()
    assert not (rendered / "0-1-tiny.ipynb").exists()
    assert "42" in (rendered / "0-2-good.html").read_text()
    index = (rendered / "index.html").read_text()
    assert index.index("0.1 Bad") < index.index("failed") < index.index("0.2 Good")
    assert not up_to_date(notebooks)


def test_the_cheapest_notebook_of_the_smoke_profile(kernels, once, rendered):
    index = reproduce("smoke", only=["6-1-2"], echo=print)
    page = (index.parent / "6-1-2-cnn-batch-5.html").read_text()
    assert "6.1.2 What do very small batches change?" in page
    for number in ("6.2a", "6.2b"):
        assert (index.parent / "figures" / f"{number}.svg").stat().st_size > 10_000
    front = index.read_text()
    assert "3 trials" in front and "Not run yet." in front


# --- ended early ----------------------------------------------------------------------------


def living(processes):
    """Return which of these processes have not ended."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


# SIGTERM and SIGHUP are made a Ctrl-C of (tests/cli/test_signals.py).
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_nothing_survives_a_book_that_is_ended(
    kernels, notebooks, rendered, tmp_path, number, code
):
    (notebooks / "profiles.toml").write_text("[tiny.common]\nsteps = 1000000\n")
    temporary = tmp_path / "t"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    if number == signal.SIGKILL:
        environment.pop(WARM)  # with warm processes of its own, which must end with it
    program = (
        "import functools, pathlib\n"
        "from labkit.book import reproduce, status\n"
        "from labkit.cli import main\n"
        "status.INTERVAL = 0.2\n"
        f"here = pathlib.Path({str(notebooks)!r})\n"
        "reproduce.reproduce = functools.partial(reproduce.reproduce, notebooks=here)\n"
        "main(['reproduce', '--profile', 'tiny'])"
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
        said = labkit.stderr.read()
    if number == signal.SIGINT:
        assert "labkit: interrupted" in said and "Kernel died" not in said
    deadline = time.monotonic() + 10
    scratch = rendered.parent / "runs" / ".scratch"
    while (living(started) or list(scratch.glob("*"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not living(started)
    assert not list(scratch.glob("*"))
    assert not list((rendered.parent / "runs").glob("*/run.json"))
    assert not (rendered / "0-1-tiny.ipynb").exists()
    if number != signal.SIGKILL:
        assert not [path for path in temporary.iterdir() if path.is_dir()]
