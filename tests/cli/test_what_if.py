"""``labkit predict`` without a csv: what if there were more workers, or other nodes?"""

import csv
import io
import json
import re
import subprocess
import sys

import made_runs
import pytest

from labkit.runs import Store
from labkit.simulation.system import passing

pytestmark = pytest.mark.unit

ASKED = ("predict", "--framework=mxnet", "--model=lenet5", "--batch-size=50")


@pytest.fixture
def one(labkit):
    """Keep a run with one worker, which takes ten steps a second."""
    made_runs.add(Store(), made_runs.trial(workers=1))


def rows(shown):
    assert shown.exit_code == 0, shown.output
    return list(csv.DictReader(io.StringIO(shown.stdout)))


def test_it_predicts_from_a_run_with_one_worker(labkit, one):
    found = rows(labkit(*ASKED, "--until=12", "--format=csv"))
    assert list(found[0]) == ["workers", "throughput", "low", "high", "limit"]
    assert [row["workers"] for row in found] == ["1", "2", "4", "8", "12"]
    assert float(found[0]["throughput"]) == pytest.approx(10)
    assert found[0]["limit"] == "none in sight"
    assert found[-1]["limit"].startswith("server ")  # one of which takes most of 50 ms an update


def test_a_model_is_known_by_its_file_wherever_that_is(labkit, one):
    asked = [word.replace("lenet5", "models/lenet5") for word in ASKED]
    assert rows(labkit(*asked, "--format=csv")) == rows(labkit(*ASKED, "--format=csv"))
    refused = labkit(*ASKED[:2], "--model=my models/mlp.py", "--batch-size=50")
    assert "--model 'my models/mlp.py' --batch-size 50" in refused.output


def test_other_nodes_can_be_asked_for(labkit, one):
    slow = rows(labkit(*ASKED, "--workers", "4", "--slowdown=100", "--format=csv"))
    assert float(slow[0]["throughput"]) == pytest.approx(4 / 5.05, rel=0.02)
    link = rows(labkit(*ASKED, "--workers", "30", "--servers=1", "--bandwidth=10Mbit",
                       "--format=csv"))  # fmt: skip
    limit = 1 / passing(4 * 431_080, 10e6)
    assert 0.9 * limit < float(link[0]["throughput"]) <= limit
    assert link[0]["limit"] in ("link to server 0", "link from server 0")
    host = rows(labkit(*ASKED, "--workers", "8", "--cores=1", "--format=csv"))
    assert host[0]["limit"] == "cores"
    in_step = rows(labkit(*ASKED, "--workers", "8", "--strategy=sync-ps", "--format=csv"))
    assert float(in_step[0]["throughput"]) < 80


def test_slower_servers_can_be_asked_for(labkit, one):
    """What an update takes of the busiest server is twice as much on half a core."""
    asked = (*ASKED, "--workers", "30", "--servers=1", "--format=csv")
    (whole,), (half,) = rows(labkit(*asked)), rows(labkit(*asked, "--cpu=0.5"))
    assert half["limit"] == whole["limit"] == "server 0"
    assert float(half["throughput"]) == pytest.approx(float(whole["throughput"]) / 2, rel=0.01)


def test_nodes_like_the_thesiss_can_be_asked_for(labkit, one):
    """And what is said besides counts more."""
    asked = (*ASKED, "--workers", "4", "--format=csv")
    assert rows(labkit(*asked, "--node=today")) == rows(labkit(*asked))
    thesis = rows(labkit(*asked, "--node=thesis"))
    assert thesis == rows(labkit(*asked, "--slowdown=10", "--bandwidth=2Gbit"))
    assert rows(labkit(*asked, "--node=thesis", "--slowdown=100")) != thesis


def test_stragglers_can_be_asked_for(labkit, one):
    """Of 50 ms of computing: 5 and 10 s a step, and 50 ms in the server."""
    asked = (*ASKED, "--workers", "2", "--slowdown=100", "--slowdown-spread=2", "--format=csv")
    (apart,) = rows(labkit(*asked))
    assert float(apart["throughput"]) == pytest.approx(1 / 5.05 + 1 / 10.05, rel=0.01)
    (together,) = rows(labkit(*asked, "--strategy=sync-ps"))
    assert float(together["throughput"]) == pytest.approx(2 / 10.05, rel=0.01)
    assert apart["limit"] == together["limit"] == "slower workers"


def test_it_says_what_is_worth_its_price(labkit, one):
    shown = labkit(*ASKED, "--workers", "1", "4", "--price=2", "--efficiency=0.9")
    assert shown.exit_code == 0
    assert "cost  limit" in shown.stdout
    assert "speedup at least 0.9 per worker: up to" in shown.stderr
    assert "of these, a pass over the training set costs least with 1 worker," in shown.stderr
    found = json.loads(labkit(*ASKED, "--workers", "1", "--price=2", "--format=json").stdout)
    assert found[0]["cost"] == pytest.approx(2 * 120 / 3600, rel=1e-3)


def test_what_is_worth_it_is_looked_for_below_the_numbers_asked_for(labkit, one):
    """One worker always is."""
    asked = (*ASKED, "--servers=1", "--slowdown=2", "--efficiency=0.9")
    many, few = (labkit(*asked, "--workers", *n) for n in (("20", "40"), ("1", "2", "40")))
    assert many.exit_code == few.exit_code == 0
    assert many.stderr == few.stderr
    assert re.search(r"speedup at least 0.9 per worker: up to [2-5] workers\n", few.stderr)


def test_it_says_where_more_might_be_worth_it(labkit, one):
    asked = (*ASKED, "--slowdown=1000", "--efficiency=0.9", "--workers")
    assert "per worker: up to 4 workers, the most asked for" in labkit(*asked, "2", "4").stderr
    assert "per worker: up to 1 worker, the most asked for" in labkit(*asked, "1").stderr


@pytest.mark.parametrize("text", ["1Gbit", "1 Gbit/s", "1gbps", "1Gb/s", "1000Mbps", "1e9", "1G"])
def test_a_bandwidth_is_written_in_many_ways(labkit, one, text):
    asked = (*ASKED, "--workers", "4", "--format=csv")
    assert rows(labkit(*asked, f"--bandwidth={text}")) == rows(labkit(*asked, "--bandwidth=1Gbit"))


def test_what_is_published_is_said_where_something_else_was_asked_for(labkit):
    asked = ("predict", "--framework=mxnet", "--reference", "--workers", "2")
    shown = labkit(*asked, "--model=lenet5", "--batch-size=99")
    assert shown.exit_code == 1
    assert "published of mxnet lenet5 with sgd; batch sizes there: " in shown.output
    shown = labkit(*asked, "--model=lenet5", "--batch-size=128", "--optimizer=adagrad")
    assert "published of mxnet lenet5 with adagrad; batch sizes there: 64\n" in shown.output
    shown = labkit(*asked, "--model=my_own.py", "--batch-size=99")
    assert "mxnet lenet5: " in shown.output and "labkit run" not in shown.output


def test_a_saved_table_of_trials_is_points_too(labkit, tmp_path):
    """As the hint for scripts has it saved."""
    for workers in (1, 2):
        made_runs.add(Store(), made_runs.trial(workers=workers))
    made_runs.add(Store(), made_runs.trial(workers=1, batch_size=100))
    saved = str(tmp_path / "saved.csv")
    assert labkit("results", "--batch-size", "50", "--output", saved).exit_code == 0
    shown = labkit("predict", saved, "--workers", "1", "2", "--format=json")
    assert shown.exit_code == 0, shown.output
    assert [row["throughput"] for row in json.loads(shown.stdout)] == pytest.approx(
        [10, 15], rel=0.05
    )
    assert labkit("results", "--output", saved).exit_code == 0
    assert "batch_size: 50, 100; points are of one" in labkit("predict", saved).output


def test_the_published_run_can_be_asked(labkit):
    shown = labkit("predict", "--framework=mxnet", "--model=lenet5", "--batch-size=128",
                   "--reference", "--until=2")  # fmt: skip
    assert shown.exit_code == 0
    assert "one worker on" in shown.stdout


def test_a_csv_is_found_wherever_it_stands(labkit, tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text("workers,throughput\n1,22.3\n2,45.05\n")
    shown = [
        labkit("predict", *words, "--format=csv").stdout
        for words in ((str(mine), "--workers", "4", "8"), ("--workers", "4", "8", str(mine)),
                      ("--workers=4", str(mine), "--workers=8"))
    ]  # fmt: skip
    assert shown[0].count("\n") == 3
    assert shown[0] == shown[1] == shown[2]


def test_a_csv_needs_no_library_that_measures(tmp_path):
    """Who asks about points alone is answered at once."""
    mine = tmp_path / "mine.csv"
    mine.write_text("workers,throughput\n1,22.3\n2,45.05\n")
    code = (
        "import sys; from labkit.cli import main; "
        f"main(['predict', {str(mine)!r}], standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"pydantic", "pandas", "psutil", "labkit.trials", "labkit.campaign"}


@pytest.mark.parametrize("measured", [False, True])
def test_without_a_run_the_next_step_is_said(labkit, measured, request):
    """On the first day, too."""
    if measured:
        request.getfixturevalue("one")
    refused = labkit("predict", "--framework=mxnet", "--model=lstm", "--batch-size=20")
    assert refused.exit_code == 1
    assert "labkit run --framework mxnet --model lstm --batch-size 20" in refused.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict"], "give MINE.CSV, or --framework, --model, --batch-size"),
        (["predict", "mine.csv", "--slowdown=3"], "--slowdown: only without MINE.CSV"),
        (["predict", "mine.csv", "--reference"], "--reference: only without MINE.CSV"),
        ([*ASKED, "--bandwidth=fast"], "bandwidth: 'fast'; allowed: a number with kbit"),
        ([*ASKED, "--bandwidth=1.2.3Gbit"], "bandwidth: '1.2.3Gbit'"),
        ([*ASKED, "--bandwidth=1GB"], "bandwidth: '1GB'"),
        ([*ASKED, "--launcher=locl"], "did you mean 'local'?"),
        (["predict", "--framework=mxnt", *ASKED[2:]], "did you mean 'mxnet'?; allowed: tens"),
        ([*ASKED[:2], "--model=lenet", ASKED[3]], "nothing is known of 'lenet'; did you mean 'le"),
        ([*ASKED, "--price=1", "--cores=2"], "price: of nodes, but with cores all share one"),
        ([*ASKED, "--efficiency=70"], "efficiency: 70.0; allowed"),
        ([*ASKED, "--price=0"], "price: 0.0; allowed: more than 0"),
        ([*ASKED, "--until=0"], "until: 0; allowed: 1 or more workers"),
        ([*ASKED, "--until=100000"], "requests or more; allowed: at most 10,000,000"),
        ([*ASKED, "--until=1000000000000"], "workers: 1000000000000 with 1000000000000 servers"),
        ([*ASKED, "--servers=1000000000", "--workers=2"], "workers: 2 with 1000000000 servers"),
        ([*ASKED, "--optimizer=sgdd"], "did you mean 'sgd'?; allowed: sgd, adagrad"),
        (["predict", "--framework=torch", "--model=a.py", ASKED[3]], "a.py is a script"),
        ([*ASKED, "--until=4", "--workers", "2"], "until and workers: give one of them"),
        ([*ASKED, "--slowdown-spread=0.5"], "slowdown_spread: 0.5; allowed: 1 or more"),
        ([*ASKED, "--cpu=0"], "cpu: 0.0; allowed: a fraction of a core"),
        ([*ASKED, "--node=tesis"], "did you mean 'thesis'?"),
        ([*ASKED, "--slowdown=0.1"], "slowdown: 0.1; allowed: 1 or more"),
        ([*ASKED, "--strategy=sinc-ps"], "did you mean 'sync-ps'?"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "",
)
def test_what_cannot_be_asked_is_refused(labkit, one, words, said):
    refused = labkit(*words)
    assert refused.exit_code in (1, 2)
    assert said in refused.output
