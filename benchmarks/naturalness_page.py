"""Calibrate the filter of natural options and write docs/results/naturalness.md.

    python benchmarks/naturalness_page.py --data FOLDER

FOLDER holds qa/. Clean pairs are two options of one question that differ in a name alone: the one
with the other's name in it is an option as its author wrote it, so the filter should let it pass.
The limits are fixed on one half of MedMCQA and of MedQA, whose ids hash to even numbers, so that
enough pass in either for either kind of name; the pass rates of the others are shares of what the
limits have not seen. Only counts are printed, no row of the data.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pages import fill, table

from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.naturalness import FORM, GRAMMAR, REASONS, Natural, oddities
from medstress.attacks.naturalness.english import (
    content_words,
    is_plural,
    last_word,
    takes_an,
)
from medstress.attacks.samplers import draw
from medstress.attacks.spans import nearest_span, span_text
from medstress.core.items import Mention, Question
from medstress.core.resources import Resources
from medstress.core.seeding import rng_for
from medstress.core.text import copy_case
from medstress.datasets import medmcqa, medqa, sample
from medstress.datasets.source import DatasetOptions
from medstress.entities.embeddings import Embedder
from medstress.entities.perturbations import VectorPerturbationSet
from medstress.entities.semantic_types import types_of
from medstress.entities.synonyms import load_synonyms
from medstress.entities.vocabularies import load_vocabulary
from medstress.stats.shares import rate

PAGE = Path(__file__).parents[1] / "docs" / "results" / "naturalness.md"
GROUPS = ("drugs", "diseases")
PASS = 0.95
GRAMMAR_PASS = 0.975
STEP = 0.05
N_ITEMS, N_DRAWS, EXPONENT = 300, 8, -20.0
FITTED = ", fitted"
"""Ends the name of the halves that the limits are fixed on."""
FILES = {
    "medqa": ("medqa_train_part.jsonl", "medqa_usmle_train_choices_annotation.json"),
    "medmcqa": (
        "medmcqa_train_leaner_typed.parquet",
        "medmcqa_train_leaner_choices_annotation.json",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A clean option with the name of another clean option in it."""

    data: str
    group: str
    item: str
    framed: bool
    """Whether words stand beside the name."""
    grammar: float
    form: float

    def passes(self, natural: Natural) -> bool:
        """Return whether a filter lets it pass."""
        return self.grammar <= natural.grammar + 1e-9 and self.form <= natural.form + 1e-9


def read(qa: Path) -> dict[str, tuple[Question, ...]]:
    """Return the questions of each data set, those of MedMCQA and MedQA in two halves."""
    paths = {name: [qa / file for file in files] for name, files in FILES.items()}
    (questions, spans), (mc_questions, mc_spans) = paths["medqa"], paths["medmcqa"]
    of_medmcqa = medmcqa.load(
        DatasetOptions(path=mc_questions, annotations=mc_spans, on_bad_row="skip")
    ).questions
    of_medqa = medqa.load(
        DatasetOptions(path=questions, annotations=spans, split="train", on_bad_row="skip")
    ).questions
    halves = {
        name + end: tuple(item for item in items if is_fitted(item) == bool(end))
        for name, items in (("MedMCQA", of_medmcqa), ("MedQA", of_medqa))
        for end in (FITTED, "")
    }
    return {**halves, "sample set": sample.load(DatasetOptions()).questions}


def is_fitted(item: Question) -> bool:
    """Say in which half an item is."""
    return sha256(item.id.encode()).digest()[0] % 2 == 0


def spans_of(item: Question, types: frozenset[str]) -> list[Mention]:
    """Return the mentions of a group in options."""
    return [m for m in item.mentions if m.field in item.letters and m.type in types]


def as_it_is(name: str, _: str) -> str:
    """Return a name in the case in which the author wrote it."""
    return name


def clean_pairs(data: str, item: Question, group: str) -> Iterator[Pair]:
    """Yield each ordered pair of options that differ in one name of the group alone."""
    spans = spans_of(item, types_of(group))
    for one in spans:
        text = item.text_of(one.field)
        for other in spans:
            theirs = item.text_of(other.field)
            same_frame = (text[: one.start], text[one.end :]) == (
                theirs[: other.start],
                theirs[other.end :],
            )
            if one.field != other.field and same_frame:
                name = (span_text(item, other),)
                found = oddities(text, one.start, one.end, name, as_it_is)
                yield Pair(
                    data=data,
                    group=group,
                    item=item.id,
                    framed=one.end - one.start < len(text),
                    grammar=sum(float(found[reason][0]) for reason in GRAMMAR),
                    form=sum(float(found[reason][0]) for reason in FORM),
                )


def all_pairs(data: Mapping[str, Sequence[Question]]) -> list[Pair]:
    """Return the clean pairs of every data set."""
    return [
        pair
        for name, items in data.items()
        for group in GROUPS
        for item in items
        for pair in clean_pairs(name, item, group)
    ]


def rule_rows(items: Sequence[Question], data: str) -> Iterator[list[object]]:
    """Yield, for each kind of names, how often clean options themselves break a rule."""
    for group in GROUPS:
        repeats, articles = [], []
        for item in items:
            for span in spans_of(item, types_of(group)):
                text, old = item.text_of(span.field), span_text(item, span)
                if old == text:
                    continue
                before, after = text[: span.start], text[span.end :]
                around = set(content_words(f"{before} {after}"))
                repeats.append((item.id, bool(around & set(content_words(old)))))
                if (word := last_word(before)) in ("a", "an"):
                    fits = takes_an(old) == (word == "an") and not is_plural(old)
                    articles.append((item.id, not fits))
        counts = [len(repeats), rate(repeats), len(articles), rate(articles)]
        yield [data, group, *counts]


def calibrate(pairs: Sequence[Pair]) -> Natural:
    """Return the smallest limits, in steps of .05, that let enough pairs of each part pass.

    First that of grammar, at `GRAMMAR_PASS` alone; then that of form, at `PASS` together. A part
    is the names of one group in one data set.
    """
    parts = defaultdict(list)
    for pair in pairs:
        parts[pair.data, pair.group].append(pair)

    def share(natural: Natural) -> float:
        return min(
            sum(pair.passes(natural) for pair in part) / len(part) for part in parts.values()
        )

    steps = [round(i * STEP, 2) for i in range(1, 200)]
    unlimited = float("inf")
    grammar = next(g for g in steps if share(Natural(grammar=g, form=unlimited)) >= GRAMMAR_PASS)
    form = next(f for f in steps if share(Natural(grammar=grammar, form=f)) >= PASS)
    return Natural(grammar=grammar, form=form)


def resources(group: str, items: Sequence[Question]) -> Resources:
    """Return the shipped names of a group with spelling as the distance."""
    vocabulary = load_vocabulary(group, Path())
    names = VectorPerturbationSet(
        vocabulary,
        Embedder("ngram", corpus=vocabulary.names),
        load_synonyms("default", Path()),
    )
    names.prepare(
        [item.key_text for item in items],
        [span_text(item, span) for item in items for span in spans_of(item, types_of(group))],
    )
    return Resources(group=group, types=types_of(group), perturbations=names)


def regimes(items: Sequence[Question], group: str) -> Iterator[list[object]]:
    """Yield a row for each regime: the share of its draws that pass, and why others do not."""
    plain = EntitySubstitution(sampler="random")
    wanted = [item for item in items if spans_of(item, types_of(group))]
    wanted = sorted(wanted, key=lambda item: sha256(item.id.encode()).hexdigest())[:N_ITEMS]
    known = resources(group, wanted)
    natural, names = Natural(), known.perturbations.names
    passed: dict[str, list[tuple[str, bool]]] = {"random": [], "near": []}
    reasons: dict[str, Counter[str | None]] = {"random": Counter(), "near": Counter()}
    n_open = 0
    wanted = [item for item in wanted if plain.obstacle(item, known) is None]
    for item in wanted:
        span = nearest_span(item, known)
        text, allowed = item.text_of(span.field), known.perturbations.allowed(item)
        found = natural.reasons(text, span.start, span.end, names, copy_case)
        n_open += any(found[i] is None for i in allowed.tolist())
        distances = known.perturbations.distances(item.key_text)
        for regime, n in (("random", 0.0), ("near", EXPONENT)):
            rng = rng_for(0, "naturalness", group, item.id)
            drawn = draw("pdws", distances, allowed, rng, N_DRAWS, n)
            for i in drawn.tolist():
                passed[regime].append((item.id, found[i] is None))
                reasons[regime][found[i]] += 1
    for regime, each in passed.items():
        left_out = [reasons[regime][reason] / len(each) for reason in REASONS]
        yield [regime, group, len(wanted), rate(each), *(f"{x:.3f}"[1:] for x in left_out), n_open]


def clean_rows(pairs: Sequence[Pair], natural: Natural) -> Iterator[list[object]]:
    """Yield a row for each data set: how many of its clean pairs pass."""
    for data in dict.fromkeys(pair.data for pair in pairs):
        of_data = [pair for pair in pairs if pair.data == data]
        for group in GROUPS:
            chosen = [pair for pair in of_data if pair.group == group]
            share = rate((pair.item, pair.passes(natural)) for pair in chosen)
            yield [
                data,
                group,
                len({p.item for p in chosen}),
                len(chosen),
                sum(p.framed for p in chosen),
                share,
            ]
        both = rate((pair.item, pair.passes(natural)) for pair in of_data)
        yield [
            data,
            "both",
            len({p.item for p in of_data}),
            len(of_data),
            sum(p.framed for p in of_data),
            both,
        ]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("MEDSTRESS_DATA"))
    parser.add_argument("--limits", action="store_true", help="print the limits and clean shares")
    options = parser.parse_args()
    if options.data is None:
        parser.error("give --data, or set MEDSTRESS_DATA")
    data = read(Path(options.data) / "qa")
    pairs = all_pairs(data)
    found = calibrate([pair for pair in pairs if pair.data.endswith(FITTED)])
    clean = table(
        ["data", "names", "questions", "pairs", "of them with words around", "pass"],
        clean_rows(pairs, found),
    )
    print(found, clean, sep="\n")
    if options.limits:
        return
    if found != Natural():
        parser.error(
            f"the limits of the code are {Natural()}, measured: {found}; write those there"
        )
    of_data = {
        name: [item for part, items in data.items() if part.startswith(name) for item in items]
        for name in ("MedQA", "MedMCQA")
    }
    rules = table(
        ["data", "names", "with words around", "word repeated", "after a or an", "does not fit"],
        (row for name, items in of_data.items() for row in rule_rows(items, name)),
    )
    heads = ["draws", "names", "questions", "pass", *REASONS, "questions with any"]
    rows = [
        [name, *row]
        for name, items in of_data.items()
        for group in GROUPS
        for row in regimes(items, group)
    ]
    limits = f"grammar = {found.grammar}, form = {found.form}"
    parts = {
        "limits": limits,
        "clean": clean,
        "rules": rules,
        "draws": table(["data", *heads], rows),
    }
    PAGE.write_text(fill(PAGE.read_text("utf-8"), parts), "utf-8")
    print(parts["draws"])


if __name__ == "__main__":
    main()
