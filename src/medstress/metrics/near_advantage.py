"""What share of near draws' advantage over random ones survives if only valid successes count.

A name near the key may be a second right answer, so that the victim was not wrong. The advantage is
the rate of successes of an arm that draws near names minus that of one that draws at random, with
the same budget, over pairs of trials on items eligible under both. What is left of it is the same
difference of rates of valid successes; the share that survives is what is left over the whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.arms import spec_of
from medstress.metrics.bounds import lacks_answers
from medstress.metrics.clean_answers import clean_answers
from medstress.metrics.controls import attacks_only
from medstress.metrics.pairs import pair_rows
from medstress.metrics.second_answers import Place, draws_at_random, draws_near
from medstress.metrics.surviving import CASES, FLIPPED, Pairs, Surviving
from medstress.metrics.vouched import ValidShares, valid_shares
from medstress.stats.estimates import Estimate

Arms: TypeAlias = Mapping[str, list[TrialRow]]
"""Attack -> its trials."""

LABELS = "labels"
"""The case of the estimate from a random sample of labelled successes."""

NO_ADVANTAGE = "no advantage over random draws is clear of 0, so no share of it exists"
BEHIND = "near draws succeed less often than random ones, so no share of an advantage exists"


def near_advantages(trials: Iterable[TrialRow]) -> list[dict[str, Any]]:
    """Return what survives of each near arm's advantage over random draws.

    A near arm draws by `nearest`, or by `pdws` at n < 0. It is held against the arm that draws at
    random (`random`, or `pdws` at n = 0) with the same budget on the same data set, group and
    victim: of several, against the one with the fewest other parameters that differ (`differs`).

    Args:
        trials: of a whole run.

    Returns:
        Rows of `near_advantage`, by place and near arm; empty without such a pair
        (`why_no_near_advantage`). `left` has the advantage that is left in each of `CASES` and by
        `labels`, `share` the same as shares of the whole advantage: null where the interval of the
        advantage is not above 0 (`why_no_share`).
    """
    return [
        {
            "dataset": place[0],
            "group": place[1],
            "victim": place[2],
            **_row(near, random, pairs),
            "guesses": clean_answers(row for rows in arms.values() for row in rows).guesses,
        }
        for place, arms in _places(trials).items()
        for near, random, pairs in _held_against(arms)
    ]


def why_no_near_advantage(trials: Iterable[TrialRow]) -> str:
    """Say why `near_advantages` has no row, and what it expects."""
    arms = [rows for place in _places(trials).values() for rows in place.values()]
    near = [rows for rows in arms if draws_near(rows[0])]
    random = [rows for rows in arms if draws_at_random(rows[0])]
    if not near:
        return (
            'no attack draws near names: expected one with sampler = "nearest", or with sampler = '
            '"pdws" and n below 0'
        )
    if not random:
        return (
            'no attack draws at random: expected one with sampler = "random", or with sampler = '
            '"pdws" and n = 0'
        )
    ours, theirs = ({str(_budget(rows)) for rows in those} for those in (near, random))
    if not ours & theirs:
        return (
            f"near draws have a budget of {' and '.join(sorted(ours))}, random ones of "
            f"{' and '.join(sorted(theirs))}: expected an arm of each with the same budget"
        )
    return "no item is eligible under a near and a random arm: expected some that both attacked"


def _places(trials: Iterable[TrialRow]) -> dict[Place, Arms]:
    found: dict[Place, dict[str, list[TrialRow]]] = defaultdict(lambda: defaultdict(list))
    for row in attacks_only(trials):
        found[row.dataset, row.group, row.victim][row.attack].append(row)
    return dict(sorted(found.items()))


def _held_against(arms: Arms) -> Iterator[tuple[list[TrialRow], list[TrialRow], Pairs]]:
    """Yield each near arm with the random arm that it is held against, and their pairs."""
    random = [rows for _, rows in sorted(arms.items()) if draws_at_random(rows[0])]
    for _, near in sorted(arms.items()):
        if not draws_near(near[0]):
            continue
        same = [rows for rows in random if _budget(rows) == _budget(near)]
        if same:
            beside = min(same, key=lambda rows: len(_differs(near, rows)))
            if pairs := pair_rows(near, beside):
                yield near, beside, pairs


def _budget(rows: Sequence[TrialRow]) -> Any:
    return spec_of(rows).get("budget")


def _differs(near: Sequence[TrialRow], random: Sequence[TrialRow]) -> list[str]:
    """Return the parameters, besides how names are drawn, in which two arms differ."""
    ours, theirs = spec_of(near), spec_of(random)
    names = (ours.keys() | theirs.keys()) - {"sampler", "n", "label"}
    return sorted(name for name in names if ours.get(name) != theirs.get(name))


def _row(near: Sequence[TrialRow], random: Sequence[TrialRow], pairs: Pairs) -> dict[str, Any]:
    arms = _distinct(one for _, one, _ in pairs), _distinct(other for *_, other in pairs)
    paired = Surviving(pairs)
    whole = paired.difference(FLIPPED, FLIPPED)
    is_clear = whole.low is not None and whole.low > 0
    left: dict[str, Estimate | None] = {
        name: paired.difference(*case) for name, case in CASES.items()
    }
    share: dict[str, Estimate | None] = dict.fromkeys((*CASES, LABELS))
    if is_clear:
        share |= {name: paired.share(*case) for name, case in CASES.items()}
    ours, theirs = labels = [valid_shares(rows) for rows in arms]
    left[LABELS], ends, why = None, None, None
    if isinstance(ours, ValidShares) and isinstance(theirs, ValidShares):
        left[LABELS] = paired.difference_by_labels(ours.labelled, theirs.labelled)
        if is_clear:
            share[LABELS] = paired.share_by_labels(ours.labelled, theirs.labelled)
            worst = paired.share_by_labels(ours.worst, theirs.best)
            best = paired.share_by_labels(ours.best, theirs.worst)
            ends = [worst.low, best.high]
    else:
        why = "; ".join(filter(None, map(_why, ("near", "random"), labels)))
    return {
        "near": near[0].attack,
        "random": random[0].attack,
        "budget": _budget(near),
        "differs": _differs(near, random),
        "n_items": len({row.item_id for row in arms[0]}),
        "n_pairs": len(pairs),
        "n_open": sum(lacks_answers(row) for rows in arms for row in rows),
        "advantage": whole.as_json(),
        "left": _as_json(left),
        "share": _as_json(share),
        "why_no_share": None if is_clear else _why_no_share(whole),
        "n_labels": [each.n_labels if isinstance(each, ValidShares) else 0 for each in labels],
        "n_unsettled": [each.n_open if isinstance(each, ValidShares) else 0 for each in labels],
        "settled_ends": ends,
        "why_no_estimate": why,
    }


def _distinct(rows: Iterable[TrialRow]) -> list[TrialRow]:
    """Return trials once; one of a deterministic arm is in a pair for each seed of the other."""
    return list({id(row): row for row in rows}.values())


def _why_no_share(whole: Estimate) -> str:
    return BEHIND if whole.high is not None and whole.high < 0 else NO_ADVANTAGE


def _why(arm: str, found: ValidShares | str) -> str:
    return "" if isinstance(found, ValidShares) else f"{arm} draws: {found}"


def _as_json(found: Mapping[str, Estimate | None]) -> dict[str, Any]:
    return {name: None if each is None else each.as_json() for name, each in found.items()}
