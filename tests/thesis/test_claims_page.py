"""docs/claims.md says what the code says: the words, and the verdicts on the published run."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest
from processes import REPOSITORY

from labkit import claims
from labkit.settings import REFERENCE
from labkit.thesis.plateaus import plateaus
from labkit.thesis.thresholds import WORDS

pytestmark = pytest.mark.unit

PAGE = (REPOSITORY / "docs" / "claims.md").read_text()


def rows(section):
    """Return the rows of the table in a section of the page, without its head."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\|.*\|$", text, re.MULTILINE)[2:]


def test_every_word_is_on_the_page():
    expected = [f"| {w.name} | {w.quantity} | {w.range} | {w.reason} |" for w in WORDS]
    assert rows("What the words mean") == expected


def tables():
    """Return the published trials, and what their workers reported."""
    return tuple(pd.read_parquet(REFERENCE / f"{name}.parquet") for name in ("trials", "steps"))


def published(**how):
    """Return the verdicts on the published run."""
    trials, steps = tables()
    return claims(SimpleNamespace(table=trials, steps=steps), **how)


def test_the_verdicts_on_the_page_are_those_of_the_published_run():
    found = published()
    assert f"`labkit claims --reference`: {found.summary}." in PAGE
    assert rows("What the published run says") == [
        f"| {verdict.claim.number} | {verdict.verdict} | {verdict.measured[0]} |"
        for verdict in found
        if verdict.verdict != "not measured"
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_follows_from_slow_nodes_is_on_the_page():
    """A minute of simulations, on a core that has nothing else to do."""
    found = published(simulated=True)
    assert f"Of the published run: {found.follow}." in PAGE
    assert rows("On nodes like the thesis's, simulated") == [
        f"| {verdict.claim.number} | {verdict.simulated.follows} | {verdict.simulated.evidence} |"
        for verdict in found
        if verdict.simulated.evidence
    ]


def test_five_workers_at_a_high_rate_forgot_what_they_had_learnt_as_the_page_says():
    kept = REFERENCE / "five-workers"
    assert pd.read_csv(kept / "trials.csv")["accuracy"].round(1).eq(10).all()
    steps = pd.read_parquet(kept / "steps.parquet")
    told = [
        (group.loc[group["accuracy"] >= 20, "updates"].min(), group["accuracy"].max(),
         group.loc[group["loss"] > 3, "updates"].min())
        for _, group in steps.groupby("trial")
    ]  # fmt: skip
    pairs = zip(*told, strict=True)
    left, best, leaps = (" and ".join(f"{each:.0f}" for each in pair) for pair in pairs)
    page, readme = (" ".join(text.split()) for text in (PAGE, (kept / "README.md").read_text()))
    assert f"after {left} of 4,680 updates and reach {best} % on their batches" in page
    assert f"After {leaps} updates the loss leaps" in page
    for said in (f"after {left} of 4,680", f"best one {best} %", f"after {leaps} updates"):
        assert said in readme


WEIGHTS = {"Glorot's": "xavier", "Uniform(0.01)": "uniform"}


def test_eight_epochs_went_as_the_page_says():
    trials, steps = tables()
    table = rows("Eight epochs")
    assert len(table) == 7
    for row in table:
        framework, weights, batch, rate, updates, ends, accuracies = re.findall(r"[^|]+", row)
        mine = trials[
            (trials["framework"] == framework.strip().lower())
            & (trials["initializer"] == WEIGHTS[weights.strip()])
            & (trials["model"] == "lenet5") & (trials["workers"] == 1)
            & (trials["batch_size"] == int(batch)) & (trials["learning_rate"] == float(rate))
            & (trials["steps"] == 8 * (60_000 // int(batch)))
        ].sort_values("seed")  # fmt: skip
        assert int(updates.replace(",", "")) == mine["steps"].iloc[0]
        left = plateaus(steps[steps["trial"].isin(mine["trial"])], ["trial"])["updates"]
        assert ends.strip() == " and ".join(f"{left[trial]:,}" for trial in mine["trial"])
        assert accuracies.strip() == " and ".join(f"{value:.1f}" for value in mine["accuracy"])
