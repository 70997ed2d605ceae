"""Figure 5 and Appendix E: single successes, original options left, edited options right."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medstress.core.hashing import digest
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import VOUCHERS
from medstress.kinds import kind_of
from medstress.metrics.counts import success_edits, success_repeats, success_valid
from medstress.papers.arms import METHODS, Arm
from medstress.results.formats import clean, decimal
from medstress.results.latex import PACKAGES, escape
from medstress.results.pages import templates

PER_ARM = 3
"""Cases per method and place in Appendix E."""

Items = Mapping[tuple[str, str], Question]
"""Items by data set and item id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of an option's text."""

    text: str
    """Its text."""
    changed: bool
    """True if it was replaced or inserted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option before and after the attack."""

    letter: str
    """Its letter."""
    before: tuple[Piece, ...]
    """Text in the data set."""
    after: tuple[Piece, ...]
    """Text that the victim was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One successful attack."""

    title: str
    """Method, group, data set and victim."""
    facts: str
    """Item, seed, query number, probabilities and validity."""
    context: str
    """Context of the item, unchanged."""
    stem: str
    """Stem of the item, unchanged."""
    options: tuple[Option, ...]
    """All options."""
    key: str
    """Letter of the right option."""
    answer_before: str
    """The victim's letter on the clean item."""
    answer_after: str
    """The victim's letter under attack."""


def one_case_per_regime(arms: Sequence[Arm], items: Items) -> list[Case]:
    """Return Figure 5: one case per regime of PDWS, from the place with the most regimes."""
    by_place: dict[tuple[str, ...], list[Case]] = defaultdict(list)
    for method in ("near", "far"):
        for arm in arms:
            place = (arm.place.victim.label, arm.place.dataset, arm.place.entity)
            titles = [case.title for case in by_place[place]]
            if arm.method != method or any(METHODS[method] in title for title in titles):
                continue
            by_place[place] += [_case(arm, t, items) for t in _successes([arm], 1)]
    return max(by_place.values(), key=len, default=[])


def cases_of(arms: Sequence[Arm], items: Items, per_arm: int = PER_ARM) -> list[Case]:
    """Return Appendix E: up to `per_arm` cases of every method in every place.

    Cases are ordered by a hash of the trial, not by how striking they are; successes known to be
    invalid, and those that did not repeat, come last. Data sets of sentences have no cases.
    """
    cases = []
    groups: dict[tuple[object, str], list[Arm]] = defaultdict(list)
    with_names = {dataset for (dataset, _), item in items.items() if kind_of(item).draws_names}
    for arm in (arm for arm in arms if arm.place.dataset in with_names):
        groups[arm.place, arm.method].append(arm)
    for members in groups.values():
        by_trial = {trial.trial_id: arm for arm in members for trial in arm.trials}
        for trial in _successes(members, per_arm):
            cases.append(_case(by_trial[trial.trial_id], trial, items))
    return cases


def as_html(cases: Sequence[Case], heading: str, notes: Iterable[str]) -> str:
    """Return a self-contained HTML page."""
    page = templates("medstress.papers").get_template("cases.html")
    return page.render(cases=cases, heading=heading, notes=list(notes))


def as_latex(cases: Sequence[Case], heading: str, notes: Iterable[str]) -> str:
    """Return the cases as LaTeX to include in a document."""
    lines = [
        f"% medstress figures: {escape(heading)}",
        PACKAGES + "{booktabs,xcolor,amssymb}",
        *(line for case in cases for line in _latex(case)),
        r"{\scriptsize",
        *(escape(note) for note in notes),
        r"\par}",
    ]
    return "\n".join(lines) + "\n"


def _successes(arms: Iterable[Arm], n: int) -> list[TrialRow]:
    """Return the first n successes by hash, one per item, doubtful ones last."""
    successes = [
        trial
        for arm in arms
        for trial in arm.trials
        if trial.verdict is Verdict.FLIPPED and trial.replacement is not None
    ]
    successes.sort(
        key=lambda t: (
            success_valid(t) is False,
            success_repeats(t) is False,
            digest(["case", t.trial_id]),
        )
    )
    by_item: dict[str, TrialRow] = {}
    for trial in successes:
        by_item.setdefault(trial.item_hash, trial)
    return list(by_item.values())[:n]


def _case(arm: Arm, trial: TrialRow, items: Items) -> Case:
    item = items[trial.dataset, trial.item_id]
    place = arm.place
    name = METHODS.get(arm.method, arm.attack)
    exponent = "" if arm.n is None else f" (n = {arm.n:g})".replace("-", "−")
    parts = (f"{name}{exponent}", place.entity, place.dataset, place.victim.label)
    edits: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for field, start, end, replacement in json.loads(success_edits(trial)):
        edits[field].append((start, end, replacement))
    return Case(
        title=" · ".join(parts),
        facts=_facts(trial),
        context=clean(item.context),
        stem=clean(item.stem),
        options=tuple(
            Option(
                letter=letter,
                before=_pieces(text, edits[letter], after=False),
                after=_pieces(text, edits[letter], after=True),
            )
            for letter, text in zip(item.letters, item.options, strict=True)
        ),
        key=item.key,
        answer_before=trial.answer_before or "",
        answer_after=trial.first_success_answer or trial.answer_after or "",
    )


def _facts(trial: TrialRow) -> str:
    labels = {True: "valid", False: "not valid", None: "validity unknown"}
    is_valid = success_valid(trial)
    valid = labels[is_valid]
    if is_valid is not None and trial.validity_reason in VOUCHERS:
        valid += f" ({trial.validity_reason})"
    elif is_valid is False and trial.variant_class not in (None, "different"):
        valid += f" ({str(trial.variant_class).replace('_', ' ')} of the key)"
    parts = [f"item {trial.item_id}", f"query {trial.first_success}", valid]
    if trial.seed is not None:
        parts.insert(1, f"seed {trial.seed}")
    if trial.score_before is not None:
        after = trial.first_success_score
        after = trial.score_after if after is None else after
        parts.append(f"P(key) {decimal(trial.score_before)} → {decimal(after)}")
    if success_repeats(trial) is False:
        parts.append("did not repeat when asked again alone")
    return ", ".join(parts)


def _pieces(text: str, edits: Iterable[tuple[int, int, str]], *, after: bool) -> tuple[Piece, ...]:
    """Cut a text at its edits.

    >>> [p.text for p in _pieces("Take aspirin.", [(5, 12, "warfarin")], after=True)]
    ['Take ', 'warfarin', '.']
    """
    pieces, last = [], 0
    for start, end, replacement in sorted(edits):
        pieces.append(Piece(text=text[last:start], changed=False))
        pieces.append(Piece(text=replacement if after else text[start:end], changed=True))
        last = end
    pieces.append(Piece(text=text[last:], changed=False))
    return tuple(
        Piece(text=clean(piece.text), changed=piece.changed) for piece in pieces if piece.text
    )


def _latex(case: Case) -> list[str]:
    lines = [
        r"\begin{figure}",
        r"\footnotesize",
        rf"\textbf{{{escape(case.title)}}}\par",
        *([rf"\textbf{{Context}} {escape(case.context)}\par"] if case.context else []),
        rf"\textbf{{Question}} {escape(case.stem)}\par\smallskip",
        r"\begin{tabular}{@{}p{0.48\linewidth}p{0.48\linewidth}@{}}",
        r"\toprule",
        r"original & edited \\",
        r"\midrule",
    ]
    for option in case.options:
        before = _marked(option.before, "red") + _check(option.letter == case.answer_before)
        after = _marked(option.after, "blue") + _check(option.letter == case.answer_after)
        lines.append(rf"{option.letter}: {before} & {option.letter}: {after} \\")
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{escape(f'Key: {case.key}. {case.facts}.')}}}",
        r"\end{figure}",
        "",
    ]
    return lines


def _marked(pieces: Iterable[Piece], colour: str) -> str:
    return "".join(
        rf"\textcolor{{{colour}}}{{{escape(piece.text)}}}" if piece.changed else escape(piece.text)
        for piece in pieces
    )


def _check(chosen: bool) -> str:
    return r" $\checkmark$" if chosen else ""
