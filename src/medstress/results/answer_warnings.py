"""Warnings about victims with unreadable answers or another temperature than asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.metrics.unreadable import RAW_SHOWN, unread_sentence, victims_unread
from medstress.store.reader import RunReader


def about_answers(reader: RunReader, summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the warnings that come before all others.

    Args:
        reader: the run.
        summary: the result of `metrics.summarise`.
    """
    for victim, counts in victims_unread(summary).items():
        yield unread_sentence(victim, counts, reader.clean_replies(victim, RAW_SHOWN))
    yield from _temperatures(reader.manifest)


def _temperatures(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each model whose server refuses the temperature."""
    for endpoint in manifest.get("endpoints") or ():
        refusal = endpoint.get("temperature")
        if not refusal:
            continue
        sent = refusal["sent"]
        at = "without one" if sent is None else f"at temperature {sent:g}"
        yield (
            f"{endpoint['victim']}: its server does not take temperature = "
            f"{refusal['asked']:g}, so it was asked {at}. Its answers are samples and may differ "
            f"when it is asked again. The server says: {refusal['said']}"
        )
