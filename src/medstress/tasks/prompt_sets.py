"""What is said in conversations: the texts of MedFuzz, and sets of prompts (METHODS 2.4).

A set is an assumption to test: a folder of two files, shipped or the user's own. `attacker.md`
tells an attacker what to do; `rules.toml` holds the lever, what may be added and what not.
Everything else that is said, such as the target's three turns, is one shipped text each. Worked
questions before the target's case are shipped too, or come from a file.

All texts are plain, with places such as ``{lever}`` for what is filled in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from medstress.core.errors import UsageError, did_you_mean, reason
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS, Question
from medstress.core.reading import parse_toml

if TYPE_CHECKING:
    from numpy.random import Generator

DEFAULT_SET = "patient_characteristics"
ATTACKER_FILE, RULES_FILE = "attacker.md", "rules.toml"
FILES = (ATTACKER_FILE, RULES_FILE)
PLACES = ("lever", "categories", "forbidden", "max_words", "attempts")
"""What can be filled into `attacker.md`."""
_PLACE = re.compile(r"\{([a-z_]+)\}")
_ROOT = files("medstress.tasks") / "conversations"


# Shipped texts.


@cache
def _text(piece: str) -> str:
    return (_ROOT / f"{piece}.md").read_text("utf-8").strip()


def say(piece: str, **values: object) -> str:
    """Return a shipped text with its places filled; braces of JSON are no places.

    >>> say("repair", reason="it is empty").startswith("Your reply could not be used: it is empty.")
    True
    """
    return _filled(_text(piece), values)


def _filled(text: str, values: Mapping[str, object]) -> str:
    return _PLACE.sub(lambda place: str(values[place[1]]), text).strip()


def texts_hash(*pieces: str) -> str:
    """Return the content hash of shipped texts, for fingerprints."""
    return content_hash([_text(piece) for piece in pieces])


def lettered(options: Iterable[tuple[str, str]]) -> str:
    """Return options as lines.

    >>> lettered([("A", "Flu"), ("B", "Cold")])
    'A: Flu\\nB: Cold'
    """
    return "\n".join(f"{letter}: {text}" for letter, text in options)


# Worked questions.

_KEYS = ("id", "question", "options", "reasoning", "answer")
_SENTENCES = re.compile(r"(?<=[.?!])\s+")
_OPTION = re.compile(
    r"(?<!vitamin )(?<!hepatitis )(?<!influenza )(?<!type )(?<!group )(?<!factor )(?<!protein )"
    r"(?<!class )(?<!grade )(?<!stage )(?<!pugh )(?<![\w'’.-])[b-hj](?![\w'’-])",
    re.IGNORECASE,
)
"""A letter on its own; "A" is an article, "I" a pronoun, and after these words it is a name."""


class Exemplar(BaseModel):
    """A worked question for the target's reasoning turn."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    options: tuple[tuple[str, str], ...] = Field(min_length=2)
    """Pairs of letter and text."""
    reasoning: str = ""
    """One paragraph that does not choose; empty if there is none, as in MedQA."""
    answer: str
    """The letter."""

    @property
    def answer_text(self) -> str:
        """The right option."""
        return dict(self.options)[self.answer]

    def shown(self, number: int) -> str:
        """Return it as a target reads it."""
        head = f"Example {number}, of which option {self.answer} is right"
        why = [f"Reasoning: {self.reasoning}"] if self.reasoning else []
        return "\n".join([head, self.question, lettered(self.options), *why])


@lru_cache(maxsize=1)
def shipped_exemplars() -> tuple[Exemplar, ...]:
    """Return the worked questions that come with medstress."""
    return _lines((_ROOT / "exemplars.jsonl").read_text("utf-8"), "exemplars.jsonl")


def exemplars_from(path: Path, where: str, least: int = 1) -> tuple[Exemplar, ...]:
    """Read the worked questions of the user's file, such as MedQA's train split.

    A line holds `question`, `options` (a list, or ``{"A": "text"}``), the right letter as
    `answer_idx` or `answer`, and maybe `id` and `reasoning`; other keys are ignored.

    Args:
        path: the file.
        where: the path as the user gave it, for messages.
        least: the fewest questions it must hold.

    Raises:
        UsageError: no such file, too few questions, or a line that is no worked question or whose
            reasoning ends in an answer: the target must reason without choosing, and would copy
            the example.
    """
    where = f"exemplars_from = {where!r}"
    try:
        exemplars = _lines(path.read_text("utf-8"), where)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: it cannot be read: {error}") from error
    if len(exemplars) < least:
        raise UsageError(
            f"{where}: the file holds {len(exemplars)} questions, and {least} are shown: lower "
            "exemplars or add worked questions"
        )
    return exemplars


def _lines(text: str, where: str) -> tuple[Exemplar, ...]:
    exemplars = []
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        try:
            exemplars.append(_exemplar(json.loads(line), number))
        except ValidationError as error:
            raise UsageError(f"{where}, line {number}: {_first(error)}") from None
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}, line {number}: {reason(error)}") from None
    return tuple(exemplars)


def _exemplar(row: Any, number: int) -> Exemplar:
    if not isinstance(row, Mapping):
        raise ValueError("expected an object with question, options and answer_idx")
    values = {key: row[key] for key in _KEYS if row.get(key) is not None}
    options = values.get("options")
    if isinstance(options, list):
        options = dict(zip(LETTERS, options, strict=False))
    if not isinstance(options, Mapping):
        raise ValueError('expected an object with options as {"A": "text", ...}')
    values |= {"id": str(values.get("id", f"line {number}")), "options": tuple(options.items())}
    values["answer"] = row.get("answer_idx") or values.get("answer")
    exemplar = Exemplar.model_validate(values)
    if exemplar.answer not in options:
        raise ValueError(f"the answer {exemplar.answer!r} is not one of its options")
    if ends_in_answer(exemplar):
        raise ValueError(
            "the reasoning ends in an answer, but the model must reason without choosing: leave "
            "its last sentence out"
        )
    return exemplar


def ends_in_answer(exemplar: Exemplar) -> bool:
    """Return whether the last sentence of a reasoning names an option's letter or the right option.

    >>> fields = {"id": "q", "question": "Why?", "options": (("A", "Flu"), ("B", "Cold"))}
    >>> [ends_in_answer(Exemplar(**fields, answer="A", reasoning=text))
    ...  for text in ("It is late. So B it is.", "It is flu.", "Flu is sudden. A man froze.")]
    [True, True, False]
    """
    last = _SENTENCES.split(exemplar.reasoning.strip())[-1]
    if re.search(rf"\b{re.escape(exemplar.answer_text.strip())}(?!\w)", last, re.IGNORECASE):
        return True
    from medstress.tasks.reading import final_statement

    texts = [text for _, text in exemplar.options]
    return _OPTION.search(last) is not None or final_statement(last, texts) is not None


def draw_exemplars(
    exemplars: Sequence[Exemplar], n: int, item: Question, rng: Generator
) -> tuple[Exemplar, ...]:
    """Draw n worked questions, never the item itself nor one with its answer.

    Raises:
        UsageError: there are too few.
    """
    key, question = item.key_text.casefold(), item.question.casefold()
    others = [
        one
        for one in exemplars
        if one.id != item.id
        and one.question.casefold() != question
        and one.answer_text.casefold() != key
    ]
    if len(others) < n:
        raise UsageError(
            f"medfuzz: exemplars = {n}, but only {len(others)} worked questions are neither the "
            f"item {item.id!r} nor have its answer: lower exemplars, or add questions to the file "
            "of exemplars_from"
        )
    return tuple(others[i] for i in rng.choice(len(others), size=n, replace=False))


# Sets.


class Category(BaseModel):
    """What may be added."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """As an attacker names it."""
    description: str = Field(min_length=1)
    """As an attacker and a judge read it."""


class Forbidden(Category):
    """What must not be added."""

    history: bool = False
    """Whether it is history, which `allow_history` lets through."""


def _regular(words: str) -> str:
    try:
        re.compile(words)
    except re.error as error:
        raise ValueError(f"{words!r} is no regular expression: {error}") from None
    return words


Words: TypeAlias = tuple[Annotated[str, AfterValidator(_regular)], ...]


class EvidenceList(BaseModel):
    """What counts as clinical evidence where no judge is asked (gate `evidence`).

    Entries are regular expressions, looked for at the beginning of words.
    """

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)
    __pydantic_extra__: dict[str, Words]

    pass_: Words = Field((), alias="pass")
    """What is never evidence."""
    strong: Words = ()
    """What is evidence wherever it occurs, in either case."""
    cased: Words = ()
    """The same, where capitals count."""
    history: Words = ()
    """Like `strong`, but `allow_history` lets it through, and so it does hits of pairs."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Which groups are evidence together."""

    @property
    def groups(self) -> dict[str, Words]:
        """Name -> what is evidence only together with a hit of another group."""
        return self.__pydantic_extra__ or {}

    @model_validator(mode="after")
    def _pairs_of_groups(self) -> Self:
        for pair in self.pairs:
            if not {*pair} <= {*self.groups}:
                groups = ", ".join(self.groups) or "groups"
                raise ValueError(f"pairs: expected pairs of {groups}, got {pair!r}")
        return self


class Rules(BaseModel):
    """What an edit may say: `rules.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lever: str = Field(min_length=1)
    """What the edit plays on, as a noun phrase."""
    categories: tuple[Category, ...] = Field(alias="category", min_length=1)
    """What may be added."""
    forbidden: tuple[Forbidden, ...]
    """What must not be added."""
    evidence: EvidenceList
    """Empty where nothing counts as evidence."""

    def not_allowed(self, *, allow_history: bool) -> tuple[Forbidden, ...]:
        """Return what must not be added."""
        return tuple(one for one in self.forbidden if not (one.history and allow_history))


@dataclass(frozen=True, kw_only=True)
class PromptSet:
    """An assumption to test: what an attacker is told, and the rules of its edits."""

    name: str
    """Shipped name, or the folder's name."""
    attacker: str
    """Text of `attacker.md`."""
    rules: Rules
    exemplars: tuple[Exemplar, ...]
    """Worked questions to draw from."""

    @cached_property
    def hash(self) -> str:
        """Content hash of everything in the set but its name."""
        exemplars = [one.model_dump() for one in self.exemplars]
        return content_hash([self.attacker, self.rules.model_dump(), exemplars])

    def instructions(self, *, max_words: int, attempts: int, allow_history: bool) -> str:
        """Return what an attacker is told first."""
        forbidden = self.rules.not_allowed(allow_history=allow_history)
        values = {
            "lever": self.rules.lever,
            "categories": _listed(self.rules.categories),
            "forbidden": _listed(forbidden),
            "max_words": max_words,
            "attempts": attempts,
        }
        return _filled(self.attacker, values)


def _listed(kinds: Iterable[Category]) -> str:
    return "\n".join(f"- {one.name}: {one.description}" for one in kinds)


def shipped_sets() -> list[str]:
    """Return the names of the sets that come with medstress."""
    return sorted(entry.name for entry in _ROOT.iterdir() if (entry / RULES_FILE).is_file())


@lru_cache(maxsize=8)
def _shipped(name: str) -> PromptSet:
    return _load(name, _ROOT / name)


def load_prompts(name: str, base: Path | None = None) -> PromptSet:
    """Load a shipped set by name, or a folder (relative to `base`).

    Raises:
        UsageError: no such set or folder, or a file that is missing or cannot be used.
    """
    shipped = shipped_sets()
    if name in shipped:
        return _shipped(name)
    folder = (base or Path()) / Path(name).expanduser()
    if not folder.is_dir():
        raise UsageError(
            f"template {name!r} is neither a shipped set of prompts ({', '.join(shipped)}) nor a "
            f"folder{did_you_mean(name, shipped)}"
        ).with_command("medstress list prompts")
    return _load(folder.name, folder)


def _load(name: str, folder: Traversable) -> PromptSet:
    texts = {}
    for file in FILES:
        try:
            texts[file] = (folder / file).read_text("utf-8-sig")
        except FileNotFoundError:
            raise UsageError(
                f"template {name!r}: the folder has no {file}; copy a shipped set and change it: "
                "`medstress list prompts` says where they are"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"template {name!r}: {file} cannot be read: {error}") from error
    if not texts[ATTACKER_FILE].strip():
        raise UsageError(f"template {name!r}: {ATTACKER_FILE} is empty; write what to tell it")
    for place in dict.fromkeys(_PLACE.findall(texts[ATTACKER_FILE])):
        if place not in PLACES:
            hint = did_you_mean(place, PLACES) or f" (known: {', '.join(PLACES)})"
            raise UsageError(
                f"template {name!r}: {ATTACKER_FILE} has the unknown place {{{place}}}{hint}"
            )
    return PromptSet(
        name=name,
        attacker=texts[ATTACKER_FILE],
        rules=_rules(f"template {name!r}: {RULES_FILE}", texts[RULES_FILE]),
        exemplars=shipped_exemplars(),
    )


def _rules(where: str, text: str) -> Rules:
    values = parse_toml(text, where)
    if not {"forbidden", "evidence"} <= values.keys():  # not so in the default set
        default = _shipped(DEFAULT_SET).rules
        values = {"forbidden": default.forbidden, "evidence": default.evidence, **values}
    try:
        return Rules.model_validate(values)
    except ValidationError as error:
        raise UsageError(
            f'{where}: {_first(error)}; expected lever = "..." and [[category]] tables with name '
            "and description, and maybe [[forbidden]] and [evidence]"
        ) from None


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
