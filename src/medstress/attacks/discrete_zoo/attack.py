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

from medstress.attacks.choices import exclusions
from medstress.attacks.constraints import (
    Replacements,
    case_copy,
    count_excluded,
    goal_obstacle,
    parse_edit_limit,
    rule_validity,
)
from medstress.attacks.discrete_zoo.gradient import (
    Indices,
    cosines,
    estimate_gradient,
    hard_log_probs,
    margin_score,
    most_similar,
)
from medstress.attacks.discrete_zoo.parameters import NAME, ZooParameters
from medstress.attacks.discrete_zoo.places import AttackedEntity, QueryBudget, spans_with_vectors
from medstress.attacks.protocol import AttackTraits, SearchOn, Validity
from medstress.attacks.spans import distractor_spans, key_log_probs_without
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Prediction
from medstress.core.queries import Predict, Replies, Step, Steps, clean_answer
from medstress.core.resources import Exclusions, Resources

if TYPE_CHECKING:
    from numpy.random import Generator as Rng

_Part: TypeAlias = Generator[Step, Replies, Candidate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteZoo(ZooParameters):
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
    the released code*: it takes the step (docs: discrete-zoo).
    """

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
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
        """Return the parameters, as JSON values."""
        return {"name": NAME, **asdict(self)}

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters for labels: `spec` without defaults that depend on other keys."""
        defaults = {
            key: value for key, value in self.dependent_defaults().items() if key != "budget"
        }
        return {
            key: None if key in defaults and value == defaults[key] else value
            for key, value in self.spec().items()
        }

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if not distractor_spans(item, resources):
            return f"no distractor mentions an entity of type {resources.group}"
        if reason := goal_obstacle(self.goal, item) or resources.perturbations.obstacle(item):
            return reason
        spans = spans_with_vectors(item, resources)
        if not spans:
            return f"no entity of type {resources.group} in a distractor has a vector"
        if resources.perturbations.allowed(item, self.rule).size == 0:
            return "no name of the vocabulary may replace it"
        if reason := self._replacements.obstacle(item, spans, resources):
            return reason
        if self.similarity_threshold != "off" and not any(
            self.entity(item, span, resources).open.any()
            for span in self.attacked_spans(item, resources)
        ):
            return "no name of the vocabulary lies within similarity_threshold"
        return None

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Judge a success by the rules; see `rule_validity`."""
        return rule_validity(candidate, resources)

    def n_excluded(self, candidate: Candidate, resources: Resources) -> dict[str, int]:
        """Count the names never asked, by reason; see `count_excluded`."""
        return count_excluded(candidate, resources, self._replacements)

    def edited_options(self, item: Question, resources: Resources) -> frozenset[str]:
        """Return the options in which an entity may be replaced."""
        return frozenset(span.field for span in self.attacked_spans(item, resources))

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the number of probes and of names at all entities, at most the budget."""
        spans = self.attacked_spans(item, resources)
        sizes = [self._replacements.names(item, span, resources).size for span in spans]
        if self.rounds == "one_pass":
            sizes = [min(size, self.candidates + 1) for size in sizes]
        n_probes = len(spans) if self.word_ranking == "importance" else 0
        return int(min(self.budget - self.count_baseline, n_probes + sum(sizes)))

    def run(self, item: Question, rng: Rng, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see `Attack.run`."""
        budget = QueryBudget(self.budget - self.count_baseline)
        clean = yield from clean_answer()
        if self._log_probs(clean, item) is None:
            raise TrialError(
                "discrete_zoo: the gradient needs option probabilities, but the victim gives none; "
                'let it answer by letter or text, or set answers = "hard"'
            )
        spans = yield from self.ranked(item, self.attacked_spans(item, resources), rng, budget)
        entities = [self.entity(item, span, resources) for span in spans]
        while entities and budget.left:
            for entity in entities:
                success = yield from self._attack(entity, rng, budget, clean)
                if success is not None:
                    return success
            if self.rounds == "one_pass":
                break
            entities = [entity for entity in entities if entity.open.any()]
        return None

    def _attack(
        self, entity: AttackedEntity, rng: Rng, budget: QueryBudget, clean: Prediction
    ) -> _Part:
        """Make one estimate and one step at one entity."""
        pool = entity.pool(self.multiplier * self.candidates)
        # Shuffle the whole pool, so that a smaller budget asks a prefix of what a larger one asks.
        shuffled = rng.permutation(pool)
        drawn = shuffled[: min(self.candidates, budget.left)]
        rest = shuffled[len(drawn) :]
        queries = [Predict(entity.candidate(name)) for name in drawn]
        entity.open[drawn] = False
        scores = []
        for i, query in enumerate(queries):
            answer = yield from budget.ask(query, queries[i + 1 :])
            if answer.reached_goal:
                reached: Candidate = query.candidate
                return reached
            scores.append(self._score(answer, entity))
        if self.update == "none" or not budget.left:
            return None
        before = self._score(clean, entity)
        assert before is not None  # `run` has checked it
        name = self._step(entity, drawn, scores, before)
        if name is None and len(rest):
            name = int(rest[0])  # g = 0: the pool was shuffled, so this is a fresh draw from it
        if name is None:
            return None
        entity.open[name] = False
        query = Predict(entity.candidate(name))
        answer = yield from budget.ask(query)
        return query.candidate if answer.reached_goal else None

    def _step(
        self, entity: AttackedEntity, drawn: Indices, scores: Sequence[float | None], clean: float
    ) -> int | None:
        """Return the open name nearest to e0 + lambda g (Eqs. 4 and 6); None if g = 0."""
        # An unreadable answer has no score and is left out of the estimate.
        known = [i for i, score in enumerate(scores) if score is not None]
        open_names = np.flatnonzero(entity.open)
        if not known or not len(open_names):
            return None
        gradient = estimate_gradient(
            entity.origin,
            entity.vectors_of(drawn[known]),
            np.array([scores[i] for i in known], dtype=np.float64) - clean,
            normalise_displacements=self.normalise_displacements,
            normalise_differences=self.normalise_differences,
            aggregate=self.aggregate,
        )
        # Eq. 4 has a minus here: the paper lowers a margin, we raise a score.
        target = entity.origin + self.learning_rate * gradient
        if not gradient.any() or not target.any():
            return None
        return int(most_similar(cosines(entity.vectors, target), open_names, 1)[0])

    def ranked(
        self, item: Question, spans: Sequence[Mention], rng: Rng, budget: QueryBudget
    ) -> Generator[Step, Replies, Sequence[Mention]]:
        """Return the entities in the order of attack."""
        if self.word_ranking == "given":
            return spans
        spans = [spans[i] for i in rng.permutation(len(spans))]
        if self.word_ranking == "random" or len(spans) < 2:
            return spans
        # Probe all or none: the first queries must not depend on the budget, so that a smaller
        # one asks a prefix. Ask nothing if the probes alone would use it up.
        if len(spans) >= budget.left:
            return []
        budget.left -= len(spans)
        kept = yield from key_log_probs_without(item, spans, "word_ranking = 'importance'")
        # The drop is the clean log probability, the same for all, minus that without the span.
        return [spans[i] for i in sorted(range(len(spans)), key=kept.__getitem__)]

    def _score(self, answer: Prediction, entity: AttackedEntity) -> float | None:
        """Return the score that the search maximises at an entity; None if it is unknown."""
        item = entity.item
        scores = self._log_probs(answer, item)
        if scores is None:
            return None
        # Replaced: the option that this entity stands in.
        aim = entity.span.field if self.goal == "replaced" else self.goal
        sought = None if aim == "untargeted" else item.letters.index(aim)
        return margin_score(scores, item.letters.index(item.key), sought=sought, kappa=self.kappa)

    def _log_probs(self, answer: Prediction, item: Question) -> Sequence[float] | None:
        """Return log probabilities of the options, from the answer alone if answers are hard."""
        if self.answers == "soft":
            return answer.scores
        if answer.answer is None:
            return None
        return hard_log_probs(len(item.letters), item.letters.index(answer.answer))

    def entity(self, item: Question, span: Mention, resources: Resources) -> AttackedEntity:
        """Return an entity with the names that may replace it."""
        return AttackedEntity(
            item,
            span,
            resources,
            self._replacements.names(item, span, resources),
            self.similarity_threshold,
            case_copy(self.choices),
        )

    def attacked_spans(self, item: Question, resources: Resources) -> Sequence[Mention]:
        """Return the entities that at least one name may replace."""
        return self._replacements.spans(item, spans_with_vectors(item, resources), resources)

    @property
    def _replacements(self) -> Replacements:
        return Replacements(
            limit=parse_edit_limit(self.max_edit_distance, NAME),
            rule=self.rule,
            copy_case=case_copy(self.choices),
        )
