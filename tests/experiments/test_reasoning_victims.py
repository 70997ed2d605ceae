"""Victims that reason, behind servers: planted so that what must be measured is known."""

import re

import pytest

from conversation_server import ConversationServer
from fault_server import FaultServer
from medstress.api.run import Run, run
from medstress.cli.app import medstress_cli
from medstress.testing import rule_target, scripted_attacker, tiny_questions
from question_rows import write_rows
from rows import rows_of

ITEMS = tiny_questions(6)
CUES = {"tiny-0": "teacher", "tiny-1": "clerk", "tiny-2": "farmer"}
SCRIPT = ["He works as a clerk.", "He works as a teacher.", "He works as a farmer."]
PLANTED = [1, 5 / 6, 4 / 6, 3 / 6]
"""Accuracy after 0 to 3 attempts of `SCRIPT` on a target that errs on `CUES`."""
LONG = "because the guideline of the society says so in its newest edition"
THOUGHTS = 'Could it be {"answer": "B"} or {"confidence": {"A": 1}}? ' * 8


def planted(wrong_words: str):
    """The key alone on clean items; on edited ones a wrong letter, with so many words after it."""

    def answer(prompt: str) -> str:
        key = int(re.search(r"What treats case (\d)", prompt)[1]) % 4
        is_clean = prompt.count("zumab") == 4
        return "ABCD"[key] if is_clean else f"{'BCDA'[key]} {wrong_words}".strip()

    return answer


@pytest.fixture
def swaps(bench, workbench):
    """An experiment that swaps names in the options of six questions for a server."""
    bench.write_items(row for row in workbench.questions(7) if row["mentions"])
    bench.tables["experiment"]["seeds"] = [0]

    def write(server, attack=None, **victim):
        asked = {"backend": "openai", "base_url": server.url, "model": server.model}
        keys = {"name": "v", "answer_by": "generate", "max_new_tokens": 4, **victim}
        bench.tables["victim"] = [asked | keys]
        bench.tables["attack"] = [bench.attack("random", budget=2, **(attack or {}))]
        return bench.write()

    return write


def result(done: Run):
    (row,) = done.summary()["results"]
    return row


def warned(done: Run, rule: str) -> str:
    """The only warning by a rule; empty if there is none."""
    sentences = [each["sentence"] for each in done.summary()["warnings"] if each["rule"] == rule]
    assert len(sentences) < 2
    return sentences[0] if sentences else ""


def test_a_wrong_letter_in_a_reply_that_was_cut_off_is_no_success(swaps, tmp_path):
    attack = {"unreadable_is_success": True}
    with FaultServer(answer=planted(""), cuts=True) as short:
        done = run(swaps(short, attack), tmp_path / "short")
    row = result(done)
    assert (row["n_eligible"], row["n_flipped"]) == (6, 6)
    assert not warned(done, "cut_off")
    with FaultServer(answer=planted(LONG), cuts=True) as long:
        done = run(swaps(long, attack), tmp_path / "long")
    row = result(done)
    assert (row["n_eligible"], row["n_flipped"], row["n_held"]) == (6, 0, 6)
    assert row["n_unreadable_answers"] == row["queries"]["asked"] == 12
    assert (row["n_unreadable_under_attack"], row["asr"]["hits"]) == (6, 0)
    assert row["asr"]["worst"][1] == 1
    assert " 12 replies " in warned(done, "cut_off")


def test_where_every_answer_is_unreadable_the_run_shows_three_replies_and_ends_with_1(
    swaps, tmp_path, capsys
):
    def answer(prompt):
        return f"I would see a doctor ({sum(map(ord, prompt))})."

    with FaultServer(answer=answer) as server:
        folder = tmp_path / "run"
        assert medstress_cli(["run", str(swaps(server)), "--out", str(folder), "--quiet"]) == 1
    done, out = Run(folder), capsys.readouterr().out
    replies = r'"I would see a doctor \(\d+\)\."'
    assert len(re.findall(replies, warned(done, "unread"))) == 3
    assert len(re.findall(replies, " ".join(out.split()))) == 3
    assert result(done)["above_chance"]["p"] is None
    assert not warned(done, "near_chance")


def test_a_model_that_reasons_and_ends_is_measured_as_one_that_does_not(swaps, tmp_path):
    thoughts = {"thoughts": lambda prompt: THOUGHTS, "apart": True}
    with FaultServer(answer=planted(""), cuts=True, **thoughts) as server:
        done = run(swaps(server, prompt="chat", max_new_tokens=400), tmp_path / "run")
    assert (result(done)["n_eligible"], result(done)["n_flipped"]) == (6, 6)


# -- conversations -------------------------------------------------------------------------------


@pytest.fixture
def medfuzz(tmp_path):
    path = write_rows(tmp_path / "items.jsonl", ITEMS)

    def fuzz(target, out="run", attack=None, **victim):
        def model(server):
            return {"backend": "openai", "base_url": server.url, "model": server.model}

        attacker = ConversationServer(scripted_attacker(ITEMS, SCRIPT), model="the-attacker")
        with target, attacker:
            return run(
                {
                    "experiment": {"controls": False, "name": "x", "seeds": [0]},
                    "dataset": {"name": "table", "path": str(path)},
                    "victim": {**model(target), "answer_by": "generate", "name": "v", **victim},
                    "role": {"attacker": model(attacker)},
                    "attack": {"name": "medfuzz", "attempts": 3, "runs": 1, **(attack or {})},
                },
                tmp_path / out,
            )

    return fuzz


def target(**keys):
    return ConversationServer(rule_target(ITEMS, CUES), model="the-target", **keys)


def tokens_asked(server):
    """The most tokens of the turn that reasons and of those that have to be JSON."""
    found = {"reasoning": set(), "answer": set()}
    for asked in server.log:
        turn = "answer" if "response_format" in asked.body else "reasoning"
        found[turn].add(asked.body["max_tokens"])
    return found


def curve(done: Run):
    (row,) = done.summary()["attempts"]
    return [each["value"] for each in row["curve"]]


def test_a_target_that_reasons_has_the_curve_that_was_planted_with_tokens_enough(medfuzz):
    """Its thoughts are part of the text and hold JSON with another answer: it must not be read."""
    server = target(thoughts=lambda prompt: THOUGHTS, apart=False, cuts=True)
    done = medfuzz(server, reasoning_tokens=300, max_new_tokens=200)
    assert curve(done) == PLANTED
    assert not warned(done, "cut_off")
    assert tokens_asked(server) == {"reasoning": {300}, "answer": {200}}


def test_a_target_that_reasons_too_long_only_where_it_errs_is_never_a_success(medfuzz):
    """The hard case: the reasoning about the edited item alone is cut off, then it would err."""

    def thoughts(prompt):
        return THOUGHTS * 9 if "teacher" in prompt or "clerk" in prompt else "Short."

    done = medfuzz(
        target(thoughts=thoughts, cuts=True),
        attack={"unreadable_is_success": True},
        reasoning_tokens=100,
        max_new_tokens=100,
    )
    row = result(done)
    assert (row["n_eligible"], row["n_flipped"]) == (6, 1)  # the farmer's
    assert row["n_unreadable_answers"] > 0
    assert f" {row['n_unreadable_answers']} replies " in warned(done, "cut_off")
    attempts = [a for r in rows_of(done) for a in r.attempts if "query" in a]
    cut = [a for a in attempts if a.get("finish_reason") == "length"]
    assert len(cut) == row["n_unreadable_answers"]
    assert all(a["answer"] is None for a in cut)
    assert row["asr"]["value"] == pytest.approx(1 / 6)
    assert row["asr"]["worst"][1] > row["asr"]["high"]
