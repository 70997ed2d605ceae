"""The claims of the paper's prose, each judged by its interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any

from araujo_effects import ATTACKS, NOISES, SYNONYM
from araujo_judged import (
    ABOUT,
    BEFORE,
    HALF,
    LABELS,
    ORIGINAL,
    PAIRS,
    TRAINED,
    UNTOUCHED,
    UNTRAINED,
    Json,
    Judged,
    Results,
    at_most,
    data_of,
    difference,
    negative,
    of_mean,
    rows_of,
    surrogate_of,
)
from araujo_printed import MODELS, printed

from medstress.papers.claims.verdicts import above, inside
from medstress.results.formats import decimal
from medstress.stats.estimates import Estimate, read_score

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

ANNOTATED = 4
"""The claim about what is annotated."""
NOT_TESTABLE = 5
"""The claim that compares the paper's two encoders."""
RULES = {
    1: f"Supported between {decimal(ABOUT[0], 2)} and {decimal(ABOUT[1], 2)}. The paper gives one "
    "number for all attacks, so their mean is judged too; it is not supported where an attack "
    "alone contradicts it.",
    2: f"Supported above {decimal(HALF, 2)}, attack by attack.",
    3: "Both runs are on the same sentences and are taken for independent, so intervals are too "
    "wide.",
    4: "The paper's reason for claim 3: it says that diseases have more annotations. *Many*: more "
    "than the median of the sentences with an entity.",
    5: "Not testable with one encoder, which is neither of the two.",
    6: "By how much does not matter for another encoder.",
    7: "Words of both texts over words of either, case and plural folded.",
    8: "",
    9: f"Supported up to {decimal(UNTOUCHED, 2)}. The paper compares with the model trained on "
    "clean data; original twice, which is trained as long, stands beside it.",
    10: "Against the same two.",
}
"""What is judged how; without a bound, supported is above 0."""


def claims(results: Results) -> list[Judged]:
    """Judge every claim on the runs that are there; those without a run give no line.

    Nothing is judged of a kind of model with fewer than three training seeds.

    Nothing speaks of claim 5, which compares the paper's two encoders.
    """
    found = [*_losses(results), *_pairs(results), *_words(results), *_trained(results)]
    return sorted(found, key=lambda one: one.number)


def _losses(results: Results) -> Iterator[Judged]:
    for number, data in ((1, "chem"), (2, "disease")):
        run = results.get(f"table2-{data}")
        found = [
            _loss(number, run, row)
            for row in rows_of(run, "effects", effect="share_lost", model=ORIGINAL)
            if row["attack"] != "noise" and (row["attack"], number) != ("all", 2)
        ]
        alone = [one.verdict for one in found if one.where != _where(data, "all")]
        yield from (
            replace(one, verdict=of_mean(one.verdict, alone))
            if one.where == _where(data, "all")
            else one
            for one in found
        )


def _loss(number: int, run: Json | None, row: Json) -> Judged:
    assert run is not None
    estimate, data, attack = read_score(row), run["data"], row["attack"]
    half = Estimate(
        value=_minus(estimate.value, HALF), n=estimate.n, low=_minus(estimate.low, HALF),
        high=_minus(estimate.high, HALF), method=estimate.method,
    )  # fmt: skip
    return Judged(
        number=number,
        where=_where(data, attack),
        quantity="share of F1 lost",
        effect=estimate,
        printed=_printed_losses(2, data, attack, "f1"),
        verdict=inside(estimate, *ABOUT) if number == 1 else above(half),
        n_seeds=row["n_seeds"],
        surrogate=surrogate_of(run, attack),
    )


def _where(data: str, attack: str) -> str:
    return f"{LABELS[data]}, {LABELS[attack]}"


def _pairs(results: Results) -> Iterator[Judged]:
    run = results.get(PAIRS)
    for row in rows_of(run, "effects", effect="share_lost"):
        if row["attack"] in (*NOISES, "noise"):
            yield Judged(
                number=6,
                where=f"{LABELS[row['attack']]}, {LABELS[row['model']]} model",
                quantity="share of Pearson lost",
                effect=read_score(row),
                printed=_printed_losses(3, "biosses", row["attack"], "pearson"),
                verdict=above(read_score(row)),
                n_seeds=_seeds_of(row),
            )
    for row in rows_of(run, "effects", effect="overlap_gain", attack=SYNONYM):
        yield Judged(
            number=7,
            where=f"all {row['n']} pairs",
            quantity="share of words in both texts, after minus before",
            effect=read_score(row),
            printed="",
            verdict=above(read_score(row)),
            surrogate=surrogate_of(run or {}, SYNONYM),
        )
    for row in rows_of(run, "scores", attack=SYNONYM):
        rise = negative(read_score(row["pearson_drop"]))
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
            n_seeds=_seeds_of(row),
            surrogate=surrogate_of(run or {}, SYNONYM),
        )


def _seeds_of(row: Json) -> int | None:
    """Training seeds of a row; None of what nothing trained."""
    return None if row["model"] == UNTRAINED else row["n_seeds"]


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
            for row in rows_of(run, "effects", effect=name, model="original"):
                yield Judged(
                    number=4,
                    where=f"{LABELS[run['data']]}, {LABELS[row['attack']]}",
                    quantity=quantity,
                    effect=read_score(row),
                    printed="",
                    verdict=above(read_score(row)),
                    n_seeds=row["n_seeds"],
                    surrogate=surrogate_of(run, row["attack"]),
                )


def _gap(number: int, first: Json, second: Json, attack: str, where: str) -> Judged:
    """How much more one data set loses than the other."""
    wanted = {"effect": "share_lost", "model": "original", "attack": attack}
    rows = [row for run in (first, second) for row in rows_of(run, "effects", **wanted)]
    gap = difference(*map(read_score, rows))
    shares = (_shares_lost(2, run["data"], attack, "f1") for run in (first, second))
    return Judged(
        number=number,
        where=where,
        quantity=f"share of F1 lost, minus that of {LABELS[second['data']]}",
        effect=gap,
        printed=" ".join(decimal(one - other) for one, other in zip(*shares, strict=True)),
        verdict=above(gap),
        n_seeds=min(row["n_seeds"] for row in rows),
        surrogate=" and ".join(
            filter(None, (surrogate_of(run, attack) for run in (first, second)))
        ),
    )


def _trained(results: Results) -> Iterator[Judged]:
    for name in TRAINED:
        run = results.get(name)
        for row in rows_of(run, "comparison", trained_on=True):
            assert run is not None
            where = f"{LABELS[run['data']]}, trained on {LABELS.get(row['model'], row['model'])}"
            if row["against"] != ORIGINAL:
                where += f", against {LABELS[row['against']]}"
            loss, gain = read_score(row["clean_loss"]), read_score(row["gain"])
            clean, attacked = (
                _printed_changes(name, row) if row["against"] == ORIGINAL else ("", "")
            )
            common: Any = {
                "where": where,
                "n_seeds": row["n_seeds"],
                "surrogate": surrogate_of(run, row["attack"]),
            }
            yield Judged(
                number=9,
                quantity="clean score lost",
                effect=loss,
                printed=clean,
                verdict=at_most(loss, UNTOUCHED),
                **common,
            )
            yield Judged(
                number=10,
                quantity="score under the attack, trained minus the other",
                effect=gain,
                printed=attacked,
                verdict=above(gain),
                **common,
            )


def _printed_changes(name: str, row: Json) -> tuple[str, str]:
    """What training takes from the clean score and gives under the attack, as printed."""
    table, measure = int(name[5]), row["measure"]
    lost, gained = (
        [
            printed(table, model, test, measure, row["attack"])
            - printed(2 if table < 6 else 3, model, test, measure, data=data_of(name))
            for model in MODELS
        ]
        for test in ("original", row["attack"])
    )
    return " ".join(decimal(-value) for value in lost), " ".join(map(decimal, gained))


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


def _minus(value: float | None, less: float) -> float | None:
    return None if value is None else value - less
