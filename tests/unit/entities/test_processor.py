"""All that models compute on the processor happens in one thread."""

import os
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


def test_errors_reach_the_caller():
    def fail():
        raise ValueError("no such weight")

    with pytest.raises(ValueError, match="no such weight"):
        in_compute_thread(fail)()


def test_with_cuda_it_runs_where_it_is_called(monkeypatch):
    monkeypatch.setattr(processor, "_has_cuda", lambda: True)
    assert in_compute_thread(here)() == here()


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="this system cannot fork")
def test_a_child_process_gets_a_thread_of_its_own():
    before = processor._pool()
    processor._pool.cache_clear()  # what a fork does in the child
    try:
        assert processor._pool() is not before
        assert in_compute_thread(here)() != here()
    finally:
        processor._pool().shutdown()
        processor._pool.cache_clear()
        before.shutdown()
