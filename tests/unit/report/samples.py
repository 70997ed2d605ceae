"""A run that never was: the summary, trials and manifest of a small experiment."""

from __future__ import annotations

import json
import re
from math import sqrt
from typing import Any
from xml.etree import ElementTree

from medstress.core.calls import Message
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.report.charts import Plot
from medstress.results import text
from medstress.results.table import Table

ATTACKS = ("random", "pdws near", "pdws far")
GROUPS = ("drugs", "diseases")
BUDGETS = (1, 2, 4, 8, 16, 32)
HOSTILE = (
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(2)>",
    '" onmouseover="alert(3)" x=\'',
    "{{ 7 * 7 }} {% raw %} ]]> --> &amp;",
    "\u202egnp.exe\u202c \u200fעברית\u200e العربية",
    "a\x00b\x1bc\ud800d\ufffee\r\nf",
    "$\\frac{1}{0$ 药物 💊 e\u0301",
    "x" * 5000,
    "</script><svg onload=alert(4)>",
)

_QUESTIONS = (
    (
        "A 54-year-old man takes a drug for gout and now has a rash. Which drug is most likely?",
        ("Allopurinol", "Colchicine", "Ibuprofen", "Probenecid"),
        "drugs",
    ),
    (
        "Which agent lengthens the QT interval most?",
        ("Sotalol", "Folic acid", "Loratadine", "Metformin"),
        "drugs",
    ),
    (
        "A child has a barking cough and stridor that is worse at night.",
        ("Croup", "Asthma", "Bacterial tracheitis", "Epiglottitis"),
        "diseases",
    ),
    (
        "Painless haematuria in a man who has smoked for 40 years points to:",
        ("Bladder carcinoma", "Cystitis", "Renal calculi", "Glomerulonephritis"),
        "diseases",
    ),
)
_NAMES = {
    "drugs": ("naproxen", "acetylsalicylic acid", "rasburicase", "5-fluorouracil"),
    "diseases": ("whooping cough", "laryngomalacia", "schistosomiasis", "von Willebrand disease"),
}


def shown(table: Table) -> list[dict[str, str]]:
    """The rows of a table as the terminal has them, by heading."""
    return [dict(zip(text.headings(table), row, strict=True)) for row in text.rows(table)]


def marks(plot: Plot) -> list[dict[str, Any]]:
    """The data of a chart's marks, each row once."""
    spec = json.loads(plot.spec)
    rows: list[dict[str, Any]] = []
    for layer in [spec, *spec.get("layer", ())]:
        data = layer.get("data") or {}
        for row in spec.get("datasets", {}).get(data.get("name"), data.get("values", [])):
            if row not in rows and "value" in row:
                rows.append(row)
    return rows


def is_drawn(plot: Plot) -> list[str]:
    """The texts of a chart's static picture, once its chart is checked against the schema."""
    from altair import LayerChart

    spec = json.loads(plot.spec)
    own = {name: value for name, value in spec.items() if name != "config"}
    LayerChart.from_dict(own, validate=True)
    root = ElementTree.fromstring(plot.svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"]
    tags = {element.tag for element in root.iter()}
    assert tags <= {"svg", "g", "path", "line", "text", "tspan", "rect"}
    assert not re.search(r"#[0-9a-f]{6}|style=|<style|url\(", str(plot.svg))
    plot.svg.encode()
    plot.spec.encode()
    return ["".join(text.itertext()) for text in root.iter("text")]


def estimate(part: int, n: int, method: str = "wilson") -> dict[str, Any]:
    if not n:
        return {"value": None, "n": 0, "low": None, "high": None, "method": method}
    z, p = 1.96, part / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return {"value": p, "n": n, "low": low, "high": high, "method": method}


def result(group: str, attack: str, seed: int | None, *, flipped: int = 17, **changes: Any) -> Any:
    """One row of `results`; its counts add up."""
    eligible, wrong, unreadable, failed = 51, 38, 2, 1
    asked = eligible + wrong + unreadable
    held = eligible - flipped - failed
    shares = [round(flipped * (i + 1) / len(BUDGETS)) for i in range(len(BUDGETS))]
    row = {
        "dataset": "sample",
        "group": group,
        "victim": "smollm2",
        "attack": attack,
        "attack_spec": json.dumps({"name": "entity_substitution", "budget": 32}),
        "seed": seed,
        "n_items": 100,
        "n_trials": 100,
        "n_already_wrong": wrong,
        "n_not_attackable": 8,
        "n_unreadable_at_baseline": unreadable,
        "n_failed_at_baseline": 1,
        "n_eligible": eligible,
        "n_flipped": flipped,
        "n_held": held,
        "n_measured": 0,
        "n_cut_short": 0,
        "n_failed": failed,
        "n_unreadable_answers": 5,
        "accuracy": estimate(eligible, asked),
        "chance": 0.322,
        "above_chance": {"p": 2e-5, "method": "exact binomial"},
        "accuracy_after": estimate(eligible - flipped, asked),
        "asr": estimate(flipped, eligible),
        "asr_decided": estimate(flipped, flipped + held),
        "asr_valid": None,
        "asr_valid_bounds": [0.0, max(0, flipped - 2) / 51, flipped / 51],
        "n_validity_unknown": max(0, flipped - 2),
        "n_censored": 2,
        "asr_by_variant": {
            "same_words": estimate(0, eligible),
            "key_plus_words": estimate(0, eligible),
            "key_subset": estimate(0, eligible),
            "synonym": estimate(0, eligible),
            "different": estimate(flipped, eligible),
        },
        "asr_at": [
            {"budget": budget, **estimate(share, eligible)}
            for budget, share in zip(BUDGETS, shares, strict=True)
        ],
        "queries": {
            "asked": 1203,
            "paid": 1001,
            "cached": 200,
            "failed": 2,
            "ahead": 44,
            "baseline": 91,
            "other": flipped,
            "interrupted": 0,
        },
        "queries_to_success": {"median": 2.5, "mean": 4.37}
        if flipped
        else {"median": None, "mean": None},
        "diversity": estimate(13, 17, "bootstrap") | {"value": 0.8789, "n": flipped},
        "diversity_unbiased": estimate(15, 17, "bootstrap") | {"value": 0.9338, "n": flipped},
        "prompt_similarity": estimate(0, 0),
    }
    return row | changes


def summary(**changes: Any) -> dict[str, Any]:
    """Two groups, three attacks, three seeds (one attack has none)."""
    results, pooled = [], []
    for g, group in enumerate(GROUPS):
        for a, attack in enumerate(ATTACKS):
            flipped = 6 + 9 * a + 5 * g
            if attack == "pdws far":
                results.append(result(group, attack, None, flipped=flipped))
                pooled.append(result(group, attack, None, flipped=flipped, seeds=[None]))
                continue
            results += [result(group, attack, seed, flipped=flipped + seed) for seed in range(3)]
            pooled.append(_pooled(group, attack, results[-3:]))
    tests = [
        {
            "family": f"sample · {group}",
            "comparison": "pdws near",
            "against": against,
            "statistic": 11.0 + g,
            "p": 0.00012 if g else 0.0213,
            "p_adjusted": 0.00024 if g else 0.0426,
            "method": "Tango's score statistic",
        }
        for g, group in enumerate(GROUPS)
        for against in ("random", "pdws far")
    ]
    performance = {"wall_seconds": 912.4, "queries_per_second": 9.31, "calls": 8802}
    return {
        "format": 2,
        "experiment": {
            "name": "sample-near-far",
            "fingerprint": "blake2b-128:0123456789abcdef0123456789abcdef",
            "seeds": [0, 1, 2],
            "versions": {"medstress": "0.1.0", "python": "3.11.7"},
            "started": "2026-03-01T09:00:00Z",
            "finished": "2026-03-01T09:15:12Z",
            "complete": True,
        },
        "results": results,
        "pooled": pooled,
        "slices": [],
        "requirements": [],
        "tests": tests,
        "performance": performance | {"tokens_forwarded": 912345, "tokens_naive": 2912345},
        "warnings": [],
    } | changes


def _pooled(group: str, attack: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    flipped = sum(row["n_flipped"] for row in rows)
    counts = {name: sum(row[name] for row in rows) for name in rows[0] if name.startswith("n_")}
    eligible = counts["n_eligible"]
    decided = flipped + counts["n_held"]
    asked = eligible + counts["n_already_wrong"] + counts["n_unreadable_at_baseline"]
    return rows[0] | counts | {
        "n_items": 100,
        "seeds": [row["seed"] for row in rows],
        "queries": {name: 3 * value for name, value in rows[0]["queries"].items()},
        "accuracy": estimate(eligible, asked, "bootstrap over items"),
        "accuracy_after": estimate(eligible - flipped, asked, "bootstrap over items"),
        "asr": estimate(flipped, eligible, "bootstrap over items"),
        "asr_decided": estimate(flipped, decided, "bootstrap over items"),
        "asr_valid_bounds": [0.0, (flipped - 4) / eligible, flipped / eligible],
        "asr_at": [
            {"budget": each["budget"], **estimate(round(each["value"] * eligible), eligible)}
            for each in rows[1]["asr_at"]
        ],
    }  # fmt: skip


def trial(i: int = 0, **changes: Any) -> TrialRow:
    """The `i`-th of an endless list of flipped trials."""
    question, options, group = _QUESTIONS[i % len(_QUESTIONS)]
    wrong = 1 + i % 3
    name = _NAMES[group][i // 2 % 4]
    replacement = name[0].upper() + name[1:]
    new = (*options[:wrong], replacement, *options[wrong + 1 :])
    letter = "ABCD"[wrong]
    edit = {"field": letter, "start": 0, "end": len(options[wrong]), "replacement": replacement}
    fields: dict[str, Any] = {
        "trial_id": f"blake2b-128:{i:032x}",
        "run": "sample-near-far",
        "dataset": "sample",
        "group": group,
        "item_id": f"q{i % 7:03}",
        "item_hash": f"blake2b-128:{i % 7:032x}",
        "unit": "item",
        "victim": "smollm2",
        "attack": ATTACKS[i % 3],
        "attack_spec": "{}",
        "arm": "attack",
        "seed": i % 3,
        "repeat": 0,
        "verdict": Verdict.FLIPPED,
        "at": None,
        "n_options": 4,
        "key": "A",
        "answer_before": "A",
        "answer_after": letter,
        "score_before": 0.912 - 0.02 * (i % 30),
        "score_after": 0.203 + 0.01 * (i % 9),
        "n_asked": 1 + i % 8,
        "n_paid": 1 + i % 8,
        "n_cached": 0,
        "n_failed": 0,
        "n_unreadable": 0,
        "first_success": 1 + i % 8,
        "first_unrefuted_success": 1 + i % 8,
        "first_valid_success": None,
        "first_success_attempt": None,
        "first_success_answer": letter,
        "first_success_replacement": replacement,
        "censored": False,
        "n_excluded": "{}",
        "option": letter,
        "replaced": options[wrong],
        "replacement": replacement,
        "variant_class": "different",
        "edits": json.dumps([edit]),
        "edit_characters": 9,
        "edit_tokens": 1,
        "words_replaced": 1,
        "words_inserted": 1,
        "valid": None,
        "validity_reason": "rule",
        "guess": i % 6 == 5,
        "repeats": i % 5 != 4,
        "prompt_before": prompt(question, options),
        "prompt_after": prompt(question, new),
        "listing_before": prompt(question, options),
        "listing_after": prompt(question, new),
        "error": None,
        "prompt_similarity": None,
    }
    return TrialRow(**fields | changes)


def prompt(question: str, options: tuple[str, ...]) -> str:
    listed = "\n".join(f"{letter}: {text}" for letter, text in zip("ABCD", options, strict=True))
    head = "Answer the multiple-choice question without explanation."
    return f"{head}\n[Context]: {question}\n{listed}\n[Answer]:"


def trials() -> list[TrialRow]:
    """Forty trials: 24 successes, 10 held, 4 already wrong, 2 failed."""
    unchanged: dict[str, Any] = {
        "first_success": None, "prompt_before": None, "prompt_after": None,
        "listing_before": None, "listing_after": None, "repeats": None,
        "answer_after": None, "score_after": None,
    }  # fmt: skip
    failed = {"verdict": Verdict.FAILED, "error": "connection refused: 127.0.0.1:8000"}
    return [
        *(trial(i) for i in range(24)),
        *(trial(i, verdict=Verdict.HELD, **unchanged) for i in range(24, 34)),
        *(trial(i, verdict=Verdict.ALREADY_WRONG, **unchanged) for i in range(34, 38)),
        trial(38, at="baseline", **failed | unchanged),
        trial(39, at="attack", **failed | unchanged),
    ]


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "command": "medstress run sample-near-far.toml --out runs/sample-near-far",
        "config": {"experiment": {"name": "sample-near-far", "seeds": [0, 1, 2]}},
        "completed": {"experiment": {"max_failed": 0, "flip_check": True}},
        "versions": {"medstress": "0.1.0", "numpy": "2.4.6"},
        "git_commit": "576e391",
        "models": {"smollm2": "blake2b-128:" + "ab" * 16},
        "vocabularies": {"drugs": "blake2b-128:" + "cd" * 16},
        "endpoints": [],
    } | changes


def hostile() -> tuple[dict[str, Any], list[TrialRow], dict[str, Any]]:
    """A run in which every text that comes from outside is an attempt to break the page."""
    rows = [
        result(text, text, 0, dataset=text, victim=text, attack_spec={text: text})
        for text in HOSTILE
    ]
    test = {
        "family": HOSTILE[0], "comparison": HOSTILE[1], "against": HOSTILE[2],
        "statistic": None, "p": None, "p_adjusted": None, "method": HOSTILE[3],
    }  # fmt: skip
    whole = summary(results=rows, pooled=[], tests=[test], warnings=list(HOSTILE))
    whole["experiment"] |= {"name": "".join(HOSTILE[:6]), "fingerprint": HOSTILE[0]}
    successes = [
        trial(
            i, trial_id=f"hostile-{i}", dataset=text, group=text, victim=text, attack=text,
            item_id=text, key=text, answer_before=text, answer_after=text, option=text,
            replaced=text, replacement=text[::-1], validity_reason=text,
            prompt_before=(Message("system", text), Message("assistant", text)),
            prompt_after=(Message("system", text), Message("assistant", text)),
            listing_before=prompt(text, (text,) * 4),
            listing_after=prompt(text, (text, text[::-1], text, text)),
        )
        for i, text in enumerate(HOSTILE)
    ]  # fmt: skip
    failed = [
        trial(i, verdict=Verdict.FAILED, at=text, error=text, attack=text, item_id=text)
        for i, text in enumerate(HOSTILE)
    ]
    given = manifest(command=" ".join(HOSTILE), endpoints=list(HOSTILE), notes=list(HOSTILE))
    return whole, successes + failed, given
