"""How far the simulation is from what was measured, and how long it takes.

    python benchmarks/simulation.py [--runs DIRECTORY] [--quick]

From the runs with one worker alone, the throughput of each trial with more is simulated, on the
cores that other programs left to that trial. The measurements are the published run's tables and
what is kept of up to 16 workers on two cores, or the runs in a directory. They are held to a
median error of at most 5 % with two workers, as far as there are any, and with slow nodes. Those
with two workers that were measured after the simulation was finished are held to at most 12 % in
the worst case, too. Of those with 3 to 16 that were measured in rounds, nine in ten are held to at
most 10 %, and what is left of their errors when chance is taken off, which their repeats tell, to
at most 5 % (root mean square); of the eighth set, whose trials are short, only the latter is
asked. The mean errors of each setting over these sets, and over those that were measured after the
simulation was finished, are all held to at most 10 %. And 50 workers' 200 steps to 2 s. The rest
is stated, misses included. Where workers reported every step, as slow ones do, the staleness of
their gradients is compared, too. So is what is kept of up to 16 workers on as many cores, of
unequal speed. The quick form is the whole, its seconds not judged.
"""

import math
import statistics
import time
from pathlib import Path

import pandas as pd
from support.script import options, parse, print_machine

from labkit.analysis import staleness
from labkit.campaign import LAUNCHERS
from labkit.runs import Store
from labkit.runs.demands import NoDemands, measured
from labkit.runs.tables import modernise, published
from labkit.settings import REFERENCE
from labkit.simulation import simulate

REAL_CORES = REFERENCE / "real-cores"
"""Where settings are kept that were measured on two cores, with one worker, two, and more."""

SIXTEEN = "sixteen cores"
"""What was measured there: its single workers differ by a quarter, so it is only stated."""

HELD_OUT = ("fourth", "ninth")
"""Which of them were measured after the last change to what two workers test."""

SEVERAL = ("fifth", "sixth", "seventh", "eighth", "tenth")
"""Which of them have 3 to 16 workers that were measured in rounds, minutes after a single one."""

SINCE = "seventh"
"""From which of them on they were measured after the last change to what these test."""

NEAR = 0.1
"""How far off they may be."""

SCATTERED = "eighth"
"""Which of them has trials so short that chance alone puts its settings 7 % off: they are judged
together, and in the means, but not one by one."""

SETTING = ["framework", "model", "batch_size", "strategy", "workers"]

NO_STEPS = pd.DataFrame({"trial": [], "t": [], "worker": [], "steps": []})
SLOW = "slow nodes"

LINE = "{:50} {:>9} {:>9} {:>7}  {}".format


def sets_of(directory):
    """Return sets of trials by name, each as its tables of trials and steps."""
    if directory:
        kept = [Store(directory, launcher=name).results() for name in LAUNCHERS]
        if all(results.table.empty for results in kept):
            raise SystemExit(f"--runs {directory}: no runs are there")
        tables = [[results.table for results in kept], [results.steps for results in kept]]
        return {str(directory): tuple(map(pd.concat, tables))}
    kept = {
        _title(name): (
            modernise(pd.read_csv(REAL_CORES / f"{name}.csv")), NO_STEPS,
        )
        for name in ("first", "second", "third", *HELD_OUT, *SEVERAL)
    }  # fmt: skip
    more = modernise(pd.read_csv(REFERENCE / "sixteen-cores" / "trials.csv"))
    run = published("trials"), published("steps")
    return {"the published run": run} | kept | {SIXTEEN: (more, NO_STEPS)}


def _title(name):
    return f"two cores, the {name} time"


def compare(table, steps):
    """Print each setting with more than one worker; return the errors by who they are, signed."""
    errors, stale = {}, []
    rows = table[(table.workers > 1) & table.batches_per_second.notna()]
    for name in ("slowdown", "slowdown_spread", "cpu"):
        rows = rows.assign(**{name: rows[name].astype(float).fillna(1.0) if name in rows else 1.0})
    limits = rows.bandwidth.astype(float).fillna(math.inf) if "bandwidth" in rows else math.inf
    rows = rows.assign(bandwidth=limits)
    rows = rows.assign(optimizer=rows.optimizer.fillna("sgd"))  # a script has its own
    asked = [
        "framework", "model", "batch_size", "strategy", "slowdown", "optimizer", "cpu",
        "bandwidth",
    ]  # fmt: skip
    names = [*asked, "slowdown_spread", "workers", "servers", "launcher", "cores", "host"]
    print(LINE("trial", "predicted", "measured", "error", "limit"))
    for key, group in rows.groupby(names):
        values = dict(zip(names, key, strict=True))
        if not math.isfinite(values["bandwidth"]):
            values["bandwidth"] = None
        workers, cores, slowdown, spread = (
            values[name] for name in ("workers", "cores", "slowdown", "slowdown_spread")
        )
        left = cores - group.other_cpu.mean() if values["launcher"] == "local" else None
        name = f"{values['framework']} {values['model']}, batch {values['batch_size']}, "
        name += f"{values['strategy']} " * (values["strategy"] != "async-ps")
        name += f"{values['optimizer']} " * (values["optimizer"] != "sgd")
        name += f"slowdown {slowdown:g} " * (slowdown > 1) + f"spread {spread:g} " * (spread > 1)
        name += f"cpu {values['cpu']:g} " * (values["cpu"] < 1)
        name += f"{(values['bandwidth'] or 0) / 1e6:g} Mbit/s " * bool(values["bandwidth"])
        name += f"{workers} workers"
        if left is not None and math.isnan(left):
            print(f"{name}: what other programs took is not known")
            continue
        there = table[table.host == values["host"]]
        try:
            one = measured(there, **{field: values[field] for field in asked})
        except NoDemands:
            print(f"{name}: nothing to simulate it from")
            continue
        answer = simulate(
            one.system(
                workers, values["servers"], strategy=values["strategy"], slowdown=slowdown,
                slowdown_spread=spread, cores=left, cpu=values["cpu"],
                bandwidth=values["bandwidth"],
            )
        )  # fmt: skip
        truth = group.batches_per_second.mean()
        error = answer.throughput / truth - 1
        kind = SLOW if slowdown > 1 else f"{workers} workers"
        errors.setdefault(kind, []).append(error)
        name += f", {left:.2f} cores" if left else ""
        print(LINE(name, f"{answer.throughput:.2f}", f"{truth:.2f}", f"{error:+.1%}",
                   answer.bottleneck))  # fmt: skip
        if values["strategy"] == "async-ps" and (found := stale_of(group, steps)):
            stale.append((name, answer.staleness, found))
    if stale:
        print_staleness(stale)
    return errors


def stale_of(group, steps):
    """Return the staleness of each gradient of some trials whose workers reported every step."""
    found = []
    for trial in group.trial:
        reports = steps[steps.trial == trial].sort_values("t")
        workers = [rows for _, rows in reports.groupby("worker")]
        if workers and all((rows.steps.diff().fillna(rows.steps) == 1).all() for rows in workers):
            found += staleness([rows.t for rows in workers]).tolist()
    return found


def print_staleness(stale):
    """Print mean and standard deviation of staleness: simulated, and from logs of real trials."""
    print()
    print(LINE("staleness: mean, standard deviation", "simulated", "logged", "steps", ""))
    for name, shares, found in stale:
        mean = sum(value * share for value, share in shares.items())
        spread = sum((value - mean) ** 2 * share for value, share in shares.items()) ** 0.5
        print(LINE(name, f"{mean:.2f} {spread:.2f}",
                   f"{statistics.mean(found):.2f} {statistics.pstdev(found):.2f}",
                   len(found), ""))  # fmt: skip
    print()


def chance(table):
    """Return how far off, in the root mean square, repeats that scatter put exact predictions.

    Both what is predicted from, a single worker's rate, and what is measured are means of few.
    """
    rates = table.groupby(SETTING)["batches_per_second"]
    variances, runs = (rates.std() / rates.mean()) ** 2, rates.size()
    ones = runs.index.get_level_values("workers") == 1
    of_means = [variances[who].mean() * (1 / runs[who]).mean() for who in (ones, ~ones)]
    return math.sqrt(sum(of_means))


def several(errors):
    """Return the errors of the settings with more than two workers, in their order."""
    return [error for kind in sorted(errors) if kind != "2 workers" for error in errors[kind]]


def summary(errors):
    """Return how many settings there are, and how far off, as a text."""
    sizes = [abs(error) for error in errors]
    return (
        f"{len(sizes)} settings: error median {statistics.median(sizes):.1%}, "
        f"worst {max(sizes):.1%}"
    )


def judge_several(table, errors, one_by_one):
    """Print how far 3 to 16 workers are from what was predicted; whether it is too far."""
    within = sum(abs(error) <= NEAR for error in errors) / len(errors)
    mean, scatter = math.hypot(*errors) / math.sqrt(len(errors)), chance(table)
    left = math.sqrt(max(0.0, mean**2 - scatter**2))
    print(
        f"3 to 16 workers, {summary(errors)}, {within:.0%} within {NEAR:.0%}; "
        f"root mean square {mean:.1%}, by chance {scatter:.1%}, the rest {left:.1%}"
    )
    return left > 0.05 or (one_by_one and within < 0.9)


def judge_sets(sets):
    """Print the mean error of each setting over several sets; whether one is too far off."""
    means = [statistics.mean(errors) for errors in zip(*sets, strict=True)]
    print(f"\n3 to 16 workers, the means of {len(sets)} sets, {summary(means)}")
    return max(map(abs, means)) > NEAR


def seconds_of_fifty(table):
    """Return the CPU seconds that 50 workers' 200 steps take to simulate."""
    system = measured(table, "mxnet", "lenet5", 128).system(50, slowdown=10.0)
    begin = time.process_time()
    simulate(system, steps=200)
    return time.process_time() - begin


def main():
    """Print predictions beside what was measured; 1 if they are worse than they are held to be."""
    parser = options(__doc__)
    parser.add_argument("--runs", type=Path, metavar="DIRECTORY", help="such as outputs/runs")
    args = parse(parser)
    print_machine()
    missed, sets = False, []
    for name, tables in sets_of(args.runs).items():
        print(f"\n{name}:\n")
        errors = compare(*tables)
        for kind, found in sorted(errors.items()):
            print(f"{kind}, {summary(found)}")
        medians = [
            statistics.median(map(abs, errors.get(kind, [0]))) for kind in ("2 workers", SLOW)
        ]
        one_by_one = name not in (SIXTEEN, _title(SCATTERED))
        missed |= one_by_one and max(medians) > 0.05
        if name in map(_title, SEVERAL):
            sets.append(several(errors))
            missed |= judge_several(tables[0], sets[-1], one_by_one)
        if name in map(_title, HELD_OUT):
            missed |= max(map(abs, errors["2 workers"])) > 0.12
    if sets:
        missed |= judge_sets(sets) | judge_sets(sets[SEVERAL.index(SINCE) :])
    took = seconds_of_fifty(published("trials"))
    print(f"\n50 workers, 200 steps each: {took:.2f} s")
    return bool(missed or (took > 2 and not args.quick))


if __name__ == "__main__":
    raise SystemExit(main())
