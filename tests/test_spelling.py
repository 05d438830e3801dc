"""The prose: each of its words is one of a dictionary or of `words.txt`.

The dictionary is pyspellchecker's, of American English. labkit writes British English, whose words
that dictionary lacks (colour, neighbour) stand in `words.txt` with the names of the field and the
German terms of the thesis. The American spelling of such a word is not refused.

A word that `words.txt` has with capitals is written with just these (NumPy, TensorFlow).
"""

import difflib
import inspect
import re
from functools import cache
from pathlib import Path

import click
import nbformat
import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from processes import REPOSITORY
from spellchecker import SpellChecker

import labkit
from labkit.cli import main
from labkit.settings import NOTEBOOKS, TEMPLATES

pytestmark = pytest.mark.unit

LIST = Path(__file__).parent / "words.txt"
WORDS = LIST.read_text().split()
DICTIONARY = SpellChecker()
MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)
# What holds a digit, an underscore or a dot within is a name of something, not a word.
WORD = re.compile(r"(?<![\w.])[^\W\d_]{2,}(?:['’][^\W\d_]+)*(?!\w|\.\w)")

SECOND_COLUMN = re.compile(r"(?<=\|)[^|\n]*\|(?=[^|\n]*\|$)", re.MULTILINE)
CODE_OF_NUMPY_STYLE = re.compile(r"^.+ : .+$|^.+\n(?=    )", re.MULTILINE)


def prose(markdown):
    """Yield the text of Markdown, without its code, equations, HTML, and where links lead."""
    for block in MARKDOWN.parse(markdown):
        for part in block.children or ():
            if part.type in ("text", "image"):
                yield part.content


@cache
def is_known(word):
    return {word, word.lower()} & set(WORDS) or word in DICTIONARY


def misspelt(markdown):
    """Return the words of a text that neither the dictionary nor the list has, each once."""
    words = (word for text in prose(markdown) for word in WORD.findall(text))
    words = (re.sub(r"['’]s$", "", word) for word in words)
    return [word for word in dict.fromkeys(words) if not is_known(word)]


def suggestion(word):
    """Return a wrong word with the one that was meant; in the list only capitals may differ."""
    listed = {known.lower(): known for known in WORDS}
    close = difflib.get_close_matches(word.lower(), listed, n=1, cutoff=0.9)
    DICTIONARY.distance = 2 if len(word) < 12 else 1  # two edits of a long word take seconds
    meant = listed[close[0]] if close else DICTIONARY.correction(word)
    return f"{word} ({meant}?)" if meant not in (None, word) else word


def documents():
    """Yield the name and the text of what is written in Markdown."""
    for path in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]:
        text = path.read_text()
        if path.stem == "glossary":
            text = SECOND_COLUMN.sub("", text)  # which is German
        yield path.relative_to(REPOSITORY), text
    for path in TEMPLATES.rglob("*.md.j2"):
        text = re.sub(r"{[{%#].*?[}%#]}", "", path.read_text(), flags=re.DOTALL)
        yield path.relative_to(REPOSITORY), text
    for path in [*NOTEBOOKS.glob("*.ipynb"), *TEMPLATES.glob("*.ipynb")]:
        cells = nbformat.read(path, as_version=4).cells
        texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
        yield path.relative_to(REPOSITORY), "\n\n".join(texts)


def docstrings():
    """Yield what the docstrings of the public names and of their methods say.

    Without the examples, and the names and types of parameters, which are code.
    """
    for name in labkit.__all__:
        thing = getattr(labkit, name)
        found = {name: thing}
        if inspect.isclass(thing):
            found |= {f"{name}.{own}": part for own, part in vars(thing).items() if own[0] != "_"}
        for name, part in found.items():
            if part is thing or getattr(part, "__module__", "").startswith("labkit"):
                text = (inspect.getdoc(part) or "").partition("Examples\n--------")[0]
                yield f"labkit.{name}", CODE_OF_NUMPY_STYLE.sub("", text)


def helps(command=main, name="labkit"):
    """Yield what the help of each command says of it and of its options."""
    context = click.Context(command)
    said = [command.help, *(getattr(param, "help", None) for param in command.params)]
    yield f"{name} --help", "\n\n".join(filter(None, said))
    for other in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from helps(command.get_command(context, other), f"{name} {other}")


def test_all_is_spelt_as_in_the_dictionary_or_the_list():
    found = []
    for name, text in [*documents(), *docstrings(), *helps()]:
        if words := misspelt(text):
            found.append(f"{name}: {', '.join(map(suggestion, words))}")
    assert not found, "\n".join(["right words belong in tests/words.txt", *sorted(found)])


def test_the_list_is_sorted_and_has_each_word_once():
    assert sorted(set(WORDS), key=lambda word: (word.casefold(), word)) == WORDS
    assert LIST.read_text() == "".join(f"{word}\n" for word in WORDS)
