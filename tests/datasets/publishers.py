"""A publisher of made data sets: a server on this machine, and the tables that name it."""

import gzip
import hashlib
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

RANDOM = np.random.default_rng(1)
IMAGES = RANDOM.bytes(1_500_000)  # packs to more than one chunk of a download
LABELS = RANDOM.bytes(1_000)
NOWHERE = "http://127.0.0.1:1/{file}"  # refuses at once


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """Serves bytes as told: with or without ranges, cutting connections, slowly or not at all."""

    def __init__(self):
        self.files = {}
        self.ranges = True
        self.cuts = []  # after how many bytes the next answers end
        self.pause = 0.0  # seconds before every 64 KiB
        self.silent = threading.Event()
        self.log = []  # (file, Range)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, request):
        name = request.path.lstrip("/")
        span = request.headers.get("Range")
        self.log.append((name, span))
        if self.silent.is_set():
            time.sleep(10)
            return
        if name not in self.files:
            request.send_error(404)
            return
        content = self.files[name]
        start = int(re.fullmatch(r"bytes=(\d+)-", span)[1]) if span and self.ranges else 0
        if start and start >= len(content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(content)}")
            request.end_headers()
            return
        request.send_response(206 if start else 200)
        if "gzip" in request.headers.get("Accept-Encoding", ""):  # as some hosts do unasked
            content = gzip.compress(content)
            request.send_header("Content-Encoding", "gzip")
        if start:
            last = len(content) - 1
            request.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
        body = content[start:]
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        end = self.cuts.pop(0) if self.cuts else len(body)
        try:
            for at in range(0, min(end, len(body)), 1 << 16):
                time.sleep(self.pause)
                request.wfile.write(body[at : min(at + (1 << 16), end)])
        except ConnectionError:
            pass  # the client went away

    def asked(self, name):
        return [span for asked, span in self.log if asked == name]


def entry(name, content, **more):
    return {"name": name, "bytes": len(content), "sha256": sha256(content), **more}


PICTURES = [entry("images", IMAGES, trained_on=True), entry("labels", LABELS, trained_on=True)]


def web(server, **more):
    return {
        "client": "http",
        "address": server.url + "/{file}.gz",
        "bytes": 2_000_000,
        "member": "{file}.gz",
        **more,
    }


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value).lower() if isinstance(value, bool | int) else f"'{value}'"


def contents(folder):
    """Return what lies in a folder, but for the lock."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


COMPLETE = {"images": IMAGES, "labels": LABELS}

FETCH = "datasets.fetch('toy')"


def start(table, code=FETCH):
    """Start a process that fetches the data set of a table."""
    script = (
        "import os, resource, sys\n"
        "from labkit import datasets\n"
        "from labkit.datasets import sources\n"
        "sources.DATASETS = sources.read_sources(sys.argv[1])\n" + code
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, str(table)], stderr=subprocess.PIPE, text=True
    )


def ended(process, seconds=20):
    _, errors = process.communicate(timeout=seconds)
    return process.returncode, errors
