"""What is installed, by lazy dotted name; plug-ins join through entry points."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from medstress.errors import UsageError, did_you_mean
from medstress.input_files import loading


@dataclass(frozen=True, slots=True)
class Entry:
    """One installed part."""

    target: str
    """`module:attribute`, imported only when used."""
    summary: str
    """One line for `medstress list`."""


ATTACKS = {
    "entity_substitution": Entry(
        "medstress.attacks.entity_substitution:EntitySubstitution",
        "replace one entity of a distractor by another of its type (Xian et al.)",
    ),
    "discrete_zoo": Entry(
        "medstress.attacks.discrete_zoo:DiscreteZoo",
        "the same, led by a gradient estimated from a few names (Berger et al., Xian et al.)",
    ),
    "medfuzz": Entry(
        "medstress.attacks.medfuzz:MedFuzz",
        "a language model edits the item until the victim errs (Ness et al.)",
    ),
}
_SENTENCES = "medstress.attacks.sentence_noise"
ATTACKS |= {
    "swap_noise": Entry(
        f"{_SENTENCES}:SwapNoiseAttack",
        "entities and pairs: two inner letters of a word change places (Araujo et al.)",
    ),
    "keyboard_noise": Entry(
        f"{_SENTENCES}:KeyboardNoiseAttack",
        "entities and pairs: a letter becomes its neighbour on a keyboard (Araujo et al.)",
    ),
    "synonym": Entry(
        f"{_SENTENCES}:SynonymAttack",
        "entities and pairs: another name of an entity, or a related one (Araujo et al.)",
    ),
    "case_noise": Entry(f"{_SENTENCES}:CaseNoiseAttack", "entities and pairs: words in other case"),
    "hyphen_noise": Entry(
        f"{_SENTENCES}:HyphenNoiseAttack", "entities and pairs: hyphens and spaces lost or put in"
    ),
    "ocr_noise": Entry(
        f"{_SENTENCES}:OcrNoiseAttack", "entities and pairs: characters that look alike in a scan"
    ),
    "abbreviation": Entry(
        f"{_SENTENCES}:AbbreviationAttack", "entities and pairs: abbreviated or spelt out"
    ),
    "non_entity_noise": Entry(
        f"{_SENTENCES}:NonEntityNoiseAttack",
        "control of a noise: as many words changed, none in an entity",
    ),
}
BACKENDS = {
    "transformers": Entry(
        "medstress.backends.transformers:open_backend",
        "local models read by Hugging Face transformers, decoder-only and encoder-decoder",
    ),
    "openai": Entry(
        "medstress.backends.openai_http:open_backend",
        "any OpenAI-compatible server (OpenAI, vLLM, llama.cpp, Ollama, TGI); extra: openai",
    ),
    "llama_cpp": Entry(
        "medstress.backends.llama_cpp:open_backend",
        "GGUF files through llama.cpp, in process; extra: llama-cpp",
    ),
    "vllm": Entry(
        "medstress.backends.vllm:open_backend",
        "vLLM's offline engine with prefix caching; extra: vllm, in an environment of its own",
    ),
    "python": Entry(
        "medstress.backends.python:open_backend", "a function of yours: module:function or file.py"
    ),
    "spacy": Entry(
        "medstress.backends.spacy:open_backend", "a spaCy pipeline, for entities; extra: spacy"
    ),
    "sentence_transformers": Entry(
        "medstress.experiment.sentence_encoders:open_backend",
        "bi-encoders (cosine of sentence vectors) and cross-encoders, for sentence pairs",
    ),
    "mock": Entry(
        "medstress.backends.mock:open_backend", "an instant victim that hashes its prompt"
    ),
    "scripted": Entry(
        "medstress.backends.scripted:open_backend",
        "replies from a file of yours: the first pattern found in the prompt decides",
    ),
}
DATASETS = {
    "sample": Entry("medstress.datasets.sample:load", "the questions that come with medstress"),
    "jsonl": Entry("medstress.datasets.rows:load_jsonl", "your questions, one JSON object a line"),
    "parquet": Entry("medstress.datasets.rows:load_parquet", "your questions as parquet"),
    "medqa": Entry("medstress.datasets.medqa:load", "MedQA-USMLE, four options (Jin et al. 2021)"),
    "medmcqa": Entry("medstress.datasets.medmcqa:load", "MedMCQA (Pal et al. 2022)"),
    "bc5cdr": Entry("medstress.datasets.bc5cdr:load", "BC5CDR, chemicals and diseases (NER)"),
    "biosses": Entry("medstress.datasets.biosses:load", "BIOSSES, similarity of sentences"),
    "iob": Entry("medstress.datasets.iob:load", "your tagged sentences in IOB or CoNLL files"),
    "pubtator": Entry("medstress.datasets.pubtator:load", "your annotated PubTator abstracts"),
    "bigbio": Entry("medstress.datasets.bigbio:load", "documents, tokens or pairs as BigBIO rows"),
    "brat": Entry("medstress.datasets.brat:load", "your texts annotated with brat: .txt and .ann"),
    "pairs": Entry("medstress.datasets.pairs:load", "your scored pairs of texts, TSV or JSONL"),
    "hub": Entry("medstress.datasets.hub:load", "a data set of the Hugging Face hub"),
}
KINDS = {"attacks": ATTACKS, "backends": BACKENDS, "datasets": DATASETS}


def installed(kind: str) -> dict[str, Entry]:
    """All entries of a kind, plug-ins included, sorted by name."""
    found = dict(KINDS[kind])
    for point in entry_points(group=f"medstress.{kind}"):
        dist = point.dist.name if point.dist else "an unknown package"
        found.setdefault(point.name, Entry(point.value, f"plug-in from {dist}"))
    return dict(sorted(found.items()))


def load(kind: str, name: str) -> Any:
    """Import one entry.

    Raises:
        UsageError: nothing of that name is installed, or it cannot be imported.
    """
    if name in KINDS[kind]:  # before the plug-ins, which take long to list
        module, _, attribute = KINDS[kind][name].target.partition(":")
        return getattr(import_module(module), attribute)
    entries = installed(kind)
    if name not in entries:
        raise UsageError(
            f"unknown {kind[:-1]} {name!r}{did_you_mean(name, entries)} "
            f"(installed: {', '.join(entries)})"
        )
    entry = entries[name]
    module, _, attribute = entry.target.partition(":")
    said = f"{kind[:-1]} {name!r}, the {entry.summary}: importing {entry.target} raised"
    with loading(lambda why: f"{said} {why}; mend or remove that package"):
        return getattr(import_module(module), attribute)
