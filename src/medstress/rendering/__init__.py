"""Rendering of Jinja templates, bounded in time, memory and output.

A template is a small program, and a sandbox alone does not stop one that never ends or that makes
ten gigabytes of text. So templates run in a process of their own (`worker.py`), in Jinja's
immutable sandbox; one that takes too much ends with that process. Only what asks models or writes
perturbed data renders templates; what reads a run folder never does.
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

from medstress.errors import TrialError, UsageError
from medstress.rendering.worker import LARGEST, MEMORY

SECONDS = 5.0
"""The most that one rendering may take."""
_WORKER = Path(__file__).with_name("worker.py")
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT")
"""Variables of the environment that the process is given: keys are none of its business."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What a template makes of some values."""

    text: str
    """The text, as it comes out."""
    exports: Mapping[str, Any]
    """What the template sets at its top level: texts, numbers and truth values."""


def render(source: str, values: Mapping[str, Any], *, name: str, chat: bool = False) -> Rendered:
    """Render a template.

    Args:
        source: its text.
        values: what it is given, as JSON values.
        name: what it is, for messages: `prompt 'mine.jinja'`.
        chat: whether it is a model's chat template, which may use what transformers gives
            those: `break`, `raise_exception`, `strftime_now`.

    Raises:
        UsageError: it is no Jinja, or it takes more time or memory, or makes more text, than it
            may.
        TrialError: it cannot be rendered with these values; the message carries Jinja's reason.
    """
    reply = _asked({"do": "render", "source": source, "values": values, "chat": chat}, name)
    return Rendered(text=reply["text"], exports=reply["exports"])


def names_read(source: str, *, name: str) -> list[str]:
    """The names that a template reads and does not set, in order.

    Raises:
        UsageError: it is no Jinja.
    """
    found: list[str] = _asked({"do": "name", "source": source}, name)["names"]
    return found


def _asked(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    reply = _renderer.ask(request)
    if reply is None:
        raise UsageError(
            f"{name} took more than {SECONDS:g} seconds to render, or ended the process that "
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
    """The process that renders, started when first needed and again after it was ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The reply to a request; None where the process had to be ended, or ended itself."""
        told = json.dumps(request).encode() + b"\n"
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            timer = Timer(SECONDS, process.kill)
            timer.start()
            try:
                process.stdin.write(told)
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
            except BaseException:
                # An interrupt has come between question and reply: the next one would get this.
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
            start_new_session=True,  # a Ctrl-C at the terminal is not for it
        )
        return self._process

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


_renderer = _Renderer()
atexit.register(_renderer.close)
