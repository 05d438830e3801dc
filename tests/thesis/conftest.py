"""The made-up world of the claims, judged once."""

import pytest
from made_claims import judged, world


@pytest.fixture(scope="session")
def made():
    """Return its tables, and the verdicts on them as `before`; nobody may change them."""
    results = world()
    results.before = judged(results)
    return results
