"""The lists of `medstress list`."""

from __future__ import annotations

from medstress import recipes
from medstress.core import registry


def listing(kind: str) -> list[tuple[str, str]]:
    """Return (name, summary) of everything installed of a kind, including plug-ins."""
    if kind in registry.KINDS:
        return [(name, entry.summary) for name, entry in registry.installed(kind).items()]
    if kind == "recipes":
        return [(name, recipes.summary_of(name)) for name in recipes.names()]
    if kind == "samplers":
        from medstress.attacks.samplers import SUMMARIES

        return sorted(SUMMARIES.items())
    if kind == "prompts":
        from medstress.tasks.prompt_sets import load_prompts, shipped_sets
        from medstress.tasks.templates import load_template, shipped_prompts

        own = [(name, load_template(name).summary) for name in shipped_prompts()]
        sets = [(name, f"medfuzz: {load_prompts(name).rules.lever}") for name in shipped_sets()]
        return own + sets
    if kind == "parsers":
        from medstress.tasks.reading import SUMMARIES as PARSERS

        return list(PARSERS.items())
    if kind == "text_scores":
        from medstress.tasks.multiple_choice import TEXT_SCORES

        return list(TEXT_SCORES.items())
    if kind == "wrappers":
        from medstress.tasks.wrappers import SUMMARIES as WRAPPERS

        return list(WRAPPERS.items())
    if kind == "recognisers":
        from medstress.entities.recognisers import SUMMARIES as RECOGNISERS

        return list(RECOGNISERS.items())
    return list(_PLAIN[kind])


_PLAIN: dict[str, tuple[tuple[str, str], ...]] = {
    "embeddings": (
        ("minilm", "all-MiniLM-L6-v2, mean pooling; extra: medstress[minilm]"),
        ("ngram", "shared character n-grams and words, TF-IDF; no model"),
        ("PATH.txt, .vec, .gz", "word vectors in GloVe's text format; mean of a name's words"),
        ("GanjinZero/UMLSBert_ENG", "CODER, a BERT trained on UMLS; pooling cls"),
        ("thenlper/gte-base", "GTE; mean pooling"),
        (
            "PATH or hub id",
            "any encoder for transformers or sentence-transformers; pooling cls, "
            "mean or first_token",
        ),
    ),
    "vocabularies": (
        ("drugs", "substances approved in the United States, from the FDA UNII list"),
        ("diseases", "diseases from MeSH and MONDO"),
        ("PATH", "your own file: CSV, TSV, text or parquet"),
    ),
}
