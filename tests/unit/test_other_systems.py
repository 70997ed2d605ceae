"""What macOS and Windows lack must not stop an import or a first use (docs/install.md).

Their absence is played here; nothing of this says that it was run there.
"""

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

import pytest

import medstress.core.writing
from medstress.backends.threads import available_cores


def _anew(module: ModuleType) -> Any:
    """Import a module once more, beside the first."""
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location("imported_anew", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["imported_anew"] = made
    try:
        spec.loader.exec_module(made)
    finally:
        del sys.modules["imported_anew"]
    return made


def test_files_are_written_where_open_lacks_the_flags_of_posix(monkeypatch, tmp_path):
    for name in ("O_NOFOLLOW", "O_CLOEXEC"):
        monkeypatch.delattr(os, name)
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        writing = _anew(medstress.core.writing)
    assert writing._FLUSHED == os.O_RDWR  # fsync of a file that is only read fails there
    writing.write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").read_text("utf-8") == "text"
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    with pytest.raises(writing.PlaceTaken):
        writing.write_text(tmp_path / "link", "through it")


def test_cores_are_counted_where_no_set_of_them_is_told(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5, 6}, raising=False)
    assert available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert available_cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1
