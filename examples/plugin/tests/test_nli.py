"""The kind: items, reader, task and scores."""

import json

import numpy as np
import pytest
from medstress_example.nli import Head, LabelledPair, as_question, macro_f1, read

from medstress.plugin import (
    Chosen,
    Classify,
    DataError,
    DatasetOptions,
    Edit,
    NoiseResources,
    Outcome,
    Resamples,
    SwapNoise,
    check_attack,
    check_dataset,
)

LABELS = ("contradiction", "entailment", "neutral")
PAIR = LabelledPair(
    id="1",
    text_a="Aspirin relieves pain",
    text_b="Aspirin helps",
    label="entailment",
    labels=LABELS,
)


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return DatasetOptions(path=path)


def test_a_table_is_read_and_its_items_are_attacked(tmp_path):
    rows = [
        {"premise": f"Aspirin helps {i}", "hypothesis": "It helps", "gold_label": label}
        for i, label in enumerate(LABELS)
    ]
    options = written(tmp_path / "pairs.jsonl", *rows)
    check_dataset(read, options)
    items = read(options).items
    assert [(item.label, item.labels) for item in items] == [(label, LABELS) for label in LABELS]
    check_attack(SwapNoise(scope="all"), items, NoiseResources())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text_a": "A.", "label": "x"}, "line 2: field 'text_b': expected a text"),
        ({"text_a": "A.", "text_b": " ", "label": "x"}, "field 'text_b': the text is empty"),
        ({"text_a": "A.", "text_b": "B."}, "field 'label': expected a text"),
        ({"text_a": "A.", "text_b": "B.", "label": "y"}, "2 to 10 labels, got 1"),
    ],
)
def test_a_bad_row_is_named(tmp_path, row, message):
    first = {"premise": "A.", "hypothesis": "C.", "gold_label": "y"}
    with pytest.raises(DataError, match=message):
        read(written(tmp_path / "pairs.jsonl", first, row))


def test_an_edited_pair_is_a_question_whose_options_are_the_labels():
    edit = Edit(field="text_a", start=0, end=7, replacement="Naproxen")
    assert PAIR.changed((edit,)).text_a == "Naproxen relieves pain"
    question = as_question(PAIR.candidate((edit,)))
    assert question.item.context == "Premise: Naproxen relieves pain"
    assert (question.options, question.item.key) == (LABELS, "B")


@pytest.mark.parametrize(
    ("reply", "outcome", "answer"),
    [
        (Chosen(answer="ENTAILS"), Outcome.RIGHT, "entailment"),
        (Chosen(scores=(1.0, 1.0, 2.0)), Outcome.WRONG, "neutral"),
        (Chosen(text="I cannot say"), Outcome.UNREADABLE, None),
    ],
)
def test_a_head_is_asked_in_its_own_words(reply, outcome, answer):
    flow = Head(names={"ENTAILS": "entailment"}).flow(PAIR.candidate())
    (request,) = next(flow)
    labels = ("contradiction", "ENTAILS", "neutral")
    assert request.call == Classify("Aspirin relieves pain", "Aspirin helps", labels)
    with pytest.raises(StopIteration) as stop:
        flow.send((reply,))
    prediction = stop.value.value
    assert (prediction.outcome, prediction.answer) == (outcome, answer)
    if reply.scores:
        assert np.exp(prediction.scores) == pytest.approx([0.25, 0.25, 0.5])


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [  # of label a, 2 are right (3 gold, 2 predicted); of b, 1 (1 gold, 2 predicted)
        ("aaab", [*"aabb"], (0.8 + 2 / 3) / 2),
        ("aaab", ["a", "a", None, "b"], (0.8 + 1) / 2),
        ("", [], np.nan),
    ],
)
def test_macro_f1_is_the_mean_over_labels(gold, predicted, expected):
    one = Resamples(np.ones((1, len(gold))), np.arange(len(gold)))
    (value,) = macro_f1([*gold], predicted, one)["macro_f1"]
    assert value == pytest.approx(expected, nan_ok=True)
