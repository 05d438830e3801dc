"""``labkit claims``: what the measurements say about each claim of the thesis."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from labkit.cli.formats import as_json, format_option
from labkit.cli.main import main
from labkit.cli.options import EITHER, launcher_option, reference_option
from labkit.cli.results import Source
from labkit.cli.terminal import terminal_width

if TYPE_CHECKING:
    from labkit.thesis.claims import Verdict, Verdicts

WIDTH = 80
"""Columns where output is not to a terminal."""

LABEL = 9
"""Columns of what stands before a value."""

GAP = " " * LABEL


@main.command(
    epilog="""\b
examples:
  labkit claims                     each verdict, from what was run here
  labkit claims --reference         from what is published with labkit
  labkit claims 6.1.5d --reference  one whole: numbers, nodes, runs, figures
  labkit claims --reference --format csv
  labkit claims 6.1.5d --reference --simulated  on nodes like the thesis's?"""
)
@click.argument("number", required=False, metavar="[CLAIM]")
@reference_option
@launcher_option("Where the trials were run.", EITHER)
@click.option(
    "--simulated", is_flag=True,
    help="Say, too, what would hold on nodes as slow as the thesis's, simulated from the runs "
    "with one worker; no verdict rests on it.",
)  # fmt: skip
@format_option
def claims(
    number: str | None, reference: bool, launcher: str | None, simulated: bool,
    file_format: str,
) -> None:
    """Judge the thesis's claims by what was measured.

    CLAIM is a claim's number, such as 6.1.5d; without one, all are judged. Each is reproduced,
    refuted, inconclusive or not measured; how that is decided is in docs/claims.md.
    """
    from labkit.thesis.claims import Verdicts, find
    from labkit.thesis.claims import claims as judged

    wanted = find(number) if number else None
    found = judged(Source(reference, launcher), simulated=simulated)
    if wanted:
        found = Verdicts(verdict for verdict in found if verdict.claim == wanted)
    if file_format == "csv":
        click.echo(found.table.to_csv(index=False), nl=False)
    elif file_format == "json":
        click.echo(as_json([_record(verdict) for verdict in found]), nl=False)
    else:
        width = terminal_width() or WIDTH
        lines = _whole(found[0], reference) if wanted else _all(found)
        for line in lines:
            click.echo("\n".join(_wrapped(line, width)))


def _record(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as JSON has it: with every check and its numbers."""
    record = verdict.record | {
        "others": [{"nodes": v.where, "verdict": v.verdict} for v in verdict.others],
        "checks": [finding.record for finding in verdict.findings],
    }
    if verdict.simulated:
        record["simulated_checks"] = [
            {"slowdown": slowdown} | finding.record
            for slowdown, findings in verdict.simulated.findings.items()
            for finding in findings
        ]
    return record


def _all(found: Verdicts) -> Iterator[str]:
    for verdict in found:
        yield f"{verdict.claim.number:<{LABEL - 1}} {verdict.verdict}"
        yield GAP + verdict.claim.statement
        for text in (verdict.evidence, verdict.reason):
            if text:
                yield f"{GAP}- {text}"
        if verdict.simulated:
            yield f"{GAP}- from slow nodes alone: {_simulated(verdict)}"
    yield ""
    yield found.summary
    if found.follow:
        yield f"from slow nodes alone (simulated): {found.follow}"


def _simulated(verdict: Verdict) -> str:
    return ": ".join(filter(None, verdict.simulated.record.values()))


def _whole(verdict: Verdict, reference: bool) -> Iterator[str]:
    claim = verdict.claim
    yield f"{claim.number:<{LABEL - 1}} {claim.statement}"
    yield ""
    yield f"verdict  {verdict.verdict}"
    if verdict.reason:
        yield f"reason   {verdict.reason}"
    if verdict.nodes:
        yield f"nodes    {verdict.where}"
    for other in verdict.others:
        yield f"also     {other.verdict} by {other.where}"
    if verdict.simulated:
        yield f"slow     from slow nodes alone: {_simulated(verdict)}"
    for number in claim.figures:
        option = _published(number, verdict) if reference else ""
        yield f"figure   {number} (labkit figure {number}{option})"
    for title, lines in (
        ("checks", [f"- {finding.outcome}: {finding}" for finding in verdict.findings]),
        ("checks, simulated on nodes like the thesis's", _simulated_checks(verdict)),
        ("meaning", [f"- {w.name}: {w.range} ({w.quantity}). {w.reason}" for w in claim.words]),
        ("needs, in repeats", map(str, claim.needs)),
        ("runs", verdict.runs),
    ):
        lines = [f"  {line}" for line in lines]
        yield from ["", title, *lines] if lines else ()


def _published(number: str, verdict: Verdict) -> str:
    """Return the options with which `labkit figure` shows a verdict's published runs."""
    from labkit.book.edition import USUAL, showing

    profile = showing(number, verdict.runs)
    return " --reference" + f" --profile {profile}" * (profile not in ("", USUAL))


def _simulated_checks(verdict: Verdict) -> list[str]:
    if not verdict.simulated:
        return []
    return [
        f"- slowdown {slowdown:g}, {finding.outcome}: {finding.check.of}"
        + (f": {finding.found.mean:.3g}" if finding.found else "")
        for slowdown, findings in verdict.simulated.findings.items()
        for finding in findings
    ]


def _wrapped(line: str, width: int) -> list[str]:
    """Break a line where it is too long, and indent what follows."""
    indent = " " * (len(line) - len(line.lstrip(" -")) or LABEL)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]
