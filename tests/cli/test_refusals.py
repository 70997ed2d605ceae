"""What a newcomer is told: the next command to type; and what a refused run leaves."""

import shlex

import pytest

from medstress.cli.app import program
from medstress.core.errors import FIRST_COMMAND


@pytest.fixture
def refused(bench, medstress):
    """Run the bench's experiment and expect a refusal."""

    def check(*extra):
        told = medstress(*bench.arguments(*extra))
        assert (told.code, told.err.count("\n")) == (2, 1), told
        return told

    return check


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["rum", "a.toml"], "medstress run a.toml"),
        (["frobnicate"], "medstress --help"),
        (["run", "experimnt.toml"], "medstress run experiment.toml"),
        (["run", "nothing_like_it.toml"], FIRST_COMMAND),
        (["run", "items.csv"], "medstress check items.csv"),
        (["run", "items.csv", "--limt", "3"], "medstress run items.csv --limit 3"),
        (
            ["run", "experiment.toml", "--set", "atack.budget=3"],
            "medstress run experiment.toml --set attack.budget=3",
        ),
        (["run", "experiment.toml", "--set", "victim.backend=zz"], "medstress list backends"),
        (["summary", "runs/x"], "medstress run --data FILE --model NAME --dry-run"),
        (["report", "experiment.toml"], "medstress run experiment.toml"),
        (["list", "attaks"], "medstress list attacks"),
    ],
    ids=" ".join,
)
def test_a_refusal_ends_with_the_command_to_type(bench, medstress, arguments, command):
    bench.write()
    (bench.root / "items.csv").write_text("id,question\n", encoding="utf-8")
    told = medstress(*arguments)
    assert (told.code, told.next) == (2, command)
    assert shlex.split(command)[1] in (*program().commands, "--help")


def test_a_bad_row_ends_with_the_check_of_its_file(bench, workbench, medstress, refused):
    rows = workbench.questions(3)
    rows[1]["answer_idx"] = "Z"
    bench.write_items(rows)
    assert refused().next == f"medstress check {bench.root / 'items.jsonl'}"
    # Which does not propose itself.
    (bench.root / "none.csv").write_text("id,question\n", encoding="utf-8")
    told = medstress("check", bench.root / "none.csv")
    assert (told.code, "next: medstress check" in told.err) == (2, False)


def test_where_no_item_is_attackable_nothing_is_asked(bench, workbench, refused):
    mentions = [{"field": "B", "start": 0, "end": 4, "type": "T047"}]
    rows = [{**row, "mentions": mentions} for row in workbench.questions(3)]
    for row in rows:
        row["options"] = ["sore", "gout", "rest", "ache"]
    bench.write_items(rows)
    told = refused()
    assert "are of type T047" in told.err
    assert told.next.startswith("medstress check ")
    assert bench.received() == []


def test_the_run_that_is_meant_is_found_beside_the_folder_that_holds_none(bench, medstress):
    bench.write_items([])
    for name in ("runs/first", "runs/second"):
        folder = bench.root / name
        folder.mkdir(parents=True)
        (folder / "run.sqlite").touch()
    assert medstress("summary", "runs/frist").next == "medstress summary runs/first"
    assert "the runs first, second" in medstress("summary", "runs").err


# -- what a refused run leaves --------------------------------------------------------------------


def test_a_run_refused_before_it_began_leaves_no_folder(bench, refused):
    bench.tables["victim"][0]["target"] = "victim.py:nothing"
    refused()
    assert not bench.out.exists()
    bench.out.mkdir()
    (bench.out / "run.lock").touch()
    bench.tables["victim"][0]["target"] = "victim.py:answer"
    assert bench.run("--fresh") == 0


def test_a_run_that_no_model_answered_blocks_no_mended_one(bench, medstress):
    victim = (bench.root / "victim.py").read_text("utf-8")
    (bench.root / "victim.py").write_text(
        "def answer(prompts):\n    raise OSError('no key')\n", encoding="utf-8"
    )
    assert medstress(*bench.arguments()).code != 0
    assert (bench.out / "run.sqlite").exists()
    (bench.root / "victim.py").write_text(victim, encoding="utf-8")
    bench.tables["attack"][0]["budget"] = 2
    bench.tables["victim"][0]["name"] = "mended"
    told = medstress(*bench.arguments())
    assert (told.code, told.err) == (0, "")
    assert {row.victim for row in bench.rows()} == {"mended"}
    assert all(row.verdict != "failed" for row in bench.rows())


def test_what_failed_before_the_first_answer_is_asked_again(bench, medstress):
    """The mended thing may be no part of the experiment: a key, a server, a file that it reads."""
    text = (bench.root / "victim.py").read_text("utf-8")
    guard = "    import os\n    if os.path.exists('down'): raise OSError('down')\n"
    head, line, rest = text.partition("def answer(prompts):\n")
    (bench.root / "victim.py").write_text(f"{head}{line}{guard}{rest}", encoding="utf-8")
    (bench.root / "down").touch()
    assert medstress(*bench.arguments()).code != 0
    (bench.root / "down").unlink()
    assert medstress(*bench.arguments()).code == 0
    assert all(row.verdict != "failed" for row in bench.rows())
