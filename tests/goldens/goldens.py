"""Compare what the code gives with what 0.2 gave, or make the goldens again.

python tests/goldens/goldens.py [NAME ...]           compare
python tests/goldens/goldens.py --write [NAME ...]   make them again

Commit 86b118b, the last of 0.2, made them, and its Python makes them again; README.md tells what
changed since and why.
"""

import argparse
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import first_edition

from experiments import GOLDENS, Golden

HERE = Path(__file__).resolve().parent
SHOWN = 20
ASKED = "asked.txt"
"""Where the functions of an experiment count what they are asked."""

KEY = ("dataset", "group", "item_id", "unit", "victim", "attack", "arm", "seed", "repeat")
"""What tells trials apart."""
TRIAL = (
    *KEY,
    *("verdict", "key", "answer_before", "answer_after", "score_before", "score_after"),
    *("n_asked", "n_paid", "n_cached", "n_failed", "n_unreadable"),
    *("first_success", "first_success_attempt", "option", "replaced", "replacement", "edits"),
    *("edit_characters", "edit_tokens", "variant_class", "valid", "repeats"),
)
"""Columns of `export --table trials`."""
ARM_KEY = ("dataset", "group", "victim", "attack", "seed")
COUNTS = (
    *("n_items", "n_trials", "n_already_wrong", "n_not_attackable", "n_unreadable_at_baseline"),
    *("n_failed_at_baseline", "n_eligible", "n_flipped", "n_held", "n_measured", "n_cut_short"),
    *("n_failed", "n_unreadable_answers", "n_never_asked", "n_unchanged", "n_ties"),
)
SCORES = tuple(
    f"{score}{when}"
    for score in (
        *("precision", "recall", "f1", "precision_relaxed", "recall_relaxed", "f1_relaxed"),
        *("pearson", "spearman"),
    )
    for when in ("", "_after", "_drop", "_net_drop")
)
ESTIMATES = (
    *("accuracy", "chance", "above_chance", "accuracy_after", "asr", "asr_decided", "asr_asked"),
    *("asr_at", "control", "asr_net", "asr_valid", "asr_valid_bounds", "diversity"),
    *("diversity_unbiased", "prompt_similarity", "queries_to_success", "key_probability_change"),
    *("letter_mass", "queries", "curve", "asr_bounds", "accuracy_bounds", "accuracy_after_bounds"),
    *SCORES,
)
WORST = ("asr_bounds", "accuracy_bounds", "accuracy_after_bounds")
"""The ends of a share where open answers count at their worst."""
TEST = ("family", "dataset", "group", "victim", "comparison", "against", "difference", "p")
TRIED = ("item_id", "seed", "repeat")
"""What tells the trial of a tested success apart."""
TESTED = ("attack", "item_id", "seed", "repeat", "null", "p", "n_controls", "count")
RATES = ("dataset", "group", "victim", "attack", "unfaithful", "mention_rate")
ESTIMATE = ("budget", "attempt", "value", "n", "low", "high")
"""Fields of an estimate; what else stands there are words."""
LEFT_OUT = {"method", "reason", "why", "trial_id", "worst", "hits", "evidence"}
"""Fields that hold words or hashes, or that 0.2 did not write."""


def medstress(*words: str, apart: bool = False) -> tuple[int, str, str]:
    """The command line: exit code, standard output, standard error."""
    if apart:
        command = [sys.executable, "-m", "medstress", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr
    from medstress.__main__ import main

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["medstress", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    else:
        code = 0
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


@contextmanager
def written_to(root: Path, golden: Golden) -> Iterator[None]:
    """Write what an experiment reads into an empty folder, and work there."""
    for name, text in golden.files.items():
        text = first_edition.said(text) if first_edition.IS_FIRST else text
        (root / name).write_text(text, encoding="utf-8")
    kept, before = dict(os.environ), Path.cwd()
    places = {"MEDSTRESS_CACHE": "cache", "XDG_STATE_HOME": "state", "GOLDEN_ASKED": ASKED}
    os.environ |= {name: str(root / place) for name, place in places.items()}
    os.chdir(root)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)


def n_asked(root: Path) -> int:
    """How many prompts, texts and conversations the functions of an experiment were asked."""
    place = root / ASKED
    return len(place.read_text("utf-8")) if place.is_file() else 0


def made(golden: Golden, root: Path) -> dict[str, Any]:
    """Run an experiment in an empty folder, and read it through the command line."""
    with written_to(root, golden):
        for words, expected in zip(golden.steps, golden.codes, strict=True):
            apart = words[0] == "killed"
            code, _, err = medstress(*words[apart:], apart=apart)
            if code != expected:
                raise SystemExit(f"{' '.join(words)}: exit {code}, not {expected}: {err[-2000:]}")
        return read(golden.run)


def read(run: str) -> dict[str, Any]:
    """What a run folder holds, in the words of INTERFACE."""
    code, out, err = medstress("summary", run, "--json")
    assert code == 0, err
    summary = json.loads(out)
    summary = first_edition.told(summary) if first_edition.IS_FIRST else summary
    told = {
        "trials": trials(run),
        "arms": arms(summary),
        "tests": picked(summary.get("tests", []), (*TEST, "p_adjusted")),
        "significance": picked(
            successes(summary, run), (*TESTED, "p_adjusted", "t_original", "t_attack")
        ),
        "faithfulness": picked(
            summary.get("faithfulness", []),
            (*RATES, "mention_rate_failed", "mention_rate_findings"),
        ),
    }
    return {name: rows for name, rows in told.items() if rows}


def of(row: dict[str, Any], name: str) -> Any:
    """A field of a row; worst ends are those of the interval where every trial is decided."""
    share = row.get(name.removesuffix("_bounds"))
    if name in WORST and name not in row and share:
        return share.get("worst") or [share["low"], share["high"]]
    return row.get(name)


def picked(rows: Sequence[dict[str, Any]], fields: Sequence[str]) -> list[dict[str, Any]]:
    """The fields of rows that are not null, in the order of the rows' texts."""
    kept = [{each: normal(of(row, each)) for each in fields} for row in rows]
    told = [{key: value for key, value in row.items() if value is not None} for row in kept]
    return in_order(told)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by what tells them apart, so that a field more or less moves none."""
    names = (*ARM_KEY, "family", "comparison", "against", "item_id", "repeat", "null")
    return sorted(rows, key=lambda row: json.dumps([row.get(name) for name in names]))


def successes(summary: dict[str, Any], run: str) -> list[dict[str, Any]]:
    """The tested successes of MedFuzz: a row each."""
    trials = {row["trial_id"]: row for row in rows_of(run, "trials")}
    return [
        {**family, **item, **{name: trials.get(item["trial_id"], item)[name] for name in TRIED}}
        for family in summary.get("significance", [])
        for item in family["items"]
    ]


def rows_of(run: str, table: str) -> list[dict[str, Any]]:
    """The rows of `export`."""
    file = Path(f"{table}.jsonl")
    code, _, err = medstress("export", run, "--table", table, "--to", str(file))
    assert code == 0, err
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def trials(run: str) -> list[dict[str, Any]]:
    """A row for each trial, with the answer to each of its queries, in order of their keys."""
    answers: dict[str, list[Any]] = {}
    for row in rows_of(run, "exchanges"):
        if row["role"] == "victim" and row["purpose"] == "attack":
            scores = row["scores"] and [round(one, 5) for one in row["scores"]]
            told = scores if row["answer"] is None else row["answer"]
            answers.setdefault(row["trial_id"], []).append((row["query"] or 0, row["call"], told))
    rows = []
    for row in rows_of(run, "trials"):
        kept = {name: normal(of(row, name)) for name in TRIAL}
        given = sorted(answers.get(row["trial_id"], []), key=lambda one: one[:2])
        kept["answers"] = [one[2] for one in given]
        rows.append({name: value for name, value in kept.items() if value is not None})
    return sorted(rows, key=lambda row: json.dumps([row.get(name) for name in KEY]))


def arms(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each arm over its seeds: counts, values, ends of intervals."""
    place = ("dataset", "victim", "attack")
    curves = {
        tuple(row[name] for name in place): {"curve": row["curve"]}
        for row in summary.get("attempts", [])
    }
    rows = [{**row, **curves.get(tuple(row[n] for n in place), {})} for row in summary["results"]]
    return picked(rows, (*ARM_KEY, *COUNTS, *ESTIMATES))


def normal(value: Any) -> Any:
    """A value without words, with twelve significant digits."""
    if isinstance(value, dict):
        if "value" in value and "n" in value:
            value = {name: value.get(name) for name in ESTIMATE if name in value}
        return {key: normal(one) for key, one in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        return [normal(one) for one in value]
    return float(f"{value:.12g}") + 0.0 if isinstance(value, float) else value


def differences(old: Any, new: Any, path: str) -> Iterator[str]:
    """Walk both and tell every leaf that differs: scores by 1e-5, other numbers by 1e-9."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            yield from differences(old.get(key), new.get(key), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}/{_place(one, i)}")
    elif not _same(old, new, 1e-5 if "/score_" in path or "/answers/" in path else 1e-9):
        yield f"{path}: was {_short(old)}, is {_short(new)}"


def _place(row: Any, i: int) -> str:
    if not isinstance(row, dict) or "victim" not in row:
        return str(i)
    names = ("item_id", "unit", "victim", "attack", "arm", "seed", "repeat")
    return ",".join(str(row[name]) for name in names if row.get(name) is not None)


def _same(old: Any, new: Any, tolerance: float) -> bool:
    if isinstance(old, float | int) and isinstance(new, float | int):
        is_float = isinstance(old, float) or isinstance(new, float)
        if is_float and not isinstance(old, bool) and not isinstance(new, bool):
            return math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance)
    return type(old) is type(new) and bool(old == new)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:100]}..."


def written(told: dict[str, Any]) -> str:
    """JSON with a row a line."""
    parts = []
    for name, rows in told.items():
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def compared(name: str, root: Path) -> list[str]:
    """The leaves of one golden that differ now; `root` is an empty folder."""
    old = json.loads((HERE / f"{name}.json").read_text("utf-8"))
    old = {part: rows if part == "trials" else in_order(rows) for part, rows in old.items()}
    return list(differences(old, json.loads(written(made(GOLDENS[name], root))), name))


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(GOLDENS))
    parser.add_argument("--write", action="store_true", help="make the goldens again")
    args = parser.parse_args(arguments)
    if unknown := [name for name in args.names if name not in GOLDENS]:
        parser.error(f"unknown: {', '.join(unknown)} (known: {', '.join(GOLDENS)})")
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in args.names or GOLDENS:
            start, root = time.monotonic(), Path(folder).resolve() / name
            root.mkdir()
            if args.write:
                text = written(made(GOLDENS[name], root))
                (HERE / f"{name}.json").write_text(text, encoding="utf-8")
                told = f"{len(text):,} characters"
            else:
                found = compared(name, root)
                n += len(found)
                told = f"{len(found)} leaves differ" if found else "equal"
                print("\n".join(found[:SHOWN]), end="\n" if found else "")
            print(f"{name}: {told}, {time.monotonic() - start:.1f} s", flush=True)
    return int(n > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
