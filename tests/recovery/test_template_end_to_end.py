"""The whole template against victims with a known weakness, from the file to the summary."""

import json
from collections import defaultdict

from medstress.analyses.run import Run as Read
from medstress.api.run import run
from medstress.experiment.dry_run import dry_run
from medstress.experiment.prepare import prepare
from medstress.testing import REPLACEMENTS, tiny_questions
from question_rows import as_row, swap_tables

ITEMS = tiny_questions(6)
TWINS = tuple(sorted({f"{item.key_text.lower()} sodium" for item in ITEMS}))
NAMES = (*REPLACEMENTS, *TWINS)

VICTIM = """
import re
from medstress.testing import planted, tiny_questions

ITEMS = tiny_questions(6)
KEYS = {item.key_text for item in ITEMS}
right = planted(ITEMS, lambda item, options: RULE)

def answer(prompts):
    found = []
    for prompt, each in zip(prompts, right(prompts)):
        n = 0.1 + len(re.sub(r"[^aeiou]", "", prompt)) % 7 / 100
        letters = {letter: n / 3 for letter in "ABCD"}
        letters[each["answer"]] = 1 - n
        found.append({"scores": letters})
    return found
"""
VARIANT = "item.key_text + ' sodium' in options or 'Voxetine' in options"


def experiment(folder, arms, rule=VARIANT):
    rows = [as_row(item) for item in ITEMS]
    return swap_tables(folder, VICTIM.replace("RULE", rule), rows, NAMES, arms, seeds=[0, 1])


def unrefuted_of(trial):
    """The query of the first success that no rule refutes."""
    pick = trial.pick
    return None if pick is None or pick.validity.valid is False else pick.query


def test_exhaustive_covers_the_vocabulary_and_its_successes_can_be_read_off(tmp_path):
    arms = [{"sampler": "exhaustive", "variants": "mark"}]
    given = experiment(tmp_path, arms)
    bound = dry_run(prepare(given)).bound
    found = run(given, out=tmp_path / "run")
    (row,) = found.summary()["by_seed"]
    assert (row["seed"], row["queries"]["asked"]) == (None, 6 * len(NAMES))
    assert bound == 6 + 6 * len(NAMES) + 12
    assert len(row["asr_at"]) == len(NAMES)
    found.export("exchanges", tmp_path / "e.jsonl")
    wrong = defaultdict(list)
    for line in (tmp_path / "e.jsonl").read_text("utf-8").splitlines():
        exchange = json.loads(line)
        scores = exchange["scores"]
        if exchange["purpose"] == "attack":
            wrong[exchange["trial_id"]].append("ABCD"[scores.index(max(scores))])
    for trial in Read.open(found.folder).trials:
        letters = wrong[trial.id]
        successes = [i + 1 for i, letter in enumerate(letters) if letter != trial.item.key]
        assert len(letters) == trial.queries.asked == len(NAMES)
        assert trial.first is not None
        assert trial.first.query == successes[0] == 1
        assert unrefuted_of(trial) == successes[1]
        assert len(successes) == 2
