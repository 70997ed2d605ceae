"""The tree of tokens along which values are shared: segments first, then halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""A token, or two branches."""
Clustering: TypeAlias = NDArray[np.float64]
"""As scipy writes hierarchies: (left, right, distance, tokens below) of each branching, children
before parents; numbers below n are tokens."""


def tree_of(sizes: Sequence[int]) -> Tree | None:
    """Return a balanced tree over segments, and over the tokens within each.

    A segment never shares a branch with part of another one, so a group of tokens is a whole option
    or edit before it is a part of one. Segments without tokens count when the tree is balanced.
    Hence two prompts that differ in the length of one segment have the same tree above it, and
    share all masked texts in which it is hidden.

    Args:
        sizes: tokens of each segment, in order.

    >>> tree_of([1, 2, 1])
    (0, ((1, 2), 3))
    >>> tree_of([0, 3, 0])
    (0, (1, 2))
    >>> tree_of([0]) is None
    True
    """
    starts = np.concatenate([[0], np.cumsum(sizes)])
    segments = [
        _halves([*range(int(start), int(start) + size)])
        for start, size in zip(starts, sizes, strict=False)
    ]
    return _halves(segments)


def _halves(parts: Sequence[Tree | None]) -> Tree | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    middle = len(parts) // 2
    left, right = _halves(parts[:middle]), _halves(parts[middle:])
    if left is None or right is None:
        return right if left is None else left
    return (left, right)


def clustering_of(tree: Tree, n: int) -> Clustering:
    """Return a tree over tokens 0 to n - 1 as a clustering, `(n - 1, 4)`.

    >>> clustering_of((0, (1, 2)), 3).tolist()
    [[1.0, 2.0, 1.0, 2.0], [0.0, 3.0, 1.0, 3.0]]
    """
    rows: list[tuple[int, int, int, int]] = []

    def number(branch: Tree) -> tuple[int, int]:
        """Return the number of a branch, and how many tokens it has."""
        if isinstance(branch, int):
            return branch, 1
        (left, n_left), (right, n_right) = number(branch[0]), number(branch[1])
        rows.append((left, right, 1, n_left + n_right))
        return n + len(rows) - 1, n_left + n_right

    number(tree)
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def first_masks(tree: Tree, n: int, levels: int) -> list[NDArray[np.bool_]]:
    """Return the masks that a search asks in its first levels, whatever it is answered.

    The search begins with nothing shown and everything shown. At every branching it shows the left
    and the right branch on top of what is shown already, which at the next level is nothing more or
    the sibling as well.
    """
    found = [np.zeros(n, dtype=bool), np.ones(n, dtype=bool)]
    open_: list[tuple[NDArray[np.bool_], Tree]] = [(found[0], tree)]
    for _ in range(levels):
        deeper: list[tuple[NDArray[np.bool_], Tree]] = []
        for shown, branch in open_:
            if isinstance(branch, int):
                continue
            left, right = shown.copy(), shown.copy()
            left[_tokens(branch[0])] = True
            right[_tokens(branch[1])] = True
            found += [left, right]
            deeper += [(shown, branch[0]), (shown, branch[1])]
            deeper += [(right, branch[0]), (left, branch[1])]
        open_ = deeper
    return found


def _tokens(branch: Tree) -> list[int]:
    if isinstance(branch, int):
        return [branch]
    return [*_tokens(branch[0]), *_tokens(branch[1])]
