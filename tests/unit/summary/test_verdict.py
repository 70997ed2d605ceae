"""The first sentences of a summary, from planted counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medstress.metrics.old_stats.estimates import unknown, wilson
from medstress.summary.verdict import GUESSING, NEAR_CHANCE, verdict_of


def share(part: int, n: int) -> dict[str, Any]:
    return (wilson(part, n) if n else unknown("nothing")).as_json()


def net(attack: int, control: int, n: int, half: float = 0.1) -> dict[str, Any]:
    value = (attack - control) / n
    return {"value": value, "n": n, "low": value - half, "high": value + half, "method": "Tango"}


def row(lost: int, right: int, asked: int = 60, **changes: Any) -> dict[str, Any]:
    """A pooled row of an attack on questions: of `right` answers `lost` are lost."""
    spec = changes.pop("spec", {"name": "entity_substitution"})
    return {
        "dataset": "sample", "group": "drugs", "victim": "model", "attack": "near",
        "attack_spec": json.dumps(spec), "seeds": [0],
        "n_items": asked, "n_trials": asked, "n_eligible": right, "n_flipped": lost,
        "n_already_wrong": asked - right, "n_not_attackable": 0, "n_failed": 0,
        "n_unreadable_at_baseline": 0, "n_unreadable_answers": 0, "n_length_at_baseline": 0,
        "n_length_answers": 0, "queries": {"asked": 5 * asked, "failed": 0},
        "accuracy": share(right, asked), "chance": 0.25, "asr": share(lost, right),
        "asr_valid": None, "asr_valid_bounds": [0.0, lost / max(right, 1), lost / max(right, 1)],
        "n_validity_unknown": lost, "asr_at": [],
    } | changes  # fmt: skip


def controlled(lost: int, right: int, control: int, name: str = "no_op", **changes: Any) -> Any:
    """The same beside a control that changes `control` answers, all of which the attack takes."""
    both = min(lost, control)
    table = [both, lost - both, control - both, right - max(lost, control)]
    return row(lost, right, **changes) | {
        "control_table": {name: table},
        "control_open": {name: [0, 0]},
        "asr_net": {name: net(lost, control, right)},
    }


def verdict(
    *rows: dict[str, Any],
    guesses: str = "",
    review: dict[str, Any] | None = None,
    **experiment: Any,
) -> dict[str, Any]:
    found = {
        "experiment": {"complete": True, "n_planned": sum(r["n_trials"] for r in rows)}
        | experiment,
        "results": list(rows),
        "pooled": list(rows),
        "review": review,
        "names": {
            "attacks": {"near": "near names", "n": "noise"},
            "victims": {"a/model": "model"},
            "datasets": {},
            "groups": {},
        },
    }
    attacks = {each["attack"]: {} for each in rows}
    manifest = {
        "config": {"experiment": {}},
        "attacks": attacks | experiment.pop("arms", {}),
        "complete": found["experiment"]["complete"],
    }
    return verdict_of(found, manifest, lambda place: guesses)


def test_the_sentence_counts_what_one_attack_took_and_what_harmless_edits_change():
    found = verdict(controlled(15, 45, 2))
    assert found["sentence"] == (
        "15 of 45 right answers (33 %, 21 to 48) were lost after one wrong option was renamed; "
        "harmless edits alone change 2."
    )
    assert found["caveats"] == [
        "No validity was measured: nobody checked that the key is still right after these edits."
    ]
    (arm,) = found["arms"]
    assert (arm["n_lost"], arm["n"], arm["control"]["n_changed"]) == (15, 45, 2)


@pytest.mark.parametrize(
    ("control", "said"),
    [
        (11, "harmless edits alone change 11, so the difference may be chance."),
        (15, "harmless edits alone change as many (15), so nothing shows that the edit itself"),
        (20, "harmless edits alone change more (20), so nothing shows that the edit itself"),
    ],
)
def test_a_loss_like_that_to_the_control_is_called_so(control, said):
    assert said in verdict(controlled(15, 45, control))["sentence"]


def test_without_a_control_the_sentence_says_so():
    sentence = verdict(row(15, 45))["sentence"]
    assert sentence.endswith("; this is not net of any control: harmless edits may change as many.")
    awaited = verdict(row(3, 9), complete=False, n_planned=99, arms={"near / no_op": {}})
    assert "its control has not been asked yet" in awaited["sentence"]


def test_near_chance_stands_in_the_sentence():
    sentence = verdict(controlled(9, 18, 2), guesses=GUESSING)["sentence"]
    assert (
        "the model answers near chance (30 % right before any edit, 25 % by guessing)" in sentence
    )


def test_a_commonest_letter_that_reaches_chance_is_said_in_the_sentence():
    letter = "by always giving the commonest key letter of these 12 items"
    found = verdict(controlled(1, 8, 0, asked=12, chance=2 / 3), guesses=letter)
    assert f"(67 % right before any edit, 67 % {letter}), so no loss" in found["sentence"]
    assert found["arms"][0]["near_chance"] is True


def test_items_that_are_too_few_to_tell_anything_make_no_model_near_chance():
    letter = "by always giving the commonest key letter of these 2 items"
    found = verdict(controlled(1, 2, 0, asked=2, chance=0.5), guesses=letter)
    told = f"too few items to tell it from guessing (100 % right before any edit, 50 % {letter})"
    assert told in found["sentence"]
    assert NEAR_CHANCE not in found["sentence"]
    assert found["arms"][0]["near_chance"] is True


def test_every_unreadable_answer_is_a_sentence_of_its_own():
    unread = row(0, 0, asked=40, n_already_wrong=0, n_unreadable_at_baseline=40, victim="deaf")
    unread["queries"] = {"asked": 0, "failed": 0}
    assert verdict(unread)["sentence"] == "Every answer is unreadable, so nothing is measured."
    both = verdict(unread, controlled(15, 45, 2))
    assert both["sentence"].startswith("model lost 15 of 45 right answers")
    assert "Every answer of deaf is unreadable, so nothing is measured of it." in both["caveats"]


def test_a_victim_whose_calls_all_failed_is_named_beside_the_other():
    broken = row(0, 0, asked=40, n_already_wrong=0, n_failed_at_baseline=40, victim="broken")
    broken |= {"queries": {"asked": 0, "failed": 0}, "accuracy": share(0, 0), "chance": None}
    assert verdict(broken)["sentence"] == "Every call failed, so nothing is measured."
    both = verdict(broken, controlled(15, 45, 2))
    assert both["sentence"].startswith("model lost 15 of 45 right answers")
    assert "Every call of broken failed, so nothing is measured of it." in both["caveats"]


def test_a_run_in_progress_says_how_far_it_is():
    sentence = verdict(controlled(15, 45, 2), complete=False, n_planned=240)["sentence"]
    assert sentence.startswith("So far 60 of 240 planned trials have ended. 15 of 45 right")


def test_a_run_without_trials_says_that_nothing_is_measured():
    found = verdict(complete=False, n_planned=600)
    assert found["sentence"].startswith("So far 0 of 600 planned trials have ended. No trial has")
    assert found["arms"] == []


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ({"n_not_attackable": 6}, "No item so far could be attacked, so nothing is measured yet."),
        ({"n_already_wrong": 6}, "Nothing so far was right before the attack, so nothing could be"),
        ({"n_unreadable_at_baseline": 6}, "Every answer so far is unreadable, so nothing is"),
    ],
)
def test_what_a_run_in_progress_has_not_measured_it_may_measure_yet(counts, why):
    none = row(0, 0, asked=6, **{"n_already_wrong": 0, "n_not_attackable": 0} | counts)
    none["queries"] = {"asked": 0, "failed": 0}
    sentence = verdict(none, complete=False, n_planned=240)["sentence"]
    assert sentence.startswith(f"So far 6 of 240 planned trials have ended. {why}")
    assert "so far" not in verdict(none)["sentence"]
    assert "yet" not in verdict(none)["sentence"]


def test_the_arm_that_takes_most_is_named_and_others_have_a_line_each():
    found = verdict(
        controlled(4, 40, 1, victim="strong"),
        controlled(20, 40, 2, victim="weak", group="diseases"),
        controlled(2, 40, 2, victim="weak"),
    )
    assert found["sentence"].startswith(
        "weak lost 20 of 40 right answers (50 %, 35 to 65) after one wrong option was renamed "
        "(on diseases, the worst of 2 results); harmless edits alone change 2."
    )
    assert found["others"] == [
        "strong lost 4 of 40 right answers (10 %, 4 to 23) on drugs; harmless edits alone "
        "change 1, so the difference may be chance."
    ]


def test_the_worst_is_the_arm_with_the_largest_share_and_not_the_surest():
    low = share(97, 100)["low"]
    assert low > share(20, 20)["low"]
    many = row(97, 100, asked=100, group="many")
    found = verdict(many, row(60, 60, group="all"))
    assert "60 of 60 right answers" in found["sentence"]
    assert "(on all, the worst of 2 results)" in found["sentence"]


def test_results_of_far_fewer_answers_are_left_out_of_the_worst_and_counted():
    found = verdict(row(1, 1, group="few"), row(20, 40, group="some"), row(30, 60, group="many"))
    assert "30 of 60" in found["sentence"]
    assert "the worst of 2 results, 1 result of far fewer answers left out)" in found["sentence"]


def test_nothing_lost_is_said_as_none():
    found = verdict(controlled(0, 40, 0), controlled(0, 40, 11, group="noisy"))
    assert found["sentence"].startswith("None of 40 right answers (0 %, 0 to 9) was lost after")
    assert "harmless edits alone change 0." in verdict(controlled(0, 40, 0))["sentence"]
    noisy = verdict(controlled(0, 40, 11))["sentence"]
    assert noisy.endswith("harmless edits alone change 11.")


def test_one_right_answer_is_singular():
    assert "1 of 1 right answer (100 %, 21 to 100) was lost" in verdict(row(1, 1))["sentence"]


def test_one_answer_of_one_is_not_the_most():
    found = verdict(row(1, 1, group="few"), row(30, 40, group="many"))
    assert "30 of 40" in found["sentence"]


def test_many_victims_are_a_range_with_the_worst_named():
    rows = [controlled(i, 40, 1, victim=f"v{i}") for i in range(2, 8)]
    found = verdict(*rows)
    assert found["sentence"].startswith(
        "6 victims lost 5 % to 18 % of what they had right. Most: v7 lost 7 of 40 right answers"
    )
    assert found["others"] == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"name": "medfuzz"}, "after the vignette was reworded"),
        ({"name": "swap_noise", "search": "greedy"}, "after letters were swapped"),
        ({"name": "entity_substitution", "field": "stem"}, "after a name in the stem was replaced"),
        ({"name": "of_mine"}, "after an attack by of mine"),
    ],
)
def test_the_edit_is_said_in_words(spec, said):
    assert said in verdict(row(3, 9, spec=spec))["sentence"]


def test_a_control_alone_is_not_called_an_attack():
    sentence = verdict(row(3, 9, spec={"name": "no_op"}))["sentence"]
    assert "this is a control" in sentence
    assert "not net" not in sentence


def test_answers_that_nobody_could_read_are_counted():
    sentence = verdict(row(3, 9, n_failed=2))["sentence"]
    assert "of 2 more it is not known" in sentence


def test_runs_of_an_item_are_not_told_as_items():
    sentence = verdict(row(4, 8, spec={"name": "medfuzz", "runs": 2}))["sentence"]
    assert "4 of 8 right answers (50 %, 22 to 78; 2 runs each) were lost" in sentence
    seeded = row(4, 8, spec={"name": "medfuzz", "runs": 2}, seeds=[0, 1])
    assert "; 2 seeds, 2 runs each)" in verdict(seeded)["sentence"]
    assert "runs" not in verdict(row(4, 8, spec={"name": "medfuzz", "runs": 1}))["sentence"]


def test_validity_is_said_where_somebody_vouches_for_it():
    valid = share(8, 45) | {"n_labels": 15}
    found = verdict(controlled(15, 45, 2) | {"asr_valid": valid})
    assert found["caveats"] == [
        "Lost with the key still right, as reviewers judged (15 of these 15): 18 %, 9 to 31."
    ]
    refuted = row(15, 45, n_validity_unknown=0, asr_valid_bounds=[0, 0, 0])
    assert "Rules refute every one of these losses" in verdict(refuted)["caveats"][0]


def reviewed(n_raters: int, n_open: int = 0) -> dict[str, Any]:
    judgements = [{"judgement": "key_right", "n_open": n_open}]
    return {"n_raters": n_raters, "judgements": judgements, "controls": []}


def test_how_many_reviewers_judged_how_much_and_what_they_dispute_is_said():
    valid = share(5, 45) | {"n_labels": 12}
    valid |= {"n_disputed": 3, "settled_ends": [0.04, 0.31]}
    found = verdict(
        controlled(15, 45, 2) | {"asr_valid": valid}, review=reviewed(n_raters=1, n_open=3)
    )
    assert found["caveats"] == [
        "Lost with the key still right, as 1 reviewer judged (12 of these 15): 11 %, 5 to 23.",
        "On 3 more they disagree or cannot say: with all of these invalid or all valid, the "
        "interval reaches from 4 % to 31 %.",
    ]
    (open_,) = verdict(controlled(15, 45, 2), review=reviewed(n_raters=2, n_open=15))["caveats"]
    assert open_ == "Validity is not known: reviewers disagree and nobody has decided."


def test_what_nobody_judged_is_said():
    valid = share(5, 45) | {"n_labels": 10, "n_disputed": 1}
    valid |= {"n_unlabelled": 4, "settled_ends": [0.04, 0.31]}
    found = verdict(controlled(15, 45, 2) | {"asr_valid": valid})
    assert found["caveats"][1] == (
        "On 1 more they disagree or cannot say, and 4 more of the sample are not judged: with all "
        "of these invalid or all valid, the interval reaches from 4 % to 31 %."
    )


def test_where_labels_are_not_enough_it_is_said_why_and_between_what_the_truth_lies():
    known = {"validity": {"why": "4 labels of reviewers, and an estimate needs 10"}}
    known |= {"asr_valid_bounds": [0.1, 0.25, 0.3], "n_censored": 2}
    (told,) = verdict(controlled(15, 45, 2) | known)["caveats"]
    assert told == (
        "Validity is not known: 4 labels of reviewers, and an estimate needs 10; 10 to 25 % are "
        "lost with the key still right (30 % if no search had ended early)."
    )
    (told,) = verdict(controlled(15, 45, 2, asr_valid_bounds=[0.0, 0.2, 0.2]))["caveats"]
    assert told.endswith("after these edits; at most 20 % are lost with the key still right.")


def tagged(before: float, after: float, net_drop: float | None) -> dict[str, Any]:
    known = {"n": 200, "low": 0.18, "high": 0.24, "method": "bootstrap"}
    found = row(30, 90, asked=120, chance=None, spec={"name": "swap_noise", "search": "none"})
    return found | {
        "f1": known | {"value": before},
        "f1_after": known | {"value": after},
        "f1_drop": known | {"value": before - after},
        "f1_net_drop": known | {"value": net_drop},
    }


def test_tagged_texts_lose_f1():
    assert verdict(tagged(0.82, 0.61, 0.15))["sentence"] == (
        "F1 fell from .820 to .610 (a drop of .210, .180 to .240) after letters were swapped; net "
        "of as much noise outside entities .150 (.180 to .240)."
    )
    assert "not net of any control" in verdict(tagged(0.82, 0.61, None))["sentence"]


def test_a_noise_with_its_control_comes_before_a_search_that_takes_as_much():
    noise, search = tagged(0.82, 0.61, 0.15), tagged(0.82, 0.61, None) | {"attack": "n"}
    search |= {name: unknown("a search").as_json() for name in ("f1_after", "f1_drop")}
    for rows in ((noise, search), (search, noise)):
        sentence = verdict(*rows)["sentence"]
        assert sentence.startswith("F1 fell from .820 to .610")
        assert "not net of any control" not in sentence
    more = search | {"n_flipped": 45, "asr": share(45, 90)}
    found = verdict(noise, more)
    assert found["sentence"].startswith("F1 fell from .820 to .610")
    assert found["others"][0].startswith("45 of 90 entities that were found")


def test_a_search_on_tagged_texts_loses_entities():
    found = tagged(0.82, 0.61, None)
    found |= {name: unknown("a search").as_json() for name in ("f1_after", "f1_drop")}
    assert verdict(found)["sentence"].startswith(
        "30 of 90 entities that were found (33 %, 24 to 44) were lost after letters were swapped"
    )


def test_a_victim_under_noise_and_a_search_has_a_line_for_its_score_and_one_for_its_entities():
    searched = tagged(0.82, 0.61, None) | {"attack": "search"}
    searched |= {name: unknown("a search").as_json() for name in ("f1_after", "f1_drop")}
    found = verdict(searched, tagged(0.82, 0.61, 0.15))
    assert found["sentence"].startswith("F1 fell from .820 to .610")
    assert "net of as much noise outside entities .150" in found["sentence"]
    assert "the worst of" not in found["sentence"]
    (other,) = found["others"]
    assert other.startswith("30 of 90 entities that were found (33 %, 24 to 44) were lost under")
    assert "not net of any control" in other


def test_a_score_that_stays_is_said_once():
    same = tagged(0.0, 0.0, None)
    same["f1_drop"] |= {"low": None, "high": None}
    sentence = verdict(same)["sentence"]
    assert sentence.startswith("F1 stayed at .000 after letters were swapped; ")
    assert "harmless edits may take as much" in sentence
