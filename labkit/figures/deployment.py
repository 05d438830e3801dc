"""A picture of a trial in a cluster, drawn from the objects that labkit would create."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labkit.figures.page import Figure, theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 3
"""Pods of a Job that are drawn; more are hinted at."""

COLOURS = {"Job": "#dbe9f6", "pod": "#ffffff", "replica": "#fde7c5", "Service": "#e3f1dc",
           "ConfigMap": "#ece3f3", "NetworkPolicy": "#f3e3e3"}  # fmt: skip


def deployment(objects: Sequence[dict[str, Any]], *, title: str | None = None) -> Figure:
    """Draw a trial's objects: Jobs with their pods and replicas, and what those share.

    Parameters
    ----------
    objects : sequence of dict
        As `labkit.launchers.kubernetes.manifests.objects` returns them.
    title : str, optional
        Instead of a neutral one; ``{}`` in it stands for that one.
    """
    neutral = "What a trial is in a cluster"
    with theme():
        return _draw(objects, neutral if title is None else title.replace("{}", neutral))


def _draw(objects: Sequence[dict[str, Any]], title: str) -> Figure:
    jobs = [o for o in objects if o["kind"] == "Job"]
    figure = Figure(figsize=(7.5, 1.6 + 1.35 * len(jobs)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_title(title)
    top = 2.0 * len(jobs)
    for row, job in enumerate(jobs):
        _job(axes, job, top - 2.0 * row)
    places = {"Service": (0.2, 0.35, 5.8), "ConfigMap": (6.4, 0.35, 5.8),
              "NetworkPolicy": (0.2, -0.8, 12.0)}  # fmt: skip
    for thing in objects:
        if thing["kind"] == "Job":
            continue
        if thing["kind"] == "Service":
            words = "gives every pod a name: NAME-INDEX.SERVICE"
        elif thing["kind"] == "NetworkPolicy":
            words = "lets in nobody but the trial's own pods"
        else:
            others = [name for name in thing["data"] if not name.endswith(".py")]
            words = ", ".join([*others, f"{len(thing['data']) - len(others)} files of Python"])
        x, y, width = places[thing["kind"]]
        _box(axes, x, y, width, 0.95, COLOURS[thing["kind"]],
             f"{thing['kind']} {thing['metadata']['name']}", words)  # fmt: skip
    axes.set_xlim(0, 12.4)
    axes.set_ylim(-0.9, top + 1.3)
    figure.draw_without_rendering()
    return figure


def _job(axes: Axes, job: dict[str, Any], y: float) -> None:
    """Draw a Job as a row: its pods, and in each the replicas that share it."""
    count, pod = job["spec"]["completions"], job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    limits = container["resources"]["limits"]
    name = job["metadata"]["name"]
    _box(axes, 0.2, y - 0.55, 12.0, 1.75, COLOURS["Job"],
         f"Job {name}: {count} {'pod, ' if count == 1 else 'pods, each '}at most "
         f"{limits['cpu']} CPU, {limits['memory']}", "")  # fmt: skip
    for place, index in enumerate(_shown(count)):
        x = 0.5 + place * 2.9
        if index is None:
            axes.text(x + 1.2, y + 0.1, "…", ha="center", va="center", fontsize=14)
            continue
        _box(axes, x, y - 0.4, 2.7, 1.1, COLOURS["pod"], f"pod {index}", "")
        roles = container["args"]
        width = 2.5 / len(roles)
        for column, role in enumerate(roles):
            _box(axes, x + 0.1 + column * width, y - 0.3, width - 0.1, 0.55, COLOURS["replica"],
                 "", f"{role} {index}")  # fmt: skip


def _shown(count: int) -> list[int | None]:
    if count <= MOST + 1:
        return list(range(count))
    return [*range(MOST - 1), None, count - 1]


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, colour: str, title: str, text: str
) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=colour,
            edgecolor="#555555",
            linewidth=0.8,
        )  # fmt: skip
    )
    if title:
        axes.text(x + 0.12, y + height - 0.12, title, fontsize=7.5, va="top", weight="bold")
    if text:
        middle = y + (height - 0.3) / 2 if title else y + height / 2
        axes.text(x + width / 2, middle, text, fontsize=7.5, va="center", ha="center")
