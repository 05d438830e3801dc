"""A text as word ids."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

END_OF_SENTENCE = "<eos>"


def vocabulary(text: str) -> list[str]:
    """Return the words of a text by falling count, then alphabetically; a word's id is its place.

    The end of each line is the word ``<eos>``.
    """
    counts = Counter(_words(text))
    return sorted(counts, key=lambda word: (-counts[word], word))


def encode(text: str, words: list[str]) -> np.ndarray:
    """Turn a text into word ids.

    Parameters
    ----------
    text : str
        Words separated by white space; the end of each line is the word ``<eos>``.
    words : list of str
        The vocabulary, in the order of ids. It must hold every word of the text.

    Returns
    -------
    numpy.ndarray
        The ids, shape (number of words,), int32.
    """
    import numpy as np

    ids = {word: number for number, word in enumerate(words)}
    return np.array([ids[word] for word in _words(text)], dtype="<i4")


def _words(text: str) -> list[str]:
    return text.replace("\n", f" {END_OF_SENTENCE} ").split()
