"""What a comparison cannot decide: nobody answered, or a run ended before its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from medstress.comparison.contrasts import ACCURACY_AFTER, CONTRASTS
from medstress.comparison.pairing import Pair
from medstress.comparison.rows import Row
from medstress.comparison.sides import Side
from medstress.core.errors import UsageError
from medstress.results.formats import plural


def check_answered(pairs: Sequence[Pair], rows: Iterable[Row]) -> None:
    """Check that failed calls do not leave everything open.

    Args:
        pairs: the pairs of all arms.
        rows: the rows of the comparison.

    Raises:
        UsageError: every answer of a side failed, or a call failed in every pair that decides, or
            no pair counts in what decides.
    """
    lost = CONTRASTS[ACCURACY_AFTER].lost
    sides = {"A": [pair.a for pair in pairs], "B": [pair.b for pair in pairs]}
    if dead := [name for name, trials in sides.items() if all(map(lost, trials))]:
        raise UsageError(
            f"nothing can be compared: every answer of {' and of '.join(dead)} failed; "
            "mend what its calls failed on, and run the same command again"
        )
    deciding = [row for row in rows if row.decides]
    kept = [row for row in deciding if row.pairs]
    if not kept:
        raise UsageError(
            f"nothing can be compared: {deciding[0].label} is what decides, and no pair has it in "
            "both runs, because their victims are right on no common item before the attack"
        )
    if all(row.n_lost == len(row.pairs) for row in kept):
        n = plural(sum(row.n_lost for row in kept), "pair")
        raise UsageError(
            f"nothing can be compared: a call failed in each of the {n} that {kept[0].label} "
            "counts; mend what failed and run the same command again"
        )


def is_mostly_open(row: Row) -> bool:
    """Return whether failed calls leave more than half of a row's pairs open."""
    return 2 * row.n_lost > len(row.pairs)


def why_open(first: Side, second: Side) -> str | None:
    """Return why nothing is decided whatever the numbers are; None if both runs are complete."""
    names = [side.name for side in (first, second) if not side.manifest["complete"]]
    if not names:
        return None
    if first.source == second.source:
        return "the run is not complete"
    return f"the run of {' and that of '.join(names)} is not complete"


def incomplete_notes(first: Side, second: Side) -> Iterator[str]:
    """Yield a line for each run that is not complete."""
    for side in (first, second):
        if not side.manifest["complete"]:
            yield (
                f"the run of {side.name} is not complete: what both hold is compared, and trials "
                "that end early are over-represented in it"
            )
