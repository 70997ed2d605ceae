"""One success as a case for experts: edits, plan, reasoning and stated confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup, escape

from medstress.core.items import LETTERS, TEXTS, Question
from medstress.core.text import Edit
from medstress.results.pages import templates

WIDTH, HEIGHT, MARGIN = 260, 110, 22
_TOP = 5.0
"""Stated confidences go from 1 to 5; probabilities are drawn on the same scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The victim's answer at one attempt."""

    number: int
    """0 to K; 0 is the clean item."""
    answer: str | None
    """The letter; None if a gate rejected the edit or the answer was unreadable."""
    confidences: tuple[float, ...] | None
    """Stated confidence in each option, 1 to 5."""
    rationale: str | None
    """Its reasoning."""
    objections: tuple[str, ...] = ()
    """Gates that objected, with their reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A success with everything an expert needs to judge it."""

    trial_id: str
    """The trial."""
    dataset: str
    """Label of the data set."""
    victim: str
    """Label of the victim."""
    attack: str
    """Label of the attack."""
    item: Question
    """The original item."""
    edits: tuple[Edit, ...]
    """The edits of the success."""
    answer: str | None
    """The victim's letter on the edited item."""
    plan: str
    """The attacker's plan."""
    attempts: tuple[Attempt, ...]
    """In order."""
    success_at: int | None
    """Number of the attempt that succeeded; an earlier success may have been refuted by a gate."""
    clean_p_key: float | None
    """P(key) on the clean item."""
    clean_confidence: float | None
    """Stated confidence in the key on the clean item, as a share."""
    guess: bool | None
    """True if the victim did not know the clean item."""
    valid: bool | None
    """Whether the key still holds according to gates or reviewers; None if unknown."""
    p: str
    """p-values of its tests, as text; empty if untested."""
    faithful: str
    """Whether the reasoning says that the insertions mattered; empty if not judged."""

    @property
    def original(self) -> str:
        """Context and stem."""
        return self.item.question

    @property
    def marked(self) -> str:
        """The edited question, insertions as {+ +} and deletions as [- -]."""
        pieces = (
            f"{{+{text.strip()}+}}"
            if kind == "added"
            else f"[-{text}-]"
            if kind == "removed"
            else text
            for kind, text in self.segments
        )
        return "".join(pieces)

    @property
    def segments(self) -> list[tuple[str, str]]:
        """(`same`, `added` or `removed`; text) of the edited question."""
        found: list[tuple[str, str]] = []
        for name in [name for name in TEXTS if self.item.text_of(name)]:
            if found:
                found.append(("same", " "))
            text, at = self.item.text_of(name), 0
            for edit in sorted((e for e in self.edits if e.field == name), key=lambda e: e.start):
                found.append(("same", text[at : edit.start]))
                if edit.end > edit.start:
                    found.append(("removed", text[edit.start : edit.end]))
                found.append(("added", edit.replacement))
                at = edit.end
            found.append(("same", text[at:]))
        return [(kind, text) for kind, text in found if text]

    @property
    def success(self) -> Attempt | None:
        """The attempt that succeeded."""
        return next((one for one in self.attempts if one.number == self.success_at), None)


def confidence_plot(attempts: Sequence[Attempt], item: Question) -> Markup | None:
    """Draw the stated confidence in every option by attempt as a small SVG; the key is bold.

    Returns:
        None if no attempt states a confidence.
    """
    known = [(one.number, one.confidences) for one in attempts if one.confidences]
    if not known:
        return None
    last = max(max(number for number, _ in known), 1)

    def x(number: int) -> float:
        return MARGIN + (WIDTH - 3 * MARGIN) * number / last

    def y(value: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (value - 1) / (_TOP - 1)

    parts = [
        f'<text x="2" y="{y(5) + 4:.1f}">5</text><text x="2" y="{y(1) + 4:.1f}">1</text>',
        *(f'<text x="{x(n):.1f}" y="{HEIGHT - 4}">{n}</text>' for n, _ in known),
    ]
    for place, letter in enumerate(item.letters):
        points = [(x(number), y(stated[place])) for number, stated in known]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        kind = "key" if letter == item.key else f"other o{place}"
        parts.append(f'<polyline class="{kind}" points="{line}"/>')
        parts += [f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="2.5"/>' for a, b in points]
        parts.append(
            f'<text class="{kind}" x="{points[-1][0] + 6:.1f}" y="{points[-1][1] + 4:.1f}">'
            f"{letter}</text>"
        )
    label = f"Stated confidence from 1 to 5 by attempt; {escape(item.key)} is the key"
    return Markup(
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}">{"".join(parts)}</svg>'
    )


def render_sheet(cases: Sequence[Case], name: str, form: Sequence[tuple[str, str, str]]) -> str:
    """Render the review sheet as one HTML page that loads nothing.

    Args:
        cases: in the order shown.
        name: of the run.
        form: (column of the CSV, question, allowed values).
    """
    css = (files("medstress.report") / "templates" / "review.css").read_text("utf-8")
    plots = [confidence_plot(case.attempts, case.item) for case in cases]
    return (
        templates("medstress.report")
        .get_template("review.html")
        .render(
            name=name,
            pairs=list(zip(cases, plots, strict=True)),
            form=form,
            css=Markup(css),
            letters=LETTERS,
        )
    )
