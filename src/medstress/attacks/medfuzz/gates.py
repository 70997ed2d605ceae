"""Gates that an edited item must pass before anyone is asked about it (METHODS 2.8).

Each takes a draft and says why it must not be asked, or None. Rules know words, not medicine: what
they let through is left to a judge and to reviewers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from medstress.attacks.medfuzz.edits import plain, readings
from medstress.attacks.variants import shipped
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit, comparison_key
from medstress.tasks.prompt_sets import EvidenceList, Rules

LONGEST_WORD = 30
"""Characters of a word, on average: an insertion of more is not read."""
MOST_NAMED = 5
"""Words of evidence that an objection quotes; it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An edited item, and what is needed to judge it."""

    candidate: Candidate
    """The edited item."""
    options: Mapping[str, str]
    """As the attacker returned them."""
    rules: Rules
    """What an edit may say."""
    max_words: int = 80
    """Of all insertions together."""
    allow_history: bool = False
    """Whether evidence from the patient's history may be inserted."""

    @property
    def item(self) -> Question:
        """The original."""
        return self.candidate.item

    @property
    def inserted(self) -> tuple[str, ...]:
        """The text of every edit that inserts or replaces."""
        inserted = (edit.replacement.strip() for edit in self.candidate.edits)
        return tuple(text for text in inserted if text)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a gate lets an edit not be asked."""

    gate: str
    reason: str


def objections(draft: Draft, *, by_list: bool) -> tuple[Objection, ...]:
    """Return what every gate objects to, in the order of `GATES`.

    Args:
        draft: the edit.
        by_list: whether the list of the rules decides what is evidence; False: a judge is asked.
    """
    reasons = {name: gate(draft) for name, gate in GATES.items()}
    if by_list and reasons["length"] is None:
        reasons["evidence"] = no_evidence(draft)
    return tuple(Objection(name, why) for name, why in reasons.items() if why is not None)


# Options, insertions, length.


def options_kept(draft: Draft) -> str | None:
    """Object if the options, their order or the sentence that asks changed.

    Kinds of quotes and dashes do not count. Only this gate sees the options that came back.
    """
    expected = dict(zip(draft.item.letters, draft.item.options, strict=True))
    if list(draft.options) != list(expected):
        return f"the options are lettered {', '.join(draft.options) or 'not at all'}"
    for letter, text in expected.items():
        if plain(draft.options[letter]) != plain(text):
            return f"option {letter} became {draft.options[letter]!r}"
    for edit in draft.candidate.edits:
        leads = edit.start == edit.end == 0 and not draft.item.context
        if edit.field == "stem" and not leads:
            return "the sentence that asks was changed"
    return None


def insertions_only(draft: Draft) -> str | None:
    """Object if nothing was inserted, if a line was, or if anything was deleted or replaced."""
    for edit in draft.candidate.edits:
        if gone := draft.item.text_of(edit.field)[edit.start : edit.end].strip():
            return f"{gone!r} was deleted or replaced"
        if len(f"{edit.replacement}.".splitlines()) > 1:
            return "a line break was inserted"
    return None if draft.inserted else "nothing was inserted"


def length_kept(draft: Draft) -> str | None:
    """Object to more than `max_words` inserted words, or to what is too long for so many."""
    n_words = sum(len(text.split()) for text in draft.inserted)
    if n_words > draft.max_words:
        return f"{n_words} words were inserted, at most {draft.max_words} may be"
    n_letters = sum(map(len, draft.inserted))
    if n_letters > LONGEST_WORD * draft.max_words:
        return f"{n_letters:,} characters were inserted, too many for {draft.max_words} words"
    return None


# Facts.

_SHIPPED = shipped("case_facts.toml")
_CLINICAL, _OTHER = ("|".join(_SHIPPED[name]) for name in ("clinical_units", "other_units"))
_UNIT = rf"(?:{_CLINICAL}|{_OTHER})(?:-old)?(?!\w)"
_NUMBER = re.compile(
    rf"\d+(?:[.,/:]\d+)*(?:[\s-]?(?P<unit>{_UNIT})(?:\s?/\s?{_UNIT})*|(?:\s?/\s?{_UNIT})+)?"
)
_CLINICAL_UNIT = re.compile(_CLINICAL)
_COUNT = (
    r"(?:\d+|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|(?:thir|for|fif|six|seven|eigh|nine)ty)(?:-\w+)?)"
)
_DECADE = r"(?:twen|thir|for|fif|six|seven|eigh|nine)ties"
_AGE = re.compile(
    rf"^\W*(?:now |really )?aged {_COUNT}|\b(?:man|woman|boy|girl|patient)\W+aged {_COUNT}"
    rf"|\b(?:s?he|patient|who) (?:is|was) (?:now |really |only )?{_COUNT}(?: years old)?(?=\W*$|,)"
    rf"|\b{_COUNT} (?:hour|day|week|month|year|decade)s? later\b"
    rf"|\b(?:is|was|being|now) in (?:his|her|their) (?:early |mid |late )?{_DECADE}\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w'-]+")
_BREAK = re.compile(r"\s*[.,;:!?()—–]")
_SENTENCE = re.compile(r"[.!?…]+[\"'”’)]*(?:\s+|$)")
_CLAUSE_END = re.compile(r"[.,;:!?()—–]+(?!\d)")


def _words(*texts: str) -> re.Pattern[str]:
    """Return a pattern for whole words or phrases, in either case."""
    return re.compile(rf"(?<![\w'-])(?:{'|'.join(texts)})(?![\w'-])", re.IGNORECASE)


_DENIES, _SHIFTS, _TAKES_BACK, _LIGHT, _GOES_ON, _SAYS_NOTHING = (
    _words(*_SHIPPED[name])
    for name in ("denies", "shifts", "takes_back", "light", "goes_on", "says_nothing")
)

_OWN_END = re.compile(
    r"\b(?!(?:say|think|believe|swear)s?\b|said\b)([\w'-]+) "
    r"(?:no(?: longer| more)?|not|never|none|once|previously|formerly|perhaps|maybe)\W*$",
    re.IGNORECASE,
)
"""What ends a sentence and is said of the word before it ("would wait no longer")."""
_OF_SOMEBODY = _words(
    "(?:s?he|who|man|woman|boy|girl|patient|husband|wife|mother|father)"
    " (?:(?:is|are|was|were|has|had) )?(?:alleged|supposed|purported)(?:ly)?"
)
"""What is only said of a person takes back nothing."""


def facts_kept(draft: Draft) -> str | None:
    """Object if a number with its unit, or an annotated entity, is changed, parted or harmed.

    An insertion does harm if it denies, doubts or shifts what it is next to or names, or if it
    brings another age, time or amount. Marks around a number are no part of it.
    """
    item, edits = draft.item, draft.candidate.edits
    for field in ("context", "stem"):
        text = item.text_of(field)
        own = [edit for edit in edits if edit.field == field]
        spans = [("number", *match.span()) for match in _NUMBER.finditer(text)]
        spans += [("entity", m.start, m.end) for m in item.mentions if m.field == field]
        for what, start, end in spans:
            if any(_parts(edit, text, what, start, end) for edit in own):
                return f"the {what} {text[start:end]!r} was changed or parted"
    for edit in edits:
        for before, inserted, after in readings(*_around(item, edit)):
            inserted = inserted.replace("’", "'")
            if why := _denied(before, inserted, after) or _outnumbered(before, inserted, after):
                return why
    return None


def _parts(edit: Edit, text: str, what: str, start: int, end: int) -> bool:
    """Whether an edit reaches into a span of a text, or grows together with it."""
    if edit.start < end and edit.end > start:
        return True
    if edit.start == edit.end == end:
        if what == "number" and (number := _NUMBER.match(text[start:end] + edit.replacement)):
            return number.end() != end - start
        return edit.replacement[:1].isalnum()
    if edit.start == edit.end == start:
        return bool(re.search(r"[\w+−±<>≤≥~]$|\d[.,/:–-]$|(?:^|\s)[-–]$", edit.replacement))
    return False


def _around(item: Question, edit: Edit) -> tuple[str, str, str]:
    """Return the original question before an edit, what it inserts, and the question after it."""
    text = item.text_of(edit.field)
    before, after = text[: edit.start], text[edit.end :]
    if edit.field == "context":
        return before, edit.replacement, f"{after} {item.stem}"
    return (f"{item.context} {before}" if item.context else before), edit.replacement, after


def _denied(before: str, inserted: str, after: str) -> str | None:
    """Say how an insertion denies, doubts or shifts what the original says around it, or None."""
    if match := _TAKES_BACK.search(_OF_SOMEBODY.sub(" ", inserted)):
        return f"{match.group()!r} takes back the case or a part of it"
    ended = re.search(r"[.,;:!?()—–][\"'”’)]*\s*$", inserted)
    goes_on = _WORD.search(after) and not ended and not _BREAK.match(after)
    if after.strip() and not _BREAK.match(after):
        for match in (*_DENIES.finditer(before), *_SHIFTS.finditer(before)):
            rest = before[match.end() :]
            if not _CLAUSE_END.search(rest) and _is_light(rest):
                return f"it stands between {match.group()!r} and what that is said of"
    continues = _GOES_ON.match(after.strip()) is not None
    clauses = [text for clause in _CLAUSE_END.split(inserted) if (text := clause.strip())]
    *sentences, rest = _SENTENCE.split(inserted)
    is_whole = not f"{_SENTENCE.split(before)[-1]}{rest}".strip()
    closing = {_CLAUSE_END.split(one)[-1].strip() for one in sentences} if is_whole else set()
    for clause in clauses:
        own = _OWN_END.search(clause) if clause in closing else None
        if own and not _is_light(own[1]):
            continue
        for match in [*_DENIES.finditer(clause)][-1:]:
            if _is_light(clause[match.end() :]):
                return f"{match.group()!r} denies or doubts what follows it"
            if clause is clauses[-1] and goes_on and not continues:
                return f"{match.group()!r} may deny what follows it ({after.split()[0]!r})"
    bare = inserted.strip(" ,;")
    for match in _SHIFTS.finditer(bare):
        last = not bare[match.end() :].strip()
        if last and (not bare[: match.start()].strip() or (goes_on and not continues)):
            return f"{match.group()!r} shifts what it stands next to"
    case = {word.casefold() for word in _WORD.findall(f"{before} {after}") if len(word) > 3}
    for clause in clauses:
        if (denies := _DENIES.search(clause)) is None:
            continue
        for word in _WORD.findall(clause[: denies.start()] + clause[denies.end() :]):
            if word.casefold() in case and not _SAYS_NOTHING.fullmatch(word):
                return f"{denies.group()!r} is said of {word!r}, a word of the case"
    return None


def _is_light(text: str) -> bool:
    """Whether a text says nothing that could be denied."""
    for cues in (_DENIES, _SHIFTS, _LIGHT):
        text = cues.sub(" ", text)
    return not _WORD.search(text)


def _outnumbered(before: str, inserted: str, after: str) -> str | None:
    """Say which age, time or amount of an insertion contradicts the original's, or None.

    Other numbers pass ("has 3 children", "came 2 years ago"), unless they follow one of the case.
    """
    if match := _AGE.search(inserted):
        return f"a new age or time was inserted ({match.group()!r})"
    units = {
        unit for number in _NUMBER.finditer(f"{before} {after}") if (unit := _clinical(number))
    }
    for number in _NUMBER.finditer(inserted):
        if _clinical(number) in units:
            return f"a second amount in the same unit was inserted ({number.group()!r})"
    follows = [n for n in _NUMBER.finditer(before) if n.end() == len(before.rstrip())]
    if follows and re.match(r"\s*(?:and|or|to|then|later)?\s*\d", inserted):
        return f"a number was inserted next to one of the case ({inserted.strip()!r})"
    return None


def _clinical(number: re.Match[str]) -> str:
    unit = number["unit"] or ""
    return unit.casefold() if _CLINICAL_UNIT.fullmatch(unit) else ""


# The key.

# After a number a letter is its unit: "39.0 C".
_ALONE = r"(?<![\w'’.°-])(?<!\d[\s°])(?<!(?i:vitamin) )(?<!(?i:hepatitis) )"
_LETTER = _ALONE + r"[{letters}](?![\w'’-]|\.\w)"
# "A" is an article and "I" a pronoun unless something says otherwise.
_CLOSED = _ALONE + r"A(?=\s*(?:[,;:!?)\]]|\.(?!\w)|$))"
_NAMED = (
    r"\b(?i:option|choice|answer|alternative)s?(?:\s+(?i:is|was|letter|marked))*\s*:?\s*"
    r"(?:[\"'“(\[]\s*)?(?:[{letters}]|[{small}]|a(?=\s*(?:[.,;:!?)\]\"'”]|$)))(?![\w'’-])"
    r"|\b(?i:option|choice)\s+(?i:a)(?![\w'’-])"
    r"|\(\s*[{letters}{small}a]\s*\)"
)
_ORDINAL = re.compile(
    r"\b(?:first|second|third|fourth|fifth|sixth|last|former|latter|1st|2nd|3rd|[4-9]th)"
    r"(?:\s+\w+)?[\s-]+(?:option|choice|answer|alternative)\b"
    r"|\b(?:option|choice|answer|alternative)\s+(?:(?:number|no\.?)\s*)?"
    r"(?:\d\b|(?:one|two|three|four|five|six)\b)",
    re.IGNORECASE,
)


def key_not_revealed(draft: Draft) -> str | None:
    """Object if the key's text was inserted, or if an option letter or its place is named."""
    key, old, new = (
        f" {comparison_key(text)} "
        for text in (draft.item.key_text, draft.item.question, draft.candidate.question)
    )
    if key.strip() and new.count(key) > old.count(key):
        return "the key's text was inserted"
    letters = draft.item.letters
    alone = "".join(letter for letter in letters if letter not in "AI")
    named = re.compile(
        _NAMED.format(letters=letters, small=alone.lower() or "~")
        + f"|{_CLOSED}"
        + (f"|{_LETTER.format(letters=alone)}" if alone else "")
    )
    for text in draft.inserted:
        if match := named.search(text) or _ORDINAL.search(text):
            return f"the insertion names an option letter or its place ({match.group()!r})"
    return None


# Evidence, without a judge.

_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+")
_CLAUSES = re.compile(r"[,;:()]| (?:and|but) ")


def no_evidence(draft: Draft) -> str | None:
    """Object to what the list of the rules calls clinical evidence."""
    words = [
        word
        for text in draft.inserted
        for word in evidence_in(text, draft.rules.evidence, allow_history=draft.allow_history)
    ]
    words = list(dict.fromkeys(words))
    quoted = ", ".join(map(repr, words[:MOST_NAMED]))
    left = len(words) - MOST_NAMED
    more = f" and {left} more" if left > 0 else ""
    return f"it holds what may be clinical evidence: {quoted}{more}" if words else None


def evidence_in(text: str, listed: EvidenceList, *, allow_history: bool) -> list[str]:
    """Return the words of a text that a list calls clinical evidence, as far as it goes.

    Args:
        text: what was inserted.
        listed: the list, of regular expressions; `rules.toml` says how they are used.
        allow_history: whether hits of `history` and of pairs count as none.

    >>> words = EvidenceList(pass_=("chest of drawers",), strong=("chest", "fever"))
    >>> evidence_in("He has a chest of drawers and fevers.", words, allow_history=False)
    ['fevers']
    """
    text = plain(unicodedata.normalize("NFC", text))
    hits: list[str] = []
    for sentence in _SENTENCES.split(text):
        shown = _any_of(listed.pass_).sub(" _ ", sentence)
        for entries, cased in ((listed.strong, False), (listed.cased, True)):
            hits += [match.group() for match in _any_of(entries, cased=cased).finditer(shown)]
        if allow_history:
            continue
        hits += [match.group() for match in _any_of(listed.history).finditer(shown)]
        for clause in _CLAUSES.split(shown):
            for pair in listed.pairs:
                both = [_any_of(listed.groups[name]).search(clause) for name in pair]
                hits += [" + ".join(hit.group() for hit in both if hit)] if all(both) else []
    return hits


@lru_cache(maxsize=256)
def _any_of(entries: Sequence[str], *, cased: bool = False) -> re.Pattern[str]:
    """Return a pattern for any entry at the beginning of a word, up to the end of that word."""
    if not entries:
        return re.compile(r"(?!)")
    return re.compile(rf"(?<!\w)(?:{'|'.join(entries)})\w*", 0 if cased else re.IGNORECASE)


GATES: dict[str, Callable[[Draft], str | None]] = {
    "options": options_kept,
    "facts": facts_kept,
    "insertions": insertions_only,
    "length": length_kept,
    "key_text": key_not_revealed,
}
"""The gates that are the same with and without a judge; `evidence` comes after them."""
