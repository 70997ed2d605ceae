"""Count the mentions of the attacked data that have another name, by its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from medstress.attacks.noise import Synonym
from medstress.attacks.noise.attack import noise_of
from medstress.experiment.plan.noise_resources import mentions_in
from medstress.experiment.plan.plan import Prepared

UNCHANGED = "unchanged"


def surrogates_of(prepared: Prepared) -> Iterator[dict[str, Any]]:
    """Yield a row for each data set and synonym attack: its mentions by source of their name.

    Of a pair, the text that the attack perturbs counts; both count if it is drawn.
    """
    for group in prepared.groups:
        noise = noise_of(group.resources)
        if noise is None:
            continue
        for dataset in prepared.datasets:
            for part in prepared.attacks:
                if isinstance(part.attack, Synonym):
                    counts = mentions_in(dataset.questions, noise, part.attack)
                    yield {
                        "dataset": dataset.label,
                        "attack": part.label,
                        "surrogate": part.attack.surrogate,
                        **_by_source(counts, noise.sources[part.attack.table]),
                    }


def _by_source(counts: Mapping[str, int], sources: Mapping[str, str]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for mention, n in counts.items():
        found[sources.get(mention, UNCHANGED)] += n
    return {
        "n_mentions": found.total(),
        **{f"n_{source}": found[source] for source in ("listed", "nearest", UNCHANGED)},
    }
