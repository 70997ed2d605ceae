"""Explanations on the page: where the token with the largest value lies, and heat maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from medstress.metrics.explanations import mask_words
from medstress.metrics.old_stats.estimates import read_score
from medstress.report.explained import distinct, is_score, labels, sentences
from medstress.report.section import rendered
from medstress.results.formats import as_text, decimal
from medstress.results.pages import source_hash
from medstress.results.table import Format, Table, Value, as_row, columns

HEAT_MAPS = "explanations.css"
"""Style sheet of heat maps, in `templates`."""
LEVELS = 7
"""Shades of a heat map on either side of 0."""
N_TOP = 3
"""Tokens that are named beside a heat map."""
_TOPS = {
    "edit": "In the edit",
    "key": "In the right option",
    "answer": "In the chosen option",
    "elsewhere": "Elsewhere",
}
_VALUES = {
    "probability": "P(option) among the options",
    "answer": "1 for the option that was answered, else 0, because the victim gives no scores",
    "mixed": "P(option), or 1 and 0 where an answer has no scores",
    "score": "the victim's score of the pair",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of a heat map."""

    text: str
    """As asked."""
    shade: str
    """Class of its colour: `p` for the answer, `n` against it, and a level up to `LEVELS`."""
    value: str
    """Its value, for those who point at it."""
    edited: bool
    """Whether it lies in an edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the item, before and after."""

    place: str
    """An option letter or a field."""
    before: tuple[Token, ...]
    after: tuple[Token, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The heat maps of one trial, aligned."""

    id: str
    """Unique on the page."""
    title: str
    """Item, attack and victim."""
    heads: tuple[str, str]
    """What was answered before and after, and the output that is explained."""
    tops: tuple[str, str]
    """The tokens with the largest values."""
    stretches: tuple[Stretch, ...]
    """All parts of the prompt, in order."""


def heat_map_section(summary: Mapping[str, Any]) -> Markup:
    """Return sentences, heat maps, and tables behind a click, as HTML; empty without any of them.

    It needs the styles of `HEAT_MAPS` and no script.
    """
    return rendered(
        "explanations.html",
        sentences=sentences(summary),
        maps=heat_maps(summary),
        tables=explanation_tables(summary),
        of_score=is_score(summary.get("explanations") or {}),
    )


def explanation_page(summary: Mapping[str, Any]) -> str:
    """Return tables and heat maps as a self-contained HTML page without scripts."""
    style = "\n".join(
        (files("medstress.report") / "templates" / name).read_text("utf-8")
        for name in ("page.css", HEAT_MAPS)
    )
    return rendered(
        "explanations_page.html",
        name=as_text(summary["experiment"]["name"]),
        style=Markup(style),
        style_hash=source_hash(style),
        found=heat_map_section(summary),
    )


def explanation_tables(summary: Mapping[str, Any]) -> list[Table]:
    """Return the tables: where the top token lies, and how far values moved."""
    found = summary.get("explanations") or {}
    rows = distinct(found.get("rows") or ())
    if not rows:
        return []
    names = summary.get("names") or {}
    heads = columns(Format.TEXT, "Victim", "Attacks", "Which")
    value = "; ".join(_VALUES.get(each, each) for each in found["values"])
    units, places = " or ".join(found["units"]), _places(found)
    of_what = "" if is_score(found) else "for the option that was answered, "
    tops = Table(
        name="explained-tops",
        caption="Where the token with the largest Shapley value lies",
        columns=(
            *heads,
            *columns(Format.TEXT, "Prompt"),
            *columns(Format.COUNT, "Trials"),
            *columns(
                Format.SCORE, *(head for word in places.values() for head in (word, "by chance"))
            ),
        ),
        rows=tuple(
            as_row(
                *labels(found, row, names),
                side,
                row["n"],
                *(value for place in places for value in _beside_chance(row[f"top_{side}"][place])),
            )
            for row in rows
            for side in ("before", "after")
        ),
        notes=(
            f"Owen values of {units} {of_what}of {value}; tied tokens "
            "share the top place. By chance: the share of tokens that lie there. An edit may lie "
            "in an option, so that places overlap. Failed attacks are explained at their last "
            "query. Values of parts that the search did not resolve are shared equally.",
        ),
        n_labels=3,
    )
    of_key = "the values of the score" if is_score(found) else "the values for the right answer"
    moved = Table(
        name="explained-changes",
        caption=f"How far the edit moves {of_key}",
        columns=(
            *heads,
            *columns(Format.COUNT, "Trials"),
            *columns(
                Format.SCORE,
                "Mean |change| of a token",
                "Within 10 tokens of the edit",
                "Farther away",
                "Share of all change within 10 tokens",
                "by chance",
            ),
        ),
        rows=tuple(
            as_row(
                *labels(found, row, names),
                row["n"],
                *(read_score(row[name]) for name in ("change", "change_near", "change_far")),
                *_beside_chance(row["near"]),
            )
            for row in rows
        ),
        notes=("The change of an edit is that of its sum, shared equally by its tokens.",),
        n_labels=3,
    )
    return [tops, moved]


def _places(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the places of top tokens that the items have; pairs and entities have no options."""
    if is_score(found):
        return {place: _TOPS[place] for place in ("edit", "elsewhere")}
    if {case["key"] for case in found.get("cases") or ()} == {"found"}:
        return {"edit": _TOPS["edit"], "key": "In the entity", "elsewhere": _TOPS["elsewhere"]}
    return _TOPS


def _beside_chance(found: Mapping[str, Any]) -> tuple[Value, Value]:
    """Return a share with its interval, and what chance would give; the excess is in the JSON."""
    return read_score(found["share"]), found["chance"]["value"]


def heat_maps(summary: Mapping[str, Any]) -> list[HeatMap]:
    """Return the heat maps that the summary holds."""
    found = summary.get("explanations") or {}
    names = summary.get("names") or {}
    several = len(found.get("masks") or ()) > 1
    return [
        heat_map(case, names, f"heat-{i}", with_mask=several)
        for i, case in enumerate(found.get("cases") or ())
    ]


def heat_map(
    case: Mapping[str, Any], names: Mapping[str, Any], id_: str, *, with_mask: bool = False
) -> HeatMap:
    """Return the heat maps of one case of `explanations.cases`."""
    before, after = case["before"], case["after"]
    largest = max((abs(v) for side in (before, after) for v in side["values"]), default=0.0)
    tokens = [list(_tokens(side, largest)) for side in (before, after)]
    words = {
        kind: (names.get(f"{kind}s") or {}).get(case[kind], case[kind])
        for kind in ("attack", "victim")
    }
    title = f"{case['item_id']} · {words['attack']} · {words['victim']}"
    if case["verdict"] == "held":
        title += " · attack failed"
    if with_mask:
        title += f" · {mask_words(case['mask'])}"
    return HeatMap(
        id=id_,
        title=as_text(title),
        heads=(_head("Before", before, case), _head("After", after, case)),
        tops=(_tops(before), _tops(after)),
        stretches=tuple(_stretches(before["segments"], after["segments"], *tokens)),
    )


def _head(when: str, side: Mapping[str, Any], case: Mapping[str, Any]) -> str:
    answer, output = side["answer"], side["output"]
    if case["value"] == "score":
        return (
            f"{when}: score {decimal(side['full'])}; with everything masked {decimal(side['base'])}"
        )
    said = "no readable answer" if answer is None else f"answered {answer}"
    right = " (right)" if answer == case["key"] else ""
    what = f"values for {output}: {decimal(side['base'])} → {decimal(side['full'])}"
    return as_text(f"{when}: {said}{right}; {what}")


def _tops(side: Mapping[str, Any]) -> str:
    order = sorted(range(len(side["values"])), key=lambda i: -side["values"][i])[:N_TOP]
    named = [
        f"“{side['tokens'][i].strip() or side['tokens'][i]}” {_signed(side['values'][i])}"
        for i in order
        if side["values"][i] > 0
    ]
    return as_text(", ".join(named)) or "none"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + decimal(value)


def _tokens(side: Mapping[str, Any], largest: float) -> Iterator[Token]:
    edited = [is_edit for _, is_edit, n in side["segments"] for _ in range(n)]
    for text, value, is_edit in zip(side["tokens"], side["values"], edited, strict=True):
        level = round(LEVELS * abs(value) / largest) if largest else 0
        shade = f"{'p' if value > 0 else 'n'}{level}" if level else ""
        yield Token(text=as_text(text), shade=shade, value=_signed(value), edited=is_edit)


def _stretches(
    first: Sequence[Any], second: Sequence[Any], before: Sequence[Token], after: Sequence[Token]
) -> Iterator[Stretch]:
    """Cut both texts where the place changes; segments of both are aligned.

    A part of nothing but white space, as between options, joins the part before it.
    """
    done = [0, 0]
    parts: list[tuple[str, list[Token], list[Token]]] = []
    for (place, _, n), (_, _, m) in zip(first, second, strict=True):
        old, new = before[done[0] : done[0] + n], after[done[1] : done[1] + m]
        done = [done[0] + n, done[1] + m]
        is_blank = not any(token.text.strip() for token in (*old, *new))
        if not parts or (parts[-1][0] != place and not is_blank):
            parts.append((place, [], []))
        parts[-1][1].extend(old)
        parts[-1][2].extend(new)
    for place, *texts in parts:
        if any(texts):
            shown = (tuple(_without_breaks(text)) for text in texts)
            yield Stretch(place=as_text(place), before=next(shown), after=next(shown))


def _without_breaks(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens without the line breaks at both ends of a cell."""
    for i, token in enumerate(tokens):
        text = token.text
        text = text.lstrip("\r\n") if i == 0 else text
        yield replace(token, text=text.rstrip() if i == len(tokens) - 1 else text)
