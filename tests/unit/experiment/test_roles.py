"""Roles of an experiment: who needs which, what is refused, and what a folder remembers."""

from __future__ import annotations

import json
from functools import partial

import pytest

import medstress as ms
from medstress.api.run import run
from medstress.core.errors import UsageError
from medstress.experiment.dry_run import dry_run
from medstress.experiment.models import check_prices
from medstress.experiment.prepare import opened_victims, prepare
from medstress.experiment.reading import check_experiment
from medstress.testing import tiny_questions


@pytest.fixture
def tables(tmp_path):
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(4)
    ]
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {
        "experiment": {"controls": False, "name": "roles", "seeds": [0]},
        "dataset": {"name": "table", "path": str(path)},
        "victim": {"backend": "mock"},
        "role": {"attacker": {"backend": "mock"}},
        "attack": {"name": "medfuzz", "attempts": 2, "runs": 2},
    }


def test_an_attack_without_its_role_is_refused_before_anything_runs(tables, said):
    del tables["role"]
    with pytest.raises(UsageError) as caught:
        prepare(tables)
    said(str(caught.value), "asks the role 'attacker'")


def test_a_victim_that_cannot_be_asked_in_turns_is_refused(tables, tmp_path):
    tables["victim"] |= {"wrap": ["instructed"]}
    with pytest.raises(UsageError, match="wrap and shots change"):
        run(tables, tmp_path / "run")


def test_equal_back_ends_are_opened_once_and_closed_once(tables, monkeypatch):
    tables["role"]["judge"] = {"backend": "mock"}
    tables["victim"]["batch_size"] = 7
    prepared, closed = prepare(tables), []
    with opened_victims(prepared, lambda _: None):
        attacker, judge = prepared.roles
        assert attacker.backend is judge.backend is not prepared.victims[0].backend
        assert (attacker.is_shared, judge.is_shared) == (False, True)
        opened = {"role": attacker.backend, "victim": prepared.victims[0].backend}
        for name, backend in opened.items():
            monkeypatch.setattr(backend, "close", partial(closed.append, name))
    assert sorted(closed) == ["role", "victim"]


def test_the_dry_run_counts_runs_and_says_what_roles_are_asked(tables):
    prepared = prepare(tables)
    with opened_victims(prepared, lambda _: None):
        dry = dry_run(prepared)
    victim, attacker = dry.costs
    # Four items, two runs: as many clean conversations, twice as many attempts, one check each.
    assert victim.queries == {"clean": 8, "attacks": 16, "checks": 8}
    # Three turns and two repairs at most; sixteen attempts with two turns and two repairs.
    assert (victim.bound, victim.calls, attacker.calls) == (32, 160, 64)
    assert dry.lines[1] == (
        "queries: at most 96 (exact bound), clean 8 + attacks 80 + checks 8, in at most 224 calls"
    )


URL, KEY = "https://a.example/v1", "KEY_A"
VICTIM = {"model": "target", "base_url": URL, "api_key_env": KEY}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ({"attacker": {"model": "m"}}, [("openai", "m", URL, KEY)]),
        ({"attacker": {"model": "m", "backend": "openai"}}, [("openai", "m", URL, KEY)]),
        # A key is never sent to another server than the one that it was given for.
        (
            {"attacker": {"model": "m", "base_url": "https://b.example/v1"}},
            [("openai", "m", "https://b.example/v1", None)],
        ),
        ({"attacker": {"backend": "mock"}}, [("mock", None, None, None)]),
        (
            {"judge": {}, "attacker": {"model": "m"}},
            [("openai", "m", URL, KEY), ("openai", "m", URL, KEY)],
        ),
        (
            {"attacker": {"model": "m", "base_url": "https://b.example/v1"}, "judge": {}},
            [("openai", "m", "https://b.example/v1", None)] * 2,
        ),
        (
            {"attacker": {"backend": "mock"}, "judge": {"model": "j"}},
            [("mock", None, None, None), ("openai", "j", URL, KEY)],
        ),
    ],
)
def test_a_role_without_an_address_asks_the_first_victims_server(tables, role, expected):
    checked = check_experiment({**tables, "victim": VICTIM, "role": role}).role
    asked = [one for one in (checked.attacker, checked.judge) if one]
    addresses = [(one.backend, one.model, one.base_url, one.api_key_env) for one in asked]
    assert addresses == expected


def test_a_judge_without_a_model_is_the_attackers_function(tables):
    """Planted: it had the back end of the attacker, without its target."""
    attacker = {"backend": "python", "target": "m.py:attacker", "version": "1"}
    role = check_experiment({**tables, "role": {"judge": {}, "attacker": attacker}}).role
    own = (role.attacker, role.judge)
    assert len({(one.backend, one.target, one.version) for one in own}) == 1


def test_a_back_end_that_cannot_be_opened_names_its_role(tables, said):
    tables["role"]["attacker"] = {"backend": "python"}
    with pytest.raises(UsageError) as caught, opened_victims(prepare(tables), lambda _: None):
        pass
    said(str(caught.value), "[role.attacker]: backend 'python' needs target = ")


@pytest.mark.parametrize(
    ("keys", "backend"),
    [({"base_url": URL, "model": "m"}, "openai"), ({"model": "smollm2"}, "transformers")],
)
def test_a_victim_without_a_back_end_is_a_server_where_it_has_an_address(tables, keys, backend):
    (victim,) = check_experiment({**tables, "victim": keys}).victim
    assert victim.backend == backend
    assert ms.Victim(**keys).backend == backend


@pytest.mark.parametrize("limit", ["max_usd", "max_tokens"])
def test_a_limit_that_nothing_can_reach_is_refused(tables, said, limit):
    """No tokens of a function are counted, whatever its price."""
    tables["experiment"][limit] = 1
    prices, target = {"price_in": 1.0, "price_out": 1.0}, "victim.py:answer"
    tables["victim"] = {"backend": "python", "target": target, "version": "1", **prices}
    tables.pop("role")
    with pytest.raises(UsageError) as caught:
        check_prices(check_experiment(tables))
    said(str(caught.value), f"{limit} would stop nothing")
    local = {"backend": "transformers", "model": "smollm2", **prices}
    check_prices(check_experiment({**tables, "victim": [tables["victim"], local]}))


def test_a_limit_of_money_needs_the_price_of_a_server_in_a_role(tables, said):
    tables["experiment"]["max_usd"] = 1.0
    tables["victim"] |= {"price_in": 1.0, "price_out": 1.0}
    server = {"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    tables["role"]["attacker"] = server
    with pytest.raises(UsageError) as caught:
        prepare(tables)
    said(str(caught.value), "max_usd cannot be kept")
    prepare({**tables, "role": {"attacker": {**server, "price_in": 1.0, "price_out": 2.0}}})
