"""The layouts of Xian et al.: TMLR 2025, and the tables of its first version.

A new table or figure is a function below and a line of `XIAN2025`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from medstress.analyses.choice import (
    AS_PUBLISHED,
    EXPONENT,
    METHODS,
    NO_ITEMS,
    REGIMES,
    Choice,
    Competitor,
    Items,
    Rates,
    Setting,
    by_setting,
    choice_notes,
    choose,
    has_choice,
    minus,
    rates_of,
    tuning_items,
    without,
)
from medstress.analyses.claims import (
    CLAIMS,
    paired,
    rise_budget,
    rises,
    under_two_embeddings,
)
from medstress.analyses.coverage import NAMES
from medstress.analyses.diversity import both_forms, names_by_seed, prompt_similarity
from medstress.analyses.explanations import EXPLANATIONS
from medstress.analyses.run import Cell
from medstress.analyses.scaling import CURVES, SCALING
from medstress.analyses.shown import Chart, Column, Entry, Field, Point, Table, column, label, table
from medstress.analyses.success import at_budgets
from medstress.analyses.tuning import ASR, UNREFUTED
from medstress.analyses.tuning import read as reading
from medstress.core.outcomes import Verdict
from medstress.page.papers import published
from medstress.page.papers.cases import Case, cases_in_latex
from medstress.page.papers.layout import Entry as Made
from medstress.page.papers.layout import (
    Layout,
    Missing,
    PaperRun,
    Part,
    Tex,
    renamed,
    seeds_note,
    spread,
)
from medstress.page.papers.published import MAIN, Line, line_of, other_prompt
from medstress.report.formats import number
from medstress.stats.estimate import Estimate, unknown

OF_TABLE_2 = 8
"""Queries an item in Table 2."""
LEAST_CURVE = 3
"""The smallest budget that makes a curve, and with which DiscreteZOO can act."""
LEAST_EXPONENTS = 3
MOST_PROFILES = 12
SEARCH = ("random", "near", "far", "discrete_zoo")
IN_ORDER = ("nearest", "farthest", "near", "far")
OF_ZOO = ("similarity_threshold", "word_ranking")
"""Rules of DiscreteZOO alone; its variants share a picture so that they can be compared."""


# Tables of rates -------------------------------------------------------------------------------


class Heads:
    """Columns that name a line: model and type of names always, others where they differ."""

    _VALUES: Mapping[str, tuple[str, Any]] = {
        "victim": ("Model", lambda s: label(s.place.victim)),
        "dataset": ("Data", lambda s: label(s.place.dataset)),
        "types": ("Mentions", lambda s: s.types),
        "embedding": ("Embedding", lambda s: s.embedding),
        "rule": ("Rules", lambda s: s.rule),
    }

    def __init__(self, lines: Iterable[Rates], names: Sequence[str]) -> None:
        settings = [line.setting for line in lines]
        self.names = [
            name
            for name in names
            if name in ("victim", "types")
            or len({str(self._VALUES[name][1](s)) for s in settings}) > 1
        ]
        self.columns = tuple(Column(heading=self._VALUES[name][0], key=name) for name in self.names)

    def of(self, setting: Setting) -> tuple[Entry, ...]:
        """Return the cells that name a line."""
        return tuple(Entry(value=self._VALUES[name][1](setting)) for name in self.names)

    def published(self, settings: Iterable[Setting]) -> tuple[Entry, ...]:
        """Return the cells that name a published line, with both prompts where they differ."""
        every = list(settings)
        prompts = tuple(f"{s.place.dataset}: {words}" for s in every if (words := other_prompt(s)))
        return (Entry(value="published", lines=prompts), *self.of(every[0])[1:])


def _table_1(run: PaperRun) -> Iterator[Part]:
    yield from _of_rates(run, 1, "table1", "needs random sampling or PDWS")


def _table_2(run: PaperRun) -> Iterator[Part]:
    needs = f"needs an attack with a budget of {OF_TABLE_2} or more"
    yield from _of_rates(run, OF_TABLE_2, "table2", needs)


def _of_rates(run: PaperRun, budget: int, name: str, needs: str) -> Iterator[Part]:
    """Yield the table with n chosen on other items, and the one as published on the same items.

    The table as published is of the attacks under the paper's own rules where the run has some.
    """
    methods = MAIN if budget == 1 else (*MAIN, *METHODS)
    lines = [r for r in rates_of(run.attacks, budget) if set(methods) & _methods(r)]
    victims = list(dict.fromkeys(line.setting.place.victim for line in lines))
    lines.sort(key=lambda line: victims.index(line.setting.place.victim))
    if not lines:
        raise Missing(needs)
    yield from _rate_tables(run, lines, name, as_published=False)
    own = [one for one in run.attacks if one.is_as_published]
    same = rates_of(own or run.attacks, budget, as_published=True)
    same = [r for r in same if set(methods) & _methods(r)]
    same.sort(key=lambda line: victims.index(line.setting.place.victim))
    if own or has_choice(same):
        yield from _rate_tables(run, same, f"{name}-as-published", as_published=True)


def _methods(line: Rates) -> set[str]:
    return {one.method for one in line.columns.values()}


def _rate_tables(
    run: PaperRun, lines: Sequence[Rates], name: str, *, as_published: bool
) -> Iterator[Part]:
    notes = _rate_notes(run, lines, as_published=as_published)
    make = _victims_down if name.startswith("table1") else _methods_across
    yield make(lines, name, notes)
    choices = [(line, choice) for line in lines for choice in line.choices.values()]
    if choices:
        caption = "How n and the learning rate λ were chosen"
        kept = [note for note in notes if not note.startswith("Lines and marks")]
        yield table(f"{name}-choices", caption, choices, _CHOSEN, n_labels=5, notes=kept)


def _rate_notes(run: PaperRun, lines: Sequence[Rates], *, as_published: bool) -> list[str]:
    """Return the sentences below a table of rates."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in lines:
        counts[line.setting.place.dataset, line.setting.types].append(line.n_items)
    items = ", ".join(f"{data} {types} {spread(n)}" for (data, types), n in counts.items())
    cells = [one.cell for line in lines for one in line.columns.values()]
    notes = [
        f"Items: {items}.",
        *run.notes(cells)[1:],
        seeds_note({seed for line in lines for seed in line.seeds}),
        *choice_notes(lines),
    ]
    own = [one for line in lines for one in line.columns.values() if one.is_as_published]
    if as_published:
        notes.append(
            "Names are drawn under the paper's rule, which leaves out the right answer's text "
            "alone."
            if own
            else "Names are drawn under our rule, which leaves out more than the paper's: the run "
            f'has no attack with choices = "{AS_PUBLISHED}".'
        )
    if any(line_of("xian2025", line.setting) for line in lines):
        is_best = any(c.rule == "same items" for line in lines for c in line.choices.values())
        notes += [
            published.NOT_OURS.format(source=published.source_line("xian2025")),
            "Published lines take the best n of the grid on the items that they report, under the "
            f"paper's rule; ours {'do so too' if as_published and own and is_best else 'do not'}.",
            *_prompt_notes(lines, "xian2025"),
        ]
    return notes


def _prompt_notes(lines: Iterable[Rates], source: str) -> list[str]:
    """Name the published lines whose model was asked with another prompt than ours."""
    named = dict.fromkeys(
        f"{s.place.victim} on {s.place.dataset} ({words})"
        for s in (line.setting for line in lines)
        if (words := other_prompt(s)) and line_of(source, s)
    )
    return [f"Published with another prompt than ours: {', '.join(named)}."] if named else []


def _victims_down(lines: Sequence[Rates], name: str, notes: Sequence[str]) -> Table:
    """Return Table 1: success of one query, models down, data sets across."""
    datasets = list(dict.fromkeys(line.setting.place.dataset for line in lines))
    heads = Heads(lines, ("victim", "types", "embedding", "rule"))
    grouped: dict[Any, dict[str, Rates]] = defaultdict(dict)
    for line in lines:
        s = line.setting
        grouped[s.place.victim, s.types, s.embedding, s.rule][s.place.dataset] = line
    rows: list[tuple[Entry, ...]] = []
    rules, printed, before = set(), set(), None
    for (victim, *_), members in grouped.items():
        if before not in (None, victim):
            rules.add(len(rows))
        before = victim
        settings = [line.setting for line in members.values()]
        cells = [cell for data in datasets for cell in _cells(members.get(data))]
        rows.append((*heads.of(settings[0]), *cells))
        lines_of = {data: line_of("xian2025", line.setting) for data, line in members.items()}
        if any(lines_of.values()):
            printed.add(len(rows))
            cells = [cell for data in datasets for cell in _published(lines_of.get(data))]
            shown = [s for s in settings if lines_of[s.place.dataset]]
            rows.append((*heads.published(shown), *cells))
    parts = [
        (
            Column(heading="Acc", form="share", key=f"{data}_accuracy"),
            *(Column(heading=f"{_at_1(m)} (%)", form="percent", key=f"{data}_{m}") for m in MAIN),
        )
        for data in datasets
    ]
    return Table(
        name=name,
        caption="Single-query attack success rates (ASR@1) by model, in per cent, with the "
        "accuracy on the clean items. Layout: Xian et al., TMLR 2025, Table 1.",
        columns=(*heads.columns, *(column for part in parts for column in part)),
        rows=tuple(rows),
        notes=tuple(notes),
        heads=((("", len(heads.columns)), *((data, 1 + len(MAIN)) for data in datasets)),),
        rules=frozenset(rules),
        published=frozenset(printed),
        n_labels=len(heads.columns),
    )


def _at_1(method: str) -> str:
    first, _, rest = METHODS[method].partition(" ")
    return f"{first}@1 {rest}".strip()


def _cells(line: Rates | None) -> list[Entry]:
    if line is None:
        return [Entry(value=None)] * (1 + len(MAIN))
    return [Entry(value=line.accuracy), *(_success(line, method) for method in MAIN)]


def _success(line: Rates | None, method: str) -> Entry:
    if line is None or method not in line.asr:
        return Entry(value=None)
    choice = line.choices.get(method)
    lines = () if choice is None else (f"{choice.symbol} = {minus(choice.value)}",)
    return Entry(value=line.asr[method], lines=lines)


def _published(line: Line | None) -> list[Entry]:
    if line is None:
        return [Entry(value=None)] * (1 + len(MAIN))
    return [Entry(value=line.accuracy), *(Entry(value=line.asr[method]) for method in MAIN)]


def _methods_across(lines: Sequence[Rates], name: str, notes: Sequence[str]) -> Table:
    """Return Table 2: success within a budget, methods crossed with embeddings."""
    heads = Heads(lines, ("victim", "dataset", "types", "rule"))
    crossed = [
        (embedding, method)
        for embedding in dict.fromkeys(line.setting.embedding for line in lines)
        for method in _ordered(
            m for line in lines if line.setting.embedding == embedding for m in line.asr
        )
    ]
    grouped: dict[Any, dict[str, Rates]] = defaultdict(dict)
    for line in lines:
        grouped[*line.setting.asked, line.setting.rule][line.setting.embedding] = line
    spans = {e: sum(embedding == e for embedding, _ in crossed) for e, _ in crossed}
    budget = lines[0].budget
    return Table(
        name=name,
        caption=f"Attack success rates within {budget} queries (ASR@{budget}) in per cent, by "
        "method and embedding. Layout: Xian et al., TMLR 2025, Table 2.",
        columns=(
            *heads.columns,
            *(
                Column(heading=METHODS.get(m, m), form="percent", key=f"{embedding}_{m}")
                for embedding, m in crossed
            ),
        ),
        rows=tuple(
            (
                *heads.of(next(iter(members.values())).setting),
                *(_success(members.get(embedding), method) for embedding, method in crossed),
            )
            for members in grouped.values()
        ),
        notes=(
            *notes,
            "Random sampling draws without an embedding; it is listed under each because the "
            "embedding decides which distractor is replaced: the one nearest to the right answer.",
            "The paper's own numbers of this table are not at hand.",
        ),
        heads=((("", len(heads.columns)), *spans.items()),),
        n_labels=len(heads.columns),
    )


def _ordered(methods: Iterable[str]) -> list[str]:
    every = set(methods)
    return [*(m for m in METHODS if m in every), *sorted(every - set(METHODS))]


def _table_rcap(run: PaperRun) -> Iterator[Part]:
    """Yield the first version's tables: accuracy after one query, and its relative change."""
    lines = [
        line
        for line in rates_of(run.attacks, 1)
        if "random" in line.asr and set(REGIMES) & line.asr.keys()
    ]
    if not lines:
        raise Missing("needs random sampling and PDWS")
    datasets = list(dict.fromkeys(line.setting.place.dataset for line in lines))
    for i, data in enumerate(datasets, start=1):
        chosen = [line for line in lines if line.setting.place.dataset == data]
        yield _rcap(run, chosen, data, "rcap" if len(datasets) == 1 else f"rcap-{i}")


_CHANGES = (("random", "RdPtb"), ("near", "DistPtb −"), ("far", "DistPtb +"))


def _rcap(run: PaperRun, lines: Sequence[Rates], data: str, name: str) -> Table:
    heads = Heads(lines, ("victim", "embedding", "rule"))
    kinds = list(dict.fromkeys(line.setting.types for line in lines))
    grouped: dict[Any, dict[str, Rates]] = defaultdict(dict)
    for line in lines:
        s = line.setting
        grouped[s.place.victim, s.embedding, s.rule][s.types] = line
    rows: list[tuple[Entry, ...]] = []
    printed = set()
    for members in grouped.values():
        settings = [line.setting for line in members.values()]
        cells = [cell for kind in kinds for cell in _before_and_after(members.get(kind))]
        rows.append((*heads.of(settings[0]), *cells))
        lines_of = {kind: line_of("xian2024", line.setting) for kind, line in members.items()}
        if any(lines_of.values()):
            printed.add(len(rows))
            cells = [cell for kind in kinds for cell in _printed_after(lines_of.get(kind))]
            rows.append((*heads.published(settings), *cells))
    parts = [
        (
            Column(heading="NoPtb", form="share", key=f"{kind}_accuracy"),
            *(
                column
                for method, words in _CHANGES
                for column in (
                    Column(heading=words, form="share", key=f"{kind}_after_{method}"),
                    Column(heading="R-CAP (%)", form="percent", key=f"{kind}_rcap_{method}"),
                )
            ),
        )
        for kind in kinds
    ]
    source = published.source_line("xian2024")
    shown = [published.NOT_OURS.format(source=source)] if printed else []
    kept = [
        note
        for note in _rate_notes(run, lines, as_published=False)
        if not note.startswith(("Lines and marks", "Published"))
    ]
    return Table(
        name=name,
        caption=f"Accuracy on {data} before and after one substitution, and its relative change "
        "(R-CAP = ASR) in per cent. Layout: Xian et al., arXiv 2402.10527v1, Tables 1 and 2.",
        columns=(*heads.columns, *(column for part in parts for column in part)),
        rows=tuple(rows),
        notes=(*kept, *shown, *_prompt_notes(lines, "xian2024")),
        heads=(
            (("", len(heads.columns)), *((f"{k} questions", 1 + 2 * len(_CHANGES)) for k in kinds)),
        ),
        published=frozenset(printed),
        n_labels=len(heads.columns),
    )


def _before_and_after(line: Rates | None) -> list[Entry]:
    if line is None:
        return [Entry(value=None)] * (1 + 2 * len(_CHANGES))
    cells = [Entry(value=line.accuracy)]
    for method, _ in _CHANGES:
        cells += [Entry(value=line.accuracy_after.get(method)), _success(line, method)]
    return cells


def _printed_after(line: Line | None) -> list[Entry]:
    if line is None:
        return [Entry(value=None)] * (1 + 2 * len(_CHANGES))
    cells = [Entry(value=line.accuracy)]
    for method, _ in _CHANGES:
        cells += [Entry(value=line.accuracy_after[method]), Entry(value=line.asr[method])]
    return cells


_CHOSEN_ON: Mapping[str, str] = {
    "tuned": "other items",
    "same items": "the same items",
    "given": "nothing",
}
_Chosen = tuple[Rates, Choice]
_CHOSEN: Sequence[Field[_Chosen]] = (
    column("Model", lambda row: label(row[0].setting.place.victim)),
    column("Data", lambda row: label(row[0].setting.place.dataset)),
    column("Mentions", lambda row: row[0].setting.types),
    column("Embedding", lambda row: row[0].setting.embedding or None),
    column("Rules", lambda row: row[0].setting.rule or None),
    column("Method", lambda row: METHODS.get(row[1].chosen.method, row[1].chosen.label)),
    column("Chosen", lambda row: f"{row[1].symbol} = {minus(row[1].value)}", key="chosen"),
    column("Tried", lambda row: ", ".join(map(minus, row[1].tried)), key="tried"),
    column("On", lambda row: _CHOSEN_ON[row[1].rule]),
    column(
        "Eligible there",
        lambda row: Entry(value=row[1].n_eligible, lines=("too few",) if row[1].is_of_few else ()),
        "count",
        key="n_eligible",
    ),
    column("ASR there (%)", lambda row: row[1].tuning, "percent", key="asr_there"),
    column("ASR reported (%)", lambda row: row[1].estimate, "percent", key="asr_reported"),
)


# Figures ---------------------------------------------------------------------------------------


def _panel_of(setting: Setting, *, with_types: bool = True, extra: Sequence[str] = ()) -> str:
    parts = (setting.place.victim, setting.place.dataset, setting.types if with_types else "")
    return " · ".join(filter(None, (*parts, *extra)))


class _AtN(NamedTuple):
    asr: Estimate
    diversity: Estimate
    similarity: Estimate


def _at_n(cell: Cell) -> _AtN:
    """Return what Figure 2 shows of one n: all of the first query."""
    first = cell.where(cell.mask(lambda t: t.first is not None and t.first.query == 1))
    none = unknown("no success")
    return _AtN(
        asr=cell.share(cell.read("asr", 1)),
        diversity=none if first is None else both_forms(names_by_seed(first.trials))[1],
        similarity=none if first is None else prompt_similarity(first),
    )


def _figure_2(run: PaperRun) -> Iterator[Part]:
    """Yield success, diversity and similarity against n; random sampling is at n = 0."""
    settings = by_setting(o for o in run.attacks if o.method in ("near", "far", "zero", "random"))
    extra = len({(s.embedding, s.rule) for s in settings}) > 1
    shown: list[tuple[Setting, float, Competitor]] = []
    for setting, members in settings.items():
        by_n = {one.n: one for one in members if one.n is not None}
        for one in members:
            if one.method == "random":
                by_n.setdefault(0.0, one)
        if len(by_n) >= LEAST_EXPONENTS:
            shown += [(setting, n, one) for n, one in sorted(by_n.items())]
    if not shown:
        raise Missing(
            f"needs PDWS with {LEAST_EXPONENTS} values of n or more (0 is random sampling)"
        )
    cells = [one.cell for _, _, one in shown]
    notes = (
        run.item_note(cells),
        *run.notes(cells),
        "The point at n = 0 is random sampling. Diversity (unbiased, within each seed, then "
        "averaged) and similarity are of the successes of the first query.",
    )
    values = [(setting, n, _at_n(one.cell)) for setting, n, one in shown]
    for part, name, title, y in (
        ("asr", "figure2", "Success of one query against n", "ASR@1"),
        ("diversity", "figure2-diversity", "Diversity of the names that succeed", "diversity"),
        ("similarity", "figure2-similarity", "What successes keep of the prompt", "similarity"),
    ):
        points = tuple(
            Point(
                x=n,
                y=estimate,
                series=s.types,
                panel=_panel_of(s, with_types=False, extra=(s.embedding, s.rule) if extra else ()),
            )
            for s, n, at in values
            if (estimate := getattr(at, part)).value is not None
        )
        if points:
            yield Chart(
                name=name, title=title, kind="lines", x="n", y=y, points=points, notes=notes
            )
    yield table("figure2-numbers", "Success, diversity and similarity against n", values, _OF_N,
                n_labels=5, notes=notes)  # fmt: skip


_OF_N: Sequence[Field[tuple[Setting, float, _AtN]]] = (
    column("Model", lambda row: label(row[0].place.victim)),
    column("Data", lambda row: label(row[0].place.dataset)),
    column("Mentions", lambda row: row[0].types),
    column("Embedding", lambda row: row[0].embedding or None),
    column("Rules", lambda row: row[0].rule or None),
    column("n", lambda row: row[1], "number"),
    column("ASR@1 (%)", lambda r: r[2].asr, "percent", key="asr"),
    column("Diversity", lambda row: row[2].diversity, "score"),
    column(
        "Similarity",
        lambda row: row[2].similarity if row[2].similarity.value is not None else None,
        "score",
    ),
)


def _figure_3(run: PaperRun) -> Iterator[Part]:
    """Yield success of one query by model: generalists by size, then specialists by size."""
    every = [line for line in rates_of(run.attacks, 1) if set(MAIN) & line.asr.keys()]
    kinds = ("generalist", "specialist")
    lines = [
        line
        for line in every
        if line.setting.parameters is not None and line.setting.victim_group in kinds
    ]
    if not lines:
        raise Missing("needs models with `parameters` and `group` in the experiment file")
    lines.sort(
        key=lambda line: (
            kinds.index(line.setting.victim_group or ""),
            line.setting.parameters or 0.0,
            line.setting.place.victim,
        )
    )
    extra = len({(line.setting.embedding, line.setting.rule) for line in lines}) > 1
    points: list[Point] = []
    for line in lines:
        s = line.setting
        parts = (s.place.dataset, s.types, *((s.embedding, s.rule) if extra else ()))
        at = " · ".join(filter(None, (*parts, f"{s.victim_group}s")))
        for model, values in (
            (s.place.victim, line.asr),
            (f"{s.place.victim}, published", (p := line_of("xian2025", s)) and p.asr),
        ):
            points += [
                Point(x=model, y=values[m], series=METHODS[m], panel=at)
                for m in MAIN
                if values and m in values
            ]
    absent = {line.setting.place.victim for line in every} - {
        line.setting.place.victim for line in lines
    }
    notes = _rate_notes(run, lines, as_published=False)
    if absent:
        names = ", ".join(sorted(absent))
        notes.append(f"Left out because size or group is not given: {names}.")
    yield Chart(
        name="figure3",
        title="Success of one query by model, the smallest first",
        kind="bars",
        x="model",
        y="ASR@1",
        points=tuple(points),
        notes=tuple(notes),
    )
    yield _victims_down(lines, "figure3-numbers", notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """One line of a picture of success against the budget."""

    panel: str
    name: str
    attack: Competitor
    left_out: Items

    @property
    def points(self) -> list[Point]:
        """Success at every budget, on the items that did not choose n."""
        cell = without(self.attack.cell, self.left_out)
        return [
            Point(x=at.budget, y=at.estimate, series=self.name, panel=self.panel)
            for at in (at_budgets(cell) if cell else ())
        ]


def _curves(
    attacks: Sequence[Competitor], methods: Sequence[str]
) -> tuple[list[_Curve], list[Choice]]:
    """Return the curves of some methods; of several n the best on a fifth of the items."""
    chosen = [one for one in attacks if one.method in methods and one.budget >= LEAST_CURVE]
    rules = len({_shared_rule(one.setting) for one in chosen}) > 1
    panels: dict[str, list[Competitor]] = defaultdict(list)
    for one in chosen:
        extra = [_shared_rule(one.setting)] if rules else []
        panels[_panel_of(one.setting, extra=extra)].append(one)
    curves: list[_Curve] = []
    choices: list[Choice] = []
    for panel, members in panels.items():
        if methods == IN_ORDER and all(one.method in REGIMES for one in members):
            continue
        split = tuning_items(one.cell for one in members)
        kept: list[Competitor] = []
        for group in by_setting(members).values():
            for method in dict.fromkeys(one.method for one in group):
                same = [one for one in group if one.method == method]
                if method in REGIMES and len(same) > 1:
                    budget = min(one.budget for one in same)
                    choice = choose(same, EXPONENT, budget, split)
                    assert choice is not None
                    choices.append(choice)
                    same = [choice.chosen]
                kept += same
        is_chosen = any(c.chosen in kept for c in choices)
        order = {method: i for i, method in enumerate(methods)}
        kept.sort(key=lambda one: (order[one.method], one.setting.embedding))
        curves += [
            _Curve(
                panel=panel,
                name=_curve_name(one, kept),
                attack=one,
                left_out=split if is_chosen else NO_ITEMS,
            )
            for one in kept
        ]
    return curves, choices


def _shared_rule(setting: Setting) -> str:
    """Return the rules that separate a picture from others."""
    parts = setting.rule.split(", ")
    return ", ".join(part for part in parts if part.partition(" = ")[0] not in OF_ZOO)


def _curve_name(one: Competitor, kept: Sequence[Competitor]) -> str:
    kind = (one.setting.embedding, one.method, one.n)
    alike = sum((o.setting.embedding, o.method, o.n) == kind for o in kept)
    name = one.words if alike == 1 else one.label
    several = len({o.setting.embedding for o in kept}) > 1
    return f"{name}, {one.setting.embedding}" if several else name


def _figure_4(run: PaperRun) -> Iterator[Part]:
    made = False
    for methods, name, title in (
        (SEARCH, "figure4", "Success against the budget"),
        (IN_ORDER, "figure4-in-order", "Success against the budget, names in order"),
    ):
        curves, choices = _curves(run.attacks, methods)
        if curves:
            made = True
            yield from _curve_parts(run, curves, name, title, choices)
    if not made:
        raise Missing(f"needs an attack with a budget of {LEAST_CURVE} or more")


def _appendix_m(run: PaperRun) -> Iterator[Part]:
    """Yield DiscreteZOO at every number of candidates, and random sampling."""
    rules = len({_shared_rule(one.setting) for one in run.attacks}) > 1
    panels: dict[str, list[Competitor]] = defaultdict(list)
    for one in run.attacks:
        if one.method in ("discrete_zoo", "random") and one.budget >= LEAST_CURVE:
            extra = [_shared_rule(one.setting) if rules else "", one.setting.embedding]
            panels[_panel_of(one.setting, extra=extra)].append(one)
    curves = []
    for panel, members in panels.items():
        sizes = {one.label: _candidates(one) for one in members}
        if len({m for m in sizes.values() if m is not None}) < 2:
            continue
        for one in sorted(members, key=lambda o: (sizes[o.label] is None, sizes[o.label] or 0)):
            m = sizes[one.label]
            alike = sum(size == m for size in sizes.values())
            name = one.label if alike > 1 else "RandS" if m is None else f"M = {m}"
            curves.append(_Curve(panel=panel, name=name, attack=one, left_out=NO_ITEMS))
    if not curves:
        raise Missing("needs DiscreteZOO with two numbers of candidates or more")
    yield from _curve_parts(run, curves, "appendix-m", "Growth with the number of candidates M", [])


def _candidates(one: Competitor) -> int | None:
    m = one.cell.attack.params.get("candidates")
    return None if m is None else int(m)


def _curve_parts(
    run: PaperRun, curves: Sequence[_Curve], name: str, title: str, choices: Sequence[Choice]
) -> Iterator[Part]:
    cells = [curve.attack.cell for curve in curves]
    few = [choice.on_few for choice in choices if choice.is_of_few]
    tuned = (
        "n was chosen on a fifth of the items (drawn by a hash of the item), and all curves of its "
        "picture are measured on the others."
    )
    notes = (run.item_note(cells), *run.notes(cells), *([tuned] if choices else []), *few)
    points = tuple(point for curve in curves for point in curve.points)
    yield Chart(
        name=name,
        title=title,
        kind="lines",
        x="queries",
        y="ASR",
        points=points,
        log_x=True,
        notes=notes,
    )
    scaling = run.run.of(SCALING)
    keys = {(*cell.place, cell.attack.label) for cell in cells}
    rows = [
        row
        for row in (scaling.curves if scaling else ())
        if (row.dataset, row.group, row.victim, row.attack) in keys
    ]
    if rows:
        caption = "Where more queries bring little"
        yield table(f"{name}-inflections", caption, rows, CURVES, n_labels=4, notes=notes)


def _figure_4_embeddings(run: PaperRun) -> Iterator[Part]:
    """Yield what another embedding changes, at fixed budgets of both curves."""
    pairs = under_two_embeddings(one for one in run.attacks if one.budget >= LEAST_CURVE)
    if not pairs:
        raise Missing(
            f"needs one attack under two embeddings, with a budget of {LEAST_CURVE} or more"
        )
    rows = []
    for one, other in pairs:
        budget = min(one.budget, other.budget)
        second, first, change = rises([other.cell], [one.cell], budget)
        at_budget = paired([other.cell], [one.cell], budget).estimate
        rows.append(
            (one, other, budget, first, second, change, one.share(budget), other.share(budget),
             at_budget)
        )  # fmt: skip
    largest = max(row[2] for row in rows)
    cells = [one.cell for both in pairs for one in both]
    made = table(
        "figure4-embeddings",
        "How another embedding changes the curve, in per cent: the rise is the mean ASR over "
        f"budgets 1 to {rise_budget(largest)}, the plateau the ASR at {largest} queries.",
        rows,
        _CHANGES_OF_CURVES,
        n_labels=5,
        notes=[
            *run.notes(cells),
            "Changes are paired: the same items under both embeddings.",
        ],
    )
    n = made.n_labels
    yield replace(made, heads=((("", n), ("rise", 3), ("plateau", 3)),))


def _column(heading: str, key: str, at: int) -> Field[Any]:
    return column(heading, lambda row: row[at], "percent", key=key)


_CHANGES_OF_CURVES: Sequence[Field[Any]] = (
    column("Model", lambda row: label(row[0].setting.place.victim)),
    column("Questions", lambda row: f"{row[0].setting.place.dataset} {row[0].setting.types}"),
    column("Method", lambda row: row[0].words),
    column("Embeddings", lambda row: f"{row[0].setting.embedding} → {row[1].setting.embedding}"),
    column("Budget", lambda row: str(row[2])),
    _column("first", "rise_first", 3),
    _column("other", "rise_other", 4),
    _column("change", "rise_change", 5),
    _column("first", "plateau_first", 6),
    _column("other", "plateau_other", 7),
    _column("change", "plateau_change", 8),
)


def _variants(run: PaperRun) -> Iterator[Part]:
    """Yield what is left of the near regime's advantage without variants of the right answer."""
    marked = [o for o in run.attacks if o.cell.attack.params.get("variants") == "mark"]
    rows: list[tuple[Competitor, int, str, str, Estimate]] = []
    sentences: list[str] = []
    for near in (one for one in marked if one.method == "near"):
        rivals = [o for o in marked if o.setting == near.setting and o.method == "random"]
        for rival in rivals[:1]:
            for budget in sorted({1, min(near.budget, rival.budget)}):
                gains = []
                for metric, words in ((ASR, "all successes"), (UNREFUTED, "not refuted")):
                    gain = paired([near.cell], [rival.cell], budget, metric).estimate
                    gains.append(gain)
                    for name, estimate in (
                        ("near", near.cell.share(reading(near.cell, metric, budget))),
                        ("random", rival.cell.share(reading(rival.cell, metric, budget))),
                        ("near − random", gain),
                    ):
                        rows.append((near, budget, name, words, estimate))
                sentences.append(f"{_advantage(near, budget)}: {_left(gains[0], gains[1])}.")
    if not rows:
        raise Missing(
            'needs PDWS near and random sampling with variants = "mark" (choices = "as_published")'
        )
    notes = (
        *run.notes(one.cell for one in marked),
        "Paired by items. Not refuted: the search went on until a success that is not a variant of "
        "the right answer. Whether the right answer is still right after it is unknown.",
        *sentences,
    )
    yield Chart(
        name="variants",
        title="What near names gain over random ones",
        kind="dots",
        x="attack",
        y="ASR, near minus random",
        points=tuple(
            Point(x=_advantage(near, budget), y=estimate, series=words)
            for near, budget, name, words, estimate in rows
            if name == "near − random"
        ),
        unit=False,
        notes=notes,
    )
    caption = "The near regime with and without variants of the right answer"
    yield table("variants-numbers", caption, rows, _ADVANTAGES, n_labels=6, notes=notes)


def _advantage(near: Competitor, budget: int) -> str:
    words = "1 query" if budget == 1 else f"{budget} queries"
    return f"{_panel_of(near.setting)}, {near.words}, {words}"


def _left(every: Estimate, unrefuted: Estimate) -> str:
    low = every.ends[0]
    if every.value is None or unrefuted.value is None or low is None or low <= 0:
        # A share of an advantage that may be zero means nothing.
        return "no clear advantage over random names to begin with"
    return f"{number(unrefuted.value / every.value, 'percent')} % of the advantage is left"


_ADVANTAGES: Sequence[Field[tuple[Competitor, int, str, str, Estimate]]] = (
    column("Model", lambda row: label(row[0].setting.place.victim)),
    column("Data", lambda row: label(row[0].setting.place.dataset)),
    column("Mentions", lambda row: row[0].setting.types),
    column("Attack", lambda row: row[0].words),
    column("Names", lambda row: row[2]),
    column("Successes", lambda row: row[3]),
    column("Budget", lambda row: row[1], "count"),
    column("ASR (%)", lambda row: row[4], "percent", key="asr"),
)


def _names(run: PaperRun, prefix: str, needs: str) -> Iterator[Part]:
    names = run.run.of(NAMES)
    parts: list[Chart | Table] = []
    if names is not None:
        parts += names.charts()
        parts += names.tables()
    chosen = [part for part in parts if prefix in part.name]
    if not chosen:
        raise Missing(needs)
    has_chart = any(isinstance(part, Chart) for part in chosen)
    for part in chosen:
        is_second = has_chart and isinstance(part, Table)
        notes = run.notes(one.cell for one in run.attacks)
        yield renamed(part, f"{prefix}-numbers" if is_second else prefix, notes)


def _sweeps(run: PaperRun) -> Iterator[Part]:
    needs = 'needs an attack with sampler = "exhaustive" that finished an item'
    yield from _names(run, "sweeps", needs)


def _words(run: PaperRun) -> Iterator[Part]:
    yield from _names(run, "words", "needs first queries that replace or insert words")


def _figure_5(run: PaperRun) -> Iterator[Part]:
    """Yield one case of each regime, from the place that has most of them."""
    by_place: dict[Any, dict[str, Case]] = defaultdict(dict)
    for method in REGIMES:
        for one in (o for o in run.attacks if o.method == method):
            place = by_place[one.setting.asked]
            if method not in place and (cases := _cases_of([one], 1)):
                place[method] = cases[0]
    chosen: dict[str, Case] = max(by_place.values(), key=len, default={})
    if not chosen:
        raise Missing("no attack of PDWS succeeded")
    yield from _case_parts(run, [*chosen.values()], "figure5", one_each=True)


def _appendix_e(run: PaperRun) -> Iterator[Part]:
    """Yield up to three cases of every method in every setting."""
    groups: dict[Any, list[Competitor]] = defaultdict(list)
    for one in run.attacks:
        groups[one.setting, one.method].append(one)
    cases = [case for members in groups.values() for case in _cases_of(members, 3)]
    if not cases:
        raise Missing("no attack that puts in names succeeded")
    yield from _case_parts(run, cases, "appendix-e", one_each=False)


def _cases_of(attacks: Iterable[Competitor], n: int) -> list[Case]:
    """Return the first cases by a hash, one an item; doubtful ones last."""
    cases = [
        Case(one, trial)
        for one in attacks
        for trial in one.cell.trials
        if trial.verdict is Verdict.FLIPPED and trial.pick is not None and trial.pick.name
    ]
    by_item: dict[str, Case] = {}
    for case in sorted(cases, key=lambda case: case.rank):
        by_item.setdefault(case.trial.item.hash, case)
    return list(by_item.values())[:n]


def _case_parts(
    run: PaperRun, cases: Sequence[Case], name: str, *, one_each: bool
) -> Iterator[Part]:
    explained = run.run.of(EXPLANATIONS)
    shown = [] if explained is None else [c for c in explained.cases if c.verdict == "flipped"]
    shown = shown[:MOST_PROFILES]
    notes = [
        "Cases are chosen by a hash, not by how striking they are. A rule on names refutes a "
        "success or leaves it unknown; only people find one valid.",
    ]
    if not shown:
        notes.append("No success is explained yet: medstress explain adds the Shapley profiles.")
    yield Tex(
        name=name,
        caption="Original options left, edited options right",
        body=cases_in_latex(cases),
        notes=tuple(notes),
    )
    if explained is None or not shown:
        return
    regimes = {case.regime: case for case in reversed(shown)}
    one_of = [regimes[r] for r in ("n<0", "n>0") if r in regimes] or shown[:1]
    chosen = one_of if one_each else shown
    charts = replace(explained, cases=chosen).charts()
    for i, chart in enumerate(charts, start=1):
        yield renamed(
            chart,
            f"{name}-profile-{i}",
            [
                "Owen values of the prompt's tokens for the option that was answered, before and "
                "after the edit: blue speaks for it, orange against it, and the darkest shade is "
                "the largest value of both prompts."
            ],
        )
    for part in explained.tables():
        yield renamed(part, f"{name}-{part.name}")


def _claims(run: PaperRun) -> Iterator[Part]:
    claims = run.run.of(CLAIMS)
    if claims is None:
        raise Missing("no attack on questions was tried on a right answer")
    if not claims.tested:
        raise Missing("no claim can be tested: " + "; ".join(claims.reasons))
    yield from claims.tables()


XIAN2025 = Layout(
    name="xian2025",
    of_questions=True,
    entries=(
        Made("table1", "Table 1, success of one query", _table_1),
        Made("table2", f"Table 2, success within {OF_TABLE_2} queries", _table_2),
        Made("rcap", "Relative change in accuracy (first version, Tables 1 and 2)", _table_rcap),
        Made("figure2", "Figure 2, the two regimes", _figure_2),
        Made("figure3", "Figure 3, success against model size", _figure_3),
        Made("figure4", "Figure 4, scaling with the budget", _figure_4),
        Made("figure4-embeddings", "Figure 4, what the embedding changes", _figure_4_embeddings),
        Made("figure5", "Figure 5, one case per regime", _figure_5),
        Made("appendix-e", "Appendix E, cases", _appendix_e),
        Made("appendix-m", "Growth with the number of candidates M", _appendix_m),
        Made("variants", "What is left of the near regime without variants", _variants),
        Made("sweeps", "Success by distance, every name asked", _sweeps),
        Made("words", "Success by words replaced and inserted", _words),
        Made("claims", "Claims of the paper, tested", _claims),
    ),
)
