"""Join shards to one run folder: check that they are the parts of one plan, then write it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from medstress.core.errors import StoreError, UsageError, reason
from medstress.core.shards import Shard
from medstress.experiment.plan import manifest as manifests
from medstress.files.writing import Access, access_of, atomic_path, free, unfinished_parts
from medstress.running.one_plan import check_one_plan, joined
from medstress.running.shard_limits import room_for
from medstress.store.database import translated
from medstress.store.merging import Counts, write_merged
from medstress.store.missing import no_run
from medstress.store.run_store import FILE, LOCK, lock_folder
from medstress.store.shards import KEY, SHARDS, STOPPED_BY, StoredShard, opened_shard


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
    """Shards that are missing or unfinished, in words; empty unless that was allowed, or a limit of
    the experiment ended them."""
    notes: tuple[str, ...]
    """What else the user should know."""
    n_ended: int
    """Trials that ended."""
    n_failed: int
    """Of these, trials that failed."""
    command: str
    """That ran the first shard."""


def merge_shards(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    partial: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Merged:
    """Join the shards of one plan to a new run folder; no model is asked.

    Args:
        folders: of the shards, in any order.
        out: the new folder.
        partial: whether shards may be missing or unfinished; `run` on the merged folder then asks
            what they lack.
        note: receives what is being done.

    Raises:
        UsageError, StoreError: a folder is no shard, was changed, is given twice, is of another
            plan or still runs; a shard is missing or unfinished; `out` holds something. Nothing is
            written.
    """
    if not folders:
        raise UsageError("merge: expected the folders of shards, got none")
    to = Path(out)
    _check_free(out, to)
    _check_apart(folders, to)
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
        check_one_plan(shards)
        open_, limited = _left(shards)
        left = (*open_, *limited)
        if open_ and not partial:
            raise UsageError(
                f"merge: {'; '.join(open_)}; run what is left to the end, or merge what there is "
                "with --partial, and `medstress run` on the merged folder asks the rest"
            )
        access = access_of(shards[0].folder / FILE)
        note(f"writing {to}")
        counts = _write(to, shards, access)
        return Merged(
            folder=to,
            n_shards=len(shards),
            n_planned=int(shards[0].manifest[KEY]["n_trials"]),
            counts=counts,
            left=left,
            notes=tuple(_notes(shards)),
            n_ended=sum(each.n_ended for each in shards),
            n_failed=sum(each.n_failed for each in shards),
            command=str(shards[0].manifest["command"]),
        )


def _check_free(given: str | Path, to: Path) -> None:
    if not str(given).strip():
        raise UsageError("merge --out: expected a folder, got an empty text")
    # What a killed merge leaves behind does not count.
    left = {to / LOCK, *unfinished_parts(to)} if to.is_dir() else set[Path]()
    if to.exists() and (not to.is_dir() or set(to.iterdir()) - left):
        raise UsageError(
            f"merge --out {to}: it exists already and is not changed; choose a new folder"
        ).with_flag("--out", str(free(to)))


def _check_apart(folders: Sequence[str | Path], to: Path) -> None:
    """Check that what is given are runs, and that the new one is in none of them."""
    for folder in map(Path, folders):
        if not (folder / FILE).is_file():
            raise _no_shard(folder, to)
    for folder in map(Path, folders):
        if to.resolve().is_relative_to(folder.resolve()):
            new = free(folder.with_name(f"{folder.name}-merged"))
            raise UsageError(
                f"merge --out {to}: it lies in {folder}, which is to be merged; choose a folder "
                "outside of all shards"
            ).with_flag("--out", str(new))


def _no_shard(folder: Path, to: Path) -> UsageError | StoreError:
    """Return the error for a folder without a run, with the merge that was meant."""
    if "*" in folder.name and not folder.exists():
        return UsageError(f"merge {folder}: the shell found no folder of that kind").with_command(
            "medstress merge --help"
        )
    error = no_run(folder)
    error.command = "medstress merge --help"
    if next(folder.glob(f"*/{FILE}"), None) is not None:
        inside, out = shlex.quote(str(folder)), shlex.quote(str(to))
        error.command = f"medstress merge {inside}/* --out {out}"
    return error


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


def _left(shards: Sequence[StoredShard]) -> tuple[list[str], list[str]]:
    """Return which shards are missing or not finished, and which a limit of the experiment ended,
    as it would have ended the run at once."""
    known = {each.shard.number for each in shards}
    of = shards[0].shard.of
    missing = [number for number in range(1, of + 1) if number not in known]
    open_, limited = list[str](), list[str]()
    if missing:
        noun = "shard" if len(missing) == 1 else "shards"
        verb = "is" if len(missing) == 1 else "are"
        open_.append(f"{noun} {_numbers(missing)} of {of} {verb} missing")
    for each in shards:
        if each.is_finished:
            continue
        told = f"shard {each.shard} in {each.folder} is not finished ({each.n_ended} of "
        told += f"{each.n_planned} trials)"
        if each.stopped_by:
            limited.append(f"{told}: stopped by {', '.join(each.stopped_by)}")
        else:
            open_.append(told)
    return open_, limited


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


def _write(to: Path, shards: Sequence[StoredShard], access: Access) -> Counts:
    is_new = not to.exists()
    lock = _locked(to, access)
    try:
        _check_free(to, to)  # another merge may have come first
        for part in unfinished_parts(to):
            part.unlink()
        with translated(to), atomic_path(to / FILE, access) as part:
            return write_merged(part, shards, _manifest(shards))
    finally:
        if not (to / FILE).exists():
            (to / LOCK).unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):  # somebody has put a file there
                    to.rmdir()
        lock.release()


def _locked(to: Path, access: Access) -> FileLock:
    try:
        return lock_folder(to, access)
    except StoreError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        # Nothing is there yet that could be resumed.
        raise UsageError(
            f"merge --out {to}: it cannot be written ({reason(error.__cause__)}); choose another "
            "folder"
        ) from error


def _manifest(shards: Sequence[StoredShard]) -> dict[str, Any]:
    """Return the manifest of the merged run: the plan, and what the shards did together."""
    first = shards[0].manifest
    kept = {key: value for key, value in first.items() if key not in (KEY, STOPPED_BY)}
    return {
        **kept,
        **joined([each.manifest for each in shards]),
        "finished": None,
        "complete": False,
        "n_planned": first[KEY]["n_trials"],
        "command": manifests.command_line(),
        SHARDS: {"of": shards[0].shard.of},
    }
