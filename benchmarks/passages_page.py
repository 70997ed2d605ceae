"""What docs/results/passages.md shows of its run, between its marks.

    python benchmarks/passages_page.py RUN FIGURES
    python benchmarks/passages_page.py

RUN is the folder of benchmarks/passages/medmcqa.toml, FIGURES what
`medstress figures --paper xian2025` made of it.
Their numbers go to benchmarks/results/passages.json; without them the page is written anew.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from pages import blocks, fill, table, verdicts

from medstress.api.results import Run
from medstress.core.rows import TrialRow
from medstress.experiment.file.reading import check_table
from medstress.experiment.plan.parts import load_groups
from medstress.metrics.counts import is_answered, is_eligible, is_flipped, unit_of
from medstress.metrics.evidence import evidence
from medstress.metrics.success import asr
from medstress.report.passages import passage_plots
from medstress.results.formats import probability
from medstress.stats.paired import unite

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "passages.md"
FIGURE = PAGE.with_suffix("") / "accuracy-GROUP.svg"
DATA = ROOT / "benchmarks" / "results" / "passages.json"
OPEN, CLOSED, CONTROL = "open_book", "closed_book", "no_op"
GROUPS = ("drugs", "diseases")
WORDS = {
    "no_op": "harmless edits",
    "random": "random names",
    "pdws n=-20": "near names (n = −20)",
    "nearest": "nearest names",
    "pdws n=20": "far names (n = 20)",
    "farthest": "farthest names",
}
PROBES = {
    "true sentence": "a true sentence about a wrong option added",
    "contradiction": "a sentence that contradicts the passage added",
    "passage_swap": "the key's name replaced by a wrong option's",
    "passage_other": "another question's passage",
    "passage_none": "no passage",
}
COLOURS = "svg{color:#222;--rule:#ccc;--series-1:#0b6fb3;--series-2:#c2410c;background:#fff}"
COMPARED = ("accuracy_open", "accuracy_closed", "gain")
SHARES = ("follows the passage", "keeps the key", "other")
THIRDS = ("nearest third", "middle third", "farthest third")
Rows = Sequence[TrialRow]


def main(*folders: str) -> None:
    """Read the run, if it is given, and write the page."""
    if folders:
        run, figures = map(Path, folders)
        found = measured(Run(run), figures)
        DATA.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        draw(Run(run))
    PAGE.write_text(render(), "utf-8")


def render() -> str:
    """The committed page with the committed numbers."""
    return fill(PAGE.read_text("utf-8"), parts(json.loads(DATA.read_text("utf-8"))))


def measured(run: Run, figures: Path) -> dict[str, Any]:
    """The numbers of the page."""
    rows = run.rows()
    passages = run.summary()["passages"]
    found: dict[str, Any] = {"gains": passages["gains"], "losses": [], "probes": [], "distance": []}
    for group in GROUPS:
        items = {row.item_id for row in rows if row.group == group and is_answered(row)}
        for victim in (OPEN, CLOSED):
            arms = _arms(row for row in rows if row.victim == victim and row.item_id in items)
            control = arms[CONTROL]
            for attack in WORDS:
                found["losses"].append(
                    {
                        "group": group,
                        "victim": victim,
                        "attack": attack,
                        "asr": asr(arms[attack]).as_json(),
                        "net": None if attack == CONTROL else _net(arms[attack], control),
                    }
                )
            for probe in PROBES if victim == OPEN else ():
                found["probes"].append(
                    {
                        "group": group,
                        "probe": probe,
                        "asr": asr(arms[probe]).as_json(),
                        "evidence": evidence(arms[probe]),
                    }
                )
    found["distance"] = by_distance(run, [row for row in rows if row.attack == "passage_swap"])
    found["claims"] = claims(figures / "claims.csv")
    return found


def by_distance(run: Run, rows: Rows) -> list[dict[str, Any]]:
    """How often a swapped passage is followed, by thirds of the distance of the two names."""
    entities = check_table("entities", {"type": "drugs", "vocabulary": "drugs"})
    (group,) = load_groups([entities], Path(), [], lambda _: None)
    distance = group.perturbations.distance_to
    with run.opened() as stored:
        items = {item.id: item for _, item in stored.items().values()}
    swapped = []
    for row in rows:
        if row.victim == OPEN and is_eligible(row) and row.supported is not None:
            item = items[row.item_id]
            swapped.append((distance(item.key_text, item.option(row.supported)), row))
    swapped = sorted((one for one in swapped if isfinite(one[0])), key=lambda one: one[0])
    third = -(-len(swapped) // 3)
    return [
        {
            "third": name,
            "from": swapped[i * third][0],
            "to": swapped[min((i + 1) * third, len(swapped)) - 1][0],
            **(evidence([row for _, row in swapped[i * third : (i + 1) * third]]) or {}),
        }
        for i, name in enumerate(THIRDS)
    ]


def claims(path: Path) -> list[dict[str, str]]:
    """The verdicts on the paper's claims for the victim that reads."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            {"claim": row["claim"], "statement": row["statement"], "verdict": row["verdict"]}
            for row in csv.DictReader(stream)
            if row.get("victim") in (OPEN, "", None)
        ]


def draw(run: Run) -> None:
    """Write the report's panels as pictures with colours of their own."""
    FIGURE.parent.mkdir(exist_ok=True)
    summary = run.summary()["passages"]
    shown = [row for row in summary["accuracies"] if row["attack"] in WORDS]
    named = [{**row, "attack": WORDS[row["attack"]]} for row in shown]
    for gain, plot in zip(
        [g for g in summary["gains"] if g["passages"] == "all"],
        passage_plots({**summary, "accuracies": named}),
        strict=True,
    ):
        head, sep, rest = str(plot.svg).partition(">")
        if "xmlns=" not in head:
            head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        text = f"{head}{sep}<style>{COLOURS}</style>{rest}"
        Path(str(FIGURE).replace("GROUP", gain["group"])).write_text(text + "\n", "utf-8")


def parts(found: Mapping[str, Any]) -> dict[str, str]:
    """What stands between the marks."""
    return {
        "answer": _answer(found),
        "gains": table(
            ["group", "with passage", "without", "gain", "p"],
            [
                [
                    g["group"],
                    g["accuracy_open"],
                    g["accuracy_closed"],
                    g["gain"],
                    probability(g["p"]),
                ]
                for g in found["gains"]
                if g["passages"] == "all"
            ],
        ),
        "losses": table(
            ["group", "victim", "attack", "ASR", "ASR minus that of harmless edits"],
            [
                [row["group"], row["victim"], WORDS[row["attack"]], row["asr"], row["net"]]
                for row in found["losses"]
            ],
        ),
        "probes": table(
            [
                "group",
                "what is done",
                "answers changed",
                "follows the passage",
                "keeps the key",
                "other",
            ],
            [
                [
                    row["group"],
                    PROBES[row["probe"]],
                    row["asr"],
                    *((row["evidence"] or {}).get(name) for name in ("followed", "kept", "other")),
                ]
                for row in found["probes"]
            ],
        ),
        "distance": table(
            ["names", "distance", *SHARES],
            [
                [
                    row["third"],
                    f"{row['from']:.2f} to {row['to']:.2f}",
                    *(row.get(name) for name in ("followed", "kept", "other")),
                ]
                for row in found["distance"]
            ],
        ),
        "claims": _claims(found["claims"]),
    }


def _answer(found: Mapping[str, Any]) -> str:
    lines = []
    for group in GROUPS:
        loss = {
            (row["victim"], row["attack"]): row for row in found["losses"] if row["group"] == group
        }
        (gain,) = (g for g in found["gains"] if g["group"] == group and g["passages"] == "all")
        lines.append(
            [
                group,
                gain["accuracy_open"],
                gain["accuracy_closed"],
                loss[OPEN, "pdws n=-20"]["asr"],
                loss[CLOSED, "pdws n=-20"]["asr"],
                loss[OPEN, CONTROL]["asr"],
                loss[OPEN, "pdws n=-20"]["net"],
            ]
        )
    return blocks(
        table(
            [
                "group",
                "right with passage",
                "without",
                "near names take, with",
                "without",
                "harmless edits take, with",
                "near minus harmless, with",
            ],
            lines,
        )
    )


def _claims(rows: Iterable[Mapping[str, str]]) -> str:
    told: dict[str, list[str]] = {}
    for row in rows:
        told.setdefault(f"{row['claim']}. {row['statement']}", []).append(row["verdict"])
    return verdicts(told)


def _arms(rows: Iterable[TrialRow]) -> dict[str, list[TrialRow]]:
    found: dict[str, list[TrialRow]] = {}
    for row in rows:
        found.setdefault(row.attack, []).append(row)
    return found


def _net(attacked: Rows, control: Rows) -> dict[str, Any]:
    """The paired difference of two attack success rates on the items that both attacked."""
    beside = {row.item_id: row for row in control if is_eligible(row)}
    pairs = [
        (unit_of(row), is_flipped(row), is_flipped(beside[row.item_id]))
        for row in attacked
        if is_eligible(row) and row.item_id in beside
    ]
    return unite(pairs).estimate.as_json()


if __name__ == "__main__":
    if len(sys.argv) not in (1, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
