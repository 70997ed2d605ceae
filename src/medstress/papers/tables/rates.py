"""Tables 1 and 2 of Xian et al. (2025), and the tables of the first version (R-CAP)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate
from medstress.papers import published
from medstress.papers.arms import METHODS, Place
from medstress.papers.exponents import EXPONENT, LEARNING_RATE
from medstress.papers.notes import other_prompt, published_prompts, rate_notes
from medstress.papers.outputs import Printed, csv_row
from medstress.papers.published import Published
from medstress.papers.rates import Rates
from medstress.results.formats import decimal, percent
from medstress.results.table import Cell, Column, Format, Row, Table, Value, as_row, columns

MAIN = ("random", "near", "far")
EMPTY = ""
LABEL_NAMES = {
    "victim": "Victim",
    "dataset": "Data",
    "entity": "Mentions",
    "embedding": "Embedding",
    "rule": "Rules",
}
CSV_NAMES = {EXPONENT: "exponent", LEARNING_RATE: "learning_rate"}
"""CSV column of each tuned parameter; how it was chosen is in the column `<name>_rule`."""
LABELLED_ALWAYS = ("victim", "entity")

Key = tuple[str, ...]


def table_1(rates: Sequence[Rates], summary: Mapping[str, Any], name: str = "table1") -> Printed:
    """Return single-query success as in Table 1: victims down, data sets across.

    Args:
        rates: rates at a budget of 1.
        summary: summary of the run.
        name: stem of the file names.
    """
    datasets = list(dict.fromkeys(r.place.dataset for r in rates))
    grouped: dict[Key, dict[str, Rates]] = defaultdict(dict)
    labels = _Labels(rates, ("victim", "entity", "embedding", "rule"))
    for r in rates:
        grouped[_key(r.place)][r.place.dataset] = r
    lines: list[Row] = []
    printed_lines: list[Published] = []
    for i, members in enumerate(grouped.values()):
        heads = labels(next(iter(members.values())).place)
        cells = [cell for dataset in datasets for cell in _run_cells(members.get(dataset))]
        lines.append(as_row(*heads, *cells, rule_above=_new_victim(i, grouped)))
        printed = {dataset: _published("xian2025", r) for dataset, r in members.items()}
        if any(printed.values()):
            printed_lines += [line for line in printed.values() if line]
            cells = [
                cell for dataset in datasets for cell in _published_cells(printed.get(dataset))
            ]
            labelled = _published_labels(heads, members, printed)
            lines.append(as_row(*labelled, *cells, published=True))
    names = labels.columns
    shown = _measured("Acc", "RandS@1 (%)", "PDWS@1 n < 0 (%)", "PDWS@1 n > 0 (%)")
    table = Table(
        name=name,
        caption="Single-query attack success rates (ASR@1) by victim, in per cent, with the "
        "accuracy on the clean items. Layout: Xian et al., TMLR 2025, Table 1.",
        notes=(
            *rate_notes(rates, summary, _source("xian2025", printed_lines)),
            *published_prompts(rates, "xian2025"),
        ),
        columns=(*names, *shown * len(datasets)),
        heads=((("", len(names)), *((dataset, len(shown)) for dataset in datasets)),),
        n_labels=len(names),
        rows=tuple(lines),
    )
    return Printed(table, [*_csv(rates), *_csv_published(rates, printed_lines)])


def table_2(rates: Sequence[Rates], summary: Mapping[str, Any], name: str = "table2") -> Printed:
    """Return success within a budget as in Table 2: methods crossed with embeddings.

    We do not have the paper's own numbers.

    Args:
        rates: rates at the budget, 8 in the paper.
        summary: summary of the run.
        name: stem of the file names.
    """
    crossed = [
        (embedding, method)
        for embedding in dict.fromkeys(r.place.embedding for r in rates)
        for method in _in_order(m for r in rates if r.place.embedding == embedding for m in r.asr)
    ]
    grouped: dict[Key, dict[str, Rates]] = defaultdict(dict)
    labels = _Labels(rates, ("victim", "dataset", "entity", "rule"))
    for r in rates:
        key = (r.place.victim.label, r.place.dataset, r.place.entity, r.place.rule)
        grouped[key][r.place.embedding] = r
    lines = []
    for i, members in enumerate(grouped.values()):
        heads = labels(next(iter(members.values())).place)
        cells = [_success(members.get(embedding), method) for embedding, method in crossed]
        lines.append(as_row(*heads, *cells, rule_above=_new_victim(i, grouped)))
    names = labels.columns
    spans: dict[str, int] = defaultdict(int)
    for embedding, _ in crossed:
        spans[embedding] += 1
    budget = rates[0].budget
    table = Table(
        name=name,
        caption=f"Attack success rates within {budget} queries (ASR@{budget}) in per cent, by "
        "method and embedding. Layout: Xian et al., TMLR 2025, Table 2.",
        notes=(
            *rate_notes(rates, summary, None),
            "Random sampling draws without an embedding; it is listed under each because the "
            "embedding decides which distractor is replaced: the one nearest to the key.",
        ),
        columns=(
            *names,
            *columns(Format.PERCENT, *(METHODS.get(m, m) for _, m in crossed)),
        ),
        heads=((("", len(names)), *spans.items()),),
        n_labels=len(names),
        rows=tuple(lines),
    )
    return Printed(table, _csv(rates))


def table_rcap(
    rates: Sequence[Rates], summary: Mapping[str, Any], dataset: str, name: str
) -> Printed:
    """Return accuracy under single-query attack and its relative change, as in the first version.

    R-CAP = (accuracy before - accuracy after) / accuracy before, which equals ASR.

    Args:
        rates: rates at a budget of 1.
        summary: summary of the run.
        dataset: label of the data set that the table is about.
        name: stem of the file names.
    """
    chosen = [r for r in rates if r.place.dataset == dataset]
    entities = list(dict.fromkeys(r.place.entity for r in chosen))
    labels = _Labels(chosen, ("victim", "embedding", "rule"))
    grouped: dict[Key, dict[str, Rates]] = defaultdict(dict)
    for r in chosen:
        grouped[r.place.victim.label, r.place.embedding, r.place.rule][r.place.entity] = r
    lines: list[Row] = []
    printed_lines: list[Published] = []
    for members in grouped.values():
        heads = labels(next(iter(members.values())).place)
        cells = [cell for entity in entities for cell in _before_and_after(members.get(entity))]
        lines.append(as_row(*heads, *cells))
        printed = {entity: _published("xian2024", r) for entity, r in members.items()}
        if any(printed.values()):
            printed_lines += [line for line in printed.values() if line]
            cells = [
                cell for entity in entities for cell in _published_after_cells(printed.get(entity))
            ]
            labelled = _published_labels(heads, members, printed)
            lines.append(as_row(*labelled, *cells, published=True))
    names = labels.columns
    shown = _measured("NoPtb", "RdPtb (R-CAP %)", "DistPtb − (R-CAP %)", "DistPtb + (R-CAP %)")
    table = Table(
        name=name,
        caption=f"Accuracy on {dataset} before and after one substitution, and its relative "
        "change (R-CAP) in per cent. Layout: Xian et al., arXiv 2402.10527v1, Tables 1 and 2.",
        notes=(
            *rate_notes(chosen, summary, _source("xian2024", printed_lines)),
            *published_prompts(chosen, "xian2024"),
        ),
        columns=(*names, *shown * len(entities)),
        heads=((("", len(names)), *((f"{entity} questions", len(shown)) for entity in entities)),),
        n_labels=len(names),
        rows=tuple(lines),
    )
    return Printed(table, [*_csv(chosen), *_csv_published(chosen, printed_lines)])


def _measured(accuracy: str, *rates: str) -> tuple[Column, ...]:
    """Return the columns of an accuracy, and of rates in per cent."""
    return (
        *columns(Format.SHARE, accuracy),
        *columns(Format.PERCENT, *rates),
    )


class _Labels:
    """Label columns: victim and entity always, the others only if they differ."""

    def __init__(self, rates: Sequence[Rates], fields: Iterable[str]) -> None:
        self.fields = [
            name
            for name in fields
            if name in LABELLED_ALWAYS or len({self._value(r.place, name) for r in rates}) > 1
        ]
        self.columns = columns(Format.TEXT, *(LABEL_NAMES[name] for name in self.fields))

    def __call__(self, place: Place) -> list[str]:
        return [self._value(place, name) for name in self.fields]

    @staticmethod
    def _value(place: Place, name: str) -> str:
        return place.victim.label if name == "victim" else str(getattr(place, name))


def _key(place: Place) -> Key:
    return (place.victim.label, place.entity, place.embedding, place.rule)


def _new_victim(i: int, grouped: Mapping[Key, Any]) -> bool:
    keys = list(grouped)
    return i > 0 and keys[i][0] != keys[i - 1][0]


def _run_cells(rates: Rates | None) -> list[Value | Cell]:
    if rates is None:
        return [EMPTY] * (1 + len(MAIN))
    return [_accuracy(rates), *(_success(rates, method) for method in MAIN)]


def _accuracy(rates: Rates) -> Cell:
    mark = "†" if rates.baseline.guesses else ""
    return Cell(value=rates.baseline.accuracy, mark=mark)


def _success(rates: Rates | None, method: str) -> Value | Cell:
    if rates is None or method not in rates.asr:
        return EMPTY
    return Cell(value=rates.asr[method], lines=_chosen(rates, method))


def _chosen(rates: Rates, method: str) -> tuple[str, ...]:
    """Return the n or learning rate that was chosen, as a line; nothing if there is no interval."""
    choice = rates.choices.get(method)
    if choice is None or rates.asr[method].low is None:
        return ()
    name = "n" if choice.key == EXPONENT else "λ"
    return (f"{name} = {choice.value:g}".replace("-", "−"),)


def _published_cells(line: Published | None) -> list[Value]:
    if line is None:
        return [EMPTY] * (1 + len(MAIN))
    return [line.accuracy, *(line.asr[method] for method in MAIN)]


def _before_and_after(rates: Rates | None) -> list[Value | Cell]:
    if rates is None:
        return [EMPTY] * (1 + len(MAIN))
    cells: list[Value | Cell] = [_accuracy(rates)]
    for method in MAIN:
        after, change = rates.accuracy_after.get(method), rates.asr.get(method)
        if after is None or change is None or after.value is None:
            cells.append(EMPTY)
            continue
        relative = Cell(value=change)
        lines = (relative.interval(Format.PERCENT), *_chosen(rates, method))
        both = f"{decimal(after.value)} ({relative.text(Format.PERCENT)})"
        cells.append(Cell(value=both, lines=tuple(filter(None, lines))))
    return cells


def _published_after_cells(line: Published | None) -> list[Value]:
    if line is None:
        return [EMPTY] * (1 + len(MAIN))
    return [
        line.accuracy,
        *(f"{decimal(line.accuracy_after[m])} ({percent(line.asr[m])})" for m in MAIN),
    ]


def _published(source: str, rates: Rates) -> Published | None:
    return published.find(source, rates.place.victim, rates.source, rates.place.entity)


def _published_labels(
    heads: Sequence[str], members: Mapping[str, Rates], printed: Mapping[str, Published | None]
) -> list[Value | Cell]:
    """Return the labels of a published line, with the prompts if they differ from ours."""
    prompts = {
        r.place.dataset: words
        for key, r in members.items()
        if printed[key] and (words := other_prompt(r))
    }
    shown = [f"{dataset}: {words}" for dataset, words in prompts.items()]
    return [Cell(value="published", lines=tuple(shown)), *heads[1:]]


def _source(source: str, lines: Sequence[Published]) -> str | None:
    return published.source_line(source) if lines else None


def _in_order(methods: Iterable[str]) -> list[str]:
    known = set(methods)
    return [*(m for m in METHODS if m in known), *sorted(known - set(METHODS))]


def _csv(rates: Iterable[Rates]) -> list[dict[str, Any]]:
    rows = []
    for r in rates:
        place = _place_labels(r.place)
        rows.append(csv_row(r.baseline.accuracy, **place, quantity="accuracy"))
        quantities: tuple[tuple[str, Callable[[str], Estimate]], ...] = (
            ("asr", r.asr.__getitem__),
            ("accuracy_after", r.accuracy_after.__getitem__),
        )
        for method in r.asr:
            choice = r.choices.get(method)
            labels = {
                **place,
                "method": method,
                "budget": r.budget,
            }
            if choice is not None:
                name = CSV_NAMES[choice.key]
                labels |= {name: choice.value, f"{name}_rule": choice.rule}
            rows += [csv_row(get(method), **labels, quantity=name) for name, get in quantities]
    return rows


def _csv_published(rates: Iterable[Rates], printed: Iterable[Published]) -> list[dict[str, Any]]:
    lines = {(line.victim, line.dataset, line.entity): line for line in printed}
    rows = []
    for r in rates:
        name = published.victim_name(r.place.victim)
        line = lines.get((name or "", r.source, r.place.entity))
        if line is None:
            continue
        prompt = other_prompt(r)
        source = f"published: {line.source}" + (f" ({prompt})" if prompt else "")
        place = {**_place_labels(r.place), "source": source}
        rows.append({**csv_row(None, **place, quantity="accuracy"), "value": line.accuracy})
        for quantity, values in (("asr", line.asr), ("accuracy_after", line.accuracy_after)):
            for method, value in values.items():
                labels = {**place, "method": method, "budget": 1, "quantity": quantity}
                rows.append({**csv_row(None, **labels), "value": value})
    return rows


def _place_labels(place: Place) -> dict[str, Any]:
    return {
        "source": "ours",
        "victim": place.victim.label,
        "dataset": place.dataset,
        "group": place.entity,
        "embedding": place.embedding,
        "rule": place.rule,
    }
