"""Runs: only whole sequences of events become numbers, and a store holds only whole runs."""

import errno
import itertools
import json
import math
import os
import tempfile
import threading
from pathlib import Path

import made_runs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from processes import exit_code, fork

from labkit import runs
from labkit.errors import LabkitError
from labkit.replicas.events import PREFIX
from labkit.runs import Run, RunError, Store, tensorboard
from labkit.runs.check import LogReader, parse
from labkit.trials.frameworks import FRAMEWORKS

# --- events ---------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def sequences(draw, smallest=1):
    """Return the events of worker 3, from 0 to its `end`."""
    kinds = draw(st.lists(st.sampled_from(["start", "ready", "step"]), min_size=smallest - 1))
    times = sorted(draw(st.floats(0, 1e9)) for _ in range(len(kinds) + 1))
    return [
        draw(st.dictionaries(st.text(), json_values, max_size=2))
        | {"seq": seq, "t": t, "role": "worker", "index": 3, "kind": kind}
        for seq, (t, kind) in enumerate(zip(times, [*kinds, "end"], strict=True))
    ]


chatter = st.text(st.characters(exclude_characters="\n\r", codec="utf-8")).filter(
    lambda text: PREFIX not in f"{text}{PREFIX[:-1]}"
)


def lines_of(events):
    return [made_runs.line(event) for event in events]


def refuses(lines):
    with pytest.raises(RunError, match="^worker 3: "):
        parse("".join(lines), "worker", 3)


@given(sequences())
def test_a_whole_sequence_is_read_as_it_was_written(events):
    assert parse("".join(lines_of(events)), "worker", 3) == events


@given(sequences(), st.data())
def test_chatter_is_passed_over(events, data):
    text = ""
    for line in lines_of(events):
        text += "".join(f"{words}\n" for words in data.draw(st.lists(chatter, max_size=2)))
        text += data.draw(chatter) + line  # also on the same line, before the event
    text += data.draw(chatter)
    assert parse(text, "worker", 3) == events


@given(sequences(), st.data())
def test_a_text_that_is_cut_off_is_refused(events, data):
    text = "".join(lines_of(events))
    refuses(text[: data.draw(st.integers(0, len(text) - 2))])
    assert parse(text[:-1], "worker", 3) == events  # but for the newline alone


@given(sequences(), st.data())
def test_a_line_that_is_cut_off_is_refused(events, data):
    lines = lines_of(events)
    place = data.draw(st.integers(0, len(lines) - 1))
    cut = lines[place][: data.draw(st.integers(0, len(lines[place]) - 2))]
    ending = data.draw(st.sampled_from(["", "\n"]))
    refuses([*lines[:place], cut + ending, *lines[place + 1 :]])


@given(sequences(), st.data())
def test_a_line_twice_is_refused(events, data):
    lines = lines_of(events)
    line = data.draw(st.sampled_from(lines))
    lines.insert(data.draw(st.integers(0, len(lines))), line)
    refuses(lines)


@given(sequences(), st.data())
def test_a_missing_line_is_refused(events, data):
    lines = lines_of(events)
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    refuses(lines)


@given(sequences(smallest=2), st.data())
def test_swapped_lines_are_refused(events, data):
    lines = lines_of(events)
    one, other = data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2))
    assume(one != other)
    lines[one], lines[other] = lines[other], lines[one]
    refuses(lines)


@given(sequences(), st.data(), st.one_of(json_values, st.just({}), st.text().map("{}".format)))
def test_what_is_no_event_is_refused(events, data, something):
    lines = lines_of(events)
    lines.insert(data.draw(st.integers(0, len(lines))), f"{PREFIX}{json.dumps(something)}\n")
    refuses(lines)


@given(sequences(), st.sampled_from(["seq", "t", "role", "index", "kind"]), st.data())
def test_a_field_of_another_type_is_refused(events, field, data):
    place = data.draw(st.integers(0, len(events) - 1))
    events[place][field] = data.draw(st.sampled_from([None, True, "x", [], {}, 0.5]))
    assume(not (field == "t" and isinstance(events[place]["t"], bool | float)))
    assume(not (field in ("role", "kind") and events[place][field] == "x"))
    refuses(lines_of(events))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"role": "server"}, "line 2 is an event of server 3"),
        ({"index": 4}, "line 2 is an event of worker 4"),
        ({"t": 0.5}, "line 2: time runs backwards"),
        ({"kind": "end"}, "line 3: end after end"),
        ({"kind": "error"}, "line 3: end after error"),
        ({"seq": 0}, "line 2 has event 0 twice; due was 1"),
        ({"seq": 7}, "line 2 has event 7 after a gap; due was 1"),
    ],
)
def test_the_error_says_where_and_what(change, says):
    base = {"role": "worker", "index": 3}
    events = [base | {"seq": n, "t": n + 1.0, "kind": kind}
              for n, kind in enumerate(["start", "step", "end"])]  # fmt: skip
    events[1] |= change
    with pytest.raises(RunError, match=says):
        parse("".join(lines_of(events)), "worker", 3)


@pytest.mark.parametrize(("kinds", "says"), [
    ([], "no events"),
    (["start", "step"], "stop at step, without end"),
    (["start", "error"], "stop at error, without end"),
])  # fmt: skip
def test_what_does_not_end_well(kinds, says):
    events = [{"role": "worker", "index": 3, "seq": n, "t": 1, "kind": kind}
              for n, kind in enumerate(kinds)]  # fmt: skip
    with pytest.raises(RunError, match=says):
        parse("".join(lines_of(events)), "worker", 3)


# --- following a log ------------------------------------------------------------------------


@given(sequences(), st.data())
def test_a_log_is_followed_whatever_the_chunks(events, data):
    text = "".join(data.draw(chatter) + line for line in lines_of(events)).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    with tempfile.NamedTemporaryFile() as file:
        reader = LogReader(Path(file.name))
        seen = []
        for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            file.write(text[begin:end])
            file.flush()
            fresh = reader.new()
            # At once, and not before the line is complete.
            seen += fresh
            assert len(seen) == text[:end].count(b"\n")
        assert seen == events
        assert reader.new() == []


@given(sequences(), st.data())
def test_broken_lines_of_a_log_are_left_out(events, data):
    lines = lines_of(events)
    place = data.draw(st.integers(0, len(lines) - 1))
    lines[place] = lines[place][: data.draw(st.integers(0, len(lines[place]) - 2))] + "\n"
    with tempfile.NamedTemporaryFile() as file:
        file.write("".join(lines).encode() + b"\xff\xfe" + PREFIX.encode() + b"[1]\n")
        file.flush()
        assert LogReader(Path(file.name)).new() == events[:place] + events[place + 1 :]


def test_a_log_that_is_not_there_yet(tmp_path):
    assert LogReader(tmp_path / "worker-0.log").new() == []


# --- one run --------------------------------------------------------------------------------


def checked(trial, directory, change=lambda role, index, lines: lines):
    made_runs.write(trial, directory, change)
    check(Run(trial, directory, made_runs.RECORD))


@pytest.mark.parametrize("values", [
    {}, {"framework": "tensorflow"}, {"strategy": "single"}, {"model": "lstm"},
])  # fmt: skip
def test_a_run_that_is_as_it_should_be(values, tmp_path):
    checked(made_runs.trial(**values), tmp_path)


@pytest.mark.parametrize("role", ["scheduler", "server", "worker"])
def test_every_replica_is_checked(role, tmp_path):
    def drop(who, index, lines):
        return lines[:-1] if (who, index) == (role, count - 1) else lines

    trial = made_runs.trial()
    count = trial.replicas[role]
    with pytest.raises(RunError, match=f"{role} {count - 1}: .*without end"):
        checked(trial, tmp_path, drop)
    (tmp_path / f"{role}-{count - 1}.log").unlink()
    with pytest.raises(RunError, match=f"{role} {count - 1}: .* is missing"):
        check(Run(trial, tmp_path, made_runs.RECORD))


def renumbered(events):
    return lines_of([event | {"seq": seq} for seq, event in enumerate(events)])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda es: [es[0] | {"trial": "f00"}, *es[1:]], "trial is 'f00', should be"),
        (lambda es: [es[0] | {"data": "f00"}, *es[1:]], "data is 'f00', should be"),
        (lambda es: [*es[:-1], es[-1] | {"steps": 99}], "steps is 99, should be 100"),
        (lambda es: [e for e in es if e.get("steps") != 100] + es[-1:],
         "last step is 90, should be 100"),
        (lambda es: [e for e in es if e["kind"] != "step"], "last step is 0, should be 100"),
        (lambda es: es[1:], "event is 'ready', should be 'start'"),
        (lambda es: [e for e in es if e["kind"] != "barrier"], "did not pass the barrier"),
        (lambda es: [e for e in es if e["kind"] != "ready"], "did not pass the barrier"),
    ],
)  # fmt: skip
def test_a_run_that_is_of_something_else(spoil, says, tmp_path):
    def change(role, index, lines):
        if (role, index) != ("worker", 1):
            return lines
        return renumbered(spoil(made_runs.events(trial, role, index)))

    trial = made_runs.trial()
    with pytest.raises(RunError, match=f"worker 1:? .*{says}|worker 1 {says}"):
        checked(trial, tmp_path, change)


# --- the store ------------------------------------------------------------------------------


def test_an_empty_store(store):
    trial = made_runs.trial()
    assert store.find(trial) is None
    assert store.failure(trial) is None
    assert list(store.runs()) == []
    assert store.results([trial]).table.empty
    assert store.results().table.empty


def test_outputs(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_OUTPUTS", str(tmp_path))
    assert Store().root == tmp_path / "runs"
    monkeypatch.delenv("LABKIT_OUTPUTS")
    assert Store().root == Path(runs.__file__).parents[1] / "outputs" / "runs"


def test_a_run_is_kept_raw(store):
    trial = made_runs.trial()
    made_runs.add(store, trial)
    run = store.find(trial)
    assert run.trial == trial
    assert run.directory == store.root / trial.name
    assert {path.name for path in run.directory.iterdir()} == {
        "trial.json", "run.json", "scheduler-0.log", "server-0.log", "server-1.log",
        "worker-0.log", "worker-1.log",
    }  # fmt: skip
    assert run.events("worker", 1) == made_runs.events(trial, "worker", 1)
    assert list((store.root / ".scratch").iterdir()) == []
    assert [found.trial for found in store.runs()] == [trial]


def test_a_failed_run_is_kept_apart(store):
    trial = made_runs.trial()
    made_runs.add(store, trial, status="failed", error="worker 1 fell over")
    assert store.find(trial) is None
    assert store.failure(trial).record["error"] == "worker 1 fell over"
    assert list(store.runs()) == []
    made_runs.add(store, trial)
    assert store.find(trial).finished
    assert store.failure(trial) is None


def test_a_new_run_replaces_the_old_one_only_when_it_has_succeeded(store):
    trial = made_runs.trial()
    made_runs.add(store, trial, started="first")
    made_runs.add(store, trial, started="second", status="failed")
    assert store.find(trial).record["started"] == "first"
    assert store.results([trial]).table.status.tolist() == ["finished"]
    made_runs.add(store, trial, started="third")
    assert store.find(trial).record["started"] == "third"


def test_only_one_may_run_a_trial_at_a_time(store):
    trial, other = made_runs.trial(), made_runs.trial(seed=2)
    order = []
    inside = threading.Event()

    def second():
        with store.claim(other):  # another trial need not wait
            inside.set()
        with Store(store.root).claim(trial):
            order.append("second")

    with store.claim(trial) as scratch:
        thread = threading.Thread(target=second)
        thread.start()
        assert inside.wait(5)
        thread.join(0.3)
        assert thread.is_alive()
        assert scratch.is_dir()  # what is being written was no orphan to the other one
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]


def test_scratch_is_empty_at_first_and_gone_at_last(store):
    trial = made_runs.trial()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), store.claim(trial) as scratch:
            assert list(scratch.iterdir()) == []
            (scratch / "worker-0.log").write_text("half a line")
            raise KeyboardInterrupt
        assert not scratch.exists()


def test_what_the_killed_have_left_is_removed(store):
    trial, other = made_runs.trial(), made_runs.trial(seed=2)

    def be_killed():
        with store.claim(other) as scratch:
            (scratch / "worker-0.log").write_text("half a line")
            os._exit(9)

    assert exit_code(fork(be_killed)) == 9
    assert (store.root / ".scratch" / other.name / "worker-0.log").exists()
    with store.claim(trial) as scratch:
        assert list(scratch.parent.iterdir()) == [scratch]


def test_killed_while_keeping_a_run(store):
    """Die before each of the things that keeping does to the disk: all or nothing remains."""
    trial, other = made_runs.trial(), made_runs.trial(seed=2)

    def keep_and_die(before):
        count = itertools.count()

        def deadly(work):
            def wrapped(*args, **kwargs):
                if next(count) == before:
                    os._exit(9)
                return work(*args, **kwargs)

            return wrapped

        with store.claim(trial) as scratch:
            made_runs.write(trial, scratch)
            os.fsync, Path.rename = deadly(os.fsync), deadly(Path.rename)
            os.unlink, os.rmdir = deadly(os.unlink), deadly(os.rmdir)
            store.keep(trial, scratch, made_runs.RECORD | {"started": "new"})
            os._exit(0)

    left = []
    for point in itertools.count():
        made_runs.add(store, trial, started="old")
        code = exit_code(fork(lambda point=point: keep_and_die(point)))
        run = store.find(trial)
        left.append(run and run.record["started"])
        assert len(store.results().table) == len(store.results([trial]).table) == (run is not None)
        # The next one tidies up and is not held up.
        with store.claim(other) as scratch:
            assert list(scratch.parent.iterdir()) == [scratch]
        if code == 0:
            break
        assert code == 9
    # Two files on disk, then the old run away, the new one in its place, the old one removed.
    assert left[:5] == ["old", "old", "old", None, "new"]
    assert set(left[5:]) == {"new"}
    assert len(left) > 10  # also in the midst of removing it


def test_no_room(store, monkeypatch):
    usage = runs.shutil.disk_usage(store.root.parent)
    monkeypatch.setattr(runs.shutil, "disk_usage", lambda path: usage._replace(free=5 << 20))
    with (
        pytest.raises(LabkitError, match="5.0 MiB free; a trial needs 32 MiB.*LABKIT_OUTPUTS"),
        store.claim(made_runs.trial()),
    ):
        pass


def test_no_place(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(LabkitError, match="file.* cannot be written: Not a directory.*OUTPUTS"),
        Store(tmp_path / "file" / "runs").claim(made_runs.trial()),
    ):
        pass


def test_a_disk_that_fills_up(store):
    trial = made_runs.trial()
    with (
        pytest.raises(LabkitError, match=f"{store.root} is full.*{trial.name}.*Make room"),
        store.claim(trial) as scratch,
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not scratch.exists()
    with pytest.raises(PermissionError), store.claim(trial):  # nothing else is taken for it
        raise PermissionError(errno.EACCES, "Permission denied")


def test_runs_of_a_labkit_that_knew_other_fields(store):
    made_runs.add(store, made_runs.trial())
    old = made_runs.add(store, made_runs.trial(seed=2)).directory / "trial.json"
    content = json.loads(old.read_text())
    content["values"]["colour"] = "red"
    old.write_text(json.dumps(content))
    assert store.results().table.seed.tolist() == [1]


def test_a_run_keeps_its_identity_when_the_trainer_changes(store, monkeypatch):
    trial = made_runs.trial()
    before = trial.identity
    made_runs.add(store, trial)
    monkeypatch.setitem(vars(FRAMEWORKS["mxnet"]), "sum", "another trainer")
    changed = trial.replace()
    assert store.find(changed) is None  # so it would be run again
    assert store.results().table.identity.tolist() == [before]


# --- tables ---------------------------------------------------------------------------------

RATES = ["window_s", "batches_per_second", "samples_per_second", "imbalance", "variation",
         "epoch_s"]  # fmt: skip
NUMBERS = [*RATES, "duration_s", "startup_s", "cpu_ms_per_step", "peak_memory_mb", "accuracy",
           "perplexity", "inference_per_second"]  # fmt: skip
COLUMNS = {
    "framework", "model", "dataset", "strategy", "workers", "servers", "batch_size",
    "learning_rate", "epochs", "steps", "seed", "initializer", "clip_norm", "loss_over_time",
    "eval_samples", "threads", "trial", "identity", "status", "error", "samples_per_epoch",
    "duration_s", "window_s", "batches_per_second", "samples_per_second", "imbalance",
    "variation", "epoch_s", "startup_s", "cpu_ms_per_step", "peak_memory_mb", "accuracy",
    "perplexity", "inference_per_second", "cores", "oversubscribed", "overloaded", "started",
    "host", "cpu_model", "revision", "versions", "load_before", "load_after",
}  # fmt: skip


def test_a_row_worked_out_by_hand(store):
    trial = made_runs.trial()
    made_runs.add(store, trial)
    table = store.results([trial]).table
    assert set(table) >= COLUMNS
    row = table.iloc[0]
    assert row.trial == trial.name
    assert row.identity == trial.identity
    assert (row.status, row.error, row.overloaded) == ("finished", None, False)
    # Worker 0 takes 100 steps of 50 images in 10 s, worker 1 half of that.
    assert row.duration_s == pytest.approx(20)
    assert row.window_s == pytest.approx(10)
    assert row.samples_per_second == pytest.approx(500 + 250)
    assert row.batches_per_second == pytest.approx(15)
    assert row.samples_per_epoch == 60_000
    assert row.epoch_s == pytest.approx(60_000 / 375)
    assert row.imbalance == pytest.approx(250 / 375)
    assert row.variation == pytest.approx(0, abs=1e-9)
    assert row.startup_s == 1.5
    assert row.cpu_ms_per_step == pytest.approx(1000 * 0.5 * (10 + 20) / 200)  # no evaluation
    assert row.peak_memory_mb == 201
    assert row.accuracy == 87.5
    assert math.isnan(row.perplexity)
    assert row.inference_per_second == 20_000
    assert (row.host, row.cpu_model, row.cores) == ("here", "a processor", 4)
    assert (row.revision, row.started) == ("0123456789ab", "2020-02-20T20:20:20+0000")
    assert row.versions == "python 3.11.0, mxnet 1.0"
    assert (row.load_before, row.load_after, row.other_cpu) == (0.25, 1.75, 0.125)
    assert not row.oversubscribed


def test_a_row_of_text(store):
    trial = made_runs.trial(model="lstm", framework="tensorflow", batch_size=20)
    made_runs.add(store, trial)
    row = store.results().table.iloc[0]
    assert row.perplexity == 321
    assert math.isnan(row.accuracy)
    assert row.samples_per_epoch == 30_980  # sequences of 30 words, in whole batches


@pytest.mark.parametrize(("workers", "threads", "shared"), [
    (4, 1, False), (5, 1, True), (2, 2, False), (3, 2, True),
])  # fmt: skip
def test_time_sharing_is_told(workers, threads, shared, store):
    made_runs.add(store, made_runs.trial(workers=workers, threads=threads))
    assert bool(store.results().table.oversubscribed[0]) is shared


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_no_number_without_success(status, store):
    trial = made_runs.trial()
    made_runs.add(store, trial, status=status, error="why")
    row = store.results([trial]).table.iloc[0]
    assert (row.status, row.error) == (status, "why")
    assert row[NUMBERS].isna().all()
    assert store.results([trial]).steps.empty
    assert store.results([trial]).evals.empty


def test_no_rate_of_a_machine_that_was_busy_with_other_things(store):
    made_runs.add(store, made_runs.trial(), overloaded=True)
    row = store.results().table.iloc[0]
    assert (row.status, row.overloaded) == ("finished", True)
    assert row[RATES].isna().all()
    assert row.accuracy == 87.5


def test_steps(store):
    trial = made_runs.trial()
    made_runs.add(store, trial)
    steps = store.results([trial]).steps
    assert set(steps) >= {"trial", "framework", "workers", "batch_size", "learning_rate",
                          "initializer", "seed", "dataset"}  # fmt: skip
    mine = steps[steps.worker == 1].reset_index(drop=True)
    assert len(steps) == 20
    assert mine.t.tolist() == pytest.approx([2 * n for n in range(1, 11)])
    assert mine.steps.tolist() == [10 * n for n in range(1, 11)]
    assert mine.samples.tolist() == [500 * n for n in range(1, 11)]
    # While worker 1 takes a step, worker 0 takes two, until it has taken its 100.
    assert mine.updates.tolist() == pytest.approx([30, 60, 90, 120, 150, *range(160, 201, 10)])
    assert mine.loss.tolist() == pytest.approx([2 - n / 10 for n in range(1, 11)])
    assert mine.accuracy.tolist() == pytest.approx([10 + 8 * n for n in range(1, 11)])


def test_steps_of_text_have_no_accuracy(store):
    made_runs.add(store, made_runs.trial(model="lstm"))
    assert store.results().steps.accuracy.isna().all()


def test_evals(store):
    made_runs.add(store, made_runs.trial())
    evals = store.results().evals
    assert len(evals) == 1
    assert evals.t[0] == pytest.approx(11)
    assert (evals.metric[0], evals.value[0]) == ("accuracy", 87.5)
    assert (evals.samples[0], evals.seconds[0]) == (10_000, 0.5)
    assert {"trial", "framework", "workers", "steps"} <= set(evals)


def test_tables_hold_the_trials_that_are_asked_for_in_their_order(store):
    trials = [made_runs.trial(seed=seed) for seed in (3, 1, 2)]
    for trial in trials:
        made_runs.add(store, trial)
    assert store.results(trials).table.seed.tolist() == [3, 1, 2]
    assert store.results(trials[:1]).table.seed.tolist() == [3]
    assert sorted(store.results().table.seed) == [1, 2, 3]


# --- tensorboard ----------------------------------------------------------------------------


@pytest.mark.parametrize("values", [{"framework": "tensorflow"}, {"model": "lstm"}])
def test_tensorboard_reads_what_we_write(values, store, tensorboard_scalars):
    trial = made_runs.trial(**values)
    run = made_runs.add(store, trial)
    tensorboard.write(run, run.directory / "tensorboard")
    for index in range(2):
        scalars = tensorboard_scalars(run.directory / "tensorboard" / f"worker-{index}")
        tests = {"lenet5": "accuracy", "lstm": "perplexity"}[trial.model]
        tags = {"train/loss"} | ({"train/accuracy"} if trial.model == "lenet5" else set())
        assert set(scalars) == tags | ({f"test/{tests}"} if index == 0 else set())
        assert [(s.step, s.value) for s in scalars["train/loss"]] == [
            (n, pytest.approx(2 - n / 100)) for n in range(10, 101, 10)
        ]
        apart = [s.wall_time - scalars["train/loss"][0].wall_time for s in scalars["train/loss"]]
        assert apart == pytest.approx([n * (1 + index) for n in range(10)])
    evaluated = tensorboard_scalars(run.directory / "tensorboard" / "worker-0")[f"test/{tests}"]
    assert [(s.step, s.value) for s in evaluated] == [
        (100, {"lenet5": 87.5, "lstm": 321.0}[trial.model])
    ]
