"""All that a run says, in the order of the page; `summary --json` in format 3 (INTERFACE 4).

Results hold labels, which files and commands use. People read one name for each thing on a screen:
a `Spoken` result has the names that the first lines give attacks and models. What a run has cost
closes its summary.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from medstress.analyses.attempts import ATTEMPTS
from medstress.analyses.cautions import CAUTIONS, unread_models
from medstress.analyses.results import RESULTS, TESTS, Row
from medstress.analyses.run import Analysis, Run
from medstress.analyses.shown import (
    Chart,
    Decision,
    Entry,
    Json,
    Label,
    Point,
    Remark,
    Shown,
    Table,
    as_json,
    attack_names,
    column,
    control_words,
    model_names,
    table,
)
from medstress.analyses.transfer import REUSE, TRANSFER
from medstress.analyses.verdict import VERDICT
from medstress.core.outcomes import Verdict as Ended
from medstress.core.words import listed
from medstress.store.counts import Price

FORMAT = 3


def _rare(
    name: str, module: str, has_some: Callable[[Run], bool] = bool, *, is_quiet: bool = False
) -> Analysis[Shown]:
    """Return an analysis whose module is imported only where a run has something of its kind.

    Args:
        name: of the analysis.
        module: where it is defined, and what it is called there, such as `choice:TUNING`.
        has_some: whether a run may have a result.
        is_quiet: see `Analysis`.
    """

    def compute(run: Run) -> Shown | None:
        if not has_some(run):
            return None
        file, _, object_ = module.partition(":")
        made: Analysis[Shown] = getattr(import_module(f"medstress.analyses.{file}"), object_)
        return made.compute(run)

    return Analysis(name, compute, is_quiet)


def _asked(purpose: str) -> Callable[[Run], bool]:
    return lambda run: bool(run.inquiries(purpose))


def _has_passages(run: Run) -> bool:
    return any(getattr(item, "passage", "") for item in run.folder.items.values())


ANALYSES: Sequence[Analysis[Shown]] = (
    RESULTS,
    _rare("requirements", "requirements:REQUIREMENTS", lambda r: bool(r.manifest.get("require"))),
    _rare("slices", "slices:SLICES", lambda r: bool(r.manifest.get("slices"))),
    TESTS,
    _rare("scaling", "scaling:SCALING", is_quiet=True),
    TRANSFER,
    REUSE,
    ATTEMPTS,
    _rare("significance", "significance:SIGNIFICANCE", _asked("test")),
    _rare("faithfulness", "attempts:FAITHFULNESS", lambda r: any(t.records for t in r.trials)),
    _rare("explanations", "explanations:EXPLANATIONS", _asked("explain")),
    _rare("probes", "probes:PROBES", lambda run: any(trial.answers for trial in run.trials)),
    _rare("passages", "probes:READING", _has_passages),
    _rare("training", "training:TRAINING", lambda run: "training" in run.manifest),
    _rare("tuning", "choice:TUNING", lambda run: "tuning" in run.manifest),
    _rare("review", "review:REVIEW", lambda run: bool(run.folder.reviews)),
)
"""Every capability, in the order of the page: the only list of them."""
PAGE: Sequence[Analysis[Shown]] = (_rare("names", "scaling:NAMES"),)
"""What only the page shows, and no file holds."""
LISTS = ("slices", "requirements", "tests", "attempts", "significance", "faithfulness")
"""Entries of which JSON has the rows alone."""
ALWAYS = ("slices", "requirements", "tests")
"""Entries that are there, empty, where a run has nothing of the kind."""
COMPLETE = "complete"
"""The name of the case that says whether a run has ended."""
MISSED = 3
"""The exit code of a run that misses a criterion."""
_EXPERIMENT = ("fingerprint", "seeds", "versions", "started", "finished", "complete")


def results_of(run: Run, *, page: bool = False, quiet: bool = True) -> Iterator[tuple[str, Shown]]:
    """Yield name and result of every analysis that applies, in the order of the page.

    Args:
        run: the run.
        page: whether those that the page alone shows are among them.
        quiet: whether those without remarks, decisions and brief tables are; they are not computed.
    """
    for analysis in (*ANALYSES, *(PAGE if page else ())):
        result = run.of(analysis) if quiet or not analysis.is_quiet else None
        if result is not None:
            yield analysis.name, result


def warnings_of(run: Run) -> list[Remark]:
    """Return what a reader has to know: of the run first, then of each result."""
    cautions = run.of(CAUTIONS)
    shown = [
        *([cautions] if cautions else []),
        *(result for _, result in results_of(run, quiet=False)),
    ]
    remarks = {
        (remark.sentence, remark.where): remark
        for result in shown
        for remark in result.remarks()
        if remark.level == "warning"
    }
    return list(remarks.values())


def faults_of(run: Run) -> list[Decision]:
    """Return what may have kept a run from measuring: failures, unreadable answers, its end."""
    failed = sum(trial.verdict is Ended.FAILED for trial in run.trials)
    allowed = int(run.manifest["config"]["experiment"].get("max_failed") or 0)
    unread = list(unread_models(run).values())
    checks = (
        ("trials", failed <= allowed, f"{failed:,} trials failed; {allowed:,} may fail"),
        (
            "answers",
            not unread,
            f"not one answer of {listed(unread)} could be read" if unread else "answers are read",
        ),
        (
            COMPLETE,
            run.is_complete,
            "complete" if run.is_complete else "the run is not complete",
        ),
    )
    return [
        Decision(name=name, outcome="ok" if is_ok else "error", sentence=sentence)
        for name, is_ok, sentence in checks
    ]


def decisions_of(run: Run) -> list[Decision]:
    """Return the criteria of a run, then what may have kept it from measuring."""
    told = results_of(run, quiet=False)
    criteria = [case for _, result in told for case in result.decisions()]
    return [*criteria, *faults_of(run)]


def exit_code(run: Run) -> int:
    """Return 1 where too many trials failed or nothing could be read, else 3 where a criterion is
    missed or cannot be judged, else 0.

    Criteria of a run that goes on are not judged yet.
    """
    if any(case.outcome == "error" and case.name != COMPLETE for case in faults_of(run)):
        return 1
    told = results_of(run, quiet=False)
    criteria = [case.outcome for _, result in told for case in result.decisions()]
    is_bad = "failed" in criteria or (run.is_complete and "error" in criteria)
    return MISSED if is_bad else 0


def summary(run: Run) -> dict[str, Json]:
    """Return the summary of a run, finished or not, as JSON values."""
    experiment = {"name": run.name, **{name: run.manifest[name] for name in _EXPERIMENT}}
    entries: dict[str, Json] = {name: [] for name in ALWAYS}
    for name, result in results_of(run):
        if name != RESULTS.name:
            made = as_json(result)
            entries[name] = made["rows"] if name in LISTS else made
    results = run.of(RESULTS)
    return {
        "format": FORMAT,
        "experiment": experiment,
        "root": run.folder.root,
        "verdict": as_json(run.of(VERDICT)),
        "results": [_row(row) for row in results.rows] if results else [],
        "by_seed": [_row(row, of_seed=True) for row in results.by_seed()] if results else [],
        **entries,
        "warnings": [
            {"rule": remark.rule, "sentence": remark.sentence, "where": list(remark.where)}
            for remark in warnings_of(run)
        ],
        "performance": as_json(run.of(PERFORMANCE)),
    }


def _row(row: Row, *, of_seed: bool = False) -> dict[str, Json]:
    """Return a row; one of one seed has that seed: null for an attack without random numbers."""
    made: dict[str, Json] = as_json(row)
    if made["control_of"] is None:
        del made["control_of"]
    if of_seed:
        made["seed"] = made.pop("seeds")[0]
    return made


# As people read it -----------------------------------------------------------------------------


class Spoken(Shown):
    """A result as people read it."""

    def __init__(self, result: Shown, names: Mapping[str, str]) -> None:
        """Take a result, and label -> name."""
        self.result, self.title, self.is_brief = result, result.title, result.is_brief
        self._names = names

    def tables(self) -> Sequence[Table]:
        """The tables of the result."""
        return [
            replace(table, rows=tuple(tuple(map(self._entry, row)) for row in table.rows))
            for table in self.result.tables()
        ]

    def charts(self) -> Sequence[Chart]:
        """Its pictures."""
        return [self.chart(chart) for chart in self.result.charts()]

    def chart(self, chart: Chart) -> Chart:
        """Return a picture."""
        return replace(chart, points=tuple(map(self._point, chart.points)))

    def remarks(self) -> Sequence[Remark]:
        """Its sentences."""
        return [remark_with(remark, self._names) for remark in self.result.remarks()]

    def decisions(self) -> Sequence[Decision]:
        """Its decisions, as files hold them."""
        return self.result.decisions()

    def _entry(self, entry: Entry) -> Entry:
        value = entry.value
        if not isinstance(value, Label) or value.key not in self._names:
            return entry
        return replace(entry, value=Label(words=self._names[value.key], key=value.key))

    def _point(self, point: Point) -> Point:
        x = self._names.get(point.x, point.x) if isinstance(point.x, str) else point.x
        series = self._names.get(point.series, point.series)
        return replace(point, x=x, series=series, panel=self._heading(point.panel))

    def _heading(self, heading: str) -> str:
        """Return the heading of a picture, which begins with a model."""
        for label, name in self._names.items():
            if heading == label or heading.startswith(f"{label}, "):
                return name + heading[len(label) :]
        return heading


def names_in(*runs: Run) -> dict[str, str]:
    """Return label -> name of the attacks, their controls and the models of a run."""
    names = attack_names(cell.attack for run in runs for cell in run.attacks)
    of_controls = {
        cell.attack.label: f"{names[cell.arm.control_of]}, {control_words(cell.attack.name)}"
        for run in runs
        for cell in run.cells
        if cell.arm.control_of in names
    }
    models = model_names(dict.fromkeys(v for run in runs for v in run.manifest["victims"]))
    return {**models, **names, **of_controls}


def remark_with(remark: Remark, names: Mapping[str, str]) -> Remark:
    """Return a sentence that calls what it speaks of by its name."""
    labels = [label for label in remark.where[2:] if names.get(label, label) != label]
    sentence = remark.sentence
    for label in labels:
        sentence = re.sub(rf"(?<![\w/]){re.escape(label)}(?![\w/])", names[label], sentence)
    return replace(
        remark,
        sentence=sentence,
        where=(*remark.where[:2], *(names.get(label, label) for label in remark.where[2:])),
    )


def spoken_of(run: Run, *, page: bool = False, quiet: bool = True) -> Iterator[tuple[str, Spoken]]:
    """Yield name and result of every analysis that applies (`results_of`), as people read it."""
    names = names_in(run)
    for name, result in results_of(run, page=page, quiet=quiet):
        yield name, Spoken(result, names)


# Cost ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """Computed calls of one model or role."""

    payer: str
    """The model's label, or the role as `role.attacker`."""
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None
    """In US dollars, at the prices of the experiment; None without a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance(Shown):
    """What all processes of a run have used up."""

    wall_seconds: float
    queries_per_second: float | None
    calls: int
    """Computed calls, those ahead that were never consumed included."""
    calls_from_cache: int
    """Answers that another run had bought."""
    tokens_forwarded: int | None
    """Tokens that a local model read, after prefixes were shared; None if no one counted."""
    tokens_naive: int | None
    """Tokens that it would have read without."""
    usd: float | None
    """Of all that has a price; None without any price."""
    spending: Sequence[Paid]
    title = "Cost"

    def tables(self) -> Sequence[Table]:
        """Calls and tokens by payer."""
        return [table("spending", "Calls and tokens", self.spending, SPENDING)]


def performance_of(run: Run) -> Performance:
    """Add up stored calls, and price their tokens."""
    stored: Mapping[str, Any] = run.manifest.get("performance") or {}
    seconds = float(stored.get("wall_seconds") or 0.0)
    asked = sum(trial.queries.asked for trial in run.trials)
    prices = prices_of(run.manifest)
    spending = paid(run, prices)
    return Performance(
        wall_seconds=seconds,
        queries_per_second=asked / seconds if seconds else None,
        calls=sum(one.calls for one in spending),
        calls_from_cache=run.folder.n_from_cache,
        tokens_forwarded=stored.get("tokens_forwarded"),
        tokens_naive=stored.get("tokens_naive"),
        usd=sum(one.usd or 0.0 for one in spending) if prices else None,
        spending=spending,
    )


PERFORMANCE = Analysis("performance", performance_of)
SPENDING = (
    column("Paid to", "payer"),
    column("Calls", "calls", "count"),
    column("Tokens in", "tokens_in", "count"),
    column("Tokens out", "tokens_out", "count"),
    column("US dollars", "usd", "number"),
)


def prices_of(manifest: Mapping[str, Any]) -> dict[str, Price]:
    """Return the price of every model and role that has one, by payer."""
    roles = {f"role.{name}": entry for name, entry in (manifest.get("roles") or {}).items()}
    return {
        payer: Price(usd_in=entry["price_in"], usd_out=entry["price_out"])
        for payer, entry in {**manifest["victims"], **roles}.items()
        if entry.get("price_in") is not None
    }


def paid(run: Run, prices: Mapping[str, Price]) -> list[Paid]:
    """Return what each model and role was paid for, over all trials."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in run.folder.spending:
        added = one.n_calls, one.tokens_in, one.tokens_out
        sums[one.payer] = [a + b for a, b in zip(sums[one.payer], added, strict=True)]
    return [
        Paid(
            payer=payer,
            calls=calls,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            usd=prices[payer].usd(tokens_in, tokens_out) if payer in prices else None,
        )
        for payer, (calls, tokens_in, tokens_out) in sorted(sums.items())
    ]
