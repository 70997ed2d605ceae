"""Write the perturbed data set of an experiment without asking a victim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from medstress.attacks.noise import Noise
from medstress.attacks.protocol import never_wrong
from medstress.core.errors import UsageError, setting
from medstress.core.frames import json_text, refuse_inputs
from medstress.core.hashing import rng_for
from medstress.core.sentences import TOKENS
from medstress.core.text import WHOLE
from medstress.core.writing import write_text
from medstress.engine.progress import Watcher
from medstress.experiment.arms import AttackPart, make_attacks
from medstress.experiment.config import Experiment
from medstress.experiment.plan import Prepared
from medstress.experiment.prepare import prepare
from medstress.experiment.reading import Source, resolve

NEEDS = ("experiment", "dataset", "attack")
"""Tables that `perturb` needs; attacks that draw names also need entity groups."""
_UNREAD = ("victim", "role", "require", "slices", "test", "tune", "train", "analysis")


Row: TypeAlias = tuple[Any, Mapping[str, Any]]
"""The item with its edits; labels of data set and attack, the seed, and of substitutions the group
and the number of the draw, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of what was written."""

    n_rows: int
    """Perturbed items."""
    n_changed: int
    """Items with an edit."""
    n_edits: int
    """Edits in all items."""
    notes: tuple[str, ...]
    """Repairs of the data, rows left out, and word lists that do not occur in the data."""


def perturb(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    to: str | Path,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Written:
    """Write every item as every attack and seed perturbs it, as `run` would ask it.

    Noise gives one row for each item. A substitution gives a row for each name that its sampler
    draws, as if none succeeded.

    Args:
        experiment: a TOML file, a dict of the same shape, or a checked `Experiment`; victims may
            be missing.
        to: FILE.jsonl, which the reader of the data reads back.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Raises:
        UsageError, DataError: one sentence.
    """
    to = Path(to)
    if to.suffix.lower() != ".jsonl":
        raise UsageError(f"{setting('to', str(to))}: the name must end in .jsonl")
    checked, _, base = resolve(experiment, overrides, NEEDS, _attacks_alone)
    inputs = [base / Path(table.path).expanduser() for table in checked.dataset if table.path]
    refuse_inputs(to, inputs)
    check_perturbed_alone(make_attacks(checked.attack))
    bench = prepare(
        experiment,
        limit=limit,
        overrides=overrides,
        watcher=watcher,
        complete=_attacks_alone,
        needs=NEEDS,
    )
    rows = list(_rows(bench))
    if not rows:
        raise UsageError(
            f"{setting('to', str(to))}: these attacks can perturb no item, so nothing is written"
        )
    lines = [json_text(values) for values in _values(rows)]
    try:
        write_text(to, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise UsageError(
            f"cannot write {to}: {error.strerror}; give another {setting('to')}"
        ) from error
    counts = [len(candidate.edits) for candidate, _ in rows]
    return Written(
        n_rows=len(counts),
        n_changed=sum(n > 0 for n in counts),
        n_edits=sum(counts),
        notes=(
            *(n for part in bench.datasets for n in (*part.loaded.notes, *part.loaded.skipped)),
            *dict.fromkeys(remark for group in bench.groups for remark in group.remarks),
        ),
    )


def _attacks_alone(raw: dict[str, Any]) -> None:
    """Leave only data, groups and attacks in a file, without controls."""
    for table in _UNREAD:
        raw.pop(table, None)
    if isinstance(raw.get("experiment"), dict):
        raw["experiment"]["controls"] = False


def check_perturbed_alone(attacks: Sequence[AttackPart]) -> None:
    """Check that no attack needs a victim's answers to perturb an item.

    Raises:
        UsageError: an attack needs them; the message names it.
    """
    for part in attacks:
        needs, why = part.attack.needs, None
        if isinstance(part.attack, Noise) and part.attack.search != "none":
            why = 'a search asks a model which edits matter; set search = "none" for a whole copy'
        elif "scores" in needs:
            why = "it needs a model's scores, but perturb asks no model"
        elif "attacker" in needs:
            why = (
                "it asks a model to write its edits (role 'attacker'), but perturb asks no model; "
                "leave it out"
            )
        elif "follow_up" in needs:
            why = (
                "it edits no question, it goes on speaking after an answer, but perturb asks no "
                "model; leave it out"
            )
        if why is not None:
            raise UsageError(f"attack {part.label!r}: {why}")


def _rows(bench: Prepared) -> Iterator[Row]:
    """Yield every perturbed item, by data set, group and attack.

    With the random streams of a run's trials, so that a run asks exactly these items; a
    substitution as if nothing succeeded.
    """
    for dataset, group, part in product(bench.datasets, bench.groups, bench.attacks):
        if not bench.holds(dataset, group, "", part):
            continue
        resources, attack = group.resources_on(dataset), part.attack
        for item, seed in product(group.items(dataset), bench.seeds(part)):
            arm: dict[str, Any] = {"dataset": dataset.label, "attack": part.label, "seed": seed}
            rng = rng_for(seed or 0, f"{attack.stream}/{group.label}", dataset.label, item.id)
            unit = item.of_unit(WHOLE)
            if isinstance(attack, Noise):
                # Questions without the field that is perturbed have no row.
                if attack.asks_copy_of(unit) or attack.obstacle(unit, resources) is None:
                    yield unit.candidate(attack.edits(unit, rng, resources)), arm
            elif attack.obstacle(item, resources) is None:
                queries = never_wrong(attack, item, rng, resources)
                for number, query in enumerate(queries, start=1):
                    yield query.candidate, {**arm, "group": group.label, "query": number}


def _values(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    is_alone = len({tuple(arm.items()) for _, arm in rows}) == 1
    for candidate, places in rows:
        item, edits = candidate.item, [asdict(edit) for edit in candidate.edits]
        for edit in edits:
            if edit["field"] == TOKENS:
                edit["replacement"] = edit["replacement"].split()
                del edit["field"]
        arm = {key: value for key, value in places.items() if value is not None}
        # Ids must be unique in a file, so several perturbations of an item get longer ids.
        name = item.id if is_alone else "/".join([item.id, *map(str, arm.values())])
        # Mentions have moved, so they are left out.
        fields = item.changed(candidate.edits).row()
        own = {**item.metadata, "id": name, **fields, "original_id": item.id, **arm}
        yield {**own, "edits": edits}
