"""Pipelines of spaCy as recognisers of names and of words for noise, and as victims.

Small ones, saved and loaded through the real code; a stand-in for scispaCy's linker.
"""

import json
import shutil
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
from medstress.core.hashing import rng_for
from medstress.core.sentences import TaggedText
from medstress.entities.recognisers import LINKER, Found, SpacyPipeline
from medstress.experiment.groups import noise_resources
from medstress.testing import check_backend

TEXT = "Aspirin helps gout, says Anna."
PATTERNS = {"aspirin": "CHEMICAL", "gout": "DISEASE", "anna": "PERSON"}
CONCEPTS = {"aspirin": [("C1", 0.9), ("C3", 0.8)], "gout": [("C2", 1.0)], "anna": []}
TYPES = {"C1": ["T109", "T121"], "C2": ["T047"], "C3": ["T061"]}


@pytest.fixture(scope="module")
def blank(tmp_path_factory):
    """A pipeline with rules that find nothing."""
    nlp = spacy.blank("en")
    nlp.meta["name"] = "tiny"
    nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    folder = tmp_path_factory.mktemp("blank")
    nlp.to_disk(folder)
    return folder


@pytest.fixture
def save(blank, tmp_path):
    """Saves a pipeline that finds names: `save(pattern, label)...`, as spaCy writes patterns."""

    def saved(patterns: dict[Any, str]) -> Path:
        folder = Path(shutil.copytree(blank, tmp_path / "tiny"))
        rows = [{"label": label, "pattern": _rule(name)} for name, label in patterns.items()]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "entity_ruler" / "patterns.jsonl").write_text(lines, "utf-8")
        return folder

    return saved


def _rule(name: Any) -> Any:
    """A phrase; of several words each by itself."""
    return name if isinstance(name, str) else [{"LOWER": word} for word in name]


# -- names -----------------------------------------------------------------------------------------


@pytest.fixture
def linker(monkeypatch):
    """A module `scispacy.linking` whose component links by a table; returns its settings."""
    from spacy.language import Language
    from spacy.tokens import Doc, Span

    settings: list[Any] = []

    class Linker:
        def __init__(self, nlp: Language, name: str, linker_name: str) -> None:
            settings.append(linker_name)
            Span.set_extension("kb_ents", default=[], force=True)
            concepts = {cui: SimpleNamespace(types=types) for cui, types in TYPES.items()}
            self.kb = SimpleNamespace(cui_to_entity=concepts)

        def __call__(self, document: Doc) -> Doc:
            for span in document.ents:
                span._.kb_ents = CONCEPTS[span.text.lower()]
            return document

    Language.factory(LINKER, default_config={"linker_name": "umls"}, func=Linker)
    monkeypatch.setitem(sys.modules, "scispacy", ModuleType("scispacy"))
    monkeypatch.setitem(sys.modules, "scispacy.linking", ModuleType("scispacy.linking"))
    return settings


def test_labels_become_types_by_the_usual_table_or_by_ones_own(save):
    folder = save(PATTERNS)
    usual = SpacyPipeline(str(folder), Path())
    assert usual.find([TEXT, "Nothing here."]) == [
        [Found(start=0, end=7, type="drugs"), Found(start=14, end=18, type="diseases")],
        [],
    ]
    own = SpacyPipeline("tiny", folder.parent, {"PERSON": "T101"})
    assert own.find([TEXT]) == [[Found(start=25, end=29, type="T101")]]
    assert own.spec() == {
        "name": "spacy",
        "model": "en_tiny 0.0.0",
        "labels": {"PERSON": "T101"},
        "linker": None,
    }


def test_a_linker_gives_every_type_of_the_best_concept(save, linker):
    pipeline = SpacyPipeline(str(save(PATTERNS)), Path(), linker="umls")
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
def test_what_is_not_installed_is_named(save, monkeypatch, absent, options, part):
    folder = save(PATTERNS)
    for module in (absent, f"{absent}.linking"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError) as caught:
        SpacyPipeline(str(folder), Path(), **options)
    assert part in str(caught.value)


def test_an_unknown_pipeline_is_refused_with_what_is_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(spacy.util, "get_installed_models", lambda: ["en_core_web_sm"])
    with pytest.raises(UsageError, match="did you mean 'en_core_web_sm'"):
        SpacyPipeline("en_core_web_md", Path())
    with pytest.raises(UsageError, match="spaCy cannot load the pipeline"):
        SpacyPipeline(str(tmp_path), Path())


@pytest.mark.parametrize(
    ("name", "labels", "part"),
    [
        ("aspirin", {"CHEMICALS": "drugs"}, "did you mean 'CHEMICAL'?"),
        ("aspirin", {"CHEMICAL": "drug"}, "did you mean 'drugs'?"),
        ("anna", None, 'map them, e.g. labels = {PERSON = "drugs"}'),
    ],
)
def test_labels_that_do_not_fit_are_refused(save, name, labels, part):
    with pytest.raises(UsageError) as caught:
        SpacyPipeline(str(save({name: PATTERNS[name]})), Path(), labels)
    assert part in str(caught.value)


# -- words for noise -------------------------------------------------------------------------------


def test_noise_changes_the_recognised_words_whole_whatever_their_labels(save, tmp_path):
    tokens = ("Beta-blocker", "therapy", "with", "beta", "blocker", "or", "Bleeding", "therapy")
    item = TaggedText(id="1", tokens=tokens, labels=("O",) * len(tokens))
    save({"bleeding": "ENTITY", ("beta", "-", "blocker", "therapy"): "ENTITY"})
    noise = SwapNoise(scope="recognised", recogniser="tiny")
    resources = noise_resources([item], [noise], tmp_path)
    assert list(noise.in_scope(item, resources)) == [0, 1, 6, 7]
    streams = (rng_for(seed, "x", "y", "z", 0) for seed in range(20))
    edits = [edit for rng in streams for edit in noise.edits(item, rng, resources)]
    assert {edit.start for edit in edits} <= {0, 1, 6, 7}


def test_as_published_a_pipeline_is_asked_for(tmp_path):
    noise = SwapNoise(choices="as_published")
    with pytest.raises(UsageError, match="there is no pipeline 'en_core_sci_sm'"):
        noise_resources([TaggedText(id="1", tokens=("a",), labels=("O",))], [noise], tmp_path)


# -- victims ---------------------------------------------------------------------------------------


def test_a_pipeline_keeps_the_contract_of_back_ends_and_labels_the_words_that_it_is_given(save):
    folder = save({("salicylic", "acid"): "CHEMICAL", "aspirin": "CHEMICAL"})
    options = BackendOptions(model=str(folder), task="ner")
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


def test_a_pipeline_that_is_missing_or_finds_no_entities_is_refused(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path)
    with pytest.raises(UsageError, match="sets no entities"):
        open_backend(BackendOptions(model=str(tmp_path)))
    with pytest.raises(UsageError, match="there is no pipeline 'en_core_sci_sm'"):
        open_backend(BackendOptions(model="en_core_sci_sm"))
