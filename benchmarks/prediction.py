"""How far predictions are from tables that others have published, and how long one takes.

    python benchmarks/prediction.py [--first 2 3] [--quick]

Each table of data/published-scaling.csv is predicted from its first points. Printed are the errors
of the rest beside those of Amdahl's law, the Universal Scalability Law and Ernest, fitted to the
same points, each miss of a 90 % interval, and the seconds of `labkit predict` in those that a
Python takes to import numpy. Held to a median error of at most 5 %, no worse than the others', and
at least 70 % of the points inside their intervals. The quick form predicts from three.
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
from support.script import options, parse, print_machine

from labkit.prediction import predict
from labkit.prediction.baselines import BASELINES

PUBLISHED = Path(__file__).parent.parent / "data" / "published-scaling.csv"


def published():
    """Return each table as a dictionary from workers to throughput."""
    tables = defaultdict(dict)
    with PUBLISHED.open(newline="") as file:
        for row in csv.DictReader(file):
            tables[row["table"]][int(row["workers"])] = float(row["throughput"])
    return tables


def errors_of(tables, first):
    """Return relative errors by who predicts, and a line for each miss, out of so many points."""
    errors, misses, points = defaultdict(list), [], 0
    for name, table in tables.items():
        numbers = sorted(table)
        known, rest = numbers[:first], numbers[first:]
        if not rest:
            continue
        arrays = [np.array(a, float) for a in (known, [table[n] for n in known], rest)]
        others = {law: fit(*arrays) for law, fit in BASELINES.items()}
        found = predict({n: table[n] for n in known}, workers=rest)
        for i, forecast in enumerate(found.forecasts):
            truth = table[forecast.workers]
            points += 1
            errors["labkit"].append(abs(forecast.throughput / truth - 1))
            for law, values in others.items():
                errors[law].append(abs(values[i] / truth - 1))
            if not forecast.low <= truth <= forecast.high:
                misses.append(
                    f"  {name}: {forecast.workers} workers gave {truth:g}, predicted "
                    f"{forecast.throughput:.5g} ({forecast.low:.5g} to {forecast.high:.5g})"
                )
    return errors, misses, points


def seconds(command):
    """Return the seconds that a command takes, the shortest of three."""
    times = []
    for _ in range(3):
        begin = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.monotonic() - begin)
    return min(times)


def main():
    """Print errors, misses and seconds; 1 if predictions are worse than they are held to be."""
    parser = options(__doc__)
    parser.add_argument("--first", type=int, nargs="+", default=[2, 3], metavar="POINTS")
    args = parse(parser)
    if args.quick:
        args.first = [3]
    print_machine()
    tables = published()
    bad = False
    for first in args.first:
        errors, misses, points = errors_of(tables, first)
        medians = {who: statistics.median(values) for who, values in errors.items()}
        held = 1 - len(misses) / points
        print(f"from {first} points, {points} points predicted; 90 % intervals hold {held:.0%}")
        for who, values in errors.items():
            worst = max(values)
            print(f"  {who:26} error: median {medians[who]:6.1%}, worst {worst:6.1%}")
        print("\n".join(misses))
        bad |= medians["labkit"] > max(0.05, min(medians.values())) or held < 0.7
    with tempfile.TemporaryDirectory() as directory:
        mine = Path(directory, "mine.csv")
        mine.write_text("workers,throughput\n1,22.3\n2,45.05\n4,46.61\n")
        labkit = Path(sys.executable).with_name("labkit")
        ours = seconds([labkit, "predict", mine, "--until", "64", "--format", "csv"])
    numpy = seconds([sys.executable, "-c", "import numpy"])
    print(f"labkit predict --until 64: {ours:.2f} s, {ours / numpy:.1f} imports of numpy")
    return bad


if __name__ == "__main__":
    raise SystemExit(main())
