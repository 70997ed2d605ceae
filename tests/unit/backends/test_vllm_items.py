"""The vllm back end keeps the calls of an item together and reads the counters of its engine."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from medstress.backends.vllm import VllmBackend
from medstress.core.calls import Call, Generate, Generated, Origin, Reply


class Logged(VllmBackend):
    """Logs what the engine would be asked, in its order."""

    def __init__(self, llm: object = None) -> None:
        self.seen: list[str] = []
        self._llm = llm
        self._counters = {"tokens_forwarded": 3}

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        texts = [str(call.prompt) for call in calls if isinstance(call, Generate)]
        self.seen += texts
        return [Generated(text=f"to {text}") for text in texts]


def test_calls_of_an_item_stand_together_and_replies_in_the_order_of_the_calls() -> None:
    names = ["a1", "b1", "a2", "c1", "b2", "a3"]
    backend = Logged()
    replies = backend.answer_for(
        [Generate(name) for name in names],
        [Origin(item=name[0], key=name.encode()) for name in names],
    )
    assert backend.seen == ["a1", "a2", "a3", "b1", "b2", "c1"]
    assert [reply.text for reply in replies] == [f"to {name}" for name in names]  # type: ignore[union-attr]


def test_the_engines_own_counts_of_its_cache_are_counters() -> None:
    metrics = [
        SimpleNamespace(name="vllm:num_requests_running", value=7.0),
        SimpleNamespace(name="vllm:prefix_cache_queries", value=100),
        SimpleNamespace(name="vllm:prefix_cache_hits", value=64),
        SimpleNamespace(name="vllm:prefix_cache_hits", value=6),
        SimpleNamespace(name="vllm:iteration_tokens_total", buckets={}, sum=0.0),
    ]
    backend = Logged(SimpleNamespace(get_metrics=lambda: metrics))
    assert backend.counters == {
        "tokens_forwarded": 3,
        "prefix_cache_queries": 100,
        "prefix_cache_hits": 70,
    }
    assert Logged(SimpleNamespace()).counters == {"tokens_forwarded": 3}
