"""A gate that runs every night and still raises a false alarm at most once in twenty series.

Each night's build meets a fixed baseline on items. Null hypothesis: given the past, the build is
behind by more than the margin on no more nights than it is behind by less, or ahead. A gambler bets
against it every night; its fortune E is a test martingale, so E ever reaches 20 with probability
1/20 at most, however many nights there are. The recipe, in the steps that the functions name:

1. Items allowed: all of them if both arms are sampled afresh tonight; if either is deterministic or
   stored, only those never bet on against this baseline, whatever the build (`allowed`).
2. b = baseline right and tonight wrong, c = the reverse, n = allowed.
3. x = sign(b - c - M n); 0 is no bet.
4. Weights w_j = .5 / 365 for j <= 365, plus .5 / (j (j + 1)): a share of the fortune that is first
   staked on night j, because nobody knows when a drop begins.
5. Stakes s = .1, .3, .5, .7, .9, each with a fortune V_s = 0.
6. Night t: V_s = (V_s + w_t)(1 + s x).
7. E = mean of V_s + sum of w_j over j > t.
8. Alarm at E >= 20.
9. The state keeps V, t, digests and spent items; a night that was fed before is refused.

Noise that carries over from night to night breaks it; noise shared within a night does not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

STAKES = (0.1, 0.3, 0.5, 0.7, 0.9)
ALARM = 20.0
HORIZON = 365
FORMAT = 1
LARGEST = 1e300
"""Fortunes are cut here, after a thousand nights behind; a state with larger numbers is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that a series of nights has to remember."""

    baseline: str
    """Digest of the baseline; every night is compared with the same one."""
    margin: float
    """M, how far behind does not matter, in [0, 1); fixed for the series."""
    fortunes: tuple[float, ...] = (0.0,) * len(STAKES)
    """V_s, one for each of `STAKES`."""
    nights: tuple[str, ...] = ()
    """Digests of the nights fed so far, in order; their number is t."""
    spent: frozenset[str] = frozenset()
    """Items that were bet on while an arm was deterministic or stored."""
    first_alarm: int | None = None
    """The first night, from 1, on which E reached `ALARM`; None if none did."""

    @property
    def t(self) -> int:
        """Number of nights fed so far."""
        return len(self.nights)

    @property
    def e(self) -> float:
        """E after the last night; 1 before the first."""
        return e_value(self.fortunes, self.t)


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What one night did."""

    state: State
    """The state to keep."""
    x: int
    """What was bet on: 1 behind by more than the margin, -1 not, 0 no bet."""
    e: float
    """E after this night."""
    alarm: bool
    """True if E is 20 or more tonight."""


def begin(baseline: str, margin: float = 0.0) -> State:
    """Return the state before the first night.

    Args:
        baseline: digest of the run that every night is compared with.
        margin: M, in [0, 1).

    Raises:
        ValueError: the margin is not in [0, 1).

    >>> begin("a1", 0.02).e
    1.0
    """
    if not 0 <= margin < 1:
        raise ValueError(f"expected a margin from 0 to below 1, got {margin}")
    return State(baseline=baseline, margin=margin)


def allowed(state: State, items: Iterable[str], *, is_afresh: bool) -> list[str]:
    """Return the items that may be bet on tonight (step 1).

    Args:
        state: the series.
        items: items that both arms have, in any order.
        is_afresh: True if both arms are sampled afresh tonight.

    >>> allowed(begin("a1"), ["q2", "q1"], is_afresh=False)
    ['q1', 'q2']
    """
    return sorted(set(items) if is_afresh else set(items) - state.spent)


def feed(
    state: State,
    only_baseline: int,
    only_tonight: int,
    n: int,
    *,
    margin: float,
    digest: str,
    spent: Collection[str] = (),
) -> Night:
    """Feed one night (steps 2 to 9).

    Args:
        state: the series so far.
        only_baseline: b, allowed items that the baseline has right and tonight wrong.
        only_tonight: c, the reverse.
        n: allowed items; 0 is a night without a bet.
        margin: M, that of the series.
        digest: what tells tonight's run from every other.
        spent: the allowed items, if either arm is deterministic or stored; empty otherwise.

    Raises:
        ValueError: the night was fed before, the margin is another, an item was bet on before, or
            the counts cannot be.

    >>> night = feed(begin("a1"), 9, 3, 200, margin=0.0, digest="night 1")
    >>> night.x, round(night.e, 4), night.alarm
    (1, 1.1257, False)
    """
    if digest in state.nights:
        place = state.nights.index(digest) + 1
        raise ValueError(f"expected a new night, got the one that was fed as night {place}")
    if margin != state.margin:
        raise ValueError(f"expected the margin of the series, {state.margin}; got {margin}")
    if min(only_baseline, only_tonight) < 0 or only_baseline + only_tonight > n:
        raise ValueError(
            f"expected counts of different items, at most {n} together; got {only_baseline} right "
            f"in the baseline alone and {only_tonight} tonight alone"
        )
    again = sorted(state.spent.intersection(spent))
    if again:
        raise ValueError(f"expected items never bet on, got {len(again)} again, such as {again[0]}")
    t = state.t + 1
    # Rounded, so that behind by exactly the margin is no bet, whatever the product's last digit.
    x = int(np.sign(round(only_baseline - only_tonight - margin * n, 9)))
    fortunes = grown(np.array(state.fortunes), t, np.float64(x))
    e = e_value(fortunes, t)
    is_first = e >= ALARM and state.first_alarm is None
    after = State(
        baseline=state.baseline,
        margin=margin,
        fortunes=tuple(min(float(v), LARGEST) for v in fortunes),
        nights=(*state.nights, digest),
        spent=state.spent.union(spent),
        first_alarm=t if is_first else state.first_alarm,
    )
    return Night(state=after, x=x, e=e, alarm=e >= ALARM)


def replay(bets: Iterable[int]) -> tuple[tuple[float, ...], tuple[float, ...], int | None]:
    """Return what nights with these bets lead to.

    Args:
        bets: x of each night, in order.

    Returns:
        The fortunes after the last night, E after each, and the first night with an alarm.

    >>> fortunes, values, alarm = replay([1, 0, -1])
    >>> len(fortunes), [round(e, 3) for e in values], alarm
    (5, [1.126, 1.126, 0.853], None)
    """
    fortunes: tuple[float, ...] = (0.0,) * len(STAKES)
    values: list[float] = []
    first_alarm = None
    for t, x in enumerate(bets, 1):
        after = grown(np.array(fortunes), t, np.float64(x))
        values.append(e_value(after, t))
        fortunes = tuple(min(float(v), LARGEST) for v in after)
        if first_alarm is None and values[-1] >= ALARM:
            first_alarm = t
    return fortunes, tuple(values), first_alarm


def weight(j: int) -> float:
    """Return w_j, the share of the fortune first staked on night j (step 4).

    >>> round(weight(1), 4), round(weight(366) * 366 * 367, 4)
    (0.2514, 0.5)
    """
    return (0.5 / HORIZON if j <= HORIZON else 0.0) + 0.5 / (j * (j + 1))


def unspent(t: int) -> float:
    """Return the sum of w_j over j > t.

    >>> unspent(0), round(unspent(364) - weight(365) - unspent(365), 12)
    (1.0, 0.0)
    """
    return 0.5 * max(HORIZON - t, 0) / HORIZON + 0.5 / (t + 1)


def grown(
    fortunes: NDArray[np.float64], t: int, x: NDArray[np.float64] | np.float64
) -> NDArray[np.float64]:
    """Return the fortunes after night t (step 6).

    Args:
        fortunes: V_s before it, shape (..., stakes).
        t: the night, from 1.
        x: its outcome in -1, 0, 1, shape (...,).
    """
    return np.asarray((fortunes + weight(t)) * (1 + np.array(STAKES) * np.expand_dims(x, -1)))


def e_value(fortunes: Sequence[float] | NDArray[np.float64], t: int) -> float:
    """Return E after night t (step 7)."""
    return float(np.mean(fortunes)) + unspent(t)


def as_json(state: State) -> dict[str, Any]:
    """Return a state as an object for JSON; `read_state` reads it back to the last digit.

    >>> read_state(as_json(begin("a1"))) == begin("a1")
    True
    """
    return {
        "format": FORMAT,
        "baseline": state.baseline,
        "margin": state.margin,
        "stakes": list(STAKES),
        "fortunes": list(state.fortunes),
        "nights": list(state.nights),
        "spent": sorted(state.spent),
        "first_alarm": state.first_alarm,
    }


def read_state(found: Any) -> State:
    """Read a state that `as_json` made, checked field by field.

    Args:
        found: an object, or its JSON text.

    Raises:
        ValueError: it is no such state; the sentence says which field is wrong.
    """
    if isinstance(found, str | bytes):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"expected the state of a nightly gate as JSON: {error}") from error
    _check(isinstance(found, dict), "an object", found)
    for name in as_json(begin("")):
        _check(name in found, f"a field {name!r}", sorted(found))
    _check(found["format"] == FORMAT, f"format {FORMAT}", found["format"])
    _check(isinstance(found["baseline"], str), "baseline to be a digest", found["baseline"])
    _check(
        _is_number(found["margin"]) and 0 <= found["margin"] < 1,
        "margin in [0, 1)",
        found["margin"],
    )
    _check(found["stakes"] == list(STAKES), f"stakes {list(STAKES)}", found["stakes"])
    fortunes, nights, alarm = found["fortunes"], found["nights"], found["first_alarm"]
    _check(
        isinstance(fortunes, list)
        and len(fortunes) == len(STAKES)
        and all(_is_number(v) and v >= 0 for v in fortunes),
        f"{len(STAKES)} fortunes of 0 or more",
        fortunes,
    )
    for name in ("nights", "spent"):
        names = found[name]
        _check(
            isinstance(names, list)
            and all(isinstance(each, str) for each in names)
            and len(set(names)) == len(names),
            f"{name} to be different texts",
            names,
        )
    _check(
        alarm is None or (type(alarm) is int and 1 <= alarm <= len(nights)),
        f"first_alarm to be null or a night from 1 to {len(nights)}",
        alarm,
    )
    return State(
        baseline=found["baseline"],
        margin=float(found["margin"]),
        fortunes=tuple(float(v) for v in fortunes),
        nights=tuple(nights),
        spent=frozenset(found["spent"]),
        first_alarm=alarm,
    )


def _is_number(value: Any) -> bool:
    # Whole numbers in JSON may be too long for a float.
    return type(value) in (int, float) and abs(value) <= LARGEST


def _check(holds: bool, expected: str, found: Any) -> None:
    if not holds:
        shown = repr(found)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        raise ValueError(f"expected in the state of a nightly gate {expected}; got {shown}")
