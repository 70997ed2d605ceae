"""Measure the checker of names and write docs/results/checker.md.

    python benchmarks/checker_page.py --data FOLDER --run FOLDER_OF_THE_ASKED_RUN

FOLDER holds qa/ and vocab/. The run of `checker/asked.toml` is made where its folder is missing
(some minutes). RABBITS and BC5CDR are read here and nowhere else: no table is built from them.
Only counts are printed, no row of the data.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

import medstress as ms
from medstress.checking.checkers import Near, Rules
from medstress.checking.measure import Measured, measure
from medstress.checking.pairs import Pair
from medstress.core.items import Question
from medstress.core.text import edits_of
from medstress.entities.relations import Relations
from medstress.entities.semantic_types import types_of
from medstress.stats.estimates import Estimate
from medstress.stats.shares import rate

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results" / "checker.md"
SEED = 0
THRESHOLDS = (0.4, 0.6, 0.8, 0.9)
KEYS = ("path", "annotations")
MEDMCQA, IS_DRUG, DRUG_KEYS = "MedMCQA", "the key is a drug", "keys that are drugs"
SINGLE, COMBINATION = "one ingredient", "combination product"


def rabbits_pairs(path: Path, every: int = 1) -> list[Pair]:
    """Return the pairs of RABBITS, and for each a look-alike that is another drug.

    A pair (generic, brand) is the same. Its look-alike is (generic, name): of all generics and
    brands of other ingredients the name nearest to the brand by Levenshtein distance over the
    longer length, ties by the alphabet; names of any ingredient of the brand are no candidates.

    Args:
        path: the CSV file.
        every: take each such pair only, for a fast look.
    """
    owners: dict[str, set[str]] = defaultdict(set)
    listed: list[tuple[str, str]] = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            owners[row["generic"]].add(row["generic"])
            for names in ast.literal_eval(row["brand"]):
                for brand in names:
                    listed.append((row["generic"], brand))
                    owners[brand].add(row["generic"])
    names = sorted(owners)
    row_of = {name: i for i, name in enumerate(names)}
    members: dict[str, list[int]] = defaultdict(list)
    for name, generics in owners.items():
        for generic in generics:
            members[generic].append(row_of[name])
    pairs = []
    for generic, brand in listed[::every]:
        kind = SINGLE if len(owners[brand]) == 1 else COMBINATION
        far = process.cdist([brand], names, scorer=Levenshtein.normalized_distance)[0]
        for each in owners[brand]:
            far[members[each]] = np.inf
        look_alike = names[int(np.argmin(far))]
        for name, same in ((brand, True), (look_alike, False)):
            distance = Levenshtein.normalized_distance(generic, name)
            pairs.append(Pair(a=generic, b=name, same=same, type=kind, distance=distance))
    return pairs


def mention_pairs(path: Path) -> list[Pair]:
    """Return pairs of disease mentions of BC5CDR: of one MeSH concept, and of two.

    Every two strings of a concept are the same; each such pair comes with one that is not: its
    first string and a string of another concept, at random with a fixed seed.
    """
    concepts: dict[str, list[str]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["type"] == "Disease":
                concepts[row["mesh_id"]].append(row["mention"])
    rng = random.Random(SEED)
    every = [(concept, name) for concept, names in concepts.items() for name in names]
    pairs = []
    for concept, names in concepts.items():
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                foreign = next(
                    name
                    for owner, name in iter(lambda: rng.choice(every), None)
                    if owner != concept and name not in names
                )
                pairs += [Pair(a=one, b=other, same=True), Pair(a=one, b=foreign, same=False)]
    return pairs


def asked_pairs(folder: Path, qa: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (group, key, name) of every query of the run of asked.toml.

    Groups are MedMCQA, and MedQA by what is annotated in the key.
    """
    if not folder.exists():
        ms.run(HERE / "checker" / "asked.toml", folder, overrides=list(_paths(qa)))
    drugs = types_of("drugs")
    with ms.Run(folder).opened() as run:
        items = run.items()
        trials = {number: items[item] for number, (_, item) in run.trial_numbers().items()}
        for trial, _, text in run.attack_edits():
            dataset, item = trials[trial]
            group = MEDMCQA
            if dataset == "medqa":
                group = f"MedQA, {_key_kind(item, drugs)}"
            for edit in edits_of(json.loads(text)):
                if edit.replacement:
                    yield group, item.key_text, edit.replacement


def _key_kind(item: Question, drugs: frozenset[str]) -> str:
    """Say whether annotated drugs make up a key, are mentioned in it, or are not."""
    spans = [m for m in item.mentions if m.field == item.key and m.type in drugs]
    if not spans:
        return "no drug in the key"
    covered = {i for span in spans for i in range(span.start, span.end)}
    rest = "".join(c for i, c in enumerate(item.key_text) if i not in covered)
    return "a drug in the key" if set(rest.split()) - {"and", "plus", "+"} else IS_DRUG


def _paths(qa: Path) -> Iterator[str]:
    """Yield the overrides that tell the experiment where the data are."""
    medqa = ("medqa_train_part.jsonl", "medqa_usmle_train_choices_annotation.json")
    medmcqa = (
        "medmcqa_train_leaner_typed.parquet",
        "medmcqa_train_leaner_choices_annotation.json",
    )
    for name, files in (("medqa", medqa), ("medmcqa", medmcqa)):
        yield from (f"dataset.{name}.{k}={qa / f}" for k, f in zip(KEYS, files, strict=True))


def asked_rows(pairs: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the table of coverage over queries."""
    todo = list(dict.fromkeys((key, name) for _, key, name in pairs))
    said = dict(zip(todo, Rules().check(todo), strict=True))
    yield "| keys | queries | pairs | coverage | called the same |"
    yield "| --- | --- | --- | --- | --- |"
    for group in (*sorted({group for group, _, _ in pairs}), "MedQA, all", DRUG_KEYS, "all"):
        asked = [
            (key, name)
            for each, key, name in pairs
            if group in (each, f"{each.partition(',')[0]}, all", "all")
            or (group == DRUG_KEYS and each in (MEDMCQA, f"MedQA, {IS_DRUG}"))
        ]
        found = [said[each] for each in asked]
        covered = rate((key, said[key, name] is not None) for key, name in asked)
        cells = (
            f"{len(asked):,}",
            f"{len(set(asked)):,}",
            shown(covered),
            f"{found.count(True):,}",
        )
        yield f"| {group} | {' | '.join(cells)} |"


def shown(estimate: Estimate) -> str:
    """Write a share with its interval and counts."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "–"
    ends = (estimate.value, estimate.low, estimate.high)
    numbers = [f"{each:.3f}".removeprefix("0") for each in ends]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}] {estimate.hits:,}/{estimate.n:,}"


def rows_of(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield the lines of a table of measured rows."""
    yield "| pairs | n | coverage | sensitivity | specificity |"
    yield "| --- | --- | --- | --- | --- |"
    for row in measured:
        label = {"all": "all", "type": row.name, "distance": f"distance {row.name}"}[row.by]
        shares = (row.coverage, row.sensitivity, row.specificity)
        yield f"| {label} | {row.n_pairs:,} | {' | '.join(map(shown, shares))} |"


def embedding_rows(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the table of thresholds on the embedding ngram."""
    yield "| threshold | coverage | sensitivity | specificity |"
    yield "| --- | --- | --- | --- |"
    for threshold in THRESHOLDS:
        said = Near("ngram", threshold).check([(pair.a, pair.b) for pair in pairs])
        row = measure(pairs, said)[0]
        shares = (row.coverage, row.sensitivity, row.specificity)
        yield f"| {threshold} | {' | '.join(map(shown, shares))} |"


def strict(pairs: Sequence[Pair], said: Sequence[bool | None]) -> list[bool | None]:
    """Return the answers with combination products taken for neither."""
    known = Relations()
    return [
        None
        if any(each.kind == "combination_product" for each in known.between(pair.a, pair.b))
        else one
        for pair, one in zip(pairs, said, strict=True)
    ]


TEXT = """# How good is the checker of names?

Written by `benchmarks/checker_page.py`, which holds the recipes. [Checkers of names](../checker.md)
says what the words mean. Only the checker `rules` is measured here: the shipped tables. Numbers are
shares with Wilson's 95 % intervals, pairs with the same first name taken for a cluster, and counts.

## Drugs: RABBITS

{n_rabbits:,} pairs of a generic name and a brand, and as many look-alikes: the same generic name
with the name nearest in spelling to that brand, of another drug. RABBITS lists a combination
product under each of its ingredients, and the rules call a product that holds the first name's drug
the same. No table holds a name because RABBITS has it. It is not quite unseen, though: while the
rules of the tables were written, their disagreements with RABBITS were read, and rules changed
after that: substances that only the Merck Index lists are left out, isosorbide's nitrates stay
apart, spellings such as divalproex join their acid, brackets and a leading salt are read past,
the FDA's four-letter suffix is dropped, two words joined the list of salts. So the sensitivity is
somewhat optimistic. The (generic, look-alike) pairs are half of all; brands alone are covered
{of_brands}.

{rabbits}

With combination products taken as unknown, so that only products of the same drugs are the same:

{strict}

Targets: coverage at least .36, sensitivity at least .95, specificity at least .98.
**{verdict}** The other names are mostly retired, foreign or over-the-counter brands that no table
here holds; on those the checker says nothing.

For comparison, the checker `embedding` with `ngram`, which knows spelling alone, on the same pairs.
A brand is seldom spelt like its generic, and the look-alikes are.

{embedding}

## Drugs: the pairs that attacks asked

Every (key, name) pair that the attacks of `benchmarks/checker/asked.toml` asked, seed 0: near and
random names of the shipped vocabulary. There is no truth for these pairs, only coverage. Target: at
least .95 over all queries. **Where the key is a drug: {asked_of_drugs}. Over all queries:
{asked_of_all}.** In MedQA a drug often stands beside a key that is none but a procedure, a finding,
a mechanism or a class. The rules then say nothing, and should not: a name may be right where the
key says "enzyme-replacement therapy".

{asked}

What is a drug in a key of MedQA are the annotators' labels, which count proteins as drugs.

## Diseases: BC5CDR, noisy

Pairs of mention strings of one MeSH concept, each with a pair of two concepts (seed 0). **Mentions
are no gold standard**: one identifier has abbreviations, adjectives, broader words and plain slips
(its "same" pairs hold a disease and its class). So there is no target, and the rates say little of
the names that attacks draw. Two rules changed after its errors were read: initials alone make two
names no longer different, and neither do a class and a disease of it. They took the sensitivity
from .707 to .913 and the coverage from .210 to .179.

{diseases}
"""


def verdict(measured: Measured) -> str:
    """Say which targets on RABBITS are met."""
    goals = (("coverage", 0.36), ("sensitivity", 0.95), ("specificity", 0.98))
    missed = [name for name, least in goals if (getattr(measured, name).value or 0) < least]
    return f"Missed: {', '.join(missed)}." if missed else "All three are met by the estimates."


def _against_target(coverage: str) -> str:
    return f"{coverage}, {'met' if float(coverage) >= 0.95 else 'missed'}"


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("MEDSTRESS_DATA"))
    parser.add_argument("--run", type=Path, required=True, help="run folder of asked.toml")
    options = parser.parse_args()
    if options.data is None:
        parser.error("give --data, or set MEDSTRESS_DATA")
    vocab = Path(options.data) / "vocab"
    rules = Rules()
    drugs = rabbits_pairs(vocab / "rabbits_generic_to_brand.csv")
    said = rules.check([(pair.a, pair.b) for pair in drugs])
    measured = measure(drugs, said)
    diseases = mention_pairs(vocab / "bc5cdr_mesh_mentions.tsv")
    of_diseases = measure(diseases, rules.check([(pair.a, pair.b) for pair in diseases]))
    asked = list(asked_pairs(options.run, Path(options.data) / "qa"))
    lines = list(asked_rows(asked))
    of_drugs, of_all = (_against_target(line.split("|")[4].split()[0]) for line in lines[-2:])
    PAGE.write_text(
        TEXT.format(
            n_rabbits=len(drugs) // 2,
            of_brands=f"{measured[0].sensitivity.n / (len(drugs) // 2):.3f}".removeprefix("0"),
            rabbits="\n".join(rows_of(measured)),
            strict="\n".join(rows_of(measure(drugs, strict(drugs, said))[:3])),
            verdict=verdict(measured[0]),
            embedding="\n".join(embedding_rows(drugs)),
            asked="\n".join(lines),
            asked_of_drugs=of_drugs,
            asked_of_all=of_all,
            diseases="\n".join(rows_of(of_diseases)),
        ),
        "utf-8",
    )
    print(PAGE.read_text("utf-8"))


if __name__ == "__main__":
    main()
