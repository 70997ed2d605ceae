"""A victim whose answers stand in the log of another tool: it can be read, not asked."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.backends.options import BackendOptions
from medstress.core.calls import Backend, BackendTraits, Call, Failure, ModelIdentity, Reply
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash


class RecordedBackend(Backend):
    """Fails every call: `medstress import` puts the log's answers into the run beforehand."""

    def __init__(self, model: str) -> None:
        self.identity = ModelIdentity(name=model, hash=content_hash(["recorded", 1, model]))
        self.traits = BackendTraits(calls=frozenset({"choose"}), batch_size=256)

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Say that the log holds no answer to any of these."""
        told = f"the log of {self.identity.name!r} holds no answer to this"
        return [Failure(error=told) for _ in calls]


def open_backend(options: BackendOptions) -> RecordedBackend:
    """Open the stand-in of a logged model.

    Raises:
        UsageError: no `model`.
    """
    if not options.model:
        raise UsageError("backend 'recorded' needs model, the name that the log gives it")
    return RecordedBackend(options.model)
