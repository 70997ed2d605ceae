"""What stands on the card of a victim: numbers and sentences, taken from the run's summary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from medstress.attacks.unasked import NAME as UNASKED
from medstress.core.controls import CONTROLS, NOISE_CONTROL, is_control_spec
from medstress.core.errors import UsageError, did_you_mean
from medstress.report import criteria, overview
from medstress.results.formats import listed, plural
from medstress.results.imported import KEY as IMPORTED
from medstress.results.load import StoredRun, kind_of_run
from medstress.results.names import Names, warnings_of
from medstress.results.root import ROOT, ROOT_NOTE, UNVERIFIED
from medstress.running.criteria import KEY
from medstress.summary.arms import SCORES, Row, control_in
from medstress.summary.edit_words import edit_clause
from medstress.summary.summary import summarise_run, verdict_on

FORMAT = 1
"""Of the card as JSON."""
SCOPE = (
    "It speaks of the attacks, items and budgets listed here and of no others: another attack may "
    "take more."
)
_NO_LOSS = "no loss was measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One attack on one data set and group, and what it took of the victim."""

    attack: str
    """Its label in the run."""
    name: str
    """Its name in words."""
    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    place: str
    """Data set and group in words."""
    edit: str
    """What it does, as a clause: `one wrong option was renamed`."""
    budget: int | None
    """Perturbed queries per item; None where nothing bounds them."""
    n_seeds: int
    """Seeds, 1 for an attack without."""
    n_items: int
    """Items of the data set and group."""
    measure: str
    """`asr`, or the score that fell: `f1`, `pearson`, `macro_f1`."""
    before: Mapping[str, Any]
    """Accuracy or score on clean items: an estimate."""
    after: Mapping[str, Any]
    """The same under attack."""
    lost: Mapping[str, Any]
    """ASR, or the drop of the score."""
    n_lost: int | None
    """Right answers lost; None for scores."""
    n_failed: int
    """Trials that failed: neither lost nor held."""
    control: str | None
    """The harmless change beside it; None without one."""
    control_lost: Mapping[str, Any] | None
    """What that change takes; None without one, and for tagged texts, where only `net` is kept."""
    net: Mapping[str, Any] | None
    """What is lost net of the control."""
    valid: Mapping[str, Any] | None
    """Lost with the key still right (`asr_valid`); None until somebody vouches."""
    valid_bounds: Sequence[float] | None
    """No unknown loss valid, all valid, all unknown and censored valid; None where this is not
    asked of the attack."""
    is_control: bool
    """Whether it is itself a harmless change, named as an attack."""
    changes_evidence: bool
    """Whether the text supports another answer after its edits, so that a loss is no error."""
    is_attacked: bool
    """Whether anything was asked but the clean items; if not, there is no loss, not one of 0."""
    n_unknown: int
    """Losses of which nobody knows whether the key is still right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """All that the card of one victim says."""

    format: int
    """Of this object as JSON."""
    run: str
    """Name of the run."""
    victim: str
    """Label of the victim."""
    others: Sequence[str]
    """Labels of the run's other victims, of which this card says nothing."""
    model: Mapping[str, Any]
    """What is known of the model: `name`, `hash`, `prompt`, `answer_by`, `parser`, ..."""
    kind: str
    """What it was asked: `questions`, `tagged texts`, ..."""
    data: Sequence[Mapping[str, Any]]
    """Data sets: `label`, `n_items`, `hash`."""
    state: str
    """Whether the run is complete, in a sentence."""
    is_complete: bool
    """Whether it is."""
    started: str | None
    """When it began, ISO 8601."""
    finished: str | None
    """When it ended."""
    medstress: str | None
    """The version that ran it."""
    sentences: Sequence[str]
    """What the attacks took, in words."""
    arms: Sequence[Arm]
    """The attacks, those that take most first."""
    slices: Sequence[Mapping[str, Any]]
    """The worst slice by each property, the worst first; empty if no slices were asked for."""
    slicing: str | None
    """How slices were made, such as `post hoc`; None without."""
    criteria: Sequence[Mapping[str, Any]]
    """Criteria as in the summary, without those on other victims."""
    verdict: str | None
    """The verdict on these; None without any."""
    criteria_fixed: str
    """When they were fixed, in a sentence."""
    cautions: Sequence[str]
    """What the numbers behind criteria do not say, each whole."""
    limits: Sequence[str]
    """What the numbers do not say."""
    warnings: Sequence[str]
    """Warnings of the run."""
    root: str | None
    """Digest of plan, items, trials, answers, reviews; None while there is none."""
    root_note: str | None
    """Why there is none, or since when it holds."""
    unverified: str | None
    """What in the folder is in doubt."""
    fingerprint: str
    """Of the experiment."""
    command: str | None
    """What repeats the run."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False))
        return found


def card_of(run: StoredRun, victim: str | None = None) -> Card:
    """Return the card of a victim of a run, finished or not.

    Args:
        run: the run.
        victim: its label; None: the only one, or of several the one of which the first sentence of
            the summary speaks, which surely loses most.

    Raises:
        UsageError: the run has no such victim.
    """
    found, manifest = summarise_run(run), run.manifest
    known = list(manifest["victims"])
    chosen = _chosen(found, known, victim)
    names = Names(**found.get("names") or {})
    rows = [row for row in found["pooled"] if row["victim"] == chosen and "control_of" not in row]
    arms = sorted((_arm(row, names) for row in rows), key=_taken, reverse=True)
    judged = [
        each
        for each in found["requirements"]
        if each.get("where", {}).get("victim", chosen) == chosen
    ]
    said = verdict_on(run, chosen)
    slicing = found.get("slicing") or {}
    experiment = found["experiment"]
    return Card(
        format=FORMAT,
        run=experiment["name"],
        victim=chosen,
        others=[label for label in known if label != chosen],
        model=_model(manifest, chosen),
        kind=kind_of_run(run).name if run.items() else "nothing yet",
        data=_data(manifest, rows),
        state=overview.state(found),
        is_complete=bool(experiment["complete"]),
        started=experiment.get("started"),
        finished=experiment.get("finished"),
        medstress=(experiment.get("versions") or {}).get("medstress"),
        sentences=[said["sentence"], *said["others"], *said["validity"]],
        arms=arms,
        slices=sorted(
            (each for each in slicing.get("worst") or () if each["victim"] == chosen),
            key=lambda each: -(each.get("asr_shrunken") or 0.0),
        ),
        slicing=slicing.get("label"),
        criteria=judged,
        verdict=criteria.verdict({**found, "requirements": judged}),
        criteria_fixed=_fixed(manifest, experiment),
        cautions=list(
            dict.fromkeys(
                f"{criteria.name_of(each)}: {each['caution']}."
                for each in judged
                if each.get("caution")
            )
        ),
        limits=list(_limits(found, said, arms, known, chosen)),
        warnings=warnings_of(found),
        root=found[ROOT],
        root_note=found[ROOT_NOTE],
        unverified=found[UNVERIFIED],
        fingerprint=experiment["fingerprint"],
        command=overview.command(manifest),
    )


def _chosen(found: Mapping[str, Any], known: Sequence[str], victim: str | None) -> str:
    if victim is not None:
        if victim not in known:
            raise UsageError(
                f"--victim {victim}: the run has no such victim{did_you_mean(victim, known)} "
                f"(there are: {', '.join(known)})"
            )
        return victim
    worst = [str(arm["victim"]) for arm in found["verdict"]["arms"]]
    return [*worst, *known][0]


def _model(manifest: Mapping[str, Any], victim: str) -> dict[str, Any]:
    """Return what the manifest knows of a model; folders of earlier formats know less."""
    known = manifest["victims"][victim]
    task, prompt = known.get("task") or {}, known.get("prompt") or {}
    tables: Sequence[Any] = (manifest.get("config") or {}).get("victim") or ()
    backend = next((t.get("backend") for t in tables if t.get("name") == victim), None)
    found = {
        "name": known.get("model"),
        "hash": known.get("model_hash"),
        "backend": backend or (tables[0].get("backend") if len(tables) == 1 else None),
        "family": known.get("family"),
        "parameters": known.get("parameters"),
        "prompt": prompt.get("name") if isinstance(prompt, Mapping) else prompt,
        "answer_by": task.get("answer_by"),
        "parser": task.get("parser"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _data(manifest: Mapping[str, Any], rows: Sequence[Row]) -> list[dict[str, Any]]:
    used = {row["dataset"] for row in rows}
    return [
        {"label": label, "n_items": each.get("n_items"), "hash": each.get("hash")}
        for label, each in manifest["datasets"].items()
        if label in used or not used
    ]


def _arm(row: Row, names: Names) -> Arm:
    spec = json.loads(row["attack_spec"])
    score = _score(row)
    control = control_in(row)
    net = (row.get("asr_net") or {}).get(control or "")
    outside = row.get("f1_net_drop") or {}
    if control is None and score == "f1" and outside.get("value") is not None:
        control, net = NOISE_CONTROL, outside
    has_validity = "asr_valid_bounds" in row
    is_attacked = spec["name"] != UNASKED
    after = row[f"{score}_after"] if score else row["accuracy_after"]
    return Arm(
        attack=row["attack"],
        name=names.of("attack", row["attack"]),
        dataset=row["dataset"],
        group=row["group"],
        place=f"{names.of('dataset', row['dataset'])}, {names.of('group', row['group'])}",
        edit=edit_clause(spec),
        budget=spec.get("budget"),
        n_seeds=max(1, len(row.get("seeds") or ())),
        n_items=row["n_items"],
        measure=score or "asr",
        before=row[score] if score else row["accuracy"],
        after=after if is_attacked else {**after, **dict.fromkeys(("value", "low", "high"))},
        lost=row[f"{score}_drop"] if score else row["asr"],
        n_lost=None if score or not is_attacked else row["n_flipped"],
        n_failed=row["n_failed"] + row["n_failed_at_baseline"],
        control=control,
        control_lost=(row.get("control") or {}).get(control) if control in CONTROLS else None,
        net=net,
        valid=row.get("asr_valid"),
        valid_bounds=row.get("asr_valid_bounds") if has_validity else None,
        is_control=is_control_spec(spec),
        changes_evidence=bool(row.get("evidence")),
        is_attacked=is_attacked,
        n_unknown=row.get("n_validity_unknown") or 0,
    )


def _score(row: Row) -> str | None:
    """Return the score of the whole data set that stands for a row without judged answers."""
    if row.get("chance") is not None:
        return None
    known = (name for name in SCORES if (row.get(f"{name}_drop") or {}).get("value") is not None)
    return next(known, None)


def _taken(arm: Arm) -> tuple[float, float, int]:
    value, low = arm.lost["value"], arm.lost["low"]
    return (-1.0 if value is None else value, -1.0 if low is None else low, arm.lost["n"])


def _fixed(manifest: Mapping[str, Any], experiment: Mapping[str, Any]) -> str:
    """Say when the criteria were fixed."""
    fixed = manifest.get(KEY)
    if not fixed:
        return "No criterion was set before the run, so nothing here passes or fails."
    if manifest.get(IMPORTED):
        return (
            "Chosen after the answers existed, which are those of a log, so they are post hoc; "
            f"hash {fixed['hash']}."
        )
    began = f" (run begun {experiment['started']})" if experiment.get("started") else ""
    more = fixed.get("extended", 0)
    looks = f"; items were added {plural(more, 'time')} after a look" if more else ""
    return f"Fixed before the first query{began}, hash {fixed['hash']}{looks}."


def _limits(
    found: Mapping[str, Any],
    said: Mapping[str, Any],
    arms: Sequence[Arm],
    known: Sequence[str],
    victim: str,
) -> Iterator[str]:
    """Yield what the numbers do not say."""
    yield SCOPE
    if len(known) > 1:
        rest = plural(len(known) - 1, "other victim")
        yield f"The run has {rest} beside {victim}; each has a card of its own (--victim)."
    yield from (each for each in said["caveats"] if each not in said["validity"])
    if idle := [arm.place for arm in arms if not arm.is_attacked]:
        which = "" if len(idle) == len(arms) else f" on {listed(idle)}"
        yield f"Nothing was attacked{which}: how often it is right says not how robust it is."
    attacks = [arm for arm in arms if arm.is_attacked and not arm.is_control]
    without = [arm.name for arm in attacks if arm.control is None]
    if without and (harmless := [arm.name for arm in arms if arm.is_control]):
        which = "an attack" if len(without) == len(attacks) else listed(without)
        rows = f"Harmless changes have rows of their own ({listed(harmless)})"
        yield f"{rows}; no loss of {which} is net of one."
    elif without:
        which = "" if len(without) == len(attacks) else f" for {listed(without)}"
        yet = "" if found["experiment"]["complete"] else " yet"
        yield f"No control was asked{which}{yet}: harmless edits may take as much."
    if changing := [arm.name for arm in arms if arm.changes_evidence]:
        yield f"{listed(changing)}: the text then supports another answer, so a loss is no error."
    if not idle and not any(arm.lost["value"] is not None for arm in arms):
        yield f"{_NO_LOSS.capitalize()}."
    if found[UNVERIFIED]:
        yield f"Unverified: {found[UNVERIFIED]}."
