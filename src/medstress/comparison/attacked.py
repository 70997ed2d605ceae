"""Comparisons on an attacked set: what the choice of its items and edits still allows.

An attacked set holds the items that its first victim, the *source*, answered right before the
attack, and their edits only up to the one that made it err. Counted on all items, or up to the last
edit, any other victim would look worse or better for that alone. So such arms are compared by the
loss on items that both answer right, at the first edit of each item, which no answer to an edit has
chosen. Where the first edit follows from answers too, the source itself can be no side. Successes
alone say which of the source's failures another victim repeats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from medstress.comparison.sides import Arm, Side
from medstress.core.attacked import NAME, Selection
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_eligible, is_flipped
from medstress.results.formats import plural
from medstress.results.victims import entries_of

Spec: TypeAlias = Mapping[str, Any]
Arms: TypeAlias = tuple[Arm, Arm]

_WHY = (
    "the attacks are stored ones: their items are those that one victim answered right, so loss is "
    "compared on items right in both, at the first edit of each, which {chosen}"
)


def stored_spec(spec: Spec) -> Spec | None:
    """Return the parameters of an arm that asks stored edits; None for any other."""
    return spec if spec.get("name") == NAME and "set" in spec else None


def is_replay(first: Mapping[str, Any], ours: Arm, second: Mapping[str, Any], theirs: Arm) -> bool:
    """Return whether one arm asks the edits that the other arm asked when they were stored."""
    return _replays(first, ours, second, theirs) or _replays(second, theirs, first, ours)


def _replays(manifest: Mapping[str, Any], arm: Arm, other: Mapping[str, Any], of_arm: Arm) -> bool:
    spec = stored_spec(manifest["attacks"].get(arm.attack, {}))
    asked = other["attacks"].get(of_arm.attack)
    if spec is None or asked is None or spec["source"]["fingerprint"] != other["fingerprint"]:
        return False
    stored = {key: value for key, value in spec["of"].items() if key in asked}
    return json.dumps(stored, sort_keys=True) == json.dumps(asked, sort_keys=True)


def stored_specs(first: Side, second: Side, arms: Iterable[Arms]) -> dict[Arms, Spec]:
    """Return the stored attack of every pair of arms of which one asks stored edits."""
    found = {}
    for pair in arms:
        specs = [
            stored_spec(side.manifest["attacks"].get(arm.attack, {}))
            for side, arm in zip((first, second), pair, strict=True)
        ]
        spec = specs[0] or specs[1]
        if spec is not None:
            found[pair] = spec
    return found


def why_first(specs: Iterable[Spec]) -> str:
    """Return why loss is compared at first edits, and what chose these."""
    blind = all(spec["is_blind"] for spec in specs)
    return _WHY.format(
        chosen="no answer chose" if blind else "answers of that victim led to, in some of them"
    )


def at_first_edits(
    first: Side, second: Side, arms: Sequence[Arms], metric: str | None
) -> tuple[Side, Side]:
    """Return the sides with stored attacks judged at the first edit of each item.

    Args:
        first: A.
        second: B.
        arms: the matched arms.
        metric: the measure that is asked for, if any.

    Raises:
        UsageError: the file holds successes alone or was filtered, or its source is compared
            although its answers chose the first edits; says what can be read instead.
    """
    specs = stored_specs(first, second, arms)
    if not specs:
        return first, second
    sides = first, second
    for pair, spec in specs.items():
        _check(sides, pair, spec)
    if metric is not None and metric.startswith("accuracy"):
        raise UsageError(
            f"--metric {metric}: the items of stored attacks are those that one victim answered "
            "right, so accuracy on them favours it; give asr, or run the attack itself"
        )
    return _cut(first, [a for a, _ in specs]), _cut(second, [b for _, b in specs])


def stored_notes(first: Side, second: Side, arms: Iterable[Arms]) -> Iterator[str]:
    """Yield what a reader of comparisons on stored attacks has to know."""
    seen = set()
    for spec in stored_specs(first, second, arms).values():
        source = spec["source"]["victim"]
        if (line := (source, spec["is_blind"])) in seen:
            continue
        seen.add(line)
        if spec["is_blind"]:
            yield (
                f"stored attacks of {source}: only the first edit of each item counts, on items "
                "right in both; what clean answers lose is not seen here"
            )
        else:
            yield (
                f"stored attacks of {source}: answers of {source} led to the edits, so a victim "
                f"that errs as {source} does looks worse than one that errs elsewhere"
            )


def _check(sides: tuple[Side, Side], arms: Arms, spec: Spec) -> None:
    source, selection = spec["source"], spec["selection"]
    name = source["victim"]
    if selection == Selection.FLIPPED:
        told = " and ".join(
            f"{side.name} repeats {_repeated(side, arm)}"
            for side, arm in zip(sides, arms, strict=True)
        )
        raise UsageError(
            f"the stored attacks are successes against {name} alone, so they say which of its "
            f"failures a victim repeats and not which victim is better: on them a truly worse "
            f"victim looks better ({told}); compare on a file with held and flipped items"
        )
    if selection == Selection.FILTERED:
        raise UsageError(
            f"the stored attacks of {name} are fewer than medstress export wrote, and nobody knows "
            "how they were chosen, so nothing is better or worse on them; compare on the whole "
            "file, or on a sample that limit draws"
        )
    own = [
        side.name
        for side, arm in zip(sides, arms, strict=True)
        if source["model_hash"] in _model_hashes(side, arm.victim)
    ]
    if own and not spec["is_blind"]:
        raise UsageError(
            f"the edits of {arms[0].attack!r} follow from answers of {name}, which is {own[0]}: "
            f"they are the worst that was found for it, and any other victim looks better on "
            "them; run the attack itself on both, or store the attacks on a third victim"
        )


def _repeated(side: Side, arm: Arm) -> str:
    trials = [row for row in side.arms().get(arm, ()) if is_eligible(row)]
    return f"{sum(map(is_flipped, trials)):,} of {plural(len(trials), 'trial')} right before"


def _model_hashes(side: Side, victim: str) -> list[str]:
    return [entry["model_hash"] for entry in entries_of(side.manifest, victim).values()]


def _cut(side: Side, arms: Sequence[Arm]) -> Side:
    """Return a side whose trials of some arms, and of their controls, end after one query."""
    own = {(arm.dataset, arm.group, arm.victim, arm.attack) for arm in arms}
    rows = []
    for row in side.rows:
        attack = row.attack.removesuffix(f" / {row.arm}")
        is_own = (row.dataset, row.group, row.victim, attack) in own
        rows.append(_first_query(row) if is_own else row)
    return replace(side, rows=rows)


def _first_query(row: TrialRow) -> TrialRow:
    """Return a trial cut after one query.

    Unreadable answers of several queries are left open, as failed ones are: which query they are
    of is not known.
    """
    if row.verdict is Verdict.FLIPPED and (row.first_success or 0) > 1:
        row = replace(row, verdict=Verdict.HELD, first_success=None)
    if row.n_asked > 1 and row.n_unreadable:
        row = replace(row, n_unreadable=0, n_failed=row.n_failed + row.n_unreadable)
    return row
