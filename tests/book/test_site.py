"""The book as a site: complete, whole without a network, and of the results that it says."""

import json
import re
import shlex
from functools import cache

import click
import pytest
from bs4 import BeautifulSoup
from processes import REPOSITORY

from labkit.book import website
from labkit.book.plan import BookError, plan, select
from labkit.cli import main
from labkit.settings import REFERENCE

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*Check CHANGES for Sphinx API modifications"),
]

NAMES = [page.name for page in plan("laptop")]
DOCUMENTS = sorted(path.stem for path in (REPOSITORY / "docs").glob("*.md"))


@cache
def read(path):
    return BeautifulSoup(path.read_text(), "html.parser")


@pytest.fixture(scope="session")
def site(book):
    return book[0]


@pytest.fixture(scope="session")
def pages(site):
    """Return the pages that people write, by their paths without a suffix."""
    names = ["index", *(f"notebooks/{n}" for n in NAMES), *(f"docs/{n}" for n in DOCUMENTS)]
    return {name: read(site / f"{name}.html") for name in names}


# --- the whole book -------------------------------------------------------------------------


def test_sphinx_warns_of_nothing(book):
    _, said = book
    assert not [line for line in said if re.search("WARNING|ERROR|failed", line)]
    assert said[-1].startswith("see ")


def test_each_page_leads_to_the_next(pages, site):
    """From the first page through all of them."""
    path, seen = site / "index.html", []
    while path:
        seen.append(str(path.relative_to(site).with_suffix("")))
        following = read(path).select_one("a.right-next")
        path = following and (path.parent / following["href"]).resolve()
    assert seen == list(pages)


def test_all_links_lead_somewhere(site):
    for path in site.rglob("*.html"):
        if path.relative_to(site).parts[0] not in ("_static", website.WORK):
            for target in links(path):
                file, _, place = target.partition("#")
                there = (path.parent / file.partition("?")[0]).resolve() if file else path
                assert there.is_file(), f"{path.name}: {target}"
                if place and there.suffix == ".html" and place != "search":
                    assert read(there).find(id=place), f"{path.name}: {target}"


def links(path):
    """Yield what a page loads and where it leads, but for other hosts."""
    for tag in read(path).find_all(True):
        for name in ("href", "src"):
            target = tag.get(name, "")
            if target and not re.match("[a-z]+:", target):
                yield target


def test_nothing_is_loaded_from_another_host(site):
    for path in site.rglob("*.html"):
        for tag in read(path).find_all(["link", "script", "img", "iframe", "source"]):
            for name in ("href", "src", "srcset"):
                assert not re.match("(https?:)?//", tag.get(name, "")), f"{path.name}: {tag}"
    for path in site.rglob("*.css"):
        assert not re.search(r"""(url\(|@import)\s*["']?(https?:)?//""", path.read_text()), path


def test_the_index_says_the_question_the_order_and_the_minutes(pages):
    text = pages["index"].get_text(" ")
    assert "What happens to a training job when it runs on more machines?" in text
    assert "Foundations" in text or not NAMES[0].startswith("2")
    for page in plan("laptop"):
        [row] = [r for r in pages["index"].select("article li") if page.title in r.get_text()]
        assert re.search(r", about (5|[1-5][05]) minutes$", row.get_text().strip())


def test_each_page_says_how_it_is_run(pages):
    for page in plan("laptop"):
        html = pages[f"notebooks/{page.name}"]
        [command] = re.findall(r"labkit reproduce .*", html.get_text())
        words = shlex.split(command)
        found = main.get_command(click.Context(main), words[1])
        context = found.make_context(words[1], words[2:])
        assert [p.name for p in select(plan("laptop"), context.params["only"])] == [page.name]
        assert "make book" in html.get_text()


def test_each_page_says_which_run_it_shows(pages):
    for page in plan("laptop"):
        [said] = pages[f"notebooks/{page.name}"].select("p.run")
        if (REFERENCE / f"{page.name}.ipynb").exists():
            assert "published run" in said.get_text()
        elif page.measures:
            assert said.get_text().startswith("No results")
        else:
            assert "Computed on this machine" in said.get_text()


def test_figures_are_drawn_and_have_their_titles(pages, site):
    for name in NAMES:
        executed = REFERENCE / f"{name}.ipynb"
        if not executed.exists():
            continue
        record = json.loads(executed.read_text())["metadata"]["labkit"]
        figures = pages[f"notebooks/{name}"].select("figure")
        assert len(figures) == len(record["figures"])
        for figure, of in zip(figures, record["figures"], strict=True):
            title = " ".join(of["title"].removeprefix(of["number"]).split())
            image = figure.select_one("a img")
            assert image["alt"] == title and image["src"].endswith(".svg")
            caption = figure.figcaption.get_text().replace("’", "'")  # set as typographers do
            assert title in caption
            drawn = (site / "notebooks" / image["src"]).resolve()
            assert drawn.read_bytes() == (REFERENCE / f"figures/{of['number']}.svg").read_bytes()


def test_what_is_written_can_be_found(site):
    text = (site / "searchindex.js").read_text()
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)", text, re.DOTALL)[1])
    found = [index[where].get("plateau", []) for where in ("terms", "titleterms")]
    numbers = [number for each in found for number in (each if isinstance(each, list) else [each])]
    pages = {index["docnames"][number] for number in numbers}
    assert {"notebooks/6-1-1-cnn-learning-rate", "notebooks/6-1-2-cnn-batch-5"} <= pages


# --- which results, and what is made anew ---------------------------------------------------


def cell(source, kind="code", tags=(), outputs=()):
    rest = {"outputs": list(outputs), "execution_count": None} if kind == "code" else {}
    return {"id": f"id{abs(hash(source))}", "cell_type": kind, "source": source,
            "metadata": {"tags": list(tags)}} | rest  # fmt: skip


def save(path, *cells, title="# 1 One", **labkit):
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = {"name": "python3", "display_name": "x", "language": "python"}
    metadata = {"kernelspec": spec, "language_info": {"name": "python"}} | labkit
    content = {"cells": [cell(title, "markdown"), *cells], "metadata": metadata,
               "nbformat": 4, "nbformat_minor": 5}  # fmt: skip
    path.write_text(json.dumps(content))


MEASURES = cell('launcher: str = "local"', tags=["parameters"])
COMPUTES = cell("base: int = 2", tags=["parameters"])
STREAM = {"output_type": "stream", "name": "stdout"}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Return a function that builds a book of two notebooks, and says what was printed."""
    directory = tmp_path / "written"
    monkeypatch.setenv("LABKIT_OUTPUTS", str(tmp_path / "outputs"))
    monkeypatch.setattr("labkit.book.edition.REFERENCE", tmp_path / "published")
    monkeypatch.setattr("labkit.book.manuscript.DOCS", tmp_path / "docs")
    save(directory / "1-one.ipynb", MEASURES, cell("1 + 1"))
    save(directory / "2-two.ipynb", MEASURES, cell("[one](1-one.ipynb) [code](x.py)", "markdown"),
         title="# 2 Two\n\nAbout 35 minutes.")  # fmt: skip
    (directory / "profiles.toml").write_text('[laptop]\n[few]\nnotebooks = ["1-one"]\n')

    def build(profile="laptop"):
        said = []
        index = website.build(profile, echo=said.append, notebooks=directory)
        read.cache_clear()
        return index.parent, said

    return build


def test_ones_own_results_come_first(small, tmp_path):
    site, said = small()
    assert "No results" in read(site / "notebooks/1-one.html").get_text()
    assert said[-1] == f"see {site / 'index.html'}"
    text = read(site / "notebooks/2-two.html").article
    assert text.select_one("a[href='1-one.html']").get_text() == "one"
    assert "code" in text.get_text() and not text.select("a[href*='x.py']")

    def run(home, text):
        output = STREAM | {"text": text}
        save(tmp_path / home / "1-one.ipynb", MEASURES, cell("1 + 1", outputs=[output]),
             labkit={"finished": "2020-02-20 20:20"})  # fmt: skip

    run("published", "theirs")
    site, _ = small()
    page = read(site / "notebooks/1-one.html")
    assert "Shows the published run of 2020-02-20 20:20" in page.get_text()
    assert "theirs" in page.get_text()
    run("outputs/laptop", "mine")
    site, said = small()
    page = read(site / "notebooks/1-one.html")
    assert "Shows your run of 2020-02-20 20:20 (profile laptop)" in page.get_text()
    assert "mine" in page.get_text() and "theirs" not in page.get_text()
    assert "published" not in read(site / "index.html").get_text()
    # A page that nothing is new of is not read again.
    assert not [line for line in said if line.startswith("2-two")]
    _, said = small()
    assert said == [f"see {site / 'index.html'}"]


def test_a_changed_text_is_not_passed_off_as_what_was_run(small, tmp_path):
    save(tmp_path / "published/1-one.ipynb", MEASURES, cell("1 + 2"))
    site, _ = small()
    assert "has been changed since" in read(site / "notebooks/1-one.html").get_text()


def test_solutions_are_folded(small, tmp_path):
    save(tmp_path / "written/1-one.ipynb", MEASURES, cell("6 * 7", tags=["solution", "hide-cell"]))
    site, _ = small()
    details = read(site / "notebooks/1-one.html").select_one("details")
    assert "open" not in details.attrs and "Solution" in details.summary.get_text()
    assert "6" in details.get_text()


def test_references_are_a_list_without_their_code(small, tmp_path):
    output = {"output_type": "display_data", "metadata": {}, "data": {"text/markdown": "- *A*"}}
    save(tmp_path / "outputs/laptop/1-one.ipynb", cell('references("a")', outputs=[output]))
    page = read(small()[0] / "notebooks/1-one.html").article
    assert page.select_one(".cell_output li em").get_text() == "A"
    assert "references(" not in page.get_text()


def test_a_page_that_is_gone_is_gone(small, tmp_path):
    small()
    (tmp_path / "written/2-two.ipynb").unlink()
    site, said = small()
    assert not (site / "notebooks/2-two.html").exists() and "WARNING" not in "".join(said)
    assert "Two" not in read(site / "notebooks/1-one.html").get_text()


def test_what_measures_nothing_is_computed(small, tmp_path):
    path = tmp_path / "written/2-two.ipynb"
    save(path, COMPUTES, cell("print(base ** 10)"))
    site, said = small()
    page = read(site / "notebooks/2-two.html").get_text()
    assert "1024" in page and "Computed on this machine" in page
    assert "2-two: computed" in said
    _, said = small()
    assert "2-two: computed" not in said
    save(path, COMPUTES, cell("print(base ** 11)"))
    assert "2048" in read(small()[0] / "notebooks/2-two.html").get_text()
    save(path, COMPUTES, cell("print(base / 0)"))
    with pytest.raises(BookError, match="failed, as is said above: 2-two; all else is in"):
        small()


@pytest.mark.parametrize("there", ["file", "folder"])
def test_what_is_no_book_is_not_written_into(small, tmp_path, there):
    place = tmp_path / "outputs/book"
    place.parent.mkdir(exist_ok=True)
    if there == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "notes.txt").write_text("mine")
    with pytest.raises(BookError, match="something else than a book"):
        small()


def test_an_unknown_profile_is_refused(small, tmp_path):
    with pytest.raises(BookError, match="profile 'lptop' is unknown; did you mean 'laptop'"):
        small("lptop")
    assert not (tmp_path / "outputs/book").exists()


def test_another_profile_has_its_own_command(small):
    site, _ = small("few")
    page = read(site / "notebooks/1-one.html").get_text()
    assert "labkit reproduce --profile few --only 1\n" in page
