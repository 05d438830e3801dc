"""The book in a real browser: on a desktop and on a phone, by day and by night."""

import pytest
from browser import DESKTOP, PHONE, Browser
from processes import eventually

from labkit.book.website import WORK

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*Check CHANGES for Sphinx API modifications"),
]


@pytest.fixture(scope="module")  # later tests look for processes that are left
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="session")
def addresses(book):
    """Return the addresses of all pages, as one opens them from a disk."""
    site, _ = book
    hidden = (WORK, "_static")
    paths = [p for p in site.rglob("*.html") if p.relative_to(site).parts[0] not in hidden]
    return sorted(path.as_uri() for path in paths)


def test_no_page_is_wider_than_its_window(browser, addresses):
    for address in addresses:
        browser.open(address)
        for width in (DESKTOP, PHONE):
            browser.resize(width)
            wide = browser.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 0, f"{address} at {width}: {wide} pixels"
            assert browser.evaluate("innerWidth") == width
        assert not browser.errors(), address
        others = [url for url in browser.requests() if not url.startswith(("file:", "data:"))]
        assert not others, address


@pytest.mark.parametrize("word", ["Plateau", "plateau"])
def test_words_are_found(browser, book, word):
    site, _ = book
    browser.open(f"{(site / 'search.html').as_uri()}?q={word}")
    found = browser.evaluate("""new Promise((done) => {
        const look = () => {
            const all = [...document.querySelectorAll("#search-results li a")];
            all.length ? done(all.map((link) => link.href)) : setTimeout(look, 50);
        };
        look();
    })""")
    assert any("6-1-1-cnn-learning-rate.html" in address for address in found)
    assert not browser.errors()


LIGHT = """(() => {
    const channels = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
    return (channels[0] + channels[1] + channels[2]) / 3;
})()"""


def test_pages_are_dark_where_dark_is_wanted(browser, addresses):
    browser.open(addresses[-1])
    assert browser.evaluate(LIGHT) > 200
    browser.open(addresses[-1], dark=True)
    assert browser.evaluate(LIGHT) < 60


def test_a_tap_on_a_figure_shows_it_large(browser, book):
    site, _ = book
    browser.open((site / "notebooks/6-1-3-cnn-batch-512.html").as_uri(), PHONE)
    width = "{}.getBoundingClientRect().width"
    image = "document.querySelector('figure img')"
    large = "document.querySelector('dialog.large-figure img')"
    before = browser.evaluate(width.format(image))
    browser.evaluate(f"{image}.click()")
    assert browser.evaluate(width.format(large)) > 2 * before
    browser.evaluate("document.querySelector('dialog.large-figure button').click()")
    eventually(lambda: not browser.evaluate("document.querySelector('.large-figure') !== null"))
