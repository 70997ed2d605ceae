"""One case as lines for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from medstress.report.cases.differences import Change, mark_changes
from medstress.report.cases.record import CaseRecord, Score, Swap, Tagging, Turn
from medstress.report.cases.words import repeats_words, validity_words, verdict_words
from medstress.results.formats import decimal

Style: TypeAlias = Literal["", "head", "removed", "added", "soft"]
Span: TypeAlias = tuple[Style, str]
"""A style and a text; a text may hold line ends."""
Line: TypeAlias = tuple[Span, ...]

_SIGNS: dict[Change, tuple[Style, str, str]] = {
    Change.SAME: ("", "", ""),
    Change.REMOVED: ("removed", "[-", "-]"),
    Change.ADDED: ("added", "{+", "+}"),
}
"""Differences are marked by signs as well, so that no colour is needed."""
_PAIR = ("text_a", "text_b")
_BAR = 20
_LABEL = 16


def case_lines(case: CaseRecord) -> Iterator[Line]:
    """Yield the lines of a case; long ones are for the caller to wrap."""
    yield (("head", f"Case {case.id}: {verdict_words(case.verdict)}"),)
    yield (("", _place(case)),)
    yield ()
    yield from _facts(case)
    for note in case.left_out:
        yield (("soft", f"left out: {note}"),)
    if case.shown_before is not None:
        yield from _titled("Text, [-before-] and {+after+}")
        yield from _texts(case, case.shown_before)
    yield from _sent(case)
    yield from _scores(case.scores)
    for name, tagging in (("before", case.tagged_before), ("after", case.tagged_after)):
        if tagging:
            yield from _tagged(name, tagging)
    yield from _tried(case)
    yield from _attempts(case)


def _place(case: CaseRecord) -> str:
    seed = "" if case.seed is None else f", seed {case.seed}"
    unit = "" if case.unit == "item" else f", entity {case.unit}"
    return (
        f"{case.attack.name}; item {case.item_id}{unit} of {case.dataset.name}, "
        f"{case.group.name}; asked of {case.victim.name}{seed}"
    )


def _facts(case: CaseRecord) -> Iterator[Line]:
    if case.n_edits > 1:
        yield (("", f"{'changes':<{_LABEL}}{case.n_edits:,}, marked in the text below"),)
    elif case.replaced is not None and case.replacement is not None:
        where = f" (in {case.changed_in})" if case.changed_in else ""
        kind = f", {case.entity_type}" if case.entity_type else ""
        yield (
            ("", f"{'change':<{_LABEL}}"),
            *_swap(Swap(replaced=case.replaced, replacement=case.replacement)),
            ("soft", f"{where}{kind}"),
        )
    rows = [("gold score" if case.is_pair else "right answer", case.key)]
    if not case.is_pair:
        rows.append(("answer", _to(case.answer_before, case.answer_after)))
    if case.confidence is not None:
        after = None if case.confidence_after is None else decimal(case.confidence_after)
        guess = " (a guess: below .5 before)" if case.guess else ""
        rows.append((_score_name(case), _to(decimal(case.confidence), after) + guess))
    if case.verdict == "flipped":
        rows.append(("key still right", validity_words(case.valid, case.validity_reason)))
        rows += [("evidence", each) for each in case.evidence]
        rows.append(("asked again", repeats_words(case.repeats)))
    rows.append(("queries", _queries(case)))
    rows += [
        ("control", f"{each.control}: {verdict_words(each.verdict)}") for each in case.controls
    ]
    rows += [("slice", f"{by} = {value}") for by, value in case.slices]
    if case.error:
        rows.append(("why it ended", case.error))
    rows.append(("trial", case.trial_id))
    for name, value in rows:
        yield (("", f"{name:<{_LABEL}}{value}"),)


def _score_name(case: CaseRecord) -> str:
    return "similarity" if case.is_pair else "P(key)"


def _to(before: str | None, after: str | None) -> str:
    first = "–" if before is None else before
    return first if after is None else f"{first} → {after}"


def _queries(case: CaseRecord) -> str:
    told = f"{case.n_asked}"
    if case.first_success is not None:
        told += f", misled at {case.first_success}"
    if case.shown_success != case.first_success:
        told += f"; shown: {case.shown_success}, the first that no rule refutes"
    return told


def _swap(swap: Swap) -> Line:
    removed: Line = (("removed", f"[-{swap.replaced}-]"), ("", " ")) if swap.replaced else ()
    return (*removed, ("added", f"{{+{swap.replacement}+}}"))


def _titled(title: str) -> Iterator[Line]:
    yield ()
    yield (("head", title),)


def _texts(case: CaseRecord, before: str) -> Iterator[Line]:
    """Yield the text with its changes; the two of a pair by name."""
    after = case.shown_after
    texts = before.split("\n"), (before if after is None else after).split("\n")
    if case.is_pair and {len(each) for each in texts} == {len(_PAIR)}:
        for name, first, second in zip(_PAIR, *texts, strict=True):
            yield (("soft", f"{name}: "), *_marked(first, second))
    else:
        yield _marked(before, after)


def _marked(before: str, after: str | None) -> Line:
    spans: list[Span] = []
    for segment in mark_changes(before, before if after is None else after):
        style, start, end = _SIGNS[segment.change]
        spans.append((style, f"{start}{segment.text}{end}"))
    return tuple(spans)


def _sent(case: CaseRecord) -> Iterator[Line]:
    for name, turns, shown, scored in (
        ("before", case.sent_before, case.shown_before, case.scored_before),
        ("after", case.sent_after, case.shown_after, case.scored_after),
    ):
        if turns and not _is(turns, shown):
            yield from _titled(f"Sent to the model, {name}")
            for turn in turns:
                if turn.role != "prompt":
                    yield (("soft", f"{turn.role}:"),)
                yield (("", turn.text),)
        elif turns and name == "before":
            yield ()
            yield (("soft", "this text was sent to the model exactly as shown"),)
        if scored:
            yield from _titled(f"Continuations scored after it, {name}")
            yield from ((("", text),) for text in scored)


def _is(turns: Sequence[Turn], shown: str | None) -> bool:
    return len(turns) == 1 and turns[0].role == "prompt" and turns[0].text == shown


def _scores(scores: Sequence[Score]) -> Iterator[Line]:
    if not scores:
        return
    yield from _titled("Scores, before and after")
    width = min(12, max(len(each.label) for each in scores))
    for each in scores:
        label = each.label if len(each.label) <= width else each.label[: width - 1] + "…"
        yield (
            (
                "",
                f"{label:<{width}} {decimal(each.before):>6} {_bar(each.before)} "
                f"{decimal(each.after):>6} {_bar(each.after)}".rstrip(),
            ),
        )


def _bar(value: float | None) -> str:
    n = round(_BAR * min(max(value or 0.0, 0.0), 1.0))
    return "█" * n + " " * (_BAR - n)


def _tagged(name: str, tagging: Tagging) -> Iterator[Line]:
    yield from _titled(f"Labels {name}: word, right label, label given")
    given = tagging.predicted or ("–",) * len(tagging.tokens)
    for token, gold, label in zip(tagging.tokens, tagging.gold, given, strict=False):
        mark = " *" if tagging.predicted and gold != label else ""
        yield (("", f"{token:<28} {gold:<22} {label}{mark}"),)


def _tried(case: CaseRecord) -> Iterator[Line]:
    if not case.tried:
        return
    title = "Tried before, without success"
    if case.verdict == "measured":
        title = "Asked about"
    elif any(each.is_refuted for each in case.tried):
        title = "Tried before, without success or refuted"
    yield from _titled(title)
    for each in case.tried:
        spans: list[Span] = [("", f"{each.query:>4}. ")]
        for i, swap in enumerate(each.swaps):
            spans += [("", "; ") if i else ("", ""), *_swap(swap)]
        score = None if each.score is None else f"{_score_name(case)} {decimal(each.score)}"
        answer = None if case.is_pair else f"answer {each.answer or 'none'}"
        refuted = "a success that was refuted" if each.is_refuted else None
        spans.append(("soft", f"  {', '.join(filter(None, (answer, score, refuted)))}"))
        yield tuple(spans)


def _attempts(case: CaseRecord) -> Iterator[Line]:
    for each in case.attempts:
        yield from _titled(
            f"Attempt {each.number}" if each.number else "Clean item, asked in turns"
        )
        yield (("", f"answer {each.answer or 'none'}"),)
        if each.confidences:
            told = ", ".join(f"{value:g}" for value in each.confidences)
            yield (("", f"stated confidences {told}"),)
        yield from ((("", f"objection: {text}"),) for text in each.objections)
        for name, text in (("plan", each.plan), ("reasoning", each.rationale)):
            if text:
                yield (("soft", f"{name}: "), ("", text))
