"""How files come to be: beside their place and renamed, through no link, with a chosen mode.

Who writes turns an `OSError` into a sentence; `PlaceTaken` says in its own words what to do.
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
"""What makes a folder a run folder; its mode says who may read what is written beside it."""


class PlaceTaken(OSError):
    """Nothing is written there: its `strerror` says why and what to do."""


class Access(Enum):
    """Who may read what is written."""

    OWNER = (0o700, 0o600)
    """Its owner alone: text of questions, patients and models."""
    GROUP = (0o750, 0o640)
    """The owner's group as well."""
    ORDINARY = (0o777, 0o666)
    """Whoever the umask lets: what holds nothing of a run."""

    @property
    def folder(self) -> int:
        """Mode of a folder."""
        return self.value[0]

    @property
    def file(self) -> int:
        """Mode of a file."""
        return self.value[1]


def access_of(path: Path) -> Access:
    """Who may read a file that is written at `path`: of a run folder, who may read its run."""
    try:
        mode = (path.parent / DATABASE).stat().st_mode
    except OSError:
        return Access.OWNER
    return Access.GROUP if mode & stat.S_IRGRP else Access.OWNER


def refuse_link(path: Path) -> None:
    """Refuse a path whose last component is a link.

    Raises:
        PlaceTaken: it is one.
    """
    if path.is_symlink():
        raise PlaceTaken(
            errno.ELOOP, "it is a link, and nothing is written through one: remove it", str(path)
        )


def refuse_taken(path: Path) -> None:
    """Refuse a path at which there is anything but a file of its own, or nothing.

    For files that are changed where they lie. A second name of a file (a hard link) may lie
    anywhere else.

    Raises:
        PlaceTaken: a link, a second name, or no file.
    """
    _refuse_other(path)
    if path.exists() and path.stat().st_nlink > 1:
        raise PlaceTaken(
            errno.EMLINK, "the file has another name (a hard link): put a copy here", str(path)
        )


@contextmanager
def beside(path: Path, access: Access | None = None) -> Iterator[Path]:
    """Yield the path of a new, empty file that takes the place of `path` at the end.

    Where anything goes wrong, a full disk or an interrupt, it is removed and what was at `path`
    stays as it was.

    Args:
        path: what is written.
        access: who may read it; default: see `access_of`.

    Raises:
        OSError: `path` is a link or no file, or the disk does not take it.
    """
    _refuse_other(path)
    mode = (access or access_of(path)).file
    part = path.with_name(f".medstress-{token_hex(8)}.part")
    # A name that nobody can have put there before; the umask may only narrow the mode.
    os.close(os.open(part, _NEW, mode))
    try:
        if access is not Access.ORDINARY:
            part.chmod(mode)
        yield part
        _reach_the_disk(part)
        if access is not Access.ORDINARY:
            part.chmod(mode)  # a library may have put a file of its own there
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def replacing(path: Path, access: Access | None = None) -> Iterator[BinaryIO]:
    """Yield a stream whose content takes the place of `path` at the end; see `beside`."""
    with beside(path, access) as part, part.open("r+b") as stream:
        yield stream


def write_bytes(path: Path, data: bytes | memoryview, access: Access | None = None) -> None:
    """Write a file, complete or not at all; see `beside`."""
    with replacing(path, access) as stream:
        stream.write(data)


def write_text(path: Path, text: str, access: Access | None = None) -> None:
    """Write a file as UTF-8, its line ends as they are; see `beside`."""
    write_bytes(path, text.encode("utf-8"), access)


def make_folder(folder: Path, access: Access = Access.OWNER) -> None:
    """Make a folder of one's own unless it is there; what lies above it gets ordinary modes.

    A folder that is there keeps its mode, and `Access.GROUP` lets the group in as well.

    Raises:
        OSError: it is a link or a file, or cannot be made.
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


def take_place(path: Path, access: Access | None) -> None:
    """Make a file that is changed where it lies, empty, or give the one there its mode.

    Args:
        path: the file.
        access: who may read it; None: who may already, and the owner alone where it is new.

    Raises:
        OSError: see `refuse_taken`.
    """
    refuse_taken(path)
    mode = (access or Access.OWNER).file
    # A file that is there is not opened: closing it again would end SQLite's locks on it.
    with suppress(FileExistsError):
        os.close(os.open(path, _NEW, mode))
        path.chmod(mode)
        return
    if access is not None:
        path.chmod(mode)


def give_access(folder: Path, access: Access) -> None:
    """Give a folder that a library filled, and all that is in it, one access."""
    for place, _, files in os.walk(folder):
        Path(place).chmod(access.folder)
        for name in files:
            if not (each := Path(place, name)).is_symlink():
                each.chmod(access.file)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _refuse_other(path: Path) -> None:
    """Refuse what is there and is no file: a pipe or a device must not be replaced."""
    refuse_link(path)
    if path.is_dir():
        raise PlaceTaken(errno.EISDIR, "it is a folder", str(path))
    if path.exists() and not path.is_file():
        raise PlaceTaken(errno.EINVAL, "it is no ordinary file", str(path))


def _reach_the_disk(path: Path) -> None:
    # Disks that write late tell here that they are full, and a name must not come before content.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
