"""Checkers: they say whether two names mean the same, or that they cannot tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from medstress.core.calls import Backend, Decoding, Generate, Generated
from medstress.core.errors import BackendError, UsageError
from medstress.core.hashing import content_hash
from medstress.entities.relations import Relations, settled
from medstress.entities.synonyms import load_synonyms
from medstress.version import __version__

NamePair = tuple[str, str]

NAMES = ("rules", "embedding", "judge", "combined")

QUESTION = (
    "Two names from medical exam options.\n"
    "First: {a}\nSecond: {b}\n"
    "Do both name the same drug or the same disease, as a brand and its generic or as two synonyms "
    "do? Answer with one word, yes or no.\nAnswer:"
)
"""What a judge is asked."""
_FIRST_WORD = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_DECODING = Decoding(max_new_tokens=8)
_BLOCK = 64
"""Pairs given to a back end at once at most."""


class Checker(Protocol):
    """Anything that compares names."""

    name: str
    """For tables."""
    has_tables: bool
    """Whether it is, or includes, the tables and wording that attacks exclude names by."""
    chunk: int
    """How many pairs to give it before what it said is stored; 0: all at once."""

    @property
    def hash(self) -> str:
        """What identifies it: equal hashes mean the same answers."""

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return for each pair whether both names mean the same; None: it cannot tell."""


class UnansweredError(BackendError):
    """A judge did not answer every pair; what it said of the others is kept."""

    def __init__(self, message: str, found: Mapping[NamePair, bool | None]) -> None:
        super().__init__(message)
        self.found = found


class Rules:
    """The tables: names of drugs and diseases, and the user's synonyms."""

    has_tables, chunk = True, 0

    def __init__(self, synonyms: Sequence[str] = (), base: Path | None = None) -> None:
        """Load further synonyms: MRCONSO.RRF, an OBO file, a table, or `default`."""
        folder = base or Path()
        self.name = " + ".join(["rules", *synonyms])
        self._synonyms = [load_synonyms(each, folder) for each in synonyms]
        self._relations = Relations(self._synonyms)

    @property
    def hash(self) -> str:
        """Of the version that ships the tables, and the user's synonyms."""
        return content_hash(["rules", __version__, *(each.hash for each in self._synonyms)])

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return what all evidence says of each pair."""
        return [settled(self._relations.between(a, b)) for a, b in pairs]


class Near:
    """A threshold on the cosine distance of embedded names; it places every pair it embeds."""

    has_tables, chunk = False, 0

    def __init__(self, embedding: str, threshold: float, base: Path | None = None) -> None:
        """Choose the embedding, and the largest distance that counts as the same."""
        self.name = f"{embedding} <= {threshold:g}"
        self._embedding, self._threshold, self._base = embedding, threshold, base

    @property
    def hash(self) -> str:
        """Of the embedding and the threshold."""
        from medstress.entities.embeddings import Embedder

        identity = Embedder(self._embedding, corpus=("name",), base=self._base).identity
        return content_hash(["embedding", identity, self._threshold])

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return whether names are near; None where one has no vector."""
        from medstress.entities.embeddings import Embedder

        names = list(dict.fromkeys(name for pair in pairs for name in pair))
        embedder = Embedder(self._embedding, corpus=names, base=self._base)
        vectors = np.asarray(embedder.vectors(names, keep=False), np.float64)
        row = {name: i for i, name in enumerate(names)}
        found: list[bool | None] = []
        for a, b in pairs:
            one, other = vectors[row[a]], vectors[row[b]]
            known = one.any() and other.any()
            found.append(bool(1 - one @ other <= self._threshold) if known else None)
        return found


class Judge:
    """A model that is asked about each pair."""

    has_tables = False

    def __init__(self, name: str, backend: Backend) -> None:
        """Keep the model's back end, which the caller closes."""
        self.name = f"judge {name}"
        self.chunk = max(1, min(backend.traits.batch_size, _BLOCK))
        self._backend = backend

    @property
    def hash(self) -> str:
        """Of the model and the question."""
        return content_hash(["judge", self._backend.identity.hash, QUESTION])

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return the judge's answers; None where the reply has neither yes nor no.

        Raises:
            UnansweredError: the model did not answer some pair; the rest of its batch is kept.
        """
        found: list[bool | None] = []
        for start in range(0, len(pairs), self.chunk):
            batch = pairs[start : start + self.chunk]
            calls = [Generate(QUESTION.format(a=a, b=b), _DECODING) for a, b in batch]
            replies = list(zip(batch, self._backend.answer(calls), strict=True))
            words = {pair: _said(reply) for pair, reply in replies if isinstance(reply, Generated)}
            for _, reply in replies:
                if not isinstance(reply, Generated):
                    words |= dict(zip(pairs, found, strict=False))
                    raise UnansweredError(f"{self.name}: {getattr(reply, 'error', reply)}", words)
                found.append(_said(reply))
        return found


def _said(reply: Generated) -> bool | None:
    word = _FIRST_WORD.search(reply.text)
    return None if word is None else word[1].lower() == "yes"


class Function:
    """The user's function of two names: true, false, or None where it cannot tell."""

    has_tables, chunk = False, 0

    def __init__(self, target: str, base: Path) -> None:
        """Import it.

        Raises:
            UsageError: there is no such function.
        """
        from medstress.files.functions import load_function

        self.name = target
        self._function: Callable[[str, str], Any]
        self._function, self._loaded = load_function(target, base, "checker")

    @property
    def hash(self) -> str:
        """Of its source files."""
        from medstress.files.functions import source_hashes

        label = f"{self._loaded.label}:{self.name.rpartition(':')[2]}"
        return content_hash(["function", label, *source_hashes(self._function, self._loaded)])

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return what the function says of each pair.

        Raises:
            UsageError: it raised, or returned anything but true, false and None.
        """
        return [self._said(a, b) for a, b in pairs]

    def _said(self, a: str, b: str) -> bool | None:
        try:
            said = self._function(a, b)
        except Exception as error:
            raise UsageError(
                f"checker {self.name!r} raised {type(error).__name__} on {a!r} and {b!r}: {error}"
            ) from error
        if said is None or isinstance(said, (bool, np.bool_)):
            return None if said is None else bool(said)
        raise UsageError(
            f"checker {self.name!r}: expected True, False or None for {a!r} and {b!r}, got {said!r}"
        )


class Combined:
    """Several checkers: each places what those before it could not."""

    def __init__(self, parts: Sequence[Checker]) -> None:
        """Keep the checkers, the most trusted first."""
        self.name = ", then ".join(part.name for part in parts)
        self.has_tables = any(part.has_tables for part in parts)
        self.chunk = max(part.chunk for part in parts)
        self._parts = parts

    @property
    def hash(self) -> str:
        """Of all parts in order."""
        return content_hash(["combined", *(part.hash for part in self._parts)])

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return the first answer to each pair."""
        found: list[bool | None] = [None] * len(pairs)
        for part in self._parts:
            open_ = [i for i, said in enumerate(found) if said is None]
            for i, said in zip(open_, part.check([pairs[i] for i in open_]), strict=True):
                found[i] = said
        return found


def ask_judge(model: str, place: dict[str, Any], base: Path) -> tuple[Judge, closing[Backend]]:
    """Open a judge by its back end's keys; the second value closes it.

    Raises:
        UsageError: the model cannot be opened, or writes no text.
    """
    from medstress.backends.options import BackendOptions
    from medstress.core import registry

    options = {key: value for key, value in place.items() if key != "backend"}
    backend = registry.open_backend(str(place["backend"]), BackendOptions(base=base, **options))
    if "generate" not in backend.traits.calls:
        backend.close()
        raise UsageError(
            f"--model {model}: a judge must write text, and this model does not; give a model that "
            "generates"
        )
    return Judge(model, backend), closing(backend)
