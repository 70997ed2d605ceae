"""What explanations show, in a sentence and a table of 80 columns; the page has all numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.explanations import mask_words
from medstress.metrics.old_stats.estimates import read_score
from medstress.results.formats import as_text, plural
from medstress.results.table import Format, Table, as_row, columns

_MOST = 5
"""Victims that have a sentence; the tables have all."""
_REGIMES = {"n<0": "near names (n < 0)", "n>0": "far names (n > 0)"}
_KINDS = {"success": ("success", "successes"), "failed": ("failed attack", "failed attacks")}

Found = Mapping[str, Any]
"""The key `explanations` of a summary, or one of its rows."""


def is_score(found: Found) -> bool:
    """Whether all that is explained are scores of pairs, which have no right answer."""
    return list(found.get("values") or ()) == ["score"]


def sentences(summary: Mapping[str, Any]) -> list[str]:
    """Say for each victim how often the top token lies in the edit, beside chance.

    Attacks that failed stand beside the successes.
    """
    found, names = summary.get("explanations") or {}, summary.get("names") or {}
    unit = "token" if "tokens" in (found.get("units") or ()) else "word"
    groups: dict[tuple[str, str], list[Found]] = {}
    for row in found.get("rows") or ():
        if row["attack"] is None and row["regime"] is None and row["edit_after"]["n"]:
            groups.setdefault((row["victim"], row["mask"]), []).append(row)
    said = []
    for (victim, mask), rows in list(groups.items())[:_MOST]:
        named = (names.get("victims") or {}).get(victim, victim)
        head = f"{named}{_masked(found, mask)}: " if len(groups) > 1 else ""
        parts = [
            _part(found, row, "" if i else f" the top {unit} lies in the edit")
            for i, row in enumerate(rows)
        ]
        text = f"{head}{'; '.join(parts)}."
        said.append(as_text(text[0].upper() + text[1:] if not head else text))
    if left := len(groups) - len(said):
        said.append(f"The tables have {left:,} more.")
    return said


def _part(found: Found, row: Found, top: str) -> str:
    told = row["edit_after"]
    kind = ("pair", "pairs") if is_score(found) else _KINDS[row["kind"]]
    return (
        f"in {told['hits']:,} of {plural(told['n'], *kind)}{top}, by chance in "
        f"{_about(told['by_chance'])}"
    )


def _about(n: float) -> str:
    """Write an expected count.

    >>> _about(0.04), _about(2.31), _about(1312.4)
    ('fewer than .1', '2.3', '1,312')
    """
    if 0 < n < 0.1:
        return "fewer than .1"
    return f"{n:,.0f}" if n >= 10 else f"{n:.1f}".removeprefix("0").removesuffix(".0") or "0"


def labels(found: Found, row: Found, names: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return victim, attacks and which trials of a row, in words."""
    attack, regime = row["attack"], row["regime"]
    which: str = "all" if regime is None else _REGIMES[regime]
    if attack is not None:
        which = str((names.get("attacks") or {}).get(attack, attack))
    which += _masked(found, row["mask"])
    kind = "pairs" if is_score(found) else _KINDS[row["kind"]][1]
    victim = (names.get("victims") or {}).get(row["victim"], row["victim"])
    return as_text(victim), as_text(which), kind


def _masked(found: Found, mask: str) -> str:
    return f", {mask_words(mask)}" if len(found.get("masks") or ()) > 1 else ""


def distinct(rows: Sequence[Found]) -> list[Found]:
    """Return rows without those that repeat another one under a further name.

    A regime with one attack, or a victim with one regime, has the same trials twice; what is said
    of them stands once, under the narrower name.
    """
    groups: dict[tuple[Any, ...], list[Found]] = {}
    for row in rows:
        groups.setdefault(_name(row), []).append(row)
    repeated = {
        wider
        for group in groups.values()
        for wider in _wider(group[0])
        if _sizes(groups.get(wider, ())) == _sizes(group)
    }
    return [row for row in rows if _name(row) not in repeated]


def _name(row: Found) -> tuple[Any, ...]:
    return (row["victim"], row["mask"], row["regime"], row["attack"])


def _wider(row: Found) -> Iterator[tuple[Any, ...]]:
    """Yield the names of groups that have all trials of the row: as many are the same ones."""
    if row["attack"] is not None and row["shared_regime"] is not None:
        yield (row["victim"], row["mask"], row["shared_regime"], None)
    if row["attack"] is not None or row["regime"] is not None:
        yield (row["victim"], row["mask"], None, None)


def _sizes(group: Sequence[Found]) -> list[tuple[str, int]]:
    return [(row["kind"], row["n"]) for row in group]


def brief_table(summary: Mapping[str, Any]) -> Table | None:
    """Return the table of the terminal: shares after the attack, without intervals."""
    found = summary.get("explanations") or {}
    rows = distinct(found.get("rows") or ())
    if not rows:
        return None
    names = summary.get("names") or {}
    return Table(
        name="explained-brief",
        caption="Share of trials whose top token lies in the edit; share of change near it",
        columns=(
            *columns(Format.TEXT, "Attacks", "Trials", "Victim"),
            *columns(Format.COUNT, "n"),
            *columns(Format.SCORE, "In the edit", "in it by chance", "Near it", "near by chance"),
        ),
        rows=tuple(
            as_row(which, kind, victim, row["n"], *_shares(row))
            for row in rows
            for victim, which, kind in [labels(found, row, names)]
        ),
        n_labels=3,
    )


def _shares(row: Found) -> Iterator[Any]:
    for place in (row["top_after"]["edit"], row["near"]):
        yield read_score(place["share"]).value
        yield place["chance"]["value"]
