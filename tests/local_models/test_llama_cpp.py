"""GGUF files of the llama_cpp back end: what their headers say, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from late import Late
from medstress.backends import llama_cpp
from medstress.backends.local import files
from medstress.backends.local.files import GgufFacts, read_facts
from medstress.backends.options import BackendOptions
from medstress.core.errors import UsageError

gguf: Any = Late("gguf")
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<reply>{% endif %}"
)


def write_gguf(path: Path, *, template: str | None = TEMPLATE) -> Path:
    """A header and one tensor: what the stand-in computes comes from elsewhere."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_token_list([f"t{i}" for i in range(400)])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if template:
        writer.add_chat_template(template)
    writer.add_tensor("token_embd.weight", np.zeros((3, 5), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_header_of_a_file_is_read(tmp_path):
    facts = read_facts(write_gguf(tmp_path / "a.gguf"))
    assert facts == GgufFacts(
        template=TEMPLATE, start="t0", end="t1", n_vocabulary=400, n_context=64, parameters=15
    )


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (None, "needs model = a .gguf file"),
        ("gone.gguf", r"gone\.gguf' not found"),
        ("folder", "is no .gguf file"),
        ("bad.gguf", "not a GGUF file of a language model, or is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(model, said, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and more")
    with pytest.raises(UsageError, match=said) as caught:
        llama_cpp.open_backend(BackendOptions(model=model, base=tmp_path))
    assert "\n" not in str(caught.value)


def test_without_the_packages_the_messages_name_the_extra(tmp_path, monkeypatch):
    options = BackendOptions(model=str(write_gguf(tmp_path / "a.gguf")))
    monkeypatch.setattr(llama_cpp, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'medstress\[llama-cpp\]'"):
        llama_cpp.open_backend(options)
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'medstress\[llama-cpp\]'"):
        llama_cpp.open_backend(options)
