"""What the experiments of 6.1.3 to 6.2.2 have in common."""

from types import SimpleNamespace

import pytest
from tidy_tables import lose, trials

from labkit.thesis import rates


def measured(table):
    return SimpleNamespace(table=table.assign(cpu_ms_per_step=20.0))


def test_a_sweep_takes_a_share_of_an_epoch_in_steps():
    sweep = rates.sweep(
        "lenet5", "fashion-mnist", [512, 128], 0.12, framework=["tensorflow", "mxnet"],
        workers=[1, 2], repeats=3, learning_rate=0.025,
    )  # fmt: skip
    assert len(sweep) == 2 * 2 * 2 * 3
    assert {(t.batch_size, t.steps) for t in sweep} == {(512, 14), (128, 56)}
    one = rates.sweep("lstm", "ptb", 20, 0.008, framework="mxnet", learning_rate=0.05)
    assert [(t.model, t.steps) for t in one] == [("lstm", 12)]


def test_the_findings_hold_the_numbers():
    table = trials(workers=(1, 2), batch_sizes=(128,), spread=0)
    found = rates.findings(measured(table), alone=measured(trials(workers=(1,))))
    lead, epochs, scaling, cost, _ = found
    assert lead.table["ahead"].tolist() == ["MXNet", "MXNet"]
    expected = 1.6 / 1.3 * 121 / 120 / (61 / 60)
    assert lead.table.loc[1, "times as fast"] == pytest.approx(expected, abs=0.01)
    assert epochs.table.columns.tolist() == [512]
    assert scaling.table.loc[("mxnet", 2), "n"] == 3
    assert cost.table.loc[1, "mxnet"] == 20
    assert "coefficient of variation" in repr(found)
    for finding in found:
        assert finding.question in repr(found) and finding.question in found._repr_html_()


def test_what_was_not_measured_has_no_leader():
    found = rates.findings(measured(lose(trials(workers=(1, 2)), model="lenet5")))
    assert found[0].table.empty
