"""Looking at a run: summary, report, export; and what they say where there is none."""

import csv
import json
import re

import polars
import pytest

from medstress.api.run import Run
from medstress.core.errors import UsageError
from medstress.files.frames import refuse_inputs
from rows import rows_of

ESTIMATE = {"value", "n", "hits", "low", "high", "method"}
ROW_FIELDS = (
    "dataset group victim attack attack_spec n_items n_trials n_already_wrong n_not_attackable "
    "n_unreadable_at_baseline n_failed_at_baseline n_eligible n_flipped n_held n_measured "
    "n_cut_short n_failed n_unreadable_answers accuracy chance above_chance accuracy_after asr "
    "asr_decided n_unreadable_under_attack n_rejected key_probability_change asr_at queries "
    "queries_to_success diversity diversity_unbiased prompt_similarity letter_mass n_ties "
    "n_unchanged n_never_asked asr_asked"
)
EXCHANGE_FIELDS = (
    "trial_id role purpose query call prompt_hash prompt answer scores finish_reason cached "
    "seconds tokens_in tokens_out error"
)


@pytest.fixture
def summary(medstress, finished):
    told = medstress("summary", finished.out, "--json")
    assert (told.code, told.err) == (0, "")
    return json.loads(told.out, parse_constant=pytest.fail)  # no NaN, no Infinity


def test_the_summary_is_json_of_format_3_with_every_field(summary):
    assert summary["format"] == 3
    assert {"name", "fingerprint", "seeds", "versions", "started", "finished", "complete"} <= set(
        summary["experiment"]
    )
    assert summary["experiment"]["complete"] is True
    assert summary["experiment"]["name"] == "finished"
    # Two victims; random with two seeds, nearest once.
    assert (len(summary["results"]), len(summary["by_seed"])) == (2 * 2, 2 * 3)
    assert set(summary) >= {"root", "verdict", "slices", "requirements", "tests", "performance"}
    assert all(set(warning) == {"rule", "sentence", "where"} for warning in summary["warnings"])
    for row in [*summary["results"], *summary["by_seed"]]:
        assert set(row) >= set(ROW_FIELDS.split())
        for name in ("accuracy", "accuracy_after", "asr", "asr_decided", "diversity"):
            assert set(row[name]) - {"worst"} == ESTIMATE
    assert all(row["seeds"] for row in summary["results"])
    assert [row["seed"] for row in summary["by_seed"]].count(None) == 2


def test_the_identities_of_the_interface_hold_in_every_row(summary):
    for row in [*summary["results"], *summary["by_seed"]]:
        assert row["n_trials"] == (
            row["n_already_wrong"]
            + row["n_not_attackable"]
            + row["n_unreadable_at_baseline"]
            + row["n_failed_at_baseline"]
            + row["n_eligible"]
        )
        assert row["n_eligible"] == (
            row["n_flipped"]
            + row["n_held"]
            + row["n_measured"]
            + row["n_cut_short"]
            + row["n_failed"]
        )
        queries = row["queries"]
        assert queries["asked"] == queries["paid"] + queries["cached"] + queries["failed"]
        asked = row["n_eligible"] + row["n_already_wrong"] + row["n_unreadable_at_baseline"]
        assert row["accuracy"]["n"] == asked
        for name, value in (
            ("accuracy", row["n_eligible"]),
            ("accuracy_after", row["n_eligible"] - row["n_flipped"]),
        ):
            assert row[name]["value"] == pytest.approx(value / asked)
        if row["n_eligible"]:
            assert row["asr"]["value"] == pytest.approx(row["n_flipped"] / row["n_eligible"])
            assert row["asr_decided"]["value"] == pytest.approx(
                row["n_flipped"] / (row["n_flipped"] + row["n_held"])
            )
            assert row["asr_at"][-1]["value"] == pytest.approx(row["asr"]["value"])
    rows = [row for row in summary["by_seed"] if row["attack"] == "random"]
    for row in summary["results"]:
        if row["attack"] == "random":
            same = [r for r in rows if r["victim"] == row["victim"]]
            assert row["seeds"] == [0, 1]
            for name in ("n_trials", "n_flipped", "n_held", "n_already_wrong"):
                assert row[name] == sum(r[name] for r in same)
            assert row["queries"]["asked"] == sum(r["queries"]["asked"] for r in same)
            assert row["n_items"] == same[0]["n_items"]


def test_every_trial_is_consistent_with_its_own_counts(finished):
    for row in rows_of(finished.out):
        assert row.n_asked == row.n_paid + row.n_cached + row.n_failed
        assert row.n_asked <= 5
        if row.verdict == "flipped":
            assert row.n_asked == row.first_success
            assert row.answer_after != row.key == row.answer_before
            assert row.replacement in row.prompt_after
        if row.verdict == "held":
            assert row.n_asked == 5
        if row.verdict in ("not_attackable", "already_wrong", "unreadable"):
            assert row.n_asked == 0


def test_looking_does_not_change_the_run(medstress, finished, summary):
    before = (finished.out / "run.sqlite").read_bytes()
    medstress("summary", finished.out)
    medstress("export", finished.out, "--table", "trials", "--to", finished.root / "t.csv")
    assert (finished.out / "run.sqlite").read_bytes() == before


def test_an_export_replaces_an_earlier_one_and_never_what_the_run_reads(
    medstress, finished, monkeypatch
):
    arguments = ("export", finished.out, "--table", "items", "--to")
    for _ in range(2):
        assert medstress(*arguments, finished.root / "i.jsonl").code == 0
    monkeypatch.chdir(finished.out)
    before = (finished.root / "items.jsonl").read_bytes()
    told = medstress(*arguments, "../items.jsonl")
    assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert "--to ../items.jsonl: this is also an input file" in told.err
    assert (finished.root / "items.jsonl").read_bytes() == before


def test_a_file_in_a_folder_of_data_is_not_replaced(tmp_path):
    refuse_inputs(tmp_path / "new.csv", [tmp_path])
    (tmp_path / "data.csv").touch()
    with pytest.raises(UsageError, match="is a folder of input files"):
        refuse_inputs(tmp_path / "data.csv", [tmp_path / "other", tmp_path])


LOOKS = (["summary"], ["summary", "--json"], ["report"], ["figures", "--out", "figures"])


@pytest.mark.parametrize("look", [*LOOKS, ["export", "--table", "trials", "--to", "x.csv"]])
def test_a_folder_without_a_run_is_named(medstress, tmp_path, look, said):
    for folder in (tmp_path, tmp_path / "missing"):
        told = medstress(*look, folder)
        assert (told.code, told.out) == (2, "")
        said(told.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("look", [*LOOKS, ["export", "--table", "trials", "--to", "x.csv"]])
def test_a_file_that_is_no_run_is_named(medstress, tmp_path, look):
    (tmp_path / "run.sqlite").write_text("not a database, but long enough " * 50, encoding="utf-8")
    told = medstress(*look, tmp_path)
    assert (told.code, told.out) == (2, "")
    assert "run.sqlite is not a readable run: file is not a database" in told.err


# -- report ---------------------------------------------------------------------------------------


def test_the_report_is_written_into_the_folder_or_where_it_is_asked(medstress, finished, tmp_path):
    told = medstress("report", finished.out)
    page = finished.out / "report.html"
    assert (told.code, told.out, told.err) == (0, f"report: {page}\n", "")
    text = page.read_text("utf-8")
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert not re.search(r"""(?:src|href)=["']https?://[^"']+\.(?:js|css|png|svg|woff2?)""", text)
    other = tmp_path / "page.html"
    told = medstress("report", finished.out, "--out", other)
    assert (told.code, told.out) == (0, f"report: {other}\n")
    assert other.read_text("utf-8") == text


# -- export ---------------------------------------------------------------------------------------


def count(run, table):
    if table == "items":
        return 12
    if table == "trials":
        return 12 * 6
    reader_rows = run.summary()
    queries = [row["queries"] for row in reader_rows["results"]]
    # One call a query in this run.
    return sum(q["asked"] + q["baseline"] + q["other"] + q["ahead"] for q in queries)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("table", ["items", "trials", "exchanges"])
def test_every_table_is_exported_in_every_format(medstress, finished, tmp_path, table, form):
    to = tmp_path / f"{table}.{form}"
    told = medstress("export", finished.out, "--table", table, "--to", to)
    n = count(Run(finished.out), table)
    assert (told.code, told.out, told.err) == (0, f"{n} rows: {to}\n", "")
    if form == "parquet":
        rows = polars.read_parquet(to).to_dicts()
    elif form == "csv":
        with to.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    else:
        rows = [json.loads(line) for line in to.read_text("utf-8").splitlines()]
    assert len(rows) == n
    if table == "exchanges":
        assert set(rows[0]) == set(EXCHANGE_FIELDS.split())
    if table == "trials":
        assert list(rows[0]) == INTERFACE.split()
        assert rows[0]["dataset"] == "cases"


def test_the_three_formats_hold_the_same_rows(medstress, finished, tmp_path):
    for form in ("jsonl", "csv", "parquet"):
        medstress("export", finished.out, "--table", "trials", "--to", tmp_path / f"t.{form}")
    lines = (tmp_path / "t.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert polars.read_parquet(tmp_path / "t.parquet").to_dicts() == rows
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
        texts = list(csv.DictReader(stream))
    written = [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in rows
    ]
    for text, row, cells in zip(texts, rows, written, strict=True):
        assert json.loads(text["attack_spec"]) == row["attack_spec"]
        # Objects are JSON text in CSV alone.
        for name, value in row.items():
            if isinstance(value, dict | list):
                assert json.loads(text[name]) == value
                cells[name] = text[name]
        assert text["attack_spec"].startswith("{")
        assert text["edits"].startswith("[")
    assert texts == written


def test_exchanges_tell_what_was_asked_and_answered(medstress, finished, tmp_path):
    to = tmp_path / "e.jsonl"
    medstress("export", finished.out, "--table", "exchanges", "--to", to)
    rows = [json.loads(line) for line in to.read_text("utf-8").splitlines()]
    trials = {row.trial_id: row for row in rows_of(finished.out)}
    assert {row["purpose"] for row in rows} == {"baseline", "attack", "flip_check"}
    asked: dict[str, int] = {}
    for row in rows:
        trial = trials[row["trial_id"]]
        assert row["role"] == "victim"
        assert "[Question]: What treats case" in row["prompt"]
        assert row["error"] is None
        if row["purpose"] == "baseline":
            assert row["query"] == 0
        if row["purpose"] == "attack":
            asked[row["trial_id"]] = asked.get(row["trial_id"], 0) + 1
            assert row["query"] == asked[row["trial_id"]]
            if row["query"] == trial.first_success:
                assert row["prompt"] == trial.prompt_after
    assert asked == {row.trial_id: row.n_asked for row in trials.values() if row.n_asked}
    received = {prompt for _, prompt in finished.received()}
    assert received == {
        row["prompt"] for row in rows if trials[row["trial_id"]].victim == "careful"
    }
    paid = [row for row in rows if not row["cached"]]
    careful = [row for row in paid if trials[row["trial_id"]].victim == "careful"]
    assert len(careful) == len(finished.received())


INTERFACE = (
    "trial_id dataset group item_id item_hash unit cluster victim attack attack_spec arm "
    "control_of seed repeat verdict key answer_before answer_after score_before score_after "
    "n_asked n_paid n_cached n_failed n_unreadable n_rejected first_success first_valid_success "
    "first_success_attempt option replaced replacement variant_class edits edit_characters "
    "edit_tokens valid validity_reason evidence repeats prompt_before prompt_after "
    "listing_before listing_after attempts answers error gold_before gold_after labels_before "
    "labels_after"
)
"""The columns of trials of the interface, section 5, in its order."""
