"""On real questions: how many variants controls have, and what paraphrases keep.

A control's pool must hold four times the default budget on 95 % of items.
"""

import random
import time
from dataclasses import replace
from itertools import islice

import pytest
from numpy.random import default_rng

from medstress.attacks.controls.harmless import NeutralInsertion, NoOp
from medstress.attacks.controls.paraphrase import (
    Paraphrase,
    facts_of,
)
from medstress.datasets.named import load_medmcqa, load_medqa, load_sample
from medstress.datasets.source import DatasetOptions
from medstress.entities.recognisers import shipped_gazetteer
from medstress.testing import tiny_resources

N = 200
FOUR_BUDGETS = 32
FILES = {"medqa": "qa/medqa_dev.jsonl", "medmcqa": "qa/medmcqa_train_leaner_typed.parquet"}
LOAD = {"medqa": load_medqa, "medmcqa": load_medmcqa, "sample": load_sample}


def _names_in(text):
    (mentions,) = shipped_gazetteer().find([text])
    return [text[each.start : each.end] for each in mentions]


RESOURCES = replace(tiny_resources(), names_in=_names_in)


@pytest.fixture(params=["medqa", "medmcqa", "sample"])
def items(request, published):
    """200 questions, drawn by a fixed seed; the sample set is shipped."""
    name = request.param
    path = published(FILES[name]) if name in FILES else None
    found = LOAD[name](DatasetOptions(path=path)).items
    return random.Random(0).sample(list(found), N)


@pytest.mark.parametrize("control", [NoOp(), NeutralInsertion(), Paraphrase()])
def test_a_pool_holds_four_budgets_on_95_of_100_items(items, control):
    n = [control.n_variants(item, RESOURCES) for item in items]
    assert sum(each >= FOUR_BUDGETS for each in n) >= 0.95 * N


@pytest.mark.parametrize("control", [NoOp(), NeutralInsertion(), Paraphrase()])
def test_variants_are_distinct_keep_the_facts_and_take_no_time(items, control):
    n = 0
    began = time.process_time()
    drawn = []
    for item in items:
        variants = control.variants(item, default_rng(1), RESOURCES)
        drawn.append(list(islice(variants, 8)))
        n += len(drawn[-1])
    seconds = time.process_time() - began
    assert seconds / n < 1e-3
    for item, candidates in zip(items, drawn, strict=True):
        texts = {each.question for each in candidates}
        assert len(texts) == len(candidates) == min(8, control.n_variants(item, RESOURCES))
        assert item.question not in texts
        for text in texts:
            numbers, kept = facts_of(text)
            assert (numbers, kept) == facts_of(item.question)
