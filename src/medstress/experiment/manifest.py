"""What an experiment is, by content: its manifest, and what a command may do with a folder."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any, Self

from medstress.attacks.attacked import AttackedArm
from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.noise import Synonym, noise_of
from medstress.attacks.noise_control import NonEntityNoise
from medstress.attacks.protocol import Attack, declared_by, rebuilt
from medstress.backends.python import PythonBackend
from medstress.core.calls import Backend
from medstress.core.errors import OtherRunError, StoreError, UsageError, another_folder, setting
from medstress.core.extras import versions
from medstress.core.hashing import content_hash
from medstress.core.words import plural
from medstress.experiment import config
from medstress.experiment.arms import AttackPart
from medstress.experiment.data import DatasetPart
from medstress.experiment.groups import other_names_in
from medstress.experiment.models import RolePart, tables_of
from medstress.experiment.plan import Prepared, target_hash
from medstress.store.run_store import RunStore
from medstress.store.shards import Shard
from medstress.tasks.victim import Victim

# -- the manifest ---------------------------------------------------------------------------------


SOURCES = ("listed", "defined", "nearest", "ambiguous", "distant", "unchanged")
"""Where the other names of mentions come from; the last three have none."""


def surrogates_of(prepared: Prepared) -> Iterator[dict[str, Any]]:
    """Yield a row for each data set and synonym attack: its mentions by source of their name.

    Of a pair, the text that the attack perturbs counts; both count if it is drawn.
    """
    places = product(prepared.groups, prepared.datasets, prepared.attacks)
    for group, dataset, part in places:
        noise, attack = noise_of(group.resources), part.attack
        if noise is None or not isinstance(attack, Synonym):
            continue
        names = other_names_in(dataset.questions, attack, noise)
        counts = Counter(source for _, source in names)
        yield {
            "dataset": dataset.label,
            "attack": part.label,
            "surrogate": attack.surrogate,
            "n_mentions": counts.total(),
            **{f"n_{source}": counts[source] for source in SOURCES},
        }


def fingerprint_parts(prepared: Prepared) -> dict[str, Any]:
    """Return the hashes that identify the experiment, by label.

    Paths, devices and batch sizes are left out.
    """
    settings = prepared.experiment.experiment
    prompts = {
        victim.label: {name: content_hash(spec) for name, spec in victim.prompt_specs().items()}
        for victim in prepared.victims
        if victim.by_dataset
    }
    return {
        "seeds": list(settings.seeds),
        "settings": {"flip_check": settings.flip_check, **prepared.portion.settings},
        "items": prepared.selected(),
        "groups": {part.label: part.fingerprint for part in prepared.groups},
        "victims": {victim.label: content_hash(victim.spec()) for victim in prepared.victims},
        "attacks": {part.label: content_hash(part.attack.spec()) for part in prepared.attacks},
        **({"prompts": prompts} if prompts else {}),
        **({"roles": {part.name: part.hash for part in prepared.roles}} if prepared.roles else {}),
    }


def describe(prepared: Prepared, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest entries that describe the run."""
    tables = zip(prepared.victims, prepared.experiment.victim, strict=True)
    roles = tables_of(prepared.experiment.role)
    surrogates = list(surrogates_of(prepared))
    return {
        "given": prepared.given,
        "base": str(prepared.base),
        "config": prepared.experiment.model_dump(mode="json", exclude_none=True),
        "parts": dict(parts),
        "fingerprint": content_hash(parts),
        "seeds": list(prepared.experiment.experiment.seeds),
        "versions": versions(),
        "datasets": {part.label: _dataset(part, prepared) for part in prepared.datasets},
        "groups": {part.label: part.describe() for part in prepared.groups},
        "victims": {one.label: _victim(one, table, prepared) for one, table in tables},
        "attacks": {part.label: part.attack.spec() for part in prepared.attacks},
        "records": {part.label: record_of(part, prepared) for part in prepared.attacks},
        "controls": {"left_out": prepared.left_out},
        "roles": {
            part.name: {
                **_model(part.backend, roles[part.name]),
                "decoding": part.described,
            }
            for part in prepared.roles
        },
        "endpoints": endpoints([*prepared.victims, *prepared.roles]),
        **({"surrogates": surrogates} if surrogates else {}),
        **prepared.portion.notes,
    }


def record_of(part: AttackPart, prepared: Prepared) -> dict[str, Any]:
    """Return the fields of an attack's record besides the parameters."""
    attack, spec = part.attack, part.attack.spec()
    source: Attack | None = attack.harmless if isinstance(attack, ControlArm) else attack
    if isinstance(attack, AttackedArm):  # stored edits put in names if their attack did
        of = attack.stored.spec
        while "of" in of:
            of = of["of"]
        source = rebuilt(of)
    control_of = part.as_control[0] if part.as_control else None
    if isinstance(attack, NonEntityNoise):
        others = (one.label for one in prepared.attacks if attack.controls(one.attack))
        control_of = next(others, None)
    return {
        "draws_names": source is not None and "names" in source.needs,
        "whole_copy": attack.is_copy,
        "judged": prepared.kind.is_judged or spec.get("max_change") is not None,
        "control_of": control_of,
        "declared": declared_by(attack),
    }


def endpoints(victims: Sequence[Victim | RolePart]) -> list[dict[str, Any]]:
    """Describe the servers that are asked and the models they have answered as."""
    pairs = [(victim.label, victim.backend.endpoint) for victim in victims]
    return [{"victim": label, **endpoint} for label, endpoint in pairs if endpoint]


def go_on(store: RunStore, victims: Sequence[Victim | RolePart], known: Mapping[str, Any]) -> None:
    """Tell each server's back end what its answers showed before, and keep what they show now.

    Args:
        store: the run folder.
        victims: the victims and roles.
        known: its manifest.

    Raises:
        OtherRunError: calls were made with a schema and would be made without, or the reverse.
    """
    stored = {entry["victim"]: entry for entry in known.get("endpoints") or ()}
    for victim in victims:
        before, now = stored.get(victim.label, {}), victim.backend.traits.structured
        was = before.get("structured", now)
        if was != now and not store.is_unanswered():
            raise OtherRunError(
                f"{store.folder} holds another experiment: structured of {victim.label!r} was "
                f"{str(was).lower()}, is {str(now).lower()}. {another_folder()}",
                store.folder,
            )
        victim.backend.expect(before)
    store.keep_learned(lambda: {"endpoints": endpoints(victims)})


def read_from(part: DatasetPart) -> dict[str, Any]:
    """Return what was read from a data set, and what was not."""
    return {
        "n_items": len(part.questions),
        "n_rows": len(part.all_items),
        "skipped": list(part.loaded.skipped),
        "notes": list(part.loaded.notes),
    }


def _dataset(part: DatasetPart, prepared: Prepared) -> dict[str, Any]:
    drawn = (group for group in prepared.groups if group.needs_passages)
    passages = [group.resources_on(part).passages.hash for group in drawn]
    return {
        **read_from(part),
        **({"understood": part.loaded.understood} if part.loaded.understood else {}),
        "hash": part.loaded.source_hash,
        **({"passages": passages[0]} if passages else {}),
    }


def _victim(victim: Victim, table: config.Victim, prepared: Prepared) -> dict[str, Any]:
    names, counted = prepared.portion.names, victim.backend.traits.parameters

    def task(own: Victim) -> dict[str, Any]:
        """Return what is needed to read its answers again."""
        return {"task": own.task.spec(), "prompt": own.prompt}

    by_dataset = {name: task(victim.on(name)) for name, _ in victim.by_dataset}
    return {
        **_model(victim.backend, table),
        **task(victim),
        **({"by_dataset": by_dataset} if by_dataset else {}),
        # For figures by size: the user's number, or else what a local back end counted.
        "parameters": counted if table.parameters is None else table.parameters,
        "family": table.family,
        "group": table.group,
        # The name in results of a victim that is asked about some of the items.
        **({"part_of": names[victim.label]} if victim.label in names else {}),
    }


def _model(backend: Backend, table: config.Model) -> dict[str, Any]:
    """Return who answers, what of its back end decides which calls are made, and its price."""
    traits = backend.traits
    # Whether a user's function is in the same file.
    target = {"target_hash": target_hash(backend)} if isinstance(backend, PythonBackend) else {}
    return {
        "model": backend.identity.name,
        "model_hash": backend.identity.hash,
        "price_in": table.price_in,
        "price_out": table.price_out,
        "backend": {
            "calls": sorted(traits.calls),
            "structured": traits.structured,
            "in_turns": traits.in_turns,
            **({"labels": list(traits.labels)} if traits.labels else {}),
        },
        **target,
    }


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# -- what a command may do with a run folder: one table of cases, without models or a disk --------


_NEVER_IDENTITY = (
    *("name", "label", "use", "parameters", "family", "group", "price_in", "price_out"),
    *("device", "device_map", "batch_size", "max_in_flight", "requests_per_minute"),
    *("tokens_per_minute", "api_key_env", "match_model"),
)
"""Keys of a table that may change within one run, and the names of entries."""
_LONGEST = 60
_MOST_IDS = 5
_NOUNS = {
    "groups": "entity group",
    "victims": "model",
    "attacks": "attack",
    "roles": "role",
}


class Verb(StrEnum):
    """What happens to a folder."""

    BEGIN = "begin"
    """It holds no run, or another one that no model has answered: a new run is written."""
    RESUME = "resume"
    """The same experiment goes on; what failed stays failed."""
    RETRY = "retry"
    """The same, and what failed or was cut short begins again."""
    EXTEND = "extend"
    """The experiment has everything that the folder has, and more."""
    ASK = "ask"
    """More is asked about the trials, which stay as they are."""
    NOTHING = "nothing"
    """All of it has ended: nothing is asked, and that is said first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What an experiment is, by content: no paths, devices, batch sizes, prices, limits."""

    seeds: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Flip checks, and which part of an experiment a run of `tune` or `train` holds."""
    items: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """"data set/group" -> hashes of (id, content)."""
    groups: Mapping[str, str] = field(default_factory=dict)
    victims: Mapping[str, str] = field(default_factory=dict)
    attacks: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Victim -> data set -> hash, of victims with a prompt for each data set."""
    criteria: str | None = None
    """Hash of `[[require]]`, its slices and baselines."""
    follow_ups: Mapping[str, str] = field(default_factory=dict)
    """What is asked or computed after the trials -> hash of its settings."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """The manifest that it was read from, for the words of a refusal."""

    @classmethod
    def read(cls, manifest: Mapping[str, Any]) -> Self:
        """Return the fingerprint of a manifest, stored or about to be written."""
        parts = manifest["parts"]
        own = {name: parts.get(name) or {} for name in ("settings", "prompts", *_NOUNS)}
        return cls(
            seeds=tuple(parts["seeds"]),
            items={label: frozenset(hashes) for label, hashes in parts["items"].items()},
            criteria=(manifest.get("require") or {}).get("hash"),
            follow_ups=manifest.get("follow_ups") or {},
            manifest=manifest,
            **own,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a folder says of itself, read under its lock."""

    folder: Path
    fingerprint: Fingerprint
    shard: Shard | None = None
    has_answers: bool = True
    n_lost: int = 0
    """Trials that failed, were cut short or not answered; counted where they may be retried."""
    is_complete: bool = False
    items: Sequence[tuple[str, str, str]] = ()
    """Data set, id and hash of every item whose trials have begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a command asks for."""

    fresh: bool = False
    """The folder's run is deleted first."""
    retry_failed: bool = False
    shard: Shard | None = None
    asks_again: bool = False
    """`test`, `explain`: more is asked about what the folder holds; its trials must not grow."""
    dry_run: bool = False
    """What would be asked is said; nothing is asked or written."""


RUN = Wish()
"""To run, resume or extend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What is done."""

    verb: Verb
    deletes: bool = False
    """The folder's run, which no model has answered, is deleted first."""
    more: tuple[str, ...] = ()
    """What an extension adds, in words."""


def decide(
    now: Fingerprint,
    held: Held | None,
    wish: Wish = RUN,
    items: Mapping[str, Iterable[str]] | None = None,
) -> Opening:
    """Decide what happens to a folder.

    ======================  ====================  ============  ===============================
    the folder's run        the experiment        wish          then
    ======================  ====================  ============  ===============================
    none                    any                   test/explain  refused: there is no run
    none                    any                                 begin
    any                     any                   fresh         begin (it was deleted)
    a shard                 any                   test/explain  refused: merge first
    any                     lacks or changes      test/explain  refused, naming each
    any                     same or more          test/explain  ask, its trials as they are
    another shard, a whole  any                                 refused
    no answer yet           lacks or changes                    begin, deleting it
    no answer yet           same or more                        retry
    answers                 lacks or changes                    refused, naming each
    a shard                 others' items         its shard     refused: merge first
    answers                 other criteria                      refused: they are pre-specified
    answers and criteria    more seeds                          refused
    any, some lost          same or more          retry         retry
    any                     more                                extend
    open                    same                                resume
    complete                same                                nothing
    ======================  ====================  ============  ===============================

    Args:
        now: the experiment.
        held: the folder's run; None if it holds none.
        wish: what the command asks for.
        items: data set -> ids of the items that the experiment asks in this folder, for the words
            of a refusal and the items of other shards; default: those that the folder holds.

    Raises:
        UsageError, StoreError: one sentence.
    """
    if held is None or wish.fresh:
        if wish.asks_again:
            raise UsageError("the folder holds no run to ask about")
        return Opening(verb=Verb.BEGIN)
    before, folder = held.fingerprint, held.folder
    _check_shard(held, wish)
    changes = list(differences(before, now, wish, held.items, items))
    if wish.asks_again:
        if changes:
            raise StoreError(
                f"{folder} is a run of another experiment: {'; '.join(changes)}. Give --experiment "
                "the file that the folder was run with, and the same --set"
            )
        return Opening(verb=Verb.ASK)
    if not held.has_answers:
        return Opening(verb=Verb.BEGIN, deletes=True) if changes else Opening(verb=Verb.RETRY)
    if changes:
        raise OtherRunError(
            f"{folder} holds another experiment: {'; '.join(changes)}. {another_folder()}",
            folder,
        )
    if held.shard is not None and items is not None:
        _check_strays(held, items)
    _check_criteria(before, now, folder)
    # What an open run asks after its trials is not begun yet, so it is not added either.
    after = before if held.is_complete else replace(before, follow_ups=now.follow_ups)
    more = tuple(additions(after, now))
    if wish.retry_failed and held.n_lost:
        return Opening(verb=Verb.RETRY, more=more)
    if more:
        return Opening(verb=Verb.EXTEND, more=more)
    return Opening(verb=Verb.NOTHING if held.is_complete else Verb.RESUME)


def check_whole(folder: Path, shard: Shard | None) -> None:
    """Refuse to ask more about a shard."""
    if shard is not None:
        raise StoreError(
            f"{folder} holds shard {shard}, and what this command asks is about all trials; merge "
            "the shards, complete the merged folder with `medstress run`, and give that one"
        )


def _check_shard(held: Held, wish: Wish) -> None:
    folder, shard = held.folder, held.shard
    if wish.asks_again:
        check_whole(folder, shard)
    elif shard != wish.shard:
        holds = "a whole run" if shard is None else f"shard {shard}"
        wanted = f"{setting('shard')} is {wish.shard or 'not given'}"
        hint = "" if shard is None else f" give {setting('shard', str(shard))}, or"
        raise OtherRunError(
            f"{folder} holds {holds}, but {wanted};{hint} choose another folder with "
            f"{setting('out')}",
            folder,
        )


def _check_strays(held: Held, items: Mapping[str, Iterable[str]]) -> None:
    own = {(dataset, item) for dataset, ids in items.items() for item in ids}
    strays = [item for dataset, item, _ in held.items if (dataset, item) not in own]
    if strays:
        raise OtherRunError(
            f"{held.folder} holds {len(strays)} items, such as {strays[0]!r}, that belong to other "
            f"shards now that the plan has other items (a {setting('limit')} that is raised "
            "puts items in "
            "between); run all shards to the end as they were, merge them, and run the new plan in "
            "the merged folder, which asks what is new alone",
            held.folder,
        ).with_command("medstress merge DIR... --out DIR")


def _check_criteria(before: Fingerprint, now: Fingerprint, folder: Path) -> None:
    if before.criteria != now.criteria:
        what = "began without criteria" if before.criteria is None else "has other criteria"
        raise UsageError(
            f"[[require]]: {folder} {what}, and criteria are pre-specified: they cannot be added, "
            f"changed or removed after the first query. {another_folder()}"
        )
    if before.criteria is not None and sorted(before.seeds) != sorted(now.seeds):
        raise UsageError(
            f"[[require]]: {folder} has seeds {list(before.seeds)}, and more seeds would change "
            "items that were already looked at; extend it by items, or choose another folder with "
            f"{setting('out')}"
        )


def differences(
    old: Fingerprint,
    new: Fingerprint,
    wish: Wish = RUN,
    begun: Sequence[tuple[str, str, str]] = (),
    items: Mapping[str, Iterable[str]] | None = None,
) -> Iterator[str]:
    """Yield what the new experiment changes or lacks; if nothing, the folder may be extended.

    Args:
        old: the folder's.
        new: the experiment's.
        wish: where more is asked of a run of `tune` or `train`, its own settings are left out.
        begun: data set, id and hash of every item whose trials have begun.
        items: as for `decide`.

    >>> old = Fingerprint(seeds=(0,), victims={"m": "1"})
    >>> list(differences(old, Fingerprint(seeds=(0, 1), victims={"m": "1", "n": "2"})))
    []
    >>> list(differences(old, Fingerprint(seeds=(1,), victims={"m": "2"})))
    ['seeds [0] are missing', "model 'm' changed"]
    """
    if missing := [seed for seed in old.seeds if seed not in new.seeds]:
        yield f"seeds {missing} are missing"
    settings = new.settings if wish.asks_again else {**old.settings, **new.settings}
    yield from differing({key: old.settings.get(key) for key in settings}, new.settings)
    yield from _lost_items(old, new, begun, items or {})
    for kind in _NOUNS:
        yield from _lost_parts(kind, old, new)
    datasets = dict.fromkeys(label.rpartition("/")[0] for label in old.items)
    for victim in old.victims:
        was, now = old.prompts.get(victim, {}), new.prompts.get(victim, {})
        for dataset in datasets if victim in new.victims else ():
            if was.get(dataset) != now.get(dataset):
                yield f"the prompt of model {victim!r} for dataset {dataset!r} changed"
    # A folder without roles may be extended by an attack that asks roles.
    yield from (
        f"role {name!r} is new" for name in new.roles if old.roles and name not in old.roles
    )


def additions(old: Fingerprint, new: Fingerprint) -> Iterator[str]:
    """Yield what the new experiment has beyond the folder's.

    >>> list(additions(Fingerprint(items={"d/g": frozenset("a")}),
    ...                Fingerprint(items={"d/g": frozenset("ab")}, follow_ups={"transfer": "1"})))
    ['1 items of d/g', 'transfer']
    """
    if seeds := [seed for seed in new.seeds if seed not in old.seeds]:
        yield f"seeds {seeds}"
    for label, hashes in new.items.items():
        if n := len(hashes - old.items.get(label, frozenset())):
            yield f"{n} items of {label}"
    for kind, noun in _NOUNS.items():
        own = getattr(old, kind)
        yield from (f"{noun} {label!r}" for label in getattr(new, kind) if label not in own)
    for name, value in new.follow_ups.items():
        if old.follow_ups.get(name) != value:
            yield name


def _lost_parts(kind: str, old: Fingerprint, new: Fingerprint) -> Iterator[str]:
    noun, held, now = _NOUNS[kind], getattr(old, kind), getattr(new, kind)
    added = [label for label in now if label not in held]
    for label, value in held.items():
        same = [name for name in added if now[name] == value]
        if label in now and now[label] != value:
            keys = ", ".join(_changed_keys(kind, label, old.manifest, new.manifest))
            yield f"{noun} {label!r} changed" + (f" ({keys})" if keys else "")
        elif label not in now and same:
            yield f"{noun} {label!r} is missing (it is now called {same[0]!r}: label it {label!r})"
        elif label not in now:
            hint = f" (new: {', '.join(map(repr, added))})" if added and kind != "roles" else ""
            yield f"{noun} {label!r} is missing{hint}"


def _lost_items(
    old: Fingerprint,
    new: Fingerprint,
    begun: Sequence[tuple[str, str, str]],
    items: Mapping[str, Iterable[str]],
) -> Iterator[str]:
    # Mentions of a group are part of an item.
    has_dropped = any(label not in new.groups for label in old.groups)
    lines: dict[str, None] = {}
    for label, hashes in old.items.items():
        dataset, _, group = label.rpartition("/")
        if label not in new.items:
            if group in new.groups:
                lines[f"dataset {dataset!r} is missing"] = None
            continue
        gone, now = hashes - new.items[label], set(items.get(dataset, ()))
        of_what = defaultdict[str, list[str]](list)
        for owner, item, hash_ in begun if gone else ():
            if owner == dataset and content_hash([item, hash_]) in gone:
                of_what["changed" if item in now else "missing"].append(item)
        if not gone or (has_dropped and list(of_what) == ["changed"]):
            continue
        parts = []
        for what, ids in sorted(of_what.items()):
            more = f" and {len(ids) - _MOST_IDS:,} more" if len(ids) > _MOST_IDS else ""
            parts.append(f"{what}: {', '.join(map(repr, ids[:_MOST_IDS]))}{more}")
        parts += differing(
            _table(old.manifest, "datasets", dataset), _table(new.manifest, "datasets", dataset)
        )
        if list(of_what) == ["missing"] and new.items[label] < hashes:
            parts.append("a run may get more items, as by a higher --limit, but never fewer")
        why = f" ({'; '.join(parts)})" if parts else ""
        count, are = plural(len(gone), "item"), "is" if len(gone) == 1 else "are"
        lines[f"{count} of dataset {dataset!r} {are} missing or changed{why}"] = None
    yield from lines


def _changed_keys(
    kind: str, label: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what differs in a group, victim, attack or role of two manifests."""
    old, new = ((one.get(kind) or {}).get(label) or {} for one in (before, now))
    if kind == "attacks" or not old or not new:
        yield from differing(old, new) if old and new else ()
        return
    keys = list(differing(_table(before, kind, label), _table(now, kind, label)))
    if old.get("target_hash", new.get("target_hash")) != new.get("target_hash"):
        keys.append(f"the file of {new['model']} was edited, and it has no version")
    elif not keys and kind == "groups":
        keys.append("its names, synonyms or vectors are others")
    elif not keys and old.get("model_hash") != new.get("model_hash"):
        keys.append(f"the weights, settings or code of {new.get('model')} are others")
    yield from keys or ["its prompt or the way to read answers is another"]


def differing(old: Mapping[str, Any], new: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield each key that has another value, with both.

    >>> list(differing({"budget": 3, "sampler": "random"}, {"budget": 4, "sampler": "random"}))
    ['budget was 3, is 4']
    >>> list(differing({"like": {"n": 1}}, {"like": {"n": 2}, "seed": 7}))
    ['like.n was 1, is 2', 'seed was not set, is 7']
    """
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from differing(was, now, f"{place}{key}.")
        elif was != now:
            texts = (
                "not set" if v is None else json.dumps(v, ensure_ascii=False) for v in (was, now)
            )
            short, is_now = (t if len(t) <= _LONGEST else f"{t[:_LONGEST]}..." for t in texts)
            yield f"{place}{key} was {short}, is {is_now}"


def _table(manifest: Mapping[str, Any], kind: str, label: str) -> dict[str, Any]:
    """Return the keys that decide, of the table of the file that a part was made from."""
    config = manifest.get("config") or {}
    table = (config.get("role") or {}).get(label) or {}
    if kind != "roles":
        named = {"groups": "entities", "victims": "victim", "datasets": "dataset"}[kind]
        # Entries have the order of their labels; parts without an entry come last.
        labelled = zip(manifest.get(kind) or {}, config.get(named) or (), strict=False)
        table = dict(labelled).get(label) or {}
    return {key: value for key, value in table.items() if key not in _NEVER_IDENTITY}
