"""``--format``: the same for programs as for people, and always valid."""

import csv
import json
import math

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import doctor
from labkit.cli import main
from labkit.cli.formats import as_csv, as_json
from labkit.doctor import Check

pytestmark = pytest.mark.unit

TABLES = ("claims", "compare", "doctor", "predict", "ps", "results", "run")
"""The commands whose answer is a table."""


@pytest.mark.parametrize("name", TABLES)
def test_commands_that_print_tables_print_them_for_programs_too(name):
    command = main.get_command(click.Context(main), name)
    [choice] = [param.type for param in command.params if param.name == "file_format"]
    assert {"table", "csv", "json"} <= set(choice.choices)


@given(st.lists(st.tuples(st.integers(), st.floats(), st.text()), min_size=1))
def test_json_is_valid_and_has_null_where_there_is_no_number(rows):
    def refuse(name):
        raise AssertionError(f"{name} is not in JSON")

    read = json.loads(as_json(rows), parse_constant=refuse)
    for (number, value, text), found in zip(rows, read, strict=True):
        assert found == [number, value if math.isfinite(value) else None, text]


def test_numbers_of_numpy_are_numbers():
    content = {"n": np.int64(3), "x": np.float64("nan"), "yes": np.bool_(True)}
    assert json.loads(as_json(content)) == {"n": 3, "x": None, "yes": True}


def test_csv_is_empty_where_there_is_no_number():
    assert as_csv([{"n": 1, "x": math.nan, "text": 'a,"b"'}]) == 'n,x,text\n1,,"a,""b"""\n'


def test_the_doctor_for_programs(labkit, monkeypatch):
    checks = [Check("cores", True, "2"), Check("data", None, "none", "labkit data"),
              Check("Python", False, "3.9")]  # fmt: skip
    monkeypatch.setattr(doctor, "examine", lambda: checks)
    shown = labkit("doctor", "--format", "json")
    assert shown.exit_code == 1  # as without: something is missing
    assert [check["ok"] for check in json.loads(shown.stdout)] == [True, None, False]
    rows = list(csv.DictReader(labkit("doctor", "--format", "csv").stdout.splitlines()))
    assert [row["advice"] for row in rows] == ["", "labkit data", ""]
    assert "!!  Python" in labkit("doctor").stdout
