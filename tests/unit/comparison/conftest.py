"""Two sides of a comparison, from rows by hand and manifests of a few entries."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from medstress.comparison.compare import Comparison, Settings, compare_sides
from medstress.comparison.contrasts import Contrast
from medstress.comparison.rows import Row
from medstress.comparison.sides import Side, match_arms
from medstress.core.rows import TrialRow
from medstress.metrics.old_stats.estimates import Estimate

MANIFEST: dict[str, Any] = {
    "config": {"experiment": {"name": "e"}},
    "fingerprint": "f",
    "started": "then",
    "finished": "now",
    "complete": True,
    "versions": {"medstress": "1", "python": "3", "torch": "2.1"},
    "parts": {"settings": {"flip_check": True}, "groups": {"drugs": "g"}},
    "groups": {"drugs": {"n_names": 40, "vocabulary": "drugs", "embedding": "ngram"}},
    "datasets": {"sample": {}},
    "attacks": {"random": {"name": "entity_substitution", "sampler": "random", "budget": 4}},
    "victims": {
        "mock": {
            "model": "m",
            "model_hash": "1",
            "task": {"answer_by": "letter", "template": "t", "decoding": [128, 0.0]},
            "prompt": {"name": "qstab"},
        }
    },
}


def manifest_with(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with some values changed: dotted path -> value."""
    found = copy.deepcopy(MANIFEST)
    for path, value in changes.items():
        *above, last = path.split(".")
        place = found
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
    return found


class NoNames:
    """Reads no names."""

    def like_these(self, row: Row, contrast: Contrast) -> tuple[Estimate | None, str | None]:
        """Nothing."""
        return None, "not read here"


Compare = Callable[..., Comparison]


@pytest.fixture
def compared() -> Compare:
    """Compare rows of A and of B: `compared(a, b, {changes of B's manifest}, margin=...)`."""

    def compare(
        first: Sequence[TrialRow],
        second: Sequence[TrialRow],
        changes: Mapping[str, Any] | None = None,
        changes_of_a: Mapping[str, Any] | None = None,
        names: Any = None,
        **settings: Any,
    ) -> Comparison:
        sides = [
            Side(name=name, source=name.lower(), manifest=manifest_with(given or {}), rows=rows)
            for name, rows, given in (("A", first, changes_of_a), ("B", second, changes))
        ]
        arms = match_arms(sides[0].arms(), sides[1].arms())
        return compare_sides(*sides, arms, Settings(**settings), names or NoNames())

    return compare


@pytest.fixture
def manifest() -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """The manifest of a small run with some values changed."""
    return manifest_with
