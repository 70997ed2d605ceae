"""Whether shards are the parts of one plan, and what their manifests say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from medstress.core.errors import StoreError
from medstress.core.hashing import canonical_bytes
from medstress.running.opening import Fingerprint, differences
from medstress.store.odd_rows import interpreting
from medstress.store.root import plan_of
from medstress.store.run_store import FILE
from medstress.store.shards import KEY, StoredShard

_MOST_NAMED = 8
_MOST_ITEMS = 2**31


def check_one_plan(shards: Sequence[StoredShard]) -> None:
    """Check that shards are parts of one plan, each given once."""
    for each in shards:
        with interpreting(each.folder / FILE):
            _check_values(each)
    first = shards[0]
    for each in shards[1:]:
        if each.shard.of != first.shard.of:
            raise StoreError(
                f"{each.folder} is shard {each.shard}, but {first.folder} is shard {first.shard}: "
                "they are cut into different numbers of shards; give the shards of one cut"
            )
        if found := differing(first.manifest, each.manifest):
            raise StoreError(
                f"{each.folder} and {first.folder} are shards of different experiments: "
                f"{'; '.join(found[:_MOST_NAMED])}; run all shards with one file and the same "
                "--set and --limit"
            )
    for one, other in pairwise(shards):
        if one.shard == other.shard:
            if one.folder.resolve() == other.folder.resolve():
                raise StoreError(f"{one.folder} is given twice; give each shard once")
            raise StoreError(
                f"{one.folder} and {other.folder} are both shard {one.shard}; give each shard once"
            )
    seen: dict[tuple[str, str], StoredShard] = {}
    for each in shards:
        for dataset, items in each.manifest[KEY]["positions"].items():
            for item in items:
                other = seen.setdefault((dataset, item), each)
                if other is not each:
                    raise StoreError(
                        f"item {item!r} of dataset {dataset!r} is in {other.folder} and in "
                        f"{each.folder}: the plan grew between them; run both again to extend them"
                    )


def _check_values(shard: StoredShard) -> None:
    """Compute with the values of a shard that others are compared with and added to.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: medstress did not write them.
    """
    manifest = shard.manifest
    list(differences(Fingerprint.read(manifest), Fingerprint.read(manifest)))
    canonical_bytes(plan_of(manifest))
    joined([manifest])
    n_planned, n_trials = int(manifest["n_planned"]), int(manifest[KEY]["n_trials"])
    if not 0 <= n_planned <= n_trials or not 1 <= shard.shard.number <= shard.shard.of:
        raise ValueError(f"shard {shard.shard} with {n_planned} of {n_trials} trials")
    for positions in manifest[KEY]["positions"].values():
        if not all(type(at) is int and 0 <= at < _MOST_ITEMS for at in positions.values()):
            raise ValueError("positions of items")
    for name in ("victims", "datasets", "groups", "attacks", "versions"):
        list(manifest[name].items())
    dict.fromkeys(manifest["seeds"])


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """List in what the plans of two shards differ, in words."""
    first, second = Fingerprint.read(one), Fingerprint.read(other)
    # The second may have more than the first.
    found = list(differences(first, second)) or list(differences(second, first))
    if found:
        return found
    here, there = plan_of(one), plan_of(other)
    names = [name for name in {**here, **there} if not _same(here.get(name), there.get(name))]
    if one[KEY]["n_trials"] != other[KEY]["n_trials"]:
        names.append("the number of trials")
    return [f"{name} differs" for name in names]


def _same(one: Any, other: Any) -> bool:
    return canonical_bytes(one) == canonical_bytes(other)


def joined(all_of_them: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries in which the work of several processes comes together."""
    performance: dict[str, float] = {}
    endpoints: dict[str, Any] = {}
    for manifest in all_of_them:
        for name, value in manifest["performance"].items():
            performance[name] = performance.get(name, 0) + value
        for endpoint in manifest["endpoints"]:
            endpoints.setdefault(endpoint["victim"], endpoint)
    return {
        "started": min(str(manifest["started"]) for manifest in all_of_them),
        "endpoints": list(endpoints.values()),
        "performance": performance,
    }
