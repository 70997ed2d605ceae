"""Victims that give scores, from end to end: confidence, and formats of `[sensitivity]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.core import registry
from medstress.core.errors import StoreError, UsageError
from medstress.costs.experiment import estimate
from medstress.report.page import render_report
from medstress.results.load import open_run
from medstress.results.rows import trial_rows
from medstress.running.opened import opened_victims
from medstress.running.prepare import prepare
from medstress.summary.remarks import dry_run_remarks

VICTIMS = '''
import hashlib
import re


def _key(prompt):
    """The key of question i is letter i mod 4."""
    return "ABCD"[int(re.search(r"case ([0-9]+)", prompt)[1]) % 4]


def _luck(prompt, of=""):
    return int(hashlib.sha256((of + prompt).encode()).hexdigest()[:8], 16) / 16**8


def _scores(chosen, confidence):
    return {"scores": {x: confidence if x == chosen else (1 - confidence) / 3 for x in "ABCD"}}


def _other(letter):
    return "ABCD"["BCDA".index(letter)]


def of_the_template(prompts):
    """Always right where the template marks the context, never elsewhere."""
    return [_scores(_key(p) if "[Context]" in p else _other(_key(p)), 0.9) for p in prompts]
'''


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workbench: Any) -> Path:
    """The workbench's questions, 120 of them, and the planted victims."""
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    bench = workbench.Bench(tmp_path)
    bench.write_items(workbench.questions(120, context="A man."))
    (tmp_path / "v.py").write_text(VICTIMS, encoding="utf-8")
    return tmp_path


def experiment(*victims: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "experiment": {"name": "x", "seeds": [0, 1], "controls": False, "flip_check": False},
        "dataset": {"name": "jsonl", "path": "items.jsonl", "label": "cases"},
        "entities": {"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"},
        "victim": [
            {"name": each, "backend": "python", "target": f"v.py:{each}"}
            if isinstance(each, str)
            else each
            for each in victims
        ],
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 2},
        **more,
    }


def test_answers_that_depend_on_the_template_alone_are_found() -> None:
    sensitivity = {"prompts": ["qstab", "chat"]}
    run = ms.run(experiment("of_the_template", sensitivity=sensitivity), out="run")
    found = run.summary()["sensitivity"]
    rates = {each["prompt"]: each["accuracy"]["value"] for each in found["formats"]}
    assert rates == {"qstab": 1, "chat": 0}
    (span,) = found["ranges"]
    assert (span["victim"], span["accuracy"]["range"]) == ("of_the_template", 1)
    by_metric = {each["metric"]: each for each in found["differences"]}
    assert by_metric["accuracy"]["difference"]["value"] == 1
    assert by_metric["accuracy"]["p_adjusted"] < 1e-6
    assert by_metric["accuracy_after"]["difference"]["low"] > 0.9
    assert by_metric["asr"]["p"] is None  # no item is right in both
    assert [row["victim"] for row in run.summary()["pooled"]] == [
        "of_the_template / chat",
        "of_the_template / qstab",
    ]
    assert run.summary()["headlines"][-1] == found["sentence"]
    with open_run(Path("run")) as stored:
        page = render_report(run.summary(), trial_rows(stored), stored.manifest)
    assert '<h2 id="sensitivity">' in page
    assert "lowest to highest" in page
    assert found["sentence"] in page


MOCK = {"name": "m", "backend": "mock"}


def test_every_format_is_a_victim_and_those_of_one_model_share_its_back_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[Any] = []
    closed: list[Any] = []
    really = registry.open_backend

    def counted(name: str, options: Any) -> Any:
        backend = really(name, options)
        opened.append(backend)
        monkeypatch.setattr(backend, "close", lambda: closed.append(backend))
        return backend

    monkeypatch.setattr(registry, "open_backend", counted)
    other = {**MOCK, "name": "n"}
    given = experiment(MOCK, other, sensitivity={})
    given["dataset"]["limit"] = 24
    run = ms.run(given, out="run")
    labels = [
        f"{name} / {prompt} / {way}"
        for name in "mn"
        for prompt in ("qstab", "medmcqa", "chat")
        for way in ("letter", "text")
    ]
    assert [each["label"] for each in run.summary()["sensitivity"]["formats"]] == sorted(labels)
    assert len(opened) == len(closed) == 2
    variance = {row["victim"]: row for row in run.summary()["variance"]}
    assert set(variance) == {*labels, "m", "n"}
    assert "templates" in variance["m"]["components"]


def test_what_a_back_end_cannot_do_is_left_out_with_a_sentence(said: Any) -> None:
    tables = experiment(
        "of_the_template",
        MOCK,
        sensitivity={"prompts": ["qstab", "cloze"], "answer_by": ["letter", "text"]},
    )
    prepared = prepare(tables, formats=True)
    assert [each.label for each in prepared.sensitivity.formats] == [
        "of_the_template / qstab",
        "of_the_template / cloze",
        "m / qstab / letter",
        "m / qstab / text",
        "m / cloze / text",
    ]
    function, cloze = prepared.sensitivity.left_out
    said(function, "of_the_template", "function")
    said(cloze, "m / cloze / letter", "does not list the options")
    with opened_victims(prepared, lambda _: None):
        lines = [*estimate(prepared), *dry_run_remarks(prepared)]
    assert {function, cloze} <= set(lines)
    summary = ms.run(tables, out="run").summary()
    assert {function, cloze} <= set(summary["warnings"])
    assert summary["sensitivity"]["left_out"] == [function, cloze]


@pytest.mark.parametrize(
    ("victim", "table", "words"),
    [
        (MOCK, {"prompts": ["qstab"], "answer_by": ["letter"]}, ["'m'", "two"]),
        (MOCK, {"prompts": ["cloze"], "answer_by": ["letter"]}, ["'m'", "in none"]),
        (
            {"name": "l", "backend": "llama_cpp", "model": "x.gguf"},
            {"prompts": ["qstab"]},
            ["'l'", "only as l / qstab / letter"],
        ),
        (MOCK, {"prompts": ["qstabb"]}, ["[sensitivity] prompts", "qstabb"]),
        (MOCK, {"prompts": ["qstab", "qstab"]}, ["prompts", "repeat"]),
        (MOCK, {"prompts": []}, ["prompts"]),
        (MOCK, {"answer_by": ["speech"]}, ["answer_by"]),
        (MOCK, {"templates": ["qstab"]}, ["templates"]),
        (
            {"name": "f", "backend": "python", "target": "victim.py:answer"},
            {"answer_by": ["letter"]},
            ["answer_by", "every victim is a function"],
        ),
    ],
)
def test_a_table_that_compares_nothing_or_is_malformed_is_refused(
    victim: dict[str, Any], table: dict[str, Any], words: list[str], said: Any
) -> None:
    with pytest.raises(UsageError) as error:
        ms.run(experiment(victim, sensitivity=table), out="run")
    said(str(error.value), *words)
    assert not Path("run").exists()


def test_a_run_with_formats_resumes_grows_and_refuses_to_lose_one() -> None:
    def tables(*prompts: str) -> dict[str, Any]:
        return experiment("of_the_template", sensitivity={"prompts": list(prompts)})

    first = ms.run(tables("qstab", "chat"), out="run").summary()
    again = ms.run(tables("qstab", "chat"), out="run").summary()
    assert again["sensitivity"] == first["sensitivity"]
    assert len(ms.run(tables("qstab", "chat", "medmcqa"), out="run").summary()["pooled"]) == 3
    with pytest.raises(StoreError, match="medmcqa"):
        ms.run(tables("qstab", "chat"), out="run")


def test_formats_are_of_questions(base: Path, said: Any) -> None:
    (base / "pairs.tsv").write_text("text_a\ttext_b\tscore\na b\tc d\t1\n", encoding="utf-8")
    tables = {
        "experiment": {"name": "x", "seeds": [0]},
        "dataset": {"name": "pairs", "path": "pairs.tsv"},
        "victim": MOCK,
        "attack": {"name": "swap_noise"},
        "sensitivity": {},
    }
    with pytest.raises(UsageError) as error:
        ms.run(tables, out="run")
    said(str(error.value), "[sensitivity]", "questions")
