from collections import Counter

from medstress.backends.mock import MockBackend
from medstress.core.calls import Choose, Chosen


def test_equal_calls_get_equal_answers_from_every_instance():
    calls = [Choose(f"prompt {i}", "ABCD") for i in range(20)]
    assert MockBackend().answer(calls) == MockBackend(batch_size=3).answer(calls)
    assert MockBackend().identity == MockBackend(batch_size=3).identity


def test_all_letters_come_up():
    answers = MockBackend().answer([Choose(f"prompt {i}", "ABCD") for i in range(400)])
    counts = Counter(answer.answer for answer in answers if isinstance(answer, Chosen))
    assert set(counts) == set("ABCD")
    assert min(counts.values()) > 60
