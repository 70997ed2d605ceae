"""What the page of the Araujo tables makes of runs, and how it judges claims."""

from __future__ import annotations

import copy
import doctest
import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medstress.core.errors import UsageError
from medstress.core.sentences import Entity, PairCandidate, SentencePair
from medstress.core.text import Edit
from medstress.kinds.scores import ScoredArm
from medstress.metrics.sentences.entity_scores import Reading
from medstress.papers.claims.verdicts import Finding
from medstress.stats.estimates import Estimate

Script = Callable[[str], ModuleType]

ATTACKS = ("synonym", "keyboard_noise", "swap_noise")


def estimate(value: float | None, half: float = 0.01) -> dict[str, Any]:
    ends = (None, None) if value is None else (value - half, value + half)
    return {"value": value, "n": 100, "low": ends[0], "high": ends[1], "method": "made up"}


def result(table: str, data: str, **more: Any) -> dict[str, Any]:
    return {
        "format": 2,
        "table": table,
        "data": data,
        "command": f"medstress train araujo2020-{table}",
        "date": "2026-01-02T03:04:05+00:00",
        "machine": {"cpu": "Abacus 9", "cores": 2},
        "versions": {"torch": "2.0", "transformers": "5.0"},
        "settings": {"epochs": 2},
        "facts": {"n_items": 40, "n_rows": 40, "n_train": 160},
        "surrogates": [SURROGATE],
        "names_met": {},
        "models": [
            {
                "victim": "original-0",
                "model": "original",
                "seed": 0,
                "curve": [{"epoch": 1, "loss": 0.25, "score": 0.8, "seconds": 61.0}],
                "seconds": 61.0,
            }
        ],
        "scores": [],
        "single": [],
        "comparison": [],
        "effects": [],
        **more,
    }


SURROGATE = {
    "attack": "synonym",
    "surrogate": "listed names",
    "n_mentions": 100,
    "n_listed": 60,
    "n_nearest": 30,
    "n_unchanged": 10,
}
SAID = "listed names (.60 of the mentions listed, .30 nearest)"


def entity_scores(attack: str, clean: float, after: float, model: str = "original") -> Any:
    names = ("precision", "recall", "f1", "f1_relaxed")
    return {
        "model": model,
        "n_seeds": 3,
        "attack": attack,
        **{name: estimate(clean) for name in names},
        **{f"{name}_after": estimate(after) for name in names},
        "f1_drop": estimate(clean - after),
        "f1_net_drop": estimate(None),
    }


def tagged(data: str, lost: dict[str, float], words: int) -> dict[str, Any]:
    """A run of Table 2 in which attacks take these shares."""
    scores = [entity_scores(attack, 0.8, 0.8 * (1 - lost[attack])) for attack in ATTACKS]
    both = {**lost, "noise": 0.2, "all": sum(lost.values()) / 3}
    return result(
        "table2",
        data,
        scores=scores,
        single=[{**row, "victim": "original-0"} for row in scores],
        facts={
            **result("", "")["facts"],
            "n_entities": words // 2,
            "n_annotated_words": words,
        },
        effects=[
            {
                "effect": "share_lost",
                "model": "original",
                "n_seeds": 3,
                "attack": attack,
                **estimate(share),
            }
            for attack, share in both.items()
        ],
    )


def trained(gain: float, loss: float, recovered: float | None) -> dict[str, Any]:
    """A run of Table 4 with one adversarial model."""
    row = {"attack": "swap_noise", "model": "swap_noise", "trained_on": True, "measure": "f1"}
    row |= {"against": "original", "n_seeds": 3}
    shares = {"clean_loss": loss, "gain": gain, "recovered": recovered}
    comparison = {**row, **{name: estimate(value) for name, value in shares.items()}}
    models = [{**result("", "")["models"][0], "model": kind} for kind in ("original", "swap_noise")]
    return result(
        "table4",
        "chem",
        models=models,
        comparison=[comparison],
        scores=[entity_scores("swap_noise", 0.8, 0.7, kind) for kind in ("original", "swap_noise")],
    )


def pairs(kind: str, pearson: float, after: float) -> dict[str, Any]:
    names = ("pearson", "spearman")
    rows = [
        {
            "model": kind,
            "n_seeds": 3,
            "attack": attack,
            **{name: estimate(pearson) for name in names},
            **{f"{name}_after": estimate(after) for name in names},
            **{f"{name}_drop": estimate(pearson - after) for name in names},
        }
        for attack in ATTACKS
    ]
    effects = [
        {"effect": "share_lost", "model": kind, "attack": "noise", **estimate(0.1)},
        {"effect": "overlap_gain", "model": "", "attack": "synonym", **estimate(-0.05)},
    ]
    return result("table3", "biosses-folds", scores=rows, effects=effects, settings={"folds": 5})


LITTLE = dict.fromkeys(ATTACKS, 0.2)
MUCH = {"synonym": 0.7, "keyboard_noise": 0.505, "swap_noise": 0.4}


def verdicts(found: list[Any], number: int) -> list[str]:
    return [one.verdict.value for one in found if one.number == number]


@pytest.mark.parametrize("name", ["pages", "araujo_judged", "araujo_printed", "araujo_collect"])
def test_examples_in_the_scripts_hold(script: Script, name: str) -> None:
    found = doctest.testmod(script(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_committed_page_is_that_of_the_committed_results(script: Script) -> None:
    page = script("araujo_page")
    told = page.render(page.load(page.RESULTS))
    assert page.PAGE.read_text("utf-8") == told, (
        "run: python benchmarks/araujo_collect.py --page-only"
    )


def test_figures_that_the_page_shows_are_committed(script: Script) -> None:
    page = script("araujo_page")
    for line in page.PAGE.read_text("utf-8").splitlines():
        if line.startswith("!["):
            assert (page.PAGE.parent / line.rpartition("(")[2].rstrip(")")).is_file()


def test_without_any_run_the_page_says_that_nothing_was_run(script: Script) -> None:
    page = script("araujo_page")
    text, parts = page.render({}), page.parts({})
    assert text.count("**not run with this edition**") == len(page.TITLES)
    assert "| F1 on the clean test set, chemicals | ≥ .86 | – | not measured yet |" in text
    assert "|" not in parts["claims"]
    assert "**5. P is sturdier" in parts["claims"]
    assert all(parts[name] == page.NOT_RUN for name in (*page.BEFORE, page.PAIRS, *page.TRAINED))


def test_about_a_fifth_is_judged_by_the_whole_interval(script: Script) -> None:
    judge = script("araujo_claims").claims
    lost = {"synonym": 0.2, "keyboard_noise": 0.245, "swap_noise": 0.3}
    found = judge({"table2-chem": tagged("chem", lost, 100)})
    assert verdicts(found, 1) == ["supported", "undecided", "contradicted", "undecided"]


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        ((0.0, 0.27, 0.33), "contradicted"),
        ((0.0, 0.2, 0.4), "undecided"),
        ((0.2, 0.2, 0.2), "supported"),
    ],
)
def test_a_mean_is_not_supported_by_attacks_that_contradict_the_claim(
    script: Script, lost: tuple[float, ...], verdict: str
) -> None:
    """The mean of 0, .27 and .33 is .2, and none of the three is about .2."""
    shares = dict(zip(ATTACKS, lost, strict=True))
    found = script("araujo_claims").claims({"table2-chem": tagged("chem", shares, 100)})
    (mean,) = (one for one in found if one.where == "chemicals, mean of the three")
    assert mean.effect.value == pytest.approx(0.2)
    assert mean.verdict.value == verdict


def test_with_fewer_than_three_seeds_nothing_is_judged(script: Script) -> None:
    run = tagged("chem", LITTLE, 100)
    for row in (*run["effects"], *run["scores"]):
        row["n_seeds"] = 1
    other = trained(0.3, 0.005, 0.6)
    other["comparison"][0]["n_seeds"] = 2
    runs = {"table2-chem": run, "table4-chem": other}
    found = script("araujo_claims").claims(runs)
    assert {one.outcome for one in found} == {"open: 1 training seed", "open: 2 training seeds"}
    (clean, recovered) = (
        one
        for one in script("araujo_targets").targets(runs)
        if "chemicals" in one.what and one.measured
    )
    assert (clean.met, recovered.met) == (None, None)
    assert clean.why == recovered.why == "open: fewer than three training seeds"
    assert "| supported" not in script("araujo_page").parts(runs)["claims"]


def test_a_verdict_on_synonyms_says_which_names_it_judges(script: Script) -> None:
    parts = script("araujo_page").parts({"table2-chem": tagged("chem", LITTLE, 100)})
    assert f"* **Names a**, chemicals: {SAID}; Table 2." in parts["names"]
    told = [line for line in parts["claims"].splitlines() if "supported |" in line]
    assert [line.partition(" | ")[0] for line in told] == [
        "| chemicals, synonyms (names a)",
        "| chemicals, keyboard noise",
        "| chemicals, swap noise",
        "| chemicals, mean of the three (names a)",
    ]


def test_a_comparison_of_two_data_sets_is_of_the_names_of_both(script: Script) -> None:
    runs = {
        "table2-chem": tagged("chem", LITTLE, 100),
        "table2-disease": tagged("disease", MUCH, 90),
    }
    runs["table2-disease"]["surrogates"] = [{**SURROGATE, "n_listed": 10, "n_nearest": 80}]
    names = script("araujo_page").parts(runs)["names"]
    assert names.splitlines() == [
        f"* **Names a**, chemicals: {SAID}; Table 2.",
        "* **Names b**, diseases: listed names (.10 of the mentions listed, .80 nearest); Table 2.",
    ]
    found = [one for one in script("araujo_claims").claims(runs) if one.number in (3, 4)]
    told = {one.where: one.surrogate for one in found}
    assert told["diseases, synonyms"] == told["diseases, mean of the three"] == "b and a"
    assert told["diseases, swap noise"] == ""
    assert {one.surrogate for one in found if one.number == 4} == {"a and b"}


def test_effects_in_the_same_places_stand_in_one_table(script: Script) -> None:
    run = tagged("chem", LITTLE, 100)
    run["effects"] += [
        {"effect": name, "model": "original", "n_seeds": 3, "attack": attack, **estimate(value)}
        for name, value in (("entities_of_sentence", 0.1), ("words_of_entity", -0.1))
        for attack in ATTACKS
    ]
    lines = script("araujo_page").parts({"table2-chem": run})["claims"].splitlines()
    assert (
        "| chemicals, swap noise | .100 [.090, .110] supported | "
        "−.100 [−.110, −.090] contradicted |" in lines
    )


def test_a_comparison_with_original_twice_stands_beside_the_papers(script: Script) -> None:
    run = trained(0.3, 0.005, 0.6)
    run["comparison"].append(
        {**run["comparison"][0], "against": "original twice", "gain": estimate(0.001)}
    )
    found = script("araujo_claims").claims({"table4-chem": run})
    told = {(one.where, one.printed): one.outcome for one in found if one.number == 10}
    where = "chemicals, trained on swap noise"
    assert told == {
        (where, "−.090 .073"): "supported",
        (f"{where}, against original twice", ""): "undecided",
    }
    assert ".001 [−.009, .011]" in script("araujo_page").render({"table4-chem": run})


def test_numbers_of_an_earlier_edition_are_never_shown_as_new(
    script: Script, tmp_path: Path
) -> None:
    page = script("araujo_page")
    run = tagged("chem", LITTLE, 100)
    for edition, n in ((1, 0), (2, 1)):
        (tmp_path / "table2-chem.json").write_text(json.dumps(run | {"format": edition}))
        assert len(page.load(tmp_path)) == n
    parts = page.parts({})
    assert ".786 [.758, .815] | .901 [.879, .926] | – |" in parts["earlier"]
    assert not [name for name, part in parts.items() if ".901" in part and name != "earlier"]


def test_half_is_judged_attack_by_attack_beside_what_is_printed(script: Script) -> None:
    judge = script("araujo_claims").claims
    found = judge({"table2-disease": tagged("disease", MUCH, 100)})
    assert verdicts(found, 2) == ["supported", "undecided", "contradicted"]
    assert [one.printed for one in found if one.number == 2] == [
        ".583 .568",
        ".565 .561",
        ".436 .474",
    ]


def test_diseases_and_what_is_annotated_more_are_held_against_the_others(script: Script) -> None:
    judge = script("araujo_claims").claims
    runs = {
        "table2-chem": tagged("chem", LITTLE, 100),
        "table2-disease": tagged("disease", MUCH, 120),
    }
    (first, *_) = [one for one in judge(runs) if one.number == 3]
    assert first.where == "diseases, synonyms"
    assert first.effect.value == pytest.approx(0.5)
    assert first.effect.high - 0.5 == pytest.approx(2**0.5 * 0.01)
    assert first.printed == ".412 .388"
    assert verdicts(judge(runs), 3) == ["supported"] * 4
    assert verdicts(judge(runs), 4) == ["supported"] * 2
    runs["table2-chem"]["facts"]["n_entities"] = 65
    assert verdicts(judge(runs), 4) == ["contradicted", "supported"]


def test_pairs_are_judged_on_all_of_them_alone(script: Script) -> None:
    judge = script("araujo_claims").claims
    run = pairs("untrained", 0.85, 0.8)
    found = judge({"table3-biosses-folds": run})
    assert [verdicts(found, number) for number in (6, 7, 8)] == [
        ["supported"],
        ["contradicted"],
        ["contradicted"],
    ]


def test_training_is_judged_by_what_it_costs_and_what_it_gives(script: Script) -> None:
    judge = script("araujo_claims").claims
    for gain, loss, expected in (
        (0.3, 0.005, ("supported", "supported")),
        (0.005, 0.015, ("undecided", "undecided")),
        (-0.3, 0.05, ("contradicted", "contradicted")),
        (0.3, -0.2, ("supported", "supported")),
    ):
        found = judge({"table4-chem": trained(gain, loss, 0.6)})
        assert (verdicts(found, 10)[0], verdicts(found, 9)[0]) == expected
    assert [one.printed for one in found] == [".006 .003", "−.090 .073"]


@pytest.mark.parametrize(
    ("recovered", "loss", "met"),
    [(0.5, 0.01, True), (0.49, 0.01, False), (0.9, 0.02, False)],
)
def test_a_model_recovers_enough_where_it_costs_little(
    script: Script, recovered: float, loss: float, met: bool
) -> None:
    found = script("araujo_targets").targets({"table4-chem": trained(0.1, loss, recovered)})
    known = {one.what.partition(": ")[2]: one.met for one in found if one.met is not None}
    assert known == {"chemicals, swap noise": met}


def test_of_an_attack_that_takes_nothing_clear_no_recovery_is_asked(script: Script) -> None:
    runs = {"table4-chem": trained(0.1, 0.0, None)}
    text = script("araujo_page").render(runs)
    assert (
        "chemicals, swap noise | ≥ .50, < .02 | –, .000 [−.010, .010] | open: what the attack "
        "takes is not clear of zero |"
    ) in text


def test_pearson_is_reached_by_the_better_of_the_kinds(script: Script) -> None:
    run = pairs("untrained", 0.85, 0.8)
    run["scores"] += pairs("original", 0.7, 0.6)["scores"]
    found = script("araujo_targets").targets({"table3-biosses-folds": run})
    (one,) = (one for one in found if one.met is not None)
    assert (one.met, [each.value for each in one.measured]) == (True, [0.85, 0.7])
    assert "(untrained, original)" in one.what


def test_every_number_of_the_paper_is_there_and_follows_from_its_parts(script: Script) -> None:
    rows = script("araujo_printed").published()
    assert len(rows) == 2 * 4 * 3 + 2 * 6 * 3
    odd = []
    for row in rows:
        if row["f1"]:
            p, r, f1 = (float(row[name]) for name in ("precision", "recall", "f1"))
            near = (2 * (p + d) * (r + d) / (p + r + 2 * d) for d in (-0.0005, 0.0005))
            if not min(near := list(near)) - 0.0005 <= f1 <= max(near) + 0.0005:
                odd.append((row["data"], row["model"], row["test"]))
    assert odd == [("chem", "P+M", "swap_noise")]


def test_a_difference_with_an_unknown_side_is_unknown(script: Script) -> None:
    nothing = Estimate(value=None, n=0, low=None, high=None, method="")
    known = Estimate(value=0.5, n=9, low=0.4, high=0.6, method="")
    claims = script("araujo_judged")
    assert claims.difference(known, nothing).value is None
    assert claims.at_most(nothing, 0.02) is Finding.NOT_TESTED


def test_the_page_shows_tables_beside_printed_numbers(script: Script) -> None:
    runs = {
        "table2-chem": tagged("chem", LITTLE, 1234),
        "table2-disease": tagged("disease", MUCH, 1200),
        "table3-biosses-folds": pairs("untrained", 0.85, 0.8),
        "table4-chem": trained(0.1, 0.01, 0.6),
    }
    before = copy.deepcopy(runs)
    text = script("araujo_page").render(runs)
    assert runs == before
    assert (
        "| synonyms | .640 [.630, .650] | .640 [.630, .650] | .640 [.630, .650] | "
        ".160 [.150, .170] | – | .640 [.630, .650] | .744 / .730 | .739 / .748 | .741 / .739 |"
    ) in text
    assert "| untrained | original | .850 [.840, .860] | – | .850" in text
    assert "| swap noise | swap noise (trained on) | .700" in text
    assert "| .100 [.090, .110] | .600 [.590, .610] | – | .668 / .684 |" in text
    assert "617 chemicals of 1,234 words, 600 diseases of 1,200 words" in text
    assert "Abacus 9, 2 cores, torch 2.0, transformers 5.0" in text
    parts = script("araujo_page").parts(runs)
    assert parts["table5-disease"] == parts["table6-biosses-folds"] == "Not run with this edition."
    assert "| Table 2, chemicals | original-0 | 0.2500 | .800 | 61 |" in text
    assert "a sample |" not in text


def test_tables_of_trained_models_come_with_their_results(script: Script) -> None:
    """Pairs, trained on synonyms by both arms, as Table 6 has them."""
    kinds = ("original", "original twice", "synonym", "synonym, held-out names")
    run = pairs("original", 0.85, 0.7)
    run["table"] = "table6"
    run["scores"] = [row for kind in kinds for row in pairs(kind, 0.85, 0.75)["scores"]]
    run["comparison"] = [
        {"attack": attack, "model": kind, "trained_on": attack == "synonym", "measure": "pearson"}
        | {"against": against, "n_seeds": 3, "clean_loss": estimate(0.004)}
        | {"gain": estimate(0.05), "recovered": estimate(0.6)}
        for kind in kinds[2:]
        for against in kinds[:2]
        for attack in ATTACKS
    ]
    parts = script("araujo_page").parts({"table6-biosses-folds": run})
    lines = parts["table6-biosses-folds"].splitlines()
    assert len(lines) == 2 + 2 * 4
    assert lines[7].startswith("| synonyms, held-out names | synonyms (trained on) | .750 [.740")
    assert "| .050 [.040, .060] | .600 [.590, .610] | .050 [.040, .060] |" in lines[7]
    assert (
        "| 10. Adversarially trained models withstand the attack better | 4 | – |"
        in (parts["answer"])
    )
    assert "**Names c**, BIOSSES" in parts["names"]
    assert "| recovered share, clean loss: BIOSSES, synonyms |" in parts["targets"]
    assert "met |" in parts["targets"].splitlines()[-3]


def test_what_noise_outside_the_entities_takes_is_said_where_the_control_is_there(
    script: Script,
) -> None:
    page, run = script("araujo_page"), tagged("chem", LITTLE, 1234)
    assert "outside the entities alone" not in page.render({"table2-chem": run})
    run["scores"].append(entity_scores("non_entity_noise", 0.8, 0.7))
    assert (
        "the control, takes .100 of F1 (.100 of precision, as other words are taken for entities, "
        "and .100 of recall); swap noise takes .160."
    ) in page.render({"table2-chem": run})


def test_how_many_names_of_the_test_a_model_has_read_is_told(script: Script) -> None:
    run = trained(0.1, 0.01, 0.6)
    run["names_met"] = {"synonym": {"synonym": 0.86}, "synonym, held-out names": {"synonym": 0.0}}
    render = script("araujo_page").render
    earlier = render({"table4-chem": run})
    assert "so many get a name that stands in the training copy as well: .86 for syn" in earlier
    assert "originals have such names even in the arm with held-out names" in earlier
    run["left_out"] = {"synonym, held-out names": {"n_left_out": 1511, "n_offered": 9141}}
    assert (
        "so many get a name that the model is trained on, in the originals or in the copy: .86 for "
        "synonyms; .00 for synonyms, held-out names. For held-out names 1,511 of 9,141 sentences "
        "or pairs are left out."
    ) in render({"table4-chem": run})


def test_a_sample_is_called_one_on_the_page(script: Script) -> None:
    run = tagged("chem", LITTLE, 100)
    run["facts"]["n_rows"] = 4797
    assert "40 of 4,797: a sample" in script("araujo_page").render({"table2-chem": run})


# What is computed of a run.


def sentence(name: str, *lengths: int, kept: int, noise: int = 0) -> tuple[Reading, Reading]:
    """Entities of so many words, all found; under the attack the first `kept` of them."""
    gold, start = [], 0
    for length in lengths:
        gold.append(Entity(start=start, end=start + length, type="Drug"))
        start += length + 1
    before = Reading(cluster=name, gold=tuple(gold), found=tuple(gold))
    after = Reading(cluster=name, gold=tuple(gold), found=tuple(gold[:kept]))
    return before, after


def arm(*sentences: tuple[Reading, Reading]) -> ScoredArm:
    made = ScoredArm({"name": "swap_noise"})
    for before, after in sentences:
        made.before[0, before.cluster] = before
        made.after[0, before.cluster] = after
    return made


def test_the_share_lost_is_that_of_the_scores_with_an_interval_around_it(script: Script) -> None:
    effects = script("araujo_effects")
    some = arm(*(sentence(f"s{i}", 1, kept=i % 2) for i in range(40)))
    none = arm(*(sentence(f"s{i}", 1, kept=1) for i in range(40)))
    one, other = effects.scores_of([some]), effects.scores_of([none])
    found = effects.share_lost([one])
    assert found.value == pytest.approx(1 - 2 * 20 / 60)
    assert 0 < found.low < found.value < found.high < 1
    assert effects.share_lost([one, other]).value == pytest.approx(found.value / 2)
    assert effects.share_lost([other]).value == 0.0


def test_of_a_score_of_nothing_no_share_is_lost(script: Script) -> None:
    effects = script("araujo_effects")
    lost = arm(*(sentence(f"s{i}", 1, kept=0) for i in range(40)))
    turned = ScoredArm({}, lost.after, lost.before)
    assert effects.share_lost([effects.scores_of([turned])]).value is None


def test_longer_entities_that_are_lost_more_often_are_found_out(script: Script) -> None:
    effects = script("araujo_effects")
    # The last entity, of two words, is lost in most sentences, the first one in few.
    made = arm(*(sentence(f"s{i}", 1, 2, kept=0 if i % 10 == 0 else 1) for i in range(40)))
    found = effects.by_words_of_entity([made])
    assert found.value == pytest.approx(1.0 - 0.1)
    assert found.n == 80
    assert found.low < found.value < found.high
    few = arm(*(sentence(f"s{i}", 1, 2, kept=1) for i in range(5)))
    assert effects.by_words_of_entity([few]).value is None


def test_crowded_sentences_that_lose_more_are_found_out(script: Script) -> None:
    effects = script("araujo_effects")
    # Crowded sentences keep one entity of four, the others one of one or of two.
    sizes = [1, 2, 2, 4]
    crowded = [sentence(f"s{i}", *[1] * sizes[i % 4], kept=1) for i in range(80)]
    found = effects.by_words_of_sentence([arm(*crowded)])
    assert found.value == pytest.approx(3 / 4 - 2 / 5)
    assert found.low > 0
    assert found.method.startswith("many: more than 2;")
    assert effects.by_entities_of_sentence([arm(*crowded)]).value == found.value
    none = arm(*(sentence(f"s{i}", kept=0) for i in range(40)))
    assert effects.by_words_of_sentence([none]).value is None


def test_by_chance_crowded_sentences_lose_no_larger_share(script: Script) -> None:
    effects = script("araujo_effects")
    covered = []
    for seed in range(40):
        rng, drawn = random.Random(seed), []
        for i in range(300):
            before, after = sentence(f"s{i}", *[1] * (1 + i % 4), kept=4)
            left = tuple(entity for entity in after.gold if rng.random() < 0.7)
            drawn.append((before, Reading(cluster=after.cluster, gold=after.gold, found=left)))
        found = effects.by_words_of_sentence([arm(*drawn)])
        covered.append(found.low <= 0 <= found.high)
    # Of intervals that hold 95 % of the time, fewer than 34 of 40 would hold once in 300 times.
    assert sum(covered) >= 34


def test_entities_that_were_never_found_do_not_count_as_lost(script: Script) -> None:
    effects = script("araujo_effects")
    found, missed = sentence("a", 1, kept=1), sentence("b", 1, kept=0)
    unseen = Reading(cluster="b", gold=missed[0].gold, found=())
    lost = list(effects.lost_entities(arm(found, (unseen, missed[1]))))
    assert [(reading.cluster, is_lost) for reading, _, is_lost in lost] == [("a", False)]


def test_overlap_is_of_folded_words_and_may_rise_or_fall(script: Script) -> None:
    gain = script("araujo_effects").overlap_gain
    pair = SentencePair(id="1", text_a="Aspirin helps", text_b="aspirins heal", score=1.0)
    same = PairCandidate(item=pair)
    closer = PairCandidate(
        item=pair, edits=(Edit(field="text_a", start=8, end=13, replacement="heals"),)
    )
    assert gain([same]).value == 0.0
    assert gain([closer]).value == pytest.approx(1.0 - 1 / 3)


def test_overlap_of_pairs_that_share_a_sentence_is_drawn_as_one(script: Script) -> None:
    """Of eight times five pairs that share a sentence all five come closer, or none does."""
    gain = script("araujo_effects").overlap_gain

    def candidate(cluster: int, n: int, shared: str) -> PairCandidate:
        pair = SentencePair(
            id=f"{cluster}-{n}", text_a=shared, text_b=f"helps {cluster} {n}", score=1.0
        )
        edit = Edit(field="text_a", start=0, end=4, replacement="helps")
        return PairCandidate(item=pair, edits=(edit,) if cluster % 2 else ())

    linked = gain([candidate(c, n, f"heal w{c}") for c in range(8) for n in range(5)])
    apart = gain([candidate(c, n, f"heal w{c}v{n}") for c in range(8) for n in range(5)])
    assert linked.value == pytest.approx(apart.value)
    assert "8 clusters" in linked.method
    assert "40 clusters" in apart.method
    width, alone = (found.high - found.low for found in (linked, apart))
    assert width / alone == pytest.approx(5**0.5, rel=0.15)
    assert gain([]).value is None


SAMPLED = {"datasets": {"bc5cdr": {"n_items": 60, "n_rows": 4797}}}
BY_DOCUMENTS = {
    **SAMPLED,
    "config": {
        "experiment": {"controls": False, "name": "araujo2020-table2"},
        "dataset": [{"limit_documents": 8}],
    },
}
MANIFEST: dict[str, Any] = {
    "config": {"experiment": {"controls": False, "name": "araujo2020-table2"}},
    "training": {},
    "complete": True,
    "seeds": [0],
    "datasets": {"bc5cdr": {"n_items": 60, "n_rows": 60}},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"config": {"experiment": {"controls": False, "name": "mine"}}},
            "table2 to -table6, got 'mine'",
        ),
        ({"complete": False}, "is not finished"),
        ({"seeds": [0, 1]}, "expected one seed of the attacks"),
        (SAMPLED, "60 of 4797 items"),
        ({**BY_DOCUMENTS, "command": "medstress train x --limit 60"}, "60 of 4797 items"),
    ],
)
def test_a_run_is_refused_where_it_is_another_a_sample_or_not_finished(
    script: Script, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    (tmp_path / "training.json").touch()
    with pytest.raises(UsageError, match=says):
        script("araujo_collect").check(tmp_path, {**MANIFEST, **change}, sample=False)


def test_a_run_whose_models_are_still_trained_is_not_finished(
    script: Script, tmp_path: Path
) -> None:
    check = script("araujo_collect").check
    with pytest.raises(UsageError, match="is not finished"):
        check(tmp_path, MANIFEST, sample=False)
    (tmp_path / "training.json").touch()
    check(tmp_path, MANIFEST, sample=False)
    check(tmp_path, {**MANIFEST, **SAMPLED}, sample=True)
    # A sample that the experiment itself draws is a result, and is called a sample.
    check(tmp_path, {**MANIFEST, **BY_DOCUMENTS}, sample=False)


def test_samples_are_not_written_among_the_results(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    parse = script("araujo_collect").parse
    for arguments, says in (
        (["run", "--sample"], "samples are no results"),
        ([], "expected run folders"),
        (["run", "--page-only"], "expected run folders, or --page-only"),
    ):
        with pytest.raises(SystemExit):
            parse(arguments)
        assert says in capsys.readouterr().err
