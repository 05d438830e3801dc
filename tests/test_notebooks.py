"""The notebooks: how they are written, and that they hold for every profile and any result.

Those on foundations, which measure nothing, have further tests in `tests/course/`, those of
chapter 7 in `test_chapter_7.py`, and that for a reader's own job in `test_own_job_notebook.py`.
"""

import ast
import re
import sys

import nbformat
import papermill
import pytest
from made_notebooks import run

from labkit.book.pages import Page
from labkit.book.plan import parameters, plan
from labkit.settings import NOTEBOOKS, REPOSITORY, TEMPLATES
from labkit.thesis import figures

pytestmark = pytest.mark.unit

OPENING = "6-0-experiments"
CHAPTER_6 = [
    "6-1-1-cnn-learning-rate",
    "6-1-2-cnn-batch-5",
    "6-1-3-cnn-batch-512",
    "6-1-4-cnn-batch-256",
    "6-1-5-cnn-batch-128",
    "6-2-1-rnn-batch-20",
    "6-2-2-rnn-batch-5",
    "6-3-summary",
]
CHAPTER_7 = ["7-1-mnist-downpour", "7-2-findings"]
PREDICTION = "8-prediction"
GUESSED = [f"{n}-prediction" for n in ("6.3", "6.4a", "6.6", "6.7", "6.9")]
"""The figures that show a prediction beside what was measured, one for each framework."""
PICTURES = [f"{n}-exchange" for n in ("6.3", "6.4", "6.6", "6.7", "6.9")]
"""Those of what passes between workers and server."""
COURSE = [page.name for page in plan("laptop") if page.name[0] in "234"]
OWN_JOB = "9-your-own-job"
NAMES = ["5-deployment", *CHAPTER_6, PREDICTION]
PROFILES = ["smoke", "laptop", "thesis"]
PATHS = [NOTEBOOKS / f"{name}.ipynb" for name in NAMES]
PATHS.append(TEMPLATES / "experiment.ipynb")
MOST_LINES = 10
MOST_COLUMNS = 79

every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
START = "start"
OTHERS = (START, *COURSE, OPENING, *CHAPTER_7, OWN_JOB)
ALL_PATHS = [*PATHS, *(NOTEBOOKS / f"{name}.ipynb" for name in OTHERS)]


def code(notebook, but_parameters=True):
    """Return the sources of a notebook's code cells."""
    return [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code"
        and not (but_parameters and "parameters" in cell.metadata.get("tags", ()))
    ]


def text(notebook):
    """Return the sources of a notebook's other cells."""
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def notebook(request):
    """Return each of the notebooks that measure, and the template of an experiment."""
    return nbformat.read(request.param, as_version=4)


@pytest.fixture(params=ALL_PATHS, ids=lambda path: path.stem)
def any_notebook(request):
    """Return each of the notebooks, and the template of an experiment."""
    return nbformat.read(request.param, as_version=4)


# --- how they are written -------------------------------------------------------------------


def test_there_is_a_notebook_for_each_section():
    every = [*COURSE, NAMES[0], OPENING, *CHAPTER_6, *CHAPTER_7, PREDICTION, OWN_JOB]
    assert [page.name for page in plan("laptop")] == every
    assert [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))] == [*every, START]


def test_it_is_valid_and_stripped(any_notebook):
    nbformat.validate(any_notebook)
    assert (any_notebook.nbformat, any_notebook.nbformat_minor) == (4, 5)
    assert any_notebook.metadata.kernelspec.name == "python3"
    assert set(any_notebook.metadata) == {"kernelspec", "language_info"}
    assert [cell.id for cell in any_notebook.cells] == [
        str(place) for place in range(len(any_notebook.cells))  # what nbstripout writes
    ]
    for cell in any_notebook.cells:
        assert set(cell.metadata) <= {"tags"}
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


def test_its_title_has_the_number_of_its_section(any_notebook, request):
    name = request.node.callspec.id
    number = ".".join(re.match(r"[\d-]*", name)[0].strip("-").split("-"))
    first, *others = text(any_notebook)
    assert any_notebook.cells[0].source == first
    assert first.startswith(f"# {number} " if number else "# ")
    assert not any(other.startswith("# ") for other in others)


def test_it_says_what_the_thesis_asked_and_found(notebook, request):
    if request.node.callspec.id == "experiment":
        return
    first = text(notebook)[0]
    summary = request.node.callspec.id == "6-3-summary"
    for said in ["concluded"] if summary else ["asked", "found"]:
        assert re.search(rf"\*\*What (it|the thesis) {said}\.\*\*", first)
    assert re.search(r"\(\*[A-ZÄÖÜ]\w+\*\)", first), "no German term in brackets"


def test_it_says_what_we_see(notebook):
    assert any(cell.startswith("## What we see") for cell in text(notebook))


def test_its_code_reads_like_a_lesson(any_notebook):
    for source in code(any_notebook, but_parameters=False):
        assert max(map(len, source.split("\n"))) <= MOST_COLUMNS, source
    for source in code(any_notebook):
        assert len(source.split("\n")) <= MOST_LINES, source


def test_it_names_no_host_and_no_place_of_a_machine(any_notebook):
    whole = "\n".join(cell.source for cell in any_notebook.cells)
    assert not re.search(r"https?://|localhost|127\.0\.0|/(home|root|tmp)/", whole)


def test_it_says_no_result_that_it_has_not_computed(notebook):
    """A number in what we see would be that of another run."""
    cells = text(notebook)
    seen = next(i for i, cell in enumerate(cells) if cell.startswith("## What we see"))
    asked = next(i for i, cell in enumerate(cells) if cell.startswith("## Exercises"))
    for cell in cells[seen:asked]:
        assert not re.search(r"\d+(\.\d+)? times|\d\d\.\d", cell)


@every_notebook
def test_its_parameters_are_literals_with_the_names_of_fields(path):
    values = parameters(path)
    assert {"framework", "workers", "seed", "eval_samples", "launcher", "deadline"} <= set(values)
    assert values["launcher"] == "local"


@every_notebook
def test_papermill_knows_all_parameters(path):
    """It warns of one that it is given and does not find."""
    (cell,) = (
        cell.source
        for cell in nbformat.read(path, as_version=4).cells
        if "parameters" in cell.metadata.get("tags", ())
    )
    named = [line.target.id for line in ast.parse(cell).body if isinstance(line, ast.AnnAssign)]
    assert list(papermill.inspect_notebook(path)) == named


# --- the profiles ---------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_fits_the_notebooks(profile):
    assert [page.name for page in pages(profile)] == NAMES


def test_the_thesis_has_the_grid_of_the_thesis():
    chosen = {page.name: values(page) for page in plan("thesis")}
    for name in CHAPTER_6[2:]:
        assert chosen[name]["workers"] == [1, 2, 5, 10, 25, 50]
    first = chosen["6-1-1-cnn-learning-rate"]
    assert (first["batch_size"], first["steps"]) == (512, 8 * (60_000 // 512))
    assert {first["learning_rate"], *first["higher_learning_rates"]} == {0.1, 0.05, 0.025}
    assert chosen["6-1-2-cnn-batch-5"]["steps"] == [8 * (60_000 // 5)] * 2
    assert {chosen[name]["epochs"] for name in CHAPTER_6[2:5]} == {8}
    assert {chosen[name]["epochs"] for name in CHAPTER_6[5:7]} == {4}


@pytest.mark.parametrize("page", plan("learning-curves"), ids=lambda page: page.name)
def test_eight_epochs_are_run_twice_and_drawn_of_one_worker_alone(page, monkeypatch):
    trials, found, _ = run(page, monkeypatch)
    assert {(t.workers, t.steps * t.batch_size // 1000) for t in trials} <= {(1, 479), (1, 480)}
    assert sorted(t.seed for t in trials) == [*[1] * (len(trials) // 2), *[2] * (len(trials) // 2)]
    assert found and "6.2b" not in found


def pages(profile):
    """Return the pages of a profile that measure something."""
    return [page for page in plan(profile) if page.name in NAMES]


def values(page):
    """Return all parameters that a page is run with."""
    return parameters(page.source) | page.parameters


# --- the whole notebook, on made-up results -------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(360)  # it simulates up to 50 workers, for five notebooks and both frameworks
@pytest.mark.parametrize("profile", PROFILES)
def test_every_notebook_runs_with_every_profile(profile, monkeypatch):
    trials, found, printed = {}, {}, {}
    for page in pages(profile):
        done = run(page, monkeypatch)
        trials[page.name], found[page.name], printed[page.name] = done
    shown = [number for page in found.values() for number in page]
    (size,) = {trial.batch_size for trial in trials[PREDICTION]}
    own = [f"{number}-{name}" for number in GUESSED for name in ("tensorflow", "mxnet")]
    own += [f"{PREDICTION}-{name}-{size}" for name in ("tensorflow", "mxnet")]
    assert sorted(shown) == sorted([*figures.FIGURES, *own, *PICTURES])
    for page in found.values():
        for number, (title, _) in page.items():
            assert title.startswith(number.partition("-")[0])
    # What is published are the trials behind the figures: no other may be hidden in a table.
    for name in (*CHAPTER_6[:-1], PREDICTION):
        drawn = set().union(*(names for _, names in found[name].values()))
        assert {trial.name for trial in trials[name]} == drawn
    # The summary measures nothing that the sections have not measured.
    sections = {trial for name in CHAPTER_6[2:7] for trial in trials[name]}
    assert set(trials["6-3-summary"]) <= sections
    # And small batches are compared with what 6.1.1 has measured.
    larger = {trial for trial in trials[CHAPTER_6[1]] if trial.batch_size != 5}
    assert larger <= set(trials[CHAPTER_6[0]])
    for name in CHAPTER_6[2:7]:
        assert re.search(r"\b1 +MXNet +1\.3\b", printed[name]), "with one worker"
    assert "6.3d " in printed["6-3-summary"] and " not measured" in printed["6-3-summary"]


def test_notebooks_say_so_where_nothing_could_be_measured(monkeypatch):
    for page in pages("smoke"):
        _, _, printed = run(page, monkeypatch, measured=False)
        assert "nan" not in printed


CURVES = ["no report", "one report", "always", "never", "diverged"]
ODD = [(name, {"curve": curve}) for name in CHAPTER_6[:2] for curve in CURVES]
ODD += [
    (name, how)
    for name in CHAPTER_6[2:]
    for how in ({"curve": "diverged"}, {"cores": 1}, {"cores": 0})
]
ODD += [(PREDICTION, how) for how in ({"curve": "diverged"}, {"measured": False}, {"cores": 1})]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), ODD)
def test_the_analysis_survives_any_result(name, how, monkeypatch):
    """No report, one, a plateau without end or without beginning, no core for a worker."""
    (page,) = (page for page in plan("smoke") if page.name == name)
    _, _, printed = run(page, monkeypatch, **how)
    # In tables of figures' numbers a dash stands for what is missing; in sentences, words.
    assert not re.search(r"\bnan\b|\binf\b|NaN", printed), printed


def grid(value):
    """Return the edits that give the sweep of a notebook of rates one more argument."""
    return [("seed=seed,", f"seed=seed, {value},")]


XAVIER = (
    """own_weights([
    trial for w""",
    """Sweep([
    trial for w""",
), ("workers=w, steps=s,", 'workers=w, steps=s, initializer="xavier",')

EXERCISES = {
    "5-deployment 1": [('framework: str = "mxnet"', 'framework: str = "tensorflow"')],
    "6-1-1-cnn-learning-rate 1": [("[0.1]", "[0.05]")],
    "6-1-1-cnn-learning-rate 2": [*XAVIER, ("seed: int = 1", "seed: int = 2")],
    "6-1-2-cnn-batch-5 2": [('"uniform"', '"xavier"')],
    "6-1-3-cnn-batch-512 2": [*grid("servers=2"), ('["tensorflow", "mxnet"]', '["tensorflow"]')],
    "6-1-4-cnn-batch-256 2": [("batch_size: int = 256", "batch_size: int = 16")],
    "6-1-5-cnn-batch-128 1": grid("servers=2"),
    "6-2-1-rnn-batch-20 2": [
        *grid('loss_over_time="mean"'), ("eval_samples: int = 0", "eval_samples: int = 2000"),
        ("epochs: float = 0.011", "epochs: float = 0.1"),
    ],
    "6-2-1-rnn-batch-20 2, the other": grid('loss_over_time="sum"'),
    "6-2-2-rnn-batch-5 2": [
        *grid('strategy="single"'), ("workers: list[int] = [1, 2]", "workers: list[int] = [1]"),
    ],
    "8-prediction 1": [("workers: list[int] = [1, 2, 5]", "workers: list[int] = [1, 2]")],
    "8-prediction 2": [('strategy: str = "async-ps"', 'strategy: str = "sync-ps"')],
}  # fmt: skip
"""What the exercises have a learner change, by notebook and number."""

THOUGHT = {
    "5-deployment 3",  # needs a cluster, and a pod to delete
    "6-1-2-cnn-batch-5 3", "6-1-3-cnn-batch-512 3", "6-1-4-cnn-batch-256 1",
    "6-1-5-cnn-batch-128 3", "6-2-1-rnn-batch-20 3", "6-2-2-rnn-batch-5 1",
    "6-3-summary 1", "6-3-summary 2",
}  # fmt: skip
"""Exercises that change nothing in their notebook."""


def test_every_exercise_is_tried_or_solved_in_its_notebook_or_only_to_be_thought_about():
    tried = {name.partition(",")[0] for name in EXERCISES}
    there, solved = set(), set()
    for name in NAMES:
        for cell in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells:
            if number := re.search(r"^### Exercise (\d)", cell.source, re.MULTILINE):
                last = f"{name} {number[1]}"
                there.add(last)
            if "solution" in cell.metadata.get("tags", ()):
                solved.add(last)
    assert tried | solved | THOUGHT == there
    assert len(tried) + len(solved) + len(THOUGHT) == len(there)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exercise", "curve"),
    [(name, "usual") for name in EXERCISES]
    + [("6-1-2-cnn-batch-5 2", curve) for curve in ("one report", "never")],
)
def test_every_exercise_runs(exercise, curve, monkeypatch):
    name = exercise.split()[0]
    (page,) = (page for page in plan("laptop") if page.name == name)
    trials, found, printed = run(page, monkeypatch, EXERCISES[exercise], curve=curve)
    assert trials and found
    assert not re.search(r"\bnan\b|\binf\b|NaN", printed), printed


@pytest.mark.parametrize("curve", ["usual", "no report"])
def test_the_template_of_an_experiment_runs(curve, monkeypatch):
    page = Page(TEMPLATES / "experiment.ipynb", {}, REPOSITORY)
    trials, found, _ = run(page, monkeypatch, curve=curve)
    assert len(trials) == 12 and set(found) == {"my-throughput"}


def test_importing_the_book_is_light():
    """The second `make reproduce` is over in seconds, so it cannot import all of Jupyter."""
    probe = "import sys, labkit.book; print(*sys.modules)"
    from subprocess import run as call

    done = call([sys.executable, "-c", probe], capture_output=True, text=True, check=True,
                cwd=REPOSITORY)  # fmt: skip
    heavy = {"papermill", "nbconvert", "nbformat", "jupyter_client", "pandas", "matplotlib"}
    assert not heavy & set(done.stdout.split())
