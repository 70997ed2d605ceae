"""How often intervals of F1, correlations and means hold the truth, and that of the worst arm."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from drawn_tables import stream
from intervals import Cell
from scipy.stats import binom

from medstress.analyses.scores import Response, Sample
from medstress.core.sentences import TaggedText
from medstress.core.trials import Answer
from medstress.stats.estimate import Estimate, quantile, sidak, wilson_ends
from medstress.stats.resampling import bootstrapped, item_mean, swap_p
from medstress.tasks.scores import CORRELATIONS, ENTITIES

DOCUMENTS, PAIRS = (5, 10, 30, 100), (20, 40, 80)
LARGEST = 30
"""Entities of a document: 1 to so many, all sizes equally likely."""
RECALL, ALIKE, SPURIOUS = (0.8, 0.5), 0.3, 0.2
"""Share of entities that are found before and after, its intraclass correlation in a document, and
marks that are no entity, for each that is one."""
LINKED = 6
"""Pairs that share a sentence: 1 to so many."""
BREAKS, BROKEN = 0.02, {"documents": (30, 60, 100), "pairs": (40, 60)}
"""Share of the documents or pairs that lose all, and how many of either are drawn."""
MOST_RUNS = 2_000
"""Of samples whose answers are drawn one by one: a second each; a coverage has an error of .005."""
ARMS, ITEMS, LOST = (1, 6, 24), (40, 200, 600), (0.1, 0.3, 0.5)

Ends = tuple[float, float]


class Pair(NamedTuple):
    """What scores read of a pair."""

    id: str
    score: float


def documents(runs: int) -> list[Cell]:
    """Coverage of the bootstrap of documents behind F1 and means, and of pairs behind correlations.

    Of F1 and correlations also that of their fall under an attack.
    """
    cells, runs = [], min(runs, MOST_RUNS)
    clean, attacked = (2 * recall / (recall + SPURIOUS + 1) for recall in RECALL)
    for n in DOCUMENTS:
        rng = stream("documents", n)
        told = [_f1(rng, n) for _ in range(runs)]
        for i, (score, truth) in enumerate({"f1": clean, "f1_drop": clean - attacked}.items()):
            ends = [both[i] for both in told]
            cells.append({"score": score, "of": "documents", "n": n, **_held(ends, truth)})
        means = [_mean(rng, n) for _ in range(runs)]
        cells.append({"score": "mean", "of": "documents", "n": n, **_held(means, 0.5)})
    # Gold and error are normal with variance 1 each; Spearman's r is 6/pi arcsin(r/2).
    r = np.sqrt(0.5)
    truths = {"pearson": r, "spearman": 6 / np.pi * np.arcsin(r / 2)}
    for of, n, name in product(("pairs", "linked pairs"), PAIRS, truths):
        rng = stream("pairs of scores", of, n, name)
        told = [_correlation(rng, n, name, of == "linked pairs") for _ in range(runs)]
        for i, (score, truth) in enumerate({name: truths[name], f"{name}_drop": 0.0}.items()):
            ends = [both[i] for both in told]
            cells.append({"score": score, "of": of, "n": n, **_held(ends, truth)})
    return cells


def _f1(rng: np.random.Generator, n: int) -> list[Ends]:
    """Of documents of which half is as hard in both arms."""
    k = 1 / ALIKE - 1
    answers: list[list[Response]] = [[], []]
    for i in range(n):
        gold, shared = int(rng.integers(1, LARGEST + 1)), rng.random()
        for arm, recall in zip(answers, RECALL, strict=True):
            u = shared if rng.random() < 0.5 else rng.random()
            easy = np.quantile(rng.beta(k * recall, k * (1 - recall), 400), u)
            arm.append(_sentence(i, gold, rng.binomial(gold, easy), rng.binomial(gold, SPURIOUS)))
    return _ends([Sample(ENTITIES, arm) for arm in answers], "f1")


def _sentence(number: int, gold: int, hits: int, alarms: int) -> Response:
    labels = ["B-A"] * gold + ["O"] * (alarms + 1)
    marks = ["B-A"] * hits + ["O"] * (gold - hits) + ["B-A"] * alarms + ["O"]
    tokens = tuple(f"t{i}" for i, _ in enumerate(labels))
    text = TaggedText(id=f"s{number}", tokens=tokens, labels=tuple(labels))
    return Response(text, str(number), 0, Answer(None, text=" ".join(marks)))


def _mean(rng: np.random.Generator, n: int) -> Ends:
    """Of 1 to 9 items a document; what a document adds to all of its items is drawn once."""
    units = np.repeat(np.arange(n), rng.integers(1, 10, n))
    shared, own = rng.normal(0, 0.15, n)[units], rng.normal(0, 0.1, len(units))
    return _of(item_mean(np.clip(0.5 + shared + own, 0, 1), 0.0, units))


def _correlation(rng: np.random.Generator, n: int, name: str, linked: bool) -> list[Ends]:
    """Of pairs before and after; half of the error is that of all pairs that share a sentence."""
    sizes = rng.integers(1, LINKED + 1, n) if linked else np.ones(n, int)
    of = np.repeat(np.arange(n), sizes)

    def half_shared() -> np.ndarray:
        both = rng.normal(size=len(of)) + rng.normal(size=n)[of]
        return np.asarray(np.sqrt(0.5) * both)

    gold = half_shared()
    samples = []
    for scores in (gold + half_shared(), gold + half_shared()):
        samples.append(of_pairs(gold, scores, of))
    return _ends(samples, name)


def of_pairs(gold: np.ndarray, scores: np.ndarray, places: np.ndarray) -> Sample:
    """The scores of pairs, which are in numbered clusters."""
    answers = [
        Response(Pair(f"p{i:06}", float(g)), str(at), 0, Answer(None, (float(score),)))
        for i, (g, at, score) in enumerate(zip(gold, places, scores, strict=True))
    ]
    return Sample(CORRELATIONS, answers)


def breaking(runs: int) -> list[Cell]:
    """Coverage where few documents or pairs lose all: often none does, and all resamples agree.

    What breaks is marked nowhere, or has a score that says nothing; what does not stays perfect.
    """
    cells, runs = [], min(runs, MOST_RUNS)
    for of, n in ((of, n) for of, sizes in BROKEN.items() for n in sizes):
        rng, told, alike = stream("breaking", of, n), [], 0
        name, after = (
            ("f1", 2 * (1 - BREAKS) / (2 - BREAKS))
            if of == "documents"
            else ("pearson", 1 - BREAKS)
        )
        for _ in range(runs):
            is_lost = rng.random(n) < BREAKS
            alike += not is_lost.any()
            if of == "documents":
                counts = rng.integers(1, LARGEST + 1, n).tolist()
                kept = [0 if lost else gold for gold, lost in zip(counts, is_lost, strict=True)]
                both = (
                    Sample(ENTITIES, [_sentence(i, *one, 0) for i, one in enumerate(found)])
                    for found in (zip(counts, counts, strict=True), zip(counts, kept, strict=True))
                )
            else:
                gold, noise = rng.normal(size=(2, n))
                scores = gold, np.where(is_lost, noise, gold)
                both = (of_pairs(gold, one, np.arange(n)) for one in scores)
            clean, attacked = both
            ends = [attacked.estimate(attacked.measured(name), name), clean.fall(attacked, name)]
            told.append([_of(estimate) for estimate in ends])
        for i, (score, truth) in enumerate({name: after, f"{name}_drop": 1 - after}.items()):
            held = _held([both[i] for both in told], truth)
            cells.append({"score": score, "of": of, "n": n, "alike": alike / runs, **held})
    return cells


def falls(runs: int) -> list[Cell]:
    """How often the test of a fall of Pearson's r errs where scores are as good under attack.

    Under attack the scores have errors of their own and are `scale` times as large.
    """
    cells, runs = [], min(runs, MOST_RUNS)
    for n, scale in product(PAIRS, (1.0, 0.3)):
        rng, rejected = stream("falls", n, scale), 0
        for _ in range(runs):
            gold, *errors = rng.normal(size=(3, n))
            places, (clean, attacked) = np.arange(n), gold + np.array(errors)
            before, after = (of_pairs(gold, scores, places) for scores in (clean, scale * attacked))
            fall = (before.value("pearson") or 0.0) - (after.value("pearson") or 0.0)

            def swapped(
                swaps: np.ndarray, before: Sample = before, after: Sample = after
            ) -> np.ndarray:
                return before.swapped(after, swaps)["pearson"]

            rejected += swap_p(fall, swapped, n, CORRELATIONS.seed) <= 0.05
        cells.append({"test": "fall of r", "pairs": n, "scale": scale, "size": rejected / runs})
    return cells


def _ends(samples: Sequence[Sample], name: str) -> list[Ends]:
    """Of a score before an attack, and of its fall."""
    (before, after), draws = samples, [sample.draws[name] for sample in samples]
    values = [sample.value(name) or 0.0 for sample in (before, after)]
    fall = bootstrapped(values[0] - values[1], draws[0] - draws[1], 0, "")
    return [_of(bootstrapped(values[0], draws[0], 0, "")), _of(fall)]


def _of(estimate: Estimate) -> Ends:
    return estimate.ends[0] or 0.0, estimate.ends[1] or 0.0


def _held(ends: list[Ends], truth: float) -> Cell:
    low, high = np.array(ends).T
    too_low, too_high = float((high < truth).mean()), float((low > truth).mean())
    return {"coverage": 1 - too_low - too_high, "too_low": too_low, "too_high": too_high}


def worst(runs: int) -> list[Cell]:
    """How often the interval of the worst of N equal arms lies above the truth, by enumeration.

    The arm with most hits is told. *Plain*: its own interval at 95 %; *sidak*: that of a verdict.

    Args:
        runs: of no use here: all counts of hits are enumerated.
    """
    cells = []
    for arms, n, lost in product(ARMS, ITEMS, LOST):
        hits = np.arange(n + 1)
        most = np.diff(binom.cdf(hits, n, lost) ** arms, prepend=0.0)
        cell: Cell = {"arms": arms, "items": n, "lost": lost}
        for name, level in (("plain", 0.95), ("sidak", sidak(arms))):
            above = [wilson_ends(k, n, quantile(level))[0] > lost for k in hits.tolist()]
            cell[name] = float(most[above].sum())
        cells.append(cell)
    return cells
