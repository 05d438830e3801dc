"""Data sets: from a local server, from made packages, and one from its real package."""

import gzip
import hashlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import datasets
from labkit.datasets import download, sources
from labkit.datasets.text import encode, vocabulary
from labkit.errors import LabkitError
from labkit.settings import REPOSITORY, data_directory

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


@pytest.fixture
def server():
    server = Server()
    server.files = {
        "images.gz": gzip.compress(IMAGES, mtime=0),
        "labels.gz": gzip.compress(LABELS, mtime=0),
    }
    yield server
    server.http.shutdown()
    server.http.server_close()


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


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Make a table with the one data set "toy", and read it instead of the real one."""

    def make(*places, files=PICTURES):
        path = tmp_path / "sources.toml"
        path.write_text(
            "[toy]\ntitle = 'made'\nlicence = 'none'\nsamples = 7\n"
            f"files = {toml(list(files))}\nsources = {toml(list(places))}\n"
        )
        monkeypatch.setattr(sources, "DATASETS", sources.read_sources(path))
        return path

    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    return make


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data" / "toy"


def contents(folder):
    """Return what lies in a folder, but for the lock."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


COMPLETE = {"images": IMAGES, "labels": LABELS}


# The real table


def test_the_table_holds_the_three_data_sets_of_the_thesis_and_mnist():
    assert list(datasets.DATASETS) == ["fashion-mnist", "mnist", "ptb"]
    for dataset in datasets.DATASETS.values():
        assert dataset.title and dataset.licence
        assert {source.client for source in dataset.sources} & {"apt-get", "npm", "pip"}
        for file in dataset.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.bytes > 0


@pytest.mark.parametrize("name", ["fashion-mnist", "mnist"])
def test_samples_of_images_are_what_the_file_has_room_for(name):
    images = datasets.DATASETS[name].files[0]
    assert datasets.samples(name) == (images.bytes - 16) / (28 * 28)


def test_checksum_follows_its_formula():
    a, b = (sum for sum in (file.sha256 for file in datasets.DATASETS["ptb"].files[4::2]))
    lines = f"{a}  ptb.train.ids.npy\n{b}  ptb.test.ids.npy"
    assert datasets.checksum("ptb") == sha256(lines.encode())


def test_checksum_changes_with_what_trainers_read_and_with_nothing_else(monkeypatch):
    dataset = datasets.DATASETS["ptb"]
    before = datasets.checksum("ptb")
    for at, file in enumerate(dataset.files):
        files = list(dataset.files)
        files[at] = replace(file, sha256="0" * 64)
        monkeypatch.setitem(datasets.DATASETS, "ptb", replace(dataset, files=tuple(files)))
        assert (datasets.checksum("ptb") != before) == file.trained_on


def test_an_unknown_name_is_an_error_that_offers_the_nearest():
    for call in (datasets.fetch, datasets.verify, datasets.samples, datasets.checksum):
        with pytest.raises(datasets.DataError, match="'fashon-mnist'.*did you mean fashion-mnist"):
            call("fashon-mnist")


def test_a_missing_table_says_how_labkit_is_installed(tmp_path):
    with pytest.raises(LabkitError, match="sources.toml is missing.*editable"):
        sources.read_sources(tmp_path / "sources.toml")


def test_the_directory_is_the_repositorys_or_the_environments(monkeypatch, tmp_path):
    monkeypatch.delenv("LABKIT_DATA", raising=False)
    assert data_directory() == REPOSITORY / "data"
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    assert data_directory() == tmp_path


def test_importing_is_light():
    heavy = "{'numpy', 'requests', 'pandas', 'tensorflow', 'mxnet'}"
    code = f"import sys, labkit.datasets; assert not set(sys.modules) & {heavy}"
    subprocess.run([sys.executable, "-c", code], check=True)


# From a publisher


def test_fetch_brings_exactly_the_unpacked_files_with_progress(server, toy, folder):
    toy(web(server))
    seen = []
    datasets.fetch("toy", progress=lambda *step: seen.append(step))
    assert contents(folder) == COMPLETE
    datasets.verify("toy")
    for name in ("images", "labels"):
        size = len(server.files[f"{name}.gz"])
        done = [done for what, done, total in seen if what == f"toy/{name}.gz"]
        assert done == sorted(done) and done[-1] == size
        assert {total for what, _, total in seen if what == f"toy/{name}.gz"} == {size}


def test_an_explicit_directory_wins(server, toy, tmp_path):
    toy(web(server))
    datasets.fetch("toy", tmp_path / "other")
    datasets.verify("toy", str(tmp_path / "other"))
    assert not (tmp_path / "data").exists()


def test_what_is_verified_is_not_asked_for_again(server, toy):
    toy(web(server))
    datasets.fetch("toy")
    server.log.clear()
    datasets.fetch("toy")
    assert server.log == []


def test_one_archive_for_all_files(server, toy, folder):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in {**COMPLETE, "more": b"not asked for"}.items():
            member = tarfile.TarInfo(f"./some/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    server.files = {"all.tgz": packed.getvalue()}
    toy(web(server, address=f"{server.url}/all.tgz", member="./some/{file}"))
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE
    assert len(server.log) == 1


def test_a_cut_download_goes_on_where_it_ended(server, toy, folder):
    toy(web(server))
    server.cuts = [400_000, 500_000]
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE
    assert server.asked("images.gz") == [None, "bytes=400000-", "bytes=900000-"]


def test_a_download_that_stays_cut_leaves_only_its_part_and_goes_on_next_time(server, toy, folder):
    toy(web(server))
    server.cuts = [100_000] * 5
    with pytest.raises(datasets.DataError, match=r"cut 5 times.*500000 bytes"):
        datasets.fetch("toy")
    assert contents(folder) == {"images.gz.part": server.files["images.gz"][:500_000]}
    server.log.clear()
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE
    assert server.asked("images.gz") == ["bytes=500000-"]


def test_a_server_without_ranges_sends_all_again(server, toy, folder):
    toy(web(server))
    server.ranges = False
    server.cuts = [400_000]
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE


def test_a_complete_part_is_not_sent_again(server, toy, folder):
    toy(web(server))
    folder.mkdir(parents=True)
    (folder / "images.gz.part").write_bytes(server.files["images.gz"])
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE
    assert server.asked("images.gz") == [f"bytes={len(server.files['images.gz'])}-"]


@pytest.mark.parametrize("stale", [b"x" * 300_000, b"x" * 3_000_000], ids=["shorter", "longer"])
def test_a_part_of_other_bytes_is_thrown_away(server, toy, folder, stale):
    toy(web(server))
    folder.mkdir(parents=True)
    (folder / "images.gz.part").write_bytes(stale)
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (gzip.compress(b"other", mtime=0), f"expected SHA-256 {sha256(IMAGES)}, found "),
        (b"<html>please log in</html>", "damaged"),
        (gzip.compress(IMAGES, mtime=0)[:-10], "damaged"),
    ],
    ids=["other bytes", "no gzip", "truncated"],
)
def test_wrong_bytes_never_take_the_name_of_a_file(server, toy, folder, sent, reason):
    toy(web(server))
    server.files["images.gz"] = sent
    with pytest.raises(datasets.DataError, match=f"images.*{reason}|{reason}"):
        datasets.fetch("toy")
    assert contents(folder) == {}


def test_only_what_is_wrong_is_fetched_again(server, toy, folder):
    toy(web(server))
    datasets.fetch("toy")
    (folder / "labels").write_bytes(LABELS[:-1] + b"?")
    before = (folder / "images").stat()
    server.log.clear()
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE
    assert server.asked("images.gz") == []
    after = (folder / "images").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_when_all_sources_fail_the_error_says_why_and_what_to_do(server, toy, folder):
    del server.files["labels.gz"]
    toy(web(server), web(server, address=NOWHERE))
    with pytest.raises(datasets.DataError) as caught:
        datasets.fetch("toy")
    message = str(caught.value)
    assert "{file}.gz: answers 404" in message
    assert f"{NOWHERE}: cannot be reached" in message
    assert f"{folder / 'labels'}  SHA-256 {sha256(LABELS)}" in message
    assert str(folder / "images") not in message  # that one came
    assert contents(folder) == {"images": IMAGES}
    (folder / "labels").write_bytes(LABELS)  # by hand, as the message says
    datasets.fetch("toy")
    datasets.verify("toy")


def test_a_publisher_that_never_answers_does_not_hold_up_the_next(
    server, toy, folder, monkeypatch
):
    monkeypatch.setattr(download, "_ANSWER_SECONDS", 0.3)
    deaf = Server()
    deaf.silent.set()
    toy(web(deaf), web(server))
    began = time.monotonic()
    datasets.fetch("toy")
    assert time.monotonic() - began < 5
    assert len(deaf.log) == 1  # not once a file
    assert contents(folder) == COMPLETE
    deaf.http.shutdown()
    deaf.http.server_close()


# verify


def test_verify_names_the_missing_file_and_the_command(server, toy, folder):
    toy(web(server))
    with pytest.raises(datasets.DataError, match=f"{folder / 'images'} is missing.*labkit data"):
        datasets.verify("toy")
    assert not folder.exists()


@given(at=st.integers(0, len(LABELS) - 1), change=st.integers(1, 255))
def test_verify_names_file_and_sums_for_any_changed_byte(tmp_path_factory, at, change):
    changed = bytearray(LABELS)
    changed[at] ^= change
    directory = tmp_path_factory.mktemp("data")
    (directory / "toy").mkdir()
    (directory / "toy" / "labels").write_bytes(changed)
    dataset = sources.Dataset(
        "toy", "", "", 1, (sources.File("labels", 1_000, sha256(LABELS)),), ()
    )
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(datasets.DataError) as caught,
    ):
        patch.setattr(sources, "DATASETS", {"toy": dataset})
        datasets.verify("toy", directory)
    for part in (str(directory / "toy" / "labels"), sha256(LABELS), sha256(changed)):
        assert part in str(caught.value)
    assert (directory / "toy" / "labels").read_bytes() == changed  # never repaired


# Room, rights, interruptions, several processes


def test_too_little_room_is_an_error_before_anything_is_asked(server, toy, folder, monkeypatch):
    toy(web(server))
    usage = shutil.disk_usage(Path.cwd())._replace(free=3_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(
        datasets.DataError, match=r"3\.0 MB left and toy needs 3\.5 MB.*LABKIT_DATA"
    ):
        datasets.fetch("toy")
    assert server.log == [] and contents(folder) == {}


def test_a_directory_that_cannot_be_made_is_a_clear_error(server, toy, tmp_path):
    toy(web(server))
    (tmp_path / "data").write_text("a file in the way")
    with pytest.raises(datasets.DataError, match=r"data/toy.*cannot be used: Not a directory"):
        datasets.fetch("toy")


def start(table, code="data.fetch('toy')"):
    """Start a process that fetches the data set of a table."""
    script = (
        "import os, resource, sys\n"
        "from labkit import data\n"
        "data.DATASETS = data.read_sources(sys.argv[1])\n" + code
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, str(table)], stderr=subprocess.PIPE, text=True
    )


def ended(process, seconds=20):
    _, errors = process.communicate(timeout=seconds)
    return process.returncode, errors


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_directory_without_rights_is_a_clear_error(server, toy, tmp_path):
    (tmp_path / "data").mkdir(mode=0o555)
    become_nobody = "os.geteuid() == 0 and os.setuid(65534)\n"  # root may write everywhere
    process = start(toy(web(server)), become_nobody + "data.fetch('toy')")
    code, errors = ended(process)
    assert code == 1
    assert re.search(r"DataError: \S+ cannot be used: Permission denied", errors)


def test_a_disk_that_fills_up_leaves_no_half_file(server, toy, folder):
    table = toy(web(server))
    # The limit on a file's size stands in for a full disk: the write itself fails.
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))\n"
    code, errors = ended(start(table, limit + "data.fetch('toy')"))
    assert code == 1
    assert re.search(r"DataError: \S+/toy cannot be used: File too large", errors)
    assert set(contents(folder)) == {"images.gz.part"}
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE


def test_two_processes_take_turns_and_the_second_asks_for_nothing(server, toy, folder):
    table = toy(web(server))
    server.pause = 0.02
    code = "data.fetch('toy', progress=lambda what, *_: print(what, file=sys.stderr))"
    processes = [start(table, code) for _ in range(2)]
    results = [ended(process) for process in processes]
    assert [code for code, _ in results] == [0, 0]
    assert sum("waiting for another process" in said for _, said in results) == 1
    assert [name for name, _ in server.log] == ["images.gz", "labels.gz"]
    assert contents(folder) == COMPLETE


def test_ctrl_c_leaves_only_a_part_that_the_next_fetch_goes_on_from(server, toy, folder):
    table = toy(web(server))
    server.pause = 0.05
    process = start(table)
    part = folder / "images.gz.part"
    wait_for(lambda: part.exists() and part.stat().st_size > 0)
    process.send_signal(signal.SIGINT)
    code, errors = ended(process)
    assert code != 0 and "KeyboardInterrupt" in errors
    assert list(contents(folder)) == ["images.gz.part"] and not (folder / ".work").exists()
    have = part.stat().st_size
    server.pause = 0
    server.log.clear()
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE
    assert server.asked("images.gz") == [f"bytes={have}-"]


def test_after_a_kill_the_next_fetch_clears_up_and_ends_well(server, toy, folder):
    table = toy(web(server))
    server.pause = 0.05
    process = start(table)
    wait_for(lambda: (folder / "images.gz.part").exists())
    process.kill()
    ended(process)
    assert (folder / ".work").exists() and not (folder / "images").exists()
    server.pause = 0
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE and not (folder / ".work").exists()


# From packages, made ones, by the real clients


def with_derived(texts):
    """Add to texts of words what is made of them."""
    words = {name: text.replace("\n", "<eos>").split() for name, text in texts.items()}
    counts = Counter(words["toy.train.txt"])
    order = sorted(counts, key=lambda word: (-counts[word], word))
    files = {name: text.encode() for name, text in texts.items()}
    files["vocabulary.txt"] = "".join(f"{word}\n" for word in order).encode()
    for name in texts:
        ids = io.BytesIO()
        np.save(ids, np.array([order.index(word) for word in words[name]], dtype=np.int32))
        files[name.replace(".txt", ".ids.npy")] = ids.getvalue()
    return files


TEXTS = with_derived(
    {
        "toy.train.txt": ' b a <unk> \n a c \'x\' \n """ \\ a \n',
        "toy.test.txt": " a \n c b <unk> \n",
    }
)
TEXT_FILES = [
    entry(name, content, derived=not name.endswith(".txt") or name == "vocabulary.txt")
    for name, content in TEXTS.items()
]


def wheel(path, module):
    about = "toy-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy/__init__.py", module)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{about}/WHEEL", tags)
        archive.writestr(f"{about}/RECORD", "")
    return path


def from_wheel(path):
    return {
        "client": "pip",
        "address": str(path),
        "bytes": 1_000,
        "member": "toy/__init__.py:{part}",
    }


def test_a_wheel_stands_in_and_its_module_is_read_not_run(server, toy, folder, tmp_path):
    train, test = TEXTS["toy.train.txt"].decode(), TEXTS["toy.test.txt"].decode()
    module = (
        f"open({str(tmp_path / 'ran')!r}, 'w')\ntexts = {{}}\n"
        # one newline too many, as in the package that holds PTB
        f"texts['train'] = {train + chr(10)!r}\ntexts['test'] = {test!r}\n"
    )
    packed = from_wheel(wheel(tmp_path / "toy-1.0-py3-none-any.whl", module))
    toy(web(server, address=NOWHERE), packed, files=TEXT_FILES)
    seen = []
    datasets.fetch("toy", progress=lambda *step: seen.append(step))
    assert contents(folder) == TEXTS
    assert not (tmp_path / "ran").exists()
    datasets.verify("toy")
    size = Path(packed["address"]).stat().st_size
    assert seen[-1] == (f"toy (pip package {packed['address']})", size, 1_000)


def test_only_the_wrong_encoding_is_made_again_and_nothing_asked_for(toy, folder, tmp_path):
    toy({"client": "http", "address": NOWHERE, "bytes": 1, "member": ""}, files=TEXT_FILES)
    folder.mkdir(parents=True)
    for name, content in TEXTS.items():
        (folder / name).write_bytes(content)
    (folder / "toy.test.ids.npy").write_bytes(b"spoilt")
    before = (folder / "toy.train.ids.npy").stat().st_ino
    datasets.fetch("toy")
    assert contents(folder) == TEXTS
    assert (folder / "toy.train.ids.npy").stat().st_ino == before


def test_a_source_distribution_is_refused_for_it_would_run_its_own_code(toy, tmp_path):
    path = tmp_path / "toy-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        setup = tmp_path / "setup.py"
        setup.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
        tar.add(setup, "toy-1.0/setup.py")
    source = {**from_wheel("toy==1.0"), "client": "pip"}
    toy(source, files=TEXT_FILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(tmp_path))
        with pytest.raises(datasets.DataError, match="pip package toy==1.0.*No matching distr"):
            datasets.fetch("toy")
    assert not (tmp_path / "ran").exists()


def test_an_npm_package_stands_in_without_running_its_scripts(server, toy, folder, tmp_path):
    packed = tmp_path / "toy-1.0.0.tgz"
    ran = tmp_path / "ran"
    about = f'{{"name": "toy", "version": "1.0.0", "scripts": {{"prepare": "touch {ran}"}}}}'
    with tarfile.open(packed, "w:gz") as tar:
        for name, content in {"package.json": about.encode(), **COMPLETE}.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    toy(
        web(server, address=NOWHERE),
        {"client": "npm", "address": str(packed), "bytes": 1, "member": "package/{file}"},
    )
    needs_command("npm")
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE
    assert not ran.exists()


def needs_command(name):
    if shutil.which(name) is None and os.environ.get("CI") != "true":
        pytest.skip(f"{name} is not on this machine")


@pytest.fixture
def debian(tmp_path, monkeypatch):
    """Build a Debian package; `apt-get` becomes a stand-in that has it, but no package lists."""
    needs_command("dpkg-deb")
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: toy\nVersion: 1\nArchitecture: all\nMaintainer: me\nDescription: made\n"
    )
    (tree / "DEBIAN" / "postinst").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tree / "DEBIAN" / "postinst").chmod(0o755)
    (tree / "usr").mkdir()
    for name, content in COMPLETE.items():
        (tree / "usr" / f"{name}.gz").write_bytes(gzip.compress(content))
    subprocess.run(["dpkg-deb", "-Znone", "--build", tree, tmp_path / "built.deb"], check=True)
    command = tmp_path / "bin" / "apt-get"
    command.parent.mkdir()
    command.write_text(
        f"#!/bin/sh\ntouch {tmp_path}/asked\n"
        f'for word; do case $word in Dir::State::lists=*) lists="${{word#*=}}";; esac; done\n'
        'case "$*" in\n'
        "  *update) touch $lists/known ;;\n"
        f"  *slow) echo $$ > {tmp_path}/pid; exec sleep 60 ;;\n"
        f'  *download\\ toy) [ -e "$lists/known" ] && cp {tmp_path}/built.deb toy_1_all.deb ||\n'
        '    { echo "E: Unable to locate package toy"; exit 100; } ;;\n'
        "esac\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    return {"client": "apt-get", "address": "toy", "bytes": 1, "member": "./usr/{file}.gz"}


def test_a_debian_package_stands_in_also_where_package_lists_are_missing(
    server, toy, folder, debian, tmp_path, monkeypatch
):
    server.cuts = [1_000] * 5
    toy(web(server), debian)
    monkeypatch.chdir(tmp_path)
    datasets.fetch("toy", "data")  # the client runs elsewhere: a relative path has to do, too
    assert contents(folder) == COMPLETE  # and no part of the publisher's is left
    assert not (tmp_path / "ran").exists()


def test_no_package_is_downloaded_where_the_publisher_answers(server, toy, debian, tmp_path):
    toy(web(server), debian)
    datasets.fetch("toy")
    assert not (tmp_path / "asked").exists()


def test_ctrl_c_ends_the_package_client_too(toy, folder, debian, tmp_path):
    process = start(toy({**debian, "address": "slow"}))
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().strip())
    process.send_signal(signal.SIGINT)
    ended(process)
    assert contents(folder) == {} and not (folder / ".work").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_package_that_holds_something_else_is_an_error(server, toy, folder, debian):
    toy({**debian, "member": "./usr/share/{file}.gz"})
    with pytest.raises(
        datasets.DataError, match=r"apt-get package toy: holds no \./usr/share/images"
    ):
        datasets.fetch("toy")
    assert contents(folder) == {}


def test_a_client_that_is_missing_or_fails_is_named(toy, monkeypatch, tmp_path, debian):
    toy({**debian, "address": "unknown-package"}, {**debian, "client": "npm"})
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(datasets.DataError) as caught:
        datasets.fetch("toy")
    assert "apt-get package unknown-package: apt-get brought 0 packages" in str(caught.value)
    assert "npm package toy: the command npm is not on this machine" in str(caught.value)


# Texts and their encoding

WORDS = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=4)
LINES = st.lists(st.lists(WORDS, max_size=6), max_size=6)


@given(LINES)
def test_encoding_keeps_every_word_and_line(sentences):
    text = "".join(" ".join(sentence) + "\n" for sentence in sentences)
    words = vocabulary(text)
    ids = encode(text, words)
    assert ids.dtype == np.int32
    decoded = [words[number] for number in ids]
    assert decoded == [word for sentence in sentences for word in [*sentence, "<eos>"]]


@given(LINES)
def test_a_vocabulary_holds_each_word_once_frequent_ones_first(sentences):
    text = "".join(" ".join(sentence) + "\n" for sentence in sentences)
    words = vocabulary(text)
    counts = Counter(text.replace("\n", " <eos> ").split())
    assert len(words) == len(set(words)) and set(words) == set(counts)
    keys = [(-counts[word], word) for word in words]
    assert keys == sorted(keys)


@given(LINES, st.randoms())
def test_a_vocabulary_does_not_depend_on_the_order_of_sentences(sentences, random):
    text = "".join(" ".join(sentence) + "\n" for sentence in sentences)
    random.shuffle(sentences)
    shuffled = "".join(" ".join(sentence) + "\n" for sentence in sentences)
    assert vocabulary(shuffled) == vocabulary(text)


def test_the_real_ptb_comes_from_its_package(tmp_path, monkeypatch):
    ptb = datasets.DATASETS["ptb"]
    packages = tuple(source for source in ptb.sources if source.client != "http")
    monkeypatch.setitem(datasets.DATASETS, "ptb", replace(ptb, sources=packages))
    try:
        datasets.fetch("ptb", tmp_path)
    except datasets.DataError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no package index here: {error}")
    datasets.verify("ptb", tmp_path)
    assert {path.name for path in (tmp_path / "ptb").iterdir()} == {
        ".lock",
        *(file.name for file in ptb.files),
    }
    for file in ptb.files:
        assert (tmp_path / "ptb" / file.name).stat().st_size == file.bytes
    ids = np.load(tmp_path / "ptb" / "ptb.train.ids.npy", mmap_mode="r")
    words = (tmp_path / "ptb" / "vocabulary.txt").read_text().splitlines()
    assert ids.dtype == np.int32 and ids.shape == (929_589,)
    assert len(words) == 10_000 and words[ids[24]] == "<eos>"
    assert datasets.samples("ptb") == (len(ids) - 1) // 30
