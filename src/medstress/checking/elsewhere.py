"""Errors of a checker that `medstress checker PAIRS.jsonl --json` measured, for a run to keep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medstress.checking.checkers import Checker
from medstress.checking.measure import ALL, FORMAT, TYPE
from medstress.core.errors import UsageError
from medstress.files.reading import read_json

_RATES = ("sensitivity", "specificity")


def read_measured(path: Path, checker: Checker) -> dict[str, Any]:
    """Read what a checker's errors are, on all pairs and by type.

    Returns:
        `whole` and `by_type` (type -> the same): `sensitivity` and `specificity` to names that mean
        the same, as estimates, and `design_effects` of both.

    Raises:
        UsageError: the file is none of `medstress checker --json`, of another version or another
            checker, or holds rates that no counts have.
    """
    found = read_json(path, f"--measured {path}")
    if not isinstance(found, Mapping) or not isinstance(found.get("rows"), list):
        raise _odd(path, "no object with `rows`")
    if found.get("format") != FORMAT:
        raise _odd(path, f"format {found.get('format')!r} and not {FORMAT}")
    of_file = found.get("hash", checker.hash)
    if (found.get("checker"), of_file) != (checker.name, checker.hash):
        what = repr(found.get("checker"))
        more = " of other content" if found.get("checker") == checker.name else ""
        raise UsageError(
            f"--measured {path}: it measures the checker {what}{more}, and the run is judged by "
            f"{checker.name!r}; measure that one on labelled pairs and give its file"
        )
    rows = [_row(path, each) for each in found["rows"] if _is_kept(each)]
    whole = [row for by, _, row in rows if by == ALL]
    if len(whole) != 1:
        raise _odd(path, f"{len(whole)} rows of all pairs")
    return {"whole": whole[0], "by_type": {name: row for by, name, row in rows if by == TYPE}}


def _odd(path: Path, what: str) -> UsageError:
    return UsageError(
        f"--measured {path}: expected what medstress checker PAIRS.jsonl --json prints, got {what}"
    )


def _is_kept(row: Any) -> bool:
    return isinstance(row, Mapping) and row.get("by") in (ALL, TYPE)


def _row(path: Path, row: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    effects = row.get("design_effects", [1.0, 1.0])
    try:
        kept = {name: dict(row[name]) for name in _RATES}
        is_sound = all(map(_is_share, kept.values())) and all(float(each) >= 1 for each in effects)
        if not is_sound or len(effects) != len(_RATES):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise _odd(
            path, f"a row of {row.get('name') or 'all pairs'} without sound rates"
        ) from error
    return str(row["by"]), str(row.get("name", "")), {**kept, "design_effects": list(effects)}


def _is_share(estimate: Mapping[str, Any]) -> bool:
    value, n = estimate["value"], estimate["n"]
    if type(n) is not int or n < 0:
        return False
    return value is None if n == 0 else 0 <= value <= 1
