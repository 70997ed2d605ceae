"""Complete a run that holds all trials and whose experiment asks nothing more: no model is opened.

The machine that shares out a run may have no room for its models.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medstress.experiment.file.config import LIMITS
from medstress.experiment.plan import manifest as manifests
from medstress.experiment.plan.parts import used_tables
from medstress.experiment.plan.plan import Prepared
from medstress.running import criteria
from medstress.store.reader import RunReader
from medstress.store.run_store import RunStore


def complete_unasked(prepared: Prepared, folder: Path) -> bool:
    """Complete a run, if no model is needed for it.

    Args:
        prepared: the experiment, its victims not opened.
        folder: of the run.

    Returns:
        False if something may be left to ask, no model has answered, or the experiment is another
        than the folder's; nothing was written then.
    """
    if not _asks_only_trials(prepared):
        return False
    reader = RunReader(folder)
    try:
        known, n_ended = reader.manifest, reader.n_trials()
    finally:
        reader.close()
    if n_ended != known["n_planned"] or not _is_same(prepared, known):
        return False
    with RunStore(folder, access=prepared.experiment.experiment.access) as store:
        if store.is_unanswered():
            return False  # what kept the models from answering may be mended since
        if known["complete"]:
            return True
        store.write_manifest(
            {
                **criteria.fixed(store, prepared, known),
                "given": prepared.given,
                "config": used_tables(prepared.experiment),
                "command": manifests.command_line(),
                "finished": manifests.now(),
                "complete": True,
            }
        )
        store.keep_root()
    return True


def _asks_only_trials(prepared: Prepared) -> bool:
    """Return whether nothing comes after the trials, nor is kept for other runs."""
    tables, settings = prepared.experiment, prepared.experiment.analysis
    return not (
        tables.test
        or settings.transfer
        or settings.universality
        or settings.prompt_similarity
        or tables.experiment.cache
        or any(part.attack.spec().get("sampler") == "exhaustive" for part in prepared.attacks)
    )


def _is_same(prepared: Prepared, known: Mapping[str, Any]) -> bool:
    """Return whether a folder is of this experiment, with these items, but for its limits."""
    now, config = manifests.fingerprint_parts(prepared), used_tables(prepared.experiment)
    parts = ("seeds", "settings", "items", "groups", "attacks")
    return all(now[name] == known["parts"][name] for name in parts) and (
        _without_limits(config) == _without_limits(known["config"])
    )


def _without_limits(config: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in config["experiment"].items() if name not in LIMITS}
    return {**config, "experiment": own}
