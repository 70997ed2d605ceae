"""A recipe of TextAttack as an attack on questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from medstress.attacks.choices import check_budget, check_word
from medstress.attacks.noise.texts import OPTIONS, Field, texts_of
from medstress.attacks.protocol import Attack, AttackTraits
from medstress.attacks.textattack.recipes import RECIPES
from medstress.attacks.textattack.replay import Input, Search
from medstress.core.items import TEXTS, Candidate, Question
from medstress.core.outcomes import Prediction
from medstress.core.queries import Predict, Steps, ask, clean_answer
from medstress.core.text import Edit
from medstress.machine.textattack import check_textattack

if TYPE_CHECKING:
    from numpy.random import Generator

_MOST = 100_000
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAttack(Attack):
    """A recipe of TextAttack that needs no download, within our budget.

    `deepwordbug` (Gao et al. 2018) ranks the words of the text by what the victim says without
    each, then misspells one after the other; `pruthi` (Pruthi et al. 2019) misspells one word of at
    least four letters. The victim is TextAttack's model: its rows are the softmax of the victim's
    scores over the options, or, of victims without scores, 1 for the answer and 0 elsewhere; an
    unreadable answer counts as the key.

    Every text that the recipe asks for the first time is one query. Texts by which it ranks words
    are probes: they count against the budget and are no success.

    *Differs from TextAttack*: the referee ends a trial at the first wrong answer, where a recipe
    asks its whole list and takes the best. The budget cuts a list at its end, as TextAttack's
    `query_budget` does; for `deepwordbug` it has to exceed the number of words that may change.
    Stop words are those shipped with medstress. Whether a misspelt text still means the same is
    not checked.

    References:
        Morris, Lifland, Yoo, Grigsby, Jin, Qi, "TextAttack: a framework for adversarial attacks,
        data augmentation, and adversarial training in NLP", EMNLP 2020 (demonstrations).
        Gao, Lanchantin, Soffa, Qi, "Black-box generation of adversarial text sequences to evade
        deep learning classifiers", 2018. Pruthi, Dhingra, Lipton, "Combating adversarial
        misspellings with robust word recognition", ACL 2019.
    """

    recipe: str = "deepwordbug"
    """Which: `deepwordbug` or `pruthi`."""
    budget: int = 200
    """Perturbed queries per item, those that rank words included."""
    field: Field = "question"
    """What it may change: `question` (context and stem), `stem`, `context` or `passage`."""

    def __post_init__(self) -> None:
        check_word("textattack", "recipe", self.recipe, RECIPES)
        fields = [name for name in get_args(Field) if name != OPTIONS]
        check_word("textattack", "field", self.field, fields)
        check_budget("textattack", self.budget, _MOST)

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        return AttackTraits(
            stream=f"textattack {self.recipe}",
            budget=self.budget,
            needs_entities=False,
            edits_only=frozenset({self.field} & set(TEXTS)),
        )

    def spec(self) -> dict[str, Any]:
        """Return the parameters."""
        return {
            "name": "textattack",
            "recipe": self.recipe,
            "budget": self.budget,
            "field": self.field,
        }

    def with_files(self, base: Path) -> TextAttack:
        """Return the attack, if TextAttack is installed.

        Raises:
            UsageError: it is not.
        """
        check_textattack()
        return self

    def obstacle(self, item: Question, resources: Any) -> str | None:
        """Return why this item cannot be attacked, or None."""
        return None if _texts(item, self.field) else f"the question has no {self.field}"

    def most_queries(self, item: Question, resources: Any) -> int:
        """Return the budget: how many texts a recipe asks for depends on the answers."""
        return self.budget

    def run(self, item: Question, rng: Generator, resources: Any) -> Steps[Candidate | None]:
        """Ask what the recipe asks, until an answer is wrong, it ends, or the budget is spent."""
        seed = int(rng.integers(2**32))
        texts = _texts(item, self.field)
        search = Search(self.recipe, texts, item.letters.index(item.key), seed)
        clean: Prediction = yield from clean_answer()
        whole = tuple(texts.values())
        search.answers[whole if len(whole) > 1 else whole[0]] = _row(item, clean)
        left = self.budget
        while left and (wanted := search.wanted()) is not None:
            candidates = [
                (each, Candidate(item=item, edits=_edits(texts, each)))
                for each in wanted.inputs[:left]
            ]
            queries = [Predict(made, probe=wanted.is_probe) for _, made in candidates]
            replies = yield from ask(queries)
            for (text, made), reply in zip(candidates, replies, strict=True):
                if reply.reached_goal:
                    return made
                search.answers[text] = _row(item, reply)
            left -= len(queries)
        return None


def _texts(item: Question, field: Field) -> dict[str, str]:
    """Return the texts that may change and are not blank, by field."""
    found = {name: item.text_of(name) for name in texts_of(item, field)}
    return {name: text for name, text in found.items() if text.strip()}


def _row(item: Question, reply: Prediction) -> list[float]:
    """Return an answer as probabilities over the options."""
    if reply.scores is not None:
        most = max(reply.scores)
        weights = [exp(score - most) for score in reply.scores]
        return [weight / sum(weights) for weight in weights]
    chosen = reply.answer or item.key
    return [float(letter == chosen) for letter in item.letters]


def _edits(texts: dict[str, str], given: Input) -> tuple[Edit, ...]:
    """Return the edits that make the texts of an example from those of an item.

    >>> _edits({"stem": "What treats gout?"}, "What traets gout?")
    (Edit(field='stem', start=5, end=11, replacement='traets'),)
    """
    changed = (given,) if isinstance(given, str) else given
    found: list[Edit] = []
    for (field, before), after in zip(texts.items(), changed, strict=True):
        old, new = list(_WORD.finditer(before)), list(_WORD.finditer(after))
        if _same_gaps(before, old, after, new):
            found += [
                Edit(field=field, start=a.start(), end=a.end(), replacement=b[0])
                for a, b in zip(old, new, strict=True)
                if a[0] != b[0]
            ]
        elif before != after:
            found.append(Edit(field=field, start=0, end=len(before), replacement=after))
    return tuple(found)


def _same_gaps(
    before: str, old: Sequence[re.Match[str]], after: str, new: Sequence[re.Match[str]]
) -> bool:
    """Whether two texts have the same white space between as many words."""
    return len(old) == len(new) and _WORD.sub("", before) == _WORD.sub("", after)
