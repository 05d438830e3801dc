"""Scripts of a user's own: run as they stand, measured by three calls or by what they print."""

import re
import shlex
import sys
from pathlib import Path

import made_scripts
import numpy as np
import pytest
from click.testing import CliRunner
from processes import REPOSITORY, eventually, running

from labkit import ScriptTrial, Sweep, measure, speedups
from labkit.campaign import SweepFailed
from labkit.cli import main
from labkit.errors import LabkitError
from labkit.figures import speedup
from labkit.launchers.local import patience
from labkit.planning import Experience
from labkit.replicas.events import Rate
from labkit.runs.tensorboard import export
from labkit.trials import TrialError

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("once")]

ALONE = {"framework": "mxnet", "servers": 0}
"""Of scripts that use no framework."""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Return a function that writes a script, and stand where it is."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="train.py"):
        (tmp_path / name).write_text(text)
        return name

    return write


def fail(store, **values):
    """Run a script that fails; return the error's text, after all of it has gone."""
    with pytest.raises(SweepFailed) as error:
        measure([ScriptTrial(**ALONE | values)], store=store, quiet=True)
    (failed,) = (store.root / ".failed").iterdir()
    assert not list(store.runs()) and failed.exists()
    return str(error.value)


# --- by three calls -------------------------------------------------------------------------


def test_a_script_with_three_calls_is_measured_as_a_trial_is(script, store, tensorboard_scalars):
    sweep = Sweep.grid(script=script(made_scripts.REPORTS), arguments="20000", workers=[1, 2],
                       **ALONE)  # fmt: skip
    results = measure(sweep, store=store, quiet=True)
    table = results.table
    assert table.status.tolist() == ["finished"] * 2 and not table.reported.any()
    assert table.model.tolist() == ["train.py"] * 2 and (table.strategy == "script").all()
    assert (table.accuracy == 75).all()
    # Its own metric does not take the place of labkit's column.
    assert (table.error_ < 1e-3).all() and table.error.isna().all()
    # Steps of a script may differ in size: what they are on average is no setting of it.
    assert table.batch_size.isna().all()
    assert table.samples_per_second.tolist() == pytest.approx(64 * table.batches_per_second)
    assert (table.startup_s > 0).all() and (table.cpu_ms_per_step > 0).all()
    steps, means = results.steps, []
    for _, worker in steps.groupby(["trial", "worker"]):
        assert worker.steps.iloc[-1] == 20000 and worker.samples.iloc[-1] == 64 * 20000
        assert worker.rest.notna().all()
        # All learn the same; each report is a mean, over as many steps as the machine was fast.
        means.append(np.average(worker.loss, weights=np.diff(worker.steps, prepend=0)))
    assert len(means) == 3 and means == pytest.approx([means[0]] * 3, rel=1e-4)
    assert steps.updates.isna().all(), "nobody knows what it does with its gradients"
    assert set(results.evals.metric) == {"accuracy", "error"}
    # All that works on tables works on this one.
    assert speedups(table).workers.tolist()[:1] == [1]
    assert not speedup(results).empty
    export(results.runs, store.root / "curves")
    names = [path for path in (store.root / "curves").rglob("worker-1")]
    assert {"train/loss", "train/rest", "test/error"} <= tensorboard_scalars(names[0]).keys()
    # It is kept with what was run, and not run again.
    kept = store.find(sweep[0]).directory / "script" / "train.py"
    assert kept.read_text() == made_scripts.REPORTS
    assert measure(sweep, store=store, quiet=True).note.startswith("2 trials: 0 run, 2 re-used")
    assert all(run.current for run in store.runs())


BATCHES = "from labkit import report\nreport.ready()\nfor n in ({}):\n    report.step(n)\n"


def test_steps_of_several_sizes_are_measured_without_a_batch_size(script, store):
    """The last batch of an epoch may be a smaller one."""
    values = ALONE | {"script": script(BATCHES.format("64, 64, 20"))}
    said = fail(store, script=values["script"], batch_size=64)
    assert "samples after 3 steps is 148, should be 192" in said
    assert "leave --batch-size out" in said
    results = measure([ScriptTrial(**values)], store=store, quiet=True)
    assert results.table.status[0] == "finished"


def test_a_changed_script_is_measured_anew_and_is_another_line(script, store):
    values = ALONE | {"script": script(made_scripts.REPORTS), "arguments": "3000"}
    first = measure([ScriptTrial(**values)], store=store, quiet=True)
    script(made_scripts.REPORTS + "# changed\n")
    second = measure([ScriptTrial(**values)], store=store, quiet=True)
    assert first.table.identity[0] != second.table.identity[0]
    table = store.results().table
    assert len(table) == 2 and table.code.nunique() == 2
    assert len(speedups(table)) == 2, "two versions are never averaged"


def test_workers_wait_for_each_other(script, store):
    text = """
import os, time
from labkit import report
if os.environ["RANK"] == "1":
    time.sleep(1)
report.ready()
open("ready-" + os.environ["RANK"], "w").write(str(time.monotonic()))
for _ in range(20):
    time.sleep(0.01)
    report.step(1)
"""
    name = script("import os\nos.environ.setdefault('RANK', __import__('sys').argv[1])\n" + text)
    trial = ScriptTrial(script=name, workers=2, arguments="{task_index}", **ALONE)
    measure([trial], store=store, quiet=True)
    times = [float(Path(f"ready-{index}").read_text()) for index in range(2)]
    assert abs(times[0] - times[1]) < 0.5


def test_a_loss_that_is_none_is_a_result(script, store):
    name = script("""
from labkit import report
report.ready()
report.step(8, loss=1.0)
report.step(8, loss=float("nan"))
""")
    table = measure([ScriptTrial(script=name, **ALONE)], store=store, quiet=True).table
    assert table.status[0] == "diverged" and "loss became nan at step 2" in table.error[0]


@pytest.mark.slow
def test_the_page_works_as_written(script, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUTPUTS", str(tmp_path / "outputs"))
    page = (REPOSITORY / "docs" / "bring-your-own.md").read_text()
    page = page.partition("## A script with three calls")[2]
    code, lines = (
        re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("python", "sh")
    )
    script(code)
    for line in lines.splitlines():
        done = CliRunner().invoke(main, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}: {done.output}"
        assert "train.py" in done.output or line.startswith("labkit figure")
    assert Path("figure-speedup.svg").exists()


# --- by what it prints ----------------------------------------------------------------------


def test_a_script_that_knows_nothing_of_labkit(script, store):
    name = script(made_scripts.PRINTS)
    trial = ScriptTrial(script=name, workers=2, batch_size=10, **ALONE)
    results = measure([trial], store=store, quiet=True)
    row = results.table.iloc[0]
    assert row.reported and row.samples_per_second == pytest.approx(2000)
    assert row.batches_per_second == pytest.approx(200)
    # What nobody can know is not made up.
    for unknown in ("startup_s", "cpu_ms_per_step", "duration_s", "accuracy"):
        assert row[unknown] != row[unknown]
    assert results.steps.empty and results.evals.empty


def test_a_script_that_says_how_far_it_is(script, store):
    trial = ScriptTrial(script=script(made_scripts.COUNTS), workers=2, **ALONE)
    row = measure([trial], store=store, quiet=True).table.iloc[0]
    # 100 samples in 50 ms and a little more, by each worker.
    assert row.reported and 0 < row.samples_per_second < 2 * 2100


def test_the_command_line_says_that_a_rate_is_reported(script, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUTPUTS", str(tmp_path / "outputs"))
    name = script(made_scripts.PRINTS)
    line = ["run", "--script", name, "--framework", "mxnet", "--servers", "0"]
    done = CliRunner().invoke(main, [*line, "--workers", "1", "--", "--steps", "6"])
    assert done.exit_code == 0, done.output
    assert "1000 samples/s" in done.output and "as the script reports it" in done.output
    assert "batches/s unknown without --batch-size" in done.output
    done = CliRunner().invoke(main, ["results", "--model", "train.py"])
    assert "1000 samples'" in done.output and "arguments --steps 6" in done.output
    done = CliRunner().invoke(main, ["figure", "throughput", "--arguments", "--steps 6"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(("rates", "due"), [("first", 3000), ("total", 1000)])
def test_a_script_of_which_only_the_first_worker_prints(rates, due, script, store):
    text = made_scripts.ENDLESS.replace("    print(", "    sys.argv[1] == '0' and print(")
    trial = ScriptTrial(script=script(text), workers=3, duration=0.5, rates=rates, batch_size=10,
                        arguments="{task_index}", **ALONE)  # fmt: skip
    row = measure([trial], store=store, quiet=True).table.iloc[0]
    assert row.samples_per_second == pytest.approx(due) and row.rates == rates
    assert row.imbalance != row.imbalance, "nobody knows how fast the others are"
    assert speedups(store.results().table).speedup.isna().all()


def test_whose_rates_they_are_is_said_in_a_known_word(script):
    with pytest.raises(TrialError, match="rates: 'frist'.*each, first, total"):
        ScriptTrial(script=script(made_scripts.PRINTS), rates="frist", **ALONE)


# --- for some time alone --------------------------------------------------------------------


@pytest.fixture
def stand_in(tmp_path):
    """Return an interpreter that has a module torch; nothing of PyTorch itself is in it."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there/torch.py").write_text("")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nPYTHONPATH={tmp_path}/there:$PYTHONPATH exec {sys.executable} "
                      '"$@"\n')  # fmt: skip
    python.chmod(0o755)
    return str(python)


def test_a_script_that_never_ends_is_measured_for_as_long_as_is_asked(script, store):
    name = script(made_scripts.ENDLESS)
    trial = ScriptTrial(script=name, workers=2, duration=1, arguments="{task_index}", **ALONE)
    (found,) = measure([trial], store=store, quiet=True).runs
    assert found.reported and found.window.samples_per_second == pytest.approx(2000)
    times = [[event.t for event in events if isinstance(event, Rate)] for events in found.workers]
    assert all(1 <= last - first < 30 for first, *_, last in times)
    pids = [int(pid) for index in range(2) for pid in Path(f"pids-{index}").read_text().split()]
    eventually(lambda: not running(pids))
    assert measure([trial], store=store, quiet=True).note.startswith("1 trial: 0 run, 1 re-used")
    # A plan counts on it.
    asked, longer = (Experience(store.runs()).cost(trial.replace(duration=n)) for n in (1, 11))
    assert longer.seconds - asked.seconds == pytest.approx(10) and asked.seconds > 1
    unknown = Experience([]).cost(trial)
    assert unknown.seconds == 1 and unknown.at_least


def test_a_script_with_three_calls_is_measured_for_as_long_as_is_asked(script, store):
    name = script(made_scripts.ENDLESS_REPORTS)
    (found,) = measure([ScriptTrial(script=name, duration=1, workers=2, **ALONE)], store=store,
                       quiet=True).runs  # fmt: skip
    assert not found.reported and found.window.end > 0.9


def test_however_short_the_time_there_is_enough_to_measure(script, store):
    trial = ScriptTrial(
        script=script(made_scripts.ENDLESS), duration=0.001, arguments="0", **ALONE
    )
    assert measure([trial], store=store, quiet=True).table.samples_per_second[0] > 0


@pytest.mark.alone
def test_a_script_that_ends_before_is_measured_till_its_end(script, store):
    trial = ScriptTrial(script=script(made_scripts.PRINTS), duration=600, workers=2, **ALONE)
    assert measure([trial], store=store, quiet=True).table.samples_per_second[0] == pytest.approx(
        2000
    )


def test_workers_that_end_by_each_others_end_have_not_failed(script, store, stand_in):
    name = script(made_scripts.TOGETHER)
    for seed in range(3):
        trial = ScriptTrial(framework="torch", script=name, workers=2, duration=0.3, seed=seed,
                            python=stand_in)  # fmt: skip
        assert measure([trial], store=store, quiet=True).table.samples_per_second[
            0
        ] == pytest.approx(2000)


@pytest.mark.slow
def test_mxnets_servers_are_ended_with_their_workers(script, store):
    trial = ScriptTrial(framework="mxnet", script=script(made_scripts.KVSTORE), workers=2,
                        arguments="100000000", duration=1)  # fmt: skip
    assert measure([trial], store=store, quiet=True).table.samples_per_second[0] > 200


def test_what_fails_meanwhile_has_failed(script, store):
    lost = "    if step > 50: sys.exit('lost')\n    print("
    text = made_scripts.ENDLESS.replace("    print(", lost)
    said = fail(store, script=script(text), workers=2, duration=600, arguments="{task_index}")
    assert "left with code 1" in said and "lost" in said


@pytest.mark.slow
@pytest.mark.parametrize("duration", [1, None])
@pytest.mark.parametrize(
    ("code", "words"),
    [(3, "worker 1 left with code 3"),
     (0, "a worker had ended before the first one had printed two rates")],
)  # fmt: skip
def test_a_silent_worker_that_fails_or_never_trains_is_no_number(
    code, words, duration, script, store
):
    """As fast as the first one, says `rates`: that is to be taken only of one that trains."""
    leave = f"import sys, time\nif sys.argv[1] == '1': sys.exit({code})\ntime.sleep(1)\n"
    text = made_scripts.ENDLESS.replace("itertools.count()", "range(150)")
    said = fail(store, script=script(leave + text), workers=2, rates="first", duration=duration,
                arguments="{task_index}")  # fmt: skip
    assert words in said


def test_a_worker_that_ends_by_itself_does_not_keep_the_others(script, store):
    text = made_scripts.ENDLESS.replace("    print(", "    if step > 20 and sys.argv[1] == '0':\n"
                                        "        break\n    print(")  # fmt: skip
    trial = ScriptTrial(script=script(text), workers=2, duration=2, arguments="{task_index}",
                        **ALONE)  # fmt: skip
    (found,) = measure([trial], store=store, quiet=True).runs
    assert found.window.samples_per_second == pytest.approx(2000)


def test_what_is_printed_before_the_barrier_is_no_training(script, store):
    loading = "for n in range(20):\n    time.sleep(0.05)\n    print('9.86it/s')\nreport.ready()"
    name = script(made_scripts.ENDLESS_REPORTS.replace("report.ready()", loading))
    trial = ScriptTrial(script=name, duration=0.6, workers=2, **ALONE)
    (found,) = measure([trial], store=store, quiet=True).runs
    assert not found.reported and found.window.end > 0.5


def test_a_time_that_no_trial_has_is_refused(script, store):
    trial = ScriptTrial(script=script(made_scripts.ENDLESS), duration=60, **ALONE)
    with pytest.raises(TrialError, match="60 s of training do not fit into the deadline of 60 s"):
        measure([trial], store=store, deadline=60)


@pytest.mark.parametrize("duration", [0, -1, float("inf"), float("nan"), "long"])
def test_a_time_that_is_none_is_refused(duration, script):
    with pytest.raises(TrialError, match="duration"):
        ScriptTrial(script=script(made_scripts.PRINTS), duration=duration, **ALONE)


# --- frameworks -----------------------------------------------------------------------------


@pytest.mark.slow
def test_mxnets_scheduler_and_servers_run_the_same_script(script, store):
    name = script(made_scripts.KVSTORE)
    trial = ScriptTrial(framework="mxnet", script=name, workers=2, arguments="60")
    assert trial.replicas == {"scheduler": 1, "server": 2, "worker": 2}
    results = measure([trial], store=store, quiet=True)
    assert results.table.samples_per_second[0] == pytest.approx(201)
    log = (store.find(trial).directory / "worker-1.log").read_text()
    assert "2 in all" in log


@pytest.mark.slow
def test_tensorflows_hosts_are_filled_in(script, store):
    name = script(made_scripts.TENSORFLOW)
    trial = ScriptTrial(
        framework="tensorflow", script=name, workers=1, servers=1, batch_size=32,
        arguments="--ps_hosts={ps_hosts} --worker_hosts={worker_hosts} "
        "--job_name={job_name} --task_index={task_index}",
    )  # fmt: skip
    row = measure([trial], store=store, quiet=True).table.iloc[0]
    assert row.batches_per_second == pytest.approx(12.5)
    assert row.samples_per_second == pytest.approx(12.5 * 32)


def test_torch_finds_what_torchrun_sets_and_another_interpreter(script, store, stand_in):
    name = script("""
import os, socket, torch
from labkit import report
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert (rank, world) == (int(os.environ["LOCAL_RANK"]), 2)
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(address)  # what TCPStore does
report.ready()
for _ in range(5):
    report.step(1)
if rank == 0:
    server.accept()
else:
    socket.create_connection(address)
""")
    with pytest.raises(LabkitError, match="has no module torch, which PyTorch needs"):
        measure([ScriptTrial(framework="torch", script=name, workers=2)], store=store, quiet=True)
    trial = ScriptTrial(framework="torch", script=name, workers=2, python=stand_in)
    assert measure([trial], store=store, quiet=True).table.status[0] == "finished"


# --- failure --------------------------------------------------------------------------------


def test_a_script_that_dies_is_named_with_its_last_words(script, store):
    text = made_scripts.REPORTS + "raise ValueError('no more data')\n"
    said = fail(store, script=script(text), workers=2, arguments="50")
    assert "left with code 1 while training" in said and "ValueError: no more data" in said


def test_a_script_that_says_nothing_is_no_run(script, store):
    said = fail(store, script=script("print('loss: 0.5')"))
    assert "printed no rates" in said and "--pattern" in said


def test_rates_that_only_one_worker_prints_are_no_throughput(script, store):
    text = "import sys\nif sys.argv[1] == '0':\n" + "    print('9 images/s')\n" * 5
    said = fail(store, script=script(text), workers=2, arguments="{task_index}")
    assert "worker 1" in said and "printed no rates" in said


@pytest.mark.slow
def test_a_script_that_hangs_is_ended_and_leaves_nothing(script, store):
    name = script("""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("pids", "w").write("{} {}".format(os.getpid(), child.pid))
time.sleep(600)
""")
    with pytest.raises(SweepFailed, match="did not finish within its deadline of 4 s"):
        measure([ScriptTrial(script=name, **ALONE)], store=store, quiet=True, deadline=4)
    assert not running(map(int, Path("pids").read_text().split()))


def test_what_a_script_leaves_running_is_ended(script, store):
    name = script(
        made_scripts.REPORTS
        + """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("pid", "w").write(str(child.pid))
"""
    )
    measure([ScriptTrial(script=name, arguments="50", **ALONE)], store=store, quiet=True)
    pid = int(Path("pid").read_text())
    eventually(lambda: not running([pid]))


def test_servers_that_nobody_uses_are_named(script, store, monkeypatch):
    monkeypatch.setattr(patience, "LINGER", 1.0)
    text = "import sys, time, os\nif os.environ['DMLC_ROLE'] != 'worker':\n    time.sleep(600)\n"
    said = fail(store, script=script(text + made_scripts.REPORTS), arguments="50", servers=1)
    assert "ask for 0 servers" in said and "server-0" in said


def test_prints_that_look_like_events_are_none(script, store):
    name = script('print(\'@labkit {"kind": "end"}\')\n' + made_scripts.REPORTS)
    table = measure([ScriptTrial(script=name, arguments="50", **ALONE)], store=store,
                    quiet=True).table  # fmt: skip
    assert table.status[0] == "finished"


def test_an_image_is_of_pods_only(script, store):
    trial = ScriptTrial(script=script(made_scripts.REPORTS), image="mine:1", **ALONE)
    with pytest.raises(TrialError, match="image: mine:1: only of pods: --launcher kubernetes"):
        measure([trial], store=store)
