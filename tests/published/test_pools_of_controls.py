"""On real questions: how many variants controls have, and what paraphrases keep.

A control's pool must hold four times the default budget on 95 % of items.
"""

import random
import time
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest
from numpy.random import default_rng

from medstress.attacks.controls.harmless import NeutralInsertion, NoOp
from medstress.attacks.controls.paraphrase import Paraphrase, facts_of
from medstress.datasets.named import load_medmcqa, load_medqa, load_sample
from medstress.datasets.source import DatasetOptions
from medstress.entities.recognisers import shipped_gazetteer
from medstress.testing import tiny_resources

N = 40
FOUR_BUDGETS = 32
FILES = {"medqa": "qa/medqa_dev.jsonl", "medmcqa": "qa/medmcqa_train_leaner_typed.parquet"}
LOAD = {"medqa": load_medqa, "medmcqa": load_medmcqa, "sample": load_sample}


def _names_in(text):
    (mentions,) = shipped_gazetteer().find([text])
    return [text[each.start : each.end] for each in mentions]


RESOURCES = replace(tiny_resources(), names_in=_names_in)


@pytest.fixture(params=["medqa", "medmcqa", "sample"])
def items(request, published):
    """Questions, drawn by a fixed seed; the sample set is shipped."""
    name = request.param
    return some_of(name, published(FILES[name]) if name in FILES else None)


@cache
def some_of(name, path):
    return random.Random(0).sample(list(LOAD[name](DatasetOptions(path=path)).items), N)


@pytest.mark.parametrize("control", [NoOp(), NeutralInsertion(), Paraphrase()])
def test_pools_are_large_and_variants_are_distinct_keep_the_facts_and_take_no_time(items, control):
    sizes = [control.n_variants(item, RESOURCES) for item in items]
    assert sum(size >= FOUR_BUDGETS for size in sizes) >= 0.95 * N
    began = time.process_time()
    drawn = [list(islice(control.variants(i, default_rng(1), RESOURCES), 8)) for i in items]
    seconds = time.process_time() - began
    assert seconds / sum(map(len, drawn)) < 1e-3
    for item, candidates, size in zip(items, drawn, sizes, strict=True):
        texts = {each.question for each in candidates}
        assert len(texts) == len(candidates) == min(8, size)
        assert item.question not in texts
        for text in texts:
            numbers, kept = facts_of(text)
            assert (numbers, kept) == facts_of(item.question)
