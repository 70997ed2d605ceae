"""The default parser against replies of real models, whose readings were written down before it.

`styles_seen.json` and `styles_kept.json`: replies in the styles of real models; the kept ones were
read once, when the parser was done. `replies.jsonl` and `replies_smollm2.json`: see `replies.md`.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from medstress.tasks.reading import PARSERS, final_statement, letter_read

HERE = Path(__file__).parent
MOST_WRONG = 0.01
UNREADABLE = {"seen": 0.08, "kept": 0.15, "table": 0.08, "smollm2": 0.08}
"""The largest share of the replies which name a letter that may be unreadable."""
READ_RIGHT = {"final_statement": 440, "exact": 171, "first_four": 221, "single_character": 172}
"""Replies of the table that a parser gives the reading they must get."""


class Row(NamedTuple):
    style: str
    options: list[str]
    text: str
    letter: str | None
    is_cut: bool


def rows(name: str) -> Iterator[Row]:
    if name == "table":
        for line in (HERE / "replies.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            yield Row(row["source"], row["options"], row["text"], row["letter"], False)
        return
    file = "replies_smollm2.json" if name == "smollm2" else f"styles_{name}.json"
    if not (HERE / file).is_file():
        pytest.skip(f"no {file}")
    stored = json.loads((HERE / file).read_text("utf-8"))
    for style in [{"style": name, "replies": stored}] if "replies" not in stored[0] else stored:
        for one in style["replies"]:
            yield Row(style["style"], one["options"], one["text"], one["truth"], one["cut"])


@pytest.mark.parametrize("name", UNREADABLE)
def test_of_replies_of_real_models_hardly_one_is_read_as_another_letter(name):
    counts: Counter[str] = Counter()
    wrong: dict[str, list[str]] = defaultdict(list)
    n_of_style: Counter[str] = Counter()
    for row in rows(name):
        letter = letter_read("final_statement", row.text, row.options, is_cut=row.is_cut)
        n_of_style[row.style] += 1
        counts["named"] += row.letter is not None
        counts["unreadable"] += letter is None and row.letter is not None
        if letter is not None and letter != row.letter:
            wrong[row.style].append(row.text)
        counts["read though none is named"] += letter is not None and row.letter is None
    n_wrong = sum(map(len, wrong.values()))
    print(f"{name}: {n_wrong} wrong, {dict(counts)}")
    assert n_wrong <= MOST_WRONG * n_of_style.total(), dict(wrong)
    assert all(len(texts) < n_of_style[style] for style, texts in wrong.items())
    assert counts["unreadable"] <= UNREADABLE[name] * counts["named"]
    assert counts["read though none is named"] == 0


def test_every_parser_is_measured_on_the_table():
    table = list(rows("table"))
    assert len(table) == 444
    right = {
        name: sum(parser(row.text, row.options) == row.letter for row in table)
        for name, parser in PARSERS.items()
    }
    assert right == READ_RIGHT


FORMS = ("{k}: {text}", "{k}. {text}", "({k}) {text}", "{k}) {text}", "{text}", "The answer is {k}")


@pytest.mark.parametrize("form", FORMS)
def test_answers_in_medical_text_are_read_as_what_they_say(published, form):
    lines = published("qa/medqa_train_part.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 1850
    misread = 0
    # Every second item in all, each in one form.
    for options in (json.loads(line)["options"] for line in lines[2 * FORMS.index(form) :: 12]):
        for letter, text in options.items():
            told = form.format(k=letter, text=text)
            misread += final_statement(told, list(options.values())) != letter
    assert misread == 0
