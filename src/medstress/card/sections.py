"""The card in the order and the words in which it is read, for every form of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.card.content import Arm, Card
from medstress.report.criteria import MARKS, compared, found_in, name_of
from medstress.results.formats import NONE, as_text, decimal, listed, plural, shorten
from medstress.results.names import CONTROL_WORDS
from medstress.results.table import Format, Table, as_row, columns
from medstress.summary.caveats import between, per_cent

_MOST_ARMS, _MOST_SLICES, _MOST_CRITERIA, _MOST_WARNINGS = 6, 3, 4, 3
"""What fits one printed page; the rest is counted."""
_LONGEST, _LONGEST_SENTENCE = 36, 200
"""Characters of a name, and of a warning or a criterion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One heading of the card."""

    title: str
    """The heading."""
    lines: Sequence[str] = ()
    """Sentences."""
    table: Table | None = None
    """Below them."""
    code: str | None = None
    """A command or a digest, written as it is typed."""


def title_of(card: Card) -> str:
    """Return the heading of the page."""
    return f"Robustness card: {shorten(card.victim, _LONGEST)}"


def sections(card: Card) -> list[Section]:
    """Return what stands below the title, in order."""
    return [
        Section(title="What was found", lines=[*card.sentences, *_marks(card)]),
        Section(
            title="What was attacked, and how", lines=list(_attacked(card)), table=_arms(card.arms)
        ),
        Section(title="Worst slice", lines=list(_slices(card))),
        Section(title="Criteria", lines=list(_criteria(card))),
        Section(title="Limits", lines=list(_limits(card))),
        Section(title="Root", lines=list(_root(card)), code=card.root),
        Section(title="To repeat it", lines=list(_repeat(card)), code=card.command),
    ]


def _marks(card: Card) -> Iterator[str]:
    if not card.is_complete:
        yield card.state


def _attacked(card: Card) -> Iterator[str]:
    yield f"Model: {_model(card.model) or NONE}."
    data = [
        f"{shorten(each['label'], _LONGEST)}"
        + (f" ({plural(each['n_items'], 'item')})" if each["n_items"] is not None else "")
        for each in card.data
    ]
    when = [f"begun {card.started}" * bool(card.started), f"ended {card.finished}"]
    told = ", ".join(filter(None, when[: 2 if card.finished else 1]))
    ran = f"run {shorten(card.run, _LONGEST)}" + (f", {told}" if told else "")
    yield f"Data: {listed(data) or NONE}; {card.kind}; {ran}, medstress {card.medstress or NONE}."


_SAID = {"name": "", "backend": "back end ", "prompt": "prompt ", "parser": "parser "}


def _model(model: Mapping[str, Any]) -> str:
    told = [
        f"{word}{shorten(as_text(model[key]), _LONGEST)}"
        for key, word in _SAID.items()
        if key in model
    ]
    return ", ".join([*told, *([f"weights or code {model['hash']}"] if "hash" in model else [])])


def _arms(arms: Sequence[Arm]) -> Table | None:
    if not arms:
        return None
    left = len(arms) - _MOST_ARMS
    more = (f"and {plural(left, 'attack')} that take less",) if left > 0 else ()
    return Table(
        name="arms",
        caption="Each attack, those that take most first",
        columns=columns(
            Format.TEXT,
            "Attack",
            "Budget",
            "Before",
            "After",
            "Lost",
            "Control",
            "Net of control",
            "Key still right",
        ),
        rows=tuple(as_row(*_cells(arm)) for arm in arms[:_MOST_ARMS]),
        notes=(
            "Before, after: share right, or the score of the whole data set; lost: share of right "
            "answers, or the drop of the score; 95 % intervals.",
            *more,
        ),
    )


def _cells(arm: Arm) -> Iterator[str]:
    is_share = arm.measure == "asr"
    yield (
        f"{shorten(arm.name, _LONGEST)} on {shorten(arm.place, _LONGEST)} "
        f"({plural(arm.n_items, 'item')}): {arm.edit}"
    )
    yield NONE if arm.budget is None or not arm.is_attacked else f"{arm.budget:,}"
    yield _number(arm.before, is_share=is_share)
    yield _number(arm.after, is_share=is_share)
    lost = _estimate(arm.lost, is_share=is_share) if arm.is_attacked else "nothing was attacked"
    counted = (
        f" ({arm.n_lost:,} of {arm.lost['n']:,})"
        if arm.n_lost is not None and arm.lost["n"]
        else ""
    )
    failed = f"; {plural(arm.n_failed, 'trial')} failed" if arm.n_failed else ""
    yield f"{lost}{counted}{failed}"
    if not arm.is_attacked:
        yield NONE
    elif arm.control is None:
        yield "this is one" if arm.is_control else "none"
    else:
        words = CONTROL_WORDS.get(arm.control, "noise outside entities")
        taken = arm.control_lost
        yield words if taken is None else f"{words}: {_estimate(taken, is_share=is_share)}"
    yield NONE if arm.net is None else _estimate(arm.net, is_share=is_share)
    yield _validity(arm)


def _validity(arm: Arm) -> str:
    """Say how many of the losses are vouched for; unknown is never written as a number alone."""
    has_bounds = arm.valid_bounds is not None and None not in arm.valid_bounds
    unknown = f"unknown for {arm.n_unknown:,}; {_bounds(arm)}" if has_bounds else ""
    if arm.valid is not None and arm.valid["value"] is not None:
        who = f"reviewers, {arm.valid['n_labels']:,} of {arm.n_lost:,}"
        more = f"; {unknown}" if unknown and arm.n_unknown else ""
        return f"{between(arm.valid)} ({who}{more})"
    if arm.n_lost is None or not has_bounds:
        return NONE
    return unknown if arm.n_lost else "no loss"


def _bounds(arm: Arm) -> str:
    low, _, high = (per_cent(each) for each in arm.valid_bounds or ())
    return f"between {low.removesuffix(' %')} and {high}"


def _number(found: Mapping[str, Any], *, is_share: bool) -> str:
    value = found["value"]
    if value is None:
        return NONE
    return per_cent(value) if is_share else decimal(value)


def _estimate(found: Mapping[str, Any], *, is_share: bool) -> str:
    if found["value"] is None:
        return NONE
    if is_share and found["value"] >= 0:
        return between(found)
    if found["low"] is None:
        return decimal(found["value"])
    return f"{decimal(found['value'])}, {decimal(found['low'])} to {decimal(found['high'])}"


def _slices(card: Card) -> Iterator[str]:
    if card.slicing is None:
        yield "No slices were asked for ([slices] in the experiment), so no part was looked at."
        return
    if not card.slices:
        yield "No slice has an attacked item yet."
    for each in card.slices[:_MOST_SLICES]:
        what = " = ".join(shorten(as_text(each[key]), _LONGEST) for key in ("by", "value"))
        remarks = "".join(f"; {remark}" for remark in compared(each))
        share = between(each["asr"]) if each["asr"]["value"] is not None else NONE
        yield (
            f"{what}: {plural(each['n_items'], 'item')}, lost {share} "
            f"({shorten(as_text(each['attack']), _LONGEST)}){remarks}."
        )
    yield f"Slices: {card.slicing}; the intervals of all slices of one attack hold at once."


def _criteria(card: Card) -> Iterator[str]:
    for each in card.criteria[:_MOST_CRITERIA]:
        found = found_in({**each, "caution": None})  # it stands whole below
        told = f"{MARKS[each['met']].capitalize()}: {name_of(each)}" + f"; {found}" * bool(found)
        yield f"{shorten(told, _LONGEST_SENTENCE)}."
    if (left := len(card.criteria) - _MOST_CRITERIA) > 0:
        yield f"and {plural(left, 'more criterion', 'more criteria')}: medstress summary --wide."
    yield card.criteria_fixed


def _limits(card: Card) -> Iterator[str]:
    yield from card.limits
    yield from card.cautions
    for each in card.warnings[:_MOST_WARNINGS]:
        yield f"Warning: {shorten(each, _LONGEST_SENTENCE)}"
    if (left := len(card.warnings) - _MOST_WARNINGS) > 0:
        yield f"and {plural(left, 'more warning')}: medstress summary --wide."


def _root(card: Card) -> Iterator[str]:
    if card.root is not None:
        yield (
            "A digest of plan, items, answers and reviews. It binds where it is kept out of the "
            "reach of who holds the folder; medstress verify DIR --root checks it."
        )
    if card.root_note:
        yield f"{card.root_note[0].upper()}{card.root_note[1:]}."


def _repeat(card: Card) -> Iterator[str]:
    if card.command is None:
        yield "The folder does not say how it was begun."
    yield f"Fingerprint of the experiment: {card.fingerprint}."
