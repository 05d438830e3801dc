"""``labkit compare``: what it prints, and the exit status that a script goes by."""

import csv
import json

import pytest

pytestmark = pytest.mark.unit

RATES = {1: (20, 20.4, 19.8), 2: (38, 38.5, 37.6)}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return a function that writes a table whose rates are so many times those above."""
    monkeypatch.chdir(tmp_path)

    def write(name, factor=1.0, repeats=3):
        rows = [f"{n},{factor * x}" for n, rates in RATES.items() for x in rates[:repeats]]
        (tmp_path / name).write_text("\n".join(["workers,throughput", *rows]))
        return name

    return write


def test_a_table_to_look_at(labkit, mine):
    shown = labkit("compare", mine("a.csv"), mine("b.csv", 0.8))
    assert shown.exit_code == 0
    first, _, heading, one, two, _, *last = shown.stdout.splitlines()
    last = " ".join(last)  # as wide as the terminal is
    assert first == "a.csv -> b.csv"
    assert heading.split() == ["setting", "repeats", "ratio", "interval", "verdict"]
    assert one.startswith("workers 1  3 -> 3   0.800") and one.endswith("slower")
    assert two.startswith("workers 2")
    assert last.startswith("b.csv is slower than a.csv: throughput -20.0 % (99% interval ")
    assert last.endswith("over 2 of 2 settings.")


def test_csv_and_json_say_the_same(labkit, mine):
    words = ("compare", mine("a.csv"), mine("b.csv", 0.8), "--format")
    rows = list(csv.DictReader(labkit(*words, "csv").stdout.splitlines()))
    found = json.loads(labkit(*words, "json").stdout)
    assert [row["setting"] for row in rows] == ["workers 1", "workers 2", "overall"]
    for row, other in zip(rows, [*found["settings"], found["overall"]], strict=True):
        assert float(row["ratio"]) == other["ratio"]
        assert row["verdict"] == other["verdict"] == "slower"


@pytest.mark.parametrize(
    ("factor", "limit", "status"),
    [(0.8, "5%", 3), (0.8, "25 %", 0), (0.8, "0%", 3), (1.0, "0%", 0), (1.2, "5%", 0)],
)
def test_the_exit_status(labkit, mine, factor, limit, status):
    words = ("compare", mine("a.csv"), mine("b.csv", factor), "--fail-if-slower", limit)
    assert labkit(*words).exit_code == status


def test_what_cannot_be_said_does_not_pass(labkit, mine):
    words = ("compare", mine("a.csv", repeats=1), mine("b.csv", repeats=1))
    shown = labkit(*words)
    assert shown.exit_code == 0
    assert "b.csv is not comparable with a.csv: one repeat each." in shown.stdout
    assert labkit(*words, "--fail-if-slower=5%").exit_code == 1
    assert json.loads(labkit(*words, "--format=json").stdout)["overall"]["ratio"] is None


@pytest.mark.parametrize("rows", ["", "2,\n", "2,20\n"])
def test_what_was_lost_does_not_pass(labkit, mine, tmp_path, rows):
    mine("a.csv")
    (tmp_path / "b.csv").write_text(f"workers,throughput\n1,20\n1,20.4\n1,19.8\n{rows}")
    assert labkit("compare", "a.csv", "b.csv").exit_code == 0
    lost = labkit("compare", "a.csv", "b.csv", "--fail-if-slower", "5%")
    assert lost.exit_code == 1
    assert "1 of the settings of a.csv cannot be compared: workers 2, " in lost.stderr
    turned = labkit("compare", "b.csv", "a.csv", "--fail-if-slower", "5%")
    assert turned.exit_code == ("2,20" in rows)  # of which b has one repeat, and nothing else


def test_some_of_what_there_is(labkit, mine):
    shown = labkit("compare", mine("a.csv"), mine("b.csv"), "--workers", "2")
    assert "workers 1" not in shown.stdout and "over one setting" in shown.stdout
    refused = labkit("compare", mine("a.csv"), mine("b.csv"), "--workers", "3")
    assert refused.exit_code == 1
    assert "a.csv: workers: 3 is in none of the trials, only 1, 2" in refused.stderr


def test_two_values_in_the_order_in_which_they_were_given(labkit):
    words = ("compare", "reference", "--by", "framework", "--workers", "1", "--framework")
    assert "mxnet is slower than tensorflow" in labkit(*words, "tensorflow", "mxnet").stdout
    assert "tensorflow is faster than mxnet" in labkit(*words, "mxnet", "tensorflow").stdout


def test_slow_nodes_and_no_slow_nodes_by_name(labkit):
    words = ("compare", "reference", "--by", "slowdown", "--slowdown")
    assert labkit(*words, "20", "unset").stdout.startswith("slowdown 20 -> slowdown unset")
    assert labkit(*words, "unset", "20").stdout.startswith("slowdown unset -> slowdown 20")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("a.csv",), 2, "give two sets, BEFORE and AFTER"),
        (("a.csv", "b.csv", "--by=series"), 2, "--by: of one set"),
        (("a.csv", "c.csv"), 1, "c.csv: no such file or folder"),
        (("a.csv", "b.csv", "--fail-if-slower=5"), 1, "--fail-if-slower: '5'; allowed"),
        (("a.csv", "b.csv", "--fail-if-slower=100%"), 1, "--fail-if-slower: '100%'; allowed"),
        (("a.csv", "b.csv", "--level=99"), 1, "level: 99.0; allowed"),
        (("a.csv", "b.csv", "--framework=mxnet"), 1, "a.csv: --framework: these runs do not say"),
        (("a.csv", "--by=framework"), 1, "by: a.csv has no column 'framework'"),
        (("--by=framework",), 1, "nothing has been measured in"),
    ],
)
def test_bad_words(labkit, mine, words, status, said):
    mine("a.csv"), mine("b.csv")
    refused = labkit("compare", *words)
    assert refused.exit_code == status
    assert said in refused.stderr
    assert "Traceback" not in refused.output


def test_what_all_settings_have_in_common_is_said_once(labkit):
    words = ("--by", "framework", "--workers", "1", "--model", "lenet5", "--strategy", "async-ps")
    shown = labkit("compare", "reference", *words, "--eval-samples", "0")
    lines = shown.stdout.splitlines()
    (said,) = (line for line in lines if line.startswith("In all settings: "))
    assert "workers 1" in said and "default" not in said
    begin = next(i for i, line in enumerate(lines) if line.startswith("setting "))
    rows = lines[begin + 1 : lines.index("", begin)]
    assert any(row.startswith("batch_size 128") for row in rows)
    assert not any("workers" in row or "eval_samples" in row for row in rows)


def test_long_settings_are_broken_within_their_column(labkit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = labkit("compare", "reference", "--by", "framework", "--workers", "1")
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    words = " ".join(shown.stdout.split())
    assert " setting repeats ratio interval verdict " in words and " faster" in words
    assert "No room" not in words
