"""Per-item results of lm-evaluation-harness 0.4: `samples_TASK_TIME.jsonl` of `--log_samples`.

A row holds the data set's row (`doc`), the prompt and continuations (`arguments`), what the model
gave (`resps`, `filtered_resps`), the `filter` and the metrics. `acc` judges likelihoods of options,
`exact_match` a text; of several filters one is read. Model and version stand in the
`results_TIME.json` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError, UsageError
from medstress.core.hashing import file_hash
from medstress.core.items import Question
from medstress.datasets.questions import read_questions
from medstress.datasets.rows import question_from_row
from medstress.datasets.source import DatasetOptions
from medstress.datasets.tables.objects import jsonl_lines, parse_line
from medstress.datasets.tables.table import Table
from medstress.files.reading import read_json
from medstress.importing.log import (
    Log,
    LoggedItem,
    LogOptions,
    at,
    judged_answer,
    name_in,
    right_or_wrong,
    scored_answer,
)

TOOL = "lm-evaluation-harness"
NEEDED = ("doc_id", "doc", "target", "arguments", "filtered_resps")
_FORMS = {"doc": dict, "arguments": dict, "filtered_resps": list}
_SCORED, _WRITTEN = "acc", "exact_match"
_START = "samples_"

Rows = Sequence[tuple[str, Mapping[str, Any]]]


def is_one(path: Path) -> bool:
    """Return whether a file looks like samples of lm-evaluation-harness."""
    return path.suffix == ".jsonl"


def read(path: Path, options: LogOptions) -> Log:
    """Read the samples of one task.

    Raises:
        UsageError: several filters and none is named, or one that is not there.
        DataError: another tool's or version's file, or a row that cannot be judged.
    """
    rows: Rows = [(place, _parsed(path, place, line)) for place, line in _lines(path)]
    _check(path, rows)
    rows = _of_filter(path, rows, options.filter)
    metric = _metric(path, rows[0][1])
    questions, how = _questions(path, rows, metric)
    items = [
        _item(path, place, row, question, metric)
        for (place, row), question in zip(rows, questions, strict=True)
    ]
    results = _results(path)
    return Log(
        path=path,
        hash=file_hash(path),
        tool=TOOL,
        version=str(results["lm_eval_version"]) if "lm_eval_version" in results else None,
        task=_task(path),
        model=_model(path, results),
        items=items,
        notes=(how,),
    )


def _lines(path: Path) -> Sequence[tuple[str, bytes]]:
    lines = list(jsonl_lines(path))
    if not lines:
        raise DataError(f"{path}: expected samples of {TOOL}, got an empty file")
    return lines


def _parsed(path: Path, place: str, line: bytes) -> Mapping[str, Any]:
    try:
        return parse_line(line)
    except DataError as error:
        raise at(path, place, error) from error


def _check(path: Path, rows: Rows) -> None:
    for place, row in rows:
        lack = [name for name in NEEDED if name not in row]
        odd = [name for name, kind in _FORMS.items() if not isinstance(row.get(name), kind)]
        if lack or odd:
            what = f"none for {_quoted(lack)}" if lack else f"{_quoted(odd)} of another form"
            raise DataError(
                f"{path}, {place}: expected the fields that --log_samples of {TOOL} 0.4.4 and "
                f"later writes, got {what}; run the task again with a current version"
            )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _of_filter(path: Path, rows: Rows, wanted: str | None) -> Rows:
    filters = list(dict.fromkeys(str(row.get("filter", "none")) for _, row in rows))
    if wanted is None and len(filters) > 1:
        raise UsageError(
            f"{path}: its answers were read by several filters; name one with --filter "
            f"{' or '.join(filters)}"
        )
    if wanted is not None and wanted not in filters:
        raise UsageError(f"--filter {wanted}: {path} has {', '.join(filters)}")
    return [pair for pair in rows if str(pair[1].get("filter", "none")) == (wanted or filters[0])]


def _metric(path: Path, row: Mapping[str, Any]) -> str:
    for name in (_SCORED, _WRITTEN):
        if name in row:
            return name
    raise DataError(
        f"{path}: expected the metric {_SCORED!r} (likelihoods of options) or {_WRITTEN!r} (a "
        f"written answer), got {', '.join(map(str, row.get('metrics') or ())) or 'none'}; other "
        "metrics say of no single answer whether it is right"
    )


def _questions(path: Path, rows: Rows, metric: str) -> tuple[Sequence[Question], str]:
    """Return the questions of all rows, and how they were found."""
    docs = tuple((place, dict(row["doc"])) for place, row in rows)
    table = Table(path=path, rows=docs)
    try:
        loaded = read_questions(TOOL, table, DatasetOptions())
    except DataError as error:
        if metric == _WRITTEN:
            raise DataError(f"{path}: field 'doc': {error}") from error
    else:
        if _fits(loaded.questions, rows, metric):
            return loaded.questions, loaded.understood or "questions in the documented format"
    return [_of_prompt(path, *each) for each in rows], (
        "the rows of the data set hold no questions with options: each question is the prompt, "
        "and its options are the continuations"
    )


def _fits(questions: Sequence[Question], rows: Rows, metric: str) -> bool:
    """Return whether the likelihoods of every row are those of the question's options, in order."""
    if metric == _WRITTEN:
        return True
    return all(
        len(row["filtered_resps"]) == len(question.options)
        and _target(row["target"], question.options) in (question.key, _place(question))
        for question, (_, row) in zip(questions, rows, strict=True)
    )


def _place(question: Question) -> int:
    """Return the position of the key, from 0."""
    return question.letters.index(question.key)


def _of_prompt(path: Path, place: str, row: Mapping[str, Any]) -> Question:
    calls = list(row["arguments"].values())
    try:
        options = [str(call["arg_1"]).strip() for call in calls]
        return question_from_row(
            {
                **{key: value for key, value in row["doc"].items() if key not in _TAKEN},
                "id": str(row["doc_id"]),
                "context": "",
                "stem": str(calls[0]["arg_0"]),
                "options": options,
                "answer_idx": _target(row["target"], options),
            }
        )
    except (KeyError, TypeError, IndexError) as error:
        raise at(path, place, DataError(f"field 'arguments': {error!r} is missing")) from error
    except DataError as error:
        raise at(path, place, error) from error


_TAKEN = ("id", "context", "stem", "question", "options", "answer", "answer_idx", "passage")


def _target(target: Any, options: Sequence[str]) -> Any:
    text = str(target).strip()
    if text.isdigit() and int(text) < len(options):
        return int(text)
    return options.index(text) if text in options else text


def _item(
    path: Path, place: str, row: Mapping[str, Any], question: Question, metric: str
) -> LoggedItem:
    doc = row["doc"]
    pairs = name_in(doc.get("original_id"), doc.get("id"), row["doc_id"])
    try:
        is_right = right_or_wrong(metric, row.get(metric))
        if metric == _SCORED:
            logs = [float(each[0]) for each in row["filtered_resps"]]
            answer = scored_answer(question, logs, is_right=is_right)
        else:
            answer = judged_answer(question, _text(row["filtered_resps"]), is_right=is_right)
    except DataError as error:
        raise at(path, place, error) from error
    except (TypeError, ValueError, LookupError) as error:
        told = f"field 'filtered_resps': expected a likelihood for each option, got {error!r}"
        raise at(path, place, DataError(told)) from error
    return LoggedItem(question=question, pairs_with=str(pairs), answer=answer, is_right=is_right)


def _text(given: Any) -> Any:
    while isinstance(given, list) and given:
        given = given[0]
    return given


def _task(path: Path) -> str:
    """Return the task's name; the time stands behind the last underscore."""
    name = path.stem.removeprefix(_START)
    before, _, time = name.rpartition("_")
    return before if before and time[:1].isdigit() else name


def _results(path: Path) -> dict[str, Any]:
    """Return the results written with these samples; empty if they are not beside them."""
    time = path.stem.rpartition("_")[2]
    beside = path.parent / f"results_{time}.json"
    if not beside.is_file():
        return {}
    found = read_json(beside, f"results of {TOOL}")
    return found if isinstance(found, dict) else {}


def _model(path: Path, results: Mapping[str, Any]) -> str:
    given_config = results.get("config")
    config = given_config if isinstance(given_config, dict) else {}
    model, given = config.get("model"), config.get("model_args")
    if isinstance(given, dict):
        given = given.get("pretrained") or given.get("model")
    elif isinstance(given, str):
        pairs = dict(part.split("=", 1) for part in given.split(",") if "=" in part)
        given = pairs.get("pretrained") or pairs.get("model")
    return str(given or model or results.get("model_name") or path.parent.name or TOOL)
