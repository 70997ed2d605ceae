"""What 0.2 calls things, so that it makes the goldens too: in experiments, and in what it tells.

Nothing here is used by the version of this repository.
"""

from importlib.util import find_spec

IS_FIRST = find_spec("medstress.kinds") is not None
"""Whether this Python imports 0.2, which has packages that the second edition has not."""

SAID = {
    'name = "table"': 'name = "jsonl"',
    "max_calls = 400": "controls = 12",
    '"insertions": [{"text": words, "where": f"(note <{number}>)", "category": "work"}]': (
        '"added": [{"category": "occupation", "text": words, "after": f"(note <{number}>)"}]'
    ),
    '"answer": "NO", "evidence": []': '"answer": "NO", "category": "occupation"',
}
"""Words of the experiments -> those of 0.2."""

NAMES = {
    "curve": "accuracy_at",
    "t_attack": "t_fuzz",
    "count": "n_as_hard",
    "null": "against",
    "attack": "comparison",
}
"""A field of INTERFACE's JSON -> where 0.2 has it; `null` and `attack` in rows of tests alone."""


def said(text):
    """A file of an experiment as 0.2 reads it."""
    for now, then in SAID.items():
        text = text.replace(now, then)
    return text


def told(summary):
    """A summary of 0.2 with the tables and names of INTERFACE."""
    rows = {"results": summary["pooled"], "tests": [], "significance": []}
    rows["faithfulness"] = summary.get("faithfulness", {}).get("rates", [])
    for row in summary.get("tests", []):
        rows["significance" if row["family"] == "significance" else "tests"].append(row)
    renamed = {"results": ["curve"], "significance": [name for name in NAMES if name != "curve"]}
    for table, names in renamed.items():
        rows[table] = [row | {name: row.get(NAMES[name]) for name in names} for row in rows[table]]
    rows["significance"] = [{"items": [{"trial_id": None} | row]} for row in rows["significance"]]
    return rows
