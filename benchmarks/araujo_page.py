"""What docs/results/araujo.md shows of the results of araujo_collect.py, between its marks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from araujo_after import after
from araujo_claims import ANNOTATED, NOT_TESTABLE, RULES, STATEMENTS, claims
from araujo_earlier import numbers
from araujo_judged import (
    BEFORE,
    LABELS,
    NOT_RUN,
    ORIGINAL,
    PAIRS,
    TITLES,
    TRAINED,
    UNTRAINED,
    Judged,
    Results,
    named,
    names_told,
    rank,
    rows_of,
)
from araujo_printed import theirs
from araujo_targets import targets
from pages import blocks, fill, listed, shown, table, verdicts

from medstress.results.formats import decimal

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
    """The committed page with these results, whatever there are."""
    return fill(PAGE.read_text("utf-8"), parts(results))


def parts(results: Results) -> dict[str, str]:
    """What stands between the marks of the page."""
    return {
        "answer": _answer(results),
        "runs": _runs(results),
        "targets": _targets(results),
        **{name: _before(results, name) for name in (*BEFORE, PAIRS)},
        **{name: after(results, name) for name in TRAINED},
        "names": _names(results),
        "claims": _claims(results),
        "earlier": numbers(),
        "curves": _curves(results),
    }


def _answer(results: Results) -> str:
    """What the attacks take from models trained on clean data, and the verdicts on the claims."""
    rows, attacks = [], []
    for run in (results[name] for name in (*BEFORE, PAIRS) if name in results):
        scores = {row["attack"]: row for row in rows_of(run, "scores", model=ORIGINAL)}
        if not scores:
            continue
        measure, title = ("f1", "F1") if "f1" in run["scores"][0] else ("pearson", "Pearson")
        attacks = sorted(scores, key=rank)[:3]
        lost = [scores[attack][f"{measure}_drop"] for attack in attacks]
        rows.append([f"{LABELS[run['data']]}, {title}", scores[attacks[0]][measure], *lost])
    heads = ["score", "clean", *(f"lost under {named(attack)}" for attack in attacks)]
    found = claims(results)
    judged = {
        f"{number}. {statement}": [one.outcome for one in found if one.number == number]
        or ["not testable with one encoder" if number == NOT_TESTABLE else NOT_RUN]
        for number, statement in STATEMENTS.items()
    }
    return blocks(table(heads, rows) if rows else NOT_RUN, verdicts(judged))


def _runs(results: Results) -> str:
    rows = []
    for name, title in TITLES.items():
        run = results.get(name)
        if run is None:
            rows.append([title, "**not run with this edition**", *[None] * 4])
            continue
        facts = run["facts"]
        is_sample = facts["n_items"] < facts["n_rows"]
        rows.append(
            [
                title,
                "; ".join(map(named, _seeds(run))),
                facts["n_train"],
                f"{facts['n_items']:,}" + f" of {facts['n_rows']:,}: a sample" * is_sample,
                round(sum(model["seconds"] for model in run["models"]) / 60),
                run["date"][:10],
            ]
        )
    heads = ["", "models", "trained on", "tested on", "minutes of training", "date"]
    machines = dict.fromkeys(
        ", ".join(
            [
                f"{run['machine']['cpu']}, {run['machine']['cores']} cores",
                *(f"{name} {run['versions'].get(name, '?')}" for name in ("torch", "transformers")),
            ]
        )
        for run in results.values()
    )
    told = f"Machine: {'; '.join(machines)}; other work ran beside." if machines else ""
    return blocks(table(heads, rows), told)


def _seeds(run: Mapping[str, Any]) -> Iterator[str]:
    """The kinds of models with their training seeds."""
    for kind in dict.fromkeys(model["model"] for model in run["models"]):
        seeds = dict.fromkeys(m["seed"] for m in run["models"] if m["model"] == kind)
        yield kind if kind == UNTRAINED else f"{named(kind)} (seeds {', '.join(map(str, seeds))})"


def _targets(results: Results) -> str:
    words = {True: "met", False: "**not met**"}
    rows = [
        [one.what, one.asked, one.measured, one.why if one.met is None else words[one.met]]
        for one in targets(results)
    ]
    return table(["what", "target", "measured", ""], rows)


def _before(results: Results, name: str) -> str:
    """A table of models trained on clean data."""
    run = results.get(name)
    if run is None:
        return NOT_RUN
    if "pearson" in run["scores"][0]:
        return _coefficients(run)
    several = len(rows_of(run, "models", model=ORIGINAL)) > 1
    scores = rows_of(run, "scores", model=ORIGINAL)
    return blocks(_entities(run), _noise_outside(scores), _by_seed(run) if several else "")


def _entities(run: Mapping[str, Any]) -> str:
    rows = rows_of(run, "scores", model=ORIGINAL)
    names = ("precision", "recall", "f1")
    clean = rows[0]
    lines = [
        [
            "original",
            *(clean[name] for name in names),
            *[None] * 2,
            clean["f1_relaxed"],
            *theirs(run, "original"),
        ]
    ]
    lines += [
        [
            named(row["attack"]),
            *(row[f"{name}_after"] for name in names),
            row["f1_drop"],
            row["f1_net_drop"],
            row["f1_relaxed_after"],
            *theirs(run, row["attack"]),
        ]
        for row in sorted(rows, key=lambda row: rank(row["attack"]))
    ]
    heads = ["test", "precision", "recall", "F1", "drop", "net", "relaxed F1"]
    return table([*heads, "printed precision", "recall", "F1"], lines)


def _coefficients(run: Mapping[str, Any]) -> str:
    lines = []
    for kind in dict.fromkeys(row["model"] for row in run["scores"]):
        rows = rows_of(run, "scores", model=kind)
        clean = [rows[0]["pearson"], None, rows[0]["spearman"]]
        lines.append([named(kind), "original", *clean, *theirs(run, "original")])
        for row in rows:
            found = [row[name] for name in ("pearson_after", "pearson_drop", "spearman_after")]
            lines.append([named(kind), named(row["attack"]), *found, *theirs(run, row["attack"])])
    heads = ["model", "test", "Pearson", "drop", "Spearman", "printed Pearson", "Spearman"]
    return table(heads, lines)


def _noise_outside(scores: list[Any]) -> str:
    """A sentence: what noise takes that touches no entity; empty without the control."""
    rows = {row["attack"]: row for row in scores}
    if not {"non_entity_noise", "swap_noise"} <= set(rows):
        return ""
    control = rows["non_entity_noise"]
    names = ("f1", "precision", "recall")
    if any(control[f"{name}_after"]["value"] is None for name in names):
        return ""  # a model that marks nothing has no precision
    f1, precision, recall = (
        decimal(control[name]["value"] - control[f"{name}_after"]["value"]) for name in names
    )
    return (
        f"As much noise outside the entities alone, the control, takes {f1} of F1 ({precision} of "
        f"precision, as other words are taken for entities, and {recall} of recall); swap noise "
        f"takes {decimal(rows['swap_noise']['f1_drop']['value'])}."
    )


def _by_seed(run: Mapping[str, Any]) -> str:
    attacks = sorted({row["attack"] for row in run["single"]}, key=lambda name: (rank(name), name))
    lines = []
    for model in rows_of(run, "models", model=ORIGINAL):
        rows = {r["attack"]: r for r in run["single"] if r["victim"] == model["victim"]}
        after = [decimal(rows[attack]["f1_after"]["value"]) for attack in attacks]
        lines.append([str(model["seed"]), decimal(rows[attacks[0]]["f1"]["value"]), *after])
    return table(["training seed, F1", "original", *map(named, attacks)], lines)


def _names(results: Results) -> str:
    """What stood for synonyms in each data set, and in which tables."""
    tables: dict[str, list[str]] = {}
    for name in TITLES:
        if name in results and (told := names_told(results[name])):
            tables.setdefault(told, []).append(results[name]["table"].removeprefix("table"))
    return listed(f"{told}; Table {' and '.join(found)}." for told, found in tables.items())


def _claims(results: Results) -> str:
    found = claims(results)
    made = []
    for number, statement in STATEMENTS.items():
        own = [one for one in found if one.number == number]
        counts = _counts(results) if number == ANNOTATED else ""
        made += [f"**{number}. {statement}.** {RULES[number]}{counts}", *_effects(own)]
        if not own and number != NOT_TESTABLE:
            made.append(NOT_RUN)
    return blocks(*made)


def _effects(found: list[Judged]) -> Iterator[str]:
    """A table for each effect by which a claim is judged; one for those in the same places."""
    together: dict[tuple[str, ...], list[list[Judged]]] = {}
    for quantity in dict.fromkeys(one.quantity for one in found):
        own = [one for one in found if one.quantity == quantity]
        together.setdefault(tuple(one.where_of_names for one in own), []).append(own)
    for places, effects in together.items():
        if len(effects) > 1:
            rows = [
                [place, *(f"{shown(one.effect)} {one.outcome}" for one in each)]
                for place, *each in zip(places, *effects, strict=True)
            ]
            yield table(["where", *(each[0].quantity for each in effects)], rows)
            continue
        rows = [
            [place, one.effect, one.printed.replace(" ", " / ") or None, one.outcome]
            for place, one in zip(places, effects[0], strict=True)
        ]
        heads = ["where", effects[0][0].quantity, "printed", "verdict"]
        yield table(heads, rows, drop_empty=True)


def _counts(results: Results) -> str:
    """What is annotated, as counted in the test set."""
    facts = {run["data"]: run["facts"] for run in results.values() if "n_entities" in run["facts"]}
    if set(facts) != {"chem", "disease"}:
        return ""
    told = {
        data: f"{sizes['n_entities']:,} {LABELS[data]} of {sizes['n_annotated_words']:,} words"
        for data, sizes in facts.items()
    }
    return f" Annotated in the test set: {told['chem']}, {told['disease']}."


def _curves(results: Results) -> str:
    """Every model that was not trained by folds: what each epoch reached."""
    lines = []
    for name, run in results.items():
        for model in [] if run["settings"].get("folds") else run["models"]:
            curve = model["curve"]
            lines.append(
                [
                    TITLES.get(name, name),
                    model["victim"],
                    [f"{point['loss']:.4f}" for point in curve],
                    [decimal(point["score"]) for point in curve],
                    [f"{point['seconds']:.0f}" for point in curve],
                ]
            )
    heads = ["run", "model", "loss by epoch", "dev score by epoch", "seconds by epoch"]
    return table(heads, lines) if lines else NOT_RUN
