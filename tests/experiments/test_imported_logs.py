"""Logs of lm-evaluation-harness and inspect_ai as runs: made-up logs in their formats."""

from __future__ import annotations

import json
import zipfile
from itertools import islice
from pathlib import Path
from struct import pack
from typing import Any

import pytest
import zstandard

import medstress as ms
from medstress.audit.verify import verify_folder
from medstress.card import pages
from medstress.card.applied_model_card import applied_model_card
from medstress.card.content import card_of
from medstress.card.every_eval_ever import every_eval_ever
from medstress.card.model_index import model_index
from medstress.cli.app import medstress_cli
from medstress.core.errors import DataError, MedstressError, StoreError, UsageError
from medstress.importing import inspect_logs, lm_eval
from medstress.importing.log import LogOptions
from medstress.importing.run import import_logs
from medstress.results.load import open_run

N = 40
TIME = "2026-11-26T02-34-12.206734"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def doc(i: int, lead: str = "") -> dict[str, Any]:
    names = [f"{kind}{i}" for kind in ("alpo", "bexi", "cano")]
    return {
        "id": f"q{i}",
        "question": f"{lead}A man has case {i}. What cures him?",
        "options": names,
        "answer": i % 3,
        "ward": f"w{i % 2}",
    }


def sample(i: int, chosen: int, lead: str = "", **more: Any) -> dict[str, Any]:
    """A row of --log_samples; likelihoods put `chosen` first."""
    logs = [-2.0 - j for j in range(3)]
    logs[chosen] = -0.5
    prompt = f"{lead}A man has case {i}. What cures him?\nAnswer:"
    return {
        "doc_id": i,
        "doc": doc(i, lead),
        "target": str(i % 3),
        "arguments": {
            f"gen_args_{j}": {"arg_0": prompt, "arg_1": f" {x}"} for j, x in enumerate("ABC")
        },
        "resps": [[[str(x), "False"]] for x in logs],
        "filtered_resps": [[str(x), "False"] for x in logs],
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": "0",
        "acc": float(chosen == i % 3),
        **more,
    }


def written(i: int, text: str, **more: Any) -> dict[str, Any]:
    row = sample(i, 0)
    for name in ("acc", "resps"):
        del row[name]
    row["arguments"] = {"gen_args_0": {"arg_0": "?", "arg_1": {"until": ["x"]}}}
    right = float(text == "ABC"[i % 3])
    return {
        **row,
        "filtered_resps": [text],
        "metrics": ["exact_match"],
        "exact_match": right,
    } | more


def write(task: str, rows: list[dict[str, Any]], model: str = "tiny") -> Path:
    path = Path("out") / f"samples_{task}_{TIME}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = {"model": "hf", "model_args": {"pretrained": model}}
    results = {"lm_eval_version": "0.4.13", "config": config, "model_name": "tiny"}
    beside = path.parent / f"results_{TIME}.json"
    beside.write_text(json.dumps(results), encoding="utf-8")
    return path


def clean() -> list[dict[str, Any]]:
    """Right on three of four."""
    return [sample(i, i % 3 if i % 4 else (i + 1) % 3) for i in range(N)]


def inspect_log(**changes: Any) -> dict[str, Any]:
    samples = []
    for i in range(12):
        right, key = i % 4 != 0, "ABC"[i % 3]
        letter = key if right else "ABC"[(i + 1) % 3]
        row = doc(i)
        samples.append(
            {
                "id": row["id"],
                "epoch": 1,
                "input": row["question"],
                "choices": row["options"],
                "target": key,
                "messages": [],
                "output": {},
                "scores": {"choice": {"value": "C" if right else "I", "answer": letter}},
                "metadata": {"ward": row["ward"]},
            }
        )
    samples[0]["scores"]["choice"] |= {"value": "I", "answer": ""}
    about = {"task": "made/up", "model": "mock/m", "packages": {"inspect_ai": "0.3.285"}}
    return {"version": 2, "status": "success", "eval": about, "samples": samples, **changes}


def packed(path: str, log: dict[str, Any], method: int = 93) -> Path:
    """A `.eval`, packed with Zstandard as inspect_ai packs it."""
    samples = log.pop("samples")
    members = {"header.json": log}
    members |= {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}
    if method != 93:
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, value in members.items():
                archive.writestr(name, json.dumps(value))
        return Path(path)
    body, central = b"", b""
    for name, value in members.items():
        data, raw = json.dumps(value).encode(), name.encode()
        small = zstandard.ZstdCompressor().compress(data)
        common = pack("<HHHHHIIIHH", 20, 0, 93, 0, 33, 0, len(small), len(data), len(raw), 0)
        central += b"PK\x01\x02" + pack("<H", 20) + common
        central += pack("<HHHII", 0, 0, 0, 0, len(body)) + raw
        body += b"PK\x03\x04" + common + raw + small
    n, at = len(members), len(body)
    ending = b"PK\x05\x06" + pack("<HHHHIIH", 0, 0, n, n, len(central), at, 0)
    Path(path).write_bytes(body + central + ending)
    return Path(path)


def imported(out: str, log: Path, **more: Any) -> Any:
    folder, _ = import_logs(log, Path(out), **more)
    return ms.Run(folder)


def test_samples_are_a_run_whose_answers_nobody_here_paid_for() -> None:
    run = imported("run", write("made_up", clean()))
    summary = run.summary()
    (row,) = summary["pooled"]
    assert (row["victim"], row["dataset"], row["n_items"]) == ("tiny", "made_up", N)
    assert row["accuracy"]["value"] == 0.75
    assert row["queries"] == {**dict.fromkeys(row["queries"], 0), "baseline": N}
    calls = summary["performance"]
    assert (calls["calls"], calls["calls_from_cache"]) == (0, N)
    assert "no model was asked here" in summary["warnings"][0]
    assert summary["verdict"]["sentence"].startswith("The model is right on 30 of 40 questions")
    verified = verify_folder(Path("run"))
    assert verified.holds
    assert any("nothing shows that the model gave" in each for each in verified.sentences())
    rows = {r.item_id: r for r in run.rows()}
    # softmax of -0.5, -2 or -3, and -4: what the likelihoods of three options say.
    assert rows["q1"].score_before == pytest.approx(0.798, abs=0.001)


def test_a_perturbed_log_is_an_attack_and_each_changed_answer_a_loss(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write("made_up", clean())
    lost = [i for i in range(N) if i % 4 and i % 5 == 1]
    rows = [
        sample(i, (i + 1) % 3 if i in lost or not i % 4 else i % 3, lead="Alas! ")
        for i in reversed(range(2, N))
    ]
    run = imported("run", path, perturbed=[write("alas", rows)])
    (row,) = run.summary()["pooled"]
    # The first two questions stand in the clean log alone.
    n_lost = sum(i > 1 for i in lost)
    assert (row["attack"], row["n_flipped"], row["n_not_attackable"]) == ("alas", n_lost, 2)
    assert row["n_eligible"] == sum(bool(i % 4) for i in range(2, N))
    assert row["queries"]["asked"] == row["queries"]["cached"] == row["n_eligible"]
    flipped = [each for each in run.rows() if each.verdict == "flipped"]
    assert all(each.replacement.startswith("Alas!") for each in flipped)
    # What was sent is in the log; here it is not known.
    assert {each.prompt_before for each in flipped} == {None}
    assert flipped[0].listing_before.startswith("A man has case")
    assert medstress_cli(["case", "run", flipped[0].item_id]) == 0
    assert "sent to the model" not in capsys.readouterr().out.lower()
    assert verify_folder(Path("run")).holds


def test_imported_runs_compare_and_meet_criteria_by_slice() -> None:
    write("made_up", clean())
    criteria = Path("ask.toml")
    criteria.write_text(
        '[slices]\nby = ["ward"]\n[[require]]\nmetric = "accuracy"\nmin_low = 0.9\n',
        encoding="utf-8",
    )
    run = imported("a", Path(f"out/samples_made_up_{TIME}.jsonl"), experiment=criteria)
    found = run.summary()
    (judged,) = found["requirements"]
    assert judged["met"] is False
    wards = {row["value"]: row["accuracy"]["value"] for row in found["slices"]}
    assert wards == {"w0": 0.5, "w1": 1.0}
    assert any("post hoc" in line for line in found["warnings"])
    best = write("made_up", [sample(i, i % 3) for i in range(N)], model="big")
    imported("b", best)
    rows = ms.compare("a", "b").as_json()["rows"]
    (primary,) = [row for row in rows if row["decides"]]
    assert (primary["metric"], primary["verdict"]) == ("accuracy_after", "better")
    assert primary["n_pairs"] == N


def test_written_answers_are_read_as_the_log_judged_them() -> None:
    rows = [written(0, "A"), written(1, "C"), written(2, "I do not know"), written(3, "A")]
    rows[3]["exact_match"] = 0.0  # the letter is the key's, and was not accepted
    run = imported("run", write("gen", rows))
    found = {r.item_id: (r.verdict, r.answer_before) for r in run.rows()}
    assert found == {
        "q0": ("held", "A"),
        "q1": ("already_wrong", "C"),
        "q2": ("unreadable", None),
        "q3": ("unreadable", None),
    }


def test_rows_without_questions_are_read_from_prompt_and_continuations() -> None:
    rows = []
    for i in range(4):
        row = sample(i, i % 3)
        row["doc"] = {"TEXT": f"text {i}", "final": "x", "ward": "w"}
        rows.append(row)
    run = imported("run", write("other", rows))
    assert run.summary()["pooled"][0]["accuracy"]["value"] == 1
    item = next(iter(json.loads(x) for x in Path("run/imported.jsonl").read_text().splitlines()))
    assert (item["options"], item["ward"]) == ({"A": "A", "B": "B", "C": "C"}, "w")


def test_likelihoods_in_another_order_than_the_options_are_not_mixed_up() -> None:
    rows = []
    for i in range(6):
        row = sample(i, 0)
        names = row["doc"]["options"][::-1]
        row["arguments"] = {
            f"gen_args_{j}": {"arg_0": f"Case {i}?", "arg_1": f" {name}"}
            for j, name in enumerate(names)
        }
        row |= {"target": str(names.index(row["doc"]["options"][i % 3]))}
        row["acc"] = float(row["target"] == "0")
        rows.append(row)
    run = imported("run", write("turned", rows))
    found = {r.item_id: (r.key, r.answer_before) for r in run.rows()}
    assert found["0"] == ("C", "A")
    assert found["2"] == ("A", "A")
    first = json.loads(Path("run/imported.jsonl").read_text("utf-8").splitlines()[0])
    assert first["options"] == {"A": "cano0", "B": "bexi0", "C": "alpo0"}


def test_rows_of_published_tasks_give_their_own_options() -> None:
    rows = [sample(i, i % 3) for i in range(6)]
    for i, row in enumerate(rows):
        names = row["doc"]["options"]
        row["doc"] = {"id": f"m{i}", "sent1": f"He has case {i}. What now?", "sent2": ""}
        row["doc"] |= {f"ending{j}": name for j, name in enumerate(names)} | {"label": i % 3}
    run = imported("run", write("medqa_4options", rows))
    assert {r.item_id for r in run.rows()} == {f"m{i}" for i in range(6)}
    first = json.loads(Path("run/imported.jsonl").read_text("utf-8").splitlines()[0])
    assert (first["context"], first["stem"]) == ("He has case 0.", "What now?")


@pytest.mark.parametrize("form", ["json", "zstd", "deflated"])
def test_a_log_of_inspect_ai_is_a_run(form: str) -> None:
    log = inspect_log()
    if form == "json":
        path = Path("log.json")
        path.write_text(json.dumps(log), encoding="utf-8")
    else:
        path = packed("log.eval", log, 93 if form == "zstd" else zipfile.ZIP_DEFLATED)
    run = imported("run", path)
    (row,) = run.summary()["pooled"]
    assert (row["victim"], row["dataset"]) == ("mock/m", "made-up")
    assert row["accuracy"]["value"] == 0.75
    assert (row["n_already_wrong"], row["n_unreadable_at_baseline"]) == (2, 1)
    assert verify_folder(Path("run")).holds


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"version": 1}, "format 2, got 1"),
        ({"samples": []}, "expected samples, got none"),
    ],
)
def test_other_versions_of_inspect_logs_are_refused(changes: dict[str, Any], told: str) -> None:
    Path("log.json").write_text(json.dumps(inspect_log(**changes)), encoding="utf-8")
    with pytest.raises(DataError, match=told):
        imported("run", Path("log.json"))
    assert not Path("run").exists()


def test_logs_of_unknown_or_newer_form_say_what_to_do() -> None:
    log = inspect_log()
    for changes, told in (
        ({"version": 3}, "got 3; this medstress reads no newer one"),
        ({"eval": None}, "field 'eval': expected what was evaluated"),
        ({"lm_eval_version": "0.4.13"}, r"results of lm-evaluation-harness.*samples_TASK_TIME"),
    ):
        Path("log.json").write_text(json.dumps(log | changes), encoding="utf-8")
        with pytest.raises(DataError, match=told):
            imported("run", Path("log.json"))


@pytest.mark.parametrize("status", ["cancelled", "error", "started"])
def test_an_evaluation_that_did_not_end_says_so(status: str) -> None:
    log = inspect_log(status=status)
    log["eval"] |= {"dataset": {"name": "made", "samples": 60}}
    Path("log.json").write_text(json.dumps(log), encoding="utf-8")
    (line,) = [
        one for one in imported("run", Path("log.json")).summary()["warnings"] if "end" in one
    ]
    assert f"(status '{status}')" in line
    assert "12 of 60 samples" in line


def test_no_answer_is_unreadable_even_with_a_letter() -> None:
    log = inspect_log()
    for each in log["samples"][:8]:
        each["scores"]["choice"] |= {"value": "N", "answer": "A"}
    Path("log.json").write_text(json.dumps(log), encoding="utf-8")
    (row,) = imported("run", Path("log.json")).summary()["pooled"]
    assert (row["n_unreadable_at_baseline"], row["n_already_wrong"]) == (8, 1)


def test_a_written_answer_that_names_another_option_is_not_right() -> None:
    log = inspect_log()
    log["samples"][3]["scores"]["choice"] |= {"value": "C", "answer": "B"}
    Path("log.json").write_text(json.dumps(log), encoding="utf-8")
    with pytest.raises(
        DataError, match=r"'q3': the log counts the answer as right, but it names B"
    ):
        imported("run", Path("log.json"))
    rows = [written(i, "ABC"[i % 3]) for i in range(6)]
    rows[4] |= {"filtered_resps": ["C"], "exact_match": 1.0}
    with pytest.raises(DataError, match="line 5: the log counts the answer as right"):
        imported("run", write("gen", rows))
    # The text of the key is no contradiction, though it looks like another letter.
    groups = [written(i, "A") for i in range(6)]
    for i, row in enumerate(groups):
        options = ["B", "0"]
        options.insert(i % 3, "A")
        row["doc"] |= {"options": options}
        row["exact_match"] = 1
    (found,) = imported("run", write("blood", groups)).summary()["pooled"]
    assert found["accuracy"]["value"] == 1


@pytest.mark.parametrize("odd", [None, "1.0", float("nan"), 0.5, "missing"])
def test_a_metric_that_is_neither_right_nor_wrong_is_refused(odd: Any) -> None:
    for make in (lambda i: written(i, "ABC"[i % 3]), lambda i: sample(i, i % 3)):
        rows = [make(i) for i in range(5)]
        name = rows[0]["metrics"][0]
        rows[3] |= {name: odd}
        if odd == "missing":
            del rows[3][name]
        with pytest.raises(DataError, match=rf"line 4: (field '{name}': expected 1|.*nan|.*NaN)"):
            imported("run", write("odd", rows))


def test_zero_is_a_name() -> None:
    path = write("made_up", [sample(i, i % 3) for i in range(6)])
    rows = [sample(i, i % 3, lead="Alas! ") for i in range(6)]
    clean_rows = [sample(i, i % 3) for i in range(6)]
    for i in range(6):
        clean_rows[i]["doc"] |= {"id": i}
        rows[i]["doc"] |= {"id": f"other{i}", "original_id": i}
    path = write("made_up", clean_rows)
    run = imported("run", path, perturbed=[write("alas", rows)])
    (row,) = run.summary()["pooled"]
    assert (row["n_eligible"], row["n_not_attackable"]) == (6, 0)


def test_what_the_log_itself_says_and_what_was_gained_is_noted() -> None:
    path = write("made_up", clean())
    # All questions that were wrong become right, all others wrong.
    rows = [sample(i, (i + 1) % 3 if i % 4 else i % 3, lead="Alas! ") for i in range(N)]
    run = imported("run", path, perturbed=[write("alas", rows)])
    summary = run.summary()
    (row,) = summary["pooled"]
    assert row["accuracy_after"]["value"] == 0
    (line,) = [one for one in summary["warnings"] if "the log itself" in one]
    assert "right on 10 of 40; 10 of these were wrong before the change, of which 10" in line


def both_tools(lead: str, arm: str) -> tuple[Path, Path]:
    """The same answers as logs of both tools, right on all but each fifth."""
    rows = [sample(i, i % 3 if i % 5 or not lead else (i + 1) % 3, lead=lead) for i in range(12)]
    log = inspect_log()
    for i, row in enumerate(rows):
        row["doc"] |= {"arm": arm, "only_here": i}
        right = "C" if row["acc"] else "I"
        letter = "ABC"[i % 3 if row["acc"] else (i + 1) % 3]
        score = {"choice": {"value": right, "answer": letter}}
        log["samples"][i] |= {"input": row["doc"]["question"], "scores": score}
        log["samples"][i]["metadata"]["arm"] = arm
    name = arm.replace(" / ", "_").replace(" ", "_")
    log["eval"]["task"] = name
    path = Path(f"{name}.json")
    path.write_text(json.dumps(log), encoding="utf-8")
    return write(name, rows, model="mock/m"), path


def test_our_own_control_is_the_control_again_and_tools_compare_under_attack() -> None:
    made = [both_tools(*each) for each in (("", "clean"), ("Alas! ", "my names"))]
    made.append(both_tools("", "my names / no_op"))
    for log in made[2]:  # a harmless change
        log.write_text(log.read_text("utf-8").replace("cures him?", "cures him ?"), "utf-8")
    for n, out in enumerate(("lm", "inspect")):
        first, *others = [each[n] for each in made]
        rows = imported(out, first, perturbed=others).rows()
        assert {row.attack for row in rows} == {"my_names", "my_names / no_op"}
    summary = ms.Run("lm").summary()
    rows = {row["attack"]: row for row in summary["pooled"]}
    assert rows["my_names / no_op"]["control_of"] == "my_names"
    assert rows["my_names"]["asr_net"]["no_op"]["value"] == rows["my_names"]["asr"]["value"] > 0
    assert "no_op" not in summary["verdict"]["arms"][0]["attack"]
    assert verify_folder(Path("lm")).holds
    rows = ms.compare("lm", "inspect").as_json()["rows"]
    (primary,) = [row for row in rows if row["decides"]]
    assert (primary["a"]["attack"], primary["n_pairs"]) == ("my_names", 12)
    assert primary["difference"]["value"] == 0


def test_scores_that_are_neither_right_nor_wrong_are_refused() -> None:
    log = inspect_log()
    log["samples"][3]["scores"]["choice"]["value"] = 0.4
    Path("log.json").write_text(json.dumps(log), encoding="utf-8")
    with pytest.raises(DataError, match=r"sample 'q3': expected a score .* got 0\.4"):
        imported("run", Path("log.json"))


def test_several_epochs_scorers_and_filters_have_to_be_named() -> None:
    log = inspect_log()
    log["samples"] += [{**each, "epoch": 2} for each in log["samples"]]
    Path("log.json").write_text(json.dumps(log), encoding="utf-8")
    with pytest.raises(UsageError, match="--epoch 1"):
        imported("run", Path("log.json"))
    run = imported("run", Path("log.json"), options=LogOptions(epoch=2))
    assert run.summary()["pooled"][0]["n_items"] == 12
    log = inspect_log()
    log["samples"][0]["scores"]["model"] = {"value": "C", "answer": "A"}
    Path("log.json").write_text(json.dumps(log), encoding="utf-8")
    with pytest.raises(UsageError, match="--scorer choice or model"):
        imported("other", Path("log.json"))
    rows = [written(i, "A", filter=name) for i in range(3) for name in ("strict", "loose")]
    with pytest.raises(UsageError, match="--filter strict or loose"):
        imported("other", write("gen", rows))


def test_options_of_the_other_tool_are_refused() -> None:
    Path("log.json").write_text(json.dumps(inspect_log()), encoding="utf-8")
    with pytest.raises(UsageError, match="--filter does not apply"):
        imported("run", Path("log.json"), options=LogOptions(filter="none"))
    with pytest.raises(UsageError, match="--epoch does not apply"):
        imported("run", write("made_up", clean()), options=LogOptions(epoch=1))


def test_samples_of_other_versions_or_against_their_likelihoods_are_refused() -> None:
    old = [{**sample(i, 0), "arguments": [["?", " A"], ["?", " B"]]} for i in range(3)]
    with pytest.raises(DataError, match=r"0\.4\.4 and later"):
        imported("run", write("old", old))
    with pytest.raises(DataError, match="got none for 'doc_id'"):
        imported("run", write("none", [{"prompt": "x"}]))
    odd = [sample(i, i % 3) for i in range(3)]
    odd[1]["acc"] = 0.0
    with pytest.raises(DataError, match="counts the answer as wrong, but its likelihoods"):
        imported("run", write("odd", odd))
    bare = {key: value for key, value in sample(0, 0).items() if key != "acc"}
    with pytest.raises(DataError, match="expected the metric 'acc'"):
        imported("run", write("f1", [bare]))


def test_logs_that_do_not_belong_together_are_refused() -> None:
    path = write("made_up", clean())
    imported("run", path)
    with pytest.raises(StoreError, match="holds a run already"):
        imported("run", path)
    other = write("other", [sample(i + 900, 0) for i in range(4)])
    with pytest.raises(DataError, match="expected the questions of"):
        imported("two", path, perturbed=[other])
    Path("log.json").write_text(json.dumps(inspect_log()), encoding="utf-8")
    with pytest.raises(UsageError, match="one run is of one model"):
        imported("two", path, perturbed=[Path("log.json")])


def test_the_command_says_what_it_read_and_refuses_in_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write("made_up", clean())
    assert medstress_cli(["import", str(path), "--out", "run"]) == 0
    assert "40 answers of tiny to made_up" in capsys.readouterr().out
    assert medstress_cli(["verify", "run"]) == 0
    assert medstress_cli(["import", "nowhere.jsonl", "--out", "two"]) == 2
    told = capsys.readouterr().err.strip()
    assert "expected a log, got no file" in told
    assert "\n" not in told


ODD = (None, 3, [], {"x": 1})


def changed(value: Any, depth: int = 4) -> Any:
    """Copies of a value in which one part is odd."""
    yield from ODD
    pairs: Any = ()
    if depth and isinstance(value, dict):
        pairs = value.items()
        for gone in value:
            yield {key: each for key, each in value.items() if key != gone}
    elif depth and isinstance(value, list):
        pairs = enumerate(value)
    for place, inner in pairs:
        for odd in changed(inner, depth - 1):
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[place] = odd
            yield copy


def outcome(read: Any, path: Path) -> bool:
    """Whether a log is read; if not, one sentence says why."""
    try:
        read(path, LogOptions())
    except MedstressError as error:
        found = str(error)
    else:
        return True
    assert "\n" not in found
    return False


def test_no_odd_log_is_more_than_one_sentence() -> None:
    path, read = Path("log.json"), []
    short = inspect_log()
    short["samples"] = short["samples"][:1]
    for log in islice(changed(short), None, None, 3):
        path.write_text(json.dumps(log), encoding="utf-8")
        read.append(outcome(inspect_logs.read, path))
    for row in (sample(1, 1), written(1, "B")):
        read += [
            outcome(lm_eval.read, write("odd", [each, row]))
            for each in islice(changed(row), None, None, 5)
        ]
    assert min(read.count(True), read.count(False)) > 20


def test_the_card_of_a_log_says_that_criteria_are_post_hoc_and_nothing_was_attacked() -> None:
    path = write("made_up", clean())
    text = '[slices]\nby = ["ward"]\n[[require]]\nmetric = "accuracy"\nmin_low = 0.5\n'
    Path("ask.toml").write_text(text, encoding="utf-8")
    alas = write("alas", [sample(i, (i + 1) % 3, lead="Alas! ") for i in range(N)])
    for out, others in (("idle", []), ("attacked", [alas])):
        imported(out, path, perturbed=others, experiment=Path("ask.toml"))
        with open_run(Path(out)) as run:
            card = card_of(run)
        page = pages.markdown(card)
        assert "Fixed before the first query" not in page + applied_model_card(card)
        assert "Chosen after the answers existed" in page
        assert "pre-specified" not in page
    told = applied_model_card(card) + model_index(card) + every_eval_ever(card)
    assert "attack_success_rate" in told
    with open_run(Path("idle")) as run:
        idle = card_of(run)
    told = applied_model_card(idle) + model_index(idle) + every_eval_ever(idle)
    assert "attack_success_rate" not in told
    assert "right answers lost" not in told
    assert "accuracy" in told
    assert "Nothing was attacked" in told
    page = pages.markdown(idle)
    assert "| nothing was attacked |" in page
    assert "No control was asked" not in page
    assert "no loss" not in page


def test_a_log_that_nothing_attacked_has_no_loss_and_judges_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write("made_up", clean())
    wanted = (
        ("accuracy", "min_low", 0.5),
        ("asr", "max_high", 0.1),
        ("asr_valid", "max_high", 0.6),
    )
    text = '[slices]\nby = ["ward"]\n' + "".join(
        f'[[require]]\nmetric = "{name}"\n{end} = {limit}\n' for name, end, limit in wanted
    )
    text += '[[require]]\nmetric = "asr"\nmax_high = 0.9\n'
    text += 'slice = {by = "ward"}\n'
    Path("ask.toml").write_text(text, encoding="utf-8")
    assert medstress_cli(["import", str(path), "--out", "run", "--experiment", "ask.toml"]) in (
        0,
        3,
    )
    capsys.readouterr()
    assert medstress_cli(["summary", "run"]) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "3 of 4 criteria are not judged" in told
    assert "saw no edit" not in told
    summary = ms.Run("run").summary()
    assert [each["met"] for each in summary["requirements"]] == [True, None, None, None]
    assert {each["reason"] for each in summary["requirements"][1:]} == {
        "nothing was attacked, so no loss was measured"
    }
    (row,) = summary["pooled"]
    assert (row["asr"]["value"], row["asr"]["n"], row["asr_valid"]) == (None, 0, None)
