"""Looking at a run: summary, report, export; and what they say where there is none."""

import csv
import json
import re

import polars
import pytest

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


def test_a_folder_without_a_run_is_named(medstress, tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        for look in (["summary"], ["report"], ["export", "--table", "trials", "--to", "x.csv"]):
            told = medstress(*look, folder)
            assert (told.code, told.out) == (2, "")
    assert list(tmp_path.iterdir()) == []


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


def test_the_three_formats_hold_the_same_rows(medstress, finished, tmp_path):
    for form in ("jsonl", "csv", "parquet"):
        medstress("export", finished.out, "--table", "trials", "--to", tmp_path / f"t.{form}")
    lines = (tmp_path / "t.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert polars.read_parquet(tmp_path / "t.parquet").to_dicts() == rows
    assert len(rows) == 12 * 6
    assert list(rows[0]) == INTERFACE.split()
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
    assert set(rows[0]) == set(EXCHANGE_FIELDS.split())
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
