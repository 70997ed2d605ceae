"""Prompt templates: Jinja files, shipped or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from medstress.core.calls import Message, Prompt
from medstress.core.errors import TrialError, UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS, Candidate, Question
from medstress.core.text import apply_edits
from medstress.rendering import render
from medstress.tasks.prompt_forms import FIELDS, OPTIONAL, Form, form_from_json, form_of

SUFFIX = ".jinja"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt template.

    The file sees `passage`, `context`, `stem`, `question` (the last two as one text) and
    `options`, pairs of letter and text. It may set `lists_options = false` (the options are not
    in the prompt), `system` (then the body is the user's turn of a conversation) and `summary`.
    """

    name: str
    """Shipped name, or the file's name."""
    source: str
    """The template's text; part of the fingerprint."""
    lists_options: bool = True
    """True if the prompt shows the options."""
    chat: bool = False
    """True if the prompt is a conversation."""
    summary: str = "a template of yours"
    """One line for `medstress list prompts`."""
    form: Form | None = None
    """Its form, if it only places texts; then rendering joins pieces."""
    is_own: bool = True
    """False for a template of a run folder, which is never executed."""

    def __hash__(self) -> int:
        return hash(self.source)

    @property
    def hash(self) -> str:
        """Content hash of the template's text."""
        return content_hash(self.source)

    @property
    def is_shown(self) -> bool:
        """True if prompts can be rendered with it."""
        return self.is_own or self.form is not None

    def as_json(self) -> dict[str, Any]:
        """Return its entry in the manifest, with its form, so that prompts can be reproduced."""
        form = None if self.form is None else self.form.as_json()
        own = {"name": self.name, "source": self.source, "form": form}
        return {**own, "lists_options": self.lists_options}

    def shows(self, name: str) -> bool:
        """Return whether prompts show a field of an item: `passage`, `context` or `stem`.

        Of a template without a form, whether its text speaks of the field. For `options`, whether
        prompts list them.
        """
        if name == "options":
            return self.lists_options
        names = (name,) if name == "passage" else (name, "question")
        if self.form is None:
            return any(each in self.source for each in names)
        return any(self.form.places(each) for each in names)

    def render(self, candidate: Candidate) -> Prompt:
        """Render a candidate, without trailing white space (METHODS 1.2).

        Without `is_shown` the prompt is empty.

        Raises:
            UsageError: rendering exceeds its limits of time, memory or length.
            TrialError: it cannot be rendered with this candidate.
        """
        item, edits = candidate.item, candidate.edits
        if self.form is not None and len(edits) == 1:
            frame = _frame(self, item, edits[0].field)
            if frame is not None:
                text = apply_edits(item.option(edits[0].field), edits)
                return self._prompt(f"{frame.before}{text}{frame.after}".strip(), frame.system)
        context, stem = candidate.context, candidate.stem
        values = {"passage": candidate.passage, "context": context, "stem": stem}
        values["question"] = f"{context} {stem}" if context else stem
        values.update(zip(candidate.item.letters, candidate.options, strict=True))
        if self.form is None:
            return self._rendered(values, candidate.item.letters)
        shape = _shape(self, candidate.item.letters, _present(values))
        body = "".join(values[piece] if i % 2 else piece for i, piece in enumerate(shape.pieces))
        return self._prompt(body.strip(), shape.system)

    def _rendered(self, values: Mapping[str, str], letters: str) -> Prompt:
        if not self.is_own:
            return self._prompt("", "")
        fields = {name: values[name] for name in FIELDS}
        options = [(letter, values[letter]) for letter in letters]
        found = render(self.source, {**fields, "options": options}, name=f"prompt {self.name!r}")
        return self._prompt(found.text.strip(), str(found.exports.get("system", "")).strip())

    def _prompt(self, body: str, system: str) -> Prompt:
        return (Message("system", system), Message("user", body)) if self.chat else body


@dataclass(frozen=True, slots=True)
class _Shape:
    """A form laid out for all items of one shape."""

    pieces: tuple[str, ...]
    """Literal text at even places, names of fields at odd ones."""
    system: str
    """The system turn of a conversation."""


@lru_cache(maxsize=256)
def _shape(template: Template, letters: str, present: frozenset[str]) -> _Shape:
    assert template.form is not None
    system = str(dict(template.form.says).get("system", "")).strip()
    return _Shape(template.form.laid_out(letters, present), system)


def _present(values: Mapping[str, str]) -> frozenset[str]:
    """Return the optional fields that are not empty."""
    return frozenset(name for name in OPTIONAL if values[name])


@dataclass(frozen=True, slots=True)
class _Frame:
    """The prompt of an item around one of its options."""

    before: str
    """What comes before the option."""
    after: str
    """What comes after it."""
    system: str
    """The system turn of a conversation."""


@lru_cache(maxsize=2048)
def _frame(template: Template, item: Question, letter: str) -> _Frame | None:
    """Return the frame of an option; None for other fields, or if it is not shown exactly once.

    Only the edited option has a frame; frames for all options would cache an item's prompt once
    for each option.
    """
    values = {name: item.text_of(name) for name in FIELDS}
    shape = _shape(template, item.letters, _present(values))
    if letter not in item.letters or shape.pieces[1::2].count(letter) != 1:
        return None
    values.update(zip(item.letters, item.options, strict=True))
    texts = [values[piece] if i % 2 else piece for i, piece in enumerate(shape.pieces)]
    place = 2 * shape.pieces[1::2].index(letter) + 1
    return _Frame("".join(texts[:place]), "".join(texts[place + 1 :]), shape.system)


def shipped_prompts() -> list[str]:
    """Return the names of the templates shipped with medstress."""
    folder = files("medstress.tasks") / "prompts"
    return sorted(
        entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)
    )


@lru_cache(maxsize=64)
def load_template(name: str, base: Path | None = None) -> Template:
    """Load a shipped template by name, or a Jinja file by path (relative to `base`).

    Raises:
        UsageError: no such template or file, or the file does not compile or render.
    """
    known = shipped_prompts()
    if name in known:
        source = (files("medstress.tasks") / "prompts" / f"{name}{SUFFIX}").read_text("utf-8")
        return compile_template(name, source)
    path = (base or Path()) / name
    if not path.is_file():
        raise UsageError(
            f"prompt {name!r} is neither a shipped template ({', '.join(known)}) nor a file"
            f"{did_you_mean(name, known)}"
        ).with_command("medstress list prompts")
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"prompt {name!r} cannot be read: {error}") from error
    return compile_template(path.name, source)


def compile_template(name: str, source: str) -> Template:
    """Build a template from its text, and try it on a made-up question.

    Raises:
        UsageError: it does not compile or render; the message carries Jinja's reason.
    """
    form = form_of(source)
    try:
        says = _said(name, source) if form is None else dict(form.says)
    except TrialError as error:
        raise UsageError(f"prompt {name!r} is not a usable Jinja template: {error}") from error
    return _with_form(name, source, form, says, is_own=True)


def stored_template(stored: Mapping[str, Any]) -> Template:
    """Return a template of a run folder from `Template.as_json`; it is never executed."""
    name, source = str(stored["name"]), str(stored["source"])
    form = form_from_json(stored["form"])
    says = {"lists_options": stored["lists_options"]} if form is None else dict(form.says)
    return _with_form(name, source, form, says, is_own=False)


def _with_form(
    name: str, source: str, form: Form | None, says: Mapping[str, Any], *, is_own: bool
) -> Template:
    return Template(
        name=name,
        source=source,
        lists_options=bool(says.get("lists_options", True)),
        chat="system" in says,
        summary=str(says.get("summary", "a template of yours")),
        form=form,
        is_own=is_own,
    )


def _said(name: str, source: str) -> Mapping[str, Any]:
    """Return the constants that a template sets, by rendering it with a made-up question."""
    options = [(letter, f"option {letter}") for letter in LETTERS]
    probe = {"context": "", "stem": "s?", "question": "s?", "passage": "", "options": options}
    return render(source, probe, name=f"prompt {name!r}").exports
