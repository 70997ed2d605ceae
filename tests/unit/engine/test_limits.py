"""Limits stop a run cleanly within one batch, and it ends as if there had been none."""

import itertools
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from medstress.attacks import EntitySubstitution
from medstress.core.calls import Call, Choose, Chosen, Reply
from medstress.engine.progress import Limits, Progress
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.store.reader import opened
from medstress.store.run_store import RunStore
from medstress.testing import ScriptedBackend, planted, tiny_questions

ITEMS = tiny_questions(6)
ATTACKS = (
    EntitySubstitution(sampler="nearest", budget=4),
    EntitySubstitution(sampler="farthest", budget=4),
)
TOKENS = 11
KINDS = [
    {"batch_size": 1},
    {"batch_size": 4},
    {"batch_size": 32},
    {"batch_size": 1, "workers": 3},
    {"batch_size": 4, "workers": 2, "ahead": 4},
]


class Counted(ScriptedBackend):
    """Answers the key of a tiny question; remembers the largest number of calls in flight."""

    def __init__(self, **traits: Any) -> None:
        rule: Any = planted(ITEMS, lambda item, options: False)

        def reply(call: Call) -> Reply:
            assert isinstance(call, Choose)
            return Chosen(**rule([call.prompt])[0], tokens_in=TOKENS - 1, tokens_out=1)

        super().__init__(reply, **traits)

    @property
    def largest(self) -> int:
        return max(map(len, self.batches), default=0)


def run(folder: Path, trials: Sequence[Trial], **limits: Any) -> Progress:
    with RunStore(folder) as store:
        n, tokens = store.computed_totals()
        own = Limits(n_queries=n, n_tokens=tokens, n_usd=tokens, usd_of=price, **limits)
        return Scheduler(store, limits=own).run(trials, len(trials))


def price(_: object, answer: Any) -> float:
    return float(answer.tokens_in + answer.tokens_out)


def stored(folder: Path) -> list[Any]:
    with opened(folder) as reader:
        return [(t.verdict, t.result) for t in reader.trials()]


@pytest.fixture
def plan(trial_of):
    def planned(backend: ScriptedBackend) -> list[Trial]:
        return [
            trial_of(attack, item, backend, attack_label=attack.sampler)
            for item, attack in itertools.product(ITEMS, ATTACKS)
        ]

    return planned


@pytest.mark.parametrize(
    ("traits", "limit", "step"),
    [
        *((traits, "max_queries", 13) for traits in KINDS),
        (KINDS[0], "max_queries", 1),
        (KINDS[1], "max_tokens", 9),
        (KINDS[4], "max_tokens", 9),
        (KINDS[3], "max_usd", 20),
    ],
    ids=str,
)
def test_a_run_that_stops_again_and_again_stays_within_its_limits_and_loses_nothing(
    tmp_path, plan, limit, step, traits
):
    whole = Counted(**traits)
    run(tmp_path / "whole", plan(whole))
    n_all, unit = len(set(whole.asked)), 1 if limit == "max_queries" else TOKENS
    asked: list[Any] = []
    for most in range(step, n_all + step + 1, step):
        backend = Counted(**traits)
        progress = run(tmp_path / "parts", plan(backend), **{limit: most * unit})
        asked += backend.asked
        over = 0 if limit == "max_queries" else backend.largest - 1
        assert not backend.asked or len(asked) <= most + over
        if not progress.stopped:
            break
    assert not progress.stopped
    assert len(asked) == len(set(asked)) <= n_all + traits.get("ahead", 0) * len(ITEMS)
    assert stored(tmp_path / "parts") == stored(tmp_path / "whole")


def test_a_limit_of_exactly_what_is_needed_lets_the_run_end(tmp_path, plan):
    """Trials that wait for answers that are stored already cost nothing."""
    whole = Counted(batch_size=1)
    run(tmp_path / "whole", plan(whole))
    backend = Counted(batch_size=1)
    progress = run(tmp_path / "exact", plan(backend), max_queries=len(whole.asked))
    assert not progress.stopped
    assert progress.n_done == len(plan(backend))
    # And again, with everything stored and nothing left to buy.
    again = [*plan(backend), *plan_of_others(plan(backend))]
    progress = run(tmp_path / "exact", again, max_queries=1, max_tokens=1, max_usd=1.0)
    assert (progress.n_computed, progress.n_done, progress.stopped) == (0, 12, False)


def plan_of_others(trials: Sequence[Trial]) -> list[Trial]:
    """The same questions of another arm."""
    from dataclasses import replace

    return [replace(trial, attack_label=f"{trial.attack_label} again") for trial in trials]


def test_a_limit_of_the_run_cuts_no_trial_short(tmp_path, plan):
    """The run's time is up while a call hangs: what waits behind it is not the trials' fault."""
    hangs = threading.Event()

    class Hanging(Counted):
        def answer(self, calls: Sequence[Call]) -> list[Reply]:
            if len(self.asked) > 8:
                hangs.wait(5)
            return super().answer(calls)

    started = time.monotonic()
    progress = run(
        tmp_path / "run",
        plan(Hanging(batch_size=1)),
        until=started + 0.2,
        trial_seconds=0.3,
        drain_seconds=0.6,
    )
    assert time.monotonic() - started < 3
    hangs.set()
    assert progress.stopped
    assert all(verdict != "cut_short" for verdict, _ in stored(tmp_path / "run"))
    run(tmp_path / "run", plan(Counted()))
    run(tmp_path / "whole", plan(Counted()))
    assert stored(tmp_path / "run") == stored(tmp_path / "whole")


def test_time_that_is_up_asks_nothing_more(tmp_path, plan):
    backend = Counted()
    progress = run(tmp_path, plan(backend), until=time.monotonic())
    assert (progress.stopped, backend.asked) == (True, [])
