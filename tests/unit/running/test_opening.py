"""The table of cases: what a command may do with a run folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from medstress.core.errors import OtherRunError, StoreError, UsageError
from medstress.core.hashing import content_hash
from medstress.experiment.manifest import (
    Fingerprint,
    Held,
    Verb,
    Wish,
    additions,
    decide,
    differences,
)
from medstress.store.shards import Shard

FIRST, SECOND = content_hash(["q1", "1"]), content_hash(["q2", "2"])
SAME = Fingerprint(
    seeds=(0,),
    settings={"flip_check": True},
    items={"d/drugs": frozenset([FIRST])},
    groups={"drugs": "g"},
    victims={"m": "1"},
    attacks={"near": "a"},
)
MORE = {
    "seeds": replace(SAME, seeds=(0, 1)),
    "items": replace(SAME, items={"d/drugs": frozenset([FIRST, SECOND])}),
    "dataset": replace(SAME, items={**SAME.items, "e/drugs": frozenset([SECOND])}),
    "group": replace(SAME, groups={"drugs": "g", "diseases": "h"}),
    "victim": replace(SAME, victims={"m": "1", "n": "2"}),
    "attack": replace(SAME, attacks={"near": "a", "far": "b"}),
    "role": replace(SAME, roles={"judge": "j"}),
    "follow-up": replace(SAME, follow_ups={"transfer": "t"}),
}
OTHER = {
    "seeds": (replace(SAME, seeds=(1,)), "seeds [0] are missing"),
    "setting": (replace(SAME, settings={"flip_check": False}), "flip_check was true, is false"),
    "part": (replace(SAME, settings={**SAME.settings, "tune": 1}), "tune was not set, is 1"),
    "items": (replace(SAME, items={"d/drugs": frozenset()}), "1 item of dataset 'd' is missing"),
    "dataset": (replace(SAME, items={"e/drugs": frozenset([FIRST])}), "dataset 'd' is missing"),
    "group": (replace(SAME, groups={"drugs": "x"}), "entity group 'drugs' changed"),
    "victim": (replace(SAME, victims={"n": "1"}), "now called 'n': label it 'm'"),
    "attack": (replace(SAME, attacks={"far": "b"}), "attack 'near' is missing (new: 'far')"),
    "prompt": (
        replace(SAME, prompts={"m": {"d": "p"}}),
        "the prompt of model 'm' for dataset 'd'",
    ),
}
JUDGED = replace(SAME, criteria="c")
OPEN = Held(folder=Path("runs/x"), fingerprint=SAME, items=[("d", "q1", "1")])
COMPLETE = replace(OPEN, is_complete=True)
UNANSWERED = replace(OPEN, has_answers=False)
SHARD = Shard(3, 1)
PART = replace(OPEN, shard=SHARD)
ASKS, RETRIES, FRESH = Wish(asks_again=True), Wish(retry_failed=True), Wish(fresh=True)
RUN = Wish()


@pytest.mark.parametrize(
    ("held", "now", "wish", "verb"),
    [
        (None, SAME, RUN, Verb.BEGIN),
        (None, SAME, FRESH, Verb.BEGIN),
        (COMPLETE, OTHER["attack"][0], FRESH, Verb.BEGIN),
        (PART, OTHER["attack"][0], FRESH, Verb.BEGIN),
        (UNANSWERED, SAME, RUN, Verb.RETRY),
        (UNANSWERED, SAME, RETRIES, Verb.RETRY),
        (UNANSWERED, JUDGED, RUN, Verb.RETRY),
        *((UNANSWERED, now, RUN, Verb.RETRY) for now in MORE.values()),
        (OPEN, SAME, RUN, Verb.RESUME),
        (OPEN, SAME, RETRIES, Verb.RESUME),
        (replace(OPEN, n_lost=2), SAME, RUN, Verb.RESUME),
        (replace(OPEN, n_lost=2), SAME, RETRIES, Verb.RETRY),
        (COMPLETE, SAME, RUN, Verb.NOTHING),
        (COMPLETE, SAME, RETRIES, Verb.NOTHING),
        (replace(COMPLETE, n_lost=2), SAME, RUN, Verb.NOTHING),
        (replace(COMPLETE, n_lost=2), SAME, RETRIES, Verb.RETRY),
        *((COMPLETE, now, RUN, Verb.EXTEND) for now in MORE.values()),
        *((OPEN, now, RUN, Verb.EXTEND) for name, now in MORE.items() if name != "follow-up"),
        (OPEN, MORE["follow-up"], RUN, Verb.RESUME),
        (replace(COMPLETE, n_lost=2), MORE["items"], RETRIES, Verb.RETRY),
        (PART, SAME, Wish(shard=SHARD), Verb.RESUME),
        (PART, MORE["items"], Wish(shard=SHARD), Verb.EXTEND),
        (replace(COMPLETE, fingerprint=JUDGED), JUDGED, RUN, Verb.NOTHING),
        (
            replace(COMPLETE, fingerprint=JUDGED),
            replace(MORE["items"], criteria="c"),
            RUN,
            Verb.EXTEND,
        ),
        (COMPLETE, replace(MORE["follow-up"], follow_ups={}), RUN, Verb.NOTHING),
        *((held, SAME, ASKS, Verb.ASK) for held in (OPEN, COMPLETE, UNANSWERED)),
        *((COMPLETE, now, ASKS, Verb.ASK) for now in MORE.values()),
        (COMPLETE, JUDGED, ASKS, Verb.ASK),
    ],
)
def test_what_a_command_may_do(held, now, wish, verb):
    opening = decide(now, held, wish)
    assert opening.verb is verb
    assert not opening.deletes
    assert opening.more or verb is not Verb.EXTEND
    assert verb not in (Verb.BEGIN, Verb.RESUME, Verb.NOTHING) or not opening.more


@pytest.mark.parametrize("now", [now for now, _ in OTHER.values()])
def test_a_folder_that_no_model_has_answered_gives_way_to_another_experiment(now):
    opening = decide(now, UNANSWERED)
    assert (opening.verb, opening.deletes) == (Verb.BEGIN, True)


@pytest.mark.parametrize(
    ("held", "now", "wish", "kind", "words"),
    [
        (None, SAME, ASKS, UsageError, "no run"),
        (PART, SAME, ASKS, StoreError, "merge the shards"),
        (OPEN, SAME, Wish(shard=SHARD), OtherRunError, "a whole run, but shard is 1/3"),
        (PART, SAME, RUN, OtherRunError, 'shard 1/3, but shard is not given; give shard="1/3"'),
        (PART, SAME, Wish(shard=Shard(3, 2)), OtherRunError, "shard 1/3, but shard is 2/3"),
        *((OPEN, now, RUN, OtherRunError, words) for now, words in OTHER.values()),
        *((COMPLETE, now, RETRIES, OtherRunError, words) for now, words in OTHER.values()),
        *(
            (COMPLETE, now, ASKS, StoreError, words)
            for name, (now, words) in OTHER.items()
            if name in ("seeds", "setting", "dataset", "victim")
        ),
        (OPEN, JUDGED, RUN, UsageError, "began without criteria"),
        (replace(OPEN, fingerprint=JUDGED), SAME, RUN, UsageError, "has other criteria"),
        (
            replace(OPEN, fingerprint=JUDGED),
            replace(MORE["seeds"], criteria="c"),
            RUN,
            UsageError,
            "more seeds would change items",
        ),
    ],
)
def test_what_is_refused(held, now, wish, kind, words):
    with pytest.raises(kind) as error:
        decide(now, held, wish)
    assert words in str(error.value)
    assert ("--experiment" in str(error.value)) == (wish is ASKS and held is COMPLETE)


def test_all_that_differs_is_named_at_once():
    now = replace(SAME, seeds=(1,), victims={"m": "2"}, attacks={"near": "b"})
    with pytest.raises(OtherRunError) as error:
        decide(now, OPEN)
    named = "seeds [0] are missing; model 'm' changed; attack 'near' changed. Choose"
    assert named in str(error.value)


def test_a_shard_whose_items_went_to_others_is_merged_first():
    assert decide(SAME, PART, Wish(shard=SHARD), {"d": ["q1"]}).verb is Verb.RESUME
    with pytest.raises(OtherRunError, match="1 items, such as 'q1', that belong to other shards"):
        decide(SAME, PART, Wish(shard=SHARD), {"d": ["q2"]})
    assert decide(SAME, OPEN, RUN, {"d": ["q2"]}).verb is Verb.RESUME, "a whole run has no others"


def test_more_is_asked_of_a_run_of_tuning_whose_settings_the_file_lacks():
    tuned = replace(SAME, settings={**SAME.settings, "tune": {"part": "report"}})
    assert decide(SAME, replace(COMPLETE, fingerprint=tuned), ASKS).verb is Verb.ASK
    with pytest.raises(OtherRunError, match="tune was"):
        decide(SAME, replace(COMPLETE, fingerprint=tuned))


def test_items_that_changed_with_a_dropped_group_are_not_named():
    old = replace(SAME, groups={"drugs": "g", "diseases": "h"})
    new = replace(SAME, items={"d/drugs": frozenset([content_hash(["q1", "2"])])})
    begun = [("d", "q1", "1")]
    assert list(differences(old, new, RUN, begun, {"d": ["q1"]})) == [
        "entity group 'diseases' is missing"
    ]
    lost = list(differences(old, new, RUN, begun, {"d": []}))
    assert any("missing: 'q1'" in one for one in lost)


def test_an_extension_says_what_it_adds():
    words = {name: list(additions(SAME, now)) for name, now in MORE.items()}
    assert words == {
        "seeds": ["seeds [1]"],
        "items": ["1 items of d/drugs"],
        "dataset": ["1 items of e/drugs"],
        "group": ["entity group 'diseases'"],
        "victim": ["model 'n'"],
        "attack": ["attack 'far'"],
        "role": ["role 'judge'"],
        "follow-up": ["transfer"],
    }
    assert not list(additions(SAME, SAME))
