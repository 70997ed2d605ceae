"""Prompt templates: Jinja files, shipped or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from medstress.calls import Message, Prompt
from medstress.errors import UsageError, did_you_mean
from medstress.hashing import content_hash
from medstress.items import LETTERS, Candidate, Question
from medstress.text import apply_edits

SUFFIX = ".jinja"
_MARK = "\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A compiled prompt template.

    The file sees `context`, `stem`, `question` (both as one text) and `options`, pairs of
    letter and text. It may set `lists_options = false` (the options are not in the prompt),
    `system` (then the body is the user's turn of a conversation) and `summary`.
    """

    name: str
    """Shipped name, or the file's name."""
    source: str
    """The template's text; part of the fingerprint."""
    lists_options: bool
    """Whether the rendered prompt shows the options."""
    chat: bool
    """Whether it renders to a conversation."""
    summary: str
    """One line for `medstress list prompts`."""
    plain: bool
    """Whether it only puts texts in places, so that rendering is joining pieces."""
    compiled: Any
    """The Jinja template."""

    def __hash__(self) -> int:
        return hash(self.source)

    @property
    def hash(self) -> str:
        """Content hash of the template's text."""
        return content_hash(self.source)

    def render(self, candidate: Candidate) -> Prompt:
        """Render a candidate, without trailing white space (METHODS 1.2)."""
        item, edits = candidate.item, candidate.edits
        if self.plain and len(edits) == 1:
            frame = _frame(self, item, edits[0].field)
            if frame is not None:
                text = apply_edits(item.option(edits[0].field), edits)
                return self._prompt(f"{frame.before}{text}{frame.after}".strip(), frame.system)
        context, stem = candidate.context, candidate.stem
        values = {"context": context, "stem": stem}
        values["question"] = f"{context} {stem}" if context else stem
        values.update(zip(candidate.item.letters, candidate.options, strict=True))
        if not self.plain:
            return self._rendered(values, candidate.item.letters)
        shape = _shape(self, candidate.item.letters, bool(context))
        body = "".join(values[piece] if i % 2 else piece for i, piece in enumerate(shape.pieces))
        return self._prompt(body.strip(), shape.system)

    def _rendered(self, values: Mapping[str, str], letters: str) -> Prompt:
        module = self.compiled.make_module(
            {
                "context": values["context"],
                "stem": values["stem"],
                "question": values["question"],
                "options": [(letter, values[letter]) for letter in letters],
            }
        )
        return self._prompt(str(module).strip(), str(getattr(module, "system", "")).strip())

    def _prompt(self, body: str, system: str) -> Prompt:
        return (Message("system", system), Message("user", body)) if self.chat else body


@dataclass(frozen=True, slots=True)
class _Shape:
    """A plain template, rendered once for all items of one form."""

    pieces: tuple[str, ...]
    """Literal text at even places, names of fields at odd ones."""
    system: str
    """The system turn of a conversation."""


@lru_cache(maxsize=256)
def _shape(template: Template, letters: str, has_context: bool) -> _Shape:
    """Render marks instead of texts, and cut the result at them."""
    names = ("context", "stem", "question", *letters)
    values = {name: f"{_MARK}{name}{_MARK}" for name in names}
    if not has_context:
        values["context"] = ""
    prompt = template._rendered(values, letters)
    body = prompt if isinstance(prompt, str) else prompt[1].content
    system = "" if isinstance(prompt, str) else prompt[0].content
    return _Shape(tuple(body.split(_MARK)), system)


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
    """The frame of an option; None for other fields and unless it is shown exactly once.

    Of the option that is edited alone: with those of the others an item's prompt would be kept
    once for each of its options.
    """
    shape = _shape(template, item.letters, bool(item.context))
    if letter not in item.letters or shape.pieces[1::2].count(letter) != 1:
        return None
    values = {"context": item.context, "stem": item.stem, "question": item.question}
    values.update(zip(item.letters, item.options, strict=True))
    texts = [values[piece] if i % 2 else piece for i, piece in enumerate(shape.pieces)]
    place = 2 * shape.pieces[1::2].index(letter) + 1
    return _Frame("".join(texts[:place]), "".join(texts[place + 1 :]), shape.system)


def _is_plain(compiler: Any, source: str) -> bool:
    """Whether a template only puts texts in places, so that marks can stand for the texts.

    Known by what it may hold, not by what it may not: texts and bare names put out, the loop
    over the options, `if context`, and constants set.
    """
    from jinja2 import nodes

    def fits(node: Any) -> bool:
        match node:
            case nodes.Output():
                return all(isinstance(part, nodes.TemplateData | nodes.Name) for part in node.nodes)
            case nodes.Assign():
                return isinstance(node.node, nodes.Const)
            case nodes.If(test=nodes.Name(name="context")):
                return not node.elif_ and all(map(fits, [*node.body, *node.else_]))
            case nodes.For(iter=nodes.Name(name="options")):
                plain = not (node.recursive or node.test or node.else_)
                return plain and all(map(fits, node.body))
        return False

    return all(map(fits, compiler.parse(source).body))


def shipped_prompts() -> list[str]:
    """Names of the templates that come with medstress."""
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
        )
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"prompt {name!r} cannot be read: {error}") from error
    return compile_template(path.name, source)


def compile_template(name: str, source: str) -> Template:
    """Compile a template's text and try it on a made-up question.

    Raises:
        UsageError: it does not compile or render; the message carries Jinja's reason.
    """
    import jinja2

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    options = tuple(f"option {letter}" for letter in LETTERS)
    probe = Candidate(item=Question(id="probe", stem="s?", options=options, key="A"))
    try:
        compiled = environment.from_string(source)
        module: Any = compiled.make_module(
            {
                "context": "",
                "stem": "s?",
                "question": "s?",
                "options": list(zip(LETTERS, options, strict=True)),
            }
        )
        template = Template(
            name=name,
            source=source,
            lists_options=bool(getattr(module, "lists_options", True)),
            chat=hasattr(module, "system"),
            plain=_is_plain(environment, source),
            summary=str(getattr(module, "summary", "a template of yours")),
            compiled=compiled,
        )
        template.render(probe)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"prompt {name!r} is not a usable Jinja template: {reason}") from error
    return template
