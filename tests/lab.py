"""The server of JupyterLab that `make lab` starts."""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request

import psutil
from processes import REPOSITORY


class Lab:
    """JupyterLab over this repository, ended with its kernels after a ``with`` block.

    Parameters
    ----------
    directory : Path
        For its settings, and what it keeps; empty.
    """

    def __init__(self, directory):
        self.directory = directory
        config = directory / "config"
        notebooks = config / "lab" / "user-settings" / "@jupyterlab" / "notebook-extension"
        notebooks.mkdir(parents=True)
        (config / "jupyter_server_config.json").write_text(
            json.dumps({"ServerApp": {"open_browser": False, "allow_root": True}})
        )
        # else cells out of sight leave the page, and a test that looks for them finds nothing
        (notebooks / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')

    def __enter__(self):
        environment = os.environ | {
            "JUPYTER_CONFIG_DIR": str(self.directory / "config"),
            "JUPYTER_DATA_DIR": str(self.directory / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.directory / "runtime"),
            "JUPYTER_ALLOW_INSECURE_WRITES": "1",
        }
        log = self.directory / "log"
        with log.open("w") as file:
            self.process = subprocess.Popen(
                ["make", "lab"], cwd=REPOSITORY, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            self._await(log)
        except BaseException:
            self._end()
            raise
        return self

    def _await(self, log):
        end = time.monotonic() + 90
        while not self._answers():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < end, "no server"
            time.sleep(0.2)

    def _answers(self):
        """Return whether it answers: it says where it is before it listens there."""
        found = list(self.directory.glob("runtime/jpserver-*.json"))
        try:
            self.server = json.loads(found[0].read_text())
            self.contents("")
        except (IndexError, ValueError, OSError):
            return False
        return True

    def __exit__(self, *_):
        left = self._end()
        assert not left, left

    def _end(self):
        """End the server, which ends its kernels; return what is left of all its processes."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        _, left = psutil.wait_procs(family, timeout=60)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        return left

    def address(self, path=None):
        """Return where a browser finds it; with a path, that notebook alone is open in it."""
        # what has been open is remembered by workspace
        page = f"lab/workspaces/{path.stem}/tree/{path}" if path else ""
        return f"{self.server['url']}{page}?token={self.server['token']}"

    def contents(self, path):
        """Return what it knows of a file of the repository."""
        url = f"{self.server['url']}api/contents/{path}?token={self.server['token']}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)
