"""The types of the columns of data frames, for columns in which a run has no value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_type_hints

from medstress.core.rows import TrialRow
from medstress.store.reviews import JUDGEMENTS

if TYPE_CHECKING:
    from polars import DataFrame

Types: TypeAlias = Mapping[str, Any]
"""Column -> str, int, float or bool, or a list of one."""

_ITEM: Types = dict.fromkeys(("dataset", "item_id", "item_hash", "metadata"), str)
_EXCHANGE: Types = {
    **dict.fromkeys(("trial_id", "about_trial", "role", "purpose"), str),
    **{"probe": bool, "query": int, "call": int},
    **{"prompt_hash": str, "prompt": str, "continuations": list[str], "answer": str},
    **{"scores": list[float], "finish_reason": str, "reasoning": str, "cached": bool},
    **{"seconds": float, "tokens_in": int, "tokens_out": int, "error": str},
}
_REVIEW: Types = {
    **{"trial_id": str, "reviewer": str, "answers": str, "note": str},
    **{"time": str, **dict.fromkeys(JUDGEMENTS, str)},
    **{"role": str, "case_id": str, "control": str, "control_of": str},
}
_EXPLANATION: Types = {
    **dict.fromkeys(("trial_id", "dataset", "item_id", "victim", "attack"), str),
    **{"seed": int, "verdict": str, "regime": str, "side": str, "position": int, "token": str},
    **{"place": str, "edited": bool, "key": str, "answer": str},
    **{"value_key": float, "value_answer": float, "values": str},
    **{"value": str, "units": str, "mask": str, "base_key": float, "full_key": float},
    **{"evaluations": int, "gap": float},
}
_ATTACKED: Types = dict.fromkeys(
    ("id", "dataset", "original_id", "victim", "item_hash", "metadata", "attack_set"), str
)


@cache
def types_of(table: str) -> Types:
    """Return the types of the columns of a table of `medstress export`.

    >>> types_of("trials")["score_after"], types_of("exchanges")["error"]
    (<class 'float'>, <class 'str'>)
    """
    if table == "trials":
        return {name: _plain(hint) for name, hint in get_type_hints(TrialRow).items()}
    return {
        "items": _ITEM,
        "exchanges": _EXCHANGE,
        "reviews": _REVIEW,
        "explanations": _EXPLANATION,
        "attacked": _ATTACKED,
    }[table]


def _plain(hint: Any) -> type:
    """Return the type of the values of a field that may be None; text where there are several."""
    found = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    (first, *others) = [each for each in found if each is not type(None)]
    return first if not others and first in (int, float, bool) else str


def typed(frame: DataFrame, types: Types) -> DataFrame:
    """Return a data frame whose columns without any value have their types; text if unknown.

    A frame without rows has all columns of `types`.
    """
    import polars

    schema = {name: _dtype(each) for name, each in types.items()}
    if not frame.width:
        return polars.DataFrame(schema=schema)
    unknown = [name for name, dtype in frame.schema.items() if dtype == polars.Null]
    return frame.with_columns(
        polars.col(name).cast(schema.get(name, polars.String)) for name in unknown
    )


def _dtype(kind: Any) -> Any:
    import polars

    plain = {str: polars.String, int: polars.Int64, float: polars.Float64, bool: polars.Boolean}
    return plain[kind] if kind in plain else polars.List(plain[get_args(kind)[0]])
