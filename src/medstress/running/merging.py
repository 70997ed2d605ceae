"""Join shards to one run folder: check that they are the parts of one plan, then write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from medstress.core.errors import StoreError, UsageError
from medstress.core.hashing import canonical_bytes
from medstress.core.shards import Shard
from medstress.experiment.plan import manifest as manifests
from medstress.files.writing import Access, access_of, atomic_path, unfinished_parts
from medstress.running.shard_limits import room_for
from medstress.store.database import translated
from medstress.store.forgetting import UNFINISHED
from medstress.store.merging import Counts, write_merged
from medstress.store.odd_rows import interpreting
from medstress.store.packed_files import is_packed_folder, remove_packed
from medstress.store.packed_tables import FOLDER
from medstress.store.root import plan_of
from medstress.store.run_store import FILE, LOCK, lock_folder
from medstress.store.shards import KEY, SHARDS, StoredShard, opened_shard

MOST_IN_LEDGER = 10**7
"""Answers beyond which merging keeps exchanges in Parquet files, unless it is told where."""
PARQUET, SQLITE = "parquet", "sqlite"
_MOST_NAMED = 8
_MOST_ITEMS = 2**31
_N_ANSWERS = "SELECT COUNT(*) FROM main.answers"
_N_LOST = "SELECT COUNT(*) FROM trials WHERE verdict IN (?, ?, ?)"


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
    left: tuple[str, ...]
    """Shards that are missing or unfinished, in words; empty unless that was allowed."""
    notes: tuple[str, ...]
    """What else the user should know."""


def merge_shards(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    partial: bool = False,
    exchanges: Literal["parquet", "sqlite"] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Merged:
    """Join the shards of one plan to a new run folder; no model is asked.

    Args:
        folders: of the shards, in any order.
        out: the new folder.
        partial: whether shards may be missing or unfinished; `run` on the merged folder then asks
            what they lack.
        exchanges: where exchanges and answers stand: in one Parquet file per shard, or in the
            ledger; default: by their number.
        note: receives what is being done.

    Raises:
        UsageError, StoreError: a folder is no shard, is given twice, is of another plan or still
            runs; a shard is missing or unfinished; `out` holds something. Nothing is written.
    """
    if not folders:
        raise UsageError("merge: expected the folders of shards, got none")
    to = Path(out)
    _check_free(out, to)
    room_for(len(folders), "merge")
    with ExitStack() as stack:
        note(f"reading {len(folders)} shards")
        for folder in dict.fromkeys(map(Path, folders)):
            stack.enter_context(_at_rest(folder))
        found: list[StoredShard] = []
        for given in folders:
            shard = stack.enter_context(opened_shard(Path(given), whole=True))
            found.append(_sharing(shard, found[0]) if found else shard)
        shards = sorted(found, key=lambda each: each.shard)
        _check_one_plan(shards)
        left = tuple(_left(shards))
        if left and not partial:
            raise UsageError(
                f"merge: {'; '.join(left)}; run what is left to the end, or merge what there is "
                "with --partial, and `medstress run` on the merged folder asks the rest"
            )
        access = access_of(shards[0].folder / FILE)
        note(f"writing {to}")
        packs, told = _packs(shards, left, exchanges)
        counts = _write(to, shards, access, packs=packs)
        return Merged(
            folder=to,
            n_shards=len(shards),
            n_planned=int(shards[0].manifest[KEY]["n_trials"]),
            counts=counts,
            left=left,
            notes=(*_notes(shards), *told),
        )


def _check_free(given: str | Path, to: Path) -> None:
    if not str(given).strip():
        raise UsageError("merge --out: expected a folder, got an empty text")
    # What a killed merge leaves behind does not count.
    left = {to / LOCK, *unfinished_parts(to)} if to.is_dir() else set[Path]()
    if to.is_dir() and not (to / FILE).exists() and is_packed_folder(to / FOLDER):
        left.add(to / FOLDER)
    if to.exists() and (not to.is_dir() or set(to.iterdir()) - left):
        raise UsageError(
            f"merge --out {to}: it exists already and is not changed; choose a new folder"
        ).with_flag("--out", None)


def _sharing(shard: StoredShard, first: StoredShard) -> StoredShard:
    """Return a shard that holds what its plan has in common with another's once, in memory: a
    thousand shards each have the hashes of all items."""
    known = first.manifest
    kept = {
        key: known[key] if known.get(key) == value else value
        for key, value in shard.manifest.items()
    }
    return replace(shard, manifest=kept)


@contextmanager
def _at_rest(folder: Path) -> Iterator[None]:
    """Keep a shard from being run while it is read.

    Raises:
        StoreError: it is run now.
    """
    path = folder / LOCK
    lock = FileLock(path) if path.is_file() and not path.is_symlink() else None
    if lock is None:
        yield
        return
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreError(
            f"another medstress process is working in {folder}; wait for it, or stop it"
        ) from None
    except OSError:
        pass  # a folder that cannot be written, where nobody can work either
    try:
        yield
    finally:
        lock.release()


def _check_one_plan(shards: Sequence[StoredShard]) -> None:
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
        if differing := _differences(first.manifest, each.manifest):
            raise StoreError(
                f"{each.folder} and {first.folder} are shards of different experiments: "
                f"{'; '.join(differing[:_MOST_NAMED])}; run all shards with one file and the same "
                "--set and --limit"
            )
    for one, other in pairwise(shards):
        if one.shard == other.shard:
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
    manifests.differences(manifest["parts"], manifest["parts"])
    canonical_bytes(plan_of(manifest))
    _joined([manifest])
    n_planned, n_trials = int(manifest["n_planned"]), int(manifest[KEY]["n_trials"])
    if not 0 <= n_planned <= n_trials or not 1 <= shard.shard.number <= shard.shard.of:
        raise ValueError(f"shard {shard.shard} with {n_planned} of {n_trials} trials")
    for positions in manifest[KEY]["positions"].values():
        if not all(type(at) is int and 0 <= at < _MOST_ITEMS for at in positions.values()):
            raise ValueError("positions of items")
    for name in ("victims", "datasets", "groups", "attacks", "versions"):
        list(manifest[name].items())
    dict.fromkeys(manifest["seeds"])


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """List in what the plans of two shards differ, in words."""
    found = manifests.differences(one["parts"], other["parts"])
    # The second may have more than the first.
    found = found or manifests.differences(other["parts"], one["parts"])
    if found:
        return found
    here, there = plan_of(one), plan_of(other)
    names = [name for name in {**here, **there} if not _same(here.get(name), there.get(name))]
    if one[KEY]["n_trials"] != other[KEY]["n_trials"]:
        names.append("the number of trials")
    return [f"{name} differs" for name in names]


def _same(one: Any, other: Any) -> bool:
    return canonical_bytes(one) == canonical_bytes(other)


def _left(shards: Sequence[StoredShard]) -> Iterator[str]:
    """Yield which shards are missing, and which are not finished."""
    known = {each.shard.number for each in shards}
    of = shards[0].shard.of
    missing = [number for number in range(1, of + 1) if number not in known]
    if missing:
        noun = "shard" if len(missing) == 1 else "shards"
        verb = "is" if len(missing) == 1 else "are"
        yield f"{noun} {_numbers(missing)} of {of} {verb} missing"
    for each in shards:
        if not each.is_finished:
            yield (
                f"shard {each.shard} in {each.folder} is not finished ({each.n_ended} of "
                f"{each.n_planned} trials)"
            )


def _numbers(numbers: Sequence[int]) -> str:
    """Write numbers in order, neighbours as a range.

    >>> _numbers([2, 5, 6, 7])
    '2, 5-7'
    """
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def _notes(shards: Sequence[StoredShard]) -> Iterator[str]:
    """Yield which versions differ between shards."""
    versions = [each.manifest["versions"] for each in shards]
    for name in dict.fromkeys(name for each in versions for name in each):
        found = dict[str, Shard]()
        for each, shard in zip(versions, shards, strict=True):
            found.setdefault(str(each.get(name, "none")), shard.shard)
        if len(found) > 1:
            told = ", ".join(f"{version} in shard {shard}" for version, shard in found.items())
            yield f"the shards ran with different versions of {name}: {told}"


def _packs(
    shards: Sequence[StoredShard], left: Sequence[str], given: str | None
) -> tuple[bool, tuple[str, ...]]:
    """Return whether exchanges go to Parquet files, and what the user should know of that.

    Only trials that never begin again are packed, so all must have ended for good.

    Raises:
        UsageError: that was asked for, and trials may still begin again.
    """
    if given not in (None, PARQUET, SQLITE):
        raise UsageError(f"merge --exchanges {given}: expected {PARQUET} or {SQLITE}")
    n_answers = sum(next(each.rows(_N_ANSWERS))[0] for each in shards)
    if given == SQLITE or (given is None and n_answers <= MOST_IN_LEDGER):
        return False, ()
    lost = sum(next(each.rows(_N_LOST, UNFINISHED))[0] for each in shards)
    if not left and not lost:
        return True, ()
    why = left[0] if left else f"{lost} trials failed, were cut short or not answered"
    if given is None:
        return False, (f"all exchanges stay in {FILE}: {why}, so trials may begin again",)
    raise UsageError(
        f"merge --exchanges {PARQUET}: {why}, so trials may begin again; run the shards to the end "
        f"(--retry-failed), or give --exchanges {SQLITE}"
    ).with_flag("--exchanges", None)


def _write(to: Path, shards: Sequence[StoredShard], access: Access, *, packs: bool) -> Counts:
    is_new = not to.exists()
    lock = lock_folder(to, access)
    try:
        _check_free(to, to)  # another merge may have come first
        for part in unfinished_parts(to):
            part.unlink()
        remove_packed(to)
        beside = (to / FOLDER, access) if packs else None
        with translated(to), atomic_path(to / FILE, access) as part:
            return write_merged(part, shards, _manifest(shards), beside)
    finally:
        if not (to / FILE).exists():
            (to / LOCK).unlink(missing_ok=True)
            remove_packed(to)
            if is_new:
                with suppress(OSError):  # somebody has put a file there
                    to.rmdir()
        lock.release()


def _manifest(shards: Sequence[StoredShard]) -> dict[str, Any]:
    """Return the manifest of the merged run: the plan, and what the shards did together."""
    first = shards[0].manifest
    kept = {key: value for key, value in first.items() if key != KEY}
    return {
        **kept,
        **_joined([each.manifest for each in shards]),
        "finished": None,
        "complete": False,
        "n_planned": first[KEY]["n_trials"],
        "command": manifests.command_line(),
        SHARDS: {"of": shards[0].shard.of},
    }


def _joined(all_of_them: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries in which the work of several processes comes together."""
    performance: dict[str, float] = {}
    endpoints: dict[str, Any] = {}
    for manifest in all_of_them:
        for name, value in manifest["performance"].items():
            performance[name] = performance.get(name, 0) + value
        for endpoint in manifest["endpoints"]:
            known = endpoints.get(endpoint["victim"])
            endpoints[endpoint["victim"]] = (
                manifests.joined_endpoint(known, endpoint) if known else endpoint
            )
    return {
        "started": min(str(manifest["started"]) for manifest in all_of_them),
        "endpoints": list(endpoints.values()),
        "performance": performance,
    }
