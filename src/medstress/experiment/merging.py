"""Join shards to one run folder: check that they are the parts of one plan, then write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from filelock import FileLock, SoftFileLock, Timeout

from medstress.core.errors import StoreError, UsageError, setting
from medstress.core.hashing import canonical_bytes
from medstress.core.writing import atomic_path, unfinished_parts
from medstress.experiment.manifest import Fingerprint, differences
from medstress.experiment.run import locked
from medstress.store.chain import plan_of
from medstress.store.database import FILE, LOCK, translated
from medstress.store.opening import interpreting
from medstress.store.shards import (
    KEY,
    SHARDS,
    STOPPED_BY,
    Counts,
    Shard,
    StoredShard,
    read_shard,
    write_merged,
)

_MOST_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A merged run."""

    folder: Path
    """Of the merged run."""
    n_shards: int
    """How many shards it joins."""
    n_planned: int
    """Trials of the whole plan."""
    counts: Counts
    """What the merged run holds."""
    notes: tuple[str, ...]
    """What the user should know: shards that a limit ended, versions that differ."""
    n_ended: int
    """Trials that ended."""
    n_failed: int
    """Of these, trials that failed."""


def merge_shards(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    note: Callable[[str], None] = lambda _: None,
) -> Merged:
    """Join the shards of one plan to a new run folder; no model is asked.

    Args:
        folders: of the shards, in any order.
        out: the new folder.
        note: receives what is being done.

    Raises:
        UsageError, StoreError: a folder is no shard, was changed, is given twice, is of another
            plan or still runs; a shard is missing, or was ended neither by its last trial nor by a
            limit; `out` holds something. Nothing is written.
    """
    if not folders:
        raise UsageError("merge: expected the folders of shards, got none")
    to = Path(out)
    _check_free(out, to)
    for folder in map(Path, folders):
        if to.resolve().is_relative_to(folder.resolve()):
            raise UsageError(
                f"merge {setting('out', str(to))}: it lies in {folder}, which is to be merged; "
                "choose a folder outside of all shards"
            )
    shards: list[StoredShard] = []
    for number, folder in enumerate(map(Path, folders), 1):
        note(f"reading shard {number} of {len(folders)}")
        _check_at_rest(folder)
        shard = read_shard(folder, whole=True)
        with interpreting(folder / FILE):
            shards.append(_of_plan(shard, shards[0] if shards else shard))
    shards.sort(key=lambda shard: shard.shard)
    _check_set(shards)
    note(f"writing {to}")
    counts = _write(to, shards)
    return Merged(
        folder=to,
        n_shards=len(shards),
        n_planned=sum(shard.n_planned for shard in shards),
        counts=counts,
        notes=tuple(_notes(shards)),
        n_ended=sum(shard.n_ended for shard in shards),
        n_failed=sum(shard.n_failed for shard in shards),
    )


def _check_free(name: str | Path, to: Path) -> None:
    if not str(name).strip():
        raise UsageError(f"merge {setting('out')}: expected a folder, got an empty text")
    # What a killed merge leaves behind does not count.
    left = {to / LOCK, *unfinished_parts(to)} if to.is_dir() else set[Path]()
    if to.exists() and (not to.is_dir() or set(to.iterdir()) - left):
        raise UsageError(
            f"merge {setting('out', str(to))}: it exists already and is not changed; choose a "
            "new folder"
        )


def _check_at_rest(folder: Path) -> None:
    """Check that no one runs a shard; who begins while it is read is seen at the end of reading.

    Raises:
        StoreError: it is run now.
    """
    path = folder / LOCK
    if not path.is_file() or path.is_symlink():
        return
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not isinstance(lock, SoftFileLock):  # on a disk without locks no one can work
            raise StoreError(
                f"another medstress process is working in {folder}; wait for it, or stop it"
            ) from None
    except (NotImplementedError, OSError):
        pass  # nor where nothing can be written
    lock.release()


def _of_plan(shard: StoredShard, first: StoredShard) -> StoredShard:
    """Check that two shards are parts of one plan.

    Returns:
        The shard, which holds what its plan has in common with the first in memory once: a thousand
        shards each have the hashes of all items.

    Raises:
        StoreError: they are not.
        ValueError, LookupError, TypeError, AttributeError: medstress did not write its values.
    """
    _check_values(shard)
    if shard.shard.of != first.shard.of:
        raise StoreError(
            f"{shard.folder} is shard {shard.shard}, but {first.folder} is shard {first.shard}: "
            "they are cut into different numbers of shards; give the shards of one cut"
        )
    here, there = Fingerprint.read(first.manifest), Fingerprint.read(shard.manifest)
    # Either may have more than the other.
    different = list(differences(here, there)) or list(differences(there, here))
    plans = [
        {**plan_of(one.manifest), "the number of trials": one.manifest[KEY]["n_trials"]}
        for one in (first, shard)
    ]
    different = different or [
        f"{name} differs"
        for name in {**plans[0], **plans[1]}
        if canonical_bytes(plans[0].get(name)) != canonical_bytes(plans[1].get(name))
    ]
    if different:
        raise StoreError(
            f"{shard.folder} and {first.folder} are shards of different experiments: "
            f"{'; '.join(different[:_MOST_NAMED])}; run all shards with one file and the same "
            f"{setting('set')} and {setting('limit')}"
        )
    before = first.manifest
    manifest = {
        key: before[key] if before.get(key) == value else value
        for key, value in shard.manifest.items()
    }
    return replace(shard, manifest=manifest)


def _check_values(shard: StoredShard) -> None:
    """Compute with the values of a shard that others are compared with and added to."""
    manifest = shard.manifest
    own = Fingerprint.read(manifest)
    list(differences(own, own))
    canonical_bytes(plan_of(manifest))
    _joined([manifest])
    n_planned, n_trials = int(manifest["n_planned"]), int(manifest[KEY]["n_trials"])
    if not 0 <= n_planned <= n_trials or not 1 <= shard.shard.number <= shard.shard.of:
        raise ValueError(f"shard {shard.shard} with {n_planned} of {n_trials} trials")
    list(manifest["versions"].items())


def _check_set(shards: Sequence[StoredShard]) -> None:
    """Check that every shard is there once, and was ended by its last trial or a limit."""
    for one, other in pairwise(shards):
        if one.shard == other.shard:
            if one.folder.resolve() == other.folder.resolve():
                raise StoreError(f"{one.folder} is given twice; give each shard once")
            raise StoreError(
                f"{one.folder} and {other.folder} are both shard {one.shard}; give each shard once"
            )
    here, of = {shard.shard.number for shard in shards}, shards[0].shard.of
    left = [
        f"shard {shard.shard} in {shard.folder} is not finished ({shard.n_ended} of "
        f"{shard.n_planned} trials)"
        for shard in shards
        if not shard.is_finished and not shard.stopped_by
    ]
    if missing := [number for number in range(1, of + 1) if number not in here]:
        numbers = ", ".join(map(str, missing[:_MOST_NAMED]))
        more = ", ..." if len(missing) > _MOST_NAMED else ""
        which, are = ("shard", "is") if len(missing) == 1 else ("shards", "are")
        left.insert(0, f"{which} {numbers}{more} of {of} {are} missing")
    if left:
        raise UsageError(f"merge: {'; '.join(left)}; run what is left to its end, then merge")
    n_trials = int(shards[0].manifest[KEY]["n_trials"])
    n_planned = sum(shard.n_planned for shard in shards)
    if n_planned != n_trials:
        raise StoreError(
            f"merge: the shards hold {n_planned} trials and their plan {n_trials}: another "
            "version of medstress cut the plan of one of them; run all again with one version"
        )


def _notes(shards: Sequence[StoredShard]) -> Iterator[str]:
    """Yield which shards a limit ended, and which versions differ between shards."""
    versions: dict[str, dict[str, Shard]] = {}
    for shard in shards:
        for name, version in shard.manifest["versions"].items():
            versions.setdefault(name, {}).setdefault(str(version), shard.shard)
    for name, of in versions.items():
        if len(of) > 1:
            where = ", ".join(f"{version} in shard {shard}" for version, shard in of.items())
            yield f"the shards ran with different versions of {name}: {where}"
    for shard in shards:
        if not shard.is_finished:
            yield (
                f"shard {shard.shard} in {shard.folder} has {shard.n_ended} of {shard.n_planned} "
                f"trials: stopped by {', '.join(shard.stopped_by)}"
            )


def _write(to: Path, shards: Sequence[StoredShard]) -> Counts:
    with locked(to):
        _check_free(to, to)  # another merge may have come first
        for part in unfinished_parts(to):
            part.unlink()
        with translated(to), atomic_path(to / FILE) as part:
            return write_merged(part, shards, _manifest(shards))


def _manifest(shards: Sequence[StoredShard]) -> dict[str, Any]:
    """Return the manifest of the merged run: the plan, and what the shards did together."""
    first = shards[0].manifest
    kept = {key: value for key, value in first.items() if key not in (KEY, STOPPED_BY)}
    return {
        **kept,
        **_joined([shard.manifest for shard in shards]),
        "finished": None,
        "complete": False,
        "n_planned": first[KEY]["n_trials"],
        SHARDS: {"of": shards[0].shard.of},
    }


def _joined(manifests_of_shards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries in which the work of several processes comes together."""
    performance: dict[str, float] = {}
    endpoints: dict[str, Any] = {}
    for manifest in manifests_of_shards:
        for name, value in manifest["performance"].items():
            performance[name] = performance.get(name, 0) + value
        for endpoint in manifest["endpoints"]:
            # What any shard learned of a server holds of all.
            first = endpoints.get(endpoint["victim"], {})
            values = {name: value for name, value in first.items() if value is not None}
            endpoints[endpoint["victim"]] = {**endpoint, **values}
    return {
        "started": min(str(manifest["started"]) for manifest in manifests_of_shards),
        "endpoints": list(endpoints.values()),
        "performance": performance,
    }
