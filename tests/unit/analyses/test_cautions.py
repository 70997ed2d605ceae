"""Warnings about a run as a whole, on planted runs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.cautions import CAUTIONS, unread_models
from medstress.analyses.run import Run
from medstress.analyses.shown import Remark
from medstress.analyses.summary import exit_code, faults_of, warnings_of
from medstress.core.arms import AttackRecord
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit
from medstress.core.trials import Answer
from medstress.datasets.questions import Cleaning
from medstress.experiment.manifest import SOURCES
from planted_trials import (
    always_a,
    arm,
    attacked,
    attacked_run,
    control,
    fooled,
    mute,
    planted_run,
    question,
    questions,
    right,
    tagged,
    trial,
)


def remarks(run: Run) -> Mapping[str, Remark]:
    cautions = run.of(CAUTIONS)
    return {} if cautions is None else {remark.rule: remark for remark in cautions.remarks()}


def test_trials_that_were_late_are_not_called_failed():
    late = [
        replace(trial(i, verdict=Verdict.CUT_SHORT, asked=0), at="baseline", before=None)
        for i in range(3)
    ]
    said = [one.sentence for one in warnings_of(planted_run(late))]
    assert said == [
        "3 of 3 trials did not end within trial_seconds. The clean answer was late, so no rate "
        "counts them; give them longer: run again with --retry-failed."
    ]


def test_a_copy_that_was_late_is_not_called_a_late_clean_answer():
    swap = arm(AttackRecord(label="swap", name="swap_noise", whole_copy=True))
    whole, *_ = tagged(0, swap, "O B-Drug", "O B-Drug", "O B-Drug")
    late = replace(whole, verdict=Verdict.CUT_SHORT, at="baseline", last=None)
    run = planted_run([late], victims={"model": {"task": {"types": ["Drug"]}}}, attacks={})
    said = [one.sentence for one in warnings_of(run) if one.rule == "cut_short"]
    assert len(said) == 1
    assert "The clean answer was late" not in said[0]


def test_a_clean_run_needs_no_caution():
    assert attacked_run({"careful": fooled}, 40).of(CAUTIONS) is None


NOTES = ("control_left_out", "synonyms")
SYNONYMS = {"dataset": "bc5cdr", "attack": "synonym", "surrogate": "listed names", "n_mentions": 9}
COUNTED = {f"n_{source}": 0 for source in SOURCES}


def endpoint(**notes: Any) -> dict[str, Any]:
    return {"endpoints": [{"victim": "gpt", "url": "http://a/v1", "model": "m", **notes}]}


@pytest.mark.parametrize(
    ("parts", "rules", "words"),
    [
        ({"complete": False, "n_planned": 90}, ["incomplete"], "80 of 90"),
        ({"complete": False, "shard": {"number": 2, "of": 5}}, ["shard"], "2 of 5"),
        ({"shards": {"answered_otherwise": 3}}, ["answered_otherwise"], "3 calls"),
        ({"datasets": {"d": {"skipped": ["no key", "b"]}}}, ["skipped_rows"], "2 bad rows"),
        ({"datasets": {"d": {"notes": ["answers begin at 1"]}}}, ["data_note"], "begin at 1"),
        ({"groups": {"drugs": {"undefined": "no drug is known"}}}, ["group_note"], "no drug"),
        (
            endpoint(temperature={"asked": 0.0, "sent": 1.0, "said": "only 1"}),
            ["temperature"],
            "at temperature 1",
        ),
        (endpoint(left_out={"seed": "unknown field"}), ["left_out"], "unknown field"),
        (endpoint(without_system="no system role"), ["system_turns"], "no system role"),
        (endpoint(reads_at_most=4096), ["window"], "4,096 tokens"),
        (
            {"controls": {"left_out": {"near": {"same_type": "it is that attack"}}}},
            ["control_left_out"],
            "near: no control same_type; it is that attack",
        ),
        ({"surrogates": [{**SYNONYMS, **COUNTED}]}, ["synonyms"], "of 9 mentions"),
        (
            {"surrogates": [{**SYNONYMS, **COUNTED, "n_nearest": 3}]},
            ["synonyms", "related_names"],
            "3 get the nearest name",
        ),
    ],
)
def test_what_the_manifest_says(parts, rules, words):
    shown = remarks(attacked_run({"careful": fooled}, 40, **parts))
    assert list(shown) == rules
    assert words in shown[rules[0]].sentence
    assert shown[rules[0]].level == ("note" if rules[0] in NOTES else "warning")


def test_a_control_that_the_file_names_and_an_attack_has_not_is_a_warning():
    left_out = {"near": {"same_type": "it is that attack"}}
    config = {"experiment": {"name": "planted", "controls": ["no_op", "same_type"]}}
    run = attacked_run({"careful": fooled}, 40, controls={"left_out": left_out}, config=config)
    assert [one.rule for one in warnings_of(run)] == ["control_left_out"]


def test_unreadable_models_are_named_clean_and_under_attack():
    silent = attacked_run({"silent": lambda item, edits: None, "right": right}, 12)
    assert unread_models(silent) == {"silent": "silent"}
    assert remarks(silent)["unread"].where == ("", "", "silent")
    assert unread_models(attacked_run({"right": right}, 12)) == {}


def quiet_about_names(item: Question, edits: tuple[Edit, ...]) -> str | None:
    """Answer clean questions and double spaces right, and nothing readable about new names."""
    return None if any(edit.replacement.strip() for edit in edits) else item.key


@pytest.mark.parametrize("model", [mute, quiet_about_names])
def test_a_model_that_is_mute_under_an_attack_alone_was_not_measured(model):
    """Readable clean answers, and readable ones under harmless edits, do not make up for it."""
    run = attacked_run({"quiet": model}, 12)
    assert unread_models(run) == {"quiet": "quiet under near names"}
    assert remarks(run)["unread"].sentence.startswith(
        "Not one answer of quiet under near names could be read, so nothing is measured there."
    )
    assert exit_code(run) == 1
    (fault,) = [case for case in faults_of(run) if case.outcome == "error"]
    assert fault.name == "answers"
    assert fault.sentence == "not one answer of quiet under near names could be read"


def test_raw_replies_of_an_unreadable_model_are_shown_short():
    run = planted_run(
        replace(
            trial(i, item=q, verdict=Verdict.UNREADABLE),
            before=Answer(None, text="I  would\nrather not. " + "x" * 500, cut_off=True),
        )
        for i, q in enumerate(questions(3))
    )
    sentence = remarks(run)["unread"].sentence
    assert '"I would rather not.' in sentence
    assert "3 were cut off: raise max_new_tokens of [[victim]]. It says" in sentence
    assert len(sentence) < 500
    assert "3 replies were cut off" in remarks(run)["cut_off"].sentence


@pytest.mark.parametrize(
    ("turns", "keys"),
    [
        (["reasoning"] * 2, "raise reasoning_tokens (in 2 the reasoning was cut off)."),
        (["answer"] * 2, "raise max_new_tokens of [[victim]]."),
        (
            ["reasoning", "answer"],
            "raise max_new_tokens of [[victim]] and reasoning_tokens (in 1 the reasoning was cut "
            "off).",
        ),
    ],
)
def test_of_a_conversation_that_was_cut_off_the_turn_is_named_by_its_key(turns, keys):
    run = planted_run(
        replace(
            trial(i, item=q, verdict=Verdict.UNREADABLE),
            before=Answer(None, text="", cut_off=True),
            records=({"attempt": 0, "query": 0, "answer": None, "cut_turn": turn},),
        )
        for i, (q, turn) in enumerate(zip(questions(2), turns, strict=True))
    )
    assert remarks(run)["cut_off"].sentence.endswith(keys)
    assert f"2 were cut off: {keys}" in remarks(run)["unread"].sentence


def test_one_letter_for_all_questions():
    run = attacked_run({"alwaysA": always_a}, 40)
    assert "answers A to 40 of 40 questions, though A is right in 10 only" in (
        remarks(run)["one_letter"].sentence
    )
    # Where A is nearly always right, and where few were asked, nothing is odd.
    all_a = planted_run(attacked(right, [question(i) for i in range(40)]))
    assert "one_letter" not in remarks(all_a)
    assert "one_letter" not in remarks(attacked_run({"alwaysA": always_a}, 8))


def test_marks_of_thoughts_that_nobody_knows_of():
    def run(form: str, n: int = 20, **victim: Any) -> Run:
        texts = [form.format(i) if i % 4 else "It is A." for i in range(n)]
        answered = (
            replace(trial(i, item=q, verdict=Verdict.HELD), before=Answer("A", text=texts[i]))
            for i, q in enumerate(questions(n))
        )
        made = planted_run(answered)
        made.manifest["victims"][next(iter(made.manifest["victims"]))].update(victim)
        return made

    warned = remarks(run("<notes>A or B? {}</notes>It is A."))["unknown_marks"].sentence
    assert "15 of 20 replies of" in warned
    assert 'read as part of the answer. If it holds thoughts, set thoughts = ["<notes>"' in warned
    # Names of thinking, in a pair that no known model writes: they are cut, and it is said.
    warned = remarks(run("[[reason]]A or B? {}[[/reason]]It is A."))["unknown_marks"].sentence
    assert "left out as a thought" in warned
    for silent in (
        run("<notes>A or B? {}</notes>It is A.", 8),
        run("<think>A or B? {}</think>It is A."),
        run("<notes>A? {}</notes>A", task={"thoughts": ["<notes>", "</notes>"]}),
        run("<notes>A? {}</notes>A", task={"k": 5, "task": {"thoughts": ["<notes>", "</notes>"]}}),
    ):
        assert "unknown_marks" not in remarks(silent)


def test_repeated_questions_under_new_ids_are_counted():
    once = questions(10)
    twice = [replace(q, id=f"q{i + 100}", stem=q.stem.upper()) for i, q in enumerate(once[:4])]
    run = planted_run(attacked(right, [*once, *twice]))
    assert remarks(run)["duplicates"].sentence.startswith("4 of 14 questions of cases repeat an")


def test_what_reading_says_of_repeats_is_not_said_twice():
    once = questions(10)
    twice = [*once, replace(once[0], id="again")]
    cleaning = Cleaning()
    cleaning.again(twice)
    (note,) = cleaning.notes(11)
    for asked, rule in ((twice, "duplicates"), (once, "data_note")):
        part = {"cases": {"notes": [note, "other"]}}
        said = planted_run(attacked(right, asked), datasets=part)
        found = [*said.of(CAUTIONS).remarks()]
        assert [one.rule for one in found if "under another id" in one.sentence] == [rule]
        assert "other." in [one.sentence for one in found]


def test_letter_mass():
    low = [
        replace(t, before=t.before._replace(mass=0.1) if t.before else None)
        for t in attacked(right, questions(12))
    ]
    assert "only 10 % of its probability" in remarks(planted_run(low))["letter_mass"].sentence


def test_successes_that_do_not_repeat_and_trials_cut_short():
    lost = [
        replace(t, first=replace(t.first, repeats=i > 1) if t.first else None)
        for i, t in enumerate(trial(i, flipped_at=1) for i in range(5))
    ]
    shown = remarks(planted_run([*lost, trial(9, verdict=Verdict.CUT_SHORT)]))
    assert shown["not_repeated"].sentence.startswith("2 of 5 lost answers")
    assert shown["cut_short"].sentence.startswith("1 of 6 trials")
    beside = [trial(i, control(of=arm()), flipped_at=1) for i in range(3)]
    steady = [
        replace(t, first=replace(t.first, repeats=False) if t.first else None) for t in beside
    ]
    assert "not_repeated" not in remarks(planted_run(steady))


@pytest.mark.parametrize(
    ("blind", "model_hash", "words"), [(False, "h", "led to"), (True, "other", "at 1 query alone")]
)
def test_stored_attacks(blind, model_hash, words):
    spec = {
        "name": "attacked",
        "set": "x",
        "source": {"model_hash": model_hash, "victim": "gpt"},
        "is_blind": blind,
        "selection": "all",
        "budget": 8,
    }
    run = attacked_run(
        {"careful": fooled}, 40, attacks={"kept": spec}, victims={"careful": {"model_hash": "h"}}
    )
    assert words in remarks(run)["stored_attack"].sentence
