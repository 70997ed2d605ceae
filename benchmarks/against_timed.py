"""One tool on the sets of against.py, in the interpreter that has it; prints one line a set.

Loading is not timed; one prompt of another kind goes before. Tokens forwarded are counted in one
way for all that use torch: what reaches the input embedding, padding included. llama.cpp's server
says how many tokens of a prompt it evaluated.

    python benchmarks/against_timed.py '{"tool": "hf", "model": "FOLDER", "sets": {"medqa": "SET"}}'
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent / "peers"
PACKAGES = {
    "medstress": "medstress",
    "hf": "transformers",
    "lm_eval": "lm_eval",
    "textattack": "textattack",
    "llama_cpp": "xllamacpp",
}
"""Tool -> the package whose version is told."""
WARM_UP = [{"prompts": ["Which of these is a fruit?\nAnswer:"], "letters": "ABCD", "key": "A"}]
Letters = dict[str, str | None]
"""Prompt -> the letter that a tool gives."""


class Tokens:
    """Counts what goes into the input embedding; a forward hook on all modules.

    >>> class Embedding: ...
    >>> class Ids:
    ...     def numel(self): return 6
    >>> tokens = Tokens(Embedding)
    >>> tokens(Embedding(), (Ids(),)), tokens(object(), (Ids(),)), tokens.n
    (None, None, 6)
    """

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.n = 0
        """Places of all batches so far, padding included."""

    def restart(self) -> None:
        """Count from 0."""
        self.n = 0

    def __call__(self, module: Any, arguments: Sequence[Any]) -> None:
        """As torch calls a hook before a module's forward."""
        if isinstance(module, self._kind):
            self.n += arguments[0].numel()


@contextmanager
def counted() -> Iterator[Tokens]:
    """Count for a while."""
    import torch

    tokens = Tokens(torch.nn.Embedding)
    hook = torch.nn.modules.module.register_module_forward_pre_hook(tokens)
    try:
        yield tokens
    finally:
        hook.remove()


def example(name: str) -> Any:
    """A script of peers/, imported."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def timed(
    answer: Callable[[Path], Letters], sets: Mapping[str, str], tokens: Callable[[], int]
) -> Iterator[dict[str, Any]]:
    """Ask each set once."""
    for name, folder in sets.items():
        before, started = tokens(), time.perf_counter()
        letters = answer(Path(folder))
        seconds = time.perf_counter() - started
        yield {
            "dataset": name,
            "seconds": seconds,
            "tokens_forwarded": tokens() - before,
            "letters": letters,
        }


def by_script(name: str, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """An example that loads and answers."""
    module = example(name)
    loaded = module.load(given["model"])
    module.answer(loaded, WARM_UP)
    with counted() as tokens:
        yield from timed(
            lambda folder: module.answer(loaded, lines_of(folder / "items.jsonl")),
            given["sets"],
            lambda: tokens.n,
        )


def by_textattack(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """TextAttack's loop; its first import would fetch word lists, which the loop does not use."""
    from types import SimpleNamespace

    import nltk

    nltk.download = lambda *_, **__: False
    nltk.corpus.stopwords = SimpleNamespace(words=lambda *_: ())
    yield from by_script("textattack_loop", given)


def by_lm_eval(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """lm-evaluation-harness on the set as a task."""
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    model = HFLM(pretrained=given["model"], dtype="float32", batch_size=16, device="cpu")
    with torch.inference_mode():
        model.model(input_ids=torch.ones((1, 16), dtype=torch.long))

    def answer(folder: Path) -> Letters:
        os.chdir(folder)
        shutil.copy(EXAMPLES / "forms.yaml", folder)
        tasks = TaskManager(include_path=str(folder), include_defaults=False)
        found = simple_evaluate(model=model, tasks=["forms"], task_manager=tasks, log_samples=True)
        letters: Letters = {}
        for sample in found["samples"]["forms"]:
            scores = [reply[0][0] for reply in sample["resps"]]
            place = scores.index(max(scores))
            letters[sample["doc"]["prompt"]] = sample["doc"]["letters"][place]
        return letters

    with counted() as tokens:
        yield from timed(answer, given["sets"], lambda: tokens.n)


def by_llama_cpp(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """llama.cpp's server in this process, over its port as from any other."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = given["gguf"]
    params.n_ctx, params.n_parallel, params.port, params.verbosity = 4096, 1, 0, -1
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = given["threads"]
    server = xllamacpp.Server(params)
    module, evaluated = example("llama_server"), [0]
    complete = module.complete

    def counting(url: str, prompt: str) -> Any:
        reply = complete(url, prompt)
        evaluated[0] += reply["timings"]["prompt_n"]
        return reply

    module.complete = counting
    url = server.listening_address
    module.answer(url, WARM_UP)
    yield from timed(
        lambda folder: module.answer(url, lines_of(folder / "items.jsonl")),
        given["sets"],
        lambda: evaluated[0],
    )


def by_medstress(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Our run, which also makes the set: what it consumed is what the others are asked."""
    from consumed import DATASETS, answered_questions, consumed_calls, run_tables, vocabulary

    asked = argparse.Namespace(**{**given["settings"], "data": Path(given["settings"]["data"])})
    for name, told in given["sets"].items():
        folder = Path(told)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        answered_questions(name, asked, folder)
        for kind in ("drugs", "diseases"):
            shutil.copy(vocabulary(kind, asked, folder)["vocabulary"], folder / f"{kind}.txt")
        tables = tomllib.loads((EXAMPLES / "medstress.toml").read_text("utf-8"))
        tables["victim"][0] |= {"prompt": DATASETS[name][2], "model": asked.model}
        os.chdir(folder)
        with recorded() as scores, counted() as tokens:
            _, spent = run_tables(tables, folder / "run", ready=tokens.restart)
        letters: Letters = {
            prompt: max(one, key=lambda x: one[x]) for prompt, one in scores.items()
        }
        items = write_set(folder, consumed_calls(folder / "run"), letters)
        prompts = [prompt for item in items for prompt in item["prompts"]]
        yield {
            "dataset": name,
            "seconds": spent["wall_seconds"],
            "tokens_forwarded": tokens.n,
            "tokens_in_ledger": spent["tokens_forwarded"],
            "letters": {prompt: letters[prompt] for prompt in prompts},
            "scores": {prompt: scores[prompt] for prompt in prompts},
            **tokens_needed(items, given["model"]),
        }


@contextmanager
def recorded() -> Iterator[dict[str, dict[str, float]]]:
    """The log probability of each letter, by prompt, that the back end answers."""
    from medstress.backends.local.transformers import TransformersBackend

    answer = TransformersBackend.answer
    scores: dict[str, dict[str, float]] = {}

    def both(backend: Any, calls: Sequence[Any]) -> Any:
        replies = answer(backend, calls)
        for call, reply in zip(calls, replies, strict=True):
            letters = map(str.strip, call.continuations)
            scores[call.prompt] = dict(zip(letters, reply.log_probs, strict=True))
        return replies

    TransformersBackend.answer = both  # type: ignore[method-assign]
    try:
        yield scores
    finally:
        TransformersBackend.answer = answer  # type: ignore[method-assign]


def write_set(
    folder: Path, calls: Mapping[int, Mapping[Any, None]], letters: Letters
) -> list[dict[str, Any]]:
    """Write the prompts of each item, the clean one first, for the other tools."""
    items = [
        {
            "prompts": list(dict.fromkeys(call.prompt for call in of_item)),
            "letters": "".join(one.strip() for one in next(iter(of_item)).continuations),
        }
        for of_item in calls.values()
    ]
    for item in items:
        item["key"] = letters[item["prompts"][0]]
    forms = [
        {
            "prompt": prompt,
            "letters": list(item["letters"]),
            "answer_idx": item["letters"].index(item["key"]),
        }
        for item in items
        for prompt in item["prompts"]
    ]
    for name, rows in (("items", items), ("forms", forms)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    return items


def tokens_needed(items: Sequence[Mapping[str, Any]], model: str) -> dict[str, int]:
    """Tokens of all prompts, and the distinct ones of each item."""
    from consumed import n_trie_nodes
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    sequences = [[tuple(tokenizer(each).input_ids) for each in item["prompts"]] for item in items]
    return {
        "tokens_of_all_prompts": sum(len(one) for of_item in sequences for one in of_item),
        "tokens_unique": sum(map(n_trie_nodes, sequences)),
    }


WAYS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]] = {
    "medstress": by_medstress,
    "hf": lambda given: by_script("hf_loop", given),
    "lm_eval": by_lm_eval,
    "textattack": by_textattack,
    "llama_cpp": by_llama_cpp,
}


def main() -> None:
    """Measure the tool that is asked for; what the tools print goes to stderr."""
    given = json.loads(sys.argv[1])
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tool = given["tool"]
    with ExitStack() as stack:
        stack.enter_context(out)
        for line in WAYS[tool](given):
            print(json.dumps({**line, "version": version(PACKAGES[tool])}), file=out, flush=True)


if __name__ == "__main__":
    main()
