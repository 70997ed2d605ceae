"""Build wrapped tasks from the entries of `wrap = [...]`, and tasks from their specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import LETTERS, Question
from medstress.tasks.few_shot import SPARE, FewShot
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, Task
from medstress.tasks.templates import Template
from medstress.tasks.wrappers import Instructed, Majority, ShuffledOptions, orders

SHIPPED = "defensive"
"""Name of the instruction shipped with medstress."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "shuffled_options": {"n": None, "aggregate": "mean"},
    "majority": {"k": 5},
    "instructed": {"instruction": SHIPPED},
}
"""Wrapper -> its keys with their defaults."""
SUMMARIES = {
    "shuffled_options": "answers over several orders of the options, averaged",
    "majority": "the answer given most often in k samples",
    "instructed": "a defensive instruction in front of the prompt",
}
MOST_CALLS = 10_000
"""Most calls of one query; far below the offset of the flip check's sample index."""


def read_wraps(entries: Any) -> tuple[dict[str, Any], ...]:
    """Check the entries of a `wrap` list and fill in defaults.

    Raises:
        ValueError: an entry is wrong; the message says what was expected.

    >>> read_wraps(["instructed", {"name": "majority", "k": 3}])
    ({'name': 'instructed', 'instruction': 'defensive'}, {'name': 'majority', 'k': 3})
    """
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise ValueError(f"expected a list such as [{next(iter(DEFAULTS))!r}]")
    return tuple(map(_entry, entries))


def wrapped(
    task: MultipleChoice,
    entries: Sequence[Mapping[str, Any]],
    base: Path,
    label: str,
    examples: Sequence[Question] = (),
) -> Task:
    """Put wrappers around a task, the first one innermost.

    Args:
        task: the victim's own task.
        entries: as `read_wraps` returns them.
        base: folder that relative paths start from.
        label: label of the victim, for messages.
        examples: answered examples, `SPARE` more than are shown; they wrap first.

    Raises:
        UsageError: a wrapper has no effect on its task, or a file is missing.
    """
    found: Task = task
    if examples:
        shots = len(examples) - SPARE
        found = FewShot(inner=task, shots=shots, examples=tuple(examples))
    for entry in entries:
        match entry["name"]:
            case "majority":
                if not found.is_sampled:
                    raise UsageError(
                        f"victim {label!r}: majority asks {entry['k']} samples, and they would all "
                        'be equal here: it needs answer_by = "generate" with a temperature above '
                        "0, or a function"
                    )
                found = Majority(inner=found, k=entry["k"])
            case "shuffled_options":
                listed = task.template.lists_options or task.answer_by is AnswerBy.CHOICE
                if not listed:
                    raise UsageError(
                        f"victim {label!r}: shuffled_options changes nothing, because prompt "
                        f"{task.template.name!r} does not list the options"
                    )
                given = {"n": entry["n"], "aggregate": entry["aggregate"]}
                found = ShuffledOptions(inner=found, **given)
            case _:
                found = Instructed(inner=found, text=_instruction(entry["instruction"], base))
    if found.n_calls(len(LETTERS)) > MOST_CALLS:
        raise UsageError(
            f"victim {label!r}: one query would take more than {MOST_CALLS:,} calls; lower k of "
            "majority or n of shuffled_options"
        )
    return found


def calls_per_query(entries: Sequence[Mapping[str, Any]], n_options: int) -> int:
    """Return the factor by which wrappers multiply the calls of a query.

    >>> calls_per_query(read_wraps(["shuffled_options", {"name": "majority", "k": 3}]), 4)
    12
    """
    factor = 1
    for entry in entries:
        if entry["name"] == "majority":
            factor *= entry["k"]
        if entry["name"] == "shuffled_options":
            factor *= len(orders(n_options, entry["n"]))
    return factor


def gives_scores(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether wrappers give scores (shares of votes) to a victim without scores."""
    return any(entry["name"] in ("majority", "shuffled_options") for entry in entries)


def task_from_spec(spec: Mapping[str, Any], template: Template) -> Task:
    """Build the task of a spec, wrapped or not, given the template."""
    kind = spec.get("wrap")
    if kind is None:
        return MultipleChoice.from_spec(spec, template)
    if kind == "few_shot":
        own = MultipleChoice.from_spec(spec["task"], template)
        return FewShot.from_spec(spec, own)
    inner = task_from_spec(spec["task"], template)
    match kind:
        case "majority":
            return Majority(inner=inner, k=spec["k"])
        case "shuffled_options":
            return ShuffledOptions(inner=inner, n=spec["n"], aggregate=spec["aggregate"])
        case _:
            return Instructed(inner=inner, text=spec["text"])


def _entry(entry: Any) -> dict[str, Any]:
    given = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ValueError(f"expected a name or {{name = ...}}, got {entry!r}")
    name = given["name"]
    if name not in DEFAULTS:
        known = f" (known: {', '.join(DEFAULTS)})"
        raise ValueError(f"unknown wrapper {name!r}{did_you_mean(name, DEFAULTS) or known}")
    keys = DEFAULTS[name]
    for key in given:
        if key != "name" and key not in keys:
            raise ValueError(
                f"unknown key {key!r} of {name}"
                f"{did_you_mean(key, keys) or ' (known: ' + ', '.join(keys) + ')'}"
            )
    found = {"name": name, **keys, **given}
    for key, least in (("k", 2), ("n", 2)):
        value = found.get(key)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and least <= value <= MOST_CALLS):
            raise ValueError(
                f"{key} of {name}: expected a whole number from {least} to {MOST_CALLS:,}, "
                f"got {value!r}"
            )
    if found.get("aggregate", "mean") not in ("mean", "votes"):
        raise ValueError(f"aggregate of {name}: expected mean or votes, got {found['aggregate']!r}")
    if not isinstance(found.get("instruction", ""), str):
        raise ValueError(f"instruction of {name}: expected a file, got {found['instruction']!r}")
    return found


def _instruction(name: str, base: Path) -> str:
    """Return the text of the shipped instruction, or of a file."""
    shipped = files("medstress.tasks") / "instructions" / f"{SHIPPED}.txt"
    path = base / Path(name).expanduser()
    try:
        text = (shipped if name == SHIPPED else path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"instruction {name!r} of instructed is neither {SHIPPED!r} nor a text file that can "
            f"be read ({error})"
        ) from error
    if not text:
        raise UsageError(f"instruction {name!r} of instructed: the file is empty")
    return text
