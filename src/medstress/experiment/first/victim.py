"""The victim of a first experiment: which back end a name stands for, and how it answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medstress.backends.local.files import EMBEDDED
from medstress.core.errors import UsageError, did_you_mean, reason
from medstress.experiment.first.data import Choices, FirstData, from_base
from medstress.files.reading import read_json, read_text

EXPECTED = (
    "a folder, a .gguf file, file.py:function, mock, smollm2, a hub id such as owner/name, or with "
    "--base-url the name that the server knows"
)
"""What the name of a model may be."""
_OWN = ("mock", *EMBEDDED)
"""Models that come with medstress."""
_MOST_LISTED = 5
"""Functions of a file that a message names."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_ONLY = {
    "ner": ("python", "mock", "transformers", "spacy"),
    "similarity": ("python", "mock", "sentence_transformers"),
}
"""Task -> the back ends that do it, where not all do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstVictim:
    """The victim and what a comment says about its keys."""

    table: dict[str, Any]
    """The keys of `[[victim]]`; paths are relative to the experiment file."""
    remarks: dict[str, str] = field(default_factory=dict)
    """Key -> why it has its value."""

    @property
    def writes_text(self) -> bool:
        """Whether the model can also write an attacker's edits."""
        return self.table["backend"] in ("openai", "llama_cpp", "transformers") and (
            self.table.get("answer_by") != "head"
        )


def find_victim(choices: Choices, base: Path, data: FirstData, *, scores: bool) -> FirstVictim:
    """Find out what a name stands for.

    Args:
        choices: what the user gave.
        base: the folder of the experiment file.
        data: the items; their kind decides how they are answered.
        scores: whether the attack needs the victim's scores.

    Raises:
        UsageError: there is no such file, folder or function, the name cannot be a model's, or the
            model cannot answer such data.
    """
    place = _model_place(choices, base, data.kind.task)
    backend = str(place["backend"])
    known = _ONLY.get(data.kind.task)
    if known is not None and backend not in known:
        raise UsageError(
            f"--model {choices.model}: backend {backend!r} cannot answer {data.kind.name}; give "
            "--model mock, file.py:function, a folder or a hub id"
        )
    answers, remarks = _answers(choices, place, base, data, scores=scores)
    return FirstVictim(
        table={"name": _short(choices.model, backend), **place, **answers}, remarks=remarks
    )


def _model_place(choices: Choices, base: Path, task: str) -> dict[str, Any]:
    """Return back end and location of the model."""
    given = choices.model.strip()
    if not given:
        raise UsageError(f"--model: expected {EXPECTED}, got an empty text")
    if choices.base_url is not None:
        from medstress.backends.server import address_of

        server = {"backend": "openai", "model": given, "base_url": address_of(choices.base_url)}
        key = choices.api_key_env
        return server if key is None else {**server, "api_key_env": key}
    if choices.api_key_env is not None:
        raise UsageError(
            "--api-key-env is for a server: give its address too, as in "
            "--base-url https://api.openai.com/v1"
        )
    if given == "mock":
        return {"backend": "mock"}
    if given in EMBEDDED:
        return {"backend": "transformers", "model": given}
    path = Path(given).expanduser()
    local = "sentence_transformers" if task == "similarity" else "transformers"
    if path.is_dir():
        of_spacy = [path / "meta.json", path / "config.cfg"]
        is_spacy = task == "ner" and all(file.is_file() for file in of_spacy)
        return {"backend": "spacy" if is_spacy else local, "model": from_base(given, base)}
    if path.suffix.lower() == ".gguf":
        _require_file(path, given)
        # Where only transformers is installed, it reads the file as well.
        is_only = find_spec("xllamacpp") is None and find_spec("transformers") is not None
        backend = "transformers" if is_only else "llama_cpp"
        return {"backend": backend, "model": from_base(given, base)}
    if path.suffix == ".py" or ".py:" in given:
        return {"backend": "python", "target": _function_file(given, base)}
    module, colon, function = given.partition(":")
    if colon and function and _is_module(module):
        return {"backend": "python", "target": given}
    if task == "ner" and _is_module(given) and find_spec("spacy") is not None:
        return {"backend": "spacy", "model": given}
    if _HUB_ID.fullmatch(given) and not path.is_file() and not _is_mistyped(given, path):
        return {"backend": local, "model": given}
    raise UsageError(f"--model {given}: expected {EXPECTED}{_hint(given, path)}")


def _answers(
    choices: Choices, place: dict[str, Any], base: Path, data: FirstData, *, scores: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the keys that say how the victim is asked and answers, with remarks."""
    backend, task, open_book = place["backend"], data.kind.task, data.has_passages
    if task in _ONLY:
        return {}, {}
    if backend == "mock" and scores and task == "multiple_choice":
        return {"answer_by": "letter", "prompt": "open_book" if open_book else "qstab"}, {
            "answer_by": "the attack needs scores, which a letter alone has not"
        }
    if backend in ("mock", "python"):
        return ({"prompt": "open_book"}, {}) if open_book else ({}, {})
    chat = "open_book_chat" if open_book else "chat"
    if backend == "openai" and scores:
        return {"answer_by": "letter", "prompt": chat}, {
            "answer_by": "the attack needs scores; the server must give log probabilities"
        }
    if backend == "openai":
        return {"answer_by": "generate", "prompt": chat}, {
            "answer_by": 'every server can; "letter" is cheaper where it gives log probabilities'
        }
    if place["model"] in EMBEDDED:
        return {
            "answer_by": "text",
            "prompt": "open_book_cloze" if open_book else "cloze",
        }, {"answer_by": "by letter this small model nearly always says A"}
    config = _config(place, base)
    if _is_head(config, task):
        if task != "multiple_choice":
            return {"answer_by": "head"}, {}
        return {"answer_by": "head", "prompt": "question"}, {}
    if task != "multiple_choice":
        return {}, {}
    remarks = {"answer_by": 'or "generate": the model writes its answer'}
    if config is None and not (base / Path(place["model"]).expanduser()).exists():
        remarks["model"] = "a hub id: fetched when it is first opened"
    return {"answer_by": "letter", "prompt": "open_book" if open_book else "qstab"}, remarks


def _short(given: str, backend: str) -> str:
    """Return the name in results: without folders."""
    if backend in ("openai", "mock"):
        return given.strip()
    path = Path(given.strip()).expanduser()
    if path.is_dir():
        return path.resolve().name
    local = path.suffix == ".gguf" or backend == "python"
    return path.name.removesuffix(".gguf") if local else given.strip()


def _function_file(given: str, base: Path) -> str:
    """Check that the file has the function, without running it; return the target."""
    name, colon, function = given.rpartition(":")
    file, function = (name, function) if colon and name.endswith(".py") else (given, "")
    path = Path(file).expanduser()
    _require_file(path, given)
    try:
        tree = ast.parse(read_text(path), str(path))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"--model {given}: {path} is not valid Python: {reason(error)}").with_flag(
            "--model", given
        ) from error
    made, others = _top_names(tree)
    offered = [f"{file}:{each}" for each in made if not each.startswith("_")]
    listed = ", ".join(offered[:_MOST_LISTED]) + (", ..." if len(offered) > _MOST_LISTED else "")
    if not function:
        unclear = UsageError(
            f"--model {given}: expected file.py:function"
            + (f"; give one of {listed}" if offered else f", and {path} defines no function")
        )
        raise unclear.with_flag("--model", offered[0]) if offered else unclear
    if function.partition(".")[0] not in (*made, *others) and "*" not in others:
        near = did_you_mean(function, (*made, *others)).replace("'", f"'{file}:", 1)
        unknown = UsageError(
            f"--model {given}: {path} has no {function!r}{near}"
            + (f" (it has: {listed})" if offered else "")
        )
        raise unknown if near or len(offered) != 1 else unknown.with_flag("--model", offered[0])
    return f"{from_base(file, base)}:{function}"


def _top_names(tree: ast.Module) -> tuple[list[str], list[str]]:
    """Return a module's functions and classes, and its other names; `*` where imports hide some."""
    made: list[str] = []
    others: list[str] = []
    left: list[ast.AST] = list(tree.body)
    while left:
        node = left.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.append(node.name)
            continue  # names within it are not the module's
        if isinstance(node, ast.Import | ast.ImportFrom):
            others += [(each.asname or each.name).partition(".")[0] for each in node.names]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            others.append(node.id)
        left += ast.iter_child_nodes(node)
    return list(dict.fromkeys(made)), list(dict.fromkeys(others))


def _require_file(path: Path, given: str) -> None:
    if path.is_file():
        return
    file = given.rpartition(":")[0] if ".py:" in given else given
    near = [str(Path(file).with_name(each.name)) for each in path.parent.glob(f"*{path.suffix}")]
    if path.suffix == ".py":
        near = [f"{each}{given.removeprefix(file)}" for each in near]
    place = (
        f"there is no file {path}" if path.parent.is_dir() else f"there is no folder {path.parent}"
    )
    if hint := did_you_mean(given, near):
        raise UsageError(f"--model {given}: {place}{hint}")
    raise UsageError(f"--model {given}: {place}").with_flag("--model", given)


def _is_mistyped(given: str, path: Path) -> bool:
    """Return whether a short name is no model's here and nearly one, or a file without its ending.

    The hub's short names are few; the long one, `owner/name`, is always taken as it is.
    """
    if "/" in given or _hub_config(given) is not None:
        return False
    return bool(did_you_mean(given, _OWN)) or path.with_name(f"{path.name}.py").is_file()


def _is_module(name: str) -> bool:
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _hint(given: str, path: Path) -> str:
    """Return what the user may have meant by a name that is nothing known."""
    if ":" in given and "/" not in given:
        return f"; if a server knows {given!r}, add --base-url http://127.0.0.1:11434/v1"
    if path.is_file():
        return f"; {path} is a file of another kind"
    if near := did_you_mean(given, _OWN):
        return near
    near_files = [str(each) for each in path.parent.iterdir()] if path.parent.is_dir() else []
    return did_you_mean(given, near_files)


def _config(place: Mapping[str, Any], base: Path) -> Path | None:
    """Return the config.json of a folder, or of a hub model that is on this machine."""
    path = base / Path(place["model"]).expanduser()
    if path.is_dir():
        return path / "config.json"
    return _hub_config(place["model"]) if not path.is_file() else None


def _hub_config(name: str) -> Path | None:
    """Return the file in the hub's cache; nothing is downloaded before the model is opened."""
    if not _HUB_ID.fullmatch(name) or find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    return Path(found) if isinstance(found, str) else None


def _is_head(config: Path | None, task: str) -> bool:
    """Return whether a model's config.json names an architecture that scores options or pairs."""
    if config is None or not config.is_file():
        return False
    content = read_json(config)
    named = content.get("architectures") if isinstance(content, dict) else None
    ending = "ForMultipleChoice" if task == "multiple_choice" else "ForSequenceClassification"
    return isinstance(named, list) and any(str(name).endswith(ending) for name in named)
