"""What diagrams are drawn with: sheets measured in inches, and arrows from edge to edge."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lessons import is_drawn
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from labkit.course import diagrams
from labkit.figures.page import SIZE, title_of

pytestmark = pytest.mark.unit

places = st.tuples(st.floats(-5, 5), st.floats(-5, 5))


@pytest.mark.parametrize(("panels", "columns", "wide"), [(1, None, 1), (3, None, 3), (4, 2, 2)])
def test_a_sheet_is_measured_in_inches_and_a_shape_is_round(panels, columns, wide):
    names = [f"panel {k}" for k in range(panels)]
    with diagrams.sheet("2.0 A sheet", 4.0, names, columns) as (figure, found):
        for axes in found:
            diagrams.circle(axes, (0.5, 0.5), "a", radius=0.4)
    assert title_of(figure) == "2.0 A sheet" and is_drawn(figure)
    assert [axes.get_title("left") for axes in found] == names
    for axes in found:
        assert axes.get_xlim() == (0, SIZE[0] / wide) and not axes.axison
        assert axes.get_ylim() == (0, 4.0 / (panels // wide))
        (shape,) = axes.patches
        box = shape.get_window_extent()
        assert box.width == pytest.approx(box.height)


def test_plots_have_axes():
    with diagrams.sheet("2.0 Plots", 2.0, ["one", "other"], plots=True) as (_, found):
        assert all(axes.axison for axes in found)


@given(places, places, st.floats(0, 0.4))
def test_an_arrow_goes_from_edge_to_edge(start, end, gap):
    length = np.hypot(*np.subtract(end, start))
    assume(length > 1)
    axes = Figure().add_subplot()
    diagrams.arrow(axes, start, end, "text", gap)
    drawn, text = axes.texts
    first, last = np.array(drawn.xyann), np.array(drawn.xy)
    assert np.hypot(*(first - start)) == pytest.approx(gap, abs=1e-9)
    assert np.hypot(*(last - end)) == pytest.approx(gap, abs=1e-9)
    assert np.hypot(*(last - first)) == pytest.approx(length - 2 * gap)
    assert text.get_position() == pytest.approx((first + last) / 2, abs=1e-9)


@pytest.mark.parametrize("colour", diagrams.COLOURS)
def test_a_text_can_be_read_on_a_pale_colour(colour):
    assert min(to_rgb(diagrams.pale(colour))) > 0.8
