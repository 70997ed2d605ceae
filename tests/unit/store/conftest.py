"""Items, answers and exchanges by hand."""

from __future__ import annotations

import pytest

from medstress.core.calls import BegunTrial, Chosen
from medstress.core.items import Question
from medstress.store.reader import opened
from medstress.store.run_store import RunStore


class Writer:
    """A store with one arm, and exchanges in short."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.closed = False
        self.store = RunStore(folder)
        self.arm = self.store.arm_id("cases", "drugs", "careful", "random", {"budget": 3}, 0)

    def close(self) -> None:
        self.store.close()
        self.closed = True

    def open_again(self) -> None:
        """As the next process would."""
        self.store.close()
        self.store = RunStore(self.folder)

    def trial(self, name: str) -> int:
        begun = self.begin(name)
        assert not begun.is_finished
        return begun.row

    def begin(self, name: str) -> BegunTrial:
        (begun,) = self.store.begin_trials([(name, self.arm, "cases", question("q0"), 0, 0)])
        return begun

    def dispatch(self, *keys: str, trial: int = 1) -> None:
        self.store.dispatching([(key.encode(), trial) for key in keys])

    def answer(self, *keys: str, trial: int = 1, failed: bool = False) -> None:
        answer = None if failed else Chosen(answer="A", tokens_in=5, tokens_out=2)
        self.store.answered([(key.encode(), trial, answer, 0.25) for key in keys])
        self.store.commit()

    def consume(
        self,
        trial: int,
        seq: int,
        query: int,
        key: str,
        *,
        call: int = 0,
        purpose: str = "attack",
        error: str | None = None,
        role: str = "victim",
    ) -> None:
        row = (trial, seq, role, purpose, query, call, key.encode(), None, None, None, error)
        self.store.consumed([row])

    def finish(self, trial: int, n_asked: int = 1, verdict: str = "held") -> None:
        self.store.finish_trial(trial, verdict, {"n_asked": n_asked})
        self.store.commit()

    def read(self, what):
        with opened(self.folder) as reader:
            return what(reader)


def question(name: str) -> Question:
    return Question(id=name, stem="Why?", options=("this", "that"), key="A")


@pytest.fixture
def writer(tmp_path):
    made = Writer(tmp_path / "run")
    yield made
    if not made.closed:
        made.close()
