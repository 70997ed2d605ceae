"""`medstress cache`: inspect, verify and prune the shared answer cache."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from medstress.core.errors import StoreError, UsageError
from medstress.store.shared_cache import SharedCache, cache_folder


def cache_cli(args: argparse.Namespace) -> int:
    """Run `medstress cache`."""
    given = {"--older-than": args.older_than, "--model": args.model}
    given.update({"--damaged": args.damaged or None, "--dry-run": args.dry_run or None})
    if args.action != "prune":
        for flag, value in given.items():
            if value is not None:
                raise UsageError(f"{flag} applies only to: medstress cache prune")
    folder = cache_folder(args.path, Path.cwd())
    with closing(SharedCache(folder, create=False)) as cache:
        if args.action == "info":
            _info(cache)
        elif args.action == "verify":
            _verify(cache)
        else:
            _prune(cache, args)
    return 0


def _info(cache: SharedCache) -> None:
    models = cache.models()
    size = cache.n_bytes() / 1e6
    print(f"{cache.folder}: {sum(m.n for m in models):,} answers, {size:,.1f} MB")
    for each in models:
        print(
            f"  {each.model}: {each.n:,} answers, {each.n_tokens:,} tokens, "
            f"{1000 * each.seconds_per_call:,.3g} ms each ({each.model_hash})"
        )


def _verify(cache: SharedCache) -> None:
    total, bad = sum(each.n for each in cache.models()), len(cache.damaged())
    if bad:
        raise StoreError(
            f"{bad:,} of {total:,} answers in {cache.folder} are damaged; they are never used, and "
            "computed again when needed; remove them with: medstress cache prune --damaged"
        )
    print(f"{cache.folder}: all {total:,} answers are sound")


def _prune(cache: SharedCache, args: argparse.Namespace) -> None:
    keys = _chosen(cache, args)
    total = sum(each.n for each in cache.models())
    if not args.dry_run:
        cache.remove(keys)
    verb = "would be removed" if args.dry_run else "removed"
    print(f"{cache.folder}: {len(keys):,} of {total:,} answers {verb}")


def _chosen(cache: SharedCache, args: argparse.Namespace) -> Sequence[bytes]:
    by_kind = args.older_than is not None or args.model is not None
    if args.damaged and by_kind:
        raise UsageError("--damaged excludes --older-than and --model: prune in two commands")
    if args.damaged:
        return cache.damaged()
    if not by_kind:
        raise UsageError("prune needs one of: --older-than DAYS, --model NAME or --damaged")
    if args.older_than is not None and not args.older_than >= 0:
        raise UsageError(f"--older-than: expected 0 days or more, got {args.older_than:g}")
    keys = cache.chosen(older_than_days=args.older_than, model=args.model)
    known = {each.model for each in cache.models()}
    if args.model is not None and not keys and args.older_than is None:
        raise UsageError(
            f"--model {args.model!r}: the cache has no answers of this model "
            f"(it has: {', '.join(sorted(known)) or 'none'})"
        )
    return keys
