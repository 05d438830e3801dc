"""Notebook 9: three places for a reader's own job, each with an example that works."""

import ast
import os
from types import SimpleNamespace

import nbformat
import numpy as np
import papermill
import pytest

import labkit
from labkit import settings
from labkit.book.plan import plan

(PAGE,) = (page for page in plan("smoke") if page.name == "9-your-own-job")
CELLS = nbformat.read(PAGE.source, as_version=4).cells
PLACES = ["A table", "A function", "A model"]


def has(cell, tag):
    return tag in cell.metadata.get("tags", ())


@pytest.mark.unit
def test_it_marks_three_places():
    text = "\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
    sections = dict(part.partition("\n")[::2] for part in text.split("\n## ")[1:])
    assert [name for name, said in sections.items() if "**Yours:**" in said] == PLACES
    assert "The brief" in sections


@pytest.mark.unit
def test_its_parameters_are_literals_that_papermill_knows():
    (cell,) = (cell.source for cell in CELLS if has(cell, "parameters"))
    named = [line.target.id for line in ast.parse(cell).body]
    assert list(papermill.inspect_notebook(PAGE.source)) == named
    assert set(PAGE.parameters) <= set(named)


@pytest.mark.unit
def test_a_file_is_attached_where_it_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(settings.OUTPUTS, str(tmp_path / "outputs"))
    monkeypatch.delenv(settings.FIGURES, raising=False)
    assert labkit.attach("x.csv", "1") == tmp_path / "outputs/own/x.csv"
    monkeypatch.setenv(settings.FIGURES, str(tmp_path / "figures"))
    assert labkit.attach("x.csv", "2").read_text() == "2"
    assert (tmp_path / "figures/x.csv").exists()


@pytest.mark.unit
@pytest.mark.parametrize("batch_size", [64, 4])
def test_its_function_learns_with_the_exercises_batch_too(batch_size):
    """With as many steps as the profile laptop takes: those of the smoke profile are too few."""
    by_id = {cell.id: cell.source for cell in CELLS}
    (source,) = (source for source in by_id.values() if source.startswith("def train(job)"))
    (given,) = (cell.source for cell in CELLS if has(cell, "parameters"))
    space, losses = {"np": np}, []
    exec(given, space)
    space["batch_size"] = batch_size
    exec(source, space)
    report = SimpleNamespace(ready=lambda: None, step=lambda _, loss: losses.append(loss))
    space["train"](SimpleNamespace(seed=1, index=0, report=report))
    assert len(losses) == space["steps"] and losses[-1] < 0.1 * losses[0]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("once", "warm")
def test_it_runs_as_it_stands(tmp_path, monkeypatch):
    """All of its cells with the profile smoke, solutions too: nothing made up."""
    monkeypatch.setenv(settings.OUTPUTS, str(tmp_path / "outputs"))
    monkeypatch.setenv(settings.FIGURES, str(tmp_path / "figures"))
    monkeypatch.chdir(PAGE.source.parent)
    space = {"__name__": "__main__"}
    for cell in CELLS:
        if cell.cell_type == "code":
            exec(compile(cell.source, f"cell {cell.id}", "exec"), space)
            if has(cell, "parameters"):
                space |= PAGE.parameters | {"units": 32}
    there = set(os.listdir(tmp_path / "figures"))
    names = [f"9-{name}" for name in ("table", "function", "model", "exercise")]
    assert {f"{name}.svg" for name in names} <= there
    assert "UNITS = 32" in space["model"].read_text()
    assert not space["found"].problems
    table = space["alone"].table
    assert table.model.tolist() == ["train"] * 2 and (table.status == "finished").all()
    assert "my_mlp, batch 64" in (tmp_path / "figures/brief.html").read_text()
    assert space["small"].table.code[0] != table.code[0]
    assert not left_elsewhere(tmp_path)


def left_elsewhere(tmp_path):
    """Return what was left elsewhere than where a book keeps it."""
    left = {path.name for path in tmp_path.iterdir()} - {"outputs", "figures"}
    return left | {name for name in os.listdir(tmp_path / "outputs") if name != "runs"}
