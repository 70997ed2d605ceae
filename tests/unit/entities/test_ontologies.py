import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.entities.ontologies import Ontology, load_ontology
from medstress.entities.tables import shipped_rows

TREE = {"a": ["root"], "b": ["root"], "a1": ["a"], "a2": ["a"], "a1x": ["a1"], "alone": []}
NAMES = [("top", ["root"]), ("left", ["a1x"]), ("both", ["a2", "b"]), ("isle", ["alone"])]


@pytest.fixture
def small() -> Ontology:
    return Ontology("small", "0", TREE, NAMES)


def steps(ontology: Ontology, one: str, other: str) -> float:
    return float(np.fmin.reduce(ontology.steps(ontology.places(one))[list(ontology.places(other))]))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("left", "left", 0), ("left", "top", 3), ("left", "both", 3), ("both", "top", 1)],
)
def test_the_shortest_path_goes_through_the_nearest_pair_of_places(small, one, other, expected):
    assert steps(small, one, other) == steps(small, other, one) == expected


def test_there_is_no_path_between_parts_that_are_not_joined(small):
    assert np.isnan(steps(small, "left", "isle"))


def test_a_name_is_found_whatever_its_case_and_word_order(small):
    ontology = Ontology("o", "0", TREE, [("type 2 diabetes", ["a"])])
    assert ontology.places("Diabetes, type 2") == ontology.places("TYPE 2 DIABETES") != ()
    assert ontology.places("diabetes") == small.places("") == ()


def test_a_name_of_several_concepts_stands_at_all_of_them():
    ontology = Ontology("o", "0", TREE, [("x", ["a"]), ("X", ["b"]), ("x", ["a"])])
    assert len(ontology.places("x")) == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_steps_are_those_of_a_plain_breadth_first_search(pairs):
    parents = {str(n): [] for n in range(10)}
    for low, high in pairs:
        if low != high:
            parents[str(low)].append(str(high))
    near = {n: set() for n in parents}
    for node, above in parents.items():
        for other in above:
            near[node].add(other)
            near[other].add(node)
    expected, ring, step = {}, {"0"}, 0
    while ring:
        expected.update(dict.fromkeys(ring, step))
        ring = {o for node in ring for o in near[node]} - expected.keys()
        step += 1
    found = Ontology("o", "0", parents, []).steps([0])
    assert {str(i): int(s) for i, s in enumerate(found) if not np.isnan(s)} == expected


def test_every_parent_of_mondo_is_a_disease_or_the_root():
    rows = list(shipped_rows("mondo"))
    known = {disease for disease, _, _ in rows} | {"0700096"}
    assert {parent for _, above, _ in rows for parent in above.split()} <= known
    assert all(above for _, above, _ in rows)


def test_every_concept_of_a_hierarchy_has_names():
    named = {concept for concept, *_ in shipped_rows("diseases")}
    assert {concept for concept, _ in shipped_rows("mesh")} <= named
    joined = {concept for _, _, concept in shipped_rows("mondo") if concept.startswith("MESH:")}
    assert joined <= named
    own = {f"MONDO:{disease}" for disease, _, concept in shipped_rows("mondo") if concept == "="}
    assert own <= named


@pytest.mark.parametrize("name", ["mondo", "mesh"])
def test_a_shipped_hierarchy_is_one_piece(name):
    ontology = load_ontology(name)
    assert np.isfinite(ontology.steps(ontology.places("asthma"))).all()


def test_relatives_are_nearer_than_strangers():
    for name in ("mondo", "mesh"):
        ontology = load_ontology(name)
        near = steps(ontology, "type 1 diabetes mellitus", "type 2 diabetes mellitus")
        assert 1 <= near < steps(ontology, "type 1 diabetes mellitus", "scabies")
