"""``labkit figure``."""

import pytest

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("number", ["6.1b", "6.3"])
def test_a_figure_is_drawn_from_the_published_run(labkit, tmp_path, number):
    drawn = labkit("figure", number, "--reference", "--output", str(tmp_path))
    assert drawn.exit_code == 0, drawn.output
    assert {path.suffix for path in tmp_path.glob("figure-*")} == {".svg", ".png"}
