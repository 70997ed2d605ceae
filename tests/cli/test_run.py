"""`medstress run`: what it refuses, what a misbehaving victim does to it, and what it prints."""

import os
import re
import tomllib

import pytest


@pytest.fixture
def refused(bench, medstress):
    """Run and expect exit 2, one sentence, nothing on stdout; returns the sentence."""

    def check(*extra: str, arguments: list[str] | None = None) -> str:
        told = medstress(*(arguments or bench.arguments(*extra)))
        assert (told.code, told.out) == (2, "")
        assert told.err.startswith("medstress: ")
        assert told.err.count("\n") == 1
        return told.err.removeprefix("medstress: ").rstrip("\n")

    return check


# -- the file and the flags -----------------------------------------------------------------------


def test_the_default_folder_is_runs_and_the_name(bench, medstress, tmp_path):
    told = medstress("run", bench.write(), "--quiet")
    assert told.code == 0
    assert (tmp_path / "runs" / "bench" / "run.sqlite").is_file()
    assert told.out.splitlines()[-1] == "run: runs/bench   next: medstress report runs/bench"


def test_an_experiment_is_read_once_so_that_it_may_come_through_a_pipe(medstress):
    tables = {"experiment": "name='p'", "[dataset]": "name='sample'", "[victim]": "backend='mock'"}
    tables["[attack]"] = "name='none'"
    reads, writes = os.pipe()
    os.write(writes, "".join(f"[{name}]\n{key}\n" for name, key in tables.items()).encode())
    os.close(writes)
    told = medstress("run", f"/dev/fd/{reads}", "--dry-run")
    os.close(reads)
    assert (told.code, told.err) == (0, "")


# -- the dry run ----------------------------------------------------------------------------------


def test_a_dry_run_asks_nothing_and_bounds_what_the_run_asks(bench, workbench, medstress):
    bench.write_items(workbench.questions(12))
    bench.tables["experiment"].update(seeds=[0, 1])
    bench.tables["attack"] = [bench.attack("random"), bench.attack("nearest", budget=30)]
    told = medstress(*bench.arguments("--dry-run"))
    assert (told.code, told.err) == (0, "")
    assert bench.received() == []
    assert not bench.out.exists()
    found = re.search(r"\nqueries: at most ([\d,]+) \(exact bound\), ", told.out)
    assert found
    bound = int(found[1].replace(",", ""))
    # 11 attackable questions; 40 names, of which none is excluded; one seed for `nearest`.
    assert bound == 11 + 11 * (2 * 5 + 30) + 11 * 3  # the flip checks
    assert "(assumed)" in told.out
    assert bench.run() == 0
    queries = workbench.ledger(bench.summary())
    assert queries["asked"] + queries["other"] <= bound
    assert 0 < len(bench.received()) <= bound


def test_the_bound_is_reached_by_a_victim_that_errs_last(bench, workbench, medstress):
    """Every query a fresh one, the last of each a success: nothing is saved."""
    bench.tables["attack"] = [bench.attack("nearest", budget=4)]
    text = (bench.root / "victim.py").read_text("utf-8")
    (bench.root / "victim.py").write_text(
        text.replace("def _answer(prompt):", "SEEN = {}\n\n\ndef _answer(prompt):").replace(
            "    luck =",
            "    case = re.search('case ([0-9]+)', prompt)[1]\n"
            "    SEEN[case] = SEEN.get(case, 0) + 1\n"
            "    return key if SEEN[case] < 5 else 'BCDA'['ABCD'.index(key)]\n"
            "    luck =",
        ),
        encoding="utf-8",
    )
    out = medstress(*bench.arguments("--dry-run")).out
    bound = int(re.search(r"queries: at most (\d+) ", out)[1])
    assert medstress(*bench.arguments()).code == 0
    assert len(bench.received()) == bound == 4 * (1 + 4 + 1)


def test_a_dry_run_refuses_what_the_run_would_refuse(bench, refused):
    for table, key, value in (
        ("victim", "target", "missing.py:answer"),
        ("attack", "budget", 41),
        ("dataset", "path", "missing.jsonl"),
    ):
        bench.tables[table][0][key] = value
        assert refused("--dry-run") == refused()


def test_the_next_command_mends_the_file_that_set_names(bench, medstress, tmp_path):
    (tmp_path / "rows.jsonl").write_text("{}", encoding="utf-8")
    told = medstress(*bench.arguments("--dry-run", "--set", "dataset.path=rows.json"))
    assert told.code == 2
    assert "did you mean 'rows.jsonl'?" in told.err
    assert told.next.endswith("--dry-run --set dataset.path=rows.jsonl")


def test_an_experiment_is_written_by_a_dry_run_but_never_over_a_file(medstress, bench, tmp_path):
    path = tmp_path / "mine.toml"
    command = ("run", bench.write(), "--dry-run", "--to", path)
    told = medstress(*command)
    assert told.code == 0, told.err
    assert told.out.endswith(f"experiment: {path}   next: medstress run {path}\n")
    assert tomllib.loads(path.read_text("utf-8"))["experiment"]
    path.write_text("edited", encoding="utf-8")
    told = medstress(*command)
    assert told.code == 2
    assert told.err.startswith(f"medstress: --to {path}: it exists already")
    assert path.read_text("utf-8") == "edited"


# -- the victim -----------------------------------------------------------------------------------


def victim(bench, body):
    (bench.root / "victim.py").write_text(
        f"import math\n\nCALLS = []\n\n\ndef answer(prompts):\n    CALLS.append(1)\n    {body}\n",
        encoding="utf-8",
    )


def test_a_victim_that_always_raises_stops_the_run_after_three_batches(bench, refused, medstress):
    bench.tables["victim"][0]["batch_size"] = 1
    victim(bench, "raise ValueError('no model here')")
    assert refused() == (
        "back end 'victim.py:answer' answered nothing and failed 3 times in a row; last error: "
        "python model 'victim.py:answer' raised ValueError: no model here"
    )
    told = medstress("summary", bench.out)
    assert "Not complete: run the same command again" in told.out


def test_a_victim_that_raises_sometimes_is_exit_1_unless_allowed(bench, medstress):
    bench.tables["victim"][0]["batch_size"] = 1
    right = "'ABCD'[int(prompts[0].split('case ')[1][0]) % 4]"
    victim(bench, f"return 1 / 0 if len(CALLS) % 4 == 0 else [{right}]")
    told = medstress(*bench.arguments())
    assert (told.code, told.err) == (1, "")
    summary = bench.summary()
    assert summary["experiment"]["complete"]
    n = sum(row["n_failed"] + row["n_failed_at_baseline"] for row in summary["results"])
    assert n > 0
    assert f"{n} trials failed (max_failed = 0)" in told.out
    assert "--retry-failed" in told.out
    assert "raised ZeroDivisionError: division by zero" in told.out
    told = medstress(*bench.arguments("--set", "experiment.max_failed=1000"))
    assert told.code == 0
    assert "max_failed" not in told.out


def test_a_victim_that_answers_nonsense_stops_the_run_and_it_resumes(
    bench, workbench, refused, medstress
):
    victim(bench, "return ['A'] * (len(prompts) - 1)")
    bench.tables["victim"][0]["version"] = "1"  # so that it may be mended
    assert "victim.py:answer" in refused()
    (bench.root / "victim.py").write_text(workbench.VICTIM, encoding="utf-8")
    assert medstress(*bench.arguments()).code == 0
    assert bench.summary()["experiment"]["complete"]


def test_a_victim_that_exits_does_not_look_like_success(bench, medstress):
    victim(bench, "raise SystemExit(0)")
    assert medstress(*bench.arguments()).code != 0


def test_fresh_keeps_the_old_run_where_the_new_one_cannot_begin(ran, medstress, refused):
    before = medstress("summary", ran.out, "--json").out
    assert "there is no file" in refused("--fresh", "--set", "victim.target='nope.py:f'")
    assert medstress("summary", ran.out, "--json").out == before


def test_rows_that_were_left_out_are_counted_by_run_dry_run_and_summary(bench, medstress):
    items = bench.root / "items.jsonl"
    items.write_text(items.read_text("utf-8") + '{"id": "x"}\n{"id": "y"}\n', "utf-8")
    bench.tables["dataset"][0]["on_bad_row"] = "skip"
    line = f"dataset 'cases': 2 bad rows left out (on_bad_row), the first: {items}, line 6"
    assert line in medstress(*bench.arguments("--dry-run")).out
    line = f"! 2 bad rows were left out of cases. The first: {items}, line 6"
    assert line in medstress(*bench.arguments()).out
    assert line in medstress("summary", bench.out).out
    (warning,) = [one for one in bench.summary()["warnings"] if one["rule"] == "skipped_rows"]
    assert f"! {warning['sentence']}".startswith(line)
