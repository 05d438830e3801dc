"""The local launcher: a trial's replicas are processes of this machine.

Each worker is held to as many cores as its trial gives it, so that it computes like the thesis's
one-CPU machine whatever its framework thinks of thread counts. A server beside a worker (MXNet's
way) shares the worker's cores; other servers and the scheduler may use any.
"""
