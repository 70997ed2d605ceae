"""What a checker said of the successes of a run, and its errors, as the folder keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.evidence import Evidence
from medstress.core.validity import CHECKER
from medstress.metrics.measured import Elsewhere, Pairs
from medstress.stats.estimates import Estimate
from medstress.stats.prevalence import Errors

ENTRY = "checkers"
"""Key of the manifest: the checker whose words count, by `checker`."""


def entry_of(
    manifest: Mapping[str, Any], name: str, hash_: str, measured: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the entry of a manifest; errors that are known of the same checker stay."""
    known = manifest.get(ENTRY, {}).get(CHECKER, {})
    if measured is None and known.get("hash") == hash_:
        measured = known["measured"]
    return {CHECKER: {"name": name, "hash": hash_, "measured": measured}}


def counted(manifest: Mapping[str, Any]) -> str | None:
    """Return the hash of the checker whose words count; None if none judged the run."""
    found = manifest.get(ENTRY, {}).get(CHECKER)
    return None if found is None else str(found["hash"])


def evidence_of(words: Sequence[bool | None] | None) -> tuple[Evidence, ...]:
    """Return what a checker's words on the edited options of a success say of its key.

    >>> evidence_of([None, True])[0].valid, evidence_of([False])[0].valid, evidence_of(None)
    (False, True, ())
    """
    if words is None:
        return ()
    valid = False if True in words else None if None in words else True
    return (Evidence(kind=CHECKER, source=CHECKER, valid=valid),)


def elsewhere(manifest: Mapping[str, Any]) -> Elsewhere | None:
    """Return the errors of the checker on labelled pairs; None if the run has none.

    Names that mean the same make a success invalid, so sensitivity to the same is specificity to
    valid successes, and the reverse.
    """
    found = manifest.get(ENTRY, {}).get(CHECKER)
    if found is None or found["measured"] is None:
        return None
    return Elsewhere(
        name=found["name"],
        by_type={
            name: Pairs(
                errors=_errors(row),
                sensitivity=_estimate(row["specificity"]),
                specificity=_estimate(row["sensitivity"]),
            )
            for name, row in found["measured"]["by_type"].items()
        },
        types=_types(manifest),
    )


def _estimate(row: Mapping[str, Any]) -> Estimate:
    known = {name: row.get(name) for name in ("value", "low", "high")}
    return Estimate(n=row["n"], method=str(row.get("method", "")), **known)


def _types(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return group of entities -> its type, where that is one word."""
    tables = manifest["config"].get("entities") or ()
    return {
        str(table.get("name") or table["type"]): table["type"]
        for table in tables
        if isinstance(table.get("type"), str)
    }


def _errors(row: Mapping[str, Any]) -> Errors:
    """Return counts at the effective numbers of pairs."""
    same, different = row["design_effects"]
    n_false, n_false_found = _counts(row["sensitivity"], same)
    n_true, n_true_found = _counts(row["specificity"], different)
    return Errors(
        n_true=n_true,
        n_true_found=n_true_found,
        n_false=n_false,
        n_false_found=n_false_found,
    )


def _counts(estimate: Mapping[str, Any], effect: float) -> tuple[int, int]:
    n = int(estimate["n"] / effect)
    return n, round((estimate["value"] or 0.0) * n)
