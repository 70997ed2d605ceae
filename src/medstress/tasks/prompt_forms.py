"""Forms of prompts: templates that only place texts, as data that cannot execute.

A run folder stores the form of its victims' prompts, so that reading it renders no template.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

FIELDS = ("context", "stem", "question", "passage")
"""Texts of an item that a form may place anywhere."""
OPTIONAL = ("context", "passage")
"""Fields that may be empty, which a form may ask."""
OF_AN_OPTION = ("letter", "option")
"""Texts that a form may place for each option."""
_MOST_PLACES = 101
"""Most texts and fields of a form laid out for one option."""
LARGEST = 1 << 16
"""Most characters of a template or form; real prompts have less than a tenth of it."""
_DEEPEST = 4
_PRESENT = tuple(frozenset(each) for n in range(3) for each in combinations(OPTIONAL, n))
_IFS = tuple({f"if_{name}"} for name in OPTIONAL)


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a text of the item."""

    name: str
    """One of `FIELDS`, or, within `EachOption`, of `OF_AN_OPTION`."""


@dataclass(frozen=True, slots=True)
class If:
    """Parts that depend on whether the item has a context, or a passage."""

    name: str
    """One of `OPTIONAL`."""
    then: tuple[Part, ...]
    otherwise: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class EachOption:
    """Parts that are repeated for every option."""

    parts: tuple[Part, ...]


Part: TypeAlias = str | Slot | If | EachOption


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of a prompt, and the constants that its template sets."""

    parts: tuple[Part, ...]
    """In order; a string is literal text."""
    says: tuple[tuple[str, Any], ...] = ()
    """Constants that the template sets: `system`, `lists_options`, `summary`."""

    def laid_out(self, letters: str, present: frozenset[str]) -> tuple[str, ...]:
        """Lay out the form for items of one shape.

        Args:
            letters: those of the options.
            present: which of `OPTIONAL` are not empty.

        Returns:
            Literal texts at even places, names of fields at odd ones; an option's field is its
            letter.
        """
        pieces = [""]
        for piece in _flat(self.parts, letters, "", present):
            if isinstance(piece, Slot):
                pieces += [piece.name, ""]
            else:
                pieces[-1] += piece
        return tuple(pieces)

    def places(self, name: str) -> bool:
        """Return whether the form places a field of the item."""
        return name in self.laid_out("A", frozenset(OPTIONAL))[1::2]

    def as_json(self) -> dict[str, Any]:
        """Return the form as JSON values."""
        return {"parts": _json(self.parts), "says": dict(self.says)}


def form_of(source: str) -> Form | None:
    """Return the form of a Jinja template; None if it does more than place texts.

    The template is parsed, never executed. Allowed are texts, outputs of fields, the loop over
    the options, `if context`, `if passage`, and constants set at the top; all else gives None.

    >>> form_of("{% if context %}{{ context }}. {% endif %}{{ stem }}").laid_out(
    ...     "AB", frozenset()
    ... )
    ('', 'stem', '')
    >>> form_of("{{ stem | upper }}") is None
    True
    """
    import jinja2
    from jinja2 import nodes

    if len(source) > LARGEST:
        return None
    try:
        says: dict[str, Any] = {}
        parts: list[Part] = []
        for node in jinja2.Environment(keep_trailing_newline=True).parse(source).body:
            if isinstance(node, nodes.Assign):
                says |= _constant(node, taken=says)
            else:
                parts += _parts([node], says, {})
    except (_DoesMoreError, jinja2.TemplateError, RecursionError, ValueError):
        return None
    form = Form(parts=tuple(parts), says=tuple(says.items()))
    return form_from_json(form.as_json())  # None if it could not be read back


def form_from_json(data: Any) -> Form | None:
    """Return the inverse of `Form.as_json` for untrusted values; None if they are no form."""
    try:
        says = data["says"]
        if not all(type(value) in (str, bool, int, float) for value in says.values()):
            return None
        form = Form(parts=_read(data["parts"], _DEEPEST, False), says=tuple(says.items()))
    except (_DoesMoreError, KeyError, TypeError, AttributeError):
        return None
    return form if _is_small(form) else None


def _is_small(form: Form) -> bool:
    """True if prompts are not much longer than the texts that they place."""
    laid = [form.laid_out("A", present) for present in _PRESENT]
    return sum(len(text) for each in laid for text in each) <= 2 * LARGEST and all(
        len(each) <= _MOST_PLACES for each in laid
    )


class _DoesMoreError(Exception):
    """A template does more than place texts."""


def _flat(
    parts: Sequence[Part], letters: str, letter: str, present: frozenset[str]
) -> Iterator[str | Slot]:
    """Yield parts with choices and loops resolved; `letter` is that of the current option."""
    for part in parts:
        match part:
            case If(name, then, otherwise):
                yield from _flat(then if name in present else otherwise, letters, letter, present)
            case EachOption(inner):
                for each in letters:
                    yield from _flat(inner, letters, each, present)
            case Slot("letter"):
                yield letter
            case Slot("option"):
                yield Slot(letter)
            case Slot(name) if name in OPTIONAL and name not in present:
                pass
            case _:
                yield part


def _json(parts: Sequence[Part]) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        match part:
            case Slot(name):
                found.append({"place": name})
            case If(name, then, otherwise):
                found.append({f"if_{name}": _json(then), "else": _json(otherwise)})
            case EachOption(inner):
                found.append({"each_option": _json(inner)})
            case text:
                found.append(text)
    return found


def _read(value: Any, depth: int, in_option: bool) -> tuple[Part, ...]:
    if depth == 0 or not isinstance(value, list):
        raise _DoesMoreError
    return tuple(_read_part(part, depth - 1, in_option) for part in value)


def _read_part(part: Any, depth: int, in_option: bool) -> Part:
    if isinstance(part, str):
        return part
    match part:
        case {"place": str(name), **rest} if not rest and name in _known(in_option):
            return Slot(name)
        case {"else": otherwise, **rest} if rest.keys() in _IFS:
            key, then = next((str(key), then) for key, then in rest.items())
            branches = _read(then, depth, in_option), _read(otherwise, depth, in_option)
            return If(key.removeprefix("if_"), *branches)
        case {"each_option": inner, **rest} if not rest and not in_option:
            return EachOption(_read(inner, depth, True))
    raise _DoesMoreError


def _known(in_option: bool) -> tuple[str, ...]:
    return (*FIELDS, *OF_AN_OPTION) if in_option else FIELDS


def _constant(node: Any, taken: dict[str, Any]) -> dict[str, Any]:
    from jinja2 import nodes

    match node:
        case nodes.Assign(target=nodes.Name(name=name), node=nodes.Const(value=value)) if (
            name not in (*FIELDS, "options", *taken) and type(value) in (str, bool, int, float)
        ):
            return {name: value}
    raise _DoesMoreError


def _parts(body: Sequence[Any], says: dict[str, Any], option: dict[str, str]) -> tuple[Part, ...]:
    """Return the parts of template nodes.

    Args:
        body: the nodes.
        says: the constants of the template, which may be output.
        option: in the loop, its variable names -> `letter` or `option`; else empty.
    """
    from jinja2 import nodes

    found: list[Part] = []
    for node in body:
        match node:
            case nodes.Output():
                found += [_output(part, says, option) for part in node.nodes]
            case nodes.If(test=nodes.Name(name=name), elif_=[]) if (
                name in OPTIONAL and name not in option
            ):
                then, otherwise = (_parts(each, says, option) for each in (node.body, node.else_))
                found.append(If(name, then, otherwise))
            case nodes.For(
                target=nodes.Tuple(items=[nodes.Name(name=letter), nodes.Name(name=text)]),
                iter=nodes.Name(name="options"),
                test=None,
                recursive=False,
                else_=[],
            ) if not option and letter != text:
                own = {letter: "letter", text: "option"}
                found.append(EachOption(_parts(node.body, says, own)))
            case _:
                raise _DoesMoreError
    return tuple(found)


def _output(node: Any, says: dict[str, Any], option: dict[str, str]) -> Part:
    from jinja2 import nodes

    match node:
        case nodes.TemplateData(data=text):
            return str(text)
        case nodes.Name(name=name) if name in option:
            return Slot(option[name])
        case nodes.Name(name=name) if name in says:
            return str(says[name])
        case nodes.Name(name=name) if name in FIELDS:
            return Slot(name)
    raise _DoesMoreError
