"""A small pipeline, saved and loaded through the real code; a stand-in for scispaCy's linker."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from medstress.core.errors import UsageError
from medstress.entities.recognisers import LINKER, Found, SpacyPipeline

TEXT = "Aspirin helps gout, says Anna."
CONCEPTS = {"aspirin": [("C1", 0.9), ("C3", 0.8)], "gout": [("C2", 1.0)], "anna": []}
TYPES = {"C1": ["T109", "T121"], "C2": ["T047"], "C3": ["T061"]}


def save(folder: Path, **patterns: str) -> Path:
    nlp = spacy.blank("en")
    nlp.meta["name"] = "tiny"
    ruler: Any = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": label, "pattern": name} for name, label in patterns.items()])
    nlp.to_disk(folder)
    return folder


@pytest.fixture
def tiny(tmp_path):
    return save(tmp_path / "tiny", aspirin="CHEMICAL", gout="DISEASE", anna="PERSON")


@pytest.fixture
def linker(monkeypatch):
    """A module `scispacy.linking` whose component links by a table; returns its settings."""
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


def test_labels_become_types_by_the_usual_table(tiny):
    pipeline = SpacyPipeline(str(tiny), Path())
    assert pipeline.find([TEXT, "Nothing here."]) == [
        [Found(start=0, end=7, type="drugs"), Found(start=14, end=18, type="diseases")],
        [],
    ]


def test_a_table_of_labels_takes_the_place_of_the_usual_one(tiny):
    pipeline = SpacyPipeline("tiny", tiny.parent, {"PERSON": "T101"})
    assert pipeline.find([TEXT]) == [[Found(start=25, end=29, type="T101")]]
    assert pipeline.spec() == {
        "name": "spacy",
        "model": "en_tiny 0.0.0",
        "labels": {"PERSON": "T101"},
        "linker": None,
    }


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
    assert pipeline.spec()["linker"] == "umls"
    assert pipeline.spec()["labels"] is None


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
