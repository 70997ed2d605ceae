"""Verify a run folder: digests, plan, and every trial and follow-up replayed on its answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, cast

import orjson

from medstress.analyses.choice import REPORT, RULE, TUNING
from medstress.analyses.requirements import NO_BASELINE
from medstress.analyses.run import Run
from medstress.analyses.shown import as_json
from medstress.analyses.significance import FIXED, SETTINGS
from medstress.analyses.summary import summary as summary_of
from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.discrete_zoo import DiscreteZoo
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.names import spans_in
from medstress.core.calls import StoredCall
from medstress.core.errors import MedstressError
from medstress.core.hashing import content_hash, digest
from medstress.core.items import Question
from medstress.core.outcomes import TOO_LONG, Verdict
from medstress.core.reading import check_regular, read_inside
from medstress.core.text import edits_of
from medstress.core.trials import Trial as RunTrial
from medstress.core.words import plural
from medstress.engine.inquiry import Asked, Inquiry, id_of
from medstress.engine.replay import (
    TAKEN,
    Differs,
    NotHereError,
    Recorded,
    StoredAttack,
    alike,
    compare,
    replay,
)
from medstress.engine.trial import Trial
from medstress.engine.work import VICTIM, Purpose, Work
from medstress.entities.alike import DUPLICATE, EQUAL
from medstress.entities.embeddings import NGRAM, PromptEncoder
from medstress.experiment.config import Significance as SignificanceTable
from medstress.experiment.criteria import KEY, describe_baseline
from medstress.experiment.explain import explanations
from medstress.experiment.follow_ups import (
    CARRIED,
    Again,
    prompts_to_embed,
    reuses,
    similarities,
    transfers,
)
from medstress.experiment.manifest import read_from, record_of
from medstress.experiment.plan import Prepared
from medstress.experiment.recorded import Bench
from medstress.experiment.room import Room, is_of, redrawn
from medstress.experiment.run import stages_of
from medstress.experiment.significance import families, mention_studies
from medstress.experiment.tuning import RESULT_FILE, SPLIT_FOLDER, chosen_of, tuning_result
from medstress.store.chain import SUPERSEDED, Break, checked_root
from medstress.store.codec import decode_edits
from medstress.store.database import FILE, INQUIRIES, SIMILARITY, SUMMARY
from medstress.store.opening import no_run
from medstress.store.reader import ArmKey, RunReader, StoredWork, opened
from medstress.store.reviews import FILE as REVIEWS
from medstress.store.reviews import (
    every_review,
    reviews_commits,
    stored_key,
    stored_rooms,
    with_reviews,
)
from medstress.store.whole_check import Whole, check_whole
from medstress.tasks.victim import Victim
from medstress.version import __version__

# -- what was found, and the kept summary ----------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Verification:
    """What was checked, what agrees, and the first thing that does not."""

    what: str
    """The folder."""
    broken: Break | None = None
    """The first thing that does not agree."""
    root: str | None = None
    """The root, with all reviews; None if there is none or it does not hold."""
    roots: list[str] = field(default_factory=list)
    """Every root that it once had."""
    root_note: str | None = None
    """Why there is no root."""
    asked_root: str | None = None
    """The root that was kept elsewhere, if one was given and it is one of them."""
    added: dict[str, int] = field(default_factory=dict)
    """What was added since that root: table -> rows."""
    n_redrawn: int = 0
    """Trials whose attack ran again here, and asked what is stored."""
    n_judged: int = 0
    """Trials and follow-ups that were replayed on the stored edits."""
    why: Counter[str] = field(default_factory=Counter)
    """Why an attack did not run again, or counts not -> how many."""
    n_follow_ups: int = 0
    """Follow-ups that were replayed."""
    not_judged: Counter[str] = field(default_factory=Counter)
    """Why nothing can be said of trials -> how many."""
    not_compared: list[str] = field(default_factory=list)
    """What should have been compared and could not be, as sentences."""
    notes: list[str] = field(default_factory=list)
    """What else there is to say."""

    @property
    def holds(self) -> bool:
        """Whether everything agrees and nothing that should have been judged was not."""
        return self.broken is None and not (self.not_judged or self.not_compared)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values["broken"] = None if self.broken is None else asdict(self.broken)
        return {"format": 2, "verified": self.holds, **values}

    def sentences(self) -> Iterator[str]:
        """Yield what people read."""
        if self.broken is not None:
            yield f"does not agree: {self.broken}"
            return
        if self.root is not None:
            yield f"root {self.root}"
        if self.root_note is not None:
            yield self.root_note
        if self.asked_root is not None:
            rows = [plural(n, f"row of {table}", f"rows of {table}") for table, n in self._new()]
            since = f"since then were added: {', '.join(rows)}" if rows else "nothing was added"
            yield f"it had the root {self.asked_root}; {since}"
        if self.n_redrawn:
            n = plural(self.n_redrawn, "trial")
            yield f"{n} redrawn: the attack ran again here and asked what is stored"
        if self.n_judged:
            yield f"{plural(self.n_judged, 'trial')} judged on the stored edits:"
            for reason, n_trials in self.why.most_common():
                yield f"  {n_trials:,}: {reason}"
        if self.n_follow_ups:
            n = plural(self.n_follow_ups, "follow-up")
            yield f"{n} replayed"
        yield from self.notes
        yield from self.doubts()

    def doubts(self) -> Iterator[str]:
        """Yield what should have been judged or compared, and was not."""
        for sentence in self.not_compared:
            yield f"not judged: {sentence}"
        for reason, n_trials in self.not_judged.items():
            yield f"not judged: {plural(n_trials, 'trial')}: {reason}"

    def _new(self) -> list[tuple[str, int]]:
        return [(table, n) for table, n in self.added.items() if n]


_OF_THE_RUN = ("experiment.", "root")
"""Entries of a summary that every version takes from the manifest as they are."""


def kept_break(run: RunReader, summary: Mapping[str, Any], result: Verification) -> Iterator[Break]:
    """Yield the first place at which the kept summary is not that of the current root."""
    path, now = run.folder / SUMMARY, json.loads(json.dumps(summary))
    if result.root is None:
        return
    if check_regular(path) is None:
        # The run was stopped before it was written.
        result.not_compared.append(f"{SUMMARY} is missing; the same command writes it again")
        return
    try:
        kept = json.loads(read_inside(path))
        root, elsewhere = kept["root"], dict(_elsewhere(run, now, kept))
        for one in (now, kept) if elsewhere else ():
            own = [not warning["rule"].startswith("criterion_") for warning in one["warnings"]]
            one["warnings"] = list(compress(one["warnings"], own))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        yield _of_file("a summary", type(error).__name__)
        return
    if root != result.root:
        yield _of_file(f"root {result.root}", f"root {root}")
        return
    version = run.manifest["versions"]["medstress"]
    result.notes += [
        f"not compared: criterion {n + 1} of {SUMMARY}, against the run {baseline}, which is not "
        "here as it was"
        for n, baseline in elsewhere.items()
    ]
    inside = tuple(f"requirements[{n}]." for n in elsewhere)
    for place, expected, actual in _differences(now, kept, version == __version__):
        if place.startswith(inside):
            continue
        if version != __version__ and not place.startswith(_OF_THE_RUN):
            result.not_compared.append(
                f"{SUMMARY} is of medstress {version}, and another one here from {place} on; "
                "compare it with what medstress summary says"
            )
            return
        yield _of_file(f"{place} {_short(expected)}", _short(actual))


def _elsewhere(run: RunReader, now: Any, kept: Any) -> Iterator[tuple[int, str]]:
    """Yield (criterion, its baseline) of what cannot be judged again from this folder.

    The baseline is gone, is another, or was not there as the run ended.
    """
    baselines = (run.manifest.get(KEY) or {}).get("baselines", {})
    pairs = zip(now["requirements"], kept["requirements"], strict=False)
    for n, (one, other) in enumerate(pairs):
        name = str((one["against"] or {}).get("run"))
        if name not in baselines:
            continue
        outcomes = None
        with suppress(MedstressError):
            outcomes = describe_baseline(Path(run.manifest["base"]), name)["outcomes"]
        was_absent = other["met"] is None and str(other["reason"]).startswith(NO_BASELINE)
        if outcomes != baselines[name]["outcomes"] or (was_absent and one != other):
            yield n, name


def _of_file(expected: str, found: str) -> Break:
    return Break(table=SUMMARY, row=0, expected=expected, found=found)


def _differences(
    now: Any, kept: Any, is_ours: bool, place: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (place, value now, value kept); keys of another version's summary may be missing."""
    if isinstance(now, dict) and isinstance(kept, dict):
        for key in {**now, **kept}:
            inside = f"{place}.{key}".lstrip(".")
            if key in now and key in kept:
                yield from _differences(now[key], kept[key], is_ours, inside)
            elif is_ours:
                yield inside, now.get(key, "nothing"), kept.get(key, "nothing")
    elif isinstance(now, list) and isinstance(kept, list):
        if len(now) != len(kept):
            yield place, f"{len(now)} entries", f"{len(kept)} entries"
        for n, (one, other) in enumerate(zip(now, kept, strict=False)):
            yield from _differences(one, other, is_ours, f"{place}[{n}]")
    elif not alike(now, kept):
        yield place, now, kept


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


# -- the verification ------------------------------------------------------------------------------


def _cut_as_stored(victim: Victim, findings: Mapping[str, Any] | None) -> Recorded:
    """Return a victim's back end that cuts texts into the stored tokens.

    Other tokens would be other masked texts, whose calls have other keys.
    """
    starts: dict[str, tuple[int, ...]] = {}
    for side in ("before", "after") if findings and findings["units"] == "tokens" else ():
        left = list(findings[side]["tokens"]) if findings else []
        for _, _, size in findings[side]["segments"] if findings else ():
            tokens, left = left[:size], left[size:]
            starts["".join(tokens)] = (0, *accumulate(map(len, tokens[:-1])))
    backend = victim.backend
    return Recorded(backend.identity, backend.traits, starts or None)


_FOLLOW_UPS = tuple(
    one.value
    for one in (Purpose.TRANSFER, Purpose.REUSE, Purpose.TEST, Purpose.JUDGE, Purpose.EXPLAIN)
)
OTHERWISE = "the attack drew otherwise here: near ties, or tables of another version"
_SUMS = {
    "n_trials": (
        *("n_eligible", "n_already_wrong", "n_unreadable_at_baseline", "n_not_attackable"),
        "n_failed_at_baseline",
    ),
    "n_eligible": ("n_flipped", "n_held", "n_measured", "n_cut_short", "n_failed"),
    "asked": ("paid", "cached", "failed"),
}
"""Count of a row of the summary, or of its queries -> the counts that it is the sum of."""
IN_PROGRESS = "the run, or a test or explanation of it, is not complete"


def verify_folder(
    folder: Path, *, root: str | None = None, own: Prepared | None = None
) -> Verification:
    """Check everything that a run folder says of itself.

    Args:
        folder: the run.
        root: a root that was kept elsewhere; any that the folder once had will do.
        own: the experiment that the user names, loaded without its models: what the folder names
            and does not hold comes from it, where it has the stored hash.

    Raises:
        StoreError: the folder holds no run, or one that cannot be read.
    """
    if check_regular(folder / FILE) is None:
        raise no_run(folder)
    result = Verification(what=str(folder))
    root = None if root is None else checked_root(root)
    whole = check_whole(folder)
    if (broken := whole.broken) is None:
        with opened(folder, check="form") as run:
            _describe(result, run, whole, root)
            broken = result.broken or next(_Verifying(run, result, own).breaks(), None)
    result.broken = broken
    if broken is not None:
        result.root, result.asked_root = None, None
    return result


def _describe(result: Verification, run: RunReader, whole: Whole, root: str | None) -> None:
    """Say which roots there are, and whether the one that was asked for is among them."""
    kept, commits = run.root(), [(None, 0, 0), *reviews_commits(run.folder)]
    digest, n_rooms, n_reviews = commits[-1]
    result.root = None if kept is None else with_reviews(kept, digest)
    result.root_note = IN_PROGRESS if kept is None else None
    if whole.n_open:
        result.notes.append(
            f"{whole.n_open} calls of trials that go on: they have no digest until a trial ends"
        )
    now = dict(whole.last)
    for earlier in whole.roots:
        for digest, rooms, reviews in commits:
            root_now = with_reviews(earlier.root, digest)
            result.roots.append(root_now)
            if root_now == root and result.asked_root is None:
                result.asked_root = root_now
                result.added = {name: now[name] - earlier.last[name] for name in now}
                result.added |= {"reviews": n_reviews - reviews, "rooms": n_rooms - rooms}
    if root is not None and result.asked_root is None:
        had = f"only {', '.join(dict.fromkeys(result.roots))}" if result.roots else "no root at all"
        result.broken = Break(table="manifest", row=0, expected=f"root {root}", found=had)


class _Verifying:
    """One verification on its way."""

    def __init__(self, run: RunReader, result: Verification, own: Prepared | None) -> None:
        self._run, self._result, self._own = run, result, own
        self._manifest = run.manifest
        self._is_ours = self._manifest["versions"]["medstress"] == __version__
        self._items = run.items()
        self._left = run.work_rows()
        self._n_rows = len(self._left)
        self._obstacles: dict[Any, str | None] = {}
        self._bench = Bench(run, own, version=self._is_ours)
        self._roles = {part.name: part.backend for part in self._bench.prepared.roles}

    def breaks(self) -> Iterator[Break]:
        """Yield what does not agree, in order."""
        yield from plan_breaks(self._manifest)
        yield from self._described()
        yield from self._trials()
        stored = Run.open(self._run.folder)
        yield from self._follow_ups(stored)
        yield from self._similarities(stored)
        yield from self._tuning(stored)
        yield from self._reviews(stored)
        summary = summary_of(stored)
        for expected, actual in odd_sums([*summary["results"], *summary["by_seed"]]):
            yield _break("summary", 0, expected, actual)
        yield from kept_break(self._run, summary, self._result)

    def _described(self) -> Iterator[Break]:
        """Yield where items, attacks or data sets are not described as the plan describes them."""
        for row, item_id, stored in self._run.item_names():
            item = self._items[row][1]
            if [item.id, item.hash] != [item_id, stored]:
                yield _break("items", row, f"{item.id!r} {item.hash}", f"{item_id!r} {stored}")
        if self._run.root() is not None and self._manifest.get("complete") is not True:
            found = str(self._manifest.get("complete"))
            yield _break("manifest", 0, "complete, as a run with a root is", found)
        if not self._is_ours:
            return
        prepared, own = self._bench.prepared, self._own
        records = {part.label: record_of(part, prepared) for part in self._bench.described}
        sets = {
            part.label: {"hash": part.loaded.source_hash, **read_from(part)}
            for part in (own.datasets if own else ())
        }
        tables = {"records": records, "groups": self._bench.groups, "datasets": sets}
        for table, expected in tables.items():
            for label, entry in expected.items():
                stored = self._manifest[table].get(label, {})
                for key, value in orjson.loads(orjson.dumps(entry)).items():
                    if stored.get(key) != value:
                        what = f"{table}: {key} of {label!r} {_short(value)}"
                        yield _break("manifest", 0, what, _short(stored.get(key)))

    @property
    def _is_partial(self) -> bool:
        """Whether the plan says more than was asked.

        A tuning run keeps the trials of candidates that left its experiment, and a victim trained
        by folds is asked about the items that it was not trained on.
        """
        n_victims = len(self._manifest["victims"])
        return "tuning" in self._manifest or len(self._bench.folds) < n_victims

    # -- trials ------------------------------------------------------------------------------
    def _trials(self) -> Iterator[Break]:
        manifest, n, n_lost = self._manifest, 0, 0
        lost: Trial | None = None
        for trial in self._bench.prepared.trials():
            row = self._left.pop(trial.id, None)
            stored = None if row is None else self._run.work(row)
            if stored is not None and stored.verdict is not None:
                n += 1
            else:
                n_lost, lost = n_lost + 1, lost or trial
            if stored is not None:
                for earlier in self._run.earlier(stored) if stored.attempt else ():
                    yield from self._trial(trial, earlier)
                why = yield from self._trial(trial, stored)
                self._result.n_redrawn += why is None
                self._result.n_judged += why is not None
                self._result.why.update([why] if why is not None else ())
        stray = None
        for row in list(self._left.values()):
            stored = self._run.work(row)
            if stored.attack in self._bench.unknown:
                self._result.not_judged[self._bench.unknown[stored.attack]] += 1
                del self._left[stored.trial_id]
            elif stored.verdict is not None and stored.verdict not in INQUIRIES:
                stray = stray or stored
        if stray is not None:
            what = f"{stray.attack} on item {self._items[stray.item][1].id!r}"
            yield _break("trials", stray.row, "a trial of the plan", f"one of {what}")
        if not manifest.get("complete") or self._bench.unknown:
            return
        is_partial = self._is_partial
        if lost is not None and not is_partial:
            place = ", ".join(map(str, (lost.dataset, lost.group, lost.victim.label)))
            what = f"{lost.attack_label} on item {lost.item.id!r} of {place}, seed {lost.seed}"
            yield _break("trials", self._n_rows, f"a trial of {what}", "none")
        if n < manifest["n_planned"] or (n > manifest["n_planned"] and not is_partial):
            expected = f"{manifest['n_planned']} trials with a verdict"
            yield _break("trials", self._n_rows, expected, str(n))

    def _trial(self, trial: Trial, stored: StoredWork) -> Generator[Break, None, str | None]:
        """Replay an attempt of a trial; return why its attack did not run again, None if it did."""
        spec = {"budget": trial.attack.budget}
        spec |= self._manifest["attacks"][trial.attack_label]
        if stored.result.get("at") == TOO_LONG:  # only the model can tell, and it is not here
            way = trial.dataset, trial.item.id, "turns" in trial.attack.needs
            too_long = {way: stored.result["note"]}
            trial = replace(trial, victim=replace(trial.victim, too_long=too_long))
        yield from self._place(trial, stored, spec)
        calls, bench = self._run.consumed(stored), self._bench
        n = len({c.query for c in calls if (c.role, c.purpose) == (VICTIM, Purpose.ATTACK)})
        if stored.verdict is not None and stored.result.get("n_asked", 0) != n:
            n_stored = str(stored.result.get("n_asked"))
            yield _break("verdicts", stored.ended, f"n_asked {n}", n_stored)
        why, redrawn = bench.why_judged(trial), None
        if why is None:
            redrawn = self._outcome(trial, stored, calls)
            if redrawn is None:
                return None
        attack = StoredAttack(
            of=trial.attack, calls=calls, verdict=stored.verdict or "", result=stored.result
        )
        judged = replace(trial, attack=attack, resources=bench.rules[trial.group])
        # Names and tables that are here say what they said.
        taken = TAKEN if why is not None or not self._is_ours else frozenset[str]()
        if (differs := self._outcome(judged, stored, calls, taken)) is not None:
            yield self._where(stored, differs)
        rules, names = bench.rules[trial.group], bench.names.get(trial.group)
        for at, expected, actual in odd_edits(trial, calls, rules, names):
            yield self._where(stored, Differs(at, expected, actual))
        resources = trial.resources if why is None else judged.resources
        own = replace(trial, resources=resources)
        if (differs := self._odd_obstacle(own, stored, calls)) is not None:
            yield self._where(stored, differs)
        if redrawn is not None and not bench.may_differ(trial):
            yield self._where(stored, redrawn)
        return why or OTHERWISE

    def _odd_obstacle(
        self, trial: Trial, stored: StoredWork, calls: Sequence[StoredCall]
    ) -> Differs | None:
        """Return where a trial is called not attackable, and its item can be attacked: as its texts
        say, or as another trial was.

        What bars an item depends on neither model nor seed, but for prompts that are too long or
        show no edit, which the replay finds.
        """
        attack, verdict = trial.attack, stored.verdict
        of = attack.of if isinstance(attack, ControlArm) else attack
        if (
            not self._is_ours
            or verdict in (None, Verdict.FAILED, Verdict.CUT_SHORT)
            or any(one.error for one in calls)
            or stored.result.get("at") == TOO_LONG
            or attack.is_unseen_by(trial.victim)
            or of.spec().get("similarity_threshold", "off") != "off"  # of vectors
        ):
            return None
        note = stored.result.get("note") if verdict == Verdict.NOT_ATTACKABLE else None
        if trial.attack_label not in self._bench.lacks:
            with suppress(NotHereError):
                own = attack.obstacle(trial.item, trial.resources)
                is_odd = note is not None and note != own
                return Differs(None, own or "attackable", note) if is_odd else None
        place = trial.attack_label, trial.group, trial.dataset, trial.item.id, trial.item.unit
        seen = self._obstacles.setdefault(place, note)
        seen, note = seen or "attackable", note or "attackable"
        return None if seen == note else Differs(None, f"{seen}, as in another trial", note)

    def _outcome(
        self,
        trial: Trial,
        stored: StoredWork,
        calls: Sequence[StoredCall],
        taken: frozenset[str] = frozenset(),
    ) -> Differs | None:
        """Return where a trial differs, on the victim of its name that it was asked of."""
        first: Differs | None = None
        for victim in self._bench.folds[trial.victim.label]:
            asked = trial
            if victim is not self._bench.folds[trial.victim.label][0]:
                asked = replace(trial, victim=victim.on(trial.dataset))
            takes = self._bench.takes_requests(asked)
            if takes:
                taken |= {"listings"}
            try:
                self._replayed(asked, stored, calls, taken, takes)
            except Differs as differs:
                first = first or differs
            else:
                return None
        return first

    def _replayed(
        self,
        work: Work,
        stored: StoredWork,
        calls: Sequence[StoredCall],
        taken: frozenset[str] = frozenset(),
        takes: bool = False,
    ) -> None:
        """Replay a work.

        Raises:
            Differs: it is not what is stored.
        """
        overtime = stored.result.get("overtime")
        is_open = stored.verdict is None
        try:
            result = replay(
                work, calls, self._roles, overtime=overtime, is_open=is_open, as_stored=takes
            )
        except Differs:
            raise
        except Exception as error:
            raise Differs(None, "a work that can be replayed", f"{error}") from error
        if result is not None and stored.verdict is not None:
            compare(result, stored.verdict, stored.result, taken)

    # -- follow-ups --------------------------------------------------------------------------
    def _follow_ups(self, run: Run) -> Iterator[Break]:
        again, trials = Again.of(self._bench.prepared), _trials_by_name(run)
        found: set[tuple[Purpose, ArmKey, str]] = set()
        replaced = self._manifest.get(SUPERSEDED, ())
        for row in self._left.values():
            stored = self._run.work(row)
            calls, work = self._run.consumed(stored), None
            is_replaced = stored.trial_id in replaced  # after a retry, say, that led elsewhere
            why = "a follow-up: " + ("another has replaced it" if is_replaced else "not finished")
            try:
                if stored.verdict is not None:
                    purpose = self._purpose(stored)
                    found.add(_place_of(purpose, stored.arm, self._items[stored.item][1]))
                    why = f"{purpose}: what it asked about is not here as it was"
                    with suppress(LookupError, TypeError, ValueError, MedstressError):
                        work = self._asked(run, again, trials, stored)
                    # Which successes a test is about may have changed since.
                    is_sure = self._is_ours and purpose is not Purpose.TEST
                    if work is not None and work.id != stored.trial_id and not is_sure:
                        work = None
                if work is None:
                    self._check_keys(stored, calls)
                    self._result.why[why] += 1
                    self._result.n_judged += 1
                    continue
                yield from self._place(work, stored, work.attack_spec)
                if work.id != stored.trial_id:
                    yield _break("trials", stored.row, f"follow-up {work.id}", stored.trial_id)
                takes = self._bench.takes_requests(work)
                self._replayed(work, stored, calls, takes=takes)
                self._result.n_follow_ups += 1
            except Differs as differs:
                yield self._where(stored, differs)
        yield from self._planned(run, found)

    def _purpose(self, stored: StoredWork) -> Purpose:
        """Return why a follow-up was asked, whose id has to be that of what it says of itself.

        Raises:
            Differs: it is another one, or no follow-up has this purpose.
        """
        purpose, spec = stored.result.get("purpose"), stored.result.get("told", {})
        if purpose not in _FOLLOW_UPS:
            raise Differs(None, f"a purpose of {', '.join(_FOLLOW_UPS)}", purpose)
        own, edits = "none", None
        with suppress(LookupError, TypeError, ValueError):
            if purpose in CARRIED.purposes:
                texts = spec["edits"]
                texts = [texts] if isinstance(texts, str) else texts
                edits = [decode_edits(one) for one in texts]
            own = id_of(Purpose(purpose), stored.arm, self._items[stored.item][1], spec, edits)
        if own != stored.trial_id:
            raise Differs(None, f"what makes the id {stored.trial_id}", f"what makes {own}")
        return Purpose(purpose)

    def _asked(
        self, run: Run, again: Again, trials: Mapping[Any, RunTrial], stored: StoredWork
    ) -> Work | None:
        """Return a follow-up as what it says of itself would have it; None if it is not here.

        What an extension has replaced is asked about nothing that is planned any more, so the plan
        does not say what was asked; its id does.
        """
        spec, purpose = stored.result["told"], stored.result["purpose"]
        item = self._items[stored.item][1].id
        trial = trials[spec["trial"]] if "trial" in spec else trials[*stored.arm, item]
        if purpose in (Purpose.TRANSFER, Purpose.REUSE):
            about, edits = again.about(trial, stored.victim), spec["edits"]
            texts = [edits] if isinstance(edits, str) else edits
            return Inquiry(
                **about,
                purpose=Purpose(purpose),
                goal=again.attack(trial).goal_for(about["item"]),
                candidates=tuple(about["item"].candidate(decode_edits(one)) for one in texts),
                spec=spec,
            )
        if stored.attack in self._bench.muted:
            return None
        if purpose == Purpose.JUDGE:
            return next(iter(mention_studies([trial], again)), None)
        if purpose == Purpose.EXPLAIN:
            edited = {trial.id: spec["edits"]}
            (work,) = explanations([trial], edited, again, spec["evaluations"])
            cut = _cut_as_stored(work.victim, stored.result.get("found"))
            # The trial may have ended otherwise since.
            told = {**work.spec, "verdict": spec["verdict"]}
            return replace(work, victim=replace(work.victim, backend=cut), spec=told)
        keys = {key: spec[key] for key in SETTINGS}
        if items := run.manifest.get(FIXED, {}).get("items"):
            keys["items"] = tuple(items)
        for family in families(run.trials, again, SignificanceTable(**keys)):
            if {one.id for one in family.successes} == set(spec["trials"]):
                return replace(family, n_asked=spec.get("asked", 0)).study()
        return None

    def _planned(self, run: Run, found: Collection[tuple[Purpose, ArmKey, str]]) -> Iterator[Break]:
        """Yield a planned follow-up that is missing, or called replaced, which takes it out of the
        root; `found`: what was asked about each place."""
        replaced = set(self._manifest.get(SUPERSEDED, ())) & self._left.keys()
        is_whole = bool(self._manifest.get("complete")) and not self._bench.unknown
        is_whole = is_whole and not self._is_partial
        for plan in self._plans() if replaced or is_whole else ():
            with suppress(NotHereError):  # names of a vocabulary that is not here
                for work in plan(self._bench.prepared, run):
                    what = f"that {work.attack_label} asks of item {work.item.id!r}"
                    # By other vectors near ties may give other names, and another id; which
                    # successes a test is about may have changed since.
                    is_other = work.purpose in (Purpose.REUSE, Purpose.TEST)
                    is_other &= _place_of(work.purpose, _arm_of(work), work.item) in found
                    if work.id in replaced:
                        row = self._left[work.id]
                        yield _break("trials", row, "a follow-up that is replaced", f"one {what}")
                    elif is_whole and work.id not in self._left and not is_other:
                        what = f"a follow-up ({work.purpose.value}) {what}"
                        yield _break("trials", self._n_rows, what, "none")

    def _plans(self) -> list[Callable[[Prepared, Run], Iterable[Asked]]]:
        """Return what plans the follow-ups that the experiment asks for, as far as all is here."""
        stages = stages_of(self._bench.prepared)
        asked = [one.works for one in stages if one is not CARRIED]
        is_told = self._is_ours and not self._bench.muted
        return [transfers, reuses, *(asked if is_told else ())]

    # -- what was computed -------------------------------------------------------------------
    def _similarities(self, run: Run) -> Iterator[Break]:
        """Yield what is found about a trial that is not the similarity of its prompts, and where a
        success has none."""
        rows, named = self._run.findings(), self._manifest.get("similarity")
        if not rows and named is None:
            return
        prompts, encoder = prompts_to_embed(run, None), PromptEncoder(NGRAM)
        now: dict[int, float | None] = {number: None for number, *_ in prompts}
        is_here = named == {"embedder": NGRAM, "hash": encoder.identity}
        if is_here:
            for chunk in similarities(encoder, prompts):
                now.update(chunk)
        elif named is not None:
            n = plural(len({number for _, number, *_ in rows}), "success", "successes")
            self._result.notes.append(
                f"not compared: the similarity of the prompts of {n}, by {named['embedder']}, "
                "which is not run here"
            )
        encoders, last = self._run.encoders(), dict[int, Any]()
        for row, number, name, value in rows:
            if name != SIMILARITY or number not in now:
                found = f"{name!r} of trial {number}"
                yield _break("findings", row, "the similarity of a success's prompts", found)
                continue
            last[number], cosine = value
            is_named = named is not None and last[number] == named["hash"]
            expected = now[number] if is_named and is_here else cosine
            is_known = last[number] in encoders and -1 <= cosine <= 1
            if not is_known or not alike(expected, cosine):
                what = f"of trial {number} the similarity {expected if is_known else 'of a cosine'}"
                yield _break("findings", row, what, str(value))
        if named is not None and self._manifest.get("complete"):  # else the run was stopped before
            for number in now:
                if last.get(number) != named["hash"]:
                    yield _break("findings", len(rows), f"the similarity of trial {number}", "none")

    def _tuning(self, run: Run) -> Iterator[Break]:
        """Yield where what was tuned is not what the grid's trials say."""
        notes = self._manifest.get("tuning")
        if notes is None or not self._is_ours:
            return
        folder, chosen = self._run.folder, run.of(TUNING)
        expected = {"rule": RULE, "optimistic": notes["settings"]["share"] == 1}
        if notes["part"] == REPORT:
            if check_regular(folder / SPLIT_FOLDER / FILE) is None:
                self._result.notes.append(
                    f"not compared: which n was chosen; the run that chose it is not in "
                    f"{SPLIT_FOLDER}"
                )
            else:
                expected |= as_json(chosen_of(Run.open(folder / SPLIT_FOLDER)))
        found = {key: notes.get(key) for key in expected}
        for place, one, other in _differences(_plain(expected), found, True):
            yield _break("manifest", 0, f"tuning: {place} {_short(one)}", _short(other))
        if chosen is None or check_regular(folder / RESULT_FILE) is None:
            return
        try:
            kept = json.loads(read_inside(folder / RESULT_FILE))
        except (OSError, ValueError, RecursionError) as error:
            yield Break(RESULT_FILE, 0, "what tuning chose", type(error).__name__)
            return
        for place, one, other in _differences(_plain(tuning_result(chosen)), kept, True):
            yield Break(RESULT_FILE, 0, f"{place} {_short(one)}", _short(other))

    def _reviews(self, run: Run) -> Iterator[Break]:
        """Yield rooms that their arguments do not draw, and verdicts that no room can give."""
        key, rooms = stored_key(self._run.folder), list[Room]()
        for name, body in stored_rooms(self._run.folder).items():
            stored, n, odd = {**body, "room": name}, len(rooms), []
            for room in redrawn(run, key, body):
                now = _plain({**stored, **room.body, "room": room.id})
                if differs := next(_differences(now, stored, True), None):
                    odd.append(differs)
                else:
                    rooms.append(room)
            if odd and len(rooms) == n:
                place, expected, found = odd[0]
                yield Break(REVIEWS, 0, f"room {name}: {place} {_short(expected)}", _short(found))
            elif len(rooms) == n:
                what = f"room {name}: arms with as many trials as the run had to draw from"
                yield Break(REVIEWS, 0, what, _short(body["arms"]))
        for one in every_review(self._run.folder):
            if not any(is_of(room, one) for room in rooms):
                about = f"case {one.case_id} of {one.trial_id or one.control_of}"
                found = f"{dict(one.answers)} on {about}, judged by {one.reviewer}"
                yield Break(REVIEWS, 0, "what a room takes of a case in it", found)

    def _check_keys(self, stored: StoredWork, calls: Sequence[StoredCall]) -> None:
        """Check that the calls of a follow-up have the keys of their requests.

        Raises:
            Differs: one has not.
        """
        victims = self._bench.folds.get(stored.victim, ())
        models = {name: [backend] for name, backend in self._roles.items()}
        models[VICTIM] = [victim.backend for victim in victims]
        for at, one in enumerate(calls):
            if one.request is not None and victims:
                request = orjson.loads(one.request)
                keys = {digest([model.identity.hash, *request]) for model in models[one.role]}
                if one.key not in keys:
                    raise Differs(at, f"key {min(keys).hex()}", one.key.hex())

    def _place(self, work: Work, stored: StoredWork, spec: Mapping[str, Any]) -> Iterator[Break]:
        """Yield where a row names another place than its id."""
        dataset, item = self._items[stored.item]
        planned = _arm_of(work)
        own = [work.dataset, work.item.id, work.item.hash, work.repeat]
        if stored.arm != planned:
            yield _break("arms", stored.row, f"the arm {planned}", f"{stored.arm}")
        if [dataset, item.id, item.hash, stored.repeat] != own:
            yield _break("trials", stored.row, f"item and repeat {own}", f"{[dataset, item.id]}")
        if orjson.loads(stored.spec) != orjson.loads(orjson.dumps(spec)):
            yield _break("arms", stored.row, f"attack {spec}", stored.spec)

    def _where(self, stored: StoredWork, differs: Differs) -> Break:
        """Name the row of a difference."""
        if differs.call is None:
            return _break("verdicts", stored.ended, differs.expected, differs.found)
        expected = f"call {differs.call} with {differs.expected}"
        return _break("exchanges", stored.row, expected, differs.found)


def _plain(value: Any) -> Any:
    """Return a value as a reader of its JSON finds it."""
    return json.loads(json.dumps(value))


def _trials_by_name(run: Run) -> dict[Any, RunTrial]:
    """Return trials by id, and by arm and item."""
    named: dict[Any, RunTrial] = {trial.id: trial for trial in run.trials}
    for trial in run.trials:
        arm = trial.arm
        named[*arm.place, arm.attack.label, arm.seed, trial.item.id] = trial
    return named


def _arm_of(work: Work | Asked) -> ArmKey:
    return work.dataset, work.group, work.victim.label, work.attack_label, work.seed


def _place_of(purpose: Purpose, arm: ArmKey, item: Any) -> tuple[Purpose, ArmKey, str]:
    """Return what a follow-up is about: an item, or of a test the whole family."""
    return purpose, arm, "" if purpose is Purpose.TEST else item.id


def _break(table: str, row: int, expected: str, found: str) -> Break:
    return Break(table=table, row=row, expected=expected, found=found)


def odd_edits(
    trial: Trial,
    calls: Sequence[StoredCall],
    rules: Any,
    names: Collection[str] | None = None,
) -> Iterator[tuple[int, str, str]]:
    """Yield (call, expected, found) where a query could not have been asked, as the texts show.

    Args:
        trial: as planned.
        calls: what it consumed.
        rules: what its attack may read, as far as it is here.
        names: of its vocabulary; None if that is not here.
    """
    attack, item = trial.attack, cast("Question", trial.item)
    fields = attack.fields
    if "options" in fields:
        fields |= set(item.letters)
    seen: set[str] = set()
    spans: set[tuple[str, int, int]] = set()
    if isinstance(attack, EntitySubstitution | DiscreteZoo):
        field = attack.field if isinstance(attack, EntitySubstitution) else "options"
        spans = {(s.field, s.start, s.end) for s in spans_in(item, rules, field)}
    for at, one in enumerate(calls):
        if (one.role, one.purpose) != (VICTIM, Purpose.ATTACK) or one.edits is None:
            continue
        edits = edits_of(orjson.loads(one.edits))
        changed = {edit.field for edit in edits}
        if fields and not changed <= fields:
            yield at, f"an edit of {', '.join(sorted(fields))}", f"one of {sorted(changed)}"
        if isinstance(attack, MedFuzz) and changed & set(item.letters):
            yield at, "the options as they are", f"an edit of {sorted(changed)}"
        if not isinstance(attack, EntitySubstitution | DiscreteZoo):
            continue
        if len(edits) != 1:
            yield at, "one edit", str(len(edits))
        edit = edits[0]
        if (edit.field, edit.start, edit.end) not in spans:
            yield at, f"a span of {sorted(spans)}", str((edit.field, edit.start, edit.end))
        if one.flags and "probe" in orjson.loads(one.flags):
            continue
        if one.edits in seen:
            yield at, "no name twice", edit.replacement
        seen.add(one.edits)
        if names is not None and edit.replacement not in names:
            yield at, "a name of the vocabulary", f"{edit.replacement!r}"
        if why := _objection(attack.rule, item, edit.replacement, rules):
            yield at, "a name that may be drawn", f"{edit.replacement!r} ({why})"


def _objection(rule: str, item: Any, name: str, rules: Any) -> str | None:
    """Return why a name may never be drawn for its wording, or None."""
    try:
        why: str | None = rules.perturbations.objection(item, name)
    except NotHereError:
        return None
    left_out = {"mark": (EQUAL, DUPLICATE), "key_string": (DUPLICATE,)}.get(rule)
    return why if left_out is None or why in left_out else None


def plan_breaks(manifest: Mapping[str, Any]) -> Iterator[Break]:
    """Yield where a manifest does not agree with its own fingerprints."""
    parts = manifest["parts"]
    if (own := content_hash(parts)) != manifest["fingerprint"]:
        yield _break("manifest", 0, f"fingerprint {own}", str(manifest["fingerprint"]))
    for label, spec in manifest["attacks"].items():
        if (own := content_hash(spec)) != parts["attacks"].get(label):
            yield _break("manifest", 0, f"attack {label!r} {own}", str(parts["attacks"].get(label)))
    for label, victim in manifest["victims"].items():
        own = content_hash({"task": victim["task"], "model": victim["model_hash"]})
        if own != (stored := parts["victims"].get(label)):
            yield _break("manifest", 0, f"model {label!r} {own}", str(stored))
        for one in (victim, *victim.get("by_dataset", {}).values()):
            source, stored = (one["prompt"] or {}).get("source"), one["task"].get("template")
            if None not in (source, stored) and (own := content_hash(source)) != stored:
                yield _break("manifest", 0, f"prompt of {label!r} {stored}", f"one of {own}")


def odd_sums(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (expected, found) where the counts of a row of a summary do not add up."""
    for row in rows:
        counts = {**row, **row["queries"]}
        for name, parts in _SUMS.items():
            total = sum(counts[part] for part in parts)
            if counts[name] != total:
                where = f"{row['attack']} on {row['victim']}, {row['dataset']}/{row['group']}"
                yield f"{name} {total} of {where}", str(counts[name])
