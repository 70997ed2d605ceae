import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.entities.distances import Ontology, load_ontology, parent_headings

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


def test_a_name_is_found_whatever_its_case_and_word_order(small):
    ontology = Ontology("o", "0", TREE, [("type 2 diabetes", ["a"])])
    assert ontology.places("Diabetes, type 2") == ontology.places("TYPE 2 DIABETES") != ()
    assert ontology.places("diabetes") == small.places("") == ()


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


@pytest.mark.parametrize("name", ["mondo", "mesh"])
def test_a_shipped_hierarchy_is_one_piece(name):
    ontology = load_ontology(name)
    assert np.isfinite(ontology.steps(ontology.places("asthma"))).all()


def test_a_path_through_mesh_enters_a_heading_at_one_number_and_leaves_it_at_another():
    rows = [("a", "C01"), ("b", "C02"), ("x", "C01.1 C02.1.7"), ("a2", "C01.2"), ("b1", "C02.1")]
    rows.append(("far", "C02.1.9.5"))
    ontology = Ontology("o", "0", parent_headings(rows), [(key, [key]) for key, _ in rows])
    # a2 - a - x - b1: over tree numbers alone it would be a2 - a - root - b - b1.
    assert steps(ontology, "a2", "b1") == 3
    assert steps(ontology, "a2", "x") == 2
    # C02.1.9 is no heading's number, and yet a link of the path.
    assert steps(ontology, "far", "b1") == 2
