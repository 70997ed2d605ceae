"""The page's section on models that were trained on a perturbed copy as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from araujo_judged import NOT_RUN, ORIGINAL, TWICE, Results, named, negative, rank, rows_of
from araujo_printed import theirs
from pages import blocks, table

from medstress.results.formats import decimal
from medstress.stats.estimates import Estimate, read_score


def after(results: Results, name: str) -> str:
    """The part of the section on one table."""
    run = results.get(name)
    if run is None:
        return NOT_RUN
    measures, titles = (
        (("precision", "recall", "f1"), ["precision", "recall", "F1"])
        if "f1" in run["scores"][0]
        else (("pearson", "spearman"), ["Pearson", "Spearman"])
    )
    score = titles[-1] if len(titles) == 3 else titles[0]
    heads = ["trained on", "test", *titles, f"{score} gained", "recovered"]
    heads += [f"{score} gained over twice", f"printed {titles[0]}", *titles[1:]]
    kinds = dict.fromkeys(row["model"] for row in run["comparison"])
    lines = [line for kind in kinds for line in _of_kind(run, kind, measures)]
    alone = _seeds_apart(run, measures[-1 if len(titles) == 3 else 0])
    return blocks(table(heads, lines), alone, _met(run))


def _of_kind(run: Mapping[str, Any], kind: str, measures: Sequence[str]) -> list[list[Any]]:
    """A kind of model on the clean test set, then under each attack."""
    rows = rows_of(run, "comparison", model=kind, against=ORIGINAL)
    twice = {row["attack"]: row for row in rows_of(run, "comparison", model=kind, against=TWICE)}
    scores = rows_of(run, "scores", model=kind)
    on = next((row["attack"] for row in rows if row["trained_on"]), "")
    title = named(kind)
    lines = [
        [
            title,
            "original",
            *(scores[0][name] for name in measures),
            negative(read_score(rows[0]["clean_loss"])),
            None,
            _clean_gain(twice),
            *(theirs(run, "original", on) if on else [None] * len(measures)),
        ]
    ]
    for row in sorted(rows, key=lambda row: rank(row["attack"])):
        (score,) = (score for score in scores if score["attack"] == row["attack"])
        over = twice.get(row["attack"])
        lines.append(
            [
                title,
                named(row["attack"]) + (" (trained on)" if row["trained_on"] else ""),
                *(score[f"{name}_after"] for name in measures),
                row["gain"],
                row["recovered"],
                over["gain"] if over else None,
                *(theirs(run, row["attack"], on) if row["trained_on"] else [None] * len(measures)),
            ]
        )
    return lines


def _clean_gain(twice: Mapping[str, Mapping[str, Any]]) -> Estimate | None:
    row = next(iter(twice.values()), None)
    return negative(read_score(row["clean_loss"])) if row else None


def _seeds_apart(run: Mapping[str, Any], measure: str) -> str:
    """Each training seed alone, under the attack that it was trained on."""
    victims = {model["victim"]: model for model in run["models"]}
    on = {row["model"]: row["attack"] for row in run["comparison"] if row["trained_on"]}
    lines = [
        [
            named(victims[row["victim"]]["model"]),
            str(victims[row["victim"]]["seed"]),
            decimal(row[measure]["value"]),
            decimal(row[f"{measure}_after"]["value"]),
        ]
        for row in run["single"]
        if on.get(victims[row["victim"]]["model"]) == row["attack"]
    ]
    return table(["trained on", "seed", "original", "under that attack"], lines) if lines else ""


def _met(run: Mapping[str, Any]) -> str:
    """How many names of the test a model that was trained on names has read."""
    shares = [
        f"{decimal(share, 2)} for {named(kind)}"
        for kind, met in run["names_met"].items()
        for share in met.values()
        if share is not None
    ]
    if not shares:
        return ""
    held_out = [kind for kind in run["names_met"] if "held-out" in kind]
    counts = [run.get("left_out", {}).get(kind) for kind in held_out]
    told = "Of the mentions that synonyms replace in the test so many get a name that "
    if None in counts:
        return (
            f"{told}stands in the training copy as well: {'; '.join(shares)}. These models are of "
            "an earlier version, whose originals have such names even in the arm with held-out "
            "names."
        )
    left_out = "".join(
        f" For held-out names {each['n_left_out']:,} of {each['n_offered']:,} sentences or pairs "
        "are left out."
        for each in counts
    )
    return (
        f"{told}the model is trained on, in the originals or in the copy: {'; '.join(shares)}."
        f"{left_out}"
    )
