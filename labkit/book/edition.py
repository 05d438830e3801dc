"""What the book shows of each notebook: one's own run, the published one, or none."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.book.pages import Page
from labkit.book.plan import chapters, home, plan, profiles
from labkit.book.render import notes
from labkit.settings import NOTEBOOKS, REFERENCE

PARTS = {
    "2": "Foundations",
    "3": "Frameworks",
    "4": "Method",
    "5": "Deployment",
    "6": "Measurements",
    "7": "Findings",
    "8": "Prediction",
    "9": "Your own job",
}
"""The parts of the book by the number with which the names of their notebooks begin."""

USUAL = "laptop"
"""The profile that commands mean if they name none."""

WORDS_A_MINUTE = 180
"""Of technical prose; a line of code counts as its words."""


@dataclass(frozen=True)
class Shown:
    """A notebook as the book shows it.

    Attributes
    ----------
    page : Page
        Whose executed notebook is shown, if there is one.
    profile : str
        Whose results were looked for.
    """

    page: Page
    profile: str

    @property
    def executed(self) -> bool:
        """Whether there are results to be shown."""
        return self.page.executed.exists()

    @property
    def published(self) -> bool:
        """Whether they are those of the published run."""
        return self.page.home == REFERENCE

    @property
    def run(self) -> str:
        """Whose run is shown, in words."""
        if not self.executed:
            return "no results"
        if not self.measures:
            return "computed"
        return "the published run" if self.published else "your own run"

    @property
    def measures(self) -> bool:
        """Whether the notebook runs trials; others say by no parameter where these would run."""
        return self.page.measures

    @property
    def part(self) -> str:
        """The title of the part that it belongs to."""
        number = re.match(r"\d*", self.page.name)[0]
        return PARTS.get(number, f"Chapter {number}" if number else "More")

    @property
    def command(self) -> str:
        """What runs the notebook."""
        number = re.match(r"\d+(-\d+)*|.*", self.page.name)[0]
        profile = "" if self.profile == USUAL else f" --profile {self.profile}"
        return f"labkit reproduce{profile} --only {number}"

    @property
    def minutes(self) -> int:
        """How long reading takes: as the notebook says, or else estimated from its words."""
        sources = ["".join(cell["source"]) for cell in self.content()["cells"]]
        if said := re.search(r"(\d+) minutes", sources[0]):
            return int(said[1])
        figures = len(self.page.record().get("figures", ()))
        counted = len(" ".join(sources).split()) / WORDS_A_MINUTE + figures
        return 5 * math.ceil(counted / 5)

    def content(self) -> dict[str, Any]:
        """Return the notebook, executed if it has been."""
        path = self.page.executed if self.executed else self.page.source
        return json.loads(path.read_text())

    def which(self) -> str:
        """Say which run is shown, in a sentence."""
        if not self.executed:
            return (
                f"No results: neither is there a run of yours (profile {self.profile}) nor is the "
                "notebook part of the published run."
            )
        when = self.page.record().get("finished", "unknown date")
        if not self.measures:
            where = "for the published run" if self.published else "on this machine"
            return f"Computed {where}, {when}; nothing is measured here."
        if self.published:
            return (
                f"Shows the published run of {when}, as there is none of yours "
                f"(profile {self.profile}) yet."
            )
        return f"Shows your run of {when} (profile {self.profile})."

    def circumstances(self) -> Iterator[str]:
        """Say what is to be known of the run, in sentences."""
        if not self.executed:
            return
        record = self.page.record()
        if machine := record.get("machine"):
            yield (
                f"{self.which()} Its machine: {machine['cpu_model']}, {machine['cores']} cores, "
                f"{machine['memory'] / 2**30:.0f} GiB, {machine['system']}; labkit at "
                f"{record.get('revision')}."
            )
        if trials := self.page.trials():
            yield f"{'; '.join(notes(trials))}."
        if self.page.differs():
            yield "The notebook's text has been changed since: what stands above is what was run."
        elif not self.published and self.page.is_stale():
            yield "The code, or a parameter, has been changed since."


def published_in(profile: str, destination: Path = REFERENCE) -> Path:
    """Return the directory of a profile's published pages; the usual one's is the whole's."""
    return destination if profile == USUAL else destination / profile


def showing(number: str, runs: Collection[str]) -> str:
    """Return the profile whose published figure shows most of some runs; empty if none does."""
    shown = {}
    for profile in profiles():
        path = published_in(profile) / "figures" / f"{number}.csv"
        if path.exists():
            shown[profile] = len(set(runs) & set(shown_in(path)))
    most = max(shown, key=shown.get, default="")
    return most if most and shown[most] else ""


def shown_in(figure: Path) -> list[str]:
    """Return the names of the trials that a rendered figure shows, from the table beside it."""
    with figure.open(newline="") as file:
        return [row["trial"] for row in csv.DictReader(file)]


def edition(profile: str = USUAL, notebooks: Path = NOTEBOOKS) -> list[Shown]:
    """Return all notebooks of the book, in its order, each with the results that there are.

    Parameters
    ----------
    profile : str
        Whose results are shown, rather than those of the published run.
    notebooks : Path
        The directory that holds the notebooks and ``profiles.toml``.

    Raises
    ------
    BookError
        If the profile does not fit the notebooks.
    """
    planned = {page.name: page for page in plan(profile, notebooks=notebooks)}
    found = []
    for path in chapters(notebooks):
        # What the profile leaves out is shown as the usual one, or the published run, has it.
        whose = profile if path.stem in planned else USUAL
        own = planned.get(path.stem, Page(path, {}, home(whose, notebooks=notebooks)))
        published = Page(path, {}, REFERENCE)
        theirs = published.executed.exists() and not own.executed.exists()
        found.append(Shown(published if theirs else own, whose))
    return found


def uncomputed(shown: list[Shown], profile: str, notebooks: Path = NOTEBOOKS) -> list[Page]:
    """Return the pages that can be made at once: they measure nothing, and are not there.

    Nor are those there whose notebook has been changed.
    """
    missing = [s for s in shown if not s.measures and (not s.executed or s.page.differs())]
    names = {each.page.name for each in missing}
    return [page for page in plan(profile, notebooks=notebooks) if page.name in names]
