"""What is published of books, and what of it stays; on pages that nobody has run."""

import json
import re

import pandas as pd
import pytest
from tiny import write

from labkit.book import edition
from labkit.book import publish as module
from labkit.book.plan import BookError, plan
from labkit.book.publish import front_page, publish

pytestmark = pytest.mark.unit

MACHINE = {"cpu_model": "a processor", "cores": 2, "memory": 2**34, "system": "Linux"}

MEASURES = 'launcher: str = "local"'


@pytest.fixture
def book(notebooks, rendered, monkeypatch):
    """Return the notebooks of a usual profile: two that measure, one that computes."""
    for one in (edition, module):
        monkeypatch.setattr(one, "USUAL", "tiny")
    for name, parameters in (("0-1-tiny", MEASURES), ("0-2-other", MEASURES), ("0-3-sums", "")):
        write(notebooks / f"{name}.ipynb", title=f"# {name}", parameters=parameters)
    (notebooks / "profiles.toml").write_text("[tiny]\n[longer]\n")
    return notebooks


@pytest.fixture
def runs(monkeypatch):
    """Have every trial of a page be a run that is there, and in all tables."""

    class Rows:
        def __init__(self, runs):
            self.table = pd.DataFrame({"trial": list(runs)}).assign(started=started())
            self.steps = self.evals = self.table[["trial"]]

    started = iter(range(100)).__next__

    monkeypatch.setattr(module, "Results", Rows)
    monkeypatch.setattr(module.Run, "read", lambda path: path)
    monkeypatch.setattr(
        module, "_runs", lambda name, pages: [row["trial"] for p in pages for row in p.trials()]
    )


def make(page, trial=None, inputs=None, figure=None):
    """Write a page as if it had been run, with a figure of its name if it shows a trial."""
    figures = [{"number": figure or page.name, "title": "Rates"}] if trial else []
    record = {
        "figures": figures, "machine": MACHINE, "finished": "2020-02-20 20:20", "seconds": 1,
        "revision": "abc", "without_rate": [], "inputs": inputs or page.inputs(),
    }  # fmt: skip
    page.home.mkdir(parents=True, exist_ok=True)
    page.executed.with_suffix(".html").write_text(trial or "")
    executed = json.loads(page.source.read_text()) | {"metadata": {"labkit": record}}
    page.executed.write_text(json.dumps(executed))
    for path in page.files(record):
        path.parent.mkdir(exist_ok=True)
        path.write_text("trial,status,overloaded,oversubscribed,versions\n"
                        f"{trial},finished,False,True,mxnet 1\n")  # fmt: skip


def pages(notebooks, profile="tiny"):
    return plan(profile, notebooks=notebooks)


def published(destination, table="trials"):
    return sorted(pd.read_parquet(destination / f"{table}.parquet")["trial"])


def test_a_book_is_published_only_when_it_is_up_to_date(book, tmp_path):
    there = tmp_path / "published"
    first, other, sums = pages(book)
    for missing in ("0-1-tiny, 0-2-other, 0-3-sums", "0-2-other, 0-3-sums"):
        with pytest.raises(BookError, match=f"{missing}; first: labkit reproduce --profile tiny"):
            publish("tiny", destination=there, notebooks=book)
        make(first, "one")
    make(other, "two", inputs="older")
    make(sums)
    with pytest.raises(BookError, match="not up to date: 0-2-other;"):
        publish("tiny", destination=there, notebooks=book)
    with pytest.raises(BookError, match="0-3-sums; first: labkit reproduce --profile longer"):
        publish("longer", destination=there, notebooks=book)  # of which there is nothing
    assert not there.exists()


def test_measurements_of_the_usual_book_are_of_one_run(book, runs, tmp_path):
    """What is computed from them may be added; a part of them measured anew may not."""
    there = tmp_path / "published"
    first, other, sums = pages(book)
    make(first, "one")
    make(other, "two")
    make(sums)
    publish("tiny", destination=there, notebooks=book)
    assert published(there) == ["one", "two"]
    for page in (first, other):
        page.executed.unlink()
    (there / "0-3-sums.html").write_text("older")
    publish("tiny", destination=there, notebooks=book)
    assert (there / "0-3-sums.html").read_text() == ""
    assert published(there) == ["one", "two"] == sorted(
        (there / f"{name}.html").read_text() for name in ("0-1-tiny", "0-2-other")
    )
    make(first, "three")
    with pytest.raises(BookError, match="not up to date: 0-2-other;"):
        publish("tiny", destination=there, notebooks=book)
    assert published(there) == ["one", "two"]


def test_other_books_grow_page_by_page(book, runs, tmp_path):
    there = tmp_path / "published"
    first, other, _ = pages(book, "longer")
    make(first, "one")
    publish("longer", destination=there, notebooks=book)
    first.executed.unlink()
    make(other, "two")
    publish("longer", destination=there, notebooks=book)
    assert (there / "longer/0-1-tiny.html").read_text() == "one"
    assert all(published(there, table) == ["one", "two"] for table in ("trials", "steps", "evals"))
    for text in ((there / "longer" / name).read_text() for name in ("index.html", "README.md")):
        assert "0-1-tiny.ipynb" in text and "0-2-other.ipynb" in text


def test_what_a_page_that_stays_shows_is_not_replaced(book, runs, tmp_path):
    """As a second machine of the same name does, whose trials have the same names."""
    there = tmp_path / "published"
    first, other, _ = pages(book, "longer")
    make(first, "one")
    publish("longer", destination=there, notebooks=book)
    before = (there / "trials.parquet").read_bytes()
    first.executed.unlink()
    make(other, "one")
    with pytest.raises(BookError, match="0-1-tiny of longer stays published.*measured again"):
        publish("longer", destination=there, notebooks=book)
    assert (there / "trials.parquet").read_bytes() == before
    make(first, "one")
    publish("longer", destination=there, notebooks=book)
    assert published(there) == ["one"]


def test_what_no_page_shows_any_longer_goes(book, runs, tmp_path):
    there = tmp_path / "published"
    first, _, _ = pages(book, "longer")
    make(first, "one")
    publish("longer", destination=there, notebooks=book)
    make(first, "two", figure="another")
    publish("longer", destination=there, notebooks=book)
    assert published(there) == ["two"]
    left = {path.name for path in (there / "longer/figures").glob("*.csv")}
    assert "another.csv" in left and f"{first.name}.csv" not in left


def test_pages_that_show_what_was_published_before_are_named(book, runs, tmp_path, monkeypatch):
    there = tmp_path / "published"
    first, other, sums = pages(book)
    make(first, "one")
    make(other, "two")
    make(sums)
    publish("tiny", destination=there, notebooks=book)
    make(pages(book, "longer")[0], "three")
    monkeypatch.setattr(type(sums), "is_stale", lambda page: page.home == there)
    with pytest.raises(BookError, match="published, but 0-3-sums still show.*--only 0-3-sums`,"):
        publish("longer", destination=there, notebooks=book)
    assert published(there) == ["one", "three", "two"]


def test_what_is_published_can_be_read_on_a_git_host(book, rendered):
    made = pages(book)[:2]
    make(made[0], "one", figure="6.3")
    make(made[1])
    text = front_page("tiny", made)
    assert "a processor, 2 cores, 16 GB" in text and "- mxnet 1" in text
    assert "## [0-1-tiny](0-1-tiny.ipynb)" in text and "## [0-2-other](0-2-other.ipynb)" in text
    assert "1 oversubscribed" in text
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (rendered / target).exists(), target
    assert "![Rates](figures/6.3.svg)" in text
