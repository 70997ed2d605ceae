"""How many cores work in the thread that computes."""

import pytest

from medstress.entities.processor import in_compute_thread

torch = pytest.importorskip("torch", reason="needs the extra transformers")


def test_as_many_cores_work_as_its_caller_set():
    before = torch.get_num_threads()
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            assert in_compute_thread(torch.get_num_threads)() == n
    finally:
        torch.set_num_threads(before)
