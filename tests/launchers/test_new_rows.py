"""What is added by a row and a file is run without a change to anything else."""

import math

import new_rows
import pytest

from labkit.campaign import measure

pytestmark = pytest.mark.process


def test_a_new_model_strategy_and_framework(tmp_path, monkeypatch, store, once):
    results = measure([new_rows.add(tmp_path, monkeypatch)], store=store)
    row = results.table.iloc[0]
    assert (row.status, row.workers, row.servers) == ("finished", 2, 0)
    assert results.steps["loss"].iloc[0] == pytest.approx(math.log(10))
    assert 5 < row.accuracy < 15
