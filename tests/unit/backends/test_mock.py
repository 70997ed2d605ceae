import math
from collections import Counter

import pytest

from medstress.backends.mock import MockBackend, open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Choose, Chosen, Generate, Generated, Score, Scored


def test_it_answers_every_kind_of_call():
    chosen, scored, generated = MockBackend().answer(
        [Choose("p", "ABC"), Score("p", (" A", " B")), Generate("p")]
    )
    assert isinstance(chosen, Chosen)
    assert chosen.answer in ("A", "B", "C")
    assert isinstance(scored, Scored)
    assert sum(map(math.exp, scored.log_probs)) == pytest.approx(1)
    assert scored.n_tokens == (1, 1)
    assert isinstance(generated, Generated)
    assert generated.text in ("A", "B", "C", "D")


def test_equal_calls_get_equal_answers_from_every_instance():
    calls = [Choose(f"prompt {i}", "ABCD") for i in range(20)]
    assert MockBackend().answer(calls) == MockBackend(batch_size=3).answer(calls)
    assert MockBackend().identity == MockBackend(batch_size=3).identity


def test_all_letters_come_up():
    answers = MockBackend().answer([Choose(f"prompt {i}", "ABCD") for i in range(400)])
    counts = Counter(answer.answer for answer in answers if isinstance(answer, Chosen))
    assert set(counts) == set("ABCD")
    assert min(counts.values()) > 60


def test_the_batch_size_can_be_set():
    assert open_backend(BackendOptions()).traits.batch_size == 256
    assert open_backend(BackendOptions(batch_size=5)).traits.batch_size == 5
