"""A run at a glance, for the terminal: one small table for each victim, data set and group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.experiment.plan.controls import PREFIX
from medstress.metrics.old_stats.estimates import is_estimate, read_score, read_share
from medstress.report.criteria import MARKS, limit_of, wanted
from medstress.report.labels import Row, number
from medstress.report.probes import short_table
from medstress.report.sections import at_worst, headline_rows
from medstress.report.sentence_scores import shown_scores
from medstress.results.formats import as_text, decimal, plural, shorten
from medstress.results.measure import Measure
from medstress.results.measures import CHANCE, EVIDENCE, TRAINING, measure
from medstress.results.names import CONTROL_WORDS, Names
from medstress.results.table import Cell, Column, Format, Table, Value, as_row, columns

LOSS = "Loss (ASR)"
"""Heading of the share of right answers that an attack takes."""
FIRM = frozenset({"Limit", "Found"})
"""Headings of texts that hold numbers, and are never cut."""
_MOST_ROWS, _WORST = 40, 20
"""Rows that are all shown, and how many are where there are more."""
_LONGEST_PART = 24
"""Characters of a name in a title."""
_MOST_ATTEMPTS = 12
_DROPS = ("clean_loss", "gain", "recovered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The attacks on one victim, data set and group."""

    title: str
    """Victim, data set and group in words."""
    arms: Table
    """One row per attack, the one that takes most first."""
    brief: frozenset[str]
    """Headings of columns that are values alone in a row."""
    beside: tuple[Table, ...] = ()
    """Scores of the data set, and what was answered once the evidence had changed."""
    lines: tuple[str, ...] = ()
    """Sentences below: accuracy by attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """A summary, in short."""

    places: tuple[Place, ...]
    """In the order of the summary."""
    n_left: int = 0
    """Attacks that are left out because they take less than all that are shown."""


def glance(summary: Mapping[str, Any]) -> Glance:
    """Return the attacks of a summary, pooled over seeds; the worst of them if they are many.

    Args:
        summary: as `summary --json`.
    """
    names, rows = Names(**summary.get("names") or {}), headline_rows(summary)
    scores = _scores(rows)
    controls = {_at(row): row for row in rows if str(row["attack"]).startswith(PREFIX)}
    attacks = [row for row in rows if not _is_control(row, rows)]
    shown = attacks
    if len(attacks) > _MOST_ROWS:
        worst = {id(row) for row in sorted(attacks, key=lambda row: -_taken(row, scores))[:_WORST]}
        shown = [row for row in attacks if id(row) in worst]
    by_place: dict[tuple[Any, ...], list[Row]] = {}
    is_complete = bool(summary["experiment"].get("complete"))
    for row in shown:
        by_place.setdefault(_at(row)[:3], []).append(row)
    return Glance(
        places=tuple(
            _place(members, names, scores, controls, is_complete=is_complete)
            for members in by_place.values()
        ),
        n_left=len(attacks) - len(shown),
    )


def worded(rows: Iterable[Row], names: Names) -> list[dict[str, Any]]:
    """Return rows with names in words in place of keys; keys without a name stay whole."""
    known = {
        "attack": names.attacks,
        "victim": names.victims,
        "dataset": names.datasets,
        "group": names.groups,
    }
    return [
        {
            **row,
            **{
                name: words.get(row[name], row[name])
                for name, words in known.items()
                if name in row
            },
        }
        for row in rows
    ]


def criteria_table(requirements: Sequence[Row], names: Names) -> Table:
    """Return the criteria in one line each."""
    return Table(
        name="criteria",
        caption="Acceptance criteria",
        columns=columns(Format.TEXT, "Criterion", "Limit", "Verdict", "Found"),
        rows=tuple(
            as_row(
                wanted({**each, "where": _where(each, names)}),
                limit_of(each),
                MARKS[each["met"]],
                _found(each),
            )
            for each in requirements
        ),
    )


def training_table(training: Mapping[str, Any], names: Names) -> Table | None:
    """Return what training on perturbed copies costs and gains; None without rows."""
    rows = worded(training["rows"], names)
    if not rows:
        return None
    shown = [one for one in TRAINING if one.name in _DROPS]
    return Table(
        name="training-short",
        caption="Models trained on perturbed copies against the original models",
        columns=(
            *columns(Format.TEXT, "Model", "Attack", "Data set", "Group", "Other model"),
            *columns(Format.TEXT, "Trained on it", "Measure"),
            *(one.column for one in shown),
        ),
        rows=tuple(
            as_row(
                *(as_text(each[name]) for name in ("model", "attack", "dataset", "group")),
                str(each.get("against", "original")),
                "yes" if each["trained_on"] else "no",
                as_text(each["measure"]),
                *(one.read(each) for one in shown),
            )
            for each in rows
        ),
        n_labels=5,
    )


def _where(judged: Row, names: Names) -> dict[str, str]:
    where: Mapping[str, str] = judged.get("where") or {}
    return {factor: names.of(factor, key) for factor, key in where.items()}


def _found(judged: Row) -> Cell:
    """Return the estimate and the ends that are judged, and what there is to say about it."""
    estimate, (low, high) = judged.get("estimate"), judged.get("bounds") or (None, None)
    value = decimal(estimate["value"]) if is_estimate(estimate) else ""
    ends = "" if low is None or high is None else f"[{decimal(low)}, {decimal(high)}]"
    reason = judged.get("reason")
    return Cell(
        value=f"{value} {ends}".strip() or None,
        lines=() if reason is None else (str(reason),),
    )


def _at(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("victim", "dataset", "group", "attack"))


def _is_control(row: Row, rows: Sequence[Row]) -> bool:
    """Return whether a row is of noise outside entities beside a noise that is also shown."""
    attack = str(row["attack"])
    if not attack.startswith(PREFIX):
        return False
    beside = (*_at(row)[:3], attack.removeprefix(PREFIX))
    return any(_at(each) == beside for each in rows)


def _scores(rows: Sequence[Row]) -> list[Measure]:
    """Return the scores of the data set of which tables show the drop."""
    known = {one.name: one for one in shown_scores(rows)}
    return [one for name, one in known.items() if f"{name}_drop" in known]


def _taken(row: Row, scores: Sequence[Measure]) -> float:
    """Return what an attack takes: of right answers, else of the first score."""
    for name in ("asr", *(f"{one.name}_drop" for one in scores)):
        found = row.get(name)
        if is_estimate(found) and found["value"] is not None:
            return float(found["value"])
    return -1.0


def _place(
    rows: Sequence[Row],
    names: Names,
    scores: Sequence[Measure],
    controls: Mapping[Any, Row],
    *,
    is_complete: bool,
) -> Place:
    ranked = sorted(rows, key=lambda row: -_taken(row, scores))
    first, said = rows[0], worded(ranked, names)
    victim, dataset, group = (
        shorten(names.of(name, first.get(name)), _LONGEST_PART)
        for name in ("victim", "dataset", "group")
    )
    beside = [_score_table(said, one) for one in scores]
    if changed := [row for row in said if row.get("evidence")]:
        beside.append(_evidence_table(changed))
    if probed := [row for row in said if row.get("variants")]:
        beside.append(short_table(probed))
    remarks = [_remarks(row, is_complete=is_complete) for row in ranked]
    table = _arms(ranked, said, controls, remarks)
    brief = {column.heading for column in table.columns if column.heading != LOSS}
    return Place(
        title=f"{victim} on {dataset}, {group}",
        arms=table,
        brief=frozenset(brief),
        beside=tuple(beside),
        lines=tuple(_by_attempt(said)),
    )


def _arms(
    rows: Sequence[Row],
    said: Sequence[Row],
    controls: Mapping[Any, Row],
    remarks: Sequence[tuple[str, ...]],
) -> Table:
    """Return one line per attack.

    Args:
        rows: the rows of one place, by keys.
        said: the same in words.
        controls: place and label -> row of noise outside entities.
        remarks: on each row.
    """
    has_chance = len({row.get("chance") for row in rows}) == 1
    shown: list[tuple[Column, list[Value | Cell]]] = [
        (Column(heading="Attack"), [as_text(row["attack"]) for row in said])
    ]
    is_judged = any(not row.get("n_measured") for row in rows)
    if is_judged:
        shown.append(_read(measure("accuracy"), rows))
    if is_judged and has_chance:
        shown.append(_read(CHANCE, rows))
    if is_judged:
        shown.append(_read(measure("accuracy_after"), rows))
    for name in dict.fromkeys(name for row in rows for name in row.get("control") or {}):
        heading = f"Control ({CONTROL_WORDS.get(name, name)})"
        cells: list[Value | Cell] = [_known((row.get("control") or {}).get(name)) for row in rows]
        shown.append((Column(heading=heading, format=Format.SHARE), cells))
    outside = [controls.get((*_at(row)[:3], f"{PREFIX}{row['attack']}")) for row in rows]
    if any(outside):
        cells = [None if row is None else _known(row.get("asr")) for row in outside]
        heading = "Control (noise outside entities)"
        shown.append((Column(heading=heading, format=Format.SHARE), cells))
    if is_judged:
        losses = [measure("asr").read(row) for row in rows]
        shown.append((Column(heading=LOSS, format=Format.SHARE), _with(losses, remarks)))
    asked = [number(row.get("queries") or {}, "asked") for row in rows]
    cells = [*asked] if is_judged else _with(asked, remarks)
    shown.append((Column(heading="Queries", format=Format.COUNT), cells))
    if any(row.get("attempts") for row in rows):
        made = [number(row.get("attempts") or {}, "made") for row in rows]
        shown.append((Column(heading="Attempts", format=Format.COUNT), [*made]))
    return Table(
        name="arms",
        caption="Attacks",
        columns=tuple(column for column, _ in shown),
        rows=tuple(as_row(*cells) for cells in zip(*(cells for _, cells in shown), strict=True)),
    )


def _with(values: Sequence[Value], remarks: Sequence[tuple[str, ...]]) -> list[Value | Cell]:
    return [Cell(value=each, lines=lines) for each, lines in zip(values, remarks, strict=True)]


def _read(one: Measure, rows: Sequence[Row]) -> tuple[Column, list[Value | Cell]]:
    return one.column, [one.read(row) for row in rows]


def _share(found: Any) -> Value:
    return read_share(found) if is_estimate(found) else None


def _known(found: Any) -> Value:
    """Return a share of something; None where there is nothing that it could be of."""
    return _share(found) if is_estimate(found) and found["n"] else None


def _remarks(row: Row, *, is_complete: bool) -> tuple[str, ...]:
    """Return what may make the numbers of a row mislead."""
    failed = number(row, "n_failed") + number(row, "n_failed_at_baseline")
    unread = number(row, "n_unreadable_at_baseline")
    answers = number(row, "n_unreadable_answers")
    cut_off = number(row, "n_length_at_baseline") + number(row, "n_length_answers")
    accuracy, chance = row.get("accuracy") or {}, row.get("chance")
    low = accuracy.get("low")
    counts = (
        (failed, f"{plural(failed, 'trial')} failed"),
        (number(row, "n_cut_short"), f"{plural(number(row, 'n_cut_short'), 'trial')} cut short"),
        (unread, f"{plural(unread, 'clean answer')} unreadable"),
        (answers, f"{plural(answers, 'answer')} under attack unreadable"),
        (cut_off, f"{plural(cut_off, 'reply', 'replies')} cut off"),
        *(((number(row, "n_never_asked"), _never_asked(row)),) if _has_loss(row) else ()),
    )
    found = [text for n, text in counts if n]
    # Until the end, the items that have been answered are no random part of all.
    if is_complete and chance is not None and low is not None and low <= chance:
        found.append("right no more often than by chance")
    return (*found, *at_worst(row.get("asr"), row.get("asr_bounds")))


def _has_loss(row: Row) -> bool:
    """Return whether there is a loss to which trials without an edit are counted."""
    return (row.get("asr") or {}).get("value") is not None


def _never_asked(row: Row) -> str:
    asked = row.get("asr_asked")
    rate = f" ({decimal(asked['value'])} without them)" if is_estimate(asked) else ""
    return f"{number(row, 'n_never_asked'):,} saw no edit{rate}"


def _score_table(rows: Sequence[Row], one: Measure) -> Table:
    """Return a score of the data set before and after each attack."""
    net = measure(f"{one.name}_net_drop")
    names = [one.name, f"{one.name}_after", f"{one.name}_drop"]
    if any((row.get(net.name) or {}).get("value") is not None for row in rows):
        names.append(net.name)
    return Table(
        name=f"{one.name}-short",
        caption=f"{one.label} of the whole data set",
        columns=(*columns(Format.TEXT, "Attack"), *(measure(name).column for name in names)),
        rows=tuple(
            as_row(as_text(row["attack"]), *(_score(row, name) for name in names)) for row in rows
        ),
    )


def _evidence_table(rows: Sequence[Row]) -> Table:
    """Return what was answered once the passage supported another option."""
    return Table(
        name="evidence-short",
        caption="Reading and remembering: answers once the passage supports another option",
        columns=(*columns(Format.TEXT, "Attack"), *(one.column for one in EVIDENCE)),
        rows=tuple(
            as_row(as_text(row["attack"]), *(one.read(row) for one in EVIDENCE)) for row in rows
        ),
    )


def _score(row: Row, name: str) -> Value:
    found = row.get(name)
    return read_score(found) if is_estimate(found) else None


def _by_attempt(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the accuracy after each attempt, of attacks that count attempts."""
    for row in rows:
        points = (row.get("accuracy_at") or ())[:_MOST_ATTEMPTS]
        if len(points) > 1 and row.get("attempts"):
            shown = " ".join(decimal(point["value"]) for point in points)
            last = points[-1]["k"]
            yield f"{row['attack']}, accuracy after 0 to {plural(last, 'attempt')}: {shown}"
