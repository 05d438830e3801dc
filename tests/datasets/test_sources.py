"""The table of data sets, and the files checked against it."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from publishers import LABELS, sha256, web

from labkit import datasets
from labkit.datasets import sources
from labkit.errors import LabkitError
from labkit.settings import REPOSITORY, data_directory

pytestmark = pytest.mark.unit


def test_the_table_holds_the_three_data_sets_of_the_thesis_and_mnist():
    assert list(datasets.DATASETS) == ["fashion-mnist", "mnist", "ptb"]
    for dataset in datasets.DATASETS.values():
        assert dataset.title and dataset.licence
        assert {source.client for source in dataset.sources} & {"apt-get", "npm", "pip"}
        for file in dataset.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.bytes > 0


@pytest.mark.parametrize("name", ["fashion-mnist", "mnist"])
def test_samples_of_images_are_what_the_file_has_room_for(name):
    images = datasets.DATASETS[name].files[0]
    assert datasets.samples(name) == (images.bytes - 16) / (28 * 28)


def test_checksum_follows_its_formula():
    a, b = (sum for sum in (file.sha256 for file in datasets.DATASETS["ptb"].files[4::2]))
    lines = f"{a}  ptb.train.ids.npy\n{b}  ptb.test.ids.npy"
    assert datasets.checksum("ptb") == sha256(lines.encode())


def test_checksum_changes_with_what_trainers_read_and_with_nothing_else(monkeypatch):
    dataset = datasets.DATASETS["ptb"]
    before = datasets.checksum("ptb")
    for at, file in enumerate(dataset.files):
        files = list(dataset.files)
        files[at] = replace(file, sha256="0" * 64)
        monkeypatch.setitem(datasets.DATASETS, "ptb", replace(dataset, files=tuple(files)))
        assert (datasets.checksum("ptb") != before) == file.trained_on


def test_an_unknown_name_is_an_error_that_offers_the_nearest():
    for call in (datasets.fetch, datasets.verify, datasets.samples, datasets.checksum):
        with pytest.raises(
            datasets.DataError, match="'fashon-mnist'; did you mean 'fashion-m"
        ):
            call("fashon-mnist")


def test_a_missing_table_says_how_labkit_is_installed(tmp_path):
    with pytest.raises(LabkitError, match="sources.toml is missing.*editable"):
        sources.read_sources(tmp_path / "sources.toml")


def test_the_directory_is_the_repositorys_or_the_environments(monkeypatch, tmp_path):
    monkeypatch.delenv("LABKIT_DATA", raising=False)
    assert data_directory() == REPOSITORY / "data"
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    assert data_directory() == tmp_path


def test_importing_is_light():
    heavy = "{'numpy', 'requests', 'pandas', 'tensorflow', 'mxnet'}"
    code = f"import sys, labkit.datasets; assert not set(sys.modules) & {heavy}"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- verified -------------------------------------------------------------------------------


def test_verify_names_the_missing_file_and_the_command(server, toy, folder):
    toy(web(server))
    with pytest.raises(datasets.DataError, match=f"{folder / 'images'} is missing.*labkit data"):
        datasets.verify("toy")
    assert not folder.exists()


@given(at=st.integers(0, len(LABELS) - 1), change=st.integers(1, 255))
def test_verify_names_file_and_sums_for_any_changed_byte(tmp_path_factory, at, change):
    changed = bytearray(LABELS)
    changed[at] ^= change
    directory = tmp_path_factory.mktemp("data")
    (directory / "toy").mkdir()
    (directory / "toy" / "labels").write_bytes(changed)
    dataset = sources.Dataset(
        "toy", "", "", 1, (sources.File("labels", 1_000, sha256(LABELS)),), ()
    )
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(datasets.DataError) as caught,
    ):
        patch.setattr(sources, "DATASETS", {"toy": dataset})
        datasets.verify("toy", directory)
    for part in (str(directory / "toy" / "labels"), sha256(LABELS), sha256(changed)):
        assert part in str(caught.value)
    assert (directory / "toy" / "labels").read_bytes() == changed  # never repaired
