"""Cases: one trial each, with everything that a reader needs to judge it.

The page, `medstress view` and `medstress case` show the same objects.
"""

from __future__ import annotations

import html
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from medstress.analyses.run import Run
from medstress.analyses.shown import (
    FLAT,
    HIDDEN,
    Json,
    as_json,
    column,
    control_words,
    table,
)
from medstress.analyses.slices import Slicer
from medstress.analyses.summary import names_in
from medstress.analyses.verdict import VERDICT
from medstress.core.calls import Prompt
from medstress.core.calls import Score as ScoreCall
from medstress.core.errors import MedstressError, UsageError, did_you_mean
from medstress.core.outcomes import Prediction, Verdict, parse_goal
from medstress.core.sentences import TaggedText
from medstress.core.text import WHOLE, Edit
from medstress.core.trials import Answer, Trial, Validity
from medstress.core.validity import Evidence
from medstress.core.words import command
from medstress.report.text import NONE, Marked, clean, mark_changes, number, one_line
from medstress.store.codec import decode_answer, decode_edits
from medstress.store.prompts import NOT_SHOWN, Prompts, Shown, shown_of, stored_prompt
from medstress.store.reader import RunReader, read

if TYPE_CHECKING:
    from rich.console import Console

EMBEDDED = 200
"""Cases of each outcome that a page holds."""
MOST_TRIED = 12
"""Earlier edits of one case on a page; the last ones."""
_MOST_NAMED = 5
"""Cases that a message names."""
MOST_EDITS = 6
"""Edits of one query that are named."""
SHORT = 12
"""Letters of a short id."""
OUTCOMES: Mapping[str, str] = {
    "flipped": "lost",
    "mute": "no answer under attack could be read",
    "held": "held",
    "right": "right",
    "measured": "measured",
    "cut_short": "cut short",
    "failed": "failed",
    "already_wrong": "wrong from the start",
    "unreadable": "unreadable from the start",
    "not_attackable": "nothing to attack",
}
"""How a trial ended -> words, in the order of lists; `right` where nothing is attacked."""
_STILL = {True: "yes", False: "no", None: "not known"}
_REASONS = {
    "review": "says a person",
    "rule": "no rule refutes it",
    "evidence_changed": "the text no longer supports it",
}
_NOTED = ("plan", "answer", "rationale", "confidences")
Span: TypeAlias = tuple[str, str]
"""Style of rich, and text."""


def _visible(text: str) -> str:
    """Return white space in words, any other text as it is."""
    if not text.isspace():
        return text
    what, n = "line break" if "\n" in text else "space", len(text)
    return f"{n} {what}{'s' if n > 1 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """A stretch of text and what is there instead: empty for an insertion or a deletion."""

    replaced: str
    replacement: str

    def __str__(self) -> str:
        """Return it in a few words.

        >>> str(Swap(replaced=" ", replacement="  ")), str(Swap(replaced=".", replacement=""))
        ('1 space → 2 spaces', '. → (nothing)')
        """
        old, new = map(_visible, (self.replaced, self.replacement))
        return f"{old} → {new or '(nothing)'}" if old else f"+ {new}"

    @property
    def spans(self) -> list[Span]:
        """What is removed and added, with signs."""
        removed: list[Span] = [("red strike", f"[-{self.replaced}-]"), ("", " ")]
        added: Span = ("green", f"{{+{self.replacement}+}}")
        return [*removed, added] if self.replaced else [added]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A case in the list."""

    id: str
    """Short, stable, and unique in its run."""
    run: str
    outcome: str
    attack: str
    model: str
    dataset: str
    group: str
    item: str
    change: Swap | None
    """The edit of what is shown that `Trial.edit` chooses."""
    key: str
    """The right answer; of a pair the score that people gave."""
    before: str | None
    after: str | None
    """To the edit that is shown; of a case that held the last one, where it is kept."""
    score: float | None
    """P(right answer) on the clean item; of a pair its similarity."""
    validity: str
    """`yes`, `no` or `not known`: whether the right answer is still right."""
    draw: str
    """Seed and run, of which its arm has several; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """An edit that was asked about before the one that is shown."""

    query: int
    edits: tuple[Swap, ...]
    answer: str | None
    score: float | None
    is_refuted: bool
    """Whether it was a success that a rule refuted, so that the search went on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of an attacker model, and the answer to it; 0 is the clean item."""

    number: int
    plan: str | None
    inserted: tuple[str, ...]
    """What it would add."""
    objections: tuple[str, ...]
    """Gates that objected, with their reasons; why a reply could not be read."""
    answer: str | None
    reasoning: str | None
    confidences: tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Case:
    """One trial as a case."""

    line: Line = field(metadata=FLAT)
    attack_name: str = field(metadata=HIDDEN)
    """In words."""
    trial_id: str
    facts: tuple[tuple[str, str], ...]
    """What a reader is told of it, name by name; a name may come several times."""
    edits: tuple[Swap, ...]
    """The first of them."""
    text: Marked
    """As people read it, options listed; empty where it cannot be shown."""
    is_sent: bool
    """Whether that text is exactly what was sent."""
    sent: tuple[tuple[str, Marked], ...]
    """Role and text of what was sent, where it is another one."""
    continuations: tuple[str, ...]
    """Of the prompt, whose likelihood was asked for."""
    scores: tuple[tuple[str, float | None, float | None], ...]
    """Possible answer, before, after."""
    labels: tuple[tuple[str, Sequence[str], Sequence[str], Sequence[str]], ...]
    """`before` or `after`, words, right labels, given labels."""
    tried: tuple[Tried, ...]
    n_left_out: int
    """Earlier edits that `tried` leaves out."""
    attempts: tuple[Attempt, ...]

    @property
    def id(self) -> str:
        """The short id."""
        return self.line.id

    def __str__(self) -> str:
        """Return what `medstress case` prints."""
        return "\n".join("".join(text for _, text in line) for line in case_lines(self))

    def __repr__(self) -> str:
        """Name the case in one line."""
        return f"<Case {self.id}: {self.line.outcome}, item {self.line.item!r}>"

    def _repr_html_(self) -> str:
        return f'<pre style="white-space:pre-wrap">{html.escape(clean(str(self)))}</pre>'


class Cases:
    """The cases of a run: the headline's arm first, what was lost, or moved most, first."""

    def __init__(self, run: Run, name: str = "") -> None:
        """Order the trials of a run.

        Args:
            run: the run.
            name: what a page of several runs calls it; default: its own name.
        """
        self.run, self.name = run, name or run.name
        whole = [trial.id.rpartition(":")[2] for trial in run.trials]
        n_of = Counter(text[:SHORT] for text in whole)
        self._ids = {
            trial.id: text if n_of[text[:SHORT]] > 1 else text[:SHORT]
            for trial, text in zip(run.trials, whole, strict=True)
        }
        verdict = run.of(VERDICT)
        self.headline: Mapping[str, str] = (verdict.behind if verdict else None) or {}
        outcomes = {outcome: i for i, outcome in enumerate(OUTCOMES)}
        cells = {(cell.place, cell.attack.label): i for i, cell in enumerate(run.cells)}
        self._draws = {
            (cell.place, cell.attack.label): (
                len(cell.seeds) > 1,
                any(trial.repeat for trial in cell.trials),
            )
            for cell in run.cells
        }
        named = tuple(map(self.headline.get, ("dataset", "group", "victim", "attack")))
        ranks: dict[int, tuple[bool, bool, int]] = {}

        def rank(trial: Trial) -> tuple[Any, ...]:
            arm = trial.arm
            if id(arm) not in ranks:  # there are many trials of one
                label, place = arm.attack.label, arm.place
                is_headline = (place.dataset, place.group, place.victim, label) == named
                ranks[id(arm)] = (not is_headline, arm.is_control, cells[place, label])
            return (*ranks[id(arm)], outcomes[outcome_of(trial)], -_moved(trial))

        self.names = _attacks_in(run)
        self.trials: Sequence[Trial] = sorted(run.trials, key=rank)
        self.by_id = {self._ids[trial.id]: trial for trial in self.trials}

    def line(self, trial: Trial) -> Line:
        """Return a case as the list shows it."""
        place = trial.arm.place
        validity = trial.pick.validity if trial.pick else Validity()
        return Line(
            id=self._ids[trial.id],
            run=self.name,
            outcome=outcome_of(trial),
            attack=trial.arm.attack.label,
            model=place.victim,
            dataset=place.dataset,
            group=place.group,
            item=trial.item.id,
            change=_swaps(trial, [trial.edit])[0] if trial.edit else None,
            key=trial.item.key,
            before=_read(trial, trial.before),
            after=_read(trial, trial.last),
            score=_score(trial, trial.before.scores if trial.before else None),
            validity=_STILL[validity.valid],
            draw=self._draw(trial),
        )

    def _draw(self, trial: Trial) -> str:
        seeds, runs = self._draws[trial.arm.place, trial.arm.attack.label]
        words = [f"seed {trial.arm.seed}"] * seeds + [f"run {trial.repeat + 1}"] * runs
        return ", ".join(words)

    def cases(self, trials: Iterable[Trial], *, most_tried: int | None = MOST_TRIED) -> list[Case]:
        """Build cases, reading the folder once.

        Args:
            trials: of the run.
            most_tried: earlier edits of each at most; None: all.

        Raises:
            StoreError: the folder cannot be read.
        """
        return read(
            self.run.folder.path,
            lambda reader: [self._case(trial, reader, most_tried) for trial in trials],
        )

    def chosen(self) -> list[Trial]:
        """Return the trials that a page holds: the first ones of each outcome."""
        n_of: Counter[str] = Counter()
        kept = []
        for trial in self.trials:
            n_of[outcome_of(trial)] += 1
            if n_of[outcome_of(trial)] <= EMBEDDED:
                kept.append(trial)
        return kept

    def find(self, text: str) -> Trial:
        """Return the trial with this short or whole id, unique beginning of one, or item id.

        Raises:
            UsageError: none or several fit.
        """
        if text in self.by_id:
            return self.by_id[text]
        of_item = [trial for trial in self.trials if text and trial.item.id == text]
        attacks = [trial for trial in of_item if not trial.arm.is_control]
        fitting = attacks if len(attacks) == 1 else of_item
        if not fitting and text:
            whole = [(trial, trial.id.rpartition(":")[2]) for trial in self.trials]
            fitting = [t for t, end in whole if end.startswith(text) or t.id.startswith(text)]
        if len(fitting) == 1:
            return fitting[0]
        listing = f"{command('case', self.run.folder.path)} lists its cases"
        if fitting:
            named = []
            for trial in fitting[:_MOST_NAMED]:
                line, seed = self.line(trial), trial.arm.seed
                of_seed = "" if seed is None else f", seed {seed}"
                at = [line.attack, line.model, line.group, *filter(None, [_entity(trial)])]
                named.append(f"{line.id} ({', '.join(at)}{of_seed})")
            some = "; ".join(named)
            raise UsageError(
                f"case {text!r}: {len(fitting):,} trials fit; give the id of one: {some}; {listing}"
            )
        ids = [*self.by_id, *dict.fromkeys(trial.item.id for trial in self.trials)]
        hint = did_you_mean(text, ids) if text else ""
        raise UsageError(f"case {text!r}: this run has no such trial or item{hint}; {listing}")

    @cached_property
    def _prompts(self) -> Prompts:
        return Prompts(self.run.manifest)

    @cached_property
    def _slicer(self) -> Slicer | None:
        described = self.run.manifest.get("slices")
        return Slicer(described) if described else None

    @cached_property
    def _controls(self) -> Mapping[tuple[Any, ...], Sequence[Trial]]:
        controls: dict[tuple[Any, ...], list[Trial]] = defaultdict(list)
        for trial in self.run.trials:
            if trial.arm.is_control:
                controls[trial.arm.place, trial.arm.control_of, *trial.pairing].append(trial)
        return controls

    @cached_property
    def _spoken(self) -> frozenset[str]:
        return frozenset(c.attack.label for c in self.run.cells if c.attack.attempts is not None)

    def _in_turns(self, trial: Trial) -> bool:
        """Return whether it asked in conversations; a control does as its attack."""
        return (trial.arm.control_of or trial.arm.attack.label) in self._spoken

    def _controls_of(self, trial: Trial) -> Iterator[tuple[str, str]]:
        """Yield name and outcome of every control, with the trial's seed where there is one."""
        by_name: dict[str, list[Trial]] = defaultdict(list)
        key = (trial.arm.place, trial.arm.attack.label, *trial.pairing)
        for control in self._controls.get(key, ()):
            by_name[control.arm.attack.name].append(control)
        for name, own in sorted(by_name.items()):
            alike = next((one for one in own if one.arm.seed == trial.arm.seed), own[0])
            yield control_words(name), OUTCOMES[outcome_of(alike)]

    def _case(self, trial: Trial, reader: RunReader, most_tried: int | None) -> Case:
        line = self.line(trial)
        tried, n_left = self._tried(trial, reader, most_tried)
        text, is_sent, sent, continuations = self._texts(trial, reader)
        return Case(
            line=line,
            attack_name=self.names[line.attack],
            trial_id=trial.id,
            facts=tuple(self._facts(trial, line)),
            edits=_swaps(trial, trial.edits),
            text=text,
            is_sent=is_sent,
            sent=sent,
            continuations=continuations,
            scores=_scores(trial),
            labels=tuple(_labels(trial)),
            tried=tried,
            n_left_out=n_left,
            attempts=_attempts(trial),
        )

    def _facts(self, trial: Trial, line: Line) -> Iterator[tuple[str, str]]:
        """Yield what a reader is told of a case besides its place and its texts."""
        edits, pick, is_pair = trial.edits, trial.pick, _is_pair(trial)
        if entity := _entity(trial):
            yield "entity", entity
        if kind := _type(trial):
            yield "type", kind
        if edits:
            yield "changed in", edits[0].field
        if len(edits) > 1:
            yield "changes", f"{len(edits):,}, marked in the text"
        yield "score by people" if is_pair else "right answer", line.key
        if answer := arrow(line.before, line.after):
            yield "answer", answer
        if line.score is not None:
            after = _score(trial, trial.last.scores if trial.last else None)
            ends = (number(line.score, "score"), None if after is None else number(after, "score"))
            yield "similarity" if is_pair else "P(right)", arrow(*ends) or NONE
        if trial.verdict is Verdict.FLIPPED:
            reason = pick.validity.reason if pick else None
            why = f" ({_REASONS.get(reason, reason)})" if reason else ""
            yield "still right", f"{line.validity}{why}"
        yield from (("evidence", piece) for piece in _evidence(trial))
        if pick and pick.repeats is not None:
            yield "asked again", "lost again" if pick.repeats else "not lost again"
        at = f", lost at {trial.first.query:,}" if trial.first else ""
        shown = ""
        if pick and pick is not trial.first:
            shown = f"; shown is {pick.query:,}, the first that no rule refutes"
        if not trial.arm.attack.asks_clean_only:
            yield "queries", f"{trial.queries.asked:,}{at}{shown}"
        if trial.arm.seed is not None:
            yield "seed", str(trial.arm.seed)
        yield from self._controls_of(trial)
        yield from self._slicer.slices_of(trial.item, trial.arm.place) if self._slicer else ()
        if trial.note:
            yield "why it ended", trial.note
        yield "trial", trial.id

    def _texts(
        self, trial: Trial, reader: RunReader
    ) -> tuple[Marked, bool, tuple[tuple[str, Marked], ...], tuple[str, ...]]:
        """Return the text as people read it, whether it was sent so, what was sent else, and the
        continuations that were scored."""
        prompts, item, edits = self._prompts, trial.item, trial.edits
        at = (trial.arm.place.victim, trial.arm.place.dataset)
        if trial.verdict is Verdict.NOT_ATTACKABLE:
            # It was never asked.
            listing = prompts.listing(*at, item.candidate())
            return _marked(listing, listing) if listing else (), False, (), ()
        in_turns = self._in_turns(trial)
        if trial.pick is not None:
            listings = reader.result(trial.number).get("listings")
            shown = shown_of(trial, listings, prompts, reader.requests)
        else:
            before, listing = prompts.clean(*at, item)
            if in_turns or not prompts.has_form(*at):
                before = stored_prompt(reader.requests(trial.number, "baseline", 0)) or before
            after, listing_after = before, listing
            if edits:
                after, listing_after = prompts.shown(*at, item.candidate(edits))
            shown = Shown(before, after, listing, listing_after)
        text: Marked = ()
        if shown.listing_before is not None and shown.listing_before != NOT_SHOWN:
            text = _marked(shown.listing_before, shown.listing_after or shown.listing_before)
        is_sent = bool(text) and shown.before == shown.listing_before
        sent = () if is_sent else tuple(_turns(shown.before, shown.after))
        call = None if in_turns else prompts.call(*at, item.candidate(edits), 0)
        scored = call.continuations if isinstance(call, ScoreCall) else ()
        return text, is_sent, sent, tuple(map(clean, scored))

    def _tried(
        self, trial: Trial, reader: RunReader, most: int | None
    ) -> tuple[tuple[Tried, ...], int]:
        """Return the edits that were asked about before the one that is shown, and how many of
        them are left out."""
        if self._in_turns(trial) or trial.arm.attack.whole_copy:
            return (), 0
        pick, probes = trial.pick, set(reader.result(trial.number).get("probes", ()))
        answers: dict[int, tuple[str, list[Any]]] = {}
        for query, stored, body, *tokens in reader.answered_queries(trial.number):
            is_earlier = pick is None or query < pick.query
            if stored is not None and query not in probes and is_earlier:
                answers.setdefault(query, (stored, []))[1].append(decode_answer(body, *tokens))
        queries = sorted(answers)
        kept = queries if most is None else queries[-most:]
        goal = trial.arm.attack.params
        reached: Callable[[Prediction, Sequence[Edit]], bool] | None = None
        if "goal" in goal and trial.first is not None:
            reached = parse_goal(
                goal["goal"], unreadable=bool(goal.get("unreadable_is_success"))
            ).reached
        tried = []
        for query in kept:
            edits = decode_edits(answers[query][0])
            prediction = self._prediction(trial, edits, answers[query][1])
            tried.append(
                Tried(
                    query=query,
                    edits=_swaps(trial, edits),
                    answer=clean(prediction.answer) if prediction and prediction.answer else None,
                    score=_score(trial, prediction.scores) if prediction else None,
                    is_refuted=bool(prediction and reached and reached(prediction, edits)),
                )
            )
        return tuple(tried), len(queries) - len(kept)

    def _prediction(
        self, trial: Trial, edits: Sequence[Edit], answers: Sequence[Any]
    ) -> Prediction | None:
        """Return what a query's answers say; None if some are missing or cannot be read back."""
        place = trial.arm.place
        candidate = trial.item.candidate(tuple(edits))
        try:
            return self._prompts.prediction(place.victim, place.dataset, candidate, answers)
        except (MedstressError, IndexError, KeyError, TypeError, ValueError):
            return None


def _attacks_in(*runs: Run) -> dict[str, str]:
    cells = (cell for run in runs for cell in run.cells)
    clean = (cell.attack.label for cell in cells if cell.attack.asks_clean_only)
    return {**names_in(*runs), **dict.fromkeys(clean, "no attack")}


def outcome_of(trial: Trial) -> str:
    """Return a key of `OUTCOMES`; what held only because nothing could be read has its own."""
    if trial.verdict is Verdict.HELD and trial.arm.attack.asks_clean_only:
        return "right"
    is_mute = trial.verdict is Verdict.HELD and trial.queries.none_read
    return "mute" if is_mute else trial.verdict.value


def json_of(part: Case | Line) -> Json:
    """Return a case or a line as a page reads it: texts that it can hold, four decimals."""
    return _cleaned(as_json(part))


FILTERS = ("outcome", "attack", "model", "dataset", "group", "run", "validity")
"""The fields of a line by which the list is filtered."""
MOST_VALUES = 300
"""Values of one filter; a run may have thousands of groups."""


def shared(runs: Sequence[Run], lines: Sequence[Line]) -> dict[str, Json]:
    """Return what the script of a page knows besides cases: values of filters, and words."""
    names = names_in(*runs)
    data: Json = _cleaned(
        {
            "values": {
                name: Counter(getattr(line, name) for line in lines).most_common(MOST_VALUES)
                for name in FILTERS
            },
            "words": {
                "outcome": dict(OUTCOMES),
                "attack": _attacks_in(*runs),
                "model": names,
            },
        }
    )
    return dict(data)


def arrow(before: str | None, after: str | None) -> str | None:
    """Return what was before and after a change; what was, where nothing came after.

    >>> arrow("A", "B"), arrow("A", None), arrow(None, "B")
    ('A → B', 'A', '– → B')
    """
    return before if after is None else f"{before or NONE} → {after}"


def _cleaned(value: Json) -> Json:
    """Replace what a page cannot hold in every text, and round what no one reads whole."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {clean(key): _cleaned(part) for key, part in value.items()}
    return [_cleaned(part) for part in value] if isinstance(value, list | tuple) else value


def _is_pair(trial: Trial) -> bool:
    return trial.unit == WHOLE and not trial.item.choices and not _is_tagged(trial)


def text_of(trial: Trial) -> str:
    """Return the texts of a trial's item, to search in."""
    if _is_tagged(trial):
        return " ".join(trial.item.tokens)
    return "\n".join(trial.item.texts.values())


def _is_tagged(trial: Trial) -> bool:
    return bool(trial.item.kind == TaggedText.kind)


def _entity(trial: Trial) -> str:
    """Return the part of an item that a trial is about, in words; empty for the whole."""
    if trial.unit == WHOLE or not _is_tagged(trial):
        return trial.unit.replace(WHOLE, "")
    e = trial.item.entity
    return f"{' '.join(trial.item.tokens[e.start : e.end])} ({trial.unit})"


def _read(trial: Trial, answer: Answer | None) -> str | None:
    """Return an answer in a few words; the labels of a whole sentence are a table of their own."""
    if answer is None or (_is_tagged(trial) and trial.item.entity is None):
        return None
    return answer.answer


def _moved(trial: Trial) -> float:
    """Return how far the score of a pair moved."""
    if trial.verdict is not Verdict.MEASURED or trial.before is None or trial.last is None:
        return 0.0
    before, after = (_score(trial, one.scores) for one in (trial.before, trial.last))
    return 0.0 if before is None or after is None else abs(after - before)


def _score(trial: Trial, scores: Sequence[float] | None) -> float | None:
    if scores is None or _is_tagged(trial):
        return None
    return float(trial.item.right_score([float(score) for score in scores]))


def _scores(trial: Trial) -> tuple[tuple[str, float | None, float | None], ...]:
    """Return the scores of all possible answers, before and after."""
    letters = tuple(trial.item.choices)
    columns = []
    for answer in (trial.before, trial.last):
        scores = answer.scores if answer and answer.scores else ()
        columns.append([math.exp(min(float(score), 0.0)) if letters else score for score in scores])
    if not any(columns) or _is_tagged(trial):
        return ()
    before, after = ([*column, *[None] * len(letters or "1")] for column in columns)
    return tuple((label, before[i], after[i]) for i, label in enumerate(letters or ("similarity",)))


def _swaps(trial: Trial, edits: Sequence[Edit]) -> tuple[Swap, ...]:
    return tuple(
        Swap(replaced=trial.item.replaced(edit), replacement=edit.replacement)
        for edit in edits[:MOST_EDITS]
    )


def _type(trial: Trial) -> str | None:
    """Return the type of what the first edit replaces, in words."""
    from medstress.entities.groups import SEMANTIC_TYPES

    entity = getattr(trial.item, "entity", None)
    if entity is not None:
        return str(entity.type)
    for edit in trial.edits[:1]:
        for mention in trial.item.mentions:
            is_inside = mention.start <= edit.start < max(mention.end, edit.end)
            if mention.field == edit.field and is_inside and mention.type:
                semantic = SEMANTIC_TYPES.get(mention.type)
                return semantic.name if semantic else str(mention.type)
    return None


def _evidence(trial: Trial) -> Iterator[str]:
    """Yield what speaks for or against the right answer after what is shown, then after the
    first success."""
    for success in dict.fromkeys((trial.pick, trial.first)):
        if success is None:
            continue
        name = success.edits[0].replacement if success.edits else "an edit"
        of = "" if success is trial.pick else f"of the first success, {name}: "
        yield from (of + evidence_words(piece) for piece in success.validity.evidence)


def evidence_words(piece: Evidence) -> str:
    """Return one piece of evidence in words.

    >>> evidence_words(Evidence(kind="parent", source="MeSH"))
    'parent (MeSH): settles nothing'
    """
    says = {
        True: "the right answer is still right",
        False: "the right answer is not right alone",
        None: "settles nothing",
    }
    return f"{piece.kind.replace('_', ' ')} ({piece.source}): {says[piece.valid]}"


def _labels(
    trial: Trial,
) -> Iterator[tuple[str, Sequence[str], Sequence[str], Sequence[str]]]:
    """Yield the labels of a tagged text, before and after."""
    if not _is_tagged(trial):
        return
    for name, answer, edits in (("before", trial.before, ()), ("after", trial.last, trial.edits)):
        if name == "after" and not edits:
            continue
        candidate = trial.item.candidate(tuple(edits))
        # `text` of the answer is its labels joined by spaces.
        labels = (answer.text or "").split() if answer else []
        labels += ["–"] * (len(candidate.tokens) - len(labels))
        yield name, candidate.tokens, candidate.labels, labels


def _marked(before: str, after: str) -> Marked:
    return mark_changes(clean(before), clean(after))


def _turns(before: Prompt | None, after: Prompt | None) -> Iterator[tuple[str, Marked]]:
    """Yield role and text of what was sent, with its changes where the turns are alike."""
    if before is None:
        return
    sides = [
        [("prompt", side)] if isinstance(side, str) else [(t.role, t.content) for t in side or ()]
        for side in (before, after)
    ]
    is_alike = [role for role, _ in sides[0]] == [role for role, _ in sides[1]]
    for i, (role, text) in enumerate(sides[0]):
        yield role, _marked(text, sides[1][i][1] if is_alike else text)


def _attempts(trial: Trial) -> tuple[Attempt, ...]:
    """Return a trial's attempts: the attacker's notes and the model's answers, one each."""
    notes: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for record in trial.records:
        if record.get("attempt") is not None:
            notes[int(record["attempt"])].append(record)
    attempts = []
    for at, own in sorted(notes.items()):
        parsed: dict[str, Any] = {}
        objections: list[str] = []
        for note in own:
            parsed |= {key: note[key] for key in _NOTED if note.get(key) is not None}
            objections += [f"{one['gate']}: {one['reason']}" for one in note.get("objections", ())]
            if "unreadable" in note:
                objections.append(f"unreadable: {note['unreadable']}: {note['reason']}")
        stated = parsed.get("confidences")
        attempts.append(
            Attempt(
                number=at,
                plan=parsed.get("plan"),
                inserted=tuple(str(one["text"]) for note in own for one in note.get("added", ())),
                objections=tuple(objections),
                answer=parsed.get("answer"),
                reasoning=parsed.get("rationale"),
                confidences=tuple(stated) if stated else None,
            )
        )
    return tuple(attempts)


# -- on the terminal -------------------------------------------------------------------------------

_WIDTH = 16
"""Of the names of facts."""
_SIGNS = {
    "same": ("", "", ""),
    "removed": ("red strike", "[-", "-]"),
    "added": ("green", "{+", "+}"),
}
"""Changes have signs as well, so that no colour is needed."""


def print_cases(console: Console, cases: Cases) -> None:
    """Print the list of cases, the headline's arm first."""
    from medstress.report.terminal import MOST_ROWS, print_table

    left, folder = len(cases.trials) - MOST_ROWS, cases.run.folder.path
    is_attacked = not all(cell.attack.asks_clean_only for cell in cases.run.cells)
    fields = (
        column("Case", "id"),
        column("Outcome", lambda line: OUTCOMES[line.outcome]),
        column("Change", lambda line: str(line.change) if line.change else None),
        column("Answer", lambda line: arrow(line.before, line.after)),
        column("Item", "item"),
        column("Draw", lambda line: line.draw or None),
        column("Attack on model", lambda line: f"{cases.names[line.attack]} on {line.model}")
        if is_attacked
        else column("Model", "model"),
    )
    shown = table(
        "cases",
        f"{len(cases.trials):,} cases; {command('case', folder, 'ID')} shows one",
        map(cases.line, cases.trials[:MOST_ROWS]),
        fields,
        n_labels=1,
        notes=[f"{left:,} more cases: {command('view', folder)} has all."] if left > 0 else [],
    )
    print_table(console, shown)


def print_case(console: Console, case: Case) -> None:
    """Print one case; what is not plain is marked by signs and colours."""
    from rich.text import Text

    plain = console.no_color
    for line in case_lines(case):
        spans = [
            (clean(text), "" if plain and style in ("red strike", "green", "dim") else style)
            for style, text in line
        ]
        console.print(Text.assemble(*spans), overflow="fold")


def case_lines(case: Case) -> Iterator[Sequence[Span]]:
    """Yield the lines of a case; long ones are for the terminal to wrap."""
    line = case.line
    yield [("bold", f"Case {line.id}: {OUTCOMES[line.outcome]}")]
    place = f"item {line.item} of {line.dataset}, {line.group}; asked of {line.model}"
    yield [("", f"{case.attack_name}; {place}")]
    yield []
    if len(case.edits) == 1:
        yield [("", f"{'change':<{_WIDTH}}"), *case.edits[0].spans]
    for name, value in case.facts:
        yield [("", f"{name:<{_WIDTH - 1}} {one_line(value)}")]
    if case.text:
        is_edited = any(change != "same" for change, _ in case.text)
        yield from _titled("Text, [-before-] and {+after+}" if is_edited else "Text")
        yield _signed(case.text)
    if case.text and case.is_sent:
        yield [("dim", "this text was sent to the model exactly as shown")]
    for role, marked in case.sent:
        yield from _titled(f"Sent to the model ({role})")
        yield _signed(marked)
    if case.continuations:
        yield from _titled("Continuations scored after it")
        for text in case.continuations:
            yield [("", text)]
    if case.scores:
        yield from _titled("Scores")
        for name, *values in case.scores:
            yield [("", f"{name:<{_WIDTH}}{' → '.join(number(v, 'score') for v in values)}")]
    for name, tokens, gold, labels in case.labels:
        yield from _titled(f"Labels {name}: word, right label, label that was given")
        for token, right, label in zip(tokens, gold, labels, strict=False):
            if right != "O" or label != right:
                yield [("", f"{one_line(token):<{_WIDTH}}{right:<{_WIDTH}}{label}")]
    if case.tried:
        yield from _titled("Tried before")
    for one in case.tried:
        spans: list[Span] = [("", f"{one.query:>4}. ")]
        for i, swap in enumerate(one.edits):
            spans += [("", "; " if i else ""), *swap.spans]
        score = "" if one.score is None else f", {number(one.score, 'score')}"
        refuted = ", a success that was refuted" if one.is_refuted else ""
        yield [*spans, ("dim", f"  answer {one.answer or 'none'}{score}{refuted}")]
    for attempt in case.attempts:
        title = f"Attempt {attempt.number}" if attempt.number else "Clean item, asked in turns"
        yield from _titled(title)
        yield [("", f"answer {attempt.answer or 'none'}")]
        if attempt.confidences:
            yield [("", f"stated confidences {', '.join(f'{v:g}' for v in attempt.confidences)}")]
        for text in attempt.inserted:
            yield [("", f"inserted: {text}")]
        for reason in attempt.objections:
            yield [("", f"objection: {reason}")]
        for name, words in (("plan", attempt.plan), ("reasoning", attempt.reasoning)):
            if words:
                yield [("dim", f"{name}: "), ("", words)]


def _signed(parts: Marked) -> list[Span]:
    signs = ((*_SIGNS[change], text) for change, text in parts)
    return [(style, f"{start}{text}{end}") for style, start, end, text in signs]


def _titled(title: str) -> Iterator[Sequence[Span]]:
    yield []
    yield [("bold", title)]
