"""Checkers: they say whether two names mean the same, or that they cannot tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from medstress.core.calls import Backend, Decoding, Generate, Generated
from medstress.core.errors import BackendError, UsageError
from medstress.entities.relations import Relations, settled
from medstress.entities.synonyms import load_synonyms

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
_BLOCK = 64
"""Pairs given to a back end at once at most."""


class Checker(Protocol):
    """Anything that compares names."""

    name: str
    """For tables."""

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return for each pair whether both names mean the same; None: it cannot tell."""


class Rules:
    """The tables: names of drugs and diseases, and the user's synonyms."""

    def __init__(self, synonyms: Sequence[str] = (), base: Path | None = None) -> None:
        """Load further synonyms: MRCONSO.RRF, an OBO file, a table, or `default`."""
        folder = base or Path()
        self.name = " + ".join(["rules", *synonyms])
        self._relations = Relations([load_synonyms(each, folder) for each in synonyms])

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return what all evidence says of each pair."""
        return [settled(self._relations.between(a, b)) for a, b in pairs]


class Near:
    """A threshold on the cosine distance of embedded names; it places every pair it embeds."""

    def __init__(self, embedding: str, threshold: float, base: Path | None = None) -> None:
        """Choose the embedding, and the largest distance that counts as the same."""
        self.name = f"{embedding} <= {threshold:g}"
        self._embedding, self._threshold, self._base = embedding, threshold, base

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

    def __init__(self, name: str, backend: Backend) -> None:
        """Keep the model's back end, which the caller closes."""
        self.name = f"judge {name}"
        self._backend = backend

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        """Return the judge's answers; None where the reply has neither yes nor no.

        Raises:
            BackendError: the model cannot answer.
        """
        size = max(1, min(self._backend.traits.batch_size, _BLOCK))
        found: list[bool | None] = []
        decoding = Decoding(max_new_tokens=8)
        for start in range(0, len(pairs), size):
            calls = [
                Generate(QUESTION.format(a=a, b=b), decoding)
                for a, b in pairs[start : start + size]
            ]
            for reply in self._backend.answer(calls):
                if not isinstance(reply, Generated):
                    raise BackendError(f"{self.name}: {getattr(reply, 'error', reply)}")
                said = _FIRST_WORD.search(reply.text)
                found.append(None if said is None else said[1].lower() == "yes")
        return found


class Function:
    """The user's function of two names: true, false, or None where it cannot tell."""

    def __init__(self, target: str, base: Path) -> None:
        """Import it.

        Raises:
            UsageError: there is no such function.
        """
        from medstress.files.functions import load_function

        self.name = target
        self._function: Callable[[str, str], Any]
        self._function, self._loaded = load_function(target, base, "checker")

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
        self._parts = parts

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
