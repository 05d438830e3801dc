"""The thesis's claims as code: the runs that each needs, what decides it, and its verdict.

`rows` has the claims, `checks` the tests that they share, `labkit.thesis.thresholds` what their
words mean; `nodes` finds the runs, `findings` compares, `verdicts` concludes, and `simulated` says
beside it what nodes like the thesis's would do.
"""

from labkit.thesis.claims.face import Verdicts, claims, find
from labkit.thesis.claims.rows import CLAIMS
from labkit.thesis.claims.verdicts import VERDICTS, Claim, Verdict

__all__ = ["CLAIMS", "VERDICTS", "Claim", "Verdict", "Verdicts", "claims", "find"]
