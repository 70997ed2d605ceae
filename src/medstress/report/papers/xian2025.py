"""The layouts of Xian et al.: TMLR 2025, and the tables of its first version.

A new table or figure is a function below and a line of `XIAN2025`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import exp
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
    told_apart,
    tuning_items,
    without,
)
from medstress.analyses.claims import CLAIMS, shared_rule
from medstress.analyses.explanations import EXPLANATIONS, Explained
from medstress.analyses.run import Cell
from medstress.analyses.scaling import CURVES, NAMES, curves_of
from medstress.analyses.shown import (
    Chart,
    Column,
    Entry,
    Field,
    Label,
    Point,
    Table,
    as_entry,
    column,
    label,
    table,
)
from medstress.analyses.success import at_budgets, both_forms, names_by_seed, prompt_similarity
from medstress.core.hashing import digest
from medstress.core.outcomes import Verdict
from medstress.core.trials import Answer, Trial
from medstress.core.validity import REVIEW
from medstress.report.latex import escape
from medstress.report.papers.layout import (
    MAIN,
    Figure,
    Layout,
    Line,
    Missing,
    PaperRun,
    Part,
    Tex,
    answered,
    block_table,
    line_of,
    not_ours,
    other_prompt,
    renamed,
    seeds_note,
)
from medstress.report.text import ADDED, REMOVED, SAME, mark_changes, number
from medstress.stats.estimate import Estimate, unknown
from medstress.tasks.scores import OF_ATTACKABLE

OF_TABLE_2 = 8
"""Queries an item in Table 2."""
LEAST_CURVE = 3
"""The smallest budget that makes a curve, and with which DiscreteZOO can act."""
LEAST_EXPONENTS = 3
MOST_PROFILES = 12
SEARCH = ("random", "near", "far", "discrete_zoo")
IN_ORDER = ("nearest", "farthest", "near", "far")


# Tables of rates -------------------------------------------------------------------------------


_NAMES: Mapping[str, tuple[str, Callable[[Setting], Label | str]]] = {
    "victim": ("Model", lambda s: s.place.victim),
    "dataset": ("Data", lambda s: label(s.place.dataset)),
    "types": ("Mentions", lambda s: s.types),
    "embedding": ("Embedding", lambda s: s.embedding),
    "rule": ("Rules", lambda s: s.rule),
}
"""What names a line: heading, and how it is read."""


def _named(of: Callable[[Any], Setting], *names: str) -> list[Field]:
    """Return the columns that name the setting of a row."""

    def field(heading: str, read: Callable[[Setting], Label | str]) -> Field:
        return column(heading, lambda row: read(of(row)) or None)

    return [field(*_NAMES[name]) for name in names]


def _of_rates(run: PaperRun, budget: int, needs: str) -> Iterator[Part]:
    """Yield the table with n chosen on other items, and the one as published on the same items.

    The table as published is of the attacks under the paper's own rules where the run has some.
    """
    name = "table1" if budget == 1 else "table2"
    methods = MAIN if budget == 1 else (*MAIN, *METHODS)
    victims: list[str] = []

    def lines_of(attacks: Sequence[Competitor], *, as_published: bool) -> list[Rates]:
        rates = rates_of(attacks, budget, as_published=as_published)
        lines = [r for r in rates if any(one.method in methods for one in r.columns.values())]
        victims.extend(line.setting.place.victim for line in lines)
        return sorted(lines, key=lambda line: victims.index(line.setting.place.victim))

    lines = lines_of(run.attacks, as_published=False)
    if not lines:
        raise Missing(needs)
    yield from _rate_tables(run, lines, name, as_published=False)
    own = [one for one in run.attacks if one.is_as_published]
    same = lines_of(own or run.attacks, as_published=True)
    if own or has_choice(same):
        yield from _rate_tables(run, same, f"{name}-as-published", as_published=True)


def _rate_tables(
    run: PaperRun, lines: Sequence[Rates], name: str, *, as_published: bool
) -> Iterator[Part]:
    notes = _rate_notes(run, lines)
    attacks = [one for line in lines for one in line.columns.values()]
    own = any(one.is_as_published for one in attacks)
    if as_published and own:
        notes.append(
            "Names are drawn under the paper's rule, which leaves out the right answer's text "
            "alone."
        )
    elif as_published:
        notes.append(
            "Names are drawn under our rule, which leaves out more than the paper's: the run "
            f'has no attack with choices = "{AS_PUBLISHED}".'
        )
    choices = [(line, choice) for line in lines for choice in line.choices.values()]
    is_best = as_published and own and any(c.rule == "same items" for _, c in choices)
    if name.startswith("table1"):
        yield _victims_down(lines, name, [*notes, *_best_notes(lines, is_best=is_best)])
    else:
        yield _methods_across(lines, name, notes)
    if choices:
        caption = "How n and the learning rate λ were chosen"
        yield table(f"{name}-choices", caption, choices, _CHOSEN, n_labels=5, notes=notes)


def _rate_notes(run: PaperRun, lines: Sequence[Rates]) -> list[str]:
    """Return the sentences below a table of rates."""
    clean: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for line in lines:
        clean[line.setting.place.dataset, line.setting.types].append(line.clean)
    items = ", ".join(f"{data} {types} {answered(of)}" for (data, types), of in clean.items())
    return [
        f"Items: {items}.",
        *run.notes(one.cell for line in lines for one in line.columns.values())[1:],
        seeds_note({seed for line in lines for seed in line.seeds}),
        *choice_notes(lines),
    ]


def _best_notes(lines: Sequence[Rates], *, is_best: bool = False) -> list[str]:
    """Say of which numbers the published lines of Table 1 are."""
    best = (
        "Published lines take the best n of the grid on the items that they report, under the "
        f"paper's rule; ours {'do so too' if is_best else 'do not'}."
    )
    return _published_notes(lines, "xian2025", best)


def _published_notes(lines: Iterable[Rates], source: str, *more: str) -> list[str]:
    """Say what published lines are, and whose model was asked with another prompt than ours."""
    settings = [line.setting for line in lines if line_of(source, line.setting)]
    named = dict.fromkeys(
        f"{s.place.victim} on {s.place.dataset} ({words})"
        for s in settings
        if (words := other_prompt(s))
    )
    prompts = [f"Published with another prompt than ours: {', '.join(named)}."] if named else []
    return [not_ours(source), *more, *prompts] if settings else []


def _success(method: str) -> Callable[[Rates | Line | None], Entry]:
    """Return what reads the success of a method; the note below it says what was chosen."""

    def read(line: Rates | Line | None) -> Entry:
        choice = line.choices.get(method) if isinstance(line, Rates) else None
        lines = () if choice is None else (f"{choice.symbol} = {minus(choice.value)}",)
        entry = as_entry(line.asr.get(method) if line else None, "percent")
        return replace(entry, lines=(*entry.lines, *lines))

    return read


def _blocks(
    name: str,
    caption: str,
    lines: Sequence[Rates],
    names: Sequence[str],
    block_of: Callable[[Setting], str],
    blocks: Mapping[str, Sequence[Field]],
    notes: Sequence[str],
    source: str = "",
) -> Table:
    """Return a table with a line for each model and a block of columns for each data set.

    Args:
        name: of the table.
        caption: of the table.
        lines: what it shows.
        names: what names a line: model and type of names always, others where they differ.
        block_of: the block of a setting.
        blocks: the columns of each block, whose keys get its name in front.
        notes: below the table.
        source: whose published lines stand below ours.
    """
    reads = {name: _NAMES[name][1] for name in names}
    kept = [
        name
        for name, read in reads.items()
        if name in ("victim", "types") or len({read(line.setting) for line in lines}) > 1
    ]
    grouped: dict[Any, dict[str, Rates]] = defaultdict(dict)
    for line in lines:
        key = tuple(read(line.setting) for read in reads.values())
        grouped[key][block_of(line.setting)] = line
    rows: list[tuple[Entry, ...]] = []
    printed, done = set(), set[tuple[str, str, str]]()

    def add(named: Iterable[Entry], members: Mapping[str, Rates | Line]) -> None:
        fields = [(members.get(at), field) for at, own in blocks.items() for field in own]
        values = (as_entry(field.read(line), field.column.form) for line, field in fields)
        rows.append((*named, *values))

    for members in grouped.values():
        settings = {at: line.setting for at, line in members.items()}
        first = next(iter(settings.values()))
        named = [Entry(value=reads[name](first)) for name in kept]
        add(named, members)
        # Embedding and rules are ours, so a published line names neither and is printed once.
        keys = {at: (s.place.victim, s.types, at) for at, s in settings.items()}
        lines_at = {at: line_of(source, s) for at, s in settings.items() if keys[at] not in done}
        shown = {at: line for at, line in lines_at.items() if line}
        done.update(keys.values())
        if shown:
            words = {settings[at].place.dataset: other_prompt(settings[at]) for at in shown}
            prompts = tuple(f"{data}: {prompt}" for data, prompt in words.items() if prompt)
            printed.add(len(rows))
            own = [Entry(value=first.types if name == "types" else None) for name in kept[1:]]
            add([Entry(value="published", lines=prompts), *own], shown)
    return block_table(
        name,
        caption,
        [Column(heading=_NAMES[name][0], key=name) for name in kept],
        {
            at: [replace(field.column, key=f"{at}_{field.column.key}") for field in own]
            for at, own in blocks.items()
        },
        rows,
        notes,
        published=frozenset(printed),
    )


def _victims_down(lines: Sequence[Rates], name: str, notes: Sequence[str]) -> Table:
    """Return Table 1: success of one query, models down, data sets across."""
    fields = [column("Acc", "accuracy", "share")]
    for method in MAIN:
        first, _, rest = METHODS[method].partition(" ")
        heading = f"{f'{first}@1 {rest}'.strip()} (%)"
        fields.append(column(heading, _success(method), "percent", key=method))
    made = _blocks(
        name,
        "Single-query attack success rates (ASR@1) by model, in per cent, with the accuracy on the "
        "clean items. Layout: Xian et al., TMLR 2025, Table 1.",
        lines,
        ("victim", "types", "embedding", "rule"),
        lambda s: s.place.dataset,
        dict.fromkeys((line.setting.place.dataset for line in lines), fields),
        [*notes, OF_ATTACKABLE],
        "xian2025",
    )
    own = [i for i in range(len(made.rows)) if i not in made.published]
    rules = {i for before, i in pairwise(own) if made.rows[i][0] != made.rows[before][0]}
    return replace(made, rules=frozenset(rules))


def _methods_across(lines: Sequence[Rates], name: str, notes: Sequence[str]) -> Table:
    """Return Table 2: success within a budget, methods crossed with embeddings."""
    blocks: dict[str, list[Field]] = {}
    for embedding in dict.fromkeys(line.setting.embedding for line in lines):
        every = {m for line in lines if line.setting.embedding == embedding for m in line.asr}
        methods = [*(m for m in METHODS if m in every), *sorted(every - set(METHODS))]
        blocks[embedding] = [
            column(METHODS.get(m, m), _success(m), "percent", key=m) for m in methods
        ]
    budget = lines[0].budget
    return _blocks(
        name,
        f"Attack success rates within {budget} queries (ASR@{budget}) in per cent, by method and "
        "embedding. Layout: Xian et al., TMLR 2025, Table 2.",
        lines,
        ("victim", "dataset", "types", "rule"),
        lambda s: s.embedding,
        blocks,
        [
            *notes,
            "Random sampling draws without an embedding; it is listed under each because the "
            "embedding decides which distractor is replaced: the one nearest to the right answer.",
            "The paper's own numbers of this table are not at hand.",
        ],
    )


def _table_rcap(run: PaperRun) -> Iterator[Part]:
    """Yield the first version's tables: accuracy after one query, and its relative change."""
    lines = [
        line
        for line in rates_of(run.attacks, 1)
        if "random" in line.asr and set(REGIMES) & line.asr.keys()
    ]
    if not lines:
        raise Missing("needs random sampling and PDWS under the same rules")
    fields = [column("NoPtb", "accuracy", "share")]
    for method, words in (("random", "RdPtb"), ("near", "DistPtb −"), ("far", "DistPtb +")):
        fields += [
            column(words, f"accuracy_after.{method}", "share", key=f"after_{method}"),
            column("R-CAP (%)", _success(method), "percent", key=f"rcap_{method}"),
        ]
    datasets = list(dict.fromkeys(line.setting.place.dataset for line in lines))
    for i, data in enumerate(datasets, start=1):
        chosen = [line for line in lines if line.setting.place.dataset == data]
        made = _blocks(
            "rcap" if len(datasets) == 1 else f"rcap-{i}",
            f"Accuracy on {data} before and after one substitution, and its relative change "
            "(R-CAP = ASR) in per cent. Layout: Xian et al., arXiv 2402.10527v1, Tables 1 and 2.",
            chosen,
            ("victim", "embedding", "rule"),
            lambda s: s.types,
            dict.fromkeys((line.setting.types for line in chosen), fields),
            [*_rate_notes(run, chosen), OF_ATTACKABLE, *_published_notes(chosen, "xian2024")],
            "xian2024",
        )
        (first, *kinds) = made.heads[0]
        yield replace(made, heads=((first, *((f"{kind} questions", n) for kind, n in kinds)),))


_CHOSEN_ON: Mapping[str, str] = {
    "tuned": "other items",
    "tuned before": "other items",
    "same items": "the same items",
    "given": "nothing",
}


def _eligible(choice: Choice) -> Entry:
    return Entry(value=choice.n_eligible, lines=("too few",) if choice.is_of_few else ())


def _method(line: Rates, choice: Choice) -> str:
    """Return the method of a choice, with what tells several searches of a line apart."""
    if choice.key == EXPONENT:
        return METHODS[choice.chosen.method]
    return told_apart(choice.chosen, (own.chosen for own in line.choices.values()))


_CHOSEN = (
    *_named(lambda row: row[0].setting, *_NAMES),
    column("Method", lambda row: _method(*row)),
    column("Chosen", lambda row: f"{row[1].symbol} = {minus(row[1].value)}", key="chosen"),
    column("Tried", lambda row: ", ".join(map(minus, row[1].tried)), key="tried"),
    column("On", lambda row: _CHOSEN_ON[row[1].rule]),
    column("Eligible there", lambda row: _eligible(row[1]), "count", key="n_eligible"),
    column("ASR there (%)", "1.tuning", "percent", key="asr_there"),
    column("ASR reported (%)", "1.estimate", "percent", key="asr_reported"),
)


# Figures ---------------------------------------------------------------------------------------


def _panel_of(setting: Setting, *, with_types: bool = True, extra: Sequence[str] = ()) -> str:
    parts = (setting.place.victim, setting.place.dataset, setting.types if with_types else "")
    return " · ".join(filter(None, (*parts, *extra)))


def _at_n(cell: Cell) -> tuple[Estimate, Estimate, Estimate]:
    """Return success, diversity and similarity of the first query at one n."""
    asr = cell.share(cell.read("asr", 1))
    first = cell.where(cell.mask(lambda t: t.first is not None and t.first.query == 1))
    if first is None:
        return asr, unknown("no success"), unknown("no success")
    return asr, both_forms(names_by_seed(first.trials))[1], prompt_similarity(first)


def _figure_2(run: PaperRun) -> Iterator[Part]:
    """Yield success, diversity and similarity against n; random sampling is at n = 0."""
    settings = by_setting(o for o in run.attacks if o.method in ("near", "far", "zero", "random"))
    several = len({(s.embedding, s.rule) for s in settings}) > 1
    cells: list[Cell] = []
    values: list[tuple[float, str, str, Sequence[Estimate]]] = []
    for setting, members in settings.items():
        by_n = {one.n: one for one in members if one.n is not None}
        for one in members:
            if one.method == "random":
                by_n.setdefault(0.0, one)
        if len(by_n) < LEAST_EXPONENTS:
            continue
        extra = (setting.embedding, setting.rule) if several else ()
        panel = _panel_of(setting, with_types=False, extra=extra)
        for n, one in sorted(by_n.items()):
            cells.append(one.cell)
            values.append((n, setting.types, panel, _at_n(one.cell)))
    if not values:
        raise Missing(
            f"needs PDWS with {LEAST_EXPONENTS} values of n or more (0 is random sampling)"
        )
    notes = (
        run.item_note(cells),
        *run.notes(cells),
        "The point at n = 0 is random sampling. Diversity (unbiased, within each seed, then "
        "averaged) and similarity are of the successes of the first query.",
    )
    for i, (name, title, y) in enumerate(
        (
            ("figure2", "Success of one query against n", "ASR@1"),
            ("figure2-diversity", "Diversity of the names that succeed", "diversity"),
            ("figure2-similarity", "What successes keep of the prompt", "similarity"),
        )
    ):
        points = [
            Point(n, measures[i], types, panel)
            for n, types, panel, measures in values
            if measures[i].value is not None
        ]
        if points:
            yield Chart(name, title, "lines", "n", y, points, notes=notes)


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

    def rank(line: Rates) -> tuple[int, float, str]:
        s = line.setting
        return kinds.index(s.victim_group or ""), s.parameters or 0.0, s.place.victim

    several = len({(line.setting.embedding, line.setting.rule) for line in lines}) > 1
    # Published success is under the paper's own rule.
    by_rule = [r for r in lines if any(one.is_as_published for one in r.columns.values())]
    asked_so = {line.setting.asked for line in by_rule}
    points: list[Point] = []
    for line in sorted(lines, key=rank):
        s, printed = line.setting, line_of("xian2025", line.setting)
        extra = (s.embedding, s.rule) if several else ()
        panel = " · ".join(filter(None, (s.place.dataset, s.types, *extra, f"{s.victim_group}s")))
        own = [Point(s.place.victim, line.asr[m], METHODS[m], panel) for m in MAIN if m in line.asr]
        points += own
        if printed and (line in by_rule or s.asked not in asked_so):
            name = f"{s.place.victim}, published"
            points += [
                Point(name, printed.asr[m], METHODS[m], panel) for m in MAIN if m in printed.asr
            ]
    notes = [*_rate_notes(run, lines), *_best_notes(lines)]
    drawn, asked = ({line.setting.place.victim for line in some} for some in (lines, every))
    if absent := sorted(asked - drawn):
        notes.append(f"Left out because size or group is not given: {', '.join(absent)}.")
    title = "Success of one query by model, the smallest first"
    yield Chart("figure3", title, "bars", "model", "ASR@1", points, notes=tuple(notes))


class _Curve(NamedTuple):
    """One line of a picture of success against the budget."""

    panel: str
    name: str
    attack: Competitor
    left_out: Items = NO_ITEMS
    """The items that chose n."""


def _curves(
    attacks: Sequence[Competitor], methods: Sequence[str]
) -> tuple[list[_Curve], list[Choice]]:
    """Return the curves of some methods; of several n the best on a fifth of the items."""
    panels = _panels(one for one in attacks if one.method in methods)
    curves: list[_Curve] = []
    choices: list[Choice] = []
    for panel, members in panels.items():
        if methods == IN_ORDER and all(one.method in REGIMES for one in members):
            continue
        split, left_out = tuning_items(one.cell for one in members), NO_ITEMS
        groups: dict[Any, list[Competitor]] = defaultdict(list)
        for one in members:
            groups[one.setting, one.method].append(one)
        kept: list[Competitor] = []
        for (_, method), same in groups.items():
            if method in REGIMES and len(same) > 1:
                choice = choose(same, EXPONENT, min(one.budget for one in same), split)
                assert choice is not None
                choices.append(choice)
                same, left_out = [choice.chosen], split
            kept += same
        kept.sort(key=lambda one: (methods.index(one.method), one.setting.embedding))
        curves += [_Curve(panel, _curve_name(one, kept), one, left_out) for one in kept]
    return curves, choices


def _panels(
    attacks: Iterable[Competitor], *, by_embedding: bool = False
) -> dict[str, list[Competitor]]:
    """Group the attacks that have a curve by picture; rules are named where there are several."""
    panels: dict[str, list[Competitor]] = defaultdict(list)
    long = [one for one in attacks if one.budget >= LEAST_CURVE]
    several = len({shared_rule(one.setting) for one in long}) > 1
    for one in long:
        rule = shared_rule(one.setting) if several else ""
        extra = (rule, one.setting.embedding if by_embedding else "")
        panels[_panel_of(one.setting, extra=extra)].append(one)
    return panels


def _curve_name(one: Competitor, kept: Sequence[Competitor]) -> str:
    kind = (one.setting.embedding, one.method, one.n)
    alike = sum((o.setting.embedding, o.method, o.n) == kind for o in kept)
    name = one.words if alike == 1 else one.label
    several = len({o.setting.embedding for o in kept}) > 1
    return f"{name}, {one.setting.embedding}" if several else name


def _figure_4(run: PaperRun) -> Iterator[Part]:
    made: list[Part] = []
    for methods, name, title in (
        (SEARCH, "figure4", "Success against the budget"),
        (IN_ORDER, "figure4-in-order", "Success against the budget, names in order"),
    ):
        curves, choices = _curves(run.attacks, methods)
        made += _curve_parts(run, curves, name, title, choices)
    if not made:
        raise Missing(f"needs an attack with a budget of {LEAST_CURVE} or more")
    yield from made


def _appendix_m(run: PaperRun) -> Iterator[Part]:
    """Yield DiscreteZOO at every number of candidates, and random sampling."""
    searches = [one for one in run.attacks if one.method in ("discrete_zoo", "random")]
    panels = _panels(searches, by_embedding=True)
    curves = []
    for panel, members in panels.items():
        of_label = {one.label: one.cell.attack.params.get("candidates") for one in members}
        sizes = {label: None if m is None else int(m) for label, m in of_label.items()}
        if len({m for m in sizes.values() if m is not None}) < 2:
            continue
        for one in sorted(members, key=lambda o: (sizes[o.label] is None, sizes[o.label] or 0)):
            m = sizes[one.label]
            alike = sum(size == m for size in sizes.values())
            name = one.label if alike > 1 else "RandS" if m is None else f"M = {m}"
            curves.append(_Curve(panel, name, one))
    if not curves:
        raise Missing("needs DiscreteZOO with two numbers of candidates or more")
    title = "Growth with the number of candidates M"
    yield from _curve_parts(run, curves, "appendix-m", title)


def _curve_parts(
    run: PaperRun, curves: Sequence[_Curve], name: str, title: str, choices: Sequence[Choice] = ()
) -> Iterator[Part]:
    if not curves:
        return
    cells = [curve.attack.cell for curve in curves]
    measured = [(curve, without(curve.attack.cell, curve.left_out)) for curve in curves]
    kept = [(curve, cell) for curve, cell in measured if cell is not None]
    few = dict.fromkeys(choice.on_few for choice in choices if choice.is_of_few)
    tuned = (
        "n was chosen on a fifth of the items (drawn by a hash of the item), and all curves of its "
        "picture are measured on the others."
    )
    items = run.item_note(cell for _, cell in kept)
    notes = (items, *run.notes(cells), *([tuned] if choices else []), *few)
    points = [
        Point(at.budget, at.estimate, curve.name, curve.panel)
        for curve, cell in kept
        for at in at_budgets(cell)
    ]
    yield Chart(name, title, "lines", "queries", "ASR", points, log_x=True, notes=notes)
    by_panel: dict[str, list[Cell]] = defaultdict(list)
    for curve, cell in kept:
        if cell.eligible.any():
            by_panel[curve.panel].append(cell)
    rows = [row for members in by_panel.values() for row, *_ in curves_of(members)]
    if rows:
        caption = "Where more queries bring little"
        yield table(f"{name}-inflections", caption, rows, CURVES, notes=notes)


def _words(run: PaperRun) -> Iterator[Part]:
    names = run.run.of(NAMES)
    parts: list[Chart | Table] = [*names.charts(), *names.tables()] if names else []
    chosen = [one for one in parts if one.name in ("words", "edit-words") and not _is_empty(one)]
    if not chosen:
        raise Missing("needs first queries that replace or insert words")
    notes = run.notes(one.cell for one in run.attacks)
    for i, part in enumerate(chosen):
        yield renamed(part, "words-numbers" if i else "words", notes)


def _is_empty(part: Chart | Table) -> bool:
    return not (part.points if isinstance(part, Chart) else part.rows)


def _figure_5(run: PaperRun) -> Iterator[Part]:
    """Yield one case of each regime, from the place that has most of them."""
    explained = {one.trial.id: one for one in _explained(run)}
    by_place: dict[Any, dict[str, Case]] = defaultdict(dict)
    for method in REGIMES:
        attacks = [one for one in run.attacks if one.method == method]
        attacks.sort(key=lambda o: explained.keys().isdisjoint(t.id for t in o.cell.trials))
        for one in attacks:
            place = by_place[one.setting.asked]
            if method not in place and (cases := _cases_of([one], 1, explained)):
                place[method] = cases[0]

    def profiles_of(cases: Mapping[str, Case]) -> list[Explained]:
        ids = (case.trial.id for case in cases.values())
        return [explained[trial] for trial in ids if trial in explained]

    chosen: dict[str, Case] = max(
        by_place.values(), key=lambda cases: (len(profiles_of(cases)), len(cases)), default={}
    )
    if not chosen:
        raise Missing("no attack of PDWS succeeded")
    yield from _case_parts(run, [*chosen.values()], "figure5", profiles_of(chosen))


def _appendix_e(run: PaperRun) -> Iterator[Part]:
    """Yield up to three cases of every method in every setting."""
    groups: dict[Any, list[Competitor]] = defaultdict(list)
    for one in run.attacks:
        groups[one.setting, one.method].append(one)
    shown = _explained(run)
    explained = {one.trial.id for one in shown}
    cases = [case for members in groups.values() for case in _cases_of(members, 3, explained)]
    if not cases:
        raise Missing("no attack that puts in names succeeded")
    yield from _case_parts(run, cases, "appendix-e", shown[:MOST_PROFILES])


def _explained(run: PaperRun) -> list[Explained]:
    explained = run.run.of(EXPLANATIONS)
    every = () if explained is None else (*explained.cases, *explained.explained)
    return [*{one.trial.id: one for one in every if one.is_success}.values()]


def _cases_of(attacks: Iterable[Competitor], n: int, explained: Collection[str]) -> list[Case]:
    """Return the first cases, one an item: explained ones, then by a hash, doubtful ones last."""
    cases = [
        Case(one, trial)
        for one in attacks
        for trial in one.cell.trials
        if trial.verdict is Verdict.FLIPPED and trial.pick is not None and trial.pick.name
    ]
    by_item: dict[str, Case] = {}
    for case in sorted(cases, key=lambda case: (case.trial.id not in explained, case.rank)):
        by_item.setdefault(case.trial.item.hash, case)
    return list(by_item.values())[:n]


def _case_parts(
    run: PaperRun, cases: Sequence[Case], name: str, shown: Sequence[Explained]
) -> Iterator[Part]:
    explained = run.run.of(EXPLANATIONS)
    notes = [
        "Cases are chosen by a hash, explained ones first, not by how striking they are. A rule on "
        "names refutes a success or leaves it unknown; only people find one valid.",
    ]
    if not shown:
        notes.append("None of these is explained yet: medstress explain adds the Shapley profiles.")
    yield Tex(
        name=name,
        caption="Original options left, edited options right",
        body=cases_in_latex(cases),
        notes=tuple(notes),
    )
    if explained is None or not shown:
        return
    charts = replace(explained, cases=shown).charts()
    note = (
        "Owen values of the prompt's tokens for the option that was answered, before and after the "
        "edit; the darkest shade is the largest value of both prompts."
    )
    for i, chart in enumerate(charts, start=1):
        yield renamed(chart, f"{name}-profile-{i}", [note])
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
        Figure(
            "table1",
            "Table 1, success of one query",
            partial(_of_rates, budget=1, needs="needs random sampling or PDWS"),
        ),
        Figure(
            "table2",
            f"Table 2, success within {OF_TABLE_2} queries",
            partial(
                _of_rates,
                budget=OF_TABLE_2,
                needs=f"needs an attack with a budget of {OF_TABLE_2} or more",
            ),
        ),
        Figure("rcap", "Relative change in accuracy (first version, Tables 1 and 2)", _table_rcap),
        Figure("figure2", "Figure 2, the two regimes", _figure_2),
        Figure("figure3", "Figure 3, success against model size", _figure_3),
        Figure("figure4", "Figure 4, scaling with the budget", _figure_4),
        Figure("figure5", "Figure 5, one case per regime", _figure_5),
        Figure("appendix-e", "Appendix E, cases", _appendix_e),
        Figure("appendix-m", "Growth with the number of candidates M", _appendix_m),
        Figure("words", "Success by words replaced and inserted", _words),
        Figure("claims", "Claims of the paper, tested", _claims),
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One success."""

    attack: Competitor
    trial: Trial

    @property
    def rank(self) -> tuple[bool, bool, bytes]:
        """Order by a hash; those refuted and those that did not repeat come last."""
        pick = self.trial.pick
        assert pick is not None
        return pick.validity.valid is False, pick.repeats is False, digest(["case", self.trial.id])

    @property
    def title(self) -> str:
        """Attack, type of names, data set and model."""
        setting = self.attack.setting
        parts = (self.attack.words, setting.types, setting.place.dataset, setting.place.victim)
        return " · ".join(parts)

    @property
    def facts(self) -> str:
        """Item, seed, query, probabilities and validity."""
        trial, pick = self.trial, self.trial.pick
        assert pick is not None
        words = {True: "valid", False: "not valid", None: "validity unknown"}
        is_valid, reason = pick.validity[:2]
        valid = words[is_valid]
        if is_valid is not None and reason == REVIEW:
            valid += f" ({reason})"
        elif is_valid is False and pick.variant not in (None, "different"):
            valid += f" ({str(pick.variant).replace('_', ' ')} of the right answer)"
        seed = [] if trial.arm.seed is None else [f"seed {trial.arm.seed}"]
        parts = [f"item {trial.item.id}", *seed, f"query {pick.query}", valid]
        before, after = (_p_key(trial, a) for a in (trial.before, pick.answer))
        if before is not None:
            ends = f"{number(before, 'share')} → {number(after, 'share')}"
            parts.append(f"P(right answer) {ends}")
        if pick.repeats is False:
            parts.append("did not repeat when asked again alone")
        return ", ".join(parts)


def _p_key(trial: Trial, answer: Answer | None) -> float | None:
    if answer is None or answer.scores is None:
        return None
    return exp(answer.scores[trial.item.letters.index(trial.item.key)])


def cases_in_latex(cases: Iterable[Case]) -> str:
    """Return the cases as LaTeX figures, to put into a document with booktabs and xcolor."""
    return "\n".join(line for case in cases for line in _latex(case))


def _latex(case: Case) -> list[str]:
    trial, item = case.trial, case.trial.item
    pick = trial.pick
    assert pick is not None
    answers = (trial.before.answer if trial.before else None, pick.answer.answer)
    lines = [
        r"\begin{figure}",
        r"\footnotesize",
        rf"\textbf{{{escape(case.title)}}}\par",
        *([rf"\textbf{{Context}} {escape(item.context)}\par"] if item.context else []),
        rf"\textbf{{Question}} {escape(item.stem)}\par\smallskip",
        r"\begin{tabular}{@{}p{0.48\linewidth}p{0.48\linewidth}@{}}",
        r"\toprule",
        r"original & edited \\",
        r"\midrule",
    ]
    changed = item.changed(pick.edits)
    for letter, text, after in zip(item.letters, item.options, changed.options, strict=True):
        marked = mark_changes(text, after)
        sides = []
        for own, colour, answer in ((REMOVED, "red", answers[0]), (ADDED, "blue", answers[1])):
            shown = "".join(
                rf"\textcolor{{{colour}}}{{{_kept(part)}}}" if change == own else _kept(part)
                for change, part in marked
                if change in (SAME, own)
            )
            sides.append(f"{letter}: {shown}" + r" $\checkmark$" * (letter == answer))
        lines.append(" & ".join(sides) + r" \\")
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{escape(f'Right answer: {item.key}. {case.facts}.')}}}",
        r"\end{figure}",
        "",
    ]
    return lines


def _kept(text: str) -> str:
    """Escape a piece and keep the spaces at its ends, which join it to the next."""
    before, after = (" " * (text[i : i + 1].isspace()) for i in (0, len(text) - 1))
    return f"{before}{escape(text)}{after}" if text.strip() else " "
