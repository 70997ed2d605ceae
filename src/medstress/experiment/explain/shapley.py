"""Owen values of the tokens of a prompt, as a generator of masks.

The search, its order and its numbers are those of the partition explainer of the package shap,
which Xian et al. use. Here it is a generator, since shap calls a model, while a scheduler answers
many prompts at once; and shap spends 15 seconds on its imports and on compiling.

References:
    Owen, "Values of games with a priori unions", 1977.
    Lundberg and Lee, "A unified approach to interpreting model predictions", NeurIPS 2017.
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 5.3 and Appendix E.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.experiment.explain.texts import Mask, as_key

Floats: TypeAlias = NDArray[np.float64]
Masks: TypeAlias = list[Mask]
Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""A token, or two branches."""

EVALUATIONS = 500
"""Masked texts of one prompt at most, by default; shap's own default."""
BATCH = 64
"""Masked texts that the search asks at once. shap asks 10; more fill the batches of a back end, and
the search, which goes on where values are largest, chooses a little less well."""
LEVELS = 3
"""Levels of the tree whose masks are asked in the first round: with batches of 32 or more the
search asks them in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owen:
    """The values of one prompt."""

    values: Floats
    """Of each token for each output, `(n_tokens, n_outputs)`."""
    base: Floats
    """The outputs with all tokens masked, `(n_outputs,)`."""
    full: Floats
    """The outputs of the prompt itself, `(n_outputs,)`."""
    n_evaluations: int
    """Distinct masked texts that were asked, the prompt itself included."""

    @property
    def gap(self) -> float:
        """How far the values and the base are from adding up to the prompt's outputs."""
        return float(np.max(np.abs(self.values.sum(axis=0) + self.base - self.full)))


def owen_values(
    tree: Tree, n: int, *, evaluations: int = EVALUATIONS, batch: int = BATCH
) -> Generator[Masks, Floats, Owen]:
    """Compute the Owen values of a prompt's tokens.

    The search halves the tree from the top where the outputs change most, until the evaluations
    are used up; what is left at a branch is shared equally among its tokens. Values add up to the
    difference that the whole prompt makes, however early the search ends.

    Args:
        tree: over the tokens; groups of tokens before their parts.
        n: tokens, at least 1.
        evaluations: masked texts at most; the first levels may take a few more.
        batch: masked texts that are asked at once.

    Yields:
        Distinct masks; expects their outputs, `(n_masks, n_outputs)`.
    """
    levels = LEVELS if batch >= 2 * 4 ** (LEVELS - 1) <= evaluations else 0
    known: dict[bytes, Floats] = {}

    def asked(masks: Masks) -> Generator[Masks, Floats, list[Floats]]:
        """Return the outputs of masks; those that are new are asked."""
        new = {as_key(mask): mask for mask in masks if as_key(mask) not in known}
        if new:
            known.update(zip(new, (yield list(new.values())), strict=True))
        return [known[as_key(mask)] for mask in masks]

    yield from asked(first_masks(tree, n, levels))
    nothing = np.zeros(n, dtype=bool)
    base, full = known[as_key(nothing)], known[as_key(~nothing)]
    children, inside = _numbered(tree, n)
    credit = np.zeros((len(inside), len(base)))
    # Branches to halve: where outputs change most, then by lot, which is the same in every process.
    lots = np.random.RandomState(0)
    waiting = [(0.0, 0.0, (nothing, base, full, len(inside) - 1, 1.0))]
    n_asked, most = 0, evaluations - 2
    while waiting:
        halved: list[tuple[Mask, Mask, Mask, Floats, Floats, int, float]] = []
        while waiting and (n_asked >= most or 2 * len(halved) < min(batch, most - n_asked)):
            shown, low, high, branch, weight = heappop(waiting)[2]
            if branch < n or n_asked >= most:
                credit[branch] += (high - low) * weight
                continue
            left, right = children[branch]
            halved.append(
                (shown, shown | inside[left], shown | inside[right], low, high, branch, weight)
            )
        outputs = iter((yield from asked([mask for part in halved for mask in part[1:3]])))
        n_asked += 2 * len(halved)
        for shown, with_left, with_right, low, high, branch, weight in halved:
            left, right = children[branch]
            of_left, of_right = next(outputs), next(outputs)
            for context, before, after, half in (
                (shown, low, of_left, left),
                (shown, low, of_right, right),
                (with_right, of_right, high, left),
                (with_left, of_left, high, right),
            ):
                change = float(np.max(np.abs(after - before))) * (weight / 2)
                entry = (context, before, after, half, weight / 2)
                heappush(waiting, (-change, float(lots.randn()), entry))
    sizes = [int(one.sum()) for one in inside]
    for branch in range(len(inside) - 1, n - 1, -1):  # parents before children
        for half in children[branch]:
            credit[half] += credit[branch] * sizes[half] / sizes[branch]
    return Owen(values=credit[:n], base=base, full=full, n_evaluations=len(known))


def _numbered(tree: Tree, n: int) -> tuple[dict[int, tuple[int, int]], Masks]:
    """Number the branches of a tree over tokens 0 to n - 1, from n on and children before parents.

    Returns:
        The two halves of each branch, and the tokens inside of each token and branch.
    """
    children: dict[int, tuple[int, int]] = {}
    inside: Masks = list(np.eye(n, dtype=bool))

    def number(part: Tree) -> int:
        if isinstance(part, int):
            return part
        left, right = number(part[0]), number(part[1])
        children[len(inside)] = left, right
        inside.append(inside[left] | inside[right])
        return len(inside) - 1

    number(tree)
    return children, inside


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


def first_masks(tree: Tree, n: int, levels: int) -> Masks:
    """Return the masks that a search asks in its first levels, whatever it is answered.

    The search begins with nothing shown and everything shown. At every branching it shows the left
    and the right branch on top of what is shown already, which at the next level is nothing more or
    the sibling as well.
    """
    found = [np.zeros(n, dtype=bool), np.ones(n, dtype=bool)]
    open_: list[tuple[Mask, Tree]] = [(found[0], tree)]
    for _ in range(levels):
        deeper: list[tuple[Mask, Tree]] = []
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
