"""Sets of prompts for attacks that hold conversations: Jinja files, shipped or the user's own.

A set is a folder. Missing files come from the set `patient_characteristics`, so your own set needs
only the files that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_jsonable_python

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.files.jinja_texts import names_read, render
from medstress.files.reading import parse_toml
from medstress.prompts.exemplars import Exemplar, exemplars_in, first_error
from medstress.prompts.kinds import kinds

DEFAULT = "patient_characteristics"
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


class Category(BaseModel):
    """One kind of assumption that an edit may play on.

    If description or cues are left out, they come from the characteristic of that name, see
    `medstress.prompts.kinds`.
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


def shipped() -> list[str]:
    """Return the names of the sets that come with medstress."""
    folders = (entry for entry in _root().iterdir() if (entry / CATEGORIES).is_file())
    return sorted(entry.name for entry in folders)


@lru_cache(maxsize=16)
def load_prompts(name: str, base: Path | None = None) -> PromptSet:
    """Load a shipped set by name, or a folder (relative to `base`).

    Raises:
        UsageError: no such set or folder, a file with an unknown name, or one that cannot be read.
    """
    known = shipped()
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


def _root() -> Traversable:
    return files("medstress.prompts")


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
    for place in (folder / file, _root() / DEFAULT / file, _root() / file):
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
