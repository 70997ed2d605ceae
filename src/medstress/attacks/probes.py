"""Probes: every variant of every item is asked, so that the answers are a finding.

Besides the rates of every attack (a trial is flipped if some variant takes a right answer), rows of
probes hold `variants`: accuracy over all answers, the share of items right on all variants and the
share answered alike on all, ReAcc and ReCon of Cocchieri et al., ReMedQA, EACL 2026. A control
asks as many variants of the same items, so each has a value to be read against. Answers are
compared by option, wherever it is and however it is worded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from math import factorial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, Field

from medstress.attacks.protocol import Ends, parameters
from medstress.attacks.variants import (
    Variants,
    distractors,
    in_random_order,
    order_at,
    reordered,
    shipped,
    shuffled,
    whole,
)
from medstress.core.errors import UsageError
from medstress.core.items import FOLLOW_UP, LETTERS, TEXTS, Candidate, Question
from medstress.core.resources import DrugNames, Named, Resources, folded
from medstress.core.text import Edit, apply_edits, copy_case, named_at
from medstress.entities.vocabularies import NamePairs, read_name_pairs

if TYPE_CHECKING:
    from numpy.random import Generator

Words = TypeVar("Words", bound=Sequence[str])


def _distinct(words: Words) -> Words:
    if not words:
        raise ValueError("expected a list of at least one word")
    if len(set(words)) < len(words):
        raise ValueError("expected each word once, but one comes twice")
    return words


Listed = Field(strict=False)  # a list of a file becomes a tuple
Distinct = AfterValidator(_distinct)


class Probe(Variants):
    """Asks all its variants of all items, those that are wrong on the clean prompt among them."""

    every_item = True
    ends: Ends = "all"

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None


# -- options ---------------------------------------------------------------------------------------
_ALONE = r"(?:all|none|both|neither|either|any)"
_QUANTIFIER = rf"(?:{_ALONE}|one|two|three|some)"
_OTHERS = (
    r"(?:above|below|these|those|them|others?|two|three|four|preceding|following|options?|"
    r"choices?|answers?|statements?)"
)
_PLACE = r"[A-J1-9]"
_JOINT = r"\s*(?:[,;&+]|\b(?:and|or|nor)\b)\s*"
_ABOUT_OTHERS = re.compile(
    rf"\b{_QUANTIFIER} (?:of (?:the )?|the ){_OTHERS}\b"
    rf"|^\W*{_ALONE}(?: {_OTHERS}| (?:is|are)(?: \w+)?)?\W*$"
    r"|\b(?:above|below|preceding) (?:options?|answers?|choices?|statements?)\b"
    r"|\bno(?:ne)? (?:correct|right|other|such) (?:option|answer|choice)s?\b"
    r"|^\W*(?:(?:both|either|neither|only|options?|answers?|choices?|statements?)\W+)*"
    rf"{_PLACE}(?:{_JOINT}(?:{_JOINT})?{_PLACE}\b)+\W*(?:only|(?:is|are)(?: \w+)?)?\W*$",
    re.IGNORECASE,
)
"""`all of above`, `none`, `both are correct`, `A and C only`, `1, 2, 3`."""


def about_others(item: Question) -> str | None:
    """Return the letter of an option that speaks of the others, or None.

    >>> options = ("aspirin", "vitamins A and D", "both A and B")
    >>> about_others(Question(id="q", stem="Which?", options=options, key="A"))
    'C'
    """
    pairs = zip(LETTERS, item.options, strict=False)
    return next((letter for letter, text in pairs if _ABOUT_OTHERS.search(text)), None)


@parameters
class OptionOrder(Probe):
    """Ask the question with its options in other orders; answers are read as texts.

    `cyclic`: the options move on by one place, two, and so on, so that with the clean order each
    has every letter once: n - 1 variants of n options, the same for all seeds. A victim that
    always says B then has an accuracy of 1 / n over the variants and the clean question together,
    and never answers alike. `random`: distinct orders drawn by the seed, up to the budget, n! - 1
    of them in all.

    An item with an option that speaks of the others ("all of the above", "A and C", "both") is not
    attackable: in another order it may say something else.

    *Differs from the papers.* Pezeshkpour and Hruschka look for the orders that raise or lower
    accuracy most; Zheng et al. use cyclic orders to estimate and remove the bias of each letter.
    Here nothing is searched for and nothing removed.

    References:
        Pezeshkpour and Hruschka, "Large language models sensitivity to the order of options in
        multiple-choice questions", 2023 (arXiv 2308.11483).
        Zheng, Zhou, Meng, Zhou and Huang, "Large language models are not robust multiple choice
        selectors", ICLR 2024.
    """

    name = "option_order"
    fields = frozenset({"options"})
    needs = frozenset({"listing"})

    orders: Literal["cyclic", "random"] = "cyclic"
    """`cyclic` or `random`."""
    budget: Annotated[int, Field(ge=1, le=100)] = 9
    """Most orders asked, 1 to 100; 9 are all cyclic orders of ten options."""

    @property
    def is_random(self) -> bool:
        """Whether the orders are drawn."""
        return self.orders == "random"

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        letter = about_others(item)
        return None if letter is None else f"option {letter} speaks of the others"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield the question in one order after another."""
        n = len(item.options)
        if self.is_random:
            for number in in_random_order(factorial(n) - 1, rng):
                yield reordered(item, order_at(number + 1, n))
        else:
            for moved in range(1, n):
                yield reordered(item, tuple((at - moved) % n for at in range(n)))


@parameters
class NoneOfTheOthers(Probe):
    """Replace the text of one option by "None of the other answers".

    `key`: the right option's text gives way, so that the same letter is still right if every
    distractor is wrong. A victim that knows the answer by its wording loses it; one that can rule
    the others out keeps it. `distractor`: one distractor, drawn by the seed, gives way and the key
    stays: it shows what the words alone do, without a change of what is known.

    An item with an option that speaks of the others already ("all of the above") is not attackable.

    *Differs from the paper.* Bedi et al. had a clinician check that no distractor is right, which
    kept 68 of 100 questions. No one checks it here, so a success is of unknown validity until
    someone reviews it.

    References:
        Bedi, Jiang, Chung, Koyejo and Shah, "Fidelity of medical reasoning in large language
        models", JAMA Network Open 2025.
    """

    name = "none_of_the_others"
    fields = frozenset({"options"})
    needs = frozenset({"listing"})

    replaces: Literal["key", "distractor"] = "key"
    """The option whose text gives way: `key`, or `distractor`, drawn by the seed."""
    text: Annotated[str, Field(pattern=r"\S")] = "None of the other answers"
    """What is put in its place."""

    @property
    def is_random(self) -> bool:
        """Whether a distractor is drawn."""
        return self.replaces == "distractor"

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        own = self.text.strip().casefold()
        is_there = any(text.strip().casefold() == own for text in item.options)
        return "an option speaks of the others already" if is_there or about_others(item) else None

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield the only variant."""
        letter = shuffled(distractors(item), rng)[0] if self.is_random else item.key
        yield Candidate(item=item, edits=(whole(item, letter, self.text),))


class _PartsRemoved(Probe):
    """Takes fields away. The rest no longer supports the key, so a lost answer is no error, and an
    answer that stays was not read there."""

    is_random = False
    is_judged = False
    removed: ClassVar[tuple[str, ...]]

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield the only variant."""
        edits = tuple(whole(item, name, "") for name in self.removed if item.text_of(name))
        yield Candidate(item=item, edits=edits)


@parameters
class OptionsOnly(_PartsRemoved):
    """Show the options alone: no passage, context or stem.

    Accuracy over the variants, read against `chance`, says what the options give away by
    themselves: which looks like a key, which the victim has seen as one.

    *Differs from the paper.* Balepur et al. show the choices after exemplars that are choices too;
    here the victim's own prompt stays, with an empty question.

    References:
        Balepur, Ravichander and Rudinger, "Artifacts or abduction: how do LLMs answer
        multiple-choice questions without the question?", ACL 2024.
        Gu et al., "The illusion of readiness", 2025 (arXiv 2509.18234).
    """

    name = "options_only"
    needs = frozenset({"listing"})  # without the question another prompt is empty
    removed = TEXTS


@parameters
class ContextRemoved(_PartsRemoved):
    """Ask the stem without its context, the case before it.

    A victim that answers as before did not need the case. What a question loses with its case
    differs: some stems ask for plain knowledge, and then a kept answer is right.

    *Differs from the paper.* Gu et al. take images and parts of multimodal input away; this is the
    text's counterpart. A passage stays (`passage_none` takes it away).

    References:
        Gu et al., "The illusion of readiness", 2025 (arXiv 2509.18234).
    """

    name = "context_removed"
    fields = frozenset({"context"})
    removed = ("context",)

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None if item.context.strip() else "it has no context before its stem"


# -- names that a list pairs -----------------------------------------------------------------------
class _ListedNames(Probe):
    """Replaces names by others that a list pairs them with: the shipped one, or a user's file."""

    columns: ClassVar[tuple[str, str]]
    pairs: str | NamePairs

    def spec(self) -> dict[str, Any]:
        """Return the parameters, with the content hash of a user's list."""
        listed = self.pairs.hash if isinstance(self.pairs, NamePairs) else self.pairs
        return {**super().spec(), "pairs": listed}

    def with_files(self, base: Path) -> Self:
        """Return the probe with the user's list read, relative to a folder."""
        if not isinstance(self.pairs, str) or self.pairs == "default":
            return self
        path, what = base / Path(self.pairs).expanduser(), f"{self.name}: pairs {self.pairs!r}"
        return replace(self, pairs=read_name_pairs(path, what, self.columns))  # type: ignore[type-var]


@parameters
class BrandGeneric(_ListedNames):
    """Replace every generic name of a drug by one of its brands, or every brand by its generic.

    All drugs are replaced at once, in question and options. A drug with several brands gets another
    one in each variant, in an order drawn by the seed; where all have one there is one variant. The
    key stays the key, whatever it is called. Names come from the shipped table (FDA's UNII list) or
    the user's file; brands that look like words must be capitalised, and a brand of which it is not
    clear what drug it is stays. So do, of the shipped names, words (Today) and substances of the
    body or food, and every name next to what makes it another thing: a receptor, an enzyme, a
    level, a laboratory's value. A variant in which two options would read alike is not asked.

    *Differs from the paper.* Gallifant et al. put in one brand a drug, from a list of their own,
    of which nothing is in ours. No one checked ours against the questions: brands of old days or
    other countries are among them, and a success is of unknown validity until someone reviews it.

    References:
        Gallifant et al., "Language models are surprisingly fragile to drug names in biomedical
        benchmarks", EMNLP Findings 2024 (RABBITS, arXiv 2406.12066).
    """

    name = "brand_generic"
    needs = frozenset({"drugs"})
    columns = ("brand", "generic")

    pairs: Annotated[str, Field(min_length=1)] | NamePairs = "default"
    """`default`, the shipped table, or a .csv or .tsv file with the columns `brand` and
    `generic`."""
    budget: Annotated[int, Field(ge=1, le=100)] = 3
    """Most variants asked, 1 to 100."""
    to: Literal["brand", "generic"] = "brand"
    """Which name is put in: `brand` or `generic`."""
    field: Literal["all", "question", "options"] = "all"
    """Where: `all`, `question` or `options`."""

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if self._named(item, resources):
            return None
        other = "generic" if self.to == "brand" else "brand"
        return f"it holds no {other} name of a drug whose {self.to} name is known"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield a variant with other brands each time."""
        drugs = self._named(item, resources)
        distinct = dict.fromkeys(drug.others for _, drug in drugs)
        orders = {others: rng.permutation(len(others)) for others in distinct}
        for number in range(max((len(others) for others in distinct), default=0)):
            edits = []
            for field, drug in drugs:
                order = orders[drug.others]
                name = drug.others[int(order[number % len(order)])]
                edits.append(_edit(item, field, drug, name, is_brand=self.to == "brand"))
            candidate = Candidate(item=item, edits=tuple(edits))
            if len({text.strip().casefold() for text in candidate.options}) == len(item.options):
                yield candidate

    def _named(self, item: Question, resources: Resources) -> list[tuple[str, Named]]:
        """Return field and name of every drug that is replaced."""
        texts, options = TEXTS if self.field != "options" else (), item.letters
        names = _of(self.pairs) if isinstance(self.pairs, NamePairs) else resources.drugs
        find = names.generics_in if self.to == "brand" else names.brands_in
        fields = (*texts, *(options if self.field != "question" else ()))
        return [(field, drug) for field in fields for drug in find(item.text_of(field))]


@lru_cache(maxsize=8)
def _of(pairs: NamePairs) -> DrugNames:
    return DrugNames.of(pairs.rows)


def _edit(item: Question, field: str, drug: Named, name: str, *, is_brand: bool) -> Edit:
    """Return the edit that puts a name in: capitalised if it is a brand or a sentence begins."""
    text = item.text_of(field)
    before = text[: drug.start].rstrip()
    if is_brand or (text[drug.start].isupper() and (not before or before[-1] in ".?!:")):
        name = name[0].upper() + name[1:]
    elif name[1:].islower():
        name = name.lower()
    return Edit(field=field, start=drug.start, end=drug.end, replacement=name)


@parameters
class Lasa(_ListedNames):
    """Put a name that looks or sounds like the key's in place of a distractor.

    The key is *hydroxyzine 25 mg*: a distractor becomes *hydralazine 25 mg*. A victim that knows
    the drug by its name, and not by what it begins with, answers as before. Names of the key that
    the list holds are looked for as whole words; each look-alike takes each distractor's place, in
    an order drawn by the seed, up to the budget. The list works in both directions.

    The shipped list was written for medstress from names that are known to be confused (the idea is
    that of the lists of the ISMP and the FDA; theirs are not copied). Pairs that could replace
    each other as an answer, such as prednisone and prednisolone, are left out; still no one has
    checked the look-alike against each question, so a success is of unknown validity.

    References:
        Institute for Safe Medication Practices, "List of confused drug names" (the idea).
        Lambert, Lin, Chang and Gandhi, "Similarity as a risk factor in drug-name confusion
        errors", Medical Care 1999.
    """

    name = "lasa"
    fields = frozenset({"options"})
    columns = ("name", "confused_with")

    pairs: Annotated[str, Field(min_length=1)] | NamePairs = "default"
    """`default`, the shipped list, or a .csv or .tsv file with the columns `name` and
    `confused_with`."""
    budget: Annotated[int, Field(ge=1, le=100)] = 3
    """Most variants asked, 1 to 100."""

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if self._texts(item):
            return None
        return "its right answer holds no name that the list pairs with another"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield one look-alike in one distractor's place after another."""
        placed = list(product(self._texts(item), distractors(item)))
        for number in rng.permutation(len(placed)):
            text, letter = placed[int(number)]
            yield Candidate(item=item, edits=(whole(item, letter, text),))

    def _texts(self, item: Question) -> list[str]:
        """Return the key's text under each name that is confused with its own, in order."""
        pairs = self.pairs if isinstance(self.pairs, NamePairs) else shipped_pairs()
        there = {option.strip().casefold() for option in item.options}
        texts: dict[str, str] = {}
        for name, other in (*pairs.rows, *((b, a) for a, b in pairs.rows)):
            if not (spans := named_at(item.key_text, name)) or folded(name) == folded(other):
                continue
            old = item.key_text
            edits = [
                Edit(field="key", start=a, end=b, replacement=copy_case(other, old[a:b]))
                for a, b in spans
            ]
            text = apply_edits(old, edits)
            if text.strip().casefold() not in there:
                texts.setdefault(text.casefold(), text)
        return [texts[text] for text in sorted(texts)]


@cache
def shipped_pairs() -> NamePairs:
    """Return the pairs of the shipped list of look-alikes."""
    text = (files("medstress.attacks") / "data" / "lasa.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return NamePairs(tuple((first, second) for first, second in rows))


# -- sentences in the case -------------------------------------------------------------------------
_PERSON = re.compile(
    r"\b(?:patient|person|man|woman|male|female|boy|girl|child|infant|newborn|neonate|baby|mother|"
    r"father|\d+[- ](?:year|month|week|day)s?[- ]old)\b",
    re.IGNORECASE,
)
"""Words by which a question tells of someone; a detail needs a person."""
_TEXTS = shipped("probe_texts.toml")
NAMES, MITIGATION = _TEXTS["names"], _TEXTS["mitigation"]
"""Made-up names, which are in no shipped table; the instruction of `mitigation`."""
DETAILS: dict[str, list[str]] = _TEXTS["details"]
"""Kind of a made-up detail -> its sentences, with a place for a made-up name."""


def _added(item: Question, sentence: str) -> Edit:
    """Return the edit that adds a sentence before the stem: at the end of the context if any."""
    if not item.context:
        return Edit(field="stem", start=0, end=0, replacement=f"{sentence} ")
    text = item.context.rstrip()
    space = " " if text.rstrip("\"'”’)")[-1:] in {*".?!:"} else "\n"  # a table has no full stop
    return Edit(field="context", start=len(text), end=len(text), replacement=f"{space}{sentence}")


@parameters
class FabricatedDetail(Probe):
    """Add one sentence with a test, sign or disease that does not exist, before the stem.

    It bears on nothing, so the key stays, and a victim that loses the answer took an invention for
    a finding. Sentence and name are drawn by the seed, another pair for each variant. With
    `mitigation` an instruction comes before the case. Both forms of the probe draw the same
    details, so two entries, with and without, are compared on the same prompts but for it. What the
    instruction does to a case without inventions is seen in no row.

    An item that tells of no one ("which drug is a loop diuretic?") is not attackable. The control
    is `neutral_insertion`: a true sentence that bears on nothing.

    *Differs from the paper.* Omar et al. wrote 300 vignettes and had a model judge whether free
    answers repeat or elaborate the invention (50 to 82 % did; a mitigation prompt took 66 % to 44 %
    on average). Here the answer's option is judged; their wording is not used.

    References:
        Omar et al., "Multi-model assurance analysis showing large language models are highly
        vulnerable to adversarial hallucination attacks during clinical decision support",
        Communications Medicine 2025.
    """

    name = "fabricated_detail"
    control = "neutral_insertion"

    kind: Literal["any", "test", "sign", "disease"] = "any"
    """What is made up: `test`, `sign`, `disease` or `any` of them."""
    mitigation: bool = False
    """Whether an instruction to leave unknown findings out of account comes before the case."""
    budget: Annotated[int, Field(ge=1)] = 3
    """Details asked, one each time, 1 to 21 (63 of any kind)."""

    def __post_init__(self) -> None:
        if self.budget > len(self._sentences()):
            raise UsageError(
                f"{self.name}: budget: expected at most {len(self._sentences())}, the sentences "
                f"of kind {self.kind!r}, got {self.budget}"
            )

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None if _PERSON.search(item.question) else "it tells of no patient"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield the case with one made-up detail after another."""
        sentences = self._sentences()
        for number in in_random_order(len(sentences), rng):
            detail = _added(item, sentences[number])
            edits = _instructed(detail) if self.mitigation else (detail,)
            yield Candidate(item=item, edits=edits)

    def _sentences(self) -> list[str]:
        kinds = DETAILS.values() if self.kind == "any" else (DETAILS[self.kind],)
        patterns = [pattern for kind in kinds for pattern in kind]
        return [pattern.format(name=name) for pattern, name in product(patterns, NAMES)]


def _instructed(detail: Edit) -> tuple[Edit, ...]:
    """Return the edits that put the instruction before the case with the detail."""
    if detail.start == 0:
        return (replace(detail, replacement=f"{MITIGATION} {detail.replacement}"),)
    return (Edit(field=detail.field, start=0, end=0, replacement=f"{MITIGATION} "), detail)


FALSEHOODS: dict[str, str] = _TEXTS["falsehoods"]
"""Kind of a false sentence -> its words; `{wrong}` is a distractor's text, `{key}` the key's."""
Falsehood = Literal[
    "relation_inversion", "threshold_shift", "cue_remapping", "spurious_cue", "exception"
]


def _quoted(item: Question, letter: str) -> str:
    """Return an option as it is quoted in a sentence, without full stop, lines and end quotes."""
    return " ".join(item.option(letter).split()).strip('"“” ').rstrip(". ")


@parameters
class FalseStatement(Probe):
    """Add a false sentence in favour of a distractor, before the stem.

    Each kind of falsehood is one variant: the relation turned round, a threshold moved, a cue given
    another meaning, a cue that means nothing, an exception that does not exist. The key stays, for
    a sentence does not make a fact. `options = "one"`: about one distractor, drawn by the seed.
    `"all"`: one sentence for each, in random order, so that nothing tells the key from the others
    but that no sentence speaks for it.

    `by_variant` of the row tells the kinds apart. The control is `neutral_insertion`.

    *Differs from the paper.* Kinds and framings follow MedMisBench, the words do not: these are
    fixed patterns that know nothing of the case, which a careful reader sees. They quote options
    and speak of the answer, so that they fit every option and a question of what does not hold. Its
    authority framing was stronger than the rest (ASR 69.5 %, against 51.5 % over all).

    References:
        Zhou et al., "MedMisBench", 2026 (arXiv 2606.12291).
    """

    name = "false_statement"
    control = "neutral_insertion"

    kinds: Annotated[tuple[Falsehood, ...], Listed, Distinct] = tuple(FALSEHOODS)  # type: ignore[arg-type]
    """The kinds that are asked, in order."""
    framing: Literal["neutral", "patient", "authority"] = "neutral"
    """Who says it: `neutral`, `patient` or `authority`."""
    options: Literal["one", "all"] = "one"
    """`one` distractor, or a sentence for `all`."""

    @property
    def budget(self) -> int:
        """The number of kinds."""
        return len(self.kinds)

    def spec(self) -> dict[str, Any]:
        """Return the parameters, and the names of the variants."""
        return {**super().spec(), "variants": list(self.kinds)}

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield one kind after another."""
        key, source = _quoted(item, item.key), _TEXTS["sources"][self.framing]
        for kind in self.kinds:
            letters = shuffled(distractors(item), rng)
            claims = (
                FALSEHOODS[kind].format(wrong=_quoted(item, letter), key=key)
                for letter in (letters[0] if self.options == "one" else letters)
            )
            text = " ".join(source.format(claim=claim) for claim in claims)
            yield Candidate(item=item, edits=(_added(item, text),))


# -- after the answer ------------------------------------------------------------------------------
FRAMINGS: dict[str, str] = _TEXTS["framings"]
"""Framing -> what is said after the answer; `{wrong}` is a distractor, drawn by the seed."""
Framing = Literal["doubt", "disagreement", "authority", "suggestion", "document", "neutral"]


@parameters
class Challenge(Probe):
    """Ask, let the victim answer, and answer back once; its last answer counts.

    Each framing is one variant, in a conversation of its own: doubt, disagreement, disagreement of
    someone in charge, another option, another option from a page. The first turn is the clean
    question, whose answer is known, so a variant costs one call. Nothing that is said gives a
    reason, so a right answer should stay; `right_to_wrong` and `wrong_to_right` of the row tell
    giving in from second thoughts. `neutral` says no more than thanks and asks again: name it in an
    entry of its own for what the second turn does alone. `by_variant` tells the framings apart.

    The control is `repeat`, the first question asked again: an edit of the question would change
    the answer that is challenged.

    The victim must hold a conversation: it answers by letter with a chat prompt, by generate, or it
    is a function (which gets the turns); others are refused. A victim that answers by letter is
    told its letter as its first answer.

    *Differs from the papers.* The idea is theirs, the words are ours, and there is one turn after
    the answer. MedQA-Followup's strongest follow-up is context as if retrieved, about the case;
    `document` is one fixed sentence.

    References:
        Laban, Murakhovs'ka, Xiong and Wu, "Are you sure? Challenging LLMs leads to performance
        drops in the FlipFlop experiment", 2023 (arXiv 2311.08596).
        Manczak et al., "MedQA-Followup", 2025 (arXiv 2510.12255).
    """

    name = "challenge"
    needs = frozenset({"follow_up"})
    control = "repeat"

    framings: Annotated[tuple[Framing, ...], Listed, Distinct] = tuple(FRAMINGS)[:-1]  # type: ignore[assignment]
    """What is said, one conversation each, in order."""

    @property
    def budget(self) -> int:
        """The number of framings."""
        return len(self.framings)

    @property
    def is_random(self) -> bool:
        """Whether a framing names an option, which is drawn."""
        return any("{wrong}" in FRAMINGS[framing] for framing in self.framings)

    def spec(self) -> dict[str, Any]:
        """Return the parameters, and the names of the variants."""
        return {**super().spec(), "variants": list(self.framings)}

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield one framing after another."""
        wrong = _quoted(item, shuffled(distractors(item), rng)[0])
        for framing in self.framings:
            text = f"{FRAMINGS[framing].format(wrong=wrong)} {_TEXTS['ask_again']}"
            edit = Edit(field=FOLLOW_UP, start=0, end=0, replacement=text)
            yield Candidate(item=item, edits=(edit,))
