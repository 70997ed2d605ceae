"""Check the `[test]` table before the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.core.errors import UsageError
from medstress.experiment.file.config import Experiment
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart
from medstress.metrics.significance.families import Null


def check_tests(experiment: Experiment, attacks: Sequence[AttackPart], base: Path) -> None:
    """Raise a UsageError if the `[test]` table cannot be followed.

    Args:
        experiment: experiment with the table.
        attacks: attacks of the experiment.
        base: folder that paths are relative to.

    Raises:
        UsageError: no attack can be tested, all controls would be equal, the null does not allow
            the family, or the worked questions cannot be read.
    """
    table = experiment.test
    if table is None:
        return
    tested = [part.attack for part in attacks if isinstance(part.attack, MedFuzz)]
    if not tested:
        raise UsageError(
            "[test]: expected a medfuzz attack, whose successes are tested, but there is none"
        )
    if (file := table.exemplars_from) is not None:
        _check_drawn(tested, file, base)
    if table.family == "attacked" and not Null(table.null).allows_attacked:
        raise UsageError(
            f"[test]: family = 'attacked' needs null = 'matched': {table.null!r} does not define "
            "how an attacked item can hold, so p = 1 for those that held would not be a p-value"
        )
    if table.items and table.trials:
        raise UsageError(
            "[test]: the family is fixed by `items` or by `trials`, not by both: remove one"
        )
    attacker = experiment.role.attacker if experiment.role is not None else None
    written = table.generator == "attacker" or table.null == "paraphrase"
    if written and attacker is not None and attacker.temperature == 0:
        raise UsageError(
            "[test]: controls that the attacker writes must differ, but [role.attacker] has "
            "temperature = 0: set a temperature above 0"
        )


def _check_drawn(tested: Sequence[MedFuzz], file: str, base: Path) -> None:
    try:
        for attack in tested:
            attack.drawing_from(file, base)
    except UsageError as error:
        raise UsageError(f"[test]: {error}") from None


def check_items(experiment: Experiment, datasets: Sequence[DatasetPart]) -> None:
    """Check that the items of `[test] items` exist.

    Raises:
        UsageError: an item is unknown; the message names the first.
    """
    known = {item.id for part in datasets for item in part.questions}
    table = experiment.test
    for name in table.items if table is not None else ():
        if name not in known:
            raise UsageError(
                f"[test] items: no data set of the experiment has an item {name!r}; give item ids"
            )
