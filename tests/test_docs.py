"""What the documents name exists, and what exists is on the page of the public surface."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import made_runs
import pytest
from click.testing import CliRunner
from processes import REPOSITORY

import labkit
from labkit import campaign, claims, compare, plan, settings
from labkit.book.outlook import Row
from labkit.cli import main, predict
from labkit.doctor import Check
from labkit.launchers.kubernetes import status
from labkit.runs import Results, Store

pytestmark = pytest.mark.unit

DOCUMENTS = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").glob("*.md"))]
API = (REPOSITORY / "docs" / "api.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(document):
    for path in re.findall(
        r"`((?:labkit|tests|templates|benchmarks)/[\w./-]+)`", document.read_text()
    ):
        assert (REPOSITORY / path).exists(), path


def test_the_face_is_on_the_page():
    for name in labkit.__all__:
        assert re.search(rf"`{name}\b", API), name
        assert getattr(labkit, name)


def words_of(group, names=("labkit",)):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from words_of(command, (*names, name))
        else:
            yield " ".join((*names, name))


def test_every_command_is_on_the_page():
    for words in words_of(main):
        assert f"`{words}" in API


def typed(document):
    """Return what the blocks of a document have one type, a command a line."""
    text = document.read_text()
    blocks = [block for _, block in re.findall(r"```(sh|bash|console)\n(.*?)```", text, re.DOTALL)]
    blocks += re.findall(r"(?:^ {4}.+\n)+", text, re.MULTILINE)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.split(r"&&|\||;", re.sub(r"\s#.*", "", line)):
                yield re.sub(r"\s+>.*", "", command).strip().removeprefix("$ ")


def resolve(line):
    """Return the command that a line calls, its context, and its arguments."""
    command, context, arguments = main, click.Context(main), shlex.split(line)[1:]
    while isinstance(command, click.Group) and arguments:
        name, command, arguments = command.resolve_command(context, arguments)
        context = click.Context(command, context, name)
    return command, context, arguments


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_can_be_typed_as_they_stand(document):
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for line in typed(document):
        if line.startswith("make "):
            goals = [word for word in line.split()[1:] if "=" not in word]
            assert set(goals) <= targets, line
        elif line.startswith("labkit ") and "..." not in line:
            command, context, arguments = resolve(line)
            command.make_context(context.info_name, arguments, context.parent)  # exits if wrong


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_sentences_have_the_options_that_they_name(document):
    for line in re.findall(r"`(labkit [a-z][^`]*)`", document.read_text()):
        command, _, arguments = resolve(line)
        known = {name for param in command.params for name in param.opts}
        named = {word.partition("=")[0] for word in arguments if word.startswith("--")}
        assert named <= known, line


def test_the_readme_works_as_written(tmp_path, monkeypatch):
    """Its run, on fresh outputs, gives its figures."""
    (tmp_path / "outputs").mkdir()
    monkeypatch.setenv(settings.OUTPUTS, str(tmp_path / "outputs"))
    monkeypatch.chdir(tmp_path)

    def measure(sweep, launcher, **_):
        store = Store(launcher=launcher)
        return Results(made_runs.add(store, trial) for trial in sweep)

    monkeypatch.setattr(campaign, "measure", measure)
    (tmp_path / "mine.csv").write_text("workers,throughput\n1,22.3\n2,45.05\n4,46.61\n")
    lines = [line for line in typed(REPOSITORY / "README.md")
             if line.startswith(("labkit run", "labkit results", "labkit figure"))]  # fmt: skip
    assert [line.split()[1] for line in lines[:3]] == ["run", "results", "figure"]
    for line in lines:
        if "..." not in line:
            done = CliRunner().invoke(main, shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line}: {done.output}"
    assert (tmp_path / "figure-6.6.svg").exists() and (tmp_path / "results.csv").exists()


def test_tables_of_ones_own_work_as_written(tmp_path, monkeypatch):
    """All commands of the page, on its own example and on runs that are kept."""
    monkeypatch.setenv(settings.OUTPUTS, str(tmp_path / "outputs"))
    monkeypatch.chdir(tmp_path)
    page = REPOSITORY / "docs" / "bring-your-own.md"
    [example] = re.findall(r"```\n(workers,throughput\n.*?)```", page.read_text(), re.DOTALL)
    rows = example.splitlines()
    for name, repeats in (("mine", 1), ("theirs", 2), ("before", 2), ("after", 3)):
        Path(f"{name}.csv").write_text("\n".join([rows[0], *rows[1:] * repeats]))
    for seed in (1, 2):
        made_runs.add(Store(), made_runs.trial(seed=seed))
    commands = ("labkit predict", "labkit figure", "labkit compare", "labkit brief")
    lines = [line for line in typed(page) if line.startswith(commands)]
    lines = [line for line in lines if "train.py" not in line]  # test_scripts.py runs that script
    assert {line.split()[1] for line in lines} == {"predict", "figure", "compare", "brief"}
    for line in lines:
        done = CliRunner().invoke(main, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}: {done.output}"


OTHER_VARIABLES = {"LABKIT_REPORT", "LABKIT_TEST_CLUSTER", "_LABKIT_COMPLETE"}
"""Beside those of the settings: of the file that can be used alone, of tests, and of click."""


def test_every_variable_is_on_the_page():
    named = {value for value in vars(settings).values() if str(value).startswith("LABKIT_")}
    assert named
    assert named | OTHER_VARIABLES == set(re.findall(r"`(_?LABKIT_\w+)`", API))


def test_variables_are_in_the_settings_and_nowhere_else():
    """So that the page, which is held to the settings, lacks none that is read elsewhere."""
    known = {value for value in vars(settings).values() if str(value).startswith("LABKIT_")}
    known |= OTHER_VARIABLES | {"LABKIT_SECRET"}  # which a pod's agent tells its own replicas
    files = [*REPOSITORY.glob("labkit/**/*.py"), *REPOSITORY.glob("benchmarks/*.py"),
             *REPOSITORY.glob("templates/**/*"), *REPOSITORY.glob(".ci/*"),
             REPOSITORY / "Makefile", REPOSITORY / "tests" / "conftest.py"]  # fmt: skip
    for path in filter(Path.is_file, files):
        for name in re.findall(r"_?LABKIT_[A-Z_]+[A-Z]", path.read_text(errors="replace")):
            assert name in known, f"{path}: {name}"


def of_other_tables(store):
    """Yield the columns of the tables that commands print, beside those of trials."""
    yield from plan([made_runs.trial()], precision=0.1, store=store).table.columns
    yield from (each.name for kind in (Row, Check) for each in fields(kind))
    yield from (*status.COLUMNS, *predict.COLUMNS, "cost")
    yield from compare({1: 1.0}, {1: 1.0}).table.columns
    yield from claims(store.results()).table.columns


def test_every_column_of_other_tables_is_on_the_page(store, monkeypatch):
    monkeypatch.setitem(campaign.LAUNCHERS, "local", made_runs.Place())
    made_runs.add(store, made_runs.trial())
    there = set(re.findall(r"`(\w+)`", API.partition("## Columns of other tables")[2]))
    there |= set(made_runs.trial().columns)
    missing = set(of_other_tables(store)) - there
    assert not missing, ", ".join(missing)


def test_every_column_is_on_the_page(store):
    made_runs.add(store, made_runs.trial())
    results = store.results()
    section = API.partition("## Columns of the tables")[2]
    there = set(re.findall(r"`(\w+)`", section))
    for name in ("table", "steps", "evals"):
        missing = set(getattr(results, name).columns) - there
        assert not missing, f"{name}: {', '.join(missing)}"
