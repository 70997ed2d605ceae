"""Entities and pairs: what is asked, what counts as found, and which label sets are refused."""

from typing import Any

import pytest

from medstress.core.calls import Compare, Compared, Request, Tag, Tagged
from medstress.core.errors import UsageError
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit
from medstress.tasks.kinds import EntityTagging, Similarity

TEXT = TaggedText(
    id="s", tokens=("no", "salicylic", "acid", "now"), labels=("O", "B-Drug", "I-Drug", "O")
)
TASK = EntityTagging(types=("Drug",))


def answered(task: Any, candidate: Any, reply: Any) -> tuple[Request, Prediction]:
    flow = task.flow(candidate)
    (request,) = next(flow)
    with pytest.raises(StopIteration) as stop:
        flow.send((reply,))
    return request, stop.value.value


def tagged(labels: str, task: EntityTagging = TASK, edits: tuple[Edit, ...] = ()) -> Prediction:
    candidate = TEXT.units()[0].candidate(edits)
    request, prediction = answered(task, candidate, Tagged(labels=tuple(labels.split())))
    assert request == Request(Tag(candidate.tokens))
    return prediction


@pytest.mark.parametrize(
    ("labels", "outcome"),
    [
        ("O B-Drug I-Drug O", Outcome.RIGHT),
        ("O I-Drug I-Drug O", Outcome.RIGHT),  # conlleval: an I- may begin an entity
        ("O B-Drug B-Drug O", Outcome.WRONG),
        ("O B-Drug O O", Outcome.WRONG),
        ("O B-Drug I-Drug I-Drug", Outcome.WRONG),
        ("B-Drug I-Drug I-Drug O", Outcome.WRONG),
        ("O O O O", Outcome.WRONG),
        ("O B-Gene I-Gene O", Outcome.WRONG),
    ],
)
def test_an_entity_is_found_only_with_all_its_tokens_and_its_type(labels, outcome):
    assert tagged(labels).outcome is outcome


def test_an_entity_is_looked_for_where_edits_have_moved_it():
    edits = (
        Edit(field="tokens", start=0, end=1, replacement="not any"),
        Edit(field="tokens", start=1, end=3, replacement="asa"),
    )
    found = tagged("O O B-Drug O", edits=edits)
    assert (found.outcome, found.answer, found.text) == (Outcome.RIGHT, "B-Drug", "O O B-Drug O")


@pytest.mark.parametrize(("names", "first"), [({}, "B-Gene"), ({"Gene": "O"}, "O")])
def test_types_that_the_data_lack_are_kept_and_others_called_by_their_name(names, first):
    task = EntityTagging(types=("Drug",), names={"CHEMICAL": "Drug", **names})
    found = tagged("B-Gene B-CHEMICAL I-CHEMICAL O", task)
    assert (found.outcome, found.text) == (Outcome.RIGHT, f"{first} B-Drug I-Drug O")


def test_marks_without_a_type_are_of_the_only_type_of_the_data() -> None:
    assert tagged("O B I O").text == "O B-Drug I-Drug O"
    TASK.check("m", ["O", "B", "I"])
    both = EntityTagging(types=("Drug", "Gene"))
    for read in (lambda: both.read(["O", "B"]), lambda: both.check("m", ["O", "B", "I"])):
        with pytest.raises(UsageError, match="marks 'B' without a type, and the data have the"):
            read()


def test_labels_of_another_number_than_words_are_refused() -> None:
    with pytest.raises(UsageError, match="returned 2 labels for the 4 words of 'no salicylic"):
        tagged("O O")


def test_a_sentence_without_entities_is_asked_and_never_wrong() -> None:
    candidate = TEXT.candidate()
    _, found = answered(TASK, candidate, Tagged(labels=("B-Drug", "O", "O", "O")))
    assert (found.outcome, found.answer, found.text) == (Outcome.RIGHT, None, "B-Drug O O O")


@pytest.mark.parametrize(
    ("labels", "where"),
    [(["O", "B-CHEMICAL", "I-CHEMICAL"], "'m'"), (["LABEL_0", "LABEL_1"], "model 'm'")],
)
def test_a_model_with_other_labels_is_refused_naming_both(labels, where, said):
    with pytest.raises(UsageError) as refused:
        TASK.check("m", labels)
    said(str(refused.value), where)


def test_a_model_that_knows_more_types_or_says_nothing_is_taken(said):
    TASK.check("m", ["O", "B-Drug", "I-Drug", "B-Gene"])
    TASK.check("m", [])
    EntityTagging(types=("Drug",), names={"CHEM": "Drug"}).check("m", ["B-CHEM", "O"])
    with pytest.raises(UsageError) as caught:
        EntityTagging(types=("Drug",), names={"CHEN": "Drug"}).check("m", ["B-CHEM", "O"])
    said(str(caught.value), "'CHEN'", "'CHEM'")


def test_a_pair_is_compared_and_its_score_is_the_prediction() -> None:
    pair = SentencePair(id="p", text_a="a b", text_b="c", score=1.0)
    edit = Edit(field="text_a", start=0, end=1, replacement="x")
    request, found = answered(Similarity(), pair.candidate((edit,)), Compared(score=0.25))
    assert request == Request(Compare("x b", "c"))
    assert (found.outcome, found.answer, found.scores) == (Outcome.RIGHT, None, (0.25,))
