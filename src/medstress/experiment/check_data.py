"""How data are read, which of their items can be attacked, and why the rest cannot.

No model is asked. Mentions are found by the shipped gazetteer, unless an override says otherwise,
and replaced from the built-in vocabularies, as in a run without an experiment file.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import UsageError, setting
from medstress.core.frames import refuse_inputs
from medstress.core.hashing import rng_for
from medstress.core.items import Question
from medstress.core.resources import Exclusions, Resources
from medstress.core.text import WHOLE
from medstress.core.writing import write_text
from medstress.datasets.questions import NEEDS_FIGURE, row_from_question
from medstress.datasets.source import BadRowError, draw
from medstress.engine.progress import Watcher
from medstress.entities.groups import LABEL, NoNames, types_of
from medstress.experiment.file import config
from medstress.experiment.file.reading import apply_overrides, check_experiment
from medstress.experiment.first import Choices, groups_of, read_data
from medstress.experiment.plan.dataset_parts import DatasetPart, recognise_mentions

if TYPE_CHECKING:
    from medstress.attacks.noise import NoiseResources
    from medstress.core.resources import IndexArray
    from medstress.entities.alike import NameRules
    from medstress.experiment.plan.parts import AttackPart
    from medstress.tasks.kinds import Kind

SUBSTITUTION = "entity_substitution"
SKIP = "dataset.on_bad_row=skip"
"""Of `--set`: rows that cannot be read are left out."""
MOST = 5000
"""Items that are checked unless more are asked for."""
FIRST = 5
"""Items that are shown."""
ATTACKS: tuple[dict[str, Any], ...] = (
    {"name": SUBSTITUTION, "sampler": "random"},
    {"name": "swap_noise"},
    {"name": "synonym"},
    {"name": "passage_swap"},
    {"name": "passage_distractor"},
    {"name": "passage_none"},
    {"name": "medfuzz"},
)
"""The attacks that are tried: one of each sort, and every probe of the passage that reads it."""
ATTACKER = "an attacker model"
"""What an attack needs that not every victim can be."""
NOTHING_TO_CHANGE = "nothing in it can be changed like that"
_PLACE = re.compile(r"^.*, (?=\w+ \d)")
"""The file in `FILE, row 3`."""
_ITEM = re.compile(r"^item '.*?', ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why some items cannot be attacked, or some rows not be read."""

    text: str
    """The reason."""
    n: int
    """Items or rows."""
    example: str
    """One of them: an item's id, or the whole sentence about a row."""
    places: tuple[str, ...] = ()
    """Where the rows are, such as `row 3`; empty for items."""
    looks: str = ""
    """What there is of that item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attackable:
    """How many items one attack can attack on one entity group."""

    attack: str
    """Name of the attack."""
    group: str
    """`drugs`, `diseases`, or `all`."""
    draws_names: bool
    """Whether it draws names of the group."""
    n: int
    """Attackable items."""
    n_items: int
    """Items."""
    reasons: tuple[Reason, ...]
    """Why not the rest, the most frequent first."""
    needs: str = ""
    """What its experiment file must also say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """One item as it was understood."""

    id: str
    """Its id."""
    key: str
    """The gold answer: a letter, a label, a score; empty where the texts show it."""
    texts: Mapping[str, str]
    """Its texts by name, empty ones left out."""
    letters: str
    """Which of them are options, in order."""
    names: Mapping[str, Mapping[str, Sequence[str]]]
    """Text -> group -> the names in it that belong to the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCheck:
    """What `medstress check` says of one data set."""

    table: config.Dataset
    """What was read, and how."""
    kind: str
    """The kind of its items, in the plural."""
    understood: str
    """How the rows were read; empty if they are in medstress's own format."""
    n_items: int
    """All items of the source."""
    n_checked: int
    """Items after the limit, which the rest is about."""
    classes: tuple[str, ...]
    """Types or labels of the items."""
    n_given: int
    """Items that bring mentions of their own."""
    recogniser: str
    """What found the mentions of the groups; empty for items that have none."""
    first: tuple[ShownItem, ...]
    """The first items of the file."""
    n_skipped: int
    """Rows that cannot be read."""
    skipped: tuple[Reason, ...]
    """Why, the most frequent first."""
    notes: tuple[str, ...]
    """What was repaired or left out within rows."""
    attackable: tuple[Attackable, ...]
    """One entry for each attack that fits the kind, and group."""
    written: tuple[int, int] | None
    """Rows and mentions that were written; None where nothing was to be, or where rows cannot be
    read."""


def skips_rows(overrides: Sequence[str]) -> bool:
    """Return whether overrides leave out rows that cannot be read.

    >>> skips_rows(['dataset.on_bad_row = "skip"']), skips_rows([])
    (True, False)
    """
    return any(re.sub(r"[\s\"']", "", each) == SKIP for each in overrides)


def check_data(
    choices: Choices,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
    to: Path | None = None,
) -> DataCheck:
    """Read data as a run would, and try which attacks can attack them.

    Rows that cannot be read are counted, where a run stops at the first.

    Args:
        choices: which data, their columns and answer base, and groups; the rest is not read.
        overrides: as --set, of `[[dataset]]` and `[[entities]]`.
        watcher: callbacks for progress.
        to: FILE.jsonl for the questions with their mentions. All are written, or `limit` of
            `[[dataset]]`; a sample of them is checked. Nothing is written where rows cannot be
            read, unless they are left out on purpose.

    Raises:
        UsageError, DataError: one sentence.
    """
    watcher = watcher or Watcher()
    base = Path.cwd()
    watcher.note("data")
    if to is not None:
        if to.suffix != ".jsonl":
            raise UsageError(f"{setting('to', str(to))}: the name must end in .jsonl")
        refuse_inputs(to, [Path(choices.data).expanduser()])
    usual = [] if to else [f"dataset.limit={MOST}"]
    try:
        data = read_data(choices, [*usual, *overrides])
    except BadRowError:
        data = read_data(choices, [SKIP, *usual, *overrides])
    part, kind = data.part, data.kind
    # A figure stops no run: it is counted in a note.
    unread = [s for s in part.loaded.skipped if NEEDS_FIGURE not in s or skips_rows(overrides)]
    classes = kind.classes(part.all_items)
    kind.check(classes, choices.data)
    if choices.entities is not None and not kind.draws_names:
        raise UsageError(
            f"{setting('entities')}: the data are {kind.name}, whose attacks draw no names; "
            "leave it out"
        )
    n_given = sum(bool(item.mentions) for item in part.questions)
    groups: list[Resources] = []
    recognisers: list[dict[str, Any]] = []
    written = None
    if kind.draws_names:
        tables = _tables(choices, overrides)
        (part,), recognisers = recognise_mentions(
            tables, base, [part], watcher.note, needs_all=False
        )
        if to is not None and (not unread or skips_rows(overrides)):
            rows = [{**row_from_question(item), **item.metadata} for item in part.questions]
            try:
                write_text(to, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            except OSError as error:
                raise UsageError(
                    f"cannot write {to}: {error.strerror}; give another {setting('to')}"
                ) from error
            written = len(rows), sum(len(row["mentions"]) for row in rows)
        if data.table.limit is None:
            part = replace(part, questions=draw(part.questions, MOST, part.sample_seed))
        watcher.note("names")
        groups = list(_groups(tables, part, base))
    elif to is not None:
        raise UsageError(
            f"{setting('to', str(to))}: the data are {kind.name}, and questions alone are written"
        )
    return DataCheck(
        table=data.table,
        kind=kind.name,
        understood=part.loaded.understood,
        n_items=len(part.all_items),
        n_checked=len(part.questions),
        classes=classes,
        n_given=n_given,
        recogniser=" and ".join(dict.fromkeys(one["name"] for one in recognisers)),
        first=_first(part, groups),
        n_skipped=len(unread),
        skipped=_row_reasons(unread),
        notes=part.loaded.notes,
        attackable=tuple(_attackable(kind, part, groups, base)),
        written=written,
    )


def _tables(choices: Choices, overrides: Sequence[str]) -> list[config.Entities]:
    """Return the groups, as overrides of `[[entities]]` have them."""
    raw: dict[str, Any] = {
        "experiment": {"name": "any"},
        "dataset": [{"name": "sample"}],
        "entities": list(map(config.given_keys, groups_of(choices))),
    }
    mine = [one for one in overrides if one.partition(".")[0].strip() == "entities"]
    apply_overrides(raw, mine)
    return list(check_experiment(raw, needs=()).entities)


def _groups(
    tables: Sequence[config.Entities], part: DatasetPart, base: Path
) -> Iterator[Resources]:
    from medstress.entities.alike import NameRules, option_texts
    from medstress.entities.vocabularies import SynonymGroups, concept_rows, load_vocabulary

    keys = {text for item in part.questions for text in option_texts(item, item.key)}
    rules = {
        source: NameRules(SynonymGroups(*concept_rows(source, base, keys)))
        for source in dict.fromkeys(table.synonyms for table in tables)
    }
    for table, label in zip(tables, config.group_labels(tables), strict=True):
        names = load_vocabulary(table.vocabulary, base, table.column).names
        perturbations = _Names(names, rules[table.synonyms])
        yield Resources(group=label, types=types_of(table.type), perturbations=perturbations)


class _Names(NoNames):
    """The names of a group without distances, since it only counts whether one may be put in."""

    def __init__(self, names: Sequence[str], rules: NameRules) -> None:
        self.names, self._rules = names, rules

    def obstacle(self, item: Question) -> str | None:
        """Never one."""
        return None

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """Return the first name that `exclude` leaves, if there is one."""
        import numpy as np

        fits = (i for i, name in enumerate(self.names) if not self._rules.objection(item, name))
        return np.array([*islice(fits, 1)], np.int64)


def _attackable(
    kind: Kind, part: DatasetPart, groups: Sequence[Resources], base: Path
) -> Iterator[Attackable]:
    from medstress.attacks.noise import Noise
    from medstress.experiment.plan.noise_resources import noise_resources
    from medstress.experiment.plan.parts import AttackPart, free_group

    # Their files stay unread, since no answer is asked for.
    made = [one for table in ATTACKS for one in config.Attack(**table).attacks]
    taken = [attack for attack in made if kind.is_taken(attack.takes)]
    attacks = [AttackPart(label=one.name, attack=one) for one in taken]
    noises = [each.attack for each in attacks if isinstance(each.attack, Noise)]
    noise = noise_resources(part.questions, noises, base)
    free = [each.resources_on(part) for each in free_group(attacks, noise)]
    for attack in attacks:
        on = groups if "names" in attack.attack.needs else free[:1]
        needs = 'a victim with prompt = "open_book"' if "passage" in attack.attack.fields else ""
        for resources in on:
            why = [_obstacle(attack, part, item, resources, noise) for item in part.questions]
            left = zip(part.questions, why, strict=True)
            yield Attackable(
                attack=attack.label,
                group=resources.group if "names" in attack.attack.needs else LABEL,
                draws_names="names" in attack.attack.needs,
                n=sum(reason is None for reason in why),
                n_items=len(why),
                reasons=_item_reasons(((reason, item) for item, reason in left if reason)),
                needs=ATTACKER if "attacker" in attack.attack.needs else needs,
            )


def _obstacle(
    part: AttackPart,
    dataset: DatasetPart,
    item: Any,
    resources: Resources,
    noise: NoiseResources,
) -> str | None:
    """Return why an attack cannot attack any unit of an item, or None."""
    from medstress.attacks.noise import Noise

    attack = part.attack
    if isinstance(attack, Noise):
        reasons = [attack.obstacle(unit, noise) for unit in item.units()]
        if None not in reasons:
            return reasons[0]
        rng = rng_for(0, f"{attack.stream}/{LABEL}", dataset.label, item.id)
        return None if attack.edits(item.of_unit(WHOLE), rng, noise) else NOTHING_TO_CHANGE
    reason = attack.obstacle(item, resources)
    if reason is None or not resources.types:
        return reason
    # Where an item without an attackable option does mention the group.
    fields = {mention.field for mention in item.mentions if mention.type in resources.types}
    if fields & (set(item.letters) - {item.key}):
        return reason
    if item.key in fields:
        return f"{reason}, only the key does"
    return f"{reason}, only its text does" if fields else f"{reason}, nor does its text"


def _item_reasons(left: Iterable[tuple[str, Any]]) -> tuple[Reason, ...]:
    by_reason: defaultdict[str, list[Any]] = defaultdict(list)
    for reason, item in left:
        by_reason[reason].append(item)
    reasons = []
    for text, items in by_reason.items():
        texts, letters = items[0].shown(), items[0].choices
        options = "; ".join(f"{name} {texts[name]}" for name in letters if name in texts)
        looks = options or next(iter(texts.values()), "")
        reasons.append(Reason(text=text, n=len(items), example=items[0].id, looks=looks))
    return tuple(sorted(reasons, key=lambda reason: -reason.n))


def _row_reasons(skipped: Sequence[str]) -> tuple[Reason, ...]:
    """Group sentences about rows by what was expected: `FILE, PLACE: expected X, got Y`."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for sentence in skipped:
        _, _, error = sentence.partition(": ")
        by_reason[_ITEM.sub("", error).partition(", got ")[0] or sentence].append(sentence)
    reasons = []
    for text, rows in by_reason.items():
        places = tuple(_PLACE.sub("", row.partition(": ")[0]) for row in rows)
        reasons.append(Reason(text=text, n=len(rows), example=rows[0], places=places))
    return tuple(sorted(reasons, key=lambda reason: -reason.n))


def _first(part: DatasetPart, groups: Sequence[Resources]) -> tuple[ShownItem, ...]:
    """Return the first items of the file among those checked, which may be a sample."""
    checked = {item.id: item for item in part.questions}
    shown = []
    for item in [checked[item.id] for item in part.all_items if item.id in checked][:FIRST]:
        names: dict[str, dict[str, list[str]]] = {}
        for mention, group in product(item.mentions if groups else (), groups):
            if mention.type in group.types:
                text = item.text_of(mention.field)[mention.start : mention.end]
                names.setdefault(mention.field, {}).setdefault(group.group, []).append(text)
        texts = {name: text for name, text in item.shown().items() if text}
        letters = "".join(name for name in item.choices if name in texts)
        shown.append(ShownItem(id=item.id, key=item.key, texts=texts, letters=letters, names=names))
    return tuple(shown)
