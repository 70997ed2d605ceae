"""How models are loaded and compute: quietly, in one thread, with the memory they had, with oneDNN.

*One thread.* torch uses OpenMP, which keeps a team of threads for every thread that ever gave it
work. Once there are more OpenMP threads than cores, they sleep instead of spinning at each of the
hundreds of barriers of a forward pass, and a small model loses a quarter of its speed. So all CPU
computation runs in one thread, whichever thread calls it.

*oneDNN.* MKL, torch's default, is fastest on Intel's processors. On an AMD EPYC with AVX-512 a
language model in float32 read 1.6 to 2 times as fast with oneDNN, which torch also ships
(docs/results/performance.md).
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_NAME = "medstress-compute"


@contextmanager
def quiet(*, warnings: bool = False) -> Iterator[None]:
    """Silence the progress bars of transformers, and its warnings unless they are wanted."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    if not warnings:
        logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def lacking(model: Any, report: dict[str, Any]) -> str:
    """Name the weights below its head that a model's folder lacks or has in another shape, so that
    they are random.

    Args:
        model: as `from_pretrained` loaded it.
        report: its `output_loading_info`.

    Returns:
        The first three names; empty if nothing is lacking but the head or the pooler.
    """
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    random = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    names = [key for key in sorted(random) if key.startswith(prefix) and "pooler." not in key]
    return ", ".join(names[:3])


def in_compute_thread(work: Callable[P, R]) -> Callable[P, R]:
    """Make a function always run in the compute thread while its caller waits.

    With CUDA it runs in the calling thread, so that several devices can work at once.

    >>> import threading
    >>> in_compute_thread(lambda: threading.current_thread().name)()
    'medstress-compute_0'
    """

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.current_thread().name.startswith(_NAME) or _has_cuda():
            return work(*args, **kwargs)
        n_threads = _n_threads()

        def with_callers_threads() -> R:
            if n_threads and _n_threads() != n_threads:
                import torch

                torch.set_num_threads(n_threads)
            return work(*args, **kwargs)

        return _pool().submit(with_callers_threads).result()

    return run


def _n_threads() -> int | None:
    """The number of torch threads of the calling thread; None if torch is not loaded."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else None


@cache
def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


@cache
def _pool() -> ThreadPoolExecutor:
    # Before the thread first allocates memory, because it keeps the arena it begins with.
    keep_freed_memory()
    return ThreadPoolExecutor(1, thread_name_prefix=_NAME)


if hasattr(os, "register_at_fork"):
    # A forked child does not inherit the thread.
    os.register_at_fork(after_in_child=_pool.cache_clear)


# -- memory ------------------------------------------------------------------------------------
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""
_SETTINGS = {
    _MMAP_THRESHOLD: 1 << 30,
    _TRIM_THRESHOLD: (1 << 31) - 1,
    _TOP_PAD: 1 << 26,
    # A per-thread arena returns large blocks to the system whatever the other settings say.
    _ARENA_MAX: 1,
}


def keep_freed_memory() -> bool:
    """Let this process keep the memory it frees; return False if the C library cannot do that.

    A forward pass allocates and frees some hundred tensors of several megabytes. By default glibc
    returns that memory to the system, which must clear each page again at its first use. That
    takes up to a tenth of the time of a small model on a virtual machine (measured: 12 us per page
    of 4 KB). With these settings the process keeps the memory of its largest batch.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    accepted = [mallopt(parameter, value) == 1 for parameter, value in _SETTINGS.items()]
    return all(accepted)


# -- oneDNN ------------------------------------------------------------------------------------
_MIN_MULTIPLICATIONS = 2**20
"""Below this size of a product oneDNN was not always faster in that measurement."""
_COMPARED_ROWS = (1, 7, 100)
_TOLERANCE = 1e-5
"""Largest float32 difference, relative to the largest absolute value of a token."""


def use_onednn(model: Any) -> None:
    """Make the linear layers of a model multiply with oneDNN when no gradients are needed.

    Does nothing except on AMD processors. It changes the class of the layers; weights and saved
    files stay the same. A layer changes only if its outputs agree up to rounding.

    Args:
        model: a `torch.nn.Module`. Only its float32 layers on a CPU are changed.
    """
    import torch

    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.enabled
    if not (has_both and _mkl_is_slow() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return
    agrees: dict[tuple[Any, ...], bool] = {}
    for layer in model.modules():
        if not _is_plain(layer):
            continue
        shape = (*layer.weight.shape, layer.bias is None)
        if shape not in agrees:
            replacement = partial(product, weight=layer.weight, bias=layer.bias)
            agrees[shape] = _outputs_match(layer, replacement)
        if agrees[shape]:
            layer.__class__ = onednn_linear()


def _is_plain(layer: Any) -> bool:
    """Return whether a layer is linear, in float32 on a CPU, and has its original forward.

    This excludes weights that accelerate offloads (device `meta`) and quantised weights (other
    tensor types).
    """
    import torch

    return (
        type(layer) in (torch.nn.Linear, onednn_linear())
        and "forward" not in vars(layer)
        and type(layer.weight) is torch.nn.Parameter
        and (layer.weight.device.type, layer.weight.dtype) == ("cpu", torch.float32)
    )


def _outputs_match(layer: Any, replacement: Callable[[Any], Any]) -> bool:
    """Return whether a layer and its replacement agree on random inputs; False if one fails."""
    import torch

    generator = torch.Generator().manual_seed(0)
    try:
        with torch.inference_mode():
            for n_rows in _COMPARED_ROWS:
                states = torch.randn(1, n_rows, layer.in_features, generator=generator)
                expected, actual = layer(states), replacement(states)
                if (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
                    return False
                largest = expected.abs().amax(-1, keepdim=True)
                if not bool(((expected - actual).abs() <= _TOLERANCE * largest).all()):
                    return False
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError):
        return False
    return True


@cache
def onednn_linear() -> Any:
    """Return the layer class; built on first use because torch is an optional extra."""
    import torch

    class OnednnLinear(torch.nn.Linear):  # type: ignore[misc]  # torch is not followed by mypy
        """A linear layer that uses oneDNN for CPU inference and torch's default otherwise."""

        def forward(self, states: Any) -> Any:
            weight = self.weight
            fits = states.is_cpu and states.dtype == weight.dtype == torch.float32
            autocast = torch.is_autocast_enabled("cpu")  # it does not know this operation
            is_large = states.numel() * self.out_features >= _MIN_MULTIPLICATIONS
            if fits and is_large and not autocast and not torch.is_grad_enabled():
                return product(states, weight, self.bias)
            return super().forward(states)

    return OnednnLinear


def product(states: Any, weight: Any, bias: Any) -> Any:
    """Multiply `(..., n_in)` by a weight `(n_out, n_in)` and add a bias."""
    import torch

    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")


@cache
def _mkl_is_slow() -> bool:
    """Return whether this is an AMD processor, where MKL lacks its fastest code (one measured)."""
    try:
        description = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        description = platform.processor()  # names the vendor on Windows
    return "AuthenticAMD" in description
