"""Paraphrases: other words for the same facts, of our own lexicon or of a role."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from itertools import cycle, islice, product
from math import ceil, prod
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from medstress.attacks.controls.harmless import Budget, Control
from medstress.attacks.protocol import parameters
from medstress.attacks.variants import digits, in_random_order, shipped, whole
from medstress.core.calls import Decoding, Generate, Generated, Message
from medstress.core.items import Candidate, Question
from medstress.core.queries import LOOKAHEAD, Predict, Steps, ask_in_turn, consult
from medstress.core.resources import Resources
from medstress.core.text import Edit, copy_case, edit_distance, sentence_spans
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of

if TYPE_CHECKING:
    from numpy.random import Generator

ROLE = "paraphraser"
AT_ONCE = 8
"""Paraphrases asked of the role at once after the first one."""
LONGEST = 3
"""A paraphrase of more than this many times the words of the question is dropped."""
_LAST_SAMPLE = 2**31


@parameters
class Paraphrase(Control):
    """Ask the question in other words.

    Phrases of clinical vignettes and exam questions are replaced by others that say the same, and
    lead-ins such as "It is recorded that" come before sentences where that changes too little.
    Every variant differs from the question in at least a fifth of its words (word-level edit
    distance over words) and keeps its numbers in their order, denials, sides, sexes, ages, times
    and the names of drugs and diseases; a variant that does not is not asked. Options and
    passage stay.

    Where the experiment has a `[role.paraphraser]`, it writes the variants; one that fails the same
    check is replaced by one of the lexicon.
    """

    name = "paraphrase"
    fields = frozenset({"context", "stem"})
    needs = frozenset({"mentions", "paraphraser"})
    lack = "the lexicon cannot change a fifth of its words"

    budget: Budget = 8
    """Variants asked, 1 to 1,000."""

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield all variants, in random order."""
        return _rewording(item, resources).variants(rng)

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of variants."""
        return _rewording(item, resources).n

    def ask(
        self,
        item: Question,
        rng: Generator,
        resources: Resources,
        most: int,
        edited: Collection[str] = (),
    ) -> Steps[Candidate | None]:
        """See `Control.ask`; the variants are written by the role if there is one."""
        if ROLE not in resources.roles:
            return (yield from super().ask(item, rng, resources, most))
        sample = int(rng.integers(1, _LAST_SAMPLE))
        original = Original(item.question, _rewording(item, resources).names)
        spare = map(Predict, self.variants(item, rng, resources))
        decoding = resources.roles[ROLE]
        return (yield from ask_written(item, decoding, sample, original, spare, most))


def _rewording(item: Question, resources: Resources) -> Rewording:
    names = () if resources.names_in is None else tuple(resources.names_in(item.question))
    return rewording_of(item, names)


class Reworded(Reply):
    """The question in other words."""

    context: str = ""
    """What comes before the sentence that asks."""
    question: Annotated[str, Field(min_length=1)]
    """The sentence that asks."""


def ask_written(
    item: Question,
    decoding: Decoding,
    first_sample: int,
    original: Original,
    spare: Iterator[Predict],
    most: int,
) -> Steps[Candidate | None]:
    """Ask up to `most` paraphrases that a role writes, until one reaches the goal.

    Args:
        item: the question.
        decoding: how the role generates.
        first_sample: index of the first paraphrase among samples of the role; unused at
            temperature 0.
        original: checks the paraphrases.
        spare: paraphrases in place of those that are unreadable, repeat another or fail the check.
        most: how many.
    """
    prompt = _template().format(context=item.context, question=item.stem)
    schema = schema_of(Reworded, item.letters)
    call = Generate((Message("user", prompt),), decoding, schema=schema)
    is_sampled = decoding.temperature > 0
    n_asked, sample = 0, first_sample if is_sampled else 0
    seen: set[tuple[str, str]] = set()
    while n_asked < most:
        # One first: it is often enough. What is asked does not depend on how many are asked.
        n = min(AT_ONCE if n_asked else 1, most - n_asked)
        # At temperature 0 all replies would be the first one.
        calls = [call] * (n if is_sampled else not n_asked)
        answers = (yield from consult(ROLE, calls, sample)) if calls else ()
        sample += n
        queries: list[Predict] = []
        for answer in answers:
            assert isinstance(answer, Generated)
            candidate = _candidate(item, answer.text, original)
            if candidate is not None and (candidate.context, candidate.stem) not in seen:
                seen.add((candidate.context, candidate.stem))
                queries.append(Predict(candidate))
            else:
                queries += islice(spare, 1)
        queries += islice(spare, n - len(queries))
        if not queries:
            return None
        n_asked += n
        reached: Candidate | None = yield from ask_in_turn(queries, LOOKAHEAD)
        if reached is not None:
            return reached
    return None


def _candidate(item: Question, written: str, original: Original) -> Candidate | None:
    """Return the paraphrase of a reply; None if it cannot be used."""
    reply = read_reply(written, Reworded)
    if isinstance(reply, Unreadable) or bool(reply.context) != bool(item.context):
        return None
    text = f"{reply.context} {reply.question}" if reply.context else reply.question
    if len(text.split()) > LONGEST * len(original.words) or not original.is_kept_in(text):
        return None
    texts = {"context": reply.context} if item.context else {}
    texts["stem"] = reply.question
    edits = tuple(whole(item, name, new) for name, new in texts.items())
    return Candidate(item=item, edits=edits)


@lru_cache(maxsize=1)
def _template() -> str:
    return (files("medstress.attacks") / "data" / "paraphraser.txt").read_text("utf-8").strip()


# -- what is kept ----------------------------------------------------------------------------------
LEAST_CHANGED = 0.2
"""Smallest share of words that a paraphrase changes."""
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_SPLIT = re.compile(r"[^\W\d]+(?:['’][^\W\d]+)?")
_EDGES = re.compile(r"^\W+|\W+$")


def words_of(text: str) -> list[str]:
    """Return the white-space words of a text in lower case, without punctuation at their ends.

    >>> words_of("A 45-year-old man, (who coughs).")
    ['a', '45-year-old', 'man', 'who', 'coughs']
    """
    stripped = (_EDGES.sub("", word) for word in text.casefold().split())
    return [word for word in stripped if word]


def share_changed(before: Sequence[str], after: Sequence[str]) -> float:
    """Return the word-level edit distance as a share of the words before.

    >>> share_changed("a b c d".split(), "a b x d e".split())
    0.5
    """
    return edit_distance(before, after) / max(len(before), 1)


def facts_of(text: str) -> tuple[tuple[str, ...], Counter[str]]:
    """Return the numbers of a text in order, and how many words of each line there are.

    >>> numbers, words = facts_of("A 45-year-old man denies pain; his pulse is 80.")
    >>> numbers, sorted(words)
    (('45', '80'), ['denies', 'he', 'man', 'year'])
    """
    kept, present = _lines()
    words = _SPLIT.findall(text.casefold())
    counts = Counter(kept[word] for word in words if word in kept)
    counts.update({present[word] for word in words if word in present})
    return tuple(_NUMBER.findall(text)), counts


class Original:
    """A text that paraphrases are checked against.

    Args:
        text: the text.
        names: drugs, diseases and other entities in it.
    """

    def __init__(self, text: str, names: Sequence[str] = ()) -> None:
        self.words = words_of(text)
        self._numbers, self._kept = facts_of(text)
        small = text.casefold()
        self._names = {name: small.count(name) for name in map(str.casefold, names)}

    def is_kept_in(self, paraphrase: str) -> bool:
        """Return whether a text keeps the facts and changes at least a fifth of the words."""
        changed = share_changed(self.words, words_of(paraphrase))
        return changed >= LEAST_CHANGED and self.lost_in(paraphrase) is None

    def lost_in(self, paraphrase: str) -> str | None:
        """Say which fact a paraphrase has not kept, or None.

        >>> Original("No fever for 2 days.").lost_in("Fever over 2 days.")
        'denial'
        """
        numbers, kept = facts_of(paraphrase)
        if numbers != self._numbers:
            return "number"
        if kept != self._kept:
            return next(iter((self._kept - kept) or (kept - self._kept)))
        small = paraphrase.casefold()
        return next((name for name, n in self._names.items() if small.count(name) < n), None)


@lru_cache(maxsize=1)
def _lines() -> tuple[dict[str, str], dict[str, str]]:
    """Return word -> line, for lines of which the number counts, and for those of the others."""
    data = shipped("facts.toml")
    kept, present = (
        {word: line for line, words in data[table].items() for word in words}
        for table in ("kept", "present")
    )
    return kept, present


# -- what may change -------------------------------------------------------------------------------
ENOUGH = 64
"""Variants of an item for which no further lead-in is sought."""
MOST_DROPPED = 200
"""Variants of one item that may lose a fact before no more are tried: it is a fault of all."""
_BOUND = r"(?<![\w'’-])(?:{})(?![\w'’-])"
_AGE = re.compile(
    r"\b(an?) (\d+)-(day|week|month|year)-old "
    r"(man|woman|boy|girl|infant|child|newborn)\b(?!['’-])",
    re.IGNORECASE,
)
_NUMBER_FOLLOWS = re.compile(r"\s+\d")
_FIRST = re.compile(r"[^\W\d_]+(?=[\s,])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One place where a question may be reworded."""

    field: str
    """`context` or `stem`."""
    start: int
    """First character replaced."""
    end: int
    """One past the last; equal to `start` for a lead-in before what stays as it is."""
    old: str
    """The text there."""
    texts: tuple[str, ...]
    """What may stand there, all different and none the old text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewording:
    """All rewordings of one question: one text at every site."""

    item: Question
    """The question."""
    sites: tuple[Site, ...]
    """In the order of the text; no two overlap. Empty if too little can be changed."""
    names: tuple[str, ...] = ()
    """Drugs, diseases and other entities that are never touched."""

    @property
    def n(self) -> int:
        """How many variants there are."""
        return prod(len(site.texts) for site in self.sites) if self.sites else 0

    def variants(self, rng: Generator) -> Iterator[Candidate]:
        """Yield all variants in random order, each checked."""
        before = Original(self.item.question, self.names)
        bases = [len(site.texts) for site in self.sites]
        n_dropped = 0
        for number in in_random_order(self.n, rng):
            chosen = digits(number, bases)
            candidate = Candidate(
                item=self.item,
                edits=tuple(
                    Edit(
                        field=site.field,
                        start=site.start,
                        end=site.end,
                        replacement=site.texts[at],
                    )
                    for site, at in zip(self.sites, chosen, strict=True)
                ),
            )
            if before.is_kept_in(candidate.question):
                yield candidate
            else:
                n_dropped += 1
                if n_dropped >= MOST_DROPPED:
                    return


@lru_cache(maxsize=1024)
def rewording_of(item: Question, names: tuple[str, ...] = ()) -> Rewording:
    """Find what may be reworded in a question, so that every variant changes enough words.

    Rewords every phrase that the lexicon knows; if that is too little, puts lead-ins before the
    question and then before other sentences.

    Args:
        item: the question.
        names: drugs, diseases and other entities in it; the item's mentions need not be named.
    """
    kept = _kept_places(item, names)
    sites = [site for field in ("context", "stem") for site in _phrases(item, field, kept[field])]
    need = ceil(LEAST_CHANGED * len(words_of(item.question)))
    leads = _lead_ins(item, kept)
    while True:
        fitted = _fitted(sites, need)
        if fitted is not None and prod(len(site.texts) for site in fitted) >= ENOUGH:
            break
        if not leads:
            break
        sites = _joined(sites, leads.pop(0))
    ordered = sorted(fitted or (), key=lambda site: (site.field, site.start))
    return Rewording(item=item, sites=tuple(ordered), names=names)


# -- how much a choice of texts changes ------------------------------------------------------------
def _fitted(sites: Sequence[Site], need: int) -> list[Site] | None:
    """Leave out texts until any choice changes enough words; None if no choice may.

    A word of a variant that it has more often than the question costs at least one edit. Words
    that any text takes away may come back in another, so they do not count.
    """
    moved = [_moved(site.old, site.texts) for site in sites]
    lost = frozenset[str]().union(*(gone for _, _, gone in moved))
    gains = [
        [*map(len, own)]
        if lost.isdisjoint(words)
        else [len(more) - sum(map(lost.__contains__, more)) for more in own]
        for own, words, _ in moved
    ]
    lows = [min(own) for own in gains]
    while sum(lows) < need:
        # Where leaving out the texts that change least leaves most.
        steps = [
            (sum(gain > low for gain in own), i)
            for i, (own, low) in enumerate(zip(gains, lows, strict=True))
            if max(own) > low
        ]
        if not steps:
            return None
        _, i = max(steps, key=lambda step: (step[0], -step[1]))
        lows[i] = min(gain for gain in gains[i] if gain > lows[i])
    return [
        replace(
            site,
            texts=tuple(t for t, gain in zip(site.texts, own, strict=True) if gain >= low),
        )
        if low > min(own)
        else site
        for site, own, low in zip(sites, gains, lows, strict=True)
    ]


@lru_cache(maxsize=2**12)
def _moved(
    old: str, texts: tuple[str, ...]
) -> tuple[list[tuple[str, ...]], frozenset[str], frozenset[str]]:
    """Return the words that each text has more often than the old one, all of these once, and those
    that any text has less often."""
    before, after = Counter(words_of(old)), [Counter(words_of(text)) for text in texts]
    more = [tuple((words - before).elements()) for words in after]
    less = (before - words for words in after)
    return more, frozenset().union(*more), frozenset().union(*less)


# -- phrases ---------------------------------------------------------------------------------------
def _phrases(item: Question, field: str, kept: Sequence[tuple[int, int]]) -> list[Site]:
    """Return the phrases of a field that the lexicon rewords, outside names."""
    text, sites = item.text_of(field), []
    pattern, texts, numbered = _lexicon()
    at = 0
    while match := pattern.search(text, at):
        start, end = match.span()
        old = match[0]
        phrase = " ".join(old.casefold().split())
        choices = texts.get(phrase, ())
        if phrase in numbered and _NUMBER_FOLLOWS.match(text, end):
            choices = numbered[phrase]
        if age := _AGE.fullmatch(old):
            choices = _ages(*age.groups())
        if choices and not _overlaps(start, end, kept):
            made = tuple(copy_case(choice, old) for choice in choices)
            sites.append(Site(field=field, start=start, end=end, old=old, texts=made))
            at = end
        else:
            at = start + 1
    return sites


def _ages(article: str, n: str, unit: str, noun: str) -> tuple[str, ...]:
    article = "an" if noun[0].casefold() in "aeiou" else "a"
    units = f"{unit.casefold()}s"
    return (
        f"{article} {noun} aged {n} {units}",
        f"{article} {noun} who has reached the age of {n} {units}",
        f"{article} {noun} whose age is {n} {units}",
    )


@lru_cache(maxsize=1)
def _lexicon() -> tuple[re.Pattern[str], dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return the pattern of all phrases, their texts, and those before a number."""
    plain: dict[str, tuple[str, ...]] = {}
    numbered: dict[str, tuple[str, ...]] = {}
    for rule in shipped("rewording.toml")["rule"]:
        table = numbered if rule.get("before_number") else plain
        for phrase in rule["of"]:
            # Of two rules for a phrase the first one counts.
            table.setdefault(phrase, tuple(text for text in rule["to"] if text != phrase))
    longest = sorted({*plain, *numbered}, key=lambda phrase: (-len(phrase), phrase))
    words = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in longest)
    pattern = re.compile(f"{_AGE.pattern}|{_BOUND.format(words)}", re.IGNORECASE)
    return pattern, plain, numbered


# -- lead-ins --------------------------------------------------------------------------------------
def _lead_ins(item: Question, kept: dict[str, list[tuple[int, int]]]) -> list[Site]:
    """Return possible lead-ins, those to be used first in front."""
    leads = shipped("lead_ins.toml")
    starts = _starts(item)
    field, at = starts[-1]
    final = item.text_of(field)[at:]
    first = _FIRST.match(final)
    begins = first is not None and first[0].casefold() in leads["asking"]["words"]
    asks = begins or final.rstrip(" \"'”’)").endswith("?")
    completes = not final.rstrip().endswith((".", "!", "?"))
    sites = []
    small = _small(item, field, at, kept)
    if len(starts) > 1 and begins and small:
        sites.append(_lead(field, at, leads["question"], small))
    elif len(starts) == 1 or completes:
        sites.append(_lead(field, at, _tasks(asks=asks or not completes), small))
    if len(starts) > 1:
        sites.append(_lead(*starts[0], leads["opening"]))
    for field, at in _spread(starts[1:-1]):
        small = _small(item, field, at, kept)
        sites.append(_lead(field, at, leads["statement"] if small else leads["colon"], small))
    return sites


def _starts(item: Question) -> list[tuple[str, int]]:
    """Return the beginnings of the sentences of a question, as (field, character)."""
    n = len(item.context)
    shift = n + 1 if n else 0
    starts = [start for start, _ in sentence_spans(item.question)]
    return [("context", start) if start < n else ("stem", start - shift) for start in starts]


def _spread(starts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return places in an order in which the first ones stand far apart."""
    orders = (range(0, len(starts), step) for step in (4, 2, 1))
    return list(dict.fromkeys(starts[i] for order in orders for i in order))


def _lead(field: str, at: int, texts: Sequence[str], small: str | None = None) -> Site:
    """Return a lead-in; `small` is the first letter of what follows, to be written small."""
    old = small.upper() if small else ""
    return Site(
        field=field,
        start=at,
        end=at + len(old),
        old=old,
        texts=tuple(f"{text} {small or ''}" for text in texts),
    )


def _small(
    item: Question, field: str, at: int, kept: dict[str, list[tuple[int, int]]]
) -> str | None:
    """Return the first letter of a sentence in lower case if it may become small, else None."""
    text = item.text_of(field)
    word = _FIRST.match(text, at)
    if word is None or not (word[0].istitle() or len(word[0]) == 1):
        return None
    if word[0].casefold() not in shipped("lead_ins.toml")["small"]["words"] or _overlaps(
        at, word.end(), kept[field]
    ):
        return None
    return word[0][0].lower() if word[0][0].isupper() else None


def _joined(sites: Sequence[Site], lead: Site) -> list[Site]:
    """Add a lead-in; a phrase that begins the same sentence is joined with it."""
    same = [s for s in sites if s.field == lead.field and s.start == lead.start and s.end > s.start]
    if not same or lead.end == lead.start:
        return [*sites, lead]
    (phrase,) = same
    small = lead.texts[0][-1]
    heads = [text[: -len(small)] for text in lead.texts]
    both = zip(heads, cycle(phrase.texts), strict=False)
    texts = tuple(f"{head}{text[0].lower()}{text[1:]}" for head, text in both)
    return [replace(phrase, texts=texts) if site is phrase else site for site in sites]


@lru_cache(maxsize=2)
def _tasks(*, asks: bool) -> list[str]:
    """Return what may stand before a question, or before a statement to complete."""
    task = shipped("lead_ins.toml")["task"]
    verbs, objects = ("answer", "question") if asks else ("complete", "statement")
    parts = product(task["opening"], task[verbs], task[objects])
    return [f"{' '.join(words)}:" for words in parts]


# -- what is never touched -------------------------------------------------------------------------
def _kept_places(item: Question, names: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Return where names stand in context and stem."""
    n = len(item.context)
    spans: dict[str, list[tuple[int, int]]] = {"context": [], "stem": []}
    for mention in item.mentions:
        if mention.field in spans:
            spans[mention.field].append((mention.start, mention.end))
        elif mention.field == "question":
            shift = n + 1 if mention.start >= n > 0 else 0
            field = "stem" if shift or not n else "context"
            spans[field].append((mention.start - shift, mention.end - shift))
    for field, places in spans.items():
        text = item.text_of(field)
        for name in names:
            places += (match.span() for match in re.finditer(re.escape(name), text))
    return spans


def _overlaps(start: int, end: int, places: Sequence[tuple[int, int]]) -> bool:
    return any(start < last and first < end for first, last in places)
