"""Prompts of questions: texts with placeholders, shipped or the user's own, or a user's Jinja file.

Placeholders only place texts, so a run folder's prompts are read back without executing anything.
What a Jinja file made is stored with each call; a folder's own Jinja text is never rendered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.calls import Message, Prompt
from medstress.core.errors import TrialError, UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS, Candidate, Question
from medstress.core.text import Edit, apply_edits

if TYPE_CHECKING:
    import jinja2

SUFFIX = ".txt"
JINJA = (".jinja", ".jinja2", ".j2")
"""Endings of Jinja files."""
FIELDS = ("context", "stem", "question", "passage")
"""Placeholders of the item's texts; `question` is context and stem as one text."""
OPTIONS = ("options", "texts")
"""Placeholders of the options, a line each: with letter, and the text alone."""
_WORDS = (*FIELDS, *OPTIONS, "if context", "if passage", "end")
_PLACE = re.compile(r"\{([a-z]+(?: [a-z]+)?)\}")
_HEADER = re.compile(r"(?:(?:summary|system): [^\n]*\n)+---\n")
_MOST_PLACES, _LONGEST = 100, 1 << 16
"""A prompt of a stranger's folder may not be much longer than the texts that it places."""
_OWN = "a template of yours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt.

    Text with placeholders: `{context}`, `{stem}`, `{question}`, `{passage}` and `{options}`; what
    is between `{if context}` (or `{if passage}`) and `{end}` is left out where that text is empty.
    Lines `summary: ...` and `system: ...` may come first, ended by a line `---`; with `system` the
    text is the user's turn of a conversation.

    A Jinja file sees the same names, `options` as pairs of letter and text. It may set `system`,
    `summary`, and `lists_options = false`.
    """

    name: str
    """Shipped name, or the file's name."""
    source: str
    """The file's text; part of the fingerprint."""
    is_jinja: bool = False
    lists_options: bool = True
    """True if the prompt shows the options."""
    system: str | None = None
    """The first turn of a conversation; None if the prompt is one text."""
    summary: str = _OWN
    """One line for `medstress list prompts`."""
    is_shown: bool = True
    """False for a template of a run folder that would have to be executed."""

    def __hash__(self) -> int:
        return hash(self.source)

    @property
    def hash(self) -> str:
        """Content hash of the template's text."""
        return content_hash(self.source)

    @property
    def chat(self) -> bool:
        """True if the prompt is a conversation."""
        return self.system is not None

    def as_json(self) -> dict[str, Any]:
        """Return its entry in the manifest."""
        own = {"name": self.name, "source": self.source, "jinja": self.is_jinja}
        return {**own, "lists_options": self.lists_options}

    def shows(self, name: str) -> bool:
        """Return whether prompts show a field of an item: `passage`, `context` or `stem`.

        Of a Jinja file, whether its text speaks of the field. For `options`, whether prompts list
        them.
        """
        if name == "options":
            return self.lists_options
        names = (name,) if name == "passage" else (name, "question")
        if self.is_jinja:
            return any(one in self.source for one in names)
        return not set(names).isdisjoint(_laid_out(self.source, True, True)[1::2])

    def render(self, candidate: Candidate) -> Prompt:
        """Render a candidate, without white space at its ends (METHODS 1.2).

        Without `is_shown` the prompt is empty.

        Raises:
            UsageError: a Jinja file makes too long a text.
            TrialError: it cannot be rendered with this candidate.
        """
        if not self.is_shown:
            return self._prompt("", "")
        if self.is_jinja:
            values = _values(candidate)
            values["options"] = list(zip(candidate.item.letters, candidate.options, strict=True))
            text, sets = render(self.source, values, name=_named(self.name))
            return self._prompt(text, str(sets.get("system", "")))
        item, edits = candidate.item, candidate.edits
        if len(edits) == 1 and edits[0].field in item.letters:  # as nearly always
            around = _around(self, item, edits[0].field)
            if around is not None:
                text = apply_edits(item.option(edits[0].field), edits)
                return self._prompt(f"{around[0]}{text}{around[1]}", self.system or "")
        return self._prompt(self._laid(candidate), self.system or "")

    def _laid(self, candidate: Candidate) -> str:
        values = _values(candidate)
        pieces = _laid_out(self.source, bool(values["context"]), bool(values["passage"]))
        options = list(zip(candidate.item.letters, candidate.options, strict=True))
        if "options" in pieces:
            values["options"] = "\n".join([f"{letter}: {text}" for letter, text in options])
        elif "texts" in pieces:
            values["texts"] = "\n".join([text for _, text in options])
        texts = [*pieces]
        texts[1::2] = [values[place] for place in pieces[1::2]]
        return "".join(texts)

    def _prompt(self, body: str, system: str) -> Prompt:
        body = body.strip()
        return (Message("system", system.strip()), Message("user", body)) if self.chat else body


def _values(candidate: Candidate) -> dict[str, Any]:
    context, stem = candidate.context, candidate.stem
    question = f"{context} {stem}" if context else stem
    return {"context": context, "stem": stem, "question": question, "passage": candidate.passage}


_HERE = "\0"
"""Marks the place of an option."""


@lru_cache(maxsize=2048)
def _around(template: Template, item: Question, letter: str) -> list[str] | None:
    """Return what a prompt has before and after an option; None unless it shows it once."""
    whole = Edit(field=letter, start=0, end=len(item.option(letter)), replacement=_HERE)
    if _HERE in template._laid(Candidate(item=item)):  # a text that holds the mark itself
        return None
    parts = template._laid(Candidate(item=item, edits=(whole,))).split(_HERE)
    return parts if len(parts) == 2 else None


@lru_cache(maxsize=256)
def _laid_out(source: str, has_context: bool, has_passage: bool) -> tuple[str, ...]:
    """Return the text of a template: literal at even places, names of placeholders at odd ones."""
    present = {"if context": has_context, "if passage": has_passage, "end": True}
    pieces, is_shown = [""], True
    for i, part in enumerate(_PLACE.split(_body(source))):
        if i % 2 == 0 or part not in _WORDS:
            part = part if i % 2 == 0 else f"{{{part}}}"
            pieces[-1] += part if is_shown else ""
        elif part in present:
            is_shown = present[part]
        elif is_shown:
            pieces += [part, ""]
    return tuple(pieces)


def _body(source: str) -> str:
    header = _HEADER.match(source)
    return source[header.end() :] if header else source


def shipped_prompts() -> list[str]:
    """Return the names of the prompts shipped with medstress."""
    folder = files("medstress.tasks") / "prompts"
    return sorted(
        entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)
    )


@lru_cache(maxsize=64)
def load_template(name: str, base: Path | None = None) -> Template:
    """Load a shipped prompt by name, or a file by path (relative to `base`).

    Raises:
        UsageError: no such prompt or file, or it cannot be used.
    """
    shipped = shipped_prompts()
    if name in shipped:
        source = (files("medstress.tasks") / "prompts" / f"{name}{SUFFIX}").read_text("utf-8")
        return compile_template(name, source)
    path = (base or Path()) / name
    if not path.is_file():
        raise UsageError(
            f"prompt {name!r} is neither a shipped template ({', '.join(shipped)}) nor a file"
            f"{did_you_mean(name, shipped)}"
        ).with_command("medstress list prompts")
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"prompt {name!r} cannot be read: {error}") from error
    return compile_template(path.name, source)


def compile_template(name: str, source: str) -> Template:
    """Build a template from its text; the ending of its name tells Jinja from placeholders.

    Raises:
        UsageError: an unknown placeholder, or Jinja that does not compile or render; the message
            has the reason.
    """
    if not name.endswith(JINJA):
        _check_places(name, source)
        return _with_places(name, source, is_shown=True)
    # What a template sets shows when it is rendered with a made-up question.
    options = [(letter, f"option {letter}") for letter in LETTERS]
    probe = {"context": "", "stem": "s?", "question": "s?", "passage": "", "options": options}
    try:
        _, sets = render(source, probe, name=_named(name))
    except TrialError as error:
        raise UsageError(f"{_named(name)} is not a usable Jinja template: {error}") from error
    return Template(
        name=name,
        source=source,
        is_jinja=True,
        lists_options=bool(sets.get("lists_options", True)),
        system=str(sets["system"]) if "system" in sets else None,
        summary=str(sets.get("summary", _OWN)),
    )


def stored_template(stored: Mapping[str, Any]) -> Template:
    """Return a template of a run folder from `Template.as_json`; it is never executed."""
    name, source = str(stored["name"]), str(stored["source"])
    if not stored["jinja"]:
        is_small = len(source) <= _LONGEST and len(_PLACE.findall(source)) <= _MOST_PLACES
        return _with_places(name, source if is_small else "", is_shown=is_small)
    lists_options = bool(stored["lists_options"])
    return Template(
        name=name, source=source, is_jinja=True, lists_options=lists_options, is_shown=False
    )


def _with_places(name: str, source: str, *, is_shown: bool) -> Template:
    header = _HEADER.match(source)
    lines = header[0].splitlines()[:-1] if header else []
    says = dict(line.split(": ", 1) for line in lines)
    return Template(
        name=name,
        source=source,
        lists_options=not set(OPTIONS).isdisjoint(_PLACE.findall(_body(source))),
        system=says.get("system"),
        summary=says.get("summary", _OWN),
        is_shown=is_shown,
    )


def _check_places(name: str, source: str) -> None:
    if re.search(r"\{\{|\{%", source):
        raise UsageError(
            f"{_named(name)} looks like Jinja, but its name does not end in {JINJA[0]}; rename it, "
            "or place texts by {question} and {options}"
        )
    places = _PLACE.findall(_body(source))
    for place in places:
        if place not in _WORDS:
            hint = did_you_mean(place, _WORDS) or f" (known: {', '.join(_WORDS)})"
            raise UsageError(f"{_named(name)}: unknown placeholder {{{place}}}{hint}")
    ends = [place == "end" for place in places if place == "end" or place.startswith("if ")]
    if ends != [False, True] * (len(ends) // 2):
        raise UsageError(
            f"{_named(name)}: expected one {{end}} after every {{if ...}}, none of them nested"
        )


def _named(name: str) -> str:
    return f"prompt {name!r}"


# -- Jinja ----------------------------------------------------------------------------------------
LARGEST = 1 << 20
"""Most characters of one rendering; a prompt only places texts."""
_PLAIN = (str, bool, int, float, type(None))


def render(
    source: str, values: Mapping[str, Any], *, name: str, chat: bool = False
) -> tuple[str, dict[str, Any]]:
    """Render a template.

    Args:
        source: the template's text.
        values: its variables, as JSON values.
        name: its name in messages, such as `prompt 'mine.jinja'`.
        chat: whether it is a model's chat template, which may use the extensions of transformers:
            `break`, `raise_exception`, `strftime_now`.

    Returns:
        The text, and the texts, numbers and booleans that the template sets at its top level.

    Raises:
        UsageError: the template is not valid Jinja, or makes too long a text.
        TrialError: it cannot be rendered with these values; the message has Jinja's reason.
    """
    template = compiled(source, name=name, chat=chat)
    pieces, n = [], 0
    try:
        context = template.new_context(dict(values))
        for piece in template.root_render_func(context):
            n += len(piece)
            if n > LARGEST:
                break
            pieces.append(piece)
        exports = {k: v for k, v in context.get_exported().items() if isinstance(v, _PLAIN)}
    except Exception as error:  # a template is code and can raise anything
        raise TrialError(f"{name} cannot be rendered: {_reason(error)}") from error
    if n > LARGEST:
        raise UsageError(
            f"{name} makes more than {LARGEST:,} characters; a prompt should only place texts"
        )
    return "".join(pieces), exports


@lru_cache(maxsize=64)
def compiled(source: str, *, name: str, chat: bool = False) -> jinja2.Template:
    """Compile a template.

    Raises:
        UsageError: it is not valid Jinja.
    """
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if chat:
        # The environment of transformers, which chat templates are written for.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _generation()],
        )
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        environment.filters["tojson"] = _json
    else:
        environment = ImmutableSandboxedEnvironment(
            undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
        )
    try:
        return environment.from_string(source)
    except (jinja2.TemplateError, RecursionError) as error:
        raise UsageError(f"{name} is not a usable Jinja template: {_reason(error)}") from error


def _generation() -> Any:
    """Return the tag `generation`, which marks the model's text; here it only renders its body."""
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return Generation


def _refuse(reason: str) -> None:
    import jinja2

    raise jinja2.TemplateError(reason)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _json(value: Any, **how: Any) -> str:
    """Dump JSON without escaping HTML characters, unlike Jinja's own filter."""
    return json.dumps(value, **{"ensure_ascii": False, **how})


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1_000]
