"""Find option letters in running text: those stated as the answer, and those merely named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from medstress.option_letters.cleaning import cleaned_lines

_PRIVATE = 0xE000
"""First of the private characters that stand for the options' own texts."""
_PLACES = "\ue000-\ue019"
_WORD = "A-Za-z0-9_\u00c0-\u024f"
_ONE = rf"(?<![{_WORD}-])(?<![{_WORD}]')(?<![A-Za-z]\.)[A-Z{_PLACES}](?![{_WORD}'-]|\.[{_WORD}])"
_AND = (
    r"[)\]]?\s*(?:,\s*(?:and|or)\b|,|/|&|\b(?:and|or|nor|to)\b)\s*"
    r"(?:(?:option|choice)\s+)?[(\[]?"
)
_GROUP = re.compile(rf"{_ONE}(?:{_AND}{_ONE})*")
_LOWER = re.compile(rf"(?<![{_WORD}'-])[a-z](?=[)\]]?\s*(?:$|[.;!?\n]))")

_WORD_END = re.compile(f"[{_WORD}]")
_REACH = 120
"""Characters before a letter that are searched for what it is."""
_COPULA = r"(?:is|was|(?:would|must|should|will|could)\s+be|=|:|-|–|—)"
_HEDGE = r"(?:\s*(?::|the|most likely|probably|likely|definitely|clearly|option|choice|letter))*"
_LEAD = re.compile(
    rf"(?:\banswer(?:(?:\s+(?!not\b|never\b|{_COPULA})[\w']+){{0,5}}?\s*{_COPULA})?{_HEDGE}"
    rf"|\b(?:correct|right|best|final)\s+(?:option|choice|letter|one)\s*{_COPULA}{_HEDGE}"
    r"|\b(?:i|we)(?:'d|'ll|\s+would|\s+will)?\s+(?:choose|chose|pick|put|select|go with|say)"
    rf"{_HEDGE}"
    rf"|\b(?:it's|it is){_HEDGE}"
    rf"|\b(?:so|therefore|thus|hence),?(?:\s+(?:it's|it is|it must be))?{_HEDGE}"
    r")\s*[(\[']*$",
    re.IGNORECASE,
)
"""Words before a letter, or an option's text, that make it the answer."""
_PRAISE = re.compile(
    r"[)\]]?\s*(?:is|are|seems|looks|would be|must be)\s+(?:the\s+|clearly\s+|most\s+)*"
    r"(?:correct|right|best|answer|likely|likeliest)\b"
)
_NOT_BEFORE = re.compile(
    r"(?:\b(?:no|not|neither|nor|never|cannot|except|without|eliminate|exclude|reject|unlike|against|"
    r"than|rules? out|ruled out|instead of)|n't)\b(?:\s+[a-z]+){0,2}\s*[(\[]?$",
    re.IGNORECASE,
)
_ALL_BUT = re.compile(
    r"\b(?:everything|anything|every|any|each|all)"
    r"(?:\s+(?:one|single|of|the|them|these|those|above|others?|options?|choices?|answers?))*"
    r"\s+but(?:\s+(?:for|the|option|choice|letter))*\s*[(\[]?$",
    re.IGNORECASE,
)
"""Words that rule out what follows, unless they are ruled out themselves ("not anything but A")."""
_NOT_AFTER = re.compile(
    r"[)\]]?\s*(?:(?:is|are|was|were|seems?|looks?|(?:can|may|must|should) be)\s+)?(?:clearly\s+)?"
    r"(?:not|wrong|incorrect|false|excluded|contraindicated|unlikely|ruled out|eliminated|cannot|"
    r"(?:is|are|ca|does|do|wo)n't)\b"
)
_CLAUSE = re.compile(r"[.;:!?\n]|,\s*(?:but|so|it's|it is)\b|\bbut\b")
_NAMED_ON = re.compile(r" (?:([A-HJ-Z])|[IVX]{2,})(?![\w'-]|\.\w)| (I)(?![\w'-]| [a-z])")
"""A letter or numeral after an option's text that makes it another name ("Hepatitis A")."""
_PART_BEFORE = re.compile(r"[%+-]$|\d[.,:/]$")
_ENDS = re.compile(r"[)\]']*(?:\s*(?:$|[;!?\n(]|\.(?!\w))|,?\s+(?:because|since|as|which)\b)")
"""What may follow an option of one character if it is the answer."""
_LETTER_NAME = re.compile(r"\b(?:option|choice|letter)\s*[(\[]?$", re.IGNORECASE)
_RUNS_ON = re.compile(
    r"\s+(?:\d|(?!(?:and|as|because|but|is|nor|not|or|seems|should|since|was|would|are|"
    r"can|cannot|may|though|although|rather|instead)\b)[a-zà-ɏ])"
)
"""A word after a letter that may make it part of a name: "A patient", "B symptoms", "C cells"."""
_MAY_PRECEDE = frozenset(
    re.findall(
        r"\S+",
        "and answer answers are be between both but certainly choice choices choose chose clearly "
        "definitely either favors favours give hence here is it's letter likely maybe nor not only "
        "option options or perhaps pick probably say select so suggests supports than that's then "
        "therefore thus was das der die el es est está het ist la le é è 답은 정답은",
    )
)
"""Words that an option letter may follow; any other may form a name with it ("vitamin D")."""
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_CJK_MAY_PRECEDE = "是为為选選案はがえ"


class Mentions(NamedTuple):
    """Letters in a text."""

    stated: frozenset[str]
    """Stated as the answer, by letter or by an option's own text."""
    named: frozenset[str]
    """Not ruled out, not the article, and no part of a name."""


class _Group(NamedTuple):
    """Letters that are coordinated: "A, B and D"."""

    letters: frozenset[str]
    texts: frozenset[str]
    before: str
    after: str


def mentions(text: str, options: Mapping[str, str]) -> Mentions:
    """Return the letters that a text states as the answer, and those it names at all.

    Args:
        text: cleaned.
        options: letter -> text.

    >>> drugs = {"A": "Vitamin C", "B": "Folate", "C": "Vitamin D"}
    >>> mentions("It is not A. Vitamin D it is, so C", drugs).stated
    frozenset({'C'})
    """
    stated: set[str] = set()
    named: set[str] = set()
    for group in _groups(_masked(text, options), options):
        if _is_ruled_out(group):
            continue
        is_free = _can_be_options(group)
        if _LEAD.search(group.before) and (is_free or not _RUNS_ON.match(group.after)):
            stated |= group.letters | group.texts
        elif is_free and _PRAISE.match(group.after):
            stated |= group.letters
        elif is_free:
            named |= group.letters
    return Mentions(frozenset(stated), frozenset(named))


def _is_ruled_out(group: _Group) -> bool:
    if _NOT_AFTER.match(group.after) or _NOT_BEFORE.search(_CLAUSE.split(group.before)[-1]):
        return True
    all_but = _ALL_BUT.search(group.before)
    return all_but is not None and not _NOT_BEFORE.search(group.before[: all_but.start()])


def _masked(text: str, options: Mapping[str, str]) -> str:
    """Return the text with a private character for every option's own text."""
    texts = [(letter, " ".join(cleaned_lines(option))) for letter, option in options.items()]
    for place, (letter, option) in sorted(enumerate(texts), key=lambda each: -len(each[1][1])):
        if option and (len(option) > 1 or option.upper() not in options):
            text = _replaced(text, option, chr(_PRIVATE + place), letter)
    return text


def _replaced(text: str, option: str, by: str, letter: str) -> str:
    """Return the text with every whole occurrence of an option, case ignored, replaced.

    Without a regular expression, which would be compiled anew for every edited question.
    """
    searched, wanted = text.lower(), option.lower()
    if len(searched) != len(text):  # a letter becomes two in lower case: keep the case
        searched, wanted = text, option
    parts, begin = [], 0
    at = searched.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        if _is_option(text, at, end, letter):
            parts += [text[begin:at], by]
            begin = end
        at = searched.find(wanted, end)
    return "".join([*parts, text[begin:]])


def _is_option(text: str, begin: int, end: int, letter: str) -> bool:
    """Whether an occurrence of an option's text is the option, and not part of another name.

    A single character is ambiguous, so it has to be stated as the answer.
    """
    if _WORD_END.match(text[max(0, begin - 1) : begin]) or _WORD_END.match(text[end : end + 1]):
        return False
    if end - begin > 1:
        on = _NAMED_ON.match(text, end)
        return on is None or letter in on.groups()
    before = text[max(0, begin - _REACH) : begin]
    is_whole = _ENDS.match(text, end) and not _PART_BEFORE.search(before)
    return bool(is_whole and _LEAD.search(before))


def _groups(text: str, options: Mapping[str, str]) -> Iterator[_Group]:
    known = list(options)
    for match in _GROUP.finditer(text):
        ones = re.findall(_ONE, match.group())
        letters = frozenset(ones) & options.keys()
        texts = frozenset(known[ord(one) - _PRIVATE] for one in ones if ord(one) >= _PRIVATE)
        yield _Group(letters, texts, _before(text, match), text[match.end() :])
    for match in _LOWER.finditer(text):
        before = _before(text, match)
        if _LEAD.search(before) or _LETTER_NAME.search(before):
            letters = frozenset(match.group().upper()) & options.keys()
            yield _Group(letters, frozenset(), before, text[match.end() :])


def _before(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - _REACH) : match.start()]


def _can_be_options(group: _Group) -> bool:
    """Whether letters can be options here: no article, pronoun or part of a name."""
    if _LETTER_NAME.search(group.before):
        return True
    if _RUNS_ON.match(group.after) or (group.letters == {"I"} and group.after[1:2].islower()):
        return False
    before = group.before.rstrip(" ")
    if _CJK.match(before[-1:]):
        return before[-1] in _CJK_MAY_PRECEDE
    word = re.search(r"[^\W\d_][^\W_']*(?:'[^\W_]+)?$|\w$", before)
    return word is None or word[0].casefold() in _MAY_PRECEDE
