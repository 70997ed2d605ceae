"""Data sets with one thing wrong: JSONL, IOB, rows of tokens, PubTator, brat, pairs, spans, ..."""

import gzip
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from medstress.datasets.questions import question_from_row

from . import experiments
from .case import DONE, FAILED_TRIALS, REFUSED, Case, Rows
from .mutate import TEXTS, encoded, json_text, mutated

CODES = frozenset({DONE, FAILED_TRIALS, REFUSED})
TOKEN_ROWS = [
    {"id": "0", "document_id": "1", "tokens": ["Aspirin", "."], "ner_tags": ["B-Chemical", "O"]},
    {"id": "1", "document_id": "2", "tokens": ["No", "pain"], "ner_tags": ["O", "B-Disease"]},
]
ANNOTATIONS = [
    {
        letter: {"text": [name], "labels": ["T121"], "boundaries": [[0, len(name)]]}
        for letter, name in zip("ABCD", ("aspirin", "heparin", "insulin", "codeine"), strict=True)
    }
]
ATTACK_SET = {
    "format": 1,
    "medstress": "0",
    "source": dict.fromkeys(
        ("experiment", "fingerprint", "started", "victim", "model", "model_hash"), "x"
    ),
    "n_items": 2,
    "n_trials": 2,
    "n_queries": 2,
    "arms": [
        {
            "label": "random",
            "control": None,
            "spec": {"name": "entity_substitution", "goal": "untargeted"},
            "is_blind": True,
            "changes_evidence": False,
        }
    ],
}
ATTACKED_ROWS = [
    {
        **experiments.QUESTION,
        "id": f"q{n}",
        "stem": question_from_row(experiments.QUESTION).stem,
        "context": question_from_row(experiments.QUESTION).context,
        "item_hash": question_from_row(experiments.QUESTION).hash,
        "metadata": "{}",
        "attacked": [
            {
                "arm": "random",
                "trial_id": "t",
                "seed": 0,
                "repeat": 0,
                "verdict": "held",
                "queries": [
                    {
                        "query": 1,
                        "flipped": False,
                        "edits": [{"field": "B", "start": 0, "end": 7, "replacement": "heparin"}],
                    }
                ],
            }
        ],
        "attack_set": json_text(ATTACK_SET),
    }
    for n in (1, 2)
]
MEDQA = (
    '{"id": "q1", "train_index": 0, "question": "A man coughs. What helps?", "answer": "aspirin", '
    '"options": {"A": "aspirin", "B": "heparin", "C": "insulin", "D": "codeine"}, '
    '"meta_info": "step1", "answer_idx": "A"}\n'
)
OBO = (
    'format-version: 1.2\n\n[Term]\nid: X:1\nname: aspirin\nsynonym: "ASA" EXACT []\n\n'
    '[Term]\nid: X:2\nname: heparin {a="b"} ! c\nis_obsolete: true\n'
)
RRF = "C1|ENG|P|L1|PF|S1|Y|A1||M1|D1|MSH|MH|D1|aspirin|0|N|256|\n"
FIELDS = (
    "1\t0\t7\tAspirin\tChemical\tD1",
    "1|t|Aspirin",
    "1|a|",
    "-DOCSTART-\tO",
    "x\tI-Disease",
    "|t|",
)


def jsonl(rng: Random) -> Iterator[Case]:
    """Questions, one JSON object a line."""
    rows = [experiments.QUESTION, {**experiments.QUESTION, "id": "q2"}]
    while True:
        lines = list(map(json_text, rows))
        if rng.random() < 0.8:
            number = rng.randrange(2)
            name, row = mutated(rng, rows[number])
            lines[number] = json_text(row)
            data = "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")
        else:
            name, data = encoded(rng, "\n".join([*lines, ""]))
        given = sum(1 for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip())
        marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))  # UTF-16, whose lines are others
        rows_given = None if marked else given
        yield _case(rng, name, experiments.questions(), "items.jsonl", data, "table", rows_given)


def attacked(rng: Random) -> Iterator[Case]:
    """An attacked set, one of whose rows, or what describes it, is changed."""
    experiment = experiments.questions()
    experiment["dataset"] = [{"name": "attacked", "path": "set.jsonl", "on_bad_row": "skip"}]
    experiment["attack"] = [{"name": "attacked"}]
    while True:
        rows = list(ATTACKED_ROWS)
        number = rng.randrange(len(rows) + 1)
        if rng.random() < 0.8:
            if number == len(rows):
                name, changed = mutated(rng, ATTACK_SET)
                rows = [{**row, "attack_set": json_text(changed)} for row in rows]
            else:
                name, rows[number] = mutated(rng, rows[number])
            data = "".join(json_text(row) + "\n" for row in rows).encode("utf-8", "surrogatepass")
        else:
            name, data = encoded(rng, "".join(json_text(row) + "\n" for row in rows))
        yield _case(rng, name, experiment, "set.jsonl", data)


def iob(rng: Random) -> Iterator[Case]:
    """Tokens and labels, an empty line between sentences."""
    while True:
        name, data = _lines(rng, experiments.IOB)
        text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        blocks, inside = 0, False
        for line in text.split("\n"):
            if line.strip() and not inside and not line.startswith("-DOCSTART-"):
                blocks += 1
            inside = bool(line.strip())
        exact = None if "-DOCSTART-" in text or "\n#" in f"\n{text}" else blocks
        yield _case(rng, name, experiments.tagged(), "data.iob", data, "iob", exact)


def pubtator(rng: Random) -> Iterator[Case]:
    """Titles, abstracts and offsets."""
    while True:
        name, data = _lines(rng, experiments.PUBTATOR)
        tables = experiments.tagged("pubtator", "data.pubtator")
        yield _case(rng, name, tables, "data.pubtator", data)


def brat(rng: Random) -> Iterator[Case]:
    """A text, and its annotations by offsets."""
    while True:
        name, data = _lines(rng, experiments.BRAT)
        tables = experiments.tagged("brat", ".")
        files = {"data.txt": experiments.BRAT_TEXT.encode(), "data.ann": data}
        write = experiments.command(tables, files, *_more(rng))
        yield Case(name=name, write=write, codes=CODES)


def pairs(rng: Random) -> Iterator[Case]:
    """Pairs of sentences, separated by tabs."""
    while True:
        name, data = _lines(rng, experiments.PAIRS)
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        given = max(sum(1 for line in lines if line.rstrip(b"\r")) - 1, 0)
        yield _case(rng, name, experiments.pairs(), "pairs.tsv", data, "pairs", given)


def token_rows(rng: Random) -> Iterator[Case]:
    """Rows of tokens and labels, as one JSON list."""
    while True:
        name, data = _json(rng, TOKEN_ROWS)
        yield _case(rng, name, experiments.tagged("iob", "data.json"), "data.json", data)


def spans(rng: Random) -> Iterator[Case]:
    """Spans of the options, beside a file of MedQA."""
    while True:
        name, data = _json(rng, ANNOTATIONS)
        tables = experiments.questions()
        tables["dataset"] = [{"name": "medqa", "path": "medqa.jsonl", "annotations": "spans.json"}]
        write = experiments.command(
            tables, {"spans.json": data, "medqa.jsonl": MEDQA.encode()}, *_more(rng)
        )
        yield Case(name=name, write=write, codes=CODES)


def tables(rng: Random) -> Iterator[Case]:
    """Names in CSV, TSV, text, OBO, MRCONSO, packed and not."""
    kinds = {
        "n.csv": "concept,name\n1,aspirin\n1,ASA\n2,heparin\n",
        "n.tsv": "concept\tname\n1\taspirin\n1\tASA\n2\theparin\n",
        "n.txt": "aspirin\nheparin\n",
        "n.obo": OBO,
        "n.RRF": RRF,
        "n.parquet": "PAR1 not really PAR1",
    }
    while True:
        file = rng.choice(list(kinds))
        name, data = _lines(rng, kinds[file])
        if rng.random() < 0.2:
            file, data = f"{file}.gz", gzip.compress(data, mtime=0)
            if rng.random() < 0.5:
                at = rng.randrange(len(data))
                name, data = "packed and cut", data[:at]
        experiment = experiments.questions()
        experiment["attack"][0]["budget"] = 1
        experiment["entities"][0]["vocabulary" if rng.random() < 0.5 else "synonyms"] = file
        write = experiments.command(experiment, {file: data}, *_more(rng))
        yield Case(name=f"{file}: {name}", write=write, codes=CODES)


def _more(rng: Random) -> tuple[str, ...]:
    return rng.choice((("--dry-run",), ("--dry-run",), ()))


def _case(
    rng: Random,
    name: str,
    experiment: dict[str, Any],
    file: str,
    data: bytes,
    dataset: str = "",
    given: int | None = None,
) -> Case:
    rows = None if given is None else Rows(dataset=dataset, file=file, given=given)
    write = experiments.command(experiment, {file: data}, *_more(rng))
    return Case(name=name, write=write, codes=CODES, rows=rows)


def _json(rng: Random, value: Any) -> tuple[str, bytes]:
    if rng.random() < 0.8:
        name, changed = mutated(rng, value)
        return name, json_text(changed).encode("utf-8", "surrogatepass")
    return encoded(rng, json_text(value))


def _lines(rng: Random, text: str) -> tuple[str, bytes]:
    """One line of a text is changed, or the bytes of the whole."""
    if rng.random() < 0.3:
        return encoded(rng, text)
    lines = text.split("\n")
    number = rng.randrange(len(lines))
    name, change = rng.choice(_CHANGES)
    change(rng, lines, number)
    return f"{name} in line {number + 1}", "\n".join(lines).encode("utf-8", "surrogatepass")


def _fields(
    change: Callable[[Random, list[str]], object],
) -> Callable[[Random, list[str], int], None]:
    def on_line(rng: Random, lines: list[str], number: int) -> None:
        mark = next((m for m in "\t|,: " if m in lines[number]), "\t")
        fields = lines[number].split(mark)
        change(rng, fields)
        lines[number] = mark.join(fields)

    return on_line


def _other(rng: Random, fields: list[str]) -> None:
    numbers = ("-1", "0", "7", "999", "9" * 20, "9" * 5_000, "1.5", "٣", "²", "nan", "inf", "1e999")
    fields[rng.randrange(len(fields))] = rng.choice((*TEXTS, *numbers, "B-", "I-", "I-X", "E-X"))


_CHANGES: Sequence[tuple[str, Callable[[Random, list[str], int], object]]] = (
    ("dropped", lambda _, lines, n: lines.pop(n)),
    ("twice", lambda _, lines, n: lines.insert(n, lines[n])),
    ("blank line", lambda _, lines, n: lines.insert(n, "")),
    ("spaces", lambda _, lines, n: lines.insert(n, " \t ")),
    ("a field of its own", lambda rng, lines, n: lines.insert(n, rng.choice(FIELDS))),
    ("special text", lambda rng, lines, n: lines.__setitem__(n, rng.choice(TEXTS))),
    (
        "a field more",
        _fields(lambda rng, fields: fields.insert(rng.randrange(len(fields) + 1), "x")),
    ),
    ("a field less", _fields(lambda rng, fields: fields.pop(rng.randrange(len(fields))))),
    ("another field", _fields(_other)),
    ("another field", _fields(_other)),
    ("another field", _fields(_other)),
    ("a quote", lambda _, lines, n: lines.__setitem__(n, '"' + lines[n])),
    ("other order", lambda rng, lines, _: rng.shuffle(lines)),
)
