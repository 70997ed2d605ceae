from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from medstress.core.items import Mention, Question
from medstress.entities.embeddings import Embedder
from medstress.entities.perturbations import VectorPerturbationSet
from medstress.entities.vocabularies import SynonymGroups, vocabulary_of

TWINS = SynonymGroups("twins", "1", [("1", "paracetamol"), ("1", "acetaminophen")])


def question(*options: str, mentions: tuple[Mention, ...] = (), key: str = "A") -> Question:
    return Question(id="q", stem="Which drug?", options=options, key=key, mentions=mentions)


def mention(field: str, start: int, end: int) -> Mention:
    return Mention(field=field, start=start, end=end, type="T121")


@pytest.fixture
def names(vocabulary):
    return VectorPerturbationSet(vocabulary, Embedder("ngram"), TWINS)


def left_out(names: VectorPerturbationSet, item: Question, **how) -> set[str]:
    kept = {names.names[i] for i in names.allowed(item, **how)}
    return set(names.names) - kept


@pytest.mark.parametrize(
    ("options", "entity", "gone"),
    [
        ("Diclofenac|ibuprofen|zinc", None, "diclofenac|diclofenac sodium|ibuprofen"),
        ("warfarin sodium|zinc", None, "warfarin|Warfarin-Sodium|sodium"),
        ("Paracetamol|zinc", None, "paracetamol|acetaminophen"),
        ("zinc|Paracetamol", None, "paracetamol"),
        ("zinc| Warfarin sodium", None, "Warfarin-Sodium"),
        ("Start warfarin|Stop it", ("A", 6, 14), "warfarin|Warfarin-Sodium"),
        ("Start paracetamol|Stop it", ("A", 6, 17), "paracetamol|acetaminophen"),
        ("Watch|Give warfarin", ("B", 5, 13), "warfarin"),
        ("Watch|Wait", ("stem", 0, 5), ""),
    ],
)
def test_options_and_what_means_the_key_or_an_entity_in_it_are_left_out(
    names, options, entity, gone
):
    mentions = (mention(*entity),) if entity else ()
    item = question(*options.split("|"), mentions=mentions)
    assert left_out(names, item) == set(filter(None, gone.split("|")))


def test_marking_asks_variants_and_synonyms_but_never_an_option_or_the_key(names):
    item = question("Diclofenac", "Paracetamol", "zinc")
    assert left_out(names, item, rule="mark") == {"diclofenac", "paracetamol"}


def test_a_name_with_the_vector_of_the_key_is_left_out():
    class Blind(Embedder):
        identity = "blind"

        def _blocks(self, names, progress):
            yield np.array([[float(len(t)), 1.0] for t in names], dtype=np.float32)

    names = VectorPerturbationSet(
        vocabulary_of("v", ["iron", "zinc", "gold dust"]), Blind("blind.txt"), TWINS
    )
    assert left_out(names, question("lead", "silver")) == {"iron", "zinc"}


def test_distances_are_one_minus_cosine_in_float64(names):
    h = names.distances("diclofenac sodium")
    vectors = names.vectors_of(np.arange(len(names.names)))
    assert (h.dtype, h.shape) == (np.float64, (len(names.names),))
    assert np.allclose(h, 1 - vectors @ vectors[2], atol=1e-7)
    assert (h >= 0).all()
    assert h[2] < 1e-9
    assert h[1] < h[0]


def test_prepared_anchors_need_no_embedder_later(vocabulary, glove, monkeypatch):
    names = VectorPerturbationSet(vocabulary, Embedder(glove), TWINS)
    fresh = names.distances("Iron oxide")
    again = VectorPerturbationSet(names.vocabulary, names._embedder, TWINS)
    again.prepare(["Iron oxide", "gold", "gold"])
    monkeypatch.setattr(Embedder, "_blocks", lambda *_: pytest.fail("embedded again"))
    again.prepare(["gold"])
    assert np.allclose(again.distances("Iron oxide"), fresh, atol=1e-12)


def test_threads_read_the_same_answers(names):
    items = [question(f"zinc {i}", "iron", "warfarin") for i in range(40)]
    alone = [names.allowed(item).tolist() for item in items]
    fresh = VectorPerturbationSet(names.vocabulary, names._embedder, TWINS)
    with ThreadPoolExecutor(8) as pool:
        assert [found.tolist() for found in pool.map(fresh.allowed, items)] == alone


def test_the_hash_follows_every_part(vocabulary, glove):
    embedder = Embedder("ngram")
    none = SynonymGroups("none", "0", [])
    hashes = {
        VectorPerturbationSet(vocabulary, embedder, TWINS).hash,
        VectorPerturbationSet(vocabulary, embedder, none).hash,
        VectorPerturbationSet(vocabulary, embedder, TWINS, distance="euclidean").hash,
        VectorPerturbationSet(vocabulary, Embedder(glove), TWINS).hash,
        VectorPerturbationSet(vocabulary_of("v", ["a"]), embedder, TWINS).hash,
    }
    assert len(hashes) == 5
    assert VectorPerturbationSet(vocabulary, Embedder("ngram"), TWINS).hash in hashes


def test_what_is_left_out_is_counted_under_the_first_reason_that_fits(names):
    item = question("Paracetamol", "diclofenac", "zinc")
    assert names.n_excluded(item) == {"synonym": 1, "equal_to_option": 1, "key_duplicate": 1}
    assert names.n_excluded(item, "mark") == {"equal_to_option": 1, "key_duplicate": 1}
    assert names.n_excluded(item, "key_string") == {"key_duplicate": 1}


def test_a_name_without_a_distance_is_counted_as_such():
    names = VectorPerturbationSet(vocabulary_of("v", ["-", "zinc"]), Embedder("ngram"), TWINS)
    item = question("iron", "gold")
    assert names.n_excluded(item, "key_string") == {"undefined_distance": 1}
    assert np.isnan(names.distances("iron")).tolist() == [True, False]
    assert names.allowed(item).tolist() == [1]


@pytest.mark.parametrize("rule", ["exclude", "mark", "key_string"])
def test_a_name_is_objected_to_exactly_where_the_default_rule_leaves_it_out(names, rule):
    for item in (question("Diclofenac", "zinc"), question("warfarin sodium", "Paracetamol")):
        allowed = set(names.allowed(item).tolist())
        for i in names.allowed(item, rule):
            assert (names.objection(item, names.names[i]) is None) == (i in allowed)


def test_a_name_that_would_turn_one_option_into_another_is_left_out(names):
    item = question(
        "Stop all",
        "Give zinc, then warfarin",
        "Give zinc, then aspirin",
        mentions=(mention("B", 16, 24),),
    )
    assert {"aspirin", "warfarin"} <= left_out(names, item, rule="mark")
    assert names.objection(item, "Aspirin") == "equal_to_option"
    assert names.objection(item, "iron oxide") is None
