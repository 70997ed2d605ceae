"""Write the tested claims as CSV, as LaTeX tables and as a section of the index."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.metrics.contrasts import LEAST
from medstress.metrics.old_stats.estimates import Estimate
from medstress.papers.claims.record import CHECK, ClaimResult
from medstress.papers.claims.verdicts import MARGIN, NEAR, Finding
from medstress.papers.exponents import SHARE
from medstress.results.formats import decimal, plural
from medstress.results.latex import latex_table
from medstress.results.markdown import escape, markdown_table
from medstress.results.table import Cell, Format, Table, as_row, columns

CLAIM_FIELDS = (
    "dataset",
    "group",
    "victim",
    "arms",
    "claim",
    "statement",
    "quantity",
    "budget",
    "value",
    "low",
    "high",
    "n",
    "method",
    "p",
    "p_adjusted",
    "verdict",
    "reason",
    "caution",
)
"""Columns of `claims.csv`: one line per claim, unrounded."""

_COLUMNS = (
    *columns(Format.TEXT, "No.", "Claim"),
    *columns(Format.COUNT, "Budget"),
    *columns(Format.SCORE, "Effect"),
    *columns(Format.COUNT, "n"),
    *columns(Format.PROBABILITY, "p (adjusted)"),
    *columns(Format.TEXT, "Verdict"),
)
_Place = tuple[str, str, str, str]


def csv_rows(claims: Sequence[ClaimResult]) -> list[dict[str, Any]]:
    """Return the lines of `claims.csv`; `reason` says why a claim was not tested."""
    return [
        {
            "dataset": row.dataset,
            "group": row.group,
            "victim": row.victim,
            "arms": row.arms,
            "claim": row.claim,
            "statement": row.statement,
            "quantity": row.quantity,
            "budget": row.budget,
            **_numbers(row),
            "p": row.effect.p,
            "p_adjusted": row.p_adjusted,
            "verdict": row.verdict.value,
            "reason": _reason(row),
            "caution": row.caution,
        }
        for row in claims
    ]


def notes_of(claims: Sequence[ClaimResult]) -> list[str]:
    """Explain how verdicts are made, and count them."""
    verdicts = Counter(row.verdict for row in claims if row.claim != CHECK)
    tested = verdicts.total() - verdicts[Finding.NOT_TESTED]
    n_p = sum(row.effect.p is not None for row in claims)
    return [
        "Supported: the whole 95 % interval lies on the claimed side; contradicted: on the other; "
        "undecided: on both. Close to: within "
        f"±{decimal(MARGIN, 2)} in ASR; near: within a factor of {NEAR:g}. A local maximum is "
        "supported if the peak lies inside the grid in at least 97.5 % of the resamples of items, "
        "contradicted if in at most 2.5 %.",
        f"Not tested: an attack is missing, or a side has fewer than {LEAST} items or successes; "
        "the reason is given. A tuned n is chosen on "
        f"{100 * SHARE:.0f} % of the items, and the effect is measured on the others.",
        f"{plural(tested, 'row')} tested: {verdicts[Finding.SUPPORTED]} supported, "
        f"{verdicts[Finding.CONTRADICTED]} contradicted, {verdicts[Finding.UNDECIDED]} undecided; "
        f"{verdicts[Finding.NOT_TESTED]} not tested (claim {CHECK}, a check of the run, is not "
        "counted). Verdicts are not corrected for multiplicity: without any effect, one row in "
        "twenty would still get a direction, and rows of one place share their trials.",
        f"p: two-sided sign flips over items, for {plural(n_p, 'paired difference')} of ASR, "
        "adjusted by Benjamini-Hochberg over all of them.",
    ]


def cautions_of(claims: Sequence[ClaimResult]) -> list[str]:
    """Return one sentence for each place that has a caution."""
    sentences: dict[str, None] = {}
    for row in claims:
        if row.caution and row.claim != 10:
            sentences[f"{row.victim} on {row.dataset} {row.group} is {row.caution}."] = None
    return list(sentences)


def latex(claims: Sequence[ClaimResult], notes: Sequence[str], name: str) -> str:
    """Return one LaTeX table per place, one after the other."""
    tables = []
    for i, (place, rows) in enumerate(_by_place(claims).items(), start=1):
        caption = [*(notes if i == 1 else ()), *_place_notes(rows)]
        tables.append(latex_table(_table(place, rows, caption, f"{name}-{i}")))
    return "\n".join(tables)


def markdown(claims: Sequence[ClaimResult]) -> str:
    """Return one heading and Markdown table per place, and below it what was not tested."""
    blocks = []
    for place, rows in _by_place(claims).items():
        lines = [f"### {escape(_title(place))}", ""]
        if caution := rows[0].caution:
            lines += [f"Caution: {escape(caution)}.", ""]
        table = _table(place, rows, (), "claims")
        lines += [markdown_table(table), ""] if table.rows else []
        lines += [f"* {escape(text)}" for text in _not_tested(rows)]
        blocks.append("\n".join(lines).rstrip())
    return "\n\n".join(blocks)


def _numbers(row: ClaimResult) -> Mapping[str, Any]:
    estimate = row.effect.estimate
    method = "" if row.verdict == Finding.NOT_TESTED else estimate.method
    return {**estimate.as_json(), "method": method}


def _reason(row: ClaimResult) -> str:
    return row.effect.estimate.method if row.verdict == Finding.NOT_TESTED else ""


def _by_place(claims: Sequence[ClaimResult]) -> dict[_Place, list[ClaimResult]]:
    places: dict[_Place, list[ClaimResult]] = defaultdict(list)
    for row in claims:
        places[row.dataset, row.group, row.victim, row.arms].append(row)
    return dict(places)


def _title(place: _Place) -> str:
    dataset, group, victim, arms = place
    return f"{victim} · {dataset} {group} · {arms} arms"


def _table(place: _Place, rows: Sequence[ClaimResult], notes: Sequence[str], name: str) -> Table:
    tested = [each for each in rows if each.verdict != Finding.NOT_TESTED]
    return Table(
        name=name,
        caption=f"Claims of Xian et al. (TMLR 2025), tested: {_title(place)}.",
        columns=_COLUMNS,
        rows=tuple(
            as_row(
                str(each.claim),
                each.statement,
                each.budget,
                _effect(each.effect.estimate),
                each.effect.estimate.n,
                each.p_adjusted,
                each.verdict.value,
                rule_above=i > 0 and tested[i - 1].claim != each.claim,
            )
            for i, each in enumerate(tested)
        ),
        notes=tuple(notes),
        n_labels=2,
    )


def _place_notes(rows: Sequence[ClaimResult]) -> list[str]:
    caution = rows[0].caution
    return [*([f"Caution: {caution}."] if caution else []), *_not_tested(rows)]


def _not_tested(rows: Sequence[ClaimResult]) -> list[str]:
    """Return one sentence per reason with the claims that were not tested for it."""
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        if row.verdict == Finding.NOT_TESTED:
            reasons[_reason(row)][f"{row.claim}. {row.statement}"] = None
    return [f"Not tested ({reason}): {'; '.join(claims)}." for reason, claims in reasons.items()]


def _effect(estimate: Estimate) -> Cell:
    is_bare = estimate.value is not None and (estimate.low is None or estimate.high is None)
    return Cell(value=estimate, lines=("of resamples",) * is_bare)
