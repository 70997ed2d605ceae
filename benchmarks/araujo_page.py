"""docs/results/araujo.md from the results of araujo_collect.py.

Numbers and verdicts come from the JSON; what is said by hand is in araujo_prose.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from araujo_cells import named, noise_outside, shown, table
from araujo_claims import (
    BEFORE,
    LABELS,
    PAIRS,
    STATEMENTS,
    TRAINED,
    Results,
    claims,
    estimate_of,
    negative,
    targets,
)
from araujo_effects import ATTACKS, SYNONYM
from araujo_printed import MODELS, printed
from araujo_prose import (
    ANNOTATED,
    HEAD,
    INTRO,
    LIMITS,
    NOT_JUDGED,
    NOT_TESTABLE,
    PRINTED,
    RULES,
    SAME_NAMES,
    TRIED,
)

from medstress.report.formats import NONE, decimal

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "araujo"
PAGE = ROOT / "docs" / "results" / "araujo.md"
REDRAWN = "table6-biosses-redrawn"
RUNS = {
    "table2-chem": "Table 2, chemicals",
    "table2-disease": "Table 2, diseases",
    "table3-biosses-folds": "Table 3, all pairs by cross-validation",
    "table3-biosses": "Table 3, 20 pairs as published",
    "table4-chem": "Table 4, chemicals",
    "table5-disease": "Table 5, diseases",
    "table6-biosses-folds": "Table 6, all pairs by cross-validation",
    "table6-biosses": "Table 6, 20 pairs as published",
}
TITLES = {
    **RUNS,
    REDRAWN: "Table 6, 20 pairs: another learning rate, a copy of its own every epoch",
}
"""Also of what was only tried."""


def load(folder: Path) -> Results:
    """The results by name of the file."""
    return {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))
    }


def write(folder: Path, page: Path) -> None:
    """The page, from the results that are there."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(load(folder)), "utf-8")


def render(results: Results) -> str:
    """The whole page, whatever results there are."""
    parts = [
        HEAD,
        INTRO,
        _state(results),
        _targets(results),
        "## Trained on clean data\n",
    ]
    parts += [_before(results, name) for name in (*BEFORE, PAIRS, "table3-biosses")]
    parts.append(
        "## Trained on a perturbed copy as well\n\nSuch a model reads every sentence twice an "
        "epoch, as it is and perturbed, so that a part of what it gains on clean data may be "
        "longer training.\n"
    )
    parts += [_after(results, name) for name in (*TRAINED, "table6-biosses")]
    if REDRAWN in results:
        parts.append(_after(results, REDRAWN))
    parts += [_claims(results), TRIED, PRINTED, _curves(results), LIMITS]
    return "\n".join(part for part in parts if part)


def _state(results: Results) -> str:
    rows = []
    for name, title in TITLES.items():
        run = results.get(name)
        if run is None:
            if name in RUNS:
                rows.append([title, "**not run yet**", "", "", ""])
            continue
        facts = run["facts"]
        sample = facts["n_items"] < facts["n_rows"]
        tested = f"{facts['n_items']:,}" + (f" of {facts['n_rows']:,}: a sample" if sample else "")
        kinds = {
            kind: _seeds(run, kind) for kind in dict.fromkeys(m["model"] for m in run["models"])
        }
        told = "; ".join(
            named(kind) + (f" (seeds {seeds})" if kind != "untrained" else "")
            for kind, seeds in kinds.items()
        )
        minutes = sum(model["seconds"] for model in run["models"]) / 60
        rows.append([title, told, tested, f"{minutes:.0f}", run["date"][:10]])
    heads = ["", "models", "tested on", "minutes of training", "date"]
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
        return f"### {TITLES[name]}\n\nNot run yet.\n"
    measured = "f1" if "f1" in run["scores"][0] else "pearson"
    own = _entities(run) if measured == "f1" else _coefficients(run)
    parts = [f"### {TITLES[name]}\n", f"`{run['command']}`\n", own]
    if measured == "f1":
        parts.append(noise_outside(_of(run["scores"], "original")))
    if measured == "f1" and len(_of(run["models"], "original")) > 1:
        parts.append(_by_seed(run))
    if name in BEFORE:
        parts.append(
            f"![Figure 1: strict F1 of {LABELS[run['data']]}, clean and perturbed, with the "
            f"printed scores](araujo/figure1-{run['data']}.svg)\n"
        )
    if name == "table3-biosses":
        parts.append(NOT_JUDGED)
    return "\n".join(parts)


def _entities(run: Mapping[str, Any]) -> str:
    rows = _of(run["scores"], "original")
    clean = rows[0]
    lines = [
        [
            "original",
            *(shown(clean[name]) for name in ("precision", "recall", "f1")),
            NONE,
            NONE,
            shown(clean["f1_relaxed"]),
            *_theirs(run, "original"),
        ]
    ]
    for row in sorted(rows, key=lambda row: _rank(row["attack"])):
        lines.append(
            [
                named(row["attack"]),
                *(shown(row[f"{name}_after"]) for name in ("precision", "recall", "f1")),
                shown(row["f1_drop"]),
                shown(row["f1_net_drop"]),
                shown(row["f1_relaxed_after"]),
                *_theirs(run, row["attack"]),
            ]
        )
    heads = ["test", "precision", "recall", "F1", "drop", "net", "relaxed F1"]
    return table([*heads, "printed precision", "recall", "F1"], lines)


def _coefficients(run: Mapping[str, Any]) -> str:
    lines = []
    for kind in dict.fromkeys(row["model"] for row in run["scores"]):
        rows = _of(run["scores"], kind)
        clean = [shown(rows[0][name]) for name in ("pearson", "spearman")]
        lines.append([named(kind), "original", clean[0], NONE, clean[1]])
        lines[-1] += _theirs(run, "original")
        for row in rows:
            lines.append(
                [
                    named(kind),
                    named(row["attack"]),
                    shown(row["pearson_after"]),
                    shown(row["pearson_drop"]),
                    shown(row["spearman_after"]),
                    *_theirs(run, row["attack"]),
                ]
            )
    heads = ["model", "test", "Pearson", "drop", "Spearman", "printed Pearson", "Spearman"]
    return table(heads, lines)


def _by_seed(run: Mapping[str, Any]) -> str:
    attacks = sorted({row["attack"] for row in run["single"]}, key=lambda name: (_rank(name), name))
    lines = []
    for model in _of(run["models"], "original"):
        rows = {r["attack"]: r for r in run["single"] if r["victim"] == model["victim"]}
        clean = decimal(rows[attacks[0]]["f1"]["value"])
        after = [decimal(rows[attack]["f1_after"]["value"]) for attack in attacks]
        lines.append([str(model["seed"]), clean, *after])
    heads = ["training seed, F1", "original", *map(named, attacks)]
    return table(heads, lines)


def _after(results: Results, name: str) -> str:
    run = results.get(name)
    if run is None:
        return f"### {TITLES[name]}\n\nNot run yet.\n"
    measures, titles = (
        (("precision", "recall", "f1"), ["precision", "recall", "F1"])
        if "f1" in run["scores"][0]
        else (("pearson", "spearman"), ["Pearson", "Spearman"])
    )
    heads = ["trained on", "test", *titles, f"{titles[-1 if len(titles) == 3 else 0]} gained"]
    heads += ["recovered", f"printed {titles[0]}", *titles[1:]]
    lines = [
        line
        for kind in dict.fromkeys(row["model"] for row in run["comparison"])
        for line in _of_kind(run, kind, measures)
    ]
    told = (
        "*Gained*: against the model trained on clean data, on the same test. *Recovered*: the "
        "share of that model's loss under the attack; a dash where the loss is not clear of zero.\n"
    )
    if any(_gains(row) for row in run["comparison"]):
        told += f"\n{SAME_NAMES}"
    if name in ("table6-biosses", REDRAWN):
        told += f"\n{NOT_JUDGED}"
    return f"### {TITLES[name]}\n\n`{run['command']}`\n\n{table(heads, lines)}\n{told}"


def _gains(row: Mapping[str, Any]) -> bool:
    """Whether a tagger trained on synonyms is surely better under them than on clean data."""
    if (row["attack"], row["trained_on"], row["measure"]) != (SYNONYM, True, "f1"):
        return False
    return (row["trained_attacked"]["low"] or 0) > (row["trained_clean"]["high"] or 1)


def _of_kind(run: Mapping[str, Any], kind: str, measures: Sequence[str]) -> list[list[str]]:
    """A kind of model on the clean test set, then under each attack."""
    rows, scores = (_of(run[part], kind) for part in ("comparison", "scores"))
    on = next((row["attack"] for row in rows if row["trained_on"]), "")
    title, loss = named(kind), rows[0]["clean_loss"]
    lines = [
        [
            title,
            "original",
            *(shown(scores[0][name]) for name in measures),
            shown(negative(estimate_of(loss))),
            NONE,
            *_theirs(run, "original", on),
        ]
    ]
    for row in sorted(rows, key=lambda row: _rank(row["attack"])):
        (score,) = (score for score in scores if score["attack"] == row["attack"])
        lines.append(
            [
                title,
                named(row["attack"]) + (" (trained on)" if row["trained_on"] else ""),
                *(shown(score[f"{name}_after"]) for name in measures),
                shown(row["gain"]),
                shown(row["recovered"]),
                *(_theirs(run, row["attack"], on) if row["trained_on"] else [NONE] * len(measures)),
            ]
        )
    return lines


def _rank(attack: str) -> int:
    return ATTACKS.index(attack) if attack in ATTACKS else len(ATTACKS)


def _theirs(run: Mapping[str, Any], test: str, trained_on: str = "") -> list[str]:
    """What the paper prints of the same test."""
    is_pairs = "pearson" in run["scores"][0]
    measures = ("pearson", "spearman") if is_pairs else ("precision", "recall", "f1")
    if test not in ("original", *ATTACKS):
        return [NONE] * len(measures)
    number = int(run["table"].removeprefix("table"))
    data = run["data"].partition("-")[0]
    return [
        " / ".join(
            decimal(printed(number, model, test, measure, trained_on, data)) for model in MODELS
        )
        for measure in measures
    ]


def _claims(results: Results) -> str:
    found = claims(results)
    parts = [
        "## Each claim of the paper\n",
        "*Supported*: the whole 95 % interval of our effect lies where the claim says; "
        "*contradicted*: the whole interval lies elsewhere; else *undecided*. Verdicts speak of "
        "our encoder, and are not corrected for their number.\n",
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
                one.verdict.value,
            ]
            for one in found
            if one.number == number
        ]
        heads = ["where", "effect", "ours [95 %]", "printed", "verdict"]
        if lines:
            parts.append(table(heads, lines))
        elif number != NOT_TESTABLE:
            parts.append("No run yet.\n")
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


def _of(rows: Sequence[Mapping[str, Any]], kind: str, **more: Any) -> list[Mapping[str, Any]]:
    wanted = {"model": kind, **more}
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]
