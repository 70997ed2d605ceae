"""Logits where they are needed, and log probabilities of tokens from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

_FEED_FORWARD = ("mlp", "feed_forward")
"""What decoder layers call the part after attention."""
_PROJECTIONS = ("q_proj", "o_proj")
"""What attention calls the layers that make its queries and its output."""


def logits_at(
    model: Any,
    inputs: dict[str, Any],
    needed: Sequence[tuple[int, int]],
    *,
    last: Sequence[Any] = (),
) -> Any:
    """Return the logits at needed (row, node) pairs, `(n_needed, n_vocabulary)`.

    The vocabulary layer may cost as much as many others, so its input is thinned out to the
    needed nodes; what a model does to the logits afterwards is done as usual.

    Args:
        model: a decoder-only model of transformers.
        inputs: of its forward.
        needed: distinct pairs.
        last: what `last_by_token` found, to be thinned out as well: for callers whose numbers are
            compared with those of the plain path before the first scores.
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
    """Let the vocabulary layer read only the states of some places; yields whether it was asked."""
    asked: list[bool] = []

    def thin(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        asked.append(True)
        # Parts of a model may be on several devices: the states are where the last one is.
        rows, nodes = at.to(args[0].device)
        return (args[0][rows, nodes][None], *args[1:])

    handle = None if head is None else head.register_forward_pre_hook(thin)
    try:
        yield asked
    finally:
        if handle is not None:
            handle.remove()


@contextmanager
def _only_at(at: Any, module: Any) -> Iterator[None]:
    """Let a part of the last layer that treats each token alone compute some places only.

    After the last layer nobody reads the others; their keys and values are made elsewhere.
    """
    forward, own = module.forward, vars(module).get("forward")

    def at_places(states: Any, *others: Any, **named: Any) -> Any:
        if others or named:
            return forward(states, *others, **named)
        rows, nodes = at.to(states.device)
        found = forward(states[rows, nodes][None])
        if not hasattr(found, "new_zeros"):
            # Experts may say as well whom they asked.
            return forward(states)
        whole = found.new_zeros((*states.shape[:-1], found.shape[-1]))
        whole[rows, nodes] = found[0]
        return whole

    module.forward = at_places
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def last_by_token(model: Any) -> list[Any]:
    """What of the last decoder layer treats each token alone, but for keys and values.

    Its second half, and the queries and the output of its attention; those found by their names.
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
        needed: the (row, node) pair of each line.
        wanted: of which pair the log probability of which token; at least one.
    """
    import torch

    place = {pair: number for number, pair in enumerate(needed)}
    lines = torch.tensor([place[pair] for pair, _ in wanted], device=logits.device)
    tokens = torch.tensor([token for _, token in wanted], device=logits.device)
    found: list[float] = torch.log_softmax(logits.float(), dim=-1)[lines, tokens].tolist()
    return found
