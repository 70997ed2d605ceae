"""What passages are worth and what attacks still take: the tables and the figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate, read_score, read_share
from medstress.report.charts import Plot, plot
from medstress.report.labels import Row
from medstress.report.plots import layers
from medstress.report.plots.axes import share_axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    BESIDE_NAMES,
    MOST_PANELS,
    MOST_ROWS,
    in_legend,
    mark,
    most_important,
    on_axis,
    place_words,
    unique,
)
from medstress.results.formats import as_text, decimal, shorten
from medstress.results.names import CONTROL_WORDS, Names
from medstress.results.table import Format, Table, as_row, columns

_LABEL = 44
_MOST_SPOKEN = 12
_NOBODY = Names()


Passages = Mapping[str, Any]
"""The key `passages` of a summary."""


def gain_table(passages: Passages | None) -> Table | None:
    """Return the accuracy with and without a passage, and its paired gain; None without any."""
    if not passages or not passages["gains"]:
        return None
    return Table(
        name="passages",
        caption="What the passage is worth: accuracy on clean items with it and without it",
        columns=(
            *columns(Format.TEXT, "Group", "Victims", "Passages"),
            *columns(Format.COUNT, "Items"),
            *columns(Format.SHARE, "With passage", "Without"),
            *columns(Format.SCORE, "Gain"),
            *columns(Format.PROBABILITY, "p"),
        ),
        rows=tuple(
            as_row(
                _place(row),
                f"{row['open']}, {row['closed']}",
                row["passages"],
                row["n"],
                read_share(row["accuracy_open"]),
                read_share(row["accuracy_closed"]),
                read_score(row["gain"]),
                row["p"],
            )
            for row in passages["gains"]
        ),
        notes=(
            "The gain is paired: the same items, by Tango's score interval. Undecided passages are "
            "on the topic and do not settle the question: a gain there is no reading.",
        ),
        n_labels=3,
    )


def short_gain_table(passages: Passages) -> Table:
    """Return `gain_table` for a terminal of 100 columns: no victims, no p."""
    return Table(
        name="gains",
        caption="What the passage is worth",
        columns=(
            *columns(Format.TEXT, "Group", "Passages"),
            *columns(Format.SHARE, "With passage", "Without"),
            *columns(Format.SCORE, "Gain"),
        ),
        rows=tuple(
            as_row(
                _place(row),
                row["passages"],
                read_share(row["accuracy_open"]),
                read_share(row["accuracy_closed"]),
                read_score(row["gain"]),
            )
            for row in passages["gains"]
            if row["passages"] != "all"
        ),
        n_labels=2,
    )


def passage_plots(
    passages: Passages | None, names: Names = _NOBODY, looks: Mapping[str, int] | None = None
) -> Iterator[Plot]:
    """Yield a panel for each group and pair of victims: accuracy before and after each attack.

    Args:
        passages: of the summary, with keys.
        names: names in words.
        looks: key -> number of colour and mark of the victims that the page has drawn already.
    """
    known = looks or {}
    gains, rows = (passages["gains"], passages["accuracies"]) if passages else ((), ())
    order = _by_harm(rows)
    pairs = dict.fromkeys((g["dataset"], g["group"], g["open"], g["closed"]) for g in gains)
    for i, (dataset, group, *victims) in enumerate(list(pairs)[:MOST_PANELS]):
        sides = [
            [
                row
                for row in rows
                if (row["dataset"], row["group"], row["victim"]) == (dataset, group, victim)
            ]
            for victim in victims
        ]
        here = {as_text(row["attack"]) for side in sides for row in side}
        attacks = [attack for attack in order if attack in here]
        lines = [("before", [_share(side, None) for side in sides])]
        lines += [(attack, [_share(side, attack) for side in sides]) for attack in attacks]
        place = {"dataset": dataset, "group": group}
        title = place_words(place, names, "dataset", "group")
        said = unique(names.of("victim", victim) for victim in victims)
        drawn = lines[: MOST_ROWS + 1]
        _, notes = most_important(attacks, MOST_ROWS, lambda _: 0.0, "attacks")
        labelled = [(_words(label, names), shares) for label, shares in lines]
        labels = in_legend(said, BESIDE_NAMES)
        series = [
            Series(label=label, look=known.get(victim, len(known) + j))
            for j, (label, victim) in enumerate(zip(labels, victims, strict=True))
        ]
        yield plot(
            _chart(drawn, [{**place, "victim": v} for v in victims], series, title, names, notes),
            label=_spoken(labelled, said, title),
            data=_data(labelled, said, title, f"passages-{i}-data"),
        )


_Lines = Sequence[tuple[str, Sequence[Estimate | None]]]
"""(`before` or the key of an attack, accuracy of each victim)."""


def _words(attack: str, names: Names) -> str:
    if attack == "before" or attack in names.attacks:
        return names.attacks.get(attack, attack)
    # A control that all attacks share has the name of the control alone.
    return CONTROL_WORDS.get(attack) or names.of("attack", attack)


def _chart(
    lines: _Lines,
    victims: Sequence[Row],
    series: Sequence[Series],
    title: str,
    names: Names,
    notes: Iterable[str],
) -> Any:
    places = on_axis(_words(attack, names) for attack, _ in lines)
    data = []
    for place, (attack, shares) in zip(places, lines, strict=True):
        arm = {} if attack == "before" else {"attack": attack}
        data += [
            mark(share, {**victim, **arm}, place=place, series=each.label)
            for each, victim, share in zip(series, victims, shares, strict=True)
            if share is not None and share.value is not None
        ]
    return layers.dots(
        data,
        places,
        series,
        share_axis("accuracy, 95 % interval"),
        title=title,
        notes=notes,
        tips={"series": "Victim"},
    )


def _spoken(lines: _Lines, victims: Sequence[str], title: str) -> str:
    values = "; ".join(
        f"{shorten(label, _LABEL)} {' and '.join(_said(share) for share in shares)}"
        for label, shares in lines[:_MOST_SPOKEN]
    )
    return f"Accuracy of {' and '.join(victims)}, {shorten(title, 120)}: {values}."


def _data(lines: _Lines, victims: Sequence[str], title: str, name: str) -> Table:
    return Table(
        name=name,
        caption=f"Accuracy before and after each attack, {title}",
        columns=(*columns(Format.TEXT, "Attack"), *columns(Format.SHARE, *victims)),
        rows=tuple(as_row(label, *shares) for label, shares in lines),
        notes=(
            "All attacks on the same items: one that an attack cannot edit keeps its answer. "
            "Attacks after which the text no longer supports the key are left out.",
        ),
    )


def _by_harm(rows: Sequence[Row]) -> list[str]:
    """Return the labels of attacks, the one that takes least first."""
    left: dict[str, list[float]] = {}
    for row in rows:
        value = row["accuracy_after"]["value"]
        left.setdefault(as_text(row["attack"]), []).append(0.0 if value is None else value)
    return sorted(left, key=lambda attack: (-sum(left[attack]) / len(left[attack]), attack))


def _share(side: Sequence[Row], attack: str | None) -> Estimate | None:
    """Return accuracy after an attack, before any if None; None if the arm is missing."""
    if attack is None:
        return read_share(side[0]["accuracy"]) if side else None
    return next((read_share(r["accuracy_after"]) for r in side if r["attack"] == attack), None)


def _said(share: Estimate | None) -> str:
    return "unknown" if share is None or share.value is None else decimal(share.value)


def _place(row: Row) -> str:
    return as_text(row["group"])
