"""What `explain --out` writes: a page of heat maps, or the tokens of all prompts, one a row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape

from medstress.analyses.explanations import Explanations
from medstress.analyses.shown import Chart, Point, Shown
from medstress.files.frames import Types
from medstress.report.formats import clean
from medstress.report.html import html_table
from medstress.stats.estimate import Estimate

COLUMNS: Types = {
    **dict.fromkeys(("trial_id", "dataset", "item_id", "victim", "attack"), str),
    **{"seed": int, "verdict": str, "regime": str, "side": str, "position": int, "token": str},
    **{"place": str, "edited": bool, "key": str, "answer": str},
    **{"value_key": float, "value_answer": float, "values": None},
    **{"value": str, "units": str, "mask": str, "base_key": float, "full_key": float},
    **{"evaluations": int, "gap": float},
}
"""The columns of `token_rows`."""
LEVELS = 7
"""Shades on either side of 0."""
_SHADES = "".join(
    f".{name}{level} {{ background: rgb({colour} / {level / LEVELS:.2f}) }}\n"
    for name, colour in (("p", "0 90 200"), ("n", "200 80 0"))
    for level in range(1, LEVELS + 1)
)
_STYLE = f"""body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
table {{ border-collapse: collapse }}
th, td {{ padding: .2rem .6rem; text-align: left; vertical-align: top }}
figure {{ margin: 2rem 0 }}
.words {{ white-space: pre-wrap }}
.edited {{ outline: 2px solid }}
{_SHADES}"""


def token_rows(explanations: Explanations | None) -> Iterator[dict[str, Any]]:
    """Yield the tokens of all explained prompts."""
    for one in explanations.explained if explanations else ():
        trial, at = one.trial, one.outputs.index(one.key)
        for name, side in (("before", one.before), ("after", one.after)):
            answer, key = one.of(side, side.answer), one.for_key(side)
            for i, token in enumerate(side.tokens):
                yield {
                    "trial_id": trial.id,
                    "dataset": trial.arm.place.dataset,
                    "item_id": trial.item.id,
                    "victim": trial.arm.place.victim,
                    "attack": trial.arm.attack.label,
                    "seed": trial.arm.seed,
                    "verdict": trial.verdict.value,
                    "regime": one.regime,
                    "side": name,
                    "position": i,
                    "token": token,
                    "place": side.places[i],
                    "edited": bool(side.edited[i]),
                    "key": one.key,
                    "answer": side.answer,
                    "value_key": float(key[i]),
                    "value_answer": None if answer is None else float(answer[i]),
                    "values": dict(zip(one.outputs, side.values[i].tolist(), strict=True)),
                    "value": one.value,
                    "units": one.units,
                    "mask": one.mask,
                    "base_key": float(side.base[at]),
                    "full_key": float(side.full[at]),
                    "evaluations": side.evaluations,
                    "gap": side.gap,
                }


def explanation_page(explanations: Shown, name: str) -> str:
    """Return a page that loads nothing: sentences, heat maps, then tables; all text is escaped.

    Args:
        explanations: what it shows.
        name: of the run.
    """
    remarks = "".join(_tag("p", remark.sentence) for remark in explanations.remarks())
    maps = "".join(map(_heat_map, explanations.charts()))
    tables = "".join(
        f"<details><summary>{_text(table.caption)}</summary>{html_table(table)}</details>\n"
        for table in explanations.tables()
    )
    title = f"Shapley profiles: {name}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"{_tag('h1', title)}{remarks}"
        f"{maps}{tables}</body>\n</html>\n"
    )


def _heat_map(chart: Chart) -> str:
    largest = max((abs(_value(point)) for point in chart.points), default=0.0)
    panels = "".join(
        f'{_tag("h3", head)}<p class="words">'
        f"{''.join(_word(point, largest) for point in points)}</p>\n"
        for head, points in groupby(chart.points, key=lambda point: point.panel)
    )
    notes = "".join(_tag("p", note) for note in chart.all_notes)
    return f"<figure>\n{_tag('figcaption', chart.title)}{panels}{notes}</figure>\n"


def _word(point: Point, largest: float) -> str:
    value = _value(point)
    level = round(LEVELS * abs(value) / largest) if largest else 0
    classes = [f"{'p' if value > 0 else 'n'}{level}"] * (level > 0) + ["edited"] * point.marked
    shade = f' class="{" ".join(classes)}"' if classes else ""
    return f'<span{shade} title="{value:.3f}, {_text(point.tip)}">{_text(point.series)}</span>'


def _value(point: Point) -> float:
    value = point.y.value if isinstance(point.y, Estimate) else point.y
    return value or 0.0


def _tag(name: str, text: str) -> str:
    return f"<{name}>{_text(text)}</{name}>\n"


def _text(text: str) -> Markup:
    return escape(clean(text))
