"""One night of the gate: what tonight's run and the baseline bet on, and what the series shows.

The state machine is `medstress.stats.nights`; here two runs become its counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.comparison.attacked import at_first_edits, stored_specs
from medstress.comparison.compare import one_factor
from medstress.comparison.contrasts import ACCURACY_AFTER, ASR, CONTRASTS, Contrast
from medstress.comparison.factors import OF_VICTIMS, TIME, factors_of
from medstress.comparison.gate_file import Series, spent_digest
from medstress.comparison.pairing import Pair, by_key, pairs_of
from medstress.comparison.sides import Arm, Side, match_arms
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.results.formats import decimal, plural
from medstress.results.victims import entries_of
from medstress.stats.nights import ALARM, State, allowed, begin, feed

_FIXED_BACKENDS = ("mock", "scripted")
"""Back ends that answer the same prompt alike every night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a night of the gate shows."""

    series: Series
    """The series with this night, to be kept."""
    folders: tuple[str, str]
    """The baseline's run and tonight's."""
    metric: str
    """What was compared: `accuracy_after`, or `asr` on stored attacks."""
    only_a: int
    """Allowed pairs of trials that are right after the attack in the baseline alone."""
    only_b: int
    """Those right tonight alone."""
    n: int
    """Allowed pairs."""
    n_items: int
    """Allowed items."""
    n_spent: int
    """Items of both runs that were bet on before, and are not allowed."""
    n_lost: int
    """Allowed pairs that a failed answer leaves open."""
    x: int
    """The bet: 1 behind by more than the margin, -1 not, 0 none."""
    is_afresh: bool
    """Whether both runs were sampled afresh tonight."""
    fixed: str | None = None
    """The primary endpoint of the experiment file, where the gate compares another measure."""

    @property
    def state(self) -> State:
        """The state after this night."""
        return self.series.state

    @property
    def night(self) -> int:
        """The number of this night, from 1."""
        return self.state.t

    @property
    def e(self) -> float:
        """E after this night."""
        return self.state.e

    @property
    def alarm(self) -> bool:
        """True from the first night on which E reached 20: exit code 3."""
        return self.state.first_alarm is not None

    @property
    def sentence(self) -> str:
        """The verdict."""
        e, night, first = f"E = {self.e:.3g}", f"night {self.night}", self.state.first_alarm
        within = f" by more than {decimal(self.state.margin)}" if self.state.margin else ""
        if first is None:
            return f"no alarm: {night}, {e} (the alarm is at {ALARM:g})"
        since = "tonight" if first == self.night else f"since night {first}"
        return (
            f"alarm {since}: the builds of this series are behind the baseline{within}; {night}, "
            f"{e} (the alarm is at {ALARM:g}, and stays). When this is mended, begin a new series "
            "with another STATE"
        )

    def lines(self) -> list[str]:
        """Return what was bet on, for people."""
        good = "right after the attack" if self.metric == ACCURACY_AFTER else "not flipped"
        bet = {1: "behind", 0: "no bet", -1: "not behind"}[self.x]
        found = [
            f"tonight: {bet}; of {plural(self.n, 'pair')} of {plural(self.n_items, 'item')} "
            f"{self.only_a:,} {good} in the baseline alone, {self.only_b:,} tonight alone"
        ]
        if self.is_afresh:
            found.append("items: all, because both runs were sampled afresh (--afresh)")
        else:
            found.append(
                f"items: those never bet on against this baseline; {self.n_spent:,} were bet on "
                "before and are left out"
            )
        if self.fixed is not None:
            found.append(
                f"measure: [experiment] primary fixes {self.fixed}, but the nightly gate compares "
                f"{CONTRASTS[self.metric].label}; for {self.fixed} run medstress compare without "
                "--sequential"
            )
        if not self.n:
            found.append(
                "no item is left to bet on: draw others (a larger data set, another sample_seed), "
                "or sample both runs afresh every night"
            )
        if self.n_lost:
            found.append(
                f"{plural(self.n_lost, 'pair')} with a failed answer: bet on only if it decides "
                "nothing"
            )
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the night of `compare --sequential --json` (docs: schema)."""
        return {
            "format": 1,
            "verdict": "alarm" if self.alarm else "no alarm",
            "sentence": self.sentence,
            "night": self.night,
            "e": self.e,
            "alarm_at": ALARM,
            "first_alarm": self.state.first_alarm,
            "margin": self.state.margin,
            "x": self.x,
            "metric": self.metric,
            "fixed_in_the_file": self.fixed,
            "only_a": self.only_a,
            "only_b": self.only_b,
            "n_pairs": self.n,
            "n_items": self.n_items,
            "n_spent": self.n_spent,
            "n_lost": self.n_lost,
            "is_afresh": self.is_afresh,
            "a": self.folders[0],
            "b": self.folders[1],
        }


def feed_night(
    series: Series | None,
    first: Side,
    second: Side,
    margin: float,
    *,
    digests: tuple[str, str],
    is_afresh: bool = False,
    from_cache: tuple[int, int] = (0, 0),
) -> Gate:
    """Feed one night.

    Args:
        series: the nights so far; None begins a series.
        first: the baseline's run.
        second: tonight's run.
        margin: M, how far behind does not matter.
        digests: what tells each run from every other.
        is_afresh: whether the user says that both runs were sampled afresh tonight.
        from_cache: answers that each run took from a shared cache.

    Raises:
        UsageError: the runs cannot be compared, were fed before, or belong to another series, or
            they were not sampled afresh.
    """
    if not 0 <= margin < 1:
        raise UsageError(f"--margin {margin}: expected a difference from 0 to below 1")
    for side in (first, second):
        if side.manifest.get("decided"):
            raise UsageError(
                f"the run of {side.name} ({side.source}) stopped early because its criteria were "
                "decided, so its own answers chose its items: run it without stop_when"
            )
        if not side.manifest["complete"]:
            raise UsageError(
                f"the run of {side.name} ({side.source}) is not complete, and trials that end "
                "early are over-represented in it: finish it first"
            )
    arms = match_arms(first.arms(), second.arms())
    victim = _one_victim(arms)
    series = _series(series, first, victim[0], margin)
    _check_new(series, digests, second)
    _check_factor(first, second, arms)
    sides = at_first_edits(first, second, arms)
    is_stored = bool(stored_specs(first, second, arms))
    if is_afresh:
        _check_afresh(series, (first, second), victim, digests, from_cache)
    contrast = CONTRASTS[ASR if is_stored else ACCURACY_AFTER]
    pairs = [pair for pair in _pairs(*sides, arms) if contrast.takes(pair)]
    items = {pair.a.item_hash for pair in pairs}
    usable = set(allowed(series.state, items, is_afresh=is_afresh))
    kept = [pair for pair in pairs if pair.a.item_hash in usable]
    counts = _counts(contrast, kept, margin)
    night = feed(
        series.state, *counts, margin=margin, digest=digests[1], spent=() if is_afresh else usable
    )
    hits = contrast.hits(kept)
    entry = {
        "night": night.state.t,
        "a": first.source,
        "b": second.source,
        "x": night.x,
        "e": night.e,
        "n_pairs": len(kept),
        "spent": spent_digest(night.state.spent),
    }
    return Gate(
        series=series.after(night.state, digests[0], entry),
        folders=(first.source, second.source),
        metric=contrast.metric,
        only_a=sum(a and not b for _, b, a in hits),
        only_b=sum(b and not a for _, b, a in hits),
        n=len(kept),
        n_items=len(usable),
        n_spent=len(items - usable),
        n_lost=contrast.n_lost(kept),
        x=night.x,
        is_afresh=is_afresh,
        fixed=_fixed_to_another(sides, contrast.metric),
    )


def _fixed_to_another(sides: Iterable[Side], metric: str) -> str | None:
    """Return the primary endpoint of either run if it is not the measure of the gate."""
    for side in sides:
        named = side.manifest["config"]["experiment"].get("primary")
        if named is not None and named["metric"] != metric:
            control = named.get("control")
            return str(named["metric"]) + (f" (control {control})" if control else "")
    return None


def _one_victim(arms: Sequence[tuple[Arm, Arm]]) -> tuple[str, str]:
    """Return the victim's label in both runs.

    Raises:
        UsageError: the runs have nothing in common, or several victims.
    """
    victims = list(dict.fromkeys((a.victim, b.victim) for a, b in arms))
    if not victims:
        raise UsageError(
            "nothing can be compared: A and B have no data set, group, victim and attack in common "
            "under which both have finished trials"
        )
    if len(victims) > 1:
        raise UsageError(
            f"the nightly gate takes runs of one victim, and these share "
            f"{', '.join(a for a, _ in victims)}: run each build in a folder of its own"
        )
    return victims[0]


def _check_factor(first: Side, second: Side, arms: Sequence[tuple[Arm, Arm]]) -> None:
    factors = [factors_of(first.manifest, a, second.manifest, b) for a, b in arms]
    name, found = one_factor(factors)
    if name != TIME and name not in OF_VICTIMS:
        raise UsageError(
            f"the nightly gate compares builds of a victim, but A and B differ in {name} "
            f"({found[0].what}); give runs of one experiment"
        )


def _series(series: Series | None, first: Side, victim: str, margin: float) -> Series:
    """Return the series of a baseline, or begin it.

    Raises:
        UsageError: the series has another baseline or margin.
    """
    hashes = first.manifest["parts"]["victims"]
    of = entries_of(first.manifest, victim)
    baseline = content_hash(sorted(hashes[label] for label in of))
    about = f"{victim} ({next(iter(of.values()))['model']})"
    if series is None:
        return Series(state=begin(baseline, margin), about=about, baseline_runs=(), log=())
    if series.state.baseline != baseline:
        raise UsageError(
            f"the series is about the baseline {series.about}, and A ({first.source}) holds "
            f"{about} or asks it in another way: give the baseline's run as A, or begin a new "
            "series with another STATE"
        )
    if series.state.margin != margin:
        raise UsageError(
            f"--margin {margin:g}: the series began with {series.state.margin:g}, and a margin "
            "that changes breaks its promise; give the same, or begin a new series with another "
            "STATE"
        )
    return series


def _check_new(series: Series, digests: tuple[str, str], second: Side) -> None:
    if digests[0] == digests[1]:
        raise UsageError("A and B are the same run: give tonight's run as B")
    if digests[1] in series.state.nights:
        night = series.state.nights.index(digests[1]) + 1
        raise UsageError(
            f"the run of B ({second.source}) was fed before, as night {night}: a night counts "
            "once, and the series stays as it was"
        )
    if digests[1] in series.baseline_runs:
        raise UsageError(
            f"the run of B ({second.source}) stood as the baseline on an earlier night; give "
            "tonight's run as B"
        )


def _check_afresh(
    series: Series,
    sides: tuple[Side, Side],
    victims: tuple[str, str],
    digests: tuple[str, str],
    from_cache: tuple[int, int],
) -> None:
    """Check what can be checked of the claim that both runs were sampled afresh tonight.

    Raises:
        UsageError: they were not.
    """
    if digests[0] in (*series.baseline_runs, *series.state.nights):
        raise UsageError(
            f"--afresh: the baseline's run ({sides[0].source}) was fed on an earlier night, so its "
            "answers are not of tonight; run the baseline again every night, or leave --afresh out"
        )
    for side, victim, n in zip(sides, victims, from_cache, strict=True):
        why = f"{n:,} of its answers come from a shared cache" if n else _why_fixed(side, victim)
        if why is not None:
            raise UsageError(
                f"--afresh: the run of {side.name} ({side.source}) was not sampled afresh: {why}; "
                "leave --afresh out, so that each item is bet on once"
            )


def _why_fixed(side: Side, victim: str) -> str | None:
    """Return why a victim answers alike every night; None if nothing says so."""
    tables = side.manifest["config"]["victim"]
    backends = {table["backend"] for table in tables}
    if backends & set(_FIXED_BACKENDS):
        return f"the back end {sorted(backends & set(_FIXED_BACKENDS))[0]} never changes an answer"
    for entry in entries_of(side.manifest, victim).values():
        task = entry["task"]
        while "task" in task:
            task = task["task"]
        way, decoding = task.get("answer_by"), task.get("decoding", [0, 0])
        if way in ("letter", "text", "head"):
            return f'answer_by = "{way}" draws nothing'
        if way == "generate" and not decoding[1]:
            return "its temperature is 0"
    return None


def _pairs(first: Side, second: Side, arms: Iterable[tuple[Arm, Arm]]) -> list[Pair]:
    """Return the pairs of all arms.

    Raises:
        UsageError: the runs have no item in common.
    """
    arms, ours, theirs = list(arms), first.arms(), second.arms()
    pairs = [pair for a, b in arms for pair in pairs_of(by_key(ours[a]), by_key(theirs[b]))]
    if not pairs:
        raise UsageError(
            f"nothing can be compared: no trial of A ({first.source}) and B ({second.source}) has "
            "the same item content and seed"
        )
    return pairs


def _counts(contrast: Contrast, pairs: Sequence[Pair], margin: float) -> tuple[int, int, int]:
    """Return the pairs right in the baseline alone, right tonight alone, and all.

    No pair counts where failed answers could turn the bet.
    """
    n = len(pairs)
    found = [_counted(contrast.settled(pairs, for_b=for_b)) for for_b in (True, False)]
    signs = {_sign(round(b - c - margin * n, 9)) for b, c in found}
    return (0, 0, 0) if len(signs) > 1 else (*_counted(contrast.hits(pairs)), n)


def _counted(hits: Iterable[tuple[Any, bool, bool]]) -> tuple[int, int]:
    told = list(hits)
    return sum(a and not b for _, b, a in told), sum(b and not a for _, b, a in told)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
