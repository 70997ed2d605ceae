"""What the page of performance says of other tools, from the lines of against.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench_targets import NAMES
from pages import blocks, listed, table

Line = Mapping[str, Any]
OURS = "medstress"
TITLES = {
    OURS: OURS,
    "hf": "padded batches, transformers",
    "lm_eval": "lm-evaluation-harness",
    "llama_cpp": "llama.cpp's server",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One thing in which a tool can be ahead of us."""

    told: str
    """What the tool that is ahead does."""
    value: Callable[[Line], float]
    """Of a line of against.py."""
    more_is_better: bool = False
    """Else less is."""
    of_each_set: bool = True
    """Whether it differs between data sets."""

    def is_ahead(self, line: Line, ours: Line) -> bool:
        """Whether a tool is better than we are."""
        theirs, own = self.value(line), self.value(ours)
        return theirs > own if self.more_is_better else theirs < own

    def sentence(self, line: Line, ours: Line) -> str:
        """With both numbers."""
        numbers = f"{self.value(line):,.4g} against our {self.value(ours):,.4g}"
        where = f" on {NAMES[line['dataset']]}" if self.of_each_set else ""
        return f"Ahead of us: {TITLES[line['tool']]} {self.told}{where}: {numbers}."


MEASURES = (
    Measure(
        told="answers more queries a second",
        value=lambda line: line["queries_per_second"],
        more_is_better=True,
    ),
    Measure(
        told="forwards fewer tokens a query",
        value=lambda line: line["tokens_forwarded"] / line["queries"],
    ),
    Measure(
        told="asks its user for fewer lines",
        value=lambda line: line["lines_of_code"],
        of_each_set=False,
    ),
)
HEADS = (
    *("", "data", "queries", "queries a second", "ours / it", "tokens forwarded"),
    *("forwarded / needed", "letters that agree", "apart", "lines the user writes", "threads"),
)


def against(lines: Sequence[Line]) -> str:
    """The table, who is ahead of us in what, and what could not be had."""
    found = [line for line in lines if "could_not" not in line]
    ours = {line["dataset"]: line for line in found if line["tool"] == OURS}
    ahead = who_is_ahead(found, ours) or [
        "Ahead of us: none, in queries a second, tokens or lines."
    ]
    absent = [
        f"{TITLES[line['tool']]} could not be had: {line['could_not']}."
        for line in lines
        if "could_not" in line
    ]
    return blocks(
        table(HEADS, [_row(line, ours[line["dataset"]]) for line in found]),
        listed([*ahead, *absent]),
    )


def who_is_ahead(found: Sequence[Line], ours: Mapping[str, Line]) -> list[str]:
    """A sentence for each tool, measure and data set in which it is better."""
    told = [
        measure.sentence(line, ours[line["dataset"]])
        for measure in MEASURES
        for line in found
        if measure.is_ahead(line, ours[line["dataset"]])
    ]
    return list(dict.fromkeys(told))


def _row(line: Line, ours: Line) -> list[Any]:
    faster = ours["queries_per_second"] / line["queries_per_second"]
    return [
        f"{TITLES[line['tool']]} {line['version']}",
        NAMES[line["dataset"]],
        line["queries"],
        line["queries_per_second"],
        round(faster, 2),
        line["tokens_forwarded"],
        round(line["tokens_forwarded"] / line["tokens_unique"], 2),
        f"{line['letters_agree']} of {line['queries']}",
        line["apart"],
        line["lines_of_code"],
        line["threads"],
    ]
