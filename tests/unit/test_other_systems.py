"""What macOS and Windows lack must not stop an import or a first use (docs/platforms.md).

Their absence is played here; nothing of this says that it was run there.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from medstress.rendering import _Renderer, worker

import medstress.core.processes
import medstress.files.writing
from medstress.machine.cores import available_cores


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


def test_files_are_written_where_open_lacks_the_flags_of_posix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("O_NOFOLLOW", "O_CLOEXEC"):
        monkeypatch.delattr(os, name)
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        writing = _anew(medstress.files.writing)
    assert writing._FLUSHED == os.O_RDWR  # fsync of a file that is only read fails there
    writing.write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").read_text("utf-8") == "text"
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    with pytest.raises(writing.PlaceTaken):
        writing.write_text(tmp_path / "link", "through it")


def test_cores_are_counted_where_no_set_of_them_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5, 6}, raising=False)
    assert available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert available_cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


@pytest.mark.parametrize("lacks", ["the limit", "the module", "alarms"])
def test_templates_are_rendered_without_a_limit_of_memory_or_an_alarm(
    lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    playing = SimpleNamespace(RLIMIT_AS=9, setrlimit=refuse)
    monkeypatch.setitem(sys.modules, "resource", None if lacks == "the module" else playing)
    if lacks == "alarms":
        monkeypatch.setattr(worker, "signal", SimpleNamespace())
    request = json.dumps({"do": "name", "source": "{{ question }}"}).encode() + b"\n"
    said = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(request)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=said))
    worker.main()
    assert json.loads(said.getvalue()) == {"names": ["question"]}


def test_a_renderer_that_has_ended_is_noticed_though_windows_names_it_otherwise() -> None:
    class Gone(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.EINVAL, "Invalid argument")

    renderer = _Renderer()
    ended = SimpleNamespace(
        stdin=Gone(), stdout=io.BytesIO(), kill=lambda: None, communicate=lambda: None
    )
    renderer._process = ended  # type: ignore[assignment]
    assert renderer.ask({"do": "name", "source": ""}) is None
    assert renderer._process is None


def test_the_flag_of_windows_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert medstress.core.processes.NEW_GROUP == 0  # else Popen refuses it
    monkeypatch.setattr(sys, "platform", "win32")
    flag = _anew(medstress.core.processes).NEW_GROUP
    assert flag == getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200)
