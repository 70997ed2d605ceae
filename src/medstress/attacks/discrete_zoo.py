"""DiscreteZOO on spans: estimate a gradient from a few names, ask the name it points to.

References:
    Nathaniel Berger et al., "Don't search for a search method: simple heuristics suffice for
    adversarial text attacks", EMNLP 2021.
    R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language models
    by query-efficient sampling attacks", TMLR 2025, section 3.3, Eqs. 4-6.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from medstress.attacks.choices import exclusions
from medstress.attacks.constraints import (
    Replacements,
    case_copy,
    count_excluded,
    goal_obstacle,
    parse_edit_limit,
    rule_validity,
)
from medstress.attacks.protocol import Attack, AttackTraits, SearchOn, Validity
from medstress.attacks.spans import distractor_spans, key_kept
from medstress.attacks.zeroth_order import (
    Indices,
    cosines,
    estimate_gradient,
    hard_log_probs,
    margin_score,
    most_similar,
)
from medstress.attacks.zoo_places import Place, Purse, spans_with_vectors
from medstress.attacks.zoo_settings import (
    NAME,
    by_choices,
    check,
    followed,
    settle,
)
from medstress.errors import TrialError
from medstress.items import Candidate, Mention, Question
from medstress.outcomes import Prediction
from medstress.queries import Predict, Replies, Step, Steps, clean_answer
from medstress.resources import Exclusions, Resources

if TYPE_CHECKING:
    from numpy.random import Generator as Rng

_Part: TypeAlias = Generator[Step, Replies, Candidate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteZoo(Attack):
    """Ask a few names near a distractor entity, then the one that their scores point to.

    At one entity e0: M names c_i, drawn from its nearest in the embedding, are asked; from the
    changes of the score a gradient g is estimated (Eq. 5); the name nearest to e0 + lambda g is
    asked as well (Eqs. 4 and 6). So a step costs M + 1 queries. Then comes the next entity, and
    after the last the first again with fresh names, until the budget is used or the victim errs.

    Where g is zero (no change of the score, as always with `answers = "hard"`) there is no
    direction to follow: a name drawn from the pool is asked instead.

    *Differs from the paper*: what could be a second right answer is not asked; the victim's
    probabilities are read, not only its answers; the search goes on after one pass over the
    entities; g is a sum, not a mean (`choices = "as_published"` undoes all four). *Differs from
    the released code*: the step is taken (docs: discrete-zoo).
    """

    budget: int = by_choices(8, as_released=7)
    """Perturbed queries an item, 3 (two names and one step) to 1,000. Default 8; 7 as_released,
    where the clean call is the first of 8."""
    choices: str = "default"
    """`default`; `as_published`: `answers = "hard"`, `aggregate = "mean"`,
    `rounds = "one_pass"`, `variants = "mark"`; `as_released`: what the released code amounts to,
    draws from a neighbourhood without any gradient. Changes only defaults."""
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
    answers: str = by_choices("soft", as_published="hard", as_released="hard")
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
    goal: str = "untargeted"
    """What the victim shall answer: `untargeted` (any wrong option), `replaced` (the option that
    was edited), or an option letter."""
    continue_on_invalid: bool = by_choices(None)
    """Whether the search goes on after a success that a rule refutes. Default: true where
    variants is `mark`."""
    unreadable_is_success: bool = by_choices(False, as_released=True)
    """Whether an unreadable answer is a success."""
    max_edit_distance: int | Mapping[str, int] = 0
    """Largest edit distance of entity and name: characters, or `{tokens = 3}`; 0 = no limit."""
    count_baseline: bool = by_choices(False)
    """Whether the question on the clean item uses up one query of the budget."""

    def __post_init__(self) -> None:
        for key, value in settle(self).items():
            object.__setattr__(self, key, value)
        check(self)

    @property
    def traits(self) -> AttackTraits:
        """What it is."""
        return AttackTraits(
            stream=NAME,
            budget=self.budget,
            goal=self.goal,
            unreadable_is_success=self.unreadable_is_success,
            needs_scores="answers = 'soft'" if self.answers == "soft" else None,
            search_on=SearchOn.INVALID if self.continue_on_invalid else SearchOn.NEVER,
            may_be_refuted=self.variants == "mark",
            puts_one_name=True,
        )

    @property
    def rule(self) -> Exclusions:
        """Which names are never drawn."""
        return exclusions(self.choices, self.variants)

    def spec(self) -> dict[str, Any]:
        """The parameters, as JSON values."""
        return {"name": NAME, **asdict(self)}

    def label_parameters(self) -> dict[str, Any]:
        """What may name the attack in a label: `spec` without what follows from other keys."""
        follows = {key: value for key, value in followed(self).items() if key != "budget"}
        return {
            key: None if key in follows and value == follows[key] else value
            for key, value in self.spec().items()
        }

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Why the item cannot be attacked, or None."""
        if not distractor_spans(item, resources):
            return f"no distractor mentions an entity of type {resources.group}"
        if reason := goal_obstacle(self.goal, item) or resources.perturbations.obstacle(item):
            return reason
        spans = spans_with_vectors(item, resources)
        if not spans:
            return f"no entity of type {resources.group} in a distractor has a vector"
        if resources.perturbations.allowed(item, self.rule).size == 0:
            return "no name of the vocabulary may replace it"
        if self.max_edit_distance and not self._spans(item, resources):
            return "no name of the vocabulary lies within max_edit_distance"
        if self.similarity_threshold != "off" and not any(
            self._place(item, span, resources).open.any() for span in self._spans(item, resources)
        ):
            return "no name of the vocabulary lies within similarity_threshold"
        return None

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """What the rules say of a success: see `rule_validity`."""
        return rule_validity(candidate, resources)

    def n_excluded(self, candidate: Candidate, resources: Resources) -> dict[str, int]:
        """Names never asked, by reason; `edit_distance` counts those beyond the limit."""
        return count_excluded(candidate, resources, self._replacements)

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Probes, and what every entity can be asked with, as far as the budget goes."""
        spans = self._spans(item, resources)
        sizes = [self._replacements.names(item, span, resources).size for span in spans]
        if self.rounds == "one_pass":
            sizes = [min(size, self.candidates + 1) for size in sizes]
        n_probes = len(spans) if self.word_ranking == "importance" else 0
        return int(min(self.budget - self.count_baseline, n_probes + sum(sizes)))

    def run(self, item: Question, rng: Rng, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see `Attack.run`."""
        purse = Purse(self.budget - self.count_baseline)
        clean = yield from clean_answer()
        if self._log_probs(clean, item) is None:
            raise TrialError(
                "discrete_zoo: the victim gives no option probabilities, which its gradient is "
                'estimated from; let it answer by letter or text, or set answers = "hard"'
            )
        spans = yield from self._ranked(item, self._spans(item, resources), rng, purse)
        places = [self._place(item, span, resources) for span in spans]
        while places and purse.left:
            for place in places:
                found = yield from self._attack(place, rng, purse, clean)
                if found is not None:
                    return found
            if self.rounds == "one_pass":
                break
            places = [place for place in places if place.open.any()]
        return None

    def _attack(self, place: Place, rng: Rng, purse: Purse, clean: Prediction) -> _Part:
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
                reached: Candidate = query.candidate
                return reached
            scores.append(self._score(answer, place))
        if self.update == "none" or not purse.left:
            return None
        before = self._score(clean, place)
        assert before is not None  # the attack began with it
        name = self._step(place, drawn, scores, before)
        if name is None and len(rest):
            name = int(rest[0])  # g = 0: the pool was shuffled, so this is a fresh draw from it
        if name is None:
            return None
        place.open[name] = False
        query = Predict(place.candidate(name))
        answer = yield from purse.ask(query)
        return query.candidate if answer.reached_goal else None

    def _step(
        self, place: Place, drawn: Indices, scores: Sequence[float | None], clean: float
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
        self, item: Question, spans: Sequence[Mention], rng: Rng, purse: Purse
    ) -> Generator[Step, Replies, Sequence[Mention]]:
        """The entities in the order in which they are attacked."""
        if self.word_ranking == "given":
            return spans
        spans = [spans[i] for i in rng.permutation(len(spans))]
        if self.word_ranking == "random" or len(spans) < 2:
            return spans
        # All or none: what is asked first must not depend on the budget, or a smaller one would
        # not ask a prefix. Where the probes would use it up, nothing is asked.
        if len(spans) >= purse.left:
            return []
        purse.left -= len(spans)
        kept = yield from key_kept(item, spans, "word_ranking = 'importance'")
        # The drop is the clean log probability, which all share, minus what is kept.
        return [spans[i] for i in sorted(range(len(spans)), key=kept.__getitem__)]

    def _score(self, answer: Prediction, place: Place) -> float | None:
        """What the search wants to grow at an entity; None where the answer does not tell."""
        item = place.item
        scores = self._log_probs(answer, item)
        if scores is None:
            return None
        # Replaced: the option that this entity stands in.
        aim = place.span.field if self.goal == "replaced" else self.goal
        sought = None if aim == "untargeted" else item.letters.index(aim)
        return margin_score(scores, item.letters.index(item.key), sought=sought, kappa=self.kappa)

    def _log_probs(self, answer: Prediction, item: Question) -> Sequence[float] | None:
        """What the victim is taken to believe of the options."""
        if self.answers == "soft":
            return answer.scores
        if answer.answer is None:
            return None
        return hard_log_probs(len(item.letters), item.letters.index(answer.answer))

    def _place(self, item: Question, span: Mention, resources: Resources) -> Place:
        """An entity with the names that may be asked there."""
        return Place(
            item,
            span,
            resources,
            self._replacements.names(item, span, resources),
            self.similarity_threshold,
            case_copy(self.choices),
        )

    def _spans(self, item: Question, resources: Resources) -> Sequence[Mention]:
        """The entities that some name may replace."""
        return self._replacements.spans(item, spans_with_vectors(item, resources), resources)

    @property
    def _replacements(self) -> Replacements:
        return Replacements(
            limit=parse_edit_limit(self.max_edit_distance, NAME),
            rule=self.rule,
            copy_case=case_copy(self.choices),
        )
