"""The claims of the paper's prose and the targets of our runs, each judged by its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from statistics import fmean
from typing import Any

from araujo_effects import ATTACKS, NOISES, SYNONYM
from araujo_printed import MODELS, printed

from medstress.metrics.claims import Finding, above, inside
from medstress.metrics.estimates import Estimate, unknown
from medstress.report.formats import decimal

ABOUT = (0.15, 0.25)
"""What "about 20 %" is taken to mean."""
HALF = 0.5
UNTOUCHED = 0.02
"""A loss of clean score up to which it is nearly untouched."""
BEFORE = ("table2-chem", "table2-disease")
TRAINED = ("table4-chem", "table5-disease", "table6-biosses-folds")
PAIRS = "table3-biosses-folds"
"""All 100 pairs; the split with 20 is shown and not judged."""
LABELS = {
    "chem": "chemicals",
    "disease": "diseases",
    "biosses": "BIOSSES, 20 pairs",
    "biosses-folds": "BIOSSES, all pairs",
    "original": "original",
    "untrained": "untrained",
    "synonym": "synonyms",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One thing that our runs should reach."""

    what: str
    """In words."""
    asked: str
    """The target."""
    measured: Sequence[Estimate]
    """What was measured; empty where nothing was yet."""
    met: bool | None
    """Whether the values reach it; None where that is not known."""
    why: str = "not measured yet"
    """Why it is not known."""


STATEMENTS = {
    1: "Under the attacks chemicals lose about 20 % of F1",
    2: "Under the attacks F1 of diseases falls below half of the original",
    3: "Diseases are affected more than chemicals",
    4: "The more is annotated, the harder the attack",
    5: "P is sturdier than P+M under keyboard noise, less under swap noise",
    6: "Noise lowers Pearson (by 23 % for P+M, 8 % for P)",
    7: "Synonyms raise the word overlap of a pair",
    8: "Pearson is higher under synonyms than on the original pairs",
    9: "Adversarial training leaves clean scores nearly untouched",
    10: "Adversarially trained models withstand the attack better",
}


def claims(results: Results) -> list[Judged]:
    """Judge every claim on the runs that are there; those without a run give no line.

    Nothing speaks of claim 5, which compares the paper's two encoders.
    """
    found = [*_losses(results), *_pairs(results), *_words(results), *_trained(results)]
    return sorted(found, key=lambda one: one.number)


def targets(results: Results) -> list[Target]:
    """The targets, whether or not they were measured."""
    found = []
    for data, least in (("chem", 0.86), ("disease", 0.78)):
        rows = _rows(results.get(f"table2-{data}"), "scores", model="original")
        found.append(
            _least(
                f"F1 on the clean test set, {LABELS[data]}", least, [row["f1"] for row in rows][:1]
            )
        )
    rows = _rows(results.get(PAIRS), "scores", attack=SYNONYM)
    kinds = ", ".join(row["model"] for row in rows) or "untrained, or cross-validated"
    found.append(
        _least(f"Pearson on all 100 pairs ({kinds})", 0.84, [row["pearson"] for row in rows])
    )
    for name in TRAINED:
        for attack in ATTACKS:
            found.append(_recovery(name, attack, results.get(name)))
    return found


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


def _losses(results: Results) -> Iterator[Judged]:
    for number, data in ((1, "chem"), (2, "disease")):
        for row in _rows(results.get(f"table2-{data}"), "effects", effect="share_lost"):
            attack, estimate = row["attack"], estimate_of(row)
            if row["model"] != "original" or attack == "noise" or (attack == "all" and number == 2):
                continue
            half = Estimate(
                value=_minus(estimate.value, HALF), n=estimate.n, low=_minus(estimate.low, HALF),
                high=_minus(estimate.high, HALF), method=estimate.method,
            )  # fmt: skip
            yield Judged(
                number=number,
                where=f"{LABELS[data]}, {LABELS[attack]}",
                quantity="share of F1 lost",
                effect=estimate,
                printed=_printed_losses(2, data, attack, "f1"),
                verdict=inside(estimate, *ABOUT) if number == 1 else above(half),
            )


def _pairs(results: Results) -> Iterator[Judged]:
    run = results.get(PAIRS)
    for row in _rows(run, "effects", effect="share_lost"):
        if row["attack"] in (*NOISES, "noise"):
            yield Judged(
                number=6,
                where=f"{LABELS[row['attack']]}, {LABELS[row['model']]} model",
                quantity="share of Pearson lost",
                effect=estimate_of(row),
                printed=_printed_losses(3, "biosses", row["attack"], "pearson"),
                verdict=above(estimate_of(row)),
            )
    for row in _rows(run, "effects", effect="overlap_gain", attack=SYNONYM):
        yield Judged(
            number=7,
            where=f"all {row['n']} pairs",
            quantity="share of words in both texts, after minus before",
            effect=estimate_of(row),
            printed="",
            verdict=above(estimate_of(row)),
        )
    for row in _rows(run, "scores", attack=SYNONYM):
        rise = negative(estimate_of(row["pearson_drop"]))
        yield Judged(
            number=8,
            where=f"{LABELS[row['model']]} model",
            quantity="Pearson, synonyms minus original",
            effect=rise,
            printed=" ".join(
                decimal(printed(3, m, SYNONYM, "pearson") - printed(3, m, "original", "pearson"))
                for m in MODELS
            ),
            verdict=above(rise),
        )


def _words(results: Results) -> Iterator[Judged]:
    """What is annotated: between the two data sets, and within each."""
    runs = {name: results[name] for name in BEFORE if name in results}
    if len(runs) == 2:
        chemicals, diseases = runs.values()
        for attack in (*ATTACKS, "all"):
            yield _gap(3, diseases, chemicals, attack, f"diseases, {LABELS[attack]}")
        # The paper counts annotations; diseases have fewer of these, and more words.
        for key, what in (("n_entities", "entities"), ("n_annotated_words", "annotated words")):
            fewer, more = sorted(runs.values(), key=lambda run: run["facts"][key])
            if more["facts"][key] == fewer["facts"][key]:
                continue  # the claim says nothing
            yield _gap(4, more, fewer, "all", f"{LABELS[more['data']]}, with more {what}")
    told = {
        "entities_of_sentence": "share lost of entities in sentences with many of them, minus that "
        "in others",
        "words_of_sentence": "share lost of entities in sentences with many annotated words, "
        "minus that in others",
        "words_of_entity": "share lost of entities of several words, minus that of one word",
    }
    for run in runs.values():
        for name, quantity in told.items():
            for row in _rows(run, "effects", effect=name, model="original"):
                yield Judged(
                    number=4,
                    where=f"{LABELS[run['data']]}, {LABELS[row['attack']]}",
                    quantity=quantity,
                    effect=estimate_of(row),
                    printed="",
                    verdict=above(estimate_of(row)),
                )


def _gap(number: int, first: Json, second: Json, attack: str, where: str) -> Judged:
    """How much more one data set loses than the other."""
    wanted = {"effect": "share_lost", "model": "original", "attack": attack}
    sides = [estimate_of(row) for run in (first, second) for row in _rows(run, "effects", **wanted)]
    gap = difference(*sides)
    shares = (_shares_lost(2, run["data"], attack, "f1") for run in (first, second))
    return Judged(
        number=number,
        where=where,
        quantity=f"share of F1 lost, minus that of {LABELS[second['data']]}",
        effect=gap,
        printed=" ".join(decimal(one - other) for one, other in zip(*shares, strict=True)),
        verdict=above(gap),
    )


def _trained(results: Results) -> Iterator[Judged]:
    for name in TRAINED:
        run = results.get(name)
        for row in _rows(run, "comparison", trained_on=True):
            where = f"{LABELS[run['data']]}, trained on {LABELS[row['attack']]}" if run else ""
            loss, gain = estimate_of(row["clean_loss"]), estimate_of(row["gain"])
            table, measure = int(name[5]), row["measure"]
            clean, attacked = (
                [
                    printed(table, model, test, measure, row["attack"])
                    - printed(2 if table < 6 else 3, model, test, measure, data=_data(name))
                    for model in MODELS
                ]
                for test in ("original", row["attack"])
            )
            yield Judged(
                number=9,
                where=where,
                quantity="clean score lost",
                effect=loss,
                printed=" ".join(decimal(-value) for value in clean),
                verdict=at_most(loss, UNTOUCHED),
            )
            yield Judged(
                number=10,
                where=where,
                quantity="score under the attack, trained minus original",
                effect=gain,
                printed=" ".join(map(decimal, attacked)),
                verdict=above(gain),
            )


def at_most(estimate: Estimate, most: float) -> Finding:
    """Judge the claim that an effect is no larger than a bound, by its whole interval.

    >>> at_most(Estimate(value=0.01, n=9, low=-0.01, high=0.03, method=""), 0.02).value
    'undecided'
    """
    return inside(estimate, float("-inf"), most)


def _least(what: str, least: float, measured: Sequence[Json]) -> Target:
    known = list(map(estimate_of, measured))
    values = [one.value for one in known if one.value is not None]
    asked = f"≥ {least:.2f}".replace("0.", ".")
    return Target(
        what=what, asked=asked, measured=known, met=max(values) >= least if values else None
    )


def _recovery(name: str, attack: str, run: Json | None) -> Target:
    rows = _rows(run, "comparison", trained_on=True, attack=attack)
    what = (
        "recovered share of the loss, and clean loss: "
        f"{LABELS[_data(name, folds=True)]}, {LABELS[attack]}"
    )
    asked = "≥ .50, < .02"
    if not rows:
        return Target(what=what, asked=asked, measured=[], met=None)
    share, loss = (estimate_of(rows[0][key]) for key in ("recovered", "clean_loss"))
    if share.value is None or loss.value is None:
        why = "open: what the attack takes is not clear of zero"
        return Target(what=what, asked=asked, measured=[share, loss], met=None, why=why)
    met = share.value >= HALF and loss.value < UNTOUCHED
    return Target(what=what, asked=asked, measured=[share, loss], met=met)


def _rows(run: Json | None, part: str, **wanted: Any) -> list[Json]:
    """The rows of a part of a run in which these keys have these values."""
    if run is None:
        return []
    return [row for row in run[part] if all(row[key] == value for key, value in wanted.items())]


def _printed_losses(table: int, data: str, attack: str, measure: str) -> str:
    return " ".join(map(decimal, _shares_lost(table, data, attack, measure)))


def _shares_lost(table: int, data: str, attack: str, measure: str) -> list[float]:
    """What the paper's two models lose."""
    tests = {"all": ATTACKS, "noise": NOISES}.get(attack, (attack,))
    shares = []
    for model in MODELS:
        clean = printed(table, model, "original", measure, data=data)
        after = fmean(printed(table, model, test, measure, data=data) for test in tests)
        shares.append(1 - after / clean)
    return shares


def _data(name: str, *, folds: bool = False) -> str:
    data = name.partition("-")[2]
    return data if folds else data.removesuffix("-folds")


def estimate_of(row: Json) -> Estimate:
    """As it was before it was written."""
    return Estimate(**{name: row[name] for name in ("value", "n", "low", "high", "method")})


def _minus(value: float | None, less: float) -> float | None:
    return None if value is None else value - less
