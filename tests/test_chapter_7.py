"""Chapter 7: the comparison on MNIST, and the findings, from made-up runs."""

import contextlib
import io
import math
import re
from types import SimpleNamespace

import made_runs
import nbformat
import numpy as np
import pandas as pd
import pytest
from made_notebooks import execute

from labkit import campaign, claims, measure, settings
from labkit.book.plan import plan
from labkit.course import downpour, findings
from labkit.figures import FigureError, page

pytestmark = pytest.mark.unit

MNIST, FINDINGS = "7-1-mnist-downpour", "7-2-findings"


@pytest.fixture(autouse=True)
def no_training(tmp_path, monkeypatch):
    """Make runs up where trials would be run, in a store of their own."""
    monkeypatch.setitem(campaign.LAUNCHERS, "local", made_runs.Place())
    monkeypatch.setenv(settings.OUTPUTS, str(tmp_path / "outputs"))
    monkeypatch.setenv(settings.FIGURES, str(tmp_path / "figures"))


def run(name, monkeypatch, profile="laptop", **parameters):
    """Run all cells of a notebook, solutions too; return its names, titles and printed lines."""
    (one,) = (each for each in plan(profile) if each.name == name)
    titles, save = {}, page.save

    def note(figure, path):
        assert path.name not in titles
        titles[path.name] = page.title_of(figure)
        return save(figure, path)

    monkeypatch.setattr(page, "save", note)
    monkeypatch.chdir(one.source.parent)
    names = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for cell in nbformat.read(one.source, as_version=4).cells:
            if cell.cell_type == "code":
                execute(cell.source, names)
            if "parameters" in cell.metadata.get("tags", ()):
                names |= one.parameters | parameters
    return names, titles, printed.getvalue()


# --- the notebooks --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["smoke", "laptop", "thesis"])
def test_the_comparison_runs_with_every_profile(profile, monkeypatch):
    guess = {"guess": [1.9, 3.5, 5.0]} if profile == "laptop" else {}
    names, titles, printed = run(MNIST, monkeypatch, profile, **guess)
    # One machine and several make equally many updates.
    trials = [*names["single"], *names["several"]]
    assert {trial.strategy for trial in names["single"]} == {"single"}
    made = {trial.workers * trial.total_steps for trial in trials}
    assert max(made) == names["updates"] and min(made) > names["updates"] - max(names["workers"])
    each = set(zip(names["optimizer"], names["learning_rate"], strict=True))
    assert {(trial.optimizer, trial.learning_rate) for trial in trials} == each
    assert {trial.framework for trial in trials} == {"tensorflow", "mxnet"}
    curves = [f"7.1c-{name}" for name in names["optimizer"]]
    assert list(titles) == ["7.1a", "7.1b", *curves, "7.1d"]
    assert all(title.startswith(number.partition("-")[0]) for number, title in titles.items())
    assert ("1.9 with 2 workers" in printed) == ("guess  workers alone" in printed) == bool(guess)
    # What TensorBoard would show is listed.
    first = re.escape(names["results"].runs[0].directory.name)
    assert re.search(rf"^{first}\S*/worker-0$", printed, re.MULTILINE)


def test_the_findings_are_of_the_published_run_where_nothing_was_measured(monkeypatch):
    names, titles, printed = run(FINDINGS, monkeypatch)
    assert names["found"].source == findings.PUBLISHED
    assert names["verdicts"].summary in printed and list(titles) == ["7.2"]


def test_the_findings_are_of_what_was_measured_here(monkeypatch):
    run(MNIST, monkeypatch, "smoke")
    names, _, printed = run(FINDINGS, monkeypatch)
    assert names["found"].source == findings.HERE
    assert {"not measured"} == {verdict.verdict for verdict in names["verdicts"]}
    assert "adagrad" in printed


@pytest.mark.parametrize("name", [MNIST, FINDINGS])
def test_no_number_of_a_run_is_typed_in(name):
    """Percentages and factors in prose would be those of another run."""
    (one,) = (each for each in plan("laptop") if each.name == name)
    for cell in nbformat.read(one.source, as_version=4).cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"`[^`]*`|\$[^$]*\$|\[[^\]]*\]\([^)]*\)|^#.*$", "", cell.source,
                           flags=re.MULTILINE)  # fmt: skip
            assert not re.search(r"\d ?%|\d times|\d\.\d+ ", prose), prose


# --- until it is good enough ----------------------------------------------------------------


def reports(accuracies, samples=100, workers=1, trial="a"):
    """Return reports of workers that alternate: each of as many samples."""
    rows = []
    for i, accuracy in enumerate(accuracies):
        own = samples * (i // workers + 1)
        rows.append({"trial": trial, "worker": i % workers, "t": i + 1.0, "samples": own,
                     "updates": 2.0 * (i + 1), "accuracy": accuracy})  # fmt: skip
    return pd.DataFrame(rows).sample(frac=1, random_state=1)  # in no order


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_target_is_reached_by_the_mean_over_the_last_images(workers):
    steps = reports([0, 0, 60, 60, 90, 90, 90], workers=workers)
    found = downpour.reached(steps, 80, images=200).loc["a"]
    assert (found["seconds to target"], found["updates to target"]) == (6, 12)  # of 90 and 90
    assert downpour.reached(steps, 75, images=200).loc["a", "seconds to target"] == 5


def test_few_images_do_not_reach_a_target():
    early = downpour.reached(reports([100, 100, 100]), 80, images=200)
    assert early.loc["a", "seconds to target"] == 2


def test_a_target_may_be_missed():
    found = downpour.reached(reports([10, 20, 30]), 80, images=200)
    assert found.loc["a"].isna().all()
    assert downpour.reached(pd.DataFrame(), 80).empty


def test_a_report_that_spans_more_than_the_last_images_counts_as_a_whole():
    steps = reports([0, 90], samples=500)
    assert downpour.reached(steps, 80, images=200).loc["a", "seconds to target"] == 2
    assert math.isnan(downpour.reached(steps, 80, images=600).loc["a", "seconds to target"])


# --- comparing ------------------------------------------------------------------------------

SETTING = dict(framework=["tensorflow", "mxnet"], model="lenet5", dataset="mnist", batch_size=50)
RATES = {"sgd": 0.1, "adagrad": 0.01}


@pytest.fixture
def results():
    """Return made-up runs of one process, and of one and two workers."""
    alone = downpour.sweep(RATES, 200, [1], strategy="single", **SETTING)
    return measure(alone + downpour.sweep(RATES, 200, [1, 2], **SETTING), "local")


def test_one_table_has_time_inference_and_accuracy(results):
    table = downpour.compared(results, 50).table
    assert table.loc[("MXNet", "adagrad", 0.01)].index.to_list() == ["alone", 1, 2]
    row = table.loc[("MXNet", "sgd", 0.1, "alone")]
    assert row["images/s judged"] == 20_000 and row["accuracy [%]"] == 87.5
    assert row["seconds in all"] == 200 * made_runs.STEP
    # The accuracy rises in a line from 10 to 90; its mean over 20 steps is 50 ten steps later.
    assert row["updates to target"] == pytest.approx(110) and row["cores"] == "own"


def test_seconds_of_an_overloaded_run_do_not_count(results):
    table = results.table.assign(overloaded=True)
    held = SimpleNamespace(table=table, steps=results.steps)
    found = downpour.compared(held, 50).table
    assert found[["seconds to target", "seconds in all"]].isna().all(axis=None)
    assert found["updates to target"].notna().all()


def test_shared_cores_are_told_and_drawn_hollow(results):
    table = results.table.assign(oversubscribed=results.table["workers"] > 1)
    shared = SimpleNamespace(table=table, steps=results.steps)
    cores = downpour.compared(shared, 50).table["cores"]
    assert set(cores[cores.index.get_level_values("workers") == 2]) == {"shared"}
    assert set(cores[cores.index.get_level_values("workers") != 2]) == {"own"}
    hollow = [line for line in downpour.figure("7.1b {}", shared, 50).axes[0].lines
              if line.get_markerfacecolor() == "white" and len(line.get_xdata())]  # fmt: skip
    assert len(hollow) == 4


def test_the_gain_is_the_product_of_its_two_factors(results):
    many = SimpleNamespace(table=results.table.query("strategy == 'async-ps'"),
                           steps=results.steps)  # fmt: skip
    table = downpour.beside(many, {2: 1.5}, 50).table
    assert (table["guess"] == 1.5).all() and (table["workers alone"] == 2).all()
    product = table["updates per second"] * table["updates needed"]
    assert np.allclose(product, table["measured"], atol=0.02)
    # Of two made-up workers the second takes twice as long for a step.
    assert np.allclose(table["updates per second"], 1.5, atol=0.1)


def test_without_one_worker_there_is_nothing_to_compare(results):
    two = results.table.query("workers == 2")
    found = downpour.beside(SimpleNamespace(table=two, steps=results.steps), {}, 50)
    assert found.table.empty and found.reading.startswith("Nothing")


def test_nothing_measured_is_no_figure():
    with pytest.raises(FigureError, match="empty"):
        downpour.figure("7.1b {}", SimpleNamespace(table=pd.DataFrame(), steps=None), 50)


# --- learning rates in a bowl ---------------------------------------------------------------


def test_a_plain_rate_is_bounded_by_the_steepest_direction():
    slow, fast = (downpour.descend([20, 0.2], rate, False) for rate in (0.09, 0.11))
    assert slow[-1] < slow[0] and fast[-1] > 1000 * fast[0]


def test_the_first_adaptive_step_is_the_rate_whatever_the_gradient():
    for curvature in (0.01, 100):
        errors = downpour.descend([curvature], 0.25, True, steps=1)
        assert errors[1] == pytest.approx(curvature * 0.75**2 / 2)


def test_adaptive_steps_shrink_with_the_sum_of_squares():
    errors = downpour.descend([1], 0.25, True, steps=2)
    assert errors[2] == pytest.approx((0.75 - 0.25 * 0.75 / np.sqrt(1 + 0.75**2)) ** 2 / 2)


# --- findings -------------------------------------------------------------------------------


def test_the_newest_comparison_of_optimizers_is_found(results):
    found = findings.evidence()
    assert found.source == findings.HERE and "here" not in found.table["host"].iloc[0][4:]
    assert len(findings.adaptive(found, 50).table) == 2 * 2 * 3
    other = downpour.sweep({"sgd": 0.3}, 400, [1], **SETTING)  # not as many updates
    measure(other, "local")
    assert len(findings.adaptive(findings.evidence(), 50).table) == 2 * 2 * 3


def test_only_plain_rates_are_no_comparison():
    measure(downpour.sweep({"sgd": 0.1}, 200, [1], **SETTING), "local")
    said = repr(findings.adaptive(findings.evidence(), 50))
    assert said == "Not in measured here yet: 7.1 runs what it takes."


def test_all_claims_are_in_the_tally():
    verdicts = claims(findings.evidence())
    figure = findings.tally("7.2 Verdicts", verdicts)
    assert sum(bar.get_width() for bar in figure.axes[0].patches) == len(verdicts)
    assert findings.demands(verdicts).sum() == len(verdicts)
