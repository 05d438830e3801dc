"""What measuring a sweep would take, before anything starts."""

from labkit.planning.estimate import Cost, Experience
from labkit.planning.plan import Plan, kept

__all__ = ["Cost", "Experience", "Plan", "kept"]
