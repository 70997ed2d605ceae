import gc

import numpy as np
import pytest

from medstress.core.errors import UsageError
from medstress.entities.embeddings import Embedder
from medstress.entities.vector_files import ArrayCache, PreparedTexts, VectorFile


def test_the_longest_unread_arrays_go_when_the_bytes_do_not_suffice():
    cache = ArrayCache(24)
    for key in "abc":
        cache.keep(key, np.zeros(1))
    assert cache.find("a") is not None
    cache.keep("d", np.zeros(1))
    assert [key for key in "abcd" if cache.find(key) is not None] == ["a", "c", "d"]


def test_an_array_kept_twice_counts_once():
    cache = ArrayCache(16)
    for key in "aab":
        cache.keep(key, np.zeros(1))
    assert cache.find("a") is not None


def test_an_array_larger_than_the_bound_is_kept_until_the_next():
    cache = ArrayCache(1)
    cache.keep("a", np.zeros(100))
    assert cache.find("a") is not None
    cache.keep("b", np.zeros(100))
    assert cache.find("a") is None


def test_what_holds_small_arrays_counts_as_well():
    cache = ArrayCache(200, entry_bytes=92)
    for key in "abc":
        cache.keep(key, np.zeros(1))
    assert [key for key in "abc" if cache.find(key) is not None] == ["b", "c"]


TEXTS = ["alpha", "beta", "delta", "gamma"]


@pytest.fixture
def vectors(glove: str) -> VectorFile:
    return Embedder(glove).vector_file(TEXTS)


def test_a_text_has_the_vector_of_its_row(vectors):
    prepared = PreparedTexts(TEXTS, vectors, [])
    for text, expected in zip(TEXTS, vectors.mapped(), strict=True):
        assert (prepared.vector(text) == expected).all()
    assert "alph" not in prepared
    assert "zeta" not in prepared


def test_neighbours_stand_together_in_the_order_of_the_items(vectors):
    prepared = PreparedTexts(TEXTS, vectors, ["gamma", "alpha", "delta", "unknown"])
    assert prepared.neighbours("alpha", 2) == ["gamma", "alpha"]
    assert prepared.neighbours("delta", 2) == ["delta"]
    assert prepared.neighbours("delta", 9) == ["gamma", "alpha", "delta"]
    assert prepared.neighbours("beta", 9) == ["beta"]


def test_rows_past_the_end_are_left_out(vectors):
    assert vectors.rows(2, 9).shape == (2, 4)
    assert vectors.rows(4, 5).shape == (0, 4)


def test_vectors_are_read_on_where_the_file_is_replaced_or_removed(vectors, tmp_path, glove):
    expected = np.array(vectors.mapped())
    again = Embedder(glove).vector_file(TEXTS)
    for file in tmp_path.rglob("*.npy"):
        file.unlink()
    assert (again.rows(0, 4) == expected).all()


def test_a_file_that_is_cut_short_while_it_is_open_is_refused(tmp_path, monkeypatch, glove):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path))
    opened = Embedder(glove).vector_file(TEXTS)
    (file,) = tmp_path.rglob("*.npy")
    with file.open("r+b") as stream:
        stream.truncate(140)
    with pytest.raises(UsageError, match="was truncated"):
        opened.rows(0, 4)
    del opened
    gc.collect()  # and its descriptor is closed without a warning


def test_names_made_in_several_blocks_are_those_made_at_once(monkeypatch, glove):
    names = [f"name {i}" for i in range(5)]
    told = []
    monkeypatch.setattr("medstress.entities.embeddings._CHUNK", 2)
    blocks = Embedder(glove).vectors(names, lambda *n: told.append(n))
    monkeypatch.undo()
    assert told == [(2, 5), (4, 5), (5, 5)]
    assert (blocks == Embedder(glove).vectors(names, keep=False)).all()
