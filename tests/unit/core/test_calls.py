from itertools import combinations

import pytest

from medstress.core.calls import (
    Call,
    Choose,
    Decoding,
    Generate,
    Message,
    ModelIdentity,
    Request,
    Score,
)

MODEL = ModelIdentity(name="m", hash="1")
CALLS: list[Call] = [
    Generate("p"),
    Generate("q"),
    Generate((Message("user", "p"),)),
    Generate((Message("system", "p"),)),
    Generate((Message("user", "p"), Message("assistant", "p"))),
    Generate("p", Decoding(max_new_tokens=5)),
    Generate("p", Decoding(temperature=1.0)),
    Score("p", ("a", "b")),
    Score("p", ("b", "a")),
    Score("p", ("ab",)),
    Score("p", ("a", "b"), first_token=True),
    Choose("p", "AB"),
    Choose("p", "ABC"),
]


def test_equal_calls_have_equal_keys():
    one = Request(Score("p", ("a", "b"))).key(MODEL)
    other = Request(Score("p", ("a", "b"))).key(MODEL)
    assert one == other
    assert len(one) == 16


def test_different_calls_have_different_keys():
    for one, other in combinations(CALLS, 2):
        assert Request(one).key(MODEL) != Request(other).key(MODEL), (one, other)


@pytest.mark.parametrize("call", CALLS, ids=repr)
def test_the_sample_index_and_the_model_are_part_of_the_key(call):
    base = Request(call).key(MODEL)
    assert Request(call, sample=1).key(MODEL) != base
    assert Request(call).key(ModelIdentity(name="m", hash="2")) != base


@pytest.mark.parametrize("call", CALLS, ids=repr)
def test_the_name_shown_to_people_is_no_part_of_the_key(call):
    assert Request(call).key(ModelIdentity(name="x", hash="1")) == Request(call).key(MODEL)
