"""`[analysis]` from end to end: planted victims whose answers are known before they are asked."""

import json
import shutil
from collections import Counter

import pytest

from medstress.api.run import Run, run
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.experiment.follow_ups import replacements
from medstress.experiment.verify import verify_folder
from medstress.testing import PerturbationTable, tiny_resources
from rows import rows_of

PLANTED = '''
"""Right, but where an option that was changed ends in one of the victim's weak endings."""

import json
import os
import re


def answer(prompts):
    log = os.environ.get("VICTIM_LOG")
    if log:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        lines = "".join(json.dumps([os.getpid(), prompt]) + "\\n" for prompt in prompts)
        os.write(descriptor, lines.encode())
        os.close(descriptor)
    if os.environ.get("VICTIM_FAILS"):
        raise RuntimeError("away")
    return [_answer(prompt) for prompt in prompts]


def _answer(prompt):
    key = "ABCD"[int(re.search(r"case ([0-9]+)", prompt)[1]) % 4]
    weak = any(line.endswith(WEAK) for line in prompt.splitlines())
    return {"answer": "ABCD"["BCDA".index(key)] if weak else key}
'''


def planted(bench):
    """Victim `one` falls for -statin and -olol, `other` for -statin alone."""
    bench.embed_words()
    for name, weak in (("one", ("statin", "olol")), ("other", ("statin",))):
        (bench.root / f"{name}.py").write_text(f"WEAK = {weak!r}\n{PLANTED}", encoding="utf-8")
    bench.tables["victim"] = [
        {"name": name, "backend": "python", "target": f"{name}.py:answer", "parameters": n}
        for name, n in (("one", 1e8), ("other", 1e9))
    ]
    bench.tables["attack"] = [bench.attack("random", budget=8), bench.attack("nearest", budget=8)]
    bench.tables["analysis"] = {"transfer": True, "reuse": [1, 4]}
    return bench


@pytest.fixture
def two(bench):
    return planted(bench)


@pytest.fixture(scope="module")
def made(workbench, tmp_path_factory):
    """The run of both, made once."""
    return planted(workbench.Bench(tmp_path_factory.mktemp("analysed"))).finished()


@pytest.fixture
def done(made, two):
    """A copy of that run, which can go on."""
    shutil.copytree(made.root, two.root, dirs_exist_ok=True)
    return two


def test_transfer_of_planted_victims_is_what_their_weaknesses_say(made):
    rows = made.rows()
    table = {
        (row["attack"], row["source"], row["target"]): row
        for row in made.summary()["transfer"]["rows"]
    }
    for attack in ("random", "nearest"):
        flipped = [r for r in rows if (r.attack, r.victim, r.verdict) == (attack, "one", "flipped")]
        n = sum(row.replacement.endswith("statin") for row in flipped)
        cell = table[attack, "one", "other"]
        assert 0 < n < len(flipped)
        assert (cell["n_wrong"], cell["n_asked"], cell["n_right"]) == (n, *[len(flipped)] * 2)
        assert table[attack, "other", "one"]["transfer"]["value"] == 1
        assert table[attack, "one", "one"]["transfer"]["value"] == 1


def test_analyses_are_in_the_ledger_under_other_and_leave_the_trials_alone(done):
    two, with_analysis = done, Run(done.out)
    told = with_analysis.read().folder.inquiries
    summary = with_analysis.summary()
    del two.tables["analysis"]
    without = run(two.write(), two.root / "without")
    assert rows_of(with_analysis) == rows_of(without)
    plain = without.summary()
    n_asked = sum(len(one.outcomes) for one in told)
    others = [sum(row["queries"]["other"] for row in s["by_seed"]) for s in (summary, plain)]
    assert others[0] - others[1] == n_asked > 0
    for row, same in zip(summary["by_seed"], plain["by_seed"], strict=True):
        assert {**row, "queries": 0} == {**same, "queries": 0}
        for name in ("asked", "paid", "cached", "failed", "baseline"):
            assert row["queries"][name] == same["queries"][name]
    path = two.root / "exchanges.jsonl"
    with_analysis.export("exchanges", path)
    purposes = Counter(json.loads(line)["purpose"] for line in path.read_text().splitlines())
    assert purposes["transfer"] + purposes["reuse"] == n_asked


def analyses_of(summary):
    """What the summary says of what was asked after the trials."""
    return {name: summary[name] for name in ("transfer", "reuse", "scaling")}


def test_asked_again_nothing_is_bought_twice_and_switched_on_later_gives_the_same(two, made):
    analysis = two.tables.pop("analysis")
    run(two.write(), two.out)
    n_plain = len(two.received())
    two.tables["analysis"] = analysis
    late = run(two.write(), two.out).summary()
    n_calls = len(two.received())
    assert n_calls > n_plain
    assert analyses_of(run(two.write(), two.out).summary()) == analyses_of(late)
    assert len(two.received()) == n_calls
    assert analyses_of(made.summary()) == analyses_of(late)


def test_an_extended_run_asks_what_its_new_rankings_need_and_has_the_root_of_one_at_once(two, made):
    two.tables["experiment"]["seeds"] = [0]
    run(two.write(), two.out)
    two.tables["experiment"]["seeds"] = [0, 1]
    run(two.write(), two.out)
    extended = run(two.write(), two.out, retry_failed=True)
    fresh = Run(made.out)
    assert extended.manifest()["superseded"], "other names lead"
    assert "superseded" not in fresh.manifest()
    assert verify_folder(two.out).holds
    extended, fresh = extended.summary(), fresh.summary()
    assert extended["experiment"]["complete"]
    assert analyses_of(extended) == analyses_of(fresh)
    assert extended["root"] == fresh["root"]


def test_an_embedder_that_is_not_there_is_refused_before_any_question(two):
    two.tables["analysis"] = {"prompt_similarity": True, "embedder": "./nowhere"}
    with pytest.raises(UsageError, match="nowhere"):
        run(two.write(), two.out)
    assert two.received() == []


def test_a_name_of_the_ranking_keeps_the_edit_limit_and_the_case_of_its_attack():
    item = Question(id="q", stem="?", options=("Alpha", "Beta"), key="A")
    resources = tiny_resources(PerturbationTable(["bet", "BETs", "a long name"]))

    def put(**keys):
        attack = EntitySubstitution(sampler="random", **keys)
        top = ("bet", "bets", "a long name")
        made = replacements(attack, item, ("B", 0, 4), top, resources)
        return [candidate.options[1] for _, candidate in made]

    assert put() == ["Bet", "BETs", "A long name"]
    assert put(max_edit_distance=2) == ["Bet"]
    assert put(max_edit_distance=2, choices="as_released") == ["Bet", "Bets"]
