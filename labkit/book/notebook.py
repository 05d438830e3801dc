"""One notebook run, in a kernel of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import settings
from labkit.book.live import LiveLine
from labkit.book.pages import Page, keep
from labkit.book.plan import BookError
from labkit.launchers.local.warm import Program
from labkit.settings import PROGRESS, WARM

if TYPE_CHECKING:
    from nbformat import NotebookNode

GRACE = 90.0
"""Seconds for which a kernel may clear up in a cluster."""


KERNEL = Program("kernel", Path(__file__).with_name("kernel.py"))
"""What a fork server has to know of kernels, as it does of frameworks."""


class Runner:
    """Makes pages: a kernel a notebook, in a private directory, one after the other."""

    def __init__(self, place: Path, warm: Path, echo: Callable[[str], object]) -> None:
        self.place, self.warm = place, warm
        self.live = LiveLine(echo)

    def make(self, page: Page, label: str) -> None:
        """Run a notebook, render it, put all of it in place.

        Raises
        ------
        BookError
            If a cell failed, with its source and traceback.
        """
        inputs = page.inputs()
        shutil.rmtree(page.unfinished, ignore_errors=True)
        (page.unfinished / "figures").mkdir(parents=True)
        progress = self.place / "progress"
        progress.write_text("")
        kernels: list[Any] = []
        begun = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            # Beside this thread, so that a Ctrl-C is ours to act on.
            run = pool.submit(self._execute, page, kernels)
            try:
                while not run.done():
                    self.live.show(label, progress)
                    time.sleep(0.2)
            except BaseException:
                _kill(kernels, run, GRACE if page.launcher != "local" else 0.0)
                raise
            finally:
                self.live.clear()
        try:
            notebook = run.result()
        except Exception as error:
            raise BookError(_explain(page, error)) from error
        keep(page, notebook, inputs, time.monotonic() - begun)

    def _execute(self, page: Page, kernels: list[Any]) -> NotebookNode:
        import papermill
        from jupyter_client.kernelspec import KernelSpec
        from jupyter_client.manager import AsyncKernelManager
        from traitlets.config import Config

        here = Path(tempfile.mkdtemp(dir=self.place))
        address, connection = self.warm / KERNEL.socket(1), here / "c.json"
        environment = {
            WARM: str(self.warm),
            PROGRESS: str(self.place / "progress"),
            settings.FIGURES: str(page.unfinished / "figures"),
            "IPYTHONDIR": str(self.place / "ipython"),  # no start-up files of the user's
        }

        class Kernel(AsyncKernelManager):
            """A kernel of this very Python, whatever the user's own is called."""

            def __init__(self, **traits: Any) -> None:
                super().__init__(**traits)
                kernels.append(self)

            @property
            def kernel_spec(self) -> KernelSpec:
                command = [sys.executable, "-S", KERNEL.file, address, here, "-f", connection]
                return KernelSpec(argv=list(map(str, command)), language="python", env=environment)

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


def _kill(kernels: list[Any], run: Future[Any], grace: float) -> None:
    """End the kernel of a run; its trials end with it, as nobody listens to them any more.

    Where trials run elsewhere, the kernel gets some seconds of `grace` to end them itself.
    """

    def signal_all(number: int) -> None:
        for kernel in kernels:
            with suppress(AttributeError, ProcessLookupError):  # not started yet, or ended
                os.killpg(kernel.provisioner.process.pid, number)

    if grace:
        signal_all(signal.SIGINT)
        wait([run], timeout=grace)
    while not run.done():
        signal_all(signal.SIGKILL)
        time.sleep(0.1)


def _explain(page: Page, error: Exception) -> str:
    """Say where a notebook failed: the cell's source, and its traceback without colours."""
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
