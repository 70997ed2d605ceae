"""Names in words: what the user wrote is kept, what keys made is said in words."""

from __future__ import annotations

from typing import Any

from medstress.results.names import names_of


def names(attacks: list[dict[str, Any]] = (), *victims: str, **specs: Any) -> Any:
    return names_of(
        {
            "config": {"attack": attacks, "victim": [{"name": each} for each in victims]},
            "attacks": specs,
            "victims": dict.fromkeys(victims),
        }
    )


def test_a_label_that_the_user_wrote_is_kept_with_one_value_and_with_several():
    spec = {"name": "entity_substitution", "n": -20}
    table = [{"name": "entity_substitution", "label": "near"}]
    assert names(table, **{"near": spec}).attacks == {"near": "near"}
    several = names(table, **{"near n=-20": spec, "near n=20": spec | {"n": 20}})
    assert list(several.attacks.values()) == ["near (n -20)", "near (n 20)"]
    nobody = names([{"name": "entity_substitution"}], **{"entity_substitution n=-20": spec})
    assert list(nobody.attacks.values()) == ["near names"]


def test_a_control_has_the_name_of_its_attack():
    specs = {
        "near": {"name": "entity_substitution"},
        "near / no_op": {"name": "no_op", "control_of": "near"},
    }
    assert names([{"label": "near"}], **specs).attacks["near / no_op"] == "near / harmless edits"


def test_of_a_model_the_last_part_stands_if_no_other_model_has_it():
    found = names([], "org/models/rule-7b", "a/llama", "b/llama", "GPT-4 w/ RAG").victims
    assert found == {
        "org/models/rule-7b": "rule-7b",
        "a/llama": "a/llama",
        "b/llama": "b/llama",
        "GPT-4 w/ RAG": "GPT-4 w/ RAG",
    }
