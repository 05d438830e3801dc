"""Manifests: a trial as the objects of a Kubernetes cluster."""

from __future__ import annotations

import base64
import json
import math
import posixpath
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import yaml

from labkit import replicas
from labkit.launchers.kubernetes import images
from labkit.launchers.kubernetes.api import CONTAINER, INSTANCE, NETWORK
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.placement import arguments, own_arguments
from labkit.replicas import rendezvous
from labkit.replicas.pod import Job
from labkit.settings import TEMPLATES
from labkit.trials import Trial
from labkit.trials.demand import beside_workers, is_slow

HOME = "/labkit"
"""Where a pod finds its files."""

SCRATCH = "/tmp"
"""Where it can write, and a script runs."""

ROOM = 1 << 20
"""Bytes that Kubernetes lets the files of a ConfigMap have together."""

AGENT = ("pod.py", "podlog.py", "machine.py", "rendezvous.py", "cores.py", "cgroups.py")
"""What starts a pod's replicas, and what it imports."""

PORTS = {"scheduler": 9000, "server": 9001, "worker": 9002}
"""Of each role; the first role that a trial has coordinates its workers."""

MEETING = 9004
"""The first port at which the first worker has workers meet (`labkit.replicas.meeting`); the one
before is that of `labkit.replicas.rendezvous`."""

RENDEZVOUS_TIMEOUT = 120.0
"""Seconds for which a pod waits until it can find those that it depends on."""

PER_REPLICA = 6.0
"""Further ones for each replica of its trial: two cores start one in three."""

TIME_TO_LIVE = 3600
"""Seconds for which a finished trial stays, for a labkit that comes back for its results."""

DEADLINE_MARGIN = 300
"""Seconds after the deadline at which the cluster ends a trial that labkit has not ended: the
cluster counts from the submission on, labkit without what was waited for room."""

NODES = {"kubernetes.io/arch": "amd64"}
"""The labels of nodes that can run the images: MXNet has wheels for no other processor."""

QUEUE_TIME = 86400
"""The same where trials wait in a queue of the cluster's."""

SECRET = 32
"""Letters of the secret of a trial's pods."""

SCHEDULER_CPU = 0.05
"""Cores reserved for a scheduler, which introduces replicas to each other and then sleeps."""


def name_of(trial: Trial) -> str:
    """Return the name of a trial's objects: short, as pods' names are made from it."""
    return f"{trial.framework}-{trial.identity[:12]}"


def selector_of(name: str) -> str:
    """Return the labels by which a trial's objects are found."""
    return f"{INSTANCE}={name}"


def pods_of(trial: Trial) -> dict[str, list[str]]:
    """Return the roles in each kind of pod; a server beside a worker is in the worker's."""
    beside = beside_workers(trial)
    kinds = {role: [role] for role in trial.replicas if not (beside and role == "server")}
    if beside:
        kinds["worker"] = ["server", "worker"]
    return kinds


def files_of(
    trial: Trial, settings: Settings, deadline: float, compute: float | None, secret: str
) -> dict[str, bytes]:
    """Return the files that each pod of a trial finds, by their path below `HOME`.

    Parameters
    ----------
    trial : Trial
    settings : Settings
        Of the cluster.
    deadline : float
        Seconds the trial may take.
    compute : float or None
        Seconds that a gradient takes on a quiet core, for a trial with a slowdown.
    secret : str
        That its pods share. It is in the ConfigMap, which a trial has once: so they agree,
        whichever labkit has created which of its objects, and labkit needs no right to Secrets.
    """
    job = job_of(trial, settings, deadline, compute, secret)
    row = trial.runtime
    paths = [replicas.HERE / name for name in ("__init__.py", *AGENT, *row.shared)]
    return {
        **{_place_of(path): path.read_bytes() for path in (*paths, row.trainer)},
        "labkit/__init__.py": b"",  # a pod has no use for what labkit itself offers
        **trial.carried,
        "job.json": json.dumps(job._asdict()).encode() + b"\n",
    }


def _place_of(path: Path) -> str:
    """Return where a file of labkit's, or a trainer from elsewhere, is below `HOME`."""
    name = posixpath.relpath(path, replicas.HERE)
    name = path.name if name.startswith("../../") else name
    return posixpath.normpath(f"labkit/replicas/{name}")


def keys_of(files: Iterable[str]) -> dict[str, str]:
    """Return the ConfigMap's key for each file: it may hold no slash, and few other characters."""
    keys: dict[str, str] = {}
    for file in files:
        key = re.sub(r"[^-._a-zA-Z0-9]", "-", file)
        while key in keys.values():
            key = f"-{key}"
        keys[file] = key
    return keys


def mistakes(trial: Trial, settings: Settings, deadline: float) -> Iterator[str]:
    """Yield why a trial cannot run in pods, whatever the cluster says."""
    if not trial.image and trial.runtime.recipe is None:
        yield (
            f"image: missing; labkit has none with {trial.runtime.title}, so --image must name "
            "one that has it, and Python 3.6 or later as python3"
        )
    files = files_of(trial, settings, deadline, None, "-" * SECRET)
    if (size := sum(map(len, files.values()))) > ROOM:
        own = sum(map(len, trial.carried.values()))
        yield (
            f"{trial.file.name}: {own:,} bytes with the files beside it that it imports, and "
            f"{size - own:,} of labkit's own, are more than the {ROOM:,} that a ConfigMap may "
            "hold. Put what is large into an image of your own: --image"
        )


def job_of(
    trial: Trial, settings: Settings, deadline: float, compute: float | None, secret: str
) -> Job:
    """Return what all pods of a trial are given; see `files_of`."""
    name, framework = name_of(trial), trial.runtime
    hosts = {
        role: [f"{name}-{kind}-{i}.{name}:{PORTS[role]}" for i in range(trial.replicas[role])]
        for kind, roles in pods_of(trial).items()
        for role in roles
    }
    alone = sum(trial.replicas.values()) == 1
    # Where most wait, whoever computes takes the core that is free.
    shared = settings.share_nodes or is_slow(trial)
    coordinator = None if alone else next(role for role in PORTS if role in hosts)
    # MXNet's scheduler introduces everybody. TensorFlow's workers must know the servers, and these
    # the workers, from whom they fetch gradients: a name that is not found would end the trial.
    known = {role: [] if alone else [coordinator] for role in trial.replicas}
    if coordinator == "server":
        known["server"] = ["server", "worker"]
    if trial.meeting and not alone:
        first, _ = rendezvous.split(hosts["worker"][0])
        hosts |= {name: [f"{first}:{MEETING + i}"] for i, name in enumerate(trial.meeting)}
        known = {role: list(hosts) for role in known}  # whom a script looks for, nobody knows
    file = f"{HOME}/{next(iter(trial.carried))}"
    wait = settings.wait_for_room
    patience = RENDEZVOUS_TIMEOUT + PER_REPLICA * sum(trial.replicas.values()) + wait
    return Job(
        trainer=_place_of(framework.trainer),
        arguments=arguments(trial, file, SCRATCH, "/data", deadline + wait, compute),
        worker_arguments=[own_arguments(trial, "worker", i) for i in range(trial.workers)],
        hosts=hosts,
        coordinator=coordinator,
        known=known,
        servers_wait="server" in hosts and trial.ends_servers,
        cores_per_worker=0 if shared else trial.threads,
        rendezvous_timeout=patience,
        secret=secret,
        python=trial.python or "",
        cpu=trial.cpu,
    )


def image_of(framework: str, settings: Settings, public: bool = False) -> str:
    """Return the name of a framework's image; of the public one if `public` or settings say so."""
    tag = images.tag(framework, public or settings.public_images)
    return settings.image.format(framework=framework, tag=tag)


def render(
    trial: Trial,
    settings: Settings,
    deadline: float,
    submitted: float = 0.0,
    owner_uid: str = "",
    secret: str | None = None,
    compute: float | None = None,
) -> str:
    """Return a trial's objects as YAML documents, the workers' Job first.

    Parameters
    ----------
    trial : Trial
    settings : Settings
        Of the cluster.
    deadline : float
        Seconds the trial may take.
    submitted : float
        When it is submitted, in seconds since the epoch.
    owner_uid : str
        Of the workers' Job, which owns the others; known only when it has been created.
    secret : str, optional
        That its pods share; by default a new one.
    compute : float, optional
        Seconds that a gradient takes on a quiet core, for a trial with a slowdown.

    Raises
    ------
    ClusterError
        If the images do not have the trial's data set, or if its nodes are to be slow and no core
        was calibrated.
    """
    if is_slow(trial) and compute is None:
        raise ClusterError(
            f"{trial.name}: cannot be rendered with slowdown {trial.slowdown:g}, since nobody has "
            "measured yet how long a gradient takes on a core of the cluster, and slow nodes take "
            "a multiple of that. `labkit run --launcher kubernetes` measures it and runs the "
            "trial; to render it, leave out the slowdown."
        )
    if settings.public_images and images.PRIVATE in trial.datasets:
        raise ClusterError(
            f"{trial.name} learns from {images.PRIVATE}, which public images do not have: "
            "set public_images = false in cluster.toml, and build an image with it."
        )
    name, kinds = name_of(trial), pods_of(trial)
    secret = secrets.token_hex(SECRET // 2) if secret is None else secret
    pods = [
        {
            "component": kind,
            "roles": roles,
            "count": trial.replicas[kind],
            "cpu": trial.threads,
            "cpu_request": _cpu_request(trial, kind, settings),
        }
        for kind, roles in sorted(kinds.items(), reverse=True)
    ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined
    )
    environment.filters["yaml"] = json.dumps  # JSON is YAML, on one line
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    text = environment.get_template("trial.yaml.j2").render(
        trial=trial, name=name, settings=settings, pods=pods, submitted=submitted,
        deadline=math.ceil(deadline + settings.wait_for_room)
        + (QUEUE_TIME if settings.queue else DEADLINE_MARGIN),
        time_to_live=TIME_TO_LIVE, owner_uid=owner_uid, container=CONTAINER, scratch=SCRATCH,
        network=NETWORK,
        image=trial.image or image_of(trial.framework, settings),
        described={name: value for name, value in trial.columns.items() if value is not None},
        node_selector=NODES | settings.node_selector, home=HOME, is_plain=_is_plain,
        files=(files := files_of(trial, settings, deadline, compute, secret)), keys=keys_of(files),
    )  # fmt: skip
    return re.sub(r"[ \t]+$", "", text.strip(), flags=re.M) + "\n"


def _cpu_request(trial: Trial, kind: str, settings: Settings) -> float:
    """Return how many cores are reserved for a pod."""
    # A slow node computes in so much of its time; the rest of a core is for its like.
    share = trial.slowdown if kind == "worker" and is_slow(trial) else 1
    request = min(settings.cpu_request or trial.threads, trial.threads / share)
    request = SCHEDULER_CPU if kind == "scheduler" else request
    # Less than the limit to come: whether the two are the same may not change while a pod runs.
    return round(min(request, 0.9 * trial.cpu) if trial.cpu else request, 3)


def _is_plain(content: bytes) -> bool:
    """Whether YAML can show a file as lines of text, and give the same bytes back."""
    try:
        *lines, rest = content.decode().split("\n")
    except UnicodeDecodeError:
        return False
    shown = all(line.isprintable() and line == line.rstrip() for line in lines)
    return not content or (shown and not rest and lines[0][:1].strip() and lines[-1] != "")


def objects(text: str) -> list[dict[str, Any]]:
    """Return the objects in rendered YAML."""
    return list(yaml.load_all(text, yaml.CSafeLoader))
