"""The card as Markdown, as one page of HTML, and as JSON."""

from __future__ import annotations

import json

from medstress.card.content import Card
from medstress.card.sections import sections, title_of
from medstress.report.section import unbroken
from medstress.results.markdown import escape, markdown_table
from medstress.results.pages import source_hash, templates


def markdown(card: Card) -> str:
    """Return the card as Markdown."""
    parts = [f"# {escape(title_of(card))}"]
    for each in sections(card):
        parts.append(f"## {each.title}")
        parts += map(escape, each.lines)
        if each.table is not None:
            parts += [markdown_table(each.table), *map(escape, each.table.notes)]
        if each.code is not None:
            # Indented, not fenced: no back tick in a command can end it.
            parts.append(f"    {' '.join(each.code.split())}")
    return "\n\n".join(parts) + "\n"


def html(card: Card) -> str:
    """Return the card as a page that needs nothing else, and fits one sheet of A4 when printed."""
    found = templates("medstress.card").overlay()
    found.filters = {**found.filters, "unbroken": unbroken}
    style = found.loader.get_source(found, "card.css")[0] if found.loader else ""
    policy = f"default-src 'none'; style-src '{source_hash(style)}'; base-uri 'none'"
    return found.get_template("card.html").render(
        title=title_of(card), sections=sections(card), style=style, policy=policy
    )


def as_json(card: Card) -> str:
    """Return the card as JSON."""
    return json.dumps(card.as_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
