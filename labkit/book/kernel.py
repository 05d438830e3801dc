"""A notebook's kernel, forked from a process that has imported what notebooks import.

This file has two sides. A fork server (`labkit.replicas.forkserver`) imports it and calls `main`
in a forked process. And Jupyter starts it as the kernel's command,

    python kernel.py SOCKET DIRECTORY -f CONNECTION_FILE ...

which asks the fork server for such a process, lives as long as that does, passes interrupts on to
it, and ends it when it is ended itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path

NAME = "kernel"


def ask() -> int:
    """Have a kernel forked and wait for its end; return its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until there is a kernel to interrupt
    path, directory, *arguments = sys.argv[1:]
    request = {
        "spawn": NAME,
        "argv": [json.dumps(dict(os.environ)), os.getcwd(), *arguments],
        "cpus": sorted(os.sched_getaffinity(0)),
        "directory": directory,
    }
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        server.sendall(json.dumps(request).encode() + b"\n")
        interrupt = json.dumps({"kill": NAME, "signal": signal.SIGINT}).encode() + b"\n"
        signal.signal(signal.SIGINT, lambda *_: server.sendall(interrupt))
        for line in server.makefile():
            code = json.loads(line).get("code")
            if code:
                sys.stderr.write(Path(directory, f"{NAME}.err").read_text(errors="replace"))
            if code is not None:
                return code
    return 1


if __name__ == "__main__":
    sys.exit(ask())
else:
    # Python looks for modules first where the fork server's own file is: Jupyter must not.
    package = Path(__file__).parents[1]
    sys.path[:] = [path for path in sys.path if not Path(path).is_relative_to(package)]
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"

    import matplotlib_inline.backend_inline  # noqa: F401
    from ipykernel.iostream import IOPubThread
    from ipykernel.kernelapp import launch_new_instance

    import labkit.campaign
    import labkit.figures.style
    import labkit.thesis.figures  # noqa: F401

    # It would listen on a TCP port for the prints of forked processes; so it does without these.
    IOPubThread._setup_pipe_in = lambda self: setattr(self, "_pipe_flag", False)

parse = tuple


def main(request: tuple[str, ...]) -> None:
    """Be a kernel: in an environment and a working directory, with IPython's own arguments."""
    environment, directory, *arguments = request
    os.environ.clear()
    os.environ.update(json.loads(environment))
    os.chdir(directory)
    sys.argv[:] = [NAME, *arguments]
    launch_new_instance()
