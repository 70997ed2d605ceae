"""What a new plug-in and its parts are called, all from one name."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec

from medstress.core import registry
from medstress.core.errors import UsageError, did_you_mean

KINDS = ("attack", "backend", "dataset")
"""What `medstress new` writes; the registry has each in the plural."""
_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_LONGEST = 40
_OF_TOOLS = {
    "setup": "is the file that pip runs to install a package",
    "conftest": "is a file of pytest's own settings",
}
"""Modules that the tools which install and test the package take for something else -> why."""
_EXAMPLES = {"attack": "look_alike", "backend": "word_counts", "dataset": "aiken"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of one plug-in."""

    kind: str
    """`attack`, `backend` or `dataset`."""
    name: str
    """What experiment files call it, such as `look_alike`; also its module."""

    @property
    def group(self) -> str:
        """The group of its entry point."""
        return f"medstress.{self.kind}s"

    @property
    def package(self) -> str:
        """What pip calls it."""
        return f"medstress-{self.name.replace('_', '-')}"

    @property
    def of_class(self) -> str:
        """Its class, if its kind has one.

        >>> Names(kind="attack", name="look_alike").of_class
        'LookAlike'
        """
        return "".join(part.capitalize() for part in self.name.split("_"))


def names_for(kind: str, given: str) -> Names:
    """Check what the user calls a new plug-in; hyphens become underscores.

    Raises:
        UsageError: no such kind, no name for a module, or a name that is taken.
    """
    if kind not in KINDS:
        raise UsageError(
            f"new: expected attack, backend or dataset, got {kind!r}{did_you_mean(kind, KINDS)} "
            f"(type: medstress new attack {_EXAMPLES['attack']})"
        )
    name = given.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f"new {kind}: expected a name of at most {_LONGEST} small letters, digits and single "
            f"underscores that begins with a letter, got {given!r} "
            f"(type: medstress new {kind} {_mended(given) or _EXAMPLES[kind]})"
        )
    if why := _taken(kind, name):
        raise UsageError(
            f"new {kind}: {name!r} {why}; choose another name "
            f"(type: medstress new {kind} my_{name[: _LONGEST - 3].rstrip('_')})"
        )
    return Names(kind=kind, name=name)


def _mended(given: str) -> str:
    """Return a name like the one given, or an empty text.

    >>> _mended("Look Alike 2"), _mended("LookAlike"), _mended("123")
    ('look_alike_2', 'look_alike', '')
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", given)
    name = "_".join(part.lower() for part in parts)[:_LONGEST].rstrip("_")
    return name if _NAME.fullmatch(name) else ""


def _taken(kind: str, name: str) -> str | None:
    """Say why a plug-in cannot have this name, or None."""
    if entry := registry.installed(f"{kind}s").get(name):
        return f"is already one of the {kind}s: {entry.summary}"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return "is a word of the language Python"
    if name in _OF_TOOLS:
        return _OF_TOOLS[name]
    if name.startswith("test_") or name.endswith("_test"):
        return "is what pytest calls a file of tests"
    if name in sys.stdlib_module_names:
        return "is a module of Python"
    spec = find_spec(name)
    # A folder of this name in the working directory has no origin.
    if spec is not None and spec.origin is not None:
        return f"is an installed module ({spec.origin}), which a plug-in of this name would hide"
    return None
