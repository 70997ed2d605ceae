"""What is read first: three lines, and whether one may rely on them.

Rules choose from the facts of an arm, templates say it (INTERFACE 4). Ends of intervals decide what
is said, points never do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from medstress.analyses.attempts import MANY_LOST, by_list
from medstress.analyses.facts import (
    NO_SKILL,
    VERBS,
    Facts,
    above,
    changes_nothing,
    facts_of,
    subject_of,
)
from medstress.analyses.results import RESULTS, Row
from medstress.analyses.run import Analysis, Run
from medstress.analyses.scores import is_nothing
from medstress.analyses.shown import (
    HIDDEN,
    PAIRS,
    QUESTIONS,
    Shown,
    attack_names,
    capital,
    decimal,
    model_names,
    noun_of,
)
from medstress.analyses.success import UNSEEN
from medstress.core.outcomes import Verdict as Ended
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
    behind: Mapping[str, str] | None = field(default=None, metadata=HIDDEN)
    """Whose cases are behind the first line: the control's where harmless edits come first."""

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def others(self) -> list[OfModel]:
        """The models that the lines do not speak of."""
        return [one for one in self.models if one.arm is None or one.arm != self.arm]


MOST_OTHERS = 4
"""Other models of which terminal and page speak first; the rest take `--wide`, or a click."""
KNEW = "{model} {verb} {right} of {met}"
FELL = "{Subject} falls from {before} to {after} under {attack} ({size})"
HEADLINE = "harmless first"
NOISE_FIRST, NOISE_WORSE = "noise outside entities first", "noise outside entities worse"
FIRST: Mapping[str, str] = {
    "clean": KNEW + " ({low} to {high}).",
    "score same": "{Subject} stays at {before} under {attack} ({size}).",
    "score up": "{Subject} rises from {before} to {after} under {attack} ({size}).",
    "score may be chance": FELL + "; the drop may be chance.",
    NOISE_FIRST: "{Subject} falls by {cost} under the same noise outside entities.",
    "score": FELL + ".",
    "judge objected": KNEW + ". The judge objected to every edit ({objected} of {objected}), so "
    "nothing is known of them.",
    "never shown": KNEW + ". {Attack} showed it no edit, so nothing is known of them.",
    "hardly shown, some lost": KNEW + ". {Attack} showed it an edit in {seen} of them and made it "
    "{lose} {lost}; nothing is known of the others.",
    "hardly shown": KNEW + ". {Attack} showed it an edit in {seen} of them, so nothing is known of "
    "the others.",
    "mute": KNEW + ". Under {attack} {all_unread}, so up to {right} may be lost.",
    HEADLINE: "{Controls} alone make {model} lose {harmless} ({harmless_range}) of the "
    "{right_nouns} it {verb}.",
    "guessing": KNEW + ", no more than guessing gives. Under {attack} it lost {lost} of them.",
    "may guess": KNEW + ", which guessing may give too. Under {attack} it lost {lost} of them.",
    "none lost": KNEW + ". Under {attack} it {lost_of} none (at most {high}{worst}).",
    "lost": KNEW + ". Under {attack} it {lost_of} {lost} of them ({low} to {high}{worst}).",
}
"""Rule -> the first line; the first rule that holds says it."""
SECOND: Mapping[str, str] = {
    "clean": "All texts were left as they are.",
    "score more": "The same noise outside entities costs {cost}: {score_low} to {score_high} more "
    "is lost where entities are hit.",
    "score, none either": "The same noise outside entities costs nothing either.",
    "score, too few": "The same noise outside entities costs {cost}; too few {few_nouns} ({few_n}) "
    "to say how much more is lost where entities are hit.",
    NOISE_WORSE: "Under {attack} it falls from {before} to {after} ({size}), which is less.",
    NOISE_FIRST: "Under {attack} it falls from {before} to {after} ({size}); the difference may be "
    "chance.",
    "score less": "The same noise outside entities costs {cost}, more than where entities are hit.",
    "score as much": "The same noise outside entities costs {cost}; the difference may be chance.",
    "awaited": "Harmless edits have not been tried yet.",
    "is harmless": "Nothing but {attack} was tried.",
    "apart": "No control of {attack} was tried; tried alone, {apart} {apart_lost}.",
    "nothing beside it": "Harmless edits were tried, and nothing of the attack compares with them.",
    "pairs": "No harmless edits were tried.",
    "no control fits it": "No control fits {attack}.",
    "not tried": "No harmless edits were tried; --set experiment.controls=true adds them.",
    "attack none": "Under {attack} it lost none (at most {high}{worst}): no more than under "
    "{controls}.",
    "attack no more": "Under {attack} it lost {lost} ({low} to {high}{worst}): no more than under "
    "{controls}.",
    "attack may be chance": "Under {attack} it lost {lost} ({low} to {high}{worst}); the "
    "difference may be chance.",
    "harmless hardly shown": "{Controls} were shown in only {harmless_shown} of the {right}, so "
    "what they lose is unknown.",
    "harmless mute": "Under {controls} no answer could be read in {harmless_mute} of the {right}.",
    "harmless open": "Under {controls} answers to {harmless_open} of the {right} failed or could "
    "not be read.",
    "plain": "{Controls} lose {harmless}.",
    "none either": "{Controls} lose none either.",
    "none, may be chance": "{Controls} lose none; the difference may be chance.",
    "some, may be chance": "{Controls} alone lose {harmless}; the difference may be chance.",
    "more": "{Controls} alone lose {harmless}. Under {attack} it lost {net_range} more, of {right} "
    "{nouns}.",
}
REASONS: Mapping[str, str] = {
    "mute": "{mute} of {right} {unread} under attack",
    "answers open": "under attack, answers to {open_attack} of {right} failed or could not be read",
    "unseen": "{unseen} of {right_nouns} {were} never attacked",
    "attempts lost": "{n_lost_attempts} of {n_attempts} attempts never reached the model",
    "noisy": "this model changes its answer whenever the text changes",
    "all changed": "every answer changed, whatever the edit",
    "takes less": "more is lost under {controls} than under {attack}",
    "takes as much": "{controls} may lose as many",
    "not valid": "of the {lost} lost, people find {valid} where the right answer is still right",
    "guesses": "the model may be guessing ({needed} of {met_n} would show that it does not)",
    "guesses all": "so many right answers have one letter that guessing may give {met_n} of "
    "{met_n}",
    "open": "{open} of {met_n} {open_have} no readable answer before any edit",
    "tied": "the model gives its best score to several options",
    "noise as much": "the same noise outside entities may cost as much",
    "noise more": "the same noise outside entities costs more",
    "control mute": "under {controls} {harmless_mute} of {right} have no readable answer",
    "control open": "under {controls} answers to {harmless_open} of {right} failed or could not be "
    "read",
    "apart": "{apart}, tried alone, may {lose} as {much}",
    "no control": "no harmless edits were tried, and they may {lose} as {much}",
    "no control fits": "no control fits {attack}, and harmless edits may {lose} as {much}",
    "pairs": "no control fits pairs, and harmless edits may move scores as much",
    "control unseen": "harmless edits may {lose} as many",
    "no skill": "{subject} is {before} before any edit",
    "no score": "{undefined}",
    "few": "only {few}",
}
"""Why one may not rely on the lines; all that hold are given."""


def _first(f: Facts) -> str:
    """Return the rule of the first line."""
    is_score, loses = f.score is not None, bool(f.taken.value)
    holds = {
        "clean": f.is_clean,
        "score same": is_score and f.words["before"] == f.words["after"],
        "score up": is_score and (f.taken.value or 0.0) < 0,
        "score may be chance": is_score and f.may_be_chance,
        NOISE_FIRST: f.is_noise_first,
        "score": is_score,
        "judge objected": f.unseen >= 1 and f.gated.always_objected,
        "never shown": f.unseen >= 1,
        "hardly shown, some lost": f.unseen > UNSEEN and loses,
        "hardly shown": f.unseen > UNSEEN,
        "mute": f.mute >= 1,
        HEADLINE: f.is_harmless_first,
        "guessing": f.may_guess and f.is_at_chance,
        "may guess": f.may_guess,
        "none lost": not loses,
        "lost": True,
    }
    return next(name for name, is_so in holds.items() if is_so)


def _second(f: Facts) -> str:
    """Return the rule of the second line."""
    has_net, loses = f.score is not None and f.net is not None, bool(f.taken.value)
    holds = {
        "clean": f.is_clean,
        "score more": has_net and f.net is not None and above(f.net),
        "score, none either": has_net and is_nothing(f.taken) and is_nothing(f.net),
        "score, too few": has_net and f.net is not None and f.net.low is None and bool(f.few),
        NOISE_WORSE: f.is_noise_first and f.is_noise_worse,
        NOISE_FIRST: f.is_noise_first,
        "score less": f.is_noise_worse,
        "score as much": has_net,
        "awaited": f.is_awaited,
        "is harmless": f.harmless is None and f.is_harmless,
        "apart": f.harmless is None and f.apart is not None,
        "nothing beside it": f.harmless is None and f.has_control,
        "pairs": f.harmless is None and f.noun is PAIRS,
        "no control fits it": f.harmless is None and f.fits_none,
        "not tried": f.harmless is None,
        "attack none": f.is_harmless_first and not loses,
        "attack no more": f.is_harmless_first and f.takes_no_more,
        "attack may be chance": f.is_harmless_first,
        "harmless hardly shown": f.harmless_unseen > UNSEEN,
        "harmless mute": f.harmless_mute > UNSEEN,
        "harmless open": f.harmless_open > UNSEEN,
        "plain": not f.is_judged,
        "none either": not loses and f.takes_no_harm,
        "none, may be chance": f.may_be_chance and f.takes_no_harm,
        "some, may be chance": f.may_be_chance,
        "more": True,
    }
    return next(name for name, is_so in holds.items() if is_so)


def _reasons(f: Facts) -> list[str]:
    """Return the rules of reasons that hold."""
    is_first, is_noisy, takes_less = f.is_harmless_first, f.is_noisy, f.takes_less
    lacks = f.lacks_control and (f.harmless is None or f.control == "repeat")
    untried, is_pairs = lacks and f.apart is None, f.noun is PAIRS
    holds = {
        "mute": f.mute > UNSEEN,
        "answers open": f.open > UNSEEN and f.mute <= UNSEEN,
        "unseen": f.unseen > UNSEEN,
        "attempts lost": f.unseen <= UNSEEN and f.attempts[0] > MANY_LOST * f.attempts[1],
        "noisy": is_first and is_noisy and not takes_less,
        "all changed": is_first and f.is_all_changed and not is_noisy,
        "takes less": is_first and takes_less,
        "takes as much": is_first and not (is_noisy or f.is_all_changed or takes_less),
        "not valid": f.score is None and f.valid is not None,
        "guesses": f.may_guess and not f.cannot_tell,
        "guesses all": f.may_guess and f.cannot_tell,
        "open": f.open_clean > UNSEEN,
        "tied": f.row.counts.is_tied,
        "noise as much": f.is_noise_first and not f.is_noise_worse,
        "noise more": f.is_noise_worse,
        "control mute": f.harmless_mute > UNSEEN,
        "control open": f.harmless_open > UNSEEN and f.harmless_mute <= UNSEEN,
        "apart": lacks and f.apart is not None,
        "no control": untried and not f.fits_none and not is_pairs,
        "no control fits": untried and f.fits_none and not is_pairs,
        "pairs": untried and is_pairs and not f.few,
        "control unseen": f.lacks_control and not lacks,
        "no skill": f.score is not None and (f.score.before.value or 0.0) < NO_SKILL,
        "no score": bool(f.undefined),
        "few": f.few is not None,
    }
    return [name for name, is_so in holds.items() if is_so]


CUT_PROMPTS = "the server reads {tokens:,} tokens of a prompt and cuts the rest"
HARM_ELSEWHERE = "{controls} alone lose {harmless} of {right_nouns}"
HARM_OF_OTHER = "{attack}: " + HARM_ELSEWHERE
UNREAD_ELSEWHERE = "{attack}: {mute} of {right_nouns} {unread}"
UNSEEN_ELSEWHERE = "{attack}: {unseen} of {right_nouns} {were} never attacked"
LACKS_ELSEWHERE = "harmless edits may {lose} as {much} as {attack}{of}"
NEVER = "{attack} never changed a text{place}"
ALL_FAILED = "every trial of {attack}{place} failed"
UNDEFINED_ELSEWHERE = "{attack}: {word} after the edits is {why}"
SAME_TYPE = " Random names of the same type lose {same_type}."
ALSO, MORE = " Also {lost}: {parts}.", "{n} more"
OTHER, OTHER_SCORE = (
    "{lost} of {right_nouns} ({attack})",
    "{subject} from {before} to {after} ({attack})",
)
INCOMPLETE = "only {done:,} of {planned:,} planned trials have ended"
NOT_COMPLETE = "the run is not complete"
NOT_MEASURED = "nothing was measured of {models}"
NOTHING: Mapping[str, str] = {
    "no trial": "No trial has ended yet.",
    "no attack": "No trial of an attack has ended yet.",
    "not attackable": "0 of {all} could be attacked.",
    "failed": "Every call of {model} failed.",
    "late": "No answer of {model} came before the time of its trial ended (trial_seconds).",
    "unread": "Not one answer of {model} could be read.",
    "wrong": "{model} {verb} none of the {met}, so it had nothing to lose.",
    "wrong so far": "No question that {model} {verb} has ended yet.",
    "undefined": "{Subject} is undefined: {why}.",
    "undefined after": "{Subject} is {before} before any edit and undefined under {attacks}: "
    "{why}.",
    "nothing": "Nothing was measured of {model}.",
}
"""The first line where no arm has a result."""
NOTHING_ATTACKED, NOTHING_MEASURED = "Nothing was attacked.", "nothing was measured"
NO_SCORE = {
    "undefined": "there is no score before any edit",
    "undefined after": "there is no score after the edits",
}
NOTHING_KNOWN = "So no number says what attacks take."
RELY, DO_NOT = "You can rely on this.", "Do not rely on this: {reasons}."
BY_LIST = " No judge looked at the edits: {what}."
RELY_FOR = "You can rely on this for {model}, not for {others}."
DO_NOT_RATE = "Do not rely on the attack's rate: {reasons}."
TOO_FEW = "Too few {few_nouns} to rely on this: {few_n}."


def verdict_of(run: Run, rows: Sequence[Row]) -> Verdict:
    """Return the verdict on the rows of attacks: on the arm that takes most beyond harmless edits,
    of the run and of each model."""
    first = _conclude(run, rows, rows)
    victims = list(dict.fromkeys([*run.manifest["victims"], *(row.key.victim for row in rows)]))
    if len(victims) < 2 or not rows:
        return first
    models = [
        (victim, _conclude(run, [row for row in rows if row.key.victim == victim], rows, victim))
        for victim in victims
    ]
    unmeasured = [victim for victim, own in models if own.arm is None]
    called = model_names(victims)
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


def _of_run(run: Run) -> Verdict:
    results = run.of(RESULTS)
    return verdict_of(run, results.attacks if results else [])


VERDICT = Analysis("verdict", _of_run)


def _conclude(
    run: Run, rows: Sequence[Row], every: Sequence[Row], victim: str | None = None
) -> Verdict:
    """Return the lines on some rows: those of the whole run, or of one model."""
    facts = list(facts_of(run, rows, every))
    if not facts:
        return _nothing(run, rows, victim)
    # Drops of a score and counts of answers cannot be compared: a score goes first. A drop on few
    # texts may be the largest there is, and says least.
    scored = [f for f in facts if f.score is not None]
    most = max((f.n_right for f in scored), default=0)
    worst = max(
        [f for f in scored if 2 * f.n_right >= most] or facts,
        key=lambda f: f.rank,
    )
    own = [f for f in facts if f.model == worst.model and f is not worst]
    rules = _first(worst), _second(worst)
    first, second = (text.format(**worst.words) for text in (FIRST[rules[0]], SECOND[rules[1]]))
    trust = _trust(run, worst, own, rows)
    own_control = worst.control_cell
    is_by_list = worst.taken.value and worst.gated.n_listed and not worst.gated.n_judged
    return Verdict(
        lines=[
            first + _elsewhere(worst, own),
            second + (SAME_TYPE.format(**worst.words) if worst.words["same_type"] else ""),
            _third(trust, rules[0], worst)
            + (BY_LIST.format(what=by_list(worst.row.cell.attack)) if is_by_list else ""),
        ],
        arm=worst.row.cell.labels,
        trust=trust,
        rules=[*rules, trust.level],
        behind=(own_control if rules[0] == HEADLINE and own_control else worst.row.cell).labels,
    )


def _elsewhere(worst: Facts, facts: Sequence[Facts]) -> str:
    """Say what the worst arms take in other places, and counts next to a score."""
    others = [f for f in _worst_elsewhere(worst, facts) if f.taken.value and not f.is_clean]
    parts = [(OTHER if f.score is None else OTHER_SCORE).format(**f.words) for f in others]
    if len(parts) > ELSEWHERE:
        parts[ELSEWHERE:] = [MORE.format(n=len(parts) - ELSEWHERE)]
    lost = "changed" if worst.noun is PAIRS else "lost"
    return ALSO.format(lost=lost, parts="; ".join(parts)) if parts else ""


def _worst_elsewhere(worst: Facts, facts: Sequence[Facts]) -> list[Facts]:
    """Return the worst arm of every other place and kind of count, the worst first."""
    kinds: dict[tuple[str, str, bool], Facts] = {}
    for f in (*sorted(facts, key=lambda f: f.rank), worst):
        kinds[f.row.key.dataset, f.row.key.group, f.score is None] = f
    others = (f for f in kinds.values() if f is not worst)
    return sorted(others, key=lambda f: f.rank, reverse=True)


def _trust(run: Run, facts: Facts, rest: Sequence[Facts], rows: Sequence[Row]) -> Trust:
    def reasons() -> Iterator[tuple[Level, str]]:
        for text in _unfinished(run):
            yield "no", text
        for rule in _reasons(facts):
            yield "too few" if rule == "few" else "no", REASONS[rule].format(**facts.words)
        for endpoint in run.manifest.get("endpoints") or ():
            if endpoint["victim"] == facts.row.key.victim and endpoint.get("reads_at_most"):
                yield "no", CUT_PROMPTS.format(tokens=endpoint["reads_at_most"])
        if not facts.is_harmless_first:
            for other in _worst_elsewhere(facts, rest):
                if other.is_harmless_first:
                    yield "no", HARM_ELSEWHERE.format(**other.words)
                if other.lacks_control and not facts.lacks_control:
                    yield "no", LACKS_ELSEWHERE.format(**other.words)
        for other in rest:
            if not facts.is_harmless_first and _harm_as_much(other, facts):
                yield "no", HARM_OF_OTHER.format(**other.words)
            if other.mute > UNSEEN:
                yield "no", UNREAD_ELSEWHERE.format(**other.words)
            if other.unseen > UNSEEN:
                yield "no", UNSEEN_ELSEWHERE.format(**other.words)
        attacks = attack_names(cell.attack for cell in run.attacks)
        own = [row for row in rows if row.key.victim == facts.row.key.victim]
        for row in own:
            if (of := row.scores) and of.has_copy and of.main.before.value is not None:
                word, after = of.scoring.words[of.scoring.main], of.main.after
                if after.value is None:
                    is_here = row.key.dataset == facts.row.key.dataset
                    name = attacks[row.key.attack] + f" of {row.key.dataset}" * (not is_here)
                    yield "no", UNDEFINED_ELSEWHERE.format(attack=name, word=word, why=after.method)
            changes = not row.cell.attack.asks_clean_only and not changes_nothing(row.cell)
            if row.counts.share_unseen < 1 or row is facts.row or not changes:
                continue
            # It may have changed texts in other places.
            is_alone = all(
                one.counts.share_unseen == 1 for one in own if one.key.attack == row.key.attack
            )
            place = "" if is_alone else f" of {row.key.dataset}, {row.key.group}"
            n = row.counts
            text = NEVER if n.n_failed + n.n_cut_short < n.n_eligible else ALL_FAILED
            yield "no", text.format(attack=attacks[row.key.attack], place=place)

    held = {text: level for level, text in reasons()}
    level: Level = "no" if "no" in held.values() else "too few" if held else "yes"
    return Trust(level=level, reasons=list(held))


def _harm_as_much(other: Facts, facts: Facts) -> bool:
    """Return whether harmless edits of another arm in the place surely take as much as the arm of
    the lines."""
    if other.harmless is None or facts.score is not None:
        return False
    low, high = other.harmless.ends[0], facts.taken.ends[1]
    is_same = other.row.cell.place == facts.row.cell.place
    return is_same and low is not None and high is not None and low >= high


def _unfinished(run: Run) -> Iterator[str]:
    if not run.is_complete:
        done, planned = len(run.trials), int(run.manifest["n_planned"])
        yield (INCOMPLETE if done < planned else NOT_COMPLETE).format(done=done, planned=planned)


def _third(trust: Trust, first_rule: str, facts: Facts | None = None) -> str:
    if trust.level == "yes":
        return RELY
    if trust.level == "too few" and facts is not None:
        return TOO_FEW.format(**facts.words)
    text = DO_NOT_RATE if first_rule == HEADLINE else DO_NOT
    return text.format(reasons="; ".join(trust.reasons[:SHOWN]))


def _nothing(run: Run, rows: Sequence[Row], victim: str | None) -> Verdict:
    """Say why nothing was measured."""
    trials = [trial for row in rows for trial in row.cell.trials]
    attackable = [t for t in trials if t.is_answered or t.is_open_clean]
    counts = {
        "failed": sum(row.counts.n_failed_at_baseline for row in rows),
        "unread": sum(row.counts.n_unreadable_at_baseline for row in rows),
    }
    undefined = [row for row in rows if (of := row.scores) and of.has_copy]
    undefined = [row for row in undefined if row.scores and row.scores.main.drop.value is None]
    one = undefined[0].scores if undefined else None
    if not trials:
        ended = any(victim in (None, trial.arm.place.victim) for trial in run.trials)
        rule = "no attack" if ended else "no trial"
    elif not attackable:
        rule = "not attackable"
    elif len(attackable) in counts.values():
        rule = next(name for name, n in counts.items() if n == len(attackable))
        if rule == "failed" and any(t.verdict is Ended.CUT_SHORT for t in attackable):
            rule = "late"
    elif any(row.counts.n_already_wrong for row in rows):
        # Those that are wrong before any edit end first.
        rule = "wrong" if run.is_complete else "wrong so far"
    else:
        rule = "nothing" if one is None else "undefined"
        rule = rule if one is None or one.main.before.value is None else "undefined after"
    noun = noun_of(trials[0]) if trials else QUESTIONS
    n_all, n_met = _distinct(trials), _distinct(attackable)
    called = model_names(dict.fromkeys([victim] if victim else [r.key.victim for r in rows]))
    model = listed(list(called.values())) if called else "the model"
    attacks = attack_names(cell.attack for cell in run.attacks)
    under = list(dict.fromkeys(attacks[row.key.attack] for row in undefined))
    first = NOTHING[rule].format(
        model=model,
        verb=VERBS.get(noun, "knew"),
        all=noun.count(n_all),
        met=noun.count(n_met)
        + ("" if n_met == n_all else f" that could be attacked ({n_all:,} given)"),
        Subject=capital(subject_of(one, model)) if one else "",
        before=decimal(one.main.before.value, 2) if one else "",
        attacks=listed(under) if under else "",
        why=one.main.drop.method.removeprefix("undefined: ") if one else "",
    )
    second = NOTHING_KNOWN if rule in NO_SCORE else NOTHING_ATTACKED
    why = NO_SCORE.get(rule, NOTHING_MEASURED)
    trust = Trust(level="no", reasons=[*_unfinished(run), why])
    return Verdict(
        lines=[first, second, _third(trust, rule)],
        arm=None,
        trust=trust,
        rules=[rule, "clean", "no"],
    )


def _distinct(trials: Sequence[Trial]) -> int:
    return len({(t.arm.place.dataset, t.item.id, t.unit) for t in trials})
