"""spaCy pipelines as victims: the entities they find in sentences that are already tokenised."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from medstress.backends.options import BackendOptions
from medstress.core.calls import (
    Backend,
    BackendTraits,
    Call,
    Failure,
    ModelIdentity,
    Reply,
    Tag,
    Tagged,
)
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.entities.recognisers import declared_labels, load_pipeline

_BATCH_SIZE = 256
_INNER_BATCH = 64


class SpacyBackend(Backend):
    """Answers `tag` calls with the entities of a pipeline, as IOB labels of its own types.

    The pipeline gets the words of the data set and does not tokenise them again.

    Args:
        nlp: a loaded pipeline with a component that sets entities.
        identity: covers the pipeline's data.
        batch_size: the largest number of calls given to `answer` at once; None for the default.
    """

    def __init__(self, nlp: Any, identity: ModelIdentity, *, batch_size: int | None = None) -> None:
        self.identity = identity
        self._nlp = nlp
        self.traits = BackendTraits(
            calls=frozenset({"tag"}),
            batch_size=batch_size or _BATCH_SIZE,
            ahead=8,
            labels=tuple(f"{mark}-{one}" for one in declared_labels(nlp) for mark in "BI"),
        )

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order."""
        from spacy.tokens import Doc

        tags = [call for call in calls if isinstance(call, Tag)]
        documents = (Doc(self._nlp.vocab, words=list(call.tokens)) for call in tags)
        tagged = self._nlp.pipe(documents, batch_size=_INNER_BATCH)
        return [
            _tagged(next(tagged))
            if isinstance(call, Tag)
            else Failure(error=f"a spaCy pipeline cannot answer {call.kind!r} calls")
            for call in calls
        ]

    def close(self) -> None:
        """Drop the pipeline."""
        del self._nlp


def _tagged(document: Any) -> Tagged:
    labels = tuple(
        "O" if token.ent_iob_ in ("O", "") else f"{token.ent_iob_}-{token.ent_type_}"
        for token in document
    )
    return Tagged(labels=labels, tokens_in=len(labels))


def open_backend(options: BackendOptions) -> SpacyBackend:
    """Load the pipeline named by `model`: an installed one, or the folder of a saved one.

    Raises:
        UsageError: spaCy or the pipeline is missing, cannot be loaded, or sets no entities.
    """
    name = options.model
    if not name:
        raise UsageError("backend 'spacy' needs model = an installed pipeline or a saved folder")
    nlp = load_pipeline(name, options.base, "backend 'spacy'")
    if not any("doc.ents" in nlp.get_pipe_meta(pipe).assigns for pipe in nlp.pipe_names):
        raise UsageError(
            f"spaCy pipeline {name!r} sets no entities (it has: {', '.join(nlp.pipe_names)}); "
            "give one with an ner or entity_ruler component"
        )
    import spacy

    # The serialised pipeline contains weights, vocabulary and rules.
    state = content_hash(
        [spacy.about.__version__, blake2b(nlp.to_bytes(), digest_size=16).hexdigest()]
    )
    return SpacyBackend(nlp, ModelIdentity(name=name, hash=state), batch_size=options.batch_size)
