"""Warnings about stored attacks: which of their numbers lean on answers of their first victim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.core.attacked import NAME, Selection


def attacked_lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each stored attack of a run that needs one.

    Args:
        manifest: the run's manifest.
    """
    hashes = {label: entry["model_hash"] for label, entry in manifest["victims"].items()}
    for label, spec in manifest["attacks"].items():
        if spec["name"] != NAME or "set" not in spec:
            continue
        source = spec["source"]
        own = [each for each, hash_ in hashes.items() if hash_ == source["model_hash"]]
        if own and not spec["is_blind"]:
            yield (
                f"{label} asks edits that answers of {own[0]} led to, so its rate against that "
                "victim says nothing new"
            )
        elif spec["selection"] == Selection.ALL and spec["budget"] > 1:
            yield (
                f"{label} asks the stored edits of an item up to the one that made "
                f"{source['victim']} err: ASR, its control and what is net of it can be read at 1 "
                "query alone; budget = 1 asks no more"
            )
