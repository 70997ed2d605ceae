from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.entities.distances import NAMED, check_types, wrong_distance
from medstress.entities.embeddings import Embedder
from medstress.entities.groups import types_of
from medstress.entities.perturbations import VectorPerturbationSet
from medstress.entities.vocabularies import SynonymGroups, vocabulary_of

NONE = SynonymGroups("none", "0", [])
DISEASES = ("asthma", "status asthmaticus", "scurvy", "vitamin c deficiency", "gout", "no disease")


def names_with(distance: str, names: tuple[str, ...] = DISEASES, base: Path | None = None):
    vocabulary = vocabulary_of("v", names)
    embedder = Embedder("ngram")
    return VectorPerturbationSet(vocabulary, embedder, NONE, distance, base=base)


def function_file(folder: Path, body: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(f"import numpy as np\ndef h(anchor, names):\n    {body}\n")
    return folder


def question(key: str) -> Question:
    return Question(id="q", stem="Which?", options=(key, "zinc"), key="A", mentions=())


@pytest.mark.parametrize("distance", NAMED)
def test_a_named_distance_is_symmetric_not_negative_and_zero_at_the_name_itself(distance):
    names = names_with(distance)
    square = np.stack([names.distances(name) for name in DISEASES])
    assert np.allclose(square, square.T, equal_nan=True, atol=1e-7)
    alone = [names.distance_to("asthma", name) for name in DISEASES]
    assert np.allclose(square[0], alone, equal_nan=True, atol=1e-7)
    for i, name in enumerate(DISEASES[:5]):
        h = names.distances(name)
        assert (h.dtype, h.shape) == (np.float64, (6,))
        defined = h[np.isfinite(h)]
        assert (defined >= 0).all()
        assert h[i] < 1e-6
        assert names.distance_to(name, name) == pytest.approx(h[i], abs=1e-7)


def test_names_outside_the_hierarchy_are_not_drawn_and_are_counted():
    names = names_with("mesh")
    assert names.undefined.tolist() == [5]
    assert names.lack == "outside MeSH"
    assert 5 not in names.allowed(question("gout"))
    assert names.obstacle(question("gout")) is None


@pytest.mark.parametrize(("distance", "title"), [("mondo", "MONDO"), ("mesh", "MeSH")])
def test_a_key_outside_the_hierarchy_is_named(distance, title):
    names = names_with(distance)
    assert names.obstacle(question("Aspirin 5 mg")) == (
        f"the key 'Aspirin 5 mg' is outside {title}, so no name has a distance from it"
    )
    assert np.isnan(names.distances("Aspirin 5 mg")).all()
    assert np.isnan(names.distance_to("Aspirin 5 mg", "gout"))
    assert names.allowed(question("Aspirin 5 mg")).size == 0


def test_a_function_gives_the_distance(tmp_path):
    function_file(tmp_path, "return [abs(len(anchor) - len(n)) for n in names]")
    names = names_with("mine.py:h", base=tmp_path)
    names.prepare(["gout"], ["asthma"])
    assert names.distances("gout").tolist() == [2, 14, 2, 16, 0, 6]
    assert names.distance_to("gout", "ab") == 2
    assert 4 not in names.allowed(question("gout"))


def test_a_function_may_leave_distances_undefined(tmp_path):
    function_file(tmp_path, "return [np.nan if n == 'gout' else 1.0 for n in names]")
    names = names_with("mine.py:h", base=tmp_path)
    assert names.allowed(question("scabies")).tolist() == [0, 1, 2, 3, 5]
    function_file(tmp_path, "return np.full(len(names), np.nan)", "none.py")
    assert names_with("none.py:h", base=tmp_path).obstacle(question("scabies")) == (
        "the key 'scabies' is without a distance, so no name has a distance from it"
    )


def test_the_hash_follows_the_source_of_a_function_but_not_its_folder(tmp_path):
    hashes = set()
    for folder, body in (("a", "return np.ones(len(names))"), ("b", "return np.zeros(1)")):
        (tmp_path / folder).mkdir()
        function_file(tmp_path / folder, body)
        hashes.add(names_with("mine.py:h", base=tmp_path / folder).hash)
    (tmp_path / "c").mkdir()
    function_file(tmp_path / "c", "return np.ones(len(names))")
    hashes.add(names_with("mine.py:h", base=tmp_path / "c").hash)
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("return [1.0]", ""),
        ("return np.full(len(names), -1.0)", "'asthma'"),
        ("return np.full(len(names), np.inf)", "'asthma'"),
        ("return names[7]", "raised IndexError"),
        ("return names", "raised ValueError"),
    ],
)
def test_what_a_function_gets_wrong_is_told_before_the_run(tmp_path, body, where, said):
    function_file(tmp_path, body)
    with pytest.raises(UsageError) as error:
        names_with("mine.py:h", base=tmp_path).prepare(["gout"])
    said(str(error.value), where)


@pytest.mark.parametrize("distance", ["cosin", ":h", "mine.py:", "Mondo"])
def test_a_word_that_names_no_distance_is_refused(distance):
    reason = wrong_distance(distance)
    assert reason is not None
    assert reason.startswith(
        'expected one of cosine, euclidean, mondo, mesh, "module:function" or '
        f'"file.py:function", got {distance!r}'
    )


def test_path_lengths_between_diseases_are_refused_for_other_types(said):
    for distance in NAMED:
        check_types(distance, types_of("diseases"))
        check_types(distance, types_of(["T047"]))
    check_types("cosine", types_of("drugs"))
    with pytest.raises(UsageError) as error:
        check_types("mesh", types_of(["T047", "T121"]))
    said(str(error.value), "entities, key 'distance'", "'mesh'", "'cosine'")


@given(st.lists(st.text(min_size=1, max_size=12), min_size=2, max_size=6, unique=True))
def test_vector_distances_of_any_names_are_symmetric_and_not_negative(words):
    for distance in ("cosine", "euclidean"):
        vocabulary = vocabulary_of("v", [*words, "x"])
        names = VectorPerturbationSet(vocabulary, Embedder("ngram"), NONE, distance)
        one, other = vocabulary.names[0], vocabulary.names[-1]
        there, back = names.distance_to(one, other), names.distance_to(other, one)
        assert np.isnan(there) == np.isnan(back)
        assert np.isnan(there) or (there == back and there >= 0)
