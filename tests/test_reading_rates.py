"""Tables of one's own: what is read the same, what is understood how, what is refused."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import LabkitError, rates

pytestmark = pytest.mark.unit

COLUMNS = ["workers", "throughput", "series", "repeat"]


@pytest.fixture
def mine(tmp_path):
    def write(text, name="mine.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def rows(found, *columns):
    return list(found.table[list(columns)].itertuples(index=False, name=None))


# --- the same table, however it is written ------------------------------------------------------

rows_of_two = st.lists(
    st.tuples(st.integers(1, 64), st.floats(0.01, 1e6), st.sampled_from(["a", "b,;c"])),
    min_size=1, max_size=8,
).map(lambda cells: [(*row, number) for number, row in enumerate(cells, 1)])  # fmt: skip


@given(rows_of_two, st.permutations(range(4)), st.sampled_from([",", ";", "\t"]))
def test_columns_in_any_order_with_any_separator(tmp_path_factory, table, order, separator):
    path = tmp_path_factory.mktemp("tables") / "mine.csv"
    frame = pd.DataFrame(table, columns=COLUMNS)
    frame[[COLUMNS[i] for i in order]].to_csv(path, sep=separator, index=False)
    found = rates.read(path)
    assert rows(found, *COLUMNS) == table
    assert rows(rates.read(frame), *COLUMNS) == table


@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6)), min_size=1, max_size=5))
def test_wide_and_long_say_the_same(cells):
    wide = pd.DataFrame(cells, columns=["x", "y"]).assign(workers=range(1, len(cells) + 1))
    long = wide.melt("workers", ["x", "y"], "series", "throughput")
    read = rates.read(wide)
    assert rows(read, "series", "workers", "throughput") == rows(
        rates.read(long), "series", "workers", "throughput"
    )
    assert "x and y are taken for series" in read.notes[0]


def test_empty_cells_of_a_wide_table_were_not_measured(mine):
    found = rates.read(mine("workers;a;b\n1;1,5;\n2;3;4\n"))
    assert rows(found, "series", "workers", "throughput") == [("a", 1, 1.5), ("a", 2, 3.0),
                                                              ("b", 2, 4.0)]  # fmt: skip


def test_what_a_heading_says(mine):
    found = rates.read(mine("Workers,Throughput [images/s],Host\n1,5,here\n"))
    assert found.unit == "images/s"
    assert rows(found, "workers", "throughput", "host") == [(1, 5.0, "here")]
    assert rates.read(mine("workers,throughput\n1,5\n")).unit == ""


def test_a_table_without_series_is_called_after_its_file(mine):
    text = "workers,throughput\n1,5\n"
    assert list(rates.read(mine(text, "old.csv")).table["series"]) == ["old"]
    named = rates.read(mine("framework,workers,batch_size,throughput\nmxnet,1,128,5\n")).table
    assert "series" not in named
    assert named["batch_size"].tolist() == [128]


def test_series_that_are_numbers_are_names_all_the_same(mine):
    found = rates.read(mine("workers,throughput,series\n1,5,1\n1,6,2.0\n"))
    assert found.table["series"].tolist() == ["1", "2.0"]


def test_empty_cells_of_a_long_table_were_not_measured(mine):
    found = rates.read(mine("workers,throughput\n1,5\n2,\n4,9\n"))
    assert rows(found, "workers", "throughput") == [(1, 5.0), (4, 9.0)]
    assert "not measured: line 3." in found.notes[0]


def test_fields_of_a_trial_are_of_their_type(mine):
    text = "workers,throughput,model,batch_size,slowdown,series\n1,10,7,128.0,,\n2,20,7,128,20,\n"
    found = rates.read(mine(text))
    assert rows(found, "model", "batch_size") == [("7", 128), ("7", 128)]
    assert found.table["slowdown"].isna().tolist() == [True, False]
    assert found.table["series"].tolist() == ["mine", "mine"]  # empty throughout: not there
    frame = pd.DataFrame({"workers": [1], "throughput": [1.5], "framework": [3], "model": [pd.NA]})
    assert rows(rates.read(frame), "framework") == [("3",)]


@pytest.mark.parametrize("cells", [("1,234", "2,5"), ("22.345", "45.05"), ("0,125", "0,5")])
def test_decimals_that_are_seen_to_be_some(mine, cells):
    found = rates.read(mine("workers;throughput\n1;{}\n2;{}\n".format(*cells)))
    assert found.table["throughput"].tolist() == [float(c.replace(",", ".")) for c in cells]
    assert found.notes == ()


def test_what_is_taken_for_the_decimal_mark_is_said(mine):
    found = rates.read(mine("workers;throughput\n1;1.234\n2;2.456\n"))
    assert found.table["throughput"].tolist() == [1.234, 2.456]
    assert found.notes == ("mine.csv: '.' is taken for the decimal mark.",)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workers,troughput,loss\n1,5,6\n", ["no column 'throughput'; did you mean 'troughput'?"]),
        ("workers,a,b\n1,5,x\n", ["no column 'throughput'; there: workers, a, b"]),
        ("workers,throughput\n1,22,3\n", ["line 2: 3 cells, but 2 columns"]),
        ("workers,throughput,throughput\n1,2,3\n", ["column 'throughput' twice"]),
        ("workers,throughput,series\n1,2,\nx,0,a\n",
         ["line 2: no series", "line 3: workers 'x'", "line 3: throughput '0'"]),
        ("workers,throughput\n\n1,5\n\n2,x\n", ["line 5: throughput 'x'"]),
        ("workers,throughput\n1,5\n1,\"5,5\"\n", ["line 3: throughput '5,5'"]),
        ("workers,repeat,throughput\n1,1,5\n1,1,6\n", ["line 3: repeat 1 of 1 workers again"]),
        ("batch,workers,throughput\n1,1,5\n1,2,6\n2,1,5\n2,2,6\n",
         ["column 'batch' differs between rows of the same workers", "call it series"]),
        ("workers,throughput,model\n1,10,\n2,20,lenet5\n", ["line 2: no model"]),
        ("workers,throughput,host\n1,10,here\n2,20,\n", ["line 3: no host"]),
        ("workers,throughput,batch_size\n1,10,big\n2,20,0\n",
         ["line 2: batch_size 'big'; allowed: whole numbers from 1 on", "line 3: batch_size '0'"]),
        ("workers,throughput,learning_rate\n1,10,-1\n", ["'-1'; allowed: numbers above 0"]),
        ("workers;throughput\n1;1.234\n2;2.456\n4;999\n",
         ["throughput 1.234, 2.456: nobody can tell"]),
        ("workers;a;b\n1;1,234;1.567\n", ["throughput 1,234, 1.567: nobody can tell"]),
        ("workers;throughput\n1;1.234\n2;2,5\n", ["throughput 1.234: nobody can tell"]),
        ("workers,images,std\n1,10,1\n", ["std cannot be", "call the column"]),
        ("workers,throughput_mean,throughput_std\n1,10,1\n", ["throughput_std cannot be"]),
        ("workers,mxnet,Loss\n1,10,1\n", ["Loss cannot be"]),
        ("workers,throughput\n", ["no rows below the heading"]),
        ("workers,throughput\n1,\n", ["no row has a throughput"]),
        ("# made by me\nworkers,throughput\n1,5\n",
         ["line 2: 2 cells, but 1 column in the heading, line 1: # made by me"]),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_one_error(mine, text, said):
    path = mine(text)
    with pytest.raises(LabkitError) as raised:
        rates.read(path)
    assert str(raised.value).startswith(f"{path}: ")
    for piece in said:
        assert piece in str(raised.value)


def test_of_many_problems_the_first_are_named(mine):
    with pytest.raises(LabkitError, match="line 11: .*; and 20 more$"):
        rates.read(mine("workers,throughput\n" + "1,x\n" * 30))


@pytest.mark.parametrize(
    "text",
    [
        "seconds,workers,throughput\n1.25,1,5\n1.5,1,6\n0.75,2,9\n",  # a value of its own each
        "racks,workers,throughput\n1,1,5\n1,1,6\n2,2,9\n",  # comes along with the workers
    ],
)
def test_columns_that_tell_nothing_apart_are_ignored(mine, text):
    assert len(rates.read(mine(text)).table) == 3
