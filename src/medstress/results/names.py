"""Names in words: what a page or a table calls an attack, a victim, a data set or a group.

A label that the user wrote is kept, also where a list of values adds to it (`near n=-20`). Where
the file gives none, the label is made of keys (`entity_substitution n=-20`), and people read words
instead (`near names`). Of the path of a model the last part stands, if one model has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from medstress.core.attacked import NAME
from medstress.core.controls import BETWEEN, NOISE_CONTROL
from medstress.results.formats import as_text, shorten

LONGEST = 60
"""Characters of the longest name in running text and plots; the key beside it is whole."""

CONTROL_WORDS = {
    "no_op": "harmless edits",
    "same_type": "random names of the type",
    "neutral_insertion": "neutral sentences",
    "paraphrase": "other words",
    "option_shuffle": "other order of options",
    "repeat": "asked again",
}
"""Control -> words."""

_WORDS = {
    **CONTROL_WORDS,
    "discrete_zoo": "searched names",
    "medfuzz": "MedFuzz",
    "attacked": "stored edits",
    "keyboard_noise": "keyboard typos",
    "ocr_noise": "OCR noise",
    "synonym": "synonyms",
    "abbreviation": "abbreviations",
    NOISE_CONTROL: "noise outside entities",
    "passage_swap": "swapped passage",
    "passage_distractor": "passage with a distractor",
    "passage_other": "another passage",
    "passage_none": "no passage",
}
_SAMPLERS = {"random": "random names", "nearest": "nearest names", "farthest": "farthest names"}


class Named(str):
    """A name in words that remembers its key, for the tooltip beside it."""

    __slots__ = ("key",)

    key: str
    """The key that it stands for."""

    def __new__(cls, words: str, key: str) -> Named:
        """Return words that remember a key."""
        made = super().__new__(cls, words)
        made.key = key
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Named, (str(self), self.key)


def key_of(name: Any) -> str:
    """Return the key of a name; a text without one is its own key.

    >>> key_of(Named("near names", "entity_substitution n=-20")), key_of("drugs")
    ('entity_substitution n=-20', 'drugs')
    """
    return name.key if isinstance(name, Named) else as_text(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Key -> name of every attack, victim, data set and group of a run, unique among their kind."""

    attacks: Mapping[str, str] = field(default_factory=dict)
    victims: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    def of(self, factor: str, key: Any) -> str:
        """Return the name of a key; what is not known keeps its key, shortened.

        Args:
            factor: "attack", "victim", "dataset" or "group".
            key: as in the rows of a summary.
        """
        known: Mapping[str, str] = getattr(self, f"{factor}s")
        text = as_text(key)
        return known.get(text) or shorten(text, LONGEST)

    def named(self, factor: str, key: Any) -> Named:
        """Return the name of a key, with the key."""
        return key if isinstance(key, Named) else Named(self.of(factor, key), as_text(key))


def warnings_of(summary: Mapping[str, Any]) -> list[str]:
    """Return the warnings of a summary; those that begin with an attack's key, with its name.

    >>> warnings_of({"names": {"attacks": {"entity_substitution n=-20": "near names"}},
    ...              "warnings": ["entity_substitution n=-20: 3 saw no edit"]})
    ['near names: 3 saw no edit']
    """
    attacks: Mapping[str, str] = (summary.get("names") or {}).get("attacks") or {}
    return [_in_words(text, attacks) for text in summary.get("warnings") or ()]


def _in_words(text: str, attacks: Mapping[str, str]) -> str:
    for key, words in attacks.items():
        # Some speak of an attack alone, others of an attack on a data set.
        if text.startswith((f"{key}: ", f"{key} on ")):
            return words + text[len(key) :]
    return text


def names_of(manifest: Mapping[str, Any]) -> Names:
    """Return the names of what a run names in its manifest."""
    config = manifest.get("config") or {}
    specs: Mapping[str, Any] = manifest.get("attacks") or {}
    given = {str(table["label"]) for table in config.get("attack") or () if table.get("label")}
    return Names(
        attacks=attack_names(specs, given),
        victims=_unique(_victim_names(list(manifest.get("victims") or {}))),
        datasets=_unique((label, label) for label in manifest.get("datasets") or {}),
        groups=_unique((label, label) for label in manifest.get("groups") or {}),
    )


def attack_words(spec: Mapping[str, Any]) -> str:
    """Return what an attack does, in a few words.

    >>> attack_words({"name": "entity_substitution", "sampler": "pdws", "n": -20})
    'near names'
    >>> attack_words({"name": "swap_noise", "search": "greedy"})
    'swap noise, searched'
    >>> attack_words({"name": "attacked", "of": {"name": "lasa"}, "label": "lasa"})
    'lasa, stored'
    """
    name = str(spec.get("name"))
    if name == NAME and "label" in spec:
        return f"{spec['label']}, stored"
    if name == "entity_substitution":
        n = spec.get("n") or 0
        weighted = "near names" if n < 0 else "far names" if n > 0 else _SAMPLERS["random"]
        words = _SAMPLERS.get(str(spec.get("sampler")), weighted)
    else:
        words = _WORDS.get(name, name.replace("_", " "))
    return f"{words}, searched" if spec.get("search", "none") != "none" else words


def last_part(model: str) -> str:
    """Return the last part of a model's path or hub name.

    >>> last_part("/models/meta/llama-3-8b/"), last_part("model.py:answer")
    ('llama-3-8b', 'model.py:answer')
    """
    return PurePosixPath(model.replace("\\", "/")).name or model


def _victim_names(labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield label and name of each model: the last part of a path, the whole where two share it."""
    # A name with spaces is no path: "GPT-4 w/ RAG".
    last = {label: label if " " in label else last_part(label) for label in labels}
    shared = {name for name, n in Counter(last.values()).items() if n > 1}
    for label, name in last.items():
        yield label, label if name in shared else name


def _kept(label: str, given: Iterable[str]) -> str | None:
    """Return the label of an attack if the user wrote it; of a list of values they are added.

    >>> _kept("near", ["near"]), _kept("near n=-20", ["near"]), _kept("swap_noise", ["near"])
    ('near', 'near (n -20)', None)
    """
    for mine in sorted(given, key=len, reverse=True):
        if label == mine:
            return label
        if label.startswith(f"{mine} "):
            added = label.removeprefix(f"{mine} ").replace("=", " ").replace("_", " ")
            return f"{mine} ({added})"
    return None


def attack_names(specs: Mapping[str, Any], given: Collection[str]) -> dict[str, str]:
    """Return label -> what people call an attack.

    Args:
        specs: label -> its spec.
        given: the labels that the user wrote.
    """
    arms = {label: spec for label, spec in specs.items() if "control_of" not in spec}
    words = [(label, _kept(label, given) or attack_words(arms[label])) for label in arms]
    twice = {name for name, n in Counter(name for _, name in words).items() if n > 1}
    told = {name: [label for label, each in words if each == name] for name in twice}
    found = _unique(
        (label, f"{name} ({_told_apart(label, told[name], arms)})" if name in twice else name)
        for label, name in words
    )
    for label, spec in specs.items():
        if "control_of" in spec:
            attack = label.rpartition(BETWEEN)[0]
            found[label] = f"{found.get(attack, attack)}{BETWEEN}{attack_words(spec)}"
    return found


def _told_apart(label: str, labels: Sequence[str], specs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the parameters in which attacks of one name differ."""
    keys = dict.fromkeys(key for each in labels for key in specs[each])
    differing = [k for k in keys if len({repr(specs[each].get(k)) for each in labels}) > 1]
    shown = [f"{k.replace('_', ' ')} {as_text(specs[label].get(k))}" for k in differing]
    return ", ".join(shown) or label


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Shorten names; those that end alike are numbered."""
    found: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for key, name in pairs:
        short = shorten(name, LONGEST)
        seen[short] += 1
        number = f" #{seen[short]}" if seen[short] > 1 else ""
        found[key] = f"{shorten(name, LONGEST - len(number))}{number}" if number else short
    return found
