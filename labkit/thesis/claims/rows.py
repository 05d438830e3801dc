"""The claims of chapter 6 and of the authors' later paper, a row each, in words of our own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from labkit import datasets
from labkit.figures.words import name_of
from labkit.thesis import thresholds as words
from labkit.thesis.claims.checks import (
    ACCURACY,
    BUSY,
    COMPUTING,
    COUNTS,
    PLATEAU,
    RISE,
    TIME,
    Check,
    Point,
    compared,
    compared_speedups,
    costs_more,
    difference,
    doublings,
    further_ahead,
    level,
    linear,
    mean_lead,
    near_ideal,
    times_alone,
    wider,
)
from labkit.thesis.claims.nodes import Nodes
from labkit.thesis.claims.verdicts import Claim
from labkit.thesis.words import INITIALIZERS

TENSORFLOW, MXNET = "tensorflow", "mxnet"
EPOCHS = 8
"""Of the CNN's learning curves."""

TO_25 = COUNTS[:5]
SEVERAL, MOST = COUNTS[1:], COUNTS[-1:]


def _rates(framework: str, model: str, batch_size: int) -> Point:
    return Point(framework, model, batch_size, {"lenet5": 0.025, "lstm": 0.05}[model])


def _pair(model: str, batch_size: int) -> tuple[Point, Point]:
    """Return MXNet's curve and TensorFlow's."""
    return _rates(MXNET, model, batch_size), _rates(TENSORFLOW, model, batch_size)


def _whole(batch_size: int) -> int:
    """Return the steps of a whole training."""
    return EPOCHS * (datasets.samples("fashion-mnist") // batch_size)


def _learning(framework: str, rate: float = 0.025, batch_size: int = 512) -> Point:
    return Point(
        framework, "lenet5", batch_size, rate, initializer=INITIALIZERS[framework],
        steps=_whole(batch_size),
    )  # fmt: skip


def _row(
    number: str, statement: str, figures: str, *checks: Check | Iterable[Check], **more
) -> Claim:
    found: list[Check] = []
    for each in checks:
        found += [each] if isinstance(each, Check) else each
    return Claim(number, statement, tuple(found), tuple(figures.split()), **more)


def _learns(curve: Point, until: int) -> Iterator[Check]:
    """Check that a curve learns with so many workers, and with more does not."""
    points = [curve.at(count) for count in COUNTS]
    yield from level(words.LEARNS, [p for p in points if p.workers <= until], ACCURACY)
    yield from level(words.LEARNS_NOT, [p for p in points if p.workers > until], ACCURACY)


def _at(curve: Point, counts: Iterable[int]) -> list[Point]:
    return [curve.at(count) for count in counts]


def _cause(batch_size: int, rate: float, workers: int, steps: int) -> tuple[Check, ...]:
    """Check that initial weights, rather than the framework, decide how long the plateau is.

    With two frameworks (M, T) and two kinds of weights (narrow u, Glorot's x), the weights' effect
    on the plateau is ((Mu + Tu) - (Mx + Tx)) / 2 and the framework's ((Mu + Mx) - (Tu + Tx)) / 2.
    The first exceeds the second in size if and only if Tu > Mx and Mu > Tx: in each pair,
    framework and weights change sides.
    """
    checks = []
    for wide, narrow in ((MXNET, TENSORFLOW), (TENSORFLOW, MXNET)):
        first, second = (
            Point(framework, "lenet5", batch_size, rate, workers, initializer, steps)
            for framework, initializer in ((narrow, "uniform"), (wide, "xavier"))
        )
        of = (
            f"plateau, {name_of(narrow)} from Uniform(0.01) - {name_of(wide)} from Glorot's, "
            f"batch {batch_size}, rate {rate:g}, {workers} worker{'s' * (workers != 1)}"
        )
        terms = ((1, first), (-1, second))
        checks.append(Check(words.LONGER, of, PLATEAU, terms, logarithmic=False))
    return tuple(checks)


def _causes(nodes: Nodes) -> tuple[Check, ...]:
    """Check it in all settings in which both frameworks ran from both kinds of weights."""
    setting = ["batch_size", "learning_rate", "workers", "total_steps"]
    table = nodes.table[nodes.table["trial"].isin(list(nodes.plateaus[PLATEAU]))]
    table = table[(table["model"] == "lenet5") & table["initializer"].isin(["uniform", "xavier"])]
    cells = table.groupby(setting)[["framework", "initializer"]]
    found: list[Check] = []
    for key, cell in cells:
        if len(cell.drop_duplicates()) == 4:
            batch_size, rate, workers, steps = key
            found += _cause(int(batch_size), float(rate), int(workers), int(steps))
    return tuple(found)


CNN = {size: _pair("lenet5", size) for size in (512, 256, 128)}
RNN = {size: _pair("lstm", size) for size in (20, 5)}
CNNS, RNNS = tuple(CNN.values()), tuple(RNN.values())
SETTINGS = (*CNNS, *RNNS)


(M512, T512), (M256, T256), (M128, T128) = CNNS
(M20, T20), (M5, T5) = RNNS
LEARNS_M, LEARNS_T = _learning(MXNET), _learning(TENSORFLOW)
SMALL_M = _learning(MXNET, batch_size=5)

CLAIMS = (
    _row("6.1.1a", "At batch 512 and a rate of 0.1 MXNet learns with 1 and 2 workers, with 5 or "
         "more it does not.", "6.1b-rate", _learns(_learning(MXNET, 0.1), 2)),
    _row("6.1.1b", "At a rate of 0.05 MXNet learns with up to 10 workers, with more it does not.",
         "6.1b-rate", _learns(_learning(MXNET, 0.05), 10)),
    _row("6.1.1c", "At a rate of 0.025 MXNet learns with up to 25 workers, with 50 it does not.",
         "6.1b", _learns(LEARNS_M, 25)),
    _row("6.1.1d", "TensorFlow learns at every one of these rates and numbers of workers.",
         "6.1a 6.1a-rate",
         *(level(words.LEARNS, _at(_learning(TENSORFLOW, rate), COUNTS), ACCURACY)
           for rate in (0.1, 0.05, 0.025))),
    _row("6.1.1e", "At 0.025 TensorFlow's accuracy rises from the start, while MXNet spends more "
         "than half the training on a plateau.", "6.1a 6.1b",
         level(words.NO_PLATEAU, _at(LEARNS_T, TO_25), PLATEAU),
         level(words.LONG_PLATEAU, _at(LEARNS_M, TO_25), PLATEAU)),
    _row("6.1.1e-initializer", "It is the initial weights that make the plateau, not the "
         "framework.", "6.1a-initializer 6.1b-initializer",
         _cause(512, 0.025, 50, _whole(512)), elsewhere=_causes),
    _row("6.1.1f", "MXNet ends with an accuracy not clearly below TensorFlow's, after a steeper "
         "rise.", "6.1a 6.1b",
         difference(words.NOT_WORSE, LEARNS_M, LEARNS_T, ACCURACY, TO_25),
         difference(words.LONGER, LEARNS_T, LEARNS_M, RISE, TO_25)),
    _row("6.1.2a", "With 1 worker and batch 5 MXNet's plateau is much shorter than with 512.",
         "6.2a", compared(words.MUCH_SHORTER, LEARNS_M, SMALL_M, PLATEAU, (1,))),
    _row("6.1.2b", "With 10 workers and batch 5 MXNet has practically no plateau.", "6.2b",
         level(words.NO_PLATEAU, [SMALL_M.at(10)], PLATEAU)),
    _row("6.1.2c", "MXNet ends clearly better with batch 5 than with 512.", "6.2a 6.2b",
         difference(words.CLEARLY_BETTER, SMALL_M, LEARNS_M, ACCURACY, (1, 10))),
    _row("6.1.3a", "At batch 512 the CNN's throughput is linear in up to 50 workers with both "
         "frameworks.", "6.3", linear(T512, 50), linear(M512, 50)),
    _row("6.1.3b", "At batch 512 MXNet has the higher throughput with any number of workers.",
         "6.3", compared(words.HIGHER, M512, T512)),
    _row("6.1.4a", "At batch 256 the frameworks' throughputs are closer together than at 512.",
         "6.3 6.4a", wider([CNN[512]], [CNN[256]])),
    _row("6.1.4b", "At batch 256 throughput is linear in up to 50 workers with both frameworks.",
         "6.4a", linear(T256, 50), linear(M256, 50)),
    _row("6.1.4c", "One worker takes about as long for an epoch at batch 256 as at 512.", "6.4b",
         *(compared(words.ABOUT_EQUAL, *pair, TIME, (1,)) for pair in ((T256, T512), (M256, M512)))
         ),
    _row("6.1.4d", "At batch 256 MXNet is the faster one with 1 worker.", "6.4a 6.4b",
         compared(words.HIGHER, M256, T256, counts=(1,))),
    _row("6.1.5a", "One worker takes about as long for an epoch at batch 128 as at 256 and 512.",
         "6.5b", *(compared(words.ABOUT_EQUAL, *pair, TIME, (1,)) for pair in
                   ((T128, T256), (T128, T512), (M128, M256), (M128, M512)))),
    _row("6.1.5b", "At batch 128 both have about the same throughput with up to 25 workers.",
         "6.5a", compared(words.ABOUT_EQUAL, M128, T128, counts=TO_25)),
    _row("6.1.5c", "At batch 128 TensorFlow has the higher throughput beyond some 30 workers.",
         "6.5a", compared(words.HIGHER, T128, M128, counts=MOST)),
    _row("6.1.5d", "At batch 128 both speedups are near ideal with up to 25 workers.", "6.6",
         near_ideal(T128, 25), near_ideal(M128, 25)),
    _row("6.1.5e", "At batch 128 and with 50 workers TensorFlow has the higher speedup.", "6.6",
         compared_speedups(words.HIGHER, [(T128, M128)], MOST)),
    _row("6.2.1a", "With the RNN at batch 20 TensorFlow's speedup is near ideal with up to 25 "
         "workers.", "6.7", near_ideal(T20, 25)),
    _row("6.2.1b", "At batch 20 MXNet's speedup is linear in up to 5 workers.", "6.7",
         linear(M20, 5)),
    _row("6.2.1c", "At batch 20 MXNet's speedup is flat beyond some 20 workers.", "6.7",
         doublings(words.FLAT, M20, 25, 50)),
    _row("6.2.1d", "At batch 20 TensorFlow's throughput is below MXNet's with any number of "
         "workers.", "6.8a", compared(words.HIGHER, M20, T20)),
    _row("6.2.1e", "The reason is that TensorFlow takes longer to compute: more CPU time per "
         "step, with a worker as busy.", "6.8a",
         compared(words.HIGHER, T20, M20, COMPUTING, (1,)),
         compared(words.ABOUT_EQUAL, T20, M20, BUSY, (1,))),
    _row("6.2.2a", "At batch 5 both speedups are linear in up to 5 workers, TensorFlow's near "
         "ideal.", "6.9", linear(T5, 5), linear(M5, 5), near_ideal(T5, 5)),
    _row("6.2.2b", "At batch 5 TensorFlow's speedup still rises beyond 10 workers, to some 15.",
         "6.9", doublings(words.RISING, T5, 10, 25)),
    _row("6.2.2c", "At batch 5 MXNet's speedup rises to 10 workers and not beyond.", "6.9",
         doublings(words.RISING, M5, 5, 10), doublings(words.FLAT, M5, 10, 25)),
    _row("6.2.2d", "At batch 5 MXNet's speedup is below TensorFlow's with any number of workers.",
         "6.9", *(compared_speedups(words.HIGHER, [(T5, M5)], (n,)) for n in SEVERAL)),
    _row("6.2.2e", "At batch 5 MXNet's throughput is clearly higher, and further ahead than at "
         "batch 20.", "6.8a 6.10a", compared(words.CLEARLY_HIGHER, M5, T5),
         further_ahead([RNN[5]], [RNN[20]])),
    _row("6.2.2f", "Going from batch 20 to 5 costs TensorFlow more speedup than MXNet.",
         "6.7 6.9", costs_more((T20, T5), (M20, M5), SEVERAL)),
    _row("6.2.2g", "At batch 5 the time per epoch hardly grows with TensorFlow's workers, and "
         "clearly with MXNet's.", "6.10b", times_alone(words.ABOUT_EQUAL, T5, SEVERAL),
         times_alone(words.CLEARLY_HIGHER, M5, MOST)),
    _row("6.2.2h", "One worker takes longer for an epoch at batch 5 than at 20 with both.",
         "6.8b 6.10b", *(compared(words.HIGHER, *pair, TIME, (1,)) for pair in
                         ((T5, T20), (M5, M20)))),
    _row("6.3a", "MXNet has the higher throughput with both networks, on average over batch "
         "sizes and workers.", "6.3 6.4a 6.5a 6.8a 6.10a",
         mean_lead(words.HIGHER, CNNS, COUNTS), mean_lead(words.HIGHER, RNNS, COUNTS)),
    _row("6.3b", "The frameworks' throughputs are further apart with the RNN than with the CNN.",
         "6.3 6.4a 6.5a 6.8a 6.10a", wider(RNNS, CNNS)),
    _row("6.3c", "TensorFlow has the higher throughput only with the CNN at batch 128 and more "
         "than 30 workers.", "6.3 6.4a 6.5a 6.8a 6.10a",
         compared(words.HIGHER, T128, M128, counts=MOST),
         compared(words.NOT_BEHIND, M128, T128, counts=TO_25),
         *(compared(words.NOT_BEHIND, *pair) for pair in SETTINGS if pair != CNN[128])),
    _row("6.3d", "TensorFlow has the higher speedup with 50 workers in every case.",
         "6.6 6.7 6.9",
         *(compared_speedups(words.HIGHER, [pair[::-1]], MOST) for pair in SETTINGS)),
    _row("p1", "A small network (the CNN) scales better to 50 workers with many servers (MXNet's) "
         "than with a central one.", "6.6", compared_speedups(words.HIGHER, CNNS, MOST)),
    _row("p2", "With a large network (the RNN) it makes no difference.", "6.7 6.9",
         compared_speedups(words.ABOUT_EQUAL, RNNS, MOST)),
)  # fmt: skip
"""All of them, in the order of the chapter; the paper's are p1 and p2."""
