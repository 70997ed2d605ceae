"""Halving on lack of memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medstress.backends.models.out_of_memory import in_halves


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_and_nothing_is_lost(error: Exception) -> None:
    sizes: list[int] = []

    def run(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        if sum(items) > 10:
            raise error
        return [item * 10 for item in items]

    assert in_halves([1, 2, 3, 4, 5, 11, 6], run) == [10, 20, 30, 40, 50, None, 60]
    assert sizes[0] == 7


def test_other_errors_pass_through() -> None:
    def run(items: Sequence[int]) -> list[int]:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        in_halves([1, 2], run)
