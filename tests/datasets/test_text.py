"""Texts and their encoding."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.datasets.text import encode, vocabulary

pytestmark = pytest.mark.unit


WORDS = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=4)
LINES = st.lists(st.lists(WORDS, max_size=6), max_size=6)


@given(LINES)
def test_encoding_keeps_every_word_and_line(sentences):
    text = "".join(" ".join(sentence) + "\n" for sentence in sentences)
    words = vocabulary(text)
    ids = encode(text, words)
    assert ids.dtype == np.int32
    decoded = [words[number] for number in ids]
    assert decoded == [word for sentence in sentences for word in [*sentence, "<eos>"]]


@given(LINES)
def test_a_vocabulary_holds_each_word_once_frequent_ones_first(sentences):
    text = "".join(" ".join(sentence) + "\n" for sentence in sentences)
    words = vocabulary(text)
    counts = Counter(text.replace("\n", " <eos> ").split())
    assert len(words) == len(set(words)) and set(words) == set(counts)
    keys = [(-counts[word], word) for word in words]
    assert keys == sorted(keys)


@given(LINES, st.randoms())
def test_a_vocabulary_does_not_depend_on_the_order_of_sentences(sentences, random):
    text = "".join(" ".join(sentence) + "\n" for sentence in sentences)
    random.shuffle(sentences)
    shuffled = "".join(" ".join(sentence) + "\n" for sentence in sentences)
    assert vocabulary(shuffled) == vocabulary(text)
