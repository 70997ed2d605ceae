"""Warnings about a run as a whole: what a reader needs to know before its numbers.

What speaks of one row or one capability stands with that row or capability.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from medstress.analyses.names import ITEMS, QUESTIONS, Noun, attack_names
from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.shown import HIDDEN, Remark, Shown
from medstress.core.arms import Place
from medstress.core.attacked import NAME as STORED
from medstress.core.attacked import Selection
from medstress.core.calls import Tagged
from medstress.core.items import TAGGED, Question
from medstress.core.outcomes import Verdict
from medstress.core.sentences import entities_of
from medstress.core.trials import Queries, Trial
from medstress.core.words import listed
from medstress.store.codec import decode_answer
from medstress.store.reader import RunReader
from medstress.store.shards import SHARDS, shard_of

ONE_LETTER = 0.9
"""Share of answers with one letter above which a model may not read the question."""
LEAST = 10
"""Of fewer answers nobody can say that they are all alike."""
MOST_READ = 100
"""Replies of a model that are searched for marks of thoughts."""
UNREADABLE = 0.1
"""Share of clean answers without a reading from which accuracy says little."""
LETTER_MASS = 0.5
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


def _incomplete(run: Run) -> Iterator[Remark]:
    if (shard := shard_of(run.manifest)) is not None:
        yield Remark(
            rule="shard",
            sentence=f"This is shard {shard.number} of {shard.of}: all numbers speak of its items "
            "alone. Join the shards with medstress merge.",
        )
    elif not run.is_complete:
        yield Remark(
            rule="incomplete",
            sentence=f"The run is not complete{_so_far(run)}. How soon a trial ends depends on "
            "what comes out, so any rate may be too low or too high.",
        )


def _so_far(run: Run) -> str:
    done, planned = len(run.trials), int(run.manifest["n_planned"])
    return f": {done:,} of {planned:,} planned trials have ended" if done < planned else ""


def _shards(run: Run) -> Iterator[Remark]:
    if n := run.manifest.get(SHARDS, {}).get("answered_otherwise", 0):
        yield Remark(
            rule="answered_otherwise",
            sentence=f"{n:,} calls were made by two shards and got different answers. Every trial "
            "keeps the answer that it was judged by.",
        )


def _rows(run: Run) -> Iterator[Remark]:
    for dataset, part in run.manifest["datasets"].items():
        if skipped := part.get("skipped"):
            rows = "row was" if len(skipped) == 1 else "rows were"
            yield Remark(
                rule="skipped_rows",
                where=(dataset,),
                sentence=f"{len(skipped):,} bad {rows} left out of {dataset}. The first: "
                f"{skipped[0]}",
            )
        for note in part.get("notes", ()):
            yield Remark(rule="data_note", where=(dataset,), sentence=note)
    for group, part in run.manifest["groups"].items():
        if undefined := part.get("undefined"):
            yield Remark(rule="group_note", where=("", group), sentence=undefined)


def _synonyms(run: Run) -> Iterator[Remark]:
    """Count the mentions that synonym attacks rename, by the source of the name (METHODS 4.5)."""
    for row in run.manifest.get("surrogates", ()):
        yield Remark(
            rule="synonyms",
            level="note",
            where=(row["dataset"], "", "", row["attack"]),
            sentence=f"{row['attack']} on {row['dataset']}: of {row['n_mentions']:,} mentions "
            f"{row['n_listed']:,} get a listed name of the same thing, {row['n_defined']:,} are "
            f"acronyms that are spelt out as their text defines them, and {row['n_nearest']:,} get "
            f"the nearest name. {row['n_ambiguous']:,} name several things and stay, "
            + f"{row['n_distant']:,} have no name that is near enough, " * bool(row["n_distant"])
            + f"{row['n_unchanged']:,} have no other name ({row['surrogate']}).",
        )
        if row["n_nearest"]:
            yield Remark(
                rule="related_names",
                where=(row["dataset"], "", "", row["attack"]),
                sentence=f"The nearest names of {row['attack']} are related names, no synonyms: a "
                "salt, a subtype or another thing. What is lost to them does not show that the "
                'model lacks synonyms; mode = "strict" asks for those alone.',
            )


def _duplicates(run: Run) -> Iterator[Remark]:
    """Count the items that repeat an earlier one under another id."""
    copies: dict[str, Counter[object]] = defaultdict(Counter)
    nouns: dict[str, Noun] = {}
    for (dataset, _), item in run.folder.items.items():
        is_question = item.kind == Question.kind
        copies[dataset][_words(item) if is_question else item.hash] += 1
        nouns[dataset] = QUESTIONS if is_question else ITEMS
    for dataset, texts in copies.items():
        if n := texts.total() - len(texts):
            repeat = "repeats" if n == 1 else "repeat"
            yield Remark(
                rule="duplicates",
                where=(dataset,),
                sentence=f"{n:,} of {nouns[dataset].count(texts.total())} of {dataset} {repeat} an "
                "earlier one under another id. They are counted as if they were independent, so "
                "intervals are too narrow.",
            )


def _words(question: Question) -> tuple[object, ...]:
    texts = (question.question, question.passage, *sorted(question.options))
    return tuple(" ".join(text.casefold().split()) for text in texts)


def unread_models(run: Run) -> dict[str, str]:
    """Return model -> words, for models none of whose answers could be read.

    The words are the model where no clean answer could be read, and "model under attack" where that
    holds of the answers under an attack in one place.
    """
    called, unread = attack_names(cell.attack for cell in run.attacks), {}
    for victim, trials in run.by_model.items():
        clean = [t.verdict is Verdict.UNREADABLE for t in trials if t.is_answered]
        mute = dict.fromkeys(
            called[cell.attack.label]
            for cell in run.attacks
            if cell.place.victim == victim and _is_mute(cell)
        )
        if clean and all(clean):
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
                f"{n_cut:,} were cut off: raise max_new_tokens of [[victim]], or reasoning_tokens "
                "where its reasoning was cut off."
                if 2 * n_cut >= max(n_unread, 1)
                else "Another prompt, parser or answer_by may bring answers that can be read."
            )
            replies: Sequence[str] = [t.last.text or "" for t in trials if t.is_mute and t.last]
            if unread[victim] == victim:
                replies = list(run.folder.clean_replies(victim, REPLIES))
            distinct = list(dict.fromkeys(filter(None, replies)))[:REPLIES]
            shown = "".join(f' "{_short(reply)}"' for reply in distinct)
            yield Remark(
                rule="unread",
                where=("", "", victim),
                sentence=f"Not one answer of {unread[victim]} could be read, so nothing is "
                f"measured there. {advice}" + (f" It says:{shown}" if shown else ""),
            )
            continue
        for place, asked in run.answered.items():
            if place.victim != victim:
                continue
            n = sum(t.verdict is Verdict.UNREADABLE for t in asked)
            if n and n >= UNREADABLE * len(asked):
                yield Remark(
                    rule="unreadable_clean",
                    where=place,
                    sentence=f"{victim}: {n:,} of {len(asked):,} answers before any edit could not "
                    f"be read{_on(run, place)}. Accuracy counts them as not right.",
                )


def _cut_off(run: Run) -> Iterator[Remark]:
    for victim, trials in run.by_model.items():
        n_clean = sum(map(_is_cut, trials))
        n_edited = sum(t.queries.cut_off for t in trials)
        if n_clean or n_edited:
            yield Remark(
                rule="cut_off",
                where=("", "", victim),
                sentence=f"{victim}: {n_clean + n_edited:,} replies were cut off before an answer "
                "could be read. They are never right and never a success: raise max_new_tokens of "
                "[[victim]], and reasoning_tokens where an attack asks in turns.",
            )


def _cut_short(run: Run) -> Iterator[Remark]:
    cut = [t for t in run.trials if t.verdict is Verdict.CUT_SHORT]
    if cut:
        yield Remark(
            rule="cut_short",
            sentence=f"{len(cut):,} of {len(run.trials):,} trials did not end within "
            "trial_seconds. They count as held, and at their worst as lost: run again with "
            "--retry-failed.",
        )


def _letter_mass(run: Run) -> Iterator[Remark]:
    for place, clean in run.answered.items():
        masses = [t.before.mass for t in clean if t.before and t.before.mass is not None]
        if masses and (mean := fmean(masses)) < LETTER_MASS:
            yield Remark(
                rule="letter_mass",
                where=place,
                sentence=f"{place.victim} puts only {100 * mean:.0f} % of its probability on the "
                f"option letters{_on(run, place)}: it would hardly say what it is read as. Another "
                "prompt, or answer_by = text or generate, may ask it better.",
            )


def _one_letter(run: Run) -> Iterator[Remark]:
    """Name the models that answer nearly always the same letter, though keys differ."""
    for place, clean in run.answered.items():
        answers = [
            (t.before.answer, t.item.key)
            for t in clean
            if t.item.kind == Question.kind and t.before and t.before.answer
        ]
        if len(answers) < LEAST:
            continue
        ((letter, n),) = Counter(answer for answer, _ in answers).most_common(1)
        n_keys = sum(key == letter for _, key in answers)
        if n > ONE_LETTER * len(answers) >= n_keys:
            yield Remark(
                rule="one_letter",
                where=place,
                sentence=f"{place.victim} answers {letter} to {n:,} of {len(answers):,} questions"
                f"{_on(run, place)}, though {letter} is right in {n_keys:,} only: it may not read "
                "the options.",
            )


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
        for marks, n in Counter(one for one in marked if one is not None).most_common(1):
            if n > len(texts) / 2:
                read = "read as part of the answer"
                if not without_thoughts(f"{marks[0]} {marks[1]}"):
                    read = "taken for a thought and left out"
                sentence = (
                    f"{n:,} of {len(texts):,} replies of {place.victim}{_on(run, place)} hold "
                    f"{marks[0]} ... {marks[1]}, which is {read}. If it holds thoughts, set "
                    f'thoughts = ["{marks[0]}", "{marks[1]}"] of the model.'
                )
                yield Remark("unknown_marks", sentence, place)


def _marks(run: Run) -> Iterator[Remark]:
    """Say which marks of a tagger count otherwise than it may mean them, from its clean replies."""
    asked = [(place.victim, t) for place, clean in run.answered.items() for t in clean]
    taggers = dict.fromkeys(victim for victim, t in asked if t.item.kind == TAGGED)
    if not taggers:
        return
    from medstress.tasks.sentences import EntityTagging

    replies = run.folder.read(_clean_labels)
    for victim in taggers:
        spec = run.manifest["victims"][victim]["task"]
        task = EntityTagging(types=tuple(spec["types"]), names=spec["names"])
        others: Counter[str] = Counter()
        n_marked = n_inside = 0
        for labels in (labels for (name, _), labels in replies.items() if name == victim):
            types = (one.type for one in entities_of(labels))
            others.update(type_ for type_ in types if task.type_of(f"B-{type_}") not in task.types)
            read = task.read(labels)
            firsts = [read[one.start] for one in entities_of(read)]
            n_marked += len(firsts)
            n_inside += sum(label.startswith("I") for label in firsts)
        if others:
            marked = f"{others.total():,} entities of the type{'s' * (len(others) > 1)} {listed(sorted(others))}"
            sentence = f"{victim} marks {marked}, which the data do not annotate: they count as "
            sentence += "outside."
            if not n_marked:
                sentence += (
                    f" Nothing of {listed(task.types)} is marked: if it calls them otherwise, "
                    'translate with labels = {ITS_TYPE = "TYPE_OF_THE_DATA"} in [[victim]].'
                )
            yield Remark("other_types", sentence, ("", "", victim))
        elif not n_marked:
            sentence = f"{victim} marks nothing at all in the clean data: every entity counts as "
            sentence += "missed, and precision has nothing to divide by."
            yield Remark("no_marks", sentence, ("", "", victim))
        if n_inside:
            sentence = f"{victim} begins {n_inside:,} of {n_marked:,} entities with I-, after O or "
            sentence += "another type: F1 counts them, as the CoNLL script does, and Seqeval "
            sentence += "strict F1 does not."
            yield Remark("no_beginning", sentence, ("", "", victim))


def _clean_labels(reader: RunReader) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return (model, number of the item) -> the labels that the model returned for it, unedited."""
    labels = {}
    for one in reader.exchanges():
        if one.role == "victim" and one.purpose == "baseline" and one.answer is not None:
            answer = decode_answer(one.answer, 0, 0)
            if isinstance(answer, Tagged):
                labels[one.victim, one.item] = answer.labels
    return labels


def _unstable(run: Run) -> Iterator[Remark]:
    firsts = (t.first for t in run.trials if t.first is not None and not t.arm.is_control)
    again = [first.repeats for first in firsts if first.repeats is not None]
    if n := again.count(False):
        yield Remark(
            rule="not_repeated",
            sentence=f"{n:,} of {len(again):,} lost answers were right again when the same prompt "
            "was asked alone.",
        )


_SERVERS: Sequence[tuple[str, str, str]] = (
    (
        "temperature",
        "temperature",
        "The server of {victim} does not take temperature = {asked:g}, so the model was asked "
        "{at}. Its answers may differ when it is asked again. The server says: {said}",
    ),
    (
        "without_system",
        "system_turns",
        "The template of {victim} takes no system turns, or only turns that alternate: system "
        "text went to the head of the first user turn. The server says: {without_system}",
    ),
    (
        "ignores_schemas",
        "schemas",
        "The server at {url} (model {model!r}) does not follow the JSON schema it was asked for; "
        "replies are read as text (structured = false leaves the schema out).",
    ),
    (
        "reads_at_most",
        "window",
        "The server of {victim} reads {reads_at_most:,} tokens of a prompt and cuts longer ones "
        "without a word, so the model did not see all that it was asked. Raise its context "
        "(Ollama: num_ctx; llama.cpp: -c; vLLM: --max-model-len) and run again.",
    ),
)
"""What an endpoint notes, the rule, and the sentence."""


def _servers(run: Run) -> Iterator[Remark]:
    """Say what servers did not take as it was asked, and which cut prompts without a word."""
    for endpoint in run.manifest.get("endpoints") or ():
        facts, at = dict(endpoint), ("", "", endpoint["victim"])
        for name, words in (endpoint.get("left_out") or {}).items():
            server = f"The server of {endpoint['victim']}"
            sentence = f"{server} does not know {name}, so it was left out. It says: {words}"
            yield Remark("left_out", sentence, at)
        if refusal := endpoint.get("temperature"):
            sent = refusal["sent"]
            how = "without one" if sent is None else f"at temperature {sent:g}"
            facts |= {"asked": refusal["asked"], "said": refusal["said"], "at": how}
        for note, rule, sentence in _SERVERS:
            if endpoint.get(note):
                yield Remark(rule, sentence.format(**facts), at)


def _stored_attacks(run: Run) -> Iterator[Remark]:
    """Name the stored attacks whose rates lean on answers of the model they were first tried on."""
    hashes = {label: entry.get("model_hash") for label, entry in run.manifest["victims"].items()}
    for label, spec in run.manifest["attacks"].items():
        if spec["name"] != STORED or "set" not in spec:
            continue
        own = [victim for victim, one in hashes.items() if one == spec["source"]["model_hash"]]
        if own and not spec["is_blind"]:
            sentence = (
                f"{label} asks edits that answers of {own[0]} led to, so its rate on that model "
                "says nothing new."
            )
            yield Remark(rule="stored_attack", where=("", "", "", label), sentence=sentence)
        elif spec["selection"] == Selection.ALL and spec["budget"] > 1:
            sentence = (
                f"{label} asks the stored edits of an item up to the one that made "
                f"{spec['source']['victim']} lose it: its rates mean something at 1 query alone."
            )
            yield Remark(rule="stored_attack", where=("", "", "", label), sentence=sentence)


def _left_out(run: Run) -> Iterator[Remark]:
    """Say which controls attacks have not, and why."""
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    left_out = (run.manifest.get("controls") or {}).get("left_out") or {}
    for attack, reasons in left_out.items():
        for control, reason in reasons.items():
            by_reason[control, reason].append(attack)
    for (control, reason), attacks in by_reason.items():
        yield Remark(
            rule="control_left_out",
            level="note",
            sentence=f"No control {control} beside {listed(attacks)}: {reason}.",
        )


def _extended(run: Run) -> Iterator[Remark]:
    if n := (run.manifest.get("criteria") or {}).get("extended", 0):
        times = "once" if n == 1 else f"{n:,} times"
        yield Remark(
            rule="extended",
            sentence=f"Items were added {times} after the run had begun. Who saw numbers before "
            "may have stopped when they pleased, so criteria say less.",
        )


RULES: Sequence[Callable[[Run], Iterable[Remark]]] = (
    _incomplete,
    _extended,
    _shards,
    _unread,
    _cut_off,
    _cut_short,
    _letter_mass,
    _one_letter,
    _unknown_marks,
    _marks,
    _unstable,
    _servers,
    _stored_attacks,
    _rows,
    _synonyms,
    _duplicates,
    _left_out,
)
"""In the order in which they are read."""


def _on(run: Run, place: Place) -> str:
    """Name a place where the run has several."""
    places: Mapping[Place, None] = dict.fromkeys(cell.place for cell in run.cells)
    varies = [i for i in (0, 1) if len({one[i] for one in places}) > 1]
    return f" on {', '.join(place[i] for i in varies)}" if varies else ""


def _is_cut(trial: Trial) -> bool:
    return trial.before is not None and trial.before.cut_off


def _short(reply: str) -> str:
    line = " ".join(reply.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."
