"""The shared tests: each makes checks, which compare one quantity with what a word means."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from labkit.figures.words import describe, name_of
from labkit.thesis import thresholds as words
from labkit.thesis.thresholds import Word

COUNTS = (1, 2, 5, 10, 25, 50)
"""The numbers of workers of the thesis."""

RATE, TIME, BUSY, COMPUTING = "batches_per_second", "epoch_s", "busy", "cpu_ms_per_step"
ACCURACY, PLATEAU, RISE = "accuracy", "plateau", "rise"
NAMES = {
    RATE: "throughput", TIME: "time per epoch", BUSY: "busy share", COMPUTING: "CPU time per step",
    ACCURACY: "accuracy", PLATEAU: "plateau", RISE: "rise",
}  # fmt: skip
"""What is measured of a trial, in words. The busy share is CPU time over time, of a worker."""

RATES = (RATE, TIME, BUSY, COMPUTING)
"""What only workers with a core each can show. The rest is valid on shared cores, too."""


@dataclass(frozen=True)
class Point:
    """Trials that differ in nothing but their seeds: what a claim needs, in repeats.

    Attributes
    ----------
    framework, model : str
    batch_size : int
    learning_rate : float
    workers : int
    initializer : str
    steps : int, optional
        Of every worker, where it matters how long was trained.
    """

    framework: str
    model: str
    batch_size: int
    learning_rate: float
    workers: int = 1
    initializer: str = "default"
    steps: int | None = None

    def at(self, workers: int) -> Point:
        """Return the same with another number of workers."""
        return replace(self, workers=workers)

    def __str__(self) -> str:
        fields = ["framework", "model", "workers", "batch_size", "learning_rate"]
        fields += ["initializer"] * (self.initializer != "default")
        fields += ["steps"] * (self.steps is not None)
        return describe(vars(self), fields)


Terms = Sequence[tuple[float, Point]]


@dataclass(frozen=True)
class Check:
    """A quantity made of measured ones, and the word that it is to deserve.

    The quantity is a product of powers of geometric means or, if it is not `logarithmic`, a
    weighted sum of means.

    Attributes
    ----------
    word : Word
    of : str
        What the word is said of.
    column : str
        What is measured of each trial.
    terms : sequence of (float, Point)
        Exponents, or weights, and of what.
    beside : sequence of (float, Point)
        If there are any, both are ratios, each a pair, and their distances from 1 are compared,
        whoever is ahead in a pair: those of `terms` over those of these.
    factor : float
        By which the product is multiplied.
    logarithmic : bool
    """

    word: Word
    of: str
    column: str
    terms: Terms
    beside: Terms = ()
    factor: float = 1.0
    logarithmic: bool = True

    @property
    def needs(self) -> list[Point]:
        """Everything that has to be measured for it."""
        return [point for _, point in (*self.terms, *self.beside)]


def linear(curve: Point, until: int) -> Iterator[Check]:
    """Check that throughput grows with every doubling of the workers as it began."""
    return doublings(words.LINEAR, curve, 1, until)


def doublings(word: Word, curve: Point, since: int, until: int) -> Iterator[Check]:
    """Check by how much throughput grows from each number of workers to the next."""
    counts = [count for count in COUNTS if since <= count <= until]
    for few, many in itertools.pairwise(counts):
        power = 1 / math.log2(many / few)
        yield Check(
            word, f"throughput, {_name(curve)}, {few} to {many} workers", RATE,
            ((power, curve.at(many)), (-power, curve.at(few))),
        )  # fmt: skip


def near_ideal(curve: Point, until: int) -> Iterator[Check]:
    """Check that the speedup is nearly the number of workers."""
    for count in COUNTS[1:]:
        if count <= until:
            yield Check(
                words.NEAR_IDEAL, f"efficiency, {_name(curve)}, {count} workers", RATE,
                _speedup(curve, count), factor=1 / count,
            )  # fmt: skip


def compared(
    word: Word, first: Point, second: Point, column: str = RATE, counts: Iterable[int] = COUNTS
) -> Iterator[Check]:
    """Check the ratio of two quantities, at each number of workers."""
    for count in counts:
        pair = first.at(count), second.at(count)
        of = f"{NAMES[column]}, {_over(*pair)}, {_workers(count)}"
        yield Check(word, of, column, _ratio(*pair))


def compared_speedups(
    word: Word, pairs: Sequence[tuple[Point, Point]], counts: Sequence[int]
) -> Check:
    """Check the ratio of two speedups; of several pairs or numbers of workers, their mean."""
    terms = _mean(
        over(_speedup(first, count), _speedup(second, count))
        for first, second in pairs
        for count in counts
    )
    return Check(word, f"speedup, {_mean_of(pairs, counts)}", RATE, terms)


def mean_lead(word: Word, pairs: Sequence[tuple[Point, Point]], counts: Sequence[int]) -> Check:
    """Check the mean ratio of throughputs over some pairs and numbers of workers."""
    of = f"throughput, {_mean_of(pairs, counts)}"
    return Check(word, of, RATE, _mean_ratio(pairs, counts))


def wider(
    here: Sequence[tuple[Point, Point]],
    there: Sequence[tuple[Point, Point]],
    counts: Sequence[int] = COUNTS,
) -> Check:
    """Check that two frameworks are further apart in one place than in another, on average."""
    return Check(
        words.HIGHER, f"distance between throughputs, {_place(here)} / {_place(there)}, mean of "
        f"{_listed(counts)} workers", RATE, _mean_ratio(here, counts), _mean_ratio(there, counts),
    )  # fmt: skip


def further_ahead(
    here: Sequence[tuple[Point, Point]],
    there: Sequence[tuple[Point, Point]],
    counts: Sequence[int] = COUNTS,
) -> Check:
    """Check that the first framework leads by more in one place than in another, on average."""
    return Check(
        words.HIGHER, f"lead in throughput, {_place(here)} / {_place(there)}, mean of "
        f"{_listed(counts)} workers", RATE,
        over(_mean_ratio(here, counts), _mean_ratio(there, counts)),
    )  # fmt: skip


def costs_more(
    first: tuple[Point, Point], second: tuple[Point, Point], counts: Sequence[int]
) -> Check:
    """Check that a step from one point to another costs one framework more speedup."""
    terms = _mean(
        over(
            over(_speedup(first[0], count), _speedup(first[1], count)),
            over(_speedup(second[0], count), _speedup(second[1], count)),
        )
        for count in counts
    )
    lost = f"speedup lost from batch {first[0].batch_size} to {first[1].batch_size}"
    names = " / ".join(name_of(point.framework) for point in (first[0], second[0]))
    of = f"{lost}, {names}, mean of {_listed(counts)} workers"
    return Check(words.HIGHER, of, RATE, terms)


def times_alone(word: Word, curve: Point, counts: Iterable[int]) -> Iterator[Check]:
    """Check how the time per epoch with several workers compares with that of one."""
    for count in counts:
        of = f"time per epoch, {_name(curve)}, {count} workers / 1"
        yield Check(word, of, TIME, _speedup(curve, count))


def level(word: Word, points: Iterable[Point], column: str) -> Iterator[Check]:
    """Check a quantity by itself, of each of some points."""
    for point in points:
        where = describe(vars(point), ["framework", "batch_size", "learning_rate", "workers"])
        of = f"{NAMES[column]}, {where}"
        yield Check(word, of, column, ((1, point),), logarithmic=False)


def difference(
    word: Word, first: Point, second: Point, column: str, counts: Iterable[int]
) -> Iterator[Check]:
    """Check by how much a quantity differs, at each number of workers."""
    for count in counts:
        pair = first.at(count), second.at(count)
        of = f"{NAMES[column]}, {_over(*pair, sign='-')}, {_workers(count)}"
        yield Check(word, of, column, _ratio(*pair), logarithmic=False)


def _ratio(first: Point, second: Point) -> Terms:
    return (1, first), (-1, second)


def over(first: Terms, second: Terms) -> Terms:
    """Return one product divided by another."""
    return (*first, *((-weight, point) for weight, point in second))


def _mean(several: Iterable[Terms]) -> Terms:
    """Return the geometric mean of several products."""
    several = list(several)
    return [(weight / len(several), point) for terms in several for weight, point in terms]


def _speedup(curve: Point, count: int) -> Terms:
    """Return what several workers have over one: a speedup, or a time that has grown."""
    return _ratio(curve.at(count), curve.at(1))


def _mean_ratio(pairs: Sequence[tuple[Point, Point]], counts: Sequence[int]) -> Terms:
    return _mean(
        _ratio(first.at(count), second.at(count)) for first, second in pairs for count in counts
    )


def _name(point: Point) -> str:
    return describe(vars(point), ["framework", "model", "batch_size"])


def _over(first: Point, second: Point, sign: str = "/") -> str:
    """Name what two points differ in, and what they have in common."""
    parts = []
    for word in (lambda p: name_of(p.framework), lambda p: f"batch {p.batch_size}"):
        one, other = word(first), word(second)
        parts.append(one if one == other else f"{one} {sign} {other}")
    return ", ".join([*parts[:1], name_of(first.model), *parts[1:]])


def _place(pairs: Sequence[tuple[Point, Point]]) -> str:
    model = name_of(pairs[0][0].model)
    sizes = [first.batch_size for first, _ in pairs]
    return f"{model} batch {sizes[0]}" if len(sizes) == 1 else model


def _mean_of(pairs: Sequence[tuple[Point, Point]], counts: Sequence[int]) -> str:
    """Say what is compared, and over which batch sizes and numbers of workers the mean is."""
    first, second = pairs[0]
    what = f"{name_of(first.framework)} / {name_of(second.framework)}, {name_of(first.model)}"
    sizes = [one.batch_size for one, _ in pairs]
    mean = "mean of " * (len(pairs) * len(counts) > 1)
    return f"{what}, {mean}batch {_listed(sizes)} with {_listed(counts)} workers"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _workers(count: int) -> str:
    return f"{count} worker{'s' * (count != 1)}"
