"""`medstress run`: what it refuses, what a misbehaving victim does to it, and what it prints."""

import re

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


def replace(table, old, new):
    def change(bench):
        row = bench.tables[table]
        row = row[0] if isinstance(row, list) else row
        if old is not None:
            del row[old]
        row.update(new)

    change.__name__ = f"{table}.{next(iter(new), old)}"
    return change


def test_an_unknown_table_and_a_missing_one_are_named(bench, refused):
    bench.tables["victims"] = bench.tables.pop("victim")
    assert "unknown table 'victims'; did you mean 'victim'?" in refused()
    bench.tables.pop("victims")
    assert refused() == "experiment.toml: the table [[victim]] is missing"


def test_the_default_folder_is_runs_and_the_name(bench, medstress, tmp_path):
    told = medstress("run", bench.write(), "--quiet")
    assert told.code == 0
    assert (tmp_path / "runs" / "bench" / "run.sqlite").is_file()
    assert told.out.splitlines()[-1] == "run: runs/bench   next: medstress report runs/bench"


# -- the dry run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("flip_check", [True, False])
def test_a_dry_run_asks_nothing_and_bounds_what_the_run_asks(
    bench, workbench, medstress, flip_check
):
    bench.write_items(workbench.questions(12))
    bench.tables["experiment"].update(seeds=[0, 1], flip_check=flip_check)
    bench.tables["attack"] = [bench.attack("random"), bench.attack("nearest", budget=30)]
    told = medstress(*bench.arguments("--dry-run"))
    assert (told.code, told.err) == (0, "")
    assert bench.received() == []
    assert not bench.out.exists()
    found = re.match(r"queries: at most ([\d,]+) \(exact bound\), ", told.out)
    assert found
    bound = int(found[1].replace(",", ""))
    # 11 attackable questions; 40 names, of which none is excluded; one seed for `nearest`.
    checks = 11 * 3 if flip_check else 0
    assert bound == 11 + 11 * (2 * 5 + 30) + checks
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
    bound = int(re.match(r"queries: at most (\d+) ", out)[1])
    assert medstress(*bench.arguments()).code == 0
    assert len(bench.received()) == bound == 4 * (1 + 4 + 1)


@pytest.mark.parametrize(
    "change",
    [
        replace("attack", None, {"budget": 41}),
        replace("dataset", None, {"path": "missing.jsonl"}),
        replace("entities", None, {"vocabulary": "missing.txt"}),
        replace("victim", None, {"target": "missing.py:answer"}),
        replace("victim", None, {"answer_by": "letter"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_dry_run_refuses_what_the_run_would_refuse(bench, refused, change):
    change(bench)
    message = refused()
    assert refused("--dry-run") == message


# -- the data -------------------------------------------------------------------------------------


OUTSIDE = [{"field": "A", "start": 0, "end": 99, "type": "T121"}]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"options": ["a", "b", "a", "c"]}, "field 'options'"),
        ({"answer_idx": "E"}, "field 'answer_idx'"),
        ({"mentions": OUTSIDE}, "field 'mentions'"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_field(bench, workbench, refused, fields, where, said):
    rows = workbench.questions(5)
    rows[3].update(fields)
    bench.write_items(rows)
    message = refused()
    place = f"{bench.root / 'items.jsonl'}, line 4: "
    assert message.startswith(place)
    said(message, where)


def test_a_further_field_may_hold_any_number(bench, workbench, medstress, tmp_path):
    rows = workbench.questions(5)
    rows[3]["accession"] = 2**70
    bench.write_items(rows)
    assert medstress(*bench.arguments()).code == 0
    to = tmp_path / "exported.jsonl"
    assert medstress("export", bench.out, "--table", "items", "--to", to).code == 0
    assert str(2**70) in to.read_text("utf-8")


def test_rows_without_mentions_are_searched_for_names(bench, workbench, refused, medstress):
    names = ["aspirin", "warfarin", "metformin", "digoxin"]
    rows = [{**row, "mentions": [], "options": names} for row in workbench.questions(5)]
    bench.write_items(rows)
    assert medstress(*bench.arguments()).code == 0
    assert bench.summary()["results"][0]["n_not_attackable"] == 0
    bench.tables["entities"][0]["recogniser"] = "given"
    message = refused()
    assert message.startswith("dataset 'cases' has no mentions, but")
    assert "gazetteer" in message


def test_a_budget_larger_than_the_vocabulary_is_refused(bench, workbench, refused, medstress):
    bench.tables["attack"][0]["budget"] = 41
    assert "budget 41 is larger than the vocabulary of group 'drugs' (40 names" in refused()
    bench.tables["attack"][0]["budget"] = 40
    assert medstress(*bench.arguments()).code == 0


def test_an_item_with_fewer_names_than_the_budget_is_asked_about_all_of_them(
    bench, workbench, medstress
):
    """Of four names, two are options of the question: the other two are asked, then it held."""
    rows = workbench.questions(1)
    names = ["abimycin", "belaprazole", rows[0]["options"][1], rows[0]["options"][3]]
    (bench.root / "names.txt").write_text("\n".join(names), encoding="utf-8")
    bench.write_items(rows)
    bench.tables["attack"][0]["budget"] = 4
    (bench.root / "victim.py").write_text(
        "def answer(prompts):\n    return ['A'] * len(prompts)\n", encoding="utf-8"
    )
    assert medstress(*bench.arguments()).code == 0
    (row,) = bench.rows()
    assert (row.verdict, row.n_asked, row.n_paid) == ("held", 2, 2)


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
        "python victim 'victim.py:answer' raised ValueError: no model here"
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
    told = medstress(*bench.arguments("--set", f"experiment.max_failed={n}", "--fresh"))
    assert told.code == 0
    told = medstress(*bench.arguments("--set", f"experiment.max_failed={n - 1}", "--fresh"))
    assert told.code == 1


NONSENSE = [
    (
        "return ['A'] * (len(prompts) - 1)",
        "returned 2 answers for 3 prompts; expected one answer per",
    ),
    (
        "return [{'scores': {'A': 1, 'B': 2}}] * len(prompts)",
        "returned the scores {'A': 1, 'B': 2}; expected one for each of A, B, C, D",
    ),
]


@pytest.mark.parametrize(("body", "sentence"), NONSENSE)
def test_a_victim_that_answers_nonsense_stops_the_run_and_it_resumes(
    bench, workbench, refused, medstress, body, sentence
):
    victim(bench, body)
    bench.tables["victim"][0]["version"] = "1"  # so that it may be mended
    message = refused()
    assert message.startswith("python victim 'victim.py:answer' returned ")
    assert sentence in message
    assert message.endswith("mend the function and run again")
    (bench.root / "victim.py").write_text(workbench.VICTIM, encoding="utf-8")
    assert medstress(*bench.arguments()).code == 0
    assert bench.summary()["experiment"]["complete"]


def test_a_victim_that_exits_does_not_look_like_success(bench, medstress):
    victim(bench, "raise SystemExit(0)")
    assert medstress(*bench.arguments()).code != 0


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('one\\ntwo')",
        "raise ValueError('\\ud800')",
        "raise type('E', (Exception,), {'__str__': lambda s: 1 / 0})()",
        "raise type('E', (BaseException,), {})()",
    ],
)
def test_whatever_a_victim_raises_is_one_sentence(bench, refused, body):
    victim(bench, body)
    assert "raised" in refused("--set", "victim.batch_size=1")


def test_fresh_keeps_the_old_run_where_the_new_one_cannot_begin(bench, medstress, refused):
    assert medstress(*bench.arguments()).code == 0
    before = medstress("summary", bench.out, "--json").out
    assert "there is no file" in refused("--fresh", "--set", "victim.target='nope.py:f'")
    assert medstress("summary", bench.out, "--json").out == before


def test_fresh_throws_away_what_is_no_run_any_more(bench, medstress):
    bench.out.mkdir(parents=True)
    (bench.out / "run.sqlite").write_text("garbage " * 100, encoding="utf-8")
    assert medstress(*bench.arguments("--fresh")).code == 0
    assert bench.summary()["experiment"]["complete"]


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
    (bench.root / "items.jsonl").write_text(
        "".join(items.read_text("utf-8").splitlines(keepends=True)[:-2]), "utf-8"
    )
    assert "left out" not in medstress(*bench.arguments("--dry-run")).out
