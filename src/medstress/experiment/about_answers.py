"""What a run says of how its victims answered: not at all readably, or at another temperature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.metrics.unreadable import RAW_SHOWN, unread_sentence, victims_unread
from medstress.store.reader import RunReader


def about_answers(reader: RunReader, summary: Mapping[str, Any]) -> Iterator[str]:
    """Sentences that stand before all other warnings.

    Args:
        reader: the run.
        summary: as `metrics.summarise` returns it.
    """
    for victim, counts in victims_unread(summary).items():
        yield unread_sentence(victim, counts, reader.clean_replies(victim, RAW_SHOWN))
    yield from _temperatures(reader.manifest)


def _temperatures(manifest: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each model whose server insists on a temperature."""
    for endpoint in manifest.get("endpoints") or ():
        told = endpoint.get("temperature")
        if not told:
            continue
        sent = told["sent"]
        at = "without one" if sent is None else f"at temperature {sent:g}"
        yield (
            f"{endpoint['victim']}: its server does not take temperature = {told['asked']:g}, so "
            f"that it was asked {at}, and its answers are samples: asked again, it may answer "
            f"otherwise. The server says: {told['said']}"
        )
