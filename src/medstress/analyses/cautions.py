"""Warnings about a run as a whole: what a reader needs to know before its numbers.

What speaks of one row or one capability is with that row or capability.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Literal

from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.shown import HIDDEN, ITEMS, QUESTIONS, Noun, Remark, Shown, attack_names
from medstress.core.arms import Place
from medstress.core.attacked import NAME as STORED
from medstress.core.attacked import Selection
from medstress.core.clusters import sentences_of
from medstress.core.items import TAGGED, Question
from medstress.core.outcomes import Verdict
from medstress.core.sentences import entities_of
from medstress.core.trials import Queries, Trial
from medstress.core.words import listed, plural
from medstress.store.shards import SHARDS, shard_of

ONE_LETTER = 0.9
"""Share of answers with one letter above which a model may not read the question."""
LEAST = 10
"""Of fewer answers no one can say that they are all alike."""
MOST_READ = 100
"""Replies of a model that are searched for marks of thoughts."""
UNREADABLE = 0.1
"""Share of clean answers without a reading from which accuracy says little."""
LETTER_MASS = 0.5
MORE = 2.0
"""Times the share of odd marks in the clean data above which an attack is said to bring them."""
REPLIES, LONGEST = 3, 200
"""Raw replies of an unreadable model that are shown, and their length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cautions(Shown):
    """What to know of a run before its numbers."""

    sentences: Sequence[Remark] = field(metadata=HIDDEN)
    title = "What to know first"

    def remarks(self) -> Sequence[Remark]:
        """All of them."""
        return self.sentences


def cautions_of(run: Run) -> Cautions | None:
    """Apply every rule; None if none holds."""
    remarks = [remark for rule in RULES for remark in rule(run)]
    return Cautions(sentences=remarks) if remarks else None


CAUTIONS = Analysis("cautions", cautions_of)


_SENTENCES: Mapping[str, str] = {
    "shard": "This is shard {number} of {of}: all numbers speak of its items alone. Join the "
    "shards with medstress merge.",
    "incomplete": "The run is not complete{so_far}. How soon a trial ends depends on its "
    "answers, so any rate may be too low or too high.",
    "answered_otherwise": "{n:,} calls were made by two shards and got different answers. Every "
    "trial keeps the answer that it was judged by.",
    "unfinished": "`medstress test` or `medstress explain` was begun and has not ended. Repeat it: "
    "what was answered is kept.",
    "skipped_rows": "{n:,} bad {rows} left out of {dataset}. The first: {first}",
    "synonyms": "{attack} on {dataset}: of {n_mentions:,} mentions {n_listed:,} get a listed name "
    "of the same thing, {n_defined:,} are acronyms that are spelt out as their text defines them, "
    "and {n_nearest:,} get the nearest name. {n_ambiguous:,} name several things and stay, "
    "{far}{n_unchanged:,} have no other name ({surrogate}).",
    "related_names": "The nearest names of {attack} are related names, no synonyms: a salt, a "
    "subtype or another thing. What is lost to them does not show that the model lacks synonyms; "
    'mode = "strict" asks for those alone.',
    "duplicates": "{n:,} of {items} of {dataset} {repeat} an earlier one under another id. Rates "
    "count each of them, intervals and tests only different ones.",
    "duplicates, other": "{n:,} of {items} of {dataset} {repeat} an earlier one under another id. "
    "They are counted as if they were independent, so intervals are too narrow.",
    "unread": "Not one answer of {model} could be read, so nothing is measured there. {advice}"
    "{shown}",
    "unreadable_clean": "{model}: {n:,} of {of:,} answers before any edit could not be read{on}. "
    "Accuracy counts them as not right.",
    "cut_off": "{model}: {n:,} replies were cut off before an answer could be read. They are never "
    "right and never a success: raise {keys}.",
    "cut_short": "{n:,} of {of:,} trials did not end within trial_seconds. {counted}: run again "
    "with --retry-failed.",
    "letter_mass": "{model} puts only {share:.0f} % of its probability on the option letters{on}: "
    "by itself it would seldom answer with one. Try another prompt, or answer_by = text or "
    "generate.",
    "one_letter": "{model} answers {letter} to {n:,} of {of:,} questions{on}, though {letter} is "
    "right in {n_keys:,} only: it may not read the options.",
    "unknown_marks": "{n:,} of {of:,} replies of {model}{on} hold {first} ... {last}, which is "
    '{read}. If it holds thoughts, set thoughts = ["{first}", "{last}"] of the model.',
    "other_types": "{model} marks {marked}{under}, which the data do not annotate: F1 counts them "
    "as false alarms, as seqeval does. If it means {types}, translate with labels = "
    '{{ITS_TYPE = "TYPE_OF_THE_DATA"}} in [[victim]]; ITS_TYPE = "O" leaves them out.',
    "no_marks": "{model} marks nothing at all{under}{but} in the clean data: every entity counts "
    "as missed, and precision has nothing to divide by.",
    "no_beginning": "{model} begins {n:,} of {of:,} entities{under} with I- or E-, after O or "
    "another type: F1 counts them, as the CoNLL script does, and Seqeval strict F1 does not.",
    "not_repeated": "{n:,} of {of:,} lost answers were right again when the same prompt was asked "
    "alone.",
    "left_out": "The server of {victim} does not know {name}, so it was left out. It says: {words}",
    "temperature": "The server of {victim} does not take temperature = {asked:g}, so the model was "
    "asked {at}. Its answers may differ when it is asked again. The server says: {said}",
    "system_turns": "The template of {victim} takes no system turns, or only turns that alternate: "
    "system text went to the head of the first user turn. The server says: {without_system}",
    "window": "The server of {victim} reads {reads_at_most:,} tokens of a prompt and cuts longer "
    "ones without an error, so the model did not see all that it was asked. Raise its context "
    "(Ollama: num_ctx; llama.cpp: -c; vLLM: --max-model-len) and run again.",
    "stored_attack": "{attack} asks edits that answers of {model} led to, so its rate on that "
    "model says nothing new.",
    "stored_attack, edits": "{attack} asks the stored edits of an item up to the one that made "
    "{model} lose it: its rates mean something at 1 query alone.",
    "control_left_out": "{attacks}: no control {control}; {reason}.",
}
"""Rule -> the sentence; after a comma, which of its sentences."""
_NOTES = ("synonyms", "control_left_out")
"""Rules whose sentences are notes; the others warn."""


def _say(rule: str, where: tuple[str, ...] = (), **facts: Any) -> Remark:
    level: Literal["note", "warning"] = "note" if rule in _NOTES else "warning"
    return Remark(rule.partition(",")[0], _SENTENCES[rule].format(**facts), where, level)


def _state(run: Run) -> Iterator[Remark]:
    """Say what of the run is there."""
    if (shard := shard_of(run.manifest)) is not None:
        yield _say("shard", number=shard.number, of=shard.of)
    elif not run.is_complete:
        done, planned = len(run.trials), int(run.manifest["n_planned"])
        so_far = f": {done:,} of {planned:,} planned trials have ended" if done < planned else ""
        yield _say("incomplete", so_far=so_far)
    elif run.folder.root is None:
        yield _say("unfinished")
    if n := run.manifest.get(SHARDS, {}).get("answered_otherwise", 0):
        yield _say("answered_otherwise", n=n)


def _data(run: Run) -> Iterator[Remark]:
    """Say what was left out of the data, and which names synonym attacks found (METHODS 4.5)."""
    repeats = list(_duplicates(run))
    repeated = {dataset for remark in repeats for dataset in remark.where}
    for dataset, part in run.manifest["datasets"].items():
        if skipped := part.get("skipped"):
            rows = "row was" if len(skipped) == 1 else "rows were"
            facts = {"n": len(skipped), "rows": rows, "dataset": dataset, "first": skipped[0]}
            yield _say("skipped_rows", (dataset,), **facts)
        for note in part.get("notes", ()):
            if dataset not in repeated or not _is_of_repeats(note):
                yield Remark("data_note", f"{note}.", (dataset,))
    for group, part in run.manifest["groups"].items():
        if undefined := part.get("undefined"):
            yield Remark("group_note", undefined, ("", group))
    for row in run.manifest.get("surrogates", ()):
        at = (row["dataset"], "", "", row["attack"])
        far = f"{n:,} have no name that is near enough, " if (n := row["n_distant"]) else ""
        yield _say("synonyms", at, far=far, **row)
        if row["n_nearest"]:
            yield _say("related_names", at, **row)
    yield from repeats


def _duplicates(run: Run) -> Iterator[Remark]:
    """Count the items that repeat an earlier one under another id."""
    copies: dict[str, Counter[object]] = defaultdict(Counter)
    nouns: dict[str, Noun] = {}
    for (dataset, _), item in run.folder.items.items():
        is_question = item.kind == Question.kind
        copies[dataset][sentences_of(item) if is_question else item.hash] += 1
        nouns[dataset] = QUESTIONS if is_question else ITEMS
    for dataset, texts in copies.items():
        if n := texts.total() - len(texts):
            items, repeat = nouns[dataset].count(texts.total()), "repeats" if n == 1 else "repeat"
            rule = "duplicates" if nouns[dataset] is QUESTIONS else "duplicates, other"
            yield _say(rule, (dataset,), n=n, items=items, dataset=dataset, repeat=repeat)


def _is_of_repeats(note: str) -> bool:
    """Return whether a note of the data says what `_duplicates` says."""
    from medstress.datasets.questions import AGAIN

    return AGAIN in note


def unread_models(run: Run) -> dict[str, str]:
    """Return model -> words, for models none of whose answers could be read.

    The words are the model where no clean answer could be read, and "model under attack" where that
    holds of the answers under an attack in one place.
    """
    called, unread = attack_names(cell.attack for cell in run.attacks), {}
    for victim, trials in run.by_model.items():
        mute = dict.fromkeys(
            called[cell.attack.label]
            for cell in run.attacks
            if cell.place.victim == victim and _is_mute(cell)
        )
        clean = (t.verdict is Verdict.UNREADABLE for t in trials if t.is_answered)
        if next(clean, False) and all(clean):
            unread[victim] = victim
        elif mute:
            listed_few = listed(list(mute)) if len(mute) <= REPLIES else f"{len(mute)} attacks"
            unread[victim] = f"{victim} under {listed_few}"
    return unread


def _is_mute(cell: Cell) -> bool:
    """Return whether edits were answered, and not one answer could be read."""
    q = Queries(*cell.queries.sum(axis=0).tolist())
    return 0 < q.asked - q.failed <= q.unreadable


def _unread(run: Run) -> Iterator[Remark]:
    """Name the models of which no answer could be read, and those with many such answers."""
    unread = unread_models(run)
    for victim, trials in run.by_model.items():
        if victim in unread:
            n_cut = sum(t.queries.cut_off + _is_cut(t) for t in trials)
            n_unread = sum(t.queries.unreadable + (t.verdict is Verdict.UNREADABLE) for t in trials)
            advice = (
                f"{n_cut:,} were cut off: raise {_limits(trials, n_cut)}."
                if 2 * n_cut >= max(n_unread, 1)
                else "Let the function return a letter, or the text of an option."
                if "target_hash" in run.manifest.get("victims", {}).get(victim, {})
                else "Another prompt, parser or answer_by may bring answers that can be read."
            )
            replies: Sequence[str] = [t.last.text or "" for t in trials if t.is_mute and t.last]
            if unread[victim] == victim:
                replies = list(run.folder.clean_replies(victim, REPLIES))
            distinct = list(dict.fromkeys(filter(None, replies)))[:REPLIES]
            shown = "".join(f' "{_short(reply)}"' for reply in distinct)
            shown = f" It says:{shown}" if shown else ""
            yield _say("unread", ("", "", victim), model=unread[victim], advice=advice, shown=shown)
            continue
        for place, asked in run.answered.items():
            n = sum(t.verdict is Verdict.UNREADABLE for t in asked)
            if place.victim == victim and n and n >= UNREADABLE * len(asked):
                facts = {"model": victim, "n": n, "of": len(asked), "on": _on(run, place)}
                yield _say("unreadable_clean", place, **facts)


def _lost(run: Run) -> Iterator[Remark]:
    """Count answers that were cut off, trials that were cut short, and successes that were luck."""
    for victim, trials in run.by_model.items():
        # Arms share their clean answers.
        clean = {(t.arm.place.dataset, t.item.id) for t in trials if _is_cut(t)}
        if n := len(clean) + sum(t.queries.cut_off for t in trials):
            yield _say("cut_off", ("", "", victim), model=victim, n=n, keys=_limits(trials, n))
    late = [not t.is_asked_clean for t in run.trials if t.verdict is Verdict.CUT_SHORT]
    for is_clean, counted in (
        (False, "They count as held, and at their worst as lost"),
        (True, "The clean answer was late, so no rate counts them; give them longer"),
    ):
        if n := late.count(is_clean):
            yield _say("cut_short", n=n, of=len(run.trials), counted=counted)
    firsts = (t.first for t in run.trials if t.first is not None and not t.arm.is_control)
    again = [first.repeats for first in firsts if first.repeats is not None]
    if n := again.count(False):
        yield _say("not_repeated", n=n, of=len(again))


def _letters(run: Run) -> Iterator[Remark]:
    """Name the models that would hardly say a letter, or nearly always say the same one."""
    for place, clean in run.answered.items():
        at = {"model": place.victim, "on": _on(run, place)}
        masses = [t.before.mass for t in clean if t.before and t.before.mass is not None]
        if masses and (mean := fmean(masses)) < LETTER_MASS:
            yield _say("letter_mass", place, share=100 * mean, **at)
        answers = [
            (t.before.answer, t.item.key)
            for t in clean
            if t.item.kind == Question.kind and t.before and t.before.answer
        ]
        if len(answers) >= LEAST:
            ((letter, n),) = Counter(answer for answer, _ in answers).most_common(1)
            n_keys = sum(key == letter for _, key in answers)
            if n > ONE_LETTER * len(answers) >= n_keys:
                facts = {"letter": letter, "n": n, "of": len(answers), "n_keys": n_keys}
                yield _say("one_letter", place, **facts, **at)


def _unknown_marks(run: Run) -> Iterator[Remark]:
    """Name the models most of whose replies hold a pair of marks that may hold their thoughts."""
    for place, clean in run.answered.items():
        texts = [
            t.before.text
            for t in clean
            if isinstance(t.item, Question) and t.before and t.before.text
        ][:MOST_READ]
        if len(texts) < LEAST:
            continue
        from medstress.tasks.reading import unknown_marks, without_thoughts

        spec = run.manifest["victims"].get(place.victim, {}).get("task", {})
        while "task" in spec:
            spec = spec["task"]
        own = spec.get("thoughts")
        marked = (unknown_marks(text, own and (own[0], own[1])) for text in texts)
        for (first, last), n in Counter(one for one in marked if one is not None).most_common(1):
            if n > len(texts) / 2:
                is_thought = not without_thoughts(f"{first} {last}")
                read = "left out as a thought" if is_thought else "read as part of the answer"
                facts = {"n": n, "of": len(texts), "first": first, "last": last, "read": read}
                yield _say("unknown_marks", place, model=place.victim, on=_on(run, place), **facts)


def _marks(run: Run) -> Iterator[Remark]:
    """Say which marks of a tagger count otherwise than it may mean them, and where it has none."""
    replies: dict[str, list[str]] = defaultdict(list)
    for place, clean in run.clean.items():
        own = (t.before.text for t in clean.values() if t.item.kind == TAGGED and t.before)
        replies[place.victim] += filter(None, own)
    attacks = attack_names(cell.attack for cell in run.attacks)
    for victim, before in sorted(replies.items()):
        if not before:
            continue
        asked: list[tuple[tuple[str, ...], str, Iterable[str]]] = [(("", "", victim), "", before)]
        for cell in run.attacks:
            # A search shows what it hides, entity by entity, and not what the model marks.
            if cell.place.victim == victim and cell.attack.whole_copy:
                kept = [(t, t.last.text) for t in cell.trials if t.last and t.last.text]
                after = {(t.arm.seed, t.item.id): text for t, text in kept}
                under = f" under {attacks[cell.attack.label]}{_on(run, cell.place)}"
                asked.append(((*cell.place, cell.attack.label), under, after.values()))
        usual: dict[str | None, float] = {}
        for at, under, texts in asked:
            labels = [text.split() for text in texts]
            marks = [(text[one.start][0], one.type) for text in labels for one in entities_of(text)]
            if labels and not marks and (usual or not under):
                but = ", though it does" * bool(under)
                yield _say("no_marks", at, model=victim, under=under, but=but)
            types = run.manifest["victims"][victim]["task"]["types"] if marks else ()
            counts = Counter[str | None](type_ for _, type_ in marks if type_ not in types)
            counts[None] = sum(mark == "I" for mark, _ in marks)
            # What the clean data have as well is not said again, unless it became common.
            more = {x: n for x, n in counts.items() if n > MORE * usual.get(x, 0.0) * len(marks)}
            if not under:
                usual = {x: n / len(marks) for x, n in counts.items() if marks}
            n, facts = more.pop(None, 0), {"model": victim, "under": under}
            if others := sorted(filter(None, more)):
                marked = plural(sum(more.values()), "entity", "entities")
                marked += f" of the type{'s' * (len(others) > 1)} {listed(others)}"
                yield _say("other_types", at, marked=marked, types=listed(types), **facts)
            if n:
                yield _say("no_beginning", at, n=n, of=len(marks), **facts)


_SERVERS: Mapping[str, str] = {
    "temperature": "temperature",
    "without_system": "system_turns",
    "reads_at_most": "window",
}
"""What an endpoint notes, and the rule."""


def _servers(run: Run) -> Iterator[Remark]:
    """Say what servers did not take as it was asked, and which cut prompts without a word."""
    for endpoint in run.manifest.get("endpoints") or ():
        facts, at = dict(endpoint), ("", "", endpoint["victim"])
        for name, words in (endpoint.get("left_out") or {}).items():
            yield _say("left_out", at, victim=at[2], name=name, words=words)
        if refusal := endpoint.get("temperature"):
            sent = refusal["sent"]
            how = "without one" if sent is None else f"at temperature {sent:g}"
            facts |= {"asked": refusal["asked"], "said": refusal["said"], "at": how}
        yield from (_say(rule, at, **facts) for note, rule in _SERVERS.items() if facts.get(note))


def _stored_attacks(run: Run) -> Iterator[Remark]:
    """Name the stored attacks whose rates lean on answers of the model they were first tried on."""
    hashes = {label: entry.get("model_hash") for label, entry in run.manifest["victims"].items()}
    for label, spec in run.manifest["attacks"].items():
        if spec["name"] != STORED or "set" not in spec:
            continue
        rule, model, source = "stored_attack", "", spec["source"]
        own = [victim for victim, one in hashes.items() if one == source["model_hash"]]
        if own and not spec["is_blind"]:
            model = own[0]
        elif spec["selection"] == Selection.ALL and spec["budget"] > 1:
            rule, model = "stored_attack, edits", source["victim"]
        if model:
            yield _say(rule, ("", "", "", label), attack=label, model=model)


def _left_out(run: Run) -> Iterator[Remark]:
    """Say which controls attacks have not, and why; a warning where the file names the control."""
    named = run.manifest["config"]["experiment"].get("controls")
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    left_out = (run.manifest.get("controls") or {}).get("left_out") or {}
    for attack, reasons in left_out.items():
        for control, reason in reasons.items():
            by_reason[control, reason].append(attack)
    for (control, reason), attacks in by_reason.items():
        note = _say("control_left_out", control=control, attacks=listed(attacks), reason=reason)
        is_named = isinstance(named, list) and control in named
        yield replace(note, level="warning") if is_named else note


RULES: Sequence[Callable[[Run], Iterable[Remark]]] = (
    _state,
    _unread,
    _lost,
    _letters,
    _unknown_marks,
    _marks,
    _servers,
    _stored_attacks,
    _data,
    _left_out,
)
"""In the order in which they are read."""


def _on(run: Run, place: Place) -> str:
    """Name a place where the run has several."""
    places: Mapping[Place, None] = dict.fromkeys(cell.place for cell in run.cells)
    varies = [i for i in (0, 1) if len({one[i] for one in places}) > 1]
    return f" on {', '.join(place[i] for i in varies)}" if varies else ""


def _limits(trials: Sequence[Trial], n: int) -> str:
    """Name the keys that n replies reached: of a conversation, its reasoning has its own."""
    of_reasoning = sum(one.n_cut("reasoning") for one in trials)
    own = f"reasoning_tokens (in {of_reasoning:,} the reasoning was cut off)"
    keys = ["max_new_tokens of [[victim]]"] * (n > of_reasoning) + [own] * (of_reasoning > 0)
    return " and ".join(keys)


def _is_cut(trial: Trial) -> bool:
    return trial.before is not None and trial.before.cut_off


def _short(reply: str) -> str:
    line = " ".join(reply.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."
