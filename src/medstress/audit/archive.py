"""Zip files that are equal byte for byte when made twice, and that are read as untrusted input."""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from medstress.core.errors import StoreError
from medstress.files.writing import atomic_path

FORMAT = 1
"""The format of bundles that is written."""
HEAD = "medstress.json"
"""The entry that lists the others."""
_MOST_HEAD = 1 << 20
"""Bytes of the head."""
_MOST_TIMES = 100
"""An entry is at most so many times as large as it is packed; what packs better is stored."""
_SMALL = 1 << 20
"""Bytes that any entry may have, however well it is packed."""
_DATE = (1980, 1, 1, 0, 0, 0)
_CHUNK = 1 << 20


def write_archive(to: Path, head: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Write files, and a head that lists them with their sizes and hashes.

    Raises:
        OSError: it cannot be written.
    """
    listed = {name: describe(path) for name, path in files.items()}
    text = json.dumps({"bundle": FORMAT, **head, "files": listed}, indent=1, ensure_ascii=False)
    with (
        atomic_path(to) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive,
    ):
        archive.writestr(_info(HEAD), text.encode() + b"\n", zipfile.ZIP_DEFLATED)
        for name, path in files.items():
            info = _info(name)
            info.compress_type = _packing(path)
            with archive.open(info, "w", force_zip64=True) as entry, path.open("rb") as stream:
                shutil.copyfileobj(stream, entry, _CHUNK)


def describe(path: Path) -> dict[str, Any]:
    """Return size and hash of a file."""
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": found}


def read_archive(file: Path, known: frozenset[str], place: Path) -> dict[str, Any]:
    """Unpack a bundle into an empty folder of ours, and return its head.

    Args:
        file: the zip file.
        known: the names that entries may have; each becomes a path below `place`.
        place: a private, temporary folder. Nothing is written elsewhere.

    Raises:
        StoreError: it is no bundle, one of a later format, damaged, or not as we make them.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _unpacked(archive, file, known, place)
    except (
        # ValueError: names that are no text. LZMAError: a packing that we never use.
        *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
        *(ValueError, lzma.LZMAError),
    ) as error:
        detail = " ".join(str(error).split())[:200]
        raise StoreError(f"{file} is no zip file that can be read: {detail}") from error
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror or error}") from error


def _unpacked(
    archive: zipfile.ZipFile, file: Path, known: frozenset[str], place: Path
) -> dict[str, Any]:
    entries = archive.infolist()
    head = _head(archive, entries, file)
    listed = head["files"]
    names = [entry.filename for entry in entries]
    if names != [HEAD, *listed]:
        raise StoreError(f"{file} holds {_shown(names)}, and its {HEAD} lists {_shown(listed)}")
    for entry in entries[1:]:
        _check_entry(entry, listed[entry.filename], file, known)
    total = sum(entry.file_size for entry in entries)
    if total > shutil.disk_usage(place).free:
        raise StoreError(f"{file} needs {total:,} bytes of temporary space, and fewer are free")
    for entry in entries[1:]:
        _unpack(archive, entry, listed[entry.filename], file, place)
    return head


def _head(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], file: Path) -> dict[str, Any]:
    if not entries or entries[0].filename != HEAD or entries[0].file_size > _MOST_HEAD:
        raise StoreError(f"{file} is no bundle: its first entry is not {HEAD}")
    with archive.open(entries[0]) as stream:
        text = stream.read(_MOST_HEAD + 1)
    try:
        head = json.loads(text)
        version, listed = head["bundle"], head["files"]
        is_whole = isinstance(version, int) and version is not True and version > 0
        is_whole = is_whole and all(
            isinstance(one["bytes"], int) and isinstance(one["sha256"], str)
            for one in listed.values()
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise StoreError(f"{file} is no bundle: its {HEAD} is not as medstress writes it")
    if version > FORMAT:
        raise StoreError(
            f"{file} is a bundle of format {version}, but this medstress reads up to {FORMAT}; "
            "use the medstress that wrote it"
        )
    return dict(head)


def _check_entry(
    entry: zipfile.ZipInfo, listed: Mapping[str, Any], file: Path, known: frozenset[str]
) -> None:
    name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
    path = PurePosixPath(name)
    if name not in known or path.is_absolute() or ".." in path.parts:
        raise StoreError(f"{file} holds {name[:200]!r}, which no bundle has; it is not unpacked")
    if entry.flag_bits & 1 or kind not in (0, stat.S_IFREG):
        raise StoreError(f"{file}: {name} is no ordinary file; it is not unpacked")
    most = max(_SMALL, _MOST_TIMES * max(entry.compress_size, 1))
    if entry.file_size != listed["bytes"] or entry.file_size > most:
        raise StoreError(
            f"{file}: {name} would be {entry.file_size:,} bytes from {entry.compress_size:,}; "
            f"expected {listed['bytes']:,}, and at most {most:,}; it is not unpacked"
        )


def _unpack(
    archive: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    listed: Mapping[str, Any],
    file: Path,
    place: Path,
) -> None:
    path, left, state = place / entry.filename, entry.file_size, hashlib.sha256()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with archive.open(entry) as stream, path.open("xb") as out:
        while chunk := stream.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise StoreError(f"{file}: {entry.filename} is longer than it says")
            state.update(chunk)
            out.write(chunk)
    if left or state.hexdigest() != listed["sha256"]:
        raise StoreError(
            f"{file}: {entry.filename}: expected sha256 {listed['sha256']}, found "
            f"{state.hexdigest()}"
        )


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _DATE)
    info.create_system = 3  # the same on every system
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    return info


def _packing(path: Path) -> int:
    """Return how a file is packed: not at all if it would look like a bomb."""
    packer, n = zlib.compressobj(6, zlib.DEFLATED, -15), 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            n += len(packer.compress(chunk))
    n += len(packer.flush())
    fits = path.stat().st_size <= max(_SMALL, _MOST_TIMES * n)
    return zipfile.ZIP_DEFLATED if fits else zipfile.ZIP_STORED


def _shown(names: Any) -> str:
    some = [str(name)[:60] for name in names][:4]
    return f"{', '.join(some) or 'nothing'}{', ...' if len(list(names)) > 4 else ''}"
