"""Rendering of Jinja templates, bounded in time, memory and output.

A template is a small program, and a sandbox alone does not stop one that never ends or writes ten
gigabytes of text. So templates run in a separate process (`worker.py`), in Jinja's immutable
sandbox, and the process is killed if it exceeds a limit. Only code that queries models or writes
perturbed data renders templates; reading a run folder never does.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from medstress.core.errors import TrialError, UsageError
from medstress.core.processes import NEW_GROUP
from medstress.rendering.worker import LARGEST, MEMORY

SECONDS = 5.0
"""Time limit of one rendering."""
_WORKER = Path(__file__).with_name("worker.py")
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT")
"""Environment variables that the process gets; API keys are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The output of a template."""

    text: str
    """The rendered text."""
    exports: Mapping[str, Any]
    """Variables that the template sets at its top level: texts, numbers and booleans."""


def render(source: str, values: Mapping[str, Any], *, name: str, chat: bool = False) -> Rendered:
    """Render a template.

    Args:
        source: the template's text.
        values: its variables, as JSON values.
        name: its name in messages, such as `prompt 'mine.jinja'`.
        chat: whether it is a model's chat template, which may use the extensions of transformers:
            `break`, `raise_exception`, `strftime_now`.

    Raises:
        UsageError: the template is not valid Jinja, or exceeds a limit of time, memory or output.
        TrialError: it cannot be rendered with these values; the message has Jinja's reason.
    """
    reply = _ask_worker({"do": "render", "source": source, "values": values, "chat": chat}, name)
    return Rendered(text=reply["text"], exports=reply["exports"])


def names_read(source: str, *, name: str) -> list[str]:
    """Return the sorted names of the variables that a template reads but does not set.

    Raises:
        UsageError: the template is not valid Jinja.
    """
    names: list[str] = _ask_worker({"do": "name", "source": source}, name)["names"]
    return names


def _ask_worker(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    reply = _renderer.ask(request)
    if reply is None:
        raise UsageError(
            f"{name} took more than {SECONDS:g} seconds to render, or crashed the process that "
            "renders it; a prompt should only place texts: shorten its loops"
        )
    match reply.get("error"):
        case "syntax":
            raise UsageError(f"{name} is not a usable Jinja template: {reply['reason']}")
        case "too_large":
            raise UsageError(
                f"{name} makes more than {LARGEST:,} characters, or needs more than "
                f"{MEMORY >> 20:,} MiB; a prompt should only place texts"
            )
        case "values":
            raise TrialError(f"{name} cannot be rendered: {reply['reason']}")
    return reply


class _Renderer:
    """The worker process, started on first use and again after it ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the reply to a request; None if the process was killed or ended itself."""
        request_line = json.dumps(request).encode() + b"\n"
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            timer = Timer(SECONDS, process.kill)
            timer.start()
            try:
                process.stdin.write(request_line)
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:  # a broken pipe; Windows calls it an invalid argument
                line = b""
            except BaseException:
                # After an interrupt the next request would read this one's reply.
                self._end()
                raise
            finally:
                timer.cancel()
            if not line.endswith(b"\n"):
                self._end()
                return None
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            # A Ctrl-C at the terminal does not reach it: a session of its own, on Windows a group.
            start_new_session=True,
            creationflags=NEW_GROUP,
        )
        return self._process

    def close(self) -> None:
        """End the process if it runs."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


_renderer = _Renderer()
atexit.register(_renderer.close)
