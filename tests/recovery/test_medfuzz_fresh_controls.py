"""Controls that an attacker writes are fresh for every attempt; driven by hand, end to end.

A target answers the key of a text with a probability that the text alone decides: of texts of
three in a hundred with .1, of all others with .95. The attacker of the attack and the writer of
controls draw from the same texts, so there is nothing to find.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from medstress.analyses.families import LEVEL, Null, plan_of
from medstress.attacks.controls.slots import Form, Slot, text_of
from medstress.core.calls import Decoding, Generated
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Consult
from medstress.experiment.significance.controls import Controls, RoleWriter
from medstress.experiment.significance.flow import Success, significance_flow
from medstress.experiment.significance.settings import Settings
from medstress.stats.permutation import ControlPlan, p_values
from medstress.tasks.prompt_sets import load_prompts
from medstress.testing import tiny_questions

(ITEM,) = tiny_questions(1)
OTHER = next(letter for letter in ITEM.letters if letter != ITEM.key)
SLOT = Slot(
    field="stem", at=0, lead="", trail=". ", n_words=5, form=Form.SENTENCE, category="habits"
)
PROMPTS = load_prompts("patient_characteristics")
ATTEMPTS, HARD = 5, 0.03


class Planted:
    """Texts, what each does to the target, and all that was asked."""

    def __init__(self, seed: int, repertoire: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.repertoire = repertoire
        self.t: dict[str, float] = {}
        self.tried: list[str] = []
        self.n_written = 0

    def words(self) -> str:
        """The next text that a writer has."""
        self.n_written += 1
        n = self.n_written if self.repertoire is None else self.n_written % self.repertoire
        return f"He keeps shelf {n} tidy"

    def edited(self) -> Candidate:
        """What the attacker tries next: never a text of the writer's."""
        words = f"She keeps drawer {self.rng.integers(2**60)} tidy"
        return Candidate(item=ITEM, edits=(SLOT.filled(words),))

    def p_key(self, candidate: Candidate) -> float:
        """P(key) that one reasoning shows."""
        text = text_of(candidate)
        if text not in self.t:
            clean = not candidate.edits
            self.t[text] = 0.95 if clean or self.rng.random() > HARD else 0.1
        t = self.t[text]
        return float(self.rng.beta(8 * t, 8 * (1 - t)))

    def asked(self, candidate: Candidate) -> Prediction:
        """How one conversation ends."""
        p = min(max(self.p_key(candidate), 1e-9), 1 - 1e-9)
        rest = math.log((1 - p) / (len(ITEM.letters) - 1))
        scores = tuple(math.log(p) if each == ITEM.key else rest for each in ITEM.letters)
        if self.rng.random() < p:
            return Prediction(outcome=Outcome.RIGHT, answer=ITEM.key, scores=scores)
        return Prediction(outcome=Outcome.WRONG, answer=OTHER, scores=scores)

    def success(self) -> Success | None:
        """One attack: what it found, or None where it held."""
        for _ in range(ATTEMPTS):
            candidate = self.edited()
            if self.asked(candidate).outcome is Outcome.WRONG:
                return Success(fuzz=candidate, attempts=ATTEMPTS)
        return None

    def conducted(self, success: Success, settings: Settings) -> dict[str, Any]:
        """Drive the test of a success."""
        writer = RoleWriter(
            item=ITEM,
            slots=(SLOT,),
            prompts=PROMPTS,
            decoding=Decoding(temperature=1.0),
            gate=lambda _: None,
        )
        controls = Controls(
            item=ITEM,
            slots=(SLOT,),
            rng_of=lambda what, number: np.random.default_rng([len(what), number]),
            gate=lambda _: None,
            writer=writer if settings.generator == "attacker" else None,
        )
        steps = significance_flow(success, settings, controls)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Consult):
                    replies: Iterator[Any] = (
                        Generated(text=json.dumps({"insertions": [self.words()]}))
                        for _ in step.calls
                    )
                else:
                    talks = step.conversations
                    self.tried += [text_of(one.candidate) for one in talks if one.sample is None]
                    replies = (self.asked(one.candidate) for one in talks)
                step = steps.send(tuple(replies))
        except StopIteration as stop:
            found: dict[str, Any] = stop.value
            return found


def p_of(found: dict[str, Any], settings: Settings) -> float:
    plan = plan_of(settings.as_json(), found)
    return p_values(found["as_hard"], plan, found["n_distinct"]).p


def test_every_attempt_of_every_loop_gets_a_text_of_its_own() -> None:
    settings = Settings(generator="attacker", controls=ControlPlan(fixed=30), max_calls=None)
    planted = Planted(0)
    success = Success(fuzz=planted.edited(), attempts=ATTEMPTS)
    found = planted.conducted(success, settings)
    assert len(planted.tried) > 80
    assert len(set(planted.tried)) == len(planted.tried)
    assert found["n_distinct"] is None


def test_lexicon_loops_repeat_no_text_while_there_are_others() -> None:
    planted = Planted(0)
    success = Success(fuzz=planted.edited(), attempts=ATTEMPTS)
    planted.conducted(success, Settings(controls=ControlPlan(fixed=15), max_calls=None))
    assert len(planted.tried) > 50
    assert len(set(planted.tried)) == len(planted.tried)


def test_where_texts_repeat_p_is_at_least_one_in_distinct_controls_and_one() -> None:
    settings = Settings(generator="attacker", controls=ControlPlan(fixed=40), max_calls=None)
    planted = Planted(3, repertoire=30)
    for n in range(30):
        edit = SLOT.filled(f"He keeps shelf {n} tidy")
        planted.t[text_of(Candidate(item=ITEM, edits=(edit,)))] = 1 - 1e-6
    found = planted.conducted(Success(fuzz=planted.edited(), attempts=5), settings)
    # Every loop holds: 40 x 5 attempts with 30 texts, which make six loops of five.
    assert (sum(found["as_hard"]), len(planted.tried), found["n_distinct"]) == (0, 200, 6)
    assert p_of(found, settings) == 1 / 7
    single = Settings(
        null=Null.NEUTRAL, generator="attacker", controls=ControlPlan(fixed=40), max_calls=None
    )
    planted.t[text_of(Success(fuzz=planted.edited(), attempts=5).fuzz)] = 0.1
    found = planted.conducted(Success(fuzz=planted.edited(), attempts=5), single)
    assert found["n_distinct"] == 30
    assert p_of(found, single) >= 1 / 31


class Varied(Planted):
    """Three texts, each written in ten ways that differ in nothing a reader would tell apart."""

    def words(self) -> str:
        text = f"He keeps shelf {self.n_written % 3} tidy"
        ways = (
            text,
            text.upper(),
            text.title(),
            text.replace(" ", "  ", 1),
            text.replace(" ", "  "),
            f"{text} .",
            text.replace("keeps", "Keeps"),
            text.replace(" tidy", "\u00a0tidy"),
            text.replace("shelf", "sh\u200belf").replace("tidy", "tidy!"),
            text.replace("tidy", "\uff54\uff49\uff44\uff59"),
        )
        self.n_written += 1
        return ways[self.n_written // 3 % len(ways)]


@pytest.mark.parametrize(("null", "n_distinct"), [(Null.NEUTRAL, 3), (Null.MATCHED, 0)])
def test_texts_that_differ_in_case_white_space_or_punctuation_are_one(
    null: Null, n_distinct: int
) -> None:
    settings = Settings(
        null=null, generator="attacker", controls=ControlPlan(fixed=30), max_calls=None
    )
    planted = Varied(0)
    for n in range(3):
        edit = SLOT.filled(f"He keeps shelf {n} tidy")
        planted.t[text_of(Candidate(item=ITEM, edits=(edit,)))] = 1 - 1e-6
    fuzz = planted.edited()
    planted.t[text_of(fuzz)] = 0.1
    found = planted.conducted(Success(fuzz=fuzz, attempts=5), settings)
    # Three texts make three controls of one text each, and no whole loop of five.
    assert (sum(found["as_hard"]), found["n_distinct"]) == (0, n_distinct)
    assert p_of(found, settings) == 1 / (n_distinct + 1)


@pytest.mark.parametrize("n", [100, pytest.param(400, marks=pytest.mark.release)])
def test_the_default_with_controls_that_an_attacker_writes_holds_its_level(n: int) -> None:
    planted, settings = Planted(11), Settings(generator="attacker")
    n_rejected = n_successes = 0
    for _ in range(n):
        success = planted.success()
        if success is None:
            continue
        n_successes += 1
        found = planted.conducted(success, settings)
        assert found["most"] == 56
        n_rejected += p_of(found, settings) <= LEVEL
    assert n_successes > n / 5
    assert n_rejected <= binom.ppf(0.999, n, LEVEL)
