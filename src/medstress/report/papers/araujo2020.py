"""The layouts of Araujo et al., 2020: scores of tagged texts and pairs under synonyms and noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeAlias

from medstress.analyses.results import RESULTS, Row
from medstress.analyses.scores import COPY_FAILED
from medstress.analyses.shown import Chart, Column, Entry, Point, Table, Value, label
from medstress.analyses.training import (
    ORIGINAL,
    ORIGINAL_TWICE,
    TRAINING,
    KindScores,
    Training,
)
from medstress.report.papers.layout import (
    NOT_OURS,
    Figure,
    Layout,
    Missing,
    PaperRun,
    Part,
    block_table,
    rows_of,
    seeds_note,
)
from medstress.stats.estimate import Estimate
from medstress.tasks.kinds import kind_named
from medstress.tasks.scores import Scoring

CLEAN = "original"
"""The clean data among the tests of the paper."""
TESTS = ("synonym", "keyboard_noise", "swap_noise")
"""Attacks in the paper's order; others follow."""
MODELS = ("P+M", "P")
"""The paper's models."""
MEASURES = ("precision", "recall", "f1", "pearson", "spearman")
BC5CDR = "bc5cdr"
SOURCE = "Araujo et al., 2020, Tables 2 to 6"
PRINTED = (
    "P and P+M: published scores of the paper's BERT models, pre-trained on PubMed abstracts, and "
    "on these and MIMIC-III."
)
INTERVALS = (
    "Intervals: 95 %, bootstrap over documents, sentences or pairs (those that share a sentence "
    "together), and over training seeds where there are three or more."
)


_Row: TypeAlias = tuple[Sequence[Value], Sequence[Sequence[Value]]]
"""What names a row, and its values in each block of columns: ours, then published ones."""


class _Scores:
    """What the tables are made from: the scores of a run, and the published ones of its data."""

    def __init__(self, run: PaperRun) -> None:
        results = run.run.of(RESULTS)
        rows = [] if results is None else results.attacks
        self.rows: Sequence[Row] = [
            row
            for row in rows
            if row.scores is not None
            and row.scores.has_copy
            and row.cell.attack.params.get("search", "none") == "none"
        ]
        if not self.rows:
            raise Missing("needs tagged texts or sentence pairs with a perturbed copy of the data")
        marks = [row.scores.main.after for row in self.rows if row.scores is not None]
        if all(mark.value is None for mark in marks):
            raise Missing(f"has scores that are {marks[0].method}")
        self._run = run
        scoring = kind_named(self.rows[0].cell.trials[0].item.kind).scores
        assert scoring is not None
        self.scoring: Scoring = scoring
        self.is_tagged = scoring.main == "f1"
        self.training: Training | None = run.run.of(TRAINING)
        self.names = {row.key.attack: row.cell.attack.name for row in self.rows}
        """Label of an attack -> its name."""

    @cached_property
    def attacks(self) -> Sequence[str]:
        """Labels of attacks, in the paper's order."""
        ranks = {name: i for i, name in enumerate(TESTS)}
        return sorted(self.names, key=lambda a: (ranks.get(self.names[a], len(TESTS)), a))

    @cached_property
    def lines(self) -> Sequence[KindScores]:
        """Scores of kinds of models, means over training seeds; without training, of models."""
        if self.training is not None:
            shown = [row for row in self.training.scores if row.attack in self.names]
            scores = [row for row in shown if row.measure in MEASURES]
            kinds = list(dict.fromkeys(row.model for row in scores))
            order = MEASURES.index
            return sorted(scores, key=lambda row: (kinds.index(row.model), order(row.measure)))
        return [
            KindScores(
                dataset=row.key.dataset,
                group=row.key.group,
                model=row.key.victim,
                attack=row.key.attack,
                n_seeds=0,
                measure=measure,
                clean=score.before,
                attacked=score.after,
                is_main=measure == self.scoring.main,
            )
            for row in self.rows
            for measure, score in (row.scores or {}).items()
            if measure in MEASURES
        ]

    @property
    def clean_models(self) -> Sequence[str]:
        """Models that are trained on the data as they are, once."""
        hardened = {kind.name for kind in self.training.adversarial} if self.training else set()
        names = dict.fromkeys(line.model for line in self.lines)
        return [name for name in names if name not in {*hardened, ORIGINAL_TWICE}]

    @property
    def data(self) -> str:
        """The paper's name of the data: a type of entities of BC5CDR, else the data set."""
        manifest, row = self._run.run.manifest, self.rows[0]
        tables = zip(manifest["datasets"], manifest["config"].get("dataset", ()), strict=False)
        names = {name: str(table.get("name")) for name, table in tables}
        name = names.get(row.key.dataset, "")
        types = row.scores.parts if row.scores else ()
        return types[0] if name == BC5CDR and len(types) == 1 else name

    def printed(self, attack: str, measure: str, trained_on: str = "") -> list[float | None]:
        """Return the published scores of the paper's models under an attack or on clean data.

        Args:
            attack: label of the attack; `CLEAN` for clean data.
            measure: the score; without one there are none.
            trained_on: name of the attack whose copies a model is trained on.
        """
        test = self.names.get(attack, attack)
        rows = {
            row["model"]: row.get(measure)
            for row in rows_of("published_araujo.csv")
            if (row["data"], row["trained_on"], row["test"]) == (self.data, trained_on, test)
        }
        texts = (rows.get(model) for model in MODELS)
        return [float(text) if text else None for text in texts]

    @property
    def notes(self) -> tuple[str, ...]:
        """The note below every table."""
        few = dict.fromkeys(
            f"Too few {s.clusters} of {row.key.dataset} for an interval: {s.n_clusters}, and "
            f"{s.scoring.enough} are needed."
            for row in self.rows
            if (s := row.scores) is not None and s.are_few
        )
        failed = [
            f"{row.key.victim}, {row.key.attack}: {COPY_FAILED}, and the scores leave these out."
            for row in self.rows
            if row.scores is not None and row.scores.is_open
        ]
        seeds = {seed for row in self.rows for seed in row.cell.seeds if seed is not None}
        n_seeds = len({one.seed for one in self.training.models}) if self.training else 0
        means = [f"Ours: means over {n_seeds} training seeds."] if n_seeds > 1 else []
        has_printed = any(self.printed(CLEAN, m)[0] for m in MEASURES)
        source = [NOT_OURS.format(source=SOURCE), PRINTED] if has_printed else []
        return (*means, seeds_note(seeds), INTERVALS, *few, *failed, *source)

    def table(
        self,
        name: str,
        caption: str,
        labels: Sequence[str],
        blocks: Sequence[str],
        rows: Sequence[_Row],
        rules: Iterable[int],
    ) -> Table:
        """Return a table whose columns are ours and the published ones, block by block.

        Args:
            name: stem of the file names.
            caption: what it shows.
            labels: headings of the columns that name a row.
            blocks: what each block of columns holds.
            rows: the rows.
            rules: rows with a line above them.
        """
        printed = [value for _, row in rows for values in row for value in values[1:]]
        models = MODELS if any(value is not None for value in printed) else ()
        columns = {
            block: [
                Column(heading="ours" if models else block, form="score", key=block),
                *(
                    Column(heading=model, form="score", key=f"{block}, {model} published")
                    for model in models
                ),
            ]
            for block in blocks
        }
        shown = ((*names, *(v for vs in row for v in vs[: 1 + len(models)])) for names, row in rows)
        made = block_table(
            name,
            caption,
            [Column(heading=one) for one in labels],
            columns,
            (tuple(Entry(value=value) for value in values) for values in shown),
            self.notes,
            rules=frozenset(rules),
        )
        return made if models else replace(made, heads=())


def _clean_models(run: PaperRun, name: str, *, tagged: bool) -> Iterator[Part]:
    """Yield Table 2 or 3: models trained on clean data, on the clean and the perturbed tests."""
    scores = _Scores(run)
    if scores.is_tagged != tagged:
        raise Missing(f"needs {'tagged texts' if tagged else 'sentence pairs'}")
    measures = list(dict.fromkeys(line.measure for line in scores.lines))
    ordered = [m for m in MEASURES if m in measures]
    rows: list[_Row] = []
    rules: set[int] = set()
    of = {(x.dataset, x.group, x.model, x.attack, x.measure): x for x in scores.lines}
    places = dict.fromkeys((x.dataset, x.group, x.model) for x in scores.lines)
    for place in (place for place in places if place[2] in scores.clean_models):
        rules |= {len(rows)} if rows else set()
        attacks = [a for a in scores.attacks if (*place, a, ordered[0]) in of]
        for test in (CLEAN, *attacks):
            values: list[Sequence[Value]] = []
            for measure in ordered:
                line = of[(*place, attacks[0] if test == CLEAN else test, measure)]
                ours = line.clean if test == CLEAN else line.attacked
                values.append([_unless_empty(ours), *scores.printed(test, measure)])
            rows.append(([place[2], label(place[0]), label(test)], values))
    words = [scores.scoring.words[m] for m in ordered]
    caption = f"Models trained on clean data, on the clean and on perturbed tests. Layout: {SOURCE}"
    labels = ("Model", "Data", "Test")
    yield scores.table(name, f"{caption}.", labels, words, rows, rules)


def _figure_1(run: PaperRun) -> Iterator[Part]:
    """Yield the main score of Table 2 or 3 as a picture."""
    scores = _Scores(run)
    main, models = scores.scoring.main, scores.clean_models
    points: dict[tuple[str, str, str], Point] = {}
    for line in scores.lines:
        if line.measure != main or line.model not in models:
            continue
        at = line.dataset if line.group in ("", line.dataset) else f"{line.dataset}, {line.group}"
        for test, score in ((CLEAN, line.clean), (line.attack, line.attacked)):
            point = Point(label(test).words, score, line.model, at)
            points.setdefault((at, test, line.model), point)
            for model, value in zip(MODELS, scores.printed(test, main), strict=True):
                if value is not None:
                    series = f"BERT {model}, published"
                    points.setdefault((at, test, series), Point(point.x, value, series, at))
    # Ours first, the tests in the paper's order.
    order = {test: i for i, test in enumerate((CLEAN, *scores.attacks))}
    drawn = [*models, *(f"BERT {model}, published" for model in MODELS)]
    ranked = sorted(points, key=lambda key: (key[0], order[key[1]], drawn.index(key[2])))
    yield Chart(
        name="figure1",
        title="Scores of the clean data and of perturbed copies",
        kind="bars" if scores.is_tagged else "dots",
        x="test",
        y=scores.scoring.words[main],
        points=tuple(points[key] for key in ranked),
        unit=not scores.scoring.is_signed,
        notes=scores.notes,
    )


def _trained(run: PaperRun, name: str, *, data: str) -> Iterator[Part]:
    """Yield Tables 4 to 6: models trained on clean data and on copies, clean and attacked."""
    scores = _Scores(run)
    fits = {"pairs": not scores.is_tagged, "Disease": scores.data == "Disease"}
    fits["Chemical"] = not any(fits.values())
    if not fits[data]:
        raise Missing("needs sentence pairs" if data == "pairs" else f"needs entities: {data}")
    training = scores.training
    if training is None or not training.adversarial:
        raise Missing("needs a run that trained on perturbed copies: medstress train")
    trained_on = {kind.name: set(kind.attacks) for kind in training.adversarial}
    plain = {kind.name for kind in training.adversarial if kind.n_left_out is None}
    rows: list[_Row] = []
    rules: set[int] = set()
    for attack in scores.attacks:
        first = len(rows)
        for line in scores.lines:
            is_own = attack in trained_on.get(line.model, ())
            if line.attack != attack or not (is_own or line.model in (ORIGINAL, ORIGINAL_TWICE)):
                continue
            # The paper has models of one attack, and those of clean data in its Tables 2 and 3.
            copied = scores.names[attack] if is_own else ""
            is_printed = line.model == ORIGINAL or (
                is_own and line.model in plain and len(trained_on[line.model]) == 1
            )
            measure = line.measure if is_printed else ""
            values: list[Sequence[Value]] = [
                [_unless_empty(score), *scores.printed(test, measure, copied)]
                for test, score in ((CLEAN, line.clean), (attack, line.attacked))
            ]
            word = scores.scoring.words[line.measure]
            rows.append(([label(attack), label(line.model), word], values))
        rules |= {first} if first and len(rows) > first else set()
    caption = (
        "Models trained on clean data, once and twice, and on perturbed copies, on the clean test "
        f"and under the attack. Layout: {SOURCE}."
    )
    labels, blocks = ("Attack", "Trained on", "Score"), ("clean", "attacked")
    yield scores.table(name, caption, labels, blocks, rows, rules)
    yield replace(training.tables()[0], name=f"{name}-gains")


def _unless_empty(estimate: Estimate | None) -> Estimate | None:
    return None if estimate is None or estimate.value is None else estimate


ARAUJO2020 = Layout(
    name="araujo2020",
    of_questions=False,
    entries=(
        Figure(
            "table2",
            "Table 2, entities, models trained on clean data",
            partial(_clean_models, name="table2", tagged=True),
        ),
        Figure("figure1", "Figure 1, scores under synonyms and noise", _figure_1),
        Figure(
            "table3",
            "Table 3, sentence pairs, models trained on clean data",
            partial(_clean_models, name="table3", tagged=False),
        ),
        *(
            Figure(
                name,
                f"Table {name[-1]}, {what}, models trained on perturbed copies",
                partial(_trained, name=name, data=data),
            )
            for name, what, data in (
                ("table4", "chemicals", "Chemical"),
                ("table5", "diseases", "Disease"),
                ("table6", "sentence pairs", "pairs"),
            )
        ),
    ),
)
