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
