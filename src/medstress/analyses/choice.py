"""Attacks as the papers' tables and claims group them, and the n that a table reports.

The largest of several noisy rates lies above the true one. So n and DiscreteZOO's learning rate are
chosen on a fifth of the items and reported on the others; or, as published, chosen and reported on
the same items, which is said.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 4.3: grid search over n in [-50, 50].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from medstress.analyses.names import QUESTIONS
from medstress.analyses.run import Cell, Run
from medstress.core.arms import Place
from medstress.core.hashing import canonical_json, digest
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
Rule: TypeAlias = Literal["given", "tuned", "same items"]


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


def competitors(run: Run) -> list[Competitor]:
    """Return the judged attacks of a run, in its order; controls are left out."""
    cells = [c for c in run.attacks if c.attack.judged and not c.attack.asks_clean_only]
    facts = _Facts(run.manifest)
    # Parameters of the same name mean something else in probes.
    specs = [cell.attack.params for cell in cells]
    rules = _rules([spec if method_of(spec) in METHODS else {} for spec in specs])
    return [
        Competitor(setting=facts.setting(cell.place, rule), cell=cell)
        for cell, rule in zip(cells, rules, strict=True)
    ]


def by_setting(attacks: Iterable[Competitor]) -> dict[Setting, list[Competitor]]:
    """Group attacks by setting, in the order of their first attack."""
    groups: dict[Setting, list[Competitor]] = defaultdict(list)
    for one in attacks:
        groups[one.setting].append(one)
    return dict(groups)


class _Facts:
    """What a manifest says of data sets, groups and models."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        config = manifest["config"]
        data, groups = config.get("dataset", ()), config.get("entities", ())
        self.sources = {
            label: str(table.get("name"))
            for label, table in zip(manifest["datasets"], data, strict=False)
        }
        self.groups = dict(zip(manifest["groups"], groups, strict=False))
        self.embeddings = _embeddings(self.groups)
        self.stored = manifest["victims"]
        self.victims = dict(zip(self.stored, config.get("victim", ()), strict=False))

    def setting(self, place: Place, rule: str) -> Setting:
        types = self.groups.get(place.group, {}).get("type")
        table, stored = self.victims.get(place.victim, {}), self.stored.get(place.victim) or {}
        size = stored.get("parameters", table.get("parameters"))
        tasks = {None: stored, **stored.get("by_dataset", {})}
        prompts = {name: one["prompt"]["name"] for name, one in tasks.items() if one.get("prompt")}
        return Setting(
            place=place,
            types=types if isinstance(types, str) else place.group,
            embedding=self.embeddings.get(place.group, ""),
            rule=rule,
            source=self.sources.get(place.dataset, ""),
            prompt=prompts.get(place.dataset, prompts.get(None)),
            model=table.get("model") or table.get("name"),
            backend=str(table.get("backend", "")),
            parameters=None if size is None else float(size),
            victim_group=table.get("group") or stored.get("group"),
        )


def _embeddings(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the embedding of each group; groups of one type never share a name."""
    names = {}
    for label, table in groups.items():
        embedding, distance = str(table.get("embedding")), table.get("distance", "cosine")
        name = EMBEDDINGS.get(embedding, embedding)
        names[label] = name if distance == "cosine" else f"{name}, {distance}"
    kinds = [(canonical_json(groups[label].get("type")), name) for label, name in names.items()]
    return {
        label: name if kinds.count(kind) == 1 else f"{name} ({label})"
        for (label, name), kind in zip(names.items(), kinds, strict=True)
    }


def _rules(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return for each attack the parameters, beside method, n and budget, that tell them apart."""
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
    """`given` (one value), `tuned` on other items, or chosen on the `same items`: optimistic."""
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


def tuning_items(cells: Iterable[Cell], share: float = SHARE) -> Items:
    """Draw the items that choose: a share of those with a clean answer, by a hash.

    They are the same for every attack, seed and order; at least one item of two.
    """
    items = {t.item.hash for cell in cells for t in cell.trials if t.is_answered}
    ranked = sorted(items, key=lambda item: digest(["tune", item])[:8])
    return frozenset(ranked[: max(1, round(share * len(ranked))) if len(ranked) > 1 else 0])


def _among(cell: Cell, items: Collection[str]) -> Cell | None:
    """Return a cell with some items alone; None where nothing is left."""
    return cell.where(cell.mask(lambda trial: trial.item.hash in items))


def without(cell: Cell | None, items: Collection[str]) -> Cell | None:
    """Return a cell without some items; None where nothing is left."""
    if not items or cell is None:
        return cell
    return cell.where(cell.mask(lambda trial: trial.item.hash not in items))


def asr(cell: Cell | None, budget: int) -> Estimate:
    """Estimate ASR within a budget; no value without a trial."""
    return unknown("no trial") if cell is None else cell.share(cell.read("asr", budget))


def choose(
    attacks: Iterable[Competitor],
    key: str,
    budget: int,
    split: Items,
    *,
    as_published: bool = False,
) -> Choice | None:
    """Choose the value with the greatest success; ties go to the one nearest to 0.

    Args:
        attacks: of one setting, which differ in the parameter alone (or in budget: the largest
            counts).
        key: the parameter.
        budget: queries an item within which success counts.
        split: the items that choose; they are left out of what is reported.
        as_published: choose and report on the same items, all of them.

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
    chose = {v: c.cell if as_published else _among(c.cell, split) for v, c in by_value.items()}
    rates = {value: asr(cell, budget) for value, cell in chose.items()}
    best = min(rates, key=lambda v: (-(rates[v].value or 0.0), abs(v), v))
    eligible = {t.item.hash for c in chose.values() if c for t in c.trials if t.is_eligible}
    return Choice(
        key=key,
        value=best,
        tried=tuple(sorted(by_value)),
        rule="given" if is_given else "same items" if as_published else "tuned",
        chosen=by_value[best],
        estimate=by_value[best].share(budget, NO_ITEMS if as_published else split),
        tuning=None if is_given else rates[best],
        n_eligible=None if is_given else len(eligible),
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
    """Method -> the attack that stands for it; its label where several share the method."""
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
    def n_items(self) -> int:
        """Reported items with a clean answer."""
        return int(self.clean.answered.sum())

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
        _rates(setting, members, budget, splits.get(setting.asked, NO_ITEMS), as_published)
        for setting, members in settings.items()
    )
    return [line for line in lines if line is not None]


def _rates(
    setting: Setting, members: Sequence[Competitor], budget: int, split: Items, as_published: bool
) -> Rates | None:
    clean = without(Cell.of([t for one in members for t in one.cell.trials]), split)
    if clean is None:
        return None
    groups = _groups(members)
    choices = {
        name: choice
        for name, group in groups.items()
        if (
            choice := choose(
                group,
                EXPONENT if name in REGIMES else LEARNING_RATE,
                budget,
                split,
                as_published=as_published,
            )
        )
    }
    grouped = {one.label for group in groups.values() for one in group}
    several = [one.method for one in members]
    columns = {
        (one.method if several.count(one.method) == 1 else one.label): one
        for one in members
        if one.label not in grouped
    } | {name: choice.chosen for name, choice in choices.items()}
    order = [*(m for m in METHODS if m in columns), *sorted(set(columns) - set(METHODS))]
    after = {name: without(columns[name].cell, split) for name in order}
    return Rates(
        setting=setting,
        budget=budget,
        clean=clean.one_per_item(),
        columns={name: columns[name] for name in order},
        asr={name: asr(after[name], budget) for name in order},
        accuracy_after={
            name: unknown("no trial")
            if cell is None
            else cell.share(cell.read("accuracy_after", budget))
            for name, cell in after.items()
        },
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
    """Return whether something was chosen in one of the lines."""
    return any(choice.rule != "given" for line in rates for choice in line.choices.values())


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
                f"{name} was chosen on {SHARE:.0%} of the items (drawn by a hash of the item), "
                "which no number here is of."
            )
        if "same items" in kinds:
            sentences.append(
                f"{name} is the best of its grid on the same items that are reported, as in the "
                "paper: optimistic."
            )
        if "given" in kinds:
            where = "" if len(kinds) == 1 else "Where there is one value, "
            sentences.append(f"{where}{name} was given, not chosen.")
    few = dict.fromkeys(choice.on_few for choice in choices if choice.is_of_few)
    return [*sentences, *few]
