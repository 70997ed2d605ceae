"""Choose the exponent n on some of the items, then report on the rest: split, grid, run, run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from medstress.analyses.choice import (
    REPORT,
    RULE,
    SAME_ITEMS,
    TUNING,
    TUNING_SPLIT,
    Chosen,
    ChosenN,
    Tuning,
    has_n,
    places_without_n,
    regime_of,
    template_of,
)
from medstress.analyses.run import Run
from medstress.analyses.shown import as_json
from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.protocol import attack_class, make_attack
from medstress.core.arms import Place
from medstress.core.errors import StoreError, UsageError, another_folder, setting
from medstress.core.hashing import digest
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.writing import write_text
from medstress.engine.progress import Watcher
from medstress.experiment import config
from medstress.experiment.arms import AttackPart
from medstress.experiment.dry_run import DryRun, dry_run
from medstress.experiment.manifest import RUN, Wish
from medstress.experiment.plan import Portion, Prepared, Usage
from medstress.experiment.prepare import prepare
from medstress.experiment.reading import Source
from medstress.experiment.run import (
    Outcome,
    check_may_be_deleted,
    execute,
    locked,
    run_folder,
    with_models,
)
from medstress.store.database import FILE, translated
from medstress.store.reader import stored_manifest
from medstress.store.run_store import throw_away

MIN_ITEMS = 5
"""Fewest attackable items on each side of the split; with fewer, one item moves a rate by 0.2."""
SPLIT_FOLDER = "tuning"
RESULT_FILE = "tune.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPlan:
    """An experiment whose attacks have every n of the grid."""

    prepared: Prepared
    """All attacks over all items."""
    table: config.Tune
    """The table `[tune]`."""
    controls: tuple[AttackPart, ...] = ()
    """Control arms of the report; n is chosen by ASR alone."""

    @property
    def same_items(self) -> bool:
        """True if n is chosen on the items that are reported."""
        return self.table.share == 1

    def is_tuned_on(self, item: Question) -> bool:
        """Return whether n is chosen on this item.

        Only the question's text decides. So victims, groups and values of `limit` agree, a larger
        share contains a smaller one, and a repeated question, even with reordered options, lies
        on one side.
        """
        text = [self.table.sample_seed, item.context, item.stem, sorted(item.options)]
        position = int.from_bytes(digest(["tune", *text])[:8], "big") / 2**64
        return position < self.table.share

    def with_controls(self, attacks: Iterable[AttackPart]) -> list[AttackPart]:
        """Return attacks of the report with their control arms."""
        shown = list(attacks)
        specs = [part.attack.spec() for part in shown]
        arms = (part for part in self.controls if part.attack.spec()["control_of"] in specs)
        return [*shown, *arms]

    def point(self, attack: Any) -> tuple[str, float]:
        """Return what the attacks of one grid share, at the budget of tuning, and this one's n."""
        return template_of({**attack.spec(), "budget": attack.budget}, self.table.budget), attack.n

    def portion(self, part: str, results: Mapping[str, Any] | None = None) -> Portion:
        """Return one side of the split, or all items if share = 1; `results` chose its n."""
        settings = self.table.model_dump(mode="json", exclude={"random"})
        # The grid is no part of the fingerprint, because more values of n extend the run.
        keys = ("share", "sample_seed", "budget")
        of_part = {"part": part, "settings": settings, "rule": RULE, "optimistic": self.same_items}
        return Portion(
            keep=(lambda item: not self.is_tuned_on(item)) if part == REPORT else self.is_tuned_on,
            settings={"tune": {"part": part, **{key: settings[key] for key in keys}}},
            notes={"tuning": {**of_part, **(results or {})}},
            is_judged=part != TUNING_SPLIT,
        )

    def tuning(self) -> Prepared:
        """Return the run that n is chosen from."""
        part = SAME_ITEMS if self.same_items else TUNING_SPLIT
        grid: dict[tuple[str, float], AttackPart] = {}
        others: list[AttackPart] = []
        for one in self.prepared.attacks:
            if not has_n(one.attack.spec()):
                others += [one] * self.same_items
                continue
            attack: Any = one.attack
            if self.table.budget is not None:
                one = replace(one, attack=replace(attack, budget=self.table.budget))
            grid.setdefault(self.point(attack), one)
        experiment = self.prepared.experiment
        if not self.same_items:
            # [analysis] belongs to the report.
            experiment = experiment.model_copy(update={"analysis": config.Analysis()})
        return replace(
            self.prepared,
            experiment=experiment,
            attacks=[*grid.values(), *others],
            portion=self.portion(part),
        )

    def report(self, best: Chosen, usage: Usage) -> Prepared:
        """Return the run on the other items: the chosen n of each place, and untuned attacks.

        A victim without a right tuning item in a place has no n and is left out there; its summary
        says so.

        Args:
            best: what was chosen.
            usage: of the tuning split's run, which counts against the limits.

        Raises:
            UsageError: no victim is left.
        """
        asked = [grid for grid in best.grids if grid.n_items]
        without_n = places_without_n(asked)
        left = {grid.victim for grid in asked if grid.place not in without_n}
        if asked and not left:
            (dataset, group, victim), n = next(iter(without_n.items()))
            raise UsageError(
                f"model {victim!r} answered none of the {n} tuning items of {dataset}/{group} "
                f"correctly: use more items or a larger share, with {setting('fresh', True)}"
            )
        places = {(one.place, (template_of(one.template), one.n)) for one in best.choices}
        used = {point for _, point in places}

        def holds(dataset: str, group: str, victim: str, part: AttackPart) -> bool:
            place = Place(dataset, group, victim)
            attack = part.attack.of if isinstance(part.attack, ControlArm) else part.attack
            if not has_n(attack.spec()):
                return place not in without_n
            return (place, self.point(attack)) in places

        portion = replace(self.portion(REPORT, as_json(best)), holds=holds, used=usage)
        shown = self.with_controls(
            part
            for part in self.prepared.attacks
            if not has_n(part.attack.spec()) or self.point(part.attack) in used
        )
        prepared = self.prepared.without_victims({grid.victim for grid in asked} - left)
        return replace(prepared, attacks=shown, portion=portion)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What became of both runs."""

    tuning: Outcome
    """Of the run that n was chosen from."""
    report: Outcome | None
    """Of the report with the chosen n; None if the tuning trials are not complete or too many of
    them failed. The same as `tuning` if n is chosen on the reported items."""

    @property
    def folders(self) -> list[Path]:
        """The folders of the runs."""
        outcomes = [self.tuning, *([self.report] if self.report else [])]
        return list(dict.fromkeys(one.folder for one in outcomes))

    @property
    def nothing_asked(self) -> str | None:
        """The sentence that comes first where neither run had anything to ask."""
        if self.report is None or self.tuning.nothing_asked is None:
            return None
        return self.report.nothing_asked


def plan_tuning(
    experiment: str | Path | Mapping[str, Any] | config.Experiment | Source,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> TuningPlan:
    """Read and check the experiment to tune, and load everything but the models.

    Raises:
        UsageError, DataError: one sentence.
    """
    prepared = prepare(
        experiment, limit=limit, overrides=overrides, watcher=watcher, complete=tune_every_n
    )
    arms = tuple(part for part in prepared.attacks if isinstance(part.attack, ControlArm))
    prepared.attacks = [part for part in prepared.attacks if part not in arms]
    table = prepared.experiment.tune or config.Tune()
    plan = TuningPlan(prepared=prepared, table=table, controls=arms)
    _check_plan(plan)
    return plan


def tune_experiment(
    experiment: str | Path | Mapping[str, Any] | config.Experiment | Source,
    out: str | Path | None = None,
    wish: Wish = RUN,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Tuned:
    """Choose n of every `pdws` attack on a tuning split, then report on the rest; or resume.

    For each data set, group, victim and regime (n < 0, n > 0), the n with the largest attack
    success rate on the tuning split is chosen. Only this n runs on the other items.

    *Differs from the paper*, which reports the maximum over n on the items that chose it. So does
    `share = 1` in `[tune]` (`choices = "as_published"`), labelled optimistic.

    Args:
        experiment: a TOML file, a dict of the same shape, or a checked `Experiment`.
        out: folder of the report; default ``runs/<name>-tuned``. The tuning split's run is the
            folder ``tuning`` in it.
        wish: to begin again, or to retry.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    watcher = watcher or Watcher()
    plan = plan_tuning(experiment, limit=limit, overrides=overrides, watcher=watcher)
    bench = plan.prepared
    folder = run_folder(bench, out, suffix="-tuned")
    split = folder if plan.same_items else folder / SPLIT_FOLDER
    if wish.fresh:
        check_may_be_deleted(folder, SPLIT_FOLDER)
    with locked(folder, others=(SPLIT_FOLDER, RESULT_FILE)) as lock:
        if not wish.fresh:
            _check_part(plan, folder)

        def work(absent: UsageError | None) -> Tuned:
            if wish.fresh:
                with translated(folder):
                    throw_away(folder / SPLIT_FOLDER)
                    throw_away(folder)
                    (folder / RESULT_FILE).unlink(missing_ok=True)
            again = replace(wish, fresh=False)
            held = lock if plan.same_items else None
            tuning = execute(plan.tuning(), split, again, lock=held, watcher=watcher, absent=absent)
            report = tuning if plan.same_items else None
            if report is None and (best := _chosen(plan, split)) is not None:
                _check_choices(folder, best.choices)
                rest = plan.report(best, tuning.usage)
                report = execute(rest, folder, again, lock=lock, watcher=watcher, absent=absent)
            return Tuned(tuning=tuning, report=report)

        tuned = with_models(bench, folder, wish, watcher, work)
        if tuned.report is not None:
            result = tuning_result(Run.open(folder).of(TUNING))
            with translated(folder):
                text = json.dumps(result, indent=1, allow_nan=False)
                write_text(folder / RESULT_FILE, text + "\n")
        return tuned


def tuning_costs(plan: TuningPlan) -> list[tuple[str, DryRun]]:
    """Return what tuning and the report would cost, each with its name."""
    tuning, n = dry_run(plan.tuning()), len(plan.table.grid)
    if plan.same_items:
        return [(f"{n} values of n over all items, which are also the report", tuning)]
    shown: dict[tuple[str, str | None], AttackPart] = {}
    for part in plan.prepared.attacks:
        spec = part.attack.spec()
        if has_n(spec) and (regime := regime_of(spec["n"])) is not None:
            shown.setdefault((template_of(spec), regime), part)
        elif not has_n(spec):
            shown[part.label, None] = part
    attacks = plan.with_controls(shown.values())
    rest = Portion(keep=plan.portion(REPORT).keep)
    report = replace(plan.prepared, attacks=attacks, portion=rest)
    return [
        (f"tuning split, {n} values of n (shared answers are paid once)", tuning),
        ("report on the rest, with one n of each sign", dry_run(report)),
    ]


def tune_every_n(raw: dict[str, Any]) -> None:
    """Give every `pdws` attack of a parsed file the grid as its n, in place.

    Attacks that differ only in n become one. If the file has no random sampling, it is added.
    Malformed tables are left to the check that follows.
    """
    settings, rows = config.Tune(), raw.get("attack")
    with suppress(UsageError):
        settings = config.Tune.read(raw.get("tune", {}))
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return
    tuned: dict[str, dict[str, Any]] = {}
    for row in rows:
        template = None if row.get("use", True) is False else _row_template(row)
        if template is None:
            continue
        row["n"] = list(settings.grid)
        first = tuned.setdefault(template, row)
        if first is not row:
            # Switched off, not removed: messages count entries to find their lines.
            row["use"] = False
            if first.get("label") != row.get("label"):
                first.pop("label", None)
    if settings.random and not any(row.get("sampler") == "random" for row in rows):
        for row in tuned.values():
            kept = {key: value for key, value in row.items() if key not in ("n", "label")}
            rows.append({**kept, "sampler": "random"})
    raw["attack"] = rows


def _row_template(row: Mapping[str, Any]) -> str | None:
    """Return what identifies the attack without its n; None if it has no n."""
    try:
        name = str(row.get("name"))
        own = {field.name for field in fields(attack_class(name))}
        keys = {key: value for key, value in row.items() if key in own}
        attack = make_attack(name, {**keys, "n": 1.0})
    except (UsageError, TypeError):
        return None
    return template_of(attack.spec()) if has_n(attack.spec()) else None


def _check_plan(plan: TuningPlan) -> None:
    """Refuse a plan with no n to tune, a budget that does not fit, or too few items on a side."""
    tuned = [part for part in plan.prepared.attacks if has_n(part.attack.spec())]
    if not tuned:
        raise UsageError('there is no n to tune: no [[attack]] has sampler = "pdws"')
    budget = plan.table.budget
    if budget is not None and plan.same_items:
        raise UsageError(f"[tune] budget = {budget}: with share = 1 the attack's budget counts")
    for part in tuned:
        if budget is not None and budget > part.attack.budget:
            raise UsageError(
                f"[tune] budget = {budget} is larger than that of attack {part.label!r} "
                f"({part.attack.budget})"
            )
    for dataset, group in product(plan.prepared.datasets, plan.prepared.groups):
        attackable = [
            item
            for item in plan.prepared.items(dataset, group)
            if tuned[0].attack.obstacle(item, group.resources) is None
        ]
        n = sum(map(plan.is_tuned_on, attackable))
        rest = len(attackable) if plan.same_items else len(attackable) - n
        if attackable and min(n, rest) < MIN_ITEMS:
            raise UsageError(
                f"{dataset.label}/{group.label}: [tune] share = {plan.table.share:g} tunes n on "
                f"{n} attackable items and reports on {rest}; each needs at least {MIN_ITEMS}"
            )


def _check_part(plan: TuningPlan, folder: Path) -> None:
    """Check, before anything is asked, that the folder holds no run of another kind."""
    part = REPORT if (folder / SPLIT_FOLDER / FILE).is_file() else None
    if manifest := stored_manifest(folder):
        part = (manifest.get("tuning") or {}).get("part", "none")
    if part not in (None, SAME_ITEMS if plan.same_items else REPORT):
        other = "a run that was not tuned" if part == "none" else "a run tuned with another share"
        raise StoreError(f"{folder} holds {other}. {another_folder()}")


def tuning_result(tuning: Tuning | None) -> dict[str, Any]:
    """Return what `tune.json` holds."""
    return {"format": 1, **as_json(tuning)}


def chosen_of(run: Run) -> Chosen | None:
    """Return the grids and choices of a split's run; None if it is none."""
    tuning = run.of(TUNING)
    return None if tuning is None else Chosen(grids=tuning.grids, choices=tuning.choices)


def _chosen(plan: TuningPlan, split: Path) -> Chosen | None:
    """Return the grids and choices of a split; None if its run is not complete or failed."""
    run = Run.open(split)
    failed = sum(one.verdict is Verdict.FAILED or not one.is_asked_clean for one in run.trials)
    if failed > plan.prepared.experiment.experiment.max_failed or not run.is_complete:
        return None
    return chosen_of(run)


def _check_choices(folder: Path, choices: Sequence[ChosenN]) -> None:
    """Refuse a folder whose report has another n: its trials would be mixed with others."""
    manifest = stored_manifest(folder)
    if not manifest:
        return
    now = {(one.place, template_of(one.template), one.regime): one.n for one in choices}
    for one in Chosen.read(manifest["tuning"]).choices:
        n = now.get((one.place, template_of(one.template), one.regime))
        if n != one.n:
            raise StoreError(
                f"{folder} holds a report with n = {one.n:g} ({one.dataset}/{one.group}, "
                f"{one.victim}, {one.regime}), but now the best n is "
                f"{n if n is None else f'{n:g}'}. {another_folder()}"
            )
