"""JupyterLab as `make lab` opens it, in a real browser: a sweep runs, and a slider acts."""

import os
import re
import shutil
import subprocess

import nbformat
import psutil
import pytest
from browser import Browser
from lab import Lab
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from processes import REPOSITORY, eventually

from labkit.book.plan import plan

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(900)]

NOTEBOOKS = REPOSITORY / "notebooks"

OWN = "notebooks/my/experiment.ipynb"

PANEL = "document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden)')"
"""The notebook in front."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory, warm):
    with Lab(tmp_path_factory.mktemp("lab")) as started:
        yield started


@pytest.fixture
def browser(tmp_path):
    with Browser(tmp_path / "browser") as opened:
        yield opened


@pytest.fixture
def another_browser(tmp_path):
    """Return one more: a page that is left while its notebook is not saved asks whether to."""
    with Browser(tmp_path / "another") as opened:
        yield opened


@pytest.fixture
def own():
    """Return a folder for copies of notebooks, where one's own are kept."""
    folder = NOTEBOOKS / "my" / f"test-{os.getpid()}"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


def open_notebook(browser, lab, path):
    """Open a notebook alone in JupyterLab, and wait until it has a kernel."""
    browser.open(lab.address(path.relative_to(REPOSITORY)))
    browser.wait(f"{PANEL}?.innerText.includes('Python 3 (ipykernel)')")
    browser.wait("document.body.innerText.includes('| Idle')")


def step_in(text):
    """Return the step that a bar's line names."""
    return int(re.search(r"step (\d+)", text).group(1))


def choose(browser, menu, entry):
    """Click on an entry of one of JupyterLab's menus."""
    for kind, said in (("MenuBar", menu), ("Menu", entry)):
        found = f"[...document.querySelectorAll('.lm-{kind}-item')]"
        browser.click(f"{found}.find((e) => e.innerText.trim().startsWith({said!r}))")


def errors_of_cells(browser):
    """Return the tracebacks that the notebook shows."""
    return browser.evaluate(f"""
        [...{PANEL}.querySelectorAll('.jp-OutputArea-output')].map((e) => e.innerText)
            .filter((text) => text.includes('Traceback (most recent call last)'))
    """)


def test_the_server_opens_what_the_readme_names(lab):
    for path in ("notebooks/start.ipynb", OWN, "templates/experiment.ipynb",
                 "notebooks/6-1-2-cnn-batch-5.ipynb"):  # fmt: skip
        assert lab.contents(path)["type"] == "notebook"
    ignored = subprocess.run(["git", "check-ignore", OWN], cwd=REPOSITORY, capture_output=True)
    assert ignored.returncode == 0  # and what lies deeper than notebooks/ is no part of the book


def test_the_start_page_is_what_opens(browser, lab):
    browser.open(lab.address())
    browser.wait(f"{PANEL}?.querySelector('h1')?.innerText.startsWith('Start here')")
    assert not browser.errors()


def test_run_all_shows_progress_and_then_figures(browser, lab, own):
    (page,) = (page for page in plan("smoke") if page.name == "6-1-2-cnn-batch-5")
    notebook = load_notebook_node(str(NOTEBOOKS / f"{page.name}.ipynb"))
    copy = own / "sweep.ipynb"
    nbformat.write(parameterize_notebook(notebook, page.parameters), copy)
    figures = sum(cell.source.startswith("show(") for cell in notebook.cells)

    open_notebook(browser, lab, copy)
    browser.evaluate("""{
        window.bars = new Set();
        new MutationObserver(() => {
            document.querySelectorAll(".jp-Notebook progress").forEach((e) => bars.add(e.value));
        }).observe(document.body, {childList: true, subtree: true});
    }""")
    choose(browser, "Run", "Run All Cells")
    images = f"{PANEL}.querySelectorAll('.jp-OutputArea-output img').length"

    def ended():
        assert not errors_of_cells(browser)
        return browser.evaluate(images) == figures

    eventually(ended, 600)
    assert browser.evaluate("bars.size") > 0
    assert browser.evaluate(f"{PANEL}.querySelector('progress') === null")
    assert "3 trials: 3 run" in browser.evaluate(f"{PANEL}.innerText")


def test_a_slider_redraws_its_figure(browser, lab, own):
    notebook = nbformat.read(NOTEBOOKS / "2-1-neurons-and-training.ipynb", as_version=4)
    first = next(n for n, cell in enumerate(notebook.cells) if "explore(" in cell.source
                 and cell.cell_type == "code" and "import" not in cell.source)  # fmt: skip
    notebook.cells = notebook.cells[: first + 1]
    copy = own / "explorer.ipynb"
    nbformat.write(notebook, copy)

    open_notebook(browser, lab, copy)
    choose(browser, "Run", "Run All Cells")
    slider = f"{PANEL}.querySelector('.widget-slider .noUi-handle')"
    image = f"{PANEL}.querySelector('.widget-output img')"
    value = f"{PANEL}.querySelector('.widget-readout').innerText"
    before = browser.wait(f"{image}?.src", 300)
    assert browser.evaluate(value) == "0.45"
    browser.evaluate(f"{slider}.focus()")
    browser.press("ArrowRight", 39)
    browser.wait(f"{image}?.src && {image}.src !== {before!r}")
    assert browser.evaluate(value) == "0.49"
    assert not errors_of_cells(browser)


# --- sweeps that meet -----------------------------------------------------------------------

ENDLESS = 10**6
"""Steps."""


def sweep_in(path, steps, seed):
    """Write a notebook that measures one trial, and keeps it where JupyterLab can see it."""
    cell = f"""
%env LABKIT_OUTPUTS={path.parent}
from labkit import Sweep, measure
measure(Sweep.grid(framework="mxnet", model="lenet5", workers=1, batch_size=64, seed={seed},
                   learning_rate=0.01, steps={steps}, eval_samples=0))
""".strip()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
    nbformat.write(notebook, path)
    return path


def run_all(browser, lab, path, words):
    """Open a notebook, run it, and wait until it shows some words."""
    open_notebook(browser, lab, path)
    choose(browser, "Run", "Run All Cells")
    browser.wait(f"{PANEL}.innerText.includes({words!r})", 120)


def replicas():
    """Return the processes that are replicas of a trial: forked by one that is like them."""
    found = {p.pid: p for p in psutil.process_iter(["ppid", "cmdline"])
             if any("forkserver.py" in word for word in p.info["cmdline"] or ())}  # fmt: skip
    return [process for process in found.values() if process.info["ppid"] in found]


def test_two_notebooks_at_once_take_turns(browser, another_browser, lab, own):
    first = sweep_in(own / "first.ipynb", ENDLESS, seed=71)
    second = sweep_in(own / "second.ipynb", 20, seed=72)
    run_all(browser, lab, first, "loss")
    run_all(another_browser, lab, second, "waits for")
    assert replicas()
    choose(browser, "Kernel", "Interrupt Kernel")
    another_browser.wait(f"{PANEL}.innerText.includes('1 trial: 1 run')", 120)
    assert not errors_of_cells(another_browser)


def test_after_a_reload_of_the_page_the_bar_moves_on(browser, lab, own):
    run_all(browser, lab, sweep_in(own / "reloaded.ipynb", ENDLESS, seed=75), "loss")
    choose(browser, "File", "Save Notebook")
    saved = own / "reloaded.ipynb"
    eventually(lambda: "so far" in saved.read_text())
    browser.reload()
    shown = f"{PANEL}?.querySelector('.jp-OutputArea progress')?.parentElement.innerText"
    first = browser.wait(shown)
    second = browser.wait(f"({shown} ?? {first!r}) !== {first!r} && {shown}")
    assert step_in(second) > step_in(first) > 0
    choose(browser, "Kernel", "Interrupt Kernel")
    browser.wait(f"{PANEL}.querySelector('.jp-OutputArea progress') === null")


def test_a_restart_during_a_sweep_leaves_nothing_running(browser, another_browser, lab, own):
    run_all(browser, lab, sweep_in(own / "restarted.ipynb", ENDLESS, seed=73), "loss")
    assert replicas()
    choose(browser, "Kernel", "Restart Kernel")
    browser.click("document.querySelector('.jp-Dialog .jp-mod-accept')")
    eventually(lambda: not replicas(), 60)
    run_all(another_browser, lab, sweep_in(own / "after.ipynb", 20, seed=74), "1 trial: 1 run")
    assert not errors_of_cells(another_browser)
