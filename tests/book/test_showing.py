"""What notebooks show beside results: drawn figures, sliders, references, the contents."""

import re

import IPython.display
import ipywidgets
import pytest

from labkit import contents, explore, references, settings, show
from labkit.book.pages import Page
from labkit.book.plan import plan
from labkit.errors import LabkitError
from labkit.figures.page import canvas

pytestmark = pytest.mark.unit


@pytest.fixture
def displayed(monkeypatch):
    """Return the list of all that is displayed."""
    things = []
    monkeypatch.setattr(IPython.display, "display", things.append)
    return things


@pytest.fixture
def book(monkeypatch, tmp_path):
    """Return the folder in which a book keeps its figures."""
    monkeypatch.setenv(settings.FIGURES, str(tmp_path))
    return tmp_path


def line(slope=1, power=1):
    with canvas(f"2.0 A line of {slope}, {power}", "x", "y") as page:
        page.panels[0].plot([0, 1], [0, slope**power])
    return page.figure


def test_a_figure_that_shows_no_trials(book, displayed):
    show(line(), name="2.0")
    assert sorted(path.name for path in book.iterdir()) == ["2.0.png", "2.0.svg"]
    (image,) = displayed
    assert image.metadata["trials"] is False and image.metadata["figure"] == "2.0"
    record = {"figures": [{"number": "2.0", "title": "", "trials": False}]}
    files = Page(book / "2.ipynb", {}, book).files(record)
    assert [path.suffix for path in files] == [".svg", ".png"]


def test_a_drawn_figure_needs_a_name():
    with pytest.raises(LabkitError, match="give the figure a name"):
        show(line())


def test_in_a_book_an_explorer_is_the_figure_of_its_middle_values(book, displayed):
    explore(line, "2.0-explorer", slope=[1, 2, 3], power=[1, 2])
    assert [path.stem for path in book.glob("*.svg")] == ["2.0-explorer"]
    assert "A line of 2, 2" in displayed[0].alt


def test_elsewhere_it_has_sliders(monkeypatch, displayed):
    monkeypatch.delenv(settings.FIGURES, raising=False)
    made = {}
    monkeypatch.setattr(ipywidgets, "interact", lambda draw, **sliders: made.update(sliders))
    explore(line, "2.0-explorer", slope=[1, 2, 3])
    assert made["slope"].options == (1, 2, 3) and made["slope"].value == 2


def test_references_are_those_asked_for_in_the_order_of_their_authors(displayed):
    references("lecun1998", "dean2012")
    first, second = displayed[0].data.split("\n")
    assert "Dean" in first and "2012" in first and "LeCun" in second
    with pytest.raises(LabkitError, match="did you mean 'lecun1998'"):
        references("lecun1989")


def test_the_contents_link_all_notebooks_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setenv(settings.OUTPUTS, str(tmp_path))  # nothing has been run here
    table = contents().data
    assert re.findall(r"\]\(([\w-]+)\.ipynb\)", table) == [page.name for page in plan("laptop")]
    published = next(row for row in table.split("\n") if "6-1-1" in row)
    # Of its trials, though these were kept when the page was made.
    assert float(published.split("|")[3]) > 1
