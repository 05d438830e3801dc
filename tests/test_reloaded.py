"""What a page asks for that was loaded again while its sweep ran."""

import json
import os
import time

import pytest

from labkit.progress.reloaded import Reloaded

pytestmark = pytest.mark.unit


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Have this process started by a Jupyter server over a folder, in which outputs lie."""
    record = tmp_path / "runtime" / f"jpserver-{os.getppid()}.json"
    record.parent.mkdir()
    root = tmp_path / "root"
    record.write_text(json.dumps({"root_dir": str(root), "base_url": "/user/me/"}))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(record.parent))
    monkeypatch.setenv("LABKIT_OUTPUTS", str(root / "my outputs"))
    return root / "my outputs" / "progress"


def test_what_is_shown_is_also_in_a_file_that_the_server_hands_out(served):
    reloaded = Reloaded()
    shown = reloaded.keep("<p>half</p>")
    (file,) = served.glob("*.html")
    assert shown.startswith("<div><p>half</p><script>")
    assert f'"/user/me/files/my%20outputs/progress/{file.name}"' in shown
    assert file.read_text() == "<p>half</p>"
    reloaded.finish("<p>all</p>")
    assert file.read_text().startswith("<p>all</p>") and "Run the cell again" in file.read_text()
    reloaded.close()
    assert file.read_text() == ""
    assert [path.name for path in served.iterdir()] == [file.name]


def test_a_sweep_leaves_the_files_of_others_until_they_are_old(served):
    served.mkdir(parents=True)
    for name, age in (("old", 100_000), ("new", 60)):
        (served / f"{name}.html").touch()
        os.utime(served / f"{name}.html", (time.time() - age,) * 2)
    Reloaded()
    assert [path.name for path in served.iterdir()] == ["new.html"]


@pytest.mark.parametrize("why", ["no server", "outputs elsewhere"])
def test_where_the_server_hands_out_no_outputs_they_are_as_they_were(
    served, tmp_path, monkeypatch, why
):
    elsewhere = {"no server": "JUPYTER_RUNTIME_DIR", "outputs elsewhere": "LABKIT_OUTPUTS"}
    monkeypatch.setenv(elsewhere[why], str(tmp_path / "elsewhere"))
    reloaded = Reloaded()
    assert reloaded.keep("<p>half</p>") == "<p>half</p>"
    reloaded.finish("<p>all</p>")
    assert not served.exists() and not (tmp_path / "elsewhere").exists()
