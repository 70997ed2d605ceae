"""The baseline runs that criteria compare with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medstress.analyses.requirements import outcomes
from medstress.analyses.run import Run
from medstress.core.controls import BETWEEN
from medstress.core.errors import UsageError
from medstress.experiment.plan import manifest as manifests
from medstress.experiment.plan.plan import Prepared
from medstress.store.run_store import FILE


def baseline_folder(base: Path, run: str) -> Path:
    """Return the folder of a baseline run, which is relative to the experiment file."""
    return base / Path(run).expanduser()


def baseline_of(base: Path, run: str) -> Run:
    """Read a baseline run.

    Raises:
        UsageError: there is no run in the folder, or it is not complete.
    """
    folder = baseline_folder(base, run)
    if not (folder / FILE).is_file():
        raise UsageError(f"[[require]] against: expected a run folder, but {folder} holds no run")
    baseline = Run.open(folder)
    if not baseline.is_complete:
        raise UsageError(
            f"[[require]] against: the run in {folder} is not complete; finish it first"
        )
    return baseline


def describe_baseline(base: Path, run: str) -> dict[str, str]:
    """Return what identifies a baseline run and its outcomes, for the manifest."""
    baseline = baseline_of(base, run)
    return {
        "fingerprint": baseline.manifest["fingerprint"],
        "outcomes": outcomes(baseline.trials),
    }


def victim_there(label: str, known: Iterable[str]) -> str | None:
    """Return the victim of a baseline that one is compared with: its namesake, else the only one.

    >>> victim_there("new", ["old"]), victim_there("b", ["a", "b"]), victim_there("c", ["a", "b"])
    ('old', 'b', None)
    """
    labels = list(known)
    if label in labels:
        return label
    return labels[0] if len(labels) == 1 else None


def check_baselines(prepared: Prepared) -> None:
    """Check that every criterion against a baseline has something to compare, one thing changed.

    Raises:
        UsageError: a baseline is missing, lacks a victim, attack or item, or differs in more than
            one of victim, attack and entity group.
    """
    if not prepared.portion.is_judged:
        return
    for criterion in prepared.experiment.require:
        if criterion.against is None:
            continue
        baseline = baseline_of(prepared.base, criterion.against.run)
        parts = baseline.manifest["parts"]
        ours = manifests.fingerprint_parts(prepared)
        where = f"[[require]] against {criterion.against.run!r}"
        for victim in prepared.victims:
            if criterion.where.get("victim", victim.label) == victim.label:
                _check_factors(where, victim.label, ours, parts, criterion.where)
        here = {
            (part.label, item.id, item.hash)
            for part in prepared.datasets
            for item in part.questions
        }
        there = {(t.arm.place.dataset, t.item.id, t.item.hash) for t in baseline.trials}
        if not here & there:
            raise UsageError(
                f"{where}: the two runs have no item in common; a data set needs the same label, "
                "ids and texts in both"
            )


def _check_factors(
    where: str,
    victim: str,
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    asked: Mapping[str, str],
) -> None:
    other = victim_there(victim, theirs["victims"])
    if other is None:
        raise UsageError(
            f"{where}: it has no victim {victim!r}, and several others "
            f"({', '.join(theirs['victims'])}); label the one to compare alike"
        )
    changed: dict[str, str] = {}
    if ours["victims"][victim] != theirs["victims"][other]:
        changed["victim"] = victim
    for kind, noun in (("attacks", "attack"), ("groups", "entity group")):
        for label, value in ours[kind].items():
            wanted = asked.get(kind[:-1])
            if label != (wanted or label):
                continue
            # Criteria judge control arms only where `where` names them.
            is_control = label.rpartition(BETWEEN)[0] in ours[kind]
            if wanted is None and kind == "attacks" and is_control:
                continue
            if label not in theirs[kind]:
                raise UsageError(
                    f"{where}: it has no {noun} {label!r} (it has: {', '.join(theirs[kind])}); "
                    "leave it out by `where`, or label both alike"
                )
            if theirs[kind][label] != value:
                changed.setdefault(noun, label)
    if len(changed) > 1:
        named = " and ".join(f"the {noun} {label!r}" for noun, label in changed.items())
        both = "both" if len(changed) == 2 else "all"
        raise UsageError(
            f"{where}: {named} {both} differ from the baseline's, so a difference could not be "
            "attributed; change only one"
        )
