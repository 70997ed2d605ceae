"""`medstress naturalness` with a planted model that knows some words better than others."""

from __future__ import annotations

import json
from collections import Counter
from math import log
from statistics import median

import pytest

from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.core import registry
from medstress.core.calls import Backend, BackendTraits, Failure, ModelIdentity, Scored
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.running.perplexity import check_scores, measure_perplexities

PERPLEXITY = {"zumab": 2.0, "olol": 4.0, "mycin": 1.0}
"""By the end of a word; 8 for any other."""


def of_word(word):
    return next((value for end, value in PERPLEXITY.items() if word.endswith(end)), 8.0)


class Planted(Backend):
    """A word is a token; its probability depends on its end alone."""

    def __init__(self, name="planted", answer=None):
        self.identity = ModelIdentity(name=name, hash=name)
        self.traits = BackendTraits(calls=frozenset({"score"}), batch_size=4)
        self.asked = []
        self._other = answer

    def answer(self, calls):
        assert len(calls) <= self.traits.batch_size
        self.asked += calls
        return [self._other or self._scored(call) for call in calls]

    def _scored(self, call):
        (text,) = call.continuations
        words = text.split()
        value = -sum(log(of_word(word)) for word in words)
        return Scored(log_probs=(value,), n_tokens=(len(words),))


@pytest.fixture
def made(bench):
    """A run of one attack beside random names of the type and beside white space."""
    bench.tables["experiment"] |= {"seeds": [0, 1], "controls": ["same_type", "no_op"]}
    bench.tables["attack"] = [bench.attack("pdws", n=-5)]
    assert bench.run() == 0
    return bench


def measured(bench, backend):
    return measure_perplexities(bench.out, lambda: backend, lambda _: None)


def test_the_ratio_is_that_of_the_planted_words_for_successes_and_their_controls(made):
    before = made.summary()
    backend = Planted()
    measured(made, backend)
    rows = made.rows()
    scored = [row for row in rows if row.perplexity_ratio is not None]
    successes = [row for row in rows if row.arm == "attack" and row.verdict is Verdict.FLIPPED]
    assert len(successes) >= 3
    assert [row for row in scored if row.arm == "attack"] == successes
    for row in successes:
        (edit,) = json.loads(row.first_success_edits)
        expected = of_word(edit[3].lower()) / 2
        assert row.perplexity_ratio == pytest.approx(expected)
    beside = {(row.item_id, row.seed) for row in successes}
    controls = [row for row in scored if row.arm == "same_type"]
    assert controls
    assert {(row.item_id, row.seed) for row in controls} <= beside
    assert any(row.verdict is Verdict.HELD for row in controls)
    summary = made.summary()
    by_attack = {row["attack"]: row for row in summary["pooled"]}
    by_item = {}
    for row in successes:
        by_item.setdefault(row.item_id, []).append(log(row.perplexity_ratio))
    told = by_attack["pdws"]["perplexity_ratio"]
    by_hand = median(sum(each) / len(each) for each in by_item.values())
    assert log(told["value"]) == pytest.approx(by_hand)
    assert told["n"] == len(by_item)
    assert told["low"] is None or told["low"] <= told["value"] <= told["high"]
    assert by_attack["pdws / same_type"]["perplexity_ratio"]["value"] > 0
    ledgers = [[row["queries"] for row in each["pooled"]] for each in (before, summary)]
    assert ledgers[0] == ledgers[1]
    assert summary["perplexity"]["calls"] == {"planted": len(backend.asked)}


def test_options_are_scored_after_the_question_and_the_options_before_them(made):
    backend = Planted()
    measured(made, backend)
    for call in backend.asked:
        lines = call.prompt.split("\n")
        assert lines[0].startswith("What treats case")
        assert lines[-1] == f"{'ABCD'[len(lines) - 2]}."
        assert call.continuations[0].startswith(" ")
    assert max(Counter(backend.asked).values()) == 1


def test_nothing_is_asked_twice_and_the_last_model_counts(made):
    first, other = Planted(), Planted("other")
    measured(made, first)
    known = {row.trial_id: row.perplexity_ratio for row in made.rows()}
    measured(made, other)
    assert len(other.asked) == len(first.asked)
    again = Planted()
    (said,) = measured(made, again)
    assert again.asked == []
    assert "0 calls now" in said
    assert {row.trial_id: row.perplexity_ratio for row in made.rows()} == known
    assert made.summary()["perplexity"]["hash"] == "planted"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Failure(error="too long"), "too long"),
        (Scored(log_probs=(float("-inf"),), n_tokens=(1,)), "log probability of -inf"),
        (Scored(log_probs=(0.0,), n_tokens=(0,)), "log probability of 0"),
    ],
)
def test_what_cannot_be_scored_is_told_and_has_no_ratio(made, reply, reason):
    _, said = measured(made, Planted(answer=reply))
    assert said.endswith(reason)
    assert not any(row.perplexity_ratio for row in made.rows())
    assert not any("perplexity_ratio" in row for row in made.summary()["pooled"])


def test_a_case_has_the_ratio_of_the_name_that_it_shows(bench, workbench, capsys):
    """The key with a word more is refuted, and the search goes on."""
    key = workbench.questions()[0]["options"][0]
    (bench.root / "names.txt").write_text(f"{key} forte\nabimycin\nbelamycin", "utf-8")
    (bench.root / "victim.py").write_text(ALWAYS_MISLED, "utf-8")
    bench.tables["experiment"] |= {"seeds": [0]}
    bench.tables["attack"] = [bench.attack("nearest", variants="mark", budget=3)]
    assert bench.run() == 0
    measured(bench, Planted())
    (row,) = [each for each in bench.rows() if each.pick_perplexity_ratio is not None]
    assert row.first_success < row.first_unrefuted_success
    assert row.pick_perplexity_ratio == pytest.approx(1 / 2)
    assert row.perplexity_ratio == pytest.approx(4 / 2)  # zumab 2, forte 8
    capsys.readouterr()
    assert medstress_cli(["case", str(bench.out), row.trial_id]) == 0
    shown = capsys.readouterr().out
    assert ".500 (edited option / clean option)" in shown
    assert f"2.000 (edited option / clean option, of {row.first_success_replacement}," in shown
    assert measured(bench, again := Planted())[0].endswith("0 calls now")
    assert not again.asked


ALWAYS_MISLED = """
import re


def answer(prompts):
    return [_answer(each) for each in prompts]


def _answer(prompt):
    key = int(re.search(r"case +([0-9]+)", prompt)[1]) % 4
    is_clean = "forte" not in prompt.lower() and "mycin" not in prompt.lower()
    return "ABCD"[key if is_clean else (key + 1) % 4]
"""


def test_the_stand_in_is_refused_because_it_reads_no_text(made, capsys, said):
    assert medstress_cli(["naturalness", str(made.out), "--model", "mock"]) == 2
    said(capsys.readouterr().err, "the stand-in reads no text")
    assert not any(row.perplexity_ratio for row in made.rows())


def test_the_command_tells_exports_and_verifies(made, capsys, tmp_path, monkeypatch):
    root = made.summary()["root"]
    with monkeypatch.context() as patch:
        patch.setattr(registry, "open_backend", lambda *_: Planted())
        assert medstress_cli(["naturalness", str(made.out), "--quiet"]) == 0
        assert "Perplexity ratio" in capsys.readouterr().out
        assert medstress_cli(["naturalness", str(made.out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scorer"]["model"] == "planted"
    assert {row["attack"] for row in told["rows"]} >= {"pdws", "pdws / same_type"}
    success = next(row for row in made.rows() if row.perplexity_ratio is not None)
    assert medstress_cli(["case", str(made.out), success.trial_id]) == 0
    assert "(edited option / clean option)" in capsys.readouterr().out
    to = tmp_path / "rows.parquet"
    assert medstress_cli(["export", str(made.out), "--table", "trials", "--to", str(to)]) == 0
    assert Run(made.out).trials()["perplexity_ratio"].count() > 0
    assert made.summary()["root"] not in (None, root)
    assert medstress_cli(["verify", str(made.out)]) == 0
    assert medstress_cli(["verify", str(made.out), "--root", root]) == 0
    assert made.run() == 0


def test_models_without_probabilities_and_runs_without_edited_options_are_refused(bench, capsys):
    (bench.root / "victim.py").write_text(
        "import re\n\n\ndef answer(prompts):\n"
        "    return ['ABCD'[int(re.search(r'case ([0-9]+)', p)[1]) % 4] for p in prompts]\n",
        "utf-8",
    )
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [bench.attack("random")]
    assert bench.run() == 0
    capsys.readouterr()
    assert medstress_cli(["naturalness", str(bench.out)]) == 2
    assert "no success of this run edits an option" in capsys.readouterr().err
    writer = Planted()
    writer.traits = BackendTraits(calls=frozenset({"generate"}))
    with pytest.raises(UsageError, match="gives texts no probabilities"):
        check_scores(writer, "writer")
