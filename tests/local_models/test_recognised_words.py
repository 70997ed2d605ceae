"""Words that a pipeline of spaCy recognises are those that noise changes."""

import pytest

from medstress.attacks.noise import SwapNoise
from medstress.core.errors import UsageError
from medstress.core.seeding import rng_for
from medstress.core.sentences import TaggedText
from medstress.experiment.plan.noise_resources import noise_resources

spacy = pytest.importorskip("spacy", reason="needs the extra spacy")

ITEM = TaggedText(
    id="1",
    tokens=("Patients", "took", "aspirin", "without", "bleeding", "and", "Aspirin", "helped"),
    labels=("O", "O", "B-Chemical", "O", "O", "O", "O", "O"),
)


def test_a_spacy_pipeline_recognises_whatever_its_labels(tmp_path):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "ENTITY", "pattern": [{"LOWER": "bleeding"}]}])
    nlp.to_disk(tmp_path / "pipeline")
    noise = SwapNoise(scope="recognised", recogniser="pipeline")
    resources = noise_resources([ITEM], [noise], tmp_path)
    edits = [
        edit
        for seed in range(20)
        for edit in noise.edits(ITEM, rng_for(seed, "x", "y", "z", 0), resources)
    ]
    assert {ITEM.tokens[edit.start] for edit in edits} == {"bleeding"}


def test_recognised_words_with_a_hyphen_are_whole_too(tmp_path):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    pattern = [{"LOWER": "beta"}, {"TEXT": "-"}, {"LOWER": "blocker"}, {"LOWER": "therapy"}]
    ruler.add_patterns([{"label": "ENTITY", "pattern": pattern}])
    nlp.to_disk(tmp_path / "pipeline")
    tokens = ("Beta-blocker", "therapy", "with", "beta", "blocker", "or", "other", "therapy")
    item = TaggedText(id="1", tokens=tokens, labels=("O",) * len(tokens))
    noise = SwapNoise(scope="recognised", recogniser="pipeline")
    resources = noise_resources([item], [noise], tmp_path)
    assert list(noise.in_scope(item, resources)) == [0, 1, 7]


def test_as_published_a_pipeline_is_asked_for(tmp_path):
    noise = SwapNoise(choices="as_published")
    with pytest.raises(UsageError, match="there is no pipeline 'en_core_sci_sm'"):
        noise_resources([ITEM], [noise], tmp_path)
