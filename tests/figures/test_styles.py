"""A configuration has one style, in whatever table it stands."""

import itertools

import made_runs
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import rgb_to_hsv
from reading import labels, look, results, series
from tidy_tables import trials

from labkit.book.plan import parameters, plan
from labkit.figures import learning_curve, select, throughput
from labkit.figures.selection import Split
from labkit.figures.style import MARKERS, style
from labkit.thesis import rates
from labkit.trials import Sweep

pytestmark = pytest.mark.unit


def test_the_same_configuration_is_drawn_the_same_in_whatever_table():
    table = trials(workers=(1, 2, 4), batch_sizes=(5, 128, 512), repeats=1)
    everything = throughput(table)
    drawn = {label: look(line) for label, line, _ in series(everything)}
    for framework, title in (("mxnet", "MXNet"), ("tensorflow", "TensorFlow")):
        for sizes in ([5], [512, 5], [128]):
            some = select(table, framework=framework, batch_size=sizes).table
            some = some.sample(frac=1, random_state=1)
            for label, line, _ in series(throughput(some)):
                batch = label if label.startswith("batch") else f"batch {sizes[0]}"
                assert look(line) == drawn[f"{title}, {batch}"]


def test_a_batch_size_keeps_its_marker_and_hue_whatever_the_workers():
    """The batch of 5 in 6.2a, with one worker, is that of 6.2b, with ten."""
    found = {}
    for batch, workers in itertools.product((5, 32, 512), (1, 5, 10, 50)):
        one = style({"framework": "mxnet", "batch_size": batch, "workers": workers})
        found.setdefault(batch, set()).add((one.marker, one.dashes))
    assert all(len(looks) == 1 for looks in found.values())
    assert len(set().union(*found.values())) == 3


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
@pytest.mark.parametrize("sizes", [(5, 32), (5, 512), (128, 256), (256, 512), (128, 512)])
def test_batch_sizes_that_are_compared_differ_in_hue(framework, sizes):
    for more in ({}, {"workers": 10}, {"workers": 1, "initializer": "uniform"}):
        one, other = (
            360 * rgb_to_hsv(style({"framework": framework, "batch_size": b} | more).colour)[0]
            for b in sizes
        )
        assert abs(one - other) > 4


def test_columns_at_their_usual_values_change_nothing(store):
    """Nor do those that a table gets later on, or else all figures would change colour."""
    made_runs.add(store, made_runs.trial(learning_rate=0.1))
    table = store.results().table
    drawn = style(Split.of(table, "workers", None, None).configuration(table))
    given = {"framework": "mxnet", "model": "lenet5", "batch_size": 50, "learning_rate": 0.1}
    assert drawn == style(given)


def test_more_workers_are_darker_and_thicker():
    lines = [style({"framework": "mxnet", "batch_size": 32, "workers": w}) for w in (1, 2, 10, 50)]
    for few, more in itertools.pairwise(lines):
        assert rgb_to_hsv(more.colour)[2] < rgb_to_hsv(few.colour)[2]
        assert more.width > few.width


def test_learning_curves_use_the_style_of_their_configuration():
    made = results(trials(frameworks=("mxnet",), workers=(1, 2), repeats=1))
    both = {line.get_label(): look(line) for line in learning_curve(made).axes[0].lines}
    alone = learning_curve(select(made, workers=2))
    assert labels(alone) == ["MXNet"]
    assert look(alone.axes[0].lines[0]) == both["2 workers"]


configurations = st.fixed_dictionaries(
    {"framework": st.sampled_from(["tensorflow", "mxnet", "pytorch", "x"])},
    optional={
        "batch_size": st.integers(1, 10**6),
        "workers": st.integers(1, 10**4),
        "learning_rate": st.floats(1e-6, 10),
        "model": st.sampled_from(["lenet5", "lstm", "my_mlp.py"]),
        "initializer": st.sampled_from(["default", "xavier", "uniform", "mine"]),
        "clip_norm": st.none() | st.floats(0.1, 10),
        "threads": st.integers(1, 64),
    },
)


@given(configurations, st.randoms())
def test_any_configuration_has_a_style_and_always_the_same(values, random):
    shuffled = dict(random.sample(list(values.items()), len(values)))
    one = style(values)
    assert one == style(shuffled) == style(pd.Series(values, dtype=object).to_dict())
    assert one.marker in MARKERS and one.width > 0
    assert all(0 <= part <= 1 for part in one.colour)


def test_strategies_look_different():
    looks = {
        style({"framework": "mxnet", "batch_size": 128, "model": "lenet5", "strategy": strategy})
        for strategy in ("async-ps", "sync-ps", "single")
    }
    assert len({one.marker for one in looks}) == len({one.dashes for one in looks}) == 3


def test_what_is_not_set_is_the_same_in_a_table_and_a_trial():
    base = {"framework": "mxnet", "batch_size": 5}
    assert style(base | {"clip_norm": float("nan")}) == style(base | {"clip_norm": None})


@pytest.mark.parametrize("profile", ["laptop", "thesis"])
def test_different_configurations_of_the_chapter_look_different(profile):
    """All that the chapter draws, with and without the number of workers."""
    chosen = {page.name: parameters(page.source) | page.parameters for page in plan(profile)}
    p = chosen["6-1-1-cnn-learning-rate"]
    shared = {"model": "lenet5", "steps": 2}
    learning = Sweep.grid(
        framework=p["framework"], batch_size=p["batch_size"], initializer=["xavier", "uniform"],
        workers=sorted({*p["workers"], *p["higher_workers"]}),
        learning_rate=[p["learning_rate"], *p["higher_learning_rates"]], **shared,
    )  # fmt: skip
    p = chosen["6-1-2-cnn-batch-5"]
    small = Sweep.grid(
        framework=p["framework"], batch_size=[p["batch_size"], p["larger_batch_size"]],
        workers=[*p["workers"], *p["larger_workers"]], initializer=p["initializer"],
        learning_rate=p["learning_rate"], **shared,
    )  # fmt: skip
    scaling = []
    for name, model in (("6-1-3-cnn-batch-512", "lenet5"), ("6-1-4-cnn-batch-256", "lenet5"),
                        ("6-1-5-cnn-batch-128", "lenet5"), ("6-2-1-rnn-batch-20", "lstm"),
                        ("6-2-2-rnn-batch-5", "lstm")):  # fmt: skip
        p = chosen[name]
        scaling += rates.sweep(
            model, p["dataset"], p["batch_size"], 1, framework=p["framework"],
            learning_rate=p["learning_rate"],
        )  # fmt: skip
    unsaid = {"steps", "epochs", "seed", "eval_samples", "servers"}
    for unsaid_too, drawn in ((set(), [*learning, *small]), ({"workers"}, scaling)):
        fields = [trial.model_dump(exclude=unsaid | unsaid_too) for trial in drawn]
        different = {tuple(values.items()): style(values) for values in fields}
        assert len(set(different.values())) == len(different) > 8


def test_frameworks_differ_in_grey_and_to_colour_blind_eyes():
    for batch in (5, 20, 32, 128, 256, 512):
        tensorflow, mxnet = (
            style({"framework": name, "batch_size": batch}) for name in ("tensorflow", "mxnet")
        )
        assert tensorflow.marker != mxnet.marker
        assert tensorflow.dashes != mxnet.dashes
        assert tensorflow.colour[2] > tensorflow.colour[0] and mxnet.colour[2] < mxnet.colour[0]
