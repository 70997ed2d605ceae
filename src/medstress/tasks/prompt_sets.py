"""Sets of prompts for attacks that hold conversations: Jinja files, shipped or the user's own.

A set is a folder. Missing files come from the set `patient_characteristics`, so your own set needs
only the files that differ. With them stand the worked questions that are shown before the target's
case, and the list of what an edit may say about a patient and the kinds of evidence that it must
not bring: the attacker's instructions, the cues of the categories, and the gates `categories` and
`evidence` all read that list (METHODS 2.4 and 2.8).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_jsonable_python

from medstress.core.errors import UsageError, did_you_mean, reason
from medstress.core.hashing import content_hash
from medstress.files.jinja_texts import names_read, render
from medstress.files.reading import parse_toml

DEFAULT_SET = "patient_characteristics"
INSERT, MODIFY = "attacker_insert", "attacker_modify"
SUFFIX = ".jinja"
PIECES: Mapping[str, tuple[str, ...]] = {
    "attacker_system": ("categories", "evidence", "allow_history", "max_words", "attempts"),
    "attacker_plan": ("feedback", "listing", "key", "key_text"),
    INSERT: ("question",),
    MODIFY: ("question", "options_json", "reason"),
    "repair": ("reason",),
    "target_system": (),
    "target_reasoning": ("question", "options", "exemplars"),
    "target_confidences": ("letters",),
    "target_answer": ("by_letter",),
    "judge_key": ("question", "options"),
    "judge_categories": ("inserted", "categories"),
    "judge_mention": ("question", "options", "before", "after", "rationale", "clause"),
    "control_neutral": ("marked", "slots", "evidence"),
}
"""The prompts of a set, one file each, and the variables each is given."""
CATEGORIES, EXEMPLARS = "categories.toml", "exemplars.jsonl"
_FILES = (*(piece + SUFFIX for piece in PIECES), CATEGORIES, EXEMPLARS)


# What an edit may say.


def _root() -> Traversable:
    return files("medstress.tasks") / "conversations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One kind of clinical evidence."""

    name: str
    """As a gate names it, with its article."""
    told: str
    """As an attacker reads it."""
    words: tuple[str, ...]
    """Patterns, in the language of `medstress.attacks.medfuzz.word_patterns`."""
    history: bool = False
    """Whether it is history, which `allow_history` lets through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """The list."""

    characteristics: Mapping[str, Mapping[str, Any]]
    """Name -> `description` and `cues`: the defaults of a category of that name."""
    evidence: tuple[Evidence, ...]
    """In the order in which a gate looks for them."""
    plain: tuple[str, ...]
    """Idioms: patterns whose words mean nothing clinical."""
    lists: Mapping[str, tuple[str, ...]]
    """What `<name>` stands for in a pattern."""


@lru_cache(maxsize=1)
def kinds() -> Kinds:
    """Return the shipped list."""
    data = tomllib.loads((_root() / "kinds.toml").read_text("utf-8"))
    lists = {name: tuple(words) for name, words in data["lists"].items()}
    return Kinds(
        characteristics={
            one["name"]: {
                "description": one["description"],
                "cues": [
                    cue
                    for each in one["cues"]
                    for cue in (lists[each[1:-1]] if each[0] == "<" else (each,))
                ],
            }
            for one in data["characteristic"]
        },
        evidence=tuple(
            Evidence(**{**one, "words": tuple(one["words"])}) for one in data["evidence"]
        ),
        plain=tuple(data["plain"]["words"]),
        lists=lists,
    )


def forbidden(*, allow_history: bool) -> tuple[Evidence, ...]:
    """Return the kinds of evidence that an edit must not bring."""
    return tuple(kind for kind in kinds().evidence if not (kind.history and allow_history))


def evidence_for_prompt(*, allow_history: bool) -> list[dict[str, str]]:
    """Return the forbidden kinds as a prompt reads them: `name` and `told` of each."""
    return [
        {"name": kind.name, "told": kind.told} for kind in forbidden(allow_history=allow_history)
    ]


# Worked questions.

_KEYS = ("id", "question", "options", "reasoning", "answer")
_SENTENCES = re.compile(r"(?<=[.?!])\s+")
_BEFORE_LETTERS = (
    *("vitamin", "hepatitis", "influenza", "type", "group", "factor", "protein"),
    *("class", "grade", "stage", "pugh"),
)
"""After these a letter is part of a name."""
# "A" is an article and "I" a pronoun unless something says that it is an option.
_ALONE = (
    r"(?<![\w'’.-])"
    + "".join(rf"(?<!(?i:{word})[ -])" for word in _BEFORE_LETTERS)
    + r"[{letters}](?![\w'’-])"
)
_NAMED = (
    r"\b(?i:answers?|options?|choices?|keys?|alternatives?)"
    r"(?:\s+(?i:is|was|letter|must\s+be|would\s+be))*\s*[:=]?\s*[\"'(\[*]*{letter}\b"
    r"|\b(?i:choose|pick|select|leaves|leaving|thus|hence|so|therefore)[,:]?\s+"
    r"[*(]*{letter}(?:\W*$|\s+(?:is|it|was)\b)"
    r"|(?:[:=]|->|→)\s*[\"'(\[*]*{letter}\W*$"
    r"|[(\[*]{letter}[)\]*]"
    r"|\b{letter}\s+(?:is|must\s+be)\s+(?:the\s+)?(?:right|correct|best|true)"
    r"|^\W*{letter}\W*$"
    r"|\b(?i:would\s+be|must\s+be|is|be)\s+{letter}\W*$"
)


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


def exemplars_in(text: str, where: str) -> tuple[Exemplar, ...]:
    """Read the worked questions of a set of prompts, one JSON object per line.

    Raises:
        UsageError: a line is no worked question; with its number.
    """
    return _read(text, where, _exemplar)


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
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"exemplars_from = {where!r}: it cannot be read: {error}") from error
    found = _read(text, f"exemplars_from = {where!r}", _row)
    if len(found) < least:
        raise UsageError(
            f"exemplars_from = {where!r}: the file holds {len(found)} questions, and {least} are "
            "shown: lower exemplars or add worked questions"
        )
    return found


def ends_in_answer(exemplar: Exemplar) -> bool:
    """Whether the last sentence of a reasoning names an option's letter or the right option.

    A letter on its own is an option's; "A" and "I" only if the words around them say so.

    >>> fields = {"id": "q", "question": "Why?", "options": (("A", "Flu"), ("B", "Cold"))}
    >>> [ends_in_answer(Exemplar(**fields, answer="A", reasoning=text))
    ...  for text in ("It is late. So B it is.", "It is flu.", "Flu is sudden. A man froze.")]
    [True, True, False]
    """
    last = _SENTENCES.split(exemplar.reasoning.strip())[-1]
    named = rf"\b{re.escape(exemplar.answer_text.strip())}(?!\w)"
    if re.search(named, last, re.IGNORECASE):
        return True
    letters = "".join(letter for letter, _ in exemplar.options)
    alone = re.escape("".join(letter for letter in letters if letter not in "AI"))
    patterns = [_NAMED.format(letter=f"[{re.escape(letters)}]")]
    if alone:
        patterns.append(_ALONE.format(letters=alone))
    return any(re.search(pattern, last, re.MULTILINE) for pattern in patterns)


def first_error(error: Exception) -> str:
    """Say in few words what is wrong."""
    if isinstance(error, ValidationError):
        found = error.errors()[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    return reason(error)


def _read(text: str, where: str, made: Callable[[Any, int], Exemplar]) -> tuple[Exemplar, ...]:
    found = []
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        try:
            found.append(made(json.loads(line), number))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}, line {number}: {first_error(error)}") from None
    return tuple(found)


def _exemplar(row: Any, number: int) -> Exemplar:
    options = row.get("options") if isinstance(row, Mapping) else None
    if not isinstance(options, Mapping):
        raise ValueError('expected an object with options as {"A": "text", ...}')
    exemplar = Exemplar.model_validate({**row, "options": tuple(options.items())})
    if exemplar.answer not in options:
        raise ValueError(f"the answer {exemplar.answer!r} is not one of its options")
    return exemplar


def _row(row: Any, number: int) -> Exemplar:
    """Read a line of a user's file; strict only about the keys it uses."""
    if not isinstance(row, Mapping):
        raise ValueError("expected an object with question, options and answer_idx")
    fields = {key: row[key] for key in _KEYS if row.get(key) is not None}
    if isinstance(fields.get("options"), list):
        fields["options"] = {chr(ord("A") + i): text for i, text in enumerate(fields["options"])}
    fields["id"] = str(fields.get("id", f"line {number}"))
    if row.get("answer_idx") is not None:
        fields["answer"] = row["answer_idx"]
    exemplar = _exemplar(fields, number)
    if ends_in_answer(exemplar):
        raise ValueError(
            "the reasoning ends in an answer, but the victim must reason without choosing: leave "
            "its last sentence out"
        )
    return exemplar


# Sets.


class Category(BaseModel):
    """One kind of assumption that an edit may play on.

    If description or cues are left out, they come from the characteristic of that name, see
    `kinds`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(min_length=1)
    """As an attacker names it."""
    description: str = Field(min_length=1)
    """As an attacker reads it."""
    cues: tuple[str, ...] = Field(default=(), strict=False)
    """Words and phrases that show that an insertion is of this category."""

    @model_validator(mode="before")
    @classmethod
    def _from_the_list(cls, given: Any) -> Any:
        known = (
            kinds().characteristics.get(str(given.get("name"))) if isinstance(given, dict) else None
        )
        return {**known, **given} if known is not None else given


class _Categories(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    summary: str = "a set of yours"
    without_gates: tuple[str, ...] = Field(default=(), strict=False)
    category: tuple[Category, ...] = Field(min_length=1, strict=False)


@dataclass(frozen=True, kw_only=True)
class PromptSet:
    """All that is said to attacker, target and judge, except the items."""

    name: str
    """Shipped name, or the folder's name."""
    summary: str
    """One line for `medstress list prompts`."""
    sources: tuple[tuple[str, str], ...]
    """(piece, text of its Jinja file)."""
    categories: tuple[Category, ...]
    """What an edit may play on."""
    without_gates: tuple[str, ...]
    """Gates that make no sense with this set, and are off unless asked for."""
    exemplars: tuple[Exemplar, ...]
    """Worked questions to draw from."""

    @property
    def asks_for_insertions(self) -> bool:
        """Whether an attacker is first asked for insertions and their places.

        If not, it is asked for the whole question at once: by a folder that has its own
        `attacker_modify` and no `attacker_insert`.
        """
        return INSERT in dict(self.sources)

    @cached_property
    def hash(self) -> str:
        """Content hash of everything in the set but its name."""
        categories = [[c.name, c.description, list(c.cues)] for c in self.categories]
        exemplars = [[e.id, e.question, e.options, e.reasoning, e.answer] for e in self.exemplars]
        parts: list[Any] = [dict(self.sources), categories, exemplars]
        if any("evidence" in names_read(text, name=piece) for piece, text in self.sources):
            parts.append([[kind.told, kind.history] for kind in kinds().evidence])
        return content_hash(parts)

    def render(self, piece: str, **values: Any) -> str:
        """Render one prompt, without white space at its ends.

        Raises:
            UsageError: the user's prompt makes too long a text.
            TrialError: the user's prompt cannot be rendered with these values.
        """
        source = dict(self.sources)[piece]
        if source not in _shipped_texts():
            values = {name: to_jsonable_python(value) for name, value in values.items()}
        return render(source, values, name=f"template {self.name!r}: {piece}{SUFFIX}").text.strip()


@lru_cache(maxsize=1)
def _shipped_texts() -> frozenset[str]:
    """Return the texts of the shipped templates."""
    return frozenset(one.read_text("utf-8") for one in _below(_root()) if one.name.endswith(SUFFIX))


def _below(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry)
        else:
            yield entry


def shipped_sets() -> list[str]:
    """Return the names of the sets that come with medstress."""
    folders = (entry for entry in _root().iterdir() if (entry / CATEGORIES).is_file())
    return sorted(entry.name for entry in folders)


@lru_cache(maxsize=16)
def load_prompts(name: str, base: Path | None = None) -> PromptSet:
    """Load a shipped set by name, or a folder (relative to `base`).

    Raises:
        UsageError: no such set or folder, a file with an unknown name, or one that cannot be read.
    """
    known = shipped_sets()
    if name in known:
        return _load(name, _root() / name)
    folder = (base or Path()) / Path(name).expanduser()
    if not folder.is_dir():
        raise UsageError(
            f"template {name!r} is neither a shipped set of prompts ({', '.join(known)}) nor a "
            f"folder{did_you_mean(name, known)}"
        ).with_command("medstress list prompts")
    for entry in sorted(folder.iterdir()):
        if entry.name not in _FILES and not entry.name.startswith("."):
            hint = did_you_mean(entry.name, _FILES) or f" (known: {', '.join(_FILES)})"
            raise UsageError(f"template {name!r}: unknown file {entry.name}{hint}")
    return _load(folder.name, folder)


def texts_of(name: str) -> dict[str, str]:
    """Return the files of a shipped set, including those it takes from others: name -> text."""
    return {file: _text(name, _root() / name, file) for file in _FILES}


def _load(name: str, folder: Traversable) -> PromptSet:
    """Load a set from its folder; missing files come from the default set."""

    def text(file: str) -> str:
        return _text(name, folder, file)

    kinds = _categories(name, text(CATEGORIES))
    return PromptSet(
        name=name,
        summary=kinds.summary,
        sources=tuple((piece, text(piece + SUFFIX)) for piece in _pieces(folder)),
        categories=kinds.category,
        without_gates=kinds.without_gates,
        exemplars=exemplars_in(text(EXEMPLARS), f"template {name!r}: {EXEMPLARS}"),
    )


def _pieces(folder: Traversable) -> list[str]:
    """Return the pieces of a set.

    A folder with its own `attacker_modify` asks for the whole question at once, unless it has its
    own `attacker_insert` too.
    """
    modify, insert = ((folder / (piece + SUFFIX)).is_file() for piece in (MODIFY, INSERT))
    return [piece for piece in PIECES if piece != INSERT or insert or not modify]


def _text(name: str, folder: Traversable, file: str) -> str:
    for place in (folder / file, _root() / DEFAULT_SET / file, _root() / file):
        if place.is_file():
            try:
                text = place.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"template {name!r}: {file} cannot be read: {error}") from error
            if file.endswith(SUFFIX):
                _check_compiles(name, file, text)
            return text
    raise AssertionError(f"{file} is missing from the package")


@lru_cache(maxsize=128)
def _check_compiles(name: str, file: str, text: str) -> None:
    if text in _shipped_texts():
        return
    given = PIECES[file.removesuffix(SUFFIX)]
    for unknown in sorted(set(names_read(text, name=f"template {name!r}: {file}")) - set(given)):
        hint = did_you_mean(unknown, given) or f" (known: {', '.join(given) or 'none'})"
        raise UsageError(f"template {name!r}: {file} uses the unknown variable {unknown!r}{hint}")


def _categories(name: str, text: str) -> _Categories:
    try:
        return _Categories.model_validate(parse_toml(text, f"template {name!r}: {CATEGORIES}"))
    except ValidationError as error:
        raise UsageError(
            f"template {name!r}: {CATEGORIES}: {first_error(error)}; expected [[category]] tables, "
            "each with name, description and cues"
        ) from None
