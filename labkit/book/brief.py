"""One page to send to a colleague: what was measured of a job, and whether more machines help."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import pandas as pd

from labkit import analysis
from labkit.errors import LabkitError
from labkit.figures import breakdown, speedup, throughput
from labkit.figures.breakdown import TIME
from labkit.figures.page import Figure, theme, title_of
from labkit.figures.scaling import SAMPLES, rate_of
from labkit.figures.selection import Split, tables
from labkit.figures.words import describe
from labkit.prediction import Prediction, predict
from labkit.settings import TEMPLATES
from labkit.trials.frameworks import SCRIPTED

AHEAD = (2, 4, 8)
"""Multiples of the most workers measured for which is predicted, beside the next one."""

MILLION = 1e6

HOUR = 3600


@dataclass(frozen=True)
class Row:
    """One number of workers of a job.

    Attributes
    ----------
    workers : int
    rate, low, high : float
        Throughput with the ends of its interval; NaN if there is none.
    speedup : float
        Over one worker; NaN if it is not known, as where workers shared cores.
    cost : float
        Of a million samples; NaN without a price.
    note : str
        Why there is no rate, or what kind of one it is.
    runs : list of str
        Names of the runs behind it.
    """

    workers: int
    rate: float
    low: float
    high: float
    speedup: float
    cost: float
    note: str
    runs: Sequence[str]


@dataclass(frozen=True)
class Job:
    """What was measured of one configuration with several numbers of workers.

    Attributes
    ----------
    name : str
        What tells it from the others on the page; empty if it is the only one.
    rows : list of Row
    limit : str
        What holds it up, in a sentence; empty if nothing has a rate.
    answer : str
        Whether more workers help, in a sentence.
    ahead : list of Row
        Predicted.
    prediction : Prediction or None
        Where they come from; None if there were too few points.
    """

    name: str
    rows: Sequence[Row]
    limit: str
    answer: str
    ahead: Sequence[Row]
    prediction: Prediction | None


def brief(results: Any, *, price: float | None = None, title: str | None = None) -> str:
    """Return a page of HTML that needs no other file and no network.

    Parameters
    ----------
    results : object or DataFrame
        What `measure` returned, or a table of trials.
    price : float, optional
        Of a machine for an hour: the page then says what a million samples cost. Each worker has
        a machine, and each server that is not beside one.
    title : str, optional
        Instead of one that says what is the same in all trials.

    Raises
    ------
    LabkitError
        If there is nothing to show, several configurations would share a point, or the price is
        not above 0.
    """
    if price is not None and not price > 0:
        raise LabkitError(f"price: {price!r}; allowed: above 0, for a machine and an hour")
    drawn = [throughput(results), speedup(results), breakdown(results)]
    chosen = tables(results)
    trials = chosen.table
    metric, unit = rate_of(chosen)
    split = Split.of(trials, "workers", None, None)
    jobs = [_job(values, rows, split, metric, price) for values, rows in split.curves(trials)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    said = title_of(drawn[-1]).replace("\n", ", ").removeprefix(f"{TIME}, ")
    return environment.get_template("brief.html.j2").render(
        title=title or f"Do more machines help? {said}",
        jobs=jobs,
        unit=unit,
        price=price,
        figures=[(title_of(figure), _embedded(figure)) for figure in drawn if not figure.empty],
        facts=dict(_facts(trials, metric)),
        unmeasured=_unmeasured(trials),
    )


def _job(
    values: dict[str, Any], trials: pd.DataFrame, split: Split, metric: str, price: float | None
) -> Job:
    varying = [name for name in values if split.trials[name].nunique(dropna=False) > 1]
    summary = analysis.summarise(trials, metric)
    speeds = analysis.speedups(trials, metric).set_index("workers")["speedup"]
    samples = 1.0 if metric == SAMPLES else _batch(trials)
    rows = []
    for _, row in summary.sort_values("workers").iterrows():
        behind = trials[trials["workers"] == row["workers"]]
        rows.append(
            Row(
                int(row["workers"]), row["mean"], row["low"], row["high"],
                float(speeds.get(row["workers"], float("nan"))),
                _cost(row["mean"] * samples, row["workers"] + _apart(behind), price),
                _note(behind, metric), list(behind["trial"]),
            )
        )  # fmt: skip
    own = summary[summary["mean"].notna() & ~summary["oversubscribed"].astype(bool)]
    points = dict(zip(own["workers"], own["mean"], strict=True))
    prediction = None
    if len(points) > 1:
        most = int(max(points))
        prediction = predict(points, workers=[most, most + 1, *(most * k for k in AHEAD)])
    steps = analysis.step_times(trials)
    alone = steps[~steps["oversubscribed"].astype(bool)]
    limit = ""
    if len(alone):
        last = alone.sort_values("workers").iloc[-1]
        limit = f"With {describe(last, ['workers'])}, {analysis.explained(last)}"
    apart = _apart(trials[trials["workers"] == trials["workers"].max()])
    ahead = [
        Row(f.workers, f.throughput, f.low, f.high, f.speedup,
            _cost(f.throughput * samples, f.workers + apart, price), "", ())
        for f in prediction.forecasts[1:]
    ] if prediction else []  # fmt: skip
    return Job(describe(values, varying), rows, limit, _answer(points, prediction), ahead,
               prediction)  # fmt: skip


def _batch(trials: pd.DataFrame) -> float:
    """Return the samples of a step; NaN if nobody knows them."""
    return float((trials["samples_per_second"] / trials["batches_per_second"]).median())


def _apart(trials: pd.DataFrame) -> int:
    """Return how many servers have machines of their own: those that are not beside a worker."""
    first = trials.iloc[0]
    servers = int(first["servers"])
    beside = SCRIPTED[first["framework"]].servers_per_worker and servers == first["workers"]
    return 0 if beside else servers


def _cost(samples_per_second: float, machines: int, price: float | None) -> float:
    """Return the price of a million samples."""
    if price is None:
        return float("nan")
    return MILLION / (samples_per_second * HOUR) * machines * price


def _answer(points: dict[int, float], prediction: Prediction | None) -> str:
    """Say whether more workers help, as far as the points let one know."""
    if prediction is None:
        return (
            "Not known: that takes rates with at least two numbers of workers that have cores of "
            f"their own, and there is {'only one' if points else 'none'}."
        )
    now, one_more, twice, *_ = prediction.forecasts
    gains = [100 * (f.throughput / now.throughput - 1) for f in (one_more, twice)]
    ends = [100 * (end / now.throughput - 1) for end in (twice.low, twice.high)]
    return (
        f"Going from {now.workers} to {one_more.workers} workers is expected to raise the "
        f"throughput by {gains[0]:.0f} %, doubling them to {twice.workers} by {gains[1]:.0f} % "
        f"({ends[0]:.0f} to {ends[1]:.0f} %, {100 * prediction.level:.0f} % interval)."
    )


def _note(trials: pd.DataFrame, metric: str) -> str:
    notes = []
    if trials["oversubscribed"].astype(bool).any():
        notes.append("oversubscribed: workers share cores")
    lost = trials[trials[metric].isna()]
    if len(lost):
        why = lost["status"].replace("finished", "machine too busy").unique()
        some = "" if len(lost) == len(trials) else f"{len(lost)} of {len(trials)} runs "
        notes.append(some + ", ".join(sorted(why)))
    return "; ".join(notes)


def _facts(trials: pd.DataFrame, metric: str) -> Iterator[tuple[str, str]]:
    """Yield what is to be known of where, when and with what was measured."""
    for name, column in (
        ("Machine", "host"), ("Processor", "cpu_model"), ("Cores", "cores"),
        ("Where", "launcher"), ("Versions", "versions"), ("Revision", "revision"),
    ):  # fmt: skip
        if column in trials:
            values = sorted({str(value) for value in trials[column].dropna()} - {""})
            yield name, "; ".join(values)
    started = sorted(trials["started"].dropna()) if "started" in trials else []
    if started:
        yield "When", f"{started[0][:16]} to {started[-1][:16]}".replace("T", " ")
    finished = int(trials[metric].notna().sum())
    yield "Runs", f"{len(trials)}, of which {finished} gave a rate"


def _unmeasured(trials: pd.DataFrame) -> list[str]:
    """Return what such runs cannot show, of the circumstances that these had."""
    found = []
    if "launcher" not in trials or (trials["launcher"] == "local").all():
        found.append(
            "All processes ran on one machine and talked over its loopback: between machines, "
            "communication costs more."
        )
    if "slowdown" in trials and (trials["slowdown"] > 1).any():
        limited = "cpu" in trials and trials["cpu"].notna().any()
        others = "the network is as fast as it is" if limited else (
            "servers and network are as fast as they are"
        )  # fmt: skip
        found.append(
            f"Slow nodes compute several times slower than a core of the machine; {others}. Their "
            "rates are those of such nodes alone."
        )
    return found


def _embedded(figure: Figure) -> str:
    """Return a figure as the address of an image that the page itself holds."""
    content = io.BytesIO()
    with theme():
        figure.savefig(content, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(content.getvalue()).decode()
