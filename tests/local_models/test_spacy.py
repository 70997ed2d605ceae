"""Small pipelines of spaCy, as recognisers and as models; a stand-in for scispaCy's linker."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from late import spacy
from medstress.attacks.noise import SwapNoise
from medstress.backends.options import BackendOptions
from medstress.backends.spacy import open_backend
from medstress.core.calls import Compare, Failure, Tag, Tagged
from medstress.core.errors import UsageError
from medstress.core.seeding import rng_for
from medstress.core.sentences import TaggedText
from medstress.entities.recognisers import LINKER, Found, SpacyPipeline
from medstress.experiment.plan.noise_resources import noise_resources
from medstress.testing import check_backend

TEXT = "Aspirin helps gout, says Anna."
CONCEPTS = {"aspirin": [("C1", 0.9), ("C3", 0.8)], "gout": [("C2", 1.0)], "anna": []}
TYPES = {"C1": ["T109", "T121"], "C2": ["T047"], "C3": ["T061"]}


def save(folder: Path, **patterns: str) -> Path:
    """A pipeline that knows a few names, whatever their case."""
    nlp = spacy.blank("en")
    nlp.meta["name"] = "tiny"
    ruler: Any = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": label, "pattern": name} for name, label in patterns.items()])
    nlp.to_disk(folder)
    return folder


@pytest.fixture
def tiny(tmp_path):
    return save(tmp_path / "tiny", aspirin="CHEMICAL", gout="DISEASE", anna="PERSON")


# -- recognisers -----------------------------------------------------------------------------------


@pytest.fixture
def linker(monkeypatch):
    """A module `scispacy.linking` whose component links by a table; returns its settings."""
    settings: list[Any] = []

    class Linker:
        def __init__(self, nlp: Any, name: str, linker_name: str) -> None:
            settings.append(linker_name)
            spacy.tokens.Span.set_extension("kb_ents", default=[], force=True)
            concepts = {cui: SimpleNamespace(types=types) for cui, types in TYPES.items()}
            self.kb = SimpleNamespace(cui_to_entity=concepts)

        def __call__(self, document: Any) -> Any:
            for span in document.ents:
                span._.kb_ents = CONCEPTS[span.text.lower()]
            return document

    spacy.Language.factory(LINKER, default_config={"linker_name": "umls"}, func=Linker)
    monkeypatch.setitem(sys.modules, "scispacy", ModuleType("scispacy"))
    monkeypatch.setitem(sys.modules, "scispacy.linking", ModuleType("scispacy.linking"))
    return settings


def test_labels_become_types_by_the_usual_table_or_by_one_of_ones_own(tiny):
    pipeline = SpacyPipeline(str(tiny), Path())
    assert pipeline.find([TEXT, "Nothing here."]) == [
        [Found(start=0, end=7, type="drugs"), Found(start=14, end=18, type="diseases")],
        [],
    ]
    pipeline = SpacyPipeline("tiny", tiny.parent, {"PERSON": "T101"})
    assert pipeline.find([TEXT]) == [[Found(start=25, end=29, type="T101")]]
    spec = {"name": "spacy", "model": "en_tiny 0.0.0", "labels": {"PERSON": "T101"}}
    assert pipeline.spec() == {**spec, "linker": None}


def test_a_linker_gives_every_type_of_the_best_concept(tiny, linker):
    pipeline = SpacyPipeline(str(tiny), Path(), linker="umls")
    assert pipeline.find([TEXT]) == [
        [
            Found(start=0, end=7, type="T109"),
            Found(start=0, end=7, type="T121"),
            Found(start=14, end=18, type="T047"),
        ]
    ]
    assert linker == ["umls"]
    assert (pipeline.spec()["linker"], pipeline.spec()["labels"]) == ("umls", None)


@pytest.mark.parametrize(
    ("absent", "options", "part"),
    [
        ("scispacy", {"linker": "umls"}, "linker = 'umls' needs scispaCy"),
        ("spacy", {}, "pip install 'medstress[spacy]'"),
    ],
)
def test_what_is_not_installed_is_named(tiny, monkeypatch, absent, options, part):
    for module in (absent, f"{absent}.linking"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError) as caught:
        SpacyPipeline(str(tiny), Path(), **options)
    assert part in str(caught.value)


def test_an_unknown_pipeline_is_refused_with_what_is_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(spacy.util, "get_installed_models", lambda: ["en_core_web_sm"])
    with pytest.raises(UsageError, match="did you mean 'en_core_web_sm'"):
        SpacyPipeline("en_core_web_md", Path())
    with pytest.raises(UsageError, match="spaCy cannot load the pipeline"):
        SpacyPipeline(str(tmp_path), Path())


@pytest.mark.parametrize(
    ("names", "labels", "part"),
    [
        ({"aspirin": "CHEMICAL"}, {"CHEMICALS": "drugs"}, "did you mean 'CHEMICAL'?"),
        ({"aspirin": "CHEMICAL"}, {"CHEMICAL": "drug"}, "did you mean 'drugs'?"),
        ({"anna": "PERSON"}, None, 'map them, e.g. labels = {PERSON = "drugs"}'),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, names, labels, part):
    with pytest.raises(UsageError) as caught:
        SpacyPipeline(str(save(tmp_path / "own", **names)), Path(), labels)
    assert part in str(caught.value)


# -- words that noise changes ----------------------------------------------------------------------


def tagged(text: str) -> TaggedText:
    words = tuple(text.split())
    return TaggedText(id="1", tokens=words, labels=("O",) * len(words))


def test_words_that_a_pipeline_recognises_are_perturbed_whole_whatever_their_label(tmp_path):
    save(tmp_path / "pipeline", **{"bleeding": "ENTITY", "beta-blocker therapy": "ENTITY"})
    noise = SwapNoise(scope="recognised", recogniser="pipeline")
    item = tagged("Beta-blocker therapy with beta blocker without bleeding or other therapy")
    resources = noise_resources([item], [noise], tmp_path)
    assert list(noise.in_scope(item, resources)) == [0, 1, 6, 9]
    streams = (rng_for(seed, "x", "y", "z", 0) for seed in range(20))
    edits = [edit for rng in streams for edit in noise.edits(item, rng, resources)]
    assert {edit.start for edit in edits} == {0, 1, 6, 9}


def test_as_published_a_pipeline_is_asked_for(tmp_path):
    with pytest.raises(UsageError, match="there is no pipeline 'en_core_sci_sm'"):
        noise_resources([tagged("aspirin")], [SwapNoise(choices="as_published")], tmp_path)


# -- models ----------------------------------------------------------------------------------------


def test_a_model_labels_the_words_that_it_was_given_and_keeps_its_contract(tmp_path):
    save(tmp_path, **{"salicylic acid": "CHEMICAL", "aspirin": "CHEMICAL"})
    options = BackendOptions(model=str(tmp_path), task="ner")
    backend = open_backend(options)
    assert backend.traits.labels == ("B-CHEMICAL", "I-CHEMICAL")
    # "can't" would be two tokens if the pipeline cut the text itself.
    (reply,) = backend.answer([Tag(("I", "can't", "take", "salicylic", "acid", "aspirin"))])
    assert reply == Tagged(
        labels=("O", "O", "O", "B-CHEMICAL", "I-CHEMICAL", "B-CHEMICAL"), tokens_in=6
    )
    words = ["aspirin", "salicylic acid", "nothing here", "an aspirin", "acid"]
    check_backend(backend, [Tag(tuple(text.split())) for text in words])
    assert isinstance(backend.answer([Compare("a", "b")])[0], Failure)
    assert open_backend(options).identity == backend.identity


def test_a_model_that_finds_no_entities_or_is_missing_is_refused(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path)
    with pytest.raises(UsageError, match="sets no entities"):
        open_backend(BackendOptions(model=str(tmp_path)))
    with pytest.raises(UsageError, match="there is no pipeline 'en_core_sci_sm'"):
        open_backend(BackendOptions(model="en_core_sci_sm"))
