"""When a machine was too busy for what was measured on it."""

import pytest

from labkit.launchers.load import is_overloaded

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("own", "other", "cores", "due"), [
    (2.0, 0.0, 2, False),  # all that is used is ours
    (1.9, 0.1, 2, False),  # a twentieth of the machine is no disturbance
    (1.5, 0.5, 2, True),  # nothing was left idle, and others had a quarter
    (1.0, 0.5, 2, False),  # half a core was idle: nobody was held up
    (0.5, 1.4, 2, True),
    (0.1, 1.9, 2, True),
    (1.0, 5.0, 8, False),
    (1.0, 6.9, 8, True),
    (0.7, 0.3, 1, True),
])  # fmt: skip
def test_is_overloaded(own, other, cores, due):
    assert is_overloaded(own, other, cores) is due
