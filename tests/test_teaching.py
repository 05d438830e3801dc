"""The teacher's page: its ranges are those of the published run, and its sum adds up."""

import contextlib
import io
import re

import nbformat
import pytest
from processes import REPOSITORY

from labkit.analysis import speedups
from labkit.runs.tables import published
from labkit.settings import NOTEBOOKS

pytestmark = pytest.mark.unit

PAGE = (REPOSITORY / "docs" / "teaching.md").read_text()
GLOSSARY = (REPOSITORY / "docs" / "glossary.md").read_text()


def scaling():
    """Return the published trials that may be read as scaling."""
    trials = published()
    return trials[~trials.oversubscribed.astype(bool) & trials.slowdown.isna()]


def test_the_ranges_are_those_of_the_published_run():
    rows = re.findall(
        r"^\| `(lenet5|lstm)` \| (\d+) \| ([\d.]+) to ([\d.]+) \| ([\d.]+) to ([\d.]+) \|$",
        PAGE, re.MULTILINE,
    )  # fmt: skip
    assert len(rows) == 5
    trials = scaling()
    for model, batch, *numbers in rows:
        found = trials[(trials.model == model) & (trials.batch_size == int(batch))]
        for framework, said in (("mxnet", numbers[:2]), ("tensorflow", numbers[2:])):
            alone = found[(found.framework == framework) & (found.workers == 1)]
            alone = alone[alone.eval_samples == 0]  # what 6.1.3 to 6.2.2 ran, for rates
            rates = alone.batches_per_second
            assert [f"{rates.min():.1f}", f"{rates.max():.1f}"] == said, (framework, model, batch)


def test_the_speedups_are_those_of_the_published_run():
    low, high, *slow = re.search(
        r"two MXNet workers there is ([\d.]+) to ([\d.]+),.*?\n?.*?"
        r"slow nodes ([\d.]+) to ([\d.]+)\.",
        PAGE,
    ).groups()
    found = speedups(scaling())
    two = found[(found.workers == 2) & (found.n > 1)]
    assert set(two.framework) == {"mxnet"} and 0 < (two.high > 2).mean() < 1
    assert [f"{two.speedup.min():.1f}", f"{two.speedup.max():.1f}"] == [low, high]
    trials = published()
    nodes = speedups(trials[trials.slowdown == 20])
    ten = nodes[nodes.workers == 10].speedup
    assert [f"{ten.min():.1f}", f"{ten.max():.1f}"] == slow


def test_the_accuracies_are_those_of_the_published_run():
    low, high, steps = re.search(
        r"accuracy of (\d+) to (\d+) %\s+in the (\d+) steps of 6.1.1 with five workers", PAGE
    ).groups()
    trials = published()
    chosen = trials[(trials.workers == 5) & (trials.steps == int(steps))]
    reached = chosen[chosen.initializer == "xavier"].accuracy
    assert set(chosen.framework) == {"mxnet", "tensorflow"} and len(reached) >= 4
    assert int(low) <= reached.min() and reached.max() <= int(high)
    assert chosen[chosen.initializer == "uniform"].accuracy.max() < int(low)


def test_its_sum_adds_up():
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "docs/teaching.md", "exec"), {})
    # 2 + 3 + 6 + 11 machines, three times, for 180 s each.
    assert printed.getvalue() == "3.30 machine hours: 3.30\n"


def test_the_glossary_is_in_order_and_whole():
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", GLOSSARY, re.MULTILINE)[1:]
    names = [english.lower() for english, _, _ in rows if set(english) != {"-"}]
    assert len(names) >= 40 and names == sorted(names)
    assert len(set(names)) == len(names)


def test_the_glossary_has_each_german_term_of_the_notebooks():
    """Those in brackets behind the English ones; by their stems, as many are in the plural."""

    def stems(text):
        plain = text.lower().translate(str.maketrans("äöü", "aou"))
        return {word[:4] for word in re.findall(r"\w+", plain)}

    known = stems(" ".join(re.findall(r"^\| .+? \| (.+?) \|", GLOSSARY, re.MULTILINE)))
    terms = [
        (path.stem, term)
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        for cell in nbformat.read(path, as_version=4).cells
        for term in re.findall(r"\(\*([^*]+)\*", cell.source)
        if cell.cell_type == "markdown"
    ]
    missing = [where for where in terms if not stems(where[1]) <= known]
    assert len(terms) > 50 and not missing
