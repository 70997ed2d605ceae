"""Sentences on where the names inserted by synonym attacks come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def name_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return sentences on the names that synonyms insert, and how many a trained model may know."""
    coverage = coverage_lines(summary.get("surrogates", ()))
    return [*coverage, *met_lines(summary.get("training", {}))]


def coverage_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each row.

    >>> row = {"dataset": "bc5cdr", "attack": "synonym", "surrogate": "listed names (default)"}
    >>> coverage_lines([row | {"n_mentions": 4, "n_listed": 3, "n_nearest": 0, "n_unchanged": 1}])
    ['bc5cdr, synonym (listed names (default)): of 4 mentions 3 listed, 0 nearest, 1 unchanged']
    """
    return [
        f"{row['dataset']}, {row['attack']} ({row['surrogate']}): of {row['n_mentions']:,} "
        f"mentions {row['n_listed']:,} listed, {row['n_nearest']:,} nearest, "
        f"{row['n_unchanged']:,} unchanged"
        for row in rows
    ]


def met_lines(training: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences for each kind of model that was trained on synonyms.

    >>> kind = {"name": "x", "names_met": {"synonym": 0.86}, "n_left_out": 3, "n_offered": 1200}
    >>> for line in met_lines({"adversarial": [kind]}):
    ...     print(line)
    x: .86 of the mentions that synonym replaces get a name that it is trained on
    x: 3 of 1,200 items are left out, as they have such a name; so it makes fewer steps
    """
    for kind in training.get("adversarial", ()):
        for attack, share in kind.get("names_met", {}).items():
            if share is not None:
                text = f"{share:.2f}".replace("0.", ".", 1)
                yield (
                    f"{kind['name']}: {text} of the mentions that {attack} replaces get a name "
                    "that it is trained on"
                )
        if "n_left_out" in kind:
            steps = "; so it makes fewer steps" if kind["n_left_out"] else ""
            yield (
                f"{kind['name']}: {kind['n_left_out']:,} of {kind['n_offered']:,} items are left "
                f"out, as they have such a name{steps}"
            )
