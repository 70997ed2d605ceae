"""The shapes of stored JSON: what readers of a folder may rely on, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any

_NUMBER = (int, float)
_NUMBER_OR_NONE = (int, float, NoneType)
_TEXT_OR_NONE = (str, NoneType)
_TASK: dict[Any, Any] = {"types?": [str]}
_TASK["task?"] = _TASK  # what a wrapper wraps
_ASKED = {"task": _TASK, "prompt": (dict, NoneType)}
_PAYER = {"price_in?": _NUMBER_OR_NONE, "price_out?": _NUMBER_OR_NONE}
_MODEL = {"model?": str, "model_hash?": str, "target_hash?": _TEXT_OR_NONE, **_PAYER}
_CRITERION = {
    "metric": str,
    "against?": {"run": str},
    "at_budget?": int,
    "control?": str,
    "slice?": {"by": str, "value?": str},
    "where?": {str: str},
}
_LIMITS = ("max_failed?", "max_queries?", "max_tokens?", "max_usd?", "max_seconds?")
MANIFEST: dict[Any, Any] = {
    "attacks?": {str: {"name": str}},
    "base?": str,
    "complete?": bool,
    "config?": {
        "experiment": {"name": str, "controls?": (bool, list), **dict.fromkeys(_LIMITS, _NUMBER)},
        "analysis?": {"reuse?": [int]},
        "dataset?": [{"name": str, "path?": str}],
        "entities?": [{"type?": str, "embedding?": str}],
        "train?": dict,
        "victim?": [dict],
    },
    "control_texts?": {str: int},
    "controls?": {"left_out?": {str: {str: str}}},
    "datasets?": {str: {"skipped?": [str], "notes?": [str]}},
    "endpoints?": [
        {
            "victim": str,
            "left_out?": {str: str},
            "reads_at_most?": int,
            "temperature?": {"asked": _NUMBER, "sent": _NUMBER_OR_NONE, "said": str},
        }
    ],
    "fingerprint?": str,
    "finished?": _TEXT_OR_NONE,
    "fixed_family?": {"items": [str]},
    "groups?": {str: {"n_names?": int, "undefined?": _TEXT_OR_NONE}},
    "n_planned?": int,
    "parts?": {"groups?": {str: str}, "settings?": dict},
    "performance?": dict.fromkeys(
        ("wall_seconds?", "tokens_forwarded?", "tokens_naive?"), _NUMBER_OR_NONE
    ),
    "records?": {str: {"control_of?": _TEXT_OR_NONE}},
    "require?": (
        NoneType,
        {
            "hash": str,
            "criteria": [({**_CRITERION, "max_high": _NUMBER}, {**_CRITERION, "min_low": _NUMBER})],
            "baselines?": {str: {"outcomes": str}},
            "extended?": int,
        },
    ),
    "roles?": {str: _PAYER},
    "seeds?": [int],
    "shard?": {"number": int, "of": int},
    "shards?": {"answered_otherwise?": int},
    "similarity?": {"embedder": str, "hash": str},
    "slices?": (
        NoneType,
        {"by": [str], "label": str, "cuts": {str: {str: [int]}}, "types": {str: [str]}},
    ),
    "started?": str,
    "stopped_by?": [str],
    "superseded?": [str],
    "surrogates?": [
        {"dataset": str, "attack": str, "n_distant": int, "n_nearest": int, "n_mentions": int}
    ],
    "tests?": {str: str},
    "training?": {"adversarial": [dict], "cautions": [str], "models": [dict]},
    "tuning?": {"part": str, "rule": str, "settings": dict},
    "versions?": {"medstress": str},
    "victims?": {
        str: {
            **_MODEL,
            **_ASKED,
            "by_dataset?": {str: _ASKED},
            "family?": _TEXT_OR_NONE,
            "group?": _TEXT_OR_NONE,
            "parameters?": _NUMBER_OR_NONE,
            "part_of?": str,
        }
    },
}
"""Key -> its shape: a type, one of some values, a list of a shape or of several in this order, an
object of such keys or of any texts (`str`), or one of several shapes. Objects may have other keys
too, but for those of `Only`, and need not have those with a question mark."""


class Only(dict[Any, Any]):
    """The shape of an object that has no other keys."""


def check_shape(value: Any, shape: Any, what: str) -> None:
    """Check that a stored value has the shape that medstress writes.

    Raises:
        ValueError: something has another; the first place is named.

    >>> check_shape({"n": [1, "2"]}, {"n": [int]}, "a sample")
    Traceback (most recent call last):
    ValueError: n[1] of a sample is missing or of another kind
    """
    for place in _odd(value, shape, ""):
        raise ValueError(f"{place.lstrip('.')} of {what} is missing or of another kind")


def _odd(value: Any, shape: Any, place: str) -> Iterator[str]:
    """Yield the places of a value that have not its shape."""
    if isinstance(shape, tuple):
        if all(any(True for _ in _odd(value, one, place)) for one in shape):
            yield place
    elif isinstance(shape, dict) and isinstance(value, dict):
        if isinstance(shape, Only) and value.keys() - {key.removesuffix("?") for key in shape}:
            yield place
        for key, inner in shape.items():
            if key is str:
                for name, part in value.items():
                    yield from _odd(part, inner, f"{place}.{name}")
            elif (name := key.removesuffix("?")) in value:
                yield from _odd(value[name], inner, f"{place}.{name}")
            elif name == key:
                yield f"{place}.{name}"
    elif isinstance(shape, list) and isinstance(value, list):
        shapes = shape * len(value) if len(shape) == 1 else shape
        if len(shapes) != len(value):
            yield place
        for n, (part, own) in enumerate(zip(value, shapes, strict=False)):
            yield from _odd(part, own, f"{place}[{n}]")
    elif isinstance(shape, set):
        if not isinstance(value, str) or value not in shape:
            yield place
    elif (
        isinstance(shape, dict | list)
        or not isinstance(value, shape)
        or (isinstance(value, bool) and shape is not bool)
    ):
        yield place
