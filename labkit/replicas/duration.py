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
    meeting : Meeting
        Of all workers.

    Attributes
    ----------
    enough : bool
        Whether all scripts have trained so long, this one among them.
    """

    def __init__(self, seconds, account, meeting):
        self.enough = False
        self._seconds, self._account, self._meeting = seconds, account, meeting

    def over(self, process):
        """Return whether the script is to be stopped now; ask again and again."""
        if self._account.seconds() >= self._seconds:
            self._meeting.come(ENOUGH)
        if process.poll() is None and self._meeting.over(ENOUGH):
            self.enough = True
            self._meeting.come(STOP)
        return self._meeting.over(STOP)

    def keeps(self, process):
        """Return whether a worker has to stay after its script's end, as others may need it.

        One that has ended well has no more to measure, which must not keep them from their end.
        """
        if process.returncode == 0:
            self._meeting.come(ENOUGH)
            self._meeting.come(STOP)
        return (self.enough or process.returncode == 0) and not self._meeting.over(STOP)
