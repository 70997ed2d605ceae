"""What explanations show: where the token with the largest value lies, and what an edit changes.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, section 5.3 (Shapley profile).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of, is_flipped
from medstress.metrics.item_means import item_mean
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import RESAMPLES, bootstrapped, resampled_mean

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

WINDOW = 10
"""Tokens on either side of an edit that count as near it."""
TOLERANCE = 1e-4
"""How far values and base may be from adding up to the output of the prompt."""
_TIE = 1e-8
"""Values that differ by less are tied: they are stored with nine decimals."""
TOPS = ("edit", "key", "answer", "elsewhere")
"""Where the top token may lie: in the edit, in the right option, in the option that was answered,
or in none of them. An edit may lie in an option, so that the first three overlap."""
REGIMES = ("n<0", "n>0")
_Group: TypeAlias = tuple[str, str, str | None, str | None, bool]
"""Victim, mask, regime, attack, and whether its trials are successes."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The explanation of one prompt."""

    answer: str | None
    """The output that the victim chose; None if it chose none."""
    tokens: tuple[str, ...]
    """Their concatenation is the explained text."""
    segments: tuple[tuple[str, bool, int], ...]
    """Place, whether it is an edit, and number of tokens of each part of the text, in order."""
    values: Floats
    """Of each token for each output, `(n_tokens, n_outputs)`."""
    base: Floats
    """The outputs with every token masked, `(n_outputs,)`."""
    full: Floats
    """The outputs of the text, `(n_outputs,)`."""
    evaluations: int
    """Masked texts that were asked."""
    gap: float
    """The largest difference of base plus values to the output of the text."""

    @cached_property
    def edited(self) -> Flags:
        """Whether each token lies in an edit, `(n_tokens,)`."""
        return np.array([edited for _, edited, n in self.segments for _ in range(n)], dtype=bool)

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The place of each token."""
        return tuple(place for place, _, n in self.segments for _ in range(n))


@dataclass(frozen=True, kw_only=True)
class Explained:
    """The explanation of one trial."""

    trial: TrialRow
    """The trial."""
    outputs: tuple[str, ...]
    """Names of the outputs: options, labels, `found` and `wrong`, or `score`."""
    key: str
    """The output of the right answer."""
    value: str
    """What outputs are: `probability`, `answer` (0 or 1), `mixed` or `score`."""
    units: str
    """`tokens` of the victim, or `words`."""
    mask: str
    """What stands for masked tokens."""
    before: Side
    """Of the clean prompt."""
    after: Side
    """Of the edited prompt."""

    @property
    def gap(self) -> float:
        """The larger gap of the two prompts."""
        return max(self.before.gap, self.after.gap)

    @property
    def holds(self) -> bool:
        """Whether the values add up (efficiency axiom)."""
        return self.gap <= TOLERANCE

    @property
    def shows_edit(self) -> bool:
        """Whether the prompt shows the edit; one that lists no options does not."""
        return bool(self.before.edited.any() or self.after.edited.any())

    @property
    def regime(self) -> str | None:
        """`n<0` or `n>0` for attacks with an exponent."""
        n = json.loads(self.trial.attack_spec).get("n")
        if not isinstance(n, int | float) or n == 0:
            return None
        return REGIMES[n > 0]

    def of(self, side: Side, output: str | None) -> Floats | None:
        """Return the values of one output, `(n_tokens,)`; None without that output."""
        return side.values[:, self.outputs.index(output)] if output in self.outputs else None


def mask_words(mask: str) -> str:
    """Say what stands for masked tokens.

    >>> mask_words("..."), mask_words("")
    ("masked as '...'", 'masked words left out')
    """
    return f"masked as {mask!r}" if mask else "masked words left out"


def top_shares(values: Floats) -> Floats:
    """Return how the top place is shared among tokens, `(n_tokens,)`: equally by all tied ones.

    >>> top_shares(np.array([0.1, 0.4, 0.4])).tolist()
    [0.0, 0.5, 0.5]
    """
    tied = values >= values.max() - _TIE
    return np.asarray(tied / tied.sum(), dtype=np.float64)


def top_places(explained: Explained, side: Side) -> dict[str, tuple[float, float]] | None:
    """Return, for each of `TOPS`, how much of the top token lies there, and the share of tokens.

    The top token is the one with the largest value for the option that was answered. The share of
    tokens is how often a token drawn at random would lie there.

    Returns:
        None if the victim chose no output.
    """
    values = explained.of(side, side.answer)
    if values is None:
        return None
    places = np.array(side.places)
    of_entity = places == "entity"
    inside = {
        "edit": side.edited,
        "key": of_entity if explained.key == "found" else places == explained.key,
        "answer": of_entity if explained.key == "found" else places == side.answer,
    }
    inside["elsewhere"] = ~(inside["edit"] | inside["key"] | inside["answer"])
    top = top_shares(values)
    return {name: (float(top[where].sum()), float(where.mean())) for name, where in inside.items()}


@dataclass(frozen=True, kw_only=True)
class Change:
    """How far values for the right answer moved, token by token."""

    sizes: Floats
    """Absolute changes, `(n,)`; an edit's is the change of its sum, shared by its tokens."""
    near: Flags
    """Whether each lies within `WINDOW` tokens of an edit, or in one, `(n,)`."""

    @property
    def near_share(self) -> float | None:
        """Share of all change that lies near; None if nothing changed."""
        total = float(self.sizes.sum())
        return float(self.sizes[self.near].sum()) / total if total > 0 else None


def change_of(explained: Explained) -> Change:
    """Align two prompts and compare their values; tokens outside edits are the same in both."""
    before = explained.of(explained.before, explained.key)
    after = explained.of(explained.after, explained.key)
    assert before is not None
    assert after is not None
    sizes: list[float] = []
    edited: list[bool] = []
    first = second = 0
    pairs = zip(explained.before.segments, explained.after.segments, strict=True)
    for (_, is_edit, n), (_, _, m) in pairs:
        old, new = before[first : first + n], after[second : second + m]
        first, second = first + n, second + m
        if is_edit or n != m:
            size = max(m, 1) if n or m else 0
            sizes += [abs(float(new.sum() - old.sum())) / max(size, 1)] * size
            edited += [is_edit] * size
        else:
            sizes += np.abs(new - old).tolist()
            edited += [False] * n
    near = np.zeros(len(edited), dtype=bool)
    for place in np.flatnonzero(edited):
        near[max(place - WINDOW, 0) : place + WINDOW + 1] = True
    return Change(sizes=np.array(sizes, dtype=np.float64), near=near)


def explanation_rows(explained: Iterable[Explained]) -> list[dict[str, Any]]:
    """Return rows of the summary: by victim and mask, for all attacks, each regime and each attack.

    Every row has the successes or the attacks that failed, never both.
    """
    groups: dict[_Group, list[Explained]] = defaultdict(list)
    for one in explained:
        victim, mask, is_success = one.trial.victim, one.mask, is_flipped(one.trial)
        groups[victim, mask, None, None, is_success].append(one)
        groups[victim, mask, None, one.trial.attack, is_success].append(one)
        if one.regime is not None:
            groups[victim, mask, one.regime, None, is_success].append(one)
    n_attacks = {
        victim: len({a for v, _, _, a, _ in groups if v == victim and a}) for victim, *_ in groups
    }
    return [
        {
            "victim": victim,
            "mask": mask,
            "regime": regime,
            "attack": attack,
            "shared_regime": _only({one.regime for one in members}),
            "kind": "success" if is_success else "failed",
            "n": len(members),
            **_estimates(members),
        }
        for (victim, mask, regime, attack, is_success), members in sorted(
            groups.items(), key=_order
        )
        # One attack is all attacks.
        if attack is None or n_attacks[victim] > 1
    ]


def _only(regimes: set[str | None]) -> str | None:
    return next(iter(regimes)) if len(regimes) == 1 else None


def _order(group: tuple[_Group, Any]) -> tuple[Any, ...]:
    victim, mask, regime, attack, is_success = group[0]
    return (victim, mask, attack is not None, attack or "", regime or "", not is_success)


def _estimates(members: Sequence[Explained]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("before", "after"):
        tops = [(one, top_places(one, getattr(one, name))) for one in members]
        known = [(one, top) for one, top in tops if top is not None]
        found[f"top_{name}"] = {
            place: _beside_chance(
                [(one, *top[place]) for one, top in known if place != "edit" or one.shows_edit]
            )
            for place in TOPS
        }
        in_edit = [top["edit"] for one, top in known if one.shows_edit]
        found[f"edit_{name}"] = {
            "n": len(in_edit),
            # Tied tokens share the top place: the edit has it where it has most of it.
            "hits": sum(share > 0.5 for share, _ in in_edit),
            "by_chance": float(sum(chance for _, chance in in_edit)),
        }
    changes = [(one, change_of(one)) for one in members]
    shares = [
        (one, share, float(change.near.mean()))
        for one, change in changes
        if (share := change.near_share) is not None and one.shows_edit
    ]
    return found | {
        "change": _mean([(one, fmean(change.sizes)) for one, change in changes]),
        "change_near": _mean(_means(changes, lambda change: change.sizes[change.near])),
        "change_far": _mean(_means(changes, lambda change: change.sizes[~change.near])),
        "near": _beside_chance(shares),
    }


def _beside_chance(values: Sequence[tuple[Explained, float, float]]) -> dict[str, Any]:
    """Estimate shares, what chance would give, and the difference."""
    return {
        "share": _share([(one, share) for one, share, _ in values]),
        "chance": _share([(one, chance) for one, _, chance in values]),
        "excess": _share([(one, share - chance) for one, share, chance in values], -1.0),
    }


def _means(
    changes: Iterable[tuple[Explained, Change]], part: Callable[[Change], Floats]
) -> list[tuple[Explained, float]]:
    found = [(one, part(change)) for one, change in changes]
    return [(one, float(sizes.mean())) for one, sizes in found if sizes.size]


def _by_cluster(values: Iterable[tuple[Explained, float]]) -> list[float]:
    """Return the mean of each item's (or document's) values."""
    by: Mapping[str, list[float]] = defaultdict(list)
    for one, value in values:
        by[f"{one.trial.dataset}/{cluster_of(one.trial)}"].append(value)
    return [fmean(by[cluster]) for cluster in sorted(by)]


def _share(values: Iterable[tuple[Explained, float]], lowest: float = 0.0) -> dict[str, Any]:
    return item_mean(_by_cluster(values), lowest).as_json()


def _mean(values: Iterable[tuple[Explained, float]]) -> dict[str, Any]:
    means = np.array(_by_cluster(values), dtype=np.float64)
    method = f"bootstrap over {means.size} items, {RESAMPLES} resamples, percentile 95 %"
    if not means.size:
        return unknown(method).as_json()
    drawn = resampled_mean(means, np.arange(means.size))
    estimate: Estimate = bootstrapped(float(means.mean()), drawn, int(means.size), method)
    return estimate.as_json()
