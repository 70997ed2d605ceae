"""All that models compute on the processor happens in one thread."""

import threading

import pytest

from medstress.entities import processor
from medstress.entities.processor import in_compute_thread


@pytest.fixture(autouse=True)
def no_cuda(monkeypatch):
    monkeypatch.setattr(processor, "_has_cuda", lambda: False)


def here():
    return threading.get_ident()


def test_whoever_asks_it_is_the_same_thread_and_not_theirs():
    found = [in_compute_thread(here)()]
    threads = [
        threading.Thread(target=lambda: found.append(in_compute_thread(here)())) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found) == {found[0]}
    assert found[0] != here()
