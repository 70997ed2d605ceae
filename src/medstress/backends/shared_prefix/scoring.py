"""Log probabilities from a decoder-only model whose keys and values are kept between batches.

The candidates of an item come in later batches than its clean prompt, and share with it everything
before the changed name. Only new tokens are forwarded: all those of a batch go through the model in
rows without padding, each tree on top of the kept past that it continues.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.out_of_memory import in_halves
from medstress.backends.models.token_tree import Target, build_row, plan_rows
from medstress.backends.shared_prefix.attention import Part, pack, packed_attention
from medstress.backends.shared_prefix.logits import last_by_token, logits_at, pick_log_probs
from medstress.backends.shared_prefix.store import MAX_ENTRIES, Kept, KvStore, Read, Rows

log = logging.getLogger(__name__)

DEFAULT_BYTES = 2_000_000_000
"""Budget of kept keys and values in main memory."""
_CHECK_BYTES = 100_000_000
"""Budget of the self-check."""
DEFAULT_SHARE = 0.2
"""Budget on a CUDA device, as a share of its free memory."""
_LARGE_BATCH = 16
"""Size of a first batch above which one target is read alone first."""
_FULL_ATTENTION = 2.8
"""Nodes of a tree, per unit of hidden size h, at which attention costs as much as everything else.
Per token and layer the linear layers take about 12 h^2 multiplications, attention 2 h for each node
seen; the latter take twice as long on a CPU, with softmax and mask."""
_TREE_OVERHEAD = 0.2
"""The cost of one more tree, in tokens: trees are stacked, not padded."""
_GATHER_COST = 6
"""The cost of gathering a key and its value, in products of a node and a key; each tree gathers
for itself."""
_MIN_NEW = 16
_MIN_NEW_SHARE = 0.5
"""A sequence is kept if its new tokens exceed both, as in a clean prompt but not a candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Sizes for splitting a batch; they change speed, not results."""

    max_nodes: int
    """The most nodes of one tree; its mask has the square of this many entries."""
    max_tokens: int
    """About how many tokens are forwarded at once."""
    cell_overhead: float
    """The cost of attention to one more stack of trees, in multiplications."""
    nodes_per_block: int
    """Nodes of a tree whose attention is one product."""
    batch_rows: int
    """Rows allocated at once for keys and values of batches, besides those of the budget."""


# CPU: measured on 2 cores with SmolLM2-135M, where a token in 4,096 takes 5 to 10 % less time than
# in 1,024. CUDA: estimated, not measured; many small products are slower there than a few large
# ones, which have more padding and masking.
_PLANS = {
    "cpu": Plan(
        max_nodes=2048, max_tokens=4096, cell_overhead=7e5, nodes_per_block=64, batch_rows=8192
    ),
    "cuda": Plan(
        max_nodes=4096, max_tokens=16384, cell_overhead=1e8, nodes_per_block=4096, batch_rows=0
    ),
}


class KvScorer:
    """Computes log probabilities of the scored tokens of targets.

    Args:
        loaded: a decoder-only model.
        kv_bytes: byte budget of the kept keys and values; None for the default.
        kv_entries: the most sequences to keep. If fewer than the items attacked at one time,
            prompts are read again.

    Attributes:
        store: the kept keys and values.
        tokens_forwarded: tokens read by the model so far; there is no padding.
    """

    def __init__(
        self, loaded: LoadedModel, *, kv_bytes: int | None = None, kv_entries: int = MAX_ENTRIES
    ) -> None:
        self._model = loaded.model
        self._last = last_by_token(loaded.model)
        self._device = loaded.device
        self._plan = _PLANS["cuda" if loaded.device.type == "cuda" else "cpu"]
        hidden_size = loaded.model.config.get_text_config().hidden_size
        self._full_attention = _FULL_ATTENTION * hidden_size
        self.store = KvStore(
            _default_bytes(loaded.device) if kv_bytes is None else kv_bytes,
            kv_entries,
            batch_rows=self._plan.batch_rows,
        )
        self.tokens_forwarded = 0

    def log_probs(
        self, targets: Sequence[Target], *, afresh: bool = False
    ) -> list[list[float] | None]:
        """Score targets.

        Args:
            targets: each with at least one scored token.
            afresh: neither read from the store nor add to it.

        Returns:
            The natural log probability of each scored token of each target; None for a target
            that does not fit into memory.
        """
        if len(targets) > _LARGE_BATCH and not afresh and not len(self.store):
            # One alone first, so that the instruction at the beginning of all prompts is read once.
            return [*self._log_probs(targets[:1], afresh), *self._log_probs(targets[1:], afresh)]
        return self._log_probs(targets, afresh)

    def _log_probs(self, targets: Sequence[Target], afresh: bool) -> list[list[float] | None]:
        results: list[list[float] | None] = [None] * len(targets)
        run = partial(self._forward, afresh=afresh)
        forget = self.store.clear  # what is kept only saves time
        groups, sizes = self._groups(targets, afresh)
        for chosen in _even_bins(sizes, self._plan.max_tokens):
            bundle = [[targets[index] for index in groups[number]] for number in chosen]
            scores = in_halves(bundle, run, forget)
            for number, group, values in zip(chosen, bundle, scores, strict=True):
                # None: even this tree alone does not fit, so try its targets in smaller trees.
                final = values or in_halves(group, lambda group: run([group])[0], forget)
                for index, value in zip(groups[number], final, strict=True):
                    results[index] = value
        return results

    def agrees(self, targets: Sequence[Target], expected: Sequence[Sequence[float]]) -> bool:
        """Return whether packed rows give known log probabilities, as some models cannot be packed.

        Args:
            targets: a few with common prefixes; the first long enough to be kept.
            expected: their log probabilities.
        """
        store, self.store = self.store, KvStore(_CHECK_BYTES)
        try:
            # One tree between unrelated ones in a row, then each target on top of what was kept.
            row = self._forward([targets[:1], targets, targets[-1:]], afresh=False)
            actual = [values for group in row for values in group]
            actual += [values for (values,) in self._forward([[t] for t in targets], afresh=False)]
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            log.debug("the self-check of packed rows failed", exc_info=error)
            return False
        finally:
            self.store, self.tokens_forwarded = store, 0
        known = [expected[0], *expected, expected[-1], *expected]
        return close_enough(actual, known, self._model.dtype)

    def _groups(self, targets: Sequence[Target], afresh: bool) -> tuple[list[list[int]], list[int]]:
        """Group targets into trees; return the groups and their numbers of nodes.

        Trees with the longest past come first, because the store may drop their past to make room
        for later trees.
        """
        same_past: dict[tuple[tuple[int, ...], int], list[int]] = {}
        for index, target in enumerate(targets):
            kept, past = self._past([target], afresh)
            same_past.setdefault((() if kept is None else kept.tokens, past), []).append(index)
        groups, sizes = [], []
        for (_, past), members in sorted(same_past.items(), key=lambda one: -one[0][1]):
            rest = [_without(targets[index], past) for index in members]
            for places in plan_rows(
                rest,
                full_attention=self._full_attention,
                max_nodes=self._plan.max_nodes,
                row_overhead=_TREE_OVERHEAD + _GATHER_COST * past / self._full_attention,
            ):
                groups.append([members[place] for place in places])
                sizes.append(len(build_row([rest[place] for place in places]).tokens))
        return groups, sizes

    def _past(self, targets: Sequence[Target], afresh: bool) -> tuple[Kept | None, int]:
        """Find the longest kept prefix that all targets of a tree share; returns its length too."""
        if afresh:
            return None, 0
        kept, past = self.store.longest(targets[0].context)
        if kept is None:
            return None, 0
        for target in targets:
            # The node that predicts the first scored token must be forwarded in any case.
            shared = _shared_start(kept.tokens, target.context, min(past, target.start - 1))
            past = min(past, shared)
        return (kept, past) if past else (None, 0)

    def _forward(
        self, groups: Sequence[Sequence[Target]], *, afresh: bool
    ) -> list[list[list[float]]]:
        """Run one row, one tree per group; return log probabilities by group, target and token."""
        import torch

        parts = []
        for group in groups:
            # Looked up again, because the store may have dropped it since the batch was planned.
            kept, past = self._past(group, afresh)
            row = build_row([_without(target, past) for target in group])
            rows = np.zeros(0, dtype=np.int64) if kept is None else kept.rows[:past]
            parts.append(Part(row=row, past=rows))
        device = self._device
        tokens = [token for part in parts for token in part.row.tokens]
        depths = [len(part.past) + depth for part in parts for depth in part.row.depths]
        wanted = _wanted(groups, parts)
        packing = pack(
            parts,
            self.store,
            cell_overhead=self._plan.cell_overhead,
            nodes_per_block=self._plan.nodes_per_block,
            model=self._model,
        )
        inputs = {
            "input_ids": torch.tensor([tokens], device=device),
            "position_ids": torch.tensor([depths], device=device),
        }
        self.tokens_forwarded += len(tokens)
        needed = sorted({(0, node) for node, _ in wanted})
        with torch.inference_mode(), packed_attention(self._model, packing):
            logits = logits_at(self._model, inputs, needed, last=self._last)
            scores = pick_log_probs(logits, needed, [((0, node), token) for node, token in wanted])
            if not afresh:
                self.store.put(_worth_keeping(groups, parts, packing.places.rows.numpy()))
        values = iter(scores)
        return [[[next(values) for _ in target.scored] for target in group] for group in groups]


def close_enough(
    actual: Sequence[Sequence[float]], expected: Sequence[Sequence[float]], dtype: Any
) -> bool:
    """Return whether log probabilities agree up to rounding in the model's number format."""
    import torch

    # Logits go up to about 32, where the last bit is 16 to 32 times the format's epsilon, and
    # errors of several bits occur.
    tolerance = max(1e-3, 64 * torch.finfo(dtype).eps)
    differences = [
        abs(a - b)
        for one, other in zip(actual, expected, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    # Not by their maximum, which is undefined if one of them is NaN.
    return all(difference <= tolerance for difference in differences)


def _without(target: Target, past: int) -> Target:
    return Target(target.tokens[past:], target.start - past)


def _shared_start(first: tuple[int, ...], second: tuple[int, ...], most: int) -> int:
    """Return the length of the longest common prefix of at most `most` tokens."""
    if first[:most] == second[:most]:
        return most
    return next(place for place in range(most) if first[place] != second[place])


def _wanted(groups: Sequence[Sequence[Target]], parts: Sequence[Part]) -> list[tuple[int, int]]:
    """Return (node of the row, token it predicts) for all scored tokens, in order."""
    wanted, start = [], 0
    for group, part in zip(groups, parts, strict=True):
        for target, nodes in zip(group, part.row.nodes, strict=True):
            wanted += [
                (start + node, token) for node, token in zip(nodes, target.scored, strict=True)
            ]
        start += len(part.row.tokens)
    return wanted


def _worth_keeping(
    groups: Sequence[Sequence[Target]], parts: Sequence[Part], rows: Rows
) -> list[Read]:
    """Return the sequences with a substantial new part; `rows` are those of the batch's nodes."""
    sequences = []
    start = 0
    for group, part in zip(groups, parts, strict=True):
        covered: set[int] = set()
        for place in sorted(range(len(group)), key=lambda place: -len(group[place].context)):
            nodes = _path(part, part.row.nodes[place][-1])
            n_new = len(set(nodes) - covered)
            if n_new > max(_MIN_NEW, _MIN_NEW_SHARE * (len(part.past) + len(nodes))):
                covered.update(nodes)
                new = rows[start + np.array(nodes, dtype=np.int64)]
                sequences.append(Read(group[place].context, part.past, new))
        start += len(part.row.tokens)
    return sequences


def _path(part: Part, node: int) -> list[int]:
    """Return a node and its ancestors, from the root: all nodes whose subtree contains it."""
    ends = np.array(part.row.ends[: node + 1])
    return [int(one) for one in np.flatnonzero(ends >= node)]


def _even_bins(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Split the indices of `sizes` into runs of about equal total size, near `most` each.

    >>> _even_bins([3, 3, 3, 3], 6)
    [[0, 1], [2, 3]]
    >>> _even_bins([3, 3, 2], 6)
    [[0, 1, 2]]
    """
    if not sizes:
        return []
    goal = sum(sizes) / max(round(sum(sizes) / most), 1)
    bins: list[list[int]] = [[]]
    total = 0
    for index, size in enumerate(sizes):
        # A new run begins where the middle of this entry passes the goal.
        if bins[-1] and total + size / 2 > goal * len(bins):
            bins.append([])
        bins[-1].append(index)
        total += size
    return bins


def _default_bytes(device: Any) -> int:
    if device.type != "cuda":
        return DEFAULT_BYTES
    import torch

    return int(DEFAULT_SHARE * torch.cuda.mem_get_info(device)[0])
