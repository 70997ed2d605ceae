"""Scores of whole data sets: what a kind of item says of them, F1 of entities, and correlations.

*Strict* F1: same tokens and same type, as in the CoNLL shared tasks and by seqeval's default mode.
*Relaxed*: SemEval 2013 task 9, type matching, as nervaluate counts `ent_type`. The model's entities
are taken in order. Each takes one gold entity that shares a token and is still free: the one of its
type with the nearest borders, else the first of another type, which is no match but is used up. So
with several types the total is not the sum over types, which compare one type only. *Seqeval
strict*: as strict, but entities that a model marks without a leading B- do not count (seqeval's
`mode="strict"` with IOB2). Scored only where labels are not well-formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.sentences import entities_of
from medstress.core.trials import Answer
from medstress.stats.shares import Numbers

_AT_ONCE = 500_000
"""Weights that are held at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Resamples:
    """How often each answer is drawn; answers of one cluster are drawn together."""

    rows: NDArray[Any]
    """How often each cluster is drawn, shape (n_resamples, n_clusters)."""
    clusters: NDArray[np.int64]
    """The cluster of each answer, shape (m,)."""

    def sums(self, values: Numbers) -> Numbers:
        """Return the sum over all answers that are drawn, shape (n_resamples, k).

        Args:
            values: of each answer, shape (m, k).
        """
        by_cluster = np.zeros((self.rows.shape[1], values.shape[1]))
        np.add.at(by_cluster, self.clusters, values)
        return np.concatenate([rows @ by_cluster for rows in self._blocks(self.rows.shape[1])])

    def weights(self) -> Iterator[Numbers]:
        """Yield how often each answer is drawn, a block of resamples at a time: shape (b, m)."""
        for rows in self._blocks(len(self.clusters)):
            yield rows[:, self.clusters]

    def _blocks(self, width: int) -> Iterator[Numbers]:
        step = max(1, _AT_ONCE // max(width, 1))
        for start in range(0, len(self.rows), step):
            yield self.rows[start : start + step].astype(np.float64)


RIGHT = "Accuracy"
OF_ATTACKABLE = "Accuracy is of what could be attacked."
MEANINGS = f"Shares have their counts and, in brackets, their 95 % intervals. {OF_ATTACKABLE}"
Measure: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Resamples], Mapping[str, Numbers]]
"""(gold, predicted, resamples) -> name of a score -> its value in every resample, nan where it is
undefined. `gold[i]` and `predicted[i]` belong to answer i."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scoring:
    """The scores of a kind. `Scoring(scores=macro_f1, words={"macro_f1": "Macro F1"})` will do."""

    scores: Measure
    words: Mapping[str, str]
    """Name of a score -> what people call it, in the order of tables."""
    main: str = ""
    """The score that verdict and warnings speak of; default: the first, as below all."""
    falls: Sequence[str] = ()
    """The scores whose fall is tested."""
    shown: Sequence[str] = ()
    """The scores in tables."""
    drops: Sequence[str] = ()
    """Those of them whose fall is shown."""
    enough: int = 30
    """Clusters from which an interval is called 95 %."""
    seed: int = 20_260_203
    """Of the swaps behind p-values."""
    is_signed: bool = False
    """Whether scores may be below 0, to -1; they are 1 at most."""
    by_seed: bool = False
    """Whether a score is the mean of each seed's, over the items that all seeds have; else the
    answers of all seeds are scored together."""
    units: tuple[str, str] = ("items", "items (those that share a text count once)")
    """What the clusters are, where every item is one and where some share one."""
    counts: str = "items, in every seed"
    """What the n of its main score counts."""
    undefined: str = "nothing was answered"
    """Why a score may be undefined; see `why_undefined`."""
    no_copy: str = "a search asks about other edits of every item, so there is no perturbed copy"
    """Why a search has no perturbed copy."""
    note: str = "Drop: before minus after, paired."
    """What the words in a table of the scores mean."""
    right: str = RIGHT
    """What a table of rates calls the share that was right before any edit."""
    meanings: str = MEANINGS
    """What the words in a table of rates mean."""

    def __post_init__(self) -> None:
        every = tuple(self.words)
        for name in ("falls", "shown", "drops"):
            object.__setattr__(self, name, getattr(self, name) or every)
        object.__setattr__(self, "main", self.main or every[0])

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the highest score there can be."""
        return (-1.0 if self.is_signed else 0.0), 1.0

    def read(self, item: Any, edits: Any, answer: Answer) -> tuple[Any, Any] | None:
        """Return gold and predicted of an answer about an item with edits; None: no answer."""
        return item.key, answer.answer

    def n(self, gold: Sequence[Any], predicted: Sequence[Any]) -> Mapping[str, int]:
        """Return what each score is counted over."""
        return dict.fromkeys(self.words, len(gold))

    def swappable(self, predicted: Sequence[Any]) -> Sequence[Any]:
        """Return what was predicted as a test may swap it with the predictions of another copy."""
        return predicted

    def why_undefined(self, gold: Sequence[Any], predicted: Sequence[Any]) -> str:
        """Return why a score of these answers has no value."""
        return self.undefined

    def names(self, n: Mapping[str, int]) -> Sequence[str]:
        """Return the scores that are worth showing, from what they are counted over."""
        return tuple(n)

    def parts(self, gold: Sequence[Any]) -> Sequence[str]:
        """Return what gold values are made of, such as types of entities."""
        return ()

    def columns(self, *, has_copy: bool) -> tuple[str, ...]:
        """Return the names of its scores in a row; without a perturbed copy the clean ones."""
        endings = ("", "_after", "_drop", "_net_drop") if has_copy else ("",)
        return tuple(f"{name}{ending}" for name in self.words for ending in endings)


# -- sentence pairs ---------------------------------------------------------------------------
FEWEST = 3
"""Pairs below which no correlation is defined."""
CONSTANT = 1e-6
"""Scores whose standard deviation is no larger than this share of their size (root mean square) are
constant: they differ by the rounding of float32 alone, and so would their ranks."""


def correlations(
    gold: Sequence[float], predicted: Sequence[float], resamples: Resamples
) -> dict[str, Numbers]:
    """Return Pearson's and Spearman's correlation with the gold scores; ties have mean ranks.

    Both are undefined (nan) for fewer than three pairs and where either score is constant.
    """
    x, y = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if len(x) < FEWEST:
        return dict.fromkeys(("pearson", "spearman"), np.full(len(resamples.rows), np.nan))
    plain, ranked = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for weights in resamples.weights():
            varies = _varies(x, weights) & _varies(y, weights)
            ranks = _ranks(x, weights), _ranks(y, weights)
            plain.append(np.where(varies, _correlation(x[None], y[None], weights), np.nan))
            ranked.append(np.where(varies, _correlation(*ranks, weights), np.nan))
    return {"pearson": np.concatenate(plain), "spearman": np.concatenate(ranked)}


def pearson(gold: Sequence[float] | Numbers, scores: Sequence[float] | Numbers) -> float | None:
    """Return the correlation of scores with gold scores, both of shape (m,); None if undefined."""
    once = Resamples(np.ones((1, len(gold))), np.arange(len(gold)))
    value = float(correlations(list(gold), list(scores), once)["pearson"][0])
    return value if np.isfinite(value) else None


def _varies(x: Numbers, weights: Numbers) -> NDArray[np.bool_]:
    """Return in which resamples values (m,) with weights (n, m) are not constant, shape (n,)."""
    means = (weights @ x) / weights.sum(-1)
    spread = (weights * (x - means[:, None]) ** 2).sum(-1)
    return np.asarray(spread > CONSTANT**2 * (weights @ x**2))


def _correlation(a: Numbers, b: Numbers, weights: Numbers) -> Numbers:
    total = weights.sum(-1, keepdims=True)
    a = a - (weights * a).sum(-1, keepdims=True) / total
    b = b - (weights * b).sum(-1, keepdims=True) / total
    size = np.sqrt((weights * a * a).sum(-1) * (weights * b * b).sum(-1))
    return np.asarray((weights * a * b).sum(-1) / size)


def _ranks(x: Numbers, weights: Numbers) -> Numbers:
    """Return mean ranks of values (m,) with weights (n, m): a row for each row of weights."""
    values, places = np.unique(x, return_inverse=True)
    order = np.argsort(places, kind="stable")
    first = np.searchsorted(places[order], np.arange(len(values)))
    counts = np.add.reduceat(weights[:, order], first, axis=1)
    return np.asarray((np.cumsum(counts, axis=1) - counts + (counts + 1) / 2)[:, places])


class _Similarities(Scoring):
    def read(self, item: Any, edits: Any, answer: Answer) -> tuple[Any, Any] | None:
        """The gold score and the model's."""
        return (float(item.score), float(answer.scores[0])) if answer.scores else None

    def swappable(self, predicted: Sequence[Any]) -> Sequence[Any]:
        """Standardised: a copy whose scores are all lower correlates as well, a mixture does not.

        On the models' own scale the test never rejects a true fall where the scores also shrink.
        """
        scores = np.array(predicted)
        return ((scores - scores.mean()) / (scores.std() or 1.0)).tolist() if len(scores) else []

    def why_undefined(self, gold: Sequence[Any], predicted: Sequence[Any]) -> str:
        """Which of the two scores is constant, if there are enough."""
        if len(gold) < FEWEST:
            return "fewer than three pairs have a score"
        once = np.ones((1, len(gold)))
        for scores, constant in ((predicted, "the model gives"), (gold, "people gave")):
            if not _varies(np.array(scores), once)[0]:
                return f"{constant} every pair the same score"
        return self.undefined


CORRELATIONS = _Similarities(
    counts="pairs, in every seed",
    scores=correlations,
    words={"pearson": "Pearson", "spearman": "Spearman"},
    enough=40,
    seed=20_260_202,
    is_signed=True,
    by_seed=True,
    units=("pairs", "pairs (those that share a sentence count once)"),
    undefined="a score is constant in one of the seeds",
    no_copy="a search for a change of the score says nothing of the pairs that held",
    note="Correlation of the model's scores with people's, the mean over seeds. After: of the "
    "perturbed pairs. Drop: before minus after, paired. Pairs that share a sentence are drawn "
    "together.",
    right="Scored",
    meanings="A pair has no right answer. Scored: pairs whose clean score could be read. Lost: "
    "the score moved by more than `max_change`. Measured: it moved, and there is no limit.",
)


# -- tagged texts -----------------------------------------------------------------------------
Spans: TypeAlias = Sequence[tuple[int, int, str]]
"""(first token, one past the last, type) of entities, in order."""
_MEASURES = ("precision", "recall", "f1")
_MATCHES = {"": "{}", "_relaxed": "Relaxed {}", "_seqeval_strict": "Seqeval strict {}"}
"""How entities match, as names of scores end -> how people call them."""


def entity_f1(
    gold: Sequence[str], predicted: Sequence[str], resamples: Resamples
) -> dict[str, Numbers]:
    """Return precision, recall and F1 for every way to match; see the module.

    Args:
        gold: the labels of each sentence, separated by spaces.
        predicted: the model's.
        resamples: of sentences.
    """
    made: dict[str, Numbers] = {}
    totals = np.split(resamples.sums(_counted(gold, predicted)), len(_MATCHES), axis=1)
    for match, (hits, marked, there) in zip(_MATCHES, (t.T for t in totals), strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = hits / marked, hits / there, 2.0 * hits / (marked + there)
        made |= {f"{m}{match}": score for m, score in zip(_MEASURES, scores, strict=True)}
    return made


def _counted(gold: Sequence[str], predicted: Sequence[str]) -> Numbers:
    rows = [counts(*pair) for pair in zip(gold, predicted, strict=True)]
    return np.array(rows, dtype=np.float64).reshape(-1, 3 * len(_MATCHES))


@lru_cache(maxsize=50_000)
def counts(gold: str, marked: str) -> tuple[int, ...]:
    """Return (matches, marked, gold) entities of one sentence for every way to match.

    >>> counts("B-Drug I-Drug", "O B-Drug")
    (0, 1, 1, 1, 1, 1, 0, 1, 1)
    """
    (right, _), (every, begun) = _spans(gold), _spans(marked)
    hits = len({*right} & {*every}), _overlaps(right, every), len({*right} & {*begun})
    n_marked = len(every), len(every), len(begun)
    return tuple(n for row in zip(hits, n_marked, strict=True) for n in (*row, len(right)))


@lru_cache(maxsize=50_000)
def _spans(text: str) -> tuple[Spans, Spans]:
    """Return the entities in labels, and those of them that begin with a B-."""
    labels = text.split()
    spans = [(e.start, e.end, e.type) for e in entities_of(labels)]
    return spans, [span for span in spans if labels[span[0]].startswith("B")]


def _overlaps(gold: Spans, marked: Spans) -> int:
    """Count the marks that take a gold entity of their type, in order; see the module."""
    free, n = list(gold), 0
    for start, end, type_ in marked:
        touched = [one for one in free if one[0] < end and start < one[1]]
        alike = [one for one in touched if one[2] == type_]
        if alike:
            n += 1
            free.remove(min(alike, key=lambda one: abs(one[0] - start) + abs(one[1] - end)))
        elif touched:
            free.remove(touched[0])
    return n


class _Entities(Scoring):
    def read(self, item: Any, edits: Any, answer: Answer) -> tuple[Any, Any]:
        """The labels of the tokens that were asked, and the model's."""
        labels = item.candidate(edits).labels if edits else item.labels
        return " ".join(labels), answer.text or ""

    def n(self, gold: Sequence[str], predicted: Sequence[str]) -> dict[str, int]:
        """Entities marked, gold, or both together."""
        sums = _counted(gold, predicted).sum(0).reshape(-1, 3)
        n: dict[str, int] = {}
        for match, (_, marked, there) in zip(_MATCHES, sums.astype(int).tolist(), strict=True):
            below = zip(_MEASURES, (marked, there, marked + there), strict=True)
            n |= {f"{measure}{match}": count for measure, count in below}
        return n

    def names(self, n: Mapping[str, int]) -> Sequence[str]:
        """By seqeval's strict mode only where it counts other marks."""
        alike = n["precision"] == n["precision_seqeval_strict"]
        return [name for name in n if not (alike and name.endswith("_seqeval_strict"))]

    def parts(self, gold: Sequence[str]) -> Sequence[str]:
        """The types of gold entities."""
        return sorted({span[2] for labels in dict.fromkeys(gold) for span in _spans(labels)[0]})


ENTITIES = _Entities(
    counts="entities, those of the data and those of the model, in every seed",
    scores=entity_f1,
    words={
        f"{measure}{match}": words.format(measure.capitalize() if not match else name)
        for match, words in _MATCHES.items()
        for measure, name in zip(_MEASURES, ("precision", "recall", "F1"), strict=True)
    },
    main="f1",
    falls=tuple(f"{measure}{match}" for match in ("", "_relaxed") for measure in _MEASURES),
    shown=("precision", "recall", "f1", "f1_relaxed", "f1_seqeval_strict"),
    drops=("f1",),
    seed=20_260_201,
    units=("sentences", "documents"),
    undefined="there is nothing to divide by",
    no_copy="a search perturbs every entity apart, so there is no perturbed copy",
    note="Strict: same tokens and same type. Relaxed: same type and a token in common. Seqeval "
    "strict, where it differs: without what begins with no B-. After: of the perturbed copy. "
    "Drop: before minus after, paired; net of control: F1 after as much noise outside entities "
    "minus F1 after the attack. A search has no perturbed copy.",
    right="Found",
    meanings="A trial is about one entity of the data. Found: entities that the model marks "
    "before any edit, with exactly their tokens and type. Lost: marked before, and not under "
    "attack. Not attackable: sentences without an entity, which precision counts. Shares have "
    "their counts and, in brackets, their 95 % intervals.",
)
