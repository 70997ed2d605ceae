"""The summary as JSON, costs, cases and exit codes."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from medstress.analyses import summary as module
from medstress.analyses.results import RESULTS
from medstress.analyses.run import Analysis, Run
from medstress.analyses.shown import HIDDEN, Decision, Remark, Shown
from medstress.analyses.summary import PERFORMANCE, decisions_of, exit_code, summary
from medstress.core.outcomes import Verdict
from medstress.store.counts import Spending
from planted_trials import attacked_run, fooled, planted_run, questions, trial


@dataclass(frozen=True, kw_only=True)
class Judged(Shown):
    rows: list[int]
    outcomes: list[str] = field(metadata=HIDDEN)

    def decisions(self) -> list[Decision]:
        return [Decision(name="asr", outcome=one, sentence="is .3") for one in self.outcomes]  # type: ignore[arg-type]

    def remarks(self) -> list[Remark]:
        return [
            Remark(rule="a", sentence="Twice."),
            Remark(rule="a", sentence="Twice."),
            Remark(rule="b", sentence="A note.", level="note"),
        ]


def with_criteria(monkeypatch: pytest.MonkeyPatch, *outcomes: str) -> None:
    judging = Analysis("requirements", lambda _: Judged(rows=[1, 2], outcomes=list(outcomes)))
    monkeypatch.setattr(module, "ANALYSES", (module.RESULTS, judging))


def test_what_the_first_screen_leaves_out_has_nothing_to_say():
    run = attacked_run({"careful": fooled}, 40)
    quiet = [run.of(one) for one in module.ANALYSES if one.is_quiet]
    assert len(quiet) == 2
    for result in quiet:
        assert isinstance(result, Shown)
        assert not result.is_brief
        assert type(result).remarks is Shown.remarks
        assert type(result).decisions is Shown.decisions


def test_keys_of_format_3(monkeypatch):
    with_criteria(monkeypatch, "ok")
    made = summary(attacked_run({"careful": fooled}, 20, seeds=(0, 1)))
    assert list(made) == [
        "format",
        "experiment",
        "root",
        "verdict",
        "results",
        "by_seed",
        "slices",
        "requirements",
        "tests",
        "warnings",
        "performance",
    ]
    assert made["format"] == 3
    assert list(made["experiment"]) == [
        "name",
        "fingerprint",
        "seeds",
        "versions",
        "started",
        "finished",
        "complete",
    ]
    assert made["requirements"] == [1, 2]
    assert made["warnings"][-1] == {"rule": "a", "sentence": "Twice.", "where": []}
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_rows_over_seeds_and_by_seed():
    run = attacked_run({"careful": fooled}, 20, seeds=(0, 1))
    made = summary(run)
    attack, beside = made["results"]
    assert "control_of" not in attack
    assert beside["control_of"] == "near names"
    assert attack["seeds"] == [0, 1]
    assert [row["seed"] for row in made["by_seed"]] == [0, 1, 0, 1]
    assert all("seeds" not in row for row in made["by_seed"])
    n = attack["n_eligible"]
    assert attack["n_flipped"] == sum(row["n_flipped"] for row in made["by_seed"][:2])
    assert attack["asr"]["hits"] == attack["n_flipped"]
    assert run.of(RESULTS).rows[0].success.asr.effect > 1  # seeds repeat the questions
    assert attack["asr"]["n"] == n == 40


def spent(role: str, victim: str, calls: int, tokens: tuple[int, int]) -> Spending:
    return Spending(
        role=role,
        victim=victim,
        n_calls=calls,
        tokens_in=tokens[0],
        tokens_out=tokens[1],
        seconds=1.0,
    )


def test_costs_by_payer():
    run = attacked_run(
        {"a": fooled, "b": fooled},
        4,
        spending=[
            spent("victim", "a", 10, (1_000_000, 0)),
            spent("victim", "b", 5, (7, 7)),
            spent("attacker", "a", 2, (0, 500_000)),
            spent("attacker", "b", 1, (0, 500_000)),
        ],
        n_from_cache=3,
        victims={"a": {"price_in": 2.0, "price_out": 4.0}, "b": {}},
        roles={"attacker": {"price_in": 1.0, "price_out": 3.0}},
        performance={"wall_seconds": 2.0, "tokens_forwarded": 9},
    )
    cost = run.of(PERFORMANCE)
    assert [(one.payer, one.calls, one.usd) for one in cost.spending] == [
        ("a", 10, 2.0),
        ("b", 5, None),
        ("role.attacker", 3, 3.0),
    ]
    assert cost.usd == 5.0
    assert (cost.calls, cost.calls_from_cache) == (18, 3)
    asked = sum(t.queries.asked for t in run.trials)
    assert cost.queries_per_second == asked / 2
    assert (cost.tokens_forwarded, cost.tokens_naive) == (9, None)
    (table,) = cost.tables()
    assert len(table.rows) == 3


@pytest.mark.parametrize(
    ("outcomes", "complete", "code"),
    [
        ((), True, 0),
        (("ok",), True, 0),
        (("ok", "failed"), True, 3),
        (("error",), True, 3),
        (("error",), False, 0),
    ],
)
def test_exit_codes_of_criteria(monkeypatch, outcomes, complete, code):
    with_criteria(monkeypatch, *outcomes)
    run = attacked_run({"careful": fooled}, 20, complete=complete)
    assert exit_code(run) == code
    assert [case.outcome for case in decisions_of(run)] == [
        *outcomes,
        "ok",
        "ok",
        "ok" if complete else "error",
    ]


def test_failed_trials_are_a_fault_beyond_what_is_allowed():
    def run(**config: Any) -> Run:
        ended = [Verdict.FAILED, Verdict.HELD, Verdict.HELD]
        return planted_run(
            (trial(i, item=q, verdict=ended[i]) for i, q in enumerate(questions(3))),
            config={"experiment": {"name": "planted", **config}},
        )

    assert exit_code(run()) == 1
    assert exit_code(run(max_failed=1)) == 0
