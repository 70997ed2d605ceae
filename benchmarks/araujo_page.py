"""docs/results/araujo.md from the results of araujo_collect.py.

Numbers and verdicts come from the JSON; what is said by hand is in araujo_prose.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from araujo_after import after
from araujo_cells import named, noise_outside, rank, shown, table, theirs
from araujo_claims import STATEMENTS, claims
from araujo_earlier import earlier
from araujo_judged import (
    BEFORE,
    LABELS,
    NOT_RUN,
    PAIRS,
    TITLES,
    TRAINED,
    UNTRAINED,
    Results,
    rows_of,
    surrogate_of,
)
from araujo_prose import ANNOTATED, HEAD, INTRO, LIMITS, NOT_TESTABLE, PRINTED, RULES, TRIED
from araujo_targets import targets

from medstress.results.formats import NONE, decimal

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "araujo"
PAGE = ROOT / "docs" / "results" / "araujo.md"
EDITION = 2
"""The format of results that this page reads; those of earlier editions were measured otherwise."""


def load(folder: Path) -> Results:
    """The results of this edition by name of the file; others are left out."""
    found = {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))
    }
    return {name: run for name, run in found.items() if run["format"] == EDITION}


def write(folder: Path, page: Path) -> None:
    """The page, from the results that are there."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(load(folder)), "utf-8")


def render(results: Results) -> str:
    """The whole page, whatever results there are."""
    parts = [HEAD, INTRO, _state(results), earlier(results), _targets(results)]
    parts.append("## Trained on clean data\n")
    parts += [_before(results, name) for name in (*BEFORE, PAIRS)]
    parts.append(
        "## Trained on a perturbed copy as well\n\nSuch a model reads every sentence twice an "
        "epoch, as it is and perturbed. *Original twice* reads two plain copies: what a model "
        "gains over it is not longer training. *Held-out names*: the training copy has none of the "
        "names that the test is given.\n"
    )
    parts += [after(results, name) for name in TRAINED]
    parts += [_claims(results), TRIED, PRINTED, _curves(results), LIMITS]
    return "\n".join(part for part in parts if part)


def _state(results: Results) -> str:
    rows = []
    for name, title in TITLES.items():
        run = results.get(name)
        if run is None:
            rows.append([title, "**not run with this edition**", "", "", "", ""])
            continue
        facts = run["facts"]
        sample = facts["n_items"] < facts["n_rows"]
        tested = f"{facts['n_items']:,}" + (f" of {facts['n_rows']:,}: a sample" if sample else "")
        kinds = {
            kind: _seeds(run, kind) for kind in dict.fromkeys(m["model"] for m in run["models"])
        }
        told = "; ".join(
            named(kind) + (f" (seeds {seeds})" if kind != UNTRAINED else "")
            for kind, seeds in kinds.items()
        )
        minutes = sum(model["seconds"] for model in run["models"]) / 60
        trained = f"{facts['n_train']:,}"
        rows.append([title, told, trained, tested, f"{minutes:.0f}", run["date"][:10]])
    heads = ["", "models", "trained on", "tested on", "minutes of training", "date"]
    return f"## What was run\n\n{table(heads, rows)}" + _machine(results)


def _seeds(run: Mapping[str, Any], kind: str) -> str:
    seeds = dict.fromkeys(model["seed"] for model in run["models"] if model["model"] == kind)
    return ", ".join(map(str, seeds))


def _machine(results: Results) -> str:
    told = dict.fromkeys(
        f"{run['machine']['cpu']}, {run['machine']['cores']} cores"
        + "".join(
            f", {name} {run['versions'].get(name, '?')}" for name in ("torch", "transformers")
        )
        for run in results.values()
    )
    return f"\nMachine: {'; '.join(told)}; other work ran beside.\n" if told else ""


def _targets(results: Results) -> str:
    words = {True: "met", False: "**not met**"}
    rows = [
        [
            one.what,
            one.asked,
            ", ".join(map(shown, one.measured)) or NONE,
            one.why if one.met is None else words[one.met],
        ]
        for one in targets(results)
    ]
    return "## Targets\n\nMet where the values, not their intervals, reach them.\n\n" + table(
        ["what", "target", "measured", ""], rows
    )


def _before(results: Results, name: str) -> str:
    run = results.get(name)
    if run is None:
        return f"### {TITLES[name]}\n\n{NOT_RUN}"
    measured = "f1" if "f1" in run["scores"][0] else "pearson"
    own = _entities(run) if measured == "f1" else _coefficients(run)
    parts = [f"### {TITLES[name]}\n", f"`{run['command']}`\n", own, _surrogate(run)]
    if measured == "f1":
        parts.append(noise_outside(rows_of(run, "scores", model="original")))
    if measured == "f1" and len(rows_of(run, "models", model="original")) > 1:
        parts.append(_by_seed(run))
    if name in BEFORE:
        parts.append(
            f"![Figure 1: strict F1 of {LABELS[run['data']]}, clean and perturbed, with the "
            f"printed scores](araujo/figure1-{run['data']}.svg)\n"
        )
    return "\n".join(parts)


def _entities(run: Mapping[str, Any]) -> str:
    rows = rows_of(run, "scores", model="original")
    clean = rows[0]
    lines = [
        [
            "original",
            *(shown(clean[name]) for name in ("precision", "recall", "f1")),
            NONE,
            NONE,
            shown(clean["f1_relaxed"]),
            *theirs(run, "original"),
        ]
    ]
    for row in sorted(rows, key=lambda row: rank(row["attack"])):
        lines.append(
            [
                named(row["attack"]),
                *(shown(row[f"{name}_after"]) for name in ("precision", "recall", "f1")),
                shown(row["f1_drop"]),
                shown(row["f1_net_drop"]),
                shown(row["f1_relaxed_after"]),
                *theirs(run, row["attack"]),
            ]
        )
    heads = ["test", "precision", "recall", "F1", "drop", "net", "relaxed F1"]
    return table([*heads, "printed precision", "recall", "F1"], lines)


def _coefficients(run: Mapping[str, Any]) -> str:
    lines = []
    for kind in dict.fromkeys(row["model"] for row in run["scores"]):
        rows = rows_of(run, "scores", model=kind)
        clean = [shown(rows[0][name]) for name in ("pearson", "spearman")]
        lines.append([named(kind), "original", clean[0], NONE, clean[1]])
        lines[-1] += theirs(run, "original")
        for row in rows:
            lines.append(
                [
                    named(kind),
                    named(row["attack"]),
                    shown(row["pearson_after"]),
                    shown(row["pearson_drop"]),
                    shown(row["spearman_after"]),
                    *theirs(run, row["attack"]),
                ]
            )
    heads = ["model", "test", "Pearson", "drop", "Spearman", "printed Pearson", "Spearman"]
    return table(heads, lines)


def _by_seed(run: Mapping[str, Any]) -> str:
    attacks = sorted({row["attack"] for row in run["single"]}, key=lambda name: (rank(name), name))
    lines = []
    for model in rows_of(run, "models", model="original"):
        rows = {r["attack"]: r for r in run["single"] if r["victim"] == model["victim"]}
        clean = decimal(rows[attacks[0]]["f1"]["value"])
        after = [decimal(rows[attack]["f1_after"]["value"]) for attack in attacks]
        lines.append([str(model["seed"]), clean, *after])
    heads = ["training seed, F1", "original", *map(named, attacks)]
    return table(heads, lines)


def _surrogate(run: Mapping[str, Any]) -> str:
    told = surrogate_of(run, "synonym")
    return f"*Synonyms* are here {told}.\n" if told else ""


def _claims(results: Results) -> str:
    found = claims(results)
    parts = [
        "## Each claim of the paper\n",
        "*Supported*: the whole 95 % interval of our effect lies where the claim says; "
        "*contradicted*: the whole interval lies elsewhere; else *undecided*. Seeds are drawn with "
        "the sentences; of a kind with fewer than three training seeds nothing is judged "
        "(*open*). Verdicts speak of our encoder, those on synonyms of the names they say, and are "
        "not corrected for their number.\n",
    ]
    for number, statement in STATEMENTS.items():
        parts.append(f"**{number}. {statement}.** {RULES[number]}\n")
        if number == ANNOTATED:
            parts.append(_counts(results))
        lines = [
            [
                one.where,
                one.quantity,
                shown(one.effect),
                one.printed.replace(" ", " / ") or NONE,
                one.told,
            ]
            for one in found
            if one.number == number
        ]
        heads = ["where", "effect", "ours [95 %]", "printed", "verdict"]
        if lines:
            parts.append(table(heads, lines))
        elif number != NOT_TESTABLE:
            parts.append(NOT_RUN)
    return "\n".join(part for part in parts if part)


def _counts(results: Results) -> str:
    """What is annotated, as counted in the test set."""
    facts = {run["data"]: run["facts"] for run in results.values() if "n_entities" in run["facts"]}
    if set(facts) != {"chem", "disease"}:
        return ""
    told = {
        data: f"{sizes['n_entities']:,} {LABELS[data]} of {sizes['n_annotated_words']:,} words"
        for data, sizes in facts.items()
    }
    return f"Annotated in the test set: {told['chem']}, {told['disease']}.\n"


def _curves(results: Results) -> str:
    lines = []
    for name, run in results.items():
        if run["settings"].get("folds"):
            continue
        for model in run["models"]:
            for point in model["curve"]:
                score = NONE if point["score"] is None else decimal(point["score"])
                lines.append(
                    [
                        TITLES.get(name, name),
                        model["victim"],
                        str(point["epoch"]),
                        f"{point['loss']:.4f}",
                        score,
                        f"{point['seconds']:.0f}",
                    ]
                )
    if not lines:
        return ""
    heads = ["run", "model", "epoch", "loss", "dev score", "seconds"]
    return (
        "## Learning curves\n\nDev scores of adversarial models are on dev data with a perturbed "
        "copy. Those of folds are in the JSON.\n\n" + table(heads, lines)
    )
