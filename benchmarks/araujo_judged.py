"""What a verdict on the Araujo tables is: the effect, its interval, the seeds behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Any

from araujo_effects import ATTACKS, SYNONYM

from medstress.metrics.sentences.training_seeds import ENOUGH_SEEDS
from medstress.papers.claims.verdicts import Finding, inside
from medstress.results.formats import decimal, plural
from medstress.stats.estimates import Estimate, unknown

ABOUT = (0.15, 0.25)
"""What "about 20 %" is taken to mean."""
HALF = 0.5
FEW_SEEDS = "open: fewer than three training seeds"
UNTOUCHED = 0.02
"""A loss of clean score up to which it is nearly untouched."""
BEFORE = ("table2-chem", "table2-disease")
TRAINED = ("table4-chem", "table5-disease", "table6-biosses-folds")
PAIRS = "table3-biosses-folds"
"""All 100 pairs, each tested once a seed."""
TITLES = {
    "table2-chem": "Table 2, chemicals",
    "table2-disease": "Table 2, diseases",
    PAIRS: "Table 3, all pairs by cross-validation",
    "table4-chem": "Table 4, chemicals",
    "table5-disease": "Table 5, diseases",
    "table6-biosses-folds": "Table 6, all pairs by cross-validation",
}
NOT_RUN = "Not run with this edition."
NAMES = {"chem": "a", "disease": "b", "biosses-folds": "c"}
"""The letter by which verdicts call what stood for synonyms in each data set."""
ORIGINAL, TWICE, UNTRAINED = "original", "original twice", "untrained"
LABELS = {
    "chem": "chemicals",
    "disease": "diseases",
    "biosses-folds": "BIOSSES",
    ORIGINAL: "original",
    TWICE: "original twice",
    UNTRAINED: "untrained",
    "synonym": "synonyms",
    "synonym, held-out names": "synonyms, held-out names",
    "keyboard_noise": "keyboard noise",
    "swap_noise": "swap noise",
    "non_entity_noise": "control of swap noise",
    "all": "mean of the three",
    "noise": "mean of both noises",
}

Json = Mapping[str, Any]
Results = Mapping[str, Json]
"""By name of the file, such as `table2-chem`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One claim in one place."""

    number: int
    """Of the claim on the page."""
    where: str
    """Data, attack, model."""
    quantity: str
    """What the effect is."""
    effect: Estimate
    """Ours; without a value its method says why."""
    printed: str
    """The same of the paper's tables, P+M then P; empty where they do not have it."""
    verdict: Finding
    """By the whole interval."""
    n_seeds: int | None = None
    """Training seeds behind it, of the kind that has fewest; None: nothing was trained."""
    surrogate: str = ""
    """The letters of the names that stood for synonyms, where they are judged."""

    @property
    def outcome(self) -> str:
        """The verdict; with too few seeds it is open."""
        if self.n_seeds is not None and self.n_seeds < ENOUGH_SEEDS:
            return f"open: {plural(self.n_seeds, 'training seed')}"
        return self.verdict.value

    @property
    def where_of_names(self) -> str:
        """Where, with the names that stood for synonyms: a verdict speaks of these alone."""
        return f"{self.where} (names {self.surrogate})" if self.surrogate else self.where


def difference(first: Estimate, second: Estimate) -> Estimate:
    """First minus second from their intervals alone, as if they were independent.

    Method of variance estimates recovery: with estimates a, b and intervals [l, u], the ends are
    a - b - sqrt((a - l_a)^2 + (u_b - b)^2) and a - b + sqrt((u_a - a)^2 + (b - l_b)^2). What is
    measured on the same sentences goes together, which makes the interval too wide.

    >>> one = Estimate(value=0.5, n=1, low=0.47, high=0.53, method="")
    >>> other = Estimate(value=0.2, n=1, low=0.16, high=0.24, method="")
    >>> found = difference(one, other)
    >>> [round(end, 3) for end in (found.value, found.low, found.high)]
    [0.3, 0.25, 0.35]

    References:
        Zou and Donner, "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 2008.
    """
    method = "difference of two runs by the method of variance estimates recovery"
    a, low_a, high_a = first.value, first.low, first.high
    b, low_b, high_b = second.value, second.low, second.high
    if a is None or low_a is None or high_a is None:
        return unknown(f"{method}: the first is unknown")
    if b is None or low_b is None or high_b is None:
        return unknown(f"{method}: the second is unknown")
    return Estimate(
        value=a - b,
        n=min(first.n, second.n),
        low=a - b - hypot(a - low_a, high_b - b),
        high=a - b + hypot(high_a - a, b - low_b),
        method=method,
    )


def negative(estimate: Estimate) -> Estimate:
    """What is gained, of what is lost.

    >>> found = negative(Estimate(value=0.25, n=9, low=-0.5, high=1.0, method=""))
    >>> found.value, found.low, found.high
    (-0.25, -1.0, 0.5)
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, value=-estimate.value, low=-estimate.high, high=-estimate.low)


def of_mean(mean: Finding, alone: Sequence[Finding]) -> Finding:
    """The verdict on a mean over attacks, which none of them may contradict.

    A mean of losses that all lie elsewhere may lie where the claim says: it is then contradicted,
    and open where only some of them lie elsewhere.

    >>> of_mean(Finding.SUPPORTED, [Finding.CONTRADICTED] * 3).value
    'contradicted'
    >>> of_mean(Finding.SUPPORTED, [Finding.CONTRADICTED, Finding.SUPPORTED]).value
    'undecided'
    """
    if mean is not Finding.SUPPORTED or Finding.CONTRADICTED not in alone:
        return mean
    return Finding.CONTRADICTED if {*alone} == {Finding.CONTRADICTED} else Finding.UNDECIDED


def surrogate_of(run: Json, attack: str) -> str:
    """The letter of what stood for synonyms in the data of a run, where an attack uses them.

    >>> run = {"data": "chem", "surrogates": [{"attack": "synonym"}]}
    >>> surrogate_of(run, "synonym"), surrogate_of(run, "swap_noise")
    ('a', '')
    """
    if attack not in (SYNONYM, "all") or _synonyms(run) is None:
        return ""
    return NAMES[run["data"]]


def names_told(run: Json) -> str:
    """What stood for synonyms in the data of a run, and how many mentions each source had.

    >>> row = {"attack": "synonym", "surrogate": "listed names", "n_mentions": 4, "n_listed": 3,
    ...     "n_nearest": 0}
    >>> names_told({"data": "chem", "surrogates": [row]})
    '**Names a**, chemicals: listed names (.75 of the mentions listed, .00 nearest)'
    """
    row = _synonyms(run)
    if row is None:
        return ""
    n = max(row["n_mentions"], 1)
    shares = (decimal(row[key] / n, 2) for key in ("n_listed", "n_nearest"))
    told = "{} of the mentions listed, {} nearest".format(*shares)
    return f"**Names {NAMES[run['data']]}**, {LABELS[run['data']]}: {row['surrogate']} ({told})"


def _synonyms(run: Json) -> Json | None:
    return next((row for row in run.get("surrogates", ()) if row["attack"] == SYNONYM), None)


def named(name: str) -> str:
    """An attack, its control or a kind of model in words.

    >>> named("control of keyboard_noise")
    'control of keyboard noise'
    >>> named("swap_noise, redrawn")
    'swap noise, redrawn'
    """
    if name in LABELS:
        return LABELS[name]
    head, of, attack = name.rpartition("control of ")
    attack, comma, rest = attack.partition(", ")
    return f"{head}{of}{LABELS.get(attack, attack)}{comma}{rest}"


def rank(attack: str) -> int:
    """The paper's order of the attacks; others behind."""
    return ATTACKS.index(attack) if attack in ATTACKS else len(ATTACKS)


def has_seeds(row: Json) -> bool:
    """Whether a row is of a kind that nothing trained, or that enough seeds trained."""
    return row.get("model") == UNTRAINED or row["n_seeds"] >= ENOUGH_SEEDS


def at_most(estimate: Estimate, most: float) -> Finding:
    """Judge the claim that an effect is no larger than a bound, by its whole interval.

    >>> at_most(Estimate(value=0.01, n=9, low=-0.01, high=0.03, method=""), 0.02).value
    'undecided'
    """
    return inside(estimate, float("-inf"), most)


def rows_of(run: Json | None, part: str, **wanted: Any) -> list[Json]:
    """The rows of a part of a run in which these keys have these values."""
    if run is None:
        return []
    return [row for row in run[part] if all(row[key] == value for key, value in wanted.items())]


def data_of(name: str, *, folds: bool = False) -> str:
    """The data of a run by the name of its file.

    >>> data_of("table6-biosses-folds"), data_of("table2-chem")
    ('biosses', 'chem')
    """
    data = name.partition("-")[2]
    return data if folds else data.removesuffix("-folds")
