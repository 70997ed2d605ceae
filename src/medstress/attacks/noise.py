"""Noise and other names: what typing, scanning and usage do to the words of an item.

Each is a pure function `changes(words, rng, resources)` of the words of one text (`core.items.
Words`) and its draws; `Noise` does all else: which texts, what is asked, what is a success. Changes
are ranges of tokens of the original with the words there instead. They do not overlap and none
crosses the border of an entity, so any subset of them is a perturbation as well, which is what a
search needs.

Reference: Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
2020 (METHODS section 4); rules and the keyboard are recovered from published data (4.3, 4.4).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as held
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from medstress.attacks.names import BY_CHOICES, Choices
from medstress.attacks.protocol import Attack, Ends, parameters
from medstress.attacks.set_search import greedy, random_growth
from medstress.core.hashing import content_hash
from medstress.core.items import OUTSIDE, PAIRS, QUESTIONS, TAGGED, TEXTS, Marked, Question, Words
from medstress.core.outcomes import Goal, Moved, Untargeted
from medstress.core.queries import Predict, Steps, ask
from medstress.core.resources import Resources
from medstress.core.sentences import Entity, entities_of
from medstress.core.text import Edit, join_tokens, tokenise
from medstress.entities.names import is_acronym

if TYPE_CHECKING:
    from numpy.random import Generator

Tokens: TypeAlias = tuple[str, ...]
Change: TypeAlias = tuple[int, int, Tokens]
"""(first token, one past the last, new tokens, at least one), in the tokens of the original."""
Draws: TypeAlias = Sequence[Sequence[float]]
"""Uniform numbers in [0, 1), shape (edits_per_word, 2): where in the word, and what there."""
Replacements: TypeAlias = Mapping[str, tuple[Tokens, ...]]
"""Mention (tokens joined by spaces, lower case) -> its other names, the preferred one first."""
Rate: TypeAlias = Annotated[float, Field(gt=0, le=1)]
NonEmpty: TypeAlias = Annotated[str, Field(min_length=1)]

DEFAULT_FIELD = "question"
"""What noise perturbs in questions unless `field` says otherwise."""
GAZETTEER = "gazetteer"
"""The recogniser that needs no model: the names of the shipped tables."""
DEFINED, UNCHANGED = "defined", "unchanged"
"""Sources of the other names of a mention: the definition of an acronym in its document, none."""
PUBLISHED = "en_core_sci_sm"
"""The paper says a biomedical spaCy model, not which; this is scispaCy's smallest."""


@dataclass(frozen=True, kw_only=True)
class NoiseResources:
    """What noise may read; built once before a run."""

    lexicon: frozenset[str] = frozenset()
    """Words, in lower case, that `scope = "lexicon"` perturbs wherever they stand."""
    replacements: Mapping[str, Replacements] = held(default_factory=dict)
    """By the `table` of a noise: other names of the data's mentions."""
    mentions: Mapping[str, tuple[Marked, ...]] = held(default_factory=dict)
    """Text of a pair or question -> its entities."""
    words: Mapping[str, frozenset[str]] = held(default_factory=dict)
    """By the `word_list` of a noise: words of a file or of mentions, as `word_key` writes them."""
    absent: tuple[str, ...] = ()
    """The word lists of which no word occurs in the data."""
    sources: Mapping[str, Mapping[str, str]] = held(default_factory=dict)
    """By the `table` of a noise: where the other names of a mention come from, or why it has
    none."""
    defined: Mapping[Tokens, Mapping[Tokens, Tokens]] = held(default_factory=dict)
    """Tokens of a text -> an acronym in it, as written -> the long form that its document
    defines."""
    means_another: Callable[[Question, Edit, Sequence[Edit]], bool] | None = None
    """Whether the name that an edit puts in one option means what another option says, as it is or
    with the further edits; it follows from the tables of names, so it is not hashed again."""

    @cached_property
    def most_parts(self) -> Mapping[str, int]:
        """By word list: the most parts that one of its words has."""
        return {
            name: max((word.count(" ") + 1 for word in words), default=0)
            for name, words in self.words.items()
        }

    @cached_property
    def hash(self) -> str:
        """Content hash."""
        tables = {name: dict(table) for name, table in self.replacements.items()}
        words = {name: sorted(words) for name, words in self.words.items()}
        defined = [[text, sorted(forms.items())] for text, forms in self.defined.items()]
        return content_hash([sorted(self.lexicon), tables, dict(self.mentions), words, defined])


def noise_of(resources: NoiseResources | Resources) -> NoiseResources | None:
    """Return what noise may read; groups of questions hold it with their names."""
    noise = resources.noise if isinstance(resources, Resources) else resources
    return noise if isinstance(noise, NoiseResources) else None


@parameters
class Noise(Attack):
    """Base of noises. Write `changes`, and what else is not as here.

    `search = "none"` is what the paper does: every item has one perturbed copy with all changes,
    asked once. A search looks, within `budget` queries, for as few of them as change the answer
    (`set_search`). A success of several edits does not end it, because fewer may be enough.

    For a tagged text, a trial is about one gold entity that was found strictly before; it is
    flipped if it is no longer found. The entities of a sentence share its perturbation, so a copy
    is one call. For a pair, one text is perturbed and the change of score is measured; it counts
    as flipped only if it exceeds `max_change`. For a question, one field of it is perturbed, and a
    wrong answer is a success. Only questions that were answered right are attacked. Of sentences
    every copy is asked, because scores of whole data sets, such as F1, need all of them.

    *Differs from the paper*, which does not say which sentence of a pair it perturbs: the first.
    """

    takes = frozenset({QUESTIONS, TAGGED, PAIRS})

    budget: Annotated[int, Field(ge=1)] = 1
    """Perturbed queries per trial; 1 without a search."""
    search: Literal["none", "greedy", "random"] = "none"
    """`greedy` by importance, or `random`."""
    side: Literal["first", "second", "random"] = "first"
    """Pairs: which text is perturbed."""
    max_change: Annotated[float, Field(ge=0)] | None = None
    """Pairs: a larger change of the score, up or down, is a success; unset: only measured."""
    field: Literal["question", "stem", "context", "passage", "options"] = "question"
    """Questions: what is perturbed: `question` is context and stem, `options` are the wrong ones:
    the words of the right answer stay."""

    def __post_init__(self) -> None:
        if self.search == "none" and self.budget != 1:
            raise ValueError(
                f"budget = {self.budget}: one perturbed copy is one query; write "
                'search = "greedy" or "random" to look for few edits within a budget'
            )

    @abstractmethod
    def changes(self, words: Words, rng: Generator, resources: NoiseResources) -> Iterable[Change]:
        """Return what changes in one text.

        Args:
            words: tokens and labels of the text.
            rng: of the item; the draws depend on the item and nothing else.
            resources: the lexicon and other names of mentions.
        """

    @property
    def is_drawn(self) -> bool:
        """Whether `changes` draws."""
        return True

    @property
    def fields(self) -> frozenset[str]:
        """The text of a question, if it is one that a prompt may leave out."""
        return frozenset({self.field} & set(TEXTS))

    @property
    def success(self) -> Goal:
        """A wrong answer, or a score that moves further than `max_change`."""
        return Untargeted() if self.max_change is None else Moved(self.max_change)

    @property
    def ends(self) -> Ends:
        """A search ends with a single edit that succeeds."""
        return "success" if self.search == "none" else "smallest"

    @property
    def is_random(self) -> bool:
        """Whether changes, search or side are drawn."""
        return self.is_drawn or self.search == "random" or self.side == "random"

    @property
    def every_item(self) -> bool:
        """Whether every item has its copy."""
        return self.search == "none"

    def spec(self) -> dict[str, Any]:
        """Return the parameters, those of all noises last, without `choices`, which shows in
        others."""
        values = super().spec()
        values.pop("choices", None)
        return {
            name: values[name] for name in sorted(values, key=Noise.__annotations__.__contains__)
        }

    @property
    def own(self) -> dict[str, Any]:
        """Name and parameters of what it does to words, without those of all noises."""
        return {k: v for k, v in self.spec().items() if k not in Noise.__annotations__}

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters that tell attacks of this name apart in labels."""
        return {**self.spec(), "field": None if self.field == DEFAULT_FIELD else self.field}

    def obstacle(self, item: Any, resources: NoiseResources | Resources) -> str | None:
        """Return why this item cannot be attacked, or None."""
        reason: str | None = item.lacks_words(self.field)
        return reason

    def run(self, item: Any, rng: Generator, resources: NoiseResources | Resources) -> Steps[Any]:
        """Ask about the perturbed copy, or search among its edits; see `Attack.run`."""
        edits = self.edits(item, rng, resources)
        if self.search == "none":
            copy = item.candidate(edits)
            yield from ask([Predict(copy)])
            return copy
        if not edits:
            return None
        if self.search == "greedy":
            return (yield from greedy(item, item.nearest_first(edits), self.budget))
        return (yield from random_growth(item, edits, self.budget, rng))

    def edits(
        self, item: Any, rng: Generator, resources: NoiseResources | Resources
    ) -> tuple[Edit, ...]:
        """Return all edits of an item or unit, text by text."""
        noise = noise_of(resources)
        if noise is None:
            raise ValueError(f"noise needs NoiseResources, got {resources!r}")
        edits = (
            words.edit(start, end, *new)
            for words in item.words(noise.mentions, self.field, self.side, rng)
            for start, end, new in sorted(self.changes(words, rng, noise))
        )
        sound: tuple[Edit, ...] = item.sound(tuple(edits))
        return sound


# -- which words ------------------------------------------------------------------------------
@parameters
class Scoped(Noise):
    """Base of noises that choose words: where they choose them from."""

    scope: Literal["lexicon", "entities", "all", "recognised", "words"] = BY_CHOICES
    """Which words: those of the `lexicon` wherever they stand (METHODS 4.2), those of gold
    `entities`, `all`, those of `recognised` mentions or of your list of `words`, also wherever they
    stand; default `lexicon`, as_published and as_released `recognised`."""
    words: NonEmpty | None = None
    """scope = "words": a file with one word, or several in a row, per line."""
    recogniser: NonEmpty | None = None
    """scope = "recognised": `gazetteer`, or a spaCy pipeline by name or folder, every entity of
    which counts whatever its label; default `gazetteer`, as_published and as_released scispaCy's
    `en_core_sci_sm`."""
    choices: Choices = "default"
    """The defaults of scope and recogniser (METHODS section 7, row 22). No code was released, so
    `as_published` and `as_released` are both what the paper says."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_default = self.choices == "default"
        if self.scope is BY_CHOICES:
            object.__setattr__(self, "scope", "lexicon" if is_default else "recognised")
        for key, scope in (("words", "words"), ("recogniser", "recognised")):
            value = getattr(self, key)
            if value is not None and self.scope != scope:
                raise ValueError(
                    f'{key}: expected with scope = "{scope}", got {value!r} with scope = '
                    f"{self.scope!r}"
                )
        if self.scope == "words" and self.words is None:
            raise ValueError('scope = "words" needs a list: add words = "FILE", one word per line')
        if self.scope == "recognised" and self.recogniser is None:
            object.__setattr__(self, "recogniser", GAZETTEER if is_default else PUBLISHED)

    @property
    def word_list(self) -> str | None:
        """Key of its words in `NoiseResources.words`; None if it reads none."""
        named = {"words": self.words, "recognised": self.recogniser}.get(self.scope)
        return None if named is None else f"{self.scope} {named}"

    def in_scope(self, words: Words, resources: NoiseResources) -> Sequence[int]:
        """Return the tokens in scope, in order."""
        listed = self.word_list
        if listed is not None:
            most = resources.most_parts[listed]
            return listed_places(words.tokens, resources.words[listed], most)
        match self.scope:
            case "all":
                return range(len(words.tokens))
            case "entities":
                return [n for n, label in enumerate(words.labels) if label != OUTSIDE]
            case _:
                lexicon = resources.lexicon
                return [n for n, token in enumerate(words.tokens) if token.lower() in lexicon]


def word_key(word: str) -> str:
    """Return the key of a word, or of several in a row, in word lists.

    >>> word_key("Beta-blocker"), word_key("beta blocker")
    ('beta - blocker', 'beta blocker')
    """
    return " ".join(tokenise(word.lower()))


def listed_places(tokens: Sequence[str], listed: Collection[str], most: int) -> list[int]:
    """Return the tokens that are in a word list, alone or as part of a run, in order.

    Whole tokens are compared, however the corpus is tokenised: `beta-blocker` is one token or
    three.

    Args:
        tokens: of a sentence.
        listed: the words, as `word_key` writes them.
        most: the most parts that one of them has.

    >>> listed_places(("Beta-blocker", "beta", "-", "blocker", "beta", "blocker"),
    ...               {"beta - blocker"}, 3)
    [0, 1, 2, 3]
    """
    keys = [word_key(token).split() for token in tokens]
    places: set[int] = set()
    for start in range(len(keys)):
        parts: list[str] = []
        for end in range(start, len(keys)):
            parts += keys[end]
            if len(parts) > most:
                break
            if " ".join(parts) in listed:
                places.update(range(start, end + 1))
    return sorted(places)


# -- letters ----------------------------------------------------------------------------------
@parameters
class LetterNoise(Scoped):
    """Base of noises of single words. Write `once`, one edit of a word.

    A word is a token with a letter, long enough for the noise: "500" never changes, but digits next
    to letters do ("250mg" may become "205mg"). Every occurrence has its own draws, and a lower
    `rate` or fewer `edits_per_word` with the same seed make a part of the same edits.
    """

    min_length: ClassVar[int] = 2
    """Shorter words stay as they are."""

    rate: Rate = 1.0
    """Probability that a word is perturbed; the paper perturbs all."""
    edits_per_word: Annotated[int, Field(ge=1, le=20)] = 1
    """Successive edits in a word; the paper makes one."""

    @abstractmethod
    def once(self, word: str, at: float, which: float) -> str:
        """Return the word after one edit, a function of two draws in [0, 1): where, and what."""

    def edit(self, word: str, draws: Draws) -> str:
        """Return the word after one edit for each row of `draws`."""
        for at, which in draws:
            word = self.once(word, at, which)
        return word

    def can_edit(self, word: str) -> bool:
        """Return whether a token is a word that is long enough."""
        return len(word) >= self.min_length and any(map(str.isalpha, word))

    def changes(self, words: Words, rng: Generator, resources: NoiseResources) -> Iterator[Change]:
        """Change the words in scope."""
        tokens = words.tokens
        places = [n for n in self.in_scope(words, resources) if self.can_edit(tokens[n])]
        if not places:
            return
        chances = rng.random(len(places)).tolist()
        # Edits are the first axis: more of them begin with the same numbers.
        draws = rng.random((self.edits_per_word, len(places), 2)).tolist()
        for number, place in enumerate(places):
            if chances[number] < self.rate:
                word = self.edit(tokens[place], [row[number] for row in draws])
                if word != tokens[place]:
                    yield place, place + 1, (word,)


@parameters
class SwapNoise(LetterNoise):
    """Swap characters i and i + 1 of a word, i uniform in {1, ..., length - 3} (0-based).

    First and last characters are never moved. Equal neighbours are not drawn again, so "blood"
    stays as it is half the time.
    """

    name = "swap_noise"
    min_length = 4

    def once(self, word: str, at: float, which: float) -> str:
        """Swap at one place.

        >>> SwapNoise().once("aspirin", 0.3, 0.0)
        'asiprin'
        """
        i = 1 + int(at * (len(word) - 3))
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


_KEYS = (files("medstress.attacks") / "data" / "keyboard.tsv").read_text("utf-8")
NEIGHBOURS = dict(line.split("\t") for line in _KEYS.splitlines()[1:])
"""US layout with diagonals, the row of digits and punctuation; not symmetric."""


@parameters
class KeyboardNoise(LetterNoise):
    """Replace one character, uniform over the whole word, by one of its neighbours, uniform.

    Only lower-case letters have neighbours: where a capital, a digit or a hyphen is drawn, the
    word stays as it is.
    """

    name = "keyboard_noise"

    def once(self, word: str, at: float, which: float) -> str:
        """Slip on one key.

        >>> KeyboardNoise().once("renal", 0.9, 0.0), KeyboardNoise().once("Renal", 0.0, 0.0)
        ('rena,', 'Renal')
        """
        i = int(at * len(word))
        near = NEIGHBOURS.get(word[i])
        return word[:i] + near[int(which * len(near))] + word[i + 1 :] if near else word


@parameters
class CaseNoise(LetterNoise):
    """Write a word in another case; its letters stay."""

    name = "case_noise"
    min_length = 1

    to: Literal["random", "upper", "lower", "capitalised", "letter"] = "random"
    """`letter`: one letter changes its case; `random`: any of the others."""

    def once(self, word: str, at: float, which: float) -> str:
        """Change the case of the word, or of one letter."""
        modes = ("upper", "lower", "capitalised", "letter")
        match modes[int(which * len(modes))] if self.to == "random" else self.to:
            case "upper":
                return word.upper()
            case "lower":
                return word.lower()
            case "capitalised":
                return word.capitalize()
            case _:
                letters = [i for i, character in enumerate(word) if character.isalpha()]
                i = letters[int(at * len(letters))]
                return word[:i] + word[i].swapcase() + word[i + 1 :]


_ALIKE = "l1 lI il o0 O0 S5 B8 Z2 G6 ec hb gq nu ao tf yv m:rn d:cl w:vv h:li U:ll k:lc"
_PAIRS = [(pair[0], pair[1:].lstrip(":")) for pair in _ALIKE.split()]
CONFUSIONS = (*_PAIRS, *((read, seen) for seen, read in _PAIRS))
"""(in the text, as read), in both directions."""


@parameters
class OcrNoise(LetterNoise):
    """Read one place of a word as what looks like it, uniform over places and readings.

    A word without such a place stays as it is.
    """

    name = "ocr_noise"

    def once(self, word: str, at: float, which: float) -> str:
        """Misread one place."""
        readings = confusions_in(word)
        if not readings:
            return word
        i, seen, read = readings[int(at * len(readings))]
        return word[:i] + read + word[i + len(seen) :]


@lru_cache(maxsize=1 << 16)
def confusions_in(word: str) -> tuple[tuple[int, str, str], ...]:
    """Return (place, characters there, as read) for everything that can be misread, by place.

    >>> confusions_in("turn")
    ((0, 't', 'f'), (1, 'u', 'n'), (2, 'rn', 'm'), (3, 'n', 'u'))
    """
    return tuple(
        (i, seen, read)
        for i in range(len(word))
        for seen, read in CONFUSIONS
        if word.startswith(seen, i)
    )


# -- hyphens and spaces -----------------------------------------------------------------------
HYPHEN = "-"


@parameters
class HyphenNoise(Scoped):
    """Drop, add or move hyphens and spaces between words in scope, and break long words.

    A hyphen between two words is dropped, with or without a space in its place; two neighbouring
    words run together or are hyphenated; a word of six or more letters breaks in two. Edits are
    drawn from left to right. All words of an edit must be in scope, and no edit crosses the border
    of an entity.
    """

    name = "hyphen_noise"

    rate: Rate = 1.0
    """Probability that a place is edited."""

    def changes(self, words: Words, rng: Generator, resources: NoiseResources) -> Iterator[Change]:
        """Edit the places that are drawn."""
        places = list(self._places(words, resources))
        draws = rng.random((len(places), 2)).tolist()
        position = 0
        for (start, end), (chance, which) in zip(places, draws, strict=True):
            if start >= position and chance < self.rate:
                ways = _rewritten(words.tokens[start:end])
                yield start, end, ways[int(which * len(ways))]
                position = end

    def _places(self, words: Words, resources: NoiseResources) -> Iterator[tuple[int, int]]:
        """Yield the ranges that can be edited, in order, longest first; they may overlap."""
        chosen, tokens = set(self.in_scope(words, resources)), words.tokens
        inside = [n in chosen and token.isalpha() for n, token in enumerate(tokens)]
        n = len(inside)
        for start in range(n):
            for end in (start + 3, start + 2, start + 1):
                if end > n or not (inside[start] and inside[end - 1]):
                    continue
                if end == start + 3 and tokens[start + 1] != HYPHEN:
                    continue
                if is_one_unit(words.labels[start:end]) and _rewritten(tokens[start:end]):
                    yield start, end


def is_one_unit(labels: Sequence[str]) -> bool:
    """Return whether neighbouring tokens lie in one entity, or all outside."""
    inside = OUTSIDE if labels[0] == OUTSIDE else f"I-{labels[0][2:]}"
    return all(label == inside for label in labels[1:])


def _rewritten(tokens: Sequence[str]) -> tuple[Tokens, ...]:
    """Return the replacements of one word, two words, or two words with a hyphen between them."""
    first, last = tokens[0], tokens[-1]
    match len(tokens):
        case 3:
            return (first, last), (first + last,)
        case 2:
            return (first + last,), (first, HYPHEN, last)
        case _:
            return tuple((first[:i], first[i:]) for i in range(3, len(first) - 2))


# -- other names of entities ------------------------------------------------------------------
class NameNoise(Noise):
    """Base of noises that put other names in the place of whole gold entities."""

    choice: Literal["fixed", "drawn"]
    """`fixed`: one name for each mention string; `drawn`: a random one for each occurrence."""

    @property
    @abstractmethod
    def table(self) -> str:
        """Key of its names in `NoiseResources.replacements`."""

    @property
    def is_drawn(self) -> bool:
        """Whether names are drawn."""
        return self.choice == "drawn"

    def changes(self, words: Words, rng: Generator, resources: NoiseResources) -> Iterator[Change]:
        """Replace every entity that has other names; `fixed` takes the first."""
        for entity in entities_of(words.labels):
            names, _ = self.other_names(words, entity, resources)
            if names:
                which = 0 if self.choice == "fixed" else int(rng.random() * len(names))
                yield entity.start, entity.end, names[which]

    def other_names(
        self, words: Words, entity: Entity, resources: NoiseResources
    ) -> tuple[Sequence[Tokens], str]:
        """Return the other names of an entity, and their source; without any, why there is none."""
        key = mention_key(words.tokens[entity.start : entity.end])
        source = resources.sources.get(self.table, {}).get(key, UNCHANGED)
        return resources.replacements[self.table].get(key, ()), source


def mention_key(tokens: Sequence[str]) -> str:
    """Return the key of a mention in a table.

    >>> mention_key(("Salicylic", "Acid"))
    'salicylic acid'
    """
    return " ".join(tokens).lower()


@parameters
class Synonym(NameNoise):
    """Replace every gold mention that has another name; the rest of the text never changes.

    New names are in lower case, tokenised again and labelled B-, I-, I-...; mentions without
    another name stay. The names come from `resources.replacements[table]`. An acronym, or a word
    of fewer than four letters, becomes only the long form that its document defines. In a question,
    no option becomes another name of what another option says.

    Differs from the paper, whose source (UMLS through PyMedTermino) also gave names that are
    only related: the default is `strict`, another name of the same thing. `related` takes such a
    name where there is one, and else the nearest name of a vocabulary, which may be a salt, a
    subtype or another thing altogether, in an embedding that should not be the one under attack
    (METHODS 4.5).
    """

    name = "synonym"

    mode: Literal["strict", "related"] = BY_CHOICES
    """`strict`: another name of the same concept; `related`: also a near name, which may name
    something else; default `strict`, as_published and as_released `related`."""
    synonyms: NonEmpty = "default"
    """Where listed names come from: `default` (the shipped table), a .csv or .tsv table with the
    columns concept and name, UMLS' MRCONSO.RRF, or an .obo file."""
    embedding: NonEmpty = "ngram"
    """related: the embedding that measures nearness, as in `[[entities]]`; take one that no victim
    has."""
    vocabulary: NonEmpty | None = None
    """related: `drugs`, `diseases` or a file; default: the built-in one of the mention's type."""
    choice: Literal["fixed", "drawn"] = "fixed"
    """`fixed`: one name for each mention string, as published; `drawn`: a random one for each
    occurrence."""
    choices: Choices = "default"
    """The default of mode (METHODS section 7, row 23)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode is BY_CHOICES:
            mode = "strict" if self.choices == "default" else "related"
            object.__setattr__(self, "mode", mode)
        if self.synonyms == "none":
            raise ValueError("synonyms: 'none' leaves nothing to replace")
        if self.vocabulary is not None and self.mode == "strict":
            raise ValueError(
                f"vocabulary: expected with mode = 'related', got {self.vocabulary!r} with mode = "
                f"{self.mode!r}"
            )

    @property
    def table(self) -> str:
        """Key of its names in `NoiseResources.replacements`."""
        if self.mode == "strict":
            return f"strict {self.synonyms}"
        near = f"related {self.vocabulary or 'by type'} {self.embedding}"
        return f"{near}, listed first {self.synonyms}"

    @property
    def surrogate(self) -> str:
        """What replaces the paper's synonyms, in words.

        >>> Synonym(mode="related").surrogate
        'listed names (default), else the nearest by ngram'
        """
        if self.mode == "strict":
            return f"listed names ({self.synonyms})"
        return f"listed names ({self.synonyms}), else the nearest by {self.embedding}"

    def other_names(
        self, words: Words, entity: Entity, resources: NoiseResources
    ) -> tuple[Sequence[Tokens], str]:
        """Return the other names of an entity, and their source; without any, why there is none."""
        start, end = entity.start, entity.end
        own = words.tokens[start:end]
        if not is_acronym(join_tokens(own)):
            return super().other_names(words, entity, resources)
        long = resources.defined.get(words.tokens, {}).get(own, ())
        # Where the text defines it, the long form is before the bracket already.
        if not long or words.tokens[start - 1 - len(long) : start] == (*long, "("):
            return (), UNCHANGED
        return (long,), DEFINED

    def edits(
        self, item: Any, rng: Generator, resources: NoiseResources | Resources
    ) -> tuple[Edit, ...]:
        """Return all edits; no subset makes an option mean what another one means."""
        edits = super().edits(item, rng, resources)
        noise = noise_of(resources)
        if item.kind != QUESTIONS or self.field != "options" or noise is None:
            return edits
        kept: list[Edit] = []
        for edit in edits:
            if not (noise.means_another and noise.means_another(item, edit, kept)):
                kept.append(edit)
        return tuple(kept)


@parameters
class Abbreviation(NameNoise):
    """Write "MI" for "myocardial infarction" and the other way round, if both are known.

    A pair is known if the corpus defines it, "myocardial infarction (MI)" with both as gold
    entities, or if a table has both as names of one concept and the short form is made of the
    first one or two letters of the long form's words. Short forms are written in capitals, or as in
    the corpus; long ones in lower case.
    """

    name = "abbreviation"

    direction: Literal["both", "expand", "contract"] = "both"
    """`expand` short forms, `contract` long ones, or `both`."""
    synonyms: NonEmpty = "default"
    """Where names come from, as for `synonym`."""
    choice: Literal["fixed", "drawn"] = "fixed"
    """`fixed`: one name for each mention string; `drawn`: a random one for each occurrence."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.synonyms == "none":
            raise ValueError("synonyms: expected 'default' or a path, got 'none'")

    @property
    def table(self) -> str:
        """Key of its names in `NoiseResources.replacements`."""
        return f"abbreviations {self.direction} {self.synonyms}"
