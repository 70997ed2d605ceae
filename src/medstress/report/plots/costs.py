"""What a run cost, and what failed in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.report.charts import Plot, plot
from medstress.report.labels import Row
from medstress.report.plots import layers
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    BESIDE_NAMES,
    MOST_ROWS,
    in_legend,
    most_important,
    names_in,
    on_axis,
    unique,
)
from medstress.report.sections import all_rows
from medstress.results.formats import as_text, count, decimal, plural, shorten
from medstress.results.table import Format, Table, as_row, columns

KINDS = {
    "paid": "paid (computed)",
    "cached": "cached (known already)",
    "failed": "failed (no answer)",
    "other": "other (clean items, checks)",
}
"""Kind of query -> what a legend says."""
_OTHER = ("baseline", "ahead", "other", "interrupted")
_MOST_SPOKEN = 6
_NUMBER = re.compile(r"\d+")
_LONGEST_REASON = 160


def cost_plot(summary: Mapping[str, Any]) -> Plot | None:
    """Return the queries of every victim by what became of them; None if nothing was asked."""
    names = names_in(summary)
    counts: dict[str, Counter[str]] = {}
    for row in summary.get("results") or all_rows(summary):
        ledger = row.get("queries") or {}
        of_victim = counts.setdefault(as_text(row.get("victim")), Counter())
        for kind in ("paid", "cached", "failed"):
            of_victim[kind] += int(ledger.get(kind) or 0)
        of_victim["other"] += sum(int(ledger.get(name) or 0) for name in _OTHER)
    bars = [(victim, kind, n) for victim, found in counts.items() for kind, n in found.items() if n]
    if not bars:
        return None
    totals = {victim: sum(found.values()) for victim, found in counts.items()}
    victims, notes = most_important(
        list(totals), MOST_ROWS // len(KINDS), lambda victim: totals[victim], "victims"
    )
    said = dict(zip(victims, unique(names.of("victim", v) for v in victims), strict=True))
    kept = [bar for bar in bars if bar[0] in said]
    places = on_axis(f"{said[victim]} · {kind} {count(n)}" for victim, kind, n in kept)
    data = [
        {
            **{"place": place, "series": KINDS[kind], "value": n, "said": count(n)},
            **{"victim": victim, "of": count(totals[victim])},
        }
        for place, (victim, kind, n) in zip(places, kept, strict=True)
    ]
    shown = [kind for kind in KINDS if any(kind == each for _, each, _ in kept)]
    chart = layers.bars(
        data,
        places,
        [Series(label=KINDS[kind], look=list(KINDS).index(kind)) for kind in shown],
        "Queries of every victim",
        "queries",
        notes=notes,
        tips={"victim": "Victim", "series": "Queries", "said": "Count", "of": "Of"},
        with_legend=False,
    )
    spoken = "; ".join(
        f"{shorten(said[victim], 44)} {count(n)} {kind}" for victim, kind, n in kept[:12]
    )
    return plot(chart, label=f"Queries by victim: {spoken}.", data=_ledger(summary, counts))


def _ledger(summary: Mapping[str, Any], counts: Mapping[str, Counter[str]]) -> Table:
    names = names_in(summary)
    spending: Sequence[Row] = (summary.get("performance") or {}).get("spending") or ()
    payers = [
        " ".join(
            filter(
                None,
                (
                    f"{as_text(each['payer'])}: {plural(each['calls'], 'call')}, "
                    f"{count(each['tokens_in'])} tokens in, {count(each['tokens_out'])} out",
                    "" if each.get("usd") is None else f"(US$ {decimal(each['usd'], 2)})",
                ),
            )
        )
        + "."
        for each in spending
    ]
    return Table(
        name="costs-data",
        caption="Queries of every victim",
        columns=(
            *columns(Format.TEXT, "Victim"),
            *columns(Format.COUNT, *(kind.capitalize() for kind in KINDS)),
        ),
        rows=tuple(
            as_row(names.of("victim", victim), *(found[kind] for kind in KINDS))
            for victim, found in counts.items()
        ),
        notes=(
            "Paid, cached and failed queries are those of attacks; other ones are on clean items, "
            "asked ahead, in checks of flips and analyses, or interrupted.",
            *payers,
        ),
    )


def failure_plot(
    trials: Iterable[TrialRow], summary: Mapping[str, Any] | None = None
) -> Plot | None:
    """Return failed trials by reason; None if none failed.

    Args:
        trials: all trials of the run.
        summary: for names of victims.
    """
    names = names_in(summary or {})
    found = Counter(
        (trial.victim, as_text(trial.at), reason_of(trial.error))
        for trial in trials
        if trial.verdict is Verdict.FAILED
    )
    if not found:
        return None
    reasons = found.most_common()
    kept, notes = most_important(reasons, MOST_ROWS, lambda each: each[1], "reasons")
    several = len({victim for victim, _, _ in found}) > 1
    places = on_axis(
        f"{names.of('victim', victim)} · {reason}" if several else reason
        for (victim, _, reason), _ in kept
    )
    ats = list(dict.fromkeys(at for (_, at, _), _ in kept))
    stages = dict(zip(ats, in_legend(ats, BESIDE_NAMES), strict=True))
    total = sum(found.values())
    data = [
        {
            **{"place": place, "series": stages[at], "value": n, "said": count(n)},
            **{"of": count(total), "victim": victim, "reason": reason},
        }
        for place, ((victim, at, reason), n) in zip(places, kept, strict=True)
    ]
    chart = layers.bars(
        data,
        places,
        [Series(label=label, look=i) for i, label in enumerate(stages.values())],
        "Failed trials by reason",
        "trials",
        notes=notes,
        tips={
            **{"reason": "Reason", "series": "Failed at", "victim": "Victim"},
            **{"said": "Trials", "of": "Of all failed"},
        },
    )
    spoken = "; ".join(
        f"{count(n)} {shorten(reason, 80)}" for (_, _, reason), n in kept[:_MOST_SPOKEN]
    )
    table = Table(
        name="failed-data",
        caption="Failed trials by reason",
        columns=(
            *columns(Format.TEXT, "Victim", "Failed at", "Reason"),
            *columns(Format.COUNT, "Trials"),
        ),
        rows=tuple(
            as_row(names.of("victim", victim), at, reason, n)
            for (victim, at, reason), n in reasons[:_MOST_REASONS]
        ),
        notes=("Numbers inside a reason are left out, so that like reasons count together.",),
        n_labels=3,
    )
    return plot(chart, label=f"Failed trials by reason: {spoken}.", data=table)


_MOST_REASONS = 200


def reason_of(error: str | None) -> str:
    """Return an error without what differs from trial to trial: its numbers.

    >>> reason_of("connection refused: 127.0.0.1:8000")
    'connection refused: N.N.N.N:N'
    """
    return shorten(_NUMBER.sub("N", as_text(error)), _LONGEST_REASON)
