"""The made-up trainer in the place of all others, imported already or not."""

import made_trainer
import psutil
import pytest

from labkit.launchers.local.warm import Program, WarmProcesses
from labkit.settings import WARM
from labkit.trials.frameworks import FRAMEWORKS


@pytest.fixture(scope="module")
def imported(tmp_path_factory, own_directories):
    """Have the trainer imported; what it does when it is run is still open."""
    folder = tmp_path_factory.mktemp("trainer")
    made_trainer.write(folder)
    with pytest.MonkeyPatch.context() as patch, WarmProcesses(folder) as warm:
        made_trainer.put_in_place(folder, patch)
        for framework in FRAMEWORKS.values():
            warm.connect(Program.trainer(framework), threads=1).close()
        yield folder


@pytest.fixture
def trainer(imported, monkeypatch):
    """Put the trainer in the place of all others; return a function that says what it does."""
    made_trainer.put_in_place(imported, monkeypatch)
    monkeypatch.setenv(WARM, str(imported))
    made_trainer.write(imported)
    return lambda act: made_trainer.write(imported, act)


@pytest.fixture
def importing(tmp_path, monkeypatch):
    """Likewise, but nothing is imported yet; return a function that says what the import does."""
    folder = tmp_path / "trainer"
    monkeypatch.delenv(WARM, raising=False)
    made_trainer.write(folder)
    made_trainer.put_in_place(folder, monkeypatch)
    return lambda source, act=made_trainer.ACT: made_trainer.write(folder, act, source)


@pytest.fixture
def no_process_is_left():
    """Every test ends with the processes that it began with."""
    before = psutil.Process().children()
    yield
    assert psutil.Process().children() == before


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path
