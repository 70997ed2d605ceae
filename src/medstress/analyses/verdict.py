"""What is read first: three lines, and whether one may rely on them.

Rules choose from the facts of an arm, templates say it (INTERFACE 4). Ends of intervals decide what
is said, points never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from medstress.analyses import names
from medstress.analyses.as_json import HIDDEN
from medstress.analyses.attempts import LISTED
from medstress.analyses.facts import VERBS, Facts, above, facts_of
from medstress.analyses.results import RESULTS, Row
from medstress.analyses.run import Run
from medstress.analyses.shown import Shown
from medstress.analyses.success import UNSEEN
from medstress.core.trials import Trial
from medstress.core.words import listed

Level: TypeAlias = Literal["yes", "no", "too few"]
SHOWN = 3
"""Reasons that the third line gives; `trust.reasons` has all."""
ELSEWHERE = 3
"""Results elsewhere that the first line gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whether one may rely on the lines, and why not."""

    level: Level
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfModel:
    """The lines of one model of several."""

    model: str
    lines: Sequence[str]
    arm: Mapping[str, str] | None
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Shown):
    """The first lines of terminal, page and Markdown, those of the model that loses most."""

    lines: Sequence[str]
    arm: Mapping[str, str] | None
    """Data set, group, victim and attack of the lines; None where nothing is measured."""
    trust: Trust
    models: Sequence[OfModel] = ()
    """Of a run with several models, the one that loses most first."""
    rules: Sequence[str] = field(metadata=HIDDEN)
    """Which rule chose each line."""


class VerdictOfRun:
    """What was lost, what harmless edits take, and whether to rely on it."""

    name = "verdict"

    def compute(self, run: Run) -> Verdict:
        """Choose the arm that takes most beyond harmless edits, of the run and of each model."""
        results = run.of(RESULTS)
        return verdict_of(run, results.attacks if results else [])


VERDICT = VerdictOfRun()


class Rule(NamedTuple):
    """A template, and when it holds; the first rule that holds says the line."""

    name: str
    holds: Callable[[Facts], bool]
    text: str


class Reason(NamedTuple):
    """Why one may not rely on the lines; all that hold are given."""

    level: Level
    holds: Callable[[Facts], bool]
    text: str


KNEW = "{model} {verb} {right} of {met}"
FELL = "{subject} falls from {before} to {after} under {attack} ({size})"
HEADLINE = "harmless first"
_is_score: Callable[[Facts], bool] = lambda f: f.score is not None  # noqa: E731

FIRST: Sequence[Rule] = (
    Rule("clean", lambda f: f.is_clean, KNEW + " ({low} to {high})."),
    Rule(
        "score same",
        lambda f: _is_score(f) and f.words["before"] == f.words["after"],
        "{subject} stays at {before} under {attack} ({size}).",
    ),
    Rule(
        "score up",
        lambda f: _is_score(f) and (f.taken.value or 0.0) < 0,
        "{subject} rises from {before} to {after} under {attack} ({size}).",
    ),
    Rule(
        "score may be chance",
        lambda f: _is_score(f) and f.may_be_chance,
        FELL + "; the drop may be chance.",
    ),
    Rule("score", _is_score, FELL + "."),
    Rule(
        "judge objected",
        lambda f: f.unseen >= 1 and f.gated.always_objected,
        KNEW + ". The judge objected to every edit ({objected} of {objected}), so nothing is known "
        "of them.",
    ),
    Rule(
        "never shown",
        lambda f: f.unseen >= 1,
        KNEW + ". {Attack} showed it no edit, so nothing is known of them.",
    ),
    Rule(
        "hardly shown, some lost",
        lambda f: f.unseen > UNSEEN and bool(f.taken.value),
        KNEW + ". {Attack} showed it an edit in {seen} of them and made it lose {lost}; nothing is "
        "known of the others.",
    ),
    Rule(
        "hardly shown",
        lambda f: f.unseen > UNSEEN,
        KNEW + ". {Attack} showed it an edit in {seen} of them, so nothing is known of the others.",
    ),
    Rule(
        "mute",
        lambda f: f.mute >= 1,
        KNEW + ". Under {attack} {all_unread}, so up to {right} may be lost.",
    ),
    Rule(
        HEADLINE,
        lambda f: f.is_harmless_first,
        "{Controls} alone make {model} lose {harmless} ({harmless_range}) of the {right_nouns} it "
        "{verb}.",
    ),
    Rule(
        "guessing",
        lambda f: f.may_guess and f.is_at_chance,
        KNEW + ", no more than guessing gives. Under {attack} it lost {lost} of them.",
    ),
    Rule(
        "may guess",
        lambda f: f.may_guess,
        KNEW + ", which guessing may give too. Under {attack} it lost {lost} of them.",
    ),
    Rule(
        "none lost",
        lambda f: not f.taken.value,
        KNEW + ". Under {attack} it lost none (at most {most}{worst}).",
    ),
    Rule(
        "lost",
        lambda f: True,
        KNEW + ". Under {attack} it lost {lost} of them ({low} to {high}{worst}).",
    ),
)
SECOND: Sequence[Rule] = (
    Rule("clean", lambda f: f.is_clean, "Nothing was attacked."),
    Rule(
        "score more",
        lambda f: _is_score(f) and f.net is not None and above(f.net),
        "The same noise outside entities costs {cost}: {score_low} to {score_high} more is lost "
        "where entities are hit.",
    ),
    Rule(
        "score, too few",
        lambda f: _is_score(f) and f.net is not None and f.net.low is None and f.few is not None,
        "The same noise outside entities costs {cost}; too few {few_nouns} ({few_n}) to say how "
        "much more is lost where entities are hit.",
    ),
    Rule(
        "score as much",
        lambda f: _is_score(f) and f.net is not None,
        "The same noise outside entities costs {cost}; that more is lost where entities are hit "
        "may be chance.",
    ),
    Rule("awaited", lambda f: f.is_awaited, "Harmless edits have not been tried yet."),
    Rule("not tried", lambda f: f.harmless is None, "No harmless edits were tried."),
    Rule(
        "attack none",
        lambda f: f.is_harmless_first and not f.taken.value,
        "Under {attack} it lost none (at most {most}{worst}): no more than under {controls}.",
    ),
    Rule(
        "attack no more",
        lambda f: f.is_harmless_first and f.takes_no_more,
        "Under {attack} it lost {lost} ({low} to {high}{worst}): no more than under {controls}.",
    ),
    Rule(
        "attack may be chance",
        lambda f: f.is_harmless_first,
        "Under {attack} it lost {lost} ({low} to {high}{worst}); the difference may be chance.",
    ),
    Rule(
        "harmless hardly shown",
        lambda f: f.harmless_unseen > UNSEEN,
        "{Controls} were shown in {harmless_shown} of the {right}, so nothing is known of them.",
    ),
    Rule(
        "harmless mute",
        lambda f: f.harmless_mute > UNSEEN,
        "Under {controls} no answer could be read in {harmless_mute} of the {right}.",
    ),
    Rule("plain", lambda f: not f.is_judged, "{Controls} lose {harmless}."),
    Rule(
        "none either",
        lambda f: not f.taken.value and f.takes_no_harm,
        "{Controls} lose none either.",
    ),
    Rule(
        "none, may be chance",
        lambda f: f.may_be_chance and f.takes_no_harm,
        "{Controls} lose none; the difference may be chance.",
    ),
    Rule(
        "some, may be chance",
        lambda f: f.may_be_chance,
        "{Controls} alone lose {harmless}; the difference may be chance.",
    ),
    Rule(
        "more",
        lambda f: True,
        "{Controls} alone lose {harmless}. Under {attack} it lost more: {net_range} {nouns} of "
        "{right}.",
    ),
)
REASONS: Sequence[Reason] = (
    Reason("no", lambda f: f.mute > UNSEEN, "{mute} of {right} {unread} under attack"),
    Reason("no", lambda f: f.unseen > UNSEEN, "{unseen} of {right_nouns} {were} never attacked"),
    Reason(
        "no",
        lambda f: f.is_harmless_first and f.is_noisy and not f.takes_less,
        "this model changes its answer whenever the text changes",
    ),
    Reason(
        "no",
        lambda f: f.is_harmless_first and f.is_all_changed and not f.is_noisy,
        "every answer changed, whatever the edit",
    ),
    Reason(
        "no",
        lambda f: f.is_harmless_first and f.takes_less,
        "more is lost under {controls} than under {attack}",
    ),
    Reason(
        "no",
        lambda f: f.is_harmless_first and not (f.is_noisy or f.is_all_changed or f.takes_less),
        "{controls} may lose as many",
    ),
    Reason(
        "no",
        lambda f: f.may_guess,
        "the model may be guessing ({needed} of {met_n} would show that it does not)",
    ),
    Reason(
        "no",
        lambda f: f.open_clean > UNSEEN,
        "{open} of {met_n} {open_have} no readable answer before any edit",
    ),
    Reason(
        "no", lambda f: f.row.counts.is_tied, "the model gives its best score to several options"
    ),
    Reason(
        "no",
        lambda f: f.lacks_control and f.harmless is None,
        "no harmless edits were tried, and they may lose as {much}",
    ),
    Reason(
        "no",
        lambda f: f.lacks_control and f.harmless is not None,
        "harmless edits may lose as many",
    ),
    Reason("too few", lambda f: f.few is not None, "only {few}"),
)
CUT_PROMPTS = "the server reads {tokens:,} tokens of a prompt and cuts the rest"
UNREAD_ELSEWHERE = "{attack}: {mute} of {right} {unread}"
SAME_TYPE = " Random names of the same type lose {same_type}."
ALSO, MORE = " Also lost: {parts}.", "{n} more"
OTHER, OTHER_SCORE = (
    "{lost} of {right_nouns} ({attack})",
    "{subject} from {before} to {after} ({attack})",
)
INCOMPLETE = "only {done:,} of {planned:,} planned trials have ended"
NOT_COMPLETE = "the run is not complete"
NOT_MEASURED = "nothing was measured of {models}"
NOTHING: Mapping[str, str] = {
    "no trial": "No trial has ended yet.",
    "not attackable": "0 of {all} could be attacked.",
    "failed": "Every call of {model} failed.",
    "unread": "Not one answer of {model} could be read.",
    "wrong": "{model} {verb} none of the {met}, so it had nothing to lose.",
    "undefined": "{word} of {model} is {undefined}.",
    "nothing": "Nothing was measured of {model}.",
}
"""The first line where no arm has a result."""
NOTHING_ATTACKED, NOTHING_MEASURED = "Nothing was attacked.", "nothing was measured"
NOTHING_KNOWN = "So nothing is known of what attacks take."
RELY, DO_NOT = "You can rely on this.", "Do not rely on this: {reasons}."
BY_LIST = f" No judge looked at the edits: a list of words {LISTED}"
RELY_FOR = "You can rely on this for {model}, not for {others}."
DO_NOT_RATE = "Do not rely on the attack's rate: {reasons}."
TOO_FEW = "Too few {few_nouns} to rely on this: {few_n}."


def verdict_of(run: Run, rows: Sequence[Row]) -> Verdict:
    """Return the verdict on the rows of attacks."""
    first = _conclude(run, rows, rows)
    victims = list(dict.fromkeys([*run.manifest["victims"], *(row.key.victim for row in rows)]))
    if len(victims) < 2 or not rows:
        return first
    models = [
        (victim, _conclude(run, [row for row in rows if row.key.victim == victim], rows, victim))
        for victim in victims
    ]
    unmeasured = [victim for victim, own in models if own.arm is None]
    called = names.model_names(victims)
    if unmeasured and first.arm is not None:
        missing = listed([called[victim] for victim in unmeasured])
        reasons = [*first.trust.reasons, NOT_MEASURED.format(models=missing)]
        trust = Trust(level="no", reasons=reasons)
        first = replace(first, trust=trust, lines=[*first.lines[:2], _third(trust, first.rules[0])])
    worst = first.arm["victim"] if first.arm else None
    doubtful = [victim for victim, own in models if own.trust.level != "yes"]
    if first.trust.level == "yes" and doubtful:
        others = listed([called[victim] for victim in doubtful])
        third = RELY_FOR.format(model=called[str(worst)], others=others)
        first = replace(first, lines=[*first.lines[:2], third])
    models.sort(key=lambda pair: (pair[0] != worst, pair[0] in unmeasured))
    return replace(
        first,
        models=[
            OfModel(model=victim, lines=own.lines, arm=own.arm, trust=own.trust)
            for victim, own in models
        ],
    )


def _conclude(
    run: Run, rows: Sequence[Row], every: Sequence[Row], victim: str | None = None
) -> Verdict:
    """Return the lines on some rows: those of the whole run, or of one model."""
    facts = list(facts_of(run, rows, every))
    if not facts:
        return _nothing(rows, victim)
    # Drops of a score and counts of answers cannot be compared: a score goes first. A drop on few
    # texts may be the largest there is, and says least.
    scored = [f for f in facts if f.score is not None]
    most = max((f.n_right for f in scored), default=0)
    worst = max(
        [f for f in scored if 2 * f.n_right >= most] or facts,
        key=lambda f: f.rank,
    )
    own = [f for f in facts if f.model == worst.model and f is not worst]
    rules = [next(rule for rule in rules if rule.holds(worst)) for rules in (FIRST, SECOND)]
    first, second = (rule.text.format(**worst.words) for rule in rules)
    trust = _trust(run, worst, own)
    is_by_list = worst.taken.value and worst.gated.n_listed and not worst.gated.n_judged
    return Verdict(
        lines=[
            first + _elsewhere(worst, own),
            second + (SAME_TYPE.format(**worst.words) if worst.words["same_type"] else ""),
            _third(trust, rules[0].name, worst) + (BY_LIST if is_by_list else ""),
        ],
        arm={
            name: getattr(worst.row.key, name) for name in ("dataset", "group", "victim", "attack")
        },
        trust=trust,
        rules=[*(rule.name for rule in rules), trust.level],
    )


def _elsewhere(worst: Facts, facts: Sequence[Facts]) -> str:
    """Say what the worst arms take in other places, and counts beside a score."""
    kinds: dict[tuple[str, str, bool], Facts] = {}
    for f in (*sorted(facts, key=lambda f: f.rank), worst):
        kinds[f.row.key.dataset, f.row.key.group, f.score is None] = f
    others = [f for f in kinds.values() if f is not worst and f.taken.value]
    parts = [(OTHER if f.score is None else OTHER_SCORE).format(**f.words) for f in others]
    if len(parts) > ELSEWHERE:
        parts[ELSEWHERE:] = [MORE.format(n=len(parts) - ELSEWHERE)]
    return ALSO.format(parts="; ".join(parts)) if parts else ""


def _trust(run: Run, facts: Facts, rest: Sequence[Facts]) -> Trust:
    def reasons() -> Iterator[tuple[Level, str]]:
        if not run.is_complete:
            done, planned = len(run.trials), int(run.manifest["n_planned"])
            text = INCOMPLETE if done < planned else NOT_COMPLETE
            yield "no", text.format(done=done, planned=planned)
        for level, holds, text in REASONS:
            if holds(facts):
                yield level, text.format(**facts.words)
        for endpoint in run.manifest.get("endpoints") or ():
            if endpoint["victim"] == facts.row.key.victim and endpoint.get("reads_at_most"):
                yield "no", CUT_PROMPTS.format(tokens=endpoint["reads_at_most"])
        for other in rest:
            if other.mute > UNSEEN:
                yield "no", UNREAD_ELSEWHERE.format(**other.words)

    held = {text: level for level, text in reasons()}
    level: Level = "no" if "no" in held.values() else "too few" if held else "yes"
    return Trust(level=level, reasons=list(held))


def _third(trust: Trust, first_rule: str, facts: Facts | None = None) -> str:
    if trust.level == "yes":
        return RELY
    if trust.level == "too few" and facts is not None:
        return TOO_FEW.format(**facts.words)
    text = DO_NOT_RATE if first_rule == HEADLINE else DO_NOT
    return text.format(reasons="; ".join(trust.reasons[:SHOWN]))


def _nothing(rows: Sequence[Row], victim: str | None) -> Verdict:
    """Say why nothing was measured."""
    trials = [trial for row in rows for trial in row.cell.trials]
    attackable = [t for t in trials if t.is_answered or t.is_open_clean]
    counts = {
        "failed": sum(row.counts.n_failed_at_baseline for row in rows),
        "unread": sum(row.counts.n_unreadable_at_baseline for row in rows),
    }
    undefined = [row.scores for row in rows if row.scores is not None and row.scores.has_copy]
    undefined = [scores for scores in undefined if scores.main.drop.value is None]
    if not trials:
        rule = "no trial"
    elif not attackable:
        rule = "not attackable"
    elif len(attackable) in counts.values():
        rule = next(name for name, n in counts.items() if n == len(attackable))
    elif any(row.counts.n_already_wrong for row in rows):
        rule = "wrong"
    else:
        rule = "undefined" if undefined else "nothing"
    noun = names.noun_of(trials[0]) if trials else names.QUESTIONS
    n_all, n_met = _distinct(trials), _distinct(attackable)
    called = names.model_names(dict.fromkeys([victim] if victim else [r.key.victim for r in rows]))
    first = NOTHING[rule].format(
        model=listed(list(called.values())) if called else "the model",
        verb=VERBS.get(noun, "knew"),
        all=noun.count(n_all),
        met=noun.count(n_met)
        + ("" if n_met == n_all else f" that could be attacked ({n_all:,} given)"),
        word=undefined[0].scoring.words[undefined[0].scoring.main] if undefined else "",
        undefined=undefined[0].main.drop.method if undefined else "",
    )
    second = NOTHING_KNOWN if rule == "undefined" else NOTHING_ATTACKED
    return Verdict(
        lines=[first, second, DO_NOT.format(reasons=NOTHING_MEASURED)],
        arm=None,
        trust=Trust(level="no", reasons=[NOTHING_MEASURED]),
        rules=[rule, "clean", "no"],
    )


def _distinct(trials: Sequence[Trial]) -> int:
    return len({(t.arm.place.dataset, t.item.id, t.unit) for t in trials})
