import numpy as np
import pytest

from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.entities.embeddings import Embedder, WordVectors
from medstress.entities.perturbations import VectorPerturbationSet
from medstress.entities.vocabularies import SynonymGroups, vocabulary_of

FILE = "heart 3 0\nattack 0 4\nGout 1 1\ngout -1 0\ngout 9 9\nnon-small 0 -1\n. . 5 5\n"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "glove.txt").write_text(FILE)
    return tmp_path / "glove.txt"


def test_a_name_is_the_mean_of_its_words_at_unit_length(path):
    (vector,) = WordVectors(path).encode(["heart attack"])
    assert vector.dtype == np.float32
    assert np.allclose(vector, [0.6, 0.8])


def test_a_word_counts_as_written_else_in_lower_case_and_the_first_line_wins(path):
    vectors = WordVectors(path).encode(["Gout", "gout", "GOUT", "Heart"])
    expected = [[0.5**0.5, 0.5**0.5], [-1, 0], [-1, 0], [1, 0]]
    assert np.allclose(vectors, expected)


def test_a_hyphenated_word_is_listed_or_taken_apart_and_punctuation_goes(path):
    vectors = WordVectors(path).encode(["non-small", "heart-gout", "(attack),"])
    assert np.allclose(vectors, [[0, -1], [1, 0], [0, 1]])


def test_unknown_words_are_passed_over_and_a_name_of_such_has_no_vector(path):
    vectors = WordVectors(path).encode(["heart murmur", "murmur", "-", "+"])
    assert np.allclose(vectors, [[1, 0], [0, 0], [0, 0], [0, 0]])


def test_a_header_as_in_word2vec_is_no_word(tmp_path):
    (tmp_path / "w.vec").write_text("2 3\nheart 1 0 0\n2 0 0 1\n")
    assert np.allclose(WordVectors(tmp_path / "w.vec").encode(["2 heart"]) ** 2, [[0.5, 0, 0.5]])


@pytest.mark.parametrize(
    ("text", "line", "got"),
    [
        ("heart 1 0\nattack 1\n", 2, "attack 1"),
        ("heart 1 0\nattack 1 0 0\n", 2, "attack 1 0 0"),
        ("heart 1 0\nother 1\n", 2, "other 1"),
        ("heart 1 x\n", 1, "heart 1 x"),
        ("heart 1 nan\n", 1, "heart 1 nan"),
        ("2 3\nheart 1 0\n", 2, "heart 1 0"),
        ("heart\n", 1, "heart"),
        ("heart 1 1e39\n", 1, "heart 1 1e39"),
        ("other 1 x\nheart 1 0\n", 1, "other 1 x"),
        ("This is prose.\nWithout any numbers.\n", 1, "This is prose."),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(tmp_path, text, line, got):
    (tmp_path / "g.txt").write_text(text)
    with pytest.raises(UsageError) as error:
        WordVectors(tmp_path / "g.txt").encode(["heart attack"])
    message = str(error.value)
    assert message.startswith(f"embedding: {tmp_path}/g.txt:{line}: expected a word and ")
    assert f"got {got!r}; fix the line" in message


def test_bytes_of_another_encoding_hide_no_other_line(tmp_path):
    (tmp_path / "g.txt").write_bytes(b"caf\xe9 1 1\nheart 0 2\n")
    assert np.allclose(
        WordVectors(tmp_path / "g.txt").encode(["heart", "caf\u00e9"]), [[0, 1], [0, 0]]
    )


def test_the_embedder_keeps_word_vectors_and_follows_the_file(path, tmp_path, cache):
    embedder = Embedder("glove.txt", base=tmp_path)
    kept = embedder.vectors(["heart", "gout"])
    assert isinstance(kept, np.memmap)
    path.write_text(FILE.replace("3 0", "0 3"))
    changed = Embedder("glove.txt", base=tmp_path)
    assert changed.identity != embedder.identity
    assert np.allclose(changed.vectors(["heart", "gout"]), [[0, 1], [-1, 0]])
    assert len(list(cache.iterdir())) == 2


def test_names_without_a_known_word_are_counted_and_never_drawn(path, tmp_path):
    vocabulary = vocabulary_of("v", ["heart attack", "murmur", "gout"])
    names = VectorPerturbationSet(
        vocabulary, Embedder("glove.txt", base=tmp_path), SynonymGroups("none", "0", [])
    )
    item = Question(id="q", stem="?", options=("attack", "zinc"), key="A", mentions=())
    assert names.undefined.tolist() == [1]
    assert names.lack == "without a vector"
    assert np.isnan(names.distances("attack")).tolist() == [False, True, False]
    assert names.allowed(item).tolist() == [2]
    unknown = Question(id="q", stem="?", options=("murmurs", "zinc"), key="A", mentions=())
    assert names.obstacle(unknown) == (
        "the key 'murmurs' is without a vector, so no name has a distance from it"
    )
