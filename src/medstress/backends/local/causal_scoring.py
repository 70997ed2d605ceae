"""Log probabilities from a decoder-only model: with kept keys and values, by trees, or plainly.

Before the first scores a self-check compares the numbers of all three ways, to find out which ones
the model supports.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.out_of_memory import in_halves
from medstress.backends.models.token_tree import (
    Row,
    Target,
    build_row,
    plan_batches,
    plan_rows,
    visible,
)
from medstress.backends.shared_prefix.logits import logits_at, pick_log_probs
from medstress.backends.shared_prefix.scoring import KvScorer, close_enough
from medstress.backends.shared_prefix.store import MAX_ENTRIES

log = logging.getLogger(__name__)

_GIVEN = "The patient was given aspirin and two glasses of water for the pain in the left chest."
_PROBES = (
    (_GIVEN, " The dose was low."),
    (_GIVEN, " The dose was high."),
    ("The patient was given insulin.", " The answer is yes."),
    ("Vitamin C prevents scurvy.", " Vitamin D prevents rickets."),
)
"""Texts for the self-check: shared prefixes of different lengths, one long enough to be kept, and
a trie of their own."""

_MAX_PROBE_TOKENS = 32
"""Tokens read of each probe, because some tokenizers split words into many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Sizes for splitting a batch; they change speed, not results."""

    overhead: float
    """The cost of one more forward pass, in tokens."""
    max_nodes: int
    """The longest row; its mask has the square of this many entries."""
    max_tokens: int
    """The most tokens of one forward pass, padding included."""


# CPU: measured on 2 cores with SmolLM2-135M. CUDA: estimated, not measured; a kernel launch costs
# as much as hundreds of tokens, and memory allows larger masks.
_PLANS = {
    "cpu": Plan(overhead=64.0, max_nodes=2048, max_tokens=1024),
    "cuda": Plan(overhead=1024.0, max_nodes=4096, max_tokens=16384),
}


class CausalScorer:
    """Computes log probabilities of the scored tokens of targets.

    Args:
        loaded: a decoder-only model.
        sharing: False forces the plain path, where each distinct context is a row of its own.
        kv_bytes: byte budget of the keys and values kept between batches; None for the default.
        kv_entries: the most sequences to keep; at least the number of calls in a batch.

    Attributes:
        path: `tree`, or `plain` if the architecture cannot read trees.
        keeps: whether keys and values are kept between batches.
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
        self._plan = _PLANS["cuda" if loaded.device.type == "cuda" else "cpu"]
        config = loaded.model.config.get_text_config()
        # Per token and layer, linear layers cost about 12 h^2 multiplications and attention 2 h n:
        # equal at n = 6 h (measured on SmolLM2, h = 576: 3,600).
        self._full_attention = 6.0 * config.hidden_size
        self._window = _attention_window(config)
        self._takes_positions = "position_ids" in inspect.signature(self._model.forward).parameters
        self._n_forwarded = 0
        self._kept: KvScorer | None = None
        self.path: Literal["tree", "plain"] = "plain"
        if sharing:
            self._choose_path(loaded, KvScorer(loaded, kv_bytes=kv_bytes, kv_entries=kv_entries))
        self.keeps = self._kept is not None

    @property
    def tokens_forwarded(self) -> int:
        """Tokens read by the model so far, padding included."""
        return self._n_forwarded + (self._kept.tokens_forwarded if self._kept else 0)

    def log_probs(
        self, targets: Sequence[Target], *, afresh: bool = False
    ) -> list[list[float] | None]:
        """Score targets.

        Args:
            targets: each with at least one scored token.
            afresh: ignore kept keys and values.

        Returns:
            The natural log probability of each scored token of each target; None for a target
            that does not fit into memory.
        """
        results: list[list[float] | None] = [None] * len(targets)
        within = [i for i, target in enumerate(targets) if len(target.context) <= self._window]
        beyond = sorted(set(range(len(targets))) - set(within))
        for indexes, tree in ((within, self.path == "tree"), (beyond, False)):
            chosen = [targets[index] for index in indexes]
            if tree and self._kept is not None:
                scores = self._kept.log_probs(chosen, afresh=afresh)
            else:
                scores = self._score(chosen, tree)
            for index, result in zip(indexes, scores, strict=True):
                results[index] = result
        return results

    def _score(self, targets: Sequence[Target], tree: bool) -> list[list[float] | None]:
        results: list[list[float] | None] = [None] * len(targets)
        groups = self._groups(targets, tree)
        rows = [build_row([targets[index] for index in group]) for group in groups]
        batches = plan_batches(
            [len(row.tokens) for row in rows],
            overhead=self._plan.overhead,
            max_tokens=self._plan.max_tokens,
        )
        for batch in batches:
            parts = [[targets[index] for index in groups[row]] for row in batch]
            scores = in_halves(parts, lambda parts: self._forward(parts, tree))
            for row, part, values in zip(batch, parts, scores, strict=True):
                # None: even this row alone does not fit, so try its targets in smaller rows.
                final = values or in_halves(part, lambda part: self._forward([part], tree)[0])
                for index, value in zip(groups[row], final, strict=True):
                    results[index] = value
        return results

    def _groups(self, targets: Sequence[Target], tree: bool) -> list[list[int]]:
        """Group targets into rows: by the plan for trees, otherwise by equal contexts."""
        if tree:
            return plan_rows(
                targets,
                full_attention=self._full_attention,
                max_nodes=int(min(self._plan.max_nodes, self._window)),
            )
        equal: dict[tuple[int, ...], list[int]] = {}
        for index, target in enumerate(targets):
            equal.setdefault(target.context, []).append(index)
        return list(equal.values())

    def _forward(self, parts: Sequence[Sequence[Target]], tree: bool) -> list[list[list[float]]]:
        """Run one batch, one row per part; return log probabilities by part, target and token."""
        import torch

        rows = [build_row(part) for part in parts]
        wanted = [
            ((number, node), token)
            for number, (row, part) in enumerate(zip(rows, parts, strict=True))
            for nodes, target in zip(row.nodes, part, strict=True)
            for node, token in zip(nodes, target.scored, strict=True)
        ]
        needed = sorted({pair for pair, _ in wanted})
        with torch.inference_mode():
            logits = logits_at(self._model, self._inputs(rows, tree), needed)
            values = iter(pick_log_probs(logits, needed, wanted))
        return [[[next(values) for _ in target.scored] for target in part] for part in parts]

    def _inputs(self, rows: Sequence[Row], tree: bool) -> dict[str, Any]:
        """Pad rows on the right and mask them; add them to the token counter."""
        import torch

        device = self._device
        length = max(len(row.tokens) for row in rows)
        self._n_forwarded += length * len(rows)

        def padded(lists: list[list[int]]) -> Any:
            return torch.tensor([one + [0] * (length - len(one)) for one in lists], device=device)

        inputs = {"input_ids": padded([row.tokens for row in rows])}
        if self._takes_positions:
            inputs["position_ids"] = padded([row.depths for row in rows])
        if tree:
            seen = torch.from_numpy(visible(rows)).to(device)[:, None]
            hidden = torch.finfo(self._model.dtype).min
            # Every attention implementation takes an additive mask, but not a boolean one.
            mask = torch.zeros(seen.shape, dtype=self._model.dtype, device=device)
            inputs["attention_mask"] = mask.masked_fill_(~seen, hidden)
        else:
            inputs["attention_mask"] = padded([[1] * len(row.tokens) for row in rows])
        return inputs

    def _choose_path(self, loaded: LoadedModel, kept: KvScorer) -> None:
        """Compare all paths on a few sentences; some architectures ignore mask or positions."""
        targets = []
        for prompt, continuation in _PROBES:
            text = prompt + continuation
            ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
            tokens = tuple(ids[: int(min(_MAX_PROBE_TOKENS, self._window))])
            targets.append(Target(tokens, max(2 * len(tokens) // 3, 1)))
        targets.append(Target(targets[0].tokens[:-2], targets[0].start))
        if self._takes_positions:
            alone = self._forward([[target] for target in targets], tree=False)
            expected = [part[0] for part in alone]
            if kept.agrees(targets, expected):
                self._kept, self.path = kept, "tree"
            elif self._reads_trees(targets, expected):
                self.path = "tree"
        self._n_forwarded = 0
        if self.path == "plain":
            log.warning(
                "%s cannot read token trees; shared prefixes are computed again each time",
                type(self._model).__name__,
            )

    def _reads_trees(self, targets: Sequence[Target], expected: list[list[float]]) -> bool:
        try:
            # One row with several tries, whatever the plan says, and a padded one.
            shared = self._forward([targets, targets[2:]], tree=True)[0]
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            log.debug("the self-check of token trees failed", exc_info=error)
            return False
        return close_enough(shared, expected, self._model.dtype)


def _attention_window(config: Any) -> float:
    """Return the length, in tokens, up to which every layer sees all earlier tokens.

    Beyond it a tree would be wrong: its mask replaces the sliding or chunked window of most models,
    and some (GPT-Neo) count their window by places in the row. Others (longrope) rotate all
    positions of a batch differently as soon as one exceeds the length.
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
