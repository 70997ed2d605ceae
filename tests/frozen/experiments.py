"""The frozen experiments: small, of every kind, without torch and without a network."""

from __future__ import annotations

from .about_conversations import MEDFUZZ, REVIEWED, SIGNIFICANCE, filled_in
from .about_questions import ANSWERING, BUDGETS, FAILING, SUBSTITUTION, TRANSFER, TUNING
from .about_sentences import DOCUMENTS, SIMILAR, TAGGED, TRAINED, say_that_it_trained
from .capture import Case

RUN = ("run", "e.toml", "--out", "run", "--quiet")

CASES = (
    Case(name="substitution", files=SUBSTITUTION, steps=[RUN]),
    Case(name="budgets", files=BUDGETS, steps=[RUN]),
    Case(name="transfer", files=TRANSFER, steps=[RUN]),
    Case(
        name="tuning",
        files=TUNING,
        steps=[("tune", "e.toml", "--out", "run", "--quiet")],
        runs=("run", "run/tuning"),
        outputs=("run/tune.json",),
    ),
    Case(
        name="answering",
        files=ANSWERING,
        steps=[
            RUN,
            ("annotate", "annotated.toml", "--to", "annotated.jsonl", "--quiet"),
            ("perturb", "drawn.toml", "--to", "drawn.jsonl", "--quiet"),
            ("perturb", "vignettes.toml", "--to", "vignettes.jsonl", "--quiet"),
        ],
        outputs=("annotated.jsonl", "drawn.jsonl", "vignettes.jsonl"),
    ),
    Case(
        name="failing",
        files=FAILING,
        steps=[
            (*RUN, "--set", "experiment.max_queries=25"),
            RUN,
            (*RUN, "--set", "experiment.max_failed=1000"),
        ],
    ),
    Case(
        name="tagged",
        files=TAGGED,
        steps=[
            RUN,
            (
                "perturb",
                "e.toml",
                "--set",
                "attack.search.use=false",
                "--to",
                "all.jsonl",
                "--quiet",
            ),
            ("perturb", "perturbed.toml", "--to", "swapped.iob", "--quiet"),
        ],
        outputs=("all.jsonl", "swapped.iob"),
    ),
    Case(name="documents", files=DOCUMENTS, steps=[RUN]),
    Case(
        name="similar",
        files=SIMILAR,
        steps=[RUN, ("perturb", "perturbed.toml", "--to", "swapped.tsv", "--quiet")],
        outputs=("swapped.tsv",),
    ),
    Case(name="medfuzz", files=MEDFUZZ, steps=[RUN]),
    Case(
        name="significance",
        files=SIGNIFICANCE,
        steps=[
            RUN,
            (
                *("test", "run", "--experiment", "e.toml", "--null", "matched", "--quiet"),
                *("--controls", "9", "--adjust", "holm"),
            ),
        ],
    ),
    Case(
        name="reviewed",
        files=REVIEWED,
        steps=[
            RUN,
            ("review", "run", "--export", "cases.csv"),
            filled_in("human_valid", "no"),
            ("review", "run", "--import", "filled.csv"),
        ],
        outputs=("cases.csv",),
    ),
    Case(name="trained", files=TRAINED, steps=[RUN, say_that_it_trained]),
)
