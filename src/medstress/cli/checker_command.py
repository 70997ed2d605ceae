"""`medstress checker`: how often a checker of names is right, and what it says of a run."""

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
from medstress.checking.elsewhere import read_measured
from medstress.checking.measure import FORMAT, checker_table, measure
from medstress.checking.pairs import read_pairs
from medstress.checking.successes import check_successes
from medstress.cli.checker_flags import EMBEDDING, THRESHOLD
from medstress.cli.display import display
from medstress.cli.screen import screen
from medstress.core.errors import UsageError, did_you_mean
from medstress.experiment.first.choices import Choices
from medstress.experiment.first.victim import model_place
from medstress.results.load import open_run
from medstress.summary.kept import keep_summary
from medstress.summary.summary import summarise_run

_OF_JUDGE = ("model", "base_url", "api_key_env")
_OF_EMBEDDING = ("embedding", "threshold")


def checker_cli(args: argparse.Namespace) -> int:
    """Run `medstress checker`."""
    if (args.pairs is None) == (args.run is None):
        raise UsageError(
            "checker: expected PAIRS.jsonl to measure a checker, or --run DIR to let it judge a "
            f"run, got {'both' if args.run else 'neither'}"
        ).with_command("medstress checker --help")
    if args.measured is not None and args.run is None:
        raise UsageError("--measured is for --run DIR: leave it out, or name a run")
    pairs = [] if args.pairs is None else read_pairs(Path(args.pairs))
    with ExitStack() as stack:
        checker = _open(args, stack)
        if args.run is not None:
            return _judge_run(args, checker)
        said = checker.check([(pair.a, pair.b) for pair in pairs])
    rows = measure(pairs, said)
    if args.json:
        found = {"format": FORMAT, "checker": checker.name, "hash": checker.hash}
        print(json.dumps({**found, "rows": [row.as_json() for row in rows]}, indent=1))
        return 0
    table, out = checker_table(checker.name, rows), screen()
    out.say(table.caption)
    out.show(table)
    for note in table.notes:
        out.say(note)
    return 0


def _judge_run(args: argparse.Namespace, checker: Checker) -> int:
    folder = Path(args.run)
    measured = None if args.measured is None else read_measured(Path(args.measured), checker)
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        said = check_successes(folder, checker, measured, watcher.note)
    keep_summary(folder)
    with open_run(folder) as run:
        summary = summarise_run(run)
    rows = [row for row in summary["pooled"] if (row.get("validity") or {}).get("checkers")]
    if args.json:
        keys = ("dataset", "group", "victim", "attack", "asr_valid", "asr_valid_bounds", "validity")
        told = [{key: row[key] for key in keys} for row in rows]
        print(json.dumps({"checker": summary["checker"], "rows": told, "said": said}, indent=1))
        return 0
    out = screen()
    for line in [*said, *_whys(rows), f"next: medstress summary {folder}"]:
        out.say(line)
    return 0


def _whys(rows: list[dict[str, object]]) -> list[str]:
    """Return why rows have no estimate, each reason once."""
    found = [validity["why"] for row in rows if isinstance(validity := row["validity"], dict)]
    return [f"no estimate yet: {why}" for why in dict.fromkeys(filter(None, found))]


def _open(args: argparse.Namespace, stack: ExitStack) -> Checker:
    name = args.checker
    if name not in NAMES and ":" not in name:
        raise UsageError(
            f"--checker {name}: expected {', '.join(NAMES)}, module:function or file.py:function"
            f"{did_you_mean(name, NAMES)}"
        )
    _refuse_idle(args)
    base = Path.cwd()
    if ":" in name:
        return Function(name, base)
    synonyms = args.synonyms or []
    if name == "rules":
        return Rules(synonyms, base)
    if name == "judge" or (name == "combined" and args.model is not None):
        judge = _judge(args, base, stack)
        return judge if name == "judge" else Combined([Rules(synonyms, base), judge])
    threshold = _threshold(THRESHOLD if args.threshold is None else args.threshold)
    near = Near(args.embedding or EMBEDDING, threshold, base)
    return near if name == "embedding" else Combined([Rules(synonyms, base), near])


def _refuse_idle(args: argparse.Namespace) -> None:
    """Refuse flags that the chosen checker does not read: another one would be measured.

    Raises:
        UsageError: one is given.
    """
    kind = args.checker
    used = {
        "rules": ("synonyms",),
        "embedding": _OF_EMBEDDING,
        "judge": _OF_JUDGE,
        "combined": ("synonyms", *(_OF_EMBEDDING if args.model is None else _OF_JUDGE)),
    }.get(kind, ())
    for name in ("synonyms", *_OF_EMBEDDING, *_OF_JUDGE):
        if name not in used and getattr(args, name) is not None:
            beside = f" with --model {args.model}" if kind == "combined" and args.model else ""
            raise UsageError(
                f"--{name.replace('_', '-')} has no effect on --checker {kind}{beside}: leave it "
                "out, or choose the checker that it is for"
            )


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
