"""spaCy pipelines as victims."""

from pathlib import Path

import pytest

from medstress.backends.options import BackendOptions
from medstress.backends.spacy import open_backend
from medstress.core.calls import Compare, Failure, Tag, Tagged
from medstress.core.errors import UsageError
from medstress.testing import check_backend

spacy = pytest.importorskip("spacy", reason="needs the extra spacy")


def pipeline(folder: Path) -> BackendOptions:
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns(
        [
            {"label": "CHEMICAL", "pattern": [{"LOWER": "salicylic"}, {"LOWER": "acid"}]},
            {"label": "CHEMICAL", "pattern": "aspirin"},
        ]
    )
    nlp.to_disk(folder)
    return BackendOptions(model=str(folder), task="ner")


def test_entities_come_back_as_labels_of_the_words_that_were_given(tmp_path):
    backend = open_backend(pipeline(tmp_path))
    assert backend.traits.labels == ("B-CHEMICAL", "I-CHEMICAL")
    # "can't" would be two tokens if the pipeline cut the text itself.
    (reply,) = backend.answer([Tag(("I", "can't", "take", "salicylic", "acid", "aspirin"))])
    assert reply == Tagged(
        labels=("O", "O", "O", "B-CHEMICAL", "I-CHEMICAL", "B-CHEMICAL"), tokens_in=6
    )


def test_a_pipeline_keeps_the_contract_of_back_ends(tmp_path):
    options = pipeline(tmp_path)
    backend = open_backend(options)
    words = ["aspirin", "salicylic acid", "nothing here", "an aspirin", "acid"]
    check_backend(backend, [Tag(tuple(text.split())) for text in words])
    assert isinstance(backend.answer([Compare("a", "b")])[0], Failure)
    assert open_backend(options).identity == backend.identity


def test_a_pipeline_that_finds_no_entities_is_refused(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path)
    with pytest.raises(UsageError, match="sets no entities"):
        open_backend(BackendOptions(model=str(tmp_path)))


def test_a_missing_pipeline_is_named():
    with pytest.raises(UsageError, match="there is no pipeline 'en_core_sci_sm'"):
        open_backend(BackendOptions(model="en_core_sci_sm"))
