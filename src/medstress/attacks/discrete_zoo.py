"""DiscreteZOO on spans: estimate a gradient from a few names, ask the name it points to.

References:
    Nathaniel Berger et al., "Don't search for a search method: simple heuristics suffice for
    adversarial text attacks", EMNLP 2021.
    R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language models
    by query-efficient sampling attacks", TMLR 2025, section 3.3, Eqs. 4-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medstress.attacks.names import (
    BY_CHOICES,
    MAX_BUDGET,
    Choices,
    EditDistance,
    GoalText,
    Substitution,
    Variants,
    distractor_spans,
    key_log_probs_without,
    span_text,
)
from medstress.attacks.protocol import Need, parameters
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Prediction
from medstress.core.queries import Predict, Replies, Step, Steps, ask, clean_answer
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator as Rng

Floats: TypeAlias = NDArray[np.float64]
Similarities: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int64]
_Part: TypeAlias = Generator[Step, Replies, Candidate | None]
SAME_VECTOR = 1e-6
"""A name closer than this to the span in the embedding gives no direction and is not asked."""
HARD_FLOOR = 1e-8
"""Probability that a hard answer gives the options not chosen."""


class QueryBudget:
    """The queries left in one trial."""

    def __init__(self, left: int) -> None:
        self.left = left

    def ask(
        self, query: Predict, then: Sequence[Predict] = ()
    ) -> Generator[Step, Replies, Prediction]:
        """Ask one query and count it."""
        self.left -= 1
        (answer,) = yield from ask([query], then=then)
        return answer


class AttackedEntity:
    """One entity under attack, and the names that may still replace it."""

    def __init__(
        self,
        item: Question,
        span: Mention,
        resources: Resources,
        allowed: Indices,
        threshold: float | str,
        cased: Callable[[str, str], str],
    ) -> None:
        names = resources.perturbations
        self.item = item
        self.span = span
        self.text = span_text(item, span)
        self.names = names.names
        self._cased = cased
        self.vectors_of, self.cosines = names.vectors_of, names.cosines
        origin = names.vector(self.text)
        self.origin: Floats = origin / np.linalg.norm(origin)
        self.similarity = self.cosines(self.origin)
        self.open = np.zeros(len(self.names), dtype=np.bool_)
        self.open[allowed] = True
        if not isinstance(threshold, str):
            self.open &= self.similarity >= threshold
        # Exclude e0 itself under another spelling; in float64, as float32 is too coarse.
        near = np.flatnonzero(self.open & (self.similarity > 1 - 1e-5))
        lengths = np.linalg.norm(self.vectors_of(near) - self.origin, axis=1)
        self.open[near[lengths < SAME_VECTOR]] = False

    def pool(self, size: int) -> Indices:
        """Return the open names most similar to the entity, shape (<= size,)."""
        return most_similar(self.similarity, np.flatnonzero(self.open), size)

    def candidate(self, name: int) -> Candidate:
        """Return the item with the entity replaced by this name."""
        replacement = self._cased(self.names[name], self.text)
        return Candidate(item=self.item).edit(self.span, replacement)


@parameters
class DiscreteZoo(Substitution):
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

    name = "discrete_zoo"

    budget: Annotated[int, Field(ge=3, le=MAX_BUDGET)] = BY_CHOICES
    """Perturbed queries per item, 3 (two names and the step they point to) to 1,000. Default 8; 7
    as_released, where the clean call is the first of 8."""
    choices: Choices = "default"
    """`default`; `as_published`: `answers = "hard"`, `aggregate = "mean"`,
    `rounds = "one_pass"`, `variants = "mark"`; `as_released`: what the released code amounts to,
    draws from a neighbourhood without any gradient. Changes only defaults."""
    candidates: Annotated[int, Field(ge=2, le=MAX_BUDGET)] = BY_CHOICES
    """M, names asked for one estimate, which takes at least 2. Default 3; 10 as_released."""
    learning_rate: Annotated[float, Field(gt=0, le=1_000_000)] = BY_CHOICES
    """lambda, on unit vectors. With 10, the default, the estimate decides where the step ends,
    with 0.1 (as_released) the entity does; larger changes little."""
    similarity_threshold: Literal["off"] | Annotated[float, Field(ge=-1, le=1)] = "off"
    """Smallest cosine of a name and the entity it replaces; `off`: no limit."""
    word_ranking: Literal["random", "importance", "given"] = BY_CHOICES
    """Order of the entities: `random`; `importance`: largest drop of the key's log probability
    when the entity is deleted first, one query each; `given`: as in the text (as_released)."""
    answers: Literal["soft", "hard"] = BY_CHOICES
    """`soft`: the victim's option probabilities; `hard`: only what it answers, so that the
    estimate is always zero (as_published, as_released)."""
    multiplier: Annotated[int, Field(ge=1, le=MAX_BUDGET)] = 5
    """Names are drawn from the `multiplier` * M nearest that were not asked yet."""
    kappa: Annotated[float, Field(ge=0, le=100)] = 0.0
    """How far beyond the decision boundary the score still grows."""
    aggregate: Literal["sum", "mean"] = BY_CHOICES
    """Over the M names: `sum`; as_published `mean`."""
    rounds: Literal["until_budget", "one_pass"] = BY_CHOICES
    """`until_budget`: one entity after another, again and again with fresh names; `one_pass`: each
    entity once (as_published, as_released)."""
    update: Literal["gradient", "none"] = BY_CHOICES
    """`gradient`; `none`: the step is left out, which leaves draws from a neighbourhood
    (as_released)."""
    variants: Variants = BY_CHOICES
    """`exclude`: variants and synonyms of the key are never asked; `mark`: they are asked
    (as_published, as_released)."""
    goal: GoalText = "untargeted"
    """The answer that is a success: `untargeted` (any wrong option), `replaced` (the option that
    was edited), or an option letter."""
    continue_on_invalid: bool = BY_CHOICES
    """Whether the search goes on after a success that a rule refutes. Default: true where
    variants is `mark`."""
    unreadable_is_success: bool = BY_CHOICES
    """Whether an unreadable answer is a success. Default false; true as_released."""
    max_edit_distance: EditDistance = 0
    """Largest edit distance of entity and name: characters, or `{tokens = 3}`; 0 = no limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word_ranking == "importance" and self.answers == "hard":
            raise ValueError(
                "word_ranking = 'importance' needs the probability of the right answer, which "
                "answers = 'hard' ignores; change one of the two"
            )

    def dependent_defaults(self) -> dict[str, Any]:
        """Return the defaults of the keys whose default depends on other keys (METHODS 7)."""
        is_ours, is_released = self.choices == "default", self.choices == "as_released"
        variants = "exclude" if is_ours else "mark"
        return {
            "budget": 7 if is_released else 8,
            "candidates": 10 if is_released else 3,
            "learning_rate": 0.1 if is_released else 10.0,
            "word_ranking": "given" if is_released else "random",
            "answers": "soft" if is_ours else "hard",
            "aggregate": "mean" if self.choices == "as_published" else "sum",
            "rounds": "until_budget" if is_ours else "one_pass",
            "update": "none" if is_released else "gradient",
            "variants": variants,
            "continue_on_invalid": (self.variants or variants) == "mark",
            "unreadable_is_success": is_released,
        }

    fields = frozenset({"options"})

    @property
    def needs(self) -> frozenset[Need]:
        """Names, and scores where probabilities are read."""
        return frozenset({"names", "scores"} if self.answers == "soft" else {"names"})

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if not distractor_spans(item, resources):
            return f"no wrong option mentions an entity of type {resources.group}"
        spans = self._with_vectors(item, resources)
        if not spans:
            return f"no entity of type {resources.group} in a wrong option has a vector"
        if reason := self.obstacle_of(item, spans, resources):
            return reason
        if self.similarity_threshold != "off" and not any(
            self.entity(item, span, resources).open.any()
            for span in self.attacked_spans(item, resources)
        ):
            return "no name of the vocabulary lies within similarity_threshold"
        return None

    def run(self, item: Question, rng: Rng, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see `Attack.run`."""
        budget = QueryBudget(self.budget)
        clean = yield from clean_answer()
        if self._log_probs(clean, item) is None:
            raise TrialError(
                "discrete_zoo: the gradient needs option probabilities, but the model gives none; "
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
        scored = [i for i, score in enumerate(scores) if score is not None]
        open_names = np.flatnonzero(entity.open)
        if not scored or not len(open_names):
            return None
        gradient = estimate_gradient(
            entity.origin,
            entity.vectors_of(drawn[scored]),
            np.array([scores[i] for i in scored], dtype=np.float64) - clean,
            aggregate=self.aggregate,
        )
        # Eq. 4 has a minus here: the paper lowers a margin, we raise a score.
        target = entity.origin + self.learning_rate * gradient
        if not gradient.any() or not target.any():
            return None
        return int(most_similar(entity.cosines(target), open_names, 1)[0])

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
        # Replaced: the option that this entity is in.
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
        names = self.names(item, span, resources)
        return AttackedEntity(item, span, resources, names, self.similarity_threshold, self.cased)

    def attacked_spans(self, item: Question, resources: Resources) -> Sequence[Mention]:
        """Return the entities that at least one name may replace."""
        return self.replaceable(item, self._with_vectors(item, resources), resources)

    def _with_vectors(self, item: Question, resources: Resources) -> list[Mention]:
        vector = resources.perturbations.vector
        spans = distractor_spans(item, resources)
        return [span for span in spans if vector(span_text(item, span)).any()]


# -- the mathematics: scores, the gradient estimate, neighbours ----------------------------------
def margin_score(
    log_probs: Sequence[float], key: int, *, sought: int | None = None, kappa: float = 0.0
) -> float:
    """Return the score that the attack wants to be large; 0 is reached where it succeeds.

    Untargeted: -max(log p_key - max_{j != key} log p_j + kappa, 0). Targeted at option t:
    -max(max_{j != t} log p_j - log p_t + kappa, 0).

    Args:
        log_probs: log probabilities over the options.
        key: position of the right option.
        sought: position of the option aimed at; None: any wrong one.
        kappa: how far beyond the border the score still grows, >= 0.

    >>> round(margin_score([math.log(0.7), math.log(0.2), math.log(0.1)], 0), 4)
    -1.2528
    >>> margin_score([math.log(0.2), math.log(0.8)], 0)
    -0.0
    """
    against = key if sought is None else sought
    rest = max(value for j, value in enumerate(log_probs) if j != against)
    margin = log_probs[against] - rest if sought is None else rest - log_probs[against]
    return -max(margin + kappa, 0.0)


def hard_log_probs(n_options: int, chosen: int) -> tuple[float, ...]:
    """Return the log probabilities assumed for a victim that gives only its answer.

    log(one-hot + 1e-8), so the score is 0 where the answer is wrong and about -18.42 where it
    is right: no value between them, and nothing to follow before the attack has succeeded.
    """
    return tuple(math.log(HARD_FLOOR + (j == chosen)) for j in range(n_options))


def estimate_gradient(
    origin: Floats, points: Floats, changes: Floats, *, aggregate: str = "sum"
) -> Floats:
    """Estimate the gradient of a score from its changes at a few points (Xian et al., Eq. 5).

    g = sum_i (s_i - s_0)/|d_i| * d_i/|d_i| with d_i = c_i - e_0. Where s is linear with gradient
    w, and M directions are drawn isotropically in d dimensions, cos(g, w) is about
    1/sqrt(1 + (d - 1)/M); M = d orthonormal directions give w itself.

    Args:
        origin: e_0, shape (n_dimensions,).
        points: c_i, none equal to e_0, shape (n_points, n_dimensions).
        changes: s_i - s_0, shape (n_points,).
        aggregate: `sum` (the released code) or `mean` (Eq. 5); it scales the learning rate by M.

    Returns:
        Shape (n_dimensions,); exactly zero where no change differs from zero.

    >>> estimate_gradient(np.zeros(2), np.eye(2), np.array([0.5, -2.0])).tolist()
    [0.5, -2.0]
    """
    displacements = points - origin
    lengths = np.linalg.norm(displacements, axis=1)
    gradient: Floats = (changes / lengths) @ (displacements / lengths[:, None])
    return gradient / len(points) if aggregate == "mean" else gradient


def most_similar(similarities: Similarities, among: Indices, k: int) -> Indices:
    """Return up to k of the indices `among`, in descending similarity.

    >>> most_similar(np.array([0.1, 0.9, 0.5], np.float32), np.array([0, 2]), 1).tolist()
    [2]
    """
    values = similarities[among]
    top = np.argpartition(-values, k)[:k] if k < len(among) else np.arange(len(among))
    # By index among equals, so that the order depends on nothing else.
    return among[top[np.lexsort((top, -values[top]))]]
