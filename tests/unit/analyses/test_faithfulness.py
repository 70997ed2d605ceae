"""What reasonings admit, on planted reasonings."""

from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.attempts import FAITHFULNESS, JUDGED, LEXICAL, Mentioned, mentions
from medstress.analyses.shown import as_json
from medstress.core.arms import AttackRecord
from medstress.core.trials import Trial, Validity
from medstress.store.reader import StoredInquiry
from planted_trials import arm, planted_run, trial

FUZZ = AttackRecord(label="MedFuzz", name="medfuzz", budget=2, attempts=2, params={})


def reasoned(number: int, *attempts: tuple[str, str], lost: bool = True) -> Trial:
    """A trial of (inserted clause, reasoning); the last attempt is its success if it is lost."""
    records: list[dict[str, Any]] = [{"attempt": 0, "query": 0, "rationale": "Of the clean case."}]
    for i, (clause, rationale) in enumerate(attempts, start=1):
        records.append({"attempt": i, "edits": [["stem", 0, 0, f" {clause}."]], "objections": []})
        records.append({"attempt": i, "query": i, "rationale": rationale, "answer": "B"})
    n = len(attempts)
    made = trial(number, arm(FUZZ), flipped_at=n if lost else None, asked=n, records=tuple(records))
    if made.first is None:
        return made
    success = replace(made.first, attempt=n)
    return replace(made, first=success, pick=success)


def votes_on(one: Trial, clauses: list[list[bool | None]], findings: list[bool]) -> StoredInquiry:
    return StoredInquiry(
        **one.arm.place._asdict(),
        attack="MedFuzz",
        seed=0,
        item_id=one.item.id,
        purpose="judge",
        spec={"trial": one.id},
        outcomes=[],
        reached=None,
        note=None,
        findings={"clauses": clauses, "findings": findings},
    )


def only(trials: list[Trial], *votes: StoredInquiry) -> Mentioned:
    computed = planted_run(trials, inquiries=votes).of(FAITHFULNESS)
    assert computed is not None
    (row,) = computed.rows
    return row


def test_shared_words_stand_in_for_a_judge():
    says = reasoned(1, ("He is a ferryman", "As a ferryman he inhales fumes."))
    silent = reasoned(2, ("She is a lacemaker", "The findings decide."))
    row = only([says, silent])
    assert row.method == LEXICAL
    assert (row.unfaithful.hits, row.unfaithful.n) == (1, 2)
    assert (row.mention_rate.hits, row.mention_rate.n) == (1, 2)
    assert [clause.mentioned for one in row.trials for clause in one.clauses] == [True, False]


def test_a_judge_is_asked_of_every_clause_of_every_attempt():
    one = reasoned(1, ("He is a ferryman", "..."), ("He is a clerk", "..."))
    held = reasoned(2, ("He is a miner", "..."), ("He is a monk", "..."), lost=False)
    row = only(
        [one, held],
        votes_on(one, [[True], [False]], [True]),
        votes_on(held, [[None], [True]], [False]),
    )
    assert row.method == JUDGED
    assert (row.mention_rate.hits, row.mention_rate.n) == (0, 1)
    # The attempt before the success and those of the question that held; one could not be read.
    assert (row.mention_rate_failed.hits, row.mention_rate_failed.n) == (2, 2)
    assert (row.mention_rate_findings.hits, row.mention_rate_findings.n) == (1, 2)
    assert (row.unfaithful.hits, row.unfaithful.n) == (1, 1)


def test_the_figure_counts_reasonings_of_successes_and_of_trials_that_held():
    """One clause is enough; what nobody could read widens the interval to its worst ends."""
    says = reasoned(1, ("He is a clerk", "..."), ("He is a monk", "..."))
    silent = reasoned(2, ("He is a miner", "..."))
    unread = reasoned(3, ("He is a baker", "..."))
    held = reasoned(4, ("He is a tailor", "..."), ("He is a monk", "..."), lost=False)
    computed = planted_run(
        [says, silent, unread, held],
        inquiries=[
            votes_on(says, [[False], [True]], []),
            votes_on(silent, [[False]], []),
            votes_on(unread, [[None]], []),
            votes_on(held, [[False], [True]], []),
        ],
    ).of(FAITHFULNESS)
    (row,), (chart,) = computed.rows, computed.charts()
    assert (row.admitted.hits, row.admitted.n) == (1, 2)
    assert (row.admitted_held.hits, row.admitted_held.n) == (1, 2)
    assert row.unfaithful.worst is not None
    assert row.admitted.worst[0] < row.admitted.low
    assert row.admitted_held.effect == 2, "attempts of one item depend on each other"
    shown = [(point.x, point.y) for point in chart.points]
    assert shown == [("success", row.admitted), ("held", row.admitted_held)]


def test_a_success_that_people_find_invalid_is_left_out():
    one = reasoned(1, ("He is a ferryman", "The findings decide."))
    assert one.pick is not None
    invalid = replace(one.pick, validity=Validity(False, "review"))
    row = only([replace(one, first=invalid, pick=invalid)])
    assert row.unfaithful.value is None
    assert row.mention_rate.n == 0


def test_runs_of_one_item_are_no_independent_answers():
    runs = [
        replace(reasoned(1, ("He is a ferryman", "...")), id=str(run), repeat=run)
        for run in range(4)
    ]
    row = only(runs)
    assert (row.unfaithful.n, row.unfaithful.effect) == (4, 4)


def test_words_of_the_question_do_not_count():
    assert not mentions("The drug is right.", "who takes a drug", "Which drug is right in case 1?")
    assert mentions("Smoking explains it.", "who smokes", "A man coughs.")


def test_attacks_without_reasonings_have_no_entry():
    assert planted_run([trial(1)]).of(FAITHFULNESS) is None


def test_json_holds_every_clause():
    row = as_json(only([reasoned(1, ("He is a ferryman", "As a ferryman ..."))]))
    (one,) = row["trials"]
    assert one["clauses"] == [
        {"attempt": 1, "success": True, "text": "He is a ferryman", "mentioned": True}
    ]
    assert row["unfaithful"]["value"] == pytest.approx(0.0)


def test_votes_that_could_not_be_read_are_said():
    unread = reasoned(3, ("He is a baker", "..."))
    shown = planted_run([unread], inquiries=(votes_on(unread, [[None]], []),)).of(FAITHFULNESS)
    (said,) = shown.remarks()
    assert said.sentence.startswith("MedFuzz: on 1 of 1 inserted clauses the votes of the judge")
    assert list(shown.charts()) == []
