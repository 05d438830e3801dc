"""The event protocol: what is written is read, and nothing else is taken for an event."""

import json
import os

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from labkit.replicas import events
from labkit.replicas.events import PREFIX, Barrier, EventError, Writer, decode, encode
from labkit.runs.sequence import read

pytestmark = pytest.mark.unit

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
count = st.integers(0, 2**40)
number = st.floats(allow_nan=False, allow_infinity=False)
share = st.floats(0, 100)
FIELDS = {
    events.Start: {"trial": st.text(), "data": st.text(), "pid": count, "host": st.text(),
                   "versions": st.dictionaries(st.text(), st.text(), max_size=2)},
    events.Ready: {"variables": st.none() | st.lists(st.integers(1, 2**40), max_size=3)},
    events.Barrier: {},
    events.Step: {"steps": count, "samples": count, "loss": number,
                  "accuracy": st.none() | share,
                  "metrics": st.none() | st.dictionaries(st.text(), number, max_size=2)},
    events.Rate: {"rate": number, "unit": st.text()},
    events.Evaluation: {"steps": count, "metric": st.text(), "loss": number, "samples": count,
                        "value": number | st.just(float("inf")), "seconds": share,
                        "pause": share},
    events.End: {"peak_bytes": count, "steps": st.none() | count, "samples": st.none() | count,
                 "input": st.none() | number},
}  # fmt: skip


@st.composite
def sequences(draw, smallest=1):
    """Return the events of worker 3, from 0 to its `end`."""
    before = [kind for kind in FIELDS if kind is not events.End]
    kinds = draw(st.lists(st.sampled_from(before), min_size=smallest - 1, max_size=6))
    times = sorted(draw(st.floats(0, 1e9)) for _ in range(len(kinds) + 1))
    return [
        kind(seq=seq, t=t, role="worker", index=3, cpu=draw(share),
             **draw(st.fixed_dictionaries(FIELDS[kind])))
        for seq, (t, kind) in enumerate(zip(times, [*kinds, events.End], strict=True))
    ]  # fmt: skip


chatter = st.text(st.characters(exclude_characters="\n\r", codec="utf-8")).filter(
    lambda text: PREFIX not in f"{text}{PREFIX[:-1]}"
)


def lines_of(sequence):
    return [encode(event) for event in sequence]


def refuses(lines):
    with pytest.raises(EventError):
        read("".join(lines), "worker", 3)


@given(sequences())
def test_a_whole_sequence_is_read_as_it_was_written(sequence):
    assert read("".join(lines_of(sequence)), "worker", 3) == sequence


@given(sequences(), st.data())
def test_chatter_is_passed_over(sequence, data):
    text = ""
    for line in lines_of(sequence):
        text += "".join(f"{words}\n" for words in data.draw(st.lists(chatter, max_size=2)))
        text += data.draw(chatter) + line  # also on the same line, before the event
    text += data.draw(chatter)
    assert read(text, "worker", 3) == sequence


@given(sequences(), st.data())
def test_a_text_that_is_cut_off_is_refused(sequence, data):
    text = "".join(lines_of(sequence))
    refuses(text[: data.draw(st.integers(0, len(text) - 2))])
    assert read(text[:-1], "worker", 3) == sequence  # but for the newline alone


@given(sequences(), st.data())
def test_a_line_that_is_cut_off_is_refused(sequence, data):
    lines = lines_of(sequence)
    place = data.draw(st.integers(0, len(lines) - 1))
    cut = lines[place][: data.draw(st.integers(0, len(lines[place]) - 2))]
    ending = data.draw(st.sampled_from(["", "\n"]))
    refuses([*lines[:place], cut + ending, *lines[place + 1 :]])


@given(sequences(), st.data())
def test_a_line_twice_is_refused(sequence, data):
    lines = lines_of(sequence)
    line = data.draw(st.sampled_from(lines))
    lines.insert(data.draw(st.integers(0, len(lines))), line)
    refuses(lines)


@given(sequences(), st.data())
def test_a_missing_line_is_refused(sequence, data):
    lines = lines_of(sequence)
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    refuses(lines)


@given(sequences(smallest=2), st.data())
def test_swapped_lines_are_refused(sequence, data):
    lines = lines_of(sequence)
    one, other = data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2))
    assume(one != other)
    lines[one], lines[other] = lines[other], lines[one]
    refuses(lines)


@given(sequences(), st.data(), st.one_of(json_values, st.just({}), st.text().map("{}".format)))
def test_what_is_no_event_is_refused(sequence, data, something):
    lines = lines_of(sequence)
    lines.insert(data.draw(st.integers(0, len(lines))), f"{PREFIX}{json.dumps(something)}\n")
    refuses(lines)


WRONG = [None, True, "x", [], {}, 0.5, -1, float("nan"), float("-inf")]


@given(sequences(), st.data())
def test_a_field_of_another_type_or_of_no_number_is_refused(sequence, data):
    place = data.draw(st.integers(0, len(sequence) - 1))
    given_fields = sequence[place].as_dict()
    field = data.draw(st.sampled_from(sorted(given_fields)))
    right, wrong = given_fields[field], data.draw(st.sampled_from(WRONG))
    real = isinstance(right, float) or field in ("t", "cpu", "loss", "value", "rate")
    assume(not (isinstance(right, str) and isinstance(wrong, str)))
    assume(not (field in ("versions", "metrics") and wrong == {}))
    assume(not (field == "variables" and wrong == []))
    assume(not (real and wrong in (0.5, -1) and not isinstance(wrong, bool)))
    optional = (
        "accuracy", "steps", "samples", "input", "loss", "seconds", "metrics", "variables",
    )  # fmt: skip
    assume(not (wrong is None and field in optional))
    lines = lines_of(sequence)
    lines[place] = f"{PREFIX}{json.dumps(given_fields | {field: wrong})}\n"
    refuses(lines)


@given(st.integers(0, 2**32), st.data())
def test_a_mutated_line_is_refused_or_is_an_event(seed, data):
    """Whatever happens to a line's characters: an event, nothing, or one kind of error."""
    sequence = data.draw(sequences())
    line = list(encode(data.draw(st.sampled_from(sequence))))
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(line) - 1))
        line[place] = data.draw(st.characters(codec="utf-8"))
    try:
        event = decode("".join(line))
    except EventError:
        return
    assert event is None or isinstance(event, events.Event)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"role": "server"}, "line 2 is an event of server 3"),
        ({"index": 4}, "line 2 is an event of worker 4"),
        ({"t": 0.5}, "line 2: time runs backwards"),
        ({"kind": "end", "peak_bytes": 1}, "line 3: end after end"),
        ({"kind": "error", "type": "a", "message": "b", "traceback": "c"},
         "line 3: end after error"),
        ({"seq": 0}, "line 2 has event 0 twice; due was 1"),
        ({"seq": 7}, "line 2 has event 7 after a gap; due was 1"),
        ({"kind": "stop"}, "line 2 is cut off or garbled"),
    ],
)  # fmt: skip
def test_the_error_says_where_and_what(change, says):
    base = {"role": "worker", "index": 3, "cpu": 0.0, "peak_bytes": 1}
    found = [base | {"seq": n, "t": n + 1.0, "kind": kind}
             for n, kind in enumerate(["ready", "barrier", "end"])]  # fmt: skip
    found[1] |= change
    with pytest.raises(EventError, match=says):
        read("".join(f"{PREFIX}{json.dumps(event)}\n" for event in found), "worker", 3)


@pytest.mark.parametrize(("kinds", "says"), [
    ([], "no events"),
    ([events.Ready, Barrier], "stop at barrier, without end"),
])  # fmt: skip
def test_what_does_not_end_well(kinds, says):
    found = [kind(seq=n, t=1.0, role="worker", index=3, cpu=0.0) for n, kind in enumerate(kinds)]
    with pytest.raises(EventError, match=says):
        read("".join(lines_of(found)), "worker", 3)


def test_what_another_version_adds_is_passed_over():
    event = Barrier(seq=0, t=1.0, role="worker", index=3, cpu=0.0)
    assert decode(PREFIX + json.dumps(event.as_dict() | {"colour": "red"})) == event


def test_a_writer_numbers_what_it_writes(capfd):
    writer = Writer("worker", 3)
    writer.write(events.Ready)
    writer.write(Barrier)
    writer.end(steps=4, samples=8)
    found = read(capfd.readouterr().out, "worker", 3)
    assert [(event.seq, event.kind) for event in found] == [(0, "ready"), (1, "barrier"),
                                                            (2, "end")]  # fmt: skip
    assert found[-1].samples == 8 and found[-1].peak_bytes > 0


def test_a_line_that_cannot_be_written_whole_is_an_error(monkeypatch):
    monkeypatch.setattr(os, "write", lambda file, line: len(line) - 1)
    with pytest.raises(OSError, match="is the disk full"):
        Writer("worker", 0).write(events.Ready)
