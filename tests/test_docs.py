"""What the documents name exists, and what exists is on the page of the public surface."""

import re

import click
import made_runs
import pytest
from processes import REPOSITORY

import labkit
from labkit import settings
from labkit.cli import main

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


def test_every_variable_is_on_the_page():
    named = {value for value in vars(settings).values() if str(value).startswith("LABKIT_")}
    assert named
    assert named | {"LABKIT_TEST_CLUSTER"} == set(re.findall(r"`(LABKIT_\w+)`", API))


def test_every_column_is_on_the_page(store):
    made_runs.add(store, made_runs.trial())
    results = store.results()
    section = API.partition("## Columns of the tables")[2]
    there = set(re.findall(r"`(\w+)`", section))
    for name in ("table", "steps", "evals"):
        missing = set(getattr(results, name).columns) - there
        assert not missing, f"{name}: {', '.join(missing)}"
