"""Read members of zip files, also those packed with Zstandard, which Python reads only since 3.14.

References:
    PKWARE. .ZIP File Format Specification 6.3.10: 4.3.7 (local file header), 4.4.5 (method 93).
"""

from __future__ import annotations

from pathlib import Path
from struct import unpack_from
from zipfile import BadZipFile, ZipFile

from medstress.core.errors import DataError, UsageError, install_command
from medstress.files.damaged import FAULTS, culprit, damaged

BAD_ZIP = (BadZipFile, OSError, EOFError)
"""What reading something else as a zip raises."""
_ZSTANDARD = 93
_HEADER, _LENGTHS = 30, 26
"""Bytes of a local header without names, and where the lengths of its names stand."""
_MOST = 1 << 30
"""Most bytes of one member, lest a small file use up all memory."""


def read_member(path: Path, archive: ZipFile, name: str) -> bytes:
    """Return the content of one member.

    Raises:
        UsageError: it is packed with Zstandard, and the package that reads it is not installed.
        DataError: it is too large, or damaged.
    """
    info = archive.getinfo(name)
    if info.file_size > _MOST:
        raise DataError(f"{path}: {name} has {info.file_size:,} bytes, more than are read at once")
    if info.compress_type != _ZSTANDARD:
        return archive.read(name)
    try:
        from zstandard import ZstdDecompressor, ZstdError
    except FAULTS as error:
        if broken := culprit(error):
            who = f"{path} is packed with Zstandard: the extra `inspect-logs` is"
            raise damaged(who, broken) from error
        raise UsageError(
            f"{path} is packed with Zstandard; install what reads it: "
            f"{install_command('inspect-logs')}, or convert it with inspect log convert --to json"
        ) from error
    with path.open("rb") as file:
        file.seek(info.header_offset)
        lengths = unpack_from("<HH", file.read(_HEADER), _LENGTHS)
        file.seek(sum(lengths), 1)
        packed = file.read(info.compress_size)
    try:
        unpacked = ZstdDecompressor().decompressobj().decompress(packed)
    except ZstdError as error:
        raise DataError(f"{path}: {name} is damaged: {error}") from error
    if len(unpacked) != info.file_size:
        raise DataError(f"{path}: {name} is damaged: it has {len(unpacked):,} bytes")
    return bytes(unpacked)
