"""Examples for few-shot prompts, drawn from a data set."""

from __future__ import annotations

from pathlib import Path

from medstress.core import registry
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.datasets.draw import draw
from medstress.datasets.source import DatasetOptions, Loaded
from medstress.kinds.victim_keys import VictimKeys
from medstress.tasks.few_shot import SPARE


def draw_examples(table: VictimKeys, base: Path, label: str) -> tuple[Question, ...]:
    """Draw a victim's examples, and two more in case the item is among them.

    Questions of the same text are drawn once.

    Raises:
        UsageError: `shots` without `shots_from` or the other way round, or too few questions.
    """
    given = table.shots_from
    if not table.shots and given is None:
        return ()
    if not table.shots or given is None:
        lacks, has = ("shots", "shots_from") if given else ("shots_from", "shots")
        raise UsageError(f"victim {label!r}: {has} is set and {lacks} is not: give both or neither")
    distinct: dict[str, Question] = {}
    for question in _load(given, base, label):
        distinct.setdefault(question.question, question)
    wanted = table.shots + SPARE
    if len(distinct) < wanted:
        raise UsageError(
            f"victim {label!r}: shots = {table.shots} needs {wanted} different questions, two of "
            f"them in reserve, and shots_from = {given!r} holds {len(distinct)}"
        )
    return draw(tuple(distinct.values()), wanted, table.shots_seed)


def _load(given: str, base: Path, label: str) -> tuple[Question, ...]:
    name, colon, place = given.partition(":")
    if not colon:
        ending = {".jsonl": "jsonl", ".parquet": "parquet"}.get(Path(given).suffix)
        name, place = (ending, given) if ending else (given, "")
    if name not in registry.installed("datasets"):
        raise UsageError(
            f"victim {label!r}: shots_from = {given!r}: expected 'sample', a .jsonl or .parquet "
            "file, or a data set and its file such as 'medqa:train.jsonl'"
        )
    path = base / Path(place).expanduser() if place else None
    loaded: Loaded = registry.load("datasets", name)(DatasetOptions(path=path))
    return loaded.questions
