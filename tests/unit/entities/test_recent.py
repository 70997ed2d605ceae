import numpy as np

from medstress.entities.recent import Recent


def test_the_longest_unread_arrays_go_when_the_bytes_do_not_suffice():
    recent = Recent(24)
    for key in "abc":
        recent.keep(key, np.zeros(1))
    assert recent.find("a") is not None
    recent.keep("d", np.zeros(1))
    assert [key for key in "abcd" if recent.find(key) is not None] == ["a", "c", "d"]


def test_an_array_kept_twice_counts_once():
    recent = Recent(16)
    for key in "aab":
        recent.keep(key, np.zeros(1))
    assert recent.find("a") is not None


def test_an_array_larger_than_the_bound_is_kept_until_the_next():
    recent = Recent(1)
    recent.keep("a", np.zeros(100))
    assert recent.find("a") is not None
    recent.keep("b", np.zeros(100))
    assert recent.find("a") is None


def test_what_holds_small_arrays_counts_as_well():
    recent = Recent(200, entry_bytes=92)
    for key in "abc":
        recent.keep(key, np.zeros(1))
    assert [key for key in "abc" if recent.find(key) is not None] == ["b", "c"]
