"""Container images: what they are built from, and by which tool; no cluster is needed."""

import shutil
import subprocess
from dataclasses import replace

import pytest

from labkit import datasets as data
from labkit.launchers.kubernetes import images
from labkit.settings import REPOSITORY
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_an_image_is_built_from(framework, tmp_path, datasets):
    images.context(framework, tmp_path / "all")
    assert (tmp_path / "all" / "Containerfile").exists()
    for name in data.DATASETS:
        data.verify(name, tmp_path / "all" / "data")
    images.context(framework, tmp_path / "public", public=True)
    assert sorted(p.name for p in (tmp_path / "public" / "data").iterdir()) == [
        "fashion-mnist", "mnist",
    ]  # fmt: skip


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_images_are_pinned_like_the_lock_file(framework):
    def pins(path):
        lines = path.read_text().splitlines()
        return {line.split()[0] for line in lines if "==" in line and not line.startswith("#")}

    packages = pins(FRAMEWORKS[framework].recipe / "requirements.txt")
    assert packages and packages <= pins(REPOSITORY / "requirements.lock")


def test_another_recipe_is_another_image(monkeypatch, tmp_path):
    before = images.tag("mxnet")
    assert before != images.tag("tensorflow")
    row = FRAMEWORKS["mxnet"]
    shutil.copytree(row.recipe, tmp_path / "recipe")
    monkeypatch.setitem(FRAMEWORKS, "mxnet", replace(row, recipe=tmp_path / "recipe"))
    assert images.tag("mxnet") == before
    with (tmp_path / "recipe" / "Containerfile").open("a") as file:
        file.write("# changed\n")
    assert images.tag("mxnet") != before


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """Return a function that makes a tool of that name, which notes how it is called."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name, code=0):
        tool = tmp_path / name
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\nexit {code}\n')
        tool.chmod(0o755)

    make.calls = tmp_path / "calls"
    return make


def test_the_first_tool_that_works_builds(tools, datasets):
    tools("docker", code=1)  # installed, but its daemon does not answer
    tools("buildah")
    images.build("mxnet", "here/labkit-mxnet:1", extra=["--network", "host"])
    images.push("here/labkit-mxnet:1")
    calls = tools.calls.read_text().splitlines()
    assert calls[0] == "docker info"
    assert any(
        call.startswith("buildah build --tag here/labkit-mxnet:1 --network host /")
        for call in calls
    )
    assert calls[-1] == "buildah push here/labkit-mxnet:1"


def test_no_tool_builds(tools):
    tools("docker", code=1)
    with pytest.raises(images.ImageError) as caught:
        images.build("mxnet", "here/labkit-mxnet:1")
    assert "docker: it fails" in str(caught.value)
    assert "podman: not installed" in str(caught.value)


def test_a_failing_tool(tools, monkeypatch, datasets):
    tools("buildah")
    run = subprocess.run

    def fail(command, **options):
        return run(["/bin/false"]) if command[1] == "build" else run(command, **options)

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(images.ImageError, match="build .* left with code"):
        images.build("mxnet", "here/labkit-mxnet:1")
