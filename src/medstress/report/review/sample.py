"""What raters are given of a run: a seeded random sample, and codes in place of names.

A code is a keyed hash of what the case shows, so the same text has the same code in every room, and
who has the page but not the key cannot find out the trial by trying. A *record* says what the code
of a case stands for; it is stored with the room.
"""

from __future__ import annotations

import hmac
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

from medstress.analyses.people import JUDGE, is_judgeable
from medstress.analyses.run import Run
from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit, edit_rows
from medstress.core.trials import Trial
from medstress.core.validity import EVIDENCE_CHANGED
from medstress.store.codec import decode_edits
from medstress.store.prompts import Prompts
from medstress.store.reader import RunReader
from medstress.store.reviews import ATTACKED, CLEAN, SECOND_ANSWER

DEFAULT = 50
"""Cases of a sample if nothing else is asked for."""
NO_SECOND = (
    " (none with a second right answer: no list of synonyms has another name of a right answer)"
)
ANSWER, ADJUDICATE = "answer", "adjudicate"
_ARM = ("dataset", "group", "victim", "attack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawable:
    """One attacked trial that a sample may hold."""

    trial_id: str
    """The trial."""
    dataset: str
    """Label of its data set."""
    item_id: str
    """Its item."""
    unit: str
    """The part of the item that it is about."""
    edits: tuple[Edit, ...]
    """What the attack did."""
    arm: tuple[str, str, str, str]
    """Data set, group, victim and attack."""
    hides_passage: bool = False
    """Whether the item has a passage that the victim's prompt left out: raters get none either."""


def population(run: Run, mode: str) -> list[Drawable]:
    """Return what is drawn from, in the order of trials.

    To judge: every success whose key may still be right. To answer: every trial that showed the
    victim an edit, held or flipped, because successes alone would be chosen by the model's errors.
    """
    prompts = Prompts(run.manifest)
    if mode == JUDGE:
        judged = filter(is_judgeable, run.trials)
        return [_drawable(trial, trial.edits, prompts) for trial in judged]
    last = _last_edits(run)
    drawable = []
    for trial in run.trials:
        if trial.arm.is_control or not trial.item.key or _is_of_other_evidence(trial):
            continue
        edits = last.get(trial.number, ()) if trial.pick is None else trial.pick.edits
        if edits and trial.verdict in (Verdict.FLIPPED, Verdict.HELD):
            drawable.append(_drawable(trial, edits, prompts))
    return drawable


def draw(found: Sequence[Drawable], n: int, seed: int) -> list[Drawable]:
    """Draw n trials without replacement, all equally likely.

    Each is ranked by a hash of the seed and its id: the draw does not depend on the order, and a
    larger sample of the same seed holds the smaller one.

    Raises:
        UsageError: n is below 1.
    """
    if n < 1:
        raise UsageError(f"--sample {n}: expected a number of cases, at least 1")
    return sorted(found, key=lambda one: digest([seed, one.trial_id]))[:n]


def one_of_each_item(found: Sequence[Drawable], seed: int) -> list[Drawable]:
    """Return one trial of every item and unit, drawn by the same rank."""
    of_item: dict[tuple[str, str, str], list[Drawable]] = defaultdict(list)
    for one in found:
        of_item[one.dataset, one.item_id, one.unit].append(one)
    return [draw(rows, 1, seed)[0] for rows in of_item.values()]


def by_arm(found: Sequence[Drawable]) -> list[dict[str, Any]]:
    """Count trials by arm, so that a later estimate can weight what was drawn."""
    counts = Counter(one.arm for one in found)
    return [{**dict(zip(_ARM, arm, strict=True)), "n": counts[arm]} for arm in sorted(counts)]


def _is_of_other_evidence(trial: Trial) -> bool:
    """Return whether the right answer may be another, as the evidence was changed."""
    return trial.pick is not None and trial.pick.validity.reason == EVIDENCE_CHANGED


def _drawable(trial: Trial, edits: tuple[Edit, ...], prompts: Prompts) -> Drawable:
    place, item = trial.arm.place, trial.item
    has_passage = bool(getattr(item, "passage", ""))
    return Drawable(
        trial_id=trial.id,
        dataset=place.dataset,
        item_id=item.id,
        unit=trial.unit,
        edits=edits,
        arm=(*place, trial.arm.attack.label),
        hides_passage=has_passage and prompts.hides_passages(place.victim, place.dataset),
    )


def _last_edits(run: Run) -> dict[int, tuple[Edit, ...]]:
    """Return number of a trial -> its last edit, unless that changes nothing."""

    def texts(reader: RunReader) -> dict[int, str]:
        return {number: text for number, _, text in reader.attack_edits()}

    last = run.folder.read(texts)
    changed = {}
    for trial in run.trials:
        edits = decode_edits(last[trial.number]) if trial.number in last else ()
        if any(trial.item.replaced(edit) != edit.replacement for edit in edits):
            changed[trial.number] = edits
    return changed


def described(body: Mapping[str, Any]) -> str:
    """Return one sentence about a drawn sample."""
    what = "successes" if body["mode"] == JUDGE else "attacked items"
    n = sum(body["planted"].values())
    texts = len(body["cases"]) - n if body["mode"] == JUDGE else len(body["cases"]) // 2
    none = "" if body["planted"].get(SECOND_ANSWER) or n < 4 else NO_SECOND
    return (
        f"{body['drawn']} of {body['population']} {what} (seed {body['seed']}): {texts} different "
        f"texts, and {n} planted controls{none}"
    )


DIGITS = 12
"""Hexadecimal digits of a code: two of 10,000 cases are alike with a probability of 2e-7."""


def code(key: bytes, *what: Any) -> str:
    """Return the code of something that JSON can hold.

    >>> code(b"secret", "case", 1) == code(b"secret", "case", 1) != code(b"other", "case", 1)
    True
    """
    text = json.dumps(what, ensure_ascii=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), sha256).hexdigest()[:DIGITS]


Record: TypeAlias = Mapping[str, Any]
"""Fields: id, trials, dataset, item, unit, edits, hidden; of planted controls also control,
control_of, at and name; of items to answer also shown and pair."""


def record_of(key: bytes, one: Drawable) -> dict[str, Any]:
    """Return what a case of one trial stands for."""
    edits = edit_rows(one.edits)
    # What is not hidden has no place in the code, so that codes of earlier rooms hold.
    hidden = ["passage"] if one.hides_passage else []
    return {
        "id": code(key, "case", one.dataset, one.item_id, one.unit, edits, *hidden),
        "trials": [one.trial_id],
        "dataset": one.dataset,
        "item": one.item_id,
        "unit": one.unit,
        "edits": edits,
        "hidden": hidden,
    }


def judge_records(key: bytes, drawn: Sequence[Drawable]) -> list[dict[str, Any]]:
    """Return one record for each text: trials that showed the same are judged together."""
    records: dict[str, dict[str, Any]] = {}
    for one in drawn:
        record = record_of(key, one)
        known = records.setdefault(record["id"], record)
        if known is not record:
            known["trials"].append(one.trial_id)
    return list(records.values())


def answer_records(key: bytes, drawn: Sequence[Drawable]) -> list[dict[str, Any]]:
    """Return two records for each item, of which a rater sees one."""
    records = []
    for one in drawn:
        record = record_of(key, one)
        pair = code(key, "pair", record["id"])
        for version, edits in ((CLEAN, []), (ATTACKED, record["edits"])):
            name = code(key, version, record["id"])
            records.append({**record, "id": name, "edits": edits, "shown": version, "pair": pair})
    return records


def pairs_of(records: Sequence[Record]) -> list[list[str]]:
    """Return the two codes of each item: a rater sees all the first ones, or all the second ones.

    In half of the pairs, by their codes, the clean one is first: so each rater sees as many clean
    items as attacked ones, and the next rater sees the others.
    """
    of_pair: dict[str, dict[str, str]] = defaultdict(dict)
    for record in records:
        of_pair[record["pair"]][record["shown"]] = record["id"]
    found = []
    for at, pair in enumerate(sorted(of_pair)):
        both = of_pair[pair]
        clean_first = at < len(of_pair) / 2
        found.append(
            [both[CLEAN], both[ATTACKED]] if clean_first else [both[ATTACKED], both[CLEAN]]
        )
    # In the order of the first codes, which does not tell the halves apart.
    return sorted(found)
