"""For how long a script trains, where it is not to go on until it ends by itself."""

from labkit.replicas.meeting import ENOUGH, STOP


class Duration:
    """The time that all workers' scripts are to train, and one worker's part in its end.

    First all agree that it is over: a script that dies before has died by itself. Only then are
    scripts stopped, so that one which dies of others' end is none that failed.

    Parameters
    ----------
    seconds : float
    account : Account
        Knows for how long the script has trained.
    meeting : Meeting or None
        Of all workers; None where there is but one.

    Attributes
    ----------
    enough : bool
        Whether all scripts have trained so long, this one among them.
    """

    def __init__(self, seconds, account, meeting):
        self.enough = False
        self._seconds, self._account, self._meeting = seconds, account, meeting
        self._told = set()

    def over(self, process):
        """Return whether the script is to be stopped now; ask again and again."""
        if self._account.seconds() >= self._seconds:
            self._tell(ENOUGH)
        if process.poll() is None and self._all(ENOUGH):
            self.enough = True
            self._tell(STOP)
        return self.enough and self._all(STOP)

    def keeps(self, process):
        """Return whether a worker has to stay after its script's end, as others may need it.

        One that has ended well has no more to measure, which must not keep them from their end.
        """
        if process.returncode == 0:
            self._tell(ENOUGH)
            self._tell(STOP)
        return STOP in self._told and not self._all(STOP)

    def _tell(self, occasion):
        """Tell the other workers, once, that this one has come so far."""
        if self._meeting and occasion not in self._told:
            self._meeting.come(occasion)
        self._told.add(occasion)

    def _all(self, occasion):
        """Return whether all workers have come so far."""
        return occasion in self._told and (not self._meeting or self._meeting.over(occasion))
