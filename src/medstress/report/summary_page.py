"""What `medstress summary` prints, its page for a model card, and its decisions as JUnit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.text import Text

from medstress.analyses.run import Run
from medstress.analyses.shown import Decision, Remark, Table, attack_names
from medstress.analyses.summary import (
    PERFORMANCE,
    decisions_of,
    names_in,
    remark_with,
    spoken_of,
    warnings_of,
)
from medstress.analyses.verdict import MOST_OTHERS, VERDICT, Verdict
from medstress.core.words import command, listed
from medstress.report.terminal import print_table, say
from medstress.report.text import clean, escape, markdown_table, number, one_line

MOST_WARNINGS = 12
"""Warnings that are printed unless all are wanted."""
MOST_ALIKE = 3
"""Of one rule; of more the first is printed."""
LIMITS = (
    "This speaks of the attacks, items and budgets listed here and of no others: another attack "
    "may take more."
)


def print_summary(console: Console, run: Run, *, wide: bool = False) -> None:
    """Print the first lines, the first table of each result, and warnings.

    Args:
        console: where.
        run: the run.
        wide: whether all tables are printed with all columns, and all warnings.
    """
    verdict = _verdict(run)
    for i, line in enumerate(verdict.lines):
        say(console, line, "" if i else "bold")
    others = verdict.others if wide else verdict.others[:MOST_OTHERS]
    for model in others:
        console.print()
        for line in model.lines:
            say(console, line)
    if more := len(verdict.others) - len(others):
        console.print()
        say(console, f"{more:,} more models: summary --wide has all.")
    for table in tables_of(run, wide=wide):
        console.print()
        print_table(console, table, wide=wide)
    shown, left = (_sentences(run), 0) if wide else _briefly(_warnings(run))
    if shown:
        console.print()
    for sentence in shown:
        say(console, f"! {sentence}", "yellow")
    if left:
        say(console, f"! {left:,} more: summary --wide has all.", "yellow")
    console.print()
    for line in _end(run, verdict):
        # A command is copied whole.
        console.print(Text(one_line(line)), soft_wrap=True)


def markdown_page(run: Run) -> str:
    """Return one page for a model card: lines, warnings, what was run, and the first tables."""
    verdict = _verdict(run)
    others = (" ".join(model.lines) for model in verdict.others)
    sentences = [*verdict.lines, *others, *(f"Warning: {warning}" for warning in _sentences(run))]
    return markdown(f"medstress {run.name}", sentences, tables_of(run), list(about(run)))


def tables_of(run: Run, *, wide: bool = False) -> list[Table]:
    """Return the first table of each result that a first screen shows, or all tables of all."""
    tables: list[Table] = []
    for _, result in spoken_of(run, page=wide, quiet=wide):
        own = [table for table in result.tables() if table.rows]
        tables += own if wide else own[: int(result.is_brief)]
    return tables


def markdown(
    title: str, sentences: Sequence[str], tables: Sequence[Table], more: Sequence[str] = ()
) -> str:
    """Return one page of Markdown: a title, sentences, tables, and what comes after them."""
    parts = [f"# {escape(title)}", *map(escape, sentences)]
    parts += [markdown_table(table).rstrip("\n") for table in tables]
    return "\n\n".join((*parts, *map(escape, more))) + "\n"


def junit_page(run: Run, first: str | None = None) -> str:
    """Return the criteria of a run, and what kept it from measuring, as JUnit XML.

    Args:
        run: the run.
        first: what a reader has to know before all else.
    """
    return junit(f"medstress {run.name}", decisions_of(run), [first] if first else [])


def junit(suite: str, cases: Sequence[Decision], notes: Sequence[str] = ()) -> str:
    """Return cases as JUnit XML: one `testcase` each, with a `failure` or an `error`.

    Args:
        suite: name of the suite.
        cases: the cases, in order; names should differ.
        notes: what else a reader has to know; a property, so that it comes first.

    >>> print(junit("gate", [Decision(name="asr", outcome="failed", sentence="it is .3")]))
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites name="gate" tests="1" failures="1" errors="0">
      <testsuite name="gate" tests="1" failures="1" errors="0" skipped="0">
        <testcase name="asr" classname="gate">
          <failure message="it is .3">it is .3</failure>
        </testcase>
      </testsuite>
    </testsuites>
    <BLANKLINE>
    """
    outcomes = [case.outcome for case in cases]
    name = clean(suite)
    counts = {
        "name": name,
        "tests": str(len(cases)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("error")),
    }
    root = ET.Element("testsuites", counts)
    inner = ET.SubElement(root, "testsuite", {**counts, "skipped": "0"})
    if notes:
        note = {"name": "note", "value": clean("; ".join(notes))}
        ET.SubElement(ET.SubElement(inner, "properties"), "property", note)
    for case in cases:
        sentence = clean(case.sentence)
        element = ET.SubElement(inner, "testcase", {"name": clean(case.name), "classname": name})
        if case.outcome == "ok":
            ET.SubElement(element, "system-out").text = sentence
        else:
            kind = "failure" if case.outcome == "failed" else "error"
            ET.SubElement(element, kind, {"message": sentence}).text = sentence
    if notes:
        ET.SubElement(inner, "system-out").text = clean("; ".join(notes))
    ET.indent(root)
    head = "<?xml version='1.0' encoding='utf-8'?>\n"
    return head + ET.tostring(root, encoding="unicode") + "\n"


def _verdict(run: Run) -> Verdict:
    verdict = run.of(VERDICT)
    assert verdict is not None
    return verdict


def _warnings(run: Run) -> list[Remark]:
    names = names_in(run)
    return [remark_with(remark, names) for remark in warnings_of(run)]


def _sentences(run: Run) -> list[str]:
    """Return the warnings; the same sentence on several rows is read once."""
    return list(dict.fromkeys(remark.sentence for remark in _warnings(run)))


def _briefly(remarks: Sequence[Remark]) -> tuple[list[str], int]:
    """Return the warnings of a first screen, those of a rule together, and how many are left."""
    by_rule: dict[str, dict[str, None]] = {}
    for remark in remarks:
        by_rule.setdefault(remark.rule, {})[remark.sentence] = None
    lines = []
    for first, *rest in by_rule.values():
        if len(rest) < MOST_ALIKE:
            lines += [first, *rest]
        else:
            lines.append(f"{first} And {len(rest):,} more like this: summary --wide has them.")
    return lines[:MOST_WARNINGS], len(lines[MOST_WARNINGS:])


def _end(run: Run, verdict: Verdict) -> Iterator[str]:
    """Say what was spent, how to go on, and where the cases are."""
    cost = run.of(PERFORMANCE)
    if cost is not None and cost.usd is not None:
        yield f"Spent: {number(cost.usd, 'number')} US dollars."
    if verdict.arm is not None:
        yield f"Cases: {command('case', run.folder.path)}"
    if run.folder.root is not None:
        yield f"Root: {run.folder.root}"


def about(run: Run) -> Iterator[str]:
    """Say of what the numbers are, within which limits, and how to repeat them."""
    manifest = run.manifest
    for label, entry in manifest["victims"].items():
        if "model" in entry:
            yield f"{label}: {entry['model']}, weights or code {entry.get('model_hash')}."
    made = (cell.attack for cell in run.attacks if not cell.attack.asks_clean_only)
    called = attack_names(made)
    items = {dataset: 0 for dataset, _ in run.folder.items}
    for dataset, _ in run.folder.items:
        items[dataset] += 1
    if items:
        counts = listed([f"{n:,} items of {dataset}" for dataset, n in items.items()])
        attacks = f"; attacks: {listed(list(called.values()))}" if called else ""
        seeds = ", ".join(map(str, manifest["seeds"])) or "none"
        yield f"Asked: {counts}{attacks}; seeds: {seeds}."
    version = manifest["versions"].get("medstress")
    ended = f", ended {manifest['finished']}" if manifest["finished"] else ", not complete"
    yield f"Begun {manifest['started']}{ended}" + (f", medstress {version}." if version else ".")
    if fixed := (manifest.get("require") or {}).get("hash"):
        yield f"Criteria were fixed before the first query: {fixed}."
    if called:
        yield LIMITS
    if run.folder.root is not None:
        yield f"Root of the run: {run.folder.root}."
    yield f"Fingerprint of the experiment: {manifest['fingerprint']}."
    yield "To repeat it with its experiment file: medstress run EXPERIMENT.toml --out NEW"
