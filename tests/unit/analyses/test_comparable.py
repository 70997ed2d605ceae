"""What differs between two runs, what is refused, and what stored edits allow."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medstress.analyses.comparable import Differs, check_same, differences
from medstress.analyses.compare import Comparison, Side, compare
from medstress.analyses.run import Run, pair
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from planted_trials import NEAR, arm, edit, planted_run, trial

MANIFEST: dict[str, Any] = {
    "fingerprint": "f",
    "versions": {"medstress": "1", "torch": "2.1"},
    "parts": {"settings": {"flip_check": True}, "groups": {"drugs": "g"}},
    "groups": {"drugs": {"n_names": 40, "vocabulary": "drugs", "embedding": "ngram"}},
    "victims": {
        "model": {
            "model": "m",
            "model_hash": "1",
            "task": {"answer_by": "letter", "template": "t", "decoding": [128, 0.0]},
            "prompt": {"name": "qstab"},
        }
    },
}
TASK = "victims.model.task"
KEEP = MANIFEST["victims"]["model"]["task"]


def run_of(rows: list[Trial], changes: Mapping[str, Any] | None = None, **parts: Any) -> Run:
    """Return a run whose manifest is changed: dotted path -> value."""
    manifest = copy.deepcopy(MANIFEST)
    for path, value in (changes or {}).items():
        *above, last = path.split(".")
        place = manifest
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
    return planted_run(rows, **{**manifest, **parts})


def listed(changes: Mapping[str, Any], **attack: Any) -> list[Differs]:
    """Return what differs from a run of which something is changed."""
    runs = run_of([trial(1)]), run_of([trial(1, arm(replace(NEAR, **attack)))], changes)
    a, b = (run.cells[0] for run in runs)
    return differences(runs[0], a, runs[1], b, pair(a, b))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, []),
        ({"versions.torch": "2.2"}, ["torch"]),
        ({"parts.settings": {"flip_check": False}}, ["[experiment] flip_check"]),
        ({"victims.model.model": "other", "victims.model.model_hash": "2"}, ["model"]),
        ({"victims.model.model_hash": "2"}, ["weights, settings or code of m"]),
        ({"versions.medstress": "2"}, ["medstress"]),
        ({"victims.model.model": "same weights elsewhere"}, []),
        ({f"{TASK}.template": "u"}, ["prompt"]),
        ({f"{TASK}.answer_by": "generate", f"{TASK}.decoding": [9, 1.0]}, ["answer_by"]),
        ({f"{TASK}.decoding": [9, 0.0]}, []),  # letters are not decoded
        ({TASK: {"wrap": "majority", "k": 5, "task": KEEP}}, ["wrap"]),
        ({TASK: {"wrap": "few_shot", "task": KEEP}}, ["shots"]),
        ({"parts.groups.drugs": "h", "groups.drugs.embedding": "minilm"}, ["names: embedding"]),
        ({"parts.groups.drugs": "h"}, ["names: words, types, synonyms"]),
        (
            {f"{TASK}.template": "u", "victims.model.model_hash": "2", "versions.torch": "3"},
            ["weights, settings or code of m", "prompt", "torch"],
        ),
    ],
)
def test_what_differs_is_listed(changes, what):
    assert [one.what for one in listed(changes)] == what


def test_attacks_differ_in_parameters_or_in_name():
    params = {**NEAR.params, "budget": 9, "sampler": "random"}
    assert [one.what for one in listed({}, params=params)] == ["attack: sampler", "attack: budget"]
    assert [one.what for one in listed({}, params={"name": "zoo", "k": 1})] == ["attack"]
    roles = {"parts.roles": {"attacker": "2"}, "roles": {"attacker": {"model": "x"}}}
    for attempts, factor in ((3, "attack"), (None, None)):
        (one,) = listed(roles, attempts=attempts)
        assert (one.what, one.factor) == ("model of the attacker", factor)


def test_only_what_makes_pairs_meaningless_is_refused(said):
    for changes in ({"victims.model.model_hash": "2"}, {f"{TASK}.template": "u"}):
        check_same(listed(changes), "victim", "near")
    other = listed({"parts.groups.drugs": "h", "groups.drugs.vocabulary": "others"})
    with pytest.raises(UsageError) as error:
        check_same(other, "victim", "near")
    said(str(error.value), "'near'", "vocabulary drugs in A, others in B", 'factor="group"')
    check_same(other, "group", "near")
    stronger = listed({}, params={**NEAR.params, "budget": 9})
    with pytest.raises(UsageError, match='factor="attack"'):
        check_same(stronger, "group", "near")
    # An attack that draws no names does not care where they come from.
    assert listed({"parts.groups.drugs": "h"}, draws_names=False) == []


# Stored edits.

SPEC = {
    "name": "attacked",
    "budget": 4,
    "of": {**NEAR.params, "budget": 4},
    "set": "s",
    "selection": "all",
    "is_blind": True,
    "source": {"fingerprint": "f", "victim": "model", "model_hash": "1"},
}
NEW = {"victims.model.model": "new", "victims.model.model_hash": "2"}


def stored(
    *firsts: int | None, changes: Mapping[str, Any] | None = None, spec: Any = SPEC, **how: Any
) -> Run:
    """Return a run flipped at these queries; None: held; 0: wrong before. Each asked two names."""
    attack = replace(NEAR, name=spec["name"], budget=4, params=spec)
    rows, queries = [], {}
    for i, first in enumerate(firsts):
        fate = {"verdict": Verdict.ALREADY_WRONG} if first == 0 else {"flipped_at": first}
        rows.append(trial(i, arm(attack), **fate, **how))
        queries[i + 1] = [(q, (edit(f"name {(i + q) % 7}"),)) for q in (1, 2)]
    return run_of(rows, changes, edits=queries)


def on(a: Run, b: Run, **settings: Any) -> Comparison:
    return compare(Side(run=a), Side(run=b), **settings)


def test_on_successes_alone_a_worse_model_would_look_better_and_nothing_is_decided(said):
    """A lost 10 of 100 items, the 10 of the file; B loses 30 of 100, and 5 of these 10."""
    spec = {**SPEC, "selection": "flipped"}
    a, b = stored(*[1] * 10, spec=spec), stored(*[1] * 5, *[None] * 5, changes=NEW, spec=spec)
    with pytest.raises(UsageError) as error:
        on(a, b)
    said(str(error.value), "looks better")


def test_only_the_first_edit_and_what_both_know_count():
    """A's later flips are why its lists end; items wrong in B say nothing of the attack."""
    found = on(stored(1, 2, 3, None, 1, None), stored(None, 1, None, 1, 0, 0, changes=NEW))
    (row,) = found.rows
    assert (row.metric, row.n_pairs) == ("asr", 4)
    assert (row.value_a.value, row.value_b.value) == (1 / 4, 2 / 4)
    assert row.names_like_these is not None  # the name of the first edit alone
    assert any("first edit" in note and "no answer chose it" in note for note in found.notes)


def test_the_model_whose_answers_led_to_the_edits_is_no_side():
    spec = {**SPEC, "is_blind": False}
    b = stored(None, 1, changes=NEW, spec=spec)
    with pytest.raises(UsageError, match="follow from answers"):
        on(stored(1, None, spec=spec), b)
    third = {"victims.model.model": "third", "victims.model.model_hash": "3"}
    found = on(stored(1, None, changes=third, spec=spec), b)
    assert any("led to the edits" in note for note in found.notes)


def test_equal_models_come_out_equal_although_one_of_them_chose_the_set():
    """A and B err at random on 3 of 10 edits; A's first error ends the list of an item."""
    rng = np.random.default_rng(4)
    firsts: tuple[list[int | None], list[int | None]] = ([], [])
    for a, b in zip(*(rng.random((2, 800, 4)) < 0.3), strict=True):
        length = 1 + int(np.argmax(a)) if a.any() else 4
        firsts[0].append(length if a.any() else None)
        firsts[1].append(1 + int(np.argmax(b[:length])) if b[:length].any() else None)
    lost = [sum(first is not None for first in own) / 800 for own in firsts]
    assert lost[0] - lost[1] > 0.15  # up to the last edit B would look far better
    found = on(stored(*firsts[0]), stored(*firsts[1], changes=NEW))
    assert found.verdict == "undecided"
    assert abs(found.rows[0].difference.value or 0) < 0.06


WAYS = {
    "text": "the likeliest option",
    "letter": "the likeliest letter",
    "choice": "a function's own",
    "generate": "a written reply",
}


@pytest.mark.parametrize(
    ("ways", "again", "alike"),
    [
        (("text", "letter"), "B", "answer_by=text"),
        (("choice", "text"), "B", "answer_by=generate"),
        (("text", "choice"), "A", "answer_by=generate"),
        (("choice", "generate"), "", ""),
    ],
)
def test_models_that_answer_in_different_ways_are_compared_and_told_what_makes_them_alike(
    ways: tuple[str, str], again: str, alike: str
) -> None:
    sides = [Side(run=run_of([trial(1)], {f"{TASK}.answer_by": way})) for way in ways]
    found = compare(*sides)
    (caution,) = [note for note in found.notes if "The answer is" in note]
    a, b = map(WAYS.__getitem__, ways)
    assert caution.startswith(f"The answer is {a} in A and {b} in B, so")
    assert any(f"answer ({a} in A, {b} in B)" in one.sentence for one in found.remarks())
    assert f"run {again} again" in caution if again else "again" not in caution
    assert alike in caution
