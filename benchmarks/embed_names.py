"""How long names take to embed once, to read back, and to be measured from a key.

The names are those of the shipped tables, as many as asked for, those that may be drawn first:

    python benchmarks/embed_names.py --names 10000 --embedding minilm
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bounds import at_least

from medstress.entities.embeddings import Embedder
from medstress.entities.perturbations import VectorPerturbationSet
from medstress.entities.synonyms import load_synonyms
from medstress.entities.tables import SHIPPED, shipped_rows
from medstress.entities.vocabularies import Vocabulary, vocabulary_of

N_ANCHORS = 200
DISTANCES = ("cosine", "euclidean", "mondo", "mesh")


def shipped_names(n: int) -> Vocabulary:
    """The first n distinct names, candidates of drugs and diseases before all others."""
    rows = [row for table in SHIPPED for row in shipped_rows(table)]
    ordered = sorted(rows, key=lambda row: row[3] != "1")
    names = list(dict.fromkeys(row[1] for row in ordered))[:n]
    return vocabulary_of("shipped", names)


def timed(what: str, work: Callable[[], object]) -> float:
    """Run and print seconds of wall clock and of processor, which a busy machine tells apart."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    seconds = time.perf_counter() - wall
    print(f"{what}: {seconds:.2f} s wall, {time.process_time() - processor:.2f} s processor")
    return seconds


def row_milliseconds(names: VectorPerturbationSet, anchors: list[str]) -> float:
    """Mean milliseconds for the distances of one anchor to all names; neighbours share work."""
    found = []
    for anchor in anchors:
        started = time.perf_counter()
        names.distances(anchor)
        found.append(1000 * (time.perf_counter() - started))
    return statistics.fmean(found)


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument(
        "--names", type=at_least(1), default=10_000, help="how many (default 10,000)"
    )
    parser.add_argument("--embedding", default="minilm", help="as in [[entities]]")
    options = parser.parse_args()
    vocabulary = shipped_names(options.names)
    size = sum(map(len, vocabulary.names)) / len(vocabulary.names)
    print(f"{len(vocabulary.names):,} names of {size:.0f} characters, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEDSTRESS_CACHE"] = folder
        embedder = Embedder(options.embedding, corpus=vocabulary.names)
        timed("model loaded", lambda: embedder.vectors(["warm"], keep=False))
        timed("embedded and kept", lambda: embedder.vectors(vocabulary.names))
        timed("read back", lambda: embedder.vectors(vocabulary.names).sum())
        synonyms = load_synonyms("none", Path())
        anchors = [row[1] for row in shipped_rows("diseases") if row[3] == "1"][:N_ANCHORS]
        for distance in DISTANCES:
            names = VectorPerturbationSet(vocabulary, embedder, synonyms, distance)
            names.prepare(anchors)
            names.distances(anchors[0])
            print(f"{distance}: {row_milliseconds(names, anchors):.2f} ms a key (mean)")


if __name__ == "__main__":
    main()
