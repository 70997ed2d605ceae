"""Safe writing of files: to a temporary file that is renamed, never through a link, with a mode.

Callers turn an `OSError` into a message; the text of `PlaceTaken` says what to do.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

DATABASE = "run.sqlite"
"""The file that makes a folder a run folder; files written next to it follow its mode."""


_PART = ".medstress-*.part"
"""The name of a file that is not whole yet."""


class PlaceTaken(OSError):
    """The path cannot be written; `strerror` says why and what to do."""


def _mode(path: Path) -> int:
    """Return the mode of a new file: its owner's alone, or as far as the run next to it is open."""
    try:
        return 0o600 | (path.parent / DATABASE).stat().st_mode & stat.S_IRGRP
    except OSError:
        return 0o600


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
def atomic_path(path: Path, *, ordinary: bool = False) -> Iterator[Path]:
    """Yield the path of a new, empty file that replaces `path` at the end.

    After any error, such as a full disk or an interrupt, the new file is removed and `path` stays
    as it was.

    Args:
        path: the file to write.
        ordinary: whether anyone may read it whom the umask allows, as it holds nothing of a run;
            else its owner, and the group where it may read the run in the folder.

    Raises:
        OSError: `path` is a link or not a file, or writing failed.
    """
    _refuse_other(path)
    mode = 0o666 if ordinary else _mode(path)
    part = path.with_name(_PART.replace("*", token_hex(8)))
    # No one can have created this name before; the umask can only narrow the mode.
    os.close(os.open(part, _NEW, mode))
    try:
        if not ordinary:
            part.chmod(mode)
        yield part
        _sync(part)
        if not ordinary:
            part.chmod(mode)  # a library may have replaced the file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_stream(path: Path, *, ordinary: bool = False) -> Iterator[BinaryIO]:
    """Yield a stream whose content replaces `path` at the end; see `atomic_path`."""
    with atomic_path(path, ordinary=ordinary) as part, part.open("r+b") as stream:
        yield stream


def write_bytes(path: Path, data: bytes | memoryview, *, ordinary: bool = False) -> None:
    """Write a file completely or not at all; see `atomic_path`."""
    with atomic_stream(path, ordinary=ordinary) as stream:
        stream.write(data)


def write_text(path: Path, text: str, *, ordinary: bool = False) -> None:
    """Write a file as UTF-8 with unchanged line ends; see `atomic_path`."""
    write_bytes(path, text.encode("utf-8"), ordinary=ordinary)


def make_folder(folder: Path) -> None:
    """Make a folder that is its owner's alone; one that exists keeps its mode.

    Its parents get ordinary modes.

    Raises:
        OSError: the path is a link or a file, or the folder cannot be made.
    """
    refuse_link(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(0o700)


def create_in_place(path: Path) -> None:
    """Create an empty file that will be changed in place; one that exists keeps its mode.

    Raises:
        OSError: see `refuse_occupied`.
    """
    refuse_occupied(path)
    mode = _mode(path)
    # An existing file is not opened, because closing it would release SQLite's locks on it.
    with suppress(FileExistsError):
        os.close(os.open(path, _NEW, mode))
        path.chmod(mode)


def make_private(folder: Path) -> None:
    """Let its owner alone read a folder that a library filled, and everything in it."""
    for place, _, files in os.walk(folder):
        Path(place).chmod(0o700)
        for name in files:
            if not (path := Path(place, name)).is_symlink():
                path.chmod(0o600)


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
    while (candidate := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return candidate


# -- The user's folders ---------------------------------------------------------------------------
def cache_dir(part: str) -> Path:
    """Return a folder of the user's cache, e.g. ``models`` or ``vectors``; make it if needed.

    The environment variable MEDSTRESS_CACHE moves the cache. New folders are private to their
    owner, because they may hold answers about patients' texts. An existing folder under
    MEDSTRESS_CACHE may be shared on purpose, so it keeps its mode.
    """
    root = os.environ.get("MEDSTRESS_CACHE")
    if root:
        return _made(Path(root), part, is_own=False)
    from platformdirs import user_cache_path

    return _made(user_cache_path("medstress"), part, is_own=True)


def state_dir(part: str) -> Path:
    """Return a folder of what this user's commands keep, private to its owner; make it if needed.

    The environment variable MEDSTRESS_STATE moves it.
    """
    root = os.environ.get("MEDSTRESS_STATE")
    if root:
        return _made(Path(root), part, is_own=True)
    from platformdirs import user_state_path

    own = user_state_path("medstress")
    # The specification of XDG_STATE_HOME: a relative path is ignored.
    base = own if own.is_absolute() else Path.home() / ".local" / "state" / "medstress"
    return _made(base, part, is_own=True)


def _made(base: Path, part: str, *, is_own: bool) -> Path:
    folder = base / part
    for place in (base, folder):
        place.mkdir(0o700, parents=True, exist_ok=True)
        if is_own and place.stat().st_mode & 0o077:
            place.chmod(0o700)
    return folder
