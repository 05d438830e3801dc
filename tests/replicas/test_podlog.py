"""The lines of a pod's log: what is written is read, and what is damaged is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.replicas import podlog
from labkit.replicas.podlog import Bound, Ended, Limited, Machine, Output, Sample

pytestmark = pytest.mark.unit

texts = st.binary().map(lambda text: text.replace(b"\n", b""))
replicas = st.builds("{}-{}".format, st.sampled_from(["server", "worker"]), st.integers(0, 2000))
seconds = st.floats(0, allow_nan=False, allow_infinity=False)
entries = st.one_of(
    st.builds(Output, replicas, st.sampled_from([podlog.OUT, podlog.ERR]), texts),
    st.builds(Machine, st.text(), st.text(), st.integers(1), st.integers(1), st.text()),
    st.builds(Bound, st.lists(st.integers(0))),
    st.builds(Sample, seconds, seconds, seconds, seconds, st.integers(0), st.integers(0)),
    st.builds(Limited, seconds, seconds),
    st.builds(Ended, replicas, st.integers()),
)


@given(entries)
def test_what_is_written_is_read(entry):
    line = podlog.encode(entry)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert podlog.decode(line) == podlog.decode(line[:-1]) == entry


@pytest.mark.parametrize(
    "line",
    [b"", b"xxxx", b"worker-0 text", b"@pod", b"@pod {", b"@pod []", b'@pod {"kind": "else"}',
     b'@pod {"kind": "ended"}', b'@pod {"kind": "ended", "replica": "a-0", "code": 0, "x": 1}',
     b"@pod \xff", b"Worker-0| text"],
)  # fmt: skip
def test_a_line_of_others_says_nothing(line):
    assert podlog.decode(line) is None


def test_a_line_of_a_replica_is_no_report():
    """Whatever a replica prints, it cannot speak for its pod."""
    line = podlog.encode(Output("worker-0", podlog.OUT, podlog.encode(Ended("worker-0", 0))[:-1]))
    assert isinstance(podlog.decode(line), Output)


def log(capfdbinary, *written):
    """Return the log of a pod that has written these entries and their copy."""
    writer = podlog.Writer()
    for entry in written:
        writer.write(entry)
    writer.write_copy()
    return [b"now " + line for line in capfdbinary.readouterr().out.splitlines(keepends=True)]


def test_the_copy_has_every_line_and_its_time(capfdbinary):
    written = [Output("worker-0", podlog.ERR, b"%d" % number) for number in range(5000)]
    lines = log(capfdbinary, *written)
    assert max(map(len, lines)) < 16_000
    copied = [podlog.split_time(line) for line in podlog.read_copy(lines).splitlines()]
    assert [podlog.decode(text) for _, text in copied] == written
    assert [time for time, _ in copied] == sorted(time for time, _ in copied)


def test_a_copy_that_is_not_whole(capfdbinary):
    lines = log(capfdbinary, *(Output("a-0", podlog.OUT, bytes([n % 256])) for n in range(9000)))
    pieces = [n for n, text in enumerate(lines) if b"@copy " in text]
    assert len(pieces) > 1
    for damaged in (lines[:-1], lines[: pieces[0]], lines[: pieces[-1]] + lines[-1:],
                    [*lines[: pieces[0]], *lines[pieces[1] :]]):  # fmt: skip
        with pytest.raises(podlog.CopyError):
            podlog.read_copy(damaged)


def test_what_a_pod_prints_without_end_is_kept_to_a_limit(capfdbinary, monkeypatch):
    monkeypatch.setattr(podlog, "COPY_LIMIT", 1000)
    line = Output("worker-0", podlog.OUT, b"x" * 100)
    lines = log(capfdbinary, *[line] * 50)
    assert sum(b"| x" in text for text in lines) == 50
    assert 1000 <= len(podlog.read_copy(lines)) < 1200
