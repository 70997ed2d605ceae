"""The plots of a page: Vega-Lite charts, with a static picture of each and its numbers as a table.

A page draws the picture where no script runs; elsewhere its script draws the chart again, with
tooltips. Colours are variables of the page's style sheet, so that light and dark need one picture.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

from medstress.files.cache_folders import cache_dir
from medstress.files.writing import write_text
from medstress.results.formats import clean
from medstress.results.table import Table

if TYPE_CHECKING:
    import altair

WIDTH = 560
"""Width in CSS pixels of the static picture; the page's script draws as wide as there is room."""
VEGA_LITE = "6.4"
N_COLOURS = 8
SERIES = tuple(f"var(--series-{i + 1})" for i in range(N_COLOURS))
"""Colours of series; more series repeat them, and need another mark or dash as well."""
INK, SOFT, RULE, PAPER = "var(--ink)", "var(--soft)", "var(--rule)", "var(--paper)"
_SVG = "http://www.w3.org/2000/svg"
_FONT = "system-ui, sans-serif"
"""That of the page. Vega measures text with it, which it cannot with `inherit`."""
_TEXT = {"labelColor": INK, "titleColor": SOFT, "labelFont": _FONT, "titleFont": _FONT}
_CONFIG: dict[str, Any] = {
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "range": {"category": list(SERIES)},
    "text": {"color": INK, "font": _FONT},
    "axis": {
        **_TEXT,
        "domain": False,
        "ticks": False,
        "gridColor": RULE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 260,
        "labelPadding": 6,
    },
    "legend": {
        **_TEXT,
        "orient": "bottom",
        "direction": "vertical",
        "title": None,
        "labelFontSize": 12,
        "labelLimit": 420,
        "symbolLimit": 60,
    },
    "header": {**_TEXT, "titleFontSize": 12, "labelFontSize": 12, "labelLimit": 420},
    "title": {"color": INK, "font": _FONT, "anchor": "start", "fontSize": 13, "limit": 520},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart with its static picture and the table of its numbers."""

    spec: str
    """The Vega-Lite chart as JSON; its width is that of its place on the page."""
    svg: Markup
    """The static picture, an SVG element whose accessible name says the chart's main numbers."""
    data: Table
    """The numbers."""


def plot(chart: altair.TopLevelMixin, *, label: str, data: Table, width: int = WIDTH) -> Plot:
    """Return a chart as a page shows it.

    Args:
        chart: an Altair chart without a width; its data are rows with field names of ours, never
            of the user's. Texts in them may be anything.
        label: the accessible name: what is shown, and its main numbers.
        data: the numbers, for the table below the chart.
        width: of the static picture, in CSS pixels.
    """
    made = _cleaned({**chart.to_dict(validate=False), "config": _CONFIG, "autosize": _AUTOSIZE})
    return Plot(
        spec=json.dumps({**made, "width": "container", "padding": _SPARE}, ensure_ascii=False),
        svg=Markup(_picture({**made, "width": width, "padding": _ROOM}, clean(label))),
        data=data,
    )


_SPARE = {"left": 5, "right": 12, "top": 5, "bottom": 5}
"""Pixels around a chart: the label of the last tick stands half outside the plot."""
_ROOM = {**_SPARE, "left": 24, "right": 16}
"""The same of a static picture: the reader's font may be wider than the one it is laid out in."""
_AUTOSIZE = {"type": "fit-x", "contains": "padding"}


def _cleaned(value: Any) -> Any:
    """Replace what a page cannot hold in every text of a chart."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(each) for key, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list) else value


def _picture(spec: dict[str, Any], label: str) -> str:
    import vl_convert

    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE))
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        # A content policy without inline styles ignores them, with a complaint for each.
        element.attrib.pop("style", None)
    for name in ("class", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


@lru_cache(maxsize=1)
def library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that sets `window.vegaEmbed`.

    Bundling takes two seconds, so the script is kept in the user's cache.
    """
    import vl_convert

    kept = cache_dir("vega") / f"{version('vl-convert-python')}-{VEGA_LITE}.js"
    if not kept.is_file():
        bundled = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE)
        write_text(kept, bundled)
    return kept.read_text("utf-8")
