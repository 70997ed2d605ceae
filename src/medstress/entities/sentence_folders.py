"""Settings in a sentence-transformers folder, whose weights transformers alone can load."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError
from medstress.entities.encoders import Pooling
from medstress.files.reading import reading

_MODES: dict[str, Pooling] = {
    "cls": "cls",
    "mean": "mean",
    # The mean times the root of the number of tokens has the same unit vector.
    "mean_sqrt_len": "mean",
}
_ALIASES = {"cls_token": "cls", "mean_tokens": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
_UNCHANGED = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceFolder:
    """A model folder with its sentence-transformers settings."""

    model: Path
    """Folder with weights and tokenizer: the folder itself or a subfolder."""
    modes: tuple[str, ...] = ()
    """Poolings that the folder names; may be empty."""
    max_tokens: int | None = None
    """Longer texts are truncated; None: no limit is given."""
    lower_case: bool = False
    """Whether texts are converted to lower case first."""

    @property
    def pooling(self) -> Pooling | None:
        """The pooling that the folder names; None if it names none.

        Raises:
            UsageError: medstress lacks this pooling, or the folder names several.
        """
        if not self.modes:
            return None
        if len(self.modes) == 1 and self.modes[0] in _MODES:
            return _MODES[self.modes[0]]
        raise UsageError(
            f"embedding: expected the pooling cls or mean in {self.model}, got "
            f'{" and ".join(self.modes)}; set another one with pooling = "mean"'
        )


def read_folder(folder: Path) -> SentenceFolder:
    """Read `modules.json` and the files it refers to; a plain transformers folder has none.

    Raises:
        UsageError: a file is malformed, or medstress does not support a module.
    """
    listing = folder / "modules.json"
    if not listing.is_file():
        return SentenceFolder(model=folder)
    model, modes = folder, list[str]()
    modules = _read(listing)
    if not isinstance(modules, list) or not all(isinstance(each, dict) for each in modules):
        raise UsageError(f"embedding: expected a list of modules (objects) in {listing}")
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2]
        place = folder / str(module.get("path", ""))
        if kind not in _UNCHANGED:
            raise UsageError(
                f"embedding: expected only the modules {', '.join(_UNCHANGED)} in {listing}, got "
                f"{kind!r}, which transformers alone cannot compute; give another model"
            )
        if kind == "Transformer":
            model = place
        elif kind == "Pooling":
            modes += _modes(_read(place / "config.json"))
    settings = _read(model / "sentence_bert_config.json", {})
    length = settings.get("max_seq_length")
    return SentenceFolder(
        model=model,
        modes=tuple(modes),
        max_tokens=length if isinstance(length, int) and length > 0 else None,
        lower_case=settings.get("do_lower_case") is True,
    )


def _modes(settings: dict[str, Any]) -> list[str]:
    """Read both layouts: ``pooling_mode_mean_tokens: true``, and ``pooling_mode: "mean"``."""
    stated = settings.get("pooling_mode")
    listed = stated if isinstance(stated, list) else [stated] if stated else []
    prefix = "pooling_mode_"
    on = [key for key, value in settings.items() if value is True and key.startswith(prefix)]
    listed += [key.removeprefix(prefix) for key in on]
    return list(dict.fromkeys(_ALIASES.get(str(mode), str(mode)) for mode in listed))


def _read(path: Path, default: Any = None) -> Any:
    if default is not None and not path.is_file():
        return default
    with reading(lambda why: f"embedding: cannot read {path}: {why}"):
        return json.loads(path.read_text("utf-8"))
