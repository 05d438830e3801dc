"""Places are the same ones for all processes, wherever each of them runs."""

import os
from pathlib import Path

import pytest

from labkit import settings

pytestmark = pytest.mark.unit


def test_a_relative_place_is_so_to_where_labkit_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (settings.OUTPUTS, settings.DATA, settings.CLUSTER):
        monkeypatch.setenv(name, "mine")
    told = settings.places()
    os.chdir("/")
    assert set(told.values()) == {str(tmp_path / "mine")}


def test_a_home_is_found(monkeypatch):
    monkeypatch.setenv(settings.OUTPUTS, "~/mine")
    assert settings.outputs() == Path.home() / "mine"


def test_without_any_they_are_in_the_repository(monkeypatch):
    for name in (settings.OUTPUTS, settings.DATA, settings.CLUSTER):
        monkeypatch.delenv(name, raising=False)
    home = settings.REPOSITORY
    assert (settings.outputs(), settings.data_directory()) == (home / "outputs", home / "data")
    assert settings.cluster_file() is None
