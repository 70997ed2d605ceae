"""The first three lines, on models whose truth is planted."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medstress.analyses.results import RESULTS
from medstress.analyses.run import Run
from medstress.analyses.scores import Score, Scores
from medstress.analyses.shown import as_json
from medstress.analyses.verdict import VERDICT, Verdict, verdict_of
from medstress.core.arms import Arm, AttackRecord
from medstress.core.outcomes import Verdict as Ended
from medstress.core.sentences import Entity, SentencePair, TaggedText
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate, unknown
from medstress.tasks.scores import CORRELATIONS, ENTITIES
from planted_trials import (
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
    question,
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


def under(name: str, n: int) -> list[Any]:
    """Return trials of a control that takes everything."""
    where = control(name, arm())
    return [trial(i, where, item=q, flipped_at=1) for i, q in enumerate(questions(n))]


def alone(name: str, n: int) -> list[Any]:
    """Return trials of a control that is an attack of its own and takes everything."""
    where = arm(replace(NEAR, label=name, name=name), group="all")
    return [trial(i, where, item=q, flipped_at=1) for i, q in enumerate(questions(n))]


NONE = AttackRecord(label="none", name="none", budget=1)


RUNS = {
    "fooled by listed names, the worst of 6": attacked_run(
        {"careful": unless_wrong(fooled, 1, 2, 3, 4, 5)}, 39, arms=6, not_attackable=1
    ),
    "hash of the prompt": attacked_run({"hashed": hashed}, 80, seeds=(0, 1, 2)),
    "coin": attacked_run({"coin": coin()}, 160),
    "guesser": attacked_run({"guess": guesser}, 40, harmless=lambda *_: None),
    "always A": attacked_run({"alwaysA": always_a}, 40),
    "perfect": attacked_run({"right": right}, 39, not_attackable=1),
    "reads only the options": attacked_run(
        {"options": reads_options}, 40, draw=renamed("a very long name that no right option has")
    ),
    "half fooled, half hash": attacked_run({"mixed": mixture(fooled, hashed)}, 80),
    "mute under attack": attacked_run({"mute": mute}, 39, harmless=None),
    "breaks at a double space": attacked_run({"spaces": breaks_at_spaces}, 30),
    "hash of the prompt, five known": planted_run(
        [t for seed in range(3) for t in flips(5, 5, 5, seed=seed)]
    ),
    "none of 12 lost, harmless edits change 9": planted_run(flips(12, 0, 9)),
    "attacker that refuses 19 of 20": planted_run(
        [trial(i, item=q, asked=8 if i == 7 else 0) for i, q in enumerate(questions(20))]
    ),
    "attacker that gives up on half, and wins elsewhere": planted_run(
        [
            trial(i, item=q, flipped_at=2 if i < 10 else None, asked=None if i < 10 else 0)
            for i, q in enumerate(questions(20))
        ]
    ),
    "attacker that never attacks": attacked_run({"target": fooled}, 20, draw=refuses),
    "one question": planted_run(flips(1, 1)),
    "one question, held": planted_run(flips(1, 0)),
    "one question, mute under attack": attacked_run({"mute": mute}, 1, harmless=None),
    "one question, failed under attack": planted_run(
        [trial(0, verdict=Ended.FAILED, asked=3, failed=1)]
    ),
    "four questions, perfect": planted_run(flips(4, 0)),
    "four questions": planted_run([*flips(3, 2), trial(3, verdict=Ended.NOT_ATTACKABLE)]),
    "five of five questions": planted_run(flips(5, 5)),
    "four of four questions in each of three seeds": planted_run(
        [t for seed in range(3) for t in flips(4, 4, seed=seed)]
    ),
    "six of six questions": planted_run(flips(6, 6)),
    "forty questions of two documents": planted_run(
        [replace(t, cluster=f"d{int(t.item.id[1:]) % 2}") for t in flips(40, 10)]
    ),
    "six questions, three seeds, perfect": attacked_run({"right": right}, 6, seeds=(0, 1, 2)),
    "harmless edits were not tried": attacked_run({"careful": fooled}, 40, harmless=None),
    "harmless edits take all of another group": planted_run(
        [*flips(40, 2), *flips(40, 0, 40, group="diseases")]
    ),
    "one kind of harmless edit takes all": planted_run(
        [*flips(40, 0), *under("option_shuffle", 40)]
    ),
    "other orders of the options take all, white space nothing": planted_run(
        [*flips(40, 40, 0), *under("option_shuffle", 40)]
    ),
    "any new name takes all": planted_run([*flips(40, 40, None), *under("same_type", 40)]),
    "only harmless edits as an attack of their own": planted_run(
        [*flips(40, 40, None), *alone("no_op", 40)]
    ),
    "most unreadable before any edit, the rest under attack": planted_run(
        [
            trial(i, item=q, asked=4, unreadable=3)
            if i < 34
            else trial(i, item=q, verdict=Ended.UNREADABLE)
            for i, q in enumerate(questions(100))
        ]
    ),
    "harmless edits that cannot be read": planted_run(
        [
            *flips(80, 40, None),
            *(
                trial(i, control("no_op", arm()), item=q, asked=8, unreadable=8 * (i < 40))
                for i, q in enumerate(questions(80))
            ),
        ]
    ),
    "nothing attacked": planted_run(
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
    "run not complete": attacked_run(
        {"careful": fooled}, 40, harmless=None, complete=False, n_planned=160
    ),
    "every call failed": planted_run(
        [
            replace(trial(i, item=q, verdict=Ended.FAILED, asked=0), at="baseline", before=None)
            for i, q in enumerate(questions(12))
        ]
    ),
    "every answer was late": planted_run(
        [
            replace(trial(i, item=q, verdict=Ended.CUT_SHORT, asked=0), at="baseline", before=None)
            for i, q in enumerate(questions(12))
        ]
    ),
    "nothing could be read": planted_run(
        [trial(i, item=q, verdict=Ended.UNREADABLE) for i, q in enumerate(questions(12))]
    ),
    "nothing was right": planted_run(
        [trial(i, item=q, verdict=Ended.ALREADY_WRONG) for i, q in enumerate(questions(12))]
    ),
    "nothing could be attacked": planted_run(
        [trial(i, item=q, verdict=Ended.NOT_ATTACKABLE) for i, q in enumerate(questions(12))]
    ),
    "no trial has ended": planted_run([], complete=False, n_planned=12),
    "only a control has ended": planted_run(
        [trial(0, control("no_op"))], complete=False, n_planned=12
    ),
    "only wrong ones have ended": planted_run(
        [trial(i, verdict=Ended.ALREADY_WRONG) for i in range(12)], complete=False, n_planned=40
    ),
}


def pattern(words):
    """Return the pattern of a line: `#` is a number, `…` anything."""
    return re.escape(words).replace(r"\#", r"\d+").replace("…", ".*")


TABLE = (Path(__file__).parent / "verdicts.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TABLE[TABLE.index("| --- |") :].splitlines()[1:]
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_planted_truths(row):
    name, level, *lines = row
    verdict = said(RUNS[name])
    for words, line in zip(lines, verdict.lines, strict=True):
        assert re.fullmatch(pattern(words), line), f"{line!r} is not {words!r}"
    assert verdict.trust.level == level
    assert bool(verdict.trust.reasons) == (level != "yes")


def test_every_run_is_in_the_table():
    assert [row[0] for row in ROWS] == list(RUNS)


def test_half_of_the_questions_fooled_and_half_by_spaces():
    lines = said(
        attacked_run(
            {"mixed": mixture(fooled, breaks_at_spaces)}, 80, draw=renamed("listed drug 1")
        )
    ).lines
    # Near names take the fooled 40, harmless edits the other 40: neither takes more.
    assert lines[0].startswith("Harmless edits alone make mixed lose 40 ")
    assert lines[1].endswith("no more than under harmless edits.")


@pytest.mark.parametrize("n", [1, 6, 24])
def test_the_interval_holds_for_the_worst_of_all(n):
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
def test_the_worst_is_the_arm_that_takes_most(order):
    """The low end of 50 of 50, all alike, lies below that of 49 of 50: points choose."""
    held: Mapping[str, Collection[int]] = {"all": (), "all but one": (3,)}
    verdict = said(planted_run([t for name in order for t in of_two_seeds(name, 25, held[name])]))
    assert verdict.arm["attack"] == "all"
    assert "it lost 25 of them" in verdict.lines[0]


def test_what_harmless_edits_take_does_not_count_in_the_choice():
    noisy, near = arm(replace(NEAR, label="noisy")), arm()
    trials = []
    for i, q in enumerate(questions(40)):
        for at, n_lost, n_harmless in ((noisy, 30, 28), (near, 25, 0)):
            trials.append(trial(i, at, item=q, flipped_at=1 if i < n_lost else None))
            harmless = 1 if i < n_harmless else None
            trials.append(trial(i, control("no_op", at), item=q, flipped_at=harmless))
    verdict = said(planted_run(trials))
    assert verdict.arm["attack"] == "near names"


def test_of_arms_that_take_as_much_the_first_of_the_plan_is_named():
    trials = [*of_two_seeds("wide", 25, ()), *of_two_seeds("a narrow one", 25, ())]
    verdict = said(planted_run(trials))
    assert verdict.arm["attack"] == "wide"


def test_a_low_end_of_less_than_a_question_is_not_rounded_up():
    """13 of 40 lost to names, 4 others to harmless edits: p = .049, and the low end is .1."""
    trials = []
    for i, q in enumerate(questions(40)):
        trials.append(trial(i, arm(), item=q, flipped_at=1 if i < 13 else None))
        trials.append(trial(i, control("no_op"), item=q, flipped_at=1 if 13 <= i < 17 else None))
    verdict = said(planted_run(trials))
    assert verdict.lines[1] == (
        "Harmless edits alone lose 4. Under near names it lost up to 17 more, of 40 questions."
    )


def test_half_a_question_counts_as_one():
    """24.5 of 25 as the mean of two seeds."""
    trials = of_two_seeds("near", 25, (3,))
    assert "it lost 25 of them (" in said(planted_run(trials)).lines[0]


def test_two_models_have_three_lines_each():
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


def test_a_model_that_cannot_be_relied_on_is_named_beside_one_that_can():
    verdict = said(attacked_run({"careful": fooled, "spaces": breaks_at_spaces}, 40))
    assert verdict.lines[2] == "You can rely on this for careful, not for spaces."
    assert [m.trust.level for m in verdict.models] == ["yes", "no"]
    assert verdict.models[0].lines[2] == "You can rely on this."


def test_one_model_that_was_not_measured_is_named():
    verdict = said(
        attacked_run({"careful": fooled, "silent": lambda item, edits: None}, 40, arms=2)
    )
    assert verdict.models[1].lines[0] == "Not one answer of silent could be read."
    assert verdict.lines[0].startswith("careful knew")
    assert any("silent" in reason for reason in verdict.trust.reasons)


def test_one_group_does_not_hide_another():
    trials = [*flips(34, 11, group="drugs"), *flips(20, 19, group="diseases")]
    first = said(planted_run(trials)).lines[0]
    assert first.startswith("model knew 20 of 20 questions of diseases.")
    assert "Under near names it lost 19 of them" in first
    assert "Also lost: 11 of 34 questions of drugs (near names)." in first


def test_an_attack_that_never_came_is_a_reason_not_to_rely_on_the_others():
    silent = arm(replace(NEAR, label="search"))
    never = [trial(i, silent, item=q, asked=0) for i, q in enumerate(questions(34))]
    trials = flips(34, 11)
    assert said(planted_run(trials)).trust.level == "yes"
    verdict = said(planted_run([*trials, *never]))
    assert verdict.lines[2] == "Do not rely on this: search never changed a text."
    elsewhere = arm(silent.attack, group="diseases")
    tried = [trial(i, elsewhere, item=q) for i, q in enumerate(questions(34))]
    reasons = said(planted_run([*trials, *never, *tried])).trust.reasons
    assert any(one.startswith("search never changed a text of cases, drugs") for one in reasons)
    failed = [replace(one, verdict=Ended.FAILED) for one in never]
    reasons = said(planted_run([*trials, *failed])).trust.reasons
    assert reasons == ["every trial of search failed"]


@pytest.mark.parametrize(("n_harmless", "level"), [(82, "no"), (5, "yes")])
def test_harmless_edits_of_another_attack_that_take_as_much_are_a_reason(n_harmless, level):
    """The attack with 20 queries loses most, its harmless edits nearly as much."""
    longer = arm(replace(NEAR, label="names20", budget=20))
    lost = ((longer, n_harmless + 12), (control("no_op", longer), n_harmless))
    trials = flips(120, 32, 3) + [
        trial(i, at, item=q, flipped_at=1 if i < n else None)
        for at, n in lost
        for i, q in enumerate(questions(120))
    ]
    verdict = said(planted_run(trials))
    assert verdict.arm["attack"] == "near names"
    assert verdict.trust.level == level
    reasons = ["names20: harmless edits alone lose 82 of 120 questions"]
    assert verdict.trust.reasons == (reasons if level == "no" else [])


def test_of_many_groups_those_that_lose_most_are_named():
    lost = {"a": 11, "b": 20, "c": 29, "d": 5, "e": 6}
    trials = [t for group, n in lost.items() for t in flips(30, n, group=group)]
    also = (
        "Also lost: 20 of 30 questions of b (near names); 11 of 30 questions of a (near names); "
        "6 of 30 questions of e (near names); 1 more."
    )
    assert said(planted_run(trials)).lines[0].endswith(also)


def test_a_single_question_is_not_called_the_worst_result():
    trials = [*flips(34, 11, group="drugs"), *flips(1, 1, group="diseases")]
    assert said(planted_run(trials)).lines[0].startswith("model knew 34 of 34 questions of drugs.")


def test_another_attack_without_readable_answers_is_said():
    far = replace(NEAR, label="far names")
    trials = [
        *attacked(fooled, questions(40)),
        *attacked(fooled, questions(40), control("no_op"), respaced),
        *attacked(mute, questions(40), arm(far)),
    ]
    verdict = said(planted_run(trials))
    assert verdict.trust.level == "no"
    assert any("far names: 40 of 40" in reason for reason in verdict.trust.reasons)
    hardly = [trial(i, arm(far), item=q, asked=i // 39) for i, q in enumerate(questions(40))]
    verdict = said(planted_run([*trials[:80], *hardly]))
    assert verdict.trust.reasons == ["far names: 39 of 40 questions were never attacked"]


def test_a_reason_from_another_place_names_it():
    elsewhere = attacked(mute, questions(8), arm(dataset="other"))
    read = [trial(i, arm(dataset="other"), item=q) for i, q in enumerate(questions(40))][8:]
    reasons = said(planted_run([*flips(40, 12), *elsewhere, *read])).trust.reasons
    assert "near names: 8 of 40 questions of other have no readable answer" in reasons


def estimate(value: float, low: float | None, high: float | None, n: int) -> Estimate:
    return Estimate(value=value, n=n, low=low, high=high, method="bootstrap")


def score(n, before, after, drop, net=None, p=None):
    """Return a score over n documents; each part is a value with its ends."""
    parts = [estimate(*part, n) for part in (before, after, drop)]
    drop_net = unknown("no control") if net is None else estimate(*net, n)
    names = ("before", "after", "drop")
    return Score(**dict(zip(names, parts, strict=True)), net_drop=drop_net, swap=lambda: p)


def scored(name, main):
    return Scores(
        scoring=ENTITIES if name == "f1" else CORRELATIONS,
        scores={name: main},
        parts=(),
        n_clusters=main.before.n,
        clusters="documents",
        has_copy=True,
    )


def with_score(run, main, name="f1"):
    rows = [replace(row, scores=scored(name, main)) for row in run.of(RESULTS).attacks]
    verdict = verdict_of(run, rows)
    assert len(verdict.lines) == 3
    return verdict


def tagged_run(
    n: int, noise: str = "swap noise", documents: bool = True, name: str = "swap_noise"
) -> Run:
    record = AttackRecord(label=noise, name=name, whole_copy=True, draws_names=False)
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


def test_tagged_texts_lose_a_score():
    main = score(
        500, (0.93, 0.91, 0.95), (0.41, 0.36, 0.46), (0.52, 0.47, 0.57), (0.46, 0.41, 0.52), 0.0005
    )
    assert with_score(tagged_run(500), main).lines == [
        "F1 of tagger falls from .93 to .41 under swap noise (500 documents; .36 to .46).",
        "The same noise outside entities costs .06: .41 to .52 more is lost where entities are "
        "hit.",
        "You can rely on this.",
    ]


def test_noise_outside_entities_that_takes_as_much_comes_first():
    main = score(
        500, (0.95, 0.93, 0.97), (0.0, 0.0, 0.01), (0.95, 0.93, 0.97), (0.0, -0.01, 0.01), 0.0005
    )
    assert with_score(tagged_run(500), main).lines == [
        "F1 of tagger falls by .95 under the same noise outside entities.",
        "Under swap noise it falls from .95 to .00 (500 documents; .00 to .01); the difference may "
        "be chance.",
        "Do not rely on this: the same noise outside entities may cost as much.",
    ]


def test_a_drop_that_may_be_chance_is_called_that():
    main = score(40, (0.93, 0.91, 0.95), (0.92, 0.90, 0.94), (0.01, -0.01, 0.03), None, 0.4)
    lines = with_score(tagged_run(40, documents=False), main).lines
    assert lines[0] == (
        "F1 of tagger falls from .93 to .92 under swap noise (40 texts; .90 to .94); the drop may "
        "be chance."
    )
    assert lines[1] == "No harmless edits were tried; --set experiment.controls=true adds them."


def test_a_search_stands_beside_the_score():
    run = tagged_run(40, documents=False)
    search = replace(NEAR, label="searched typos")
    entities = [replace(t, arm=arm(search, victim="tagger", group="all")) for t in run.trials]
    both = planted_run([*run.trials, *entities])
    results = both.of(RESULTS)
    main = score(40, (0.93, 0.91, 0.95), (0.90, 0.88, 0.92), (0.03, 0.01, 0.05), None, 0.01)
    rows = [
        replace(row, scores=scored("f1", main)) if row.cell.attack.whole_copy else row
        for row in results.attacks
    ]
    first = verdict_of(both, rows).lines[0]
    assert first == (
        "F1 of tagger falls from .93 to .90 under swap noise (40 texts; .88 to .92). Also lost: 20 "
        "of 40 entities (searched typos)."
    )


def test_a_search_without_a_control_is_not_trusted_where_it_comes_second():
    run = tagged_run(40, documents=False)
    search = arm(replace(NEAR, label="searched typos"), victim="tagger", group="all")
    both = planted_run([*run.trials, *(replace(t, arm=search) for t in run.trials)])
    main = score(
        40, (0.93, 0.91, 0.95), (0.4, 0.38, 0.42), (0.53, 0.5, 0.56), (0.5, 0.4, 0.6), 0.0005
    )
    rows = [
        replace(row, scores=scored("f1", main)) if row.cell.attack.whole_copy else row
        for row in both.of(RESULTS).attacks
    ]
    assert verdict_of(both, rows).lines[2] == (
        "Do not rely on this: harmless edits may lose as many as searched typos."
    )


def test_the_worst_of_many_scores_may_be_chance():
    """p = .02 and an interval above 0 are what the worst of 24 noises has by chance."""
    trials = []
    for i in range(24):
        record = AttackRecord(label=f"noise {i}", name="swap_noise", whole_copy=True)
        trials += [
            replace(t, arm=arm(record, victim="tagger", group="all"))
            for t in tagged_run(40, documents=False).trials
        ]
    main = score(40, (0.93, 0.91, 0.95), (0.90, 0.88, 0.92), (0.03, 0.005, 0.055), None, 0.02)
    lines = with_score(planted_run(trials), main).lines
    assert "the worst of 24 results); the drop may be chance." in lines[0]
    assert ".88 to .92" not in lines[0]


def test_few_documents_have_no_interval():
    main = score(5, (1.0, None, None), (0.2, 0.1, 0.3), (0.8, 0.5, 0.9), None, 0.06)
    verdict = with_score(tagged_run(5), main)
    assert verdict.lines[0] == (
        "F1 of tagger falls from 1.00 to .20 under swap noise (5 documents); the drop may be "
        "chance."
    )
    assert verdict.lines[2] == (
        "Do not rely on this: no harmless edits were tried, and they may lose as much; only 5 "
        "documents."
    )


def test_few_documents_are_said_and_not_chance_where_p_says_otherwise():
    main = score(
        12, (1.0, None, None), (0.0, None, None), (1.0, None, None), (1.0, None, None), 0.0005
    )
    assert with_score(tagged_run(12, documents=False), main).lines == [
        "F1 of tagger falls from 1.00 to .00 under swap noise (12 texts).",
        "The same noise outside entities costs .00; too few texts (12) to say how much more is "
        "lost where entities are hit.",
        "Too few texts to rely on this: 12.",
    ]


MOVE_AS_MUCH = "no control fits pairs, and harmless edits may move scores as much"


@pytest.mark.parametrize(
    ("n", "ends", "third", "level"),
    [
        (20, "", "Too few pairs to rely on this: 20.", "too few"),
        (80, "; −.20 to .40", f"Do not rely on this: {MOVE_AS_MUCH}.", "no"),
    ],
)
def test_pairs_lose_a_correlation(n, ends, third, level):
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
        for i in range(n)
    ]
    main = score(n, (0.906, 0.8, 0.95), (0.173, -0.2, 0.4), (0.732, 0.4, 1.1), None, 0.0005)
    verdict = with_score(planted_run(trials), main, "pearson")
    assert verdict.lines == [
        "The correlation of overlap with people's scores falls from .91 to .17 under keyboard "
        f"noise ({n} pairs{ends}).",
        "No harmless edits were tried.",
        third,
    ]
    assert verdict.trust.level == level


def test_a_pair_whose_score_moves_is_not_lost():
    record = AttackRecord(label="searched swaps", name="swap_noise", budget=8)
    trials = [
        trial(
            i,
            arm(record, victim="overlap", group="all"),
            item=SentencePair(id=f"p{i}", text_a=f"a {i}", text_b=f"b {i}", score=1.0),
            flipped_at=1 if i < 53 else None,
            before=None,
            last=None,
        )
        for i in range(60)
    ]
    lines = said(planted_run(trials)).lines
    assert lines[0].endswith("Under searched swaps it changed the score of 53 of them (46 to 57).")
    assert MOVE_AS_MUCH in lines[2]


def test_random_names_of_the_type_stand_beside_harmless_edits():
    """A control of one character understates noise that grows with the edit (METHODS 1.5)."""
    trials = flips(40, 30, 2)
    trials += [
        trial(i, control("same_type", arm()), item=q, flipped_at=1 if i < 15 else None)
        for i, q in enumerate(questions(40))
    ]
    assert re.fullmatch(
        r"Harmless edits alone lose 2\. Under near names it lost \d+ to \d+ more, of 40 questions"
        r"\. Random names of the same type lose 15\.",
        said(planted_run(trials)).lines[1],
    )


def test_without_harmless_edits_another_control_is_named():
    trials = [
        *attacked(fooled, questions(40)),
        *attacked(breaks_at_spaces, questions(40), control("same_type"), respaced),
    ]
    lines = said(planted_run(trials)).lines
    assert lines[0].startswith("Random names of the same type alone make model lose 40 ")


def test_ten_questions_under_forty_ids_are_ten():
    def lines(n_questions: int) -> Verdict:
        lost = [
            trial(i, flipped_at=1 if i % 2 else None, cluster=f"q{i % n_questions}")
            for i in range(40)
        ]
        return planted_run(lost).of(VERDICT)

    few, many = lines(10), lines(40)
    assert few.trust.reasons[-1] == "only 10 different questions"
    assert "only" not in " ".join(many.trust.reasons)
    assert few.lines[0].startswith("model knew 40 of 40 questions")


def test_attempts_that_never_reached_the_model_are_no_search():
    def held(rejected: int) -> Verdict:
        searched = [trial(i, asked=1, rejected=rejected) for i in range(40)]
        harmless = [trial(i, control(), asked=1) for i in range(40)]
        return planted_run([*searched, *harmless]).of(VERDICT)

    assert held(1).trust.level == "yes"
    assert held(4).trust.reasons == ["160 of 200 attempts never reached the model"]


def test_clean_questions_of_other_data_are_not_called_lost():
    place = arm().place
    clean = AttackRecord(label="none", name="none", budget=1, params={}, goal="untargeted")
    rows = [
        trial(i, Arm(place=place._replace(dataset=name), attack=clean, seed=None, control_of=None))
        for name in ("a", "b")
        for i in range(40)
    ]
    assert "lost" not in " ".join(planted_run(rows).of(VERDICT).lines)


def test_keys_that_are_all_one_letter_may_be_guessed_however_many_there_are():
    same = [trial(i, at, item=question(i), asked=8) for at in (arm(), control()) for i in range(40)]
    verdict = planted_run(same).of(VERDICT)
    assert verdict.lines[0].startswith("model knew 40 of 40 questions, no more than guessing gives")
    reason = "so many right answers have one letter that guessing may give 40 of 40"
    assert verdict.trust.reasons == [reason]
    few = planted_run([one for one in same if one.number < 4]).of(VERDICT)
    assert few.lines[2] == "Too few questions to rely on this: 4."


@pytest.mark.parametrize(
    ("unreadable", "failed", "level"), [(1, 1, "yes"), (15, 0, "no"), (0, 15, "no"), (7, 8, "no")]
)
def test_answers_that_could_mostly_not_be_read_are_no_evidence(unreadable, failed, level):
    """Twenty answers each, of attack or control; a few unreadable ones are in the interval."""
    read = [trial(i, asked=8) for i in range(40)]
    harmless = [trial(i, control(), asked=8) for i in range(40)]
    how = {"asked": 20, "unreadable": unreadable, "failed": failed}
    wrong = [trial(40 + i, verdict=Ended.ALREADY_WRONG) for i in range(9)]  # not among the 40
    attack = planted_run([*(trial(i, **how) for i in range(40)), *harmless, *wrong]).of(VERDICT)
    other = planted_run([*read, *(trial(i, control(), **how) for i in range(40))]).of(VERDICT)
    assert (attack.trust.level, other.trust.level) == (level, level)
    if level == "no":
        where = "answers to 40 of 40 failed or could not be read"
        assert attack.trust.reasons == [f"under attack, {where}"]
        assert other.trust.reasons == [f"under harmless edits {where}"]
        assert other.lines[1] == f"Under harmless edits {where.replace('of 40', 'of the 40')}."


def test_where_the_clean_answer_varies_questions_are_counted_as_the_mean_over_seeds_and_runs():
    """20, 16 and 12 of 24 questions right in three seeds, of which the attack takes half; each seed
    runs twice."""
    trials = [
        trial(i, arm(seed=seed), item=q, repeat=run, flipped_at=1 if i < known / 2 else None)
        if i < known
        else trial(i, arm(seed=seed), item=q, repeat=run, verdict=Ended.ALREADY_WRONG)
        for seed, known in enumerate((20, 16, 12))
        for run in range(2)
        for i, q in enumerate(questions(24))
    ]
    first = said(planted_run(trials)).lines[0]
    assert "knew 16 of 24 questions" in first
    assert "lost 8 of them" in first


def test_clean_questions_without_a_readable_answer_are_not_called_unknown_to_the_model():
    mute = [
        trial(i, arm(NONE, None), item=q, verdict=Ended.UNREADABLE, asked=0)
        for i, q in enumerate(questions(40))
    ]
    assert said(planted_run(mute)).lines[0] == "Not one answer of model could be read."


def test_an_attack_without_a_fitting_control_gets_no_advice_to_add_one():
    lost = [trial(i, flipped_at=1) for i in range(40)]
    on = {"experiment": {"name": "planted", "controls": True}}
    verdict = planted_run(lost, config=on).of(VERDICT)
    assert verdict.lines[1] == "No control fits near names."
    reason = "no control fits near names, and harmless edits may lose as many"
    assert verdict.trust.reasons == [reason]
    # Of a list, a control that it does not name may fit.
    some = {"experiment": {"name": "planted", "controls": ["same_type"]}}
    assert "controls=true adds them" in planted_run(lost, config=some).of(VERDICT).lines[1]
    off = planted_run(lost).of(VERDICT)
    assert off.lines[1].endswith("--set experiment.controls=true adds them.")
    # By default questions have controls, and tagged texts none.
    unset = {"experiment": {"name": "planted"}}
    assert planted_run(lost, config=unset).of(VERDICT).lines[1] == "No control fits near names."
    text = TaggedText(id="t", tokens=("heparin",), labels=("B-Drug",))
    tagged_lost = [trial(i, item=replace(text, id=f"t{i}"), flipped_at=1) for i in range(40)]
    noisy = planted_run(tagged_lost, config=unset).of(VERDICT)
    assert noisy.lines[1].endswith("--set experiment.controls=true adds them.")


def test_a_control_that_is_the_attack_needs_none_and_repeats_are_none():
    alone = arm(replace(NEAR, label="no_op", name="no_op"))
    verdict = planted_run([trial(i, alone, flipped_at=1) for i in range(40)]).of(VERDICT)
    assert verdict.lines[1:] == ["Nothing but harmless edits was tried.", "You can rely on this."]
    outside = tagged_run(40, "noise outside entities", documents=False, name="non_entity_noise")
    main = score(40, (0.93, 0.91, 0.95), (0.4, 0.38, 0.42), (0.53, 0.5, 0.56), None, 0.0005)
    assert with_score(outside, main).lines[1:] == [
        "Nothing but noise outside entities was tried.",
        "You can rely on this.",
    ]
    lost = [trial(i, flipped_at=1) for i in range(40)]
    repeats = [trial(i, control("repeat"), asked=8) for i in range(40)]
    verdict = planted_run([*lost, *repeats]).of(VERDICT)
    assert verdict.trust.reasons == ["no harmless edits were tried, and they may lose as many"]
