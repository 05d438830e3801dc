"""What ``labkit --help`` says of each subcommand, and what is said of mistyped names."""

import re
import shlex

import click
import pytest

from labkit.book.plan import profiles
from labkit.cli import main

pytestmark = pytest.mark.unit


def commands(group=main, names=()):
    """Yield all subcommands, also those of groups, by the words that call them."""
    yield names, group
    context = click.Context(group)
    for name in group.list_commands(context) if isinstance(group, click.Group) else ():
        yield from commands(group.get_command(context, name), (*names, name))


COMMANDS = dict(commands())


def examples(command):
    """Return the examples in a command's help as words, without their comments."""
    text = command.epilog.partition("examples:\n")[2].replace("\\\n", "")
    lines = [re.split(r"\s{2,}(?=\S)", line.strip()) for line in text.splitlines()]
    return [shlex.split(re.sub(r"\s+", " ", " ".join(words(line)))) for line in lines]


def words(pieces):
    """Leave out a line's last piece if it is a comment: options are continued by two spaces."""
    return [piece for piece in pieces if piece.startswith(("labkit", "watch", "-"))]


@pytest.mark.parametrize("name", ["book", "reproduce"])
def test_help_names_all_profiles(name, labkit):
    shown = labkit(name, "--help").stdout
    assert all(profile in shown for profile in profiles())


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_says_what_it_does_and_shows_examples(labkit, names):
    shown = labkit(*names, "--help")
    assert shown.exit_code == 0
    assert shown.output.startswith(f"Usage: {' '.join(('labkit', *names))} ")
    assert re.search(r"\n +examples:\n", shown.output)
    assert "..." not in shown.output.partition("Commands:")[2].partition("examples:")[0]
    assert max(map(len, shown.output.splitlines())) <= 80


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_the_examples_can_be_typed_as_they_stand(names):
    found = [line for line in examples(COMMANDS[names]) if "..." not in line]
    assert found
    for line in found:
        arguments = line[line.index("labkit") + 1 :]
        command, context = main, click.Context(main)
        while isinstance(command, click.Group):
            name, command, arguments = command.resolve_command(context, arguments)
            context = click.Context(command, context, name)
        command.make_context(name, arguments, context.parent)  # exits if an option is unknown


def test_mistyped_names_are_met_with_the_nearest_one(labkit):
    assert "results" in labkit("reslts").output
    assert "did you mean '6.3'" in labkit("figure", "6.33").output


TRIAL = ["--framework=mxnet", "--model=lenet5", "--batch-size=16", "--learning-rate=0.01",
         "--steps=8"]  # fmt: skip


@pytest.mark.parametrize(
    "command", [["run", *TRIAL], ["results"], ["reproduce"], ["figure", "6.3"]],
    ids=lambda words: words[0],
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "hint"),
    [("locl", "; did you mean 'local'?"), ("k8s", ""), ("kubernets", "; did"), ("", "")],
)
def test_an_unknown_launcher_is_refused_by_every_command(labkit, tmp_path, command, name, hint):
    refused = labkit(*command, f"--launcher={name}")
    assert refused.exit_code == 1
    assert f"launcher: {name!r}{hint}" in refused.output
    assert "allowed: local, kubernetes" in refused.output
    assert not (tmp_path / "outputs").exists()
