"""The notebooks: how they teach, and that all cells of those run that measure nothing.

Those of the others run on made-up results, in `test_notebooks.py` and `test_chapter_7.py`; that
for a job of one's own trains, in `test_own_job_notebook.py`.
"""

import contextlib
import io
import re

import nbformat
import pytest

from labkit import settings
from labkit.book.plan import plan
from labkit.figures import page

pytestmark = pytest.mark.unit

PAGES = {one.name: one.source for one in plan("laptop")}
COMPUTES = [name for name in PAGES if name.startswith(("2", "3", "4", "6-0", "7-2"))]

every_page = pytest.mark.parametrize("name", PAGES)


def cells(name):
    return nbformat.read(PAGES[name], as_version=4).cells


def has(cell, tag):
    return tag in cell.metadata.get("tags", ())


@every_page
def test_it_begins_with_goals_and_minutes(name):
    first = cells(name)[0].source
    assert "**Goals.**" in first
    minutes = re.search(r"(\d+) minutes", first)
    assert minutes and 20 <= int(minutes[1]) <= 40


@every_page
def test_it_ends_with_a_summary_exercises_and_references(name):
    headings = [
        line
        for cell in cells(name)
        if cell.cell_type == "markdown"
        for line in cell.source.split("\n")
        if line.startswith("## ")
    ]
    assert headings[-3:] == ["## Summary", "## Exercises", "## References"]


@every_page
def test_each_exercise_has_its_solution_folded(name):
    """A text in <details>, or cells that MyST folds; at least one can be run."""
    all_cells = cells(name)
    begin = next(i for i, cell in enumerate(all_cells) if cell.source.startswith("## Exercises"))
    end = next(i for i, cell in enumerate(all_cells) if cell.source.startswith("## References"))
    solved, run = [], 0
    for cell in all_cells[begin:end]:
        solved += [False] * len(re.findall(r"^### Exercise \d", cell.source, re.MULTILINE))
        code = cell.cell_type == "code"
        if "<details>" in cell.source or code:
            solved[-1] = True
        if code:
            assert has(cell, "solution") and has(cell, "hide-cell"), cell.source
            run += 1
    assert 3 <= len(solved) <= 5 and all(solved) and run


@every_page
def test_its_headings_are_in_order(name):
    depth = 0
    for cell in cells(name):
        if cell.cell_type == "markdown":
            for mark in re.findall(r"^(#+) ", cell.source, re.MULTILINE):
                assert len(mark) <= depth + 1
                depth = len(mark)


SHORT = {"2-1-neurons-and-training": {"train_images": 2_000, "steps": 100}}
"""Parameters with which a notebook takes less than half as long."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMPUTES)
def test_its_cells_run(name, monkeypatch, tmp_path):
    """All of them, with the solutions, as in a book; each figure is kept, by its number."""
    titles, save = {}, page.save

    def note(figure, path):
        assert path.name not in titles, f"two figures are called {path.name}"
        titles[path.name] = page.title_of(figure)
        return save(figure, path)

    monkeypatch.setattr(page, "save", note)
    monkeypatch.setenv(settings.FIGURES, str(tmp_path))
    monkeypatch.chdir(PAGES[name].parent)
    space = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells(name):
            if cell.cell_type == "code":
                exec(compile(cell.source, f"{name}: {cell.id}", "exec"), space)
            if has(cell, "parameters"):
                space |= SHORT.get(name, {})
    assert titles and {path.stem for path in tmp_path.glob("*.svg")} == titles.keys()
    for number, title in titles.items():
        assert title.split()[0] == number and len(title.split()) > 1


def test_no_two_figures_of_the_book_have_the_same_name():
    names = [
        name
        for each in plan("laptop")
        for cell in nbformat.read(each.source, as_version=4).cells
        if cell.cell_type == "code"
        for name in re.findall(r'\bname="([^"]+)"|\bexplore\([\w.]+,\s*"([^"]+)"', cell.source)
    ]
    assert len(names) > 40 and len(set(names)) == len(names)
