"""Freeze a run and ask its edits of other victims, without what the attack needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.api.run import Run
from medstress.core.errors import DataError, StoreError, UsageError
from medstress.results.freezing import freeze
from medstress.store.run_store import FILE

VICTIM = '''
import hashlib
import re

LINE = re.compile(r"^([A-D]): (.*)$", re.MULTILINE)


def _digest(prompt, salt):
    return hashlib.sha256(f"{salt}{prompt}".encode()).digest()


def knows(prompts):
    """Answers right unless a hash of the prompt is low; every fourth item is wrong before."""
    return [_answer(prompt, "a", 90) for prompt in prompts]


def other(prompts):
    return [_answer(prompt, "b", 60) for prompt in prompts]


def _answer(prompt, salt, below):
    case = int(re.search(r"case\\s+(\\d+)", prompt)[1])
    key = "ABCD"[case % 4]
    is_clean = all("changed" not in text for _, text in LINE.findall(prompt))
    if is_clean and case % 8 != 7:
        return {"answer": key}
    lost = _digest(prompt, salt)[0] < below
    return {"answer": "ABCD"[(case + lost) % 4]}
'''
N = 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim.py").write_text(VICTIM, encoding="utf-8")
    (tmp_path / "names.csv").write_text(
        "name\n" + "".join(f"changed{i}ib\n" for i in range(60)), encoding="utf-8"
    )
    rows = [
        {
            "id": f"q{i}",
            "question": f'He said "no". What is the best cure of case {i} in this clinic?',
            "options": [f"{kind}{i}umab" for kind in ("tora", "ulo", "vexi", "wara")],
            "answer_idx": "ABCD"[i % 4],
            "mentions": [
                {"field": x, "start": 0, "end": len(f"{kind}{i}umab"), "type": "T121"}
                for x, kind in zip("ABCD", ("tora", "ulo", "vexi", "wara"), strict=True)
            ],
            "ward": f"w{i % 3}",
        }
        for i in range(N)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "items.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def tables(target: str = "knows", **more: Any) -> dict[str, Any]:
    victim = {"name": "m", "backend": "python", "target": f"victim.py:{target}"}
    return {"victim": victim, "experiment": {"name": "e", "seeds": [0, 1]}, **more}


@pytest.fixture
def source(folder: Path) -> Run:
    """Random names with 4 queries."""
    attack = {"name": "entity_substitution", "sampler": "random", "budget": 4}
    return ms.run(
        tables(
            dataset={"name": "jsonl", "path": "items.jsonl"},
            entities={"type": "drugs", "vocabulary": "names.csv", "embedding": "ngram"},
            attack=attack,
        ),
        out="source",
    )


def frozen(path: str = "set.jsonl", target: str = "knows", **attack: Any) -> dict[str, Any]:
    """An experiment that has neither names nor mentions of its own."""
    return tables(
        target,
        dataset={"name": "frozen", "path": path},
        attack={"name": "frozen", **attack},
    )


def write(run: Run, to: str = "set.jsonl", **given: Any) -> Any:
    with run.opened() as stored:
        return freeze(stored, Path(to), **given)


def lines(path: str = "set.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def rewrite(path: str, rows: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def pooled(run: Run) -> list[dict[str, Any]]:
    return run.summary()["pooled"]


def test_a_run_is_frozen_whole_and_twice_alike(source: Run) -> None:
    found = write(source)
    once = Path("set.jsonl").read_bytes()
    write(source, "again.jsonl")
    assert Path("again.jsonl").read_bytes() == once
    attack, control = pooled(source)
    head, *rows = lines()
    assert found.arms == ("entity_substitution", "entity_substitution / no_op")
    assert head["source"]["fingerprint"] == source.summary()["experiment"]["fingerprint"]
    trials = [entry for row in rows for entry in row["frozen"]]
    ours = [each for each in trials if each["arm"] == "entity_substitution"]
    assert {each["verdict"] for each in ours} == {"held", "flipped"}
    assert sum(each["verdict"] == "flipped" for each in ours) == attack["n_flipped"] > 0
    assert len(ours) == attack["n_eligible"]
    assert sum(len(each["queries"]) for each in ours) == attack["queries"]["asked"]
    assert len(trials) - len(ours) == control["n_eligible"]
    for each in ours:
        flips = [query["flipped"] for query in each["queries"]]
        assert flips == [False] * (len(flips) - 1) + [each["verdict"] == "flipped"]
    assert rows[0]["ward"] == "w0"
    assert all(arm["is_blind"] for arm in head["arms"])


def test_the_same_victim_loses_the_same_items_and_another_victim_others(source: Run) -> None:
    write(source)
    same = ms.run(frozen(budget=4), out="same")
    (before, _), (attack, control) = pooled(source), pooled(same)
    for name in ("n_flipped", "n_eligible", "n_held"):
        assert attack[name] == before[name]
    assert attack["queries"]["asked"] == before["queries"]["asked"]
    assert [at["value"] for at in attack["asr_at"]] == [at["value"] for at in before["asr_at"]]
    assert (attack["attack"], control["control_of"]) == ("entity_substitution",) * 2
    assert attack["asr_net"]["no_op"]["n"] == before["n_eligible"]
    assert any("can be read at 1 query alone" in each for each in same.summary()["warnings"])
    another = pooled(ms.run(frozen(target="other", budget=4), out="other"))[0]
    assert another["n_eligible"] == before["n_eligible"]
    assert another["accuracy_after"]["value"] != attack["accuracy_after"]["value"]


def test_the_first_edits_alone_are_asked_where_no_budget_is_given(source: Run) -> None:
    write(source)
    one = ms.run(frozen(), out="one")
    assert not any("1 query" in each for each in one.summary()["warnings"])
    row, control = pooled(one)
    assert row["queries"]["asked"] == row["n_eligible"]
    assert row["asr"]["value"] == pooled(source)[0]["asr_at"][0]["value"]
    assert control["queries"]["asked"] <= row["queries"]["asked"]


def test_stored_controls_stand_beside_their_attack_with_their_own_edits(source: Run) -> None:
    write(source)
    found = ms.run(frozen(stored_controls=True, budget=4), out="stored")
    attack, control = pooled(found)
    assert control["attack"] == "entity_substitution / no_op"
    assert attack["control"]["no_op"]["n"] == attack["n_eligible"]
    asked = {row["trial_id"]: row["n_asked"] for row in found.trials().iter_rows(named=True)}
    assert sum(asked.values()) == sum(row["queries"]["asked"] for row in (attack, control))
    assert control["queries"]["asked"] <= attack["queries"]["asked"]


def test_a_sample_draws_items_and_says_so(source: Run) -> None:
    whole = write(source)
    found = write(source, "few.jsonl", sample=5, sample_seed=3)
    head, *rows = lines("few.jsonl")
    assert (found.n_items, len(rows)) == (5, 5)
    assert head["sample"] == {"items": 5, "of": whole.n_items, "seed": 3}
    assert {len(row["frozen"]) for row in rows} == {4}  # two seeds of attack and control
    write(source, "more.jsonl", sample=10, sample_seed=3)
    assert {row["id"] for row in rows} < {row["id"] for row in lines("more.jsonl")[1:]}
    assert ms.run(frozen("few.jsonl"), out="few").summary()["warnings"] is not None


def flips(row: dict[str, Any]) -> bool:
    ours = [each for each in row["frozen"] if "/" not in each["arm"]]
    return all(each["verdict"] == "flipped" for each in ours)


def test_successes_alone_say_what_is_repeated_and_give_no_verdict(source: Run, said: Any) -> None:
    """`other` is truly better here, and would be called better whatever it is."""
    write(source)
    head, *rows = lines()
    rewrite("flips.jsonl", [head, *(row for row in rows if flips(row))])
    runs = [ms.run(frozen("flips.jsonl", t), out=t) for t in ("knows", "other")]
    repeats = pooled(runs[0])[0]
    assert repeats["n_flipped"] == repeats["n_eligible"] > 0  # asked to the last edit
    with pytest.raises(UsageError) as error:
        ms.compare(*runs)
    said(str(error.value), "a truly worse victim looks better")
    with pytest.raises(UsageError):  # nor against the run that was frozen
        ms.compare(source, runs[1])


def test_a_file_that_lost_rows_gives_no_verdict(source: Run, said: Any) -> None:
    write(source)
    rewrite("some.jsonl", lines()[:-3])
    runs = [ms.run(frozen("some.jsonl", t), out=t) for t in ("knows", "other")]
    with pytest.raises(UsageError) as error:
        ms.compare(*runs)
    said(str(error.value), "nobody knows")


def test_the_source_stands_against_a_replay(source: Run) -> None:
    write(source)
    found = ms.compare(source, ms.run(frozen(target="other"), out="other"))
    (row,) = found.deciding_rows
    assert (found.factor, row.metric) == ("victim", "asr")
    assert row.values[0].value == pooled(source)[0]["asr_at"][0]["value"]


def test_a_folder_with_other_edits_is_refused(source: Run) -> None:
    write(source)
    ms.run(frozen(), out="run")
    head, *rows = lines()
    rows[0]["frozen"][0]["queries"][0]["edits"][0]["replacement"] = "changed99ib"
    rewrite("set.jsonl", [head, *rows])
    with pytest.raises(StoreError, match="another experiment"):
        ms.run(frozen(), out="run")


def broken(rows: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
    head, first, *rest = rows
    entry = first["frozen"][0]
    match how:
        case "no head":
            return [first, *rest]
        case "format":
            head["frozen"] = 2
        case "head":
            del head["source"]["model_hash"]
        case "beside":
            head["arms"][0]["beside"] = "medfuzz"
        case "text":
            first["stem"] += "?"
        case "arm":
            entry["arm"] = "other"
        case "edit":
            entry["queries"][0]["edits"][0]["end"] = 999
        case "field":
            entry["queries"][0]["edits"][0]["field"] = "J"
        case "queries":
            entry["queries"] = []
        case "seed":
            entry["seed"] = "0"
        case "verdict":
            entry["verdict"] = "lost"
        case "twice":
            first["frozen"].append(entry)
        case "trials":
            first["frozen"] = 3
    return [head, first, *rest]


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ("no head", "medstress freeze"),
        ("format", "format 1"),
        ("head", "line 1"),
        ("beside", "line 1"),
        ("text", "item_hash"),
        ("arm", "arm of line 1"),
        ("edit", "does not fit"),
        ("field", "does not fit"),
        ("queries", "list of queries"),
        ("seed", "whole numbers"),
        ("verdict", "verdict"),
        ("twice", "twice"),
        ("trials", "list of trials"),
    ],
)
def test_a_damaged_file_is_refused_by_line_and_field(
    source: Run, said: Any, how: str, word: str
) -> None:
    write(source)
    rewrite("set.jsonl", broken(lines(), how))
    with pytest.raises(DataError) as error:
        ms.run(frozen(), out="run")
    said(str(error.value).replace(str(Path.cwd()), "DIR"), word)
    assert not (Path("run") / FILE).exists()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"dataset": {"name": "jsonl", "path": "items.jsonl"}}, "none is there"),
        ({"experiment": {"name": "e", "seeds": [0, 1, 2]}}, "seeds = [0, 1]"),
        ({"attack": {"name": "frozen", "attacks": ["pdws"]}}, "pdws"),
        ({"attack": {"name": "frozen", "budget": -1}}, "budget"),
        ({"attack": {"name": "frozen", "budget": True}}, "budget"),
        ({"attack": {"name": "frozen", "attacks": "pdws"}}, "list"),
        ({"dataset": {"name": "frozen"}}, "path"),
    ],
)
def test_an_experiment_that_cannot_ask_the_edits_is_refused_before_anything_is_asked(
    source: Run, said: Any, changes: dict[str, Any], word: str
) -> None:
    write(source)
    with pytest.raises(UsageError) as error:
        ms.run({**frozen(), **changes}, out="run")
    said(str(error.value), word)
    assert not (Path("run") / FILE).exists()


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"to": "set.csv"}, ".jsonl"),
        ({"sample": 0}, "--sample 0"),
        ({"victim": "other"}, "--victim other"),
    ],
)
def test_freeze_refuses_what_it_cannot_write(
    source: Run, said: Any, given: dict[str, Any], word: str
) -> None:
    with pytest.raises(UsageError) as error:
        write(source, **given)
    said(str(error.value), word)
    assert not Path("set.csv").exists()
