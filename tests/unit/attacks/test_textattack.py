"""TextAttack's recipes as attacks, against a small stand-in of its interface.

TextAttack itself is asked in tests/local_models, because it loads torch.
"""

from __future__ import annotations

import random
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from medstress.attacks.textattack.attack import TextAttack, _edits
from medstress.attacks.textattack.recipes import RECIPES
from medstress.core.errors import UsageError
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, CleanAnswer
from medstress.machine.textattack import import_textattack
from medstress.testing import check_attack, tiny_questions, tiny_resources


class AttackedText:
    """A text of several columns; words are what white space parts."""

    def __init__(self, columns):
        self.columns = dict(columns)

    @property
    def tokenizer_input(self):
        values = tuple(self.columns.values())
        return values if len(values) > 1 else values[0]

    @property
    def words(self):
        return [(c, i) for c, text in self.columns.items() for i in range(len(text.split(" ")))]

    def replaced(self, place, word):
        column, i = place
        words = self.columns[column].split(" ")
        words[i] = word
        return AttackedText({**self.columns, column: " ".join(words)})


class Search:
    """Ranks words by the score without them, then mistypes one after the other, as a recipe."""

    def _get_index_order(self, text):
        without = [text.replaced(place, "[UNK]") for place in text.words]
        scores = self.get_goal_results(without)
        return sorted(range(len(scores)), key=lambda i: -scores[i])

    def __call__(self, text):
        for i in self._get_index_order(text):
            column, k = place = text.words[i]
            word = text.columns[column].split(" ")[k]
            if word in self.stop_words:
                continue
            spelt = [word + random.choice("xyz") + str(np.random.randint(9)) for _ in range(2)]
            scores = self.get_goal_results([text.replaced(place, each) for each in spelt])
            if max(scores) > 0.5:
                return
            text = text.replaced(place, spelt[scores.index(max(scores))])


class Recipe:
    """What `build` gives."""

    def __init__(self, wrapper, stop_words):
        self.search_method = Search()
        self.search_method.stop_words = stop_words
        self.search_method.get_goal_results = self.results
        self.goal_function = SimpleNamespace(batch_size=1)
        self.wrapper, self.n_cleared = wrapper, 0

    def clear_cache(self):
        self.n_cleared += 1

    def attack(self, text, truth):
        self.truth = truth
        if self.results([text])[0] <= 0.5:
            self.search_method(text)

    def results(self, texts):
        rows = self.wrapper([each.tokenizer_input for each in texts])
        return [1 - row[self.truth] for row in rows]


@pytest.fixture
def stand_in(monkeypatch):
    """TextAttack, in small; says what `nltk.download` was asked for."""
    asked = []
    modules = {
        "nltk": {"download": asked.append, "corpus": SimpleNamespace(stopwords=None)},
        "textattack": {},
        "textattack.shared": {"AttackedText": AttackedText},
        "textattack.models": {},
        "textattack.models.wrappers": {"ModelWrapper": object},
    }

    def build(wrapper):
        return Recipe(wrapper, sys.modules["nltk"].corpus.stopwords.words("english"))

    for name in RECIPES.values():
        kind = type(name, (), {"build": staticmethod(build)})
        modules.setdefault("textattack.attack_recipes", {})[name] = kind
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    return asked


def played(attack, item, wrong=lambda candidate: False, seed=0):
    """All steps of a trial; `wrong` says whether the victim errs on a candidate."""
    steps = []
    flow = attack.run(item, np.random.default_rng(seed), None)
    step = next(flow)
    try:
        while True:
            if isinstance(step, CleanAnswer):
                replies = (Prediction(outcome=Outcome.RIGHT, answer=item.key),)
            else:
                assert isinstance(step, Ask)
                steps.append(step.queries)
                replies = tuple(answered(item, query, wrong) for query in step.queries)
            step = flow.send(replies)
    except StopIteration as stop:
        return steps, stop.value


def answered(item, query, wrong):
    """The victim's answer, as the referee hands it on."""
    is_wrong = wrong(query.candidate)
    return Prediction(
        outcome=Outcome.WRONG if is_wrong else Outcome.RIGHT,
        answer=next(letter for letter in item.letters if (letter != item.key) == is_wrong),
        reached_goal=is_wrong and not query.probe,
    )


ITEM = tiny_questions(1)[0]
WORDS = len(ITEM.stem.split())


def test_words_are_ranked_by_probes_and_then_misspelt(stand_in):
    steps, found = played(TextAttack(field="stem"), ITEM)
    assert found is None
    assert [query.probe for query in steps[0]] == [True] * WORDS
    assert not any(query.probe for step in steps[1:] for query in step)
    texts = [query.candidate.stem for step in steps for query in step]
    assert len(set(texts)) == len(texts)  # nothing is asked twice
    assert ITEM.stem not in texts  # the clean text costs nothing
    assert stand_in == []


def test_the_first_wrong_answer_that_is_no_probe_ends_it(stand_in):
    def wrong(candidate):
        return "[UNK]" in candidate.stem or candidate.stem != ITEM.stem

    steps, found = played(TextAttack(field="stem"), ITEM, wrong)
    assert len(steps) == 2
    assert found == steps[1][0].candidate
    assert found.edits[0].field == "stem"


def test_the_same_seed_asks_the_same_and_leaves_the_global_generators_alone(stand_in):
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    one, other, third = (played(TextAttack(), ITEM, seed=seed)[0] for seed in (1, 1, 2))
    assert one == other != third
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_it_stops_at_its_budget(stand_in):
    steps, _ = played(TextAttack(field="stem", budget=WORDS + 1), ITEM)
    assert sum(map(len, steps)) == WORDS + 1
    few, _ = played(TextAttack(field="stem", budget=2), ITEM)
    assert sum(map(len, few)) == 2


def test_the_contract_of_attacks_holds(stand_in):
    check_attack(
        TextAttack(budget=30),
        tiny_questions(3),
        tiny_resources(),
        may_edit=("context", "stem"),
    )


def test_edits_are_single_words_where_white_space_stays():
    texts = {"context": "A man\n is ill.", "stem": "What helps?"}
    edits = _edits(texts, ("A mna\n is ill.", "What  helps?"))
    item = tiny_questions(1)[0]
    assert [(each.field, each.replacement) for each in edits] == [
        ("context", "mna"),
        ("stem", "What  helps?"),
    ]
    assert Candidate(item=item).edits == ()


def test_wrong_parameters_and_a_missing_library_are_one_sentence(monkeypatch, said, tmp_path):
    for keys, word in (
        ({"recipe": "textfooler"}, "deepwordbug"),
        ({"field": "options"}, "stem"),
        ({"budget": 0}, "budget"),
    ):
        with pytest.raises(UsageError) as error:
            TextAttack(**keys)
        said(str(error.value), word)
    monkeypatch.delitem(sys.modules, "textattack", raising=False)
    monkeypatch.setattr("medstress.machine.textattack.find_spec", lambda name: None)
    with pytest.raises(UsageError) as error:
        TextAttack().with_files(tmp_path)
    said(str(error.value), "medstress[textattack]")


def test_a_textattack_that_cannot_be_imported_is_one_sentence_with_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: str) -> None:
        raise ModuleNotFoundError("No module named 'nowhere_stanza'", name="nowhere_stanza")

    monkeypatch.setattr("medstress.machine.textattack.check_textattack", lambda: None)
    monkeypatch.setattr("medstress.machine.textattack.offline", nullcontext)
    monkeypatch.setattr("medstress.machine.textattack.import_module", fails)
    with pytest.raises(UsageError, match=r"; .*pip install '.*textattack"):
        import_textattack("textattack.nowhere")
