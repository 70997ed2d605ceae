"""Logs of inspect_ai: `.eval` (a zip of JSON) and `.json`, format 2.

A sample holds `input`, `choices`, `target` (a letter), and `scores` by scorer, each with `value`
("C" right, "I" wrong, "N" no answer, or 1 and 0) and `answer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from medstress.core.errors import DataError, UsageError
from medstress.core.hashing import content_hash, file_hash
from medstress.core.items import Question
from medstress.datasets.rows import question_from_row
from medstress.files.reading import check_json, read_json
from medstress.files.zstd_zip import BAD_ZIP, read_member
from medstress.importing.log import (
    Log,
    LoggedItem,
    LogOptions,
    at,
    judged_answer,
    name_in,
)

TOOL = "inspect_ai"
FORMAT = 2
_RIGHT, _WRONG = ("C", 1, True), ("I", "N", 0, False)
_FORMS = {"scores": dict, "metadata": dict, "epoch": int}
_GIVE = "give a .eval or .json of inspect_ai, or samples_TASK_TIME.jsonl of lm-evaluation-harness"
_AGAIN = "write the log again with a current inspect_ai, or inspect log convert"


def is_one(path: Path) -> bool:
    """Return whether a file looks like a log of inspect_ai."""
    return path.suffix in (".eval", ".json")


def read(path: Path, options: LogOptions) -> Log:
    """Read one log.

    Raises:
        UsageError: several scorers or epochs and none is named.
        DataError: another tool's or version's log, samples without options, or a score that is
            neither right nor wrong.
    """
    head, samples = _of_zip(path) if path.suffix == ".eval" else _of_json(path)
    _check(path, head, samples)
    lost = sum(bool(sample.get("error")) for sample in samples)
    kept = _of_epoch(path, [s for s in samples if not s.get("error")], options.epoch)
    if not kept:
        raise DataError(f"{path}: expected samples with answers, got none; nothing can be read")
    scorer = _scorer(path, kept, options.scorer)
    about = head["eval"]
    notes = [f"samples that ended in an error and are left out: {lost}"] if lost else []
    return Log(
        path=path,
        hash=file_hash(path),
        tool=TOOL,
        version=_version(about.get("packages")),
        task=str(about.get("task") or path.stem),
        model=str(about.get("model") or TOOL),
        items=[_item(path, sample, scorer) for sample in kept],
        notes=(f"answers as the scorer {scorer!r} judged them", *notes),
        gaps=tuple(_gaps(path, head, samples)),
    )


def _version(packages: Any) -> str | None:
    found = packages.get(TOOL) if isinstance(packages, dict) else None
    return None if found is None else str(found)


def _gaps(path: Path, head: Mapping[str, Any], samples: Sequence[Any]) -> Iterator[str]:
    """Yield a sentence on an evaluation that did not come to its end."""
    status = head.get("status")
    if status in (None, "success"):
        return
    dataset = head["eval"].get("dataset")
    planned = dataset.get("samples") if isinstance(dataset, dict) else None
    names = {name_in(sample.get("id")) for sample in samples}
    of = f" of {planned}" if isinstance(planned, int) else ""
    yield (
        f"{path.name}: the evaluation did not come to its end (status {str(status)!r}): it holds "
        f"{len(names)}{of} samples, and which are missing may depend on their answers"
    )


def _of_json(path: Path) -> tuple[Any, list[Any]]:
    found = read_json(path, f"a log of {TOOL}")
    if isinstance(found, dict) and "lm_eval_version" in found:
        raise DataError(
            f"{path}: these are the results of lm-evaluation-harness, which hold no answers; give "
            "the samples_TASK_TIME.jsonl that --log_samples writes beside them"
        )
    samples = found.get("samples") if isinstance(found, dict) else None
    return found, samples if isinstance(samples, list) else []


def _of_zip(path: Path) -> tuple[Any, list[Any]]:
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
            if "header.json" not in names:
                raise DataError(
                    f"{path}: expected header.json in the log of {TOOL}, got none: it was not "
                    f"finished, or is of another version; {_AGAIN}"
                )
            head = _member(path, archive, "header.json")
            inside = [each for each in names if each.startswith("samples/")]
            samples = [_member(path, archive, each) for each in inside]
    except BAD_ZIP as error:
        raise DataError(f"{path}: expected a log of {TOOL}, got no zip: {error}") from error
    return head, samples


def _member(path: Path, archive: ZipFile, name: str) -> Any:
    try:
        return check_json(json.loads(read_member(path, archive, name)))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {name}: expected JSON, got {error}") from error


def _check(path: Path, head: Any, samples: Sequence[Any]) -> None:
    if not isinstance(head, dict) or "version" not in head:
        raise DataError(
            f"{path}: expected a log of {TOOL}, got JSON without its field 'version'; {_GIVE}"
        )
    if head["version"] != FORMAT:
        found = head["version"]
        is_newer = type(found) is int and found > FORMAT
        todo = "this medstress reads no newer one: update it" if is_newer else _AGAIN
        raise DataError(
            f"{path}: expected a log of {TOOL} in format {FORMAT}, got {found!r}; {todo}"
        )
    if not isinstance(head.get("eval"), dict):
        raise DataError(
            f"{path}: field 'eval': expected what was evaluated (task, model), got "
            f"{type(head.get('eval')).__name__}; {_AGAIN}"
        )
    if not samples:
        raise DataError(
            f"{path}: expected samples, got none; run the task again with --log-samples"
        )
    for number, sample in enumerate(samples, 1):
        odd = [] if isinstance(sample, dict) else ["sample"]
        odd += [name for name, kind in _FORMS.items() if odd == [] and _is_odd(sample, name, kind)]
        if odd:
            raise DataError(
                f"{path}, sample {number}: expected the fields of format {FORMAT}, got {odd[0]!r} "
                f"of another form; {_AGAIN}"
            )


def _is_odd(sample: Mapping[str, Any], name: str, kind: type) -> bool:
    return sample.get(name) is not None and not isinstance(sample[name], kind)


def _epoch(sample: Mapping[str, Any]) -> int:
    return sample.get("epoch") or 1


def _of_epoch(path: Path, samples: Sequence[Any], wanted: int | None) -> list[Any]:
    epochs = sorted({_epoch(sample) for sample in samples})
    if wanted is None and len(epochs) > 1:
        raise UsageError(
            f"{path}: it holds {len(epochs)} epochs; a run holds one answer to each question, so "
            f"name one with --epoch {epochs[0]}"
        )
    if wanted is not None and wanted not in epochs:
        raise UsageError(f"--epoch {wanted}: {path} has {', '.join(map(str, epochs))}")
    chosen = wanted or (epochs[0] if epochs else 1)
    return [sample for sample in samples if _epoch(sample) == chosen]


def _scorer(path: Path, samples: Sequence[Any], wanted: str | None) -> str:
    names = list(dict.fromkeys(name for s in samples for name in s.get("scores") or {}))
    if not names:
        raise DataError(f"{path}: expected scores, got none; run inspect score first")
    if wanted is not None and wanted not in names:
        raise UsageError(f"--scorer {wanted}: {path} has {', '.join(names)}")
    if wanted is None and len(names) > 1:
        raise UsageError(
            f"{path}: several scorers judged it; name one with --scorer {' or '.join(names)}"
        )
    return wanted or names[0]


def _item(path: Path, sample: Mapping[str, Any], scorer: str) -> LoggedItem:
    place = f"sample {sample.get('id')!r}"
    try:
        question = _question(sample)
        score = (sample.get("scores") or {}).get(scorer)
        if not isinstance(score, dict):
            raise DataError(f"expected a score of {scorer!r}, got none")
        value = score.get("value")
        if value not in (*_RIGHT, *_WRONG):
            raise DataError(
                f"expected a score that says right (C, 1) or wrong (I, 0), got {value!r}"
            )
        is_right = value in _RIGHT
        # `N`: the scorer found no answer, whatever letters stand there.
        given = None if value == "N" else score.get("answer")
        answer = judged_answer(question, given, is_right=is_right)
    except DataError as error:
        raise at(path, place, error) from error
    metadata = sample.get("metadata") or {}
    pairs = str(name_in(metadata.get("original_id"), sample.get("id")))
    return LoggedItem(question=question, pairs_with=pairs, answer=answer, is_right=is_right)


def _question(sample: Mapping[str, Any]) -> Question:
    choices, target = sample.get("choices"), sample.get("target")
    if not isinstance(choices, list) or len(choices) < 2:
        raise DataError(
            "field 'choices': expected the options of a multiple-choice sample, got none"
        )
    key = target[0] if isinstance(target, list) and len(target) == 1 else target
    if not isinstance(key, str):
        raise DataError(f"field 'target': expected one letter, got {target!r}")
    metadata = sample.get("metadata") or {}
    own = {k: v for k, v in metadata.items() if k not in ("id", "options", "answer_idx", "answer")}
    text = "\n".join(_texts(sample.get("input")))
    row = {
        **{k: v for k, v in own.items() if k not in ("question", "context", "stem", "passage")},
        "id": name_in(sample.get("id"), content_hash([text, choices])[-12:]),
        **_split(text, own),
        "options": choices,
        "answer_idx": key.strip(),
    }
    return question_from_row(row)


def _split(text: str, metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return context and stem as the metadata has them, if they join to the text."""
    context, stem = metadata.get("context"), metadata.get("stem")
    if isinstance(stem, str) and text == (f"{context} {stem}" if context else stem):
        return {"context": str(context or ""), "stem": stem}
    return {"question": text}


def _texts(given: Any) -> Iterator[str]:
    """Yield what the user says in an input: a text, or messages."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, list):
        for message in given:
            if isinstance(message, dict) and message.get("role") == "user":
                content = message.get("content")
                parts = content if isinstance(content, list) else [{"text": content}]
                yield from (str(p["text"]) for p in parts if isinstance(p, dict) and "text" in p)
