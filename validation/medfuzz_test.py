"""Does the significance test of MedFuzz keep its level, and what does it cost?

A simulated target answers the key of a changed item with
probability t, and each sampled reasoning about it shows a P(key) scattered around t. Under the
null hypothesis the attacker's insertions draw their t as neutral ones do; under the alternative
they have a lower one. Every item is attacked with up to K insertions and tested where one of them
brought an error, which is the selection that a test has to survive; the p-values are computed by
medstress itself. The tables of docs/significance.md are of 12,000 items:

    python validation/medfuzz_test.py --items 12000 --to runs/validation/medfuzz_test

Writes level.csv and power.csv, and judges nothing; tests/recovery holds the levels against .05.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.families import LEVEL, MAX_CALLS, TURNS, Null, Statistic, cost_of
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.datasets import sample
from medstress.datasets.source import DatasetOptions
from medstress.stats.estimate import wilson_ends
from medstress.stats.permutation import TIE, ControlPlan, p_values

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Strength = Callable[[np.random.Generator, Array], Array]
"""(rng, an item's own t for every insertion wanted) -> t of each insertion, same shape."""

ATTEMPTS = 5
SCATTER = 8.0
"""P(key) of one reasoning is Beta(SCATTER t, SCATTER (1 - t))."""
BLOCK = 10
"""Controls that an adaptive test makes side by side."""


def _around(rng: np.random.Generator, own: Array) -> Array:
    """t of insertions scattered around their item's own."""
    return reasoning(rng, own)


TARGETS: dict[str, Strength] = {
    "the same t = .8 everywhere": lambda _, own: np.full(own.shape, 0.8),
    "t of an item from Beta(4, 1)": lambda _, own: own,
    "t of an insertion from Beta(4, 1)": lambda rng, own: rng.beta(4, 1, own.shape),
    "t of an insertion around its item's": _around,
    "3 % of insertions with t = .1, else .95": lambda rng, own: np.where(
        rng.random(own.shape) < 0.03, 0.1, 0.95
    ),
    "0.3 % of insertions with t = .05, else .98": lambda rng, own: np.where(
        rng.random(own.shape) < 0.003, 0.05, 0.98
    ),
}
"""What an insertion does to the target, whoever wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One way of testing."""

    null: Null
    """What a control is."""
    statistic: Statistic = Statistic.KEY_PROBABILITY
    """What T is estimated by."""
    fixed: int | None = None
    """Controls; None: what `max_calls` buys."""
    repertoire: int | None = None
    """Texts that the generator has for one success; None: a new one each time."""
    written: bool = False
    """Whether a role writes the texts."""

    @property
    def plan(self) -> ControlPlan:
        """How many controls there are."""
        if self.fixed is not None:
            return ControlPlan(fixed=self.fixed)
        cost = cost_of(self.null, ATTEMPTS, self.statistic, written=self.written)
        return ControlPlan(limit=cost.bought(MAX_CALLS))


TESTS = {
    "matched (default)": Test(null=Null.MATCHED),
    "matched, answers counted": Test(null=Null.MATCHED, statistic=Statistic.SHARE_CORRECT),
    "matched, attacker": Test(null=Null.MATCHED, written=True),
    "matched, attacker with 30 texts": Test(null=Null.MATCHED, written=True, repertoire=30),
    "neutral, 30": Test(null=Null.NEUTRAL, fixed=30),
    "neutral, 30, attacker": Test(null=Null.NEUTRAL, fixed=30, written=True),
}
"""Both nulls with all who can write their controls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Tests of attacked items."""

    p: Array
    """Of every success."""
    n_items: int
    """Attacked items."""
    conversations: NDArray[np.int64]
    """Of every success."""
    texts: NDArray[np.int64]
    """Controls that a role wrote for it."""

    @property
    def n_rejected(self) -> int:
        """Successes at the level."""
        return int((self.p <= LEVEL).sum())


def reasoning(rng: np.random.Generator, t: Array) -> Array:
    """P(key) that one sampled reasoning shows, same shape as t."""
    return rng.beta(np.maximum(SCATTER * t, 1e-6), np.maximum(SCATTER * (1 - t), 1e-6))


def estimate(rng: np.random.Generator, t: Array, statistic: Statistic) -> Array:
    """T of insertions from fresh samples: 5 reasonings, or 20 answers."""
    if statistic is Statistic.SHARE_CORRECT:
        return rng.binomial(statistic.n_samples, t) / statistic.n_samples
    return np.asarray(
        sum(reasoning(rng, t) for _ in range(statistic.n_samples)) / statistic.n_samples
    )


def attack(rng: np.random.Generator, strength: Strength, n: int) -> tuple[Array, Array]:
    """Attack n items: of those that flipped their own t, and t of what flipped them."""
    own = rng.beta(4, 1, n)
    tried = strength(rng, np.repeat(own[:, None], ATTEMPTS, axis=1))
    erred = rng.random(tried.shape) > reasoning(rng, tried)
    hit, first = erred.any(axis=1), erred.argmax(axis=1)
    return own[hit], tried[hit, first[hit]]


def drawn(
    rng: np.random.Generator, neutral: Strength, own: Array, n_texts: int, repertoire: int | None
) -> Array:
    """t of so many neutral insertions for every success, shape (n_successes, n_texts)."""
    n = n_texts if repertoire is None else repertoire
    made = neutral(rng, np.repeat(own[:, None], n, axis=1))
    return np.take(made, np.arange(n_texts) % n, axis=1)


def outcome(
    rng: np.random.Generator, test: Test, n: int, neutral: Strength, biased: Strength | None = None
) -> Result:
    """Attack n items and test every success.

    Args:
        rng: draws everything.
        test: how.
        n: items.
        neutral: what neutral insertions do.
        biased: what the attacker's do; None: the same, so that there is nothing to find.
    """
    own, t = attack(rng, biased or neutral, n)
    plan, observed = test.plan, estimate(rng, t, test.statistic)
    shape = (len(own), plan.most)
    is_loop = test.null is Null.MATCHED
    n_looks = np.zeros(shape, dtype=np.int64)
    flipped: Flags = np.ones(shape, dtype=bool)
    per_control = ATTEMPTS if is_loop else 1
    texts = drawn(rng, neutral, own, plan.most * per_control, test.repertoire)
    tried = texts.reshape(*shape, per_control)
    shown = reasoning(rng, tried)
    chosen = np.zeros(shape, dtype=np.int64)
    if is_loop:
        erred = rng.random(tried.shape) > shown
        flipped, chosen = np.asarray(erred.any(axis=2)), erred.argmax(axis=2)
        n_looks = np.where(flipped, chosen + 1, ATTEMPTS)
    controls = np.take_along_axis(tried, chosen[:, :, None], axis=2)[:, :, 0]
    hard = flipped & (estimate(rng, controls, test.statistic) <= observed[:, None] + TIE)
    return _decided(test, plan, n, hard, flipped, n_looks)


def _decided(
    test: Test, plan: ControlPlan, n: int, hard: Flags, flipped: Flags, n_looks: NDArray[np.int64]
) -> Result:
    """p-values by medstress's own rule, and what was asked until it had them."""
    samples = test.statistic.n_samples
    p, conversations, texts = [], [], []
    for is_hard, has_flipped, looks in zip(hard, flipped, n_looks, strict=True):
        end = plan.most
        if plan.fixed is None:
            enough = np.flatnonzero(np.cumsum(is_hard) >= plan.stop_at)
            end = min(end, -(-(enough[0] + 1) // BLOCK) * BLOCK) if len(enough) else end
        row = [bool(one) for one in is_hard[:end]]
        n_tried = int(looks[:end].sum()) or end
        n_distinct = None
        if test.repertoire is not None and test.repertoire < n_tried:
            n_distinct = len(row) * test.repertoire // n_tried
        p.append(p_values(row, plan, n_distinct).p)
        measured = int(has_flipped[:end].sum())
        conversations.append(int(looks[:end].sum()) + samples * (measured + 2))
        texts.append(n_tried if test.written else 0)
    return Result(
        p=np.array(p),
        n_items=n,
        conversations=np.array(conversations),
        texts=np.array(texts),
    )


def level(n: int, seed: int = 0) -> list[tuple[str, str, int, int, int]]:
    """Rejections where there is nothing to find.

    Returns:
        Rows (target, test, rejected, successes, attacked items).
    """
    rows: list[tuple[str, str, int, int, int]] = []
    for target, strength in TARGETS.items():
        for name, test in TESTS.items():
            rng = np.random.default_rng([seed, len(rows)])
            found = outcome(rng, test, n, strength)
            rows.append((target, name, found.n_rejected, len(found.p), n))
    return rows


def power(n: int, seed: int = 1) -> list[tuple[float, Result]]:
    """The default test where the target reacts to biased insertions alone, by true effect."""
    rows: list[tuple[float, Result]] = []
    for lower in (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8):
        rng = np.random.default_rng([seed, len(rows)])

        def neutral(_: np.random.Generator, own: Array) -> Array:
            return np.full(own.shape, 0.9)

        def biased(_: np.random.Generator, own: Array, lower: float = lower) -> Array:
            return np.full(own.shape, 0.9 - lower)

        rows.append((lower, outcome(rng, TESTS["matched (default)"], n, neutral, biased)))
    return rows


def tokens_of_a_conversation() -> float:
    """About how many tokens one conversation reads and writes, at 4 characters a token.

    Three turns about a question of the embedded sample, with the prompts that ship and three
    worked questions: 300 tokens of reasoning, and everything said before is read again.
    """
    prompts = MedFuzz().prompts
    sizes = []
    for item in sample.load(DatasetOptions()).questions:
        options = tuple(zip(item.letters, item.options, strict=True))
        first = prompts.render(
            "target_reasoning",
            question=item.question,
            options=options,
            exemplars=prompts.exemplars[:3],
        )
        later = [
            prompts.render("target_confidences", letters=item.letters),
            prompts.render("target_answer", by_letter=False),
        ]
        read = [len(prompts.render("target_system")) + len(first)]
        for turn, written in zip(later, (1_200, 60), strict=True):
            read.append(read[-1] + written + len(turn))
        sizes.append((sum(read) + 1_200 + 60 + 20) / 4)
    return float(np.mean(sizes))


def main() -> None:
    """Write errors under the null, and power and costs of the default (t of controls .9)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=4_000, metavar="N")
    parser.add_argument("--to", type=Path, default=Path("runs/validation/medfuzz_test"))
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    names = ("target", "test", "significant", "successes", "attacked")
    rows = [dict(zip(names, row, strict=True)) for row in level(given.items)]
    for row in rows:
        row["low"], row["high"] = wilson_ends(row["significant"], row["attacked"])
    write(given.to / "level.csv", rows)
    per_talk = tokens_of_a_conversation()
    costs = []
    for effect, found in power(min(given.items, 2_000)):
        talks = found.conversations
        costs.append(
            {
                "effect": effect,
                "successes": len(found.p) / found.n_items,
                "found": found.n_rejected / len(found.p),
                "conversations": talks.mean(),
                "most": talks.max(),
                "calls": TURNS * talks.mean(),
                "tokens": per_talk * talks.mean(),
                "calls_an_attacked_item": TURNS * talks.sum() / found.n_items,
            }
        )
    write(given.to / "power.csv", costs)


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as CSV and say where."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(path)


if __name__ == "__main__":
    main()
