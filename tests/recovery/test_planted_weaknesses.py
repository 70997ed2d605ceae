"""Victims with a known weakness, attacked end to end: what must be found, and at what price."""

from types import MappingProxyType

import pytest

from medstress.api.run import run
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.testing import REPLACEMENTS, tiny_questions
from question_rows import as_row, swap_tables
from rows import rows_of

ITEMS = tiny_questions(8)
ROWS = tuple(map(as_row, ITEMS))
SAMPLERS = {
    "random": {"sampler": "random"},
    "pdws near": {"sampler": "pdws", "n": -20},
    "pdws far": {"sampler": "pdws", "n": 20},
    "nearest": {"sampler": "nearest"},
    "farthest": {"sampler": "farthest"},
}
WEAK = REPLACEMENTS[1::2]
TWINS = tuple(sorted({f"{item.key_text.lower()}ex" for item in ITEMS}))
FILLERS = tuple(f"{name}{ending}" for name in REPLACEMENTS for ending in ("", "yl", "ium", "an"))

VICTIM = """
from medstress.testing import planted, tiny_questions

ITEMS = tiny_questions({n})
rule = {rule}

def answer(prompts):
    return rule(prompts)
"""
NEVER = "planted(ITEMS, lambda *_: False)"
ANY_CHANGE = "planted(ITEMS, lambda item, options: options != item.options)"
WEAK_NAMES = f"planted(ITEMS, lambda _, options: any(o.lower() in {WEAK!r} for o in options))"


def attack(
    folder,
    rule,
    budget,
    samplers=tuple(SAMPLERS),
    *,
    names=REPLACEMENTS,
    rows=ROWS,
    victim=MappingProxyType({}),
    **settings,
):
    """Write victim, rows and vocabulary, and run the experiment."""
    source = VICTIM.format(n=len(ITEMS), rule=rule)
    arms = [{"label": name, "budget": budget, **SAMPLERS[name]} for name in samplers]
    named = [{"name": "planted", **victim}]
    return run(
        swap_tables(folder, source, rows, names, arms, named, **settings), out=folder / "run"
    )


def results(found):
    """Rows of results by attack (and seed, where there are several)."""
    summary = found.summary()
    assert summary["experiment"]["complete"]
    return {f"{r['attack']}/{r['seed']}": r for r in summary["by_seed"]}


def ledger(**given):
    names = ("asked", "paid", "cached", "failed", "ahead", "baseline", "other", "interrupted")
    return dict.fromkeys(names, 0) | given


def test_every_sampler_finds_what_half_of_the_names_reveal(tmp_path):
    """Six of twelve names break the victim, so seven draws without replacement must hit one."""
    found = attack(tmp_path, WEAK_NAMES, 7)
    for result in results(found).values():
        assert result["asr"]["value"] == 1
        assert (result["n_flipped"], result["n_held"], result["accuracy"]["value"]) == (8, 0, 1)
        asked = sum(t.n_asked for t in rows_of(found) if t.attack == result["attack"])
        queries = result["queries"]
        assert queries["asked"] == queries["paid"] + queries["cached"] == asked
        assert (queries["failed"], queries["baseline"], queries["other"]) == (0, 8, 8)
    for trial in rows_of(found):
        assert trial.n_asked == trial.first_success
        assert str(trial.replacement).lower() in WEAK
        assert trial.option != trial.key
        assert trial.repeats is True


def test_what_any_change_reveals_is_found_at_the_first_query(tmp_path):
    found = attack(tmp_path, ANY_CHANGE, 7)
    rows, by_arm = rows_of(found), results(found)
    assert {trial.first_success for trial in rows} == {1}
    for result in by_arm.values():
        assert result["asr"]["value"] == result["asr_at"][0]["value"] == 1
        assert {name: result["queries"][name] for name in ("asked", "baseline", "other")} == {
            "asked": 8,
            "baseline": 8,
            "other": 8,
        }
    # Arms that hit on the same name share its one call; the first in the plan pays it.
    distinct = {(trial.item_id, trial.prompt_after) for trial in rows}
    assert sum(trial.n_paid for trial in rows) == len(distinct)
    assert sum(trial.n_cached for trial in rows) == 8 * len(SAMPLERS) - len(distinct)
    assert by_arm["random/0"]["queries"]["paid"] == 8


def test_only_nearest_finds_the_twin_of_the_key_at_budget_1(tmp_path):
    """The one name that breaks an item is spelled like its key but for an ending."""
    rule = "planted(ITEMS, lambda item, options: item.key_text + 'ex' in options)"
    samplers = ("nearest", "farthest", "random", "pdws far")
    names = (*FILLERS, *TWINS)
    found = results(attack(tmp_path, rule, 1, samplers, names=names))
    values = {name: result["asr"]["value"] for name, result in found.items()}
    assert values == {"nearest/None": 1, "farthest/None": 0, "random/0": 0, "pdws far/0": 0}
    assert found["nearest/None"]["queries"] == ledger(asked=8, paid=8, baseline=8, other=8)
    assert found["farthest/None"]["queries"] == ledger(asked=8, paid=8, baseline=8)


def test_a_large_budget_finds_the_twin_with_every_sampler(tmp_path):
    rule = "planted(ITEMS, lambda item, options: item.key_text + 'ex' in options)"
    names = (*REPLACEMENTS, *TWINS)
    found = results(attack(tmp_path, rule, len(names), names=names))
    assert {result["asr"]["value"] for result in found.values()} == {1}
    farthest = found["farthest/None"]["queries_to_success"]
    assert farthest["mean"] == len(names)
    assert found["nearest/None"]["queries_to_success"]["mean"] == 1


def test_without_a_weakness_everything_holds(tmp_path):
    found = attack(tmp_path, NEVER, 5, seeds=[0, 1])
    by_arm = results(found)
    assert len(by_arm) == 3 * 2 + 2
    for result in by_arm.values():
        assert (result["n_held"], result["n_flipped"]) == (8, 0)
        assert result["asr"]["value"] == 0
        queries = result["queries"]
        assert queries["asked"] == queries["paid"] + queries["cached"] == 40
        assert (queries["failed"], queries["baseline"], queries["other"]) == (0, 8, 0)
    assert found.summary()["performance"]["calls"] == 8 + sum(
        result["queries"]["paid"] for result in by_arm.values()
    )


def test_a_repeated_arm_is_read_from_the_cache_and_asks_as_much(tmp_path):
    attack(tmp_path, NEVER, 5, ["nearest"])
    SAMPLERS["nearest again"] = SAMPLERS["nearest"]
    try:
        found = results(attack(tmp_path, NEVER, 5, ["nearest", "nearest again"]))
    finally:
        del SAMPLERS["nearest again"]
    assert found["nearest/None"]["queries"] == ledger(asked=40, paid=40, baseline=8)
    assert found["nearest again/None"]["queries"] == ledger(asked=40, cached=40, baseline=8)


def test_items_that_are_wrong_or_out_of_reach_are_counted_and_not_attacked(tmp_path):
    """The victim knows items 2 to 7; items 6 and 7 mention no entity."""
    rule = "planted(ITEMS, lambda item, options: item.id in ('tiny-0', 'tiny-1'))"
    rows = [as_row(item) for item in ITEMS]
    for bare in rows[6:]:
        del bare["mentions"]
    (result,) = results(attack(tmp_path, rule, 3, ["nearest"], rows=rows)).values()
    assert (result["n_items"], result["n_already_wrong"], result["n_not_attackable"]) == (8, 2, 2)
    assert (result["n_eligible"], result["n_held"]) == (4, 4)
    assert result["accuracy"]["value"] == pytest.approx(4 / 6)
    assert result["queries"] == ledger(asked=12, paid=12, baseline=6)


def test_a_function_that_is_mended_need_not_start_over_where_it_has_a_version(tmp_path):
    """What the refusal promises: answers are kept, and a victim with a version resumes."""
    with pytest.raises(UsageError, match="mend the function and run again"):
        attack(tmp_path, "lambda prompts: []", 2, ["nearest"], victim={"version": "1"})
    found = attack(tmp_path, NEVER, 2, ["nearest"], victim={"version": "1"})
    assert {trial.verdict for trial in rows_of(found)} == {Verdict.HELD}
