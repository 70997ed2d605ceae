"""Items that a model cannot read: said before the run, never asked, the same when verified."""

import pytest

from medstress.cli.app import medstress_cli
from medstress.store.reader import RunReader
from question_rows import write_rows

TURNS = """name = "medfuzz"
exemplars = 0
reasoning_tokens = 8
[role.attacker]
backend = "mock"
"""


NOISE = 'name = "swap_noise"\n'


@pytest.mark.parametrize(
    ("attack", "long"),
    [
        (TURNS, {"medfuzz": "012"}),
        (f"{NOISE}[[attack]]\n{TURNS}", {"swap_noise": "1", "medfuzz": "012"}),
    ],
)
def test_an_item_longer_than_the_model_reads_is_not_attackable(
    attack, long, folder_of, sentence, tmp_path, monkeypatch, capsys
):
    stems = ["Which drug?", sentence(1, 300), "Which dose?"]
    rows = [
        {"id": str(i), "question": stem, "options": ["pain", "aspirin"], "answer": "B"}
        for i, stem in enumerate(stems)
    ]
    write_rows(tmp_path / "items.jsonl", rows)
    (tmp_path / "e.toml").write_text(f"""
[experiment]
name = "long"
[[dataset]]
name = "table"
path = "items.jsonl"
label = "cases"
[[victim]]
name = "tiny"
backend = "transformers"
model = "{folder_of("llama")}"
answer_by = "letter"
[[attack]]
{attack}
""")
    folder = tmp_path / "run"
    medstress_cli(["run", str(tmp_path / "e.toml"), "--out", str(folder), "--quiet"])
    reader = RunReader(folder)
    items, arms = reader.items(), reader.arms
    trials = [one for one in reader.trials() if one.result.get("at") == "context"]
    barred = {(arms[one.arm][3].split(" / ")[0], items[one.item][1].id) for one in trials}
    reader.close()
    assert barred == {(name, item) for name, ids in long.items() for item in ids}
    for trial in trials:
        assert trial.verdict == "not_attackable"
        assert "positions of the model" in trial.result["note"]
        assert "before" not in trial.result
    assert medstress_cli(["verify", str(folder)]) == 0
    assert medstress_cli(["run", str(tmp_path / "e.toml"), "--dry-run"]) == 0
    shown = (printed := capsys.readouterr()).out + printed.err
    assert all(f"{len(ids)} of 3 items" in shown for ids in long.values())
