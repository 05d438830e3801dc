"""Where the time of a step goes: the parts add up, and the sentence says what they mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidy_tables import trials

from labkit.analysis import PARTS, bottleneck, explained, step_times

pytestmark = pytest.mark.unit

SHARES = st.floats(0.05, 1.5)


def table(busy=0.8, serving=0.1, **values):
    """Return trials whose workers are busy, and whose servers serve, for a share of the time."""
    found = trials(workers=(1, 2, 4), **values)
    return found.assign(
        cpu_ms_per_step=busy * 1000 * found["workers"] / found["batches_per_second"],
        server_cpu_ms_per_update=serving * 1000 / found["batches_per_second"],
    )


def slow(found, slowdown, spread=None, lock_step=False):
    """Return the same trials on nodes whose computing alone takes half of a step."""
    step = 1000 * found["workers"] / found["batches_per_second"]
    each = [[slowdown * (1 + ((spread or 1) - 1) * i / max(n - 1, 1)) for i in range(n)]
            for n in found["workers"]]  # fmt: skip
    # In lock step all take equally many steps; else the fast ones take more.
    mean = np.array([np.mean(s) if lock_step else 1 / np.mean(1 / np.array(s)) for s in each])
    return found.assign(
        slowdown=slowdown, slowdown_spread=spread, compute_ms=step / 2 / mean,
        cpu_ms_per_step=step / 2 / mean + 0.1 * step,
        strategy="sync-ps" if lock_step else "async-ps",
    )  # fmt: skip


@given(SHARES, SHARES, st.floats(0, 2))
def test_the_parts_add_up_to_the_step(busy, serving, reading):
    """Even if what was measured takes longer than there is time."""
    found = table(busy, serving)
    read = reading * found["cpu_ms_per_step"]
    for trials_ in (found.assign(input_ms_per_step=read),
                    slow(found, 20.0).assign(input_ms_per_step=read)):  # fmt: skip
        rows = step_times(trials_)
        assert rows[list(PARTS)].to_numpy().min() >= 0
        assert rows[list(PARTS)].sum(axis="columns").to_numpy() == pytest.approx(rows["step"])


@given(SHARES, SHARES)
def test_where_nobody_measured_input_all_work_is_computing(busy, serving):
    rows = step_times(table(busy, serving))
    assert rows["input"].isna().all() and rows["evaluating"].isna().all()
    assert (rows["computing"] / rows["step"]).to_numpy() == pytest.approx(min(busy, 1))
    assert rows["serving"].to_numpy() == pytest.approx(serving)
    assert (rows["n"] == 3).all() and (rows["sending"] == 0).all()


@pytest.mark.parametrize("lock_step", [False, True])
@pytest.mark.parametrize("spread", [None, 3.0])
def test_slow_nodes_tell_sending_from_computing(spread, lock_step):
    found = slow(table(), 20.0, spread, lock_step)
    rows = step_times(found[found["workers"] > 1])
    shares = rows[list(PARTS)].div(rows["step"], axis="index")
    due = np.tile([np.nan, 0.5, 0.1, 0.4], (len(rows), 1))
    assert shares.to_numpy() == pytest.approx(due, nan_ok=True)


def test_input_is_taken_out_of_the_workers_own_time():
    found = table()
    step = 1000 * found["workers"] / found["batches_per_second"]
    rows = step_times(found.assign(input_ms_per_step=0.2 * step))
    shares = rows[list(PARTS)].div(rows["step"], axis="index")
    assert shares.to_numpy() == pytest.approx(np.tile([0.2, 0.6, 0, 0.2], (len(rows), 1)))
    rows = step_times(slow(found, 20.0).assign(input_ms_per_step=0.04 * step))
    shares = rows[list(PARTS)].div(rows["step"], axis="index")
    assert shares.to_numpy() == pytest.approx(np.tile([0.04, 0.5, 0.06, 0.4], (len(rows), 1)))


def test_a_single_worker_is_as_slow_as_the_first():
    found = slow(table(), 20.0, 3.0)
    rows = step_times(found[found["workers"] == 1])
    assert (rows["computing"] / rows["step"]).to_numpy() == pytest.approx(0.5)


def test_what_has_no_rate_has_no_time():
    found = table()
    found.loc[found["workers"] == 2, "batches_per_second"] = np.nan
    assert set(step_times(found)["workers"]) == {1, 4}


def test_several_threads_share_a_step():
    found = table(busy=1.6).assign(threads=2)
    rows = step_times(found)
    assert (rows["computing"] / rows["step"]).to_numpy() == pytest.approx(0.8)
    step = 1000 * found["workers"] / found["batches_per_second"]
    rows = step_times(found.assign(input_ms_per_step=0.1 * step))  # of which but one prepares
    shares = rows[list(PARTS)].div(rows["step"], axis="index")
    assert shares.to_numpy() == pytest.approx(np.tile([0.1, 0.75, 0, 0.15], (len(rows), 1)))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"busy": 0.95}, "95 % of a step is the worker's own work: nothing holds it up yet"),
        ({"busy": 0.95, "serving": 0.97}, "the server is busy for 97 % of the time"),
        ({"busy": 0.4, "serving": 0.96}, "the server is busy for 96 % of the time"),
        ({"busy": 0.4, "serving": 0.3}, "60 % of a step is waiting, for servers, messages or"),
        ({"busy": 0.4, "cores": 2}, "mostly for a core: all share 2, so this says nothing"),
    ],
)
def test_the_sentence(values, said):
    rows = step_times(table(frameworks=("tensorflow",), **values))
    assert said in bottleneck(rows.iloc[-1])


def test_what_is_sent_is_four_bytes_of_each_weight():
    found = table().assign(servers=2, variables="500 25000 400000", busiest_server=0.75)
    rows = step_times(found)
    assert rows["megabytes"].to_numpy() == pytest.approx(4 * 425_500 / 1e6)
    said = explained(rows.iloc[0])
    assert "sends up to 1.7 MB of gradients" in said
    assert "Of 2 servers the busiest does 75 % of the work." in said


def test_what_was_measured_to_be_sent_comes_before_what_is_known_of_weights():
    found = table().assign(servers=2, variables="500 25000 400000")
    rows = step_times(found.assign(sent_mb_per_step=1.72, received_mb_per_step=1.81))
    assert rows["sent"].to_numpy() == pytest.approx(1.72)
    said = explained(rows.iloc[0])
    assert "sends 1.72 MB to other pods and receives 1.81 MB, as measured." in said
    assert "up to" not in said


def test_input_and_evaluations_are_said_where_they_are_worth_it():
    found = table()
    step = 1000 * found["workers"] / found["batches_per_second"]
    much = found.assign(input_ms_per_step=0.07 * step, evaluation_ms_per_step=0.5 * step)
    said = explained(step_times(much).iloc[0])
    assert "Preparing its batch takes 7 % of a step." in said
    assert "they cost the worker that evaluates another 50 % of one, averaged over" in said
    little = found.assign(input_ms_per_step=0.001 * step, evaluation_ms_per_step=0.0)
    row = step_times(little).iloc[0]
    assert explained(row) == f"{bottleneck(row)}."


def test_what_nobody_knows_to_be_sent_is_not_said():
    alone = table().assign(servers=0, variables="500")  # there is nobody to send it to
    for row in (step_times(table()).iloc[0], step_times(alone).iloc[0]):
        assert explained(row) == f"{bottleneck(row)}."
