"""`labkit.compare`: sets of measurements, wherever they lie."""

import made_runs
import pandas as pd
import pytest
from tidy_tables import trials

from labkit import LabkitError, compare, select
from labkit.cli.formats import of_frame
from labkit.runs import Store
from labkit.runs.tables import published
from labkit.settings import OUTPUTS

pytestmark = pytest.mark.unit


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return this machine's outputs, with two repeats of a trial."""
    path = tmp_path / "outputs"
    monkeypatch.setenv(OUTPUTS, str(path))
    for seed in (1, 2):
        made_runs.add(Store(path / "runs"), made_runs.trial(seed=seed))
    return path


def test_all_that_is_a_set(folder, tmp_path):
    results = Store(folder / "runs").results()
    saved = [tmp_path / name for name in ("t.csv", "t.parquet", "t.json")]
    results.table.to_csv(saved[0], index=False)
    results.table.to_parquet(saved[1])
    saved[2].write_text(of_frame(results.table, "json"))
    for source in (folder, str(folder / "runs"), *saved, results, results.table, select(results)):
        found = compare(folder, source)
        assert found.overall.ratio == pytest.approx(1), source
        assert [row.repeats for row in found.settings] == [(2, 2)]


def test_own_tables_and_kept_runs_are_compared_in_the_same_unit(folder, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("workers,throughput [batches per second]\n2,20\n2,21\n")
    assert compare(path, folder).overall.reason == ""
    path.write_text("workers,throughput\n2,20\n2,21\n")
    found = compare(path, folder)
    assert found.overall.reason == f"{path} is in an unknown unit and {folder} is in batches/s"


def test_what_was_published_compares_by_framework():
    found = compare("reference", by="framework")
    assert (found.before, found.after) == ("mxnet", "tensorflow")
    assert "tensorflow is faster than mxnet" in repr(found)
    assert found.note in found._repr_html_()


def test_batches_of_different_sizes_are_compared_by_their_samples():
    table = trials(frameworks=("mxnet",), workers=(1,), batch_sizes=(128, 512))
    found = compare(table, by="batch_size")
    assert (found.before, found.after) == ("batch_size 128", "batch_size 512")
    assert found.overall.ratio == pytest.approx(1, abs=0.1)  # of batches it would be a quarter


def test_some_of_a_table_keeps_its_unit(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("workers,throughput [images/s]\n1,20\n1,21\n2,40\n")
    assert compare(path, select(path, workers=1)).overall.verdict == "no difference seen"


def test_own_tables_in_memory():
    table = pd.DataFrame({"workers": [1, 1, 2, 2], "throughput": [10, 10.2, 20, 20.1]})
    slower = table.assign(throughput=0.8 * table["throughput"])
    assert compare(table, slower).overall.verdict == "slower"
    both = pd.concat([table.assign(series="a"), slower.assign(series="b")], ignore_index=True)
    assert compare(both, by="series").overall.verdict == "slower"


def test_two_sets_may_be_off_by_a_drift_of_the_machine_and_trials_in_turn_not():
    table = pd.DataFrame({"workers": [1, 1, 1], "throughput": [9.99, 10, 10.01]})
    apart = table.assign(throughput=1.02 * table["throughput"])
    assert compare(table, apart).overall.verdict == "no difference seen"
    assert compare(table, table.assign(throughput=1.1 * table["throughput"])).overall.low > 1
    both = pd.concat([table.assign(series="a"), apart.assign(series="b")], ignore_index=True)
    assert compare(both, by="series").overall.verdict == "faster"


def test_runs_of_another_version_are_counted(folder):
    path = made_runs.add(Store(folder / "runs"), made_runs.trial(seed=3)).directory / "trial.json"
    path.write_text(path.read_text().replace('"seed": 3', '"seed": 3, "speed": 3'))
    assert "1 kept run is of another version" in compare(folder, folder).notes[0]


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("reference",), {}, "give two sets, or one and `by`"),
        (("reference", "reference"), {"by": "framework"}, "give two sets, or one and `by`"),
        (("reference", "nowhere"), {}, "nowhere: no such file or folder"),
        (("reference",), {"by": "framwork"}, "no column 'framwork'; did you mean 'framework'"),
        (("reference",), {"by": "batch_size"}, "exactly two can be compared"),
        (("reference",), {"by": "workers"}, "speedup"),
        (("reference", pd.DataFrame({"workers": [1]})), {}, "no column batches_per_second"),
        (("reference", 5), {}, "after: 5 is no set of measurements"),
        (("reference",), {"by": "batches_per_second"}, "and [0-9]+ more values in reference"),
        ((trials(),), {"by": "nosuch"}, "by: the table has no column"),
    ],
)
def test_what_is_no_comparison(arguments, options, said):
    with pytest.raises(LabkitError, match=said):
        compare(*arguments, **options)


def test_fields_that_are_suggested_can_be_compared():
    measured = published()
    measured = measured[measured["slowdown"].isna() | (measured["slowdown"] == 50)]
    with pytest.raises(LabkitError) as refused:
        compare(measured, by="nosuch")
    suggested = str(refused.value).split("with two values: ")[1].split(", ")
    assert {"framework", "slowdown"} <= set(suggested)  # slowdown: unset, and one value
    for field in suggested:
        assert compare(measured, by=field).before != "", field


def test_points_as_predict_takes_them():
    found = compare({1: 2, 2: 3}, {1: 2, 2: 3})
    assert (found.before, found.after) == ("before", "after")
    assert found.overall.reason == "one repeat each"


@pytest.mark.parametrize("name", ["bad.parquet", "trials.parquet", "bad.csv", "bad.json"])
def test_a_file_that_is_no_table_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_text('trial,framework,\n1,2\n"')
    with pytest.raises(LabkitError, match=f"{name}: cannot be read as a table of trials: "):
        compare("reference", tmp_path if name == "trials.parquet" else path)


@pytest.mark.parametrize("content", ['{"trial": 1}', "[1, 2]", "3"])
def test_json_of_another_kind_is_named(tmp_path, content):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(LabkitError, match=r"t.json: cannot be read .*: not a list of rows"):
        compare("reference", tmp_path / "t.json")


def test_an_empty_folder(tmp_path):
    with pytest.raises(LabkitError, match="nothing has been measured there"):
        compare("reference", tmp_path)
