"""What an experiment changes in a run that a folder holds: each key with its old and new value."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medstress.core.hashing import content_hash

_BESIDE = (
    *("name", "label", "use", "parameters", "family", "group", "price_in", "price_out"),
    *("device", "device_map", "batch_size", "max_in_flight", "requests_per_minute"),
    *("tokens_per_minute", "api_key_env", "match_model"),
)
"""Keys that may change within one run, and the names of entries."""
_LONGEST = 60
_MOST_IDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Says how the parts of two experiments differ that have the same label; empty by default."""

    known: Mapping[str, Any] = field(default_factory=dict)
    """The folder's manifest."""
    new: Mapping[str, Any] = field(default_factory=dict)
    """The manifest that the experiment would write."""
    stored: Sequence[tuple[str, str, str]] = ()
    """Data set, id and hash of every item whose trials have begun."""
    items: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """Data set -> the ids of the experiment's items."""

    def of(self, kind: str, label: str) -> str:
        """Return what differs in a group, victim, attack or role, in brackets; empty if unknown."""
        found = list(self._keys(kind, label))
        return f" ({', '.join(found)})" if found else ""

    def _keys(self, kind: str, label: str) -> Iterator[str]:
        old, new = self._part(self.known, kind, label), self._part(self.new, kind, label)
        if not old or not new:
            return
        if kind == "attacks":
            yield from differing(old, new)
            return
        was, now = (_identity(_table(each, kind, label)) for each in (self.known, self.new))
        keys = list(differing(was, now))
        yield from keys
        if old.get("target_hash", new.get("target_hash")) != new.get("target_hash"):
            yield (
                f'the file of {new["model"]} was edited: a function with version = "1" from its '
                "first answer on may be edited and the run goes on"
            )
        elif kind == "groups" and not keys:
            yield from differing(_without_hashes(old), _without_hashes(new))
            if old.get("vocabulary_hash") != new.get("vocabulary_hash"):
                yield f"the names of the vocabulary {new.get('vocabulary')!r} are others"
            else:
                yield "its names, synonyms or vectors are others"
        elif not keys and old.get("model_hash") != new.get("model_hash"):
            yield f"the weights, settings or code of {new.get('model')} are others"
        elif not keys:
            yield "its prompt or the way to read answers is another"

    def of_items(self, dataset: str, lost: Iterable[str]) -> str:
        """Return which items of a data set are missing and which have another content.

        Args:
            dataset: the data set's label.
            lost: hashes of (id, content) that the experiment lacks.
        """
        told = self._told(dataset, lost)
        parts = [f"{what}: {_some(ids)}" for what, ids in sorted(told.items())]
        old, new = (_table(m, "datasets", dataset) for m in (self.known, self.new))
        parts += differing(_identity(old), _identity(new))
        return f" ({'; '.join(parts)})" if parts else ""

    def are_all_there(self, dataset: str, lost: Iterable[str]) -> bool:
        """Return whether the experiment has the items of these hashes, with another content."""
        return list(self._told(dataset, lost)) == ["changed"]

    def _told(self, dataset: str, lost: Iterable[str]) -> dict[str, list[str]]:
        gone, now = set(lost), set(self.items.get(dataset, ()))
        told = defaultdict(list)
        for owner, item, hash_ in self.stored:
            if owner == dataset and content_hash([item, hash_]) in gone:
                told["changed" if item in now else "missing"].append(item)
        return told

    def _part(self, manifest: Mapping[str, Any], kind: str, label: str) -> dict[str, Any]:
        found: dict[str, Any] = (manifest.get(kind) or {}).get(label, {})
        return found


def differing(old: Mapping[str, Any], new: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield each key that has another value, with both.

    >>> list(differing({"budget": 3, "sampler": "random"}, {"budget": 4, "sampler": "random"}))
    ['budget was 3, is 4']
    >>> list(differing({"like": {"n": 1}}, {"like": {"n": 2}, "seed": 7}))
    ['like.n was 1, is 2', 'seed was not set, is 7']
    """
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        if was == now:
            continue
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from differing(was, now, f"{place}{key}.")
        else:
            yield f"{place}{key} was {_shown(was)}, is {_shown(now)}"


def _table(manifest: Mapping[str, Any], kind: str, label: str) -> Mapping[str, Any]:
    """Return the table of the experiment file that a part was made from."""
    config = manifest.get("config") or {}
    if kind == "roles":
        name, _, number = label.partition(".")
        role = (config.get("role") or {}).get(name) or {}
        tables = role if isinstance(role, list) else [role]
        return tables[min(int(number or 1), len(tables)) - 1] if tables else {}
    named = {"groups": "entities", "victims": "victim", "datasets": "dataset"}[kind]
    # Entries stand in the order of their labels; parts without an entry come last.
    found: dict[str, Mapping[str, Any]] = dict(
        zip(manifest.get(kind) or {}, config.get(named) or (), strict=False)
    )
    return found.get(label, {})


def _identity(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in _BESIDE}


def _without_hashes(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if "hash" not in key}


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MOST_IDS:,} more" if len(ids) > _MOST_IDS else ""
    return f"{', '.join(map(repr, ids[:_MOST_IDS]))}{more}"


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
