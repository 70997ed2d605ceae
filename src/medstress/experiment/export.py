"""Tidy rows of a run: trials, items, exchanges, as JSONL, CSV or parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from medstress.calls import Compared, Generated, Tagged
from medstress.candidates import candidate_of
from medstress.errors import UsageError, did_you_mean
from medstress.experiment.reviews import review_rows
from medstress.experiment.rows import Prompts, trial_rows
from medstress.hashing import content_hash
from medstress.outcomes import Verdict
from medstress.results.load import StoredRun
from medstress.rows import NOT_SHOWN
from medstress.sentences import SentencePair, TaggedText
from medstress.spreadsheets import Writer
from medstress.store.codec import decode_answer, decode_edits
from medstress.store.reader import RunReader, StoredExchange
from medstress.writing import replacing, write_bytes

if TYPE_CHECKING:
    from polars import DataFrame

FORMATS = ("jsonl", "csv", "parquet")

Row = dict[str, Any]


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
        with replacing(to) as file, TextIOWrapper(file, "utf-8", newline="") as stream:
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
    prompts, items, subjects = Prompts(reader.manifest), reader.items(), reader.subjects()
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


def _trial_dicts(run: StoredRun) -> Iterator[Row]:
    for row in trial_rows(run):
        told = {**asdict(row), "verdict": row.verdict.value}
        if row.verdict is Verdict.FLIPPED and row.prompt_after is None:
            told |= {"prompt_before": NOT_SHOWN, "prompt_after": NOT_SHOWN}
        yield told


TABLES: dict[str, Callable[[StoredRun], Iterator[Row]]] = {
    "trials": _trial_dicts,
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


def _text(prompt: str | list[Any]) -> str:
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


def _write_jsonl(rows: Iterator[Row], stream: IO[str]) -> int:
    n = 0
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        n += 1
    return n


def _write_csv(rows: Iterator[Row], stream: IO[str]) -> int:
    n, writer = 0, None
    for row in rows:
        if writer is None:
            writer = Writer(stream, row)
        writer.write(row)
        n += 1
    return n


def _write_parquet(rows: Iterator[Row], to: Path) -> int:
    import polars

    frame = polars.DataFrame(list(rows), infer_schema_length=None)
    write_frame(frame, to)
    return frame.height


def write_frame(frame: DataFrame, to: Path) -> None:
    """Write a table as parquet, complete or not at all.

    Raises:
        OSError: the disk does not take it.
    """
    # In memory first: on a full disk polars would end with errors of its own.
    held = BytesIO()
    frame.write_parquet(held)
    write_bytes(to, held.getbuffer())
