"""Log probabilities of many texts, a beginning that they share read once.

To score a hundred variants of one vignette, a language model reads the same tokens again and again.
Here the sequences of a batch are merged into tries, and each trie is written depth-first: a node
sees its ancestors, which are the nodes before it whose last descendant does not come before it.
Tries continue kept sequences of earlier batches, such as an item's clean prompt. All new tokens go
through the model as one row, because linear layers treat every token alone. Only attention must
tell sequences apart: a function that works through the row trie by trie replaces it.

Before the first scores, numbers of this path are compared with those of plain padded rows. A model
that disagrees is read in plain rows.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from medstress.backends.local.batches import (
    Floats,
    Ints,
    cheapest_cut,
    in_batches,
    in_halves,
    padded,
)
from medstress.backends.local.loading import LoadedModel
from medstress.backends.local.tokens import Target, shared_length

log = logging.getLogger(__name__)

MAX_ENTRIES = 64
"""Enough for batches of up to this many calls; finished items do not come back."""
_KV_BYTES = 2_000_000_000
"""Budget of kept keys and values in main memory."""
_KV_SHARE = 0.2
"""The same on a CUDA device, as a share of its free memory."""
_CHECK_BYTES = 100_000_000
"""Budget of the self-check."""
_MIN_NEW = 16
_MIN_NEW_SHARE = 0.5
"""A sequence is kept if its new tokens exceed both, as in a clean prompt but not a candidate."""
_MAX_TOKENS = {"cpu": (1024, 4096), "cuda": (16384, 16384)}
"""Tokens of one forward pass of plain rows, and about those of tries, by type of device."""
_BLOCK = 128
"""Nodes of a trie that attend in one product: to each other and to what is open before them."""
_TRIE_OVERHEAD = 4.0
"""The cost of one more trie, in tokens."""
_LARGE_BATCH = 16
"""Size of a first batch above which one target is read alone first."""
_ATTENTION = "medstress_tries"
_UNSUPPORTED = ("s_aux", "head_mask", "position_bias", "alibi")
"""Arguments that some architectures pass to their attention and this one does not support."""
_OPENING = "The patient was given aspirin and two glasses of water for the pain in the left chest."
_PROBES = (
    (_OPENING + " The dose was low."),
    (_OPENING + " The dose was high."),
    "The patient was given insulin. The answer is yes.",
    "Vitamin C prevents scurvy. Vitamin D prevents rickets.",
)
"""Texts for the self-check: shared beginnings of different lengths, one long enough to be kept, and
a trie of its own."""
_PROBE_TOKENS = 32
"""Tokens read of each probe, because some tokenizers split words into many tokens."""

Layers: TypeAlias = list[tuple[Any, Any]]
"""Keys and values of each layer, `(n_kv_heads, n_tokens, head_size)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trie:
    """Several sequences merged and flattened depth-first, `n` nodes, after a kept beginning."""

    tokens: list[int]
    """One token per node, `(n,)`."""
    depths: list[int]
    """The position of each node in its sequence without the kept beginning, `(n,)`."""
    ends: list[int]
    """The last descendant of each node, or the node itself, `(n,)`."""
    nodes: list[list[int]]
    """For each target, the nodes that predict its scored tokens, in order."""
    past: Layers = field(default_factory=list)
    """Keys and values of the kept beginning; empty without one."""
    n_past: int = 0
    """Its length."""

    def blocks(self, size: int) -> Iterator[tuple[int, int, Ints, npt.NDArray[np.bool_]]]:
        """Cut the nodes into blocks of up to `size`.

        Yields:
            (first, one past the last, nodes before the block that some of it sees: the path to its
            first node, which of these and of the block each node of the block must not see).
        """
        ends = np.array(self.ends)
        for start in range(0, len(ends), size):
            own = np.arange(start, min(start + size, len(ends)))
            above = np.flatnonzero(ends[:start] >= start)
            keys = np.concatenate([above, own])
            hidden = (own[:, None] < keys) | (own[:, None] > ends[keys])
            yield start, start + len(own), above, hidden

    def path(self, node: int) -> list[int]:
        """Return a node and its ancestors, from the root: all whose descendants include it."""
        return np.flatnonzero(np.array(self.ends[: node + 1]) >= node).tolist()


def build_trie(targets: Sequence[Target], past: Layers | None = None, n_past: int = 0) -> Trie:
    """Merge the contexts of targets.

    Args:
        targets: in any order; equal contexts share all their nodes.
        past: keys and values of the first `n_past` tokens, which all contexts share.
        n_past: tokens that are left out.

    >>> trie = build_trie([Target((1, 2, 3, 9), 3), Target((1, 2, 4, 9), 2), Target((7, 8), 1)])
    >>> trie.tokens, trie.depths, trie.ends
    ([1, 2, 3, 4, 7], [0, 1, 2, 2, 0], [3, 3, 2, 3, 4])
    >>> trie.nodes
    [[2], [1, 3], [4]]
    >>> [(start, stop, above.tolist()) for start, stop, above, _ in trie.blocks(3)]
    [(0, 3, []), (3, 5, [0, 1])]
    """
    tokens: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    nodes: list[list[int]] = [[] for _ in targets]
    path: list[int] = []
    previous: tuple[int, ...] = ()
    # In lexicographic order sequences with a common prefix are neighbours, so this is depth-first.
    for index in sorted(range(len(targets)), key=lambda index: targets[index].context):
        context = targets[index].context[n_past:]
        del path[shared_length(previous, context) :]
        for depth in range(len(path), len(context)):
            path.append(len(tokens))
            tokens.append(context[depth])
            depths.append(depth)
            ends.append(0)
        for node in path:
            ends[node] = len(tokens) - 1
        nodes[index] = path[targets[index].start - n_past - 1 :]
        previous = context
    return Trie(
        tokens=tokens, depths=depths, ends=ends, nodes=nodes, past=past or [], n_past=n_past
    )


def plan_tries(targets: Sequence[Target], *, max_nodes: int, n_past: int = 0) -> list[list[int]]:
    """Decide which targets share a trie: as few nodes in all as the largest trie allows.

    Dynamic programming finds the cheapest cut of the targets in lexicographic order.

    Args:
        targets: with the same kept beginning.
        max_nodes: the most nodes of a trie, except for a longer single target.
        n_past: length of the kept beginning.

    Returns:
        The indexes of the targets of each trie.

    >>> some = [Target((7, 8), 1), Target((1, 2, 3), 2), Target((1, 2, 4), 2)]
    >>> plan_tries(some, max_nodes=3), plan_tries(some, max_nodes=2)
    ([[1, 2, 0]], [[1, 2], [0]])
    """
    order = sorted(range(len(targets)), key=lambda index: targets[index].context)
    contexts = [targets[index].context for index in order]
    lengths = np.array([len(context) - n_past for context in contexts])
    shared = [shared_length(a, b) - n_past for a, b in pairwise(contexts)]
    added = np.cumsum(lengths - np.array([0, *shared]))

    def cost(starts: Ints, stop: int) -> Floats:
        nodes = lengths[starts] + added[stop - 1] - added[starts]
        too_long = (nodes > max_nodes) & (starts < stop - 1)
        return np.where(too_long, np.inf, _TRIE_OVERHEAD + nodes)

    return [order[start:stop] for start, stop in cheapest_cut(len(order), cost)]


class KvStore:
    """Keys and values of sequences, by their tokens; evicts the least recently used.

    Args:
        max_bytes: the byte budget; a sequence that exceeds it alone is not kept.
        max_entries: the most sequences.
    """

    def __init__(self, max_bytes: int, max_entries: int = MAX_ENTRIES) -> None:
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.n_bytes = 0
        self._kept: OrderedDict[tuple[int, ...], Layers] = OrderedDict()
        # Sorted, so that the sequence with the longest common prefix is a neighbour.
        self._order: list[tuple[int, ...]] = []

    def __len__(self) -> int:
        return len(self._order)

    def longest(self, tokens: tuple[int, ...]) -> tuple[tuple[int, ...], Layers]:
        """Return the kept sequence with the longest common beginning; empty if there is none."""
        place = bisect_left(self._order, tokens)
        near = self._order[max(place - 1, 0) : place + 1]
        best = max(near, key=lambda one: shared_length(tokens, one), default=())
        if not shared_length(tokens, best):
            return (), []
        self._kept.move_to_end(best)
        return best, self._kept[best]

    def put(self, tokens: tuple[int, ...], layers: Layers) -> None:
        """Keep a sequence; it replaces one that is its beginning."""
        beginning, _ = self.longest(tokens)
        if beginning and beginning == tokens[: len(beginning)]:
            self._drop(beginning)
        n_bytes = _n_bytes(layers)
        if n_bytes > self.max_bytes:
            return
        while len(self) >= self.max_entries or self.n_bytes + n_bytes > self.max_bytes:
            self._drop(next(iter(self._kept)))
        self._kept[tokens] = layers
        self.n_bytes += n_bytes
        insort(self._order, tokens)

    def clear(self) -> bool:
        """Drop everything; return whether there was anything."""
        filled = bool(self._kept)
        self._kept.clear()
        self._order.clear()
        self.n_bytes = 0
        return filled

    def _drop(self, tokens: tuple[int, ...]) -> None:
        self.n_bytes -= _n_bytes(self._kept.pop(tokens))
        del self._order[bisect_left(self._order, tokens)]


def _n_bytes(layers: Layers) -> int:
    return sum(int(one.nbytes) for pair in layers for one in pair)


@dataclass(slots=True)
class _Row:
    """One row of tries on its way through the model."""

    tries: Sequence[Trie]
    blocks: list[list[tuple[int, int, Any, Any]]]
    """Of each trie, as `Trie.blocks`; what is hidden as numbers that are added to products."""
    layers: Layers = field(default_factory=list)
    """The row's own keys and values, of the layers so far."""


_row: ContextVar[_Row] = ContextVar("row")


@contextmanager
def _trie_attention(model: Any, tries: Sequence[Trie]) -> Iterator[Layers]:
    """Make a transformers model attend trie by trie; yields the layers, empty until it ran."""
    import torch
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(_ATTENTION, _attend)
    blocks = [
        [
            (
                start,
                stop,
                torch.from_numpy(above).to(model.device),
                torch.zeros(hidden.shape)
                .masked_fill_(torch.from_numpy(hidden), -torch.inf)
                .to(model.device),
            )
            for start, stop, above, hidden in trie.blocks(_BLOCK)
        ]
        for trie in tries
    ]
    configs = {id(one.config): one.config for one in model.modules() if hasattr(one, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    row = _Row(tries, blocks)
    token = _row.set(row)
    try:
        for config in configs.values():
            config._attn_implementation = _ATTENTION
        yield row.layers
    finally:
        for config, name in before:
            config._attn_implementation = name
        _row.reset(token)


def _attend(
    _module: Any,
    query: Any,
    key: Any,
    value: Any,
    _attention_mask: Any,
    scaling: float | None = None,
    softcap: float | None = None,
    **how: Any,
) -> tuple[Any, None]:
    """Attend within each trie; the signature is that of transformers' attention functions.

    Args:
        query: `(1, n_heads, n_nodes, head_size)`.
        key: `(1, n_kv_heads, n_nodes, head_size)`.
        value: `(1, n_kv_heads, n_nodes, value_size)`.
        scaling: factor of the products; None for 1 / sqrt(head_size).
        softcap: limit of the products, as a tangent approaches it.
        how: other arguments of an architecture.

    Returns:
        `(1, n_nodes, n_heads, value_size)`, and no attention weights.
    """
    import torch

    if any(how.get(name) is not None for name in _UNSUPPORTED):
        raise TypeError("this architecture's attention has arguments that are not supported")
    n_heads, n_nodes, size = query.shape[1:]
    n_kv_heads, n_keys = key.shape[1:3]
    if n_keys != n_nodes:
        raise TypeError("this architecture's attention adds keys of its own")
    row = _row.get()
    number = len(row.layers)
    row.layers.append((key[0], value[0]))
    # Heads that share keys are lines of one product, so products are fewer and larger.
    lines = (query[0] * (size**-0.5 if scaling is None else scaling)).unflatten(0, (n_kv_heads, -1))
    attended = query.new_empty(n_nodes, n_heads, value.shape[-1])
    first = 0
    for trie, blocks in zip(row.tries, row.blocks, strict=True):
        n, past = len(trie.tokens), trie.n_past
        own = [one[0, :, first : first + n] for one in (key, value)]
        kept = [one[:, :past].to(query.device) for one in trie.past[number]] if past else []
        kept = kept or [one[:, :0] for one in own]
        for start, stop, above, mask in blocks:
            seen, mask = above.to(query.device), mask.to(query.device)
            keys, values = (
                torch.cat([old, new[:, seen], new[:, start:stop]], 1)
                for old, new in zip(kept, own, strict=True)
            )
            asked = lines[:, :, first + start : first + stop].flatten(1, 2)
            products = asked @ keys.mT
            if softcap is not None:
                products = softcap * torch.tanh(products / softcap)
            products.unflatten(1, (-1, stop - start))[..., past:].add_(mask)
            weights = torch.softmax(products, -1, dtype=torch.float32).to(values.dtype)
            answers = (weights @ values).unflatten(1, (-1, stop - start))
            attended[first + start : first + stop] = answers.flatten(0, 1).transpose(0, 1)
        first += n
    return attended[None], None


def logits_at(model: Any, inputs: dict[str, Any], needed: Sequence[tuple[int, int]]) -> Any:
    """Return the logits at needed (row, node) pairs, `(n_needed, n_vocabulary)`.

    The vocabulary layer may cost as much as many others, so it reads only the needed nodes.
    Whatever the model does to the logits afterwards happens as usual.

    Args:
        model: a decoder-only model of transformers.
        inputs: arguments of its forward.
        needed: distinct pairs.
    """
    import torch

    at = torch.tensor(needed).T
    calls: list[bool] = []

    def thin(_module: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        calls.append(True)
        # A model may span several devices; the states are on the last one.
        rows, nodes = at.to(states[0].device)
        return (states[0][rows, nodes][None], *states[1:])

    head = model.get_output_embeddings()
    handle = None if head is None else head.register_forward_pre_hook(thin)
    try:
        logits = model(**inputs, use_cache=False).logits
    finally:
        if handle is not None:
            handle.remove()
    if calls:
        return logits[0]
    rows, nodes = at.to(logits.device)
    return logits[rows, nodes]


Wanted: TypeAlias = list[tuple[tuple[int, int], int]]
"""(row, node) and the token that it predicts."""


def _log_probs(model: Any, inputs: dict[str, Any], wanted: Wanted) -> Iterator[float]:
    """Return the natural log probability of each wanted token."""
    import torch

    needed = sorted({place for place, _ in wanted})
    index = {place: number for number, place in enumerate(needed)}
    logits = logits_at(model, inputs, needed).float()
    lines = [index[place] for place, _ in wanted]
    return iter(torch.log_softmax(logits, -1)[lines, [token for _, token in wanted]].tolist())


class PrefixScorer:
    """Computes log probabilities of the scored tokens of targets.

    Args:
        loaded: a decoder-only model.
        sharing: False forces plain rows, where each distinct context is read from its beginning.
        kv_bytes: byte budget of the keys and values kept between batches; None for the default.
        kv_entries: the most sequences to keep. If fewer than the items attacked at one time,
            prompts are read again.

    Attributes:
        path: `tree`, or `plain` if the architecture cannot read tries.
        store: the kept keys and values.
        tokens_forwarded: tokens read by the model so far, padding included.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        sharing: bool = True,
        kv_bytes: int | None = None,
        kv_entries: int = MAX_ENTRIES,
    ) -> None:
        self._model = loaded.model
        self._device = loaded.device
        config = loaded.model.config.get_text_config()
        self._plain_tokens, self._trie_tokens = _MAX_TOKENS[
            "cuda" if loaded.device.type == "cuda" else "cpu"
        ]
        self._window = attention_window(config)
        self.store = KvStore(_default_bytes(loaded) if kv_bytes is None else kv_bytes, kv_entries)
        self.path: Literal["tree", "plain"] = "plain"
        self.tokens_forwarded = 0
        if sharing:
            if self._agrees(loaded.tokenizer):
                self.path = "tree"
            else:
                log.warning(
                    "%s cannot read token trees; shared prefixes are computed again each time",
                    type(self._model).__name__,
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
        results: list[list[float] | None] = [None] * len(targets)
        within = [i for i, target in enumerate(targets) if len(target.context) <= self._window]
        shared = within if self.path == "tree" else []
        alone = sorted(set(range(len(targets))) - set(shared))
        # One target first, so that the instruction at the beginning of all prompts is read once.
        first = 1 if len(shared) > _LARGE_BATCH and len(self.store) == 0 and not afresh else 0
        for places, score in (
            (shared[:first], partial(self._by_tries, afresh=afresh)),
            (shared[first:], partial(self._by_tries, afresh=afresh)),
            (alone, self._plainly),
        ):
            scores = score([targets[place] for place in places])
            for place, values in zip(places, scores, strict=True):
                results[place] = values
        return results

    def _by_tries(self, targets: Sequence[Target], afresh: bool) -> list[list[float] | None]:
        results: list[list[float] | None] = [None] * len(targets)
        run = partial(self._forward, afresh=afresh)
        forget = self.store.clear  # what is kept only saves time
        for row in self._rows(targets, afresh):
            groups = [[targets[place] for place in group] for group in row]
            scores = in_halves(groups, run, forget)
            for group, part, values in zip(row, groups, scores, strict=True):
                # None: even this trie alone does not fit, so try its targets in smaller ones.
                final = values or in_halves(part, lambda part: run([part])[0], forget)
                for place, value in zip(group, final, strict=True):
                    results[place] = value
        return results

    def _rows(self, targets: Sequence[Target], afresh: bool) -> list[list[list[int]]]:
        """Group targets into tries, and tries into rows of about equal size.

        Tries with the longest past come first, because the store may drop their past to make room
        for later ones.
        """
        by_past: dict[tuple[int, ...], list[int]] = {}
        for place, target in enumerate(targets):
            past, _ = self._past([target], afresh)
            by_past.setdefault(target.tokens[:past], []).append(place)
        tries: list[list[int]] = []
        sizes: list[int] = []
        for beginning, places in sorted(by_past.items(), key=lambda one: -len(one[0])):
            same = [targets[place] for place in places]
            for chosen in plan_tries(same, max_nodes=self._trie_tokens, n_past=len(beginning)):
                tries.append([places[i] for i in chosen])
                trie = build_trie([same[i] for i in chosen], n_past=len(beginning))
                sizes.append(len(trie.tokens))
        rows: list[list[list[int]]] = [[]]
        goal = sum(sizes) / max(round(sum(sizes) / self._trie_tokens), 1)
        total = 0.0
        for trie_places, size in zip(tries, sizes, strict=True):
            # A new row begins where the middle of this trie passes the goal.
            if rows[-1] and total + size / 2 > goal * len(rows):
                rows.append([])
            rows[-1].append(trie_places)
            total += size
        return rows if tries else []

    def _past(self, targets: Sequence[Target], afresh: bool) -> tuple[int, Layers]:
        """Return the length of the longest kept beginning of all targets of a trie, and it."""
        if afresh:
            return 0, []
        tokens, layers = self.store.longest(targets[0].context)
        # The node that predicts the first scored token must be forwarded in any case.
        past = min(
            min(shared_length(tokens, target.context), target.start - 1) for target in targets
        )
        return (past, layers) if past else (0, [])

    def _forward(
        self, groups: Sequence[Sequence[Target]], *, afresh: bool
    ) -> list[list[list[float]]]:
        """Run one row, one trie per group; return log probabilities by group, target and token."""
        import torch

        tries = []
        for group in groups:
            # Looked up again, because the store may have dropped it since the batch was planned.
            n_past, layers = self._past(group, afresh)
            tries.append(build_trie(group, layers, n_past))
        starts = np.cumsum([0, *(len(trie.tokens) for trie in tries)]).tolist()
        wanted = [
            ((0, start + node), token)
            for start, trie, group in zip(starts, tries, groups, strict=False)
            for nodes, target in zip(trie.nodes, group, strict=True)
            for node, token in zip(nodes, target.scored, strict=True)
        ]
        tokens = [token for trie in tries for token in trie.tokens]
        depths = [trie.n_past + depth for trie in tries for depth in trie.depths]
        inputs = {
            "input_ids": torch.tensor([tokens], device=self._device),
            "position_ids": torch.tensor([depths], device=self._device),
        }
        self.tokens_forwarded += len(tokens)
        with torch.inference_mode(), _trie_attention(self._model, tries) as new:
            values = _log_probs(self._model, inputs, wanted)
            scores = [
                [[next(values) for _ in target.scored] for target in group] for group in groups
            ]
            if not afresh and new:
                for start, trie, group in zip(starts, tries, groups, strict=False):
                    self._keep(trie, group, start, new)
        return scores

    def _keep(self, trie: Trie, group: Sequence[Target], start: int, new: Layers) -> None:
        """Keep the sequences with a substantial new part: clean prompts, not their candidates."""
        import torch

        covered: set[int] = set()
        for place in sorted(range(len(group)), key=lambda place: -len(group[place].context)):
            path = trie.path(trie.nodes[place][-1])
            n_new = len(set(path) - covered)
            if n_new > max(_MIN_NEW, _MIN_NEW_SHARE * (trie.n_past + len(path))):
                covered.update(path)
                at = torch.tensor(path, device=self._device) + start
                old = trie.past or [(None, None)] * len(new)
                layers = [
                    tuple(
                        _joined(before, own[:, at.to(own.device)], trie.n_past)
                        for before, own in zip(kept, pair, strict=True)
                    )
                    for kept, pair in zip(old, new, strict=True)
                ]
                self.store.put(group[place].context, layers)

    def _plainly(self, targets: Sequence[Target]) -> list[list[float] | None]:
        """Score in padded rows, one per distinct context."""
        import torch

        by_context: dict[tuple[int, ...], list[int]] = {}
        for place, target in enumerate(targets):
            by_context.setdefault(target.context, []).append(place)

        def run(contexts: Sequence[tuple[int, ...]]) -> list[list[list[float]]]:
            ids, mask = padded(contexts, self._device)
            self.tokens_forwarded += ids.numel()
            groups = [[targets[place] for place in by_context[one]] for one in contexts]
            wanted = [
                ((row, target.start - 1 + i), token)
                for row, group in enumerate(groups)
                for target in group
                for i, token in enumerate(target.scored)
            ]
            with torch.inference_mode():
                values = _log_probs(self._model, {"input_ids": ids, "attention_mask": mask}, wanted)
                return [[[next(values) for _ in one.scored] for one in group] for group in groups]

        contexts = list(by_context)
        lengths = [len(context) for context in contexts]
        scores = in_batches(contexts, lengths, run, max_tokens=self._plain_tokens)
        results: list[list[float] | None] = [None] * len(targets)
        for context, values in zip(contexts, scores, strict=True):
            for place, value in zip(by_context[context], values or (), strict=values is not None):
                results[place] = value
        return results

    def _agrees(self, tokenizer: Any) -> bool:
        """Compare both paths on a few sentences; some models ignore positions or this attention."""
        targets = []
        for text in _PROBES:
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            tokens = tuple(ids[: int(min(_PROBE_TOKENS, self._window))])
            targets.append(Target(tokens, max(2 * len(tokens) // 3, 1)))
        targets.append(Target(targets[0].tokens[:-2], targets[0].start))
        expected = [values or [] for values in self._plainly(targets)]
        store, self.store = self.store, KvStore(_CHECK_BYTES)
        try:
            # One trie between unrelated ones in a row, then each target on top of what was kept.
            row = self._forward([targets[:1], targets, targets[-1:]], afresh=False)
            actual = [values for group in row for values in group]
            # Not if the model's attention was not replaced.
            was_kept = len(self.store) > 0
            actual += [values for (values,) in self._forward([[t] for t in targets], afresh=False)]
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            log.debug("the self-check of token trees failed", exc_info=error)
            return False
        finally:
            self.store = store
        wanted = [expected[0], *expected, expected[-1], *expected]
        return was_kept and close_enough(actual, wanted, self._model.dtype)


def _joined(before: Any, own: Any, n_past: int) -> Any:
    import torch

    return own.clone() if before is None else torch.cat([before[:, :n_past], own], 1)


def close_enough(
    actual: Sequence[Sequence[float]], expected: Sequence[Sequence[float]], dtype: Any
) -> bool:
    """Return whether log probabilities agree up to rounding in the model's number format."""
    import torch

    # Logits go up to about 32, where the last bit is 16 to 32 times the format's epsilon, and
    # errors of several bits occur.
    tolerance = max(1e-3, 64 * torch.finfo(dtype).eps)
    # Not by the largest difference, which is undefined if one of them is NaN.
    return all(
        abs(a - b) <= tolerance
        for one, other in zip(actual, expected, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def attention_window(config: Any) -> float:
    """Return the length, in tokens, up to which every layer sees all earlier tokens.

    Beyond it a trie would be wrong: its attention replaces the sliding or chunked window of most
    models. Others (longrope) rotate all positions of a batch differently as soon as one exceeds
    the length.
    """
    names = ("sliding_window", "attention_chunk_size", "window_size", "attention_window_size")
    windows = [getattr(config, name, None) for name in names]
    rope = getattr(config, "rope_parameters", None) or {}
    # One table, or one per type of layer.
    tables = [rope, *(table for table in rope.values() if isinstance(table, dict))]
    windows += [
        table.get("original_max_position_embeddings")
        for table in tables
        if table.get("rope_type") == "longrope"
    ]
    return min((float(window) for window in windows if window), default=float("inf"))


def _default_bytes(loaded: LoadedModel) -> int:
    if loaded.device.type != "cuda":
        return _KV_BYTES
    import torch

    return int(_KV_SHARE * torch.cuda.mem_get_info(loaded.device)[0])
