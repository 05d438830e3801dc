"""A directory with a tiny notebook, and where it is rendered."""

import pytest
from tiny import FIGURE, KERNEL, TRIAL, write

from labkit.book import notebook, pages, website
from labkit.settings import OUTPUTS


@pytest.fixture
def notebooks(tmp_path):
    """Return a directory with one tiny notebook and a profile."""
    directory = tmp_path / "notebooks"
    directory.mkdir()
    write(directory / "0-1-tiny.ipynb", TRIAL, FIGURE, KERNEL)
    (directory / "profiles.toml").write_text("[tiny.common]\nsteps = 6\n")
    return directory


@pytest.fixture
def rendered(tmp_path, monkeypatch):
    """Return the directory in which the profile `tiny` is rendered."""
    monkeypatch.setenv(OUTPUTS, str(tmp_path / "outputs"))
    return tmp_path / "outputs" / "tiny"


@pytest.fixture(scope="session")
def kernels(warm):
    """Import once what the kernels of all tests need."""
    warm.connect(notebook.KERNEL, 1).close()


@pytest.fixture(autouse=True)
def code_as_it_is():
    """Leave no hash of code that a test has pretended."""
    yield
    pages.code_hash.cache_clear()


@pytest.fixture(scope="session")
def book(tmp_path_factory, own_directories):
    """Return the site of the whole book without results of one's own, and what was said."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OUTPUTS, str(tmp_path_factory.mktemp("book")))
        said = []
        index = website.build(echo=said.append)
        return index.parent, said
