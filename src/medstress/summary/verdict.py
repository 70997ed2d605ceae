"""The verdict of a run in words: what attacks took, beside what a harmless change takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from medstress.attacks.unasked import NAME as UNASKED
from medstress.core.controls import NOISE_CONTROL, is_control_spec
from medstress.metrics.chance import is_too_few
from medstress.metrics.unreadable import victims_failed, victims_unread
from medstress.results.formats import decimal, plural
from medstress.results.names import CONTROL_WORDS, Names
from medstress.summary.arms import (
    SCORES,
    Arm,
    Place,
    Row,
    arms_in,
    comparable,
    control_in,
    counted,
    is_awaited,
)
from medstress.summary.caveats import between, per_cent, unmeasured, validity
from medstress.summary.edit_words import edit_clause
from medstress.summary.headlines import NO_CONTROL

NEAR_CHANCE = "near chance"
TOO_FEW = "too few items to tell it from guessing"
GUESSING = "by guessing"
MOST_VICTIMS = 4
"""Victims that have a line each; of more the range is said."""
_SCORE_WORDS = {"f1": "F1", "pearson": "the correlation", "macro_f1": "macro F1"}
_NOTHING = "No trial has ended yet, so nothing is measured."


def verdict_of(
    found: Mapping[str, Any], manifest: Mapping[str, Any], guesses: Callable[[Place], str]
) -> dict[str, Any]:
    """Return the first sentences of a summary, and the numbers that stand in them.

    Args:
        found: the summary so far: `experiment`, `results`, `pooled`, `names`.
        manifest: the run's manifest.
        guesses: how guessing reaches what a victim's clean answers about a data set and group do,
            in words; empty if they are above chance.

    Returns:
        `sentence`: the arm that takes most, with interval, control and warnings; `others`: a
        sentence for each further victim, and of tagged texts for what a search takes; `caveats`:
        what the numbers do not say; `validity`: those of them on valid losses; `arms`: the arms
        spoken of, with counts, estimate, control.
    """
    names = Names(**found["names"])
    arms = arms_in(found["pooled"])
    worst = _worst_by_victim(arms)
    numbers = [_numbers(arm, manifest, guesses) for arm in worst]
    victims = _victims(found["pooled"])
    sayer = _Sayer(names=names, arms=arms, victims=victims, guesses=guesses)
    said = [sayer.say(each, numbers[i], after=worst[0]) for i, each in enumerate(worst)]
    first = _first(found, worst, said, names)
    valid = list(validity(worst[0].row, found.get("review"))) if worst else []
    return {
        "sentence": _so_far(found["experiment"], found["results"], first),
        "others": [f"{line}." for line in said[1:]] if _n_victims(worst) <= MOST_VICTIMS else [],
        "caveats": [*unmeasured(found, names), *valid],
        "validity": valid,
        "arms": numbers,
    }


def sentences_of(summary: Mapping[str, Any]) -> list[str]:
    """Return the first sentences in the order in which they are read."""
    said = summary["verdict"]
    return [said["sentence"], *said["others"], *said["caveats"]]


def _victims(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["victim"] for row in rows))


def _n_victims(arms: Sequence[Arm]) -> int:
    return len({arm.row["victim"] for arm in arms})


def _worst_by_victim(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arm that takes most of each victim; victims that surely lose most go first.

    Drops of a score and counts of answers cannot be compared. A victim that has both, as of
    tagged texts under noise and under a search, has an arm for each; the score goes first.
    """
    by_victim: dict[str, dict[bool, list[Arm]]] = {}
    for arm in arms:
        is_count = arm.score is None
        by_victim.setdefault(arm.row["victim"], {}).setdefault(is_count, []).append(arm)
    found = [
        [max(comparable(members), key=lambda arm: arm.rank) for _, members in sorted(each.items())]
        for each in by_victim.values()
    ]
    found.sort(key=lambda each: each[0].surely, reverse=True)
    return [arm for each in found for arm in each]


def _numbers(
    arm: Arm, manifest: Mapping[str, Any], guesses: Callable[[Place], str]
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
        control = {"name": NOISE_CONTROL, "net": row["f1_net_drop"]}
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
        "is_control": is_control_spec(arm.spec),
        "near_chance": row.get("chance") is not None and bool(guesses(arm.place)),
    }


def _n_open(row: Row) -> int:
    """Return how many right answers may be lost or not: no readable answer, or none at all."""
    # None of a control that was not asked.
    known = [int(each[0]) for each in (row.get("control_open") or {}).values() if each]
    return max([int(row["n_failed"]), *known])


class _Sayer:
    """Says what an arm took, naming only what tells it from the other arms of the run."""

    def __init__(
        self,
        *,
        names: Names,
        arms: Sequence[Arm],
        victims: Sequence[str],
        guesses: Callable[[Place], str],
    ) -> None:
        self._names, self._arms, self._guesses = names, arms, guesses
        self._varies = {
            factor: len({arm.row[factor] for arm in arms}) > 1
            for factor in ("dataset", "group", "attack")
        }
        # A victim of which nothing is measured is none of the arms, but one of the run.
        self._varies["victim"] = len(victims) > 1

    def say(self, arm: Arm, numbers: Row, after: Arm) -> str:
        """Return one sentence without its full stop.

        Args:
            arm: what it speaks of.
            numbers: of that arm.
            after: the arm of the first sentence; what is the same there is not said again.
        """
        if arm.spec["name"] == UNASKED:
            return self._clean(arm)
        taken = self._score(arm, numbers) if arm.score else self._count(arm, numbers)
        is_first, which = arm is after, self._which(arm)
        if is_first or edit_clause(arm.spec) != edit_clause(after.spec):
            taken += f" after {edit_clause(arm.spec)}"
            chosen = ", ".join(filter(None, (which, *(self._chosen(arm) if is_first else ()))))
            taken += f" ({chosen})" if chosen else ""
        elif which != self._which(after):
            taken += f" under {which}" if self._varies["attack"] else f" {which}"
        parts = [taken, *_open(numbers), *_beside(numbers, is_first), *self._elsewhere(numbers)]
        if numbers["near_chance"]:
            right, level = per_cent(arm.row["accuracy"]["value"]), per_cent(arm.row["chance"])
            told = f"{right} right before any edit, {level} {self._guesses(arm.place)}"
            parts.append(
                f"{TOO_FEW} ({told})"
                if is_too_few(arm.row["accuracy"]["n"], arm.row["chance"])
                else f"the model answers {NEAR_CHANCE} ({told}), so no loss can be told from "
                "guessing"
            )
        return "; ".join(parts)

    def _clean(self, arm: Arm) -> str:
        """Say what was right where nothing was attacked."""
        accuracy = arm.row["accuracy"]
        who = "The model"
        if self._varies["victim"]:
            who = self._names.of("victim", arm.row["victim"])
        n = accuracy["n"]
        right = f"{round(accuracy['value'] * n):,} of {plural(n, 'question')}"
        return f"{who} is right on {right} ({between(accuracy)}); nothing was attacked"

    def _chosen(self, arm: Arm) -> Iterator[str]:
        """Say of how many arms of the victim this is the worst, and how many are too small."""
        rivals = [
            each
            for each in self._arms
            if (each.row["victim"], each.score) == (arm.row["victim"], arm.score)
        ]
        n = len(comparable(rivals))
        if n > 1:
            yield f"the worst of {n:,} results"
        if n < len(rivals):
            yield f"{plural(len(rivals) - n, 'result')} of far fewer answers left out"

    def _count(self, arm: Arm, numbers: Row) -> str:
        n = numbers["n"]
        n_lost = f"{numbers['n_lost']:,}" if numbers["n_lost"] else "none"
        share = f"({'; '.join(filter(None, (between(numbers['estimate']), counted(arm.row))))})"
        nouns = _nouns(arm.row, n)
        if self._varies["victim"]:
            victim = self._names.of("victim", arm.row["victim"])
            return f"{victim} lost {n_lost} of {n:,} {nouns} {share}"
        verb = "were" if numbers["n_lost"] > 1 else "was"
        return f"{n_lost.capitalize()} of {n:,} {nouns} {share} {verb} lost"

    def _score(self, arm: Arm, numbers: Row) -> str:
        assert arm.score is not None
        row, drop, words = arm.row, numbers["estimate"], _SCORE_WORDS[arm.score]
        before, after = (decimal(row[name]["value"]) for name in (arm.score, f"{arm.score}_after"))
        of = f" of {self._names.of('victim', row['victim'])}" * self._varies["victim"]
        verb = "fell" if drop["value"] > 0 else "rose"
        moved = f"stayed at {before}" if before == after else f"{verb} from {before} to {after}"
        if drop["low"] is not None:
            ends = f"{decimal(drop['low'])} to {decimal(drop['high'])}"
            moved += f" (a drop of {decimal(drop['value'])}, {ends})"
        elif before != after:
            moved += f" (a drop of {decimal(drop['value'])})"
        what = f"{words}{of} {moved}"
        return f"{what[0].upper()}{what[1:]}"

    def _elsewhere(self, numbers: Row) -> Iterator[str]:
        """Name the noise beside an arm without a control that has one."""
        if numbers["control"] or numbers["control_awaited"] or numbers["is_control"]:
            return
        place = numbers["dataset"], numbers["group"], numbers["victim"]
        for arm in self._arms:
            net = arm.row.get("f1_net_drop") or {}
            if arm.place == place and net.get("value") is not None:
                attack = self._names.of("attack", arm.row["attack"])
                yield (
                    f"{attack} has a control: F1 falls by {decimal(arm.taken['value'])}, "
                    f"{_outside(net)}"
                )
                return

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


def _nouns(row: Row, n: int) -> str:
    if "f1" in row:
        return "entity that was found" if n == 1 else "entities that were found"
    noun = "right label" if "macro_f1" in row else "score" if "pearson" in row else "right answer"
    return noun if n == 1 else f"{noun}s"


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
            else f"this is {NO_CONTROL}: harmless edits may "
            f"{'take as much' if numbers['n_lost'] is None else 'change as many'}"
        )
    elif "n" not in control:
        yield _outside(control["net"])
    else:
        of = "" if control["n"] == numbers["n"] else f" of {control['n']:,}"
        unknown = f", {control['n_open']:,} more not known" if control["n_open"] else ""
        verb = "changes" if control["name"] == "paraphrase" else "change"
        words = _ALONE.get(control["name"], CONTROL_WORDS[control["name"]])
        changed = f"{control['n_changed']:,}{of}{unknown}"
        yield f"{words} alone {verb} {_against(changed, numbers, is_first)}"


def _outside(net: Row) -> str:
    ends = "" if net["low"] is None else f" ({decimal(net['low'])} to {decimal(net['high'])})"
    return f"net of as much noise outside entities {decimal(net['value'])}{ends}"


_ALONE = {"paraphrase": "other wording", "option_shuffle": "other orders of the options"}


def _against(changed: str, numbers: Row, is_first: bool) -> str:
    """Say how many a control changes, beside what the attack takes."""
    net = numbers["control"]["net"]
    if net["value"] is None or net["low"] is None or net["low"] > 0 or not numbers["n_lost"]:
        return changed
    if net["value"] > 0:
        return f"{changed}, so the difference may be chance"
    why = ", so nothing shows that the edit itself takes any" if is_first else ""
    return f"{'more' if net['value'] < 0 else 'as many'} ({changed}){why}"


def _first(
    found: Mapping[str, Any], worst: Sequence[Arm], said: Sequence[str], names: Names
) -> str:
    """Return the first sentence."""
    if not found["results"]:
        return _NOTHING
    if not worst:
        return _nothing_lost(found)
    n = _n_victims(worst)
    if n <= MOST_VICTIMS:
        return f"{said[0]}."
    if all(arm.score is None for arm in worst):
        shares = [arm.taken["value"] for arm in worst]
        most = "Most" if shares[0] == max(shares) else "The highest low end of an interval"
        return (
            f"{n:,} victims lost {per_cent(min(shares))} to {per_cent(max(shares))} of "
            f"what they had right. {most}: {said[0]}."
        )
    return f"Of {n:,} victims the most: {said[0]}."


def _nothing_lost(found: Mapping[str, Any]) -> str:
    """Say why there is no arm to speak of; of a run that goes on, that this may change."""
    rows = [row for row in found["pooled"] if "control_of" not in row]
    so_far, yet = ("", "") if _has_ended(found["experiment"]) else (" so far", " yet")
    if victims_unread(found).keys() >= {row["victim"] for row in rows}:
        return f"Every answer{so_far} is unreadable, so nothing is measured{yet}."
    if set(victims_failed(found)) >= set(_victims(rows)):
        return f"Every call{so_far} failed, so nothing is measured{yet}."
    if any(row["n_already_wrong"] for row in rows):
        return f"Nothing{so_far} was right before the attack, so nothing could be lost{yet}."
    if all(any(s in row for s in SCORES) for row in rows):
        return f"Nothing can be said of a loss{yet}: no perturbed copy of the data was asked."
    if all(row["n_not_attackable"] == row["n_trials"] for row in rows):
        return f"No item{so_far} could be attacked, so nothing is measured{yet}."
    return f"No answer was attacked{so_far}, so nothing is measured{yet}."


def _has_ended(experiment: Row) -> bool:
    return bool(experiment["complete"])


def _so_far(experiment: Row, results: Sequence[Row], sentence: str) -> str:
    """Put in front how far a run is that has not ended."""
    if _has_ended(experiment):
        return sentence
    done, planned = sum(row["n_trials"] for row in results), experiment.get("n_planned")
    if planned is None:
        return f"The run is not complete. {sentence}"
    verb = "has" if planned == 1 else "have"
    return f"So far {done:,} of {plural(planned, 'planned trial')} {verb} ended. {sentence}"
