"""``labkit tensorboard`` as its user has it: it starts, shows curves, and ends with Ctrl-C."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import made_runs
import psutil
import pytest
from browser import Browser
from processes import REPOSITORY, eventually

from labkit.runs import Store

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

@pytest.fixture
def board(tmp_path):
    """Return TensorBoard over two runs of two workers, its address and what it prints."""
    store = Store(tmp_path / "outputs" / "runs")
    for seed in (1, 2):
        made_runs.add(store, made_runs.trial(seed=seed))
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("labkit"), "tensorboard", "--port", "0"],
            cwd=REPOSITORY, env=os.environ | {"LABKIT_OUTPUTS": str(tmp_path / "outputs")},
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def address():
        assert process.poll() is None, log.read_text()
        return re.search(r"http://\S+", log.read_text())

    try:
        eventually(address)
        found = address()[0]
        eventually(lambda: len(json.load(urllib.request.urlopen(f"{found}data/runs"))) == 4)
        yield process, found, log
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()
        process.wait()


def test_it_shows_the_curves_of_all_runs_until_ctrl_c(board, tmp_path):
    process, address, log = board
    with Browser(tmp_path / "browser") as browser:
        browser.open(address)
        said = "document.body.innerText.replace(/\\s/g, '')"
        for words in ("train/loss", "test/accuracy", "w2-b50-lr0.1-s1", "w2-b50-lr0.1-s2"):
            browser.wait(f"{said}.includes({words!r})")
        assert not browser.errors()
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == -signal.SIGINT
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert "Traceback" not in log.read_text()
