"""Own counts on BC5CDR devel, where it is present; no row of it stands here."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from medstress.analyses.scores import Sample
from medstress.attacks.noise import NEIGHBOURS, KeyboardNoise, NoiseResources, SwapNoise
from medstress.core.seeding import rng_for
from medstress.datasets.source import DatasetOptions
from medstress.datasets.tagged import load
from medstress.tasks.scores import ENTITIES
from samples import sentence

PLACES = ("ner/bc5cdr_chem/devel.tsv", "ner/bc5cdr_disease/devel.tsv")


@pytest.fixture(params=PLACES)
def path(request, published):
    return published(request.param)


@cache
def read(path):
    return load(DatasetOptions(path=path)).items


def plain(path):
    """Tokens and labels of each sentence, read without the package."""
    for block in path.read_text("utf-8").split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line.strip()]
        if rows:
            yield [row[0] for row in rows], [row[-1] for row in rows]


def test_the_reader_counts_sentences_tokens_and_entities_as_a_plain_loop_does(path):
    items, rows = read(path), list(plain(path))
    assert [(list(item.tokens), list(item.labels)) for item in items] == rows
    n = sum(label.startswith("B-") for _, labels in rows for label in labels)
    assert sum(len(item.entities) for item in items) == n > 4_000


def erring(labels, number):
    """A tagger's labels with planted errors; matches strict and relaxed, and false alarms.

    Of entities it misses every third, and shortens every fifth of the others if it can.
    """
    marks, strict, relaxed = list(labels), 0, 0
    starts = [i for i, label in enumerate(labels) if label.startswith("B-")]
    for n, start in enumerate(starts, number):
        end = start + 1
        while end < len(labels) and labels[end].startswith("I-"):
            end += 1
        if n % 3 == 0:
            marks[start:end] = ["O"] * (end - start)
        elif n % 5 == 0 and end - start > 1:
            marks[end - 1], relaxed = "O", relaxed + 1
        else:
            strict, relaxed = strict + 1, relaxed + 1
    alarm = number % 2 == 0 and len(labels) > 2 and labels[:3] == ["O"] * 3
    if alarm:
        marks[1] = f"B-{next((label[2:] for label in labels if label != 'O'), 'Chemical')}"
    return marks, strict, relaxed, int(alarm)


def test_f1_of_a_tagger_with_planted_errors_is_what_counting_gives_and_seqeval_s(path):
    # With scikit-learn: seconds that no worker should spend to collect tests.
    from seqeval.metrics import f1_score

    gold = [labels for _, labels in plain(path)]
    made, number = [], 0
    for labels in gold:
        made.append(erring(labels, number))
        number += sum(label.startswith("B-") for label in labels)
    strict, relaxed, alarms = (sum(row[i] for row in made) for i in (1, 2, 3))
    missed = -(-number // 3)
    marked = number - missed + alarms
    sample = Sample(
        ENTITIES, [sentence(i, a, b[0]) for i, (a, b) in enumerate(zip(gold, made, strict=True))]
    )
    assert sample.value("precision") == pytest.approx(strict / marked)
    assert sample.value("recall") == pytest.approx(strict / number)
    assert sample.value("f1_relaxed") == pytest.approx(2 * relaxed / (marked + number))
    assert sample.value("f1") == pytest.approx(f1_score(gold, [row[0] for row in made]))


@pytest.mark.parametrize("noise", [SwapNoise(scope="all"), KeyboardNoise(scope="all")])
def test_noise_changes_as_many_words_as_the_letters_allow(path, noise):
    expected = variance = 0.0
    n = 0
    for item in read(path)[:500]:
        copy = item.candidate(
            noise.edits(item, rng_for(0, noise.name, "devel", item.id), NoiseResources())
        )
        assert copy.labels == item.labels
        for before, after in zip(item.tokens, copy.tokens, strict=True):
            p = visible(noise.name, before)
            expected, variance = expected + p, variance + p * (1 - p)
            n += before != after
            assert len(before) == len(after)
    assert abs(n - expected) < 4.5 * np.sqrt(variance)


def visible(name, word):
    """The chance that a word is another afterwards, counted letter by letter."""
    if not any(map(str.isalpha, word)) or len(word) < (4 if name == "swap_noise" else 2):
        return 0.0
    if name == "swap_noise":
        inner = [a != b for a, b in pairwise(word[1:-1])]
        return sum(inner) / len(inner)
    return sum(letter in NEIGHBOURS for letter in word) / len(word)
