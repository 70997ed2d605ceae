"""Other names of a right answer, for planted cases with a second one: never the same text twice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from medstress.analyses.run import Run
from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.entities.names import normalise
from medstress.entities.synonyms import SynonymGroups, load_synonyms
from medstress.report.review.shown import Shown

Namer = Callable[[Shown, int], str | None]
"""(case, seed) -> another name of its right answer; None if no list has one."""


def namer(run: Run, keys: Collection[str]) -> Namer:
    """Return what finds other names, in the lists of synonyms of a run's groups.

    The shipped list stands in for one that is no longer there, and for none.

    Args:
        run: the run.
        keys: the right answers that names are looked for.
    """
    base = Path(run.manifest["base"])
    tables = run.manifest["config"].get("entities") or ()
    sources = dict.fromkeys((*(table.get("synonyms", "default") for table in tables), "default"))
    lists = [found for each in sources if (found := _loaded(each, base, keys)) is not None]

    def name(case: Shown, seed: int) -> str | None:
        taken = {normalise(option) for option in case.options}
        key = case.options[case.letters.index(case.key)]
        found = {each for one in lists for each in one.synonyms_of(key)} - taken
        if not found:
            return None
        chosen = min(found, key=lambda each: digest([seed, each]))
        # Lists hold names in small letters, and another look would give the option away.
        return chosen[:1].upper() + chosen[1:] if key[:1].isupper() else chosen

    return name


def _loaded(source: str, base: Path, keys: Collection[str]) -> SynonymGroups | None:
    try:
        return load_synonyms(source, base, keys)
    except UsageError:
        return None
