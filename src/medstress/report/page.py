"""Render the report page from a summary, trials and a manifest."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from medstress.core.rows import TrialRow
from medstress.report.cases.building import Cases
from medstress.report.cases.page import Browser, render_cases
from medstress.report.charts import library
from medstress.report.contents import SECTIONS
from medstress.report.first_screen import first_screen
from medstress.report.labels import FACTORS
from medstress.report.section import Source, environment
from medstress.results.names import Names


def render_report(
    summary: Mapping[str, Any],
    trials: Sequence[TrialRow],
    manifest: Mapping[str, Any],
    *,
    cases: Cases | Browser | None = None,
) -> str:
    """Render the report of a run as one HTML page that loads no other resource.

    Pure: the same arguments give the same page. All data are escaped; control characters and lone
    surrogates, which HTML cannot hold, become U+FFFD.

    Args:
        summary: as `medstress summary --json`; `warnings` are to be read before any number, the
            most important first.
        trials: the rows of the run, the source of the successes and failures shown.
        manifest: configuration, seeds, versions, hashes; `command` repeats the run and
            `endpoints` lists the network addresses that were asked.
        cases: the cases of the run with what its folder keeps; without them the page shows what
            the rows hold. A `Browser` asks a server for cases (`medstress view`).

    Returns:
        A complete HTML document, to be written as UTF-8.
    """
    if isinstance(cases, Cases):
        cases = render_cases(cases, str(summary["experiment"].get("fingerprint")))
    source = Source(summary, trials, manifest, cases)
    made = ((section, section.make(source)) for section in SECTIONS)
    contents = [(section, content) for section, content in made if content is not None]
    first = first_screen(source)
    plots = [*first.plots, *(plot for _, content in contents for plot in content.plots)]
    names = [name for _, content in contents for name in content.scripts]
    return page(
        "page.html",
        asks_server=cases is not None and cases.is_served,
        styles=[name for _, content in contents for name in content.styles],
        scripts=[*(("charts.js",) if plots else ()), *names],
        name=summary["experiment"]["name"],
        first=first,
        n_warnings=len(summary.get("warnings") or ()),
        sections=contents,
        keys=json.dumps(_keys(source.names), ensure_ascii=False),
    )


def page(
    template: str,
    *,
    styles: Iterable[str],
    scripts: Iterable[str],
    asks_server: bool = False,
    **values: Any,
) -> str:
    """Return a page whose policy lets only its own style sheets and scripts in, by their hashes.

    Args:
        template: its name in `templates`; it holds `policy`, `styles` and `scripts`.
        styles: names of style sheets in `templates`, besides `page.css`.
        scripts: names of scripts in `templates`, besides `page.js`; with `charts.js` comes the
            library that draws.
        asks_server: whether its scripts may ask the server that it came from.
        values: what else the template shows.
    """
    sheets = [_text(name) for name in dict.fromkeys(("page.css", *styles))]
    names = list(dict.fromkeys(("page.js", *scripts)))
    code = [_text(name) for name in names]
    if "charts.js" in names:
        code.insert(0, Markup(_closed(library())))
    served = "connect-src 'self'; " if asks_server else ""
    policy = (
        f"default-src 'none'; script-src {_hashes(code)}; style-src {_hashes(sheets)}; "
        f"img-src data:; {served}base-uri 'none'; form-action 'none'"
    )
    made = environment().get_template(template)
    return made.render(policy=Markup(policy), styles=sheets, scripts=code, **values)


def _text(name: str) -> Markup:
    return Markup((files("medstress.report") / "templates" / name).read_text("utf-8"))


def _closed(script: str) -> str:
    """Return a script in which no text ends its element."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hashes(texts: Iterable[str]) -> str:
    """Return the sources of a policy that allow these texts."""
    found = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in found)


def _keys(names: Names) -> dict[str, dict[str, str]]:
    """Return, for each factor, name in words -> key, for what plots tell of a click."""
    known = asdict(names)
    return {
        factor: {words: key for key, words in known[f"{factor}s"].items()} for factor in FACTORS
    }
