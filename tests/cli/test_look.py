"""Looking at a run: summary, report, export."""

import json
import re

import pytest

from rows import rows_of


def test_the_summary_is_json_whose_identities_hold_in_every_row(medstress, finished):
    told = medstress("summary", finished.out, "--json")
    assert (told.code, told.err) == (0, "")
    summary = json.loads(told.out, parse_constant=pytest.fail)  # no NaN, no Infinity
    # Two victims; random with two seeds, nearest once.
    assert (len(summary["results"]), len(summary["by_seed"])) == (2 * 2, 2 * 3)
    assert [row["seed"] for row in summary["by_seed"]].count(None) == 2
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


def test_the_report_is_written_into_the_folder_or_where_it_is_asked(medstress, finished, tmp_path):
    told = medstress("report", finished.out)
    page = finished.out / "report.html"
    assert (told.code, told.out, told.err) == (0, f"report: {page}\n", "")
    text = page.read_text("utf-8")
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert not re.search(r"""(?:src|href)=["']https?://[^"']+\.(?:js|css|png|svg|woff2?)""", text)
    other = tmp_path / "my page.html"
    told = medstress("report", finished.out, "--out", other)
    assert (told.code, told.out) == (0, f"report: '{other}'\n")
    assert other.read_text("utf-8") == text


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
