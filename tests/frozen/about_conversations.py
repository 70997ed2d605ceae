"""Frozen experiments in which scripted models talk."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from .inputs import speaking, tiny


def role(*names: str) -> str:
    """Tables of scripted roles."""
    tables = ""
    for name in names:
        kind = "judge" if name in ("judge", "second") else "attacker"
        head = "[[role.judge]]" if kind == "judge" else "[role.attacker]"
        tables += f'{head}\nbackend = "python"\ntarget = "roles.py:{name}"\n'
    return tables


def conversations(rest: str, name: str, seeds: str = "[0]") -> str:
    """An experiment in which a scripted target talks."""
    return f"""[experiment]
controls = false
name = "{name}"
seeds = {seeds}
[[dataset]]
name = "jsonl"
path = "items.jsonl"
[[victim]]
name = "target"
backend = "python"
target = "roles.py:target"
{rest}"""


MEDFUZZ = {
    "items.jsonl": tiny(5),
    "roles.py": speaking(
        5,
        '{"tiny-0": "teacher", "tiny-3": "farmer"}, wrong=["tiny-4"]',
        ["He works as a clerk.", "!Gone.", "He is a farmer or a teacher."],
    ),
    "e.toml": conversations(
        role("attacker", "judge", "second")
        + """[[attack]]
name = "medfuzz"
attempts = 3
runs = 2
gates = ["options", "insertions", "panel"]
[[attack]]
name = "medfuzz"
label = "marked"
attempts = 2
runs = 1
gate_mode = "mark"
attack_all = true
""",
        "medfuzz",
        "[0, 1]",
    ),
}

SIGNIFICANCE = {
    "items.jsonl": tiny(3),
    "roles.py": speaking(
        3,
        '{"tiny-0": "lighthouse", "tiny-2": "lighthouse"}, admits=True',
        ["He works as a clerk.", "He works as a lighthouse keeper."],
    ),
    "e.toml": conversations(
        role("attacker", "judge")
        + """[[attack]]
name = "medfuzz"
attempts = 2
runs = 1
exemplars = 0
[test]
null = "neutral"
controls = 12
faithfulness_slope = true
slope_samples = 3
""",
        "significance",
    ),
}


def filled_in(column: str, first: str) -> Callable[[Path], None]:
    """What two experts write into the sheet `cases.csv`: the first case otherwise than the rest."""

    def fill(root: Path) -> None:
        with (root / "cases.csv").open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            rows, names = list(reader), list(reader.fieldnames or ())
        told = []
        for i, row in enumerate(rows):
            for who in ("AB", "CD")[: 1 + i % 2]:
                told.append(row | {"reviewer": who, column: first if i == 0 else "yes"})
        if told:
            told[0] |= {"interest": "clinical", "note": '=odd, but "clear"'}
        with (root / "filled.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(told)

    return fill


REVIEWED = {
    "items.jsonl": tiny(4),
    "roles.py": speaking(
        4,
        '{"tiny-0": "teacher", "tiny-1": "clerk", "tiny-3": "teacher"}',
        ["He works as a clerk.", "He works as a teacher."],
    ),
    "e.toml": conversations(
        role("attacker") + '[[attack]]\nname = "medfuzz"\nattempts = 2\nruns = 1\n', "reviewed"
    ),
}
