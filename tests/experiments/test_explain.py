"""`medstress explain` on victims whose answers hang on words that are known."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from medstress.analyses.explanations import Explained, explained_trials
from medstress.analyses.run import Run as Read
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.core.outcomes import Verdict
from medstress.engine.progress import Watcher
from medstress.experiment.explain import Selection, asking
from medstress.experiment.run import ask
from rows import rows_of

VICTIM = '''
"""A, unless a name of a trap stands in the prompt: then D."""

import json
import os


def _logged(prompts):
    if log := os.environ.get("LOG"):
        with open(log, "a", encoding="utf-8") as stream:
            stream.write("".join(json.dumps(prompt) + "\\n" for prompt in prompts))


def letter(prompts):
    _logged(prompts)
    return ["D" if "trapicin" in prompt else "A" for prompt in prompts]


def steady(prompts):
    """Reads one word outside the options."""
    _logged(prompts)
    return ["A" if "fever" in prompt else "B" for prompt in prompts]


def scores(prompts):
    """Additive: every word of a list has its weight, whatever else is shown."""
    _logged(prompts)
    found = []
    for prompt in prompts:
        d = 0.1 + 0.5 * ("trapicin" in prompt) + 0.05 * ("fever" in prompt)
        rest = (1 - d) / 4
        found.append({"scores": {"A": 2 * rest, "B": rest, "C": rest, "D": d}})
    return found


def fails(prompts):
    """Made for whole prompts."""
    for prompt in prompts:
        if "pills" not in prompt:
            raise ValueError("no pills")
    return letter(prompts)
'''
NAMES = ("trapicin", "calmol", "softine", "mildex", "lentol")
SAYS = "One of these drugs caused the fever of case"


@pytest.fixture(scope="module")
def made(workbench, tmp_path_factory):
    """An experiment on six questions, all with key A, and its run in `run`."""
    bench = workbench.Bench(tmp_path_factory.mktemp("traps"))
    rows = [row for row in workbench.questions(7) if row["mentions"]]
    texts = {"context": "A man took pills.\r\n  He is  tired, tired, tired.", "answer_idx": "A"}
    bench.write_items({**row, **texts, "stem": f"{SAYS} {row['id']}: which?"} for row in rows)
    bench.tables["victim"][0] |= {"target": "victim.py:letter", "batch_size": 16}
    far = bench.attack("pdws", label="far", n=5, budget=2)
    bench.tables["attack"] = [bench.attack("random", budget=2), far]
    (bench.root / "names.txt").write_text("\n".join(NAMES), encoding="utf-8")
    (bench.root / "victim.py").write_text(VICTIM, encoding="utf-8")
    bench.write().rename(bench.root / "e.toml")
    with pytest.MonkeyPatch.context() as patch:
        entered(bench.root, patch)
        run(bench.root)
    return bench.root


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy with the run."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    entered(tmp_path, monkeypatch)
    return tmp_path


def entered(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make a folder the current one, and log what victims are asked."""
    patch.setenv("LOG", str(folder / "log.jsonl"))
    patch.chdir(folder)


def run(folder: Path, victim: str = "letter") -> None:
    """Run the experiment with one of the victims, in place of a run that is there."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    text = (folder / "e.toml").read_text("utf-8")
    text = text.replace("victim.py:letter", f"victim.py:{victim}")
    if victim == "fails":
        text = text.replace("batch_size = 16", "batch_size = 1")
    (folder / "e.toml").write_text(text, encoding="utf-8")
    assert medstress_cli(["run", "e.toml", "--out", "run", "--quiet"]) == 0
    (folder / "log.jsonl").unlink()


def explain(folder: Path, *trials: str, **settings: Any) -> list[str]:
    """Explain, and return what was announced."""
    told: list[str] = []
    chosen = asking(folder / "run", Selection(trials=trials), **settings)
    watcher = Watcher(announce=told.append)
    stopped = ask(chosen, folder / "e.toml", watcher=watcher)
    assert stopped is None
    return told


def explained(folder: Path) -> list[Explained]:
    """What the folder holds."""
    return explained_trials(Read.open(folder / "run"))[0]


def asked(folder: Path) -> list[str]:
    """The prompts that the victim got since the run."""
    log = folder / "log.jsonl"
    return (
        [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    )


def test_an_additive_victim_has_the_values_of_its_words(folder):
    run(folder, "scores")
    flipped = [row for row in rows_of(Run(folder / "run")) if row.verdict is Verdict.FLIPPED]
    # Enough for every word in every context.
    explain(folder, flipped[0].trial_id, evaluations=1500)
    successes = explained(folder)
    assert len(successes) == 1
    for one in successes:
        assert one.value == "probability"
        for side, expected in ((one.before, {"fever": 0.05}), (one.after, None)):
            expected = expected or {"fever": 0.05, "trapicin": 0.5}
            values = one.of(side, "D")
            assert values is not None
            for word, weight in expected.items():
                (place,) = [i for i, token in enumerate(side.tokens) if word in token.lower()]
                assert values[place] == pytest.approx(weight)
            assert values.sum() == pytest.approx(sum(expected.values()))
            # Words that stand there several times have no value, each of them.
            repeated = [i for i, token in enumerate(side.tokens) if "tired" in token]
            assert len(repeated) == 3
            assert values[repeated] == pytest.approx(0.0)
            key = one.of(side, "A")
            assert key is not None
            assert key.sum() == pytest.approx(-values.sum() / 2)


def test_the_ledger_charges_explanations_apart_and_the_numbers_of_the_run_stay(folder):
    before = Run(folder / "run").summary()
    explain(folder, evaluations=20)
    after = Run(folder / "run").summary()
    for old, new in zip(before["results"], after["results"], strict=True):
        assert old["asr"] == new["asr"]
        assert old["queries"] | {"other": 0} == new["queries"] | {"other": 0}
    n = len(asked(folder))
    paid = sum(row["queries"]["other"] for row in after["by_seed"])
    assert paid >= n
    assert after["performance"]["calls"] == before["performance"]["calls"] + n
    with sqlite3.connect(folder / "run" / "run.sqlite") as db:
        (count,) = db.execute("SELECT COUNT(*) FROM exchanges WHERE purpose = 'explain'").fetchone()
    assert count == sum(one.before.evaluations + one.after.evaluations for one in explained(folder))


def test_what_failed_is_told_and_not_hidden(folder):
    run(folder, "fails")
    explain(folder)
    summary = Run(folder / "run").summary()
    assert explained(folder) == []
    assert summary["explanations"]["n_not_explained"] > 0
    assert summary["explanations"]["rows"] == []
    (warning,) = [one for one in summary["warnings"] if one["rule"] == "not_explained"]
    assert warning["sentence"].endswith(": explain them again, which asks the failed calls again.")
    explain(folder)  # as it says
    with sqlite3.connect(folder / "run" / "run.sqlite") as db:
        counts = dict(
            db.execute(
                "SELECT attempt, COUNT(*) FROM exchanges WHERE purpose = 'explain' "
                "AND error NOT NULL GROUP BY attempt"
            )
        )
    assert counts[0] == counts[1] > 0


def test_a_dry_run_asks_nothing_and_says_how_much_there_is(folder, capsys):
    capsys.readouterr()
    args = ["explain", "run", "--experiment", "e.toml", "--all", "--dry-run"]
    assert medstress_cli(args) == 0
    told = capsys.readouterr().out
    n = int(told.split(" calls")[0].split()[-1].replace(",", ""))
    assert n % 100 == 0
    assert n > 0
    assert asked(folder) == []


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--experiment", "e.toml"], "--all"),
        (["--experiment", "e.toml", "--trial", "zzz"], "zzz"),
        (["--experiment", "other.toml", "--all"], "careful"),
        (["--experiment", "e.toml", "--trial", "already"], "already_wrong"),
        (["--experiment", "e.toml", "--trial", "q1"], "give one of"),
    ],
)
def test_bad_input_gets_one_sentence_and_asks_nothing(folder, capsys, said, workbench, args, named):
    text = (folder / "e.toml").read_text("utf-8")
    (folder / "other.toml").write_text(
        text.replace("victim.py:letter", "victim.py:scores"), "utf-8"
    )
    if args[-1] == "already":
        with workbench.forged(folder / "run") as db:
            db.execute("UPDATE verdicts SET verdict = 'already_wrong' WHERE trial = 1")
            (trial,) = db.execute("SELECT trial_id FROM trials WHERE id = 1").fetchone()
        args = [*args[:-1], trial]
    capsys.readouterr()
    assert medstress_cli(["explain", "run", *args, "--quiet"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    said(told.err.replace(args[-1], "ID") if named == "already_wrong" else told.err, named)
    assert asked(folder) == []


def test_without_a_success_there_is_nothing_to_explain(folder, capsys, said):
    (folder / "names.txt").write_text("\n".join(NAMES[1:]), encoding="utf-8")
    run(folder)
    capsys.readouterr()
    assert medstress_cli(["explain", "run", "--experiment", "e.toml", "--all", "--quiet"]) == 2
    said(capsys.readouterr().err, "no success")
    assert asked(folder) == []
    # A failed attack is explained where it is named.
    held = next(row for row in rows_of(Run(folder / "run")) if row.verdict is Verdict.HELD)
    explain(folder, held.trial_id)
    assert [one.trial.id for one in explained(folder)] == [held.trial_id]
