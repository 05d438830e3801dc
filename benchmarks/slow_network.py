"""How far the simulation is from what was measured where the network is slow.

    python benchmarks/slow_network.py [--quick]

From the runs with one worker alone, each trial whose nodes had a limited network is simulated,
with as many steps as it had, and compared. With `cubic`, Linux's usual congestion control, the
worst may be 10 % off; what `bbr` makes of TensorFlow's connections is not modelled, and only
stated. The quick form is the whole.
"""

import pandas as pd
from support.script import options, parse, print_machine

from labkit.runs.demands import measured
from labkit.runs.tables import modernise
from labkit.settings import REFERENCE
from labkit.simulation import simulate

SETS = ("trials", "repeats")
"""Which tables are kept, each of a machine of its own."""

LINE = "{:44} {:>4} {:>9} {:>9} {:>7}  {}".format

SETTING = ["framework", "congestion_control", "batch_size", "bandwidth", "workers", "steps"]


def compare(table):
    """Print each setting of a machine beside its simulation; return the errors with `cubic`."""
    errors = []
    limited = table[table.bandwidth.notna() & table.batches_per_second.notna()]
    for (framework, control, batch_size, bandwidth, workers, steps), group in limited.groupby(
        SETTING
    ):
        alike = limited[
            (limited.congestion_control == control) & (limited.bandwidth == bandwidth)
        ]
        lone = alike if (alike.workers == 1).any() else table[table.bandwidth.isna()]
        node = {"slowdown": float(group.slowdown.iloc[0]), "bandwidth": bandwidth}
        one = measured(lone, framework, "lenet5", batch_size, **node)
        answer = simulate(one.system(workers, **node), steps=steps)
        truth = group.batches_per_second.mean()
        error = answer.throughput / truth - 1
        print(LINE(
            f"{framework}, {bandwidth / 1e6:g} Mbit/s, {control}, {workers} workers", len(group),
            f"{answer.throughput:.3f}", f"{truth:.3f}", f"{error:+.1%}", answer.bottleneck,
        ))  # fmt: skip
        if control == "cubic":
            errors.append(abs(error))
    return errors


def main():
    """Print simulations beside what was measured; 1 if they are worse than they are held to be."""
    parse(options(__doc__))
    print_machine()
    errors = []
    for name in SETS:
        print(f"\n{name}.csv:\n")
        print(LINE("trial", "runs", "simulated", "measured", "error", "limit"))
        errors += compare(modernise(pd.read_csv(REFERENCE / "slow-network" / f"{name}.csv")))
    print(f"\ncubic, {len(errors)} settings: worst {max(errors):.1%}")
    return int(max(errors) > 0.1)


if __name__ == "__main__":
    raise SystemExit(main())
