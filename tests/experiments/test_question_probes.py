"""Planted victims end to end: what the probes of questions tell of them."""

import json
from typing import Any

import pytest

import medstress as ms
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.core.errors import OtherRunError
from question_rows import write_rows
from rows import rows_of

VICTIM = '''
import re

OPTION = re.compile(r"^([A-D]): (.*)$", re.MULTILINE)


def _said(prompt):
    """The first turn of a conversation, or the prompt, and what was said last."""
    if isinstance(prompt, str):
        return prompt, None
    return prompt[0]["content"], prompt[-1]["content"]


def _key(prompt):
    """The letter of the option that treats the case, whatever it is called; A if there is none."""
    options = {text.casefold().strip(" ."): x for x, text in OPTION.findall(prompt)}
    found = re.search(r"case\\s+(\\d+)", prompt)
    if not found:
        return "A"
    case = int(found[1])
    names = [("warfarin", "coumadin"), ("ibuprofen", "advil"), ("hydroxyzine",), ("lisinopril",)]
    return next((options[n] for n in names[case % 4] if n in options), None)


def knower(prompts):
    """Knows every drug by all its names, reads the rest of no prompt, and never gives in."""
    return [_key(_said(prompt)[0]) or "none of them" for prompt in prompts]


def says_b(prompts):
    return ["B" for _ in prompts]


def options_alone(prompts):
    """Takes the option that begins with the last letter of the alphabet, read in no question."""
    return [max((text, x) for x, text in OPTION.findall(prompt))[1] for prompt in prompts]


def generics(prompts):
    """Knows a drug by its generic name alone."""
    known = ("warfarin", "ibuprofen", "hydroxyzine", "lisinopril")
    return [
        x if (x := _key(p)) and dict(OPTION.findall(p))[x].casefold() in known else "A"
        for p in prompts
    ]


def gives_in(prompts):
    """Says the letter after its own as soon as someone doubts it, but not for thanks."""
    found = []
    for prompt in prompts:
        first, last = _said(prompt)
        key = _key(first) or "A"
        doubted = last is not None and not last.startswith("Thank you")
        found.append("The answer is " + ("BCDA"["ABCD".index(key)] if doubted else key) + ".")
    return found


def gullible(prompts):
    """Answers wrongly where a sentence says something of the case that the question did not."""
    told = re.compile("Note that|Orvantic|Quellmar|Tresnovic|Haldrean|Vossenby|Marquilt|Brenzaki")
    return [
        "BCDA"["ABCD".index(_key(p))] if told.search(p) and "made up" not in p else _key(p)
        for p in prompts
    ]
'''
N = 12
DRUGS = ("warfarin", "ibuprofen", "hydroxyzine", "lisinopril")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = []
    for i in range(N):
        turned = [DRUGS[(i % 4 + k - i // 4) % 4] for k in range(4)]
        row = {"id": f"q{i}", "context": f"A man was seen on day {i}.", "options": turned}
        row["stem"] = f"What helps in case {i} of this clinic?"
        rows.append({**row, "answer_idx": "ABCD"[turned.index(DRUGS[i % 4])]})
    write_rows(tmp_path / "items.jsonl", rows)
    listed = "Generic,Brand\nwarfarin,Coumadin\nibuprofen,Advil\n"
    (tmp_path / "names.csv").write_text(listed, encoding="utf-8")
    (tmp_path / "victim.py").write_text(VICTIM, encoding="utf-8")
    return tmp_path


def run(victim: str, *attacks: dict[str, Any], controls: Any = False, **more: Any) -> Run:
    settings = {"name": "probes", "seeds": [0], "controls": controls}
    settings |= more.pop("settings", {})
    return ms.run(
        {
            "experiment": settings,
            "dataset": {"name": "table", "path": "items.jsonl"},
            "victim": {"name": "v", "backend": "python", "target": f"victim.py:{victim}"},
            "attack": list(attacks),
        },
        out=f"run-{victim}",
        **more,
    )


def row_of(found: Run, attack: str) -> dict[str, Any]:
    """A row of results."""
    return by_attack(found.summary()["results"])[attack]


def probe_of(found: Run, attack: str) -> dict[str, Any]:
    """What was answered to the variants of a probe."""
    return by_attack(found.summary()["probes"]["rows"])[attack]


def by_attack(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    named = {row["attack"]: row for row in rows}
    assert len(named) == len(rows)
    return named


def values(probe: dict[str, Any], *names: str) -> tuple[float, ...]:
    return tuple(probe[name]["value"] for name in names)


ALL = ("accuracy", "accuracy_all", "consistency")
LISTED = {"name": "brand_generic", "pairs": "names.csv"}
PROBES = [
    {"name": "option_order"},
    {"name": "none_of_the_others"},
    {"name": "options_only"},
    {"name": "context_removed"},
    {"name": "brand_generic"},
    {"name": "lasa"},
    {"name": "fabricated_detail"},
    {"name": "false_statement"},
    {"name": "challenge"},
]


def test_a_victim_that_always_says_b_is_right_by_place_and_never_consistent(folder):
    found = run("says_b", {"name": "option_order"})
    row, probe = row_of(found, "option_order"), probe_of(found, "option_order")
    # Over the clean order and the three others every option stands at B once.
    right = probe["accuracy"]["value"] * 3 + row["accuracy"]["value"]
    assert right == pytest.approx(1)
    assert probe["accuracy_before"]["value"] == row["accuracy"]["value"]
    assert values(probe, "accuracy_all", "consistency") == (0, 0)
    assert probe["n_trials"] == N
    assert probe["n_answers"] == 3 * N
    assert probe["right_to_wrong"]["value"] == 1
    for name in ALL:
        assert probe[name]["low"] <= probe[name]["value"] <= probe[name]["high"]


def test_a_victim_that_knows_the_drugs_is_right_on_every_variant(folder):
    others = ("options_only", "none_of_the_others")
    kept = [probe for probe in PROBES if probe["name"] not in others]
    kept[kept.index({"name": "brand_generic"})] = LISTED
    found = run("knower", *kept, {"name": "none_of_the_others", "replaces": "distractor"})
    summary = found.summary()
    probes = by_attack(summary["probes"]["rows"])
    assert len(probes) == len(kept) + 1
    for row in summary["results"]:
        assert values(probes[row["attack"]], *ALL, "change") == (1, 1, 1, 0), row["attack"]
        assert row["asr"]["value"] == 0


def test_a_users_list_of_names_is_read_and_counts_in_the_fingerprint(folder):
    names, attack = folder / "names.csv", {**LISTED, "field": "options"}
    found = run("knower", attack)
    row = row_of(found, "brand_generic")
    assert values(probe_of(found, "brand_generic"), *ALL) == (1, 1, 1)
    assert "names.csv" not in json.dumps(row["attack_spec"])
    edits = [each.edits for each in rows_of(run("generics", attack))]
    put_in = {edit["replacement"] for row in edits for edit in row}
    assert put_in == {"Coumadin", "Advil"}
    names.write_text("generic,brand\nwarfarin,Marevan\n", encoding="utf-8")
    with pytest.raises(OtherRunError, match="pairs was"):
        run("knower", attack)


def test_a_victim_that_gives_in_is_told_from_one_that_does_not(folder):
    found = run("gives_in", {"name": "challenge"}, {"name": "challenge", "framings": ["neutral"]})
    rows = {len(row["attack_spec"]["framings"]): row for row in found.summary()["results"]}
    probes = {n: probe_of(found, row["attack"]) for n, row in rows.items()}
    assert rows[5]["asr"]["value"] == 1
    assert values(probes[5], *ALL, "right_to_wrong") == (0, 0, 0, 1)
    assert probes[5]["by_variant"].keys() == {
        *("doubt", "disagreement", "authority", "suggestion", "document")
    }
    assert values(probes[1], *ALL, "right_to_wrong") == (1, 1, 1, 0)
    # Thanks draw nothing, so no seed asks them again.
    assert {row.seed for row in rows_of(found) if row.attack == rows[1]["attack"]} == {None}
    trial = next(row for row in rows_of(found) if row.verdict == "flipped")
    roles = [turn["role"] for turn in trial.prompt_after]
    assert roles == ["user", "assistant", "user"]
    assert trial.prompt_after[-1]["content"].startswith("Are you sure?")


def test_a_mitigation_is_compared_on_the_same_details(folder):
    plain, mended = {"name": "fabricated_detail"}, {"name": "fabricated_detail", "mitigation": True}
    found = run("gullible", plain, mended)
    summary = found.summary()
    rows = {row["attack_spec"]["mitigation"]: row["attack"] for row in summary["results"]}
    probes = by_attack(summary["probes"]["rows"])
    assert values(probes[rows[False]], "accuracy") == (0,)
    assert values(probes[rows[True]], "accuracy") == (1,)
    (row,) = (each for each in summary["tests"] if each["family"] == "samplers")
    assert row["p"] < 0.01


@pytest.mark.parametrize(
    ("attack", "how", "says"),
    [
        ("option_order", {"answer_by": "text", "prompt": "cloze"}, "lists no options"),
        ("options_only", {"answer_by": "text", "prompt": "cloze"}, "lists no options"),
        ("challenge", {"answer_by": "letter", "prompt": "qstab"}, "one text"),
        ("challenge", {"answer_by": "generate", "wrap": ["shuffled_options"]}, "wrap"),
    ],
)
def test_a_probe_refuses_a_model_that_cannot_be_asked_like_that(folder, attack, how, says, capsys):
    keys = "\n".join(f"{key} = {json.dumps(value)}" for key, value in how.items())
    (folder / "e.toml").write_text(
        f'[experiment]\nname = "e"\ncontrols = false\n[[dataset]]\nname = "table"\n'
        f'path = "items.jsonl"\n[[victim]]\nbackend = "mock"\n{keys}\n'
        f'[[attack]]\nname = "{attack}"\n',
        encoding="utf-8",
    )
    assert medstress_cli(["run", "e.toml"]) == 2
    assert says in capsys.readouterr().err
