"""DiscreteZOO on spans: estimate a gradient from a few names, ask the name it points to.

References:
    Nathaniel Berger et al., "Don't search for a search method: simple heuristics suffice for
    adversarial text attacks", EMNLP 2021.
    R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language models
    by query-efficient sampling attacks", TMLR 2025, section 3.3, Eqs. 4-6.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from medstress.attacks.protocol import Validity
from medstress.attacks.spans import distractor_spans, span_text
from medstress.attacks.zeroth_order import (
    Floats,
    Indices,
    cosines,
    estimate_gradient,
    hard_log_probs,
    margin_score,
    most_similar,
)
from medstress.attacks.zoo_settings import LEAST_STEP, by_choices, check, settle
from medstress.errors import TrialError
from medstress.items import Candidate, Mention, Question
from medstress.outcomes import Goal, Prediction, Untargeted
from medstress.queries import Predict, Replies, Step, Steps, ask, clean_answer
from medstress.resources import Resources
from medstress.text import copy_case

if TYPE_CHECKING:
    from numpy.random import Generator as Rng

SAME_VECTOR = 1e-6
"""A name closer than this to the span in the embedding gives no direction and is not asked."""

_Part: TypeAlias = Generator[Step, Replies, Candidate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteZoo:
    """Ask a few names near a distractor entity, then the one that their scores point to.

    At one entity e0: M names c_i, drawn from its nearest in the embedding, are asked; from the
    changes of the score a gradient g is estimated (Eq. 5); the name nearest to e0 + lambda g is
    asked as well (Eqs. 4 and 6). So a step costs M + 1 queries. Then comes the next entity, and
    after the last the first again with fresh names, until the budget is used or the victim errs.

    Where g is zero (no change of the score, as always with `answers = "hard"`) there is no
    direction to follow: a name drawn from the pool is asked instead.

    *Differs from the paper*: what could be a second right answer is not asked; the search goes
    on after one pass over the entities; g is a sum, not a mean. *Differs from the released
    code*: the step is taken (docs: discrete-zoo).
    """

    budget: int = 8
    """Perturbed queries an item, 3 (two names and one step) to 1,000."""
    choices: str = "default"
    """`default`; `as_published`: `aggregate = "mean"`, `rounds = "one_pass"`,
    `variants = "mark"`; `as_released`: what the released code amounts to, draws from a
    neighbourhood without any gradient. Changes only defaults."""
    candidates: int = by_choices(3, as_released=10)
    """M, names asked for one estimate, from 2."""
    learning_rate: float = by_choices(10.0, as_released=0.1)
    """lambda, > 0, on unit vectors. With 10 the estimate decides where the step ends, with 0.1
    the entity does; larger changes little."""
    similarity_threshold: float | str = "off"
    """Least cosine of a name and the entity that it replaces; `off`: any."""
    word_ranking: str = by_choices("random", as_released="given")
    """Order of the entities: `random`; `importance`: largest drop of the key's log probability
    when the entity is deleted first, one query each; `given`: as in the text."""
    answers: str = by_choices("soft", as_released="hard")
    """`soft`: the victim's option probabilities; `hard`: only what it answers, so that the
    estimate is always zero."""
    multiplier: int = 5
    """Names are drawn from the `multiplier` * M nearest that were not asked yet."""
    kappa: float = 0.0
    """How far beyond the border of a wrong answer the score still grows."""
    normalise_displacements: bool = True
    """Directions of length 1."""
    normalise_differences: bool = True
    """Changes of the score divided by the distance."""
    aggregate: str = by_choices("sum", as_published="mean")
    """`sum` or `mean` over the M names."""
    rounds: str = by_choices("until_budget", as_published="one_pass", as_released="one_pass")
    """`until_budget`: entity after entity, again and again with fresh names; `one_pass`: each
    entity once."""
    update: str = by_choices("gradient", as_released="none")
    """`gradient`; `none`: the step is left out, which leaves draws from a neighbourhood."""
    variants: str = by_choices("exclude", as_published="mark", as_released="mark")
    """`exclude`: variants and synonyms of the key are never asked; `mark`: they are asked."""
    count_baseline: bool = by_choices(False, as_released=True)
    """Whether the question on the clean item uses up one query of the budget."""

    def __post_init__(self) -> None:
        for key, value in settle(self).items():
            object.__setattr__(self, key, value)
        check(self)

    @property
    def stream(self) -> str:
        """The random stream, the same for all parameters."""
        return "discrete_zoo"

    @property
    def deterministic(self) -> bool:
        """False: names are drawn."""
        return False

    @property
    def needs_scores(self) -> str | None:
        """The setting for which the victim must give scores, or None."""
        return "answers = 'soft'" if self.answers == "soft" else None

    @property
    def goal(self) -> Goal:
        """Any readable wrong answer."""
        return Untargeted()

    def spec(self) -> dict[str, Any]:
        """The parameters, as JSON values."""
        return {"name": "discrete_zoo", **asdict(self)}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Why the item cannot be attacked, or None."""
        if not distractor_spans(item, resources):
            return f"no distractor mentions an entity of type {resources.group}"
        if not spans_with_vectors(item, resources):
            return f"no entity of type {resources.group} in a distractor has a vector"
        if self._allowed(item, resources).size == 0:
            return "no name of the vocabulary may replace it"
        return None

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Valid by rule where the name does not vary the key's wording."""
        (edit,) = candidate.edits
        found = resources.perturbations.variant_class(candidate.item, edit.replacement)
        return Validity(valid=found == "different", reason="rule", variant_class=found)

    def run(self, item: Question, rng: Rng, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see `Attack.run`."""
        purse = _Purse(self.budget - self.count_baseline)
        clean = self._score((yield from clean_answer()), item)
        if clean is None:
            raise TrialError(
                "discrete_zoo: the victim gives no option probabilities, which its gradient is "
                'estimated from; let it answer by letter or text, or set answers = "hard"'
            )
        spans = yield from self._ranked(item, spans_with_vectors(item, resources), rng, purse)
        allowed = self._allowed(item, resources)
        places = [
            _Place(item, span, resources, allowed, self.similarity_threshold) for span in spans
        ]
        while places and purse.left:
            for place in places:
                found = yield from self._attack(place, rng, purse, clean)
                if found is not None:
                    return found
            if self.rounds == "one_pass":
                break
            places = [place for place in places if place.open.any()]
        return None

    def _attack(self, place: _Place, rng: Rng, purse: _Purse, clean: float) -> _Part:
        """One estimate and one step at one entity."""
        pool = place.pool(self.multiplier * self.candidates)
        # The whole pool is shuffled: a budget that ends early asks a prefix of a longer search.
        shuffled = rng.permutation(pool)
        drawn = shuffled[: min(self.candidates, purse.left)]
        rest = shuffled[len(drawn) :]
        queries = [Predict(place.candidate(name)) for name in drawn]
        place.open[drawn] = False
        scores = []
        for i, query in enumerate(queries):
            answer = yield from purse.ask(query, queries[i + 1 :])
            if answer.reached_goal:
                return query.candidate
            scores.append(self._score(answer, place.item))
        if self.update == "none" or not purse.left:
            return None
        name = self._step(place, drawn, scores, clean)
        if name is None and len(rest):
            name = int(rest[0])  # g = 0: the pool was shuffled, so this is a fresh draw from it
        if name is None:
            return None
        place.open[name] = False
        query = Predict(place.candidate(name))
        answer = yield from purse.ask(query)
        return query.candidate if answer.reached_goal else None

    def _step(
        self, place: _Place, drawn: Indices, scores: Sequence[float | None], clean: float
    ) -> int | None:
        """The open name nearest to e0 + lambda g (Eqs. 4 and 6); None where g = 0."""
        # An unreadable answer has no score and is left out of the estimate.
        known = [i for i, score in enumerate(scores) if score is not None]
        open_names = np.flatnonzero(place.open)
        if not known or not len(open_names):
            return None
        gradient = estimate_gradient(
            place.origin,
            place.vectors_of(drawn[known]),
            np.array([scores[i] for i in known], dtype=np.float64) - clean,
            normalise_displacements=self.normalise_displacements,
            normalise_differences=self.normalise_differences,
            aggregate=self.aggregate,
        )
        # Plus, where Eq. 4 has a minus: the score is to grow, the paper's margin to fall.
        target = place.origin + self.learning_rate * gradient
        if not gradient.any() or not target.any():
            return None
        return int(most_similar(cosines(place.vectors, target), open_names, 1)[0])

    def _ranked(
        self, item: Question, spans: Sequence[Mention], rng: Rng, purse: _Purse
    ) -> Generator[Step, Replies, Sequence[Mention]]:
        """The entities in the order in which they are attacked."""
        if self.word_ranking == "given":
            return spans
        spans = [spans[i] for i in rng.permutation(len(spans))]
        # Ranking leaves enough for one step; what it cannot reach comes last, at random.
        n_probed = min(len(spans), purse.left - LEAST_STEP)
        if self.word_ranking == "random" or n_probed < 2:
            return spans
        clean = Candidate(item=item)
        probes = [Predict(clean.edit(span, ""), probe=True) for span in spans[:n_probed]]
        key, kept = item.letters.index(item.key), {}
        for i, probe in enumerate(probes):
            answer = yield from purse.ask(probe, probes[i + 1 :])
            kept[i] = answer.scores[key] if answer.scores else np.inf
        # The drop is the clean log probability, which all share, minus what is kept.
        order = sorted(kept, key=kept.__getitem__)
        return [*(spans[i] for i in order), *spans[n_probed:]]

    def _score(self, answer: Prediction, item: Question) -> float | None:
        """What the search wants to grow; None where the answer does not tell."""
        scores = answer.scores
        if self.answers == "hard":
            if answer.answer is None:
                return None
            scores = hard_log_probs(len(item.letters), item.letters.index(answer.answer))
        if scores is None:
            return None
        aim = getattr(self.goal, "letter", None)
        sought = None if aim is None else item.letters.index(aim)
        return margin_score(scores, item.letters.index(item.key), sought=sought, kappa=self.kappa)

    def _allowed(self, item: Question, resources: Resources) -> Indices:
        mark = self.variants == "mark"
        return resources.perturbations.allowed(item, "mark" if mark else "exclude")


class _Purse:
    """What is left of the budget of one trial."""

    def __init__(self, left: int) -> None:
        self.left = left

    def ask(
        self, query: Predict, then: Sequence[Predict] = ()
    ) -> Generator[Step, Replies, Prediction]:
        """Ask one query and pay for it."""
        self.left -= 1
        (answer,) = yield from ask([query], then=then)
        return answer


class _Place:
    """One entity under attack, and the names that may still be asked there."""

    def __init__(
        self,
        item: Question,
        span: Mention,
        resources: Resources,
        allowed: Indices,
        threshold: float | str,
    ) -> None:
        names = resources.perturbations
        self.item = item
        self.span = span
        self.text = span_text(item, span)
        self.names = names.names
        self.vectors = names.vectors
        self.origin = _unit(names.vector(self.text))
        self.similarity = cosines(self.vectors, self.origin)
        self.open = np.zeros(len(self.names), dtype=np.bool_)
        self.open[allowed] = True
        if not isinstance(threshold, str):
            self.open &= self.similarity >= threshold
        # e0 itself under another spelling. In float64, among those that float32 cannot tell.
        near = np.flatnonzero(self.open & (self.similarity > 1 - 1e-5))
        lengths = np.linalg.norm(self.vectors_of(near) - self.origin, axis=1)
        self.open[near[lengths < SAME_VECTOR]] = False

    def pool(self, size: int) -> Indices:
        """The open names most similar to the entity, shape (<= size,)."""
        return most_similar(self.similarity, np.flatnonzero(self.open), size)

    def vectors_of(self, names: Indices) -> Floats:
        """Their vectors, shape (n, n_dimensions)."""
        return np.asarray(self.vectors[names], dtype=np.float64)

    def candidate(self, name: int) -> Candidate:
        """The item with this name in the entity's place."""
        replacement = copy_case(self.names[name], self.text)
        return Candidate(item=self.item).edit(self.span, replacement)


def spans_with_vectors(item: Question, resources: Resources) -> list[Mention]:
    """Of these, the ones that have a place in the embedding."""
    spans = distractor_spans(item, resources)
    return [span for span in spans if resources.perturbations.vector(span_text(item, span)).any()]


def _unit(vector: Floats) -> Floats:
    unit: Floats = vector / np.linalg.norm(vector)
    return unit
