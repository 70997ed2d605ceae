"""Checkpoints, to resume a killed training: tensors as safetensors, numbers as JSON.

A checkpoint is a folder that gets its final name when it is complete. Older ones are removed after
that, so a complete one always exists.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medstress.core.errors import StoreError
from medstress.files.reading import loading
from medstress.files.writing import atomic_path, make_folder, write_text
from medstress.store.database import translated

_WEIGHTS, _OPTIMISER, _STATE = "weights.safetensors", "optimiser.safetensors", "state.json"
_UNFINISHED = ".part"


def save_checkpoint(
    folder: Path, step: int, model: Any, optimiser: Any, state: Mapping[str, Any]
) -> None:
    """Write a checkpoint and remove older ones.

    Args:
        folder: folder with the training's checkpoints.
        step: steps done; names the checkpoint.
        model: its weights are written.
        optimiser: AdamW, whose state holds tensors only.
        state: everything else, as JSON values.

    Raises:
        StoreError: the checkpoint cannot be written.
    """
    building = folder / f"{step:09d}{_UNFINISHED}"
    with translated(folder):
        shutil.rmtree(building, ignore_errors=True)
        make_folder(building)
        save_weights(building / _WEIGHTS, model.state_dict())
        states = optimiser.state_dict()["state"]
        flat = {
            f"{i}.{key}": value for i, of_one in states.items() for key, value in of_one.items()
        }
        save_weights(building / _OPTIMISER, flat)
        write_text(building / _STATE, json.dumps(dict(state), allow_nan=False))
        complete = folder / f"{step:09d}"
        shutil.rmtree(complete, ignore_errors=True)
        building.rename(complete)
        for other in folder.iterdir():
            if other.is_dir() and other != complete:
                shutil.rmtree(other, ignore_errors=True)


def load_checkpoint(folder: Path, model: Any, optimiser: Any) -> dict[str, Any] | None:
    """Load the newest checkpoint into model and optimiser; return its state, None without one.

    Raises:
        StoreError: the checkpoint is damaged.
    """
    complete = sorted(p for p in folder.glob("*") if p.is_dir() and p.suffix != _UNFINISHED)
    if not complete:
        return None
    newest = complete[-1]
    from safetensors.torch import load_file

    with loading(
        lambda why: (
            f"the checkpoint {newest} cannot be read ({why}); remove the folder {folder} to train "
            "this model from the beginning"
        ),
        StoreError,
    ):
        load_weights(newest / _WEIGHTS, model)
        states: dict[int, dict[str, Any]] = {}
        for name, tensor in load_file(newest / _OPTIMISER).items():
            number, _, key = name.partition(".")
            states.setdefault(int(number), {})[key] = tensor
        optimiser.load_state_dict({**optimiser.state_dict(), "state": states})
        state: dict[str, Any] = json.loads((newest / _STATE).read_text("utf-8"))
    return state


def save_weights(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write tensors, such as a model's weights.

    Raises:
        StoreError: the file cannot be written.
    """
    from safetensors.torch import save_file

    # Tied weights share memory, which safetensors refuses; the copies are few and small.
    copies = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    with translated(path.parent), atomic_path(path) as part:
        save_file(copies, part)


def load_weights(path: Path, model: Any) -> None:
    """Load weights from a file into a model.

    Raises:
        OSError, SafetensorError, RuntimeError: the file is missing, damaged or another model's.
    """
    from safetensors.torch import load_file

    model.load_state_dict(load_file(path))
