"""Finding models, remembering hashes, converting once; no model is loaded."""

from pathlib import Path

import pytest

from medstress.backends.local import files as model_files
from medstress.backends.local.files import converted_folder, find_model, remembered_hash
from medstress.backends.options import BackendOptions
from medstress.core.errors import UsageError
from medstress.core.hashing import file_hash


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def gguf(tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF and more")
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors", "README.md"):
        (path / name).write_text(f"content of {name}")
    return path


def test_a_hash_is_read_again_only_when_the_file_changes(gguf, monkeypatch):
    first = remembered_hash(gguf)
    assert first == file_hash(gguf)
    with monkeypatch.context() as patch:
        patch.delattr(model_files, "file_hash")
        assert remembered_hash(gguf) == first
    gguf.write_bytes(b"other")
    assert remembered_hash(gguf) == file_hash(gguf) != first


def test_a_damaged_memory_of_hashes_is_written_anew(gguf, cache):
    cache.mkdir(parents=True)
    (cache / "hashes.json").write_text("{ no json")
    assert remembered_hash(gguf) == file_hash(gguf)
    assert remembered_hash(gguf) == file_hash(gguf)


def test_the_content_does_not_depend_on_the_path(folder, tmp_path):
    first = find_model(BackendOptions(model=str(folder)))
    moved = folder.rename(tmp_path / "moved")
    assert find_model(BackendOptions(model="moved", base=tmp_path)).content == first.content
    (moved / "README.md").write_text("another readme")
    assert find_model(BackendOptions(model=str(moved))).content == first.content
    (moved / "tokenizer.json").write_text("another tokenizer")
    assert find_model(BackendOptions(model=str(moved))).content != first.content


def test_weights_that_are_not_read_do_not_count(folder):
    first = find_model(BackendOptions(model=str(folder)))
    (folder / "pytorch_model.bin").write_text("the same weights in the older format")
    (folder / "optimizer.pt").write_text("left by a training run")
    assert find_model(BackendOptions(model=str(folder))).content == first.content


def test_a_gguf_file_is_converted_once(gguf, monkeypatch):
    built: list[Path] = []

    def convert(_gguf: Path, dtype: str, folder: Path) -> None:
        built.append(folder)
        (folder / "model.safetensors").write_text(dtype)

    monkeypatch.setattr(model_files, "_convert", convert)
    folder = converted_folder(gguf, "float32")
    assert (folder / "model.safetensors").read_text() == "float32"
    assert converted_folder(gguf, "float32") == folder
    assert converted_folder(gguf, "bfloat16") != folder
    assert len(built) == 2
    assert not any(path.exists() for path in built)


def test_the_slower_of_two_conversions_uses_the_other_ones_result(gguf, cache, monkeypatch):
    def convert(_gguf: Path, dtype: str, folder: Path) -> None:
        (folder / "model.safetensors").write_text("mine")
        other = cache / f"{file_hash(gguf).rpartition(':')[2]}-{dtype}"
        other.mkdir()
        (other / "model.safetensors").write_text("theirs")

    monkeypatch.setattr(model_files, "_convert", convert)
    folder = converted_folder(gguf, "float32")
    assert (folder / "model.safetensors").read_text() == "theirs"
    assert {path.name for path in cache.iterdir()} == {folder.name, "hashes.json"}


def test_a_conversion_that_fails_leaves_nothing(gguf, cache, monkeypatch):
    def convert(_gguf: Path, dtype: str, folder: Path) -> None:
        (folder / "model.safetensors").write_text("half")
        raise UsageError("broken")

    monkeypatch.setattr(model_files, "_convert", convert)
    with pytest.raises(UsageError, match="broken"):
        converted_folder(gguf, "float32")
    assert [path.name for path in cache.iterdir()] == ["hashes.json"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "needs model ="),
        ("./absent", "does not exist"),
        ("absent.gguf", "does not exist"),
        ("no/such/folder", "does not exist"),
        ("nobody/no-such-model", "not an embedded name"),
        ("config.txt", "expected a folder or a .gguf file"),
        ("no_config", "has no config.json"),
        ("no_weights", "has no weights"),
    ],
)
def test_a_missing_model_is_one_clear_sentence(model, message, tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def unreachable(name: str, file: str) -> str:
        raise OSError("no network")

    monkeypatch.setattr(hub, "hf_hub_download", unreachable)
    (tmp_path / "config.txt").touch()
    (tmp_path / "no_config").mkdir()
    (tmp_path / "no_weights").mkdir()
    (tmp_path / "no_weights" / "config.json").touch()
    with pytest.raises(UsageError) as caught:
        find_model(BackendOptions(model=model, base=tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_hub_model_is_known_by_its_commit(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    config = tmp_path / "snapshots" / "0123abcd" / "config.json"
    monkeypatch.setattr(hub, "hf_hub_download", lambda name, file: str(config))
    files = find_model(BackendOptions(model="someone/some-model", base=tmp_path))
    assert (files.location, files.content) == ("someone/some-model", "0123abcd")
    assert files.load_options() == {"revision": "0123abcd", "trust_remote_code": False}
