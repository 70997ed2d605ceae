"""Victims with a known defect, wrapped: what the wrapper must cure, and what a query then costs."""

import math
from collections import Counter, defaultdict
from typing import Any

import pytest

from medstress.api.run import run
from medstress.store.reader import read
from medstress.testing import REPLACEMENTS, tiny_questions
from question_rows import as_row, swap_tables
from rows import rows_of

WEAK = REPLACEMENTS[1::2]

LIKES_A_PLACE = """
import re
from medstress.testing import REPLACEMENTS, tiny_questions

KEYS = {item.stem: item.key_text for item in tiny_questions(8)}
WEAK = set(REPLACEMENTS[1::2])

def answer(prompts):
    return [dict(scores=one(prompt)) for prompt in prompts]

def one(prompt):
    key = next(key for stem, key in KEYS.items() if stem in prompt)
    shown = re.findall(r"^([A-D]): (.*)$", prompt, re.MULTILINE)[-4:]
    known = {key: 0.4, **{name: 0.8 for name in WEAK}}
    places = dict(zip("ABCD", (0.7, 0.1, 0.1, 0.1)))
    # The case of a name follows the option it replaces.
    return {x: places[x] * known.get(text, known.get(text.lower(), 0.2)) for x, text in shown}
"""

IS_NOISY = """
import hashlib
import re
from collections import Counter
from medstress.testing import tiny_questions

KEYS = {{item.stem: item.key for item in tiny_questions({n})}}
asked = Counter()

def answer(prompts):
    return [dict(answer=one(prompt)) for prompt in prompts]

def one(prompt):
    key = KEYS[re.search(r"Which drug is right for case [0-9]+[?]", prompt)[0]]
    asked[prompt] += 1
    luck = hashlib.sha256(f"{{asked[prompt]}} {{prompt}}".encode()).digest()
    errs = int.from_bytes(luck[:4], "big") < 0.3 * 2**32
    return "BADC"["ABCD".index(key)] if errs else key
"""


def attack(folder, source, n, budget, wraps):
    """Attack one function under several wrappers, each under its name."""
    rows = [as_row(item) for item in tiny_questions(n)]
    # Versions of their own: else they would share the answers of samples they share.
    victims = [{"name": name, "version": name, "wrap": wrap} for name, wrap in wraps.items()]
    arms = [{"sampler": "random", "budget": budget}]
    tables = swap_tables(folder, source, rows, REPLACEMENTS, arms, victims)
    return run(tables, out=folder / "run")


def calls_per_query(found):
    """Model -> its calls a query of an attack, cached ones too."""

    def read_all(reader):
        queries = defaultdict(list)
        for one in reader.exchanges():
            if one.purpose == "attack":
                queries[one.victim].append((one.trial, one.query))
        return {name: len(calls) / len(set(calls)) for name, calls in queries.items()}

    return read(found.folder, read_all)


def test_the_liking_of_a_place_is_cured_by_shuffled_options(tmp_path):
    """Alone it says A: right where the key is A, a quarter of the items. P(place) cancels."""
    wraps: dict[str, list[Any]] = {
        "bare": [],
        "shuffled": ["shuffled_options"],
        "half": [{"name": "shuffled_options", "n": 2}],
        "votes": [{"name": "shuffled_options", "aggregate": "votes"}],
    }
    found = attack(tmp_path, LIKES_A_PLACE, 8, 7, wraps)
    results = {row["victim"]: row for row in found.summary()["results"]}
    assert {name: row["accuracy"]["value"] for name, row in results.items()} == {
        "bare": 2 / 8,
        "shuffled": 1,
        # Of two orders, A and B stand first: the key wins where it is one of them.
        "half": 4 / 8,
        # Every option has its vote: a hash chooses, and finds the key in one of these eight.
        "votes": 1 / 8,
    }
    # Seven draws of twelve names hit one of the six that it takes for the answer.
    assert results["shuffled"]["asr"]["value"] == 1
    asked = Counter[str]()
    for row in rows_of(found):
        asked[row.victim] += row.n_asked
        if row.victim == "shuffled":
            assert str(row.replacement).lower() in WEAK
            assert (row.n_asked, row.n_paid, row.repeats) == (row.first_success, row.n_asked, True)
            assert row.score_before == pytest.approx(sum(s[0] for s in _shares(0.4)) / 4, rel=1e-6)
    assert results["shuffled"]["queries"]["asked"] == asked["shuffled"]
    assert results["shuffled"]["queries"]["baseline"] == 8
    assert calls_per_query(found) == {"bare": 1, "half": 2, "shuffled": 4, "votes": 4}


def _shares(known):
    """Probabilities of the key, and of the others, with the key in each place."""
    found = []
    for place in range(4):
        raw = [0.7 if i == 0 else 0.1 for i in range(4)]
        raw = [p * (known if i == place else 0.2) for i, p in enumerate(raw)]
        found.append([raw[place] / sum(raw), *(r / sum(raw) for r in raw)])
    return found


@pytest.mark.release
def test_noise_is_cured_by_a_majority_as_far_as_the_binomial_says(tmp_path):
    """An error of 0.3 a sample leaves 0.163 with five samples and 0.099 with nine."""
    n = 600
    wraps: dict[str, list[Any]] = {
        "bare": [],
        "five": ["majority"],
        "nine": [{"name": "majority", "k": 9}],
    }
    found = attack(tmp_path, IS_NOISY.format(n=n), n, 1, wraps)
    for row in found.summary()["results"]:
        k = {"bare": 1, "five": 5, "nine": 9}[row["victim"]]
        right = sum(math.comb(k, i) * 0.7**i * 0.3 ** (k - i) for i in range(k // 2 + 1, k + 1))
        spread = math.sqrt(right * (1 - right) / n)
        assert row["n_items"] == n
        assert abs(row["accuracy"]["value"] - right) < 3.5 * spread
        # Noise is no weakness of the names: it errs on perturbed items as often as on clean ones.
        eligible = row["n_eligible"]
        spread = math.sqrt(right * (1 - right) / eligible)
        assert abs(row["asr"]["value"] - (1 - right)) < 3.5 * spread
        assert row["queries"]["asked"] == eligible
    assert calls_per_query(found) == {"bare": 1, "five": 5, "nine": 9}
