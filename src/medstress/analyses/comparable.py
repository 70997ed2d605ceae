"""What differs between two arms of two runs, and what makes pairs of their trials meaningless.

Another attack, or other names to draw from, asks other questions of the model: a difference says
nothing of the models then, and is refused unless it is what is compared. All else is listed.

Stored edits (`name = "attacked"`) are pairs of a special kind. The set holds the items that its
first model, the *source*, answered right, and an item's edits end with the one that made it err.
Counted on all items, or up to the last edit, any other model would look better or worse for that
alone. So such arms are compared by what is lost at the first edit of each item, of the items that
both know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from medstress.analyses.run import Cell, Pairs, Run
from medstress.core.attacked import NAME as STORED
from medstress.core.attacked import Selection
from medstress.core.errors import UsageError, setting
from medstress.stats.shares import Units

Factor: TypeAlias = Literal["victim", "attack", "group"]
FACTORS: Sequence[Factor] = get_args(Factor)
Spec: TypeAlias = Mapping[str, Any]

_MEANINGLESS: Mapping[Factor, str] = {
    "attack": "another attack asks other questions",
    "group": "the names come from elsewhere, so other edits are asked",
}
_READ_BY = {"generate": {"parser", "decoding"}, "choice": {"parser"}, "text": {"text_score"}}
"""Way of answering -> the keys of a task that it reads; the others do not matter there."""
_OF_SOME_WAYS = frozenset().union(*_READ_BY.values())
_ALONE = {"choice", "head", "null"}
"""Ways of answering that another model cannot be set to; all others can write (`generate`)."""
_WAYS = {
    "choice": "a function's own",
    "letter": "the likeliest letter",
    "text": "the likeliest option",
    "generate": "a written reply",
    "head": "a multiple-choice head's",
    "null": "none of options",
}
"""Way of answering -> what the answer is."""
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs:
    """One thing that differs."""

    what: str
    """Such as `model`, `prompt`, `attack: budget` or `numpy`."""
    a: str
    b: str
    factor: Factor | None = None
    """What it is part of; None for what may differ between any two runs."""

    @property
    def words(self) -> tuple[str, str, str]:
        """What differs, and what it is in A and in B."""
        if self.what == "answer_by":
            return "answer", _WAYS.get(self.a, self.a), _WAYS.get(self.b, self.b)
        return self.what, self.a, self.b


def differences(first: Run, a: Cell, second: Run, b: Cell, pairs: Pairs) -> list[Differs]:
    """List what differs between an arm of A and an arm of B; `pairs` are of their trials."""
    one, other = first.manifest, second.manifest
    return [
        *_models(one, a.place.victim, other, b.place.victim),
        *_tasks(_task(one, a), _task(other, b)),
        *_attack(one, a, other, b),
        *_names(one, a, other, b),
        *_documents(a.units[:, pairs.first], b.units[:, pairs.second]),
        *_differing("", one["versions"], other["versions"]),
        *_differing("[experiment] ", _part(one, "settings"), _part(other, "settings")),
    ]


def ways_of_answering(differs: Iterable[Differs]) -> Iterator[str]:
    """Yield a caution for each way in which two models answer differently, and what makes it alike.

    Models on different back ends often do: a function chooses, a server writes, a local model is
    read by probabilities. They are compared all the same.
    """
    for one in differs:
        if one.what not in ("answer_by", "prompt", "parser", "text_score"):
            continue
        value, again = one.a, "B"
        if one.what == "answer_by" and {one.a, one.b} & _ALONE:
            value, again = "generate", "A" if one.b in _ALONE else "B"
        what, a, b = one.words
        sentence = (
            f"The {what} is {a} in A and {b} in B, so part of the difference may be the way of "
            "answering"
        )
        now = one.a if again == "A" else one.b
        if now in _ALONE or now == value:  # no key makes them more alike
            yield f"{sentence}."
        else:
            alike = setting("set", f"victim.{one.what}={value}")
            yield f"{sentence}; to leave that out, run {again} again with {alike}."


def check_same(differs: Sequence[Differs], factor: Factor, label: str) -> None:
    """Check that nothing differs that makes pairs meaningless.

    Args:
        differs: what differs between the arms.
        factor: what is compared.
        label: the attack, as A calls it.

    Raises:
        UsageError: the attack differs or what it draws from, and that is not what is compared.
    """
    for part, why in _MEANINGLESS.items():
        other = [one for one in differs if one.factor == part]
        if other and part != factor:
            words = "; ".join(f"{one.what} {one.a} in A, {one.b} in B" for one in other[:3])
            raise UsageError(
                f"nothing can be compared under {label!r}: {words}: {why}. Give two runs of the "
                f"same attack and names, or {setting('factor', part)} if that is what you compare"
            )


def entries_of(manifest: Mapping[str, Any], victim: str) -> list[Mapping[str, Any]]:
    """Return the manifest's entries of a victim; several where folds were trained."""
    entries = manifest["victims"].items()
    return [entry for label, entry in entries if entry.get("part_of", label) == victim]


def stored_spec(cell: Cell) -> Spec | None:
    """Return the parameters of an arm that asks stored edits; None for any other."""
    params = cell.attack.params
    return params if params.get("name") == STORED and "set" in params else None


def check_stored(sides: Sequence[tuple[Run, Cell]], metric: str | None) -> Spec | None:
    """Check what the choice of stored items and edits still allows.

    Args:
        sides: run and arm of A and of B.
        metric: the measure that is asked for.

    Returns:
        The stored attack of either arm; None if neither asks stored edits.

    Raises:
        UsageError: the file holds successes alone or lost rows, its source is a side although its
            answers chose the first edits, or accuracy is asked for.
    """
    spec = next((own for _, cell in sides if (own := stored_spec(cell)) is not None), None)
    if spec is None:
        return None
    source = spec["source"]
    victim = source["victim"]
    if spec["selection"] == Selection.FLIPPED:
        raise UsageError(
            f"the stored attacks are successes against {victim} alone, on which a truly worse "
            "model looks better; compare on a file with held and flipped items"
        )
    if spec["selection"] == Selection.FILTERED:
        raise UsageError(
            f"the stored attacks of {victim} are not the whole file, and how they were "
            "chosen is unknown; compare on the whole file, or on a sample that limit draws"
        )
    sources = [
        name
        for name, (run, cell) in zip("AB", sides, strict=True)
        if source["model_hash"]
        in [entry["model_hash"] for entry in entries_of(run.manifest, cell.place.victim)]
    ]
    if sources and not spec["is_blind"]:
        raise UsageError(
            f"the edits follow from answers of {victim}, which is {sources[0]}: any other model "
            "looks better on them; run the attack itself on both"
        )
    if metric is not None and metric.startswith("accuracy"):
        raise UsageError(
            f"{setting('metric', metric)}: one model answered all items of stored attacks right, "
            "so accuracy on them favours it; give asr"
        )
    return spec


def note_on_stored(spec: Spec) -> str:
    """Return what a reader of a comparison on stored edits has to know."""
    victim = spec["source"]["victim"]
    if spec["is_blind"]:
        return (
            f"stored attacks of {victim}: only the first edit of each item counts, of items that "
            "both know; no answer chose it"
        )
    return (
        f"stored attacks of {victim}: its answers led to the edits, so a model that errs as "
        f"{victim} does looks worse than one that errs elsewhere"
    )


def _attack(first: Spec, a: Cell, second: Spec, b: Cell) -> Iterator[Differs]:
    one, other = a.attack.params, b.attack.params
    if one["name"] != other["name"]:
        yield _differs("attack", (one["name"], other["name"]), "attack")
        return
    yield from _differing("attack: ", one, other, "attack")
    # Attacks that count attempts are written by models; others ask none.
    is_written = a.attack.attempts is not None or b.attack.attempts is not None
    factor: Factor | None = "attack" if is_written else None
    roles = _part(first, "roles"), _part(second, "roles")
    for role in sorted({*roles[0], *roles[1]}):
        if roles[0].get(role) != roles[1].get(role):
            models = (m.get("roles", {}).get(role, {}).get("model") for m in (first, second))
            yield _differs(f"model of the {role}", models, factor)


def _names(first: Spec, a: Cell, second: Spec, b: Cell) -> Iterator[Differs]:
    """Compare what both arms draw names from."""
    sides = (first, a.place.group), (second, b.place.group)
    hashes = [_part(manifest, "groups").get(group) for manifest, group in sides]
    if hashes[0] == hashes[1] or not (a.attack.draws_names and b.attack.draws_names):
        return
    keys = ("vocabulary", "n_names", "embedding", "distance")
    one, other = ({k: m["groups"].get(g, {}).get(k) for k in keys} for m, g in sides)
    listed = list(_differing("names: ", one, other, "group"))
    yield from listed or [
        _differs("names: words, types, synonyms", (_short(str(h)) for h in hashes), "group")
    ]


def _documents(*sides: Units) -> Iterator[Differs]:
    """Compare how many documents the items of the pairs are of."""
    counts = [len(np.unique(units[0])) for units in sides]
    if counts[0] != counts[1]:
        n_items = len(np.unique(sides[0][1]))
        yield _differs("documents", ("none" if n == n_items else n for n in counts), None)


def _models(first: Spec, a: str, second: Spec, b: str) -> Iterator[Differs]:
    entries = entries_of(first, a), entries_of(second, b)
    hashes, names = (
        [sorted(str(entry[key]) for entry in side) for side in entries]
        for key in ("model_hash", "model")
    )
    if hashes[0] == hashes[1]:
        served = _served(first, a), _served(second, b)
        if None not in served and served[0] != served[1]:
            yield _differs("model that the server named", served, "victim")
        return
    if names[0] != names[1]:
        yield _differs("model", map(", ".join, names), "victim")
    else:
        what = f"weights, settings or code of {names[0][0]}"
        yield _differs(what, (", ".join(map(_short, side)) for side in hashes), "victim")
    one, other = (m["config"].get("train") or {} for m in (first, second))
    yield from _differing("[train] ", one, other, "victim")


def _served(manifest: Spec, victim: str) -> str | None:
    for endpoint in manifest.get("endpoints") or ():
        if endpoint.get("victim") == victim and endpoint.get("answered_as"):
            return str(endpoint["answered_as"])
    return None


def _task(manifest: Spec, cell: Cell) -> Mapping[str, Any]:
    """Return what an arm's model was asked with: `task` and `prompt`."""
    entry = entries_of(manifest, cell.place.victim)[0]
    return {**entry, **entry.get("by_dataset", {}).get(cell.place.dataset, {})}


def _tasks(first: Spec, second: Spec) -> Iterator[Differs]:
    (one, wraps_a), (other, wraps_b) = (_unwrapped(s.get("task") or {}) for s in (first, second))
    for what in ("shots", "wrap"):
        a, b = (
            [wrap for wrap in side if (wrap["wrap"] == "few_shot") == (what == "shots")]
            for side in (wraps_a, wraps_b)
        )
        if a != b:
            words = (", ".join(str(wrap["wrap"]) for wrap in side) or "none" for side in (a, b))
            yield _differs(what, words, "victim")
    way = one.get("answer_by")
    read = _READ_BY.get(str(way), set()) if way == other.get("answer_by") else set()
    for differs in _differing("", one, other, "victim"):
        if differs.what == "template":
            prompts = [str((side.get("prompt") or {}).get("name")) for side in (first, second)]
            prompts[1] += ", other words" * (prompts[0] == prompts[1])
            yield _differs("prompt", prompts, "victim")
        elif differs.what not in _OF_SOME_WAYS or differs.what in read:
            yield differs


def _unwrapped(task: Spec) -> tuple[Spec, list[Spec]]:
    wraps: list[Spec] = []
    while "task" in task:
        wraps.append({key: value for key, value in task.items() if key != "task"})
        task = task["task"]
    return task, wraps


def _part(manifest: Spec, name: str) -> Spec:
    """Return a part of what the fingerprint is made of."""
    return manifest.get("parts", {}).get(name) or {}


def _differing(what: str, a: Spec, b: Spec, factor: Factor | None = None) -> Iterator[Differs]:
    for key in dict.fromkeys((*a, *b)):
        if not _is_same(a.get(key), b.get(key)):
            yield _differs(f"{what}{key}", (_shown(a.get(key)), _shown(b.get(key))), factor)


def _differs(what: str, sides: Iterable[object], factor: Factor | None) -> Differs:
    a, b = map(str, sides)
    return Differs(what=what, a=a, b=b, factor=factor)


def _is_same(a: object, b: object) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def _short(digest: str) -> str:
    return digest.rpartition(":")[2][:8]


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
