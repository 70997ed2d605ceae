"""Log probabilities from a decoder-only model whose keys and values are kept between batches.

The candidates of an item arrive in later batches than its clean prompt, with which they share all
that comes before the changed name. Here only what is new to the model is forwarded: all new tokens
of a batch in rows without padding, each tree on top of the kept past it continues.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from medstress.backends.kv_attention import Part, pack, packed_attention
from medstress.backends.kv_logits import last_by_token, logits_at, pick_log_probs
from medstress.backends.kv_store import MAX_ENTRIES, Kept, KvStore, Read, Rows
from medstress.backends.lean_layers import LeanLayers
from medstress.backends.loaded_model import LoadedModel
from medstress.backends.out_of_memory import in_halves
from medstress.backends.token_tree import Target, build_row, plan_rows

log = logging.getLogger(__name__)

DEFAULT_BYTES = 2_000_000_000
"""Budget of kept keys and values in main memory."""
_CHECK_BYTES = 100_000_000
"""Budget of the self-check."""
DEFAULT_SHARE = 0.2
"""Of the free memory of a CUDA device."""
_MANY = 16
"""Targets of a first batch from which on one of them is read alone first."""
_FULL_ATTENTION = 2.8
"""Nodes that a tree has, per number of the hidden state, where attention costs as much as all the
rest: the linear layers take about 12 h^2 multiplications a token and layer, attention 2 h for each
node that it sees, but these take twice as long on a CPU, softmax and mask included."""
_TREE_OVERHEAD = 0.2
"""What one more tree costs, in tokens: trees are stacked, not padded."""
_GATHERED = 6
"""Products of a node and a key that take as long as a key and its value to be gathered, which each
tree does for itself."""
_MIN_NEW = 16
_MIN_NEW_SHARE = 0.5
"""A sequence is kept if more of its tokens than both were new: a clean prompt, not a candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Numbers the cuts of a batch are chosen by; they change speed, not results."""

    max_nodes: int
    """The most nodes of one tree; its mask has the square of this many entries."""
    max_tokens: int
    """About how many tokens are forwarded at once."""
    cell_overhead: float
    """What attention to one more stack of trees costs, in multiplications."""
    nodes_per_block: int
    """Nodes of a tree whose attention is one product."""
    batch_rows: int
    """Rows made at once for the keys and values of batches, beside those of the budget."""


# CPU: measured on 2 cores with SmolLM2-135M, where a token takes 5 to 10 % less among 4,096 than
# among 1,024. CUDA: reasoned, not measured; many small products are slower there than a few large
# ones, of which more is padding or masked.
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
        kv_bytes: budget of the kept keys and values; None for the default.
        kv_entries: the most sequences they are kept of. With fewer than the items that are
            attacked at one time their prompts are read again.

    Attributes:
        store: what is kept.
        tokens_forwarded: tokens the model has read; there is no padding.
    """

    def __init__(
        self, loaded: LoadedModel, *, kv_bytes: int | None = None, kv_entries: int = MAX_ENTRIES
    ) -> None:
        self._model = loaded.model
        self._last = last_by_token(loaded.model)
        self._lean = LeanLayers(loaded.model)
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
            afresh: read nothing from what is kept and add nothing to it.

        Returns:
            The natural log probability of each scored token of each target; None for a target
            that does not fit into memory.
        """
        if len(targets) > _MANY and not afresh and not len(self.store):
            # One alone first, so that the instruction all prompts begin with is read once.
            return [*self._log_probs(targets[:1], afresh), *self._log_probs(targets[1:], afresh)]
        return self._log_probs(targets, afresh)

    def _log_probs(self, targets: Sequence[Target], afresh: bool) -> list[list[float] | None]:
        results: list[list[float] | None] = [None] * len(targets)
        run = partial(self._forward, afresh=afresh)
        groups, sizes = self._groups(targets, afresh)
        for chosen in _even_bins(sizes, self._plan.max_tokens):
            bundle = [[targets[index] for index in groups[number]] for number in chosen]
            found = in_halves(bundle, run, self._forget)
            for number, group, values in zip(chosen, bundle, found, strict=True):
                # None: not even this tree alone fits, so its targets are tried in smaller ones.
                last = values or in_halves(group, lambda group: run([group])[0], self._forget)
                for index, value in zip(groups[number], last, strict=True):
                    results[index] = value
        return results

    def _forget(self) -> bool:
        """Drop what only saves time; says whether there was anything."""
        # Not `or`: both have to go.
        return self._lean.unpack() | self.store.clear()

    def agrees(self, targets: Sequence[Target], expected: Sequence[Sequence[float]]) -> bool:
        """Check against known log probabilities: some architectures cannot be packed.

        Args:
            targets: a few with common prefixes; the first long enough to be kept.
            expected: their log probabilities.
        """
        # Here, for a victim that is asked for no scores is never checked, and needs no copies.
        self._lean.pack()
        if self._agrees(targets, expected):
            return True
        if not self._lean.clear():
            return False
        log.debug("the self-check of packed rows is repeated with the model's own layers")
        return self._agrees(targets, expected)

    def _agrees(self, targets: Sequence[Target], expected: Sequence[Sequence[float]]) -> bool:
        used, self.store = self.store, KvStore(_CHECK_BYTES)
        try:
            # A tree between strangers in one row, then each on top of what was kept.
            row = self._forward([targets[:1], targets, targets[-1:]], afresh=False)
            found = [values for group in row for values in group]
            found += [group[0] for group in self._forward([[one] for one in targets], afresh=False)]
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            log.debug("the self-check of packed rows failed", exc_info=error)
            return False
        finally:
            self.store, self.tokens_forwarded = used, 0
        known = [expected[0], *expected, expected[-1], *expected]
        return close_enough(found, known, self._model.dtype)

    def _groups(self, targets: Sequence[Target], afresh: bool) -> tuple[list[list[int]], list[int]]:
        """Say which targets form a tree, and how many nodes it has; those with a past first.

        What is kept may be forgotten to make room for what a later tree brings along, so that it
        is used before.
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
                row_overhead=_TREE_OVERHEAD + _GATHERED * past / self._full_attention,
            ):
                groups.append([members[place] for place in places])
                sizes.append(len(build_row([rest[place] for place in places]).tokens))
        return groups, sizes

    def _past(self, targets: Sequence[Target], afresh: bool) -> tuple[Kept | None, int]:
        """Find what is kept of the beginning that all targets of a tree have in common."""
        if afresh:
            return None, 0
        kept, past = self.store.longest(targets[0].context)
        if kept is None:
            return None, 0
        for target in targets:
            # The node that predicts the first scored token has to be forwarded in any case.
            shared = _shared_start(kept.tokens, target.context, min(past, target.start - 1))
            past = min(past, shared)
        return (kept, past) if past else (None, 0)

    def _forward(
        self, groups: Sequence[Sequence[Target]], *, afresh: bool
    ) -> list[list[list[float]]]:
        """Forward one row, a tree a group; log probabilities by group, target and token."""
        import torch

        parts = []
        for group in groups:
            # Looked up again: it may have been forgotten since the batch was planned.
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
            with self._lean.used():
                logits = logits_at(self._model, inputs, needed, last=self._last)
            found = pick_log_probs(logits, needed, [((0, node), token) for node, token in wanted])
            if not afresh:
                self.store.put(_worth_keeping(groups, parts, packing.places.rows.numpy()))
        values = iter(found)
        return [[[next(values) for _ in target.scored] for target in group] for group in groups]


def close_enough(
    found: Sequence[Sequence[float]], expected: Sequence[Sequence[float]], dtype: Any
) -> bool:
    """Say whether two paths compute the same but for rounding in the model's number format."""
    import torch

    # Logits are up to about 32, whose last bit is 16 to 32 times the format's; several are off.
    tolerance = max(1e-3, 64 * torch.finfo(dtype).eps)
    differences = [
        abs(a - b)
        for one, other in zip(found, expected, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    # One by one: the largest of numbers among which is NaN may be any of them.
    return all(difference <= tolerance for difference in differences)


def _without(target: Target, past: int) -> Target:
    return Target(target.tokens[past:], target.start - past)


def _shared_start(first: tuple[int, ...], second: tuple[int, ...], most: int) -> int:
    """Length of the longest common prefix of at most `most` tokens."""
    if first[:most] == second[:most]:
        return most
    return next(place for place in range(most) if first[place] != second[place])


def _wanted(groups: Sequence[Sequence[Target]], parts: Sequence[Part]) -> list[tuple[int, int]]:
    """(node of the row, token it has to predict) for all scored tokens, in order."""
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
    """The sequences of which a substantial part is new; `rows` of the batch are where it is."""
    found = []
    start = 0
    for group, part in zip(groups, parts, strict=True):
        covered: set[int] = set()
        for place in sorted(range(len(group)), key=lambda place: -len(group[place].context)):
            nodes = _path(part, part.row.nodes[place][-1])
            n_new = len(set(nodes) - covered)
            if n_new > max(_MIN_NEW, _MIN_NEW_SHARE * (len(part.past) + len(nodes))):
                covered.update(nodes)
                new = rows[start + np.array(nodes, dtype=np.int64)]
                found.append(Read(group[place].context, part.past, new))
        start += len(part.row.tokens)
    return found


def _path(part: Part, node: int) -> list[int]:
    """A node with its ancestors, from the root: all whose descendants reach up to it."""
    ends = np.array(part.row.ends[: node + 1])
    return [int(one) for one in np.flatnonzero(ends >= node)]


def _even_bins(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Cut 0 .. n into runs of about equal total size, near `most` each.

    >>> _even_bins([3, 3, 3, 3], 6)
    [[0, 1], [2, 3]]
    >>> _even_bins([3, 3, 2], 6)
    [[0, 1, 2]]
    """
    if not sizes:
        return []
    goal = sum(sizes) / max(round(sum(sizes) / most), 1)
    bins: list[list[int]] = [[]]
    done = 0
    for index, size in enumerate(sizes):
        # Before the middle of this one passes the goal.
        if bins[-1] and done + size / 2 > goal * len(bins):
            bins.append([])
        bins[-1].append(index)
        done += size
    return bins


def _default_bytes(device: Any) -> int:
    if device.type != "cuda":
        return DEFAULT_BYTES
    import torch

    return int(DEFAULT_SHARE * torch.cuda.mem_get_info(device)[0])
