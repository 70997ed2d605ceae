"""Pack cases for a page: texts that several of them share stand once, changes stand as edits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from medstress.report.cases.differences import Change, mark_changes
from medstress.report.cases.listing import LONGEST
from medstress.report.cases.record import CaseRecord, Tagging, Turn
from medstress.results.formats import clean

HASHED = "blake2b-128:"
"""What the trial ids of a run folder begin with."""
HELD = "held"
DIGITS = 4
"""Decimals of scores on a page."""
Splice = list[Any]
"""[first UTF-16 unit of the text before, number of units removed, text added]; in what is shown, 0
stands for the text of the list's `replacement`."""
MOST_ATTEMPTS = 40
"""Most attempts of one case on a page."""


@dataclass(slots=True)
class Texts:
    """Texts of a page, each once; new ones wait until `keep` or `drop`."""

    known: dict[str, int] = field(default_factory=dict)
    """Text -> place."""
    waiting: list[str] = field(default_factory=list)

    def place(self, text: str) -> int:
        """Return the place of a text, adding it if it is new."""
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = len(self.known)
            self.waiting.append(text)
        return found

    def keep(self) -> None:
        """Keep the texts added since the last call."""
        self.waiting.clear()

    def drop(self) -> None:
        """Remove them."""
        for text in self.waiting:
            del self.known[text]
        self.waiting.clear()


def pack(record: CaseRecord, texts: Texts, *, level: int = 0) -> dict[str, Any]:
    """Return the details of a case as JSON values; the script of the page unpacks them.

    Args:
        record: the case.
        texts: where its texts are put.
        level: 0 for everything, 1 without what was tried and without plans and reasoning, 2 also
            without what was sent and the scores of other answers.
    """
    found: dict[str, Any] = {
        "arm": None if record.arm == "attack" else _place(record.arm, texts),
        "unit": None if record.unit == "item" else clean(record.unit),
        "in": _cleaned(record.changed_in),
        "error": _place(record.error, texts),
        # The list has the answer to a success; here stands the last one of a case that held.
        "answer": _cleaned(record.answer_after) if record.verdict == HELD else None,
        "p": _rounded(record.confidence_after),
        "guess": record.guess or None,
        "repeats": record.repeats,
        "asked": record.n_asked,
        "first": record.first_success,
        "pick": None if record.shown_success == record.first_success else record.shown_success,
        "shown": _shown(record, texts),
        "controls": [[each.control, each.verdict] for each in record.controls],
        "left_out": [_place(text, texts) for text in (*DROPPED[level], *record.left_out)],
    }
    if level == 2:
        # Said once for all that the level lacks: every byte counts here.
        found["left_out"] = [_place(text, texts) for text in DROPPED[level]]
    if level < 2:
        found["trial"] = _trial(record)
        found["type"] = _place(record.entity_type, texts)
        found["evidence"] = [_place(each, texts) for each in record.evidence]
        found["sent"] = _sent(record, texts)
        if record.scored_before:
            scored = [
                clean("\n".join(each)) for each in (record.scored_before, record.scored_after)
            ]
            found["scored"] = _changed(scored[0], scored[1] if record.scored_after else None, texts)
        found["scores"] = [
            [clean(each.label), _rounded(each.before), _rounded(each.after)]
            for each in record.scores
        ]
        found["tagged"] = [
            _tagged(each) for each in (record.tagged_before, record.tagged_after) if each
        ]
    if level < 1:
        found["tried"] = [
            [
                each.query,
                [[clean(swap.replaced), clean(swap.replacement)] for swap in each.swaps],
                _cleaned(each.answer),
                _rounded(each.score),
                *([1] if each.is_refuted else []),
            ]
            for each in record.tried
        ]
        found["attempts"] = _attempts(record)
        fewer = len(record.attempts) - MOST_ATTEMPTS
        if fewer > 0:
            told = f"{fewer} later attempts: medstress case shows all"
            found["left_out"].append(_place(told, texts))
    return {key: value for key, value in found.items() if value not in (None, [], "")}


DROPPED: dict[int, tuple[str, ...]] = {
    0: (),
    1: ("reasoning and what was tried before: medstress case shows them",),
    2: ("scores, reasoning, what was sent and what was tried before: medstress case shows them",),
}
"""Level -> what a case of it lacks, for the size of the page."""


@lru_cache(maxsize=64)
def splices(before: str, after: str) -> list[Splice]:
    """Return the changes from one text to another, word by word.

    Places count UTF-16 units, as the scripts of pages do.

    >>> splices("Give old aspirin.", "Give warfarin.")
    [[5, 11, 'warfarin']]
    """
    found: list[Splice] = []
    at, fresh = 0, True
    for segment in mark_changes(before, after):
        if segment.change is Change.SAME:
            at, fresh = at + _units(segment.text), True
            continue
        if fresh:
            found.append([at, 0, ""])
            fresh = False
        if segment.change is Change.REMOVED:
            n = _units(segment.text)
            found[-1][1] += n
            at += n
        else:
            found[-1][2] += segment.text
    return found


def as_script(value: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it ends the element.

    >>> as_script({"a": "</script>"})
    '{"a":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def size_of(value: Any) -> int:
    """Return the bytes of a value on a page."""
    return len(as_script(value).encode())


def _trial(record: CaseRecord) -> str:
    """Return what follows the short id in the trial id; the whole id if that has another form."""
    head, _, tail = record.trial_id.partition(record.id)
    return tail if head == HASHED and tail else clean(record.trial_id)


def _place(text: str | None, texts: Texts) -> int | None:
    return None if text is None else texts.place(clean(text))


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _shown(record: CaseRecord, texts: Texts) -> list[Any] | None:
    before, after = record.shown_before, record.shown_after
    if before is None:
        return None
    place, *changes = _changed(clean(before), None if after is None else clean(after), texts)
    name = _cleaned(record.replacement)
    # The list has the new name already; 0 stands for it.
    short = name is not None and len(name) <= LONGEST
    return [place, *([[a, n, 0 if short and t == name else t] for a, n, t in c] for c in changes)]


def _changed(before: str, after: str | None, texts: Texts) -> list[Any]:
    place = texts.place(before)
    return [place] if after is None else [place, splices(before, after)]


def _sent(record: CaseRecord, texts: Texts) -> Any:
    """Return the turns as [role, place, changes]; 1 if what was sent is what is shown."""
    before, after = record.sent_before, record.sent_after
    if not before and not after:
        return None
    if _is(before, record.shown_before) and (not after or _is(after, record.shown_after)):
        return 1
    turns = []
    for i in range(max(len(before), len(after))):
        old = before[i] if i < len(before) else None
        new = after[i] if i < len(after) else None
        turns += _turn(old, new, texts, has_after=bool(after))
    return turns


def _is(turns: Sequence[Turn], shown: str | None) -> bool:
    return len(turns) == 1 and turns[0].role == "prompt" and turns[0].text == shown


def _turn(old: Turn | None, new: Turn | None, texts: Texts, *, has_after: bool) -> list[list[Any]]:
    if old and new and old.role == new.role:
        return [[clean(old.role), *_changed(clean(old.text), clean(new.text), texts)]]
    found = []
    if old:
        # It was sent before only: everything in it is removed.
        text = clean(old.text)
        found.append([clean(old.role), *_changed(text, "" if has_after else None, texts)])
    if new:
        found.append([clean(new.role), *_changed("", clean(new.text), texts)])
    return found


def _tagged(tagging: Tagging) -> list[list[str]]:
    return [list(map(clean, each)) for each in (tagging.tokens, tagging.gold, tagging.predicted)]


def _attempts(record: CaseRecord) -> list[dict[str, Any]]:
    return [
        {
            key: value
            for key, value in (
                ("n", each.number),
                ("plan", _cleaned(each.plan)),
                ("objections", [clean(text) for text in each.objections]),
                ("answer", _cleaned(each.answer)),
                ("rationale", _cleaned(each.rationale)),
                ("confidences", list(each.confidences or ())),
            )
            if value not in (None, [])
        }
        for each in record.attempts[:MOST_ATTEMPTS]
    ]


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
