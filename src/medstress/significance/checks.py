"""Check the `[test]` table before the run."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.core.errors import UsageError
from medstress.experiment.file.config import Experiment
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart


def check_tests(experiment: Experiment, attacks: Sequence[AttackPart]) -> None:
    """Raise a UsageError if the `[test]` table cannot be followed.

    Args:
        experiment: experiment with the table.
        attacks: attacks of the experiment.

    Raises:
        UsageError: no attack can be tested, all controls would be equal, or the null needs items.
    """
    table = experiment.test
    if table is None:
        return
    from medstress.attacks.medfuzz.attack import MedFuzz

    if not any(isinstance(part.attack, MedFuzz) for part in attacks):
        raise UsageError(
            "[test]: expected a medfuzz attack, whose successes are tested, but there is none"
        )
    if table.null == "neutral" and not table.items:
        raise UsageError(
            "[test]: null = 'neutral' tests successes on items that are named before the first "
            "query: add items = [...], or use null = 'matched', which tests every attacked item"
        )
    attacker = experiment.role.attacker if experiment.role is not None else None
    written = table.generator == "attacker"
    if written and attacker is not None and attacker.temperature == 0:
        raise UsageError(
            "[test]: controls that the attacker writes must differ, but [role.attacker] has "
            "temperature = 0: set a temperature above 0"
        )


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
