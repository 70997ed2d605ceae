"""A folder goes on with the parsers that it began with."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run, run
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.backends.mock import MockBackend
from medstress.core.calls import Decoding
from medstress.core.errors import StoreError
from medstress.experiment.plan.conversations import victim_of
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import MultipleChoice
from medstress.tasks.reading import Reading, reading_of
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.tasks.wrapping import parser_of
from medstress.testing import tiny_questions

VICTIM = """
def answer(prompts):
    with open(__file__ + ".log", "a") as log:
        log.write("asked\\n" * len(prompts))
    return ["Not A.\\nB" for _ in prompts]
"""
"""Read as A by the first edition's parser, as B by today's."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))


def go(folder: Path, limit: int = 8, **victim: Any) -> Run:
    (folder / "victim.py").write_text(VICTIM, "utf-8")
    target = str(folder / "victim.py") + ":answer"
    return run(
        {
            "experiment": {"controls": False, "name": "x", "seeds": [0]},
            "dataset": {"name": "sample", "limit": limit},
            "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
            "victim": [{"name": "v", "backend": "python", "target": target, **victim}],
            "attack": [{"name": "entity_substitution", "sampler": "random", "budget": 2}],
        },
        folder / "run",
    )


def asked(folder: Path) -> int:
    return len((folder / "victim.py.log").read_text("utf-8").splitlines())


def answers(found: Run) -> set[str | None]:
    return {row.answer_before for row in found.rows()} - {None}


def parser(found: Run) -> str | None:
    return parser_of(found.manifest()["victims"]["v"]["task"])


@pytest.mark.parametrize("wrap", [[], ["instructed"]])
def test_a_folder_of_the_first_edition_resumes_and_grows_with_its_parser(
    tmp_path: Path, wrap: list[str]
) -> None:
    old = go(tmp_path, parser="standalone", wrap=wrap)
    fingerprint, n = old.manifest()["fingerprint"], asked(tmp_path)
    assert answers(old) == {"A"}
    again = go(tmp_path, wrap=wrap)
    assert again.manifest()["fingerprint"] == fingerprint
    assert (parser(again), asked(tmp_path)) == ("standalone", n)
    longer = go(tmp_path, limit=40, wrap=wrap)
    assert (parser(longer), answers(longer)) == ("standalone", {"A"})
    assert asked(tmp_path) > n


def test_a_new_folder_reads_with_the_options_in_view(tmp_path: Path) -> None:
    found = go(tmp_path)
    assert (parser(found), answers(found)) == ("options_aware", {"B"})


def test_another_parser_than_the_folder_s_is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    go(tmp_path, parser="standalone")
    with pytest.raises(StoreError, match="victim 'v' changed"):
        go(tmp_path, parser="options_aware")


@pytest.mark.parametrize(
    ("parser", "in_turns"),
    [("standalone", "exact"), ("options_aware", "options_aware"), ("first_four", "first_four")],
)
def test_conversations_read_with_the_victim_s_parser_and_older_ones_the_bare_letter(
    parser: str, in_turns: str
) -> None:
    own = MultipleChoice(template=load_template("qstab"), parser=parser)
    victim = Victim(label="v", task=own, backend=MockBackend())
    asked = victim_of(victim, MedFuzz(), "d", tiny_questions(1)[0], 0, 0)
    assert isinstance(asked.task, Conversation)
    assert asked.task.parser == in_turns


def began_before_cut_replies_were_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let victims be made as they were then."""
    kept = partial(MultipleChoice, reading=Reading.WHOLE)
    monkeypatch.setattr("medstress.kinds.prompted.MultipleChoice", kept)


@pytest.mark.parametrize("wrap", [[], ["instructed"]])
def test_a_folder_that_began_before_cut_replies_were_known_goes_on_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: list[str]
) -> None:
    with monkeypatch.context() as then:
        began_before_cut_replies_were_known(then)
        old = go(tmp_path, wrap=wrap)
    n, victims = asked(tmp_path), old.manifest()["parts"]["victims"]
    assert reading_of(old.manifest()["victims"]["v"]["task"]) is Reading.WHOLE
    longer = go(tmp_path, limit=40, wrap=wrap)
    assert reading_of(longer.manifest()["victims"]["v"]["task"]) is Reading.WHOLE
    assert longer.manifest()["parts"]["victims"] == victims
    assert asked(tmp_path) > n
    (tmp_path / "new").mkdir()
    new = go(tmp_path / "new", wrap=wrap)
    assert reading_of(new.manifest()["victims"]["v"]["task"]) is Reading.FINISHED


@pytest.mark.parametrize(("reading", "most"), [(Reading.FINISHED, 250), (Reading.WHOLE, 96)])
def test_the_last_turns_of_a_conversation_are_as_long_as_the_victim_says_or_as_they_were(
    reading: Reading, most: int
) -> None:
    own = MultipleChoice(
        template=load_template("qstab"), reading=reading, decoding=Decoding(max_new_tokens=250)
    )
    victim = Victim(label="v", task=own, backend=MockBackend())
    asked = victim_of(victim, MedFuzz(), "d", tiny_questions(1)[0], 0, 0)
    assert isinstance(asked.task, Conversation)
    assert (asked.task.answer_tokens, asked.task.reading) == (most, reading)
