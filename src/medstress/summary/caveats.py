"""What the first sentences add: how far losses are vouched for, and what is not measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.metrics.unreadable import victims_failed, victims_unread
from medstress.metrics.vouched import NOTHING_VOUCHES
from medstress.results.formats import listed, plural
from medstress.results.names import Names
from medstress.summary.arms import Row
from medstress.summary.reviews import unbelieved

NO_VALIDITY = "no validity was measured"
_ROUNDING = 1e-9
_SAME_MEANING = "the texts still mean the same"


def validity(row: Row, review: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Say how many losses are vouched for, by whom, or that this is not known.

    Args:
        row: of the arm.
        review: the part `review` of the summary.
    """
    valid = row.get("asr_valid") or {}
    if not row["n_flipped"] or "asr_valid_bounds" not in row:
        return
    if valid.get("value") is not None:
        who = "reviewers" if review is None else plural(review["n_raters"], "reviewer")
        judged = f"{valid['n_labels']:,} of these {row['n_flipped']:,}"
        yield f"Lost with the key still right, as {who} judged ({judged}): {between(valid)}."
        yield from _open(valid)
    elif not row["n_validity_unknown"] and not max(row["asr_valid_bounds"] or (1,)):
        yield "Rules refute every one of these losses: the edits changed what the key rests on."
    elif review is not None and (out := unbelieved(review)):
        says = "says" if len(out) == 1 else "say"
        more = f"; {row['validity']['why']}" if _is_told(row) else ""
        yield (
            f"Validity is not known: what {listed(out)} {says} counts for nothing, because no more "
            f"than half of the planted cases were judged rightly{more}{_bounded(row)}."
        )
    elif review is not None and any(each["n_open"] for each in review["judgements"][:1]):
        yield "Validity is not known: reviewers disagree and nobody has decided."
    elif _is_told(row):
        yield f"Validity is not known: {row['validity']['why']}{_bounded(row)}."
    else:
        checked = "the key is still right" if row.get("chance") is not None else _SAME_MEANING
        told = f"nobody checked that {checked} after these edits"
        yield f"{NO_VALIDITY.capitalize()}: {told}{_bounded(row)}."


def _is_told(row: Row) -> bool:
    """Whether labels count that are too few or cannot be believed, and the row says so."""
    return (row.get("validity") or {}).get("why") not in (None, NOTHING_VOUCHES)


def _bounded(row: Row) -> str:
    """Say between which rates the losses with the key still right lie, if anything narrows them."""
    none, unknown, censored = row["asr_valid_bounds"] or (0.0, 1.0, 1.0)
    if none <= 0 and unknown > row["asr"]["value"] - _ROUNDING:
        return ""
    from_ = "at most" if none <= 0 else f"{per_cent(none).removesuffix(' %')} to"
    more = f" ({per_cent(censored)} if no search had ended early)" * (censored > unknown)
    return f"; {from_} {per_cent(unknown)} are lost with the key still right{more}"


def unmeasured(found: Mapping[str, Any], names: Names) -> Iterator[str]:
    """Name the victims of which nothing is measured."""
    failed = victims_failed(found)
    for victims, why in (
        (failed, "Every call of {} failed"),
        (victims_unread(found), "Every answer of {} is unreadable"),
    ):
        if victims:
            who = listed([names.of("victim", each) for each in victims])
            it = "it" if len(victims) == 1 else "them"
            yield f"{why.format(who)}, so nothing is measured of {it}."


def _open(valid: Row) -> Iterator[str]:
    """Say how many losses nobody settled, and what these could change."""
    disputed, blank = valid.get("n_disputed") or 0, valid.get("n_unlabelled") or 0
    if disputed or blank:
        told = [f"On {disputed:,} more they disagree or cannot say"] * bool(disputed)
        told += [f"{blank:,} more of the sample {'is' if blank == 1 else 'are'} not judged"] * bool(
            blank
        )
        low, high = (per_cent(end) for end in valid["settled_ends"])
        yield (
            f"{', and '.join(told)}: with all of these invalid or all valid, the interval reaches "
            f"from {low} to {high}."
        )


def between(estimate: Row) -> str:
    """Write a share and its interval in per cent.

    >>> between({"value": 1 / 3, "low": 0.2141, "high": 0.4789})
    '33 %, 21 to 48'
    """
    ends = [estimate["low"], estimate["high"]]
    if None in ends:
        return per_cent(estimate["value"])
    low, high = (per_cent(end).removesuffix(" %") for end in ends)
    return f"{per_cent(estimate['value'])}, {low} to {high}"


def per_cent(value: float) -> str:
    """Write a share in whole per cent; what is nearly none or nearly all has one digit more.

    >>> per_cent(0.3333), per_cent(0.004), per_cent(0), per_cent(0.9996)
    ('33 %', '0.4 %', '0 %', '99.9 %')
    """
    if 0 < value < 0.01 or 0.99 < value < 1:
        return f"{min(99.9, max(0.1, 100 * value)):.1f} %"
    return f"{100 * value:.0f} %"
