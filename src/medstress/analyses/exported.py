"""Tidy rows of a run, for other programs: trials, exchanges, items, reviews, attacked items.

Objects and arrays are such in JSONL and Parquet, and JSON text in CSV.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import orjson

from medstress.analyses.comparable import entries_of
from medstress.analyses.run import Run
from medstress.core.arms import CONTROLS
from medstress.core.attacked import FIELD, FORMAT, HEAD, NAME
from medstress.core.calls import Compare, Compared, Generated, Prompt, Scored, Tagged
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.frames import Type, Types, check_ending, frame_of, refuse_inputs, write_rows
from medstress.core.hashing import content_hash
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.sentences import TaggedText
from medstress.core.text import Edit, edit_distance, edits_of
from medstress.core.trials import Answer, Trial
from medstress.store.codec import decode_answer
from medstress.store.prompts import NOT_SHOWN, Prompts, Shown, ShownPrompts
from medstress.store.reader import RunReader, StoredExchange, read
from medstress.store.reviews import JUDGEMENTS
from medstress.version import __version__

if TYPE_CHECKING:
    from polars import DataFrame

    from medstress.attacks.protocol import Attack

Row: TypeAlias = Mapping[str, Any]
R = TypeVar("R")
_LOST = (Verdict.FAILED, Verdict.CUT_SHORT)
_COUNTED = ("asked", "paid", "cached", "failed", "unreadable", "rejected")
_BY_ANSWERS = ("discrete_zoo", "medfuzz")
"""Attacks whose first edit follows from answers of the victim."""

EDIT: Types = {"field": str, "start": int, "end": int, "replacement": str}
MENTION: Types = {"field": str, "start": int, "end": int, "type": str}
EVIDENCE: Types = {"kind": str, "source": str, "valid": bool}
COLUMNS: Mapping[str, tuple[Type, str]] = {
    "trial_id": (str, "content hash of what the trial is"),
    "dataset": (str, "label of the data set"),
    "group": (str, "label of the entity group"),
    "item_id": (str, "the item's id in its data set"),
    "item_hash": (str, "content hash of the item"),
    "unit": (str, "`item`, or the entity: first token, one past the last, type"),
    "cluster": (
        str,
        "the document; one for pairs that share a sentence or a repeated question; else the item",
    ),
    "victim": (str, "label of the model"),
    "attack": (str, "label of the attack; of a control `attack / control`"),
    "attack_spec": (None, "its parameters"),
    "arm": (str, "`attack`, or the name of a control"),
    "control_of": (str, "label of the attack that a control belongs to"),
    "seed": (int, "null for an attack without random numbers, which runs once"),
    "repeat": (int, "0 unless the attack runs several times on each item"),
    "verdict": (str, "how the trial ended"),
    "key": (str, "the right answer: a letter, a label, the type of an entity, a score"),
    "answer_before": (str, "the model's letter or label on the clean item"),
    "answer_after": (str, "its answer after `edits`"),
    "score_before": (float, "P(right answer) on the clean item; the similarity of a pair"),
    "score_after": (float, "the same after `edits`"),
    "n_asked": (int, "perturbed queries: paid + cached + failed"),
    "n_paid": (int, "those that caused at least one computed call"),
    "n_cached": (int, "those answered by calls that another query had paid for"),
    "n_failed": (int, "those not answered"),
    "n_unreadable": (int, "those answered unreadably"),
    "n_rejected": (int, "attempts that gates or repeats took away, so that they were not asked"),
    "first_success": (int, "the first query that succeeded, from 1, which every rate counts"),
    "first_valid_success": (int, "query of the pick, if people say that the right answer holds"),
    "first_success_attempt": (int, "attempt of the first success, for attacks that count attempts"),
    "option": (str, "field of the first edit, or of the one at the entity or nearest to it"),
    "replaced": (str, "what it replaces"),
    "replacement": (str, "what it puts in"),
    "variant_class": (str, "class of the new name against the right answer"),
    "edits": ([EDIT], "of the pick (the first success that no rule refutes), or of a whole copy"),
    "edit_characters": (int, "Levenshtein distance of that edit in characters"),
    "edit_tokens": (int, "the same in words"),
    "valid": (bool, "true by people's word, false by theirs or that of a rule; null: unknown"),
    "validity_reason": (str, "`review`, the rule or gate, or `rule` where rules refute nothing"),
    "evidence": ([EVIDENCE], "what speaks for or against the right answer after the pick"),
    "repeats": (bool, "whether it succeeded again when asked alone; null if it was not asked"),
    "prompt_before": (str, "of a success the clean prompt as sent: a text, or turns"),
    "prompt_after": (str, "the prompt of the pick"),
    "listing_before": (str, "of a success the clean question with its options listed"),
    "listing_after": (str, "the same of the pick"),
    "attempts": (None, "what was planned, edited, objected to and answered in each attempt"),
    "answers": ([str], "the letter of every answer, of attacks that ask variants of all items"),
    "error": (str, "why a trial failed or was cut short"),
    "gold_before": ([str], "right labels of a tagged text, one a token"),
    "gold_after": ([str], "the same after `edits`"),
    "labels_before": ([str], "the model's labels of the clean text"),
    "labels_after": ([str], "the same after `edits`"),
}
"""The columns of trials, in their order, each with its type and what it holds.

Turns of a conversation are JSON text in Parquet, where a column has one type.
"""
TRIALS: Types = {name: type_ for name, (type_, _) in COLUMNS.items()}
EXCHANGES: Types = {
    **{"trial_id": str, "role": str, "purpose": str, "query": int, "call": int},
    **{"prompt_hash": str, "prompt": str, "answer": str, "scores": [float]},
    **{"finish_reason": str, "cached": bool, "seconds": float},
    **{"tokens_in": int, "tokens_out": int, "error": str},
}
ITEMS: Types = {
    **dict.fromkeys(("dataset", "item_id", "item_hash"), str),
    **{"mentions": [MENTION], "metadata": None},
}
REVIEWS: Types = dict.fromkeys(
    ("case_id", "trial_id", "control_of", "reviewer", "role", *JUDGEMENTS, "note", "time"), str
)
ATTACKED: Types = {
    **dict.fromkeys(("id", "dataset", "original_id", "victim", "item_hash"), str),
    **{"mentions": [MENTION], "metadata": str, HEAD: str},
}


def trial_rows(run: Run, reader: RunReader) -> Iterator[Row]:
    """Yield the finished trials, with what people say of them."""
    prompts: ShownPrompts | None = None
    for trial in run.trials:
        shown = None
        if trial.pick is not None:
            prompts = prompts or ShownPrompts(reader)
            shown = prompts.of(trial)
        yield trial_row(trial, shown)


def trial_row(trial: Trial, shown: Shown | None) -> Row:
    """Return a trial as a row.

    Args:
        trial: a finished trial.
        shown: the prompts of a success; None for any other trial.
    """
    arm, item = trial.arm, trial.item
    # The last answer is about these edits where they are the pick's, or make a perturbed copy.
    after = trial.last if trial.edits or arm.attack.whole_copy else None
    row: dict[str, Any] = {
        **dict.fromkeys(COLUMNS),
        "trial_id": trial.id,
        "dataset": arm.place.dataset,
        "group": arm.place.group,
        "item_id": item.id,
        "item_hash": item.hash,
        "unit": trial.unit,
        "cluster": trial.cluster,
        "victim": arm.place.victim,
        "attack": arm.attack.label,
        "attack_spec": dict(arm.attack.params),
        "arm": arm.control or "attack",
        "control_of": arm.control_of,
        "seed": arm.seed,
        "repeat": trial.repeat,
        "verdict": trial.verdict.value,
        "key": item.key,
        "answer_before": trial.before and trial.before.answer,
        "answer_after": after and after.answer,
        "score_before": _score(trial, trial.before),
        "score_after": _score(trial, after),
        **{f"n_{name}": getattr(trial.queries, name) for name in _COUNTED},
        "edits": [asdict(edit) for edit in trial.edits],
        "attempts": [_attempt(record) for record in trial.records] or None,
        "answers": list(trial.answers) or None,
        "error": trial.note if trial.verdict in _LOST else None,
    }
    if (first := trial.first) is not None:
        row |= {"first_success": first.query, "first_success_attempt": first.attempt}
    if (edit := trial.edit) is not None:
        old, new = item.replaced(edit), edit.replacement
        row |= {"option": edit.field, "replaced": old, "replacement": new}
        row["edit_characters"] = edit_distance(old, new)
        row["edit_tokens"] = edit_distance(old.split(), new.split())
    if (pick := trial.pick) is not None:
        row |= {
            "first_valid_success": pick.query if pick.validity.valid else None,
            "variant_class": pick.variant,
            "valid": pick.validity.valid,
            "validity_reason": pick.validity.reason,
            "evidence": [one.as_json() for one in pick.validity.evidence],
            "repeats": pick.repeats,
        }
    if shown is not None:
        row |= {
            "prompt_before": _as_turns(shown.before),
            "prompt_after": _as_turns(shown.after),
            "listing_before": shown.listing_before,
            "listing_after": shown.listing_after,
        }
    if item.kind == TaggedText.kind:
        row |= {"gold_before": list(item.labels), "labels_before": _split(trial.before)}
        if after is not None:
            row |= {
                "gold_after": list(item.candidate(trial.edits).labels),
                "labels_after": _split(after),
            }
    return row


def _as_turns(prompt: Prompt | None) -> str | list[Row] | None:
    """Return the turns of a conversation as objects; a prompt of one text is that text."""
    return [asdict(turn) for turn in prompt] if isinstance(prompt, tuple) else prompt


def _attempt(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an attempt kept, its edits as those of a trial."""
    return {**record, "edits": [asdict(edit) for edit in edits_of(record.get("edits", ()))]}


def _score(trial: Trial, answer: Answer | None) -> float | None:
    """Return P(right answer) or the similarity of a pair; None without scores."""
    if answer is None or answer.scores is None:
        return None
    return float(trial.item.right_score(answer.scores))


def _split(answer: Answer | None) -> list[str] | None:
    return None if answer is None or answer.text is None else answer.text.split()


def item_rows(reader: RunReader) -> Iterator[Row]:
    """Yield the items of a run."""
    for dataset, item in reader.items().values():
        yield {
            "dataset": dataset,
            "item_id": item.id,
            "item_hash": item.hash,
            **item.columns(),
            "metadata": dict(item.metadata),
        }


def exchange_rows(reader: RunReader) -> Iterator[Row]:
    """Yield the calls of a run; those of later questions belong to the trial that they are about.

    Prompts are derived from item, edits and template.
    """
    prompts, items, subjects = Prompts(reader.manifest), reader.items(), reader.trials_of_analyses()
    edits: dict[tuple[int, str, int | None], str | None] = {}
    for row in reader.exchanges():
        place = (row.trial, row.purpose, row.query)
        # Only the first call of a query carries its edits.
        edits = {place: edits.get(place, row.edits)}
        call = _call(row, *items[row.item], edits[place], prompts)
        prompt = None if call is None else _prompt(call)
        answer, scores, ended = _reply(row)
        hidden = None if row.call is None else NOT_SHOWN
        yield {
            **{name: getattr(row, name, None) for name in EXCHANGES},
            "trial_id": subjects.get(row.trial_id, row.trial_id),
            "prompt_hash": None if prompt is None else content_hash(prompt),
            "prompt": hidden if prompt is None else prompt,
            "answer": answer,
            "scores": scores,
            "finish_reason": ended,
        }


def _call(
    row: StoredExchange, dataset: str, item: Any, edits: str | None, prompts: Prompts
) -> list[Any] | None:
    """Return the canonical form of a call: its kind, its prompt, and so on; None if unknown."""
    if row.request is not None:
        stored: list[Any] = json.loads(row.request)[0]
        return stored
    if row.call is None:
        return None  # computed ahead and never used: its candidate is not stored
    candidate = item.candidate(edits_of(orjson.loads(edits)) if edits else ())
    call = prompts.call(row.victim, dataset, candidate, row.call)
    return None if call is None else call.canonical()


def _prompt(call: Sequence[Any]) -> Any:
    """Return what a call asks: a text, the turns of a conversation, tokens, or two texts."""
    kind, prompt = call[0], call[1]
    if kind == Compare.kind:
        return list(call[1:3])
    if isinstance(prompt, list) and any(isinstance(turn, list) for turn in prompt):
        return [{"role": role, "content": content} for role, content in prompt]
    return prompt


def _reply(row: StoredExchange) -> tuple[str | None, list[float | None] | None, str | None]:
    """Return text, scores (null where not finite), and why a text ended."""
    if row.answer is None:
        return None, None, None
    answer = decode_answer(row.answer, row.tokens_in or 0, row.tokens_out or 0)
    if isinstance(answer, Tagged):
        return " ".join(answer.labels), None, None
    if isinstance(answer, Compared):
        return None, [answer.score], None
    if isinstance(answer, Generated):
        return answer.text, None, answer.finish_reason
    if isinstance(answer, Scored):
        return None, _finite(answer.log_probs), None
    return answer.answer or answer.text, _finite(answer.scores), None


def _finite(scores: Iterable[float] | None) -> list[float | None] | None:
    return None if scores is None else [x if isfinite(x) else None for x in scores]


def review_rows(run: Run, reader: RunReader) -> Iterator[Row]:
    """Yield what people said; a planted case has no trial."""
    for review in run.folder.reviews:
        yield {
            name: review.answers.get(name) if name in JUDGEMENTS else getattr(review, name)
            for name in REVIEWS
        }


# Attacked items

_Asked: TypeAlias = tuple[str, Trial, Sequence[tuple[int, tuple[Edit, ...]]]]
"""Name of the arm, a trial, and number and edits of its queries, without probes."""


def attacked_rows(run: Run, reader: RunReader) -> Iterator[Row]:
    """Yield every attacked question and victim of a run, with the edits that it was asked.

    A question is attacked if the victim was right before and saw an edit. Queries that only rank
    words or spans are left out. Every row describes the whole set of its victim, so that a set
    with rows missing is noticed.

    Raises:
        UsageError: no questions, or none that was attacked.
    """
    if any(item.kind != Question.kind for item in run.folder.items.values()):
        raise UsageError(
            f"the table {NAME!r} holds attacked questions, and {run.folder.path} holds other "
            "items; their perturbed copy is written by medstress perturb"
        )
    is_empty, probes = True, reader.probes()
    for victim in dict.fromkeys(trial.arm.place.victim for trial in run.trials):
        attacked = dict(_attacked(run, victim, probes))
        is_empty = is_empty and not attacked
        asked = [one for of_item in attacked.values() for one in of_item]
        head = json.dumps(_head(run, victim, len(attacked), asked), ensure_ascii=False)
        uses = Counter(item_id for _, item_id in attacked)
        for (dataset, item_id), of_item in attacked.items():
            item = run.folder.items[dataset, item_id]
            metadata = {key: value for key, value in item.metadata.items() if key != FIELD}
            yield {
                "id": item_id if uses[item_id] == 1 else f"{dataset}/{item_id}",
                "dataset": dataset,
                "original_id": item_id,
                "victim": victim,
                "item_hash": item.hash,
                "passage": item.passage,
                "context": item.context,
                "stem": item.stem,
                "options": list(item.options),
                "answer_idx": item.key,
                "mentions": [asdict(mention) for mention in item.mentions],
                "metadata": json.dumps(metadata, ensure_ascii=False),
                FIELD: [_asked(*one) for one in of_item],
                HEAD: head,
            }
    if is_empty:
        raise UsageError(
            f"{run.folder.path}: no item was right before an attack and saw an edit of it, so the "
            f"table {NAME!r} is empty"
        )


def _asked(
    arm: str, trial: Trial, queries: Sequence[tuple[int, tuple[Edit, ...]]]
) -> dict[str, Any]:
    last = None if trial.first is None else trial.first.query
    return {
        "arm": arm,
        "trial_id": trial.id,
        "seed": trial.arm.seed,
        "repeat": trial.repeat,
        "verdict": trial.verdict.value,
        "queries": [
            {
                "query": query,
                "flipped": None if last is not None and query > last else query == last,
                "edits": [asdict(edit) for edit in edits],
            }
            for query, edits in queries
        ],
    }


def _attacked(
    run: Run, victim: str, probes: Collection[tuple[int, int]]
) -> Iterator[tuple[tuple[str, str], list[_Asked]]]:
    """Yield data set and id of each attacked question, with the trials on it."""
    by_item: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in run.trials:
        is_attacked = trial.is_eligible and trial.verdict is not Verdict.MEASURED
        if trial.arm.place.victim == victim and is_attacked and trial.queries.asked:
            by_item[trial.arm.place.dataset, trial.item.id].append(trial)
    kept = {
        place: trials
        for place, trials in by_item.items()
        if any(not trial.arm.is_control for trial in trials)
    }
    arms = {
        (t.arm.place.group, t.arm.attack.label): t.arm for trials in kept.values() for t in trials
    }
    groups = Counter(label for _, label in arms)
    for place in (place for place in run.folder.items if place in kept):
        asked: list[_Asked] = []
        for trial in kept[place]:
            edits: dict[int, tuple[Edit, ...]] = {}
            for query, of_query in run.edits(trial):
                if (trial.number, query) not in probes:
                    edits.setdefault(query, of_query)
            if edits:
                group, label = trial.arm.place.group, trial.arm.attack.label
                if groups[label] > 1:
                    ending = f" / {trial.arm.control}" if trial.arm.is_control else ""
                    label = f"{label.removesuffix(ending)} ({group}){ending}"
                asked.append((label, trial, sorted(edits.items())))
        if any(not trial.arm.is_control for _, trial, _ in asked):
            yield place, asked


def _head(run: Run, victim: str, n_items: int, asked: Sequence[_Asked]) -> dict[str, Any]:
    manifest = run.manifest
    entry = entries_of(manifest, victim)[0]
    arms: dict[str, Trial] = {}
    for arm, trial, _ in asked:
        arms.setdefault(arm, trial)
    # Attacks come before their controls.
    in_order = sorted(arms.items(), key=lambda pair: pair[1].arm.is_control)
    return {
        "format": FORMAT,
        "medstress": __version__,
        "source": {
            "experiment": run.name,
            "fingerprint": manifest["fingerprint"],
            "started": manifest["started"],
            "victim": victim,
            "model": entry["model"],
            "model_hash": entry["model_hash"],
        },
        "n_items": n_items,
        "n_trials": len(asked),
        "n_queries": sum(len(queries) for *_, queries in asked),
        "arms": [_arm(label, trial) for label, trial in in_order],
    }


def _arm(label: str, trial: Trial) -> dict[str, Any]:
    """Return what the file says of an arm; whether a probe, and its control, of probes alone."""
    from medstress.attacks.protocol import rebuilt

    arm, spec = trial.arm, trial.arm.attack.params
    attack = None if arm.is_control else rebuilt(spec)
    is_probe = attack is not None and attack.is_probe
    return {
        "label": label,
        "control": arm.control,
        "spec": dict(spec),
        "is_blind": arm.control in CONTROLS if arm.is_control else _is_blind(spec, attack),
        "changes_evidence": attack is not None and not attack.is_judged,
        **({"is_probe": True, "beside": attack.control} if attack and is_probe else {}),
    }


def _is_blind(spec: Mapping[str, Any], attack: Attack | None) -> bool:
    """Return whether no answer had a part in the first edit; False if that is unknown."""
    if attack is None or spec["name"] in _BY_ANSWERS:
        return False
    asks_first = (
        spec.get("victim_span") == "saliency"
        or spec.get("search", "none") != "none"
        or bool(attack.needs & {"scores", "attacker"})
    )
    return not asks_first and "turns" not in attack.needs


# Files and data frames

TABLES: Mapping[str, Types] = {
    "trials": TRIALS,
    "exchanges": EXCHANGES,
    "items": ITEMS,
    "reviews": REVIEWS,
    NAME: ATTACKED,
}
"""Name of a table -> the types of its columns."""
_OF_RUN: Mapping[str, Callable[[Run, RunReader], Iterable[Row]]] = {
    "trials": trial_rows,
    "reviews": review_rows,
    NAME: attacked_rows,
}


def export(folder: Path, table: str, to: Path) -> int:
    """Write one table of a run as JSONL, CSV or Parquet.

    Returns:
        The number of rows.

    Raises:
        UsageError: an unknown table or ending, a file that the run reads, or a path that cannot be
            written.
        StoreError: the run cannot be read.
    """
    check_ending(to)

    def write(reader: RunReader, rows: Iterable[Row]) -> int:
        refuse_inputs(to, _inputs(reader.manifest, to.suffix))
        return write_rows(rows, to, TABLES[table])

    return _read(folder, table, write)


def _inputs(manifest: Mapping[str, Any], suffix: str) -> list[Path]:
    """Return the folders and the files with this ending that an experiment reads."""

    def texts(tables: Any) -> Iterator[str]:
        if isinstance(tables, str):
            yield tables
        elif isinstance(tables, dict | list):
            for value in tables.values() if isinstance(tables, dict) else tables:
                yield from texts(value)

    config, base = manifest["config"], Path(manifest["base"])
    named = [text for text in texts(config) if text.endswith(suffix)]
    folders = [table["path"] for table in config["dataset"] if "path" in table]
    return [base / Path(text).expanduser() for text in (*named, *folders)]


def table_frame(folder: Path, table: str) -> DataFrame:
    """Return one table of a run as a data frame.

    Raises:
        UsageError: an unknown table.
        StoreError: the run cannot be read.
    """
    return _read(folder, table, lambda _, rows: frame_of(rows, TABLES[table]))


def _read(folder: Path, table: str, use: Callable[[RunReader, Iterable[Row]], R]) -> R:
    """Use the rows of a table while its run is open."""
    if table not in TABLES:
        hint = did_you_mean(table, TABLES)
        raise UsageError(f"unknown table {table!r}{hint} (known: {', '.join(TABLES)})")
    of_file = {"exchanges": exchange_rows, "items": item_rows}
    rows_of = of_file[table] if table in of_file else partial(_OF_RUN[table], Run.open(folder))
    return read(folder, lambda reader: use(reader, rows_of(reader)))
