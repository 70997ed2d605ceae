"""Relative paths of an experiment as a file in another folder has to name them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medstress.experiment.first.data import from_base

_PATHS = ("path", "perturbed", "annotations")
"""Keys that hold nothing but paths; the values of others may be names."""
_NAMES = ("name", "label", "type", "family", "version", "hub", "base_url")
"""Keys whose values are never paths, even if a file is called the same."""
_MODELS = ("model", "adapter")
"""Keys for which a folder of the plain name wins over anything else."""


def from_folder(tables: Any, folder: Path, key: str = "") -> Any:
    """Return tables whose relative paths, which start from the working folder, start from another.

    A value of a key that may be a name is a path if there is a file or folder of it; so are
    `file.py:function` and `source:file`.
    """
    if isinstance(tables, Mapping):
        return {name: from_folder(each, folder, name) for name, each in tables.items()}
    if isinstance(tables, list):
        return [from_folder(each, folder, key) for each in tables]
    return _moved(tables, folder, key) if isinstance(tables, str) else tables


def _moved(value: str, folder: Path, key: str) -> str:
    if key in _NAMES:
        return value
    if key in _PATHS or (key == "cache" and value != "default") or _is_there(value, key):
        return from_base(value, folder)
    head, colon, tail = value.partition(":")
    if colon and _is_there(head, key):
        return f"{from_base(head, folder)}:{tail}"
    return f"{head}:{from_base(tail, folder)}" if colon and _is_there(tail, key) else value


def _is_there(value: str, key: str) -> bool:
    path = Path(value)
    looks_like_one = len(path.parts) > 1 or path.suffix or key in _MODELS
    return bool(looks_like_one) and path.expanduser().exists()
