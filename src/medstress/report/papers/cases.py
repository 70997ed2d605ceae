"""Figure 5 and Appendix E in LaTeX: single successes, original options left, edited right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp

from medstress.analyses.choice import Competitor
from medstress.core.hashing import digest
from medstress.core.text import Edit
from medstress.core.trials import Answer, Trial
from medstress.core.validity import REVIEW
from medstress.report.formats import number
from medstress.report.latex import escape


@dataclass(frozen=True, slots=True)
class Case:
    """One success."""

    attack: Competitor
    trial: Trial

    @property
    def rank(self) -> tuple[bool, bool, bytes]:
        """Order by a hash; those refuted and those that did not repeat come last."""
        pick = self.trial.pick
        assert pick is not None
        return pick.validity.valid is False, pick.repeats is False, digest(["case", self.trial.id])

    @property
    def title(self) -> str:
        """Attack, type of names, data set and model."""
        setting = self.attack.setting
        parts = (self.attack.words, setting.types, setting.place.dataset, setting.place.victim)
        return " · ".join(parts)

    @property
    def facts(self) -> str:
        """Item, seed, query, probabilities and validity."""
        trial, pick = self.trial, self.trial.pick
        assert pick is not None
        words = {True: "valid", False: "not valid", None: "validity unknown"}
        is_valid, reason = pick.validity[:2]
        valid = words[is_valid]
        if is_valid is not None and reason == REVIEW:
            valid += f" ({reason})"
        elif is_valid is False and pick.variant not in (None, "different"):
            valid += f" ({str(pick.variant).replace('_', ' ')} of the right answer)"
        seed = [] if trial.arm.seed is None else [f"seed {trial.arm.seed}"]
        parts = [f"item {trial.item.id}", *seed, f"query {pick.query}", valid]
        before, after = (_p_key(trial, a) for a in (trial.before, pick.answer))
        if before is not None:
            ends = f"{number(before, 'share')} → {number(after, 'share')}"
            parts.append(f"P(right answer) {ends}")
        if pick.repeats is False:
            parts.append("did not repeat when asked again alone")
        return ", ".join(parts)


def _p_key(trial: Trial, answer: Answer | None) -> float | None:
    if answer is None or answer.scores is None:
        return None
    return exp(answer.scores[trial.item.letters.index(trial.item.key)])


def pieces(text: str, edits: Iterable[Edit], *, after: bool) -> list[tuple[str, bool]]:
    """Cut a text at its edits: (piece, whether it was replaced or put in).

    >>> edit = Edit(field="B", start=5, end=12, replacement="warfarin")
    >>> pieces("Take aspirin.", [edit], after=True)
    [('Take ', False), ('warfarin', True), ('.', False)]
    """
    cut, last = [], 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        cut.append((text[last : edit.start], False))
        cut.append((edit.replacement if after else text[edit.start : edit.end], True))
        last = edit.end
    cut.append((text[last:], False))
    return [piece for piece in cut if piece[0]]


def cases_in_latex(cases: Iterable[Case]) -> str:
    """Return the cases as LaTeX figures, to put into a document with booktabs and xcolor."""
    return "\n".join(line for case in cases for line in _latex(case))


def _latex(case: Case) -> list[str]:
    trial, item = case.trial, case.trial.item
    pick = trial.pick
    assert pick is not None
    answers = (trial.before.answer if trial.before else None, pick.answer.answer)
    lines = [
        r"\begin{figure}",
        r"\footnotesize",
        rf"\textbf{{{escape(case.title)}}}\par",
        *([rf"\textbf{{Context}} {escape(item.context)}\par"] if item.context else []),
        rf"\textbf{{Question}} {escape(item.stem)}\par\smallskip",
        r"\begin{tabular}{@{}p{0.48\linewidth}p{0.48\linewidth}@{}}",
        r"\toprule",
        r"original & edited \\",
        r"\midrule",
    ]
    for letter, text in zip(item.letters, item.options, strict=True):
        edits = [edit for edit in pick.edits if edit.field == letter]
        sides = []
        for is_after, colour, answer in ((False, "red", answers[0]), (True, "blue", answers[1])):
            marked = "".join(
                rf"\textcolor{{{colour}}}{{{_kept(piece)}}}" if changed else _kept(piece)
                for piece, changed in pieces(text, edits, after=is_after)
            )
            sides.append(f"{letter}: {marked}" + r" $\checkmark$" * (letter == answer))
        lines.append(" & ".join(sides) + r" \\")
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{escape(f'Right answer: {item.key}. {case.facts}.')}}}",
        r"\end{figure}",
        "",
    ]
    return lines


def _kept(text: str) -> str:
    """Escape a piece and keep the spaces at its ends, which join it to the next."""
    before, after = (" " * (text[i : i + 1].isspace()) for i in (0, len(text) - 1))
    return f"{before}{escape(text)}{after}" if text.strip() else " "
