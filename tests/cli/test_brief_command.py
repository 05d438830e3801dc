"""``labkit brief``."""

import pytest

pytestmark = pytest.mark.unit

SLOW = ("brief", "--reference", "--framework", "mxnet", "--batch-size", "128")


def test_a_page_of_published_runs(labkit, tmp_path):
    path = tmp_path / "new" / "brief.html"
    done = labkit(*SLOW, "--slowdown", "20", "--output", str(path))
    assert done.exit_code == 0 and done.output.split() == [str(path)]
    page = path.read_text()
    assert "slow nodes" in page and "predicted" in page and "http" not in page


def test_what_differs_is_to_be_chosen(labkit, tmp_path):
    done = labkit(*SLOW, "--output", str(tmp_path / "brief.html"))
    assert done.exit_code == 1 and "choose: --" in done.output
    assert not list(tmp_path.glob("*.html"))


def test_without_runs_it_says_so(labkit, tmp_path):
    done = labkit("brief", "--output", str(tmp_path / "brief.html"))
    assert done.exit_code == 1 and "nothing that can be shown has been measured" in done.output
