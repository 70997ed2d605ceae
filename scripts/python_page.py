"""The page docs/api.md: the public names of medstress, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from types import FunctionType, ModuleType, UnionType
from typing import Any

INTRODUCTION = """# Python names

`import medstress as ms` gives these names; [Python and notebooks](python.md) shows them at work.
Plug-ins import theirs from `medstress.plugin`. The rest of the package is not public: it may change
with any version.
"""
TABLES = (
    "Tables of the experiment file as typed objects; their keys stand in the [schema](schema.md).\n"
)
SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Attributes):$")
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \w+)*): (.*)$", re.DOTALL)
METHODS = (FunctionType, property, classmethod)
NAMED = ("Args", "Raises", "Attributes")
"""Sections that are lists of names."""


def python_page(head: str) -> str:
    """Return the page."""
    import medstress
    from medstress import attacks, plugin, testing

    names = {name: getattr(medstress, name) for name in medstress.__all__}
    tables = {n: o for n, o in names.items() if o.__class__.__name__ == "ModelMetaclass"}
    errors = {n: o for n, o in names.items() if inspect.isclass(o) and issubclass(o, Exception)}
    experiment = tables.pop("Experiment")
    parts = [f"{head}{INTRODUCTION}", "## Run and read\n"]
    parts += [_function(n, o) for n, o in names.items() if inspect.isfunction(o)]
    parts += _class("Run", names["Run"])
    parts += _class("Experiment", experiment)
    parts += ["## Tables of an experiment\n", TABLES, _list_of(tables)]
    parts += ["## Questions\n"]
    for name in ("Question", "Mention", "Candidate"):
        parts += _class(name, names[name])
    parts += ["## Errors\n", _list_of(errors)]
    for module in (attacks, testing, plugin):
        parts += _module(module)
    return "\n".join(parts)


def _module(module: ModuleType) -> Iterator[str]:
    names = {name: getattr(module, name) for name in module.__all__}
    yield f"## {module.__name__}\n"
    yield _text(inspect.getdoc(module) or "")
    yield _list_of(names)


def _function(name: str, function: Any) -> str:
    return "\n".join([f"### {name}\n", _signature(name, function), _text(_doc(function))])


def _class(name: str, kind: type[Any]) -> Iterator[str]:
    yield f"### {name}\n"
    yield _text(_doc(kind))
    methods = {n: o for n, o in vars(kind).items() if not n.startswith("_")}
    rows = [
        (_call(n, getattr(o, "__func__", o)), _first(o))
        for n, o in methods.items()
        if isinstance(o, METHODS)
    ]
    if rows:
        yield _table("method or property", rows)


def _list_of(names: dict[str, Any]) -> str:
    return _table("name", [(name, _first(value)) for name, value in sorted(names.items())])


def _table(head: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {head} | what it is |", "| --- | --- |"]
    lines += [f"| `{name.replace('|', chr(92) + '|')}` | {meaning} |" for name, meaning in rows]
    return "\n".join(lines) + "\n"


def _call(name: str, function: Any) -> str:
    """Return how a method is called, without types."""
    if isinstance(function, property):
        return name
    given = [
        each for each in inspect.signature(function).parameters.values() if each.name != "self"
    ]
    words = []
    for each in given:
        if each.name == "cls":
            continue
        if each.kind is each.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default = "" if each.default is each.empty else f"={_default(each.default)}"
        words.append(f"{each}".split(":")[0].split("=")[0].strip() + default)
    return f"{name}({', '.join(words)})"


def _default(value: Any) -> str:
    return str(value) if isinstance(value, Enum) else repr(value)


def _signature(name: str, function: Any) -> str:
    """Return a signature with one argument a line."""
    signature = inspect.signature(function)
    text = str(signature).replace("'", "") if len(signature.parameters) < 2 else ""
    if not text:
        lines, keyword_only = [], False
        for each in signature.parameters.values():
            if each.kind is each.KEYWORD_ONLY and not keyword_only:
                lines.append("    *,")
                keyword_only = True
            default = "" if each.default is each.empty else f" = {_default(each.default)}"
            lines.append(f"    {each.name}: {each.annotation}{default},")
        text = "\n".join(["(", *lines, f") -> {signature.return_annotation}"])
    return f"```text\n{name}{text}\n```\n"


def _doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def _first(thing: Any) -> str:
    """Return the first paragraph of a docstring in one line of a table; of a value, what it is."""
    if isinstance(thing, UnionType):
        return "One of " + ", ".join(f"`{each.__name__}`" for each in thing.__args__) + "."
    if isinstance(thing, str):
        return f"The word `{thing!r}`."
    if not (inspect.isclass(thing) or callable(thing) or isinstance(thing, METHODS)):
        return "A table of constants."
    if not (inspect.isclass(thing) or isinstance(thing, METHODS)):
        return "A type."
    found = _doc(getattr(thing, "__func__", thing)).partition("\n\n")[0]
    return _code(" ".join(found.split())).replace("|", "\\|")


def _code(text: str) -> str:
    """Return text with code in single backticks, and pages that it names as links."""
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    return re.sub(r"\(docs: (\w+)\)", r"([\1](\1.md))", text)


def _text(doc: str) -> str:
    """Return a docstring as Markdown: its sections as lists, its examples as blocks."""
    paragraphs = []
    for block in re.split(r"\n\n+", doc):
        head, _, rest = block.partition("\n")
        found = SECTION.match(head)
        if found is None:
            is_example = block.lstrip().startswith(">>>")
            paragraphs.append(f"```python\n{block}\n```" if is_example else _code(block))
        elif found[1] in NAMED:
            paragraphs.append(f"**{found[1]}**\n\n" + "\n".join(_entries(textwrap.dedent(rest))))
        else:
            paragraphs.append(f"**{found[1]}**: {_code(' '.join(rest.split()))}")
    return "\n\n".join(paragraphs) + "\n"


def _entries(text: str) -> Iterator[str]:
    for entry in re.split(r"\n(?=\S)", text):
        name, meaning = ENTRY.match(" ".join(entry.split())).groups()  # type: ignore[union-attr]
        yield f"* `{name}`: {_code(meaning)}"
