"""The one family of errors that labkit shows to its users."""


class LabkitError(Exception):
    """Something the user can act on; its message says what was wrong, where, and what to do."""
