"""A run folder is data: its prompts are read back as text, and nothing in it is executed."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medstress.api.run import run
from medstress.cli.app import medstress_cli
from medstress.core.hashing import content_hash

PLAIN = "Q: {question}\n{options}\nAnswer:"
MORE = "Q: {{ question | upper }}\n{% for a, b in options %}{{ a }}) {{ b }}\n{% endfor %}Answer:"


def run_with(folder: Path, template: str, name: str = "mine.jinja", **victim: Any) -> Path:
    (folder / name).write_text(template, "utf-8")
    run(
        {
            "experiment": {"controls": False, "name": "x", "seeds": [0]},
            "dataset": {"name": "sample", "limit": 12},
            "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
            "victim": [{"name": "v", "backend": "mock", "prompt": str(folder / name), **victim}],
            "attack": [{"name": "entity_substitution", "sampler": "random", "budget": 8}],
        },
        folder / "run",
    )
    return folder / "run"


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    to = folder.parent / f"{table}.jsonl"
    assert medstress_cli(["export", str(folder), "--table", table, "--to", str(to)]) == 0
    return [json.loads(line) for line in to.read_text("utf-8").splitlines()]


def set_prompt(workbench: ModuleType, folder: Path, source: str) -> None:
    """Put a Jinja text into a folder's manifest."""
    with workbench.forged(folder) as db:
        (told,) = db.execute("SELECT value FROM manifest WHERE key = 'victims'").fetchone()
        victims = json.loads(told)
        for victim in victims.values():
            victim["prompt"] |= {"source": source, "jinja": True}
            victim["task"]["template"] = content_hash(source)
        db.execute("UPDATE manifest SET value = ? WHERE key = 'victims'", (json.dumps(victims),))


def readings(folder: Path) -> Iterator[list[str]]:
    """Every command that reads a folder."""
    at, out = str(folder), folder.parent
    yield ["summary", at]
    yield ["summary", at, "--json"]
    yield ["report", at, "--out", str(out / "r.html")]
    yield ["figures", at, "--out", str(out / "figures"), "--format", "svg"]
    yield ["review", at, "--export", str(out / "cases.html")]
    for table in ("items", "trials", "exchanges", "reviews"):
        yield ["export", at, "--table", table, "--to", str(out / f"{table}.csv")]


@pytest.mark.parametrize(
    "payload",
    [
        "{{ cycler.__init__.__globals__.os.system('touch MARK') }}",
        *(
            pytest.param(payload, marks=pytest.mark.release)
            for payload in (
                "{{ ''.__class__.__mro__[1].__subclasses__() }}",
                "{% for i in range(10**9) %}{% for j in range(10**9) %}x{% endfor %}{% endfor %}",
                "{{ 'a' * 10**11 }}",
                "{{ not a template",
            )
        ),
    ],
)
def test_no_reading_command_executes_a_template_that_lies_in_a_folder(
    tmp_path, workbench, payload, capsys
):
    folder = run_with(tmp_path, PLAIN, "mine.txt")
    set_prompt(workbench, folder, payload.replace("MARK", str(tmp_path / "executed")))
    for command in readings(folder):
        assert medstress_cli(command) == 0, capsys.readouterr().err
    assert not (tmp_path / "executed").exists()
    assert "prompt not shown" in (tmp_path / "r.html").read_text("utf-8")
    exchanges = [row for row in rows(folder, "exchanges") if row["call"] is not None]
    assert {row["prompt"] for row in exchanges} == {"prompt not shown"}
    assert {row["prompt_hash"] for row in exchanges} == {None}
    flipped = [row for row in rows(folder, "trials") if row["verdict"] == "flipped"]
    assert flipped
    assert {row["prompt_after"] for row in flipped} == {"prompt not shown"}


def test_prompts_of_a_template_that_does_more_are_kept_as_they_were_sent(tmp_path, workbench):
    folder = run_with(tmp_path, MORE)
    exchanges = [row for row in rows(folder, "exchanges") if row["call"] is not None]
    items = {row["item_id"]: row for row in rows(folder, "items")}
    shown = {trial["trial_id"]: trial for trial in rows(folder, "trials")}
    for row in exchanges:
        item = items[shown[row["trial_id"]]["item_id"]]
        question = f"{item['context']} {item['stem']}" if item["context"] else item["stem"]
        assert row["prompt"].startswith(f"Q: {question.upper()}\nA) ")
    flipped = [trial for trial in shown.values() if trial["verdict"] == "flipped"]
    assert flipped
    asked = {row["prompt"] for row in exchanges}
    assert {trial["prompt_before"] for trial in flipped} <= asked
    assert {trial["prompt_after"] for trial in flipped} <= asked
    set_prompt(workbench, folder, "{{ nothing of this is needed to read it back }}")
    assert [row["prompt"] for row in rows(folder, "exchanges") if row["call"] is not None] == [
        row["prompt"] for row in exchanges
    ]
    assert [row["prompt_after"] for row in rows(folder, "trials")] == [
        trial["prompt_after"] for trial in shown.values()
    ]
