"""Logits where they are needed, and log probabilities of tokens from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def logits_at(model: Any, inputs: dict[str, Any], needed: Sequence[tuple[int, int]]) -> Any:
    """Return the logits at needed (row, node) pairs, `(n_needed, n_vocabulary)`.

    The vocabulary layer may cost as much as many others, so its input is thinned out to the
    needed nodes; what a model does to the logits afterwards is done as usual.

    Args:
        model: a decoder-only model of transformers.
        inputs: of its forward.
        needed: distinct pairs.
    """
    import torch

    at = torch.tensor(needed).T
    thinned: list[bool] = []

    def thin(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        thinned.append(True)
        # Parts of a model may be on several devices: the states are where the last one is.
        rows, nodes = at.to(args[0].device)
        return (args[0][rows, nodes][None], *args[1:])

    head = model.get_output_embeddings()
    handle = None if head is None else head.register_forward_pre_hook(thin)
    try:
        logits = model(**inputs, use_cache=False).logits
    finally:
        if handle is not None:
            handle.remove()
    if thinned:
        return logits[0]
    rows, nodes = at.to(logits.device)
    return logits[rows, nodes]


def pick_log_probs(
    logits: Any, needed: Sequence[tuple[int, int]], wanted: Sequence[tuple[tuple[int, int], int]]
) -> list[float]:
    """Return natural log probabilities.

    Args:
        logits: `(n_needed, n_vocabulary)`.
        needed: the (row, node) pair of each line.
        wanted: of which pair the log probability of which token; at least one.
    """
    import torch

    place = {pair: number for number, pair in enumerate(needed)}
    lines = torch.tensor([place[pair] for pair, _ in wanted], device=logits.device)
    tokens = torch.tensor([token for _, token in wanted], device=logits.device)
    found: list[float] = torch.log_softmax(logits.float(), dim=-1)[lines, tokens].tolist()
    return found
