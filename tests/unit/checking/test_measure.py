"""A checker's rates are those that were planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medstress.checking.checkers import Combined, Judge, Rules, UnansweredError
from medstress.checking.measure import NO_CORRECTION, checker_table, measure
from medstress.checking.pairs import Pair, read_pairs
from medstress.cli.app import medstress_cli
from medstress.core.calls import Failure, Generated
from medstress.core.errors import DataError

Said = Callable[..., None]
ROWS = (
    {"a": "paracetamol", "b": "Tylenol", "same": True, "type": "drugs", "distance": 0.9},
    {"a": "paracetamol", "b": "Tegretol", "same": False, "type": "drugs", "distance": 0.7},
    {"a": "heart attack", "b": "myocardial infarction", "same": True, "type": "diseases"},
    {"a": "gout", "b": "asthma", "same": False, "type": "diseases"},
    {"a": "gout", "b": "the vellish pox", "same": False, "type": "diseases"},
)


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def planted(n: int, same: bool, said: tuple[bool | None, int], **keys: Any) -> Any:
    value, k = said
    pairs = [Pair(a=f"a{i}", b=f"b{i}", same=same, **keys) for i in range(n)]
    return pairs, [value] * k + [not value] * (n - k)


def test_coverage_sensitivity_and_specificity_are_counted_among_the_covered() -> None:
    same, said_same = planted(40, True, (True, 30))
    other, said_other = planted(50, False, (False, 45))
    lost = [Pair(a="x", b="y", same=True)] * 10
    (row,) = measure([*same, *other, *lost], [*said_same, *said_other, *[None] * 10])
    assert (row.coverage.hits, row.coverage.n) == (90, 100)
    assert (row.sensitivity.hits, row.sensitivity.n) == (30, 40)
    assert (row.specificity.hits, row.specificity.n) == (45, 50)
    assert row.sensitivity.low == pytest.approx(0.5981, abs=1e-4)
    assert row.sensitivity.high == pytest.approx(0.8581, abs=1e-4)
    assert row.corrects


def test_pairs_of_one_key_are_a_cluster() -> None:
    alone = [Pair(a=f"a{i}", b="y", same=True) for i in range(40)]
    shared = [Pair(a=f"a{i // 10}", b=f"y{i}", same=True) for i in range(40)]
    said = [i < 20 for i in range(40)]
    (one,), (other,) = measure(alone, said), measure(shared, said)
    widths = [row.sensitivity.high - row.sensitivity.low for row in (one, other)]  # type: ignore[operator]
    assert widths[1] > 2 * widths[0]


def test_rows_by_type_and_by_thirds_of_distance() -> None:
    pairs = [
        Pair(a="x", b=str(i), same=i % 2 == 0, type="near" if i < 30 else "far", distance=float(i))
        for i in range(60)
    ]
    rows = measure(pairs, [pair.distance is not None and pair.distance < 20 for pair in pairs])
    assert [(row.by, row.n_pairs) for row in rows] == [
        ("all", 60),
        ("type", 30),
        ("type", 30),
        ("distance", 20),
        ("distance", 20),
        ("distance", 20),
    ]
    nearest, _, farthest = rows[3:]
    assert (nearest.sensitivity.value, nearest.specificity.value) == (1, 0)
    assert (farthest.sensitivity.value, farthest.specificity.value) == (0, 1)


def test_strata_keep_their_order_and_may_have_names() -> None:
    far = [Pair(a="x", b=str(i), same=True, distance=float(i)) for i in (2, 5, 10, 100)]
    named = Pair(a="x", b="y", same=False, distance="far")
    names = [row.name for row in measure([*far, named], [True] * 5) if row.by == "distance"]
    assert names[0].startswith("2.000")
    assert names[-1] == "far"
    assert len(names) == 4


def test_a_checker_that_says_yes_to_all_corrects_nothing() -> None:
    pairs = [Pair(a="x", b="y", same=same) for same in (True, False)]
    rows = measure(pairs, [True, True])
    assert rows[0].corrects is False
    assert NO_CORRECTION in checker_table("yes", rows).notes


def test_the_rules_place_what_the_tables_know(tmp_path: Path) -> None:
    pairs = read_pairs(written(tmp_path, *ROWS))
    said = Rules().check([(pair.a, pair.b) for pair in pairs])
    assert said == [True, False, True, False, None]


class Scripted:
    """A back end that gives its replies in order."""

    class traits:  # noqa: N801
        batch_size = 2

    def __init__(self, *replies: str | None) -> None:
        self._replies = list(replies)

    def answer(self, calls: Any) -> list[Generated | Failure]:
        assert len(calls) <= self.traits.batch_size
        said = [self._replies.pop(0) for _ in calls]
        return [Failure(error="503") if each is None else Generated(text=each) for each in said]


def test_what_a_judge_said_beside_a_failed_call_is_told() -> None:
    replies = Scripted("yes", "no", None, "yes")
    with pytest.raises(UnansweredError, match="judge scripted: 503") as caught:
        Judge("scripted", replies).check([("a", str(i)) for i in range(4)])  # type: ignore[arg-type]
    assert caught.value.found == {("a", "0"): True, ("a", "1"): False, ("a", "3"): True}


def test_a_checker_that_places_nothing_says_that_no_correction_exists() -> None:
    pairs = [Pair(a="x", b=str(i), same=i < 3) for i in range(6)]
    notes = checker_table("x", measure(pairs, [None] * 6)).notes
    assert notes[1] == (
        "it places no pair that tells its sensitivity and its specificity, so no correction by it "
        "exists; use bounds"
    )
    notes = checker_table("x", measure(pairs, [True] * 3 + [None] * 3)).notes
    assert "tells its specificity, so" in notes[1]


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        (["--threshold", "0.3"], "--threshold"),
        (["--model", "foo"], "--model"),
        (["--checker", "embedding", "--synonyms", "default"], "--synonyms"),
        (["--checker", "judge", "--model", "mock", "--embedding", "ngram"], "--embedding"),
        (["--checker", "combined", "--model", "mock", "--threshold", "0.1"], "--threshold"),
        (["--base-url", "http://localhost"], "--base-url"),
    ],
)
def test_a_flag_that_the_checker_does_not_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], flag: str, said: Said
) -> None:
    assert medstress_cli(["checker", str(written(tmp_path, *ROWS)), *flags]) == 2
    said(capsys.readouterr().err, f"{flag} has no effect on --checker")


def test_a_judge_is_read_by_its_first_yes_or_no() -> None:
    judge = Judge("scripted", Scripted("Yes.", "no, since yes", "maybe"))  # type: ignore[arg-type]
    assert judge.check([("a", "b")] * 3) == [True, False, None]


def test_combined_checkers_ask_the_next_only_what_is_open() -> None:
    judge = Judge("scripted", Scripted("yes"))  # type: ignore[arg-type]
    both = Combined([Rules(), judge])
    assert both.check([("gout", "asthma"), ("gout", "the vellish pox")]) == [False, True]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((), "empty file"),
        (ROWS[:1], "specificity cannot be measured"),
        (ROWS[1:2], "sensitivity cannot be measured"),
        (({"a": "x", "b": "y"},), "no key 'same'"),
        (({"a": "x", "b": "y", "same": 1},), "expected true or false, got 1"),
        (({"a": "x", "b": " ", "same": True},), "key 'b': expected a name"),
        (({"a": "x", "b": "y", "same": True, "kind": "z"},), "the key 'kind'"),
        (({"a": "x", "b": "y", "same": True, "distance": [1]},), "key 'distance'"),
    ],
)
def test_bad_pairs_are_refused_with_their_line(tmp_path: Path, rows: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_pairs(written(tmp_path, *rows))


@pytest.mark.parametrize(("a", "b"), [("aspirin", "ASA"), ("asa", "ASPIRIN")])
def test_a_pair_labelled_both_ways_is_refused_with_both_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: Said, a: str, b: str
) -> None:
    first = {"a": "Aspirin", "b": "ASA", "same": True}
    path = str(written(tmp_path, first, *ROWS, {"a": a, "b": b, "same": False}))
    assert medstress_cli(["checker", path]) == 2
    said(capsys.readouterr().err, "line 1 and line 7: expected one label for 'Aspirin' and 'ASA'")
    assert len(read_pairs(written(tmp_path, first, *ROWS, {"a": a, "b": b, "same": True}))) == 7


def test_the_command_prints_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def yes(a, b):\n    return True\n", "utf-8")
    path = str(written(tmp_path, *ROWS))
    assert medstress_cli(["checker", path, "--checker", "mine.py:yes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"][0]["specificity"]["value"] == 0
    assert found["rows"][0]["corrects"] is False
    assert medstress_cli(["checker", path, "--checker", "mine.py:yes"]) == 0
    assert NO_CORRECTION in capsys.readouterr().out
    for wrong in (["--checker", "ruls"], ["--checker", "judge"], ["--checker", "mine.py:no"]):
        assert medstress_cli(["checker", path, *wrong]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 3
