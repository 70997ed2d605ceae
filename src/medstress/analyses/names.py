"""What people call attacks, controls, models and items, where files use keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from medstress.analyses.shown import spaced
from medstress.core.arms import NOISE_CONTROL, AttackRecord
from medstress.core.items import Question
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.trials import Trial

HARMLESS: Mapping[str, str] = {
    "no_op": "harmless edits",
    "neutral_insertion": "neutral sentences",
    "paraphrase": "other wordings",
    "option_shuffle": "other orders of the options",
    "same_type": "random names of the same type",
    "repeat": "repeats of the same prompt",
}
"""Control -> words, the one that says most first."""
CONTROL_WORDS: Mapping[str, str] = {**HARMLESS, NOISE_CONTROL: "noise outside entities"}
"""The same for all controls."""
_ATTACKS: Mapping[str, str] = {
    **CONTROL_WORDS,
    "discrete_zoo": "searched names",
    "medfuzz": "MedFuzz",
    "attacked": "stored edits",
    "ocr_noise": "OCR noise",
    "synonym": "synonyms",
    "abbreviation": "abbreviations",
    "passage_swap": "a swapped passage",
    "passage_distractor": "a passage with a distractor",
    "passage_other": "another passage",
    "passage_none": "no passage",
}
_SAMPLERS: Mapping[str, str] = {"nearest": "nearest names", "farthest": "farthest names"}


def control_words(name: str) -> str:
    """Return what a control does, in a few words.

    >>> control_words("no_op")
    'harmless edits'
    """
    return CONTROL_WORDS.get(name, name.replace("_", " "))


def attack_words(attack: AttackRecord) -> str:
    """Return what an attack without a label of its own does, in a few words.

    >>> attack_words(AttackRecord(label="swap_noise", name="swap_noise"))
    'swap noise'
    """
    params = attack.params
    if attack.name == "entity_substitution":
        n = params.get("n") or 0
        drawn = "near names" if n < 0 else "far names" if n > 0 else "random names"
        words = _SAMPLERS.get(str(params.get("sampler")), drawn)
    else:
        words = _ATTACKS.get(attack.name, attack.name.replace("_", " "))
    return f"{words}, searched" if params.get("search", "none") != "none" else words


def attack_names(attacks: Iterable[AttackRecord]) -> dict[str, str]:
    """Return label -> name of attacks: the user's label, else words and what tells them apart.

    A label that nobody wrote begins with the name that the attack is registered under.

    >>> near = AttackRecord(label="entity_substitution n=-20", name="entity_substitution",
    ...                     params={"n": -20})
    >>> attack_names([near])
    {'entity_substitution n=-20': 'near names'}
    """
    by_label = {attack.label: attack for attack in attacks}
    words = {
        label: attack_words(attack) if label.startswith(attack.name) else label
        for label, attack in by_label.items()
    }
    n_of = Counter(words.values())
    names = {}
    for label, attack in by_label.items():
        rest = label.removeprefix(attack.name).strip(" _")
        is_shared = n_of[words[label]] > 1 and label.startswith(attack.name)
        names[label] = f"{words[label]} ({rest or label})" if is_shared else words[label]
    return names


def model_names(labels: Iterable[str]) -> dict[str, str]:
    """Return label -> name of models: the last part of a path unless two models share it.

    A name with spaces is no path. Underscores become spaces, as in tables and pictures, but in
    names of files.

    >>> model_names(["/models/a/llama", "gpt w/ passage"])
    {'/models/a/llama': 'llama', 'gpt w/ passage': 'gpt w/ passage'}
    """
    last = {
        label: label if " " in label else PurePosixPath(label.replace("\\", "/")).name or label
        for label in labels
    }
    n_of = Counter(last.values())
    return {label: spaced(label if n_of[name] > 1 else name) for label, name in last.items()}


@dataclass(frozen=True, slots=True)
class Noun:
    """What is counted."""

    one: str
    many: str

    def of(self, n: int) -> str:
        """Return the noun for a number."""
        return self.one if n == 1 else self.many

    def count(self, n: int) -> str:
        """Return a number with its noun.

        >>> Noun("item", "items").count(1_200)
        '1,200 items'
        """
        return f"{n:,} {self.of(n)}"


QUESTIONS, ENTITIES = Noun("question", "questions"), Noun("entity", "entities")
PAIRS, TEXTS = Noun("pair", "pairs"), Noun("text", "texts")
DOCUMENTS, ITEMS = Noun("document", "documents"), Noun("item", "items")
_NOUNS = {Question.kind: QUESTIONS, SentencePair.kind: PAIRS, TaggedText.kind: ENTITIES}


def noun_of(trial: Trial) -> Noun:
    """Return what a trial is about: a question, a pair, an entity of a tagged text, an item."""
    return _NOUNS.get(trial.item.kind, ITEMS)


def capital(text: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return text[:1].upper() + text[1:]
