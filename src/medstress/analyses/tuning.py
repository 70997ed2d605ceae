"""How the exponent n of a sampler was chosen: what was tried, on how many items, with what result.

The largest of several noisy rates lies above the true one, so the rate at the chosen n is
optimistic on the items that chose it. `medstress tune` reports it on other items.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, Table 1: the best n of either sign.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from medstress.analyses.choice import FEW, chosen_on_few
from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.shown import (
    HIDDEN,
    Entry,
    Field,
    OfAttack,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    table,
)
from medstress.core.arms import Place
from medstress.core.hashing import canonical_json
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate

REPORT, TUNING_SPLIT, SAME_ITEMS = "report", "tuning", "same_items"
"""The parts that a tuned run can be: of the items that did not choose n, of those that did, or of
all items, which chose n and are reported."""
NEAR, FAR = "n < 0", "n > 0"
REGIMES = (NEAR, FAR)
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
class Choice(OfAttack):
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
    choices: Sequence[Choice]

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


def choose(points: Iterable[GridPoint]) -> dict[str, GridPoint]:
    """Choose the best n of each regime: the largest value; of equals the smaller |n|.

    A regime without a point, or without an eligible trial, has none.

    >>> from medstress.stats.estimate import wilson
    >>> def at(n, hits): return GridPoint(n=n, attack="", estimate=wilson(hits, 10))
    >>> {k: p.n for k, p in choose([at(-9.0, 5), at(-5.0, 5), at(0.0, 9), at(5.0, 1)]).items()}
    {'n < 0': -5.0, 'n > 0': 5.0}
    """
    chosen: dict[str, tuple[float, GridPoint]] = {}
    for point in sorted(points, key=lambda one: abs(one.n)):
        regime, value = regime_of(point.n), point.estimate.value
        if regime is None or value is None:
            continue
        if regime not in chosen or value > chosen[regime][0]:
            chosen[regime] = value, point
    return {regime: chosen[regime][1] for regime in REGIMES if regime in chosen}


def choices_of(grids: Iterable[Grid]) -> list[Choice]:
    """Return the best n of every grid and regime, not reported on other items yet."""
    return [
        Choice(
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
        for regime, point in choose(grid.points).items()
    ]


def places_without_n(grids: Iterable[Grid]) -> dict[Place, int]:
    """Return the places where a model was asked and had no item right -> items asked."""
    asked = [grid for grid in grids if grid.n_items]
    eligible = {grid.place for grid in asked if grid.n_eligible}
    return {grid.place: grid.n_items for grid in asked if grid.place not in eligible}


def _resting_on(
    choices: Iterable[Choice], cells: Iterable[Cell], budget: int | None
) -> dict[tuple[Place, str], Choice]:
    """Return place and label of an attack -> the choice of its n."""
    by_n = {(one.place, canonical_json(one.template), one.n): one for one in choices}
    keys = {
        (cell.place, cell.attack.label): (cell.place, template_of(params, budget), params["n"])
        for cell in cells
        if has_n(params := cell.attack.params)
    }
    return {attack: by_n[key] for attack, key in keys.items() if key in by_n}


def _reported(choice: Choice, cells: Sequence[Cell]) -> list[Choice]:
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
    choices: Sequence[Choice]
    """None before the run has ended: trials that end early are over-represented."""
    cells: Mapping[tuple[Place, str], Choice] = field(metadata=HIDDEN, default_factory=dict)
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
                "tuning questions correctly, so no n can be chosen and it is left out here. Add "
                "questions, raise share in [tune], or remove the model."
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
        by_choice: dict[int, list[Cell]] = defaultdict(list)
        for cell in run.attacks:
            by_choice[id(rests.get((cell.place, cell.attack.label)))].append(cell)
        choices = [row for one in choices for row in _reported(one, by_choice[id(one)])]
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


def _eligible(one: Choice) -> Entry:
    return Entry(value=one.tuned_on.n_eligible, lines=("too few",) if one.is_of_few else ())


_CHOICES: Sequence[Field[Choice]] = (
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
_GRID: Sequence[Field[tuple[Grid, GridPoint, str | None]]] = (
    *attack_labels("0"),
    column("n", "1.n", "number"),
    column("Lost", "1.estimate", "share", key="asr"),
    column("Eligible", "0.n_eligible", "count"),
    column("Chosen", "2", key="chosen"),
)
