"""The charts of a run for notebooks: Altair charts that are shown without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import altair

from medstress.core.errors import UsageError, did_you_mean
from medstress.report.charts import VEGA_LITE, WIDTH, Plot
from medstress.report.first_picture import Entry, first_picture
from medstress.report.section import Section, Source
from medstress.results.formats import clean

if TYPE_CHECKING:
    from markupsafe import Markup

FIRST = "first screen"
"""The name of the picture that the report begins with."""
_NAME = re.compile(r"var\((--[a-z0-9-]+)\)")
_OF_THE_PAGE = ("$schema", "config", "autosize", "padding", "width", "datasets")
"""Keys that hold for a whole chart, not for one of several below each other."""
_MEDIA_TYPE = f"application/vnd.vegalite.v{VEGA_LITE.partition('.')[0]}+json"


class Chart(altair.VConcatChart):
    """Charts below each other; show, save and change them as any chart of Altair.

    A notebook gets the chart for its own Vega, and a picture where it has none: unlike with
    Altair's own display, no script is loaded from the network.
    """

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {
            _MEDIA_TYPE: self.to_dict(),
            "image/svg+xml": self.svg(),
            "text/plain": repr(self),
        }

    def svg(self) -> str:
        """Return the picture as SVG."""
        import vl_convert

        svg: str = vl_convert.vegalite_to_svg(self.to_json(), vl_version=VEGA_LITE)
        return svg

    def __repr__(self) -> str:
        """Name the class alone: the specification is long."""
        return f"<{type(self).__name__} of {len(self.vconcat)}>"


def chart_of(source: Source, sections: Sequence[Section], name: str | None) -> Chart:
    """Return the charts of one part of the report.

    Args:
        source: what the report is made from.
        sections: those of the report.
        name: the id, title or short title of a section; None for the first screen.

    Raises:
        UsageError: no section has this name, or the run has nothing to draw there; the message
            lists what can be drawn.
    """
    if name is None or name == FIRST:
        picture = first_picture(source)
        if picture is None:
            found = source.keyed["verdict"]["sentence"]
            raise UsageError(f"the first screen of this run has nothing to draw: {found}")
        titled = [(panel.title or picture.title, panel.plot) for panel in picture.panels]
        return _below_each_other(titled, picture.key)
    wanted = str(name).casefold()
    for section in sections:
        if wanted in (word.casefold() for word in (section.id, section.title, section.short)):
            content = section.make(source)
            if content is not None and content.plots:
                return _below_each_other([(_title(plot), plot) for plot in content.plots])
    drawn = [FIRST, *plotted(source, sections)]
    known = dict.fromkeys(word for one in sections for word in (one.id, one.title, one.short))
    hint = did_you_mean(str(name), drawn)
    what = "this run has nothing to draw there" if name in known else "the report has no such part"
    raise UsageError(f"plot {name!r}: {what}{hint} (there are: {', '.join(drawn)})")


def plotted(source: Source, sections: Sequence[Section]) -> list[str]:
    """Return the ids of the sections that draw something of this run."""
    made = ((section, section.make(source)) for section in sections)
    return [section.id for section, content in made if content is not None and content.plots]


def _title(plot: Plot) -> str:
    return plot.data.caption.removesuffix(", as plotted")


def _below_each_other(plots: Sequence[tuple[str, Plot]], key: Sequence[Entry] = ()) -> Chart:
    """Return plots with their titles as one chart whose colours are those of a light page.

    Args:
        plots: titles and plots.
        key: what the marks of all plots stand for.
    """
    specs = [_key(key)] if key else []
    datasets: dict[str, Any] = {}
    config: Mapping[str, Any] = {}
    for title, plot in plots:
        spec = json.loads(coloured(plot.spec))
        config = spec.get("config", config)
        datasets |= spec.get("datasets", {})
        kept = {key: value for key, value in spec.items() if key not in _OF_THE_PAGE}
        specs.append({"title": title, **kept, "width": WIDTH})
    made = {"vconcat": specs, "config": {**config, "background": palette()["--paper"]}}
    # Not checked: the page's charts hold a few words that Altair's schema does not know.
    chart: Chart = Chart.from_dict({**made, "datasets": datasets}, validate=False)
    return chart


def _key(key: Sequence[Entry]) -> dict[str, Any]:
    """Return the victims with their marks and colours, one in a line."""
    lines = [
        {"text": f"{each.mark} {clean(each.name)}", "colour": palette()[f"--series-{each.colour}"]}
        for each in key
    ]
    ordered = {"field": "text", "type": "nominal", "sort": None, "axis": None}
    return {
        "data": {"values": lines},
        "mark": {"type": "text", "align": "left"},
        "encoding": {
            "text": {"field": "text", "type": "nominal"},
            "x": {"value": 0},
            "y": ordered,
            "color": {"field": "colour", "type": "nominal", "scale": None},
        },
        "width": WIDTH,
        "height": {"step": 16},
    }


def pictures_of(source: Source) -> Iterator[tuple[str, Markup]]:
    """Yield title and static picture of each panel of the first screen."""
    picture = first_picture(source)
    for panel in picture.panels if picture else ():
        yield panel.title or (picture.title if picture else ""), panel.plot.svg


def coloured(text: str) -> str:
    """Return a text whose variables of the page's style sheet are replaced by their colours.

    >>> coloured("fill: var(--series-1)")
    'fill: #0072b2'
    """
    return _NAME.sub(lambda found: palette().get(found[1], found[0]), text)


@lru_cache(maxsize=1)
def palette() -> dict[str, str]:
    """Return name -> colour of the page's style sheet, in light."""
    css = (files("medstress.report") / "templates" / "page.css").read_text("utf-8")
    light = css.partition("}")[0]
    return dict(re.findall(r"(--[a-z0-9-]+):\s*(#[0-9a-f]+);", light))
