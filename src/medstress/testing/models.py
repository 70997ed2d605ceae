"""Tiny questions with invented names, resources for them, and models with a planted weakness.

A planted model knows the items and their right answers and answers right, except where its rule
makes it err, so it is known beforehand what an attack has to find. It is a function for the python
back end::

    from medstress.testing import planted, tiny_questions

    rule = planted(tiny_questions(8), lambda item, options: options != item.options)

    def answer(prompts):
        return rule(prompts)

For MedFuzz there are a target, attackers and judges: the target errs on an item as soon as the case
contains the item's cue, and the attacker inserts the sentences of its script::

    items = tiny_questions(8)
    target = rule_target(items, {"tiny-0": "teacher"})
    attacker = scripted_attacker(items, ["He works as a teacher."])
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from medstress.attacks.protocol import Attack
from medstress.core.calls import (
    Answer,
    Backend,
    BackendTraits,
    Call,
    Choose,
    Chosen,
    Classify,
    Compare,
    Compared,
    Generate,
    Generated,
    ModelIdentity,
    Rank,
    Reply,
    Score,
    Scored,
    Tag,
    Tagged,
)
from medstress.core.hashing import content_hash, rng_for
from medstress.core.items import LETTERS, Mention, Question
from medstress.core.resources import Exclusions, PerturbationSet, Resources

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from medstress.core.resources import FloatArray, IndexArray, SimilarityArray

TINY_TYPE = "T121"
"""UMLS semantic type of every mention in a tiny question (Pharmacologic Substance)."""
_NAMES = """
Abrotine Belcoxor Cylamide Dorvastat Emnitol Fuxapril Gantuzole Hervidol Ismocaine Jolteparin
Kuvramil Lembactam
mirozide nexodrel ovaquine pilbutan quortisone ruzolac sipthermin tavogrel umbracin voxetine
wulfanib xedramol
"""
_OPTIONS, REPLACEMENTS = _NAMES.split()[:12], tuple(_NAMES.split()[12:])
"""The options of tiny questions, and twelve invented names that are none."""


def tiny_questions(n: int) -> tuple[Question, ...]:
    """Make n questions with four options, each an invented drug.

    Ids start at ``tiny-0``, every stem is unique, keys cycle through A to D, and every option is
    one mention of type `TINY_TYPE`.

    >>> [(item.id, item.key, item.key_text) for item in tiny_questions(2)]
    [('tiny-0', 'A', 'Abrotine'), ('tiny-1', 'B', 'Fuxapril')]
    """
    options = [tuple(_OPTIONS[(4 * i + j) % len(_OPTIONS)] for j in range(4)) for i in range(n)]
    return tuple(
        Question(
            id=f"tiny-{i}",
            context=f"This is made-up case number {i}.",
            stem=f"Which drug is right for case {i}?",
            options=options[i],
            key="ABCD"[i % 4],
            mentions=tuple(
                Mention(field=letter, start=0, end=len(option), type=TINY_TYPE)
                for letter, option in zip("ABCD", options[i], strict=True)
            ),
        )
        for i in range(n)
    )


Distance = Callable[[str, str], float]
Vectors: TypeAlias = "Callable[[str], ArrayLike]"


class PerturbationTable:
    """A `PerturbationSet` from plain Python: no embedding, no vocabulary file, no synonyms.

    Its exclusions are simple: a name may replace an entity unless it equals an option of the item,
    ignoring case, or its distance to the key is not finite. A name that contains the key as a word
    is a variant of the key (`key_plus_words`) and excluded unless the rule includes variants.

    >>> table = PerturbationTable(["near", "far"], {"near": 0.1, "far": 0.9})
    >>> table.distances("any key").tolist(), table.distance_to("any key", "unknown")
    ([0.1, 0.9], nan)
    """

    def __init__(
        self,
        names: Sequence[str],
        distances: Mapping[str, float] | Distance | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        """Store names, distances and vectors.

        Args:
            names: the vocabulary, in order.
            distances: h(anchor, text) as a function; or text -> h, the same from every anchor
                (nan for missing texts). Default: 1/n, 2/n, ... 1 in the order of the names.
            vectors: the vector of a text, of any length, as a function. Default: a direction
                in eight dimensions that depends only on the text. They are unrelated to
                `distances`.
        """
        self.names: Sequence[str] = tuple(names)
        if distances is None:
            distances = {name: (i + 1) / len(self.names) for i, name in enumerate(self.names)}
        self._distances = distances
        self._vectors = vectors or _direction

    def vectors_of(self, indices: IndexArray) -> FloatArray:
        """Return the unit vectors of some names, shape (n, n_dimensions)."""
        return np.asarray(self._unit[indices], np.float64)

    def cosines(self, direction: FloatArray) -> SimilarityArray:
        """Return the cosine of every name's vector and a direction, shape (n_names,)."""
        return self._unit @ (direction / np.linalg.norm(direction)).astype(np.float32)

    @cached_property
    def _unit(self) -> SimilarityArray:
        return np.array([self.vector(name) for name in self.names], dtype=np.float32)

    def vector(self, text: str) -> FloatArray:
        """Return the unit vector of one text, shape (n_dimensions,); zeros stay zeros."""
        vector = np.asarray(self._vectors(text), dtype=np.float64)
        length = float(np.linalg.norm(vector))
        return vector / length if length else vector

    def distances(self, anchor: str) -> FloatArray:
        """Return h(anchor, name) for every name, shape (n_names,)."""
        return np.array([self.distance_to(anchor, name) for name in self.names], dtype=np.float64)

    def distance_to(self, anchor: str, text: str) -> float:
        """Return h(anchor, text) for one text; nan if undefined."""
        if callable(self._distances):
            return self._distances(anchor, text)
        return self._distances.get(text, math.nan)

    def obstacle(self, item: Question) -> str | None:
        """Return None: names without a distance are left out by `allowed`."""

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """Return the indices of the names that the rule keeps, ascending."""
        kept = [i for i, name in enumerate(self.names) if self._reason(item, name, rule) is None]
        return np.array(kept, dtype=np.int64)

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> dict[str, int]:
        """Return how many names the rule leaves out, by reason."""
        reasons = (self._reason(item, name, rule) for name in self.names)
        return dict(Counter(reason for reason in reasons if reason is not None))

    def evidence(self, item: Question, name: str, field: str) -> tuple[()]:
        """Return nothing: there are no tables."""
        return ()

    def objection(self, item: Question, name: str) -> str | None:
        """Return why the rule `exclude` would leave a name out by its text, or None."""
        if _folded(name) == _folded(item.key_text):
            return "key_duplicate"
        if _folded(name) in map(_folded, item.options):
            return "equal_to_option"
        kind = self.variant_class(item, name)
        return None if kind == "different" else kind

    def variant_class(self, item: Question, name: str) -> str:
        """Return `same_words` for the key itself, ignoring case, `key_plus_words` if the key is one
        of several words, else `different`."""
        if _folded(name) == _folded(item.key_text):
            return "same_words"
        return "key_plus_words" if _folded(item.key_text) in _folded(name).split() else "different"

    def _reason(self, item: Question, name: str, rule: Exclusions) -> str | None:
        if not math.isfinite(self.distance_to(item.key_text, name)):
            return "undefined_distance"
        objection = self.objection(item, name)
        included: dict[Exclusions, tuple[str | None, ...]] = {
            "exclude": (),
            "mark": ("key_plus_words",),
            "key_string": ("key_plus_words", "equal_to_option"),
        }
        return None if objection in included[rule] else objection


def _folded(text: str) -> str:
    return text.strip().casefold()


def _direction(text: str) -> FloatArray:
    """Return a pseudo-random direction in eight dimensions."""
    return rng_for(0, "PerturbationTable", "", text).standard_normal(8)


def tiny_resources(perturbations: PerturbationSet | None = None) -> Resources:
    """Return resources for `tiny_questions`: group `drugs` and a table of `REPLACEMENTS`."""
    return Resources(
        group="drugs",
        types=frozenset({TINY_TYPE}),
        perturbations=perturbations or PerturbationTable(REPLACEMENTS),
    )


PromptVictim: TypeAlias = Callable[[list[str]], list[dict[str, str]]]
"""Takes prompts with the options listed, and returns ``{"answer": letter}`` for each."""

Rule: TypeAlias = Callable[[Question, tuple[str, ...]], bool]
"""Returns whether the victim errs, given the original item and the options in the prompt."""

_WORD = re.compile(r"[^\W_]+")
_OPTION = re.compile(r"^([A-J]): (.*)$", re.MULTILINE)


def planted(items: Sequence[Question], errs: Rule) -> PromptVictim:
    """Make a victim that answers the key, or if `errs` is true the first other letter.

    Items are recognised by the words of their stems, so attacks that change these need another
    victim; white space, punctuation and case may change.

    Raises (the victim, when asked):
        ValueError: the prompt contains no item's stem, or does not list the options.
    """

    def answer(prompts: list[str]) -> list[dict[str, str]]:
        return [{"answer": _letter(items, errs, prompt)} for prompt in prompts]

    return answer


def _words(text: str) -> str:
    """Return the words of a text between single spaces, one at either end."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _letter(items: Sequence[Question], errs: Rule, prompt: str) -> str:
    words = _words(prompt)
    item = next((item for item in items if _words(item.stem) in words), None)
    if item is None:
        raise ValueError(f"a planted victim got a prompt without any of its items: {prompt!r}")
    listed = _OPTION.findall(prompt)[-len(item.options) :]
    if "".join(letter for letter, _ in listed) != item.letters:
        raise ValueError(f"a planted victim needs options as lines 'A: ...', got {prompt!r}")
    if not errs(item, tuple(text for _, text in listed)):
        return item.key
    return next(letter for letter in item.letters if letter != item.key)


def small_run(
    attack: Attack,
    model: Callable[[list[str]], Any] | None = None,
    items: Sequence[Question] | None = None,
    resources: Any = None,
    *,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Run an attack on a model as a run does: engine, store, referee, flip check.

    Args:
        attack: the attack.
        model: a function from prompts to answers; default: one that is always right.
        items: default: three tiny questions.
        resources: default: those of `tiny_resources`.
        seed: of the attack's random stream.

    Returns:
        One exported trial (docs: schema) an item, in order.

    >>> from medstress.attacks import EntitySubstitution
    >>> attack, items = EntitySubstitution(sampler="nearest"), tiny_questions(3)
    >>> model = planted(items, lambda item, options: "Mirozide" in options)
    >>> [row["verdict"] for row in small_run(attack, model, items)]
    ['flipped', 'flipped', 'flipped']
    """
    from medstress.api.one import run_trials
    from medstress.backends.python import wrap_function
    from medstress.engine.trial import Trial
    from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
    from medstress.tasks.templates import load_template
    from medstress.tasks.victim import Victim

    items = tiny_questions(3) if items is None else items
    task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)
    backend = wrap_function(
        planted(items, lambda *_: False) if model is None else model, version="small_run"
    )
    victim = Victim(label="planted", task=task, backend=backend)
    return run_trials(
        [
            Trial(
                dataset="tiny",
                group="drugs",
                item=item,
                victim=victim,
                attack_label=attack.name,
                attack=attack,
                resources=tiny_resources() if resources is None else resources,
                seed=seed if attack.is_random else None,
            )
            for item in items
        ]
    )


# -- scripted models -------------------------------------------------------------------------------
CALLS = frozenset({"generate", "score", "rank", "choose", "tag", "compare"})


def scripted_reply(call: Call, preferred: int = 0, share: float = 0.6) -> Answer:
    """Answer one call so that the option at position `preferred` wins.

    Args:
        call: the call.
        preferred: position of the winning option or continuation, from 0.
        share: its probability in scores; the others share the rest.

    >>> scripted_reply(Choose("Which?", "ABCD"), preferred=2).answer
    'C'
    """
    match call:
        case Generate():
            return Generated(text=LETTERS[preferred])
        case Choose(letters=letters):
            return Chosen(answer=letters[preferred])
        case Score(continuations=texts) | Rank(options=texts):
            n = len(texts)
            rest = math.log((1 - share) / max(n - 1, 1))
            logs = tuple(math.log(share) if i == preferred else rest for i in range(n))
            return Scored(log_probs=logs, n_tokens=(1,) * n)
        case Classify(labels=labels):
            return Chosen(answer=labels[preferred])
        case Tag(tokens=tokens):
            return Tagged(labels=("O",) * len(tokens))
        case Compare():
            return Compared(score=share)


class ScriptedBackend(Backend):
    """A back end whose replies come from a function of the call.

    Attributes:
        batches: the calls of every batch that it got, in order.
        n_closed: how often it was closed.
    """

    def __init__(
        self,
        reply: Callable[[Call], Reply] = scripted_reply,
        *,
        name: str = "scripted",
        batch_size: int = 32,
        workers: int = 1,
        ahead: int = 0,
        structured: bool = False,
    ) -> None:
        self.identity = ModelIdentity(name=name, hash=content_hash(["scripted", name]))
        self.traits = BackendTraits(
            calls=CALLS,
            batch_size=batch_size,
            workers=workers,
            ahead=ahead,
            structured=structured,
        )
        self.batches: list[tuple[Call, ...]] = []
        self.n_closed = 0
        self._reply = reply

    @property
    def asked(self) -> list[Call]:
        """All calls that it got, in order."""
        return [call for batch in self.batches for call in batch]

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call with the function."""
        self.batches.append(tuple(calls))
        return [self._reply(call) for call in calls]

    def close(self) -> None:
        """Count the call."""
        self.n_closed += 1


# -- roles of MedFuzz ------------------------------------------------------------------------------
Conversation: TypeAlias = list[dict[str, str]]
"""Turns as ``{"role", "content"}``."""
Speaker: TypeAlias = Callable[[list[Conversation]], list[str]]
"""Receives conversations, returns the next turn of each."""

_CASE = "as if the patient were in front of you."
_REASONED, _MENTION = "Its reasoning about it:\n", "One detail of the question was:\n"
_LONG = re.compile(r"[a-z]{5,}")


def rule_target(
    items: Sequence[Question],
    cues: Mapping[str, str],
    *,
    wrong: Collection[str] = (),
    admits: bool = False,
) -> Speaker:
    """Make a target that answers the key, or the first other letter if the case contains a cue.

    Args:
        items: recognised by their stems.
        cues: item id -> text that makes it err.
        wrong: ids of items that it always answers wrong.
        admits: whether its reasoning names the cue that misled it.
    """

    def reply(turns: Conversation) -> str:
        case, last = turns[1]["content"].partition(_CASE)[2], turns[-1]["content"]
        item = _item(case, items)
        cue = cues.get(item.id)
        errs = item.id in wrong or (cue is not None and cue in case)
        letter = _other(item) if errs else item.key
        if "step by step" in last:
            return f"It matters here: {cue}." if errs and admits else "The findings decide."
        if "How confident" in last:
            return json.dumps({"confidence": {x: 5 if x == letter else 1 for x in "ABCD"}})
        return json.dumps({"answer": letter})

    return lambda conversations: [reply(turns) for turns in conversations]


def scripted_attacker(
    items: Sequence[Question], script: Sequence[str], *, unreadable: Collection[int] = ()
) -> Speaker:
    """Make an attacker that inserts the sentences of a script before the stem, one per attempt.

    Asked as a judge, it answers as `scripted_judge`.

    Args:
        items: recognised by their stems.
        script: the sentence of each attempt, repeated from the start after the last. A sentence
            that begins with ``!`` replaces the whole context.
        unreadable: attempts, from 1, at which it never writes JSON, even when asked again.
    """

    judge = scripted_judge(items)

    def reply(turns: Conversation) -> str:
        requests = [turn["content"] for turn in turns if turn["role"] == "user"]
        attempt = sum('"target_option"' in text for text in requests)
        if not attempt:
            return judge([turns])[0]
        if attempt in unreadable:
            return "I would rather not."
        item = _item(requests[0], items)
        if '"target_option"' in requests[-1]:
            why = None if attempt == 1 else "It was not believed."
            plan = {"post_mortem": why, "target_option": _other(item), "plan": "Insert it."}
            return json.dumps(plan)
        text = script[(attempt - 1) % len(script)]
        if text.startswith("!"):
            return f"The edited question:\n{text} {item.stem}"
        edit = {"insertions": [{"text": text, "where": "end", "category": "occupation"}]}
        return f"```json\n{json.dumps(edit)}\n```"

    return lambda conversations: [reply(turns) for turns in conversations]


def scripted_judge(
    items: Sequence[Question], doubts: str = "", *, wrong: Collection[str] = (), objects: str = ""
) -> Speaker:
    """Make a judge that picks the key unless the item contains a text that makes it doubt.

    Asked whether a detail influenced a reasoning, it says yes if both share a word of five letters
    or more.

    Args:
        items: recognised by their stems.
        doubts: text that makes it pick another letter; empty for none.
        wrong: ids of items whose key it never picks.
        objects: text that it calls clinical evidence where it was inserted; ``*``: everything is.
    """

    def reply(text: str) -> str:
        if '"evidence"' in text:
            added = text.partition("\n\n")[0]
            words = added.partition("\n- ")[2].partition("\n")[0] if objects == "*" else objects
            return json.dumps({"evidence": [words] if words and words in added else []})
        if _MENTION in text:
            reasoning, _, rest = text.partition(_REASONED)[2].partition(_MENTION)
            detail = rest.partition("\n\n")[0]
            shared = set(_LONG.findall(reasoning.lower())) & set(_LONG.findall(detail.lower()))
            return json.dumps({"answer": "YES" if shared else "NO"})
        item = _item(text, items)
        errs = item.id in wrong or (doubts and doubts in text)
        answer = _other(item) if errs else item.key
        return json.dumps({"reasoning": "The findings.", "answer": answer})

    return lambda conversations: [reply(turns[-1]["content"]) for turns in conversations]


def _item(text: str, items: Sequence[Question]) -> Question:
    # Vignettes may end in the same sentence.
    named = [item for item in items if item.stem in text]
    named = [item for item in named if item.context[:40] in text] or named
    if not named:
        raise ValueError(f"a scripted model got a prompt without any of its items: {text!r}")
    return named[-1]


def _other(item: Question) -> str:
    return next(letter for letter in item.letters if letter != item.key)
