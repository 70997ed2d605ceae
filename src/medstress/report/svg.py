"""Turn matplotlib's SVG into SVG for an HTML page.

Inside a page an SVG shares the page's style sheet, identifiers and colours. Therefore matplotlib's
`style` element, metadata, fixed fonts and repeated identifiers are removed, and placeholder colours
become CSS variables, which light and dark mode set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED = {"style", "metadata"}
_COLOUR = re.compile("#[0-9a-f]{6}")
_FONT = re.compile(r"\s*font-family:[^;]*;?")
_TEXT_SIZE = re.compile(r"font: ([0-9.]+px) [^;]*")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def inline(source: str, *, prefix: str, label: str, colours: Mapping[str, str]) -> str:
    """Rewrite an SVG document as an element for an HTML page.

    Args:
        source: the document as matplotlib wrote it.
        prefix: prefix of every identifier, unique on the page.
        label: the accessible name.
        colours: placeholder `#rrggbb`, in lower case, to CSS colour.
    """
    root = ElementTree.fromstring(source)
    names: dict[str, str] = {}
    for element in root.iter():
        if old := element.attrib.get("id"):
            names[old] = f"{prefix}-{len(names)}"
    _rewrite(root, names, colours)
    root.attrib = {
        "role": "img",
        "aria-label": label,
        "viewBox": root.attrib["viewBox"],
        "width": root.attrib["width"].removesuffix("pt"),
        "height": root.attrib["height"].removesuffix("pt"),
    }
    return ElementTree.tostring(root, encoding="unicode")


def _rewrite(
    element: ElementTree.Element, names: Mapping[str, str], colours: Mapping[str, str]
) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    kept = [child for child in element if child.tag.removeprefix(_SVG) not in _DROPPED]
    element[:] = kept
    attributes: dict[str, str] = {}
    for name, value in element.attrib.items():
        if name == "id":
            value = names[value]
        elif name == _XLINK_HREF:
            name, value = "href", "#" + names[value.removeprefix("#")]
        elif name == "clip-path":
            value = _REFERENCE.sub(lambda found: f"url(#{names[found[1]]})", value)
        elif name == "style":
            value = _style(value, colours)
        attributes[name] = " ".join(value.split())
    element.attrib = attributes
    for child in element:
        _rewrite(child, names, colours)


def _style(style: str, colours: Mapping[str, str]) -> str:
    style = _TEXT_SIZE.sub(r"font-size: \1", _FONT.sub("", style))
    return _COLOUR.sub(lambda found: colours.get(found[0], found[0]), style)
