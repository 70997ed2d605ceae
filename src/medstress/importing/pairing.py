"""Join the log of clean questions with logs of perturbed ones, question by question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medstress.core.attack_sets import FIELD, FORMAT, LOGS, NAME
from medstress.core.calls import Chosen
from medstress.core.controls import arm_label, control_of
from medstress.core.errors import DataError, UsageError
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit
from medstress.datasets.forms.layout import content_id
from medstress.datasets.given.forms import edits_between, with_forms
from medstress.datasets.writing import row_from_question
from medstress.importing.log import Log, LoggedItem
from medstress.version import __version__

ARM = "arm"
"""The column of our tasks that says which attack or control a row is of."""


@dataclass(slots=True, kw_only=True)
class Joined:
    """The questions of a log, their forms, and every answer."""

    questions: list[Question] = field(default_factory=list)
    """Clean questions, with the edits that make their perturbed forms."""
    answers: list[tuple[Candidate, Chosen]] = field(default_factory=list)
    """What was asked and what the model answered."""
    notes: list[str] = field(default_factory=list)
    """What was left out."""


def join(clean: Log, perturbed: Sequence[Log]) -> Joined:
    """Join logs of one model.

    Raises:
        UsageError: the logs are of different models.
        DataError: a perturbed log has no question of the clean one.
    """
    found = Joined(notes=[gap for log in (clean, *perturbed) for gap in log.gaps])
    kept = _without_repeats(clean, found.notes)
    labels = _labels(clean, perturbed)
    forms: dict[str, dict[str, list[tuple[Edit, ...]]]] = {name: {} for name in kept}
    asked: dict[str, list[tuple[tuple[Edit, ...], Chosen]]] = {name: [] for name in kept}
    for log, label in zip(perturbed, labels, strict=True):
        if log.model != clean.model:
            raise UsageError(
                f"{log.path} holds answers of {log.model}, and {clean.path} those of "
                f"{clean.model}: one run is of one model; import the logs of each by themselves"
            )
        n_same, after = 0, []
        for name, edits, item in _paired(clean, log, kept, found.notes):
            n_same += not edits
            after.append((kept[name].is_right, item.is_right))
            forms[name].setdefault(label, []).append(edits)
            asked[name].append((edits, item.answer))
        if n_same:
            found.notes.append(
                f"{label}: questions that do not differ from the clean one: {n_same}"
            )
        found.notes += _gains(label, after)
    for name, item in kept.items():
        question = with_forms(item.question, forms[name])
        found.questions.append(question)
        found.answers.append((Candidate(item=question), item.answer))
        found.answers += [
            (Candidate(item=question, edits=edits), answer)
            for edits, answer in asked[name]
            if edits
        ]
    return found


def _without_repeats(log: Log, notes: list[str]) -> dict[str, LoggedItem]:
    """Return the items by their names, without later ones with the same question."""
    found: dict[str, LoggedItem] = {}
    seen: set[str] = set()
    for item in log.items:
        content = content_id(
            {**row_from_question(item.question), "answer_idx": None, "passage": None}
        )
        if content not in seen and item.pairs_with not in found:
            found[item.pairs_with] = item
        seen.add(content)
    if n := len(log.items) - len(found):
        notes.append(f"rows of {log.path.name} that repeat an earlier one and are left out: {n}")
    return found


def _gains(label: str, after: Sequence[tuple[bool, bool]]) -> Iterator[str]:
    """Say what the log's own accuracy is, where answers to questions that were wrong count in it.

    Args:
        label: of the log.
        after: of each pair, whether the clean answer was right, and the one after the change.
    """
    wrong = [gained for was_right, gained in after if not was_right]
    if wrong:
        right = sum(is_right for _, is_right in after)
        yield (
            f"{label}: the log itself is right on {right} of {len(after)}; {len(wrong)} of these "
            f"were wrong before the change, of which {sum(wrong)} became right: no loss and no "
            "accuracy after the attack counts them"
        )


def _labels(clean: Log, perturbed: Sequence[Log]) -> list[str]:
    """Return what each log is called in the run; our controls as those of their attack."""
    tasks = [clean.task, *(log.task for log in perturbed)]
    names = [log.task if tasks.count(log.task) == 1 else log.path.stem for log in perturbed]
    of_arm = dict(zip(map(_arm, perturbed), names, strict=True))
    found = []
    for log, name in zip(perturbed, names, strict=True):
        attack, control = control_of(_arm(log) or "")
        beside = of_arm.get(attack) if control else None
        found.append(name if control is None or beside is None else arm_label(beside, control))
    return found


def _arm(log: Log) -> str | None:
    """Return the arm that all rows of a log are of, as our tasks write it, if they say one."""
    arms = {item.question.metadata.get(ARM) for item in log.items}
    (arm,) = arms if len(arms) == 1 else (None,)
    return arm if isinstance(arm, str) else None


def _paired(
    clean: Log, log: Log, kept: dict[str, LoggedItem], notes: list[str]
) -> Iterator[tuple[str, tuple[Edit, ...], LoggedItem]]:
    """Yield name, edits and item of every perturbed question with a clean one."""
    alone, other = 0, 0
    for item in log.items:
        known = kept.get(item.pairs_with)
        if known is None:
            alone += 1
            continue
        old, new = known.question, item.question
        if (old.key, len(old.options)) != (new.key, len(new.options)):
            other += 1
            continue
        yield item.pairs_with, edits_between(old, new), item
    if alone + other == len(log.items):
        raise DataError(
            f"{log.path}: expected the questions of {clean.path} with changes, with the same ids, "
            "keys and numbers of options, got none; give the two logs of one set"
        )
    if alone:
        notes.append(f"{log.path.name}: questions that the clean log lacks, left out: {alone}")
    if other:
        notes.append(f"{log.path.name}: questions with another key or other options: {other}")


def file_of(log: Log, joined: Joined) -> tuple[str, list[dict[str, Any]]]:
    """Return the data set that reads the questions, and the lines of its file."""
    rows = [_row(item) for item in joined.questions]
    entries = [entry for row in rows for entry in row.get(FIELD, ())]
    if not entries:
        return "jsonl", rows
    kinds = dict.fromkeys(entry["arm"] for entry in entries)
    head = {
        FIELD: FORMAT,
        "medstress": __version__,
        # Neither tool nor task: runs of two tools on the same forms compare.
        "given": LOGS,
        "source": {
            "experiment": LOGS,
            "fingerprint": "",
            "started": "",
            "victim": LOGS,
            "model": "",
            "model_hash": "",
        },
        "n_items": len(rows),
        "n_trials": len(entries),
        "n_queries": sum(len(entry["queries"]) for entry in entries),
        "arms": [
            {
                "label": kind,
                "control": control if attack in kinds else None,
                "spec": {"name": NAME, "given": LOGS, "form": kind},
                "is_blind": True,
                "changes_evidence": False,
            }
            for kind in kinds
            for attack, control in (control_of(kind),)
        ],
    }
    return NAME, [head, *rows]


def _row(item: Question) -> dict[str, Any]:
    plain = replace(item, metadata={k: v for k, v in item.metadata.items() if k != FIELD})
    own = {"item_hash": item.hash, FIELD: item.metadata[FIELD]} if FIELD in item.metadata else {}
    return {**plain.metadata, **row_from_question(plain), **own}
