"""How fast prompts are explained, beside shap's default batches and one prompt at a time.

The prompts are those of embedded questions before and after the name of one wrong option is
replaced. All ways search the same trees with the same number of masked texts:

* ours: `medstress explain`, all questions at once: the scheduler, its batches, the model's kept
  prefixes;
* default: shap's explainer with its default batches (10) and the model as transformers loads it,
  a batch of padded prompts in one forward pass;
* single: the same with one prompt in each forward pass.

Values of all ways are compared as well. Prints the ratios of one run as JSON, and ends with 1 if
ours is less than 2 times as fast as the default or less than 5 times as fast as single prompts:

    python benchmarks/explain.py --items 1 --evaluations 120
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from plainly import plainly

from medstress.backends.local.transformers import open_backend
from medstress.backends.models.loaded_model import load_model
from medstress.backends.options import BackendOptions
from medstress.core.calls import Score
from medstress.core.items import Question
from medstress.core.text import Edit
from medstress.datasets.sample import load
from medstress.datasets.source import DatasetOptions
from medstress.engine.scheduler import Scheduler
from medstress.explain.explanation import Explanation, Settings
from medstress.explain.masking import Masker
from medstress.explain.shapley import check_installed
from medstress.explain.tree import clustering_of, tree_of
from medstress.store.memory import MemoryLedger
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim

TARGETS = {"default": 2.0, "single": 5.0}
"""How many times as fast ours has to be."""
DEFAULT_BATCH = 10
"""What shap takes for `batch_size="auto"`."""
NAME = "Isotretinoin"
"""Replaces a wrong option."""


def work_for(question: Question, victim: Victim, settings: Settings) -> Explanation:
    """Return the explanation of a question with one wrong option replaced."""
    letter = next(each for each in question.letters if each != question.key)
    edit = Edit(field=letter, start=0, end=len(question.option(letter)), replacement=NAME)
    return Explanation(
        dataset="sample",
        group="drugs",
        victim=victim,
        attack_label="benchmark",
        attack_spec={},
        seed=None,
        item=question,
        edits=(edit,),
        wrong=None,
        settings=settings,
        spec={"trial": question.id},
    )


class Kept(MemoryLedger):
    """A ledger that also gives the findings back."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []

    def finish_trial(self, trial: int, verdict: str, result: dict[str, Any]) -> None:
        """Keep the findings."""
        self.found.append(result["found"])

    def commit(self) -> None:
        """Do nothing."""


def ours(work: list[Explanation]) -> list[dict[str, Any]]:
    """Explain through the scheduler; return the findings."""
    ledger = Kept()
    Scheduler(ledger).run(work, len(work))
    return ledger.found


def plain_model(loaded: Any, question: Question, size: int) -> Callable[[list[str]], np.ndarray]:
    """Return a function of prompts as a user of shap writes it: P(letter), `size` at a time."""
    tokenizer, model = loaded.tokenizer, loaded.model
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    letters = [tokenizer(f" {letter}")["input_ids"][-1] for letter in question.letters]

    def answer(prompts: list[str]) -> np.ndarray:
        found = []
        for start in range(0, len(prompts), size):
            inputs = tokenizer(prompts[start : start + size], return_tensors="pt", padding=True)
            with torch.inference_mode():
                logits = model(**inputs, logits_to_keep=1).logits[:, -1, letters]
            found.append(torch.softmax(logits.float(), dim=-1).numpy())
        return np.concatenate(found)

    return answer


def by_shap(
    found: dict[str, Any], side: str, model: Callable[[list[str]], np.ndarray], evaluations: int
) -> np.ndarray:
    """Explain the same tokens along the same tree with shap alone; return the values."""
    from shap import PartitionExplainer

    tokens, sizes = found[side]["tokens"], [n for _, _, n in found[side]["segments"]]
    masker, tree = Masker(texts=(tuple(tokens),)), tree_of(sizes)
    assert tree is not None

    class Texts:
        shape = (1, len(tokens))
        clustering = clustering_of(tree, len(tokens))

        def __call__(self, mask: np.ndarray, *_: Any) -> tuple[np.ndarray]:
            return (np.array(masker(mask), dtype=object),)

    explainer = PartitionExplainer(lambda texts: model(list(texts)), Texts())
    explained = explainer(
        np.zeros((1, len(tokens))), max_evals=evaluations, batch_size="auto", silent=True
    )
    return np.asarray(explained.values[0])


class Watch:
    """Seconds of the clock and of the processor; the clock also counts the work of others."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Time a block."""
        started, used = time.perf_counter(), time.process_time()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 2)
        self.cpu_seconds[name] = round(time.process_time() - used, 2)
        print(f"{name}: {self.seconds[name]} s, {self.cpu_seconds[name]} s of CPU", file=sys.stderr)


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """Return how many times as long the other ways take."""
    return {name: round(seconds[name] / seconds["ours"], 2) for name in TARGETS}


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Time all ways and compare them."""
    check_installed()
    torch.set_num_threads(given.threads)
    options = BackendOptions(model=given.model, dtype="float32")
    settings = Settings(evaluations=given.evaluations)
    task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.LETTER)
    questions = load(DatasetOptions()).questions[: given.items]
    backend = open_backend(options)
    victim = Victim(label="model", task=task, backend=backend)
    # The self-check of the model and the compiler of shap are not timed, of either.
    backend.answer([Score(given.model, (" A", " B"), first_token=True)])
    loaded = load_model(options)
    work = [work_for(question, victim, settings) for question in questions]
    warm = work_for(questions[-1], victim, Settings(evaluations=4))
    ours([warm])
    watch = Watch()
    with watch.on("ours"):
        found = ours(work)
    gaps = []
    for name, size in (("default", DEFAULT_BATCH), ("single", 1)):
        with watch.on(name):
            for question, one in zip(questions, found, strict=True):
                model = plain_model(loaded, question, size)
                for side in ("before", "after"):
                    values = by_shap(one, side, model, given.evaluations)
                    gaps.append(float(np.abs(values - np.array(one[side]["values"])).max()))
    n = sum(one[side]["evaluations"] for one in found for side in ("before", "after"))
    return {
        "model": given.model,
        "items": len(questions),
        "tokens": [len(one["before"]["tokens"]) for one in found],
        "evaluations": n,
        "seconds": watch.seconds,
        "cpu_seconds": watch.cpu_seconds,
        "times_as_fast": ratios(watch.seconds),
        "times_less_cpu": ratios(watch.cpu_seconds),
        "largest_difference": max(gaps),
        "tokens_forwarded": backend.counters["tokens_forwarded"],
        "tokens_naive": backend.counters["tokens_naive"],
        "threads": torch.get_num_threads(),
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--items", type=int, default=1)
    # With more, threads that wait for a busy processor delay whoever makes the most small steps.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--evaluations", type=int, default=120)
    found = measure(parser.parse_args())
    print(json.dumps(found, indent=1))
    return int(any(found["times_as_fast"][name] < least for name, least in TARGETS.items()))


if __name__ == "__main__":
    sys.exit(plainly(main))
