"""Do the tests of MedFuzz successes keep their level, and do they find what is there?

Planted targets answer through the product's own flow (`family_flow`), text by text: t is the
probability of the key after an insertion, and every sampled reasoning shows a P(key) around it.
Under the null the attacker's insertions draw their t as neutral ones do. Every item is attacked
with up to K insertions, and those where one brought an error are tested together.

    python validation/medfuzz_test.py --to runs/validation/medfuzz_test

Writes level.csv (share of attacked items with p <= .05 where there is nothing to find) and
power.csv (of 25 attacked items 7 have a real success; how many of them are found). Judges nothing;
docs/results/medfuzz.md has the numbers, tests/recovery a small version.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any, cast

import numpy as np

from medstress.analyses.significance import (
    LEVEL,
    STOP_AT,
    TURNS,
    Adjust,
    ControlPrice,
    Null,
    Statistic,
)
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Outcome, Prediction, Untargeted
from medstress.core.text import Edit
from medstress.engine.inquiry import HoldConversations
from medstress.engine.work import Held
from medstress.experiment.significance import Stock, Success, family_flow
from medstress.stats.estimate import wilson_ends
from medstress.stats.resampling import control_p
from medstress.tasks.victim import Victim

ATTEMPTS = 5
MAX_CALLS = 2_000
"""The default of `[test] max_calls`."""
SCATTER = 8.0
"""P(key) of one reasoning is Beta(SCATTER t, SCATTER (1 - t))."""
WRITTEN = cast("Any", None)
"""What planted targets have instead of a back end."""

Strength = Callable[[np.random.Generator, float], float]
"""(rng, t of the item) -> t of one insertion."""


def _around(rng: np.random.Generator, own: float) -> float:
    return float(rng.beta(SCATTER * own + 1e-6, SCATTER * (1 - own) + 1e-6))


TARGETS: dict[str, Strength] = {
    "A: t = .8": lambda _, own: 0.8,
    "B: t of an item from Beta(4, 1)": lambda _, own: own,
    "C: t of an insertion from Beta(4, 1)": lambda rng, own: float(rng.beta(4, 1)),
    "D: t of an insertion around its item's": _around,
    "E: 3 % of insertions with t = .1, else .95": lambda rng, own: (
        0.1 if rng.random() < 0.03 else 0.95
    ),
    "F: 0.3 % of insertions with t = .05, else .98": lambda rng, own: (
        0.05 if rng.random() < 0.003 else 0.98
    ),
}
"""What an insertion does to the target, whoever wrote it."""


class PlantedStock(Stock):
    """A new text each time, or as many as a repertoire has."""

    repertoire = 10**9

    @property
    def n_distinct(self) -> int:
        """Different texts given out."""
        return min(self.n_taken, self.repertoire)

    def take(self) -> Candidate:
        """Return the next text."""
        number = self.n_taken % self.repertoire
        self.n_taken += 1
        return edited(self.item, f"fact {number}")


def edited(item: Question, words: str) -> Candidate:
    """Return an item with words in it."""
    edit = Edit(field="stem", start=0, end=0, replacement=f"He knows {words}. ")
    return Candidate(item=item, edits=(edit,))


@dataclass(slots=True, kw_only=True)
class World:
    """A target that answers, and what its texts do to it."""

    rng: np.random.Generator
    statistic: Statistic
    neutral: Strength
    own: dict[str, float] = field(default_factory=dict)
    """t of every clean item."""
    texts: dict[tuple[str, str], float] = field(default_factory=dict)
    """t of every text that was shown."""
    n_calls: int = 0

    def t(self, candidate: Candidate) -> float:
        """Return t of a text, drawn when it is first shown."""
        item = str(candidate.item.id)
        if not candidate.edits:
            return self.own[item]
        key = item, candidate.edits[0].replacement
        if key not in self.texts:
            self.texts[key] = self.neutral(self.rng, self.own[item])
        return self.texts[key]

    def answer(self, candidate: Candidate) -> Prediction:
        """Hold one conversation."""
        self.n_calls += TURNS
        t = self.t(candidate)
        shown = float(self.rng.beta(SCATTER * t + 1e-6, SCATTER * (1 - t) + 1e-6))
        is_right = bool(self.rng.random() < shown)
        scores = None
        if self.statistic is Statistic.KEY_PROBABILITY:
            shown = min(max(shown, 1e-9), 1 - 1e-9)
            scores = (log(shown), log(1 - shown))
        return Prediction(
            answer="A" if is_right else "B",
            outcome=Outcome.RIGHT if is_right else Outcome.WRONG,
            scores=scores,
        )

    def attacked(self, item: Question, strength: Strength) -> Candidate | None:
        """Return the first insertion of an attack that brings an error, if one does."""
        for attempt in range(ATTEMPTS):
            candidate = edited(item, f"attack {attempt}")
            key = str(item.id), candidate.edits[0].replacement
            self.texts[key] = strength(self.rng, self.own[str(item.id)])
            if self.answer(candidate).outcome is Outcome.WRONG:
                return candidate
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What became of one family."""

    n_attacked: int
    p: dict[str, float]
    """p of every success, by item."""
    n_controls: dict[str, int]
    n_calls: int
    """Calls of the tests."""

    def discoveries(self, adjust: Adjust = Adjust.BH) -> set[str]:
        """Return the items that are found."""
        adjusted = adjust.of(list(self.p.values()), self.n_attacked)
        return {one for one, p in zip(self.p, adjusted, strict=True) if p <= adjust.level}


def attack_and_test(
    world: World,
    strengths: Sequence[Strength],
    *,
    null: Null = Null.MATCHED,
    max_calls: int = MAX_CALLS,
    repertoire: int = 10**9,
) -> Family:
    """Attack one item for each strength, and test what was lost by the product's own flow."""
    successes = []
    for number, strength in enumerate(strengths):
        item = Question(id=f"q{number}", stem="He rests. Why?", options=("Flu", "Cold"), key="A")
        world.own.setdefault(str(item.id), float(world.rng.beta(4, 1)))
        if (fuzz := world.attacked(item, strength)) is None:
            continue
        victim = Victim(label=str(item.id), task=WRITTEN, backend=WRITTEN)
        stock = PlantedStock(item=item, slots=(), gate=lambda _: None, rng=world.rng)
        stock.repertoire = repertoire
        successes.append(
            Success(
                trial=str(item.id),
                fuzz=fuzz,
                goal=Untargeted(),
                victim=victim,
                sampled=victim,
                stock=stock,
            )
        )
    most = 30 if null is Null.NEUTRAL else None
    price = ControlPrice(null=null, statistic=world.statistic, attempts=ATTEMPTS)
    before, found = world.n_calls, driven(family_flow(successes, price, max_calls, most), world)
    stop_at = STOP_AT if null is Null.MATCHED else None
    return Family(
        n_attacked=len(strengths),
        p={
            one["trial"]: control_p(one["hard"], one["n"], one["distinct"], stop_at=stop_at)
            for one in found["tests"]
        },
        n_controls={one["trial"]: one["n"] for one in found["tests"]},
        n_calls=world.n_calls - before,
    )


def driven(flow: Any, world: World) -> dict[str, Any]:
    """Answer the questions of a flow until it ends."""
    try:
        step = next(flow)
        while True:
            assert isinstance(step, HoldConversations)
            talks = step.conversations
            step = flow.send(tuple(Held(world.answer(one.candidate), TURNS) for one in talks))
    except StopIteration as stop:
        return dict(stop.value)


def world_of(seed: Sequence[int], statistic: Statistic, neutral: Strength) -> World:
    """Return a new target."""
    return World(rng=np.random.default_rng(list(seed)), statistic=statistic, neutral=neutral)


def null_families(
    target: str,
    statistic: Statistic,
    n_families: int,
    *,
    null: Null = Null.MATCHED,
    repertoire: int = 10**9,
    seed: int = 0,
) -> list[Family]:
    """Return families of 25 attacked items with nothing to find."""
    strength, families = TARGETS[target], []
    for number in range(n_families):
        place = [seed, list(TARGETS).index(target), statistic.n_samples, number]
        world = world_of(place, statistic, strength)
        families.append(attack_and_test(world, [strength] * 25, null=null, repertoire=repertoire))
    return families


def planted_family(
    flips: float,
    repetition: int,
    *,
    spread: float = 0.0,
    max_calls: int = MAX_CALLS,
    only_real: bool = False,
    statistic: Statistic = Statistic.SHARE_CORRECT,
) -> Family:
    """Return one family of 25 attacked items of which the first 7 have a real success.

    Args:
        flips: probability that a neutral insertion brings an error.
        repetition: number of the family.
        spread: how t of neutral insertions varies around 1 - flips: Beta of this size, so that
            near 1 a text that flips has any t at all; 0 for the same t everywhere.
        max_calls: for each success.
        only_real: whether the other 18 held, so that the family has the calls of 7 successes.
        statistic: that the target allows.
    """

    def neutral(rng: np.random.Generator, _: float) -> float:
        t = 1 - flips
        return float(rng.beta(spread * t, spread * flips)) if spread else t

    def real(rng: np.random.Generator, _: float) -> float:
        return float(rng.beta(2, 18))

    def holds(_: np.random.Generator, __: float) -> float:
        return 1.0

    world = world_of(
        [1, round(1000 * flips), round(spread), only_real, repetition], statistic, neutral
    )
    others = holds if only_real else neutral
    family = attack_and_test(world, [real] * 7 + [others] * 18, max_calls=max_calls)
    assert family.n_calls <= max_calls * len(family.p)
    return family


REAL = {f"q{number}" for number in range(7)}


def level_rows(n_families: int) -> list[dict[str, Any]]:
    """Rejections where there is nothing to find, over all attacked items and among successes."""
    rows: list[dict[str, Any]] = []
    kinds: list[tuple[str, Statistic, Null, int]] = [
        ("matched", Statistic.KEY_PROBABILITY, Null.MATCHED, 10**9),
        ("matched, answers counted", Statistic.SHARE_CORRECT, Null.MATCHED, 10**9),
        ("matched, 30 texts", Statistic.SHARE_CORRECT, Null.MATCHED, 30),
        ("neutral, 30", Statistic.KEY_PROBABILITY, Null.NEUTRAL, 10**9),
    ]
    for name, statistic, null, repertoire in kinds:
        for target in TARGETS:
            families = null_families(
                target, statistic, n_families, null=null, repertoire=repertoire
            )
            hits = sum(p <= LEVEL for one in families for p in one.p.values())
            n = sum(one.n_attacked for one in families)
            n_lost = sum(len(one.p) for one in families)
            low, high = wilson_ends(hits, n)
            rows.append(
                {
                    "test": name,
                    "target": target,
                    "significant": hits,
                    "attacked": n,
                    "share": hits / n,
                    "low": low,
                    "high": high,
                    "successes": n_lost,
                    "families_with_a_discovery": sum(bool(one.discoveries()) for one in families),
                    "families": len(families),
                }
            )
    return rows


def power_rows(repetitions: int) -> list[dict[str, Any]]:
    """How many of 7 real successes among 25 attacked items are found, at BH .10."""
    rows: list[dict[str, Any]] = []
    for flips in (0.02, 0.10):
        for spread in (0.0, 8.0, 1.0):
            for only_real in (True, False):
                for max_calls in (1_000, MAX_CALLS):
                    families = [
                        planted_family(
                            flips, k, spread=spread, only_real=only_real, max_calls=max_calls
                        )
                        for k in range(repetitions)
                    ]
                    found = [len(one.discoveries() & REAL) for one in families]
                    wrong = [len(one.discoveries() - REAL) for one in families]
                    controls = [
                        n for one in families for k, n in one.n_controls.items() if k in REAL
                    ]
                    rows.append(
                        {
                            "flips": flips,
                            "spread": spread,
                            "others": "held" if only_real else "by chance",
                            "max_calls": max_calls,
                            "families": repetitions,
                            "five_of_seven": sum(n >= 5 for n in found) / repetitions,
                            "found": sum(found) / (7 * repetitions),
                            "wrongly_found": sum(wrong) / repetitions,
                            "controls": float(np.mean(controls)) if controls else 0.0,
                            "calls": float(np.mean([one.n_calls for one in families])),
                            "bought": float(np.mean([max_calls * len(one.p) for one in families])),
                        }
                    )
    return rows


def main() -> None:
    """Write levels and power."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", type=int, default=40, metavar="N", help="of 25 items each")
    parser.add_argument("--repetitions", type=int, default=50, metavar="N")
    parser.add_argument("--to", type=Path, default=Path("runs/validation/medfuzz_test"))
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    write(given.to / "power.csv", power_rows(given.repetitions))
    write(given.to / "level.csv", level_rows(given.families))


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as CSV and say where."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(path)


if __name__ == "__main__":
    main()
