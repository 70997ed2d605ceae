"""The first three lines, on models whose truth is planted."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from medstress.analyses.results import RESULTS, Row
from medstress.analyses.run import Run
from medstress.analyses.scores import Score, Scores
from medstress.analyses.shown import as_json
from medstress.analyses.verdict import VERDICT, Verdict, verdict_of
from medstress.core.arms import AttackRecord
from medstress.core.outcomes import Verdict as Ended
from medstress.core.sentences import Entity, SentencePair, TaggedText
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate, unknown
from medstress.tasks.scores import CORRELATIONS, ENTITIES
from medstress.testing.planted_trials import (
    NEAR,
    always_a,
    arm,
    attacked,
    attacked_run,
    breaks_at_spaces,
    coin,
    control,
    fooled,
    guesser,
    hashed,
    mixture,
    mute,
    planted_run,
    questions,
    reads_options,
    refuses,
    renamed,
    respaced,
    right,
    trial,
    unless_wrong,
)


def said(run: Run) -> Verdict:
    verdict = run.of(VERDICT)
    assert verdict is not None
    assert len(verdict.lines) == 3
    return verdict


@dataclass(frozen=True, kw_only=True)
class Case:
    """A planted truth and what has to be said of it."""

    name: str
    run: Run
    lines: tuple[str, str, str]
    """Patterns of whole lines."""
    level: str


def flips(
    n: int, n_lost: int, n_harmless: int | None = 0, group: str = "drugs", seed: int = 0
) -> list[Any]:
    """Return trials of which an attack and its control take so many."""
    where = arm(seed=seed, group=group)
    items = questions(n)
    trials = [
        trial(i, where, item=q, flipped_at=1 if i < n_lost else None) for i, q in enumerate(items)
    ]
    if n_harmless is not None:
        trials += [
            trial(i, control("no_op", where), item=q, flipped_at=1 if i < n_harmless else None)
            for i, q in enumerate(items)
        ]
    return trials


NONE = AttackRecord(label="none", name="none", budget=1)
YES = r"You can rely on this\."
NO_HARM = r"Harmless edits lose none either\."
MORE = (
    r"Harmless edits alone lose none\. Under near names it lost more: \d+ to \d+ questions of {}\."
)

CASES = (
    Case(
        name="fooled by listed names, the worst of 6",
        run=attacked_run(
            {"careful": unless_wrong(fooled, 1, 2, 3, 4, 5)}, 39, arms=6, not_attackable=1
        ),
        lines=(
            r"careful knew 34 of the 39 questions that could be attacked \(40 given\)\. Under near "
            r"names it lost \d+ of them \(\d+ to \d+; the worst of 6 results\)\.",
            MORE.format(34),
            YES,
        ),
        level="yes",
    ),
    Case(
        name="hash of the prompt",
        run=attacked_run({"hashed": hashed}, 80, seeds=(0, 1, 2)),
        lines=(
            r"Harmless edits alone make hashed lose \d+ \(.* 3 seeds\) of the \d+ questions it "
            r"knew\.",
            r"Under near names it lost \d+ \(\d+ to \d+\): no more than under harmless edits\.",
            r"Do not rely on the attack's rate: this model changes its answer whenever the text "
            r"changes.*",
        ),
        level="no",
    ),
    Case(
        name="coin",
        run=attacked_run({"coin": coin()}, 160),
        lines=(
            r"Harmless edits alone make coin lose \d+ \(\d+ to \d+\) of the \d+ questions it knew"
            r"\.",
            r"Under near names it lost \d+ \(\d+ to \d+\).*",
            r"Do not rely on .*",
        ),
        level="no",
    ),
    Case(
        name="guesser",
        run=attacked_run({"guess": guesser}, 40, harmless=lambda *_: None),
        lines=(
            r"guess knew \d+ of 40 questions, no more than guessing gives\. Under near names it "
            r"lost \d+ of them\.",
            r".*",
            r"Do not rely on this: the model may be guessing \(16 of 40 would show that it does "
            r"not\).*",
        ),
        level="no",
    ),
    Case(
        name="always A",
        run=attacked_run({"alwaysA": always_a}, 40),
        lines=(
            r"alwaysA knew 10 of 40 questions, no more than guessing gives\. Under near names it "
            r"lost none of them\.",
            NO_HARM,
            r"Do not rely on this: the model may be guessing .*",
        ),
        level="no",
    ),
    Case(
        name="perfect",
        run=attacked_run({"right": right}, 39, not_attackable=1),
        lines=(
            r"right knew 39 of the 39 questions that could be attacked \(40 given\)\. Under near "
            r"names it lost none \(at most 4\)\.",
            NO_HARM,
            YES,
        ),
        level="yes",
    ),
    Case(
        name="reads only the options",
        run=attacked_run(
            {"options": reads_options},
            40,
            draw=renamed("a very long name that no right option has"),
        ),
        lines=(
            r"options knew 40 of 40 questions\. Under near names it lost 40 of them \(\d+ to "
            r"40\)\.",
            MORE.format(40),
            YES,
        ),
        level="yes",
    ),
    Case(
        name="half fooled, half hash",
        run=attacked_run({"mixed": mixture(fooled, hashed)}, 80),
        lines=(
            r"mixed knew \d+ of 80 questions\. Under near names it lost \d+ of them \(.*\)\.",
            r"Harmless edits alone lose \d+\. Under near names it lost more: \d+ to \d+ questions "
            r"of \d+\.",
            YES,
        ),
        level="yes",
    ),
    Case(
        name="mute under attack",
        run=attacked_run({"mute": mute}, 39, harmless=None),
        lines=(
            r"mute knew 39 of 39 questions\. Under near names not one of its answers could be "
            r"read, so up to 39 may be lost\.",
            r"No harmless edits were tried\.",
            r"Do not rely on this: 39 of 39 have no readable answer under attack.*",
        ),
        level="no",
    ),
    Case(
        name="breaks at a double space",
        run=attacked_run({"spaces": breaks_at_spaces}, 30),
        lines=(
            r"Harmless edits alone make spaces lose 30 \(\d+ to 30\) of the 30 questions it knew\.",
            r"Under near names it lost none \(at most \d+\): no more than under harmless edits\.",
            r"Do not rely on the attack's rate: more is lost under harmless edits than under near "
            r"names\.",
        ),
        level="no",
    ),
    Case(
        name="hash of the prompt, five known",
        run=planted_run([t for seed in range(3) for t in flips(5, 5, 5, seed=seed)]),
        lines=(
            r"Harmless edits alone make model lose 5 \(in each of 3 seeds\) of the 5 questions it "
            r"knew\.",
            r"Under near names it lost 5 \(2 to 5\): no more than under harmless edits\.",
            r"Do not rely on the attack's rate: every answer changed, whatever the edit; only 5 "
            r"questions\.",
        ),
        level="no",
    ),
    Case(
        name="none of 12 lost, harmless edits change 9",
        run=planted_run(flips(12, 0, 9)),
        lines=(
            r"Harmless edits alone make model lose 9 \(5 to 11\) of the 12 questions it knew\.",
            r"Under near names it lost none \(at most \d\): no more than under harmless edits\.",
            r"Do not rely on the attack's rate: more is lost under harmless edits than under near "
            r"names; only 12 questions\.",
        ),
        level="no",
    ),
    Case(
        name="attacker that refuses 19 of 20",
        run=planted_run(
            [trial(i, item=q, asked=8 if i == 7 else 0) for i, q in enumerate(questions(20))]
        ),
        lines=(
            r"model knew 20 of 20 questions\. Near names showed it an edit in 1 of them, so "
            r"nothing is known of the others\.",
            r"No harmless edits were tried\.",
            r"Do not rely on this: 19 of 20 questions were never attacked.*",
        ),
        level="no",
    ),
    Case(
        name="attacker that gives up on half, and wins elsewhere",
        run=planted_run(
            [
                trial(i, item=q, flipped_at=2 if i < 10 else None, asked=None if i < 10 else 0)
                for i, q in enumerate(questions(20))
            ]
        ),
        lines=(
            r"model knew 20 of 20 questions\. Near names showed it an edit in 10 of them and made "
            r"it lose 10; nothing is known of the others\.",
            r"No harmless edits were tried\.",
            r"Do not rely on this: 10 of 20 questions were never attacked.*",
        ),
        level="no",
    ),
    Case(
        name="attacker that never attacks",
        run=attacked_run({"target": fooled}, 20, draw=refuses),
        lines=(
            r"target knew 20 of 20 questions\. Near names showed it no edit, so nothing is known "
            r"of them\.",
            r".*",
            r"Do not rely on this: 20 of 20 questions were never attacked.*",
        ),
        level="no",
    ),
    Case(
        name="one question",
        run=planted_run(flips(1, 1)),
        lines=(
            r"model knew 1 of 1 question\. Under near names it lost 1 of them \(0 to 1\)\.",
            r"Harmless edits lose none; the difference may be chance\.",
            r"Too few questions to rely on this: 1\.",
        ),
        level="too few",
    ),
    Case(
        name="one question, held",
        run=planted_run(flips(1, 0)),
        lines=(
            r"model knew 1 of 1 question\. Under near names it lost none \(at most 1\)\.",
            NO_HARM,
            r"Too few questions to rely on this: 1\.",
        ),
        level="too few",
    ),
    Case(
        name="one question, mute under attack",
        run=attacked_run({"mute": mute}, 1, harmless=None),
        lines=(
            r"mute knew 1 of 1 question\. Under near names not one of its answers could be read, "
            r"so up to 1 may be lost\.",
            r"No harmless edits were tried\.",
            r"Do not rely on this: 1 of 1 has no readable answer under attack; only 1 question\.",
        ),
        level="no",
    ),
    Case(
        name="one question, failed under attack",
        run=planted_run([trial(0, verdict=Ended.FAILED, asked=3, failed=1)]),
        lines=(
            r"model knew 1 of 1 question\. Under near names every trial failed, so up to 1 may be "
            r"lost\.",
            r"No harmless edits were tried\.",
            r"Do not rely on this: 1 of 1 failed under attack; only 1 question\.",
        ),
        level="no",
    ),
    Case(
        name="four questions, perfect",
        run=planted_run(flips(4, 0)),
        lines=(
            # Wilson's high end is .490.
            r"model knew 4 of 4 questions\. Under near names it lost none \(at most 2\)\.",
            NO_HARM,
            r"Too few questions to rely on this: 4\.",
        ),
        level="too few",
    ),
    Case(
        name="four questions",
        run=planted_run(
            [
                *flips(3, 2),
                trial(3, verdict=Ended.NOT_ATTACKABLE),
            ]
        ),
        lines=(
            r"model knew 3 of the 3 questions that could be attacked \(4 given\)\. Under near "
            r"names it lost 2 of them \(0 to 3\)\.",
            r"Harmless edits lose none; the difference may be chance\.",
            r"Too few questions to rely on this: 3\.",
        ),
        level="too few",
    ),
    Case(
        name="five of five questions",
        run=planted_run(flips(5, 5)),
        lines=(
            r"model knew 5 of 5 questions\. .*",
            r"Harmless edits lose none; the difference may be chance\.",
            r"Too few questions to rely on this: 5\.",
        ),
        level="too few",
    ),
    Case(
        name="four of four questions in each of three seeds",
        run=planted_run([t for seed in range(3) for t in flips(4, 4, seed=seed)]),
        lines=(
            r"model knew 4 of 4 questions\. .*",
            r"Harmless edits lose none; the difference may be chance\.",
            r"Too few questions to rely on this: 4\.",
        ),
        level="too few",
    ),
    Case(
        name="six of six questions",
        run=planted_run(flips(6, 6)),
        lines=(
            r"model knew 6 of 6 questions\. .*",
            r"Harmless edits alone lose none\. .* more: \d to 6 questions of 6\.",
            r"Too few questions to rely on this: 6\.",
        ),
        level="too few",
    ),
    Case(
        name="six questions, three seeds, perfect",
        run=attacked_run({"right": right}, 6, seeds=(0, 1, 2)),
        lines=(
            r"right knew 6 of 6 questions\. Under near names it lost none \(at most \d\)\.",
            NO_HARM,
            r"Too few questions to rely on this: 6\.",
        ),
        level="too few",
    ),
    Case(
        name="harmless edits were not tried",
        run=attacked_run({"careful": fooled}, 40, harmless=None),
        lines=(
            r"careful knew 40 of 40 questions\. .*",
            r"No harmless edits were tried\.",
            r"Do not rely on this: no harmless edits were tried, and they may lose as many\.",
        ),
        level="no",
    ),
    Case(
        name="nothing attacked",
        run=planted_run(
            [
                trial(
                    i,
                    arm(NONE, None),
                    item=q,
                    verdict=Ended.HELD if i < 34 else Ended.ALREADY_WRONG,
                    asked=0,
                )
                for i, q in enumerate(questions(40))
            ]
        ),
        lines=(
            r"model knew 34 of 40 questions \(28 to 38\)\.",
            r"Nothing was attacked\.",
            YES,
        ),
        level="yes",
    ),
    Case(
        name="run not complete",
        run=attacked_run({"careful": fooled}, 40, harmless=None, complete=False, n_planned=160),
        lines=(
            r"careful knew 40 of 40 questions\. .*",
            r"No harmless edits were tried\.",
            r"Do not rely on this: only 40 of 160 planned trials have ended.*",
        ),
        level="no",
    ),
    Case(
        name="every call failed",
        run=planted_run(
            [
                replace(trial(i, item=q, verdict=Ended.FAILED, asked=0), at="baseline")
                for i, q in enumerate(questions(12))
            ]
        ),
        lines=(
            r"Every call of model failed\.",
            r"Nothing was attacked\.",
            r"Do not rely on this: nothing was measured\.",
        ),
        level="no",
    ),
    Case(
        name="nothing could be read",
        run=planted_run(
            [trial(i, item=q, verdict=Ended.UNREADABLE) for i, q in enumerate(questions(12))]
        ),
        lines=(
            r"Not one answer of model could be read\.",
            r"Nothing was attacked\.",
            r"Do not rely on this: nothing was measured\.",
        ),
        level="no",
    ),
    Case(
        name="nothing was right",
        run=planted_run(
            [trial(i, item=q, verdict=Ended.ALREADY_WRONG) for i, q in enumerate(questions(12))]
        ),
        lines=(
            r"model knew none of the 12 questions, so it had nothing to lose\.",
            r"Nothing was attacked\.",
            r"Do not rely on this: nothing was measured\.",
        ),
        level="no",
    ),
    Case(
        name="nothing could be attacked",
        run=planted_run(
            [trial(i, item=q, verdict=Ended.NOT_ATTACKABLE) for i, q in enumerate(questions(12))]
        ),
        lines=(
            r"0 of 12 questions could be attacked\.",
            r"Nothing was attacked\.",
            r"Do not rely on this: nothing was measured\.",
        ),
        level="no",
    ),
    Case(
        name="no trial has ended",
        run=planted_run([], complete=False, n_planned=12),
        lines=(
            r"No trial has ended yet\.",
            r"Nothing was attacked\.",
            r"Do not rely on this: nothing was measured\.",
        ),
        level="no",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planted_truths(case: Case) -> None:
    verdict = said(case.run)
    for pattern, line in zip(case.lines, verdict.lines, strict=True):
        assert re.fullmatch(pattern, line), f"{line!r} is not {pattern!r}"
    assert verdict.trust.level == case.level
    assert bool(verdict.trust.reasons) == (case.level != "yes")


def test_half_of_the_questions_fooled_and_half_by_spaces() -> None:
    lines = said(
        attacked_run(
            {"mixed": mixture(fooled, breaks_at_spaces)}, 80, draw=renamed("listed drug 1")
        )
    ).lines
    # Near names take the fooled 40, harmless edits the other 40: neither takes more.
    assert lines[0].startswith("Harmless edits alone make mixed lose 40 ")
    assert lines[1].endswith("no more than under harmless edits.")


@pytest.mark.parametrize("n", [1, 6, 24])
def test_the_interval_holds_for_the_worst_of_all(n: int) -> None:
    trials = []
    for i in range(n):
        record = replace(NEAR, label=f"attack {i}")
        where = arm(record)
        for j, q in enumerate(questions(34)):
            hit = i == 0 and j < 6
            trials.append(trial(j, where, item=q, flipped_at=1 if hit else None))
            trials.append(trial(j, control("no_op", where), item=q))
    lines = said(planted_run(trials)).lines
    worst = {1: "(2 to 12).", 6: "(2 to 14; the worst of 6 results)"}.get(
        n, "the worst of 24 results)"
    )
    assert worst in lines[0]
    # b = 6, c = 0: p = .031 alone, so that 24 arms have one like it by chance alone.
    assert ("may be chance" in lines[1]) == (n > 1)


def of_two_seeds(label: str, n: int, held: Collection[int]) -> list[Trial]:
    """Return trials in two seeds of an attack that takes all questions but those held in one."""
    trials = []
    for seed in (0, 1):
        at = arm(replace(NEAR, label=label), seed)
        for i, q in enumerate(questions(n)):
            hit = None if seed and i in held else 1
            trials.append(trial(i, at, item=q, flipped_at=hit))
            trials.append(trial(i, control("no_op", at), item=q))
    return trials


@pytest.mark.parametrize("order", [("all", "all but one"), ("all but one", "all")])
def test_the_worst_is_the_arm_that_takes_most(order: tuple[str, ...]) -> None:
    """The low end of 50 of 50, all alike, lies below that of 49 of 50: points choose."""
    held: Mapping[str, Collection[int]] = {"all": (), "all but one": (3,)}
    verdict = said(planted_run([t for name in order for t in of_two_seeds(name, 25, held[name])]))
    assert verdict.arm is not None
    assert verdict.arm["attack"] == "all"
    assert "it lost 25 of them" in verdict.lines[0]


def test_what_harmless_edits_take_does_not_count_in_the_choice() -> None:
    noisy, near = arm(replace(NEAR, label="noisy")), arm()
    trials = []
    for i, q in enumerate(questions(40)):
        for at, n_lost, n_harmless in ((noisy, 30, 28), (near, 25, 0)):
            trials.append(trial(i, at, item=q, flipped_at=1 if i < n_lost else None))
            harmless = 1 if i < n_harmless else None
            trials.append(trial(i, control("no_op", at), item=q, flipped_at=harmless))
    verdict = said(planted_run(trials))
    assert verdict.arm is not None
    assert verdict.arm["attack"] == "near names"


def test_of_arms_that_take_as_much_the_first_of_the_plan_is_named() -> None:
    trials = [*of_two_seeds("wide", 25, ()), *of_two_seeds("a narrow one", 25, ())]
    verdict = said(planted_run(trials))
    assert verdict.arm is not None
    assert verdict.arm["attack"] == "wide"


def test_a_low_end_of_less_than_a_question_is_not_rounded_up() -> None:
    """13 of 40 lost to names, 4 others to harmless edits: p = .049, and the low end is .1."""
    trials = []
    for i, q in enumerate(questions(40)):
        trials.append(trial(i, arm(), item=q, flipped_at=1 if i < 13 else None))
        trials.append(trial(i, control("no_op"), item=q, flipped_at=1 if 13 <= i < 17 else None))
    verdict = said(planted_run(trials))
    assert verdict.lines[1] == (
        "Harmless edits alone lose 4. Under near names it lost more: up to 17 questions of 40."
    )


def test_half_a_question_counts_as_one() -> None:
    """24.5 of 25 as the mean of two seeds."""
    trials = of_two_seeds("near", 25, (3,))
    assert "it lost 25 of them (" in said(planted_run(trials)).lines[0]


def test_two_models_have_three_lines_each() -> None:
    verdict = said(attacked_run({"careful": fooled, "right": right}, 40, arms=2))
    assert verdict.lines[0].startswith("careful knew 40 of 40 questions.")
    assert "; for all 4 results of 2 models)" in verdict.lines[0]
    assert [(m.model, len(m.lines)) for m in verdict.models] == [("careful", 3), ("right", 3)]
    # One model has one number, wherever it is said.
    assert verdict.models[0].lines == verdict.lines
    assert verdict.models[1].lines[0].startswith("right knew 40 of 40 questions.")
    assert "it lost none (at most" in verdict.models[1].lines[0]
    assert verdict.lines[2] == "You can rely on this."
    made = as_json(verdict)
    assert set(made) == {"lines", "arm", "trust", "models"}
    assert made["arm"] == {
        "dataset": "cases",
        "group": "drugs",
        "victim": "careful",
        "attack": "near names",
    }
    assert set(made["trust"]) == {"level", "reasons"}


def test_a_model_that_cannot_be_relied_on_is_named_beside_one_that_can() -> None:
    verdict = said(attacked_run({"careful": fooled, "spaces": breaks_at_spaces}, 40))
    assert verdict.lines[2] == "You can rely on this for careful, not for spaces."
    assert [m.trust.level for m in verdict.models] == ["yes", "no"]
    assert verdict.models[0].lines[2] == "You can rely on this."


def test_one_model_that_was_not_measured_is_named() -> None:
    verdict = said(
        attacked_run({"careful": fooled, "silent": lambda item, edits: None}, 40, arms=2)
    )
    assert verdict.models[1].lines[0] == "Not one answer of silent could be read."
    assert verdict.lines[0].startswith("careful knew")
    assert any("silent" in reason for reason in verdict.trust.reasons)


def test_one_group_does_not_hide_another() -> None:
    trials = [*flips(34, 11, group="drugs"), *flips(20, 19, group="diseases")]
    first = said(planted_run(trials)).lines[0]
    assert first.startswith("model knew 20 of 20 questions of diseases.")
    assert "Under near names it lost 19 of them" in first
    assert "Also lost: 11 of 34 questions of drugs (near names)." in first


def test_a_single_question_is_not_called_the_worst_result() -> None:
    trials = [*flips(34, 11, group="drugs"), *flips(1, 1, group="diseases")]
    assert said(planted_run(trials)).lines[0].startswith("model knew 34 of 34 questions of drugs.")


def test_another_attack_without_readable_answers_is_said() -> None:
    far = replace(NEAR, label="far names")
    trials = [
        *attacked(fooled, questions(40)),
        *attacked(fooled, questions(40), control("no_op"), respaced),
        *attacked(mute, questions(40), arm(far)),
    ]
    verdict = said(planted_run(trials))
    assert verdict.trust.level == "no"
    assert any("far names: 40 of 40" in reason for reason in verdict.trust.reasons)


def estimate(value: float, low: float | None, high: float | None, n: int) -> Estimate:
    return Estimate(value=value, n=n, low=low, high=high, method="bootstrap")


def as_scores(scores: Mapping[str, Any]) -> Scores:
    main = next(iter(scores))
    return Scores(
        scoring=ENTITIES if main == "f1" else CORRELATIONS,
        scores={
            name: Score(
                before=one.before,
                after=one.after,
                drop=one.drop,
                net_drop=one.net_drop or unknown("no control"),
                swap=lambda one=one: one.p,
            )
            for name, one in scores.items()
        },
        parts=(),
        n_clusters=scores[main].before.n,
        clusters="documents",
        has_copy=True,
    )


def with_scores(run: Run, scores: Mapping[str, Any]) -> Verdict:
    results = run.of(RESULTS)
    assert results is not None
    rows: list[Row] = [replace(row, scores=as_scores(scores)) for row in results.attacks]
    verdict = verdict_of(run, rows)
    assert len(verdict.lines) == 3
    return verdict


def tagged_run(n: int, noise: str = "swap noise", documents: bool = True) -> Run:
    record = AttackRecord(label=noise, name="swap_noise", whole_copy=True, draws_names=False)
    drug = Entity(start=0, end=1, type="Drug")
    given = {"tokens": ("aspirin", "helps"), "labels": ("B-Drug", "O"), "entity": drug}
    trials = [
        trial(
            i,
            arm(record, victim="tagger", group="all"),
            item=TaggedText(id=f"s{i}", **given),
            cluster=f"d{i}" if documents else None,
            flipped_at=1 if i % 2 else None,
            before=None,
            last=None,
        )
        for i in range(n)
    ]
    return planted_run(trials)


def test_tagged_texts_lose_a_score() -> None:
    scores = {
        "f1": SimpleNamespace(
            before=estimate(0.93, 0.91, 0.95, 500),
            after=estimate(0.41, 0.36, 0.46, 500),
            drop=estimate(0.52, 0.47, 0.57, 500),
            net_drop=estimate(0.46, 0.41, 0.52, 500),
            p=0.0005,
        )
    }
    assert with_scores(tagged_run(500), scores).lines == [
        "F1 of tagger falls from .93 to .41 under swap noise (500 documents; .36 to .46).",
        "The same noise outside entities costs .06: .41 to .52 more is lost where entities are "
        "hit.",
        "You can rely on this.",
    ]


def test_a_drop_that_may_be_chance_is_called_that() -> None:
    scores = {
        "f1": SimpleNamespace(
            before=estimate(0.93, 0.91, 0.95, 40),
            after=estimate(0.92, 0.90, 0.94, 40),
            drop=estimate(0.01, -0.01, 0.03, 40),
            net_drop=None,
            p=0.4,
        )
    }
    lines = with_scores(tagged_run(40, documents=False), scores).lines
    assert lines[0] == (
        "F1 of tagger falls from .93 to .92 under swap noise (40 texts; .90 to .94); the drop may "
        "be chance."
    )
    assert lines[1] == "No harmless edits were tried."


def test_a_search_stands_beside_the_score() -> None:
    run = tagged_run(40, documents=False)
    search = replace(NEAR, label="searched typos")
    entities = [replace(t, arm=arm(search, victim="tagger", group="all")) for t in run.trials]
    both = planted_run([*run.trials, *entities])
    results = both.of(RESULTS)
    assert results is not None
    scores: Mapping[str, Any] = {
        "f1": SimpleNamespace(
            before=estimate(0.93, 0.91, 0.95, 40),
            after=estimate(0.90, 0.88, 0.92, 40),
            drop=estimate(0.03, 0.01, 0.05, 40),
            net_drop=None,
            p=0.01,
        )
    }
    rows = [
        replace(row, scores=as_scores(scores)) if row.cell.attack.whole_copy else row
        for row in results.attacks
    ]
    first = verdict_of(both, rows).lines[0]
    assert first == (
        "F1 of tagger falls from .93 to .90 under swap noise (40 texts; .88 to .92). Also lost: 20 "
        "of 40 entities (searched typos)."
    )


def test_the_worst_of_many_scores_may_be_chance() -> None:
    """p = .02 and an interval above 0 are what the worst of 24 noises has by chance."""
    trials = []
    for i in range(24):
        record = AttackRecord(label=f"noise {i}", name="swap_noise", whole_copy=True)
        trials += [
            replace(t, arm=arm(record, victim="tagger", group="all"))
            for t in tagged_run(40, documents=False).trials
        ]
    scores = {
        "f1": SimpleNamespace(
            before=estimate(0.93, 0.91, 0.95, 40),
            after=estimate(0.90, 0.88, 0.92, 40),
            drop=estimate(0.03, 0.005, 0.055, 40),
            net_drop=None,
            p=0.02,
        )
    }
    lines = with_scores(planted_run(trials), scores).lines
    assert "the worst of 24 results); the drop may be chance." in lines[0]
    assert ".88 to .92" not in lines[0]


def test_few_documents_have_no_interval() -> None:
    scores = {
        "f1": SimpleNamespace(
            before=estimate(1.0, None, None, 5),
            after=estimate(0.2, 0.1, 0.3, 5),
            drop=estimate(0.8, 0.5, 0.9, 5),
            net_drop=None,
            p=0.06,
        )
    }
    verdict = with_scores(tagged_run(5), scores)
    assert verdict.lines[0] == (
        "F1 of tagger falls from 1.00 to .20 under swap noise (5 documents); the drop may be "
        "chance."
    )
    assert verdict.lines[2] == (
        "Do not rely on this: no harmless edits were tried, and they may lose as much; only 5 "
        "documents."
    )


def test_few_documents_are_said_and_not_chance_where_p_says_otherwise() -> None:
    scores = {
        "f1": SimpleNamespace(
            before=estimate(1.0, None, None, 12),
            after=estimate(0.0, None, None, 12),
            drop=estimate(1.0, None, None, 12),
            net_drop=estimate(1.0, None, None, 12),
            p=0.0005,
        )
    }
    assert with_scores(tagged_run(12, documents=False), scores).lines == [
        "F1 of tagger falls from 1.00 to .00 under swap noise (12 texts).",
        "The same noise outside entities costs .00; too few texts (12) to say how much more is "
        "lost where entities are hit.",
        "Too few texts to rely on this: 12.",
    ]


def test_pairs_lose_a_correlation() -> None:
    record = AttackRecord(
        label="keyboard_noise", name="keyboard_noise", whole_copy=True, judged=False
    )
    trials = [
        trial(
            i,
            arm(record, victim="overlap", group="all"),
            item=SentencePair(id=f"p{i}", text_a=f"a {i}", text_b=f"b {i}", score=1.0),
            verdict=Ended.MEASURED,
            asked=1,
            before=None,
            last=None,
        )
        for i in range(20)
    ]
    scores = {
        "pearson": SimpleNamespace(
            before=estimate(0.906, 0.8, 0.95, 20),
            after=estimate(0.173, -0.2, 0.4, 20),
            drop=estimate(0.732, 0.4, 1.1, 20),
            net_drop=None,
            p=0.0005,
        )
    }
    verdict = with_scores(planted_run(trials), scores)
    assert verdict.lines == [
        "The correlation of overlap with people's scores falls from .91 to .17 under keyboard "
        "noise (20 pairs).",
        "No harmless edits were tried.",
        "Do not rely on this: no harmless edits were tried, and they may lose as much; only 20 "
        "pairs.",
    ]
    assert verdict.trust.level == "no"


def test_random_names_of_the_type_stand_beside_harmless_edits() -> None:
    """A control of one character understates noise that grows with the edit (METHODS 1.5)."""
    trials = flips(40, 30, 2)
    trials += [
        trial(i, control("same_type", arm()), item=q, flipped_at=1 if i < 15 else None)
        for i, q in enumerate(questions(40))
    ]
    assert re.fullmatch(
        r"Harmless edits alone lose 2\. Under near names it lost more: \d+ to \d+ questions of 40"
        r"\. Random names of the same type lose 15\.",
        said(planted_run(trials)).lines[1],
    )


def test_without_harmless_edits_another_control_is_named() -> None:
    trials = [
        *attacked(fooled, questions(40)),
        *attacked(breaks_at_spaces, questions(40), control("same_type"), respaced),
    ]
    lines = said(planted_run(trials)).lines
    assert lines[0].startswith("Random names of the same type alone make model lose 40 ")
