"""Predictions: laws they keep, published tables they are held to, bad points they refuse."""

import csv
import json
import math
from collections import defaultdict
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import REPOSITORY
from scipy import stats

from labkit import LabkitError
from labkit.cli import main
from labkit.prediction import predict
from labkit.prediction.baselines import BASELINES
from labkit.prediction.families import FAMILIES
from labkit.prediction.mixture import condition
from labkit.prediction.points import read

pytestmark = pytest.mark.unit


# --- laws ---------------------------------------------------------------------------------------

rates = st.floats(1e-3, 1e6)
points = st.lists(
    st.tuples(st.integers(1, 64), st.floats(0.2, 1.1)), min_size=2, max_size=6,
    unique_by=lambda point: point[0],
).map(lambda pairs: {n: n * efficiency for n, efficiency in pairs})  # fmt: skip


def of(found, name):
    return np.array([getattr(forecast, name) for forecast in found.forecasts])


@settings(max_examples=10)
@given(points, rates)
def test_the_unit_does_not_matter(measured, unit):
    plain = predict(measured, workers=[1, 10, 100])
    scaled = predict({n: unit * x for n, x in measured.items()}, workers=[1, 10, 100])
    for name in ("throughput", "low", "high"):
        np.testing.assert_allclose(of(scaled, name), unit * of(plain, name), rtol=1e-6)
    np.testing.assert_allclose(of(scaled, "speedup"), of(plain, "speedup"), rtol=1e-6)


@settings(max_examples=10)
@given(points)
def test_an_interval_holds_its_middle_and_grows_with_its_level(measured):
    narrow, wide = (predict(measured, workers=[1, 8, 200], level=level) for level in (0.5, 0.95))
    assert (of(wide, "low") <= of(narrow, "low")).all()
    assert (of(narrow, "low") <= of(narrow, "throughput")).all()
    assert (of(narrow, "throughput") <= of(narrow, "high")).all()
    assert (of(narrow, "high") <= of(wide, "high")).all()


@settings(max_examples=10)
@given(points)
def test_the_order_of_points_does_not_matter(measured):
    backwards = dict(reversed(measured.items()))
    assert predict(measured, 9) == predict(backwards, 9)


@settings(max_examples=10)
@given(points)
def test_reasons_are_probabilities(measured):
    assert sum(predict(measured, 2).reasons.values()) == pytest.approx(1)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99, 0.999])
def test_an_interval_has_its_level_in_it(level):
    """By the mixture's own distribution, integrated without the values that stand for it."""
    known, targets = np.array([1.0, 2, 4, 8]), np.array([8.0, 9, 64])
    mixture = condition(FAMILIES, known, 10 * known, targets)
    ends = np.log(mixture.quantiles([(1 - level) / 2, (1 + level) / 2]))
    below, above = (
        stats.norm.cdf((end - mixture.centres) / mixture.errors).mean(axis=0) for end in ends
    )
    np.testing.assert_allclose(below, (1 - level) / 2, rtol=0.2)
    np.testing.assert_allclose(1 - above, (1 - level) / 2, rtol=0.2)


def test_the_less_sure_the_further_below_what_was_measured():
    found = predict({32: 320, 64: 630}, workers=[1, 8, 32])
    width = np.log(of(found, "high") / of(found, "low"))
    assert (np.diff(width) < 0).all()


def test_it_does_not_matter_how_many_others_are_predicted():
    points = {1: 22.3, 2: 45.05, 4: 46.61}
    many = {forecast.workers: forecast for forecast in predict(points, until=250).forecasts}
    for forecast in predict(points, workers=[1, 100, 101, 250]).forecasts:
        assert astuple(many[forecast.workers]) == pytest.approx(astuple(forecast))


def test_the_further_the_less_sure():
    found = predict({1: 10, 2: 19.9, 4: 39.5}, workers=[4, 8, 16, 64, 256])
    width = np.log(of(found, "high") / of(found, "low"))
    assert (np.diff(width) > 0).all()


def test_what_bends_is_less_open_than_what_does_not():
    bent, straight = predict({1: 10, 2: 20, 4: 21}, 8), predict({1: 10, 2: 20, 4: 40}, 8)
    assert bent.forecasts[-1].limit == "a shared resource is busy"
    assert straight.forecasts[-1].limit == "none in sight"
    assert bent.forecasts[-1].throughput == pytest.approx(21, rel=0.05)
    assert straight.forecasts[-1].low < 79 < straight.forecasts[-1].high


def runs(*repeats):
    return pd.DataFrame(
        [(n, x) for n, rates in repeats for x in rates], columns=["workers", "throughput"]
    )


def test_repeats_that_are_alike_count_as_one():
    once = {1: 10.0, 2: 19.0, 4: 34.0}
    alike = runs(*((n, [x] * 3) for n, x in once.items()))
    for three, one in zip(*(predict(p, 16).forecasts for p in (alike, once)), strict=True):
        assert astuple(three)[:-1] == pytest.approx(astuple(one)[:-1])


def width(points):
    low, high = (of(predict(points, workers=[8]), name) for name in ("low", "high"))
    return float(np.log(high / low)[0])


def test_the_more_repeats_scatter_the_less_sure():
    def scattered(by):
        return runs(*((n, [n * 10 / by, n * 10 * by]) for n in (1, 2, 4)))

    widths = [width(scattered(by)) for by in (1, 1.05, 1.1, 1.3)]
    assert widths == sorted(widths) and widths[-1] > 1.5 * widths[0]


def test_scatter_counts_for_numbers_of_workers_that_were_not_repeated():
    once = {1: 10.0, 2: 20.0, 4: 40.0}
    assert width(runs((1, [8, 12.5]), (2, [20]), (4, [40]))) > 1.2 * width(once)


def test_more_repeats_make_it_surer():
    few, many = (
        runs(*((n, [n * 8, n * 12.5] * times) for n in (1, 2, 4))) for times in (1, 8)
    )
    assert width(many) < width(few)


def test_a_number_of_workers_with_more_repeats_counts_for_more():
    """Two workers do more than twice what one does, by no curve: what one does is in between."""

    def one(first, second):
        points = runs((1, [8, 12.5] * first), (2, [20, 31.25] * second))
        return of(predict(points, workers=[1]), "throughput")[0]

    assert 10 < one(8, 1) < one(1, 1) < one(1, 8) < 12.5


def test_worth():
    found = predict({1: 10, 2: 20, 4: 21}, 64)
    assert found.worth(0.9) == 2
    assert found.worth(0.01) == 64
    with pytest.raises(LabkitError, match="efficiency: 2; allowed"):
        found.worth(2)


def test_errors_are_of_what_was_measured():
    found = predict({1: 10, 2: 20, 4: 40}, workers=[8, 16, 32])
    middle = found.forecasts[0].throughput
    rows = found.compare({8: middle, 16: 1.0})
    assert list(rows["workers"]) == [8, 16, 32]
    assert list(rows["predicted"]) == [each.throughput for each in found.forecasts]
    hit, missed, unknown = rows.itertuples()
    assert (hit.error_percent, hit.held) == (0, True)
    assert missed.error_percent == pytest.approx(100 * (missed.predicted - 1))
    assert missed.held is False
    assert all(math.isnan(x) for x in (unknown.measured, unknown.error_percent, unknown.held))


# --- published tables ---------------------------------------------------------------------------

with (REPOSITORY / "data" / "published-scaling.csv").open(newline="") as file:
    PUBLISHED = defaultdict(dict)
    for row in csv.DictReader(file):
        PUBLISHED[row["table"]][int(row["workers"])] = float(row["throughput"])


@pytest.mark.parametrize("known", [2, 3])
def test_published_tables_from_their_first_points(known):
    """Better than what others fit, within 5 % at the median; 90 % intervals hold the truth."""
    errors, held = defaultdict(list), []
    for table in PUBLISHED.values():
        numbers = sorted(table)
        first, rest = numbers[:known], numbers[known:]
        found = predict({n: table[n] for n in first}, workers=rest)
        truth = np.array([table[n] for n in rest])
        held += list((of(found, "low") <= truth) & (truth <= of(found, "high")))
        errors["ours"] += list(abs(of(found, "throughput") / truth - 1))
        arrays = [np.array(a, float) for a in (first, [table[n] for n in first], rest)]
        for name, law in BASELINES.items():
            errors[name] += list(abs(law(*arrays) / truth - 1))
    medians = {name: float(np.median(values)) for name, values in errors.items()}
    assert medians["ours"] <= 0.05
    assert medians["ours"] == min(medians.values())
    assert 0.8 <= np.mean(held) <= 0.97


@given(st.floats(0, 0.3), st.floats(0, 0.01))
def test_the_laws_of_others_are_found_again(contention, coherence):
    numbers = np.array([1.0, 2, 3, 4, 8])
    far = np.array([16.0, 64])

    def law(n):
        return 5 * n / (1 + contention * (n - 1) + coherence * n * (n - 1))

    fitted = BASELINES["Universal Scalability Law"](numbers, law(numbers), far)
    np.testing.assert_allclose(fitted, law(far), rtol=1e-2)


# --- the command --------------------------------------------------------------------------------


def command(path, *options):
    return CliRunner().invoke(main, ["predict", str(path), *options])


@pytest.fixture
def mine(tmp_path):
    def write(text):
        path = tmp_path / "mine.csv"
        path.write_text(text)
        return path

    return write


GOOD = "workers,throughput\n1,22.3\n2,45.05\n4,46.61\n"


def test_csv(mine):
    found = command(mine(GOOD), "--until", "64", "--format", "csv")
    assert found.exit_code == 0
    rows = list(csv.DictReader(found.stdout.splitlines()))
    assert list(rows[0]) == ["workers", "throughput", "low", "high", "limit"]
    assert [int(row["workers"]) for row in rows] == list(range(1, 65))
    assert float(rows[7]["low"]) < 48.0 < float(rows[7]["high"])


def test_several_numbers_of_workers(mine):
    found = command(mine(GOOD), "--workers", "8", "16", "--format", "csv").stdout
    assert [line.partition(",")[0] for line in found.splitlines()[1:]] == ["8", "16"]


def test_json_and_table_say_the_same(mine):
    path = mine(GOOD)
    rows = json.loads(command(path, "--workers", "8", "--format", "json").stdout)
    table = command(path, "--workers", "8", "--efficiency", "0.5").output
    assert f"{rows[0]['throughput']}" in table and rows[0]["limit"] in table
    assert "speedup at least 0.5 per worker: with none of these numbers of workers" in table


def test_columns_in_any_order_beside_others(mine):
    path = mine("rack, throughput ,workers\na,10,1\nb,19,2\n")
    assert predict(path, 4) == predict({1: 10, 2: 19}, 4)
    table = pd.DataFrame({"workers": [1, 2], "throughput": [10, 19]})
    assert predict(table, 4) == predict(path, 4)


def test_servers_may_come_with_the_workers(mine):
    path = mine("workers,servers,throughput\n1,1,10\n2,2,20.5\n")
    assert predict(path, 4) == predict({1: 10, 2: 20.5}, 4)


def test_how_a_file_was_understood_is_said(mine):
    found = command(mine("workers;throughput\n1;1.234\n2;2.468\n4;\n8;9.111\n"), "--until", "2")
    assert "'.' is taken for the decimal mark" in found.stderr
    assert "no throughput, so not measured: line 4" in found.stderr


@pytest.mark.parametrize("workers", [[2.5], [math.inf], [math.nan], range(1, 10_002)])
def test_workers_that_cannot_be_are_refused(workers):
    with pytest.raises(LabkitError, match="workers"):
        predict({1: 10, 2: 20}, workers=workers)


def test_repeats_count_as_their_geometric_mean(mine):
    path = mine("workers;repeat;throughput\n1;1;8\n2;1;20,5\n1;2;12,5\n")
    np.testing.assert_allclose(read(path).throughput, [10, 20.5])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column 'workers'"),
        ("worker,throughput\n1,2\n2,3\n", "no column 'workers'; did you mean 'worker'?"),
        ("workers,rate\n1,2\n", "no column 'throughput'; there: workers, rate"),
        ("workers,throughput\n1,5\n", "1 point; at least 2 are needed"),
        ("workers,throughput\n", "no rows below the heading"),
        ("workers,throughput\n1,-5\n2,3\n", "line 2: throughput '-5'; allowed: numbers above 0"),
        ("workers,throughput\n0,5\n2,3\n", "line 2: workers '0'; allowed: whole numbers from 1"),
        ("workers,throughput\n1.5,5\n2,3\n", "line 2: workers '1.5'"),
        ("workers,throughput\n1,fast\n2,3\n", "line 2: throughput 'fast'"),
        ("workers,throughput\n1,nan\n2,inf\n", "line 3: throughput 'inf'"),
        ("workers,throughput\n1\n2,3\n", "line 2: throughput None"),
        ("workers,throughput\n1,5\n1,6\n", "1 point; at least 2 are needed"),
        ("workers,host,throughput\n1,a,5\n2,b,9\n", "host: a, b; points are of one"),
        ("workers,servers,throughput\n1,1,5\n2,2,9\n2,1,8\n", "servers: 1, 2; points are of"),
        ("workers,mxnet,tensorflow\n1,5,6\n2,9,8\n", "series: mxnet, tensorflow; points are"),
        ("workers,throughput\n0,x\n2,-1\n", "line 2: workers '0'"),
    ],
)
def test_bad_points_are_refused_in_one_line(mine, text, said):
    path = mine(text)
    found = command(path)
    assert found.exit_code == 1
    assert found.stderr.startswith(f"labkit: {path}: ") and said in found.stderr
    assert found.stderr.count("\n") == 1


def test_all_that_is_wrong_at_once(mine):
    found = command(mine("workers,throughput\n0,x\n2,-1\n")).stderr
    for said in ("line 2: workers '0'", "line 2: throughput 'x'", "line 3: throughput '-1'"):
        assert said in found


def test_a_file_that_is_not_there_or_not_text(mine, tmp_path):
    assert "cannot be read as a csv file" in command(tmp_path / "none.csv").stderr
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    assert "cannot be read as a csv file" in command(tmp_path / "binary.csv").stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--until", "0"), "until: 0; allowed: 1 or more workers"),
        (("--workers", "0"), "workers: [0]; allowed"),
        (("--workers", "8", "16", "--until", "64"), "until and workers: give one of them"),
        (("--level", "90"), "level: 90.0; allowed"),
        (("--until", "1000000000"), "workers: at most 10000 numbers can be predicted at once"),
        (("--efficiency", "70"), "efficiency: 70.0; allowed"),
        (("--launcher", "local"), "--launcher: only without MINE.CSV"),
        (("--optimizer", "sgd", "--reference"), "--optimizer, --reference: only without"),
    ],
)
def test_bad_options(mine, options, said):
    assert said in command(mine(GOOD), *options).stderr
