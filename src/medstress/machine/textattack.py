"""Use TextAttack without what it fetches at its first import, and without its lines on stderr."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from medstress.files.damaged import FAULTS
from medstress.files.extras import import_fault, not_there

_MARK = "post_install_check_*"
"""Files by which TextAttack remembers that it has fetched its data."""
_FETCHERS = ("stanza",)
"""Packages that it would fetch models with, were they installed."""


def check_textattack() -> None:
    """Raise if TextAttack is not installed.

    Raises:
        UsageError: it is not.
    """
    if "textattack" not in sys.modules and find_spec("textattack") is None:
        raise not_there("TextAttack", "textattack", "textattack")


def import_textattack(name: str) -> Any:
    """Return a module of TextAttack, such as `textattack.attack_recipes`.

    Its first import of all downloads word lists of nltk and marks that it has. Here it downloads
    nothing, and does not mark it, so that it does so when the user imports it elsewhere. The stop
    words that it reads from them are those shipped with medstress.

    Raises:
        UsageError: it is not installed, or something that it needs is missing.
    """
    check_textattack()
    if name in sys.modules:
        return sys.modules[name]
    try:
        with offline():
            return import_module(name)
    except FAULTS as error:
        raise import_fault("TextAttack", "textattack", error) from error
    finally:
        logging.getLogger("textattack").setLevel(logging.ERROR)


@contextmanager
def offline() -> Iterator[None]:
    """Let TextAttack download nothing, and find the stop words shipped with medstress."""
    import nltk

    folder = Path(os.environ.get("TA_CACHE_DIR") or Path.home() / ".cache" / "textattack")
    before = set(folder.glob(_MARK))
    download, kept = nltk.download, {name: sys.modules.get(name) for name in _FETCHERS}
    stop_words, nltk.corpus.stopwords = nltk.corpus.stopwords, SimpleNamespace(words=_stop_words)
    nltk.download = lambda *_, **__: False
    absent: Any = None
    sys.modules.update(dict.fromkeys(_FETCHERS, absent))
    # Its own lines on stderr speak of downloads that are not made.
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        nltk.download, nltk.corpus.stopwords = download, stop_words
        for name, module in kept.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
        for mark in set(folder.glob(_MARK)) - before:
            if mark.suffix != ".lock":
                mark.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _stop_words(*_: str) -> tuple[str, ...]:
    shipped = files("medstress") / "entities" / "data" / "stop_words.txt"
    return tuple(shipped.read_text("utf-8").split())
