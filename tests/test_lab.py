"""`make lab`: JupyterLab opens what the README names, and own work is not part of the book."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

import nbformat
import pytest
from nbclient import NotebookClient
from processes import REPOSITORY

from labkit.book.plan import plan
from labkit.settings import OUTPUTS

pytestmark = pytest.mark.process

OWN = "notebooks/my/experiment.ipynb"

START = "notebooks/start.ipynb"


@pytest.fixture
def lab(tmp_path):
    """Return a function that asks the server that `make lab` starts."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "jupyter_server_config.json").write_text(
        json.dumps({"ServerApp": {"open_browser": False, "allow_root": True}})
    )
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_ALLOW_INSECURE_WRITES": "1",
    }
    process = subprocess.Popen(
        ["make", "lab"], cwd=REPOSITORY, env=environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 90
        while not (found := list(tmp_path.glob("runtime/jpserver-*.json"))):
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < end, "no server"
            time.sleep(0.2)
        server = json.loads(found[0].read_text())

        def ask(path):
            url = f"{server['url']}api/contents/{path}?token={server['token']}"
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)

        yield ask
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_server_opens_what_the_readme_starts_from(lab):
    for path in (START, OWN, "templates/experiment.ipynb", "notebooks/6-1-2-cnn-batch-5.ipynb"):
        assert lab(path)["type"] == "notebook"
    ignored = subprocess.run(["git", "check-ignore", OWN], cwd=REPOSITORY, capture_output=True)
    assert ignored.returncode == 0  # and what lies deeper than notebooks/ is no part of the book


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("warm")
def test_the_first_notebook_runs_as_it_stands(tmp_path):
    """From its own folder, as JupyterLab runs it: a table of contents with links, and a trial."""
    environment = os.environ | {OUTPUTS: str(tmp_path)}
    notebook = nbformat.read(REPOSITORY / START, as_version=4)
    client = NotebookClient(notebook, timeout=None, resources={"metadata": {"path": "notebooks"}})
    client.execute(cwd=str((REPOSITORY / START).parent), env=environment)
    shown = {cell.source: cell.outputs[-1].get("data") for cell in notebook.cells
             if cell.get("outputs")}  # fmt: skip
    links = re.findall(r"\]\(([\w-]+)\.ipynb\)", shown["contents()"]["text/markdown"])
    assert links == [page.name for page in plan("laptop")]
    assert "1 run" in shown["results"]["text/html"]
    (reports,) = (data for source, data in shown.items() if source.startswith("results.steps"))
    assert "100" in reports["text/html"]
