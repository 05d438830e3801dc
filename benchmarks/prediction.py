"""How far predictions are from tables that others have published, and how long one takes.

    python benchmarks/prediction.py [--first 2 3] [--quick]

Each table of data/published-scaling.csv is predicted from its first points. Printed are the errors
of the rest beside those of Amdahl's law, the Universal Scalability Law and Ernest, fitted to the
same points, each miss of a 90 % interval, and the seconds of `labkit predict` in those that a
Python takes to import numpy. Held to a median error of at most 5 %, no worse than the others', and
at least 70 % of the points inside their intervals. The quick form predicts from three.

Then the published run's slow nodes, ten workers and more from at most five. Simulated, from what
a step demands, they are held to a median error of at most 5 %, below that of each of the others,
and a worst one of 15 %, and 80 to 97 % of the points have to lie inside their 90 % intervals:
always would be too wide. From the points they are held to the same errors where throughput does
not bend: no few points show a bend that comes later. Where it bends, the simulated ones have to be
the best on the median.

Only stated are slow nodes in pods that were measured later, to see what is predicted of settings
that nobody had seen, and what is kept of up to 16 workers on as many cores, of unequal speed, from
their first points.
"""

import csv
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from support.script import options, parse, print_machine

from labkit.prediction import predict
from labkit.prediction.baselines import BASELINES
from labkit.runs import tables as results
from labkit.runs.demands import measured, shared_cores
from labkit.runs.tables import modernise
from labkit.runs.whatif import what_if
from labkit.settings import REFERENCE

HELD_OUT = 5
"""Workers up to which a prediction for slow nodes knows the rates."""

LINEAR = 0.95
"""Of as many single workers: below this the question whether more of them help was open."""

PUBLISHED = Path(__file__).parent.parent / "data" / "published-scaling.csv"


def published():
    """Return each table as a dictionary from workers to throughput."""
    tables = defaultdict(dict)
    with PUBLISHED.open(newline="") as file:
        for row in csv.DictReader(file):
            tables[row["table"]][int(row["workers"])] = float(row["throughput"])
    return tables


def slow_nodes(trials):
    """Return each setting of some trials' slow nodes, with its throughput by workers.

    Those with one worker and with more than `HELD_OUT`, that is: what there is to predict.
    """
    tables = defaultdict(dict)
    columns = [
        "host", "framework", "model", "batch_size", "strategy", "slowdown", "optimizer", "cpu",
    ]  # fmt: skip
    trials = trials.assign(cpu=trials["cpu"].fillna(1.0))
    slow = trials[(trials["slowdown"] > 1) & ~(trials["slowdown_spread"] > 1)]
    rates = slow.groupby([*columns, "workers"])["batches_per_second"].mean().dropna()
    for (*setting, workers), rate in rates.items():
        tables[tuple(setting)][int(workers)] = rate
    return {
        setting: table for setting, table in tables.items() if 1 in table and max(table) > HELD_OUT
    }


def sixteen_cores():
    """Return each setting that was measured on sixteen cores, with its runs."""
    trials = pd.read_csv(REFERENCE / "sixteen-cores" / "trials.csv")
    runs = trials.rename(columns={"batches_per_second": "throughput"})
    setting = ["framework", "model", "batch_size", "strategy"]
    return {name: rows[["workers", "throughput"]] for name, rows in runs.groupby(setting)}


def bent(tables):
    """Return the settings whose most workers do less than `LINEAR` of so many single ones."""
    return {
        setting: table
        for setting, table in tables.items()
        if table[max(table)] < LINEAR * max(table) * table[1]
    }


def simulated(tables, trials):
    """Return errors, misses and points, as `errors_of` does, simulated from few of the workers."""
    errors, misses, points = {"simulated": []}, [], 0
    for name, table in tables.items():
        host, *setting = name
        rest = [number for number in sorted(table) if number > HELD_OUT]
        _, _, _, strategy, slowdown, _, cpu = setting
        runs = trials[trials["host"] == host]
        demands = measured(runs, *setting, known=HELD_OUT)
        asked = {"strategy": strategy, "slowdown": slowdown, "cpu": cpu}
        asked["cores"] = shared_cores(runs)  # as in notebook 8
        for forecast in what_if(demands, rest, **asked).forecasts:
            points += 1
            errors["simulated"].append(error_of(forecast, table))
            misses += miss_of(forecast, table, name)
    return errors, misses, points


def error_of(forecast, table):
    """Return the relative error of a forecast."""
    return abs(forecast.throughput / table[forecast.workers] - 1)


def miss_of(forecast, table, name):
    """Return a line if a forecast's interval does not hold the truth, in a list."""
    truth = table[forecast.workers]
    if forecast.low <= truth <= forecast.high:
        return []
    return [
        f"  {name}: {forecast.workers} workers gave {truth:g}, predicted "
        f"{forecast.throughput:.5g} ({forecast.low:.5g} to {forecast.high:.5g})"
    ]


def errors_of(tables, first, runs=None):
    """Return relative errors by who predicts, and a line for each miss, out of so many points.

    Without a number of first points, those with at most `HELD_OUT` workers are the first. Where
    the runs of a table are given, labkit knows their repeats.
    """
    errors, misses, points = defaultdict(list), [], 0
    for name, table in tables.items():
        numbers = sorted(table)
        count = first or sum(number <= HELD_OUT for number in numbers)
        known, rest = numbers[:count], numbers[count:]
        if not rest:
            continue
        arrays = [np.array(a, float) for a in (known, [table[n] for n in known], rest)]
        others = {law: fit(*arrays) for law, fit in BASELINES.items()}
        measured_ones = {n: table[n] for n in known}
        if runs:
            measured_ones = runs[name][runs[name]["workers"].isin(known)]
        found = predict(measured_ones, workers=rest)
        for i, forecast in enumerate(found.forecasts):
            points += 1
            errors["labkit"].append(error_of(forecast, table))
            for law, values in others.items():
                errors[law].append(abs(values[i] / table[forecast.workers] - 1))
            misses += miss_of(forecast, table, name)
    return errors, misses, points


def seconds(command):
    """Return the seconds that a command takes, the shortest of three."""
    times = []
    for _ in range(3):
        begin = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.monotonic() - begin)
    return min(times)


def print_errors(errors):
    """Print the errors; return their medians and the worst ones."""
    medians = {who: statistics.median(values) for who, values in errors.items()}
    worst = {who: max(values) for who, values in errors.items()}
    for who, median in medians.items():
        mean = statistics.mean(errors[who])
        print(f"  {who:26} error: median {median:6.2%}, mean {mean:6.1%}, worst {worst[who]:6.1%}")
    return medians, worst


def shown(errors, misses, points):
    """Print the errors; return their medians, the worst ones, and the intervals' share of hits."""
    held = 1 - len(misses) / points
    print(f"{points} points predicted; 90 % intervals hold {held:.0%}")
    medians, worst = print_errors(errors)
    print("\n".join(misses))
    return medians, worst, held


def of_others(first):
    """Print how far the tables of others are from what is predicted; whether it is too far."""
    print(f"from {first} points, ", end="")
    medians, _, held = shown(*errors_of(published(), first))
    return medians["labkit"] > min(0.05, *medians.values()) or held < 0.7


def of_slow_nodes():
    """Print how far slow nodes are from what is predicted; return whether too far, and errors."""
    trials = results.published()
    slow = slow_nodes(trials)
    curves = bent(slow)
    lines = {setting: table for setting, table in slow.items() if setting not in curves}
    known = f"from at most {HELD_OUT} workers"
    found, others = simulated(slow, trials), errors_of(slow, None)
    print(f"slow nodes, {known}, ", end="")
    medians, worst, held = shown(*found)
    bad = medians["simulated"] > 0.05 or worst["simulated"] > 0.15 or not 0.8 <= held <= 0.97
    print(f"the same, from the points, {known}, ", end="")
    theirs, *_ = shown(*others)
    bad |= medians["simulated"] >= min(theirs.values())
    print(f"of these where throughput does not bend, {known}, ", end="")
    medians, worst, _ = shown(*errors_of(lines, None))
    bad |= medians["labkit"] > 0.05 or worst["labkit"] > 0.15
    print(f"where it bends, simulated, {known}, ", end="")
    ours, *_ = shown(*simulated(curves, trials))
    print(f"where it bends, from the points, {known}, ", end="")
    theirs, *_ = shown(*errors_of(curves, None))
    return bad or ours["simulated"] > min(theirs.values()), found[0] | others[0]


def of_later_ones(errors):
    """Print how far slow nodes are that were measured later, and they and the others together."""
    every = {who: list(values) for who, values in errors.items()}
    for name in ("trials", "mxnet", "fifty", "held", "saturated"):
        trials = modernise(pd.read_csv(REFERENCE / "convoys" / f"{name}.csv"))
        later = slow_nodes(trials)
        known = f"convoys/{name}.csv, from at most {HELD_OUT} workers"
        found, others = simulated(later, trials), errors_of(later, None)
        print(f"{known}, ", end="")
        shown(*found)
        print(f"{known}, from the points, ", end="")
        shown(*others)
        for who, values in (found[0] | others[0]).items():
            every[who] += values
    print(f"all slow nodes, the published and the later ones, {len(every['simulated'])} points")
    print_errors(every)


def of_sixteen_cores():
    """Print how far real workers are from what their first points predict."""
    print(f"sixteen cores, from the points, from at most {HELD_OUT} workers, ", end="")
    runs = sixteen_cores()
    tables = {
        name: rows.groupby("workers")["throughput"].mean().to_dict() for name, rows in runs.items()
    }
    shown(*errors_of(tables, None, runs))


def time_command():
    """Print how long a prediction takes on the command line."""
    with tempfile.TemporaryDirectory() as directory:
        mine = Path(directory, "mine.csv")
        mine.write_text("workers,throughput\n1,22.3\n2,45.05\n4,46.61\n")
        labkit = Path(sys.executable).with_name("labkit")
        ours = seconds([labkit, "predict", mine, "--until", "64", "--format", "csv"])
    numpy = seconds([sys.executable, "-c", "import numpy"])
    print(f"labkit predict --until 64: {ours:.2f} s, {ours / numpy:.1f} imports of numpy")


def main():
    """Print errors, misses and seconds; 1 if predictions are worse than they are held to be."""
    parser = options(__doc__)
    parser.add_argument("--first", type=int, nargs="+", default=[2, 3], metavar="POINTS")
    args = parse(parser)
    print_machine()
    bad = [of_others(first) for first in ([3] if args.quick else args.first)]
    missed, errors = of_slow_nodes()
    bad.append(missed)
    of_later_ones(errors)
    of_sixteen_cores()
    time_command()
    return any(bad)


if __name__ == "__main__":
    raise SystemExit(main())
