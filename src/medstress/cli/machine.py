"""`medstress cache` and `medstress list`."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from medstress import recipes
from medstress.core import registry
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.words import command, quoted
from medstress.files.writing import write_text
from medstress.store.shared_cache import SharedCache, cache_folder
from medstress.tasks.prompt_sets import shipped_sets, texts_of
from medstress.tasks.templates import SUFFIX, load_template, shipped_prompts


def cache_cli(args: argparse.Namespace) -> int:
    """Run `medstress cache`: inspect and prune the shared answer cache."""
    if args.action != "prune":
        for flag, value in (("--older-than", args.older_than), ("--model", args.model)):
            if value is not None:
                raise UsageError(f"{flag} applies only to: medstress cache prune")
    with closing(SharedCache(cache_folder(args.path, Path.cwd()), create=False)) as cache:
        models = cache.models()
        total = sum(model.n for model in models)
        if args.action == "info":
            size = cache.n_bytes() / 1e6
            print(f"{cache.folder}: {total:,} answers, {size:,.1f} MB")
            for model in models:
                print(
                    f"  {model.model}: {model.n:,} answers, {model.n_tokens:,} tokens, "
                    f"{1000 * model.seconds_per_call:,.3g} ms each ({model.model_hash})"
                )
            return 0
        if args.older_than is not None and not args.older_than >= 0:
            raise UsageError(f"--older-than: expected 0 days or more, got {args.older_than:g}")
        keys = set(cache.damaged())
        if args.older_than is not None or args.model is not None:
            chosen = cache.chosen(older_than_days=args.older_than, model=args.model)
            names = ", ".join(sorted({model.model for model in models})) or "none"
            if args.model is not None and not chosen and args.older_than is None:
                raise UsageError(
                    f"--model {args.model!r}: the cache has no answers of this model (it has: "
                    f"{names})"
                )
            keys |= set(chosen)
        cache.remove(list(keys))
        print(f"{cache.folder}: {len(keys):,} of {total:,} answers removed")
    return 0


def listing(kind: str) -> list[tuple[str, str]]:
    """Return (name, summary) of everything installed of a kind, including plug-ins."""
    if kind in registry.KINDS:
        return [(name, entry.summary) for name, entry in registry.installed(kind).items()]
    if kind == "recipes":
        return [(name, recipes.summary_of(name)) for name in recipes.names()]
    if kind == "samplers":
        from medstress.attacks.samplers import SUMMARIES

        return sorted(SUMMARIES.items())
    if kind == "prompts":
        from medstress.tasks.prompt_sets import load_prompts, shipped_sets
        from medstress.tasks.templates import load_template, shipped_prompts

        own = [(name, load_template(name).summary) for name in shipped_prompts()]
        sets = [(name, f"medfuzz: {load_prompts(name).rules.lever}") for name in shipped_sets()]
        return own + sets
    if kind == "parsers":
        from medstress.tasks.reading import SUMMARIES as PARSERS

        return list(PARSERS.items())
    if kind == "text_scores":
        from medstress.tasks.multiple_choice import TEXT_SCORES

        return list(TEXT_SCORES.items())
    if kind == "wrappers":
        from medstress.tasks.wrappers import SUMMARIES as WRAPPERS

        return list(WRAPPERS.items())
    if kind == "recognisers":
        from medstress.entities.recognisers import SUMMARIES as RECOGNISERS

        return list(RECOGNISERS.items())
    return list(_PLAIN[kind])


_PLAIN: dict[str, tuple[tuple[str, str], ...]] = {
    "embeddings": (
        ("minilm", "all-MiniLM-L6-v2, mean pooling; extra: medstress[minilm]"),
        ("ngram", "shared character n-grams and words, TF-IDF; no model"),
        ("PATH.txt, .vec, .gz", "word vectors in GloVe's text format; mean of a name's words"),
        ("GanjinZero/UMLSBert_ENG", "CODER, a BERT trained on UMLS; pooling cls"),
        ("thenlper/gte-base", "GTE; mean pooling"),
        (
            "PATH or hub id",
            "any encoder for transformers or sentence-transformers; pooling cls, "
            "mean or first_token",
        ),
    ),
    "vocabularies": (
        ("drugs", "substances approved in the United States, from the FDA UNII list"),
        ("diseases", "diseases from MeSH and MONDO"),
        ("PATH", "your own file: CSV, TSV, text or parquet"),
    ),
}


def prompt_texts(name: str) -> dict[str, str]:
    """Return file -> text of a shipped prompt or a set of prompts.

    Raises:
        UsageError: no prompt has this name.
    """
    if name in shipped_sets():
        return texts_of(name)
    known = [*shipped_prompts(), *shipped_sets()]
    if name not in known:
        raise UsageError(
            f"list prompts {name}: no prompt has this name{did_you_mean(name, known)}"
        ).with_command("medstress list prompts")
    return {f"{name}{SUFFIX}": load_template(name).source}


def write_prompts(texts: dict[str, str], folder: Path) -> None:
    """Write files to a new folder.

    Raises:
        UsageError: the folder exists already or cannot be written.
    """
    try:
        folder.mkdir(parents=True)
        for file, text in texts.items():
            write_text(folder / file, text, ordinary=True)
    except FileExistsError:
        raise UsageError(
            f"--to {folder}: it exists already; choose another name, or remove it"
        ) from None
    except OSError as error:
        raise UsageError(f"--to {folder}: cannot write it: {error.strerror}") from error


def list_cli(args: argparse.Namespace) -> int:
    """Run `medstress list`."""
    if args.name is not None:
        return _show_prompts(args)
    if args.to is not None:
        raise UsageError(
            "--to needs the name of a prompt, as in: medstress list prompts qstab --to DIR"
        ).with_command("medstress list prompts")
    rows = listing(args.kind)
    width = max(len(name) for name, _ in rows)
    for name, line in rows:
        print(f"{name:<{width}}  {line}")
    return 0


def _show_prompts(args: argparse.Namespace) -> int:
    if args.kind != "prompts":
        raise UsageError(f"list {args.kind} {args.name}: only prompts can be shown by name")
    texts = prompt_texts(args.name)
    if args.to is not None:
        write_prompts(texts, Path(args.to))
        print(f"prompts: {args.to}   next: edit them, and give the folder as `template`")
        return 0
    for file, text in texts.items():
        print(f"--- {file}\n{text.rstrip()}\n")
    return 0


def recipe_cli(args: argparse.Namespace) -> int:
    """Run `medstress recipe`."""
    text = recipes.text_of(args.name)
    if args.to is None:
        print(text, end="")
        return 0
    path = Path(args.to)
    if path.exists():
        # The user may have edited it: recipes are meant to be changed.
        raise UsageError(f"--to {path}: it exists already; choose another name, or remove it")
    try:
        write_text(path, text, ordinary=True)
    except OSError as error:
        raise UsageError(f"--to {path}: cannot write it: {error.strerror}") from error
    print(f"recipe: {quoted(path)}   next: {command('run', path)}")
    return 0
