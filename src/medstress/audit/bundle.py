"""Pack a run so that others can verify it: `medstress bundle`."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from medstress.audit.archive import HEAD, describe, read_archive, write_archive
from medstress.audit.kept import absent_baselines
from medstress.audit.redacted import LEDGER, NUMBERS, verify_redacted, write_redacted
from medstress.audit.signing import check, sign
from medstress.audit.verification import Verification
from medstress.audit.verify import verify_folder
from medstress.core.errors import StoreError, UsageError
from medstress.files.versions import versions
from medstress.results.export import export
from medstress.results.load import StoredRun, open_run
from medstress.results.root import root_of
from medstress.store.chain import Break
from medstress.store.copying import copied
from medstress.store.review_store import FILE as REVIEWS
from medstress.store.run_store import FILE, SUMMARY
from medstress.store.whole_check import check_whole
from medstress.summary.kept import renew_summary
from medstress.version import __version__

RUN = "run"
"""Folder of the run in a bundle."""
SIGNATURE, EXPERIMENT, REPORT, READ_ME = "root.sig", "experiment.json", "report.html", "README.txt"
TABLES = ("items", "trials", "exchanges", "reviews")
_EXPORTS = tuple(f"exports/{table}.jsonl" for table in TABLES)
KNOWN = frozenset(
    {f"{RUN}/{name}" for name in (FILE, REVIEWS, SUMMARY)}
    | {LEDGER, NUMBERS, SIGNATURE, EXPERIMENT, REPORT, READ_ME, *_EXPORTS}
)
"""The entries that a bundle may have."""

REDACTED_COMMAND = "medstress run EXPERIMENT.toml"
_OF_THE_MAKER = {"medstress", "made_with"}
"""Keys of the head that say what made the bundle, not what the run is."""
_WHOLE = (
    (READ_ME, f"{RUN}/{FILE}", EXPERIMENT, *_EXPORTS, REPORT),
    (SIGNATURE, f"{RUN}/{REVIEWS}", f"{RUN}/{SUMMARY}"),
)
_REDACTED = ((READ_ME, LEDGER, NUMBERS), (SIGNATURE,))
"""The entries that a bundle must have, and those that it may have."""

Report = Callable[[StoredRun], str]
"""Makes the report of a run."""

_TEXT = """A run of medstress {version}, packed by `medstress bundle`{how}.

Experiment: {experiment}, fingerprint {fingerprint}
Root: {root}

To check it:     medstress verify FILE.zip --root ROOT
To repeat it:    {command}

ROOT is the root that stands elsewhere: in a paper, or in a report that you were sent. Who can
write this file can write all of it anew; only a root kept elsewhere binds.
"""


def write_bundle(
    folder: Path, to: Path, report: Report, *, redact: bool = False, key: Path | None = None
) -> dict[str, Any]:
    """Write a run as one file, equal byte for byte when made twice, and return its head.

    Args:
        folder: the run.
        to: FILE.zip.
        report: makes its report.
        redact: leave out every word of questions, prompts and replies.
        key: sign the root with this key of ssh.

    Raises:
        UsageError: a wrong name, or the file or the signature cannot be made.
        StoreError: the run cannot be read, or does not agree with its chain.
    """
    if to.suffix != ".zip":
        raise UsageError(f"--to {to}: the name must end in .zip")
    if to.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"--to {to} is inside the run's folder; give a place outside it")
    with tempfile.TemporaryDirectory(prefix="medstress-") as name, copied(folder) as copy:
        place = Path(name)
        # A room that is open, or was killed, leaves what was said last in the log of the reviews.
        for each in (REVIEWS, f"{REVIEWS}-wal", SUMMARY):
            if (folder / each).is_file():
                shutil.copyfile(folder / each, copy / each)
        for each in (FILE, REVIEWS):
            _settle(copy / each)
        with _told_as(copy, str(folder)):
            # What was reviewed since counts in the numbers that travel.
            with open_run(copy) as run:
                renew_summary(run)
            if (broken := check_whole(copy).broken) is not None:
                raise StoreError(
                    f"{folder} does not agree: {broken}; it is not packed"
                ).with_command(shlex.join(["medstress", "verify", str(folder)]))
            with open_run(copy) as run:
                head, files = _written(run, copy, place, report, redact=redact, key=key)
        try:
            write_archive(to, head, files)
        except OSError as error:
            raise UsageError(f"cannot write {to}: {error.strerror}; give another --to") from error
    return head


def _written(
    run: StoredRun, copy: Path, place: Path, report: Report, *, redact: bool, key: Path | None
) -> tuple[dict[str, Any], dict[str, Path]]:
    head = _head_of(run, redact=redact)
    if (root := head["root"]) is None:
        raise StoreError("the run is not complete, so it has no root; run the same command again")
    files: dict[str, Path] = {}

    def add(name: str, text: str) -> None:
        files[name] = place / name
        files[name].parent.mkdir(exist_ok=True)
        files[name].write_text(text, "utf-8", newline="")

    add(READ_ME, _read_me(head))
    if key is not None:
        add(SIGNATURE, sign(root, key))
    if redact:
        (place / RUN).mkdir(exist_ok=True)
        files |= write_redacted(run, place)
        return head, files
    for name in (FILE, REVIEWS, SUMMARY):
        if (copy / name).is_file():
            files[f"{RUN}/{name}"] = copy / name
    files |= _views(run, place, report)
    return head, files


def _head_of(run: StoredRun, *, redact: bool) -> dict[str, Any]:
    """Return what the head says of a run, without the list of files."""
    manifest = run.manifest
    return {
        "redacted": redact,
        "medstress": __version__,
        "experiment": manifest["config"]["experiment"]["name"],
        "fingerprint": manifest["fingerprint"],
        "root": root_of(run),
        "versions": manifest["versions"],
        "made_with": versions(),
        # A command line names people and folders.
        "command": REDACTED_COMMAND if redact else manifest["command"],
    }


def _read_me(head: Mapping[str, Any]) -> str:
    how = " without the words of questions, prompts and replies" if head.get("redacted") else ""
    names = ("experiment", "fingerprint", "root", "command")
    told = {name: head.get(name) for name in names}
    return _TEXT.format(version=head.get("medstress"), how=how, **told)


def _views(run: StoredRun, place: Path, report: Report) -> dict[str, Path]:
    """Write what follows from a run: the experiment, its exports and its report."""
    (place / "exports").mkdir(exist_ok=True)
    found = {EXPERIMENT: place / EXPERIMENT}
    given = json.dumps(run.manifest["given"], indent=1, ensure_ascii=False)
    found[EXPERIMENT].write_text(f"{given}\n", "utf-8", newline="")
    for table, name in zip(TABLES, _EXPORTS, strict=True):
        found[name] = place / name
        export(run, table, found[name])
    found[REPORT] = place / REPORT
    found[REPORT].write_text(report(run), "utf-8", newline="")
    return found


def verify_bundle(
    file: Path, report: Report, *, root: str | None = None, synonyms: Path | None = None
) -> Verification:
    """Verify a bundle; nothing is unpacked outside a temporary folder.

    Arguments are those of `verify_folder` and `write_bundle`.

    Raises:
        StoreError: it is no bundle, one of a later format, or damaged.
        UsageError: the list of synonyms cannot be read.
    """
    try:
        return _verified(file, report, root, synonyms)
    except StoreError as error:
        again = shlex.join(["medstress", "bundle", "DIR", "--to", file.name])
        raise error.with_command(again) from error.__cause__


def _verified(file: Path, report: Report, root: str | None, synonyms: Path | None) -> Verification:
    with tempfile.TemporaryDirectory(prefix="medstress-") as name:
        place = Path(name)
        head = _unpacked(file, place)
        # The temporary folder is gone when a message is read.
        with _told_as(place, f"{file}:"):
            if head["redacted"]:
                found = verify_redacted(place, head, root)
            else:
                found = verify_folder(place / RUN, root=root, synonyms=synonyms)
            found.what = str(file)
            if found.broken is None and head.get("root") != found.root:
                found.broken = _of_head("root", found.root, head.get("root"))
            if found.broken is None:
                found.broken = _other_read_me(place, head, found)
            if found.broken is None and not head["redacted"]:
                found.broken = _other_view(place, head, report, found)
        if found.broken is None:
            _check_signature(place / SIGNATURE, found)
        return found


def _unpacked(file: Path, place: Path) -> dict[str, Any]:
    """Unpack a bundle that has the entries of its kind, and return its head."""
    head = read_archive(file, KNOWN, place)
    if not isinstance(head.get("redacted"), bool):
        raise StoreError(f"{file}: {HEAD} does not say whether it is redacted")
    must, may = _REDACTED if head["redacted"] else _WHOLE
    if missing := [name for name in must if name not in head["files"]]:
        raise StoreError(f"{file}: {missing[0]} is missing")
    if odd := [name for name in head["files"] if name not in (*must, *may)]:
        raise StoreError(f"{file}: {odd[0]} is no entry of such a bundle")
    return head


def _other_read_me(place: Path, head: Mapping[str, Any], found: Verification) -> Break | None:
    """Return how the file that explains a bundle differs from what its head says."""
    expected = hashlib.sha256(_read_me(head).encode("utf-8", "replace")).hexdigest()
    given = describe(place / READ_ME)["sha256"]
    if given == expected:
        return None
    return _other(READ_ME, expected, given, head, found)


def _other_view(
    place: Path, head: Mapping[str, Any], report: Report, found: Verification
) -> Break | None:
    """Return the first part of a bundle that is not what the run says."""
    with tempfile.TemporaryDirectory(prefix="medstress-") as name, open_run(place / RUN) as run:
        own = _head_of(run, redact=False)
        for key in own.keys() - _OF_THE_MAKER:
            if own[key] != head.get(key):
                return _of_head(key, own[key], head.get(key))
        absent = absent_baselines(run)
        for entry, path in _views(run, Path(name), report).items():
            expected, given = (each["sha256"] for each in (describe(path), head["files"][entry]))
            if expected == given:
                continue
            if entry == REPORT and absent:
                found.notes.append(f"not compared: {REPORT}, which reads {', '.join(absent)}")
            elif (broken := _other(entry, expected, given, head, found)) is not None:
                return broken
    return None


def _other(
    entry: str, expected: str, given: str, head: Mapping[str, Any], found: Verification
) -> Break | None:
    """Return a break, unless the entry may differ because of what made it: it is not compared."""
    is_ours = head.get("medstress") == __version__
    # A last digit of a plot may be another.
    if is_ours and (entry != REPORT or head.get("made_with") == versions()):
        return Break(table=entry, row=0, expected=f"sha256 {expected}", found=f"sha256 {given}")
    by = "other versions of libraries" if is_ours else f"medstress {head.get('medstress')}"
    again = {REPORT: "medstress report", READ_ME: "medstress bundle"}.get(entry, "medstress export")
    found.not_compared.append(
        f"{entry} is of {by}, and another one here; make it again from the run with {again}"
    )
    return None


def _of_head(key: str, expected: Any, given: Any) -> Break:
    shown = (f"{key} {json.dumps(each)}"[:300] for each in (expected, given))
    return Break(table=HEAD, row=0, expected=next(shown), found=next(shown))


@contextmanager
def _told_as(place: Path, name: str) -> Iterator[None]:
    """Let errors about a private, temporary folder name what the user gave."""
    try:
        yield
    except StoreError as error:
        told = str(error).replace(f"{place}{os.sep}", f"{name}{os.sep}").replace(str(place), name)
        raise StoreError(told.replace(f":{os.sep}", ": ")) from error


def _check_signature(file: Path, found: Verification) -> None:
    if not file.is_file() or found.root is None:
        return
    try:
        by = check(found.root, file.read_text("utf-8", "replace"))
    except ValueError as error:
        found.broken = Break(
            table=SIGNATURE, row=0, expected=f"a signature of {found.root}", found=str(error)
        )
        return
    found.signature = (
        "signed, and not checked: ssh-keygen is not installed"
        if by is None
        else f"the root is signed with the key {by}; whose it is has to be known from elsewhere"
    )


def _settle(file: Path) -> None:
    """Move what a log holds into a private copy of a database."""
    if not file.with_name(f"{file.name}-wal").exists():
        return
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
