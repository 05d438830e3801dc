"""What the tests share: data sets, warm processes, a place for outputs; nothing of it is kept."""

import signal
import sys
import tempfile
import types
from concurrent.futures import ThreadPoolExecutor

import hypothesis
import made_runs
import pytest
from processes import Labkit

from labkit import campaign, provenance
from labkit.datasets import DATASETS, fetch
from labkit.launchers.local.warm import Program, WarmProcesses
from labkit.replicas import cores
from labkit.runs import Store
from labkit.settings import OUTPUTS, WARM
from labkit.trials.frameworks import FRAMEWORKS

pytest_plugins = ["kinds"]

# On a machine with other work an example may well take longer than hypothesis expects.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")


# What a shell starts in the background ignores SIGINT, and so would all that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    """Let the grid of faults in a cluster, which takes minutes a round, be asked for."""
    parser.addoption("--chaos", type=int, default=0, metavar="ROUNDS", help="of faults in pods")


def pytest_generate_tests(metafunc):
    """Repeat what is to be repeated."""
    if "chaos_round" in metafunc.fixturenames:
        metafunc.parametrize("chaos_round", range(metafunc.config.getoption("chaos")))


def pytest_collection_modifyitems(config, items):
    """Leave out what nobody asked for, rather than report it as skipped."""
    if not config.getoption("chaos"):
        items[:] = [item for item in items if "chaos_round" not in item.fixturenames]


@pytest.fixture(scope="session", autouse=True)
def own_directories(tmp_path_factory):
    """Keep outputs, the lock of those who measure here, and the machine's name to the tests."""
    with pytest.MonkeyPatch.context() as patch:
        temporary = tmp_path_factory.mktemp("tmp")
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv(OUTPUTS, str(tmp_path_factory.mktemp("outputs")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def made_machine(request, monkeypatch):
    """Have unit tests run on the machine that made-up runs are of, with their versions."""
    if request.node.get_closest_marker("unit"):
        monkeypatch.setattr(provenance, "machine", lambda: made_runs.MACHINE)
        monkeypatch.setattr(provenance, "versions", made_runs.versions)


@pytest.fixture
def hardware_threads(tmp_path, monkeypatch):
    """Have a machine of eight processors that are four cores: 0 and 1, 2 and 3, and so on."""
    for number in range(8):
        topology = tmp_path / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        first = number - number % 2
        (topology / "thread_siblings_list").write_text(f"{first}-{first + 1}\n")
    monkeypatch.setattr(cores, "TOPOLOGY", tmp_path)


@pytest.fixture(scope="session")
def datasets():
    """Have all data sets, from their sources if they are not there yet."""
    for name in DATASETS:
        fetch(name)


@pytest.fixture(scope="session")
def warm(tmp_path_factory, own_directories, datasets):
    """Import each framework once for all trials of all tests, also those of their subprocesses."""
    directory = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch, WarmProcesses(directory) as processes:

        def start(framework):
            processes.connect(Program.trainer(framework), threads=1).close()

        with ThreadPoolExecutor() as pool:
            list(pool.map(start, FRAMEWORKS.values()))
        patch.setenv(WARM, str(directory))
        yield processes


@pytest.fixture
def store(tmp_path):
    """Return an empty store."""
    return Store(tmp_path / "runs")


@pytest.fixture
def once(monkeypatch):
    """Have trials run once even where something else keeps the machine busy."""
    monkeypatch.setattr(campaign, "OVERLOAD_RETRIES", 0)
    for module in ("load", "kubernetes.circumstances"):  # of processes here, and of pods
        name = f"labkit.launchers.{module}.is_overloaded"
        monkeypatch.setattr(name, lambda own, other, cores: False)


@pytest.fixture
def start_labkit(tmp_path):
    """Return a function that runs a sweep in another process; its store is in ``runs``."""
    started = []

    def start(launcher="local", **values):
        started.append(Labkit(tmp_path, launcher, **values))
        return started[-1]

    yield start
    for labkit in started:
        labkit.process.kill()
        labkit.wait()


@pytest.fixture
def tensorboard_scalars(monkeypatch):
    """Return a function that reads the scalars of a directory with TensorBoard's own reader."""
    # Without this it would read through TensorFlow, and import that first.
    monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", types.ModuleType("notf"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(directory):
        events = EventAccumulator(str(directory)).Reload()
        return {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}

    return read
