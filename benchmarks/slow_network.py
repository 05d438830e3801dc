"""How far the simulation is from what was measured where the network is slow.

    python benchmarks/slow_network.py [--quick]

From the runs with one worker alone, each trial whose nodes had a limited network is predicted, as
`labkit predict --bandwidth` does, and compared. With `cubic`, Linux's usual congestion control,
the worst with several workers may be 12 % off, and four in five have to be inside their 90 %
intervals; what `bbr` makes of TensorFlow's connections is not modelled, and only stated.
`--quick` changes nothing.
"""

import pandas as pd
from support.script import options, parse, print_machine

from labkit.runs.demands import measured
from labkit.runs.tables import modernise
from labkit.runs.whatif import what_if
from labkit.settings import REFERENCE

SETS = ("trials", "repeats", "longer")
"""Which tables are kept, each of a machine of its own."""

LINE = "{:44} {:>5} {:>5} {:>9} {:>16} {:>9} {:>7}  {}".format

SETTING = ["framework", "congestion_control", "batch_size", "bandwidth", "workers", "steps"]


def compare(table):
    """Print each setting beside its prediction; yield errors with `cubic`, and if inside."""
    limited = table[table.bandwidth.notna() & table.batches_per_second.notna()]
    for (framework, control, batch_size, bandwidth, workers, steps), group in limited.groupby(
        SETTING
    ):
        alike = limited[limited.congestion_control == control]
        node = {"slowdown": float(group.slowdown.iloc[0]), "bandwidth": bandwidth}
        one = measured(alike, framework, "lenet5", batch_size, **node)
        (forecast,) = what_if(one, [workers], **node).forecasts
        truth = group.batches_per_second.mean()
        error = forecast.throughput / truth - 1
        print(LINE(
            f"{framework}, {bandwidth / 1e6:g} Mbit/s, {control}, {workers} workers", len(group),
            steps, f"{forecast.throughput:.3f}", f"{forecast.low:.3f} to {forecast.high:.3f}",
            f"{truth:.3f}", f"{error:+.1%}", forecast.limit,
        ))  # fmt: skip
        if control == "cubic" and workers > 1:
            yield abs(error), forecast.low <= truth <= forecast.high


def main():
    """Print predictions beside what was measured; 1 if they are worse than they are held to be."""
    parse(options(__doc__))
    print_machine()
    found = []
    for name in SETS:
        print(f"\n{name}.csv:\n")
        print(LINE("trial", "runs", "steps", "predicted", "90 % interval", "measured", "error",
                   "limit"))  # fmt: skip
        found += compare(modernise(pd.read_csv(REFERENCE / "slow-network" / f"{name}.csv")))
    errors, inside = zip(*found, strict=True)
    print(
        f"\ncubic, {len(errors)} settings with several workers: worst {max(errors):.1%}, "
        f"{sum(inside)} inside"
    )
    return int(max(errors) > 0.12 or sum(inside) < 0.8 * len(inside))


if __name__ == "__main__":
    raise SystemExit(main())
