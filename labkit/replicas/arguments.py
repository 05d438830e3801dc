"""A replica's command line."""

import argparse
import json
import os
from pathlib import Path
from typing import List, Optional, Sequence

STRATEGIES = ("single", "async-ps", "sync-ps")
"""What both trainers here can do."""

OPTIMIZERS = ("sgd", "adagrad")
"""How they can have gradients applied."""


def parse(
    argv: Optional[List[str]] = None, strategies: Sequence[str] = STRATEGIES
) -> argparse.Namespace:
    """Read a replica's command line.

    Call it before the framework is imported: ``--help`` then answers at once, and the thread
    settings are in place when the framework's libraries read them.

    Parameters
    ----------
    argv : list of str, optional
        The arguments; the process's own by default.
    strategies : sequence of str
        What the trainer can do, its default first; it refuses any other.

    Raises
    ------
    SystemExit
        With 2 on a mistake, after saying which.
    """
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Train one network; print events as JSON lines.",
        epilog="""examples:
  one process, no distribution:
    python -m labkit.replicas.train_mxnet --model lenet5 --dataset fashion-mnist \\
      --batch-size 128 --learning-rate 0.025 --steps 200
  the second of two workers (one such command per replica, with the same --hosts):
    python -m labkit.replicas.train_mxnet --strategy async-ps --role worker --index 1 --hosts \\
      '{"scheduler": ["h0:9000"], "server": ["h1:9000"], "worker": ["h2:9000", "h3:9000"]}'""",
    )
    job = parser.add_argument_group("this replica")
    job.add_argument("--role", default="worker", choices=("scheduler", "server", "worker"))
    job.add_argument("--index", type=int, default=0, help="of the replica in its role")
    job.add_argument("--hosts", type=json.loads, help="JSON: a list of host:port for each role")
    job.add_argument("--deadline", type=float, help="seconds after which the replica ends itself")
    job.add_argument("--data", type=Path, default=Path("data"), help="where `labkit data` put it")
    job.add_argument(
        "--compute",
        type=float,
        help="seconds that a gradient takes on a quiet core here, for --slowdown; without it, "
        "nothing is stretched, and the events say how long gradients took",
    )
    job.add_argument("--trial", default="", help="the trial's identity, repeated in the events")
    trial = parser.add_argument_group("the trial")
    trial.add_argument("--model", default="lenet5", help="a name, or the path of a model's file")
    trial.add_argument(
        "--dataset", default="fashion-mnist", help="or own, which the model's file loads"
    )
    trial.add_argument("--strategy", default=strategies[0], choices=strategies)
    trial.add_argument("--batch-size", type=int, default=128)
    trial.add_argument("--learning-rate", type=float, default=0.025)
    trial.add_argument(
        "--optimizer", default="sgd", choices=OPTIMIZERS, help="how servers apply gradients"
    )
    trial.add_argument("--epochs", type=int)
    trial.add_argument("--steps", type=int)
    trial.add_argument("--seed", type=int, default=1)
    trial.add_argument(
        "--initializer", default="default", choices=("default", "xavier", "uniform")
    )
    trial.add_argument("--clip-norm", type=float, help="of the whole gradient; off by default")
    trial.add_argument("--loss-over-time", default="default", choices=("default", "mean", "sum"))
    trial.add_argument("--eval-samples", type=int, help="default all test samples, 0 for none")
    trial.add_argument(
        "--slowdown", type=float, help="how many times longer computing a gradient takes"
    )
    trial.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    if args.strategy != "single" and not args.hosts:
        parser.error(f"--strategy {args.strategy} needs --hosts")
    if args.epochs is None and args.steps is None:
        args.epochs = 1
    limit_threads(args.threads)
    return args


def limit_threads(threads: int) -> None:
    """Set what the frameworks and their libraries read when they are imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
