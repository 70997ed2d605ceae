"""Vectors of names and of whole prompts: computed once, kept, and never cut off."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.core.errors import UsageError
from medstress.entities import encoders
from medstress.entities.embeddings import (
    Embedder,
    PromptEncoder,
    WordVectors,
    name_vectors,
    windows,
)
from medstress.entities.names import normalise, words

NAMES = ["asthma", "status asthmaticus", "scurvy", "rickets", "vitamin D deficiency"]


def embed_names(
    names: Sequence[str], embedding: str, progress: Callable[[int, int], None] | None = None
) -> Any:
    return Embedder(embedding).vectors(names, progress)


def by_hand(one: str, other: str, corpus: Sequence[str]) -> float:
    """The cosine of two names by the formula, over plain dictionaries."""

    def features(name: str) -> tuple[Counter[str], Counter[str]]:
        text = f" {normalise(name)} "
        grams = [text[i : i + n] for n in (3, 4, 5) for i in range(len(text) - n + 1)]
        return Counter(grams), Counter(words(name))

    total, known = 0.0, [features(name) for name in corpus]
    for part in (0, 1):

        def weighted(name: str, part: int = part) -> dict[str, float]:
            counts = features(name)[part]
            df = {f: sum(f in of[part] for of in known) for f in counts}
            idf = {f: math.log((1 + len(corpus)) / (1 + df[f])) + 1 for f in counts}
            row = {f: (1 + math.log(n)) * idf[f] for f, n in counts.items()}
            length = math.sqrt(sum(value * value for value in row.values())) or 1.0
            return {f: value / length for f, value in row.items()}

        left, right = weighted(one), weighted(other)
        total += sum(value * right.get(feature, 0.0) for feature, value in left.items()) / 2
    return total


@pytest.mark.parametrize("anchor", [*NAMES, "astma", "vitamin deficiency", "Rickets of rickets"])
def test_ngram_cosines_are_those_of_the_formula(anchor: str) -> None:
    space = name_vectors(NAMES, Embedder("ngram"))
    expected = [1 - by_hand(anchor, name, NAMES) for name in NAMES]
    assert space.distances(anchor) == pytest.approx(expected, abs=1e-12)
    # Also for a text that is no name, and features that no name has.
    for text in ("Vitamin-C deficiencies", "astmatic"):
        assert space.distance(anchor, text) == pytest.approx(1 - by_hand(anchor, text, NAMES))


def test_names_that_share_nothing_are_all_at_distance_one() -> None:
    space = name_vectors([*NAMES, "-"], Embedder("ngram"))
    h = space.distances("gout")
    assert h[:5].tolist() == [1.0] * 5
    assert np.isnan(h[5])
    assert np.isnan(space.distances("-")).all()
    assert np.isnan(space.distance("gout", "-"))


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_vectors_give_the_same_distances_as_texts(names: list[str]) -> None:
    space = name_vectors(NAMES, Embedder("ngram"))
    every = space.vectors_of(np.arange(len(NAMES)))
    for name in names:
        vector = space.vector(name)
        assert np.isfinite(space.distances(name)).any() == vector.any()
        if vector.any():
            assert np.linalg.norm(vector) == pytest.approx(1)
            assert 1 - every @ vector == pytest.approx(space.distances(name), abs=1e-9)
            assert space.cosines(vector) == pytest.approx(every @ vector, abs=1e-6)
            assert space.distance(name, NAMES[0]) == pytest.approx(space.distances(name)[0])


def test_a_cache_hit_computes_nothing(cache, monkeypatch, glove):
    told = []
    first = embed_names(NAMES, glove, progress=lambda done, n: told.append((done, n)))
    assert told == [(5, 5)]
    (file,) = cache.iterdir()
    assert (np.load(file, mmap_mode="r") == first).all()
    monkeypatch.setattr(WordVectors, "encode", lambda *_: pytest.fail("computed again"))
    told.clear()
    again = embed_names(NAMES, glove, progress=lambda done, n: told.append((done, n)))
    assert isinstance(again, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        again[0, 0] = 1
    assert (again == first).all()
    assert told == []


def test_a_file_that_is_cut_short_anywhere_or_damaged_is_computed_anew(cache, glove):
    first = np.array(embed_names(NAMES, glove))
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    sizes = (0, 5, 127, 128, len(whole) // 2, len(whole) - 40, len(whole) - 1)
    for damaged in (*(whole[:size] for size in sizes), whole[:10] + b"{{{{" + whole[14:]):
        file.write_bytes(damaged)
        assert (embed_names(NAMES, glove) == first).all()
        assert file.read_bytes() == whole


@pytest.mark.parametrize(
    ("embedding", "pooling"),
    [
        ("GanjinZero/UMLSBert_ENG", "cls"),
        ("thenlper/gte-base", "mean"),
        ("minilm", "mean"),
        ("./CODER", "cls"),
        ("./gte-large", "mean"),
    ],
)
def test_the_usual_pooling_of_a_model_is_the_default(tmp_path, embedding, pooling):
    (tmp_path / embedding).mkdir(parents=True)
    assert Embedder(embedding, base=tmp_path).pooling == pooling


@pytest.mark.parametrize("embedding", ["GanjinZero/UMLSBert_ENG", "thenlper/gte-base", "minilm"])
def test_as_released_every_model_is_pooled_by_its_first_word_piece(embedding):
    assert Embedder(embedding, choices="as_released").pooling == "first_token"
    assert Embedder(embedding, "mean", choices="as_released").pooling == "mean"
    assert Embedder(embedding, choices="as_published").pooling == Embedder(embedding).pooling


@pytest.mark.parametrize(("embedding", "pooling"), [("minilm", "means"), ("ngram", "mean")])
def test_a_pooling_that_is_unknown_or_of_no_model_is_refused(embedding, pooling, said):
    with pytest.raises(UsageError) as error:
        Embedder(embedding, pooling)
    said(str(error.value), "entities, key 'pooling'", *(["'means'"] if pooling == "means" else []))


def test_a_model_has_a_folder_with_weights_and_a_hash_of_them(tmp_path):
    with pytest.raises(UsageError, match=r"embedding './coder'.*'thenlper/gte-base'"):
        encoders.model_folder("./coder", tmp_path)
    with pytest.raises(UsageError, match="embedding"):
        encoders.weights_hash(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"w")
    (tmp_path / "config.json").write_text("{}")
    first = encoders.weights_hash(tmp_path)
    (tmp_path / "README.md").write_text("changed")
    assert encoders.weights_hash(tmp_path) == first
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert encoders.weights_hash(tmp_path) != first


def by_characters(texts: list[str]) -> list[int]:
    return [len(text.strip()) for text in texts]


@settings(max_examples=100, deadline=None)
@given(text=st.text("ab \n", max_size=60), limit=st.integers(4, 12))
def test_windows_hold_the_whole_text_and_no_more_than_the_limit(text: str, limit: int) -> None:
    pieces = windows(text, limit, by_characters)
    if by_characters([text])[0] <= limit:
        assert [piece for piece, _ in pieces] == [text]
    else:
        assert "".join(piece for piece, _ in pieces).strip() == text.strip()
        assert all(n <= limit for _, n in pieces)


def test_prompts_of_the_model_free_embedding_have_unit_vectors_and_order() -> None:
    encoder = PromptEncoder("ngram")
    first, same, near, far = encoder.encode(
        [
            "What treats it? A: aspirin",
            "What treats it? A: aspirin",
            "What treats it? A: zinc",
            "?!x",
        ]
    )
    assert np.linalg.norm(first) == pytest.approx(1)
    assert first @ same == pytest.approx(1)
    assert first @ far < first @ near < 1
