"""Tidy rows of a run: trials, items, exchanges, as JSONL, CSV or parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from io import BytesIO, TextIOWrapper
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from medstress.calls import Compared, Generated, Tagged
from medstress.candidates import candidate_of
from medstress.errors import UsageError, did_you_mean
from medstress.experiment.reviews import review_rows
from medstress.experiment.rows import trial_rows
from medstress.experiment.stored_prompts import Prompts
from medstress.hashing import content_hash
from medstress.outcomes import Verdict
from medstress.results.load import StoredRun
from medstress.rows import NOT_SHOWN
from medstress.sentences import SentencePair, TaggedText
from medstress.spreadsheets import Writer
from medstress.store.codec import decode_answer, decode_edits
from medstress.store.reader import RunReader, StoredExchange
from medstress.writing import atomic_stream, write_bytes

if TYPE_CHECKING:
    from polars import DataFrame

FORMATS = ("jsonl", "csv", "parquet")

Row = dict[str, Any]


def _edit_objects(text: str) -> list[Row]:
    return [asdict(edit) for edit in decode_edits(text)]


def _scores(text: str) -> list[float | None]:
    """Scores without what JSON cannot hold: null is a score that is not finite."""
    return [value if isfinite(value) else None for value in json.loads(text)]


_OPENED: dict[str, Callable[[str], Any]] = {
    "attack_spec": json.loads,
    "edits": _edit_objects,
    "first_success_edits": _edit_objects,
    "continuations": json.loads,
    "scores": _scores,
}
"""Columns that are objects and arrays wherever the format has such, and JSON text in CSV."""
_MIXED = ("prompt_before", "prompt_after")
"""Columns that hold texts, and lists of turns where a victim was asked in turns: JSON text where
a column has one type."""


def export(run: StoredRun, table: str, to: Path) -> int:
    """Write one table of a run.

    Returns:
        The number of rows.

    Raises:
        UsageError: an unknown table or ending, or a path that cannot be written.
    """
    if table not in TABLES:
        hint = did_you_mean(table, TABLES)
        raise UsageError(f"unknown table {table!r}{hint} (known: {', '.join(TABLES)})")
    form = to.suffix.removeprefix(".")
    if form not in FORMATS:
        raise UsageError(f"--to {to}: the name must end in .jsonl, .csv or .parquet")
    rows = TABLES[table](run)
    try:
        if form == "parquet":
            return _write_parquet(rows, to)
        with atomic_stream(to) as file, TextIOWrapper(file, "utf-8", newline="") as stream:
            return (_write_jsonl if form == "jsonl" else _write_csv)(rows, stream)
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror}; give another --to") from error


def item_rows(reader: RunReader) -> Iterator[Row]:
    """The items of a run."""
    for dataset, item in reader.items().values():
        yield {
            "dataset": dataset,
            "item_id": item.id,
            "item_hash": item.hash,
            **_content(item),
            "metadata": json.dumps(dict(item.metadata), ensure_ascii=False),
        }


def _content(item: Any) -> Row:
    """What an item says, by its kind."""
    if isinstance(item, TaggedText):
        return {"tokens": json.dumps(item.tokens), "labels": json.dumps(item.labels)}
    if isinstance(item, SentencePair):
        names = ("text_a", "text_b", "score", "low", "high")
        return {name: getattr(item, name) for name in names}
    return {
        "context": item.context,
        "stem": item.stem,
        "options": json.dumps(dict(zip(item.letters, item.options, strict=True))),
        "key": item.key,
        "mentions": json.dumps([[m.field, m.start, m.end, m.type] for m in item.mentions]),
    }


class Probes:
    """Which queries were asked to learn something, such as which span matters.

    A trial notes them when it ends. Of one that has not ended, or ended in an earlier version,
    those of the shipped attacks are known by what they ask: they delete a span.
    """

    def __init__(self, reader: RunReader) -> None:
        self._noted: set[tuple[int, int]] = set()
        self._deletes: set[int] = set()
        for trial, text, noted in reader.probes():
            self._noted.update((trial, query) for query in noted or ())
            spec = json.loads(text)
            if spec.get("victim_span") == "saliency" or spec.get("word_ranking") == "importance":
                self._deletes.add(trial)

    def holds(self, row: StoredExchange, edits: str | None) -> bool:
        """Whether a call is of a probe; `edits` are its query's."""
        if row.purpose != "attack" or row.role != "victim" or row.query is None:
            return False
        if row.trial in self._deletes and edits is not None:
            return not any(edit.replacement for edit in decode_edits(edits))
        return (row.trial, row.query) in self._noted


def exchange_rows(reader: RunReader) -> Iterator[Row]:
    """The calls of a run, with prompts derived from item, edits and template."""
    prompts, items, subjects = Prompts(reader.manifest), reader.items(), reader.trials_of_analyses()
    probes = Probes(reader)
    edits: dict[tuple[int, str, int | None], str | None] = {}
    for row in reader.exchanges():
        place = (row.trial, row.purpose, row.query)
        # Only the first call of a query carries its edits.
        edits = {place: edits.get(place, row.edits)}
        call = _call(row, *items[row.item], edits[place], prompts)
        answer, scores, ended, thought = _answer(row)
        yield {
            "trial_id": row.trial_id,
            "about_trial": subjects.get(row.trial_id),
            "role": row.role,
            "purpose": row.purpose,
            "probe": probes.holds(row, edits[place]),
            "query": row.query,
            "call": row.call,
            "prompt_hash": content_hash(call[1]) if call else None,
            "prompt": _text(call[1]) if call else None if row.call is None else NOT_SHOWN,
            "continuations": json.dumps(call[2]) if call and call[0] == "score" else None,
            "answer": answer,
            "scores": scores,
            "finish_reason": ended,
            "reasoning": thought,
            "cached": row.cached,
            "seconds": row.seconds,
            "tokens_in": row.tokens_in,
            "tokens_out": row.tokens_out,
            "error": row.error,
        }


def trial_dicts(run: StoredRun) -> Iterator[Row]:
    """The finished trials of a run."""
    for row in trial_rows(run):
        told = {**asdict(row), "verdict": row.verdict.value}
        if row.verdict is Verdict.FLIPPED:
            for kind in ("prompt", "listing"):
                if told[f"{kind}_after"] is None:
                    told |= {f"{kind}_before": NOT_SHOWN, f"{kind}_after": NOT_SHOWN}
        yield told


TABLES: dict[str, Callable[[StoredRun], Iterator[Row]]] = {
    "trials": trial_dicts,
    "items": item_rows,
    "exchanges": exchange_rows,
    "reviews": review_rows,
}


def _call(
    row: StoredExchange, dataset: str, item: Any, edits: str | None, prompts: Prompts
) -> list[Any] | None:
    """The canonical form of a call: its kind, its prompt, and what else defines it."""
    if row.request is not None:
        told: list[Any] = json.loads(row.request)
        return told
    if row.call is None:
        return None  # computed ahead and never consumed: no query says which candidate it was
    candidate = candidate_of(item, decode_edits(edits) if edits else ())
    call = prompts.call(row.victim, dataset, candidate, row.call)
    return None if call is None else call.canonical()


def _text(prompt: str | Iterable[Any]) -> str:
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def _answer(row: StoredExchange) -> tuple[str | None, str | None, str | None, str | None]:
    """Text, scores, why a text was cut off, and what was thought beside it."""
    if row.answer is None:
        return None, None, None, None
    answer = decode_answer(row.answer, row.tokens_in or 0, row.tokens_out or 0)
    if isinstance(answer, Tagged):
        return " ".join(answer.labels), None, None, None
    if isinstance(answer, Compared):
        return None, json.dumps([answer.score]), None, None
    if isinstance(answer, Generated):
        return answer.text, None, answer.finish_reason, answer.reasoning
    scores = getattr(answer, "log_probs", None) or getattr(answer, "scores", None)
    text = getattr(answer, "answer", None) or getattr(answer, "text", None)
    return text, None if scores is None else json.dumps(list(scores)), None, None


def _opened(row: Row) -> Row:
    return {
        name: _OPENED[name](value) if value is not None and name in _OPENED else value
        for name, value in row.items()
    }


def _write_jsonl(rows: Iterator[Row], stream: IO[str]) -> int:
    n = 0
    for row in rows:
        stream.write(json.dumps(_opened(row), ensure_ascii=False) + "\n")
        n += 1
    return n


def _write_csv(rows: Iterator[Row], stream: IO[str]) -> int:
    n, writer = 0, None
    for row in rows:
        if writer is None:
            writer = Writer(stream, row)
        writer.write(_of_text(row))
        n += 1
    return n


def _write_parquet(rows: Iterator[Row], to: Path) -> int:
    frame = frame_of(rows)
    write_frame(frame, to)
    return frame.height


def frame_of(rows: Iterable[Row]) -> DataFrame:
    """Rows as a data frame.

    A column has one type: a parameter of attacks whose values are of several kinds, such as
    `max_edit_distance`, is JSON text, and one that an attack does not have is null.
    """
    import polars

    opened = [_opened(_of_text(row)) for row in rows]
    specs = [row["attack_spec"] for row in opened if "attack_spec" in row]
    names = dict.fromkeys(name for spec in specs for name in spec)
    mixed = [name for name in names if not _is_of_one_type([spec.get(name) for spec in specs])]
    for spec in specs:
        spec |= {name: json.dumps(spec[name]) for name in mixed if spec.get(name) is not None}
    return polars.DataFrame(opened, infer_schema_length=None)


def _is_of_one_type(values: Iterable[Any]) -> bool:
    """Whether a column of a data frame holds JSON values as they are."""
    known = [value for value in values if value is not None]
    kinds = {float if type(value) is int else type(value) for value in known}
    if kinds == {dict}:
        names = {name for value in known for name in value}
        return bool(names) and all(_is_of_one_type(v.get(name) for v in known) for name in names)
    if kinds == {list}:
        return _is_of_one_type(each for value in known for each in value)
    return len(kinds) <= 1


def _of_text(row: Row) -> Row:
    """A row whose prompts are texts: turns as JSON."""
    return row | {name: _text(row[name]) for name in _MIXED if isinstance(row.get(name), tuple)}


def write_frame(frame: DataFrame, to: Path) -> None:
    """Write a table as parquet, complete or not at all.

    Raises:
        OSError: the disk does not take it.
    """
    # In memory first: on a full disk polars would end with errors of its own.
    held = BytesIO()
    frame.write_parquet(held)
    write_bytes(to, held.getbuffer())
