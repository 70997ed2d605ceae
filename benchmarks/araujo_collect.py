"""Finished runs of the recipes araujo2020-table2 to -table6 as small JSON files, and the page.

    python benchmarks/araujo_collect.py RUN_FOLDER ...
    python benchmarks/araujo_collect.py --page-only

Writes one file a run, benchmarks/results/araujo/TABLE-DATA.json, the figure of Table 2 and
docs/results/araujo.md. Aggregates only: no sentence and no word of the data. A run that is not
finished is refused; the page says of each that is missing that it has not been run with this
edition. Samples of whole documents, which the experiment itself names (`limit_documents`), are
results and are called samples; those of --limit are not: `--sample` takes them, to try this out;
give other places with `--to` and `--page`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import araujo_effects as effects
import araujo_page
from bench import machine

from medstress.api.results import Run
from medstress.core.errors import MedstressError, UsageError
from medstress.core.sentences import PairCandidate, SentencePair
from medstress.core.text import edits_of
from medstress.kinds.scores import Place, ScoredArm
from medstress.metrics.sentences.entity_scores import Reading
from medstress.results.load import StoredRun, kind_of_run
from medstress.summary.sentences import arms_of
from medstress.training.train import RESULT_FILE

RECIPE = "araujo2020-"
NAMES = {"Chemical": "chem", "Disease": "disease"}
KINDS = ("original", "untrained")
"""Models that saw nothing perturbed."""
SETTINGS = (
    *("model", "encoder", "data", "dev", "folds", "epochs", "batch_size", "learning_rate"),
    *("warmup", "max_length", "patience", "dtype", "seeds", "twice"),
)
MEASURES = {"precision", "recall", "f1", "pearson", "spearman"}
WORDS = {
    "entities_of_sentence": effects.by_entities_of_sentence,
    "words_of_sentence": effects.by_words_of_sentence,
    "words_of_entity": effects.by_words_of_entity,
}
FIGURE = "noise-scores.svg"

Json = dict[str, Any]


def main() -> int:
    """Write results and page; 2 where a run cannot be taken, after the others."""
    given, code = parse(), 0
    for folder in given.folders:
        try:
            take(folder, given)
        except MedstressError as error:
            print(error, file=sys.stderr)
            code = 2
    araujo_page.write(given.to, given.page)
    print(given.page)
    return code


def take(folder: Path, given: argparse.Namespace) -> None:
    """Write what one run says.

    Raises:
        UsageError, StoreError: it cannot be taken.
    """
    result = collected(folder, sample=given.sample)
    to = given.to / f"{result['table']}-{result['data']}.json"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", "utf-8")
    print(to)
    if result["table"] == "table2":
        print(draw(folder, given.page.with_suffix("") / f"figure1-{result['data']}.svg"))


def collected(folder: Path, *, sample: bool = False) -> Json:
    """Everything the page needs of one run.

    Raises:
        UsageError: the run is of another recipe, of a sample, or not finished.
        StoreError: there is no run.
    """
    run = Run(folder)
    manifest = run.manifest()
    check(folder, manifest, sample=sample)
    summary = run.summary()
    training = summary["training"]
    reader = StoredRun(folder)
    try:
        arms = arms_of(reader)
        is_tagged = bool(kind_of_run(reader).classes(reader.items_by_id().values()))
        found = list(effects_of(arms, training, is_tagged=is_tagged))
        if not is_tagged:
            found += overlaps(reader)
    finally:
        reader.close()
    settings = manifest["config"]["train"]
    sizes = {"n_train": training["n_train"], "n_dev": training["n_dev"]}
    return {
        "format": araujo_page.EDITION,
        "table": manifest["config"]["experiment"]["name"].removeprefix(RECIPE),
        "data": data_name(manifest, training),
        "command": command(manifest),
        "date": manifest["finished"],
        "machine": machine(),
        "versions": manifest["versions"],
        "settings": {name: settings[name] for name in SETTINGS if name in settings},
        "attacks": manifest["attacks"],
        "surrogates": [without_place(row) for row in summary.get("surrogates", ())],
        "names_met": {
            kind["name"]: kind["names_met"]
            for kind in training["adversarial"]
            if "names_met" in kind
        },
        "left_out": {
            kind["name"]: {name: kind[name] for name in ("n_left_out", "n_offered")}
            for kind in training["adversarial"]
            if "n_left_out" in kind
        },
        "facts": {**facts_of(manifest, arms, is_tagged=is_tagged), **sizes},
        "seconds_attacking": round(manifest["performance"]["wall_seconds"], 1),
        **numbers(summary),
        "effects": found,
    }


def numbers(summary: Mapping[str, Any]) -> Json:
    """What the summary says of the models, data sets and groups left out."""
    training = summary["training"]
    several = repeated(training)
    return {
        "models": [
            {**model, "seconds": round(sum(point["seconds"] for point in model["curve"]), 1)}
            for model in training["models"]
        ],
        "scores": [_scores(row, "model", "n_seeds", "attack") for row in training["scores"]],
        "single": [
            _scores(row, "victim", "attack")
            for row in summary["results"]
            if row["victim"] in several
        ],
        "comparison": [without_place(row) for row in training["rows"]],
        "tests": [
            {name: row[name] for name in ("victim", "comparison", "statistic", "p", "p_adjusted")}
            for row in summary["tests"]
            if row["family"] == "before_after"
        ],
    }


def check(folder: Path, manifest: Mapping[str, Any], *, sample: bool) -> None:
    """Refuse what is not a finished run of one of the recipes on all of its data.

    Raises:
        UsageError: one sentence.
    """
    name = manifest["config"]["experiment"]["name"]
    if not name.startswith(f"{RECIPE}table") or "training" not in manifest:
        raise UsageError(
            f"{folder}: expected a training of the recipes {RECIPE}table2 to -table6, got {name!r}"
        )
    if not manifest["complete"] or not (folder / RESULT_FILE).is_file():
        raise UsageError(f"{folder} is not finished; the command that began it goes on with it")
    if len(manifest["seeds"]) > 1:
        raise UsageError(
            f"{folder}: expected one seed of the attacks, got {manifest['seeds']}; seeds of the "
            "training are what the page shows"
        )
    drawn = all(table.get("limit_documents") for table in manifest["config"].get("dataset", [{}]))
    is_limited = "--limit" in manifest.get("command", "")
    for label, dataset in manifest["datasets"].items():
        is_sample = is_limited or (dataset["n_items"] < dataset["n_rows"] and not drawn)
        if is_sample and not sample:
            raise UsageError(
                f"{folder} holds a sample, {dataset['n_items']} of {dataset['n_rows']} items of "
                f"{label!r}; run it without --limit, or say --sample with another --to and --page"
            )


def without_place(row: Mapping[str, Any]) -> Json:
    """A row without the names of data set and group."""
    return {name: value for name, value in row.items() if name not in ("dataset", "group")}


def data_name(manifest: Mapping[str, Any], training: Mapping[str, Any]) -> str:
    """`chem`, `disease` or `biosses-folds`.

    Raises:
        UsageError: pairs that were not cross-validated; the page has no place for them.
    """
    types = {name for v in manifest["victims"].values() for name in v["task"].get("types", ())}
    if types:
        return "-".join(NAMES.get(name, name.lower()) for name in sorted(types))
    if not training.get("folds"):
        raise UsageError("expected pairs to be tested by cross-validation, got none; set folds")
    return "biosses-folds"


def command(manifest: Mapping[str, Any]) -> str:
    """What was typed, without paths of this machine.

    >>> told = {"experiment": {"name": "araujo2020-table2"}}
    >>> command({"config": told, "given": {"overrides": ["dataset.path=/a/b", "train.epochs=2"]}})
    'medstress train araujo2020-table2 --set dataset.path=b --set train.epochs=2'
    """
    words = ["medstress", "train", str(manifest["config"]["experiment"]["name"])]
    for change in manifest["given"]["overrides"]:
        key, _, value = change.partition("=")
        words += ["--set", f"{key}={Path(value).name if Path(value).is_absolute() else value}"]
    return shlex.join(words)


def repeated(training: Mapping[str, Any]) -> set[str]:
    """The models of which there are several seeds; of others `scores` says the same.

    >>> models = [{"model": "a", "seed": 0, "victim": "a-0"}, {"model": "a", "seed": 1,
    ...     "victim": "a-1"}, {"model": "b", "seed": 0, "victim": "b-0"}]
    >>> sorted(repeated({"models": models}))
    ['a-0', 'a-1']
    """
    seeds: dict[str, set[int]] = {}
    for model in training["models"]:
        seeds.setdefault(model["model"], set()).add(model["seed"])
    return {m["victim"] for m in training["models"] if len(seeds[m["model"]]) > 1}


def facts_of(
    manifest: Mapping[str, Any], arms: Mapping[Place, ScoredArm], *, is_tagged: bool
) -> dict[str, int]:
    """Sizes of the data that were attacked."""
    (dataset,) = manifest["datasets"].values()
    facts = {"n_items": dataset["n_items"], "n_rows": dataset["n_rows"]}
    if is_tagged:
        readings: dict[str, Reading] = {
            name: answer for arm in arms.values() for (_, name), answer in arm.before.items()
        }
        gold = [entity for reading in readings.values() for entity in reading.gold]
        facts |= {
            "n_clusters": len({reading.cluster for reading in readings.values()}),
            "n_entities": len(gold),
            "n_annotated_words": sum(entity.end - entity.start for entity in gold),
        }
    return facts


def effects_of(
    arms: Mapping[Place, ScoredArm], training: Mapping[str, Any], *, is_tagged: bool
) -> Iterator[Json]:
    """What the attacks do to models that saw nothing perturbed, over their training seeds."""
    for kind in KINDS:
        victims = {m["victim"] for m in training["models"] if m["model"] == kind}
        held = {
            attack: [
                arm for place, arm in arms.items() if place[2] in victims and place[3] == attack
            ]
            for attack in effects.ATTACKS
        }
        if not all(held.values()):
            continue
        scores = {attack: effects.scores_of(found) for attack, found in held.items()}
        n = len(victims)
        groups = {attack: (attack,) for attack in effects.ATTACKS}
        groups |= {"noise": effects.NOISES, "all": effects.ATTACKS}
        for name, members in groups.items():
            lost = effects.share_lost([scores[attack] for attack in members], n)
            yield _effect("share_lost", kind, name, lost, n)
        for attack, found in held.items() if is_tagged else ():
            for name, effect in WORDS.items():
                yield _effect(name, kind, attack, effect(found), n)


def overlaps(reader: StoredRun) -> Iterator[Json]:
    """What each attack does to the words that the texts of a pair share."""
    items = {row: item for row, (_, item) in reader.items().items()}
    candidates: dict[str, dict[str, PairCandidate]] = {name: {} for name in effects.ATTACKS}
    for trial in reader.trials():
        item = items[trial.item]
        # Every model was asked about the same perturbed pair.
        if isinstance(item, SentencePair) and trial.attack in candidates:
            edits = edits_of(trial.result.get("edits", []))
            candidates[trial.attack].setdefault(item.id, PairCandidate(item=item, edits=edits))
    for attack, found in candidates.items():
        yield _effect("overlap_gain", "", attack, effects.overlap_gain(found.values()))


def draw(folder: Path, to: Path) -> Path:
    """Figure 1 as `medstress figures --paper araujo2020` draws it: scores only."""
    with tempfile.TemporaryDirectory() as made:
        Run(folder).figures(made, ["svg"], "araujo2020")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes((Path(made) / FIGURE).read_bytes())
    return to


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What to collect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="RUN_FOLDER")
    parser.add_argument("--page-only", action="store_true", help="write the page anew")
    parser.add_argument("--sample", action="store_true", help="take runs of a part of the data")
    parser.add_argument("--to", type=Path, default=araujo_page.RESULTS, help="folder of the JSON")
    parser.add_argument("--page", type=Path, default=araujo_page.PAGE, help="file of the page")
    given = parser.parse_args(arguments)
    if bool(given.folders) == given.page_only:
        parser.error("expected run folders, or --page-only")
    if given.sample and given.to == araujo_page.RESULTS:
        parser.error("--sample: give another folder with --to; samples are no results")
    return given


def _scores(row: Mapping[str, Any], *names: str) -> Json:
    measured = {name: value for name, value in row.items() if name.partition("_")[0] in MEASURES}
    return {**{name: row[name] for name in names}, **measured}


def _effect(name: str, kind: str, attack: str, estimate: Any, n_seeds: int = 0) -> Json:
    told = estimate.as_json()
    return {"effect": name, "model": kind, "attack": attack, "n_seeds": n_seeds, **told}


if __name__ == "__main__":
    sys.exit(main())
