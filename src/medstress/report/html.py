"""Tables as HTML, and what pages share; all text is escaped."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape

from medstress.analyses.shown import Column, Entry, Label, Table
from medstress.report.text import clean, one_line, parts, sort_value
from medstress.stats.estimate import Estimate

MOST_ROWS = 500
"""Rows of a table on a page; CSV has all."""


def html_table(table: Table) -> Markup:
    """Write a table with caption and notes; numbers have their value in `data-sort`."""
    shown = table.rows[:MOST_ROWS]
    notes = list(map(one_line, table.notes))
    if len(table.rows) > len(shown):
        notes.append(f"The first {len(shown):,} of {len(table.rows):,} rows.")
    heads = "".join(
        f"<tr>{''.join(f'<th colspan={span}>{_text(text)}</th>' for text, span in head)}</tr>\n"
        for head in table.heads
    )
    headings = "".join(map(_heading, table.columns))
    rows = "\n".join(_row(table, i, row) for i, row in enumerate(shown))
    name = _text(table.name)
    note = f'<p class="note">{_text(" ".join(notes))}</p>\n' if notes else ""
    # Thousands of cells: strings are joined, for `Markup.format` takes ten times as long.
    return Markup(
        f'<div class="scroll" role="region" aria-labelledby="{name}-caption" tabindex="0">\n'
        f'<table id="{name}" class="sortable">\n'
        f'<caption id="{name}-caption"><span>{_text(table.caption)}</span></caption>\n'
        f"<thead>{heads}<tr>{headings}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>\n"
        f"{note}"
    )


def _text(text: str) -> str:
    return str(escape(one_line(text)))


def _heading(column: Column) -> str:
    tip = f' title="{_text(column.tip)}"' if column.tip else ""
    return f'<th scope="col"{_number(column)}{tip}>{_text(column.heading)}</th>'


def _row(table: Table, number: int, row: tuple[Entry, ...]) -> str:
    kinds = ["rule"] * (number in table.rules) + ["published"] * (number in table.published)
    cells = "".join(
        _cell(column, entry, is_head=i < table.n_labels)
        for i, (column, entry) in enumerate(zip(table.columns, row, strict=True))
    )
    return f'<tr class="{" ".join(kinds)}">{cells}</tr>' if kinds else f"<tr>{cells}</tr>"


def _cell(column: Column, entry: Entry, *, is_head: bool) -> str:
    text, small = parts(entry, column)
    value, sort = entry.value, sort_value(entry)
    tip = ""
    if isinstance(value, Label) and value.key != value.words:
        tip = f' title="{_text(value.key)}"'
    elif isinstance(value, Estimate):
        tip = f' title="{_text(value.method)}"'
    order = f' data-sort="{sort!r}"' if sort is not None else ""
    lines = "".join(f"<small><bdi>{escape(line)}</bdi></small>" for line in small)
    # Each text has its own direction of writing.
    inner = f"<bdi>{escape(text)}</bdi>{lines}"
    if is_head:
        return f'<th scope="row"{_number(column)}{order}{tip}>{inner}</th>'
    return f"<td{_number(column)}{order}{tip}>{inner}</td>"


def _number(column: Column) -> str:
    return "" if column.form == "text" else ' class="number"'


def rendered(name: str, *policy: str, data: Any = None, **values: Any) -> str:
    """Return a page that loads nothing: the template `name`.html with its script and style.

    The template escapes every value; what HTML cannot hold becomes U+FFFD. Script and style are
    allowed by their hashes alone.

    Args:
        name: of the files among the assets.
        policy: further parts of the content policy.
        data: what the script reads, as `as_script` writes it.
        values: of the template.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def finalize(value: Any) -> Any:
        return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    assets = files("medstress.report") / "assets"
    script, style = ((assets / f"{name}.{end}").read_text("utf-8") for end in ("js", "css"))
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (script, style)]
    parts = (
        "default-src 'none'",
        f"script-src 'sha256-{hashes[0]}'",
        f"style-src 'sha256-{hashes[1]}'",
        *policy,
        "base-uri 'none'",
        "form-action 'none'",
    )
    made = Environment(
        loader=PackageLoader("medstress.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    made.filters["together"] = lambda text: text.replace(" %", "\u00a0%")
    return made.get_template(f"{name}.html").render(
        policy=Markup("; ".join(parts)),
        script=Markup(script),
        style=Markup(style),
        data=None if data is None else Markup(data),
        **values,
    )


_RAW = re.compile("[<\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What JSON leaves as it is and no page may hold in a script."""


def as_script(value: Any) -> str:
    """Return JSON for a script element of a page: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace").decode("utf-8")  # no file holds a lone surrogate
    return _RAW.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
