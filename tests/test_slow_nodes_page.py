"""docs/slow-nodes.md: its table of fifty nodes is what the published run has."""

import re

import pytest
from processes import REPOSITORY

from labkit.analysis import speedups
from labkit.figures.words import name_of
from labkit.runs.tables import published

pytestmark = pytest.mark.unit

PAGE = (REPOSITORY / "docs" / "slow-nodes.md").read_text()
WORKERS = (2, 5, 10, 25, 50)


def rows():
    """Return the table's rows: each setting's rate with one worker, and its speedups."""
    trials = published()
    trials = trials[trials.slowdown == 50]
    alone = trials[trials.workers == 1]
    found = speedups(trials)
    for setting, one in alone.groupby(["framework", "model", "batch_size"]):
        framework, model, batch = setting
        mine = found[
            (found.framework == framework) & (found.model == model) & (found.batch_size == batch)
        ].set_index("workers")
        of = [f"{mine.speedup[n]:.1f}" if n in mine.index else "" for n in WORKERS]
        rate = f"{one.batches_per_second.mean():.3f}"
        yield " | ".join(["", name_of(framework), name_of(model), str(batch), rate, *of, ""])


def test_the_speedups_of_fifty_nodes_are_those_of_the_published_run():
    text = PAGE.partition("## Fifty on two cores\n")[2].partition("\n## ")[0]
    there = re.findall(r"^\|.*\|$", text, re.MULTILINE)[2:]
    assert there == [row.strip() for row in rows()]
    assert len(there) >= 8
