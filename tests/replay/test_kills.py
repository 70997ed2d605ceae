"""Every command that asks or writes, killed and begun again: the one table of kills.

Killed between its answers, a command ends like one that nobody killed: no answer that arrived is
bought again, and what is asked twice was in flight and is counted. Killed at a step of its own, it
leaves the old file or none, and is begun again.
"""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from fault_server import FaultServer, random_faults
from medstress.analyses.run import Run as Read
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.core.errors import StoreError
from medstress.experiment.room import make_room
from medstress.experiment.verify import verify_folder
from medstress.store.reviews import ReviewStore, stored_reviews
from medstress.store.shared_cache import FILE as CACHED
from medstress.store.shared_cache import SharedCache
from medstress.testing import tiny_questions
from question_rows import write_rows
from workbench import questions

# -- between answers -------------------------------------------------------------------------------

MODELS = '''
"""Models that log what they are given in one write, and take their time."""

import hashlib
import json
import os
import re
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


def _lucky(prompt):
    """Right for most prompts; wrong or unreadable where a hash of the prompt says so."""
    luck = hashlib.sha256(prompt.encode()).digest()[0]
    number = int(re.search("case[ \\n]+([0-9]+)", prompt)[1])
    return "no idea" if luck < 12 else "ABCD"[(number + (luck < 60)) % 4]


def _tags(sentence):
    return ["B-Chemical" if word in ("aspirin", "warfarin") else "O" for word in sentence]


def _overlap(a, b):
    return len(set(zip(a, a[1:])) & set(zip(b, b[1:]))) / 20


lucky = _slow("victim", lambda prompts: [_lucky(prompt) for prompt in prompts])
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
    """An experiment, and the command that is killed; `{out}` is its folder."""

    data: str
    target: str
    batch: int
    attacks: tuple[dict, ...]
    words: tuple[str, ...] = ("run", "e.toml", "--out", "{out}")
    is_later: bool = False
    """Whether the command is about a finished run."""
    roles: tuple[tuple[str, str], ...] = ()
    names: str | None = None
    wrap: tuple[str, ...] = ()
    settings: tuple[tuple[str, object], ...] = (("controls", False),)
    tune: tuple[tuple[str, object], ...] = ()
    least: int = 60
    """The calls are more."""

    @property
    def in_flight(self):
        """Calls that may be on their way at a kill: those of the victim and of each role, and as
        many that were answered and not stored."""
        return self.batch * (4 if self.roles and not self.is_later else 1)

    def given(self, out):
        return [word.format(out=out) for word in self.words]

    def tables(self):
        backend = {"backend": "python", "batch_size": self.batch}
        names = {"type": "drugs", "vocabulary": self.names, "embedding": "ngram"}
        kind = {"iob": "iob", "tsv": "pairs"}.get(self.data.partition(".")[2], "table")
        return {
            "experiment": {"name": "killed", "seeds": [0], **dict(self.settings)},
            "dataset": [{"name": kind, "path": self.data}],
            "entities": [names] if self.names else [],
            "victim": [{**backend, "target": f"models.py:{self.target}", "wrap": [*self.wrap]}],
            **{f"role.{n}": {**backend, "target": f"models.py:{one}"} for n, one in self.roles},
            "attack": list(self.attacks),
            **({"tune": dict(self.tune)} if self.tune else {}),
        }


SWAPS = {"name": "swap_noise", "scope": "all"}
KEYS = {"name": "keyboard_noise", "label": "search", "scope": "all", "budget": 6}
FUZZ = {"name": "medfuzz"}
NAMES = {"name": "entity_substitution", "budget": 4}
TWO_SEEDS = ("seeds", [0, 1])
QUESTIONS = {"data": "cases.jsonl", "target": "lucky", "batch": 3, "names": "forty.txt"}
CASES = {
    "run": Case(
        **QUESTIONS,
        attacks=({**NAMES, "sampler": "pdws", "n": -5}, {**NAMES, "sampler": "nearest"}),
        settings=(("controls", ["no_op"]), TWO_SEEDS),
    ),
    "run --shard": Case(
        **QUESTIONS,
        attacks=({**NAMES, "sampler": "random"}, {**NAMES, "sampler": "nearest"}),
        words=("run", "e.toml", "--out", "{out}", "--shard", "1/2"),
        settings=(("controls", ["no_op"]), TWO_SEEDS),
    ),
    "run, wrapped": Case(
        **QUESTIONS,
        attacks=({**NAMES, "sampler": "random"}, {**NAMES, "sampler": "nearest"}),
        wrap=("majority", "instructed"),
    ),
    "run of repeats": Case(
        data="cases.jsonl", target="lucky", batch=3, attacks=({"name": "repeat", "budget": 12},)
    ),
    "tune": Case(
        **QUESTIONS,
        attacks=(NAMES,),
        words=("tune", "e.toml", "--out", "{out}"),
        tune=(("grid", [-30, -5, 5, 30]), ("share", 0.4)),
        least=40,
    ),
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
        names="names.txt",
        words=("explain", "{out}", "--experiment", "e.toml", "--all", "--limit", "1"),
        is_later=True,
    ),
    "test": Case(
        data="three.jsonl",
        target="keeper",
        batch=16,
        attacks=({**FUZZ, "attempts": 2, "runs": 1, "exemplars": 0},),
        roles=(("attacker", "writer"),),
        words=("test", "{out}", "--experiment", "e.toml", "--set", "test.max_calls=400"),
        is_later=True,
        # Two successes: loops go on until no other could be paid to its end.
        least=2 * 400 - 5 * (2 + 20),
    ),
}
IN_CI = ("run", "run --shard", "tune", "explain", "test")
WEEKLY = {"run": (14, 7), "run of conversations": (1, 20), "test": (1, 20)}
"""Folders of a case, and kills of each, of `make kills`; of others one and four."""


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


@pytest.fixture(scope="session")
def inputs(workbench, tmp_path_factory):
    """A folder with the data of all cases and their models."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "models.py").write_text(MODELS, "utf-8")
    (folder / "names.txt").write_text("trapicin\ncalmol\nsoftine\n", "utf-8")
    (folder / "forty.txt").write_text("\n".join(workbench.NAMES), "utf-8")
    data = {"traps": traps(), "three": tiny_questions(3), "six": tiny_questions(6)}
    for name, rows in (data | {"cases": workbench.questions(12)}).items():
        write_rows(folder / f"{name}.jsonl", rows)
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
    if case.is_later:
        workbench.finished(folder, ["run", "e.toml", "--out", "whole"], "run.log")
        shutil.copytree(folder / "whole", folder / "broken")
    workbench.finished(folder, case.given("whole"), "whole.log")
    return workbench.logged(folder, "whole.log")


def kill_once(process, enough, seconds=240.0):
    """Kill a process at the moment at which something holds."""
    deadline = time.monotonic() + seconds
    try:
        while not enough() and process.poll() is None:
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.01)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("name", "n_kills", "seed"),
    [
        *(pytest.param(name, 1, "", marks=pytest.mark.kills(name)) for name in IN_CI),
        *(
            pytest.param(name, n, seed, marks=[pytest.mark.kills, pytest.mark.timeout(1800)])
            for name in CASES
            for folders, n in [WEEKLY.get(name, (1, 4))]
            for seed in range(folders)
        ),
    ],
)
def test_killed_between_answers_a_command_asks_again_only_what_was_in_flight(
    workbench, inputs, tmp_path, name, n_kills, seed
):
    case, luck = CASES[name], random.Random(f"{name}{seed}")
    whole = prepared(workbench, inputs, tmp_path, case)
    assert whole.total() > case.least
    for number in range(n_kills):
        process = workbench.start(tmp_path, case.given("broken"), "broken.log", 0.03)
        wanted = (number + luck.random()) * whole.total() // n_kills  # before the last question
        wanted = max(wanted, workbench.n_logged(tmp_path / "broken.log") + 1)
        kill_once(process, lambda n=wanted: workbench.n_logged(tmp_path / "broken.log") >= n)
        assert list((tmp_path / "tmp").iterdir()) == []
        if case.is_later:
            warnings = Run(tmp_path / "broken").summary()["warnings"]
            assert "unfinished" in [one["rule"] for one in warnings]
    workbench.finished(tmp_path, case.given("broken"), "broken.log")
    folders = [path.parent for path in sorted((tmp_path / "whole").rglob("run.sqlite"))]
    n_interrupted = 0
    for folder in folders:
        broken = tmp_path / "broken" / folder.relative_to(tmp_path / "whole")
        summaries = [Run(out).summary() for out in (broken, folder)]
        assert workbench.numbers(summaries[0]) == workbench.numbers(summaries[1])
        n_interrupted += workbench.ledger(summaries[0])["interrupted"]
        assert n_kills == 1 or verify_folder(broken).broken is None
    asked = workbench.logged(tmp_path, "broken.log")
    assert asked.keys() == whole.keys()
    assert asked.total() - whole.total() <= n_interrupted <= n_kills * case.in_flight


FAULTS = ("late", "429", "429_retry_after", "500", "503", "drop", "half_json")


def key_of_case(prompt: str) -> str:
    """Right, and wrong where a name in the prompt ends in a."""
    number = int(re.search(r"case ([0-9]+)", prompt)[1])
    return "ABCD"[(number + ("hepimycin" in prompt)) % 4]


@pytest.mark.parametrize(
    ("faulty", "n_kills"),
    [
        pytest.param(0.0, 1, marks=pytest.mark.kills("run, on a server")),
        pytest.param(0.3, 8, marks=[pytest.mark.kills, pytest.mark.timeout(600)]),
    ],
)
def test_of_a_server_at_most_the_calls_in_flight_are_bought_again(
    small, workbench, faulty, n_kills
):
    small.tables["attack"] = [small.attack("farthest")]

    def bought():
        return sum(asked.answered for asked in server.log)

    with FaultServer(answer=key_of_case, seconds=0.01, late=0.1, retry_after=0.01) as server:
        place = {"backend": "openai", "base_url": server.url, "model": server.model}
        small.tables["victim"] = [{"name": "served", **place, "max_in_flight": 4}]
        whole = small.root / "whole"
        assert small.run(out=whole) == 0
        n_whole = len(server.log)
        server.faults = random_faults(faulty, FAULTS)
        for number in range(1, n_kills + 1):
            wanted = n_whole + n_whole * number // (n_kills + 1)
            kill_once(small.start(), lambda n=wanted: bought() >= n)
        server.seconds = 0.0
        assert small.run() == 0
        n_again = bought() - n_whole - Run(small.out).summary()["performance"]["calls"]
    interrupted = workbench.ledger(small.summary())["interrupted"]
    assert small.summary()["root"] == small.summary(whole)["root"]
    assert 1 <= interrupted <= 4 * n_kills
    assert 0 <= n_again <= interrupted


# -- at a step -------------------------------------------------------------------------------------


@pytest.fixture
def small(bench, workbench):
    """Six questions and one attack."""
    bench.write_items(workbench.questions(6))
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = bench.tables["attack"][:1]
    return bench


def held(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def of_run(bench):
    """A commit is lost, and what it held is asked again; the log may end in half a page."""
    assert bench.run(out=bench.root / "whole") == 0
    n_calls, luck = len(bench.received()), random.Random(0)

    def left():
        log = bench.out / "run.sqlite-wal"
        if log.exists():
            with log.open("r+b") as stream:
                stream.truncate(max(0, log.stat().st_size - luck.randint(0, 4000)))

    yield bench.arguments("--shard", "1/1"), left
    assert len(bench.received()) - 2 * n_calls <= 4 * 2 * 3
    merged = bench.root / "merged"
    assert medstress_cli(["merge", str(bench.out), "--out", str(merged), "--quiet"]) == 0
    assert bench.run(out=merged) == 0
    assert verify_folder(merged).holds
    assert bench.summary(merged)["root"] == bench.summary(bench.root / "whole")["root"]


def of_tune(bench):
    """Both runs go on, which were killed before their first commit."""
    bench.tables["tune"] = {"grid": [-5, 5], "share": 0.5}
    bench.tables["attack"] = [NAMES]
    bench.write_items(questions(24))
    arguments, whole = ["tune", str(bench.write()), "--quiet", "--out"], bench.root / "whole"
    assert medstress_cli([*arguments, str(whole)]) == 0

    def left():
        assert not (bench.out / "tune.json").exists()

    yield [*arguments, str(bench.out)], left
    assert bench.summary()["root"] == bench.summary(whole)["root"]


def of_merge(bench):
    """There is no run before it is whole, and the shards stay as they are."""
    assert bench.run() == 0
    shards = [bench.root / str(number) for number in (1, 2)]
    for number, folder in enumerate(shards, 1):
        assert bench.run("--shard", f"{number}/2", out=folder) == 0
    # As a process leaves them that is killed before it closes the file.
    names = ("run.sqlite", "run.sqlite-wal")
    with closing(sqlite3.connect(shards[1] / names[0], isolation_level=None)) as db:
        db.execute("INSERT INTO interrupted VALUES (x'00', 0)")
        db.execute("DELETE FROM interrupted WHERE trial = 0")
        data = [(shards[1] / name).read_bytes() for name in names]
    for name, one in zip(names, data, strict=True):
        (shards[1] / name).write_bytes(one)
    before, merged = [held(folder) for folder in shards], bench.root / "merged"

    def left():
        with pytest.raises(StoreError):
            Run(merged).summary()

    yield ["merge", *map(str, shards), "--out", str(merged)], left
    assert [held(folder) for folder in shards] == before
    assert bench.run(out=merged) == 0
    assert verify_folder(merged).holds
    assert bench.summary(merged)["root"] == bench.summary()["root"]


def of_import(bench):
    """All answers of a rater are stored, or none."""
    assert bench.run() == 0
    with ReviewStore(bench.out) as store:
        room = make_room(Read.open(bench.out), store)
    verdict = {"answers": {"key_right": "yes"}, "note": "", "time": "2026-01-31T09:30:00+00:00"}
    verdicts = [{"case": case, **verdict} for case in room.cases]
    sent = bench.root / "anna.json"
    given = {"format": 1, "room": room.id, "rater": "Anna", "verdicts": verdicts}
    sent.write_text(json.dumps(given), "utf-8")

    def left():
        assert stored_reviews(bench.out) == []

    yield ["review", str(bench.out), "--import", str(sent)], left
    assert len({one.case_id for one in stored_reviews(bench.out)}) == len(verdicts) > 0
    assert verify_folder(bench.out).holds


def of_verify(bench):
    """It changes nothing."""
    assert bench.run() == 0
    before = held(bench.out)

    def left():
        assert held(bench.out) == before

    yield ["verify", str(bench.out)], left
    left()


def of_demo(bench):
    """Its run goes on, and there is no half of a page; the model is one that takes no minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEMO", str(bench.write()))
        patch.setattr("medstress.experiment.first.demo", bench.write)
        assert bench.run(out=bench.root / "whole") == 0
        n_calls, page = len(bench.received()), bench.out / "report.html"

        def left():
            assert not page.exists()

        yield ["demo", "--out", str(bench.out), "--quiet"], left
    assert page.read_text("utf-8").endswith("</html>")
    assert len(bench.received()) - 2 * n_calls <= 3
    assert bench.summary()["root"] == bench.summary(bench.root / "whole")["root"]


def of_prune(bench):
    """What is damaged is removed at once or not at all, and what is sound stays."""
    bench.tables["experiment"]["cache"] = "default"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDSTRESS_CACHE", str(bench.root))
        assert bench.run() == 0
        folder, sound = bench.root / "answers", ledger_keys(bench.out)
        kept = sound - set(sorted(sound)[:3])
        with closing(sqlite3.connect(folder / CACHED, isolation_level=None)) as db:
            least = "SELECT key FROM answers ORDER BY key LIMIT 3"
            db.execute(f"UPDATE answers SET tokens_in = 9 WHERE key IN ({least})")
            # As a process leaves its files that is killed in mid-commit.
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM answers")
            data = held(folder)
            db.execute("ROLLBACK")
        for name, one in data.items():
            (folder / name).write_bytes(one)
        assert len(data) == 2

        def left():
            assert ledger_keys(folder, CACHED) in (sound, kept)

        yield ["cache", "prune"], left
    assert ledger_keys(folder, CACHED) == kept


def of_figures(bench):
    """Every file is that of an earlier call or the new one."""
    assert bench.run() == 0
    whole, to = bench.root / "figures", bench.root / "written"
    arguments = ["figures", str(bench.out), "--format", "svg", "--out"]
    assert medstress_cli([*arguments, str(whole)]) == 0
    shutil.copytree(whole, to)
    new = held(whole)
    old = {name: data + b"\n" for name, data in new.items()}
    for name, data in old.items():
        (to / name).write_bytes(data)

    def left():
        found = held(to)
        assert all(found[name] in (old[name], new[name]) for name in new)

    yield [*arguments, str(to)], left
    assert new.items() <= held(to).items()


def writing(*words, ending="jsonl", flag="--to", old=b"the rows of an earlier call"):
    """A command that writes one file leaves the old one there, or none."""

    def story(bench):
        assert bench.run() == 0
        places = {"out": bench.out, "experiment": bench.write(), "root": bench.root}
        shutil.copytree(bench.out, bench.root / "twin")
        arguments = [word.format(**places) for word in words]
        whole, to = (bench.root / name / f"rows.{ending}" for name in ("whole", "written"))
        for path in (whole, to):
            path.parent.mkdir()
        assert medstress_cli([*arguments, flag, str(whole)]) == 0
        if old is not None:
            to.write_bytes(old)

        def left():
            assert (to.read_bytes() if to.exists() else None) == old

        yield [*arguments, flag, str(to)], left
        assert to.read_bytes() == whole.read_bytes()

    return story


STORE, WRITING = "medstress.store", "medstress.core.writing"
WRITTEN = [(f"{WRITING}._sync", 1, "before"), ("os.fsync", 1, "after")]
GIVEN = "entities.recogniser=given"
STEPS = {
    "run, in mid-commit": (
        of_run,
        [(f"{STORE}.database.link", 2, "before"), (f"{STORE}.database.link", 6, "after")],
    ),
    "tune, before a first commit": (of_tune, []),
    "merge": (
        of_merge,
        [
            ("medstress.experiment.merging.read_shard", 2, "before"),
            (f"{STORE}.shards._copy", 1, "after"),
            (f"{STORE}.shards.link", 1, "after"),
            (f"{WRITING}._sync", 1, "after"),
        ],
    ),
    "demo": (of_demo, [(f"{STORE}.database.link", 3, "before")]),
    "cache prune": (of_prune, [(f"{STORE}.shared_cache.SharedCache.remove", 1, "before")]),
    "figures": (of_figures, [("medstress.report.figures.write_bytes", 3, "after")]),
    "review --export": (writing("review", "{out}", ending="html", flag="--export"), WRITTEN[:1]),
    "review --import": (of_import, [(f"{STORE}.reviews._add", 1, "after")]),
    "verify": (
        of_verify,
        [
            (f"{STORE}.opening._check_pages", 1, "after"),
            (f"{STORE}.chain._hash_next", 1, "after"),
            (f"{STORE}.chain.exchanges_digest", 1, "before"),
        ],
    ),
    "run --dry-run": (
        writing("run", "{experiment}", "--dry-run", "--quiet", ending="toml", old=None),
        WRITTEN[:1],
    ),
    "compare": (
        writing("compare", "{out}", "{root}/twin", ending="xml", flag="--junit"),
        WRITTEN[:1],
    ),
    "perturb": (writing("perturb", "{experiment}", "--quiet"), WRITTEN),
    "check --to": (writing("check", "{root}/items.jsonl", "--set", GIVEN), WRITTEN),
    "report": (writing("report", "{out}", ending="html", flag="--out"), WRITTEN),
    "summary --junit": (writing("summary", "{out}", ending="xml", flag="--junit"), WRITTEN),
    "export": (
        writing("export", "{out}", "--table", "trials", ending="csv"),
        [("medstress.core.frames.neutral", 99, "after"), *WRITTEN],
    ),
}

MORE_STEPS = {
    "demo": [("medstress.report.page.report", 1, "before")],
    "figures": [(f"{WRITING}._sync", 2, "before")],
    "cache prune": [(f"{STORE}.shared_cache.SharedCache.remove", 1, "after")],
    **dict.fromkeys(("review --export", "run --dry-run", "compare"), WRITTEN[1:]),
    "tune, before a first commit": [
        ("medstress.experiment.run._open", n, "before") for n in (1, 2)
    ],
    "run, in mid-commit": [
        (f"{STORE}.database.link", n, when) for n in (1, 2, 4, 6) for when in ("before", "after")
    ],
    "merge": [
        ("medstress.experiment.merging.read_shard", 1, "before"),
        (f"{STORE}.shards._copy", 2, "after"),
        (f"{WRITING}._sync", 1, "before"),
    ],
}
"""Of `make kills`."""


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        *(
            pytest.param(name, steps, id=name, marks=pytest.mark.kills(name))
            for name, (_, steps) in STEPS.items()
            if steps
        ),
        *(
            pytest.param(name, steps, id=f"{name}, more", marks=pytest.mark.kills)
            for name, steps in MORE_STEPS.items()
        ),
    ],
)
def test_killed_at_a_step_a_command_leaves_nothing_half_done(small, workbench, name, steps):
    told = STEPS[name][0](small)
    arguments, left = next(told)
    environment = small.environment() | workbench.temporary(small.root)
    for step in steps:
        how = (*step, environment, arguments)
        process = workbench.FORKS.Process(target=workbench.die, args=how)
        process.start()
        process.join(240)
        assert process.exitcode == -signal.SIGKILL, step
        assert list((small.root / "tmp").iterdir()) == []
        left()
    assert medstress_cli(arguments) == 0
    assert next(told, None) is None


# -- answers that runs share -----------------------------------------------------------------------


def ledger_keys(folder, file="run.sqlite"):
    with closing(sqlite3.connect(folder / file)) as db:
        return {key for (key,) in db.execute("SELECT key FROM answers")}


@pytest.mark.kills
def test_after_a_kill_the_cache_gets_what_the_ledger_holds(small):
    small.tables["experiment"]["cache"] = "shared"
    shared, other = small.root / "shared", small.root / "other"
    kill_once(small.start(delay=0.1), lambda: len(small.received()) >= 9)
    # As whoever looks at the dead run's files would find them; the cache waits for seconds.
    assert ledger_keys(small.out) - ledger_keys(shared, CACHED)
    before = len(small.received())
    assert small.run() == 0
    assert len(small.received()) > before
    assert ledger_keys(shared, CACHED) == ledger_keys(small.out)
    n = len(small.received())
    assert small.run(out=other) == 0
    assert len(small.received()) == n
    n_cached = small.summary(other)["performance"]["calls_from_cache"]
    assert n_cached == len(ledger_keys(small.out))


def test_a_run_fills_a_cache_with_what_it_computed_here_and_with_no_other(small, monkeypatch):
    assert small.run() == 0
    n, other = len(small.received()), small.root / "other"
    filled = [("shared", small.out), ("shared", other), ("second", other), ("third", small.out)]
    for cache, out in filled:
        if cache == "third":  # as of a stranger's run
            monkeypatch.setenv("MEDSTRESS_STATE", str(small.root / "state"))
        small.tables["experiment"]["cache"] = cache
        assert small.run(out=out) == 0
    assert len(small.received()) == n
    assert ledger_keys(small.root / "shared", CACHED) == ledger_keys(small.out)
    assert not any(ledger_keys(small.root / name, CACHED) for name in ("second", "third"))
    with closing(SharedCache(small.root / "shared")) as cache:
        (model,) = cache.models()
        assert (model.model, model.n, cache.damaged()) == ("victim.py:answer", n, [])
        assert model.seconds_per_call > 0


def test_answers_of_a_role_are_kept_under_the_models_own_name(workbench, inputs, tmp_path):
    case, names = CASES["run of conversations"], ("target", "attacker", "judge")
    prepared(workbench, inputs, tmp_path, case)
    tables = case.tables()
    tables["experiment"]["cache"] = "shared"
    (tmp_path / "e.toml").write_text(workbench.toml(tables), "utf-8")
    workbench.finished(tmp_path, case.given("whole"))
    with closing(SharedCache(tmp_path / "shared")) as cache:
        found = {model.model: model.n for model in cache.models()}
    assert found.keys() == {f"models.py:{name}" for name in names}
    asked = Run(tmp_path / "whole").summary()["performance"]["spending"]
    assert sorted(found.values()) == sorted(one["calls"] for one in asked)


# -- the review room -------------------------------------------------------------------------------


@contextmanager
def served(folder):
    """The address of a room in a process of its own, and the process; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "medstress", "review", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "BROWSER": "true"},
    )
    try:
        lines = (re.match(r"(http://127\.0\.0\.1:\d+/\S+/) ", line) for line in process.stdout)
        yield next(filter(None, lines))[1], process
    finally:
        process.kill()
        process.communicate()


def post(address, path, body):
    request = urllib.request.Request(
        f"{address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


@pytest.mark.kills("review")
def test_a_room_that_is_killed_keeps_what_it_had_confirmed(small):
    assert small.run() == 0
    with served(small.out) as (address, process):
        with urllib.request.urlopen(address, timeout=30) as answer:
            page = json.loads(re.search(r'id="data">(.*?)</script>', answer.read().decode())[1])
        words = {one["id"]: "no" if n == 0 else "yes" for n, one in enumerate(page["cases"])}
        post(address, "start", {"rater": "Anna"})
        for case, word in words.items():
            judged = {"case": case, "answers": {"key_right": word}, "note": ""}
            post(address, "verdict", {"rater": "Anna", **judged})
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    kept = {one.case_id: one.answers["key_right"] for one in stored_reviews(small.out)}
    assert kept == words
    with served(small.out) as (address, _):
        saved = post(address, "start", {"rater": "anna"})["saved"]
    assert {case: one["answers"]["key_right"] for case, one in saved.items()} == words
