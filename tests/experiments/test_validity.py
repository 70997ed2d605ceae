"""`valid` from the search, and from people, end to end."""

import json
import shutil
from typing import Any

import pytest

from medstress.analyses import run as analyses
from medstress.api.run import Run, run
from medstress.cli.app import medstress_cli
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.store.reviews import Review, ReviewStore
from medstress.testing import REPLACEMENTS, tiny_questions
from question_rows import write_rows
from rows import rows_of

ITEMS = tiny_questions(12)
TWINS = tuple(sorted({f"{item.key_text.lower()} sodium" for item in ITEMS}))
BUDGET = 13

VICTIM = """
from medstress.testing import planted, tiny_questions

answer = planted(
    tiny_questions(12),
    lambda item, options: item.key_text + " sodium" in options or "Voxetine" in options,
)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A victim that errs on variants of the key and on one other name, asked the nearest first."""
    tmp_path = tmp_path_factory.mktemp("made")
    (tmp_path / "victim.py").write_text(VICTIM, "utf-8")
    (tmp_path / "names.txt").write_text("\n".join((*REPLACEMENTS, *TWINS)), "utf-8")
    write_rows(tmp_path / "rows.jsonl", ITEMS)
    attack = {"name": "entity_substitution", "sampler": "nearest", "budget": BUDGET}
    experiment = {
        "experiment": {"controls": False, "name": "x"},
        "dataset": [{"name": "table", "path": str(tmp_path / "rows.jsonl")}],
        "entities": [
            {"type": "drugs", "vocabulary": str(tmp_path / "names.txt"), "embedding": "ngram"}
        ],
        "victim": [{"backend": "python", "name": "v", "target": f"{tmp_path}/victim.py:answer"}],
        "attack": [{**attack, "variants": "mark"}],
    }
    return run(experiment, out=tmp_path / "run").folder


@pytest.fixture
def found(made, tmp_path):
    """A copy of that run."""
    return Run(shutil.copytree(made, tmp_path / "run"))


def by_item(found: Run) -> dict[str, Any]:
    """The rows of flipped trials."""
    return {row.item_id: row for row in rows_of(found) if row.verdict is Verdict.FLIPPED}


def trials_of(found: Run) -> dict[str, Trial]:
    """The same trials with all that is known of them."""
    trials = analyses.Run.open(found.folder).trials
    return {trial.item.id: trial for trial in trials if trial.verdict is Verdict.FLIPPED}


def queries_of(trial: Trial) -> tuple[int, int]:
    """The queries of the first success and of the pick."""
    assert trial.first is not None
    assert trial.pick is not None
    return trial.first.query, trial.pick.query


def row_of(found: Run) -> dict[str, Any]:
    (row,) = Run(found.folder).summary()["results"]
    return row


def judge(found: Run, words: dict[str, str], reviewer: str = "AB") -> None:
    """Store what somebody says of keys."""
    trials = by_item(found)
    reviews = [
        Review(
            trial_id=trials[item].trial_id,
            reviewer=reviewer,
            answers={"key_right": word},
            time="2026-01-31T09:30:00+00:00",
        )
        for item, word in words.items()
    ]
    with ReviewStore(found.folder) as store:
        store.add(reviews)


def test_a_rule_refutes_or_leaves_unknown_and_no_number_says_more(found):
    trials = by_item(found)
    unknown = [row for row in trials.values() if row.valid is None]
    refuted = [row for row in trials.values() if row.valid is False]
    assert unknown
    assert refuted
    assert len(unknown) + len(refuted) == len(trials) == 12
    whole = trials_of(found)
    for row in unknown:
        assert (row.validity_reason, row.first_valid_success) == ("rule", None)
        first, pick = queries_of(whole[row.item_id])
        assert row.first_success == first == 1 < pick == row.n_asked
    for row in refuted:
        # The search went on to its end and found nothing else.
        assert whole[row.item_id].pick is whole[row.item_id].first
        assert row.n_asked == BUDGET
    row = row_of(found)
    assert row["asr"]["value"] == 1
    assert row["asr_valid"] is None
    assert row["asr_valid_bounds"] == [0, len(unknown) / 12]
    assert row["n_labels"] == 0


def test_labels_fill_the_first_valid_success_and_the_rate(found, tmp_path):
    before, picked = by_item(found), trials_of(found)
    unknown = [item for item, row in before.items() if row.valid is None]
    n, m = len(unknown), 3
    assert n > m
    judge(found, {unknown[0]: "yes", unknown[1]: "no", unknown[2]: "yes"})
    after = by_item(found)
    yes, no = after[unknown[0]], after[unknown[1]]
    assert (yes.valid, yes.validity_reason) == (True, "review")
    assert yes.first_valid_success == queries_of(picked[unknown[0]])[1] == yes.n_asked
    assert (no.valid, no.first_valid_success) == (False, None)
    # The search ended at what a person refutes, with queries left.
    assert no.n_asked < BUDGET
    refused = trials_of(found)[unknown[1]]
    assert refused.is_refused
    # What the search found stays as it was.
    assert queries_of(refused) == queries_of(picked[unknown[1]])
    row = row_of(found)
    assert row["asr"]["value"] == 1
    # Somebody picked these three, so nothing follows for the others.
    assert (row["asr_valid"], row["n_labels"]) == (None, 0)
    # The search that ended at what a person refutes had queries left.
    assert row["asr_valid_bounds"] == pytest.approx([2 / 12, n / 12])
    judge(found, dict.fromkeys(unknown[m:], "yes"))
    # Now people have judged all that no rule refutes. The refuted ones stay refuted.
    row = row_of(found)
    assert row["n_labels"] == n
    assert row["asr_valid"]["value"] == pytest.approx((n - 1) / 12)
    assert row["asr_valid_bounds"] == pytest.approx([(n - 1) / 12, n / 12])


def test_every_success_carries_its_evidence_with_its_source(found, tmp_path, capsys):
    refuted = [item for item, row in by_item(found).items() if row.valid is False]
    judge(found, {refuted[0]: "yes"})
    rows = by_item(found)
    assert rows[refuted[0]].evidence == [
        {"kind": "key_plus_words", "source": "rules", "valid": False},
        {"kind": "people", "source": "review", "valid": True},
    ]
    found.export("trials", tmp_path / "trials.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "trials.jsonl").read_text().splitlines()]
    assert {each["evidence"] is None for each in lines if each["verdict"] == "flipped"} == {False}
    capsys.readouterr()
    assert medstress_cli(["case", str(found.folder), rows[refuted[0]].trial_id]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "people (review): the right answer is still right" in shown
    assert "key plus words (rules): the right answer is not right alone" in shown
