"""Notebooks run, each in a kernel of its own."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import settings
from labkit.book.pages import Page
from labkit.book.plan import BookError
from labkit.book.render import keep
from labkit.book.status import StatusLine
from labkit.launchers.local.warm import Program
from labkit.progress import Tally
from labkit.settings import PROGRESS, WARM

if TYPE_CHECKING:
    from nbformat import NotebookNode

GRACE = 90.0
"""Seconds that a kernel has to clean up in a cluster after a Ctrl-C."""

KERNEL = Program("kernel", Path(__file__).with_name("kernel.py"))
"""What a fork server has to know of kernels, as it does of frameworks."""


class NotebookRunner:
    """Runs notebooks one after the other and keeps their pages.

    Parameters
    ----------
    scratch : Path
        A private directory for connections and progress.
    warm : Path
        The directory of the warm processes, in which there is one for kernels.
    status : StatusLine
        Shows how far a notebook is.

    Attributes
    ----------
    tally : Tally
        What came of the trials of all notebooks that have been run.
    """

    def __init__(self, scratch: Path, warm: Path, status: StatusLine) -> None:
        self.scratch, self.warm, self.status = scratch, warm, status
        self.tally = Tally()

    def run(self, page: Page, label: str) -> None:
        """Run a notebook, render it, and put its page in place.

        Parameters
        ----------
        page : Page
            Whose notebook.
        label : str
            Its name on the status line.

        Raises
        ------
        BookError
            If a cell failed, with its source and traceback.
        """
        inputs = page.inputs()
        shutil.rmtree(page.unfinished, ignore_errors=True)
        (page.unfinished / "figures").mkdir(parents=True)
        progress = self.scratch / "progress"
        progress.write_text("")
        self.status.begin(label)
        kernels: list[Any] = []
        begun = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            # Beside this thread, so that a Ctrl-C is ours to act on.
            executed = pool.submit(self._execute, page, kernels)
            try:
                while not executed.done():
                    self.status.show(progress)
                    time.sleep(0.2)
            except BaseException:
                _end(kernels, executed, GRACE if page.launcher != "local" else 0.0)
                raise
            finally:
                self.status.clear()
        try:
            notebook = executed.result()
        except Exception as error:
            raise BookError(_failure(page, error)) from error
        tally = Tally()
        for line in progress.read_text().splitlines():
            if found := json.loads(line).get("tally"):
                tally.add(Tally.read(found))
        self.tally.add(tally)
        keep(page, notebook, inputs, time.monotonic() - begun, sorted(tally.overloaded))

    def _execute(self, page: Page, kernels: list[Any]) -> NotebookNode:
        import papermill
        from jupyter_client.kernelspec import KernelSpec
        from jupyter_client.manager import AsyncKernelManager
        from traitlets.config import Config

        directory = Path(tempfile.mkdtemp(dir=self.scratch))
        address, connection = self.warm / KERNEL.socket(1), directory / "c.json"
        environment = settings.places() | {
            WARM: str(self.warm),
            PROGRESS: str(self.scratch / "progress"),
            settings.FIGURES: str(page.unfinished / "figures"),
            "IPYTHONDIR": str(self.scratch / "ipython"),  # no start-up files of the user's
        }

        class Kernel(AsyncKernelManager):
            """A kernel of this very Python, whatever the user's own is called."""

            def __init__(self, **traits: Any) -> None:
                super().__init__(**traits)
                kernels.append(self)

            @property
            def kernel_spec(self) -> KernelSpec:
                command = [sys.executable, "-S", KERNEL.file, address, directory]
                argv = [*map(str, command), "-f", str(connection)]
                return KernelSpec(argv=argv, language="python", env=environment)

        return papermill.execute_notebook(
            page.source,
            page.unfinished / page.executed.name,
            page.parameters,
            progress_bar=False,
            kernel_manager_class=Kernel,
            config=Config(KernelManager={"transport": "ipc", "connection_file": str(connection)}),
            resources={"metadata": {"path": str(page.source.parent)}},
            shutdown_kernel="immediate",
        )


def _end(kernels: list[Any], executed: Future[Any], grace: float) -> None:
    """End the kernel of a notebook; its trials end with it, as their client is gone.

    Where trials run elsewhere, the kernel gets some seconds of `grace` to end them itself.
    """

    def signal_all(number: int) -> None:
        for kernel in kernels:
            with suppress(AttributeError, ProcessLookupError):  # not started yet, or ended
                os.killpg(kernel.provisioner.process.pid, number)

    # Who ends a kernel need not be told that it has died.
    log = logging.getLogger("papermill")
    log.disabled = True
    if grace:
        signal_all(signal.SIGINT)
        wait([executed], timeout=grace)
    while not executed.done():
        signal_all(signal.SIGKILL)
        time.sleep(0.1)
    log.disabled = False


def _failure(page: Page, error: Exception) -> str:
    """Return where a notebook failed: the cell's source, and its traceback without colours."""
    if hasattr(error, "traceback"):
        text = "\n".join([error.source, "", *error.traceback])
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        where = f"in cell [{error.exec_count}]"
    else:
        where, text = "outside its cells", str(error)
    return (
        f"failed {where}:\n\n{textwrap.indent(text, '    ')}\n\n"
        f"As far as it came: {page.unfinished / page.executed.name}"
    )
