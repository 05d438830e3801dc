"""How often `labkit compare` is right about two versions of a script.

    python benchmarks/comparing.py [--tries 20] [--quick]

In each try a script with three calls is measured with one and two workers, three repeats each;
then the same once more, and a version of it whose steps take a tenth longer. The second must show
no difference, and the third must be slower, in 19 of 20 tries each. The three take turns in being
first, so that a drifting machine meets all. Where one of them could not be measured, as other
programs were in the way, another try takes its place, for at most half as many again.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from support.script import options, parse, print_machine

from labkit import Sweep, compare
from labkit.campaign import SweepFailed, measure
from labkit.runs import Store

SCRIPT = Path(__file__).parent / "support" / "training_script.py"

SLOWER = 1.1
"""How long a step of the slower version takes, in steps of the other."""

BEGIN, END = "    batch = slice(", "    if REPORTS:\n        report.step("
"""Where a step of the script begins, and where its work is done."""

DUE = {"the same again": "no difference seen", "a tenth slower": "slower"}

RIGHT = 19 / 20
"""Share of the tries in which the verdict has to be the due one."""

MORE = 1.5
"""Tries in all, in those that have to count."""


def slowed(text):
    """Return the script with steps that wait, busily, until they have taken so much longer."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{SCRIPT} is not as this benchmark knows it")
    text = text.replace(BEGIN, f"    turn = time.perf_counter()\n{BEGIN}")
    wait = (
        f"    due = turn + {SLOWER} * (time.perf_counter() - turn)\n"
        "    while time.perf_counter() < due:\n        pass\n"
    )
    return text.replace(END, f"{wait}{END}")


def measured(script, steps, quick):
    """Return the table of a version of the script; None if a trial failed or has no rate."""
    sweep = Sweep.grid(
        framework="mxnet", servers=0, script=str(script), workers=[1, 2], repeats=3,
        arguments=f"{steps} --report",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        try:
            table = measure(sweep, store=Store(Path(directory))).table
        except SweepFailed:
            return None
    missing = table["batches_per_second"].isna()
    return None if missing.any() and not quick else table


def main():
    """Print the verdicts of all tries; leave with 1 if too few of them are right."""
    parser = options(__doc__)
    parser.add_argument("--tries", type=int, default=20)
    args = parse(parser)
    print_machine()
    tries, steps = (1, 3000) if args.quick else (args.tries, 6000)
    found = {name: Counter() for name in DUE}
    with tempfile.TemporaryDirectory() as directory:
        slow = Path(directory) / SCRIPT.name
        slow.write_text(slowed(SCRIPT.read_text()))
        versions = {"first": SCRIPT, "the same again": SCRIPT, "a tenth slower": slow}
        counted = 0
        for number in range(int(MORE * tries)):
            if counted == tries:
                break
            names = list(versions)
            names = names[number % 3 :] + names[: number % 3]
            sets = {name: measured(versions[name], steps, args.quick) for name in names}
            if any(table is None for table in sets.values()):
                print(f"{number + 1:3} not measured", flush=True)
                continue
            counted += 1
            for name, counter in found.items():
                overall = compare(sets["first"], sets[name]).overall
                counter[overall.verdict] += 1
                print(
                    f"{number + 1:3} {name}: {overall.ratio:.3f} "
                    f"({overall.low:.3f} to {overall.high:.3f}), {overall.verdict}", flush=True,
                )  # fmt: skip
    wrong = counted < tries
    for name, counter in found.items():
        right = counter[DUE[name]]
        print(f"{name}: {DUE[name]} in {right} of {counted} tries, {RIGHT:.0%} due")
        wrong |= right < RIGHT * counted
    sys.exit(int(wrong and not args.quick))


if __name__ == "__main__":
    main()
