"""Data sets fetched from a publisher: a server on this machine."""

import gzip
import io
import re
import shutil
import signal
import tarfile
import time
from pathlib import Path

import pytest
from processes import eventually
from publishers import (
    COMPLETE,
    FETCH,
    IMAGES,
    LABELS,
    NOWHERE,
    Server,
    contents,
    ended,
    sha256,
    start,
    web,
)

from labkit import datasets
from labkit.datasets import download

pytestmark = [pytest.mark.process, pytest.mark.beside]


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
    monkeypatch.setattr(download, "ANSWER_SECONDS", 0.3)
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


# --- room, rights, interruptions, several processes -----------------------------------------


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


def test_a_directory_without_rights_is_a_clear_error(server, toy, tmp_path):
    (tmp_path / "data").mkdir(mode=0o555)
    become_nobody = "os.geteuid() == 0 and os.setuid(65534)\n"  # root may write everywhere
    process = start(toy(web(server)), become_nobody + FETCH)
    code, errors = ended(process)
    assert code == 1
    assert re.search(r"DataError: \S+ cannot be used: Permission denied", errors)


def test_a_disk_that_fills_up_leaves_no_half_file(server, toy, folder):
    table = toy(web(server))
    # The limit on a file's size stands in for a full disk: the write itself fails.
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))\n"
    code, errors = ended(start(table, limit + FETCH))
    assert code == 1
    assert re.search(r"DataError: \S+/toy cannot be used: File too large", errors)
    assert set(contents(folder)) == {"images.gz.part"}
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE


def test_two_processes_take_turns_and_the_second_asks_for_nothing(server, toy, folder):
    table = toy(web(server))
    server.pause = 0.02
    code = "datasets.fetch('toy', progress=lambda what, *_: print(what, file=sys.stderr))"
    processes = [start(table, code) for _ in range(2)]
    results = [ended(process) for process in processes]
    assert [code for code, _ in results] == [0, 0]
    assert sum("waiting for another process" in said for _, said in results) == 1
    assert [name for name, _ in server.log] == ["images.gz", "labels.gz"]
    assert contents(folder) == COMPLETE


def test_ctrl_c_leaves_only_a_part_that_the_next_fetch_goes_on_from(server, toy, folder):
    table = toy(web(server))
    server.pause = 0.5  # time enough on a slow machine, too
    process = start(table)
    part = folder / "images.gz.part"
    eventually(lambda: part.exists() and part.stat().st_size > 0, 30)
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
    server.pause = 0.5  # time enough on a slow machine, too
    process = start(table)
    eventually(lambda: (folder / "images.gz.part").exists(), 30)
    process.kill()
    ended(process)
    assert (folder / ".work").exists() and not (folder / "images").exists()
    server.pause = 0
    datasets.fetch("toy")
    assert contents(folder) == COMPLETE and not (folder / ".work").exists()
