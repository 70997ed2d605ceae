"""The layouts of Araujo et al., 2020: scores of tagged texts and pairs under synonyms and noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from medstress.analyses.results import LABELS, RESULTS, Row
from medstress.analyses.scores import table_of
from medstress.analyses.shown import (
    Chart,
    Column,
    Entry,
    Field,
    Point,
    Table,
    Value,
    column,
    label,
    table,
)
from medstress.analyses.training import TRAINING, KindScores
from medstress.core.sentences import TaggedText
from medstress.report.papers import published
from medstress.report.papers.layout import Entry as Made
from medstress.report.papers.layout import Layout, Missing, PaperRun, Part, renamed, seeds_note
from medstress.stats.estimate import Estimate

ORIGINAL = "original"
"""The clean data among the tests."""
TESTS = (ORIGINAL, "synonym", "keyboard_noise", "swap_noise")
"""Tests in the order of the figure; others follow."""
BC5CDR = "bc5cdr"
CLEAN_TRAINED = "Araujo et al., 2020, Tables 2 and 3"
TRAINED = "Araujo et al., 2020, Tables 4 to 6"
INTERVALS = (
    "Intervals: 95 %, bootstrap over documents, sentences or pairs; pairs that share a sentence "
    "are drawn together."
)


def _rows(run: PaperRun) -> list[Row]:
    results = run.run.of(RESULTS)
    return [] if results is None else results.attacks


def _notes(rows: Sequence[Row]) -> list[str]:
    few = dict.fromkeys(
        f"{s.n_clusters} {s.clusters} of {row.key.dataset} are too few for an interval; "
        f"{s.scoring.enough} are needed."
        for row in rows
        if (s := row.scores) is not None and s.are_few
    )
    seeds = {seed for row in rows for seed in row.cell.seeds if seed is not None}
    return [seeds_note(seeds), INTERVALS, *few]


def _scores(run: PaperRun) -> Iterator[Part]:
    rows = _rows(run)
    made = table_of(rows, LABELS)
    if made is None:
        raise Missing("needs tagged texts or sentence pairs")
    yield renamed(made, "scores", _notes(rows))


def _success(run: PaperRun) -> Iterator[Part]:
    """Yield the entities that are lost, or pairs that move too much, within the budget."""
    rows = [row for row in _rows(run) if row.success is not None and row.success.asr.n]
    if not rows:
        raise Missing("needs tagged texts, or pairs attacked with `max_change`")
    tagged = rows[0].cell.trials[0].item.kind == TaggedText.kind
    fields: list[Field[Row]] = [
        *LABELS,
        column("Budget", lambda row: row.cell.budget, "count"),
        column(
            "Entities found when clean",
            lambda row: row.knows.accuracy if tagged and row.knows else None,
            "share",
            key="found",
        ),
        column(
            "Lost to 1 query (%)",
            lambda row: row.cell.share(row.cell.read("asr", 1)),
            "percent",
            key="asr_1",
        ),
        column(
            "Lost within the budget (%)",
            lambda row: row.success.asr if row.success else None,
            "percent",
            key="asr",
        ),
    ]
    meant = (
        "Lost: share of the entities found when clean that are not found any more."
        if tagged
        else "Lost: share of the pairs whose score moves by more than max_change."
    )
    caption = "Success within the budget"
    yield table(
        "success", caption, rows, fields, n_labels=len(LABELS), notes=[meant, *_notes(rows)]
    )


def _noise_scores(run: PaperRun) -> Iterator[Part]:
    """Yield Figure 1 and Tables 2 and 3: one score on the clean data and on each copy."""
    training = run.run.of(TRAINING)
    hardened = set()
    if training is not None:
        kinds = {kind.name for kind in training.adversarial}
        hardened = {model.victim for model in training.models if model.model in kinds}
    rows = [
        row
        for row in _rows(run)
        if row.scores is not None
        and row.scores.has_copy
        and row.scores.main.after.value is not None
        and row.cell.attack.params.get("search", "none") == "none"
        and row.cell.place.victim not in hardened
    ]
    if not rows:
        copies = (row.scores for row in _rows(run) if row.scores and row.scores.has_copy)
        undefined = (one.main.after.method for one in copies if one.main.after.value is None)
        needs = "tagged texts or sentence pairs with a perturbed copy of the data"
        raise Missing(next((f"has scores that are {why}" for why in undefined), f"needs {needs}"))
    places = list(dict.fromkeys((row.key.dataset, row.key.group) for row in rows))
    points: list[Point] = []
    for i, place in enumerate(places, start=1):
        members = [row for row in rows if (row.key.dataset, row.key.group) == place]
        made, marks = _panel(
            run, members, f"noise-scores-{i}" if len(places) > 1 else "noise-scores"
        )
        points += marks
        yield made
    assert rows[0].scores is not None
    scoring = rows[0].scores.scoring
    yield Chart(
        name="noise-scores-figure" if len(places) == 1 else "noise-scores",
        title="Scores of the clean data and of perturbed copies",
        kind="dots" if scoring.is_signed else "bars",
        x="test",
        y=scoring.words[scoring.main],
        points=tuple(points),
        unit=not scoring.is_signed,
        notes=(*_notes(rows), *_source(points, CLEAN_TRAINED)),
    )


def _source(points: Sequence[Point], source: str) -> list[str]:
    is_shown = any("published" in point.series for point in points)
    return [published.NOT_OURS.format(source=source)] if is_shown else []


def _panel(run: PaperRun, rows: Sequence[Row], name: str) -> tuple[Table, list[Point]]:
    """Return the table of one data set, models down and tests across, and its marks."""
    assert rows[0].scores is not None
    scoring, data = rows[0].scores.scoring, _data(run, rows[0])
    names = {row.key.attack: row.cell.attack.name for row in rows}
    order = sorted(names, key=lambda a: (_rank(names[a]), a))
    lines: dict[str, dict[str, Estimate | float]] = {}
    for row in rows:
        assert row.scores is not None
        line = lines.setdefault(row.key.victim, {})
        line.setdefault(ORIGINAL, row.scores.main.before)
        line[row.key.attack] = row.scores.main.after
    n_ours = len(lines)
    for printed in published.rows_of("published_scores.csv"):
        if (printed["data"], printed["measure"]) == (data, scoring.main):
            tests = {ORIGINAL: ORIGINAL, **names}
            lines[f"{printed['model']}, published"] = {
                attack: float(printed[test]) for attack, test in tests.items() if test in TESTS
            }
    columns = (
        Column(heading="Model"),
        *(Column(heading=label(t).words, form="score", key=t) for t in (ORIGINAL, *order)),
    )
    entries = [
        (Entry(value=model), *(Entry(value=line.get(t)) for t in (ORIGINAL, *order)))
        for model, line in lines.items()
    ]
    word, at = scoring.words[scoring.main], f"{rows[0].key.dataset}, {rows[0].key.group}"
    marks = [
        Point(x=label(test).words, y=score, series=model, panel=at)
        for model, line in lines.items()
        for test, score in line.items()
    ]
    made = Table(
        name=name,
        caption=f"{word} of {at} on the clean data and on perturbed copies. Layout: "
        f"{CLEAN_TRAINED}.",
        columns=columns,
        rows=tuple(entries),
        notes=(*_notes(rows), *_source(marks, CLEAN_TRAINED)),
        published=frozenset(range(n_ours, len(lines))),
        rules=frozenset({n_ours} if n_ours < len(lines) else ()),
    )
    return made, marks


def _data(run: PaperRun, row: Row) -> str:
    """Return the papers' name of the data: a type of entities of BC5CDR, else the kind."""
    manifest = run.run.manifest
    tables = zip(manifest["datasets"], manifest["config"].get("dataset", ()), strict=False)
    kinds = {name: str(data.get("name")) for name, data in tables}
    kind = kinds.get(row.key.dataset, "")
    types = row.scores.parts if row.scores else ()
    return types[0] if kind == BC5CDR and len(types) == 1 else kind


def _rank(name: str) -> int:
    return TESTS.index(name) if name in TESTS else len(TESTS)


def _trained(run: PaperRun) -> Iterator[Part]:
    """Yield Tables 4 to 6: every kind of models on the clean data and on the copy made alike."""
    training = run.run.of(TRAINING)
    if training is None or not training.scores:
        raise Missing("needs a run that trained: medstress train")
    trained_on = {kind.name: set(kind.attacks) for kind in training.adversarial}
    rows = [
        one
        for one in training.scores
        if one.model not in trained_on or one.attack in trained_on[one.model]
    ]
    all_rows = _rows(run)
    datas = {row.key.dataset: _data(run, row) for row in all_rows}
    names = {row.key.attack: row.cell.attack.name for row in all_rows}
    printed = [
        row
        for row in published.rows_of("published_trained.csv")
        if any(
            (row["data"], row["measure"]) == (datas.get(one.dataset), one.measure)
            and row["attack"] == names.get(one.attack)
            for one in rows
        )
    ]
    made = table(
        "trained",
        "Models trained on perturbed copies, on the clean data and on the copy made alike. "
        f"Layout: {TRAINED}.",
        rows,
        _TRAINED,
        n_labels=4,
        notes=[
            "Our models: means over training seeds, with their intervals.",
            INTERVALS,
            *([published.NOT_OURS.format(source=TRAINED)] if printed else []),
        ],
    )
    lines = tuple(
        tuple(Entry(value=_printed(row, column.key or column.heading)) for column in made.columns)
        for row in printed
    )
    yield replace(
        made,
        rows=(*made.rows, *lines),
        published=frozenset(range(len(made.rows), len(made.rows) + len(lines))),
        rules=frozenset({len(made.rows)} if lines else ()),
    )
    yield from (one for one in training.tables() if one.rows)
    yield from (
        replace(one, name=f"training-{one.name}") for one in training.charts() if one.points
    )


def _printed(row: Mapping[str, str], key: str) -> Value:
    values: dict[str, Value] = {
        "Model": f"{row['model']}, published",
        "Trained on, attacked by": label(row["attack"]),
        "Data": row["data"],
        "clean": float(row["clean"]),
        "attacked": float(row["perturbed"]),
    }
    return values.get(key)


_TRAINED: Sequence[Field[KindScores]] = (
    column("Model", lambda row: label(row.model)),
    column("Trained on, attacked by", lambda row: label(row.attack)),
    column("Data", lambda row: label(row.dataset)),
    column("Group", lambda row: label(row.group)),
    column("Clean", lambda row: row.clean, "score", key="clean"),
    column("Perturbed", lambda row: row.attacked, "score", key="attacked"),
)

ARAUJO2020 = Layout(
    name="araujo2020",
    of_questions=False,
    entries=(
        Made("scores", "Scores of clean and perturbed data", _scores),
        Made("success", "Success within the budget", _success),
        Made(
            "noise-scores",
            "Figure 1, Tables 2 and 3, scores under synonyms and noise",
            _noise_scores,
        ),
        Made("trained", "Tables 4 to 6, models trained on perturbed copies", _trained),
    ),
)
