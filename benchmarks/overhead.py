"""What a trial costs beside training: start-up and end, against a bare import of the framework.

    python benchmarks/overhead.py [--repeats 3]

The first trial of a sweep imports the framework once and forks its replicas; the following ones
find it warm. Held to at most 2.0 imports for TensorFlow and 3.0 for MXNet, and at most 10 % of a
sweep's time outside its trials.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labkit import provenance
from labkit.campaign import LAUNCHERS, measure
from labkit.launchers.local.launcher import LocalLauncher
from labkit.runs import Store
from labkit.trials import Sweep
from labkit.trials.frameworks import FRAMEWORKS

IMPORT = "import numpy; 'bool' in vars(numpy) or setattr(numpy, 'bool', numpy.bool_); import {}"
LIMIT = {"tensorflow": 2.0, "mxnet": 3.0}
CASES = {
    "lenet5": {"batch_size": 128, "steps": 60},
    "lstm": {"batch_size": 20, "steps": 20},
}


class Timed(LocalLauncher):
    """The local launcher, with the seconds that it took: for each trial's last run, and in all."""

    last: dict[str, float] = {}
    total = 0.0

    def run(self, trial, directory, watch):
        """Run a trial and note how long it took."""
        begin = time.monotonic()
        try:
            return super().run(trial, directory, watch)
        finally:
            seconds = time.monotonic() - begin
            Timed.last[trial.name] = seconds
            Timed.total += seconds


def main():
    """Print the time of an import, of trials outside their windows, of sweeps outside trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    LAUNCHERS["timed"] = Timed
    here = provenance.machine()
    print(f"{here['cpu_model']}, {here['cores']} cores, revision {provenance.revision()}")
    print("framework   model   import   first trial (ratio, limit)   next trials   sweep outside")
    for framework, row in FRAMEWORKS.items():
        for model, case in CASES.items():
            imports, firsts, laters, outside = [], [], [], []
            for _ in range(repeats):
                begin = time.monotonic()
                code = IMPORT.format(row.modules[0])
                subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
                imports.append(time.monotonic() - begin)

                sweep = Sweep.grid(
                    framework=framework, model=model, workers=2, learning_rate=0.025,
                    eval_samples=0, repeats=3, **case,
                )  # fmt: skip
                Timed.last.clear()
                Timed.total = 0.0
                with tempfile.TemporaryDirectory() as directory:
                    begin = time.monotonic()
                    table = measure(sweep, "timed", store=Store(Path(directory))).table
                    whole = time.monotonic() - begin
                beside = [
                    seconds - table.set_index("trial")["duration_s"][name]
                    for name, seconds in Timed.last.items()
                ]
                firsts.append(beside[0] / imports[-1])
                laters += beside[1:]
                outside.append(1 - Timed.total / whole)
            print(
                f"{framework:11} {model:7} {statistics.median(imports):5.1f} s   "
                f"{statistics.median(firsts):4.2f} (at most {LIMIT[framework]})   "
                f"{statistics.median(laters):6.1f} s   {statistics.median(outside):6.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
