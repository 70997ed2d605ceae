"""Trained models on their way: a folder as one archive, and what tells two of them apart.

An archive is a zip without compression and without times, so one model has one archive. It holds
the files as training saves them: weights as safetensors, everything else as JSON and text.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

from medstress.core.errors import StoreError
from medstress.core.hashing import content_hash, file_hash
from medstress.files.writing import Access, make_folder, refuse_link, set_access
from medstress.store.database import translated

_WRITTEN = (1980, 1, 1, 0, 0, 0)
"""The time of every file: the first that a zip can hold."""
_SUFFIXES = frozenset({".json", ".safetensors", ".txt", ".model", ".jinja", ".md", ".vocab"})
"""Kinds of files of which nothing is run when they are loaded."""


def digest_of_model(folder: Path) -> str:
    """Return the digest of a model's files."""
    return content_hash([[name, file_hash(folder / name)] for name in _names(folder)])


def packed(folder: Path) -> bytes:
    """Return the files of a folder as an archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name in _names(folder):
            archive.writestr(zipfile.ZipInfo(name, _WRITTEN), (folder / name).read_bytes())
    return data.getvalue()


def unpack_to(folder: Path, data: bytes, access: Access = Access.OWNER) -> None:
    """Write the files of an archive as a folder that is complete or absent.

    Another process of this machine may do so too; the first one's stays.

    Raises:
        StoreError: it is no archive of a model, or the folder cannot be written.
    """
    with translated(folder.parent):
        make_folder(folder.parent, access)
        refuse_link(folder)
        building = Path(mkdtemp(prefix=".medstress-", suffix=".part", dir=folder.parent))
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for name in _checked(archive.namelist(), folder):
                    (building / name).parent.mkdir(parents=True, exist_ok=True)
                    (building / name).write_bytes(archive.read(name))
            set_access(building, access)
            if not folder.is_dir():
                building.rename(folder)
        except zipfile.BadZipFile as error:
            raise StoreError(f"{folder.name}: what came is no archive of a model") from error
        except OSError:
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(building, ignore_errors=True)


def _names(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


def _checked(names: Iterable[str], folder: Path) -> Iterable[str]:
    """Yield names of files inside the folder, of kinds that a model has."""
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name:
            raise StoreError(f"{folder.name}: the archive of the model holds {name!r}, outside it")
        if path.suffix not in _SUFFIXES:
            raise StoreError(
                f"{folder.name}: the archive of the model holds {name!r}; expected weights as "
                "safetensors, JSON and text"
            )
        yield name
