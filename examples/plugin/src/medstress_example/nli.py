"""Natural language inference: which label holds of a hypothesis, given a premise.

A kind is an item class, a reader, a task and scores, in this order; `NLI` puts them together.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from medstress.plugin import (
    FLOOR,
    LETTERS,
    PAIRS,
    Candidate,
    Chosen,
    Classify,
    DataError,
    DatasetOptions,
    EditedTexts,
    Kind,
    Loaded,
    Prediction,
    Question,
    Request,
    Resamples,
    Scored,
    Scoring,
    Tasks,
    Texts,
    UsageError,
    VictimRequest,
    choice_from_spec,
    choice_tasks,
    from_scores,
    mark,
    read_rows,
)

TASK = "classification"
USUAL = {
    "id": ("id", "pairID"),
    "text_a": ("text_a", "premise", "sentence1"),
    "text_b": ("text_b", "hypothesis", "sentence2"),
    "label": ("label", "gold_label"),
}
"""Field -> the columns that may hold it."""


@dataclass(frozen=True, kw_only=True)
class LabelledPair(Texts):
    """A premise, a hypothesis and the label that holds of them."""

    kind: ClassVar[str] = "labelled pairs"
    fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b")

    text_a: str
    text_b: str
    label: str
    labels: tuple[str, ...]
    """All labels of the data set, in the order of scores."""

    def __post_init__(self) -> None:
        for name, text in self.texts.items():
            if not text.strip():
                raise DataError(f"item {self.id!r}, field {name!r}: the text is empty")
        if self.label not in self.labels:
            raise DataError(
                f"item {self.id!r}, field 'label': expected one of {', '.join(self.labels)}, got "
                f"{self.label!r}"
            )

    @property
    def key(self) -> str:
        """The right answer."""
        return self.label

    @property
    def choices(self) -> tuple[str, ...]:
        """The possible answers, in the order of scores."""
        return self.labels

    @property
    def classes(self) -> tuple[str, ...]:
        """What a victim has to tell apart."""
        return self.labels

    @property
    def shared_texts(self) -> tuple[str, ...]:
        """Hypotheses about one premise are one cluster."""
        return (self.text_a,)


def read(options: DatasetOptions) -> Loaded:
    """Read `[[dataset]] name = "nli"`: any table; all labels in it are those to choose from."""

    def convert(row: Mapping[str, Any], number: str) -> LabelledPair:
        columns = {name: _column(options, name, row) for name in USUAL}
        values = {name: row.get(column, number) for name, column in columns.items()}
        for name in ("text_a", "text_b", "label"):
            if columns[name] not in row or not isinstance(values[name], str):
                raise DataError(
                    f"field {name!r}: expected a text, got {row.get(columns[name])!r}; name the "
                    f'column with columns = {{{name} = "..."}}'
                )
        rest = {k: v for k, v in row.items() if k not in columns.values()}
        values["id"] = str(values["id"])
        return LabelledPair(labels=(values["label"],), metadata=rest, **values)

    loaded = read_rows("nli", options, convert)
    labels = tuple(sorted({item.label for item in loaded.items}))
    if not 2 <= len(labels) <= len(LETTERS):
        raise DataError(f"{options.path}: expected 2 to {len(LETTERS)} labels, got {len(labels)}")
    return replace(loaded, items=tuple(replace(item, labels=labels) for item in loaded.items))


def _column(options: DatasetOptions, name: str, row: Mapping[str, Any]) -> str:
    usual = (column for column in USUAL[name] if column in row)
    return str(options.columns.get(name) or next(usual, name))


@dataclass(frozen=True, kw_only=True)
class Head:
    """Asks a head or a function that reads both texts."""

    names: Mapping[str, str] = field(default_factory=dict)
    """The victim's name of a label -> its name in the data, where the two differ."""

    def spec(self) -> dict[str, Any]:
        """What defines the task, for fingerprints; the task is rebuilt from it."""
        return {"kind": TASK, "names": dict(sorted(self.names.items()))}

    def listing(self, candidate: EditedTexts) -> str:
        """What people see."""
        return "\n".join(candidate.texts.values())

    def flow(self, candidate: EditedTexts) -> Generator[Any, Any, Prediction]:
        """Yield rounds of requests, be sent their answers, return what they say."""
        item, of_data = candidate.item, {ours: name for name, ours in self.names.items()}
        asked = tuple(of_data.get(label, label) for label in item.labels)
        text_a, text_b = candidate.texts.values()
        (reply,) = yield (Request(Classify(text_a, text_b, asked)),)
        if isinstance(reply, Scored):
            return from_scores(candidate, reply.log_probs)
        assert isinstance(reply, Chosen)
        if reply.scores is not None:
            shares = np.array(reply.scores, dtype=float)
            return from_scores(candidate, np.log(np.maximum(shares / shares.sum(), FLOOR)).tolist())
        words = dict(zip((name.casefold() for name in asked), item.labels, strict=True))
        label = words.get((reply.answer or reply.text or "").strip().casefold())
        return Prediction(outcome=mark(candidate, label), answer=label, text=reply.text)


@dataclass(frozen=True, kw_only=True)
class Prompted:
    """Asks any model with a prompt: the labels are the options of a question."""

    inner: Any
    """The task of such a question."""

    def spec(self) -> dict[str, Any]:
        """What defines the task."""
        return {"kind": TASK, "prompted": self.inner.spec()}

    @property
    def template(self) -> Any:
        """The prompt, which is stored with the run."""
        return self.inner.template

    @property
    def stores_requests(self) -> bool:
        """Whether requests cannot be made again from item, edits and prompt."""
        return bool(self.inner.stores_requests)

    def listing(self, candidate: EditedTexts) -> str:
        """The prompt."""
        return str(self.inner.listing(as_question(candidate)))

    def flow(self, candidate: EditedTexts) -> Generator[Any, Any, Prediction]:
        """Ask for the letter of a label."""
        made: Prediction = yield from self.inner.flow(as_question(candidate))
        if made.answer is None:
            return made
        return replace(made, answer=candidate.item.labels[LETTERS.index(made.answer)])


def as_question(candidate: EditedTexts) -> Candidate:
    """Return a pair, as edited, as a question whose options are the labels."""
    item, texts = candidate.item, candidate.texts
    return Question(
        id=item.id,
        context=f"Premise: {texts['text_a']}",
        stem=f"Hypothesis: {texts['text_b']} Which label describes the hypothesis, given the "
        "premise?",
        options=item.labels,
        key=LETTERS[item.labels.index(item.label)],
    ).candidate()


def tasks(asked: VictimRequest) -> Tasks:
    """Return how a victim is asked: both texts to those that read them, else a prompt."""
    asked.refuse(LabelledPair.kind, "shots_from")
    calls, names = asked.backend.traits.calls, dict(asked.table.labels or {})
    if "classify" not in calls:
        if not {"score", "generate"} & calls:
            raise asked.cannot(LabelledPair.kind)
        made = choice_tasks(asked)
        others = tuple((label, Prompted(inner=task)) for label, task in made.by_dataset)
        return Tasks(default=Prompted(inner=made.default), by_dataset=others)
    if own := asked.backend.traits.labels:  # a model that says which labels it has
        alike = {label.casefold(): label for label in asked.classes}
        names = {name: names.get(name, alike.get(name.casefold(), name)) for name in own}
        if missing := [label for label in asked.classes if label not in names.values()]:
            raise UsageError(
                f"victim {asked.label!r} knows the labels {', '.join(own)}, and the data's are "
                f"{', '.join(asked.classes)}: say which of its labels is {missing[0]!r}, e.g. "
                f'labels = {{{own[0]} = "{missing[0]}"}}'
            )
    return Tasks(default=Head(names={name: ours for name, ours in names.items() if name != ours}))


def task_from_spec(spec: Mapping[str, Any], prompt: Mapping[str, Any] | None) -> Head | Prompted:
    """Rebuild a task from a run folder."""
    if prompt is None:
        return Head(names=spec["names"])
    return Prompted(inner=choice_from_spec(spec["prompted"], prompt))


def macro_f1(
    gold: Sequence[str], predicted: Sequence[str | None], resamples: Resamples
) -> dict[str, Any]:
    """Return the mean over labels of F1 = 2 right / (predicted + gold), in every resample.

    An unreadable answer is the prediction of no label. Labels that do not occur do not count.
    """
    labels = sorted({*gold, *(label for label in predicted if label is not None)})
    rows = [
        [n for x in labels for n in (g == p == x, p == x, g == x)]
        for g, p in zip(gold, predicted, strict=True)
    ]
    sums = resamples.sums(np.array(rows, dtype=float).reshape(len(gold), 3 * len(labels)))
    right, given, there = np.moveaxis(sums.reshape(len(sums), len(labels), 3), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_label = np.where(given + there > 0, 2 * right / (given + there), 0.0)
        return {"macro_f1": by_label.sum(-1) / (given + there > 0).sum(-1)}


NLI = Kind(
    item=LabelledPair,
    task=TASK,
    tasks=tasks,
    task_from_spec=task_from_spec,
    read=read,
    scores=Scoring(
        scores=macro_f1,
        words={"macro_f1": "Macro F1"},
        units=("texts", "texts"),
        counts="pairs, in every seed",
        undefined="no pair was answered",
        note="Macro F1: mean over labels of the F1 of each; unreadable answers count as wrong. "
        "Drop: before minus after, paired. Pairs that share their first text are drawn together.",
    ),
    takes=frozenset({PAIRS}),
)
