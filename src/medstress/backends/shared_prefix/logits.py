"""Computes logits only where they are needed, and log probabilities from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

_FEED_FORWARD = ("mlp", "feed_forward")
"""Names of the part after attention in decoder layers."""
_PROJECTIONS = ("q_proj", "o_proj")
"""Names of the layers of attention that make its queries and its output."""


def logits_at(
    model: Any,
    inputs: dict[str, Any],
    needed: Sequence[tuple[int, int]],
    *,
    last: Sequence[Any] = (),
) -> Any:
    """Return the logits at needed (row, node) pairs, `(n_needed, n_vocabulary)`.

    The vocabulary layer may cost as much as many others, so it reads only the needed nodes.
    Whatever the model does to the logits afterwards happens as usual.

    Args:
        model: a decoder-only model of transformers.
        inputs: arguments of its forward.
        needed: distinct pairs.
        last: modules from `last_by_token` that should compute only the needed nodes, too. Only for
            callers that compare their numbers with the plain path before the first scores.
    """
    import torch

    at = torch.tensor(needed).T
    with ExitStack() as stack:
        for module in last:
            stack.enter_context(_only_at(at, module))
        thinned = stack.enter_context(_thinned(at, model.get_output_embeddings()))
        logits = model(**inputs, use_cache=False).logits
    if thinned:
        return logits[0]
    rows, nodes = at.to(logits.device)
    return logits[rows, nodes]


@contextmanager
def _thinned(at: Any, head: Any) -> Iterator[list[bool]]:
    """Make the vocabulary layer read only some places; yields a list that is empty until it ran."""
    calls: list[bool] = []

    def thin(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        calls.append(True)
        # A model may span several devices; the states are on the last one.
        rows, nodes = at.to(args[0].device)
        return (args[0][rows, nodes][None], *args[1:])

    handle = None if head is None else head.register_forward_pre_hook(thin)
    try:
        yield calls
    finally:
        if handle is not None:
            handle.remove()


@contextmanager
def _only_at(at: Any, module: Any) -> Iterator[None]:
    """Make a token-wise module of the last layer compute only some places.

    Nothing reads the other places after the last layer. Keys and values come from other modules.
    """
    forward, own = module.forward, vars(module).get("forward")

    def at_places(states: Any, *others: Any, **named: Any) -> Any:
        if others or named:
            return forward(states, *others, **named)
        rows, nodes = at.to(states.device)
        thinned = forward(states[rows, nodes][None])
        if not hasattr(thinned, "new_zeros"):
            # Mixtures of experts may return their routing as well.
            return forward(states)
        full = thinned.new_zeros((*states.shape[:-1], thinned.shape[-1]))
        full[rows, nodes] = thinned[0]
        return full

    module.forward = at_places
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def last_by_token(model: Any) -> list[Any]:
    """Return the modules of the last decoder layer that treat each token alone, found by name.

    These are its feed-forward part, and the queries and output of its attention, but not keys and
    values.
    """
    n_layers = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if type(module).__name__ == "ModuleList" and len(module) == n_layers:
            parts = dict(module[-1].named_modules())
            halves = [parts[name] for name in _FEED_FORWARD if name in parts]
            ends = [one for name, one in parts.items() if name.split(".")[-1] in _PROJECTIONS]
            return [*halves, *ends]
    return []


def pick_log_probs(
    logits: Any, needed: Sequence[tuple[int, int]], wanted: Sequence[tuple[tuple[int, int], int]]
) -> list[float]:
    """Return natural log probabilities.

    Args:
        logits: `(n_needed, n_vocabulary)`.
        needed: the (row, node) pair of each line of `logits`.
        wanted: (pair, token) for each log probability to return; at least one.
    """
    import torch

    place = {pair: number for number, pair in enumerate(needed)}
    lines = torch.tensor([place[pair] for pair, _ in wanted], device=logits.device)
    tokens = torch.tensor([token for _, token in wanted], device=logits.device)
    log_probs: list[float] = torch.log_softmax(logits.float(), dim=-1)[lines, tokens].tolist()
    return log_probs
