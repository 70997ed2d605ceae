"""A model with the layers that torch and transformers made, as others run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from medstress.machine.onednn_linear import onednn_linear


@contextmanager
def own_layers(model: Any) -> Iterator[None]:
    """Let linear layers multiply as torch does by itself."""
    changed = [one for one in model.modules() if type(one) is onednn_linear()]
    for layer in changed:
        layer.__class__ = torch.nn.Linear
    try:
        yield
    finally:
        for layer in changed:
            layer.__class__ = onednn_linear()
