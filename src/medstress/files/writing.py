"""Safe writing of files: to a temporary file that is renamed, never through a link, with a mode.

Callers turn an `OSError` into a message; the text of `PlaceTaken` says what to do.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

DATABASE = "run.sqlite"
"""The file that makes a folder a run folder; files written beside it follow its mode."""


_PART = ".medstress-*.part"
"""The name of a file that is not whole yet."""


class PlaceTaken(OSError):
    """The path cannot be written; `strerror` says why and what to do."""


class Access(Enum):
    """Who may read a written file."""

    OWNER = (0o700, 0o600)
    """The owner alone: texts of questions, patients and models."""
    GROUP = (0o750, 0o640)
    """The owner and the owner's group."""
    ORDINARY = (0o777, 0o666)
    """Anyone the umask allows: files that contain nothing of a run."""

    @property
    def folder(self) -> int:
        """The mode of a folder."""
        return self.value[0]

    @property
    def file(self) -> int:
        """The mode of a file."""
        return self.value[1]


def access_of(path: Path) -> Access:
    """Return who may read a new file at `path`: in a run folder, whoever may read the run."""
    try:
        mode = (path.parent / DATABASE).stat().st_mode
    except OSError:
        return Access.OWNER
    return Access.GROUP if mode & stat.S_IRGRP else Access.OWNER


def refuse_link(path: Path) -> None:
    """Refuse a path whose last component is a symbolic link.

    Raises:
        PlaceTaken: it is one.
    """
    if path.is_symlink():
        raise PlaceTaken(
            errno.ELOOP, "it is a link, and nothing is written through one: remove it", str(path)
        )


def refuse_occupied(path: Path) -> None:
    """Refuse a path unless it is free or an ordinary file without a second name.

    For files that are changed in place. The second name (a hard link) could be anywhere.

    Raises:
        PlaceTaken: a link, a hard link, or not a file.
    """
    _refuse_other(path)
    if path.exists() and path.stat().st_nlink > 1:
        raise PlaceTaken(
            errno.EMLINK, "the file has another name (a hard link): put a copy here", str(path)
        )


def unfinished_parts(folder: Path) -> list[Path]:
    """Return the files that `atomic_path` began in a folder and a killed process left there."""
    return sorted(folder.glob(f"{_PART}*"))  # with the logs of databases


@contextmanager
def atomic_path(path: Path, access: Access | None = None) -> Iterator[Path]:
    """Yield the path of a new, empty file that replaces `path` at the end.

    After any error, such as a full disk or an interrupt, the new file is removed and `path` stays
    as it was.

    Args:
        path: the file to write.
        access: who may read it; default: see `access_of`.

    Raises:
        OSError: `path` is a link or not a file, or writing failed.
    """
    _refuse_other(path)
    mode = (access or access_of(path)).file
    part = path.with_name(_PART.replace("*", token_hex(8)))
    # Nobody can have created this name before; the umask can only narrow the mode.
    os.close(os.open(part, _NEW, mode))
    try:
        if access is not Access.ORDINARY:
            part.chmod(mode)
        yield part
        _sync(part)
        if access is not Access.ORDINARY:
            part.chmod(mode)  # a library may have replaced the file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_stream(path: Path, access: Access | None = None) -> Iterator[BinaryIO]:
    """Yield a stream whose content replaces `path` at the end; see `atomic_path`."""
    with atomic_path(path, access) as part, part.open("r+b") as stream:
        yield stream


def write_bytes(path: Path, data: bytes | memoryview, access: Access | None = None) -> None:
    """Write a file completely or not at all; see `atomic_path`."""
    with atomic_stream(path, access) as stream:
        stream.write(data)


def write_text(path: Path, text: str, access: Access | None = None) -> None:
    """Write a file as UTF-8 with unchanged line ends; see `atomic_path`."""
    write_bytes(path, text.encode("utf-8"), access)


def make_folder(folder: Path, access: Access = Access.OWNER) -> None:
    """Make a folder with the given access unless it exists; its parents get ordinary modes.

    An existing folder keeps its mode, except that `Access.GROUP` adds the group.

    Raises:
        OSError: the path is a link or a file, or the folder cannot be made.
    """
    refuse_link(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(access.folder)
    except FileExistsError:
        if not folder.is_dir():
            raise
        mode = stat.S_IMODE(folder.stat().st_mode)
        if access is Access.GROUP and mode & 0o050 != 0o050:
            folder.chmod(mode | 0o050)
        return
    if access is not Access.ORDINARY:
        folder.chmod(access.folder)


def create_in_place(path: Path, access: Access | None) -> None:
    """Create an empty file that will be changed in place, or set the mode of the existing one.

    Args:
        path: the file.
        access: who may read it; None keeps the mode of an existing file and makes a new one
            private to its owner.

    Raises:
        OSError: see `refuse_occupied`.
    """
    refuse_occupied(path)
    mode = (access or Access.OWNER).file
    # An existing file is not opened, because closing it would release SQLite's locks on it.
    with suppress(FileExistsError):
        os.close(os.open(path, _NEW, mode))
        path.chmod(mode)
        return
    if access is not None:
        path.chmod(mode)


def set_access(folder: Path, access: Access) -> None:
    """Set the access of a folder that a library filled, and of everything in it."""
    for place, _, files in os.walk(folder):
        Path(place).chmod(access.folder)
        for name in files:
            if not (each := Path(place, name)).is_symlink():
                each.chmod(access.file)


# Windows has neither flag: there O_EXCL refuses links, too, and no descriptor is inherited.
_CLOSED = getattr(os, "O_CLOEXEC", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | _CLOSED
# Windows flushes only what may be written.
_FLUSHED = (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | _CLOSED


def _refuse_other(path: Path) -> None:
    """Refuse anything but a file or a free path: a pipe or a device must not be replaced."""
    refuse_link(path)
    if path.is_dir():
        raise PlaceTaken(errno.EISDIR, "it is a folder", str(path))
    if path.exists() and not path.is_file():
        raise PlaceTaken(errno.EINVAL, "it is not an ordinary file", str(path))


def _sync(path: Path) -> None:
    # A disk that writes late reports a full disk here, and the rename must not precede the content.
    descriptor = os.open(path, _FLUSHED)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free(folder: Path) -> Path:
    """Return the first of folder-2, folder-3, ... that does not exist."""
    number = 2
    while (found := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return found
