"""A log, followed while it is written."""

import tempfile
from pathlib import Path

import made_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.launchers.local.logs import LogReader
from labkit.replicas.events import PREFIX, decode

pytestmark = pytest.mark.unit

LINES = [made_runs.line(event) for event in made_runs.events(made_runs.trial(), "worker", 0)]
EVENTS = [decode(line) for line in LINES]


@given(st.data())
def test_a_log_is_followed_whatever_the_chunks(data):
    text = "".join(f"noise {line}" for line in LINES).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    with tempfile.NamedTemporaryFile() as file:
        reader = LogReader(Path(file.name))
        seen = []
        for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            file.write(text[begin:end])
            file.flush()
            seen += reader.new()
            # At once, and not before the line is complete.
            assert len(seen) == text[:end].count(b"\n")
        assert seen == EVENTS
        assert reader.new() == []


@given(st.data())
def test_broken_lines_of_a_log_are_left_out(data):
    lines = list(LINES)
    place = data.draw(st.integers(0, len(lines) - 1))
    lines[place] = lines[place][: data.draw(st.integers(0, len(lines[place]) - 2))] + "\n"
    with tempfile.NamedTemporaryFile() as file:
        file.write("".join(lines).encode() + b"\xff\xfe" + PREFIX.encode() + b"[1]\n")
        file.flush()
        assert LogReader(Path(file.name)).new() == EVENTS[:place] + EVENTS[place + 1 :]


def test_a_log_that_is_not_there_yet(tmp_path):
    assert LogReader(tmp_path / "worker-0.log").new() == []
