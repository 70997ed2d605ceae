"""Owen values of tokens by the partition explainer of the package shap, as a generator of masks.

References:
    Owen, "Values of games with a priori unions", 1977.
    Lundberg and Lee, "A unified approach to interpreting model predictions", NeurIPS 2017.
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 5.3 and Appendix E.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.experiment.explain.masking import as_key
from medstress.experiment.explain.tree import Tree, clustering_of, first_masks
from medstress.experiment.explain.turns import in_turns
from medstress.files.extras import importing

Floats: TypeAlias = NDArray[np.float64]
Masks: TypeAlias = list[NDArray[np.bool_]]

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


def check_installed() -> None:
    """Import shap, which takes seconds.

    Raises:
        UsageError: it is not installed.
    """
    if sys.modules.get("shap") is not None:
        return
    with warnings.catch_warnings():
        # What its plots will have to change one day is not for our users.
        warnings.simplefilter("ignore")
        with importing("the package shap of medstress explain", "explain"):
            import shap  # noqa: F401


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
    check_installed()
    levels = LEVELS if batch >= 2 * 4 ** (LEVELS - 1) <= evaluations else 0
    known: dict[bytes, Floats] = {}

    def missing(masks: Masks) -> Masks:
        return list({as_key(mask): mask for mask in masks if as_key(mask) not in known}.values())

    def keep(masks: Masks, outputs: Floats) -> None:
        known.update(zip(map(as_key, masks), outputs, strict=True))

    first = missing(first_masks(tree, n, levels))
    keep(first, (yield first))
    if n == 1:
        base, full = known[as_key([False])], known[as_key([True])]
        return Owen(values=(full - base)[None], base=base, full=full, n_evaluations=2)

    def work(ask: Callable[[Any], Any]) -> Floats:
        return _explained(ask, tree, n, evaluations, batch)

    search = in_turns(work)
    try:
        asked = next(search)
        while True:
            masks = list(np.asarray(asked, dtype=bool))
            if unknown := missing(masks):
                keep(unknown, (yield unknown))
            asked = search.send(np.stack([known[as_key(mask)] for mask in masks]))
    except StopIteration as stop:
        values = stop.value
    finally:
        search.close()
    return Owen(
        values=np.asarray(values, dtype=np.float64),
        base=known[as_key(np.zeros(n, dtype=bool))],
        full=known[as_key(np.ones(n, dtype=bool))],
        n_evaluations=len(known),
    )


def _explained(
    ask: Callable[[Any], Any], tree: Tree, n: int, evaluations: int, batch: int
) -> NDArray[np.float64]:
    """Run shap's search; `ask` gets masks `(n_masks, n)` and returns outputs."""
    from shap import PartitionExplainer

    explainer = PartitionExplainer(ask, _MasksThemselves(tree, n))
    search = PartitionExplainer.owen
    # Ties are broken by random numbers. Its own numbers make the search the same in every process,
    # as a resumed explanation needs, and leave those of the user's functions alone.
    own = FunctionType(search.__code__, {**search.__globals__, "np": _SeededNumpy()})
    explainer.owen = MethodType(own, explainer)
    found = explainer.explain_row(
        np.zeros(n),
        max_evals=evaluations,
        main_effects=False,
        error_bounds=False,
        outputs=None,
        silent=True,
        batch_size=batch,
        fixed_context=None,
    )
    values: NDArray[np.float64] = found["values"]
    return values


class _MasksThemselves:
    """A masker for shap whose masked inputs are the masks; texts are made where they are asked."""

    immutable_outputs = True

    def __init__(self, tree: Tree, n: int) -> None:
        self.shape = (1, n)
        self.clustering = clustering_of(tree, n)

    def __call__(self, mask: NDArray[np.bool_], *_: Any) -> tuple[NDArray[np.bool_]]:
        return (mask.reshape(1, -1),)


class _SeededNumpy:
    """numpy with random numbers of its own."""

    def __init__(self) -> None:
        self.random = np.random.RandomState(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)
