"""The ``labkit`` command, called in this process."""

import pytest
from click.testing import CliRunner

from labkit.cli import main
from labkit.settings import OUTPUTS


@pytest.fixture
def labkit(tmp_path, monkeypatch):
    """Return a function that calls the command; its store is in ``outputs``."""
    monkeypatch.setenv(OUTPUTS, str(tmp_path / "outputs"))
    return lambda *words: CliRunner().invoke(main, list(words), prog_name="labkit")
