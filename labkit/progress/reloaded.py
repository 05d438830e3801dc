"""What a page of JupyterLab shows of a sweep that was running when the page was loaded again.

JupyterLab takes no more output of a cell that ran at that moment: it shows what was saved last.
So what is saved carries a script, and what is to be seen now is kept in a file that JupyterLab's
server hands out. Where the output is no longer rewritten, the script fetches that file.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from urllib.parse import quote

from labkit.settings import outputs

INTERVAL = 2.0
"""Seconds without a new output after which a page asks for the file, and asks again."""

KEPT = 86_400.0
"""Seconds for which the file of a sweep that has ended is kept at least."""

SCRIPT = """<script>{{
    const output = document.currentScript.parentElement, timers = window.labkit ??= {{}};
    clearInterval(timers[{address}]);
    timers[{address}] = setInterval(async () => {{
        if (!output.isConnected) return;
        const answer = await fetch({address}, {{cache: "no-store"}}).catch(() => null);
        if (answer?.ok) output.innerHTML = await answer.text();
        const ended = output.innerHTML === "" || output.querySelector("[data-ended]");
        if (answer?.status === 404 || ended) clearInterval(timers[{address}]);
    }}, {milliseconds});
}}</script>"""
"""Each new output sets its sweep's timer anew, so that it rings only in a page that gets none."""

RUN_AGAIN = (
    "<p data-ended>This page was loaded again while the cell ran, and gets no more of its output. "
    "Run the cell again: what has been measured is kept.</p>"
)


class Reloaded:
    """The output of a sweep as a file, for pages that are loaded again.

    Where no Jupyter server has started this process, or it does not hand out the folder of
    outputs, there is no file, and outputs are left as they are.
    """

    def __init__(self) -> None:
        self._path = outputs() / "progress" / f"{os.getpid()}-{time.time_ns()}.html"
        self._address = address(self._path)
        if self._address:
            for path in self._path.parent.glob("*.html"):
                with contextlib.suppress(OSError):
                    if time.time() - path.stat().st_mtime > KEPT:
                        path.unlink()

    def keep(self, html: str) -> str:
        """Keep an output.

        Parameters
        ----------
        html : str

        Returns
        -------
        str
            It, with what fetches the next ones where a page gets none.
        """
        if not self._address:
            return html
        self._write(html)
        script = SCRIPT.format(address=json.dumps(self._address), milliseconds=1000 * INTERVAL)
        return f"<div>{html}{script}</div>"

    def finish(self, html: str) -> None:
        """Keep the last output of a sweep that has ended by itself."""
        self._write(html + RUN_AGAIN)

    def close(self) -> None:
        """Have nothing shown of a sweep that was interrupted."""
        self._write("")

    def _write(self, html: str) -> None:
        if self._address:
            with contextlib.suppress(OSError):  # a full disk is for whoever keeps runs to report
                self._path.parent.mkdir(parents=True, exist_ok=True)
                # At once: a page that found half of it would show half of it.
                unfinished = self._path.with_suffix(".unfinished")
                unfinished.write_text(html)
                unfinished.replace(self._path)


def address(path: Path) -> str | None:
    """Return where the Jupyter server that started this process hands out a file, if it does."""
    from jupyter_core.paths import jupyter_runtime_dir

    record = Path(jupyter_runtime_dir(), f"jpserver-{os.getppid()}.json")
    try:
        server = json.loads(record.read_text())
        inside = path.resolve().relative_to(Path(server["root_dir"]).resolve())
        return f"{server['base_url']}files/{quote(inside.as_posix())}"
    except (OSError, ValueError, KeyError):
        return None
