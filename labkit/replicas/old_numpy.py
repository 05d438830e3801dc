"""Run a script with a name in numpy that it dropped in 1.24, and that MXNet 1.9 still imports.

Its arguments are the script and the script's own.
"""

import os
import runpy
import sys

try:
    import numpy
except ImportError:  # then the script does without
    pass
else:
    if "bool" not in vars(numpy):
        numpy.bool = numpy.bool_

if __name__ == "__main__":
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
