"""Victims and roles with their back ends, and what attacks ask of them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from medstress.attacks.controls.arm import ControlArm, turn_attack
from medstress.attacks.controls.harmless import Control
from medstress.attacks.protocol import ROLES, Attack
from medstress.backends.options import BackendKeys, BackendOptions
from medstress.core import registry
from medstress.core.calls import Backend, Call, Decoding, Window
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, rng_for
from medstress.core.items import Question
from medstress.core.queries import ATTACKER, JUDGE
from medstress.core.text import sentence_spans
from medstress.datasets.source import DatasetOptions, Loaded, draw
from medstress.experiment import config
from medstress.experiment.arms import AttackPart
from medstress.experiment.data import DatasetPart
from medstress.store.counts import Price, Spending
from medstress.tasks.conversation import Conversation
from medstress.tasks.kinds import KINDS, Kind
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.victim import Victim, VictimRequest
from medstress.tasks.wrappers import SPARE, Wrapper, gives_scores

_OPTIONS = {*BackendKeys.model_fields, "answer_by"}


def _opened(table: config.Model, base: Path, closing: ExitStack, **more: Any) -> Backend:
    """Open the back end of a victim or role; it is closed with `closing`."""
    options = BackendOptions(base=base, **more, **table.model_dump(include=_OPTIONS))
    backend = registry.open_backend(table.backend, options)
    closing.callback(backend.close)
    return backend


# -- victims ---------------------------------------------------------------------------------------


def open_victims(
    tables: Sequence[config.Victim],
    base: Path,
    note: Callable[[str], None],
    kind: Kind = KINDS[0],
    classes: tuple[str, ...] = (),
    datasets: Sequence[tuple[str, str]] = (),
    **server: Any,
) -> list[Victim]:
    """Open every victim's back end and build its tasks.

    Args:
        tables: the victims.
        base: folder that relative paths start from.
        note: receives what is being opened.
        kind: kind of the items.
        classes: classes of the items (`Kind.classes`).
        datasets: (label, name) of each data set, for prompts by data set.
        server: options of back ends: time limit, and whether servers have to be there.

    Raises:
        UsageError: the back end cannot do the task, or an extra, model or function is missing.
    """
    victims: list[Victim] = []
    with ExitStack() as opened:
        for table, label in zip(tables, config.labels_of(tables), strict=True):
            note(f"model {label} ({table.backend})")
            backend = _opened(table, base, opened, task=kind.task, **server)
            tasks = kind.tasks(
                VictimRequest(
                    table=table,
                    label=label,
                    base=base,
                    backend=backend,
                    classes=classes,
                    datasets=datasets,
                    examples=partial(draw_examples, table, base, label),
                )
            )
            victims.append(
                Victim(
                    label=label,
                    task=tasks.default,
                    backend=backend,
                    by_dataset=tasks.by_dataset,
                )
            )
        opened.pop_all()  # all could be opened, so they stay open
    return victims


def draw_examples(table: config.Victim, base: Path, label: str) -> tuple[Question, ...]:
    """Draw a victim's examples, and two more in case the item is among them.

    Questions of the same text are drawn once.

    Raises:
        UsageError: `shots` without `shots_from` or the other way round, or too few questions.
    """
    source, n = table.shots_from, table.shots
    if not n and source is None:
        return ()
    if not n or source is None:
        raise UsageError(f"model {label!r}: shots and shots_from go together: give both")
    name, colon, place = source.partition(":")
    if not colon:
        ending = "table" if Path(source).suffix in (".jsonl", ".parquet") else None
        name, place = (ending, source) if ending else (source, "")
    if name not in registry.installed("datasets"):
        raise UsageError(
            f"model {label!r}: shots_from = {source!r}: expected 'sample', a .jsonl or .parquet "
            "file, or a data set and its file such as 'medqa:train.jsonl'"
        )
    path = base / Path(place).expanduser() if place else None
    loaded: Loaded = registry.load("datasets", name)(DatasetOptions(path=path))
    distinct: dict[str, Question] = {}
    for question in loaded.items:
        distinct.setdefault(question.question, question)
    if len(distinct) < n + SPARE:
        raise UsageError(
            f"model {label!r}: shots = {n} needs {n + SPARE} different questions, and "
            f"shots_from = {source!r} holds {len(distinct)}"
        )
    return draw(tuple(distinct.values()), n + SPARE, table.shots_seed)


# -- roles -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePart:
    """One role with its open back end."""

    name: str
    """`attacker`, `paraphraser` or `judge`."""
    backend: Backend
    """Answers its calls."""
    decoding: Decoding
    """How it generates."""
    is_shared: bool
    """True if a victim or another role has the same back end, and closes it."""

    @property
    def hash(self) -> str:
        """Hash of model and decoding."""
        return content_hash([self.backend.identity.hash, self.described])

    @property
    def described(self) -> list[Any]:
        """Its decoding as the manifest has it: tokens, temperature and marks, if it has its own."""
        own = self.decoding
        return [own.max_new_tokens, own.temperature, *(own.thoughts or ())]

    @property
    def label(self) -> str:
        """Its name in the experiment file."""
        return f"role.{self.name}"


def tables_of(roles: config.Roles | None) -> dict[str, config.Role]:
    """Return the roles that are switched on, by name."""
    named = {name: getattr(roles, name, None) for name in config.Roles.model_fields}
    return {name: table for name, table in named.items() if table and table.use}


def check_roles(
    roles: Mapping[str, config.Role],
    attacks: Sequence[AttackPart],
    test: config.Significance | None = None,
) -> None:
    """Check that attacks have the roles that they need, and that every role is asked.

    Args:
        roles: the experiment's, by name.
        attacks: the experiment's attacks.
        test: `[test]`, which may ask a judge about reasonings.

    Raises:
        UsageError: a role is missing or is never asked; the message names it.
    """
    used = set()
    if test is not None and test.faithfulness:
        used.add(JUDGE)
    for part in attacks:
        used |= part.attack.needs & ROLES
        if ATTACKER in part.attack.needs and ATTACKER not in roles:
            raise UsageError(
                f"attack {part.label!r} asks the role {ATTACKER!r}: add a table [role.{ATTACKER}]"
            )
    if idle := [name for name in roles if name not in used]:
        raise UsageError(f"[role.{idle[0]}]: nothing asks this role; leave the table out")


def open_roles(
    roles: Mapping[str, config.Role],
    base: Path,
    note: Callable[[str], None],
    victims: Sequence[tuple[config.Victim, Victim]] = (),
    **server: Any,
) -> list[RolePart]:
    """Open every role's back end; `server` is as for `open_victims`.

    A role shares the back end of a victim or role with the same options, so that a model is loaded
    once and a server's limits hold for all calls to it.

    Raises:
        UsageError: a back end cannot be opened or generates no text.
    """
    parts: list[RolePart] = []
    backends = [(_same(table), victim.backend) for table, victim in victims]
    with ExitStack() as opened:
        for name, table in roles.items():
            note(f"role {name} ({table.backend})")
            backend = next((own for key, own in backends if key == _same(table)), None)
            is_shared = backend is not None
            if backend is None:
                try:
                    backend = _opened(table, base, opened, **server)
                except UsageError as error:
                    error.args = (f"[role.{name}]: {error}",)
                    raise
                backends.append((_same(table), backend))
            if "generate" not in backend.traits.calls:
                raise UsageError(f"[role.{name}]: backend {table.backend!r} generates no text")
            decoding = decoding_of(table)
            parts.append(
                RolePart(name=name, backend=backend, decoding=decoding, is_shared=is_shared)
            )
        opened.pop_all()
    return parts


def _same(table: config.Model) -> dict[str, Any]:
    """Return the keys that determine a back end; of `answer_by` only `head` matters."""
    keys = {"backend": table.backend, **table.model_dump(include=_OPTIONS)}
    return {**keys, "answer_by": keys.get("answer_by") == "head"}


def decoding_of(table: config.Role) -> Decoding:
    """Return how a role generates."""
    return Decoding(
        max_new_tokens=table.max_new_tokens,
        temperature=table.temperature,
        thoughts=table.thoughts,
    )


# -- what attacks ask ------------------------------------------------------------------------------


def victim_of(
    victim: Victim, attack: Attack, dataset: str, item: Question, seed: int | None, repeat: int
) -> Victim:
    """Return the victim that an attack asks about one item, clean or edited, in one trial."""
    of = turn_attack(attack)
    if of is None:
        return victim
    task, backend = victim.task, victim.backend
    assert isinstance(task, MultipleChoice)  # checked when it was opened
    exemplars = of.turns(item, rng_for(seed or 0, "exemplars", dataset, item.id, repeat))
    decoding = Decoding(
        max_new_tokens=task.reasoning_tokens or of.reasoning_tokens,
        temperature=task.decoding.temperature,
    )
    conversation = Conversation(
        own=task,
        exemplars=exemplars,
        parser=task.parser,
        thoughts=task.thoughts,
        by_letter=task.answer_by is AnswerBy.LETTER,
        in_turns=backend.traits.in_turns,
        decoding=decoding,
        answer_tokens=task.decoding.max_new_tokens,
    )
    return replace(victim, task=conversation)


def check_asking(
    victims: Sequence[Victim], attacks: Sequence[AttackPart], datasets: Iterable[str]
) -> None:
    """Check that victims see the options, or hold a conversation, where an attack needs it.

    Args:
        victims: opened.
        attacks: the experiment's attacks, control arms among them.
        datasets: labels of the data sets.

    Raises:
        UsageError: a victim does not; the message names it, the attack and what to do.
    """
    asked = [victim.on(label) for label in datasets for victim in victims]
    for part, victim in product(attacks, asked):
        is_control = isinstance(part.attack, Control | ControlArm)
        for need in ("turns", "listing", "follow_up"):
            if need not in part.attack.needs or (is_control and need != "turns"):
                continue  # where the options are not shown, an item is not attackable
            if (reason := _unfit(victim, need)) is not None:
                raise UsageError(
                    f"attack {part.label!r} does not fit model {victim.label!r}: {reason}; or "
                    "leave one of them out"
                )


def _unfit(victim: Victim, need: str) -> str | None:
    """Say why a victim is shown no list of options, or holds no conversation; None if it does."""
    task, traits = victim.task, victim.backend.traits
    own: Any = task
    while isinstance(own, Wrapper):
        own = own.inner
    by = own.answer_by if isinstance(own, MultipleChoice) else None
    if need == "listing":
        if by is AnswerBy.HEAD:
            return 'answer_by = "head" scores every option by itself; use answer_by = "letter"'
        if victim.shows("options"):
            return None
        return 'its prompt lists no options; use a prompt that lists them, such as "qstab"'
    if not isinstance(task, MultipleChoice):
        return "wrap and shots change what is asked, and not what is said after it: leave them out"
    if need == "follow_up":  # something is said after its answer
        if by in (AnswerBy.TEXT, AnswerBy.HEAD):
            return f'answer_by = "{by.value}" scores texts; use answer_by = "generate"'
        if by is AnswerBy.LETTER and not task.template.chat:
            return 'its prompt is one text; use prompt = "chat", or answer_by = "generate"'
        if not traits.in_turns:
            return "its model has no turns; use a chat model"
        if by is AnswerBy.LETTER:
            return None
    writes = "generate" in traits.calls
    return None if writes else "its back end generates no text, so it holds no conversation"


def check_scores(attacks: Sequence[AttackPart], victims: Sequence[config.Victim]) -> None:
    """Check that attacks that need scores have victims that give them.

    Whether a function gives scores is known only when it is asked; then each trial fails with the
    same sentence.

    Raises:
        UsageError: a victim gives no scores; the message names it and the attack.
    """
    wanting = [part.label for part in attacks if "scores" in part.attack.needs]
    for victim in victims if wanting else ():
        none = ("generate", None) if victim.backend == "mock" else ("generate",)
        if victim.answer_by in none and not gives_scores(victim.wrap):
            raise UsageError(
                f"attack {wanting[0]!r} needs scores, and the answers of model "
                f'{victim.called!r} have none: use answer_by = "letter" or "text", or other keys '
                "of the attack"
            )


# -- what fits into a prompt -----------------------------------------------------------------------


_WORD = re.compile(r"\S+")
ROOM = 128
"""Tokens left free for what attacks put into a prompt: names, an inserted sentence."""


def with_fitting_passages(part: DatasetPart, victims: Sequence[Victim]) -> DatasetPart:
    """Return a data set whose passages fit the windows of all victims that show them.

    The prompt of the clean item, its longest option, the reply and `ROOM` tokens have to fit. An
    item whose prompt is too long without its passage keeps the first word of it, and its trials
    fail as they would have.

    Returns:
        The data set, with a note for each victim for which passages were cut, one if no victim is
        shown any passage, and one for each that expects passages where questions have none.
        Victims whose window is unknown, such as servers, cut nothing.
    """
    n_passages = sum(bool(getattr(item, "passage", "")) for item in part.questions)
    readers = [
        victim
        for victim in victims
        if victim.on(part.label).prompt is not None and victim.on(part.label).shows("passage")
    ]
    notes = []
    if n_passages and not readers and not part.loaded.has_optional_passages:
        notes.append(
            f"{n_passages} questions have a passage, but no model's prompt shows it: set prompt = "
            '"open_book" or "open_book_cloze"'
        )
    for victim in readers:
        if n_missing := len(part.questions) - n_passages:
            notes.append(
                f"{n_missing} of {len(part.questions)} questions have no passage; model "
                f"{victim.label!r} is asked about them without one"
            )
        window = victim.backend.window
        if window is None or not n_passages:
            continue
        asked = victim.on(part.label)
        questions = tuple(_fitting(item, asked, window) for item in part.questions)
        n_cut = sum(new is not old for new, old in zip(questions, part.questions, strict=True))
        if n_cut:
            notes.append(
                f"{n_cut} of {n_passages} passages do not fit the {window.tokens:,} tokens that "
                f"model {victim.label!r} reads at once; they are cut for all models"
            )
            part = replace(part, questions=questions)
            # Probes draw passages of all rows.
            fitting = (_fitting(item, asked, window) for item in part.all_items)
            part = replace(part, loaded=replace(part.loaded, items=tuple(fitting)))
    return replace(part, loaded=replace(part.loaded, notes=(*part.loaded.notes, *notes)))


def with_long_items(
    victim: Victim,
    parts: Sequence[DatasetPart],
    note: Callable[[str], None],
    attacks: Sequence[AttackPart],
    seed: int,
) -> tuple[Victim, list[DatasetPart]]:
    """Return a victim that knows which items it cannot read, and the data sets with a note on them.

    Their trials end as not attackable, and nothing is asked about them. A victim is asked in the
    turns of the first attack that has turns, or once.

    Args:
        victim: open.
        parts: the data sets.
        note: receives the notes as well.
        attacks: the experiment's.
        seed: the first.
    """
    too_long: dict[tuple[str, str, bool], str] = {}
    noted = list(parts)
    ways = {"turns" in one.attack.needs: one for one in reversed(attacks)}
    for (place, part), (in_turns, way) in product(enumerate(parts), ways.items()):
        calls: list[tuple[Any, Call]] = []
        for item in part.questions:
            with suppress(Exception):  # its trial says why
                own = victim_of(victim.on(part.label), way.attack, part.label, item, seed, 0)
                flow = own.flow(item.units()[0].candidate())
                calls += [(item, request.call) for request in next(flow)]
        reasons = victim.backend.too_long([call for _, call in calls])
        of_part = {
            (part.label, item.id, in_turns): reason
            for (item, _), reason in zip(calls, reasons, strict=True)
            if reason is not None
        }
        if of_part:
            text = (
                f"{len(of_part)} of {len(part.questions)} items of {part.label!r} are longer than "
                f"model {victim.label!r} reads at once, and are not attacked"
                f"{f' by {way.label}' if in_turns else ''}: {next(iter(of_part.values()))}"
            )
            note(text)
            loaded = noted[place].loaded
            noted[place] = replace(part, loaded=replace(loaded, notes=(*loaded.notes, text)))
        too_long |= of_part
    return (replace(victim, too_long=too_long) if too_long else victim), noted


def _fitting(item: Question, victim: Victim, window: Window) -> Question:
    """Return the item with as many sentences of its passage as fit."""
    if not item.passage.strip():
        return item
    most = window.tokens - ROOM - _reply(victim)
    ends = [end for _, end in sentence_spans(item.passage)]
    words = [match.end() for match in _WORD.finditer(item.passage, 0, ends[0])]

    def fits(end: int) -> bool:
        prompt = victim.task.template.render(_shortened(item, end).candidate())  # type: ignore[attr-defined]
        longest = max(item.options, key=len)
        prompts = [f"{prompt} {longest}"] if isinstance(prompt, str) else [prompt, longest]
        return sum(window.count(prompts)) <= most

    if fits(ends[-1]):
        return item
    if not fits(ends[0]):
        ends = words
    n = bisect_left(ends, True, key=lambda end: not fits(end))
    return _shortened(item, ends[max(n, 1) - 1])


def _reply(victim: Victim) -> int:
    """Return the most tokens of a reply that share the window with the prompt."""
    spec: Any = victim.task.spec()
    while "task" in spec:
        spec = spec["task"]
    if spec.get("answer_by") != "generate":
        return 0
    return int(spec["decoding"][0]) + int(spec.get("reasoning_tokens") or 0)


def _shortened(item: Question, end: int) -> Question:
    if end >= len(item.passage.rstrip()):
        return item
    kept = (m for m in item.mentions if m.field != "passage" or m.end <= end)
    return replace(item, passage=item.passage[:end], mentions=tuple(kept))


# -- prices ----------------------------------------------------------------------------------------


def payers(experiment: config.Experiment) -> dict[str, config.Model]:
    """Return the table of every victim, by label, and of every role, by `role.NAME`."""
    tables = experiment.victim
    victims: dict[str, config.Model] = dict(zip(config.labels_of(tables), tables, strict=True))
    return victims | {f"role.{k}": table for k, table in tables_of(experiment.role).items()}


def all_prices(experiment: config.Experiment) -> dict[str, Price]:
    """Return the price of every victim and role that has one, by payer."""
    return {
        payer: Price(usd_in=table.price_in, usd_out=table.price_out)
        for payer, table in payers(experiment).items()
        if table.price_in is not None and table.price_out is not None
    }


def check_prices(experiment: config.Experiment) -> None:
    """Check that `max_usd` and `max_tokens` can be enforced.

    Raises:
        UsageError: a price is missing, which names the victim or role, or no tokens are counted.
    """
    settings, asked = experiment.experiment, payers(experiment)
    counted = {payer for payer, table in asked.items() if table.backend != "python"}
    for name, payers_of in (
        ("max_tokens", counted),
        ("max_usd", counted & all_prices(experiment).keys()),
    ):
        if getattr(settings, name) is not None and len(asked) > len(counted) and not payers_of:
            other = ", and no other model has a price" if counted else ""
            raise UsageError(
                f"{name} would stop nothing: tokens of Python functions are not counted{other}; "
                "limit them with max_queries or max_seconds"
            )
    if settings.max_usd is None:
        return
    prices, roles = all_prices(experiment), {f"role.{name}" for name in tables_of(experiment.role)}
    for payer, table in asked.items():
        is_role = payer in roles
        is_free = table.backend != "openai" and (is_role or prices.keys() - roles)
        if payer not in prices and not is_free:
            raise UsageError(
                f"max_usd cannot be kept: {f'[{payer}]' if is_role else f'model {payer!r}'} has "
                "no price; give price_in and price_out, US dollars per million tokens"
            )


def usd_of(spending: Iterable[Spending], prices: Mapping[str, Price]) -> float:
    """Return the price of stored calls in US dollars; calls without a price cost nothing."""
    return sum(
        prices[one.payer].usd(one.tokens_in, one.tokens_out)
        for one in spending
        if one.payer in prices
    )
