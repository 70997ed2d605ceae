"""Commands that ask, killed between their answers and begun again: one table of them.

No answer that arrived is bought again; what is asked twice was in flight at a kill, and is counted.
"""

import json
import os
import shutil
import signal
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass

import pytest

from medstress.api.run import Run
from medstress.store.reader import RunReader
from medstress.testing import tiny_questions

MODELS = '''
"""Models that log what they are given in one write, and take their time."""

import hashlib
import json
import os
import time

from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(6)
EDITS = ["He works as a clerk.", "!Gone.", "He is a farmer or a teacher."]
LIGHTHOUSE = {"tiny-0": "lighthouse", "tiny-2": "lighthouse"}


def _slow(role, model):
    def answer(given):
        lines = "".join(json.dumps([role, each]) + "\\n" for each in given)
        descriptor = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, lines.encode())
        os.close(descriptor)
        time.sleep(float(os.environ.get("DELAY", "0")))
        return model(given)

    return answer


def _trapped(prompt):
    if "trapicin" in prompt:
        return "D"
    luck = hashlib.sha256(prompt.encode()).digest()[0] / 1000
    return {"scores": {"A": 0.7, "B": luck, "C": 0.1, "D": 0.1}}


def _tags(sentence):
    return ["B-Chemical" if word in ("aspirin", "warfarin") else "O" for word in sentence]


def _overlap(a, b):
    return len(set(zip(a, a[1:])) & set(zip(b, b[1:]))) / 20


trapped = _slow("victim", lambda prompts: [_trapped(prompt) for prompt in prompts])
tags = _slow("victim", lambda sentences: [_tags(sentence) for sentence in sentences])
overlap = _slow("victim", lambda pairs: [_overlap(a, b) for a, b in pairs])
target = _slow(
    "target", rule_target(ITEMS, {"tiny-0": "teacher", "tiny-3": "farmer"}, wrong=["tiny-5"])
)
attacker = _slow("attacker", scripted_attacker(ITEMS, EDITS))
judge = _slow("judge", scripted_judge(ITEMS))
keeper = _slow("target", rule_target(ITEMS[:3], LIGHTHOUSE))
writer = _slow(
    "attacker",
    scripted_attacker(ITEMS[:3], ["He lives and keeps an old lighthouse by the sea."]),
)
'''


@dataclass(frozen=True)
class Case:
    """An experiment, and the command on its run that is killed; without one, the run itself."""

    data: str
    target: str
    batch: int
    attacks: tuple[dict, ...]
    command: tuple[str, ...] = ()
    roles: tuple[tuple[str, str], ...] = ()
    entities: bool = False
    settings: tuple[tuple[str, object], ...] = (("controls", False),)
    least: int = 60
    """The calls are more."""

    @property
    def in_flight(self):
        """Calls that may be on their way at a kill: those of the victim and of each role, and as
        many that were answered and not stored."""
        return self.batch * (1 if not self.roles or self.command else 4)

    def words(self, out):
        name, *rest = self.command or ("run",)
        return [name, out, *rest] if self.command else ["run", "e.toml", "--out", out]

    def tables(self):
        backend = {"backend": "python", "batch_size": self.batch}
        names = {"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"}
        kind = {"iob": "iob", "tsv": "pairs"}.get(self.data.partition(".")[2], "table")
        return {
            "experiment": {"name": "killed", "seeds": [0], **dict(self.settings)},
            "dataset": [{"name": kind, "path": self.data}],
            "entities": [names] if self.entities else [],
            "victim": [{**backend, "target": f"models.py:{self.target}"}],
            **{f"role.{n}": {**backend, "target": f"models.py:{one}"} for n, one in self.roles},
            "attack": list(self.attacks),
        }


SWAPS = {"name": "swap_noise", "scope": "all"}
KEYS = {"name": "keyboard_noise", "label": "search", "scope": "all", "budget": 6}
FUZZ = {"name": "medfuzz"}
TWO_SEEDS = ("seeds", [0, 1])
CASES = {
    "run on sentences": Case(
        data="data.iob",
        target="tags",
        batch=4,
        attacks=(SWAPS, {**KEYS, "search": "greedy"}),
        settings=(("controls", True), TWO_SEEDS),
    ),
    "run on pairs": Case(
        data="pairs.tsv",
        target="overlap",
        batch=4,
        attacks=(SWAPS, {**KEYS, "search": "random", "max_change": 0.1, "side": "random"}),
        settings=(("controls", False), TWO_SEEDS),
    ),
    "run of conversations": Case(
        data="six.jsonl",
        target="target",
        batch=2,
        attacks=({**FUZZ, "attempts": 3, "runs": 2},),
        roles=(("attacker", "attacker"), ("judge", "judge")),
        least=100,
    ),
    "explain": Case(
        data="traps.jsonl",
        target="trapped",
        batch=8,
        attacks=({"name": "entity_substitution", "sampler": "random", "budget": 2},),
        entities=True,
        command=("explain", "--experiment", "e.toml", "--all", "--limit", "1"),
    ),
    "test": Case(
        data="three.jsonl",
        target="keeper",
        batch=16,
        attacks=({**FUZZ, "attempts": 2, "runs": 1, "exemplars": 0},),
        roles=(("attacker", "writer"),),
        command=("test", "--experiment", "e.toml", "--set", "test.max_calls=400"),
        # Two successes: loops go on until no other could be paid to its end.
        least=2 * 400 - 5 * (2 + 20),
    ),
}
IN_CI = ("run on sentences", "explain", "test")


def traps():
    options = ["torazumab", "ulozumab", "vexizumab", "warazumab"]
    spans = [
        {"field": letter, "start": 0, "end": len(text), "type": "T121"}
        for letter, text in zip("ABCD", options, strict=True)
    ]
    for i in range(3):
        stem = f"What treats case {i}, which came back again and again?"
        item = {"id": f"q{i}", "context": "", "stem": stem, "options": options}
        yield {**item, "answer_idx": "A", "mentions": spans}


def fuzzed(n):
    for q in tiny_questions(n):
        parts = {"id": q.id, "context": q.context, "stem": q.stem}
        yield {**parts, "options": q.options, "answer": q.key}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """A folder with the data of all cases and their models."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "models.py").write_text(MODELS, "utf-8")
    (folder / "names.txt").write_text("trapicin\ncalmol\nsoftine\n", "utf-8")
    for name, rows in (("traps", traps()), ("three", fuzzed(3)), ("six", fuzzed(6))):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, "utf-8")
    names = ("aspirin", "warfarin", "naproxen")
    sentences = (
        f"Patient\tO\nn{n}\tO\nreceived\tO\n{names[n % 3]}\tB-Chemical\nagainst\tO\nfever\tO\n"
        for n in range(20)
    )
    (folder / "data.iob").write_text("\n".join(sentences), "utf-8")
    pairs = (f"p{n}\tpatient {n} received warfarin\tfever of {n}\t{n % 5}\n" for n in range(12))
    (folder / "pairs.tsv").write_text("id\ttext_a\ttext_b\tscore\n" + "".join(pairs), "utf-8")
    return folder


def prepared(workbench, inputs, folder, case):
    """Write the experiment of a case, and ask all of it without a kill; return what was asked."""
    shutil.copytree(inputs, folder, dirs_exist_ok=True)
    (folder / "e.toml").write_text(workbench.toml(case.tables()), "utf-8")
    if case.command:
        workbench.finished(folder, ["run", "e.toml", "--out", "whole"], "run.log")
        shutil.copytree(folder / "whole", folder / "broken")
    workbench.finished(folder, case.words("whole"), "whole.log")
    return workbench.logged(folder, "whole.log")


@pytest.mark.parametrize(
    ("name", "n_kills"),
    [
        *(pytest.param(name, 1, marks=pytest.mark.kills(name)) for name in IN_CI),
        *(pytest.param(name, 2, marks=pytest.mark.kills) for name in CASES),
    ],
)
def test_killed_between_answers_a_command_asks_again_only_what_was_in_flight(
    workbench, inputs, tmp_path, name, n_kills
):
    case = CASES[name]
    whole = prepared(workbench, inputs, tmp_path, case)
    assert whole.total() > case.least
    for number in range(n_kills):
        process = workbench.start(tmp_path, case.words("broken"), "broken.log", 0.03)
        wanted = (number + 1) * whole.total() // (n_kills + 2)
        while workbench.n_logged(tmp_path / "broken.log") < wanted and process.poll() is None:
            time.sleep(0.01)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        assert list((tmp_path / "tmp").iterdir()) == []
    workbench.finished(tmp_path, case.words("broken"), "broken.log")
    summaries = [Run(tmp_path / out).summary() for out in ("broken", "whole")]
    broken, unbroken = map(workbench.numbers, summaries)
    assert broken == unbroken
    asked = workbench.logged(tmp_path, "broken.log")
    assert asked.keys() == whole.keys()
    n_interrupted = workbench.ledger(summaries[0])["interrupted"]
    assert asked.total() - whole.total() <= n_interrupted <= n_kills * case.in_flight


def test_every_turn_is_stored_with_its_role_and_can_be_read_back(workbench, inputs, tmp_path):
    prepared(workbench, inputs, tmp_path, CASES["run of conversations"])
    with closing(RunReader(tmp_path / "whole")) as reader:
        stored = [one for one in reader.exchanges() if one.role == "victim"]
    assert all(one.request is not None and one.answer is not None for one in stored)
    turns = Counter(one.call for one in stored)
    assert turns[0] == turns[1] == turns[2] > 0
    n = Run(tmp_path / "whole").export("exchanges", tmp_path / "exchanges.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "exchanges.jsonl").read_text().splitlines()]
    assert len(rows) == n
    assert {row["role"] for row in rows} == {"victim", "attacker", "judge"}
    assert all(row["prompt"] for row in rows)
