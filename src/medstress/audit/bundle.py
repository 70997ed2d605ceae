"""Pack a run so that others can verify it: `medstress bundle`."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from medstress.audit.archive import HEAD, describe, read_archive, write_archive
from medstress.audit.redacted import LEDGER, NUMBERS, verify_redacted, write_redacted
from medstress.audit.signing import check, sign
from medstress.audit.verification import Verification
from medstress.audit.verify import verify_folder
from medstress.core.errors import StoreError, UsageError
from medstress.results.export import export
from medstress.results.load import StoredRun, open_run
from medstress.results.root import NO_CHAIN, root_of
from medstress.store.chain import Break
from medstress.store.copying import copied
from medstress.store.review_store import FILE as REVIEWS
from medstress.store.run_store import FILE, SUMMARY
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

Report = Callable[[StoredRun], str]
"""Makes the report of a run."""

_TEXT = """A run of medstress {version}, packed by `medstress bundle`{how}.

Experiment: {name}, fingerprint {fingerprint}
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
    with tempfile.TemporaryDirectory(prefix="medstress-") as name, copied(folder) as copy:
        place = Path(name)
        # A room that is open, or was killed, leaves what was said last in the log of the reviews.
        for each in (REVIEWS, f"{REVIEWS}-wal", SUMMARY):
            if (folder / each).is_file():
                shutil.copyfile(folder / each, copy / each)
        for each in (FILE, REVIEWS):
            _settle(copy / each)
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
    manifest, root = run.manifest, root_of(run)
    if not run.has_chain:
        raise StoreError(f"{NO_CHAIN}, so there is no root to bundle; run the same command again")
    if root is None:
        raise StoreError("the run is not complete, so it has no root; run the same command again")
    head = {
        "redacted": redact,
        "medstress": __version__,
        "experiment": manifest["config"]["experiment"]["name"],
        "fingerprint": manifest["fingerprint"],
        "root": root,
        "versions": manifest["versions"],
        "command": manifest["command"],
    }
    files: dict[str, Path] = {}

    def add(name: str, text: str) -> None:
        files[name] = place / name
        files[name].parent.mkdir(exist_ok=True)
        files[name].write_text(text, "utf-8", newline="")

    how = " without the words of questions, prompts and replies" if redact else ""
    add(
        READ_ME,
        _TEXT.format(
            version=__version__,
            how=how,
            name=head["experiment"],
            fingerprint=head["fingerprint"],
            root=root,
            command=head["command"],
        ),
    )
    if key is not None:
        add(SIGNATURE, sign(root, key))
    if redact:
        (place / RUN).mkdir(exist_ok=True)
        files |= write_redacted(run, place)
        return head, files
    for name in (FILE, REVIEWS, SUMMARY):
        if (copy / name).is_file():
            files[f"{RUN}/{name}"] = copy / name
    add(EXPERIMENT, json.dumps(manifest["given"], indent=1, ensure_ascii=False) + "\n")
    files |= _views(run, place, report)
    return head, files


def _views(run: StoredRun, place: Path, report: Report) -> dict[str, Path]:
    """Write what follows from a run: its exports and its report."""
    (place / "exports").mkdir(exist_ok=True)
    found = {}
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
    with tempfile.TemporaryDirectory(prefix="medstress-") as name:
        place = Path(name)
        head = read_archive(file, KNOWN, place)
        try:
            if head.get("redacted"):
                found = verify_redacted(place, head, root)
            else:
                found = verify_folder(place / RUN, root=root, synonyms=synonyms)
                if found.broken is None:
                    found.broken = _other_view(place, head, report, found)
        except StoreError as error:
            # The temporary folder is gone when the message is read.
            raise StoreError(str(error).replace(f"{place}{os.sep}", f"{file}: ")) from error
        found.what = str(file)
        if found.broken is None and head.get("root") != found.root:
            found.broken = Break(
                table=HEAD, row=0, expected=f"root {found.root}", found=f"root {head.get('root')}"
            )
        _check_signature(place / SIGNATURE, found)
        return found


def _other_view(
    place: Path, head: Mapping[str, Any], report: Report, found: Verification
) -> Break | None:
    """Return the first export or report that is not what the run says."""
    if head.get("medstress") != __version__:
        found.notes.append(
            f"exports and report are of medstress {head.get('medstress')}; they are not compared"
        )
        return None
    with tempfile.TemporaryDirectory(prefix="medstress-") as name, open_run(place / RUN) as run:
        for entry, path in _views(run, Path(name), report).items():
            now, given = describe(path), head["files"].get(entry)
            if now != given:
                return Break(table=entry, row=0, expected=str(now), found=str(given))
    return None


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
