"""Attacks as the papers' tables and claims group them, and the n that is chosen and reported.

The largest of several noisy rates lies above the true one. So n and DiscreteZOO's learning rate are
chosen on a fifth of the items and reported on the others; or, as published, chosen and reported on
the same items, which is said.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 4.3: grid search over n in [-50, 50].
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal, TypeAlias

from medstress.analyses.run import Analysis, Cell, Metric, Run
from medstress.analyses.shown import (
    HIDDEN,
    QUESTIONS,
    Entry,
    OfAttack,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    table,
)
from medstress.core.arms import Place
from medstress.core.hashing import canonical_json, digest
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate, unknown

METHODS: Mapping[str, str] = {
    "random": "RandS",
    "near": "PDWS n < 0",
    "far": "PDWS n > 0",
    "zero": "PDWS n = 0",
    "nearest": "B-nearest",
    "farthest": "B-farthest",
    "discrete_zoo": "DiscreteZOO",
}
"""Method -> the paper's name, in the order of tables."""
REGIMES = ("near", "far")
"""Methods whose n is chosen."""
EXPONENT, LEARNING_RATE = "n", "learning_rate"
"""Parameters that are chosen."""
FEW = 10
"""A choice on fewer eligible items is said in every table that uses it."""
SHARE = 0.2
"""Share of the items that choose."""
AS_PUBLISHED = "as_published"
RULES = (
    "choices",
    "variants",
    "victim_span",
    "field",
    "goal",
    "continue_on_invalid",
    "unreadable_is_success",
    "max_edit_distance",
    "similarity_threshold",
    "word_ranking",
)
"""Parameters in which attacks of one method may differ."""
EMBEDDINGS = {"GanjinZero/UMLSBert_ENG": "CODER", "thenlper/gte-base": "GTE-base"}
"""The paper's names of embeddings."""
Items: TypeAlias = frozenset[str]
"""Content hashes of items."""
NO_ITEMS: Items = frozenset()
Rule: TypeAlias = Literal["given", "tuned", "tuned before", "same items"]


def method_of(params: Mapping[str, Any]) -> str:
    """Return the method that an attack's parameters describe: a key of `METHODS`, or a name.

    >>> method_of({"name": "entity_substitution", "sampler": "pdws", "n": -20.0})
    'near'
    >>> method_of({"name": "discrete_zoo", "candidates": 3})
    'discrete_zoo'
    """
    sampler, n = params.get("sampler"), params.get("n")
    if params.get("name") != "entity_substitution":
        return str(params.get("name"))
    if sampler == "pdws" and n is not None:
        return "near" if n < 0 else "far" if n > 0 else "zero"
    return str(sampler)


def minus(n: float) -> str:
    """Write an exponent with a true minus sign.

    >>> minus(-20.0)
    '−20'
    """
    return f"{n:g}".replace("-", "−")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where an attack was run, and under which rules: attacks of one setting are comparable."""

    place: Place
    types: str
    """The type of the names, such as `drugs`; else the group."""
    embedding: str
    """What measures distances."""
    rule: str
    """Parameters in which attacks of one method differ; empty where they differ in none."""
    source: str
    """The kind of the data set, such as `medmcqa`."""
    prompt: str | None
    model: str | None
    """Path, hub name or file of the model; None where the experiment names none."""
    backend: str
    parameters: float | None
    victim_group: str | None
    """`generalist` or `specialist`."""

    @property
    def asked(self) -> tuple[str, str, str]:
        """Data set, type of names and model: what shares questions and clean answers."""
        return self.place.dataset, self.types, self.place.victim


@dataclass(frozen=True, slots=True, kw_only=True)
class Competitor:
    """One attack in one setting, over its seeds."""

    setting: Setting
    cell: Cell
    tuned: tuple[ChosenN, tuple[float, ...]] | None = None
    """How items that are not in the run chose its n, and what they tried."""

    @property
    def method(self) -> str:
        """A key of `METHODS`, or the name of the attack."""
        return method_of(self.cell.attack.params)

    @property
    def n(self) -> float | None:
        """The exponent of PDWS."""
        n = self.cell.attack.params.get(EXPONENT)
        return None if n is None else float(n)

    @property
    def label(self) -> str:
        """The label of the attack."""
        return self.cell.attack.label

    @property
    def words(self) -> str:
        """The paper's name of the attack, with its n."""
        return (
            METHODS.get(self.method, self.label) if self.n is None else f"PDWS n = {minus(self.n)}"
        )

    @property
    def budget(self) -> int:
        """Perturbed queries an item."""
        return self.cell.attack.budget

    @property
    def is_as_published(self) -> bool:
        """Whether it takes the paper's own rules."""
        return self.cell.attack.params.get("choices") == AS_PUBLISHED

    def share(self, budget: int, left_out: Items = NO_ITEMS) -> Estimate:
        """Estimate ASR within a budget on the items that are not left out."""
        return asr(without(self.cell, left_out), budget)


def told_apart(one: Competitor, others: Iterable[Competitor]) -> str:
    """Return the paper's name of an attack, with M where others share it, or else its label."""
    m_of = {o.label: o.cell.attack.params.get("candidates") for o in others if o.words == one.words}
    if len(m_of) < 2:
        return one.words
    is_told = len(set(m_of.values())) == len(m_of)
    return f"{one.words}, M = {m_of[one.label]}" if is_told else f"{one.words} ({one.label})"


def competitors(run: Run) -> list[Competitor]:
    """Return the judged attacks of a run, in its order; controls are left out."""
    manifest, victims = run.manifest, run.manifest["victims"]

    def tables(name: str, labels: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        return dict(zip(labels, manifest["config"].get(name, ()), strict=False))

    data, groups = tables("dataset", manifest["datasets"]), tables("entities", manifest["groups"])
    models, embeddings = tables("victim", victims), _embeddings(groups)

    def setting(place: Place, rule: str) -> Setting:
        types = groups.get(place.group, {}).get("type")
        table, stored = models.get(place.victim, {}), victims.get(place.victim) or {}
        size = stored.get("parameters", table.get("parameters"))
        tasks = {None: stored, **stored.get("by_dataset", {})}
        prompts = {name: one["prompt"]["name"] for name, one in tasks.items() if one.get("prompt")}
        return Setting(
            place=place,
            types=types if isinstance(types, str) else place.group,
            embedding=embeddings.get(place.group, ""),
            rule=rule,
            source=str(data.get(place.dataset, {}).get("name", "")),
            prompt=prompts.get(place.dataset, prompts.get(None)),
            model=table.get("model") or table.get("name"),
            backend=str(table.get("backend", "")),
            parameters=None if size is None else float(size),
            victim_group=table.get("group") or stored.get("group"),
        )

    cells = [c for c in run.attacks if c.attack.judged and not c.attack.asks_clean_only]
    # Parameters of the same name mean something else in probes.
    specs = [cell.attack.params for cell in cells]
    rules = _rules([spec if method_of(spec) in METHODS else {} for spec in specs])
    tuning = run.of(TUNING)
    return [
        Competitor(
            setting=setting(cell.place, rule),
            cell=cell,
            tuned=None if tuning is None else tuning.chosen_before(cell),
        )
        for cell, rule in zip(cells, rules, strict=True)
    ]


def by_setting(attacks: Iterable[Competitor]) -> dict[Setting, list[Competitor]]:
    """Group attacks by setting, in the order of their first attack."""
    groups: dict[Setting, list[Competitor]] = defaultdict(list)
    for one in attacks:
        groups[one.setting].append(one)
    return dict(groups)


def _embeddings(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the embedding of each group; groups of one type never share a name."""
    names = {}
    given = {str(group.get("embedding")) for group in groups.values()}
    n_of = Counter(map(_last, given))
    for label, group in groups.items():
        embedding, distance = str(group.get("embedding")), group.get("distance", "cosine")
        own = _last(embedding) if n_of[_last(embedding)] == 1 else embedding
        name = EMBEDDINGS.get(embedding, own)
        names[label] = name if distance == "cosine" else f"{name}, {distance}"
    kinds = [(canonical_json(groups[label].get("type")), name) for label, name in names.items()]
    return {
        label: name if kinds.count(kind) == 1 else f"{name} ({label})"
        for (label, name), kind in zip(names.items(), kinds, strict=True)
    }


def _last(embedding: str) -> str:
    """Return the last part of a path; the id of a hub is none."""
    is_path = embedding.startswith(("/", ".", "~")) or embedding.endswith((".txt", ".vec", ".gz"))
    return PurePath(embedding).name if is_path else embedding


def _rules(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return for each attack the parameters, besides method, n and budget, that tell them apart."""
    rules: list[dict[str, Any]] = [{} for _ in specs]
    for key in RULES:
        values: dict[str, set[str]] = defaultdict(set)
        for spec, rule in zip(specs, rules, strict=True):
            if key in spec:
                values[canonical_json(rule)].add(canonical_json(spec[key]))
        # A parameter that follows from those already named adds nothing.
        if any(len(different) > 1 for different in values.values()):
            for spec, rule in zip(specs, rules, strict=True):
                if key in spec:
                    rule[key] = spec[key]
    return [", ".join(f"{key} = {value}" for key, value in rule.items()) for rule in rules]


# Choosing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The n of one regime, or the learning rate of DiscreteZOO, and its success."""

    key: str
    """`EXPONENT` or `LEARNING_RATE`."""
    value: float
    tried: tuple[float, ...]
    """All values, ascending."""
    rule: Rule
    """`given` (one value), `tuned` on other items, `tuned before` the run on such, or chosen on the
    `same items`: optimistic."""
    chosen: Competitor
    estimate: Estimate
    """Success on the items that are reported."""
    tuning: Estimate | None
    """Success on the items that chose; None where nothing was chosen."""
    n_eligible: int | None
    """Items right on the clean prompt among those that chose."""

    @property
    def is_of_few(self) -> bool:
        """Whether too few items chose to tell the values apart."""
        return self.n_eligible is not None and self.n_eligible < FEW

    @property
    def symbol(self) -> str:
        """The paper's symbol of the parameter."""
        return "n" if self.key == EXPONENT else "λ"

    @property
    def on_few(self) -> str:
        """The sentence that says that few items chose."""
        place, types = self.chosen.setting.place, self.chosen.setting.types
        return chosen_on_few(place, types, self.n_eligible or 0, self.symbol)


def chosen_on_few(place: Place, types: str, n: int, symbol: str = "n") -> str:
    """Say that few items chose."""
    return (
        f"{place.victim} on {place.dataset}/{types}: {symbol} was chosen on {QUESTIONS.count(n)} "
        f"that the model knew, too few to tell values of {symbol} apart."
    )


def tuning_items(cells: Iterable[Cell]) -> Items:
    """Draw the items that choose: a share of those with a clean answer, by a hash.

    They are the same for every attack, seed and order; at least one item of two.
    """
    items = {t.item.hash for cell in cells for t in cell.trials if t.is_answered}
    ranked = sorted(items, key=lambda item: digest(["tune", item])[:8])
    return frozenset(ranked[: max(1, round(SHARE * len(ranked))) if len(ranked) > 1 else 0])


def without(cell: Cell | None, items: Collection[str]) -> Cell | None:
    """Return a cell without some items; None where nothing is left."""
    if not items or cell is None:
        return cell
    return cell.where(cell.mask(lambda trial: trial.item.hash not in items))


def asr(cell: Cell | None, budget: int, metric: Metric = "asr") -> Estimate:
    """Estimate ASR, or another share, within a budget; no value without a trial."""
    return unknown("no trial") if cell is None else cell.share(cell.read(metric, budget))


def choose(
    attacks: Iterable[Competitor],
    key: str,
    budget: int,
    split: Items,
) -> Choice | None:
    """Choose the value with the greatest success; ties go to the one nearest to 0.

    Args:
        attacks: of one setting, which differ in the parameter alone (or in budget: the largest
            counts).
        key: the parameter.
        budget: queries an item within which success counts.
        split: the items that choose; they are left out of what is reported. Without any, all items
            choose and are reported, as published.

    Returns:
        The choice; None without attacks. Of a single value nothing is chosen, but the items that
        choose elsewhere are left out all the same, so that all columns are of the same items.
    """
    by_value: dict[float, Competitor] = {}
    for one in sorted(attacks, key=lambda one: one.budget):
        by_value[float(one.cell.attack.params[key])] = one
    if not by_value:
        return None
    is_given = len(by_value) == 1
    chose = {
        v: c.cell.where(c.cell.mask(lambda t: t.item.hash in split)) if split else c.cell
        for v, c in by_value.items()
    }
    rates = {value: asr(cell, budget) for value, cell in chose.items()}
    best = min(rates, key=lambda v: (-(rates[v].value or 0.0), abs(v), v))
    eligible = {t.item.hash for c in chose.values() if c for t in c.trials if t.is_eligible}
    made = Choice(
        key=key,
        value=best,
        tried=tuple(sorted(by_value)),
        rule="given" if is_given else "tuned" if split else "same items",
        chosen=by_value[best],
        estimate=by_value[best].share(budget, split),
        tuning=None if is_given else rates[best],
        n_eligible=None if is_given else len(eligible),
    )
    if made.chosen.tuned is None or not is_given:
        return made
    before, tried = made.chosen.tuned
    rate = before.tuned_on
    is_same = before.template["budget"] == budget
    return replace(
        made,
        tried=tried,
        rule="tuned before",
        tuning=rate.estimate if is_same else None,
        n_eligible=rate.n_eligible,
    )


def zoo_searches(attacks: Iterable[Competitor]) -> list[list[Competitor]]:
    """Group the attacks of DiscreteZOO; those that differ only in the learning rate are one."""
    groups: dict[str, list[Competitor]] = defaultdict(list)
    for one in attacks:
        if one.method == "discrete_zoo":
            params = one.cell.attack.params
            rest = {name: value for name, value in params.items() if name != LEARNING_RATE}
            groups[canonical_json(rest) if LEARNING_RATE in params else one.label].append(one)
    return list(groups.values())


def has_learning_rate(one: Competitor) -> bool:
    """Return whether the learning rate matters: answers alone give no gradient."""
    params = one.cell.attack.params
    return LEARNING_RATE in params and params.get("answers") != "hard"


# Success of every method in one setting --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """One line of a table: accuracy, and success within a budget by method, on the same items."""

    setting: Setting
    budget: int
    clean: Cell
    """The reported items, one trial each."""
    columns: Mapping[str, Competitor]
    """Method -> the attack that represents it; its label where several share the method."""
    asr: Mapping[str, Estimate]
    accuracy_after: Mapping[str, Estimate]
    choices: Mapping[str, Choice]
    left_out: Items
    """The items that chose, here or in another line of the same questions."""

    @property
    def accuracy(self) -> Estimate:
        """Accuracy on the reported items."""
        return self.clean.share(self.clean.read("accuracy"))

    @property
    def seeds(self) -> set[int]:
        """Seeds of the attacks that draw."""
        return {s for one in self.columns.values() for s in one.cell.seeds if s is not None}


def rates_of(
    attacks: Sequence[Competitor], budget: int, *, as_published: bool = False
) -> list[Rates]:
    """Compute the lines of a table of success within a budget.

    Items that choose in one line are left out of every line on the same questions and model:
    accuracy, random sampling and attacks under other rules included.

    Args:
        attacks: of a run.
        budget: perturbed queries an item; attacks with a smaller one are left out.
        as_published: choose on all items and report on the same.
    """
    settings = by_setting(one for one in attacks if one.budget >= budget)
    splits: dict[tuple[str, str, str], Items] = {}
    if not as_published:
        for setting, members in settings.items():
            if any(len(group) > 1 for group in _groups(members).values()):
                same = [
                    m.cell for s, ms in settings.items() if s.asked == setting.asked for m in ms
                ]
                splits[setting.asked] = tuning_items(same)
    lines = (
        _rates(setting, members, budget, splits.get(setting.asked, NO_ITEMS))
        for setting, members in settings.items()
    )
    return [line for line in lines if line is not None]


def _rates(
    setting: Setting, members: Sequence[Competitor], budget: int, split: Items
) -> Rates | None:
    clean = without(Cell.of([t for one in members for t in one.cell.trials]), split)
    if clean is None:
        return None
    groups = _groups(members)
    choices = {
        name: choice
        for name, group in groups.items()
        for key in (EXPONENT if name in REGIMES else LEARNING_RATE,)
        if (choice := choose(group, key, budget, split))
    }
    grouped = {one.label for group in groups.values() for one in group}
    nearest: dict[str, Competitor] = {}
    # Of arms that differ in the budget alone, the one whose budget is nearest to the table's.
    for one in sorted(members, key=lambda one: one.budget, reverse=True):
        if one.label not in grouped:
            nearest[canonical_json({**one.cell.attack.params, "budget": None})] = one
    several = [one.method for one in nearest.values()]
    columns = {
        (one.method if several.count(one.method) == 1 else one.label): one
        for one in nearest.values()
    } | {name: choice.chosen for name, choice in choices.items()}
    order = [*(m for m in METHODS if m in columns), *sorted(set(columns) - set(METHODS))]
    after = {name: without(columns[name].cell, split) for name in order}
    return Rates(
        setting=setting,
        budget=budget,
        clean=clean.one_per_item(),
        columns={name: columns[name] for name in order},
        asr={name: asr(after[name], budget) for name in order},
        accuracy_after={name: asr(after[name], budget, "accuracy_after") for name in order},
        choices=choices,
        left_out=split,
    )


def _groups(attacks: Sequence[Competitor]) -> dict[str, list[Competitor]]:
    """Return the columns whose parameter may be chosen, and the attacks to choose from."""
    groups = {name: [one for one in attacks if one.method == name] for name in REGIMES}
    searches = zoo_searches(attacks)
    for members in searches:
        if has_learning_rate(members[0]):
            groups[members[0].method if len(searches) == 1 else members[0].label] = members
    return groups


def has_choice(rates: Iterable[Rates]) -> bool:
    """Return whether something was chosen in one of the lines, on the items that it reports."""
    return any(choice.rule == "same items" for line in rates for choice in line.choices.values())


def choice_notes(rates: Iterable[Rates]) -> list[str]:
    """Say how n and learning rates were chosen, and where few items chose."""
    choices = [choice for line in rates for choice in line.choices.values()]
    rules: dict[str, set[Rule]] = defaultdict(set)
    for choice in choices:
        rules["n" if choice.key == EXPONENT else "DiscreteZOO's learning rate λ"].add(choice.rule)
    sentences = []
    for name, kinds in sorted(rules.items()):
        if "tuned" in kinds:
            sentences.append(
                f"{name} was chosen on {SHARE:.0%} of the items (drawn by a hash of the item); all "
                "numbers here are of the others."
            )
        if "tuned before" in kinds:
            sentences.append(f"{name} was chosen on other items before the run (medstress tune).")
        if "same items" in kinds:
            sentences.append(
                f"{name} is the best of its grid on the same items that are reported, as in the "
                "paper: optimistic."
            )
        if "given" in kinds:
            where = "" if len(kinds) == 1 else "Where there is one value, "
            sentences.append(f"{where}{name} was given, not chosen.")
    # What was tuned before is said below every table: `notes_on`.
    few = dict.fromkeys(c.on_few for c in choices if c.is_of_few and c.rule != "tuned before")
    return [*sentences, *few]


# Tuning ----------------------------------------------------------------------------------------
#
# `medstress tune` tries every n on a split and reports the best of either sign on the other items,
# because the rate at the chosen n is optimistic on the items that chose it.

REPORT, TUNING_SPLIT, SAME_ITEMS = "report", "tuning", "same_items"
"""The parts that a tuned run can be: of the items that did not choose n, of those that did, or of
all items, which chose n and are reported."""
NEAR, FAR = "n < 0", "n > 0"
SIGNS = (NEAR, FAR)
RULE = "largest asr over the grid, within each regime; ties: the smaller |n|"
Template: TypeAlias = Mapping[str, Any]
"""An attack's parameters without n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """One value of n."""

    n: float
    attack: str
    """Label of the attack with this n."""
    estimate: Estimate
    """ASR over seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid(OfAttack):
    """All values of n of one attack in one place, by ascending n."""

    """The label without n."""
    template: Template
    n_items: int
    """Items asked."""
    n_eligible: int
    """Items right on the clean prompt."""
    points: Sequence[GridPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """ASR at the chosen n, and the items behind it."""

    n_items: int
    n_eligible: int
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenN(OfAttack):
    """The n that was chosen in one place and regime."""

    template: Template
    regime: str
    """`n < 0`, names near the right answer, or `n > 0`, names far from it."""
    n: float
    tuned_on: Rate
    reported_on: Rate | None
    """None where no other items are attacked."""

    @property
    def is_of_few(self) -> bool:
        """Whether too few items chose n to tell values of n apart."""
        return self.tuned_on.n_eligible < FEW

    @property
    def on_few(self) -> str:
        """The sentence that says so."""
        return chosen_on_few(self.place, self.group, self.tuned_on.n_eligible)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a tuning split hands to the report, which keeps it in its manifest (`as_json`)."""

    grids: Sequence[Grid]
    choices: Sequence[ChosenN]

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Chosen:
        """Return it from JSON."""
        from pydantic import TypeAdapter

        parts = {name: stored[name] for name in ("grids", "choices")}
        return TypeAdapter(cls).validate_python(parts)


def regime_of(n: float) -> str | None:
    """Return the regime of an exponent; 0 belongs to neither.

    >>> regime_of(-5.0), regime_of(0.0), regime_of(5.0)
    ('n < 0', None, 'n > 0')
    """
    return NEAR if n < 0 else FAR if n > 0 else None


def has_n(params: Mapping[str, Any]) -> bool:
    """Return whether an attack draws with an exponent n."""
    return params.get("sampler") == "pdws"


def template_of(params: Mapping[str, Any], budget: int | None = None) -> str:
    """Return an attack's parameters without n, as canonical JSON.

    Args:
        params: the attack's.
        budget: replaces the attack's, where tuning has its own.

    >>> template_of({"sampler": "pdws", "n": -5.0, "budget": 8}, budget=1)
    '{"budget":1,"sampler":"pdws"}'
    """
    return canonical_json(_template(params, budget))


def _template(params: Mapping[str, Any], budget: int | None = None) -> dict[str, Any]:
    shared = {key: value for key, value in params.items() if key != "n"}
    return shared if budget is None else {**shared, "budget": budget}


def grids_of(cells: Iterable[Cell]) -> list[Grid]:
    """Return the grids of attacks that differ in n alone; attacks without n are left out."""
    by_grid: dict[tuple[Place, str], dict[float, list[Trial]]] = defaultdict(dict)
    for cell in cells:
        if has_n(cell.attack.params):
            by_n = by_grid[cell.place, template_of(cell.attack.params)]
            by_n.setdefault(float(cell.attack.params["n"]), []).extend(cell.trials)
    return [_grid(by_grid[key]) for key in sorted(by_grid)]


def _grid(by_n: Mapping[float, Sequence[Trial]]) -> Grid:
    cells = {n: Cell.of(by_n[n]) for n in sorted(by_n)}
    first_n, first = next(iter(cells.items()))
    every = Cell.of([trial for cell in cells.values() for trial in cell.trials])
    return Grid(
        **first.place._asdict(),
        attack=first.attack.label.replace(f" n={first_n:g}", "", 1),
        template=_template(first.attack.params),
        n_items=every.items(every.answered),
        n_eligible=every.items(every.eligible),
        points=[
            GridPoint(n=n, attack=cell.attack.label, estimate=cell.share(cell.read("asr")))
            for n, cell in cells.items()
        ],
    )


def best_points(points: Iterable[GridPoint]) -> dict[str, GridPoint]:
    """Choose the best n of each regime: the largest value; of equals the smaller |n|.

    A regime without a point, or without an eligible trial, has none.

    >>> from medstress.stats.estimate import wilson
    >>> def at(n, hits): return GridPoint(n=n, attack="", estimate=wilson(hits, 10))
    >>> {k: p.n for k, p in best_points([at(-9.0, 5), at(-5.0, 5), at(0.0, 9), at(5.0, 1)]).items()}
    {'n < 0': -5.0, 'n > 0': 5.0}
    """
    asked = [point for point in points if point.estimate.value is not None]
    best: dict[str, GridPoint] = {}
    for point in sorted(asked, key=lambda one: (-(one.estimate.value or 0.0), abs(one.n))):
        if (regime := regime_of(point.n)) is not None:
            best.setdefault(regime, point)
    return {regime: best[regime] for regime in SIGNS if regime in best}


def choices_of(grids: Iterable[Grid]) -> list[ChosenN]:
    """Return the best n of every grid and regime, not reported on other items yet."""
    return [
        ChosenN(
            **grid.place._asdict(),
            attack=grid.attack,
            template=grid.template,
            regime=regime,
            n=point.n,
            tuned_on=Rate(
                n_items=grid.n_items, n_eligible=grid.n_eligible, estimate=point.estimate
            ),
            reported_on=None,
        )
        for grid in grids
        for regime, point in best_points(grid.points).items()
    ]


def places_without_n(grids: Iterable[Grid]) -> dict[Place, int]:
    """Return the places where a model was asked and had no item right -> items asked."""
    asked = [grid for grid in grids if grid.n_items]
    eligible = {grid.place for grid in asked if grid.n_eligible}
    return {grid.place: grid.n_items for grid in asked if grid.place not in eligible}


def _resting_on(
    choices: Iterable[ChosenN], cells: Iterable[Cell], budget: int | None
) -> dict[tuple[Place, str], ChosenN]:
    """Return place and label of an attack -> the choice of its n."""
    by_n = {(one.place, canonical_json(one.template), one.n): one for one in choices}
    keys = {
        (cell.place, cell.attack.label): (cell.place, template_of(params, budget), params["n"])
        for cell in cells
        if has_n(params := cell.attack.params)
    }
    return {attack: by_n[key] for attack, key in keys.items() if key in by_n}


def _reported(choice: ChosenN, cells: Sequence[Cell]) -> list[ChosenN]:
    """Return a choice with its rate on the report's items, once for each attack with its n."""
    budget = int(choice.template["budget"])
    rates = {
        cell.attack.label: Rate(
            n_items=cell.items(cell.answered),
            n_eligible=cell.items(cell.eligible),
            estimate=cell.share(cell.read("asr", budget)),
        )
        for cell in cells
    }
    made = [replace(choice, attack=label, reported_on=rate) for label, rate in rates.items()]
    return made or [choice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning(Shown):
    """What was tried and what was chosen."""

    part: str
    """`report`, `tuning` or `same_items`."""
    settings: Mapping[str, Any]
    """`[tune]`."""
    rule: str
    optimistic: bool
    """Whether the reported items chose n."""
    grids: Sequence[Grid]
    choices: Sequence[ChosenN]
    """None before the run has ended: trials that end early are over-represented."""
    cells: Mapping[tuple[Place, str], ChosenN] = field(metadata=HIDDEN, default_factory=dict)
    """Place and label of an attack -> the choice that it rests on."""
    title = "Tuning"
    is_brief = True

    def notes(self, cells: Iterable[Cell]) -> list[str]:
        """Return what a table of some attacks has to say of how their n was chosen."""
        rests_on = [
            self.cells[key]
            for cell in cells
            if (key := (cell.place, cell.arm.control_of or cell.attack.label)) in self.cells
        ]
        return list(dict.fromkeys(one.on_few for one in rests_on if one.is_of_few))

    def chosen_before(self, cell: Cell) -> tuple[ChosenN, tuple[float, ...]] | None:
        """Return how items that are not in the run chose an attack's n, and what they tried."""
        own = self.cells.get((cell.place, cell.attack.label))
        if own is None or self.part != REPORT:
            return None
        key = own.place, canonical_json(own.template)
        grids = (grid for grid in self.grids if (grid.place, canonical_json(grid.template)) == key)
        points = (point.n for grid in grids for point in grid.points)
        tried = tuple(n for n in points if regime_of(n) == own.regime)
        return (own, tried) if len(tried) > 1 else None

    def tables(self) -> Sequence[Table]:
        """The choices, then every n that was tried."""
        notes = [
            f"Rule: {self.rule}.",
            "n was chosen on the reported questions themselves, so the rates at the chosen n are "
            "optimistic."
            if self.optimistic
            else f"A question chooses n with probability {self.settings['share']:g}, by a hash of "
            "its text.",
            *dict.fromkeys(one.on_few for one in self.choices if one.is_of_few),
        ]
        chosen = {
            (c.place, canonical_json(c.template), c.n): f"best {c.regime}" for c in self.choices
        }
        tried = [
            (grid, point, chosen.get((grid.place, canonical_json(grid.template), point.n)))
            for grid in self.grids
            for point in grid.points
        ]
        best = "The chosen n, on the questions that chose it and on the others"
        every = "Every n that was tried, on the questions that chose it"
        return [
            table("tuning", best, self.choices, _CHOICES, n_labels=4, notes=notes),
            table("tuning-grid", every, tried, _GRID),
        ]

    def remarks(self) -> Iterator[Remark]:
        """What makes a rate optimistic, what was left out, and choices on few items."""
        n = sum(1 for value in self.settings["grid"] if value)
        if self.part == SAME_ITEMS:
            sentence = (
                f"n is the best of {n} values on the same questions whose rates are reported, so "
                "the rate at the chosen n is optimistic. Set share = 0.2 in [tune] to report on "
                "other questions."
            )
            yield Remark("tuned_on_reported", sentence)
        if self.part == TUNING_SPLIT:
            sentence = (
                f"These questions are the tuning split: their rates choose one of {n} values of n, "
                "so they are optimistic. The result is in the parent folder."
            )
            yield Remark("tuning_split", sentence)
        for place, items in places_without_n(self.grids if self.part == REPORT else ()).items():
            sentence = (
                f"{place.victim} on {place.dataset}/{place.group} answered none of the {items:,} "
                "tuning questions correctly, so no n can be chosen and it is left out here. Tune "
                "again with more questions or a larger share in [tune]."
            )
            yield Remark("left_out", sentence, place)


def tuning_of(run: Run) -> Tuning | None:
    """Read the choice from the manifest, or make it from the grid; None without tuning."""
    notes = run.manifest.get("tuning")
    if notes is None:
        return None
    settings, is_report = notes["settings"], notes["part"] == REPORT
    if is_report:
        stored = Chosen.read(notes)
        grids, choices = stored.grids, list(stored.choices)
    else:
        grids = grids_of(run.attacks)
        choices = choices_of(grids) if run.is_complete else []
    rests = _resting_on(choices, run.attacks, settings.get("budget"))
    if is_report:
        at = [(rests.get((cell.place, cell.attack.label)), cell) for cell in run.attacks]
        choices = [
            row
            for choice in choices
            for row in _reported(choice, [cell for own, cell in at if own is choice])
        ]
    return Tuning(
        part=notes["part"],
        settings=settings,
        rule=notes["rule"],
        optimistic=notes["optimistic"],
        grids=grids,
        choices=choices,
        cells=rests,
    )


TUNING = Analysis("tuning", tuning_of)


def notes_on(run: Run, cells: Iterable[Cell]) -> list[str]:
    """Return what any table of some attacks has to say of how their n was chosen."""
    tuning = run.of(TUNING)
    return [] if tuning is None else tuning.notes(cells)


def _eligible(one: ChosenN) -> Entry:
    return Entry(value=one.tuned_on.n_eligible, lines=("too few",) if one.is_of_few else ())


_CHOICES = (
    *attack_labels(),
    column("Regime", "regime", wide=True),
    column("n", "n", "number"),
    column("Items tuned on", "tuned_on.n_items", "count", wide=True),
    column("Eligible", _eligible, "count", key="n_eligible"),
    column("Lost there (optimistic)", "tuned_on.estimate", "share"),
    column("Other items", "reported_on.n_items", "count", key="other_n_items", wide=True),
    column("Eligible there", "reported_on.n_eligible", "count", key="other_eligible", wide=True),
    column("Lost on the others", "reported_on.estimate", "share", key="other_estimate"),
)
_GRID = (
    *attack_labels("0"),
    column("n", "1.n", "number"),
    column("Lost", "1.estimate", "share", key="asr"),
    column("Eligible", "0.n_eligible", "count"),
    column("Chosen", "2", key="chosen"),
)
