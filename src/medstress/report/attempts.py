"""MedFuzz in the report: accuracy by attempts beside the published values, gates, roles."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files

from medstress.core.rows import TrialRow
from medstress.metrics.attempt_records import tries
from medstress.metrics.old_stats.estimates import Estimate, read_share
from medstress.report.charts import Plot, plot
from medstress.report.labels import Row, label_text, measured
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    MOST_LINES,
    arm_of,
    first_panels,
    harm,
    in_legend,
    labelled,
    mark,
    most_important,
    place_words,
)
from medstress.results import measures
from medstress.results.formats import as_text, decimal, shorten
from medstress.results.measures import measure
from medstress.results.names import Names
from medstress.results.table import Cell, Format, Table, Value, as_row, columns

SOURCE = "digitised from the chart of GPT-3.5 and GPT-4 on MedQA by Ness et al., error about .003"
MOST_REASONS = 40
_MOST_SPOKEN = 12
_LABEL = 44
_MOST_OURS = MOST_LINES - 2
_NOBODY = Names()


def attempt_plots(rows: Sequence[Row], names: Names = _NOBODY) -> Iterator[Plot]:
    """Yield one figure per data set, with our victims and the published models, and its numbers."""
    panels: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("accuracy_at") and _points(row):
            panels.setdefault(as_text(row["dataset"]), []).append(row)
    drawn, left_out = first_panels(panels, len)
    for i, members in enumerate(drawn.values()):
        yield _panel(members, names, f"attempts-{i}-data", () if i else left_out)


def _panel(rows: Sequence[Row], names: Names, name: str, notes: tuple[str, ...]) -> Plot:
    title = place_words(rows[0], names, "dataset")
    pairs = list(zip(labelled(rows, names, ("attack", "victim", "group")), rows, strict=True))
    drawn, more = most_important(pairs, _MOST_OURS, lambda each: harm(each[1].get("asr")))
    lines = [(label, row, _points(row)) for label, row in drawn]
    lines += [(label, {}, points) for label, points in _published_curves()]
    labels = in_legend(label for label, _, _ in lines)
    # Only our marks belong to an arm, so that all say it in one line of the tooltip.
    data = [
        mark(estimate, row, series=label, x=k, arm=label_text(arm_of(row).values()) or "published")
        for label, (_, row, points) in zip(labels, lines, strict=True)
        for k, estimate in points
    ]
    most = max(datum["x"] for datum in data)
    chart = layers.curves(
        data,
        [
            Series(label=label, look=i, dash=0 if row else 1)
            for i, (label, (_, row, _)) in enumerate(zip(labels, lines, strict=True))
        ],
        Axis(title="attempts", span=(0, most), is_whole=True),
        Axis(title="accuracy", is_share=True),
        title=title,
        notes=(*more, *notes),
        tips={"series": "Of", "x": "Attempts", "arm": "Arm"},
    )
    spoken = "; ".join(
        f"{shorten(label, _LABEL)} {decimal(points[0][1].value)} to {decimal(points[-1][1].value)}"
        for label, _, points in lines[:_MOST_SPOKEN]
    )
    said = f"Accuracy after k attempts, {shorten(title, 120)}: {spoken}."
    named = [label for label, _ in pairs]
    return plot(chart, label=said, data=_numbers(name, title, rows, named))


def attempt_tables(rows: Sequence[Row], trials: Iterable[TrialRow] = ()) -> list[Table]:
    """Return the tables on outcomes of attempts, gates and their reasons, judges, and roles."""
    members = [row for row in rows if row.get("accuracy_at")]
    if not members:
        return []
    found = [_outcomes(members), _gates(members)]
    if any(row.get("judges") for row in members):
        found.append(_judges(members))
    if reasons := _reasons(trials):
        found.append(_objections(reasons))
    if any(row.get("roles") for row in members):
        found.append(_roles(members))
    return found


@lru_cache(maxsize=1)
def published() -> dict[str, tuple[float, ...]]:
    """Return model -> published accuracy after 0, 1, ... attempts."""
    path = files("medstress.papers") / "data" / "medfuzz_accuracy.csv"
    rows = csv.DictReader(path.read_text("utf-8").splitlines())
    return {row.pop("model"): tuple(map(float, row.values())) for row in rows}


def _published_curves() -> list[tuple[str, list[tuple[int, Estimate]]]]:
    return [
        (
            f"{model}, published (MedQA)",
            [
                (k, Estimate(value=value, n=0, low=None, high=None, method=SOURCE))
                for k, value in enumerate(values)
            ],
        )
        for model, values in published().items()
    ]


def _points(row: Row) -> list[tuple[int, Estimate]]:
    return [
        (each["k"], read_share(each)) for each in row["accuracy_at"] if each["value"] is not None
    ]


def _numbers(name: str, title: str, rows: Sequence[Row], named: Sequence[str]) -> Table:
    most = max(len(row["accuracy_at"]) for row in rows)
    most = max([most, *map(len, published().values())])
    ours = (
        as_row(label, *_padded([read_share(each) for each in row["accuracy_at"]], most))
        for label, row in zip(named, rows, strict=True)
    )
    valid = (
        as_row(
            f"{label}, valid successes only",
            *_padded([_between(each["bounds"]) for each in curve], most),
        )
        for label, row in zip(named, rows, strict=True)
        if (curve := row.get("accuracy_valid_bounds_at"))
    )
    theirs = (
        as_row(f"{model}, published", *_padded(list(values), most), published=True)
        for model, values in published().items()
    )
    return Table(
        name=name,
        caption=f"Accuracy after k attempts: {title}",
        columns=(
            *columns(Format.TEXT, "Victim"),
            *columns(Format.SHARE, *map(str, range(most))),
        ),
        rows=(*ours, *valid, *theirs),
        notes=(
            f"Published values: {SOURCE}. They are of other items.",
            "Valid successes only: a success after which the key no longer holds does not lower "
            "the accuracy. The lower number counts every success of unknown validity as valid, and "
            "every search that ended at an invalid success as won; the upper one counts only "
            "successes for which a panel, or experts (who override it), vouch.",
        ),
    )


def _between(bounds: Sequence[float] | None) -> Value:
    """Return the range of an accuracy as a cell."""
    if bounds is None:
        return None
    low, high = min(bounds), max(bounds)
    return low if decimal(low) == decimal(high) else f"{decimal(low)} to {decimal(high)}"


def _padded(values: Sequence[Value], n: int) -> list[Value]:
    return [*values, *[None] * (n - len(values))]


def _outcomes(rows: Sequence[Row]) -> Table:
    return measured(
        "attempt-outcomes",
        "Outcome of every attempt",
        rows,
        (*measures.ATTEMPTS, *measures.TO_ATTEMPT),
        "Made = unreadable + rejected + asked + unanswered. Judged: attempts on which votes of "
        "judges count; if it is 0, only the rules checked that the key holds.",
    )


def _gates(rows: Sequence[Row]) -> Table:
    return Table(
        name="gates",
        caption="What each gate did, and the success rate with and without it",
        columns=(
            *columns(Format.TEXT, "Gate", "Attack"),
            *columns(Format.COUNT, "Objected to", "Alone"),
            *columns(Format.SHARE, "ASR"),
            measure("asr_without").column,
            measure("asr_alone").column,
        ),
        rows=tuple(
            as_row(
                gate,
                label_text([row["attack"], row["victim"]]),
                counts["n_objected"],
                counts["n_alone"],
                measure("asr_gated").read(row),
                _without(counts),
                measure("asr_alone").read(counts),
            )
            for row in rows
            for gate, counts in row["gates"].items()
        ),
        notes=(
            "If gates reject, the effect of rejected edits is unknown: the rate without a gate is "
            "at most the one shown. If they mark, all edits were asked: ASR counts successes to "
            "which no gate objects, as far as judges were asked.",
        ),
    )


def _without(counts: Row) -> Value | Cell:
    if "asr_without" in counts:
        return measure("asr_without").read(counts)
    return Cell(value=measure("asr_without_at_most").read(counts), before="at most")


def _judges(rows: Sequence[Row]) -> Table:
    return Table(
        name="judges",
        caption="Answers of the judges before any edit",
        columns=(
            *columns(Format.TEXT, "Judge", "Attack"),
            *columns(Format.COUNT, "Items asked", "Key missed"),
            *columns(Format.TEXT, "On items"),
            *columns(Format.COUNT, "Unreadable"),
            measure("asr_judged").column,
        ),
        rows=tuple(
            as_row(
                each["judge"],
                label_text([row["attack"], row["victim"]]),
                each["n_items"],
                each["n_wrong"],
                ", ".join(each["wrong"]) or "none",
                each.get("n_unreadable"),
                Cell(value=measure("asr_judged").read(row), lines=_on_others(row)),
            )
            for row in rows
            for each in row.get("judges") or ()
        ),
        notes=(
            "A judge that misses the key before any edit cannot tell whether an edit leaves it "
            "right, so its votes on that item are set aside. So are the votes of a judge whose "
            "replies on it cannot be read; a higher max_new_tokens may help. The success rate is "
            "over items that a judge knows; below it, the rate over items that no judge knows.",
        ),
    )


def _on_others(row: Row) -> tuple[str, ...]:
    """Return the success rate on items that no judge knows, if there are any."""
    if not row["n_items_unjudged"]:
        return ()
    others = row["asr_unjudged"]
    n = others["n"]
    line = f"{decimal(others['value'])} in {n} trials on the others" if n else "none on the others"
    return (line,)


def _reasons(trials: Iterable[TrialRow]) -> Counter[tuple[str, str, str]]:
    """Return (attack and victim, gate, reason) -> number of attempts."""
    found: Counter[tuple[str, str, str]] = Counter()
    for trial in trials:
        who = label_text([trial.attack, trial.victim])
        for made, _ in tries(trial):
            if "unreadable" in made:
                found[who, f"unreadable: {made['unreadable']}", made["reason"]] += 1
            for each in made.get("objections", ()):
                found[who, each["gate"], each["reason"]] += 1
    return found


def _objections(reasons: Counter[tuple[str, str, str]]) -> Table:
    shown = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))[:MOST_REASONS]
    left = len(reasons) - len(shown)
    more = f" {left} rarer ones are in the exported trials, column attempts." if left else ""
    return Table(
        name="objections",
        caption="Why gates objected to attempts, or attempts were lost",
        columns=(
            *columns(Format.TEXT, "By", "Why", "Attack"),
            *columns(Format.COUNT, "Attempts"),
        ),
        rows=tuple(as_row(by, why, who, n) for (who, by, why), n in shown),
        notes=(f"Several gates may object to one attempt.{more}",),
    )


def _roles(rows: Sequence[Row]) -> Table:
    return Table(
        name="roles",
        caption="Calls and tokens by role",
        columns=(
            *columns(Format.TEXT, "Role", "Attack"),
            *columns(Format.COUNT, "Calls", "Tokens in", "Tokens out"),
        ),
        rows=tuple(
            as_row(
                role,
                label_text([row["attack"], row["victim"]]),
                *(counts[name] for name in ("calls", "tokens_in", "tokens_out")),
            )
            for row in rows
            for role, counts in (row.get("roles") or {}).items()
        ),
        notes=("Computed calls; a call that several trials share counts for the first of them.",),
    )
