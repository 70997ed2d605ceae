"""Other people's questions with one thing wrong: CSV, and the published forms as JSON."""

from collections.abc import Iterator
from random import Random
from typing import Any

from . import experiments
from .case import DONE, FAILED_TRIALS, REFUSED, Case
from .mutate import TEXTS, encoded, json_text, mutated

CODES = frozenset({DONE, FAILED_TRIALS, REFUSED})
_MENTION = '"[{""field"": ""B"", ""start"": 0, ""end"": 7, ""type"": ""drugs""}]"'
CSV = (
    "question,A,B,C,answer,mentions\n"
    f"A man coughs. What helps?,aspirin,heparin,insulin,A,{_MENTION}\n"
    f'"Pain, and ""gout""?",codeine,heparin,insulin,C,{_MENTION}\nAnd 7?,1,2,3,B,\n'
)
FIELDS = (
    "question,A,B,C,answer,mentions",
    "a,b,c,d,e",
    '"',
    'x,"y,z',
    "1,2,3,4,5",
    ",,,,",
    "sep=;",
)
_SPAN = {"field": "A", "start": 0, "end": 7, "type": "drugs"}
_TWO = ("aspirin", "gout")
_LISTED = [{"aid": n, "atext": text} for n, text in enumerate(_TWO, start=1)]
_INNER = {"Question": "What?", "Options": {"A": "aspirin", "B": "gout"}, "Correct Option": "B"}
_LABELLED = {"text": list(_TWO), "label": ["1", "2"]}
FORMS: list[list[dict[str, Any]]] = [
    [
        {"question": "What helps?", "choices": list(_TWO), "answer": n, "mentions": [_SPAN]}
        for n in (0, 1)
    ],
    [{"qid": n, "qtext": f"What {n}?", "ra": n, "answers": _LISTED} for n in (1, 2)],
    [{"id": f"q{n}", "data": _INNER} for n in (1, 2)],
    [{"question": "What?", "choices": _LABELLED, "answerKey": n} for n in ("1", "2")],
    [{"question": "What?", "options": "['aspirin', 'gout']", "answer": "gout"}],
]


def csv(rng: Random) -> Iterator[Case]:
    """Questions as CSV: one line is changed, or the bytes of the whole."""
    while True:
        if rng.random() < 0.3:
            name, data = encoded(rng, CSV)
        else:
            lines = CSV.splitlines()
            number = rng.randrange(len(lines))
            line, at = lines[number], rng.randrange(len(lines[number]))
            name = f"line {number}"
            lines[number] = rng.choice(
                (rng.choice(FIELDS), line[:at] + rng.choice((*TEXTS, '"', ",", "\0")) + line[at:])
            )
            data = "\n".join(lines).encode("utf-8", "surrogatepass")
        yield _case(rng, name, "table", "items.csv", data)


def forms(rng: Random) -> Iterator[Case]:
    """Rows of a published form: one is changed."""
    while True:
        rows = list(rng.choice(FORMS))
        number = rng.randrange(len(rows))
        name, rows[number] = mutated(rng, rows[number])
        lines = "".join(json_text(row) + "\n" for row in rows)
        data = lines.encode("utf-8", "surrogatepass")
        yield _case(rng, name, "table", "items.jsonl", data)


def _case(rng: Random, name: str, source: str, file: str, data: bytes) -> Case:
    experiment = experiments.questions()
    policy = rng.choice(("skip", "error"))
    experiment["dataset"] = [{"name": source, "path": file, "on_bad_row": policy}]
    write = experiments.command(experiment, {file: data}, "--dry-run")
    return Case(name=name, write=write, codes=CODES)
