"""Planted readers and rememberers end to end: what the probes of the passage tell of them."""

from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.api.run import Run
from question_rows import write_rows
from rows import rows_of

VICTIM = '''
import hashlib
import re

OPTION = re.compile(r"^([A-D]): (.*)$", re.MULTILINE)


def _told(prompt):
    """Number of the case, the key, and the options in the order in which the passage names them."""
    case = int(re.search(r"case\\s+(\\d+)", prompt)[1])
    passage = re.search(r"Passage: (.*)", prompt)
    text = passage[1].casefold() if passage else ""
    places = {text.find(option.casefold()): x for x, option in OPTION.findall(prompt)}
    return case, "ABCD"[case % 4], [places[at] for at in sorted(places) if at >= 0]


def reader(prompts):
    """Answers the first option that the passage names, else A."""
    told = map(_told, prompts)
    return [{"answer": (named or ["A"])[0]} for _, _, named in told]


def last(prompts):
    """Answers the last option that the passage names, else A."""
    return [{"answer": (named or ["A"])[-1]} for _, _, named in map(_told, prompts)]


def rememberer(prompts):
    return [{"answer": key} for _, key, _ in map(_told, prompts)]


def guesser(prompts):
    """Answers the key if the passage names it, else an option that is neither named nor the key."""
    return [{"answer": _guess(key, named)} for _, key, named in map(_told, prompts)]


def mixed(prompts):
    """Of five cases one reads, one remembers, one guesses, one says nothing, one knows nothing."""
    return [_mixed(*told) for told in map(_told, prompts)]


def _guess(key, named):
    return key if key in named else next(x for x in "ABCD" if x not in (key, *named))


def _mixed(case, key, named):
    if case % 5 == 3 and key not in named:
        return "I cannot say."
    if case % 5 == 4:
        return {"answer": "ABCD"[(case + 1) % 4]}
    return {"answer": [named[0], key, _guess(key, named), key][case % 5]}


def hashing(prompts):
    digests = (hashlib.sha256(prompt.encode()).digest() for prompt in prompts)
    return [{"answer": "ABCD"[digest[0] % 4]} for digest in digests]
'''
N = 20
SWAP, OTHER, NONE = ({"name": f"passage_{name}"} for name in ("swap", "other", "none"))
TRUE, FALSE = ({"name": "passage_distractor", "says": s} for s in ("true", "contradicting"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, range(N))
    (tmp_path / "victim.py").write_text(VICTIM, encoding="utf-8")
    return tmp_path


def write(folder: Path, order: Any) -> None:
    rows = []
    for i in order:
        options = [f"{kind}{i // 2}umab" for kind in ("tora", "ulo", "vexi", "wara")]
        key = "ABCD"[i % 4]
        # Case 2k tells of the key and case 2k + 1 of another of the same four drugs.
        passage = f"{options[i % 4].capitalize()} cured it. Give {options[i % 4]} twice."
        row = {"id": f"q{i}", "question": f"What is the best cure of case {i} in this clinic?"}
        rows.append({**row, "options": options, "answer_idx": key, "passage": passage})
    write_rows(folder / "items.jsonl", rows)


def run(
    victims: dict[str, str],
    *attacks: dict[str, Any],
    out: str = "run",
    analysis: dict[str, Any] | None = None,
    **more: Any,
) -> Run:
    """Run attacks on victims, each with its prompt."""
    return ms.run(
        {
            "experiment": {"controls": False, "name": "probes", "seeds": [0]},
            "dataset": {"name": "table", "path": "items.jsonl"},
            "victim": [
                {
                    "name": f"{name}/{prompt}",
                    "backend": "python",
                    "target": f"victim.py:{name}",
                    "prompt": prompt,
                }
                for name, prompt in victims.items()
            ],
            "attack": list(attacks),
            **({"analysis": analysis} if analysis else {}),
        },
        out=out,
        **more,
    )


def row_of(found: Run, victim: str, attack: str) -> dict[str, Any]:
    (row,) = (
        each
        for each in found.summary()["results"]
        if each["victim"].startswith(victim) and each["attack"].startswith(attack)
    )
    return row


def evidence(found: Run) -> dict[str, dict[str, Any]]:
    """Answers once the passage supports another option, of the only attack that makes it do so."""
    (row,) = found.summary()["passages"]["evidence"]
    return {name: row[name] for name in ("followed", "kept", "other")}


def shares(found: Run) -> dict[str, tuple[float, int]]:
    return {name: (share["value"], share["n"]) for name, share in evidence(found).items()}


@pytest.mark.parametrize(
    ("victim", "followed", "kept", "other"),
    [("reader", 1.0, 0.0, 0.0), ("rememberer", 0.0, 1.0, 0.0), ("guesser", 0.0, 0.0, 1.0)],
)
def test_a_swapped_passage_tells_reading_from_remembering(folder, victim, followed, kept, other):
    found = run({victim: "open_book"}, SWAP)
    row = row_of(found, victim, "passage_swap")
    assert row["n_eligible"] == N
    assert shares(found) == {"followed": (followed, N), "kept": (kept, N), "other": (other, N)}
    assert row["asr"]["value"] == 1 - kept
    # A lost answer is no error: every success is refuted, and no further query would change that.
    assert row["asr_valid_bounds"] == [0, 0]


def test_shares_are_of_items_answered_rightly_before(folder):
    found = run({"mixed": "open_book"}, SWAP)
    row = row_of(found, "mixed", "passage_swap")
    n = 4 * N // 5
    assert (row["n_already_wrong"], row["n_eligible"]) == (N // 5, n)
    assert shares(found) == {"followed": (1 / 4, n), "kept": (1 / 4, n), "other": (1 / 2, n)}
    assert all(
        0 <= each["low"] <= each["value"] <= each["high"] for each in evidence(found).values()
    )


def test_draws_depend_on_neither_the_limit_nor_the_order_of_the_rows(folder):
    def drawn(out: str, **more: Any) -> dict[tuple[str, str], str]:
        found = run({"last": "open_book"}, OTHER, TRUE, out=out, **more)
        return {(row.attack, row.item_id): row.edits for row in rows_of(found)}

    whole = drawn("whole")
    few = drawn("few", limit=7)
    assert len(few) == 14
    assert few.items() <= whole.items()
    write(folder, reversed(range(N)))
    assert drawn("backwards") == whole
