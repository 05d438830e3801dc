"""Container images: what they are built from, and by which tool; no cluster is needed."""

import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from click.testing import CliRunner

from labkit import datasets as data
from labkit.cli import main
from labkit.launchers.kubernetes import images
from labkit.settings import CLUSTER, REPOSITORY
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


def test_everybody_may_read_what_is_in_an_image(tmp_path, datasets):
    """Pods run as another user than the one who built it, perhaps with a umask of 077."""
    before = os.umask(0o077)
    try:
        images.context("mxnet", tmp_path / "context")
    finally:
        os.umask(before)
    found = list((tmp_path / "context").rglob("*"))
    assert len(found) > 5
    for path in found:
        wanted = 0o755 if path.is_dir() else 0o644
        assert path.stat().st_mode & 0o777 == wanted, path


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


def test_a_public_image_has_a_tag_of_its_own(tools, datasets, monkeypatch, tmp_path):
    """Otherwise whoever pulls one by its tag might get the other."""
    tools("buildah")
    (tmp_path / "cluster.toml").write_text('image = "here/labkit-{framework}:{tag}"')
    monkeypatch.setenv(CLUSTER, str(tmp_path / "cluster.toml"))
    names = []
    for flags in ([], ["--public"]):
        for command in ("build", "push"):
            done = CliRunner().invoke(main, ["image", command, "mxnet", *flags])
            assert done.exit_code == 0, done.output
            names.append(done.output.strip())
    own, public = names[0], names[2]
    assert names == [own, own, public, public] and own != public
    calls = [call for call in tools.calls.read_text().splitlines() if " info" not in call]
    assert [name in call for name, call in zip(names, calls, strict=True)] == [True] * 4


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
