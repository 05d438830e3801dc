"""A real browser without a window, spoken to in its DevTools protocol."""

import base64
import contextlib
import json
import shutil
import subprocess

import psutil
import websocket
from processes import cannot, eventually

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

DESKTOP, PHONE = 1200, 390
"""Widths of windows, in pixels."""


class Browser:
    """A Chromium that is closed at the end of a ``with`` block.

    Parameters
    ----------
    directory : Path
        For its profile; empty.
    """

    def __init__(self, directory):
        command = next(filter(None, map(shutil.which, NAMES)), None)
        if command is None:
            cannot(f"there is none of {', '.join(NAMES)} (.ci/packages)")
        self.process = subprocess.Popen(
            [command, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-port=0",
             f"--user-data-dir={directory}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            self._connect(directory)
        except BaseException:
            self._end()
            raise

    def _connect(self, directory):
        told = directory / "DevToolsActivePort"
        eventually(lambda: told.exists() and told.read_text().count("\n") == 1)
        port, path = told.read_text().split("\n")
        self.socket = websocket.create_connection(
            f"ws://127.0.0.1:{port}{path}", timeout=60, suppress_origin=True
        )
        self.number, self.session, self.events = 0, {}, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self._end()

    def _end(self):
        """Leave none of its many processes behind, which tests of what is left would find."""
        alive = [self.process, *psutil.Process(self.process.pid).children(recursive=True)]
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        psutil.wait_procs(alive[1:], timeout=10)

    def call(self, method, **params):
        """Return what the browser answers; what else it says meanwhile is kept."""
        asked = self._send(method, params)
        while True:
            said = self._receive()
            if said.get("id") == asked:
                assert "error" not in said, said
                return said["result"]

    def _send(self, method, params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params, **self.session}
        self.socket.send(json.dumps(request))
        return self.number

    def _receive(self):
        """Return what the browser says next; a page that asks whether to leave it may be left."""
        said = json.loads(self.socket.recv())
        self.events.append(said)
        if said.get("method") == "Page.javascriptDialogOpening":
            self._send("Page.handleJavaScriptDialog", {"accept": True})
        return said

    def open(self, address, width=DESKTOP, dark=False):
        """Load a page in a window of some width, and wait until its equations are set."""
        self.events.clear()
        self.resize(width, dark)
        self.call("Page.navigate", url=address)
        self._loaded()
        self.evaluate("window.MathJax?.startup?.promise.then(() => 0)")

    def reload(self):
        """Load the page again, as it is in its window, even if that asks whether to leave it."""
        self.events.clear()
        self.call("Page.reload")
        self._loaded()

    def _loaded(self):
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self._receive()

    def resize(self, width=DESKTOP, dark=False):
        """Give the window, and the page in it, another width and another scheme of colours."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        # what the page's scripts make of it comes with the next frame
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    def evaluate(self, expression):
        """Return the value of an expression, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression, seconds=60):
        """Return the value of an expression as soon as it is neither empty nor false."""
        found = []
        eventually(lambda: found.append(self.evaluate(expression)) or found[-1], seconds)
        return found[-1]

    def click(self, element):
        """Click on what an expression finds, as soon as it is there, as a mouse does."""
        x, y = self.wait(f"""(() => {{
            const element = {element};
            element?.scrollIntoView({{block: "nearest"}});
            const box = element?.getBoundingClientRect();
            return box?.width && [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=1,
                      button="none" if kind == "mouseMoved" else "left")  # fmt: skip

    def press(self, key, code=0):
        """Press a key that writes nothing: ``ArrowRight``, say, and its old code."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def of(self, method):
        """Return what the browser has said of one kind since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def errors(self):
        """Return what its console has of errors."""
        said = self.of("Runtime.exceptionThrown")
        said += [e for e in self.of("Runtime.consoleAPICalled") if e["type"] == "error"]
        return said + [e for e in self.of("Log.entryAdded") if e["entry"]["level"] == "error"]

    def requests(self):
        """Return the addresses of all that has been asked for."""
        return [event["request"]["url"] for event in self.of("Network.requestWillBeSent")]

    def screenshot(self, path, whole=False):
        """Save a picture of the window, or of the whole page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
