"""Choose the successful attacks to show, and mark what changed in their prompts."""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import groupby

from medstress.core.calls import Prompt
from medstress.core.hashing import digest
from medstress.core.outcomes import Verdict
from medstress.core.rows import NOT_SHOWN, TrialRow
from medstress.metrics.attempt_records import entries, pick_attempt
from medstress.results.formats import decimal

LIMIT = 200
"""Largest number of successes, and of failures, on the page."""

_LARGEST_DIFF = 1_000_000
"""Limit of words before times words after; beyond it the whole stretch counts as changed."""

_MOST_PAIRS = 50_000_000
"""Limit of pairs of equal words times words before; takes half a second."""
_PUNCTUATION = string.punctuation + "“”‘’…"
_CHUNK = re.compile(r"\s+|\S+")


class Change(StrEnum):
    """How a stretch of text changed."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of text that was kept, removed or added as a whole."""

    change: Change
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A successful attack as shown."""

    trial: TrialRow
    segments: tuple[Segment, ...]
    """The question with its options listed, including removed and added words."""
    before: str
    """P(key) on the clean item."""
    after: str
    """P(key) on the perturbed item."""
    flip_check: str
    """Whether the success repeated."""
    note: str | None = None
    """Why the whole prompt is not shown; None if it is."""
    sent: tuple[tuple[str, str], ...] = ()
    """(role, text) of the perturbed prompt as sent, if it differs from the listing."""
    said: tuple[tuple[str, str], ...] = ()
    """(title, text) of the successful attempt in a conversation: the attacker's plan, the victim's
    reasoning."""


def successes(trials: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the successful attacks, without control arms."""
    return [trial for trial in trials if trial.verdict is Verdict.FLIPPED and trial.arm == "attack"]


def choose(trials: Sequence[TrialRow], limit: int, salt: str) -> list[TrialRow]:
    """Choose up to `limit` trials, spread over the attacks as evenly as possible.

    Within an attack the choice is pseudo-random, by the hash of `salt` and trial identifier, so it
    does not depend on the order of the trials or on other attacks.
    """
    by_attack: dict[str, list[TrialRow]] = defaultdict(list)
    for trial in sorted(trials, key=lambda each: digest([salt, each.trial_id])):
        by_attack[trial.attack].append(trial)
    ranked = [
        (rank, attack, trial)
        for attack in sorted(by_attack)
        for rank, trial in enumerate(by_attack[attack])
    ]
    ranked.sort(key=lambda each: each[:2])
    return sorted((trial for _, _, trial in ranked[:limit]), key=_sort_key)


def _sort_key(trial: TrialRow) -> tuple[str, ...]:
    seed = "" if trial.seed is None else f"{trial.seed:09}"
    names = (trial.attack, trial.dataset, trial.group, trial.victim, trial.item_id)
    return (*names, seed, trial.trial_id)


def show(trial: TrialRow) -> Example:
    """Prepare a trial for the page."""
    checks = {True: "flipped again", False: "did not flip again", None: "not asked"}
    before, after = trial.listing_before, trial.listing_after
    note = None
    if before is None or after is None:
        before, after = trial.replaced or "", trial.replacement or ""
        note = f"{NOT_SHOWN}: the run folder keeps a template of it, which is not executed"
    return Example(
        trial=trial,
        segments=mark_changes(before, after),
        before=decimal(trial.score_before),
        after=decimal(trial.score_after),
        flip_check=checks[trial.repeats],
        said=_said(trial),
        note=note,
        sent=() if trial.prompt_after == after else _turns(trial.prompt_after),
    )


def _turns(prompt: Prompt | None) -> tuple[tuple[str, str], ...]:
    if prompt is None:
        return ()
    if isinstance(prompt, str):
        return (("prompt", prompt),)
    return tuple((turn.role, turn.content) for turn in prompt)


def _said(trial: TrialRow) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    picked = pick_attempt(trial)
    for entry in entries(trial):
        if entry.get("attempt") == picked:
            found |= {name: entry[name] for name in ("plan", "rationale") if entry.get(name)}
    titles = {"plan": "Plan of the attacker", "rationale": "Reasoning of the victim"}
    return tuple((title, found[name]) for name, title in titles.items() if name in found)


def mark_changes(before: str, after: str) -> tuple[Segment, ...]:
    """Compare two texts word by word.

    The removed and unchanged segments give `before`; the added and unchanged ones give `after`.

    >>> [s.change + ":" + s.text for s in mark_changes("Give old aspirin.", "Give warfarin.")]
    ['same:Give ', 'removed:old aspirin', 'added:warfarin', 'same:.']
    """
    old, new = list(_words(before)), list(_words(after))
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    middle = _compare(old[start : len(old) - end], new[start : len(new) - end])
    pieces = [
        (Change.SAME, "".join(old[:start])),
        *middle,
        (Change.SAME, "".join(old[len(old) - end :])),
    ]
    return tuple(_merge([(change, text) for change, text in pieces if text]))


def _words(text: str) -> Iterator[str]:
    """Split into words, the white space between them and the punctuation around them."""
    for chunk in _CHUNK.findall(text):
        bare = chunk.lstrip(_PUNCTUATION)
        word = bare.rstrip(_PUNCTUATION)
        lead, trail = chunk[: len(chunk) - len(bare)], bare[len(word) :]
        yield from (piece for piece in (lead, word, trail) if piece)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words at the start are equal."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _compare(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Change, str]]:
    if len(old) * len(new) > _LARGEST_DIFF or _alternates(old, new):
        yield Change.REMOVED, "".join(old)
        yield Change.ADDED, "".join(new)
        return
    matcher = SequenceMatcher(str.isspace, old, new, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            yield Change.SAME, "".join(old[i:j])
        else:
            yield Change.REMOVED, "".join(old[i:j])
            yield Change.ADDED, "".join(new[k:m])


def _alternates(old: Sequence[str], new: Sequence[str]) -> bool:
    """True if the texts repeat so many common words that comparing takes seconds.

    `SequenceMatcher` visits every pair of equal words once for each stretch that it finds.
    """
    known = Counter(new)
    return sum(known[word] for word in old if not word.isspace()) * len(old) > _MOST_PAIRS


def _merge(pieces: Sequence[tuple[Change, str]]) -> Iterator[Segment]:
    """Join changes separated only by white space and punctuation into one removal and addition."""
    ends = (0, len(pieces) - 1)
    kept = [
        change is Change.SAME and (i in ends or any(map(str.isalnum, text)))
        for i, (change, text) in enumerate(pieces)
    ]
    for same, group in groupby(zip(kept, pieces, strict=True), key=lambda each: each[0]):
        stretch = [piece for _, piece in group]
        for change in (Change.SAME,) if same else (Change.REMOVED, Change.ADDED):
            text = "".join(text for kind, text in stretch if kind in (change, Change.SAME))
            if text:
                yield Segment(change=change, text=text)
