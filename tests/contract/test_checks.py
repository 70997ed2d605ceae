"""The conformance suites pass what is sound, and say in one sentence what is wrong."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from medstress.attacks.protocol import Attack
from medstress.core.calls import (
    Call,
    Choose,
    Chosen,
    Failure,
    ModelIdentity,
    Rank,
    Request,
    Score,
    Scored,
)
from medstress.core.errors import BudgetExhausted, DataError
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, Predict
from medstress.core.text import Edit
from medstress.datasets import tagged
from medstress.plugin import (
    DatasetOptions,
    Loaded,
    LoadedTexts,
    SentencePair,
    check_dataset,
    file_hash,
    required_file,
    text_lines,
)
from medstress.testing import (
    ScriptedBackend,
    check_attack,
    check_backend,
    check_task,
    tiny_questions,
    tiny_resources,
)

# -- checks refuse ---------------------------------------------------------------------------------
ITEMS = tiny_questions(3)


def swap(item, name="mirozide", field=None):
    letter = field or next(letter for letter in item.letters if letter != item.key)
    edit = Edit(field=letter, start=0, end=3, replacement=name)
    return Predict(Candidate(item=item, edits=(edit,)))


class Bad(Attack):
    """An attack with one fault: its body is given, or what it declares."""

    name = "bad"
    budget = 2

    def __init__(self, body, **given):
        self.body = body
        self.memory: list[Any] = []
        for name, value in given.items():
            setattr(self, name, value)

    def obstacle(self, item, resources):
        return None

    def run(self, item, rng, resources):
        return (yield from self.body(self, item, rng))


def refusal(attack, **given):
    with pytest.raises(AssertionError) as caught:
        check_attack(attack, ITEMS, tiny_resources(), **given)
    return str(caught.value)


def fine(self, item, rng):
    yield Ask((swap(item, f"name {rng.integers(100)}"),))


def test_a_faultless_attack_passes():
    check_attack(Bad(fine), ITEMS, tiny_resources())


def test_run_must_be_a_generator_function():
    class Eager(Bad):
        def run(self, item, rng, resources):
            return iter([])

    assert "run must be a generator function" in refusal(Eager(fine))


def too_many(self, item, rng):
    for i in range(3):
        yield Ask((swap(item, str(i)),))


def global_random(self, item, rng):
    self.memory.append(item.id)
    yield Ask((swap(item, f"name {len(self.memory)}"),))


def shared_state(self, item, rng):
    self.memory[:] = [item.id]
    yield Ask((swap(item),))
    yield Ask((swap(item, self.memory[0]),))


def outside(item):
    edit = Edit(field="B" if item.key == "A" else "A", start=0, end=999, replacement="x")
    return Predict(Candidate(item=item, edits=(edit,)))


def asks(make, then=lambda item: ()):
    """An attack of one step; what it asks is made of the item."""

    def run(self, item, rng):
        yield Ask((make(item),), then(item))

    return run


of_the_key = asks(lambda item: swap(item, field=item.key))
of_the_stem = asks(lambda item: swap(item, field="stem"))


def stubborn(self, item, rng):
    while True:
        try:
            yield Ask((swap(item),))
        except BudgetExhausted:
            continue
        return


def needs_scores(self, item, rng):
    (answer,) = yield Ask((swap(item),))
    max(answer.scores)


def will_not_close(self, item, rng):
    try:
        yield Ask((swap(item),))
        yield Ask((swap(item),))
    except GeneratorExit:
        yield Ask((swap(item),))


def returns_text(self, item, rng):
    yield Ask((swap(item),))
    return "mirozide"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (lambda s, item, rng: (yield Ask(())), "a step is empty; never yield an empty list"),
        (asks(lambda item: Predict(Candidate(item=item, edits=[]))), "a step is not hashable"),
        (too_many, "Bad asks 3 queries about item 'tiny-0' with a budget of 2"),
        (global_random, "when run again, or after other items"),
        (shared_state, "when items are interleaved"),
        (asks(outside), "the edits do not apply"),
        (of_the_key, "A (key) may not change"),
        (asks(lambda item: swap(replace(item, id="another"))), "belongs to item 'another'"),
        (stubborn, "does not end after BudgetExhausted was thrown"),
        (needs_scores, "raised TypeError after 1 steps on item 'tiny-0'"),
        (will_not_close, "does not close cleanly on item 'tiny-0'"),
        (returns_text, "must return a candidate of item 'tiny-0' or None, got 'mirozide'"),
    ],
)
def test_a_fault_of_an_attack_is_named(body, sentence):
    assert sentence in refusal(Bad(body))


def test_fields_that_may_change_are_allowed_by_name():
    check_attack(Bad(of_the_stem), ITEMS, tiny_resources(), may_edit=("stem",))
    check_attack(Bad(of_the_key), ITEMS, tiny_resources(), may_edit=("key", "distractors"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"is_random": False}, "but says that the seed changes nothing"),
        ({"budget": 0}, "Bad has a budget of 0"),
        ({"spec": lambda: {"x": {1}}}, "Bad.spec() must consist of JSON values"),
        ({"obstacle": lambda item, resources: "no"}, "Bad can attack none of the items"),
    ],
)
def test_a_false_declaration_is_named(given, sentence):
    assert sentence in refusal(Bad(fine, **given))


CALLS: list[Call] = [Choose(f"p{i}", "AB") for i in range(4)] + [Score("q", (" x", " y"))]


def reply(call):
    if isinstance(call, Score):
        return Scored(log_probs=(-1.0, -2.0), n_tokens=(1, 1))
    return Chosen(answer="AB"[int(str(call.prompt)[1]) % 2])


def backend_refusal(backend, calls=CALLS):
    with pytest.raises(AssertionError) as caught:
        check_backend(backend, calls)
    return str(caught.value)


class Shuffled(ScriptedBackend):
    def answer(self, calls):
        replies = super().answer(calls)
        return [*replies[1:4], replies[0], *replies[4:]] if len(calls) == 5 else replies


class Dependent(ScriptedBackend):
    def answer(self, calls):
        super().answer(calls)
        return [
            reply(call)
            if not isinstance(call, Score)
            else Scored(log_probs=(-1.0 / len(calls), -2.0), n_tokens=(1, 1))
            for call in calls
        ]


class Short(ScriptedBackend):
    def answer(self, calls):
        return super().answer(calls)[1:]


class Drifting(ScriptedBackend):
    def answer(self, calls):
        self.identity = ModelIdentity(name="m", hash=str(len(self.batches)))
        return super().answer(calls)


def test_a_faultless_back_end_passes():
    check_backend(ScriptedBackend(reply), CALLS)


@pytest.mark.parametrize(
    ("backend", "sentence"),
    [
        (Shuffled(reply), "replies must come in the order of the calls"),
        (Dependent(reply), "not depend on the rest of the batch"),
        (Short(reply), "the back end returned 4 replies for 5 calls"),
        (Drifting(reply), "the identity changed from"),
        (ScriptedBackend(reply, name=""), "the identity needs a name and a hash"),
        (ScriptedBackend(reply, batch_size=0), "batch_size must be a whole number from 1, got 0"),
        (ScriptedBackend(lambda _: Failure(error="no")), "the back end failed on Choose("),
        (ScriptedBackend(lambda _: Chosen(answer="C")), "expected one of the letters A, B"),
        (ScriptedBackend(lambda _: Chosen(scores=(1.0,))), "expected 2 scores, one per letter,"),
        (ScriptedBackend(lambda _: Chosen(answer="A", tokens_in=-1)), "tokens cannot be negative"),
    ],
)
def test_a_fault_of_a_back_end_is_named(backend, sentence):
    assert sentence in backend_refusal(backend)


ONE, TWO = CALLS[4:], [Rank("q", ("one", "two"))]


@pytest.mark.parametrize(
    ("calls", "scored", "sentence"),
    [
        (ONE, Scored(log_probs=(-1.0,), n_tokens=(1,)), "expected 2 log probabilities and token"),
        (ONE, Scored(log_probs=(0.5, -1.0), n_tokens=(1, 1)), "expected natural log probabilities"),
        (ONE, Scored(log_probs=(-0.5, -1.0), n_tokens=(1, -1)), "expected token counts of 0"),
        (ONE, Chosen(answer="A"), "expected Scored"),
        (TWO, Scored(log_probs=(-1.0, -2.0), n_tokens=(1, 1)), "that sum to 1, not 0.5032"),
    ],
)
def test_a_fault_of_scores_is_named(calls, scored, sentence):
    assert sentence in backend_refusal(ScriptedBackend(lambda _: scored), calls)


def test_calls_of_undeclared_kinds_and_no_calls_are_refused():
    backend = ScriptedBackend(reply)
    backend.traits = replace(backend.traits, calls=frozenset({"choose"}))
    assert "declares the calls ['choose'], not 'score'" in backend_refusal(backend)
    assert "needs at least one call" in backend_refusal(backend, [])


@dataclass(frozen=True)
class BadTask:
    """A task whose flow is given."""

    body: Callable[..., Any]

    def spec(self):
        return {}

    def flow(self, candidate):
        return self.body(candidate)


def prediction(item, answer, **given):
    outcome = Outcome.RIGHT if answer == item.key else Outcome.WRONG
    return replace(Prediction(outcome=outcome, answer=answer), **given)


def with_prompt(text, **given):
    def flow(candidate):
        (answer,) = yield (Request(Choose(text(candidate), candidate.item.letters)),)
        return prediction(candidate.item, answer.answer, **given)

    return flow


CHOICE = Request(Choose("p", "ABCD"))


def options(candidate):
    return " ".join(candidate.options)


def always_a(candidate):
    yield (Request(Choose(options(candidate), "ABCD")),)
    return prediction(candidate.item, "A")


def keeps_open(candidate):
    try:
        (answer,) = yield (Request(Choose(options(candidate), "ABCD")),)
    except GeneratorExit:
        yield ()
    return prediction(candidate.item, answer.answer)


def test_a_faultless_task_passes():
    check_task(BadTask(with_prompt(options)), ITEMS)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (lambda candidate: [], "flow() must be a generator, got list"),
        (lambda candidate: (yield ()), "expected a non-empty tuple of requests, got ()"),
        (lambda candidate: (yield (CHOICE,)), "a Prediction"),
        (keeps_open, "the flow does not close cleanly after round 1"),
        (always_a, "answers that prefer option B are read as 'A'"),
        (with_prompt(lambda c: options(c) + " "), "ends in white space"),
        (with_prompt(lambda c: c.stem), "an edit of option B changes no request"),
        (with_prompt(options, reached_goal=True), "sets reached_goal"),
        (with_prompt(options, outcome=Outcome.UNREADABLE), "should have the outcome right"),
        (with_prompt(options, scores=(0.0,) * 4), "has probabilities that sum to 4.0, not 1"),
    ],
)
def test_a_fault_of_a_task_is_named(body, sentence):
    with pytest.raises(AssertionError) as caught:
        check_task(BadTask(body), ITEMS)
    assert sentence in str(caught.value)


# -- checks datasets -------------------------------------------------------------------------------
def read(given):
    """A sound source: one tiny question a line."""
    path = required_file("mine", "path", given.path)
    n = sum(1 for _, line in text_lines(path) if line)
    if n == 0:
        raise DataError(f"{path}: expected a line, got an empty file")
    return Loaded(questions=tiny_questions(n), skipped=(), source_hash=file_hash(path))


def raw(given):
    """As `read`, but without its errors."""
    assert given.path is not None
    n = len(given.path.read_text("utf-8").splitlines())
    return Loaded(questions=tiny_questions(n or 1), skipped=(), source_hash="fixed")


def lenient(given):
    """A source that makes a question of whatever is there."""
    path = required_file("mine", "path", given.path)
    return replace(SOUND, source_hash=file_hash(path))


def fixed(given):
    """As `read`, with one hash for all files."""
    return replace(read(given), source_hash="fixed")


def growing():
    """A source that reads something else each time."""
    n = iter(range(1, 9))
    return lambda _: replace(SOUND, questions=tiny_questions(next(n)))


SOUND = Loaded(questions=ITEMS, skipped=("line 1: no question",), source_hash="h")


@pytest.fixture
def given(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    return DatasetOptions(path=path)


def test_sound_sources_pass(given, tmp_path):
    check_dataset(read, given)
    check_dataset(lambda _: SOUND, DatasetOptions())
    (tmp_path / "tags.iob").write_text("Aspirin\tB-Chemical\nhelps\tO\n", encoding="utf-8")
    check_dataset(tagged.load, DatasetOptions(path=tmp_path / "tags.iob"))


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        (lambda _: [*ITEMS], "expected Loaded or LoadedTexts, got list"),
        (lambda _: replace(SOUND, questions=()), "at least one item"),
        (lambda _: replace(SOUND, questions=("text",)), "expected an item"),
        (lambda _: replace(SOUND, questions=ITEMS[:1] * 2), "two items have the id 'tiny-0'"),
        (lambda _: replace(SOUND, source_hash=""), "expected a source_hash"),
        (lambda _: replace(SOUND, skipped=("a\nb",)), "one sentence on one line"),
        (growing(), "read a second time"),
        (raw, "for a missing file, but got FileNotFoundError"),
        (lenient, "for an empty file, but it was read"),
        (fixed, "another file has the same source_hash"),
    ],
)
def test_what_is_wrong_is_named(load, sentence, given):
    with pytest.raises(AssertionError, match=sentence):
        check_dataset(load, given)


def test_items_of_two_kinds_are_refused():
    pair = SentencePair(id="p", text_a="a", text_b="b", score=1.0)
    mixed = LoadedTexts(items=(*ITEMS, pair), skipped=(), source_hash="h")
    with pytest.raises(AssertionError, match="items of one kind"):
        check_dataset(lambda _: mixed, DatasetOptions())
