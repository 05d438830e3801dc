"""A replica's command line."""

import os

import pytest

from labkit.replicas.arguments import parse
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """Keep what the command line sets for the frameworks' libraries to the test."""
    monkeypatch.setattr(os, "environ", dict(os.environ))


@pytest.mark.parametrize(("arguments", "says"), [
    (["--strategy=async-ps"], "needs --hosts"),
    (["--strategy=sync-ps"], "needs --hosts"),
    (["--strategy=async_ps"], "'async_ps' (choose from 'single', 'async-ps', 'sync-ps')"),
    (["--initializer=he"], "invalid choice: 'he'"),
    (["--optimizer=adam"], "invalid choice: 'adam'"),
    (["--steps=many"], "invalid int value: 'many'"),
])  # fmt: skip
def test_mistakes(arguments, says, capsys):
    with pytest.raises(SystemExit) as left:
        parse(arguments)
    assert left.value.code == 2
    assert says in capsys.readouterr().err


def test_strategies():
    """A trainer takes those that its framework's row has; one that adds its own says so."""
    for framework in FRAMEWORKS.values():
        for strategy in framework.strategies:
            hosts = '--hosts={"worker": []}'
            assert parse([f"--strategy={strategy}", hosts]).strategy == strategy
    assert parse(['--hosts={"worker": []}'], strategies=("local-sgd",)).strategy == "local-sgd"


def test_threads():
    parse(["--threads=3"])
    assert os.environ["OMP_NUM_THREADS"] == "3"
