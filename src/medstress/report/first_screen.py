"""The first screen of the page: the verdict in words, one picture, what was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.report import criteria, overview
from medstress.report.charts import Plot
from medstress.report.first_picture import Picture, first_picture
from medstress.report.section import Source
from medstress.results.formats import as_text, shorten
from medstress.results.root import chain_sentences

_LONGEST = 600
"""Characters of a verdict on criteria that the first screen shows; the table has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstScreen:
    """What a reader sees first."""

    sentence: str
    """The verdict in words."""
    criteria: str | None
    """Whether the criteria are met; None without any."""
    misses: bool
    """Whether one is missed."""
    others: Sequence[str]
    """A sentence for each further victim."""
    caveats: Sequence[str]
    """What the numbers do not say."""
    picture: Picture | None
    """Accuracy or score before and after, of every victim."""
    run: str
    """What was run, in one line."""
    print: str
    """Fingerprint, root and date."""

    @property
    def plots(self) -> list[Plot]:
        """The plots of the picture."""
        return [panel.plot for panel in self.picture.panels] if self.picture else []


def first_screen(source: Source) -> FirstScreen:
    """Return what stands on the first screen."""
    summary = source.summary
    said: Mapping[str, Any] = summary.get("verdict") or {}
    judged = criteria.verdict(summary)
    return FirstScreen(
        sentence=said.get("sentence") or overview.state(summary),
        criteria=None if judged is None else shorten(judged, _LONGEST),
        misses=criteria.misses(summary),
        others=list(said.get("others") or ()),
        caveats=[
            *chain_sentences(summary),
            *(said.get("caveats") or ()),
        ],
        picture=first_picture(source),
        run=overview.run_line(source.rows, source.experiment),
        print=_print(source.experiment, summary.get("root")),
    )


def _print(experiment: Mapping[str, Any], root: str | None) -> str:
    """Return fingerprint, root and date in one line."""
    date = as_text(experiment.get("finished") or experiment.get("started") or "")[:10]
    told = (as_text(experiment[key]) for key in ("fingerprint",) if experiment.get(key))
    return " · ".join(filter(None, (*told, f"root {root}" * bool(root), date)))
