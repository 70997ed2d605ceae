"""The table that goes with Figure 4: how another embedding changes the rise and the plateau."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate
from medstress.papers.changes import Advantage, Change, rise_budget
from medstress.papers.outputs import Printed, csv_row
from medstress.papers.plots.advantages import label_of
from medstress.results.table import Format, Table, as_row, columns


def change_table(changes: Sequence[Change], notes: Sequence[str], name: str) -> Printed:
    """Return the table of changes, one line per attack and pair of embeddings.

    Args:
        changes: at least one.
        notes: sentences below the table.
        name: stem of the file names.
    """
    names = ("Victim", "Questions", "Method", "Embeddings")
    largest = max(change.budget for change in changes)
    table = Table(
        name=name,
        caption="How another embedding changes the scaling curve, in per cent: the rise is "
        f"the mean ASR over budgets 1 to {rise_budget(largest)}, the plateau the ASR at "
        f"{largest} queries.",
        columns=(
            *columns(Format.TEXT, *names),
            *columns(Format.PERCENT, *("first", "other", "change") * 2),
        ),
        rows=tuple(as_row(*_names(change), *change.rise, *change.plateau) for change in changes),
        notes=(*notes, "Changes are paired: the same items under both embeddings."),
        heads=((("", len(names)), ("rise", 3), ("plateau", 3)),),
        n_labels=len(names),
    )
    return Printed(table, [line for change in changes for line in _change_rows(change)])


def _names(change: Change) -> tuple[str, ...]:
    place = change.place
    questions = f"{place.dataset} {place.entity}"
    return (place.victim.label, questions, change.method, " → ".join(change.embeddings))


def advantage_rows(advantages: Sequence[Advantage]) -> list[dict[str, Any]]:
    """Return the numbers of the figure of the near regime's advantage."""
    rows = []
    for each in advantages:
        labels = {**_place(each), "exponent": each.n, "budget": each.budget}
        parts: tuple[tuple[str, tuple[Estimate, Estimate]], ...] = (
            ("near", each.near),
            ("random", each.random),
            ("near - random", each.gain),
        )
        for method, pair in parts:
            for quantity, estimate in zip(("asr", "asr_unrefuted"), pair, strict=True):
                rows.append(csv_row(estimate, **labels, method=method, quantity=quantity))
    return rows


def advantage_summary(advantages: Sequence[Advantage]) -> list[str]:
    """Return one sentence per line of the figure: the share of the advantage not refuted."""
    sentences = []
    for each in advantages:
        both, unrefuted, low = each.gain[0].value, each.gain[1].value, each.gain[0].low
        if both is None or unrefuted is None or low is None or low <= 0:
            # A share of an advantage that may be zero means nothing.
            sentences.append(f"{label_of(each)}: no clear advantage over random to begin with.")
        else:
            left = f"{100 * unrefuted / both:.0f} %".replace("-", "−")
            sentences.append(f"{label_of(each)}: {left} of the advantage is left.")
    return sentences


def _change_rows(change: Change) -> list[dict[str, Any]]:
    rows = []
    places = (*change.embeddings, " -> ".join(change.embeddings))
    for quantity, values in (("rise", change.rise), ("plateau", change.plateau)):
        for embedding, estimate in zip(places, values, strict=True):
            labels = {**_place(change), "embedding": embedding, "method": change.method}
            rows.append(csv_row(estimate, **labels, quantity=quantity, budget=change.budget))
    return rows


def _place(each: Change | Advantage) -> Mapping[str, Any]:
    place = each.place
    return {
        "source": "ours",
        "victim": place.victim.label,
        "dataset": place.dataset,
        "group": place.entity,
        "embedding": place.embedding,
        "rule": place.rule,
    }
