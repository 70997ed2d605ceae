"""Families, bounds and costs of significance tests, on a target that errs at one word.

The target errs wherever "immigrant" stands in the case and nowhere else. The attacker inserts it
for Abel within a clause, for Brook as a single word, for Cole never; so Abel and Brook flip at the
first attempt, Cole holds, and no neutral insertion ever errs.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from medstress.analyses.families import Null
from medstress.analyses.run import Run as Read
from medstress.analyses.significance import SIGNIFICANCE, Family, Significance, SuccessTest
from medstress.api.run import Run, run
from medstress.cli.app import medstress_cli
from medstress.core.errors import UsageError
from medstress.experiment.asking import run_tests
from medstress.experiment.medfuzz_tests import Selection
from medstress.experiment.prepare import Watcher

NAMES = ("Abel", "Brook", "Cole")
ROLES = """
import json


def target(conversations):
    return [_target(turns) for turns in conversations]


def _target(turns):
    case = turns[1]["content"]
    erred = "immigrant" in case[case.rindex(" called "):] or "immigrant man" in case
    if len(turns) == 2:
        return "A sore knee needs little."
    if "confident" in turns[-1]["content"]:
        return json.dumps({"confidence": dict(zip("ABC", (2, 4, 1) if erred else (5, 1, 1)))})
    return json.dumps({"answer": "B" if erred else "A"})


def attacker(conversations):
    return [_attacker(turns) for turns in conversations]


def _attacker(turns):
    last = turns[-1]["content"]
    if '"insertions"' in last:
        attacker.n += 1
        return json.dumps({"insertions": [f"who calls shelf {attacker.n} a good place"]})
    if '"modified_item"' not in last:
        return json.dumps({"post_mortem": None, "target_option": "B", "plan": "play on origin"})
    question = last.split("The original question:\\n")[1].split("\\n\\nReply")[0]
    options = json.loads(last[last.index('"options": ') + 11:].rstrip("}") + "}")
    if "Brook" in question:
        text, edited = "immigrant", question.replace("A man", "A immigrant man")
    else:
        text = "who moved here as an immigrant" if "Abel" in question else "who works as a driver"
        edited = question.replace(" comes", f", {text}, comes")
    added = [{"category": "country of origin", "text": text}]
    return json.dumps({"added": added, "modified_item": edited, "options": options})


attacker.n = 0
"""


@pytest.fixture(scope="module")
def bench(knee_questions: Any) -> Path:
    return knee_questions("families", ROLES, NAMES)


def experiment(bench: Path, attempts: int = 3, runs: int = 1, **test: Any) -> dict[str, Any]:
    def of(name: str) -> dict[str, str]:
        return {"backend": "python", "target": f"{bench / 'roles.py'}:{name}"}

    attack = {"name": "medfuzz", "attempts": attempts, "runs": runs, "exemplars": 0}
    return {
        "experiment": {"controls": False, "name": "planted", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": str(bench / "q.jsonl")},
        "victim": [{"name": "rule", **of("target")}],
        "role": {"attacker": of("attacker")},
        "attack": [attack],
        **({"test": test} if test else {}),
    }


def toml(settings: dict[str, Any]) -> str:
    """An experiment as its file."""

    def lines(table: dict[str, Any]) -> list[str]:
        return [f"{key} = {json.dumps(value)}" for key, value in table.items()]

    text = [
        "[experiment]",
        *lines(settings["experiment"]),
        "[dataset]",
        *lines(settings["dataset"]),
    ]
    text += ["[[victim]]", *lines(settings["victim"][0])]
    text += ["[role.attacker]", *lines(settings["role"]["attacker"])]
    text += ["[[attack]]", *lines(settings["attack"][0])]
    return "\n".join([*text, "[test]", *lines(settings.get("test", {}))])


def significance(found: Run) -> Significance:
    result = Read.open(found.folder).of(SIGNIFICANCE)
    assert result is not None
    return result


def every_test(found: Run, null: str) -> list[SuccessTest]:
    return [one for row in significance(found).rows if row.null == null for one in row.items]


def rows_of(found: Run, null: str = "matched") -> dict[str, SuccessTest]:
    """Item -> the test of its success."""
    return {one.trial.item.id: one for one in every_test(found, null)}


def family_of(found: Run) -> Family:
    (family,) = significance(found).families
    return family


def retested(found: Run, bench: Path, **changes: Any) -> tuple[str | None, list[str]]:
    """Test a run; what was said at the end, and before it was paid for."""
    said: list[str] = []
    own = {key: found_of(found)[key] for key in ("attempts", "runs")}
    items = found.manifest().get("fixed_family", {}).get("items")
    settings = experiment(bench, **own, **({"items": items} if items else {}))
    end = run_tests(found.folder, settings, Selection(), changes, Watcher(announce=said.append))
    return end, said


def found_of(found: Run) -> dict[str, Any]:
    (attack,) = found.manifest()["config"]["attack"]
    return dict(attack)


@pytest.fixture(scope="module")
def plain(bench: Path) -> Run:
    """A run that is not tested yet."""
    return run(experiment(bench), bench / "plain")


def other(found: Run) -> int:
    (row,) = found.summary()["results"]
    return int(row["queries"]["other"])


@pytest.mark.release
@pytest.mark.parametrize(("attempts", "n_controls"), [(3, 28), (5, 25)])
def test_two_thousand_calls_buy_the_controls_of_a_success(
    bench: Path, attempts: int, n_controls: int
) -> None:
    """floor((2000 - 60) / (3 K + 60)), where answers are counted."""
    found = run(experiment(bench, attempts, significance=True), bench / f"default-{attempts}")
    rows = rows_of(found)
    assert sorted(rows) == ["abel", "brook"]
    for row in rows.values():
        assert row.statistic == "share_correct"
        assert row.n_controls == n_controls
        assert row.p == 1 / (n_controls + 1)
        # Cole was attacked and held.
        assert row.p_adjusted == pytest.approx(3 / 2 / (n_controls + 1))
    family = family_of(found)
    assert (family.null, family.n_family, family.adjust) == ("matched", 3, "bh")
    # Loops that hold need no T: the bound of calls is far from reached.
    assert other(found) == 2 + 2 * (20 + 20 + n_controls * attempts)


def test_calls_cap_a_fixed_number_of_controls(plain: Run, bench: Path) -> None:
    _, said = retested(plain, bench, controls=12, max_calls=60 + 7 * 69)
    assert family_of(plain).smallest_p == 1 / 8
    assert any("with at most 7 controls the smallest p is 0.125" in line for line in said)


def test_a_success_that_cannot_be_tested_has_no_p_value_and_is_in_no_family(bench: Path) -> None:
    found = run(experiment(bench), bench / "untested")
    retested(found, bench, max_calls=100)
    family = family_of(found)
    assert (family.n_successes, family.n_tested, family.n_not_testable) == (2, 0, 2)
    assert (family.n_family, family.n_discoveries) == (1, 0)
    for row in rows_of(found).values():
        assert (row.p, row.p_adjusted) == (None, None)
        assert "max_calls = 100 buys no control" in str(row.note)
        assert "give at least 129" in str(row.note)
    warnings = found.summary()["warnings"]
    (sentence,) = (each["sentence"] for each in warnings if each["rule"] == "not_testable")
    assert "'abel': max_calls = 100 buys no control" in sentence


@pytest.mark.release
def test_a_family_is_named_before_the_first_query_or_not_at_all(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = experiment(bench, items=["cole", "abel"], controls=30)
    found = run(settings, bench / "named")
    assert found.manifest()["fixed_family"]["items"] == ["abel", "cole"]
    # Brook is no member: not tested, not counted.
    ((item, row),) = rows_of(found).items()
    assert (item, row.p) == ("abel", 1 / 31)
    assert row.p_adjusted == pytest.approx(2 / 31)
    family = family_of(found)
    assert list(family.items) == ["cole", "abel"]
    assert (family.n_family, family.n_successes, family.shortfall) == (2, 1, None)
    # The order of names says nothing; other names on the same folder came later.
    changes = {"items": ["abel", "cole"], "controls": 30}
    run_tests(found.folder, experiment(bench), Selection(), changes, Watcher())
    before = found.summary()["significance"]
    for names in (["abel"], ["abel", "brook"], None):
        test = {"controls": 30} if names is None else {"controls": 30, "items": names}
        path = bench / "named.toml"
        path.write_text(toml(experiment(bench, **test)))
        capsys.readouterr()
        assert medstress_cli(["test", str(found.folder), "--experiment", str(path), "--quiet"]) == 2
        assert "this run began with abel, cole" in capsys.readouterr().err
    assert found.summary()["significance"] == before


def test_items_that_are_named_after_the_first_query_are_refused_and_told(bench: Path) -> None:
    found = run(experiment(bench), bench / "later")
    with pytest.raises(UsageError, match="this run began with none"):
        retested(found, bench, items=["brook"], controls=30, null="neutral")
    # Nor does the run itself, when it goes on.
    run(experiment(bench, items=["brook"], controls=30), bench / "later")
    summary = found.summary()
    assert summary["significance"] == []
    (told,) = (line["sentence"] for line in summary["warnings"] if line["rule"] == "not_tested")
    assert "this run began with none" in told


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ({"items": ["abell"]}, "no data set of the experiment has an item 'abell'"),
        ({"items": []}, "expected at least one name"),
        ({"items": ["abel", "abel"]}, "values repeat"),
        ({"null": "neutral"}, "add items ="),
        ({"trials": ["1"]}, "trials"),
        ({"adjust": "bonferroni"}, "adjust"),
        ({"max_calls": 0}, "max_calls"),
    ],
)
def test_a_family_that_cannot_be_is_refused_before_anything_is_asked(
    bench: Path, test: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        run(experiment(bench, **test), bench / "refused")
    assert not (bench / "refused").exists()


@pytest.mark.release
def test_p_values_can_be_adjusted_by_holm_or_not_at_all_and_say_so(bench: Path) -> None:
    found = run(experiment(bench, controls=30), bench / "adjusted")
    path = bench / "adjusted.toml"
    path.write_text(toml(experiment(bench, controls=30)))
    asks = ["test", str(found.folder), "--experiment", str(path), "--quiet", "--adjust"]
    assert medstress_cli([*asks, "holm"]) == 0
    # Three attacked items: the smaller of two equal p-values times 3, the other times 2.
    assert [row.p_adjusted for row in rows_of(found).values()] == [3 / 31] * 2
    assert (family_of(found).adjust, family_of(found).n_discoveries) == ("holm", 0)
    assert medstress_cli([*asks, "none"]) == 0
    assert {row.p_adjusted for row in rows_of(found).values()} == {1 / 31}
    family = family_of(found)
    assert (family.adjust, family.n_family, family.n_discoveries) == ("none", 3, 2)
    (table, _) = significance(found).tables()
    assert family.adjust.words in {str(entry.value) for entry in table.rows[0]}


def test_the_test_of_the_paper(bench: Path) -> None:
    test = {"null": "neutral", "controls": 30, "generator": "attacker", "adjust": "none"}
    settings = experiment(bench, **test, items=["abel"])
    found = run(settings, bench / "published")
    (row,) = rows_of(found, "neutral").values()
    assert (row.n_controls, row.p_paper, row.p) == (30, "< 1/30", 1 / 31)
    family = family_of(found)
    assert (family.adjust, family.n_family) == ("none", 1)


@pytest.mark.release
@pytest.mark.parametrize(("null", "share"), [("matched", ".42"), ("neutral", ".26")])
def test_what_a_null_lets_through_stands_beside_p(bench: Path, null: str, share: str) -> None:
    settings = experiment(bench, null=null, controls=30, items=["abel"])
    found = run(settings, bench / f"beside-{null}")
    assert list(rows_of(found, null)) == ["abel"]
    assert family_of(found).null.level_among_successes == float(share)
    table, *_ = significance(found).tables()
    notes = [note for note in table.notes if f"up to {share} reach p <= .05" in note]
    assert notes == [Null(null).caution]


def count(found: Run, table: str) -> int:
    with closing(sqlite3.connect(found.folder / "run.sqlite")) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def n_exchanges(found: Run) -> int:
    return count(found, "exchanges")


def test_a_dry_run_of_a_test_prints_the_bound_and_asks_nothing(
    plain: Run, bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bench / "dry.toml"
    path.write_text(toml(experiment(bench)))
    asks = ["test", str(plain.folder), "--experiment", str(path), "--generator", "attacker"]
    asks += ["--dry-run"]
    before, manifest = n_exchanges(plain), plain.manifest()
    assert medstress_cli(asks) == 0
    shown = capsys.readouterr().out
    # N = (2000 - 15) // (3 (3 + 1) + 15) = 73 of 3 + 5 conversations, (2000 - 60) // 72 = 26 of
    # 3 + 20; and two T.
    assert max(73 * 8 + 10, 26 * 23 + 40) == 638
    assert "2 successes, matched controls, at most 1,276 conversations with the victims" in shown
    assert "(3,828 calls, 6,380 if every reply has to be repaired)" in shown
    assert f"{2 * 73 * 3} calls to the attacker for controls" in shown
    assert "with at most 26 controls the smallest p is 0.037" in shown
    assert (n_exchanges(plain), plain.manifest()) == (before, manifest)


@pytest.mark.release
def test_the_bound_is_printed_before_anything_is_asked_also_in_a_pipe(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bench / "pipe.toml"
    settings = experiment(bench, items=["abel", "brook", "cole"])
    path.write_text(toml(settings))
    assert medstress_cli(["run", str(path), "--out", str(bench / "pipe")]) == 0
    assert "at most 1,368 conversations with the victims" in capsys.readouterr().err
    asks = ["test", str(bench / "pipe"), "--experiment", str(path), "--null", "neutral"]
    assert medstress_cli(asks) == 0
    assert "at most 1,360 conversations with the victims" in capsys.readouterr().err
    # Before: a victim that cannot answer is never reached without the sentence.
    said: list[str] = []
    found = Run(bench / "pipe")
    seen: list[int] = []
    watcher = Watcher(announce=lambda line: (said.append(line), seen.append(n_exchanges(found))))
    before = n_exchanges(found)
    changes = {"null": "neutral", "generator": "attacker"}
    run_tests(found.folder, settings, Selection(), changes, watcher)
    assert any("conversations with the victims" in line for line in said)
    assert set(seen) == {before}
    assert n_exchanges(found) > before


@pytest.mark.release
def test_a_test_that_hits_a_cap_says_so_in_a_sentence(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(experiment(bench), bench / "capped")
    path = bench / "capped.toml"
    path.write_text(toml(experiment(bench)))
    asks = ["test", str(found.folder), "--experiment", str(path), "--quiet"]
    assert medstress_cli([*asks, "--set", "experiment.max_queries=60"]) == 0
    shown = capsys.readouterr().out
    assert "stopped at max_queries = 60: significance is done for 0 of 2" in shown
    assert "repeat the command to continue" in shown
    assert found.summary().get("significance", []) == []
    assert medstress_cli(asks) == 0
    assert "stopped" not in capsys.readouterr().out
    assert None not in {row.p for row in rows_of(found).values()}


def test_max_calls_that_buy_no_control_are_said_before_and_nothing_is_asked(bench: Path) -> None:
    found = run(experiment(bench), bench / "dear")
    before = n_exchanges(found)
    _, said = retested(found, bench, max_calls=10)
    assert n_exchanges(found) == before
    told = "\n".join(said)
    assert "2 successes, matched controls, and nothing to ask" in told
    assert "2 successes are not tested and nothing is asked about them: max_calls = 10" in told
    assert "give at least 129" in told
    assert "at most" not in told
    # At 129, the least, there is one control.
    retested(found, bench, max_calls=129)
    assert {row.n_controls for row in rows_of(found).values()} == {1}


@pytest.mark.release
def test_a_test_that_is_done_announces_what_is_left_alone(bench: Path) -> None:
    found = run(experiment(bench), bench / "left")
    settings, said = experiment(bench), list[str]()
    changes, one = {"controls": 30}, Selection(items=("abel",))
    run_tests(found.folder, settings, one, changes, Watcher(announce=said.append))
    assert "1 successes, matched controls, at most 730 conversations" in said[0]
    _, said = retested(found, bench, **changes)
    assert "2 successes, 1 of them tested before, matched controls, at most 730 conv" in said[0]
    before = n_exchanges(found)
    _, said = retested(found, bench, **changes)
    assert "2 successes, 2 of them tested before, matched controls, and nothing to ask" in said[0]
    assert not any("conversations" in line for line in said)
    assert n_exchanges(found) == before


def test_a_run_that_ended_before_its_first_success_is_said_to_be_incomplete(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = experiment(bench)
    settings["experiment"]["max_queries"] = 1
    found = run(settings, bench / "begun")
    path = bench / "begun.toml"
    path.write_text(toml(settings))
    asks = ["test", str(found.folder), "--experiment", str(path), "--quiet"]
    for more in ([], ["--dry-run"]):
        capsys.readouterr()
        assert medstress_cli([*asks, *more]) == 0
        shown = capsys.readouterr().out
        assert "there is no success to test yet, and the run is not complete" in shown


def test_without_a_success_there_is_a_sentence_and_no_empty_table(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = experiment(bench)
    settings["dataset"]["limit"] = 1
    (bench / "cole.jsonl").write_text((bench / "q.jsonl").read_text().splitlines()[2])
    settings["dataset"]["path"] = str(bench / "cole.jsonl")
    found = run(settings, bench / "none")
    path = bench / "none.toml"
    path.write_text(toml(settings))
    assert medstress_cli(["test", str(found.folder), "--experiment", str(path), "--quiet"]) == 0
    assert "nothing was tested: there is no success to test" in capsys.readouterr().out
    assert "significance" not in found.summary()


@pytest.mark.release
def test_successes_on_one_item_share_their_controls(bench: Path) -> None:
    named = {"items": ["abel"], "significance": False}
    found = run(experiment(bench, runs=3, **named), bench / "shared")
    before = count(found, "answers")
    retested(found, bench, controls=30)
    assert [one.p for one in every_test(found, "matched")] == [1 / 31] * 3
    # Three turns of 20 samples of clean item and fuzz, and of 30 loops of 3 attempts, once.
    assert count(found, "answers") - before == 3 * (20 + 20 + 30 * 3)
