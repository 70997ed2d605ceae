"""Finding typed entities in texts: a gazetteer, spaCy pipelines, or what the rows bring along."""

SUMMARIES: dict[str, str] = {
    "given": "mentions that come with the rows, or with annotations = ...",
    "gazetteer": "longest names of the drug and disease tables and of the group's vocabulary",
    "spacy": "an installed spaCy or scispaCy pipeline (key model); extra: medstress[spacy]",
}
"""The recognisers, with one line each."""
