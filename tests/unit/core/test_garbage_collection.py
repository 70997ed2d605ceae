import gc

import pytest

from medstress.core.frozen import NET_OBJECTS, rare_collections


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
