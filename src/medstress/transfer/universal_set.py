"""Universal names as an attack set: found on one part of a run's items, to be asked on the rest.

The items of an attack that draws names are split into five folds. Each item gets the names that
succeed most on the other four, in the span that the attack edited in it: no answer about an item
chose the names that it is asked (`reusable_names.cross_fitted`), but answers of the run's victim on
the others did. Any victim can be asked the set, `[[dataset]] name = "frozen"`; that of the run too,
which is then no side of a comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medstress.core.attack_sets import FIELD, NAME
from medstress.core.errors import UsageError
from medstress.core.text import copy_case
from medstress.datasets.rows import question_from_row
from medstress.entities.name_rules import NameRules
from medstress.entities.synonyms import load_synonyms
from medstress.files.writing import write_text
from medstress.metrics.arms import arrange
from medstress.metrics.controls import attacks_only
from medstress.results.freezing import Frozen, frozen_lines, rebuilt
from medstress.results.load import StoredRun
from medstress.results.rows import trial_rows
from medstress.transfer.reusable_names import cross_fitted

GIVEN = "universal names"
"""What the first line says of such a file."""


def write_universal(
    run: StoredRun,
    to: Path,
    m: int,
    *,
    sample: int | None = None,
    sample_seed: int = 0,
    victim: str | None = None,
) -> Frozen:
    """Write the attacked items of a run with the top names of the other folds.

    Names that the rules refute as second right answers (the shipped synonyms) are left out on that
    item, and so is the name that stands there.

    Args:
        run: an open run of questions with an attack that draws names.
        to: FILE.jsonl.
        m: the most names an item.
        sample: as in `freeze`.
        sample_seed: as in `freeze`.
        victim: as in `freeze`.

    Raises:
        UsageError: a wrong argument, no attack that draws names, or none that succeeded.
    """
    if to.suffix != ".jsonl":
        raise UsageError(f"--to {to}: the name must end in .jsonl")
    if m < 1:
        raise UsageError(f"--universal {m}: expected a number of names, at least 1")
    head, rows = frozen_lines(run, sample=sample, sample_seed=sample_seed, victim=victim)
    arms = [arm for arm in head["arms"] if arm["control"] is None and _draws_names(arm["spec"])]
    if not arms:
        raise UsageError(
            f"--universal: {run.folder} has no attack that draws names, so none can be universal"
        )
    tops = dict(_tops(run, head["source"]["victim"], arms, m))
    rules = NameRules(load_synonyms("default", Path()))
    lines = [line for row in rows if (line := _line(row, arms, tops, rules, m)) is not None]
    if not lines:
        raise UsageError(
            f"--universal: no name succeeded on an item of {run.folder} outside another item's "
            "fold, so there is none to ask"
        )
    entries = [entry for line in lines for entry in line[FIELD]]
    found = {
        **head,
        "given": GIVEN,
        "n_items": len(lines),
        "n_trials": len(entries),
        "n_queries": sum(len(entry["queries"]) for entry in entries),
        "n_flipped": 0,
        "arms": [_arm(arm, m) for arm in arms],
    }
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (found, *lines))
    try:
        write_text(to, text)
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror}; give another --to") from error
    return Frozen(
        n_items=len(lines),
        n_trials=len(entries),
        n_queries=found["n_queries"],
        n_flipped=0,
        arms=tuple(arm["label"] for arm in found["arms"]),
        notes=(
            "nothing was asked: each item has the names that succeed most on the other four fifths "
            "of the items",
        ),
    )


def _draws_names(spec: Mapping[str, Any]) -> bool:
    attack = rebuilt(spec)
    return attack is not None and attack.traits.needs_entities


def _tops(
    run: StoredRun, victim: str, arms: Sequence[Mapping[str, Any]], m: int
) -> Iterator[tuple[tuple[str, str, str], tuple[str, ...]]]:
    """Yield (label of the arm, data set, item) and the names to ask."""
    found = arrange(attacks_only(trial_rows(run)))
    for (dataset, group, asked), by_attack in found.items():
        for arm in arms:
            if (asked, group) == (victim, arm["group"]):
                for item, top in cross_fitted(by_attack.get(arm["attack"], ()), m).items():
                    yield (arm["label"], dataset, item), top


def _label(arm: Mapping[str, Any], m: int) -> str:
    return f"{arm['label']}: top {m} names"


def _arm(arm: Mapping[str, Any], m: int) -> dict[str, Any]:
    return {
        "label": _label(arm, m),
        "control": None,
        "spec": {"name": NAME, "given": GIVEN, "m": m, "of": arm["spec"]},
        "is_blind": False,
        "changes_evidence": False,
    }


def _line(
    row: dict[str, Any],
    arms: Sequence[Mapping[str, Any]],
    tops: Mapping[tuple[str, str, str], tuple[str, ...]],
    rules: NameRules,
    m: int,
) -> dict[str, Any] | None:
    """Return a row with the names to ask; None if there is none."""
    item = question_from_row({k: v for k, v in row.items() if k not in (FIELD, "item_hash")})
    entries = []
    for arm in arms:
        own = [entry for entry in row[FIELD] if entry["arm"] == arm["label"]]
        top = tops.get((arm["label"], row["dataset"], row["original_id"]), ())
        if not own:
            continue
        first = min(own, key=lambda entry: (entry["seed"] or 0, entry["repeat"]))
        place = first["queries"][-1]["edits"][0]
        old = item.text_of(place["field"])[place["start"] : place["end"]]
        names = [
            copy_case(name, old)
            for name in top
            if name != old.casefold() and rules.objection(item, name) is None
        ]
        queries = [{"edits": [{**place, "replacement": name}]} for name in names]
        if queries:
            entries.append({"arm": _label(arm, m), "seed": None, "repeat": 0, "queries": queries})
    return {**row, FIELD: entries} if entries else None
