"""Which names a server may give the requested model: with a path, a suffix or a date added."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from threading import Lock
from typing import Any

from medstress.backends.server.errors import Server, ServerTrouble, Then
from medstress.core.errors import UsageError, did_you_mean

_MAX_NAMES = 1_000
"""How many listed names a suggestion is chosen from."""
_SHOWN = 8
"""How many listed names a message shows."""
_DATE = re.compile(
    r"[-@](?:"
    r"20\d\d(?:-?(?:0[1-9]|1[0-2])(?:-?(?:0[1-9]|[12]\d|3[01]))?)?"  # 2024, 2024-08, 2024-08-06
    r"|(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])"  # 0613
    r"|[23]\d(?:0[1-9]|1[0-2])"  # 2411: year and month
    r")(?![\w.])"
)
_SUFFIX = re.compile(
    r"(?:"
    r":latest|\.(?:gguf|bin|safetensors)|-\d{5}-of-\d{5}"
    r"|@[\w.]+"  # a revision
    r"|[-._:](?:gguf|ggml|awq|gptq|exl2|mlx|bnb|fp?(?:8|16|32)|bf16|nf4|(?:nv|mx)?fp4|int[48]"
    r"|[48]-?bit|w\d+a\d+|i?q\d(?:_[a-z0-9]+)*)"
    r")(?![a-z0-9])",
    re.I,
)
_NUMBER = re.compile(r"\d+")
_ALIAS = re.compile(r"[-:]latest$", re.I)


class MatchModel(StrEnum):
    """Which answering model is taken for the requested one."""

    EXACT = "exact"
    """Only the very name."""
    LOOSE = "loose"
    """The name, or the name with a path, a suffix or a date."""
    ANY = "any"
    """Whatever answers first, as behind a router or a deployment's name."""


def additions(name: str, requested: str) -> dict[str, str] | None:
    """Return what a name adds to the requested one; None if it is another model's.

    The parts are `path`, `suffix` (a tag, file type or quantisation) and `date`. A size, a variant
    such as `-mini`, or a version is none of them.

    >>> additions("gpt-4o-2024-08-06", "gpt-4o")
    {'date': '-2024-08-06'}
    >>> additions("hf.co/who/Llama-3.2-3B-GGUF:Q4_K_M", "llama-3.2-3b")
    {'path': 'hf.co/who/', 'suffix': '-GGUF:Q4_K_M'}
    >>> additions("gpt-4o", "gpt-4") is additions("llama-70b", "llama-7b") is None
    True
    """
    full, wanted = name.casefold(), requested.casefold()
    if full == wanted:
        return {}
    if len(full) != len(name):  # a letter that folds to two: the parts could not be cut out
        return None
    # An alias such as `-latest` may be answered by the dated name that it stands for.
    alias = _ALIAS.sub("", wanted)
    for start in _starts(full):
        for base in dict.fromkeys((wanted, alias)):
            if not base or not full.startswith(base, start):
                continue
            added = _added(name[start + len(base) :])
            if added is not None and (base == wanted or "date" in added):
                return ({"path": name[:start]} if start else {}) | added
    return None


def _starts(name: str) -> list[int]:
    """Return where a name without its path may begin."""
    return [0, *(match.end() for match in re.finditer(r"[/\\]", name))]


def _added(rest: str) -> dict[str, str] | None:
    """Split what follows a name into dates and suffixes; None if anything else is in it."""
    added: dict[str, str] = {}
    while rest:
        kind, match = "date", _DATE.match(rest)
        if match is None:
            kind, match = "suffix", _SUFFIX.match(rest)
        if match is None:
            return None
        added[kind] = added.get(kind, "") + match[0]
        rest = rest[match.end() :]
    return dict(sorted(added.items(), reverse=True))


def bare(name: str) -> str:
    """Return a name without its path, suffixes and dates.

    >>> bare("org/Qwen-7B-AWQ:latest")
    'qwen-7b'
    """
    last = name.casefold().rsplit("/", 1)[-1]
    return next((last[:i] for i in range(1, len(last)) if _added(last[i:])), last)


def suggested(requested: str, names: Sequence[str]) -> str:
    """Return a suggestion for a name that a server does not list; never a model of another size.

    >>> suggested("qwen-7b-AWQ", ["org/qwen-70b", "org/qwen-7b:latest"])
    "; did you mean 'org/qwen-7b:latest'?"
    >>> suggested("qwen-7b", ["qwen-70b"])
    ''
    """
    wanted = bare(requested)
    for name in names:
        if additions(name, requested) is not None or bare(name) == wanted:
            return f"; did you mean {name!r}?"
    numbers = _NUMBER.findall(wanted)
    return did_you_mean(
        requested, [name for name in names if _NUMBER.findall(bare(name)) == numbers]
    )


class AnsweringModel:
    """The name that a server's answers bear: the requested one, and always the same.

    Args:
        server: the server, with the requested name.
        match: what may be taken for that name.
        listed: all models that the server lists; empty if that is not known.

    Attributes:
        name: the name of the first answer, or of an earlier process; None before.
    """

    def __init__(
        self, server: Server, match: MatchModel = MatchModel.LOOSE, listed: Sequence[str] = ()
    ) -> None:
        self.name: str | None = None
        self._server = server
        self._match = match
        self._lock = Lock()
        self._listed = tuple(listed)

    def describe(self) -> dict[str, Any]:
        """Return the name and, if it is not the requested one, what it adds to it."""
        requested = self._server.model
        if self.name is None or self.name == requested:
            return {"answered_as": self.name}
        added = additions(self.name, requested)
        return {"answered_as": self.name, **({"name_adds": added} if added else {})}

    def check(self, name: Any) -> None:
        """Check the name in a reply.

        Raises:
            ServerTrouble: it is another model's than requested, or than answered before.
        """
        if not name or not isinstance(name, str):
            return  # the server does not name its model
        with self._lock:
            if self.name is None and self._is_requested(name):
                self.name = name
            known = self.name
        if known is None:
            ways = [f"set model = {name!r} if that is the one you mean"]
            if self._listed and name not in self._listed:
                ways = []  # the list would refuse it
            ways.append('match_model = "any" if the server calls the requested model so')
            raise ServerTrouble(
                f"{self._server.where} was asked for the model {self._server.model!r} and answered "
                f"as {name!r}: {', or '.join(ways)} ("
                "--set victim.match_model=any)",
                Then.STOP,
            )
        if name != known:
            raise ServerTrouble(
                f"{self._server.where} answered as {name!r}, and as {known!r} before: the answers "
                "of two models must not be mixed; name the exact version in model",
                Then.STOP,
            )

    def check_listed(self, described: Callable[[], str | None] = lambda: None) -> None:
        """Check the requested name against the server's whole list, before anything is charged.

        Args:
            described: asks the server for the name of the requested model, which it may know
                without listing it.

        Raises:
            UsageError: the list has no such model; suggests one that it has.
        """
        server, names = self._server, self._listed
        if not names or any(map(self._is_requested, names)):
            return
        if server.model.startswith("/"):
            return  # `transformers serve` loads any folder, and lists only what is in its cache
        known = described()
        if known is not None and self._is_requested(known):
            return
        hint = suggested(server.model, names[:_MAX_NAMES])
        more = ", ..." if len(names) > _SHOWN else ""
        raise UsageError(
            f"{server.where} lists no model {server.model!r}{hint} (it lists: "
            f"{', '.join(names[:_SHOWN])}{more}); set model to one of these, or match_model = "
            '"any" (--set victim.match_model=any) if it also answers to names '
            "that it does not list"
        )

    def _is_requested(self, name: str) -> bool:
        requested = self._server.model
        match self._match:
            case MatchModel.EXACT:
                return name == requested
            case MatchModel.LOOSE:
                return additions(name, requested) is not None
            case MatchModel.ANY:
                return True
