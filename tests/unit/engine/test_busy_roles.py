"""Fuzzes between two slow roles, on a clock that only the slower role moves: are both busy?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from medstress.attacks import MedFuzz
from medstress.core.calls import Call, Decoding, Generate, Generated, Reply
from medstress.engine.progress import Progress
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.experiment.plan.attack_checks import victim_of
from medstress.store.reader import RunReader
from medstress.store.run_store import RunStore
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import (
    ScriptedBackend,
    rule_target,
    scripted_attacker,
    tiny_questions,
    tiny_resources,
)

N, ROOM = 96, 16
ATTEMPTS = 3
ITEMS = tiny_questions(N)
ATTACK = MedFuzz(attempts=ATTEMPTS, runs=1, exemplars=0)
# Three turns about the clean item and every edit against a plan and an edit an attempt: the
# roles have the same to do, so that both can be busy all the time.
SECONDS = {"target": 2 * ATTEMPTS, "attacker": 3 * (1 + ATTEMPTS)}
PATIENCE = 60


class Watched(RunStore):
    """Counts the calls that are handed to back ends."""

    n_dispatched = 0

    def dispatching(self, calls: Any) -> None:
        calls = list(calls)
        self.n_dispatched += len(calls)
        super().dispatching(calls)


@dataclass
class Batch:
    role: str
    n: int
    start: float
    end: float
    done: threading.Event


class Clock:
    """Time that passes only while the scheduler waits: no load on the machine changes it."""

    def __init__(self, store: Watched) -> None:
        self.store = store
        self.now = 0.0
        self.batches: list[Batch] = []
        self._open: list[Batch] = []
        self._changed = threading.Condition()

    def work(self, role: str, n: int) -> None:
        """Be busy with a batch, in a worker's thread."""
        with self._changed:
            batch = Batch(role, n, self.now, self.now + SECONDS[role], threading.Event())
            self.batches.append(batch)
            self._open.append(batch)
            self._changed.notify_all()
        assert batch.done.wait(PATIENCE)

    def tick(self, _: Progress) -> None:
        """End the batch that is ready first, once all that was handed over has begun."""
        with self._changed:
            begun = self._changed.wait_for(
                lambda: sum(b.n for b in self.batches) == self.store.n_dispatched, PATIENCE
            )
            assert begun
            if self._open:
                first = min(self._open, key=lambda batch: batch.end)
                self._open.remove(first)
                self.now = first.end
                first.done.set()

    def share_busy(self, role: str, room: int) -> float:
        """How full a role was on average until the last answer."""
        held = sum(b.n * (b.end - b.start) for b in self.batches if b.role == role)
        return held / (room * self.now)


class Slow(ScriptedBackend):
    def __init__(self, role: str, speak: Callable[..., list[str]], clock: Clock, **given: int):
        def reply(call: Call) -> Reply:
            assert isinstance(call, Generate)
            turns = [{"role": turn.role, "content": turn.content} for turn in call.prompt]
            return Generated(text=speak([turns])[0])

        super().__init__(reply, name=role, **given)
        self._role, self._clock = role, clock

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        self._clock.work(self._role, len(calls))
        return super().answer(calls)


def fuzz(folder: Path, **given: int) -> tuple[Clock, list[Any]]:
    """Run all fuzzes; the clock, and how the trials ended."""
    with Watched(folder) as store:
        clock = Clock(store)
        target = Slow("target", rule_target(ITEMS, {}), clock, **given)
        script = ["He works as a clerk.", "He keeps a lighthouse.", "He works as a farmer."]
        attacker = Slow("attacker", scripted_attacker(ITEMS, script), clock, **given)
        task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.GENERATE)
        victim = Victim(label="v", task=task, backend=target)
        resources = replace(tiny_resources(), roles={"attacker": Decoding(temperature=1.0)})
        planned = [
            Trial(
                dataset="tiny",
                group="all",
                item=item,
                victim=victim_of(victim, ATTACK, "tiny", item, 0, 0),
                attack_label="medfuzz",
                attack=ATTACK,
                resources=resources,
                seed=0,
            )
            for item in ITEMS
        ]
        Scheduler(store, roles={"attacker": attacker}, on_progress=clock.tick).run(planned)
    reader = RunReader(folder)
    try:
        return clock, [(t.item, t.verdict, t.result["n_asked"]) for t in reader.trials()]
    finally:
        reader.close()


@pytest.mark.parametrize("shape", [(ROOM, 1), (1, ROOM)], ids=["batches", "requests"])
def test_both_roles_are_busy_at_once_and_full(tmp_path: Path, shape: tuple[int, int]) -> None:
    batch_size, workers = shape
    clock, ended = fuzz(tmp_path, batch_size=batch_size, workers=workers)
    assert len(ended) == N
    least = 3 * N * (1 + ATTEMPTS) / ROOM * SECONDS["target"]
    # Nothing to do for the attacker before the first clean answers, nor for the target while the
    # last edits are written.
    assert clock.now <= least / 0.85
    assert clock.share_busy("target", ROOM) >= 0.85
    assert clock.share_busy("attacker", ROOM) >= 0.85
