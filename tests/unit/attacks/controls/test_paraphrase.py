"""Paraphrases: facts are kept, a fifth of the words changes, and every variant is distinct."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from numpy.random import default_rng

from medstress.attacks.controls.paraphrase import (
    Original,
    Paraphrase,
    facts_of,
    rewording_of,
    share_changed,
    words_of,
)
from medstress.attacks.variants import shipped
from medstress.core.calls import Decoding, Generated
from medstress.core.items import Mention, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, Consult
from medstress.testing import tiny_questions, tiny_resources

RESOURCES = tiny_resources()
VIGNETTE = (
    "A 45-year-old man presents with chest pain because of a fall 2 days ago. He denies fever. "
    "His pulse is 80/min, and his temperature is 37.2°C (99°F). Physical examination "
    "shows no edema."
)


def question(stem, context="", **more):
    return Question(id="q", stem=stem, context=context, options=("a", "b"), key="A", **more)


CASE = question("Which of the following is the most likely diagnosis?", VIGNETTE)
SHORT = question("Drug of choice for absence seizures is:")


def texts(item, n, seed=0):
    drawn = Paraphrase().variants(item, default_rng(seed), RESOURCES)
    return [candidate.question for candidate in islice(drawn, n)]


@pytest.mark.parametrize("item", [CASE, SHORT, *tiny_questions(3)])
def test_variants_are_distinct_change_a_fifth_of_the_words_and_keep_every_fact(item):
    n = Paraphrase().n_variants(item, RESOURCES)
    assert n >= 4 * Paraphrase().budget
    found = texts(item, 200)
    assert len(set(found)) == len(found) == min(n, 200)
    for text in found:
        assert share_changed(words_of(item.question), words_of(text)) >= 0.2
        assert facts_of(text) == facts_of(item.question)


def test_the_draws_do_not_depend_on_how_many_are_taken():
    assert texts(CASE, 100)[:8] == texts(CASE, 8) != texts(CASE, 8, seed=1)


def test_every_phrase_and_lead_in_of_the_lexicon_keeps_the_facts():
    for rule in shipped("rewording.toml")["rule"]:
        assert rule["to"], rule
        for old in rule["of"]:
            for new in rule["to"]:
                assert Original(old).lost_in(new) is None, (old, new)
    leads = shipped("lead_ins.toml")
    task = (text for texts in leads["task"].values() for text in texts)
    for text in (*(one for name in list(leads)[:4] for one in leads[name]), *task):
        assert Original("").lost_in(text) is None, text


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("a pulse of 80", "a pulse of 88", "number"),
        ("80 then 90", "90 then 80", "number"),
        ("37.2 degrees", "37 degrees", "number"),
        ("no fever", "fever", "denial"),
        ("denies fever", "has fever", "denies"),
        ("the left arm", "the right arm", "left"),
        ("he coughs", "she coughs", "he"),
        ("for 2 days", "for 2 weeks", "day"),
        ("before surgery", "after surgery", "before"),
        ("takes heparin", "takes warfarin", "heparin"),
        ("it was absent", "it was there", "absence"),
    ],
)
def test_a_lost_fact_is_found(before, after, lost):
    assert Original(before, ("Heparin",) if lost == "heparin" else ()).lost_in(after) == lost
    assert Original(before, ("Heparin",)).lost_in(before) is None


def test_names_and_mentions_are_never_touched():
    stem = "Because of A 3-year-old boy drug of choice is also due to what?"
    touched = {site.old for site in rewording_of(question(stem)).sites}
    assert {"drug of choice", "also"} <= touched
    mention = Mention(field="stem", start=stem.index("drug"), end=stem.index(" is"), type="T1")
    kept = rewording_of(question(stem, mentions=(mention,)), ("also",))
    assert not {"drug of choice", "also"} & {site.old for site in kept.sites}
    assert Paraphrase().needs == {"mentions", "paraphraser"}


def test_an_item_that_cannot_be_reworded_is_not_attackable():
    item = question("Values.\n" + "\n".join(f"Na+ {i} mEq/L" for i in range(140, 300)))
    assert "fifth of its words" in str(Paraphrase().obstacle(item, RESOURCES))
    assert Paraphrase().obstacle(CASE, RESOURCES) is None


WRITTEN = {
    "good": (
        "A man aged 45 years comes in on account of chest pain brought about by "
        "falling 2 days ago. He denies being feverish. "
        "Pulse and temperature (his) are 80/min and 37.2°C (99°F). "
        "Examining the body brings no edema to light.",
        "What is the most likely diagnosis?",
    ),
    "wrong number": (VIGNETTE.replace("80", "81") + " More words were added to this text here.",
                     "What is it?"),
    "nearly equal": (VIGNETTE, CASE.stem),
}  # fmt: skip


def play(replies, temperature=1.0, budget=8):
    """Return what is asked of a victim that never errs, and how often the role was asked."""
    resources = replace(RESOURCES, roles={"paraphraser": Decoding(temperature=temperature)})
    flow = Paraphrase(budget=budget).run(CASE, default_rng(0), resources)
    step: Any = next(flow)
    asked, n_calls = [], 0
    try:
        while True:
            if isinstance(step, Consult):
                n_calls += len(step.calls)
                assert VIGNETTE in step.calls[0].prompt[0].content
                told = (replies[i % len(replies)] for i in range(len(step.calls)))
                step = flow.send(tuple(Generated(text=text) for text in told))
            else:
                assert isinstance(step, Ask)
                asked += [query.candidate for query in step.queries]
                step = flow.send((Prediction(outcome=Outcome.RIGHT, answer="A"),))
    except StopIteration:
        return asked, n_calls


def reply(name):
    context, stem = WRITTEN[name]
    return json.dumps({"context": context, "question": stem})


def test_a_role_writes_the_paraphrase_and_the_check_drops_what_loses_a_fact():
    assert WRITTEN["good"][0].count("45") == 1
    asked, n_calls = play([reply("good"), reply("wrong number"), reply("nearly equal"), "no JSON"])
    assert (len(asked), n_calls) == (8, 8)
    assert [(each.context, each.stem) for each in asked[:1]] == [WRITTEN["good"]]
    assert [each.question for each in asked[1:]] == texts_of_spare(7)


def texts_of_spare(n):
    """The lexicon's variants after the draw of the role's sample index."""
    rng = default_rng(0)
    rng.integers(1, 2**31)
    drawn = Paraphrase().variants(CASE, rng, RESOURCES)
    return [candidate.question for candidate in islice(drawn, n)]
