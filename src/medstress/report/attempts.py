"""MedFuzz in the report: accuracy by attempts beside the published values, gates, roles."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files

from markupsafe import Markup

from medstress.metrics.tries import tries
from medstress.report import figures
from medstress.report.formats import as_text, decimal
from medstress.report.tables import (
    Cell,
    Row,
    Table,
    label_cell,
    label_text,
    measure,
    share_cell,
    short_labels,
    tally,
    words,
)
from medstress.rows import TrialRow

SOURCE = "digitised from the chart of GPT-3.5 and GPT-4 on MedQA by Ness et al., error about .003"
MOST_REASONS = 40
_COLUMN = "Attack, data, victim"


def attempt_plots(rows: Sequence[Row]) -> Iterator[tuple[Markup, Table]]:
    """One figure a data set, our victims and the published models, with its numbers."""
    panels: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("accuracy_at"):
            panels.setdefault(as_text(row["dataset"]), []).append(row)
    for i, (dataset, members) in enumerate(panels.items()):
        labels = short_labels(members, ("attack", "victim"))
        curves = [
            figures.Curve(label=label, points=points)
            for label, row in zip(labels, members, strict=True)
            if (points := _points(row))
        ]
        if not curves:
            continue
        name = f"attempts-{i}"
        svg = figures.attempt_curves(curves, _published_curves(), dataset, name)
        yield Markup(svg), _numbers(name, dataset, members, labels)


def attempt_tables(rows: Sequence[Row], trials: Iterable[TrialRow] = ()) -> list[Table]:
    """What became of attempts, what each gate did and why, and what the roles cost."""
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
    """Model -> accuracy after 0, 1, ... attempts, as published."""
    path = files("medstress.report.paper") / "data" / "medfuzz_accuracy.csv"
    rows = csv.DictReader(path.read_text("utf-8").splitlines())
    return {row.pop("model"): tuple(map(float, row.values())) for row in rows}


def _published_curves() -> list[figures.Curve]:
    return [
        figures.Curve(
            label=f"{model}, published (MedQA)",
            points=tuple(
                (k, figures.Estimate(value=value, low=value, high=value))
                for k, value in enumerate(values)
            ),
        )
        for model, values in published().items()
    ]


def _points(row: Row) -> tuple[tuple[int, figures.Estimate], ...]:
    return tuple(
        (each["k"], figures.Estimate(value=each["value"], low=each["low"], high=each["high"]))
        for each in row["accuracy_at"]
        if each["value"] is not None
    )


def _numbers(name: str, title: str, rows: Sequence[Row], labels: Sequence[str]) -> Table:
    most = max(len(row["accuracy_at"]) for row in rows)
    most = max([most, *map(len, published().values())])
    ours = (
        (words(label), *_padded([share_cell(each) for each in row["accuracy_at"]], most))
        for label, row in zip(labels, rows, strict=True)
    )
    valid = (
        (
            words(f"{label}, valid successes only"),
            *_padded([_between(each["bounds"]) for each in curve], most),
        )
        for label, row in zip(labels, rows, strict=True)
        if (curve := row.get("accuracy_valid_bounds_at"))
    )
    theirs = (
        (words(f"{model}, published"), *_padded([measure(value) for value in values], most))
        for model, values in published().items()
    )
    return Table(
        name=f"{name}-data",
        caption=f"Accuracy after so many attempts: {title}",
        columns=("Victim", *map(str, range(most))),
        rows=(*ours, *valid, *theirs),
        note=f"Published values: {SOURCE}. They are of other items. Valid successes only: a "
        "success after which the key no longer holds lowers nothing. The lower "
        "number takes every success of unknown validity for valid, and every search that ended at "
        "one found invalid for won; the upper one counts only those for which a panel, or experts "
        "(who override it), vouch.",
    )


def _between(bounds: Sequence[float] | None) -> Cell:
    """A cell with the least and the most that an accuracy may be."""
    if bounds is None:
        return measure(None)
    low, high = min(bounds), max(bounds)
    text = decimal(low) if low == high else f"{decimal(low)} to {decimal(high)}"
    return Cell(text=text, sort=low)


def _padded(cells: list[Cell], n: int) -> list[Cell]:
    return cells + [measure(None)] * (n - len(cells))


def _outcomes(rows: Sequence[Row]) -> Table:
    names = ("made", "unreadable", "rejected", "asked", "unanswered", "judged")
    return Table(
        name="attempt-outcomes",
        caption="What became of every attempt",
        columns=(
            _COLUMN,
            *(n.capitalize() for n in names),
            "To success, median",
            "Mean",
            "To valid success, median",
            "Mean",
        ),
        rows=tuple(
            (
                label_cell(row),
                *(tally(row["attempts"][name]) for name in names),
                tally(row["attempts_to_success"]["median"]),
                measure(row["attempts_to_success"]["mean"]),
                *_to_valid(row),
            )
            for row in rows
        ),
        note="Made = unreadable + rejected + asked + unanswered. Judged: attempts on which "
        "votes of judges count; where that is 0, nobody but the rules checked that the key holds.",
    )


def _to_valid(row: Row) -> tuple[Cell, Cell]:
    found = row.get("attempts_to_valid_success") or {"median": None, "mean": None}
    return tally(found["median"]), measure(found["mean"])


def _gates(rows: Sequence[Row]) -> Table:
    return Table(
        name="gates",
        caption="What each gate did, and the success rate with and without it",
        columns=(
            "Gate",
            "Attack",
            "Objected to",
            "Alone",
            "ASR",
            "ASR without it",
            "ASR with it alone",
        ),
        rows=tuple(
            (
                words(gate),
                words(label_text([row["attack"], row["victim"]])),
                tally(counts["n_objected"]),
                tally(counts["n_alone"]),
                share_cell(row["asr_gated"]),
                _without(counts),
                share_cell(counts.get("asr_alone")),
            )
            for row in rows
            for gate, counts in row["gates"].items()
        ),
        note="Where gates reject, nobody knows what a rejected edit would have done: the rate "
        "without a gate is at most the one shown. Where they mark, all edits were asked: ASR is "
        "that of successes to which no gate objects, as far as judges were asked.",
    )


def _judges(rows: Sequence[Row]) -> Table:
    return Table(
        name="judges",
        caption="What judges answer before any edit",
        columns=(
            "Judge",
            "Attack",
            "Items asked",
            "Key missed",
            "On items",
            "Unreadable",
            "Attack succeeds",
        ),
        rows=tuple(
            (
                words(each["judge"]),
                words(label_text([row["attack"], row["victim"]])),
                tally(each["n_items"]),
                tally(each["n_wrong"]),
                words(", ".join(each["wrong"]) or "none"),
                tally(each.get("n_unreadable")),
                _apart(row),
            )
            for row in rows
            for each in row.get("judges") or ()
        ),
        note="A judge that misses the key before any edit cannot tell whether an edit leaves it "
        "right: its votes on that item are set aside. So are those of one whose votes there cannot "
        "be read: more max_new_tokens may help it. The rate of success is that on items that a "
        "judge knows; below it that on items which none knows, where nobody votes.",
    )


def _apart(row: Row) -> Cell:
    """The success rate on items that a judge knows, and on the others."""
    cell = share_cell(row["asr_judged"])
    if not row["n_items_unjudged"]:
        return cell
    others = row["asr_unjudged"]
    n = others["n"]
    told = f"{decimal(others['value'])} in {n} trials on the others" if n else "none on the others"
    return Cell(text=cell.text, lines=(*cell.lines, told), sort=cell.sort)


def _without(counts: Row) -> Cell:
    if "asr_without" in counts:
        return share_cell(counts["asr_without"])
    cell = share_cell(counts["asr_without_at_most"])
    return Cell(text=f"at most {cell.text}", lines=cell.lines, sort=cell.sort)


def _reasons(trials: Iterable[TrialRow]) -> Counter[tuple[str, str, str]]:
    """(attack and victim, what objected, why) -> attempts."""
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
        caption="Why attempts were objected to, or lost",
        columns=("By", "Why", "Attack", "Attempts"),
        rows=tuple((words(by), words(why), words(who), tally(n)) for (who, by, why), n in shown),
        note=f"Several gates may object to one attempt.{more}",
    )


def _roles(rows: Sequence[Row]) -> Table:
    return Table(
        name="roles",
        caption="Calls and tokens by role",
        columns=("Role", "Attack", "Calls", "Tokens in", "Tokens out"),
        rows=tuple(
            (
                words(role),
                words(label_text([row["attack"], row["victim"]])),
                *(tally(counts[name]) for name in ("calls", "tokens_in", "tokens_out")),
            )
            for row in rows
            for role, counts in (row.get("roles") or {}).items()
        ),
        note="Computed calls; one that several trials share counts for the first of them.",
    )
