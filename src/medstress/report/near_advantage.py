"""What survives of near draws' advantage over random ones, in the report and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.report.labels import Row
from medstress.results.formats import decimal, interval, percent, plural
from medstress.results.names import Names
from medstress.results.table import Format, Table, as_row, columns
from medstress.stats.estimates import read_score

LEAD = (
    "Near names succeed more often than random ones. How much of that is left if only successes "
    "count after which the key still holds? As long as nobody labels them, the answer is a range."
)
_MOST_LINES = 3


def near_table(rows: Sequence[Row], names: Names) -> Table | None:
    """Return the advantage of each near arm and what survives of it; None without rows."""
    if not rows:
        return None
    return Table(
        name="near-advantage",
        caption="Near draws against random ones, if only valid successes count",
        columns=(
            *columns(Format.TEXT, "Near", "Random", "Data set", "Group", "Victim"),
            *columns(Format.COUNT, "Items"),
            *columns(Format.SCORE, "Advantage"),
            *columns(Format.TEXT, "Left of it: any unknown may be valid", "All unknown valid"),
            *columns(Format.TEXT, "Labels"),
            *columns(Format.SCORE, "Left, by labels"),
            *columns(
                Format.TEXT, "Share that survives: any unknown may be valid", "Share if all valid"
            ),
            *columns(Format.TEXT, "Share, by labels"),
        ),
        rows=tuple(
            as_row(
                names.of("attack", row["near"]),
                names.of("attack", row["random"]),
                names.of("dataset", row["dataset"]),
                names.of("group", row["group"]),
                names.of("victim", row["victim"]),
                row["n_items"],
                read_score(row["advantage"]),
                _range(row["left"], decimal),
                decimal(row["left"]["all_unknown_valid"]["value"]),
                " + ".join(map(str, row["n_labels"])),
                read_score(row["left"]["labels"]) if row["left"]["labels"] else None,
                _range(row["share"], share_words) if _has_share(row) else "none exists",
                share_words(row["share"]["all_unknown_valid"]["value"]) if _has_share(row) else "",
                _with_interval(row["share"]["labels"]),
            )
            for row in rows
        ),
        notes=(
            "Any unknown may be valid: from all unknown successes of near draws invalid and those "
            "of random ones valid, censored searches too, to the reverse. Unreadable answers are "
            "no success.",
            "By labels: from random samples of the successes of both arms; Fieller's interval over "
            "items. A share exists only where the advantage is clear of 0.",
            *_remarks(rows, names),
        ),
    )


def near_lines(rows: Sequence[Row], names: Names) -> list[str]:
    """Return a sentence for each near arm; of many, for the first few."""
    lines = [sentence(row, names) for row in rows[:_MOST_LINES]]
    if len(rows) > _MOST_LINES:
        more = plural(len(rows) - _MOST_LINES, "more near arm")
        lines.append(f"and {more}: summary --json, near_advantage")
    return lines


def sentence(row: Row, names: Names) -> str:
    """Say what survives of one near arm's advantage.

    Args:
        row: of `near_advantage`.
        names: of the run.
    """
    place = ", ".join(names.of(part, row[part]) for part in ("victim", "dataset", "group"))
    near, random = (names.of("attack", row[arm]) for arm in ("near", "random"))
    subject = f"{near} against {random} ({place})"
    advantage, left = _with_interval(row["advantage"]), _range(row["left"], decimal)
    if row["guesses"]:
        return (
            f"{subject}: advantage {advantage}, but the victim's clean answers are not above "
            "chance, so nothing follows"
        )
    if not _has_share(row):
        return (
            f"{subject}: {row['why_no_share']} ({advantage}; if only valid successes count, {left})"
        )
    share = row["share"]
    found = (
        f"{subject}: if only valid successes count, {_range(share, share_words)} of the advantage "
        f"{advantage} survives, {share_words(share['all_unknown_valid']['value'])} if every "
        "unknown success is valid"
    )
    if share["labels"] is None:
        return f"{found}; labels of a random sample would say how much"
    labels = " + ".join(map(str, row["n_labels"]))
    return f"{found}; by {labels} labels {_with_interval(share['labels'])}"


def share_words(value: float) -> str:
    """Write a share that may lie outside 0 and 1.

    >>> share_words(-0.2), share_words(0.64), share_words(1.3)
    ('none', '64%', 'all')
    """
    return "none" if value <= 0 else "all" if value >= 1 else f"{percent(value, 0)}%"


def _has_share(row: Row) -> bool:
    return row["why_no_share"] is None


def _range(found: Mapping[str, Any], words: Any) -> str:
    low, high = (words(found[f"{end}_censored"]["value"]) for end in ("worst", "best"))
    return low if low == high else f"{low} to {high}"


def _with_interval(found: Mapping[str, Any] | None) -> str:
    return "" if found is None else f"{decimal(found['value'])} {interval(found)}"


def _remarks(rows: Sequence[Row], names: Names) -> list[str]:
    found = []
    for row in rows:
        near, random = (names.of("attack", row[arm]) for arm in ("near", "random"))
        if row["guesses"]:
            victim = names.of("victim", row["victim"])
            found.append(f"{victim}, {row['group']}: not above chance, so nothing follows.")
        if row["differs"]:
            found.append(f"{near} and {random} also differ in {', '.join(row['differs'])}.")
    return list(dict.fromkeys(found))
