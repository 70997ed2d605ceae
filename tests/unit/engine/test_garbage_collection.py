import gc

import pytest

from medstress.engine.scheduler import NET_OBJECTS, rare_collections


@pytest.fixture(autouse=True)
def _as_before():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_meanwhile_and_as_before_afterwards():
    gc.set_threshold(700, 11, 12)
    seen = []

    def interrupted() -> None:
        with rare_collections():
            seen.append(gc.get_threshold())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen == [(NET_OBJECTS, 11, 12)]
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("given", [0, 2 * NET_OBJECTS])
def test_a_collector_that_is_off_or_looks_more_seldom_stays_so(given):
    gc.set_threshold(given, 10, 10)
    with rare_collections():
        assert gc.get_threshold() == (given, 10, 10)
