"""The verdict of a run in words: what attacks took, beside what a harmless change takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.unreadable import victims_unread
from medstress.results.formats import decimal, listed, plural
from medstress.results.names import CONTROL_WORDS, Names
from medstress.summary.arms import (
    SCORES,
    Arm,
    Place,
    Row,
    arms_in,
    control_in,
    is_awaited,
    is_control,
)
from medstress.summary.edit_words import edit_clause
from medstress.summary.headlines import NO_CONTROL, primary

NO_VALIDITY = "no validity was measured"
NEAR_CHANCE = "near chance"
MOST_VICTIMS = 4
"""Victims that have a line each; of more the range is said."""
_SCORE_WORDS = {"f1": "F1", "pearson": "the correlation", "macro_f1": "macro F1"}
_VOUCHERS = {"review": "reviewers", "panel": "a panel of models", "checker": "a measured checker"}
_SAME_MEANING = "the texts still mean the same"
_NOTHING = "No trial has ended yet, so nothing is measured."


def verdict_of(
    found: Mapping[str, Any], manifest: Mapping[str, Any], guesses: Callable[[Place], bool]
) -> dict[str, Any]:
    """Return the first sentences of a summary, and the numbers that stand in them.

    Args:
        found: the summary so far: `experiment`, `results`, `pooled`, `names`.
        manifest: the run's manifest.
        guesses: whether a victim's clean answers about a data set and group are not above chance.

    Returns:
        `sentence`: the arm that takes most, with interval, control and warnings; `others`: a
        sentence for each further victim; `caveats`: what the numbers do not say; `primary`: on
        the primary endpoint; `arms`: the arms spoken of, with counts, estimate, control.
    """
    names = Names(**found["names"])
    arms = arms_in(found["pooled"])
    worst = _worst_by_victim(arms)
    unread = victims_unread(found)
    numbers = [_numbers(arm, manifest, guesses) for arm in worst]
    sayer = _Sayer(names=names, arms=arms)
    said = [sayer.say(each, numbers[i], after=worst[0]) for i, each in enumerate(worst)]
    first = _first(found, worst, said, names)
    return {
        "sentence": _so_far(found["experiment"], found["results"], first),
        "others": [f"{line}." for line in said[1:]] if len(worst) <= MOST_VICTIMS else [],
        "caveats": [
            *_unread(unread, names),
            *(_validity(worst[0].row, found.get("review")) if worst else ()),
        ],
        "primary": list(primary(manifest)),
        "arms": numbers,
    }


def sentences_of(summary: Mapping[str, Any]) -> list[str]:
    """Return the first sentences in the order in which they are read."""
    said = summary["verdict"]
    return [said["sentence"], *said["others"], *said["primary"], *said["caveats"]]


def _worst_by_victim(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arm that takes most of each victim, most first."""
    by_victim: dict[str, Arm] = {}
    for arm in arms:
        victim = arm.row["victim"]
        if victim not in by_victim or arm.rank > by_victim[victim].rank:
            by_victim[victim] = arm
    return sorted(by_victim.values(), key=lambda arm: arm.rank, reverse=True)


def _numbers(
    arm: Arm, manifest: Mapping[str, Any], guesses: Callable[[Place], bool]
) -> dict[str, Any]:
    """Return what a sentence on an arm says, as numbers."""
    row, name = arm.row, control_in(arm.row)
    control = None
    if name is not None:
        both, _, only_control, _ = table = row["control_table"][name]
        control = {
            "name": name,
            "n": sum(table),
            "n_changed": both + only_control,
            "n_open": row["control_open"][name][1],
            "net": row["asr_net"][name],
        }
    elif arm.score == "f1" and row["f1_net_drop"]["value"] is not None:
        control = {"name": "non_entity_noise", "net": row["f1_net_drop"]}
    return {
        **{key: row[key] for key in ("victim", "dataset", "group", "attack")},
        "measure": arm.score or "asr",
        "estimate": dict(arm.taken),
        "n": arm.taken["n"],
        "n_lost": None if arm.score else row["n_flipped"],
        "n_open": 0 if arm.score else _n_open(row),
        "n_seeds": len(row["seeds"]),
        "control": control,
        "control_awaited": control is None and is_awaited(row, manifest),
        "is_control": is_control(arm.spec),
        "near_chance": row.get("chance") is not None and guesses(arm.place),
        "vouched_by": (row.get("asr_valid") or {}).get("vouched_by"),
    }


def _n_open(row: Row) -> int:
    """Return how many right answers may be lost or not: no readable answer, or none at all."""
    # None of a control that was not asked.
    known = [int(each[0]) for each in (row.get("control_open") or {}).values() if each]
    return max([int(row["n_failed"]), *known])


class _Sayer:
    """Says what an arm took, naming only what tells it from the other arms of the run."""

    def __init__(self, *, names: Names, arms: Sequence[Arm]) -> None:
        self._names = names
        self._n_arms = {
            victim: sum(arm.row["victim"] == victim for arm in arms)
            for victim in dict.fromkeys(arm.row["victim"] for arm in arms)
        }
        self._varies = {
            factor: len({arm.row[factor] for arm in arms}) > 1
            for factor in ("victim", "dataset", "group", "attack")
        }

    def say(self, arm: Arm, numbers: Row, after: Arm) -> str:
        """Return one sentence without its full stop.

        Args:
            arm: what it speaks of.
            numbers: of that arm.
            after: the arm of the first sentence; what is the same there is not said again.
        """
        taken = self._score(arm, numbers) if arm.score else self._count(arm, numbers)
        is_first, which = arm is after, self._which(arm)
        if is_first or edit_clause(arm.spec) != edit_clause(after.spec):
            n = self._n_arms[arm.row["victim"]]
            worst = f", the worst of {n:,} results" if n > 1 and is_first else ""
            taken += f" after {edit_clause(arm.spec)}"
            taken += f" ({which}{worst})" if which else ""
        elif which != self._which(after):
            taken += f" under {which}" if self._varies["attack"] else f" {which}"
        parts = [taken, *_open(numbers), *_beside(numbers, is_first)]
        if numbers["near_chance"]:
            right, level = per_cent(arm.row["accuracy"]["value"]), per_cent(arm.row["chance"])
            parts.append(
                f"the model answers {NEAR_CHANCE} ({right} right before any edit, {level} by "
                "guessing), so no loss can be told from guessing"
            )
        return "; ".join(parts)

    def _count(self, arm: Arm, numbers: Row) -> str:
        n_lost, n = numbers["n_lost"], numbers["n"]
        seeds = f"; {numbers['n_seeds']} seeds" if numbers["n_seeds"] > 1 else ""
        share = f"({between(numbers['estimate'])}{seeds})"
        nouns = _nouns(arm.row)
        if self._varies["victim"]:
            victim = self._names.of("victim", arm.row["victim"])
            return f"{victim} lost {n_lost:,} of {n:,} {nouns} {share}"
        verb = "was" if n_lost == 1 else "were"
        return f"{n_lost:,} of {n:,} {nouns} {share} {verb} lost"

    def _score(self, arm: Arm, numbers: Row) -> str:
        assert arm.score is not None
        before, after = arm.row[arm.score]["value"], arm.row[f"{arm.score}_after"]["value"]
        drop = numbers["estimate"]
        words = _SCORE_WORDS[arm.score]
        of = f" of {self._names.of('victim', arm.row['victim'])}" * self._varies["victim"]
        verb = "fell" if drop["value"] > 0 else "rose" if drop["value"] < 0 else "stayed"
        ends = "" if drop["low"] is None else f", {decimal(drop['low'])} to {decimal(drop['high'])}"
        what = f"{words}{of} {verb} from {decimal(before)} to {decimal(after)}"
        return f"{what[0].upper()}{what[1:]} (a drop of {decimal(drop['value'])}{ends})"

    def _which(self, arm: Arm) -> str:
        """Name the attack and its place where several were tried."""
        row = arm.row
        attack = self._names.of("attack", row["attack"]) if self._varies["attack"] else ""
        where = [
            self._names.of(factor, row[factor])
            for factor in ("dataset", "group")
            if self._varies[factor]
        ]
        place = f"on {', '.join(where)}" if where else ""
        return " ".join(filter(None, (attack, place)))


def _nouns(row: Row) -> str:
    if "f1" in row:
        return "entities that were found"
    if "macro_f1" in row:
        return "right labels"
    return "scores" if "pearson" in row else "right answers"


def _open(numbers: Row) -> Iterator[str]:
    if numbers["n_open"]:
        yield f"of {numbers['n_open']:,} more it is not known, for no answer could be read"


def _beside(numbers: Row, is_first: bool) -> Iterator[str]:
    """Say what a harmless change takes, or that this is not known."""
    control = numbers["control"]
    if numbers["is_control"]:
        yield "this is a control: nothing of weight was changed"
    elif control is None:
        yield (
            "its control has not been asked yet"
            if numbers["control_awaited"]
            else f"this is {NO_CONTROL}: harmless edits may change as many"
        )
    elif "n" not in control:
        net = control["net"]
        ends = "" if net["low"] is None else f" ({decimal(net['low'])} to {decimal(net['high'])})"
        yield f"net of as much noise outside entities {decimal(net['value'])}{ends}"
    else:
        of = "" if control["n"] == numbers["n"] else f" of {control['n']:,}"
        unknown = f" ({control['n_open']:,} more are not known)" if control["n_open"] else ""
        verb = "changes" if control["name"] == "paraphrase" else "change"
        words = _ALONE.get(control["name"], CONTROL_WORDS[control["name"]])
        changed = f"{control['n_changed']:,}{of}{unknown}"
        yield f"{words} alone {verb} {changed}{_net(control['net'], is_first)}"


_ALONE = {"paraphrase": "other wording", "option_shuffle": "other orders of the options"}


def _net(net: Row, is_first: bool) -> str:
    if net["value"] is None or net["low"] is None or net["low"] > 0:
        return ""
    if net["value"] <= 0:
        why = ", so nothing shows that the edit itself takes any" if is_first else ""
        return f", no fewer{why}"
    return ", so the difference may be chance"


def _validity(row: Row, review: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Say how many losses are vouched for, by whom, or that this is not known.

    Args:
        row: of the arm.
        review: the part `review` of the summary.
    """
    valid = row.get("asr_valid") or {}
    if not row["n_flipped"] or "asr_valid_bounds" not in row:
        return
    if valid.get("vouched_by") and valid.get("value") is not None:
        who = _VOUCHERS.get(valid["vouched_by"], valid["vouched_by"])
        is_review = valid["vouched_by"] == "review"
        if is_review and review is not None:
            who = plural(review["n_raters"], "reviewer")
        judged = f"{valid['n_labels']:,} of these {row['n_flipped']:,}" if is_review else ""
        yield f"Lost with the key still right, as {who} judged{_of(judged)}: {between(valid)}."
        yield from _disputed(valid)
    elif not row["n_validity_unknown"] and not max(row["asr_valid_bounds"] or (1,)):
        yield "Rules refute every one of these losses: each edit made another answer right."
    elif review is not None and any(each["n_open"] for each in review["judgements"][:1]):
        yield "Validity is not known: reviewers disagree and nobody has decided."
    else:
        checked = "the key is still right" if row.get("chance") is not None else _SAME_MEANING
        yield f"{NO_VALIDITY.capitalize()}: nobody checked that {checked} after these edits."


def _of(part: str) -> str:
    return f" ({part})" if part else ""


def _disputed(valid: Row) -> Iterator[str]:
    """Say how many losses reviewers disagree on, and what these could change."""
    n = valid.get("n_disputed")
    if n:
        low, high = (per_cent(end) for end in valid["settled_ends"])
        yield (
            f"On {n:,} more they disagree and nobody has decided: with all of these invalid or all "
            f"valid, the interval reaches from {low} to {high}."
        )


def _unread(victims: Mapping[str, Any], names: Names) -> Iterator[str]:
    if victims:
        who = listed([names.of("victim", each) for each in victims])
        yield f"Every answer of {who} is unreadable, so nothing is measured of it."


def _first(
    found: Mapping[str, Any], worst: Sequence[Arm], said: Sequence[str], names: Names
) -> str:
    """Return the first sentence."""
    if not found["results"]:
        return _NOTHING
    if not worst:
        return _nothing_lost(found)
    if len(worst) <= MOST_VICTIMS:
        return f"{said[0]}."
    if all(arm.score is None for arm in worst):
        shares = [arm.taken["value"] for arm in worst]
        return (
            f"{len(worst):,} victims lost {per_cent(min(shares))} to {per_cent(max(shares))} of "
            f"what they had right. Most: {said[0]}."
        )
    return f"Of {len(worst):,} victims the most: {said[0]}."


def _nothing_lost(found: Mapping[str, Any]) -> str:
    """Say why there is no arm to speak of."""
    rows = [row for row in found["pooled"] if "control_of" not in row]
    if victims_unread(found).keys() >= {row["victim"] for row in rows}:
        return "Every answer is unreadable, so nothing is measured."
    if any(row["n_already_wrong"] for row in rows):
        return "Nothing was right before the attack, so nothing could be lost."
    if all(any(s in row for s in SCORES) for row in rows):
        return "Nothing can be said of a loss: no perturbed copy of the data was asked."
    if all(row["n_not_attackable"] == row["n_trials"] for row in rows):
        return "No item could be attacked, so nothing is measured."
    return "No answer was attacked, so nothing is measured."


def _so_far(experiment: Row, results: Sequence[Row], sentence: str) -> str:
    """Put in front how far a run is that has not ended."""
    if experiment["complete"] or experiment.get("decided") is not None:
        return sentence
    done, planned = sum(row["n_trials"] for row in results), experiment.get("n_planned")
    if planned is None:
        return f"The run is not complete. {sentence}"
    verb = "has" if planned == 1 else "have"
    return f"So far {done:,} of {plural(planned, 'planned trial')} {verb} ended. {sentence}"


def between(estimate: Row) -> str:
    """Write a share and its interval in per cent.

    >>> between({"value": 1 / 3, "low": 0.2141, "high": 0.4789})
    '33 %, 21 to 48'
    """
    ends = [estimate["low"], estimate["high"]]
    if None in ends:
        return per_cent(estimate["value"])
    low, high = (per_cent(end).removesuffix(" %") for end in ends)
    return f"{per_cent(estimate['value'])}, {low} to {high}"


def per_cent(value: float) -> str:
    """Write a share in whole per cent; what is nearly none or nearly all has one digit more.

    >>> per_cent(0.3333), per_cent(0.004), per_cent(0), per_cent(0.9996)
    ('33 %', '0.4 %', '0 %', '99.9 %')
    """
    if 0 < value < 0.01 or 0.99 < value < 1:
        return f"{min(99.9, max(0.1, 100 * value)):.1f} %"
    return f"{100 * value:.0f} %"
