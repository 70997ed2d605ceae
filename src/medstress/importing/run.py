"""Make a run of logs: the engine asks, and every answer is one that the log holds.

The folder is an ordinary run. Its verdicts come from the referee, from the log's answers; nothing
is asked of a model, so every query counts as cached and none as paid. The manifest says where the
answers come from, and what nobody here can know: that the model gave them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from medstress.attacks.unasked import NAME as UNASKED
from medstress.core.attack_sets import NAME
from medstress.core.calls import Answer, Chosen, ModelIdentity
from medstress.core.errors import StoreError, UsageError
from medstress.core.items import Candidate
from medstress.experiment.plan.plan import Portion, Prepared
from medstress.files.reading import parse_toml, read_text
from medstress.files.writing import make_folder, write_text
from medstress.importing import inspect_logs, lm_eval
from medstress.importing.log import Log, LogOptions, Read
from medstress.importing.pairing import Joined, file_of, join
from medstress.results.imported import KEY
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher, prepare
from medstress.running.run import run_prepared
from medstress.store.run_store import FILE
from medstress.store.shared_cache import SharedCache
from medstress.summary.kept import keep_summary

ITEMS = "imported.jsonl"
"""The questions of the log, with their perturbed forms, in the run folder."""
_TABLES = ("require", "slices")
"""What a file of the user's adds."""


_READERS: tuple[tuple[Callable[[Path], bool], Read, tuple[str, ...]], ...] = (
    (lm_eval.is_one, lm_eval.read, ("scorer", "epoch")),
    (inspect_logs.is_one, inspect_logs.read, ("filter",)),
)
"""Recognises a file, reads it, and which options mean nothing to it."""


class LoggedAnswers:
    """Answers of a log, where a run looks for those of other runs."""

    def __init__(self, answers: Mapping[bytes, Answer]) -> None:
        self._answers = answers

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the logged answers to these calls."""
        return {key: self._answers[key] for key in keys if key in self._answers}

    def keep(self, model: ModelIdentity, answers: Mapping[bytes, Answer], seconds: float) -> None:
        """Keep nothing: no model is asked."""

    def missing(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return nothing: all that can be known is known."""
        return []

    def flush(self) -> None:
        """Do nothing."""


def read_log(path: Path, options: LogOptions) -> Log:
    """Read a log of any known tool.

    Raises:
        UsageError: there is no such file, or an ending of none of them.
        DataError: see the readers.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no file"
        raise UsageError(
            f"{path}: expected a log, got {what}; give samples_TASK_TIME.jsonl of "
            "lm-evaluation-harness, or a .eval or .json of inspect_ai"
        )
    for is_one, read, unread in _READERS:
        if is_one(path):
            if given := [name for name in unread if getattr(options, name) is not None]:
                raise UsageError(f"--{given[0]} does not apply to {path}: it is of another tool")
            return read(path, options)
    raise UsageError(
        f"{path}: expected samples_TASK_TIME.jsonl of lm-evaluation-harness, or a .eval or .json "
        "of inspect_ai"
    )


def import_logs(
    clean: Path,
    out: Path,
    *,
    perturbed: Sequence[Path] = (),
    options: LogOptions | None = None,
    victim: str | None = None,
    experiment: Path | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Make a run folder of a log, and of logs of the same questions with changes.

    Args:
        clean: the log whose answers stand for those before an attack.
        out: the run folder.
        perturbed: logs of the same model on perturbed questions; each is an attack.
        options: which answers of a log are read.
        victim: the victim's name in results; default: the model's in the log.
        experiment: a TOML file whose `[[require]]` and `[slices]` are used.

    Returns:
        The folder, and what the manifest says of the logs.

    Raises:
        UsageError, DataError, StoreError: one sentence.
    """
    chosen = options or LogOptions()
    if (out / FILE).exists():
        raise StoreError(f"{out} holds a run already; choose another folder with --out")
    log = read_log(clean, chosen)
    others = [read_log(path, chosen) for path in perturbed]
    joined = join(log, others)
    more = _tables(experiment) if experiment else {}
    source, lines = file_of(log, joined)
    make_folder(out)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_text(out / ITEMS, text)
    told = {
        "tool": log.tool,
        "version": log.version,
        "logs": [each.as_json() for each in (log, *others)],
        "notes": joined.notes,
        "asked_here": 0,
    }
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", log.task).lstrip("._-") or "log"
    arms = lines[0]["arms"] if source == NAME else ()
    # Those of the logs; nobody can be asked others.
    controls = sorted({arm["control"] for arm in arms} - {None}) or False
    attack = {"name": NAME, "stored_controls": True} if arms else {"name": UNASKED}
    tables = {
        "experiment": {"name": name, "seeds": [0], "controls": controls, "flip_check": False},
        "dataset": {"name": source, "path": str(out / ITEMS), "label": name},
        "victim": {
            "name": victim or log.model,
            "backend": "recorded",
            "model": log.model,
            "prompt": "logged",
        },
        "attack": attack,
        **more,
    }
    try:
        _run(tables, out, joined, told)
    finally:
        if not (out / FILE).exists():  # refused before its first trial
            (out / ITEMS).unlink()
            with suppress(OSError):  # it was there before, or holds other files
                out.rmdir()
    keep_summary(out)
    return out, told


def _run(tables: Mapping[str, Any], out: Path, joined: Joined, told: dict[str, Any]) -> None:
    watcher = Watcher()
    prepared = prepare(tables, watcher=watcher)
    hashes = [each["hash"] for each in told["logs"]]
    prepared.portion = Portion(settings={KEY: hashes}, notes={KEY: told})
    with opened_victims(prepared, watcher.note):
        known = cast("SharedCache", LoggedAnswers(_by_key(prepared, joined.answers)))
        run_prepared(prepared, out, watcher=watcher, known=known)


def _by_key(prepared: Prepared, answers: Iterable[tuple[Candidate, Chosen]]) -> dict[bytes, Answer]:
    """Return the answers by the key of the call that asks for them."""
    (victim,), (part,) = prepared.victims, prepared.datasets
    own = victim.on(part.label)
    items = {item.id: item for item in part.questions}
    found: dict[bytes, Answer] = {}
    for candidate, answer in answers:
        item = items[candidate.item.id]
        (request,) = next(own.flow(Candidate(item=item, edits=candidate.edits)))
        found.setdefault(request.key(own.backend.identity), answer)
    return found


def _tables(path: Path) -> dict[str, Any]:
    """Return the tables of a user's file that concern what is read of a run.

    Raises:
        UsageError: it has none of them.
    """
    given = parse_toml(read_text(path), str(path))
    found = {name: given[name] for name in _TABLES if name in given}
    if not found:
        raise UsageError(
            f"{path}: expected [[require]] or [slices], which are what a log can be judged by, got "
            f"{', '.join(given) or 'nothing'}"
        )
    return found
