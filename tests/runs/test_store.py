"""The store: whole runs or none, one at a time, and nothing lost."""

import errno
import itertools
import json
import os
import shutil
import threading
from pathlib import Path

import made_runs
import pytest
from processes import exit_code, fork

from labkit import provenance, replicas, settings
from labkit.errors import LabkitError
from labkit.replicas.events import decode
from labkit.runs import Results, RunError, Store
from labkit.trials.models import MODELS

pytestmark = pytest.mark.unit


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
    assert Store().root == settings.REPOSITORY / "outputs" / "runs"


def test_a_run_is_kept_raw(store):
    trial = made_runs.trial()
    made_runs.add(store, trial)
    run = store.find(trial)
    assert run.trial == trial
    assert run.directory.parent == store.root and run.directory.name.startswith(trial.name)
    assert {path.name for path in run.directory.iterdir()} == {
        "trial.json", "run.json", "scheduler-0.log", "server-0.log", "server-1.log",
        "worker-0.log", "worker-1.log",
    }  # fmt: skip
    due = [decode(made_runs.line(event)) for event in made_runs.events(trial, "worker", 1)]
    assert run.events("worker", 1) == due
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


def test_what_is_being_replaced_is_nobodys_leftover(store):
    """Another sweep that begins a trial meanwhile does not take it away."""
    trial, other = made_runs.trial(), made_runs.trial(seed=2)
    with store.claim(trial) as scratch:
        replaced = scratch.with_name(f"{scratch.name}.replaced")
        replaced.mkdir()
        with store.claim(other):
            assert replaced.is_dir()
    with store.claim(trial):
        assert not replaced.exists()


@pytest.mark.parametrize("damage", [
    lambda path: path.joinpath("trial.json").write_text(""),
    lambda path: path.joinpath("worker-1.log").write_text("half a line"),
])  # fmt: skip
def test_a_damaged_run_is_as_good_as_none(store, damage):
    """It is measured anew beside it, and then found, or takes its place."""
    trial = made_runs.trial()
    damage(made_runs.add(store, trial, **elsewhere(host="there")).directory)
    damage(made_runs.add(store, trial).directory)
    assert store.find(trial) is None
    assert store.set_aside([trial]).startswith("kept runs not used: 2 that cannot be read")
    assert made_runs.add(store, trial, started="again").record["started"] == "again"
    assert store.find(trial).record["started"] == "again"
    assert store.set_aside([trial]).startswith("kept runs not used: 1 that cannot be read")


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
    usage = shutil.disk_usage(store.root.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5 << 20))
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
    results = store.results()
    assert results.table.seed.tolist() == [1]
    assert list(results.left_out) == [old.parent]
    assert "colour: no such field" in results.left_out[old.parent]


def test_a_run_of_a_model_that_is_no_longer_there(store, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(MODELS, "extra", MODELS["lenet5"])
        directory = made_runs.add(store, made_runs.trial(model="extra")).directory
    assert list(store.runs()) == []
    assert "model: 'extra'" in store.results().left_out[directory]


def test_a_models_file_from_elsewhere_is_kept_with_its_run(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.py"
    file.write_bytes(MODELS["lenet5"].source + b"# mine\n")
    trial = made_runs.trial(model="mine.py")
    made_runs.add(store, trial)
    file.unlink()
    (run,) = store.runs()
    assert run.trial == trial and run.current
    assert store.results().table.model.tolist() == ["mine.py"]


def test_what_is_not_as_it_should_be_is_not_kept_as_finished(store):
    trial = made_runs.trial()
    with store.claim(trial) as scratch:
        made_runs.write(trial, scratch)
        (scratch / "worker-1.log").unlink()
        with pytest.raises(RunError, match="worker 1: .* is missing"):
            store.keep(trial, scratch, made_runs.RECORD)
    assert store.find(trial) is None


def test_a_run_keeps_its_identity_when_the_trainer_changes(store, monkeypatch):
    trial = made_runs.trial()
    before = trial.identity
    made_runs.add(store, trial)
    assert store.find(trial).current
    monkeypatch.setattr(replicas, "checksum", lambda *_: "another trainer")
    changed = trial.replace()
    assert store.find(changed) is None  # so it would be run again
    assert store.results().table.identity.tolist() == [before]
    assert [run.current for run in store.runs()] == [False]


def test_what_a_cell_shows(store):
    trials = [made_runs.trial(workers=workers) for workers in (1, 2)]
    for trial in trials:
        made_runs.add(store, trial)
    results = store.results(trials)
    lines = repr(results).split("\n")
    assert lines[0].split()[:3] == ["workers", "servers", "seed"]
    assert lines[-1] == "2 runs"
    assert "<table" in results._repr_html_() and "2 runs" in results._repr_html_()
    assert repr(results.runs[0]) == f"Run({results.runs[0].directory.name}, finished, local)"
    assert repr(store) == f"Store('{store.root}', 'local')"
    assert repr(Results([])) == "0 runs"
    assert repr(store.results(trials[:1])).startswith("framework")


# --- what differs ---------------------------------------------------------------------------


def elsewhere(**differences):
    """Return the record of a run on a machine that differs from this one."""
    return {"machine": made_runs.MACHINE | differences}


def test_the_stores_of_two_machines_can_be_put_together(tmp_path):
    trial, stores = made_runs.trial(), [Store(tmp_path / name) for name in ("a", "b")]
    for store, host in zip(stores, ("here", "there"), strict=True):
        made_runs.add(store, trial, **elsewhere(host=host))
    shutil.copytree(tmp_path / "b", tmp_path / "a", dirs_exist_ok=True)
    assert sorted(stores[0].results().table.host) == ["here", "there"]
    assert "there" in repr(stores[0].results())
    assert stores[0].find(trial).record["machine"]["host"] == "here"
    assert stores[0].results([trial]).table.host.tolist() == ["here"]


@pytest.mark.parametrize(
    ("difference", "says"),
    [
        ({"host": "there"}, "1 of the machine there"),
        ({"cpu_model": "another"}, "1 with cpu model another instead of a processor"),
        ({"cores": 2}, "1 with cores 2 instead of 4"),
        ({"congestion_control": "bbr"}, "1 with congestion control bbr instead of cubic"),
    ],
)
def test_a_run_of_another_machine_is_not_this_ones(difference, says, store):
    trial = made_runs.trial()
    made_runs.add(store, trial, **elsewhere(**difference))
    assert store.find(trial) is None
    assert store.set_aside([trial]) == f"kept runs not used: {says}"
    made_runs.add(store, trial)
    assert store.find(trial).record["machine"] == made_runs.MACHINE
    assert len(list(store.runs())) == 2


def test_a_run_that_does_not_tell_its_congestion_control_is_not_used(store):
    """Earlier versions did not record it."""
    trial = made_runs.trial()
    told = {k: v for k, v in made_runs.MACHINE.items() if k != "congestion_control"}
    made_runs.add(store, trial, machine=told)
    assert store.find(trial) is None
    said = "1 with congestion control unknown instead of cubic"
    assert store.set_aside([trial]) == f"kept runs not used: {said}"
    assert store.results().table.congestion_control.tolist() == [""]


def test_a_run_with_other_versions_is_kept_and_not_used_again(store, monkeypatch):
    trial = made_runs.trial()
    made_runs.add(store, trial, started="then")
    now = made_runs.versions("mxnet") | {"mxnet": "2.0", "numpy": "1.26"}
    monkeypatch.setattr(provenance, "versions", lambda framework: now)
    assert store.find(trial) is None
    assert store.set_aside([trial]) == "kept runs not used: 1 with mxnet 1.0 instead of 2.0"
    monkeypatch.setattr(made_runs, "versions", lambda framework: now)
    made_runs.add(store, trial, started="now")
    assert store.find(trial).record["started"] == "now"
    assert sorted(store.results().table.versions) == [
        "mxnet 1.0, python 3.11.0",
        "mxnet 2.0, numpy 1.26, python 3.11.0",
    ]


def test_a_run_named_as_earlier_versions_did_is_used_and_replaced(store):
    trial = made_runs.trial()
    made_runs.add(store, trial, started="old").directory.rename(store.root / trial.name)
    assert store.find(trial).record["started"] == "old"
    made_runs.add(store, trial, started="new")
    assert [run.record["started"] for run in store.runs()] == ["new"]


def test_runs_in_a_cluster_are_used_wherever_labkit_is(tmp_path):
    store, trial = Store(tmp_path, "kubernetes"), made_runs.trial()
    for started, host in (("1", "one cluster"), ("3", "another"), ("2", "a third")):
        made_runs.add(store, trial, launcher="kubernetes", started=started, **elsewhere(host=host))
    assert store.find(trial).record["started"] == "3"
    assert store.set_aside([trial]) == ""
    assert Store(tmp_path).find(trial) is None


def test_code_tells_trainers_apart_but_no_repeats(store, monkeypatch):
    for seed in (1, 2):
        made_runs.add(store, made_runs.trial(seed=seed))
    monkeypatch.setattr(replicas, "checksum", lambda *files: "0" * 64)
    made_runs.add(store, made_runs.trial(seed=1))
    table = store.results().table
    assert table.groupby("code").seed.apply(sorted).tolist() in ([[1, 2], [1]], [[1], [1, 2]])
