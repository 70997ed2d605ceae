"""Run a search that calls a model inside a generator that yields queries.

The search is begun anew with every answer that has arrived, and goes on as before, because it draws
the same random numbers, until it asks for what nobody has answered yet. That is what is asked next.
So it needs no thread, stops anywhere, and replays as every attack does. Its own work grows with the
square of the number of its questions; each of these is a whole list of texts.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from medstress.attacks.textattack.recipes import build_recipe
from medstress.machine.textattack import import_textattack

Input: TypeAlias = str | tuple[str, ...]
"""A text, or several of one example, as TextAttack gives it to a model."""
_ALL = 1 << 20
"""Texts that TextAttack gives to a model at once: a whole list is one step of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a search asks next."""

    inputs: tuple[Input, ...]
    """Texts without an answer, each once, in the order in which it asks."""
    is_probe: bool
    """Whether it only ranks words by the answers, so that no success is meant."""


class _Unanswered(BaseException):
    """Ends a search at its first open question; no handler of `Exception` may catch it."""


class Search:
    """A recipe of TextAttack on one example."""

    def __init__(self, recipe: str, texts: Mapping[str, str], truth: int, seed: int) -> None:
        """Prepare the search.

        Args:
            recipe: of `RECIPES`.
            texts: field -> its text; several are one example.
            truth: number of the right label.
            seed: of the random numbers that it draws.
        """
        self.answers: dict[Input, Sequence[float]] = {}
        """Input -> probabilities over the labels; to be filled in by who asks."""
        self._texts, self._truth, self._seed = OrderedDict(texts), truth, seed
        self._ranking = False
        self._wanted: Wanted | None = None
        self._attack = build_recipe(recipe, self._answer)
        self._attack.goal_function.batch_size = _ALL
        self._mark_ranking(self._attack.search_method)

    def wanted(self) -> Wanted | None:
        """Return what has to be answered for the search to go on; None once it has ended."""
        self._wanted, self._ranking = None, False
        self._attack.clear_cache()  # what a cache answers would draw no random numbers
        example = import_textattack("textattack.shared").AttackedText(self._texts)
        with _seeded(self._seed):
            try:
                self._attack.attack(example, self._truth)
            except _Unanswered:
                return self._wanted
        return None

    def _answer(self, inputs: Sequence[Input]) -> list[Sequence[float]]:
        if missing := tuple(dict.fromkeys(each for each in inputs if each not in self.answers)):
            self._wanted = Wanted(inputs=missing, is_probe=self._ranking)
            raise _Unanswered
        return [self.answers[each] for each in inputs]

    def _mark_ranking(self, method: Any) -> None:
        """Note while a search ranks words, which it does with texts that are no candidates."""
        rank = getattr(method, "_get_index_order", None)
        if rank is None:
            return

        def ranked(*given: Any, **named: Any) -> Any:
            self._ranking = True
            found = rank(*given, **named)
            self._ranking = False
            return found

        method._get_index_order = ranked


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the generators that TextAttack draws from, which are global, and put them back."""
    python, numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
