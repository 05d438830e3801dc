"""What a script finds that is started as its framework's own launcher would start it."""

import json
import re

from labkit.replicas.rendezvous import split


def _cluster(args):
    """Return the hosts as TensorFlow names them: ``ps`` for servers, ``worker`` for workers."""
    found = {"ps": args.hosts.get("server", []), "worker": args.hosts.get("worker", [])}
    return {job: hosts for job, hosts in found.items() if hosts}


def _job(args):
    return "ps" if args.role == "server" else args.role


def of_mxnet(args):
    """Return what ps-lite reads; nothing without servers, as for a script that trains alone."""
    if not args.hosts.get("server"):
        return {}
    host, _, port = args.hosts["scheduler"][0].rpartition(":")
    own = args.hosts[args.role][args.index].rpartition(":")[0]
    found = {
        "DMLC_ROLE": args.role,
        "DMLC_PS_ROOT_URI": host,
        "DMLC_PS_ROOT_PORT": port,
        "DMLC_NUM_SERVER": len(args.hosts["server"]),
        "DMLC_NUM_WORKER": len(args.hosts["worker"]),
    }
    return found if args.role == "scheduler" else dict(found, DMLC_NODE_HOST=own)


def of_tensorflow(args):
    """Return what TensorFlow's cluster resolver reads."""
    task = {"type": _job(args), "index": args.index}
    return {"TF_CONFIG": json.dumps({"cluster": _cluster(args), "task": task})}


def of_torch(args):
    """Return what torchrun sets, and where gloo listens on one machine."""
    workers = args.hosts.get("worker", ["127.0.0.1:0"])
    host, port = split(workers[0])
    machines = [split(worker)[0] for worker in workers]
    own = machines[args.index]
    found = {
        "RANK": args.index,
        "WORLD_SIZE": len(workers),
        "LOCAL_RANK": machines[: args.index].count(own),
        "LOCAL_WORLD_SIZE": machines.count(own),
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
    }
    if host.startswith("127."):
        found.update(GLOO_SOCKET_IFNAME="lo", TP_SOCKET_IFNAME="lo")
    return found


ENVIRONMENTS = {"mxnet": of_mxnet, "tensorflow": of_tensorflow, "torch": of_torch}
"""What a script finds in its environment, by its framework."""


STARTERS = {"mxnet": "old_numpy.py"}
"""Which file beside this one runs a script, by its framework; most need none."""


def placeholders(args):
    """Return what stands for what in a script's arguments, between braces."""
    cluster = _cluster(args)
    return {
        "ps_hosts": ",".join(cluster.get("ps", [])),
        "worker_hosts": ",".join(cluster.get("worker", [])),
        "job_name": _job(args),
        "task_index": args.index,
        "workers": len(cluster.get("worker", [])),
        "batch_size": args.batch_size,
        "seed": args.seed,
        "data": args.data,
    }


def filled_in(argument, known):
    """Return an argument with what its placeholders stand for; other braces are left alone."""
    return re.sub(
        r"\{(\w+)\}", lambda found: str(known.get(found.group(1), found.group(0))), argument
    )
