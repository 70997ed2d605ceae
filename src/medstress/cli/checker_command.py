"""`medstress checker`: how often a checker of names is right, on labelled pairs."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path

from medstress.checking.checkers import (
    NAMES,
    Checker,
    Combined,
    Function,
    Near,
    Rules,
    ask_judge,
)
from medstress.checking.measure import FORMAT, checker_table, measure
from medstress.checking.pairs import read_pairs
from medstress.cli.screen import screen
from medstress.core.errors import UsageError, did_you_mean
from medstress.experiment.first.choices import Choices
from medstress.experiment.first.victim import model_place


def checker_cli(args: argparse.Namespace) -> int:
    """Run `medstress checker`."""
    pairs = read_pairs(Path(args.pairs))
    with ExitStack() as stack:
        checker = _open(args, stack)
        said = checker.check([(pair.a, pair.b) for pair in pairs])
    rows = measure(pairs, said)
    if args.json:
        found = {"format": FORMAT, "checker": checker.name, "rows": [row.as_json() for row in rows]}
        print(json.dumps(found, indent=1))
        return 0
    table, out = checker_table(checker.name, rows), screen()
    out.say(table.caption)
    out.show(table)
    for note in table.notes:
        out.say(note)
    return 0


def _open(args: argparse.Namespace, stack: ExitStack) -> Checker:
    name = args.checker
    if name not in NAMES and ":" not in name:
        raise UsageError(
            f"--checker {name}: expected {', '.join(NAMES)}, module:function or file.py:function"
            f"{did_you_mean(name, NAMES)}"
        )
    base = Path.cwd()
    if ":" in name:
        return Function(name, base)
    if name == "rules":
        return Rules(args.synonyms, base)
    near = Near(args.embedding, _threshold(args.threshold), base)
    if name == "embedding":
        return near
    if name == "combined" and args.model is None:
        return Combined([Rules(args.synonyms, base), near])
    judge = _judge(args, base, stack)
    return judge if name == "judge" else Combined([Rules(args.synonyms, base), judge])


def _judge(args: argparse.Namespace, base: Path, stack: ExitStack) -> Checker:
    if args.model is None:
        raise UsageError("--checker judge: which model? add --model NAME").with_flag(
            "--model", "my_model.py:answer"
        )
    choices = Choices(
        data="", model=args.model, base_url=args.base_url, api_key_env=args.api_key_env
    )
    judge, closes = ask_judge(args.model, model_place(choices, base, "multiple_choice"), base)
    stack.enter_context(closes)
    return judge


def _threshold(value: float) -> float:
    if not 0 <= value <= 2:
        raise UsageError(f"--threshold {value:g}: expected a cosine distance from 0 to 2")
    return value
