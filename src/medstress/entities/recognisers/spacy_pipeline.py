"""Entities that an installed spaCy pipeline finds, typed by its labels or by a linked concept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import UsageError, did_you_mean
from medstress.entities.recognisers.recogniser import Found
from medstress.entities.semantic_types import GROUPS, TYPE_IDENTIFIERS
from medstress.files.extras import importing
from medstress.files.reading import loading

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Span

LABELS: dict[str, str] = {
    "CHEMICAL": "drugs",
    "SIMPLE_CHEMICAL": "drugs",
    "DRUG": "drugs",
    "MEDICATION": "drugs",
    "DISEASE": "diseases",
    "DISORDER": "diseases",
    "CANCER": "diseases",
    **{group: group for group in GROUPS},
    **{identifier: identifier for identifier in TYPE_IDENTIFIERS},
}
"""Default types of labels, for scispaCy's and other public pipelines."""

LINKER = "scispacy_linker"
"""Name of scispaCy's linking component."""

_BATCH = 64


class SpacyPipeline:
    """Runs a pipeline over texts; types come from its labels, or from a linked UMLS concept.

    With a linker, an entity has all semantic types of its best-scoring concept, and entities
    without a concept are dropped. *Differs from the annotations of Xian et al. (2025)*, which have
    one type per entity.
    """

    def __init__(
        self,
        model: str,
        base: Path,
        labels: Mapping[str, str] | None = None,
        linker: str | None = None,
    ) -> None:
        """Load the pipeline.

        Args:
            model: the name of an installed pipeline, or the path of a saved one.
            base: folder that a relative path starts from.
            labels: label -> type; default `LABELS`. Entities with other labels are dropped.
            linker: ``umls`` takes the semantic types of linked concepts instead of labels.

        Raises:
            UsageError: spaCy, scispaCy or the pipeline is missing or cannot be loaded, or the
                pipeline lacks the labels.
        """
        self._model = model
        self._labels = dict(LABELS if labels is None else labels)
        _check_labels(self._labels)
        self._linker = linker
        self._nlp = _load(model, base)
        if linker is not None:
            _add_linker(self._nlp, linker)
            return
        _check_declared(model, _declared(self._nlp), self._labels, labels)

    def find(self, texts: Sequence[str]) -> list[list[Found]]:
        """Return the mentions of each text; see `Recogniser.find`."""
        documents = self._nlp.pipe(texts, batch_size=_BATCH)
        return [
            [
                Found(start=span.start_char, end=span.end_char, type=type_)
                for span in document.ents
                for type_ in self._types(span)
            ]
            for document in documents
        ]

    def spec(self) -> dict[str, Any]:
        """Describe the recogniser; the model by its own metadata, not by its path."""
        meta = self._nlp.meta
        return {
            "name": "spacy",
            "model": f"{meta['lang']}_{meta['name']} {meta['version']}",
            "labels": None if self._linker else self._labels_used(),
            "linker": self._linker,
        }

    def _labels_used(self) -> dict[str, str]:
        declared = _declared(self._nlp)
        return {k: v for k, v in sorted(self._labels.items()) if not declared or k in declared}

    def _types(self, span: Span) -> Iterator[str]:
        if self._linker is None:
            if span.label_ in self._labels:
                yield self._labels[span.label_]
            return
        # (concept, score) pairs, best first; the concept's `types` are semantic type identifiers.
        for concept, _ in span._.kb_ents[:1]:
            yield from self._nlp.get_pipe(LINKER).kb.cui_to_entity[concept].types  # type: ignore[attr-defined]


def entity_texts(model: str, texts: Sequence[str], base: Path) -> list[str]:
    """Return the texts of all entities that a pipeline finds, whatever their labels.

    Args:
        model: the name of an installed pipeline, or the path of a saved one.
        texts: the texts to search.
        base: folder that a relative path starts from.

    Raises:
        UsageError: spaCy or the pipeline is missing or cannot be loaded.
    """
    documents = _load(model, base).pipe(texts, batch_size=_BATCH)
    return [span.text for document in documents for span in document.ents]


def _check_labels(labels: Mapping[str, str]) -> None:
    known = (*GROUPS, *sorted(TYPE_IDENTIFIERS))
    for label, type_ in labels.items():
        if type_ not in known:
            raise UsageError(
                f"labels: {label} = {type_!r}: expected drugs, diseases or a UMLS type identifier "
                f"such as T047{did_you_mean(type_, known)}"
            )


def _check_declared(
    model: str, declared: Sequence[str], labels: Mapping[str, str], given: Mapping[str, str] | None
) -> None:
    """Refuse labels that the pipeline lacks, and a pipeline without any known label."""
    if not declared:
        return  # a pipeline need not declare its labels
    for label in given or ():
        if label not in declared:
            raise UsageError(
                f"spaCy pipeline {model!r} has no label {label!r}"
                f"{did_you_mean(label, declared)} (it has: {', '.join(declared)})"
            )
    if not set(declared) & labels.keys():
        raise UsageError(
            f"spaCy pipeline {model!r}: none of its labels ({', '.join(declared)}) is mapped "
            f'to a type; map them, e.g. labels = {{{declared[0]} = "drugs"}}'
        )


def _load(model: str, base: Path) -> Language:
    with importing("the package spacy of recogniser 'spacy'", "spacy"):
        import spacy
    folder = base / Path(model).expanduser()
    installed = spacy.util.get_installed_models()
    if model not in installed and not folder.is_dir():
        raise UsageError(
            f"recogniser 'spacy': there is no pipeline {model!r}; give the name of an installed "
            f"one (installed: {', '.join(installed) or 'none'}), or the folder of a saved one"
            f"{did_you_mean(model, installed)}"
        )
    with loading(lambda why: f"spaCy cannot load the pipeline {model!r}: {why}"):
        return spacy.load(model if model in installed else folder)


def _add_linker(nlp: Language, linker: str) -> None:
    if LINKER in nlp.pipe_names:
        return
    try:
        import_module("scispacy.linking")  # registers the component
    except ImportError as error:
        raise UsageError(
            f"linker = {linker!r} needs scispaCy, which is not installed here; it runs in an "
            "environment of its own (constraints-scispacy.txt), with `medstress check DATA --to "
            "FILE`"
        ) from error
    nlp.add_pipe(LINKER, config={"linker_name": linker})


def _declared(nlp: Language) -> list[str]:
    """Return the declared labels of the components that set entities; empty if none does."""
    found = {
        label
        for name in nlp.pipe_names
        if "doc.ents" in nlp.get_pipe_meta(name).assigns
        for label in nlp.pipe_labels.get(name, ())
    }
    return sorted(found)
