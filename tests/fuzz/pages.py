"""Pages in which every text that comes from outside is a given one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from medstress.api.run import run
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.papers import cases as paper_cases
from medstress.testing import tiny_questions

MODELS = """
from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(4)
target = rule_target(ITEMS, {"tiny-0": "lighthouse", "tiny-2": "lighthouse"}, admits=True)
SCRIPT = ["He works as a clerk.", "He lives and works in an old lighthouse by the sea."]
attacker = scripted_attacker(ITEMS, SCRIPT)
judge = scripted_judge(ITEMS)
"""

ROWS = (
    ("results",),
    ("pooled",),
    ("tests",),
    ("significance",),
    ("faithfulness", "trials"),
    ("faithfulness", "rates"),
    ("performance", "spending"),
)
"""Where a summary holds rows with labels."""
OURS = {"verdict", "family", "null", "family_of", "gate_mode", "arm", "unit", "version", "versions"}
"""Keys whose values are words of ours that decide what is shown."""


@dataclass(frozen=True)
class Template:
    """A small MedFuzz run with tests of significance and faithfulness."""

    summary: dict[str, Any]
    trials: Sequence[TrialRow]
    manifest: dict[str, Any]


def template(folder: Path) -> Template:
    """Run it."""
    (folder / "models.py").write_text(MODELS, encoding="utf-8")
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(4)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def role(name: str) -> dict[str, str]:
        return {"backend": "python", "target": f"{folder / 'models.py'}:{name}"}

    experiment = {
        "experiment": {"controls": False, "name": "fuzzed", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": str(folder / "items.jsonl")},
        "victim": {"name": "rule", **role("target")},
        "role": {"attacker": role("attacker"), "judge": role("judge")},
        "attack": {"name": "medfuzz", "attempts": 2, "runs": 1, "exemplars": 0},
        "test": {"null": "neutral", "items": [f"tiny-{i}" for i in range(4)], "controls": 30},
    }
    done = run(experiment, folder / "run")
    won = [row for row in done.rows() if row.verdict is Verdict.FLIPPED]
    return Template(summary=done.summary(), trials=won, manifest=done.manifest())


def told(value: Any, text: str) -> Any:
    """A value of JSON in which every text is the given one, but for words that are ours."""
    if isinstance(value, Mapping):
        return {k: v if k in OURS else told(v, text) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [told(each, text) for each in value]
    return text if isinstance(value, str) else value


def report_of(given: Template, texts: Sequence[str]) -> tuple[Any, list[TrialRow], Any]:
    """What `render_report` is handed: one row of every kind, one success, one failure a text."""
    summary = json.loads(json.dumps(given.summary))
    for path in ROWS:
        holder = summary
        for key in path[:-1]:
            holder = holder[key]
        row = holder[path[-1]][0]
        holder[path[-1]] = [told(row, text) for text in texts]
    for row, text in zip(summary["results"], texts, strict=True):
        row["gates"] = {text: next(iter(row["gates"].values()))}
        row["roles"] = {text: next(iter(row["roles"].values()))} if row.get("roles") else {}
        row["attack_spec"] = {text: text}
    summary["pooled"] = []
    summary["warnings"] = list(texts)
    summary["slices"] = [
        {**told(row, text), "by": text, "value": text}
        for row, text in zip(summary["results"], texts, strict=True)
    ]
    summary["experiment"] |= {"name": " ".join(texts), "fingerprint": texts[0]}
    trials = [
        row
        for i, text in enumerate(texts)
        for row in (_trial(given.trials[0], i, text), _failed(given.trials[0], i, text))
    ]
    manifest = told(given.manifest, " ".join(texts))
    return summary, trials, manifest | {"endpoints": list(texts), "notes": list(texts)}


def _trial(row: TrialRow, i: int, text: str) -> TrialRow:
    changes: dict[str, Any] = {
        each.name: text
        for each in fields(row)
        if isinstance(getattr(row, each.name), str) and each.name not in OURS
    }
    # A database holds no lone surrogate, and successes are chosen by a hash of this.
    changes["trial_id"] = f"{i} {text.encode(errors='replace').decode()}"
    changes["edits"], changes["variant_answers"] = row.edits, row.variant_answers
    pieces = [{**each, "source": text} for each in json.loads(row.evidence or "[]")]
    changes["evidence"] = json.dumps(pieces)
    changes["n_excluded"] = row.n_excluded
    changes["attack_spec"] = row.attack_spec
    changes["attempts"] = json.dumps(told(json.loads(row.attempts or "[]"), text))
    changes["listing_before"] = f"[Context]: {text}\nA: {text}\nB: {text}"
    changes["listing_after"] = f"[Context]: {text} added\nA: {text}\nB: {text[::-1]}"
    return replace(row, **changes)


def _failed(row: TrialRow, i: int, text: str) -> TrialRow:
    changes: dict[str, Any] = {"verdict": Verdict.FAILED, "error": text, "at": text}
    return replace(_trial(row, -1 - i, text), **changes)


def paper_cases_of(texts: Sequence[str]) -> list[paper_cases.Case]:
    """Cases of the figures, one a text."""

    def pieces(text: str) -> tuple[paper_cases.Piece, ...]:
        return (
            paper_cases.Piece(text=text, changed=False),
            paper_cases.Piece(text=text, changed=True),
        )

    return [
        paper_cases.Case(
            title=text,
            facts=text,
            context=text,
            stem=text,
            options=(
                paper_cases.Option(letter="A", before=pieces(text), after=pieces(text)),
                paper_cases.Option(letter="B", before=pieces(text), after=pieces(text)),
            ),
            key="A",
            answer_before="A",
            answer_after="B",
        )
        for text in texts
    ]
