"""What a reader of an imported run has to know: nothing was asked here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

KEY = "imported"
"""The manifest's entry about the logs that a run was made of."""


def imported_lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about a run that `medstress import` made; none for other runs."""
    told = manifest.get(KEY)
    if not told:
        return
    version = f" {told['version']}" if told["version"] else ""
    files = ", ".join(log["file"] for log in told["logs"])
    yield (
        f"imported: every answer is from a log of {told['tool']}{version} ({files}); no model was "
        "asked here, so no query was paid and nothing shows that the model gave these answers"
    )
    config = manifest["config"]
    if config.get("require") or config.get("slices"):
        yield (
            "imported: the answers existed before the criteria and slices were chosen, so these "
            "are post hoc"
        )
    yield from (f"imported: {note}" for note in told["notes"])
