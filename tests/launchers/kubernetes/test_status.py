"""The commands for what runs in a real cluster."""

import re
import signal

import pytest
from click.testing import CliRunner
from small_trials import ENDLESS, trial

from labkit import doctor
from labkit.cli import main
from labkit.launchers.kubernetes import manifests

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def test_commands(namespace, start_labkit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def labkit(*arguments):
        done = CliRunner().invoke(main, arguments)
        return done.exit_code, done.output

    check = doctor.cluster()
    assert check.ok and namespace.name in check.found
    assert labkit("ps") == (0, f"no trials in namespace '{namespace.name}'\n")
    assert labkit("clean") == (0, f"nothing of labkit's is in namespace '{namespace.name}'\n")
    one = trial(workers=2, **ENDLESS)
    name = manifests.name_of(one)
    started = start_labkit("kubernetes", **one.model_dump(exclude_none=True))
    for event in started.events():
        if event["kind"] == "step":
            break
    code, table = labkit("ps")
    (row,) = (line for line in table.splitlines() if line.startswith(name))
    assert code == 0 and re.search(r"scheduler 1/1 running, worker 2/2 running +\d+ s", row)
    assert row.split()[-5:] == ["lenet5", "2", "32", "0.05", "1"]
    code, lines = labkit("logs", name, "--role", "worker", "--index", "1")
    assert code == 0 and "worker-1| @labkit" in lines
    assert "worker-0|" not in lines and "server-1|" not in lines
    code, error = labkit("logs", name[:-1])
    assert code == 1 and f"did you mean '{name}'?" in error
    started.signal(signal.SIGKILL)
    assert labkit("stop", name) == (0, f"{name}: gone\n")
    assert namespace.left() == []
