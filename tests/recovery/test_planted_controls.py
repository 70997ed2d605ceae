"""Victims whose loss is known, attacked beside edits without meaning, end to end.

The truth of each is L: "the victim without its noise flips". Noise is a hash of the whole prompt,
so that any change of any byte draws it anew.
"""

from functools import cache

import pytest

from medstress.analyses.run import Run as Read
from medstress.api.run import run
from medstress.testing import REPLACEMENTS, tiny_questions
from question_rows import as_row, swap_tables

N, BUDGET = 64, 8
NAMES = tuple(f"{name}{ending}" for name in REPLACEMENTS for ending in ("", "yl", "ium", "an"))
LISTED = NAMES[::6]
"""Of 48 names 8 fool a victim, and 8 are drawn: about 79 % of the items meet one."""

VICTIM = """
import hashlib
import random
import re

from medstress.testing import planted, tiny_questions

ITEMS = tiny_questions({n})
LISTED = {listed!r}
COIN = random.Random(29)


def share(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def number(prompt):
    return int(re.search(r"number\\s+(\\d+)", prompt, re.IGNORECASE)[1])


def options(prompt):
    return [text for _, text in re.findall(r"^([A-D]): (.*)$", prompt, re.MULTILINE)]


def fooled(prompt):
    known = ITEMS[number(prompt)].options
    return any(o.lower() in LISTED for o, old in zip(options(prompt), known) if o != old)


def other(prompt):
    key = ITEMS[number(prompt)].key
    return next(letter for letter in "ABCD" if letter != key)


def right_if(is_right, prompt):
    return ITEMS[number(prompt)].key if is_right else other(prompt)


def answer(prompts):
    return [{{"answer": one(prompt)}} for prompt in prompts]


def one(prompt):
    {rule}
"""
RULES = {
    "hash": 'return "ABCD"[int(4 * share(prompt))]',
    "coin": "return right_if(COIN.random() < 0.7, prompt)",
    "half": "return right_if(number(prompt) % 2 or share(prompt) < 0.25, prompt)",
    "always A": 'return "A"',
    "options": "return right_if(share(str(options(prompt))) < 0.6, prompt)",
    "listed": "return right_if(not fooled(prompt), prompt)",
    "both": "return right_if(not fooled(prompt) and share(prompt) > 0.1, prompt)",
    "both, noise where fooled": (
        "return right_if(not fooled(prompt) and (share(prompt) > 0.25 or number(prompt) % 3 > 0), "
        "prompt)"
    ),
}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The run of random names, with the default control, on a victim; one for each rule."""
    return cache(lambda rule: run_of(tmp_path_factory.mktemp("planted"), rule))


def run_of(folder, rule):
    source = VICTIM.format(n=N, listed=[name.lower() for name in LISTED], rule=RULES[rule])
    rows = [as_row(item) for item in tiny_questions(N)]
    arms = [{"sampler": "random", "budget": BUDGET}]
    tables = swap_tables(folder, source, rows, NAMES, arms, flip_check=False)
    del tables["experiment"]["controls"]
    done = run(tables, out=folder / "run")
    assert done.summary()["experiment"]["complete"]
    return done


def of_attack(done):
    (row,) = (row for row in done.summary()["results"] if "control_of" not in row)
    return row


@pytest.mark.parametrize("rule", ["hash", "coin", "half"])
def test_what_only_noise_takes_is_no_loss(attacked, rule):
    row = of_attack(attacked(rule))
    low, high = row["loss_bounds"]["no_op"]
    assert low == 0.0 <= high
    if rule != "half":
        assert row["asr"]["value"] > 0.8
        assert row["control"]["no_op"]["value"] > 0.8
    net = row["asr_net"]["no_op"]
    if rule == "coin":  # five standard errors
        assert abs(net["value"]) < 5 * (net["high"] - net["low"]) / (2 * 1.96)
    else:
        assert net["low"] <= 0 <= net["high"]


def test_a_victim_that_hashes_the_options_loses_to_harmless_edits_of_them_too(attacked):
    """Half of the no-ops are in the edited option, so that its noise is seen beside the attack."""
    row = of_attack(attacked("options"))
    assert row["asr"]["value"] > 0.8
    assert row["control"]["no_op"]["value"] > 0.5
    assert row["asr_net"]["no_op"]["value"] < 0.5 * row["asr"]["value"]
    low, high = row["loss_bounds"]["no_op"]
    assert low <= row["asr_net"]["no_op"]["value"] <= row["asr"]["value"] <= high


def test_what_listed_names_take_is_found_net_and_whole(attacked):
    row = of_attack(attacked("listed"))
    assert row["control"]["no_op"]["value"] == 0.0
    assert 0.6 < row["asr_net"]["no_op"]["value"] < 0.95
    low, high = row["loss_bounds"]["no_op"]
    assert low < row["asr"]["value"] < high
    assert low > 0.6


@pytest.mark.release
@pytest.mark.parametrize("rule", ["both", "both, noise where fooled"])
def test_list_and_noise_at_once_keep_the_loss_inside_the_bounds(attacked, rule):
    """The draws do not depend on the victim: one without noise tells what the list takes."""
    truth = of_attack(attacked("listed"))["asr"]["value"]
    row = of_attack(attacked(rule))
    low, high = row["loss_bounds"]["no_op"]
    assert low <= truth <= high
    assert row["asr"]["value"] - row["control"]["no_op"]["value"] < truth < row["asr"]["value"]


def both_ways(done):
    """Whether one harmless edit turned each right answer wrong, and each wrong one right."""
    trials = [t for t in Read.open(done.folder).trials if t.arm.is_control]
    lost = [t.first is not None and t.first.query == 1 for t in trials if t.is_eligible]
    gained = [t.corrected for t in trials if t.corrected is not None]
    return lost, gained


def test_noise_turns_answers_both_ways_and_both_are_stored(attacked):
    lost, gained = both_ways(attacked("coin"))
    assert len(lost) + len(gained) == N
    # Five standard errors.
    assert abs(sum(lost) / len(lost) - 0.3) < 5 * (0.21 / len(lost)) ** 0.5
    assert abs(sum(gained) / len(gained) - 0.7) < 5 * (0.21 / len(gained)) ** 0.5
    lost, gained = both_ways(attacked("always A"))
    assert len(lost) + len(gained) == N
    assert not any(lost)
    assert not any(gained)
