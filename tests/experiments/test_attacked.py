"""Store the attacks of a run and ask their edits of other victims, without what they needed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.api.run import Run
from medstress.core.errors import DataError, UsageError
from medstress.store.database import FILE
from question_rows import write_rows
from rows import rows_of

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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Questions, names, victims, in `source` a run (random names, 4 queries), its `set.jsonl`."""
    folder = tmp_path_factory.mktemp("attacked")
    write_inputs(folder)
    attack = {"name": "entity_substitution", "sampler": "random", "budget": 4}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ms.run(
            tables(
                dataset={"name": "table", "path": "items.jsonl"},
                entities={"type": "drugs", "vocabulary": "names.csv", "embedding": "ngram"},
                attack=attack,
            ),
            out="source",
        ).export("attacked", "set.jsonl")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy of all that."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_inputs(folder: Path) -> None:
    (folder / "victim.py").write_text(VICTIM, encoding="utf-8")
    (folder / "names.csv").write_text(
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
    write_rows(folder / "items.jsonl", rows)


def tables(target: str = "knows", **more: Any) -> dict[str, Any]:
    victim = {"name": "m", "backend": "python", "target": f"victim.py:{target}"}
    return {"victim": victim, "experiment": {"name": "e", "seeds": [0, 1]}, **more}


@pytest.fixture
def source(folder):
    """The run."""
    return Run(folder / "source")


def replay(path: str = "set.jsonl", target: str = "knows", **attack: Any) -> dict[str, Any]:
    """An experiment that has neither names nor mentions of its own."""
    return tables(
        target, dataset={"name": "attacked", "path": path}, attack={"name": "attacked", **attack}
    )


def lines(path: str = "set.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_a_run_is_written_whole_and_twice_alike(source):
    n = source.export("attacked", "set.jsonl")
    once = Path("set.jsonl").read_bytes()
    source.export("attacked", "again.jsonl")
    assert Path("again.jsonl").read_bytes() == once
    attack, control = source.summary()["results"]
    rows = lines()
    head = json.loads(rows[0]["attack_set"])
    assert n == len(rows) == head["n_items"]
    assert {row["attack_set"] for row in rows} == {rows[0]["attack_set"]}
    labels = [arm["label"] for arm in head["arms"]]
    assert labels == ["entity_substitution", "entity_substitution / no_op"]
    assert head["source"]["fingerprint"] == source.summary()["experiment"]["fingerprint"]
    trials = [entry for row in rows for entry in row["attacked"]]
    ours = [each for each in trials if each["arm"] == "entity_substitution"]
    assert {each["verdict"] for each in ours} == {"held", "flipped"}
    assert sum(each["verdict"] == "flipped" for each in ours) == attack["n_flipped"] > 0
    assert len(ours) == attack["n_eligible"]
    assert sum(len(each["queries"]) for each in ours) == attack["queries"]["asked"]
    assert len(trials) - len(ours) == control["n_eligible"]
    for each in ours:
        flips = [query["flipped"] for query in each["queries"]]
        assert flips == [False] * (len(flips) - 1) + [each["verdict"] == "flipped"]
    assert json.loads(rows[0]["metadata"]) == {"ward": "w0"}
    assert all(arm["is_blind"] for arm in head["arms"])


def test_every_format_is_the_same_experiment_with_the_same_trials(folder):
    """Also of questions with white space, line ends, formulas and accents, and a passage."""
    rows = lines("items.jsonl")
    rows[0] |= {"passage": ' \u00e9\r\n=1+1, "x" ', "question": "\u03b1-case 0. \n Why ? "}
    rows[1] |= {"question": "=SUM(1) is it case 1? ", "year": 1990, "empty": "", "of": [1, None]}
    write_rows(Path("items.jsonl"), rows)
    data = {"name": "table", "path": "items.jsonl"}
    names = {"type": "drugs", "vocabulary": "names.csv", "embedding": "ngram"}
    attack = {"name": "entity_substitution", "sampler": "random", "budget": 4}
    run = ms.run(tables(dataset=data, entities=names, attack=attack), out="odd")
    found = []
    for ending in ("jsonl", "csv", "parquet"):
        assert run.export("attacked", f"set.{ending}") > 0
        again = ms.run(replay(f"set.{ending}", budget=4), out="run")  # resumes: the same experiment
        found.append((again.summary()["experiment"]["fingerprint"], rows_of(again)))
    assert found[0] == found[1] == found[2]
    items = {row["item_id"]: row["metadata"] for row in run.table("items").to_dicts()}
    assert items["q1"]["year"] == 1990
    for row in again.table("items").to_dicts():
        kept = row["metadata"]
        assert {name: kept[name] for name in items[row["item_id"]]} == items[row["item_id"]]


def test_the_same_victim_loses_the_same_items_and_another_victim_others(source):
    same = ms.run(replay(budget=4), out="same")
    (before, _), (attack, control) = source.summary()["results"], same.summary()["results"]
    for name in ("n_flipped", "n_eligible", "n_held"):
        assert attack[name] == before[name]
    assert attack["queries"]["asked"] == before["queries"]["asked"]
    assert [at["value"] for at in attack["asr_at"]] == [at["value"] for at in before["asr_at"]]
    assert (attack["attack"], control["control_of"]) == ("entity_substitution",) * 2
    assert attack["asr_net"]["no_op"]["n"] == before["n_eligible"]
    assert "stored_attack" in {each["rule"] for each in same.summary()["warnings"]}
    another = ms.run(replay(target="other", budget=4), out="other").summary()["results"][0]
    assert another["n_eligible"] == before["n_eligible"]
    assert another["accuracy_after"]["value"] != attack["accuracy_after"]["value"]


def test_stored_controls_stand_beside_their_attack_with_their_own_edits(source):
    found = ms.run(replay(stored_controls=True, budget=4), out="stored")
    attack, control = found.summary()["results"]
    assert control["attack"] == "entity_substitution / no_op"
    assert attack["control"]["no_op"]["n"] == attack["n_eligible"]
    asked = {row["trial_id"]: row["n_asked"] for row in found.trials().iter_rows(named=True)}
    assert sum(asked.values()) == sum(row["queries"]["asked"] for row in (attack, control))
    assert control["queries"]["asked"] <= attack["queries"]["asked"]


def flips(row: dict[str, Any]) -> bool:
    ours = [each for each in row["attacked"] if "/" not in each["arm"]]
    return all(each["verdict"] == "flipped" for each in ours)


def test_successes_alone_say_what_is_repeated_and_give_no_verdict(source, said):
    """`other` is truly better here, and would be called better whatever it is."""
    write_rows(Path("flips.jsonl"), [row for row in lines() if flips(row)])
    runs = [ms.run(replay("flips.jsonl", t), out=t) for t in ("knows", "other")]
    repeats = runs[0].summary()["results"][0]
    assert repeats["n_flipped"] == repeats["n_eligible"] > 0  # asked to the last edit
    with pytest.raises(UsageError) as error:
        ms.compare(*runs)
    said(str(error.value), "a truly worse model looks better")
    with pytest.raises(UsageError):  # nor against the run that was stored
        ms.compare(source, runs[1])


def broken(rows: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
    first = rows[0]
    entry = first["attacked"][0]
    match how:
        case "no head":
            for row in rows:
                del row["attack_set"]
        case "text":
            first["stem"] += "?"
        case "arm":
            entry["arm"] = "other"
        case "edit":
            entry["queries"][0]["edits"][0]["end"] = 999
        case "twice":
            first["attacked"].append(entry)
    return rows


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ("no head", "medstress export --table attacked"),
        ("text", "item_hash"),
        ("arm", "arm of 'attack_set'"),
        ("edit", "does not fit"),
        ("twice", "twice"),
    ],
)
def test_a_damaged_file_is_refused_by_line_and_field(source, said, how, word):
    write_rows(Path("set.jsonl"), broken(lines(), how))
    with pytest.raises(DataError) as error:
        ms.run(replay(), out="run")
    said(str(error.value).replace(str(Path.cwd()), "DIR"), word)
    assert "set.jsonl" in str(error.value)
    assert not (Path("run") / FILE).exists()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"dataset": {"name": "table", "path": "items.jsonl"}}, "writes such a file"),
        ({"experiment": {"name": "e", "seeds": [0, 1, 2]}}, "seeds = [0, 1]"),
        ({"attack": {"name": "attacked", "attacks": ["pdws"]}}, "pdws"),
        ({"attack": {"name": "attacked", "budget": -1}}, "budget"),
        ({"dataset": {"name": "attacked"}}, "path"),
    ],
)
def test_an_experiment_that_cannot_ask_the_edits_is_refused_before_anything_is_asked(
    source, said, changes, word
):
    with pytest.raises(UsageError) as error:
        ms.run({**replay(), **changes}, out="run")
    said(str(error.value), word)
    assert not (Path("run") / FILE).exists()
