"""Finding typed entities in texts: a gazetteer, spaCy pipelines, or mentions given in the rows."""

SUMMARIES: dict[str, str] = {
    "given": "mentions that come with the rows, or with annotations = ...",
    "gazetteer": "longest names of the drug and disease tables and of the group's vocabulary",
    "spacy": "an installed spaCy or scispaCy pipeline (key model); extra: medstress[spacy]",
}
"""One line about each recogniser."""
