import numpy as np

from medstress.entities.vector_files import ArrayCache


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
