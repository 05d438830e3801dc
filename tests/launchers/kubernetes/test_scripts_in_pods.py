"""Scripts of a user's own in the pods of a real cluster."""

import signal
import textwrap

import made_scripts
import pytest
from processes import cannot
from small_trials import failing, run

from labkit import ScriptTrial, Sweep, speedups
from labkit.campaign import SweepFailed
from labkit.runs import Store

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TORCH = "localhost/labkit-tests-torch:1"
"""An image with PyTorch, which ``.ci/images`` makes for these tests."""

ALONE = {"framework": "mxnet", "servers": 0}
"""Of scripts that use no framework."""


@pytest.fixture
def script(tmp_path, monkeypatch, namespace):
    """Return a function that writes a script and a file that it imports, and stand there."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "beside.py").write_text("HERE = 'beside'\n")
        (tmp_path / "train.py").write_text(f"import beside\n{text}\n")
        return "train.py"

    return write


LASTING = made_scripts.REPORTS.replace("import sys", "import time").replace(
    "for _ in range(int(sys.argv[1])):",
    "end = time.monotonic() + 5\nwhile time.monotonic() < end:",
)
"""As long on any machine: what a pod takes is looked at every second or so."""


def test_three_calls_in_pods(script, store):
    sweep = Sweep.grid(script=script(LASTING), workers=[1, 2], **ALONE)
    results = run(sweep, store)
    table = results.table
    assert table.status.tolist() == ["finished"] * 2 and not table.reported.any()
    assert table.launcher.tolist() == ["kubernetes"] * 2
    assert (table.startup_s > 0).all() and (table.cpu_ms_per_step > 0).all()
    assert table.batch_size.isna().all() and (table.accuracy == 75).all()
    assert speedups(table).workers.tolist()[:1] == [1]
    # What the script computes is its pod's own work, not another program's.
    cores = table.cpu_ms_per_step / 1000 * table.batches_per_second
    own = [found.record["own_cpu"] for found in results.runs]
    assert (cores > 0.01).all() and (own > cores / 2).all()
    assert run(sweep, store).note.startswith("2 trials: 0 run, 2 re-used")


def test_printed_rates_in_pods(script, store):
    # Long enough for two pods that do not start at the same moment.
    name = script(made_scripts.PRINTS.replace("range(6)", "range(200)"))
    results = run([ScriptTrial(script=name, workers=2, batch_size=10, **ALONE)], store)
    row = results.table.iloc[0]
    assert row.reported and row.samples_per_second == pytest.approx(2000)
    (found,) = results.runs
    zeros = found.record["clocks"]
    assert abs(zeros["worker-0"] - zeros["worker-1"]) < 1, "of one node, they have one clock"


def taken(text):
    """Return the function ``train`` that a notebook's cell defines."""
    space = {"__name__": "__main__"}
    exec(textwrap.dedent(text), space)
    return space["train"]


def test_a_function_in_pods(script, store, tmp_path, monkeypatch):
    function = taken("""
        import numpy as np

        target = np.arange(10)

        def train(job):
            import beside

            weights = np.zeros(10)
            job.report.ready()
            for _ in range(20_000):
                weights += 0.1 * (target - weights)
                job.report.step(1, loss=((target - weights) ** 2).mean())
            job.report.evaluation(error=np.abs(target - weights).max())
            print("told:", beside.HERE, job.index, "of", job.workers)
        """)
    script("")
    monkeypatch.syspath_prepend(tmp_path)  # what it imports
    results = run(function, store, workers=[1, 2], **ALONE)
    assert results.table.status.tolist() == ["finished"] * 2
    assert (results.evals.value < 0.1).all()
    log = (results.runs[1].directory / "worker-1.log").read_text()
    assert "told: beside 1 of 2" in log
    assert run(function, store, workers=[1, 2], **ALONE).note.startswith("2 trials: 0 run, 2 re")


def test_an_image_that_cannot_take_a_function_up_is_told_so(script, store):
    function = taken("""
        def train(job):
            job.report.ready()
        """)
    with pytest.raises(SweepFailed, match="has no module cloudpickle"):
        run(function, store, framework="torch", image=TORCH)


def test_mxnet_over_its_servers(script, store):
    trial = ScriptTrial(framework="mxnet", script=script(made_scripts.KVSTORE), workers=2,
                        arguments="60")  # fmt: skip
    results = run([trial], store)
    assert results.table.samples_per_second[0] == pytest.approx(201)
    (found,) = results.runs
    assert "2 in all" in (found.directory / "worker-1.log").read_text()


@pytest.mark.parametrize(
    ("framework", "text", "servers"),
    [("mxnet", made_scripts.KVSTORE, 2), ("mxnet", made_scripts.KVSTORE, 1),
     ("tensorflow", made_scripts.TENSORFLOW, 1)],
)  # fmt: skip
def test_a_script_is_ended_with_its_servers_when_enough_was_measured(
    framework, text, servers, script, store
):
    """Those beside workers, those in pods of their own, and MXNet's scheduler."""
    arguments = "100000000" if framework == "mxnet" else (
        "--ps_hosts={ps_hosts} --worker_hosts={worker_hosts} --job_name={job_name} "
        "--task_index={task_index} --steps=100000000"
    )  # fmt: skip
    trial = ScriptTrial(framework=framework, script=script(text), workers=2, servers=servers,
                        duration=2, arguments=arguments)  # fmt: skip
    (found,) = run([trial], store).runs
    assert found.finished and found.window.end > 1


def test_tensorflow_by_its_hosts(script, store):
    trial = ScriptTrial(
        framework="tensorflow", script=script(made_scripts.TENSORFLOW), workers=1, batch_size=32,
        arguments="--ps_hosts={ps_hosts} --worker_hosts={worker_hosts} "
        "--job_name={job_name} --task_index={task_index}",
    )  # fmt: skip
    row = run([trial], store).table.iloc[0]
    assert row.batches_per_second == pytest.approx(12.5)


def test_torch_in_an_image_of_ones_own(script, store, namespace):
    nodes = namespace.core.list_node().items
    images = [image for node in nodes for image in node.status.images or []]
    if not any(TORCH in (image.names or []) for image in images):
        cannot(f"no node of the cluster has {TORCH}, which .ci/images makes")
    trial = ScriptTrial(framework="torch", script=script(made_scripts.TORCH_REPORTS), workers=2,
                        arguments="100", image=TORCH)  # fmt: skip
    results = run([trial], store)
    (row,) = results.table.itertuples()
    assert row.status == "finished" and row.samples_per_second > 0
    (found,) = results.runs
    assert found.record["image"] == TORCH
    logs = [(found.directory / f"worker-{i}.log").read_text() for i in range(2)]
    assert len({log.partition(" of 2: ")[2].splitlines()[0] for log in logs}) == 1


def test_the_next_labkit_takes_over_what_a_killed_one_has_started(
    script, namespace, start_labkit, tmp_path
):
    slow = made_scripts.REPORTS.replace("    report.step", "    time.sleep(0.02)\n    report.step")
    values = {"script": str(tmp_path / script("import time\n" + slow)), "arguments": "300"} | ALONE
    labkit = start_labkit("kubernetes", **values)
    next(event for event in labkit.events() if event["kind"] == "step")
    labkit.signal(signal.SIGKILL)
    labkit.wait()
    pods = {pod.metadata.uid for pod in namespace.pods()}
    seen = []
    results = run([ScriptTrial(**values)], Store(tmp_path / "runs"),
                  on_event=lambda event: seen.append({p.metadata.uid for p in namespace.pods()}))
    assert results.table.status[0] == "finished" and results.steps.steps.max() == 300
    assert pods and seen[0] == pods


# --- failure --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (made_scripts.REPORTS + "raise ValueError('no more data')",
         ["left with code 1 while training", "ValueError: no more data"]),
        ("print('loss: 0.5')", ["printed no rates", "--pattern"]),
    ],
)  # fmt: skip
def test_a_script_that_fails_is_named_with_its_last_words(text, words, script, store):
    trial = ScriptTrial(script=script(text), workers=2, arguments="50", **ALONE)
    said, _ = failing([trial], store)
    for word in ("worker", *words):
        assert word in said


def test_a_script_that_hangs_is_ended_at_the_deadline(script, store):
    trial = ScriptTrial(script=script("import time\ntime.sleep(600)"), **ALONE)
    said, seconds = failing([trial], store, deadline=8)
    assert "did not finish within its deadline of 8 s" in said and seconds < 90
