"""Where the names that synonyms put in come from, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def name_lines(summary: Mapping[str, Any]) -> list[str]:
    """What names synonyms put in, and how many of them a trained model may know."""
    named = coverage_lines(summary.get("surrogates", ()))
    return [*named, *met_lines(summary.get("training", {}))]


def coverage_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each row.

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
    """A sentence for each kind of model that was trained on synonyms.

    >>> kind = {"name": "synonym", "names_met": {"synonym": 0.86}}
    >>> list(met_lines({"adversarial": [kind]}))
    ['synonym: .86 of the mentions that synonym replaces get a name that its training copy has too']
    """
    for kind in training.get("adversarial", ()):
        for attack, share in kind.get("names_met", {}).items():
            if share is not None:
                told = f"{share:.2f}".replace("0.", ".", 1)
                yield (
                    f"{kind['name']}: {told} of the mentions that {attack} replaces get a name "
                    "that its training copy has too"
                )
