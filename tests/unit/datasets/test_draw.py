import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.datasets.source import draw


def questions(ids):
    return [Question(id=name, stem="?", options=("x", "y"), key="A") for name in ids]


def ids(items):
    return [item.id for item in items]


names = st.lists(st.text(max_size=5), unique=True, min_size=1, max_size=30)
limits = st.integers(1, 35)


@settings(deadline=None)
@given(names, limits, limits, st.integers(0, 5))
def test_a_smaller_sample_lies_inside_a_larger_one(pool, one, other, seed):
    small, large = (ids(draw(questions(pool), n, seed)) for n in sorted((one, other)))
    assert set(small) <= set(large)
    assert (len(small), len(large)) == tuple(min(n, len(pool)) for n in sorted((one, other)))


@settings(deadline=None)
@given(names, limits, st.randoms(use_true_random=False))
def test_what_is_drawn_does_not_depend_on_the_order_of_the_rows(pool, limit, shuffler):
    mixed = list(pool)
    shuffler.shuffle(mixed)
    drawn = ids(draw(questions(mixed), limit))
    assert set(drawn) == set(ids(draw(questions(pool), limit)))
    assert drawn == [name for name in mixed if name in drawn]


def test_every_question_is_drawn_equally_often_over_the_seeds():
    pool = questions("abcdefghij")
    counts = dict.fromkeys("abcdefghij", 0)
    for seed in range(1000):
        for name in ids(draw(pool, 3, seed)):
            counts[name] += 1
    # Binomial(1000, 0.3) has a standard deviation of 14.5; five of them are 73.
    assert all(abs(count - 300) < 73 for count in counts.values())


def test_a_sample_stays_what_it_was_in_earlier_releases():
    pool = questions(map(str, range(20)))
    assert ids(draw(pool, 4)) == ["6", "12", "14", "18"]


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_is_refused(limit, said):
    with pytest.raises(UsageError) as caught:
        draw(questions("ab"), limit)
    said(str(caught.value), "limit")
