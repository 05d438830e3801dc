"""Rates that scripts print: the usual phrases, and patterns of a user's own."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.replicas import rates
from labkit.replicas.rates import Count, Rate

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("line", "rate", "unit"),
    [
        ("images/sec: 123.4", 123.4, "samples"),
        ("123 samples/sec", 123, "samples"),
        ("Epoch[0] Batch [20]\tSpeed: 1234.56 samples/sec\taccuracy=0.5", 1234.56, "samples"),
        # The number before the phrase is the step's.
        ("10\timages/sec: 1,234.5 +/- 0.0 (jitter = 0.0)\t7.1", 1234.5, "samples"),
        ("1.5e3 examples per second", 1500, "samples"),
        ("img/s = 12", 12, "samples"),
        ("images_per_second=12", 12, "samples"),
        ("INFO:tensorflow:global_step/sec: 9.7", 9.7, "steps"),
        ("100%|####| 50/50 [00:05<00:00, 9.86it/s]", 9.86, "steps"),
        ("12 batches/s", 12, "steps"),
        ("0.5 steps/sec", 0.5, "steps"),
        ("7/50 [00:09<01:00, 1.25s/it]", 0.8, "steps"),  # tqdm below one step per second
        ("469/469 - 3s 5ms/step - loss: 0.3", 200, "steps"),  # Keras
        ("| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.50 | loss  7.6", 80, "steps"),
        ("1.2k images/s 0.98", 1200, "samples"),
        ("images/sec: 3M", 3e6, "samples"),
        # Samples say more than steps.
        ("2.0 steps/s, 256 images/s", 256, "samples"),
    ],
)
def test_usual_phrases(line, rate, unit):
    assert rates.read(line) == Rate(rate, unit)


@pytest.mark.parametrize(
    ("line", "count", "unit"),
    [
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300219", 640, "samples"),
        ("Train Epoch: 12 [59520/60000 (99%)]\tloss=0.1", 59520, "samples"),
        ("Epoch: [0][  10/5005]\tTime  0.123 ( 0.456)\tData  0.000 ( 0.1)", 10, "steps"),
        # Keras, whose milliseconds per step are whole ones
        ("\x1b[1m 12/70\x1b[0m \x1b[37m━━\x1b[0m \x1b[1m1s\x1b[0m 2ms/step", 12, "steps"),
        ("\x1b[1m938/938\x1b[0m \x1b[32m━━\x1b[0m \x1b[1m0s\x1b[0m 9ms/step", 938, "steps"),
        ("  7/70 [==>...........................] - ETA: 0s - loss: 2.3", 7, "steps"),
        ("Epoch: [1]  [ 20/938]  eta: 0:00:51  lr: 0.1  time: 0.05", 20, "steps"),
    ],
)
def test_usual_counts(line, count, unit):
    assert rates.read(line) == Count(count, unit)


@pytest.mark.parametrize(
    "line",
    ["", "epoch 3: loss 0.5", "total images/sec: 99", "Epoch 3/10", "[640/60000]",
     "0 s/step", "images/sec: nan", "images/sec: 1.2kB",
     "images/sec: 98%", "img/s 1.2.3", "1.2.3 images/sec",
     "9" * 400 + " images/sec", "12 images", "seconds per image: 3", "5 bits/s"],
)  # fmt: skip
def test_what_says_no_rate(line):
    assert rates.read(line) is None


@given(st.floats(0.01, 1e9), st.sampled_from(["{} samples/sec", "images/s: {}", "x={} img/s;"]),
       st.text(st.characters(categories=["Lu", "Zs"])))  # fmt: skip
def test_a_number_is_found_as_it_was_printed(value, phrase, around):
    text = f"{value:.2f}"
    found = rates.read(f"{around} {phrase.format(text)} {around}")
    assert found == Rate(float(text), "samples")


@given(st.text())
def test_any_line_has_a_rate_or_none(line):
    found = rates.read(line)
    assert found is None or (found.unit in rates.UNITS and 0 <= found[0] < math.inf)


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"speed (?P<samples>[\d.]+)", "speed 12.5", Rate(12.5, "samples")),
        (r"speed (?P<steps>[\d.,]+)", "speed 1,000", Rate(1000, "steps")),
        (r"(?P<when>\d+)s: speed (?P<samples>\d+)", "3s: speed 12", Rate(12, "samples")),
        (r"speed (?P<samples>\w+)", "speed fast", None),
        (r"step (?P<steps_so_far>\d+) done", "1.5: training step 12 done", Count(12, "steps")),
        (r"speed( (?P<samples>\d+))?", "speed", None),
        (r"speed (?P<samples>\d+)", "12 images/s", None),  # instead of the usual phrases
    ],
)
def test_patterns(pattern, line, found):
    assert rates.read(line, pattern) == found


@pytest.mark.parametrize(
    ("pattern", "mistake"),
    [
        ("(", "no regular expression"),
        ("speed", "exactly one group"),
        (r"(\d+)", "exactly one group"),
        (r"(?P<samples>\d+) (?P<steps>\d+)", "exactly one group"),
        (r"(?P<steps>\d+) (?P<steps_so_far>\d+)", "exactly one group"),
    ],
)
def test_patterns_that_find_nothing_are_refused(pattern, mistake):
    with pytest.raises(ValueError, match=mistake):
        rates.compiled(pattern)
