"""Plans are cut by whole items: evenly, and what belongs together stays together."""

from collections import Counter
from dataclasses import dataclass

import pytest

from medstress.core.errors import UsageError
from medstress.store.shards import Shard, cut, parse_shard


@dataclass(frozen=True)
class _Item:
    hash: str
    passage: str = ""


def _items(n: int, name: str = "q") -> list[_Item]:
    return [_Item(f"{name}{i}") for i in range(n)]


@pytest.mark.parametrize("n_shards", [1, 2, 7, 64])
def test_shards_differ_by_one_item_of_a_data_set_at_most(n_shards):
    for n in (0, 1, 6, 7, 8, 1000):
        (shards,) = cut([_items(n)], n_shards)
        counts = Counter(shards)
        sizes = [counts[number] for number in range(1, n_shards + 1)]
        assert sum(sizes) == n
        assert max(sizes) - min(sizes) <= 1


def test_small_data_sets_do_not_all_begin_with_the_first_shard():
    shards = cut([_items(1, f"d{i}") for i in range(8)], 4)
    assert Counter(one for (one,) in shards) == {1: 2, 2: 2, 3: 2, 4: 2}


def test_items_of_equal_content_are_in_one_shard_also_across_data_sets():
    first, second = _items(20), [*_items(5, "other"), *_items(20)]
    one, other = cut([first, second], 6)
    assert other[5:] == one
    (twins,) = cut([[_Item("a"), _Item("b"), _Item("c"), _Item("a")]], 3)
    assert twins[0] == twins[3]


def test_items_that_share_a_passage_stay_together_up_to_a_fair_part():
    items = [_Item(f"q{i}", f"passage {i // 4}") for i in range(40)]
    (shards,) = cut([items], 5)
    assert all(len(set(shards[i : i + 4])) == 1 for i in range(0, 40, 4))
    assert set(Counter(shards).values()) == {8}
    # One passage for all would leave the other shards empty.
    (shards,) = cut([[_Item(f"q{i}", "guideline") for i in range(40)]], 5)
    assert set(Counter(shards).values()) == {8}


def test_a_plan_that_grows_at_its_end_moves_nothing():
    for n_shards in (2, 3, 10):
        few = cut([_items(11), _items(7, "b")], n_shards)
        many = cut([_items(30), _items(9, "b")], n_shards)
        assert [one[: len(other)] for one, other in zip(many, few, strict=True)] == few


@pytest.mark.parametrize("size", [1, 3, 6, 20, 300])
def test_a_plan_with_passages_that_grows_at_its_end_moves_nothing(size):
    items = [_Item(f"q{i}", f"passage {i // size}") for i in range(300)]
    for n_shards in (2, 3, 10, 64):
        (many,) = cut([items], n_shards)
        for n in (1, 6, 8, 59, 200):
            assert cut([items[:n]], n_shards) == [many[:n]]
        counts = Counter(many)
        assert max(counts.values()) - min(counts[n] for n in range(1, n_shards + 1)) <= 8


def test_shards_are_in_the_order_of_their_numbers():
    assert sorted([Shard(3, 2), Shard(3, 3), Shard(3, 1)]) == [Shard(3, n) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("text", "variables", "word"),
    [
        *((text, {}, "shard") for text in ("65/64", "0/4", "-1/4", "a/b", "", "2/1", "1/100001")),
        ("auto/4", {}, "SLURM_ARRAY_TASK_ID is not set"),
        ("auto/4", {"ID": "x"}, "'x'"),
        ("auto/4", {"ID": "7", "MIN": "1"}, "got 7"),
        ("auto/4", {"ID": "3", "MIN": "3", "COUNT": "2"}, "2 tasks and not 4"),
    ],
)
def test_a_shard_that_is_none_is_refused(text, variables, word, said):
    environment = {f"SLURM_ARRAY_TASK_{name}": value for name, value in variables.items()}
    with pytest.raises(UsageError) as error:
        parse_shard(text, environment)
    said(str(error.value), word)
