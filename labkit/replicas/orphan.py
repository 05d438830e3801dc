"""No process outlives its parent: the kernel ends it."""

import ctypes

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when its parent ends; 0 takes it back."""
    if LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
