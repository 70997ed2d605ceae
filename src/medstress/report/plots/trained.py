"""Scores by attack before and after training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate, read_score
from medstress.report.charts import Plot, plot
from medstress.report.labels import Row
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    BESIDE_NAMES,
    MOST_ROWS,
    first_panels,
    in_legend,
    mark,
    most_important,
    names_in,
    on_axis,
    place_words,
    read_number,
)
from medstress.results.formats import as_text, decimal, shorten
from medstress.results.names import Names
from medstress.results.table import Format, Table, as_row, columns

MOST_MODELS = 6
"""Kinds of models that can be told apart in one row."""
CLEAN = "no attack"
_MEASURES = {"f1": "F1", "pearson": "Pearson's r", "accuracy": "accuracy"}
_MOST_SPOKEN = 6


def training_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield a chart for each data set and group: the score of each kind of model under attack.

    The first row is the score without an attack, if it is the same beside every attack.
    """
    names = names_in(summary)
    panels: dict[tuple[str, ...], list[Row]] = {}
    for row in (summary.get("training") or {}).get("scores") or ():
        if read_number(row["attacked"]):
            key = tuple(as_text(row[name]) for name in ("dataset", "group", "measure"))
            panels.setdefault(key, []).append(row)
    drawn, left_out = first_panels(panels, len)
    for i, rows in enumerate(drawn.values()):
        yield _panel(rows, names, f"trained-{i}-data", () if i else left_out)


def _panel(rows: Sequence[Row], names: Names, name: str, notes: tuple[str, ...]) -> Plot:
    title = place_words(rows[0], names, "dataset", "group")
    measure = _MEASURES[rows[0]["measure"]]
    attacks = list(dict.fromkeys(as_text(row["attack"]) for row in rows))
    models = list(dict.fromkeys(as_text(row["model"]) for row in rows))
    kept, more = most_important(attacks, MOST_ROWS, lambda attack: _loss(rows, attack), "attacks")
    shown, fewer = most_important(models, MOST_MODELS, lambda _: 0.0, "kinds of models")
    clean = {model: each for model in shown if (each := _same_clean(rows, model))}
    has_clean = len(clean) == len(shown)
    labels = ([CLEAN] if has_clean else []) + [names.of("attack", attack) for attack in kept]
    places = on_axis(labels)
    kinds = dict(
        zip(
            shown,
            in_legend((model.replace("_", " ") for model in shown), BESIDE_NAMES),
            strict=True,
        )
    )
    data = []
    if has_clean:
        place = {key: rows[0][key] for key in ("dataset", "group")}
        data = [
            mark(score, place, is_share=False, place=places[0], series=kinds[model], model=model)
            for model, score in clean.items()
        ]
    at = dict(zip(kept, places[int(has_clean) :], strict=True))
    data += [
        mark(score, row, is_share=False, place=at[attack], series=kinds[model], model=model)
        for row in rows
        if (attack := as_text(row["attack"])) in at
        and (model := as_text(row["model"])) in kinds
        and (score := read_number(row["attacked"]))
    ]
    chart = layers.dots(
        data,
        places,
        [Series(label=kinds[model], look=i, dash=int(i == 0)) for i, model in enumerate(shown)],
        Axis(title=f"{measure}, 95 % interval", span=None if measure == "Pearson's r" else (0, 1)),
        title=title,
        notes=(*more, *fewer, *notes),
        tips={"series": "Model", "model": "Kind"},
    )
    spoken = "; ".join(
        f"{shorten(names.of('attack', row['attack']), 44)}, {shorten(as_text(row['model']), 30)} "
        f"{decimal(row['attacked']['value'])}"
        for row in rows[:_MOST_SPOKEN]
    )
    said = f"{measure} by attack and kind of model, {shorten(title, 120)}: {spoken}."
    return plot(chart, label=said, data=_numbers(name, title, measure, rows, names))


def _loss(rows: Sequence[Row], attack: str) -> float:
    """Return what an attack takes at most from a model."""
    pairs = [
        (read_number(r["clean"]), read_number(r["attacked"])) for r in rows if r["attack"] == attack
    ]
    return max(((c.value or 0) - (a.value or 0) for c, a in pairs if c and a), default=0.0)


def _same_clean(rows: Sequence[Row], model: str) -> Estimate | None:
    """Return the score without an attack; None if it differs between attacks, or is unknown."""
    found = [read_number(row["clean"]) for row in rows if as_text(row["model"]) == model]
    known = [each for each in found if each is not None]
    return known[0] if len(known) == len(found) and len({e.value for e in known}) == 1 else None


def _numbers(name: str, title: str, measure: str, rows: Sequence[Row], names: Names) -> Table:
    return Table(
        name=name,
        caption=f"{measure} of kinds of models by attack, as plotted: {title}",
        columns=(
            *columns(Format.TEXT, "Attack", "Model"),
            *columns(Format.COUNT, "Seeds"),
            *columns(Format.SCORE, "Clean", "Attacked"),
        ),
        rows=tuple(
            as_row(
                names.of("attack", row["attack"]),
                as_text(row["model"]),
                row["n_seeds"],
                read_score(row["clean"]),
                read_score(row["attacked"]),
            )
            for row in rows
        ),
        n_labels=2,
    )
