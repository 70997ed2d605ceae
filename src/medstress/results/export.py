"""Export the tables of a run as JSONL, CSV or parquet.

The tables: trials, items, exchanges, reviews, explanations, attacked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from io import BytesIO, TextIOWrapper
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from medstress.core.attacked import NAME
from medstress.core.calls import Compared, Generated, Tagged
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.core.outcomes import Verdict
from medstress.core.rows import NOT_SHOWN
from medstress.files.spreadsheets import Writer
from medstress.files.writing import atomic_stream, write_bytes
from medstress.results.attacked import attacked_rows
from medstress.results.column_types import typed, types_of
from medstress.results.explanations import explanation_records
from medstress.results.load import StoredRun, reviews_of
from medstress.results.queries import Probes
from medstress.results.root import UNVERIFIED
from medstress.results.rows import trial_rows
from medstress.results.stored_prompts import Prompts
from medstress.store.codec import decode_answer, decode_edits
from medstress.store.reader import RunReader, StoredExchange
from medstress.store.reviews import JUDGEMENTS

if TYPE_CHECKING:
    from polars import DataFrame

FORMATS = ("jsonl", "csv", "parquet")

Row = dict[str, Any]


def _edit_objects(text: str) -> list[Row]:
    return [asdict(edit) for edit in decode_edits(text)]


def _scores(text: str) -> list[float | None]:
    """Parse scores; those that are not finite become null, because JSON cannot hold them."""
    return [value if isfinite(value) else None for value in json.loads(text)]


_PARSED: dict[str, Callable[[str], Any]] = {
    "attack_spec": json.loads,
    "edits": _edit_objects,
    "first_success_edits": _edit_objects,
    "continuations": json.loads,
    "scores": _scores,
    "evidence": json.loads,
    "first_success_evidence": json.loads,
    "values": json.loads,
}
"""Columns that are objects or arrays in JSONL and parquet, and JSON text in CSV."""
_MIXED = ("prompt_before", "prompt_after")
"""Columns that hold texts or lists of turns; in formats with typed columns, turns are JSON text."""


def export(run: StoredRun, table: str, to: Path) -> int:
    """Write one table of a run.

    Returns:
        The number of rows.

    Raises:
        UsageError: an unknown table or ending, a file that the run reads, or a path that cannot be
            written.
    """
    form = to.suffix.removeprefix(".")
    if form not in FORMATS:
        raise UsageError(f"--to {to}: the name must end in .jsonl, .csv or .parquet")
    rows = _rows(run, table)
    config, base = run.manifest["config"], Path(run.manifest["base"])
    named = [text for text in _texts(config) if text.endswith(to.suffix)]
    folders = [table["path"] for table in config["dataset"] if "path" in table]
    refuse_inputs(to, [base / Path(text).expanduser() for text in (*named, *folders)])
    try:
        if form == "parquet":
            return _write_parquet(rows, to, table)
        with atomic_stream(to) as file, TextIOWrapper(file, "utf-8", newline="") as stream:
            return (_write_jsonl if form == "jsonl" else _write_csv)(rows, stream)
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror}; give another --to") from error


def refuse_inputs(to: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over data that are read.

    Args:
        to: the file to write.
        inputs: files, and folders whose files are all data.

    Raises:
        UsageError: `to` is one of the files, or is already in one of the folders.
    """
    for path in inputs:
        if to.resolve() == path.resolve():
            raise UsageError(f"--to {to}: this is also an input file; give another name")
        if to.exists() and path.is_dir() and to.resolve().is_relative_to(path.resolve()):
            raise UsageError(f"--to {to}: {path} is a folder of input files; give another name")


def _texts(tables: Any) -> Iterator[str]:
    """Yield all texts in the tables of an experiment."""
    if isinstance(tables, str):
        yield tables
    elif isinstance(tables, dict | list):
        for value in tables.values() if isinstance(tables, dict) else tables:
            yield from _texts(value)


def table_frame(run: StoredRun, table: str) -> DataFrame:
    """Return one table of a run as a data frame.

    Raises:
        UsageError: an unknown table.
    """
    return typed(frame_of(_rows(run, table)), types_of(table))


def _rows(run: StoredRun, table: str) -> Iterable[Row]:
    """Return the rows of a table; those of a run in doubt say so in a column of their own."""
    if table not in TABLES:
        hint = did_you_mean(table, TABLES)
        raise UsageError(f"unknown table {table!r}{hint} (known: {', '.join(TABLES)})")
    rows = TABLES[table](run)
    return (row | {UNVERIFIED: run.doubt} for row in rows) if run.doubt else rows


def item_rows(reader: RunReader) -> Iterator[Row]:
    """Yield the items of a run."""
    for dataset, item in reader.items().values():
        yield {
            "dataset": dataset,
            "item_id": item.id,
            "item_hash": item.hash,
            **_as_text(item.columns()),
            "metadata": json.dumps(dict(item.metadata), ensure_ascii=False),
        }


def _as_text(columns: Row) -> Row:
    """Return columns with objects and arrays as JSON text."""
    return {
        name: json.dumps(value) if isinstance(value, dict | list) else value
        for name, value in columns.items()
    }


def exchange_rows(reader: RunReader) -> Iterator[Row]:
    """Yield the calls of a run, with prompts derived from item, edits and template."""
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
    """Yield the finished trials of a run."""
    for row in trial_rows(run):
        trial = {**asdict(row), "verdict": row.verdict.value}
        if row.verdict is Verdict.FLIPPED:
            for kind in ("prompt", "listing"):
                if trial[f"{kind}_after"] is None:
                    trial |= {f"{kind}_before": NOT_SHOWN, f"{kind}_after": NOT_SHOWN}
        yield trial


def review_rows(run: StoredRun) -> Iterator[dict[str, Any]]:
    """Yield the reviews of a run: of a planted control without a trial.

    Judgements have columns; `answers` holds what was answered in the mode `answer`.
    """
    for review in run.once(reviews_of):
        others = {name: word for name, word in review.answers.items() if name not in JUDGEMENTS}
        yield {
            "trial_id": review.trial_id,
            "reviewer": review.reviewer,
            "answers": json.dumps(others, ensure_ascii=False),
            "note": review.note,
            "time": review.time,
            **{name: review.answers.get(name) for name in JUDGEMENTS},
            "role": review.role,
            "case_id": review.case_id,
            "control": review.control,
            "control_of": review.control_of,
        }


TABLES: dict[str, Callable[[StoredRun], Iterable[Row]]] = {
    "trials": trial_dicts,
    "items": item_rows,
    "exchanges": exchange_rows,
    "reviews": review_rows,
    "explanations": explanation_records,
    NAME: attacked_rows,
}


def _call(
    row: StoredExchange, dataset: str, item: Any, edits: str | None, prompts: Prompts
) -> list[Any] | None:
    """Return the canonical form of a call: its kind, its prompt, and what else defines it."""
    if row.request is not None:
        canonical: list[Any] = json.loads(row.request)
        return canonical
    if row.call is None:
        return None  # computed ahead and never used: its candidate is not stored
    candidate = item.candidate(decode_edits(edits) if edits else ())
    call = prompts.call(row.victim, dataset, candidate, row.call)
    return None if call is None else call.canonical()


def _text(prompt: str | Iterable[Any]) -> str:
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def _answer(row: StoredExchange) -> tuple[str | None, str | None, str | None, str | None]:
    """Return text, scores, the reason a text ended, and the model's separate reasoning."""
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


def _parsed(row: Row) -> Row:
    return {
        name: _PARSED[name](value) if value is not None and name in _PARSED else value
        for name, value in row.items()
    }


def _write_jsonl(rows: Iterable[Row], stream: IO[str]) -> int:
    n = 0
    for row in rows:
        stream.write(json.dumps(_parsed(row), ensure_ascii=False) + "\n")
        n += 1
    return n


def _write_csv(rows: Iterable[Row], stream: IO[str]) -> int:
    n, writer = 0, None
    for row in rows:
        if writer is None:
            writer = Writer(stream, row)
        row = _with_text_prompts(row)
        writer.write({k: _text(v) if isinstance(v, list) else v for k, v in row.items()})
        n += 1
    return n


def _write_parquet(rows: Iterable[Row], to: Path, table: str) -> int:
    frame = typed(frame_of(rows), types_of(table))
    write_frame(frame, to)
    return frame.height


def frame_of(rows: Iterable[Row]) -> DataFrame:
    """Return rows as a data frame.

    A column has one type: a parameter of attacks with values of several types, such as
    `max_edit_distance`, becomes JSON text. A parameter that an attack lacks is null.
    """
    import polars

    parsed = [_parsed(_with_text_prompts(row)) for row in rows]
    specs = [row["attack_spec"] for row in parsed if "attack_spec" in row]
    names = dict.fromkeys(name for spec in specs for name in spec)
    mixed = [name for name in names if not _has_one_type([spec.get(name) for spec in specs])]
    for spec in specs:
        spec |= {name: json.dumps(spec[name]) for name in mixed if spec.get(name) is not None}
    return polars.DataFrame(parsed, infer_schema_length=None)


def plain_frame(rows: Sequence[Row]) -> DataFrame:
    """Return rows of single values as a data frame; a column of several types becomes text."""
    import polars

    names = list(rows[0]) if rows else []
    mixed = [name for name in names if not _has_one_type([row[name] for row in rows])]
    told = [row | {name: str(row[name]) for name in mixed if row[name] is not None} for row in rows]
    return polars.DataFrame(told, infer_schema_length=None)


def _has_one_type(values: Iterable[Any]) -> bool:
    """True if one column of a data frame can hold these JSON values unchanged."""
    present = [value for value in values if value is not None]
    types = {float if type(value) is int else type(value) for value in present}
    if types == {dict}:
        names = {name for value in present for name in value}
        return bool(names) and all(_has_one_type(v.get(name) for v in present) for name in names)
    if types == {list}:
        return _has_one_type(each for value in present for each in value)
    return len(types) <= 1


def _with_text_prompts(row: Row) -> Row:
    """Return a row whose prompts are texts; lists of turns become JSON."""
    return row | {name: _text(row[name]) for name in _MIXED if isinstance(row.get(name), tuple)}


def write_frame(frame: DataFrame, to: Path) -> None:
    """Write a table as parquet, completely or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    # Written in memory first, because polars raises its own errors on a full disk.
    buffer = BytesIO()
    frame.write_parquet(buffer)
    write_bytes(to, buffer.getbuffer())
