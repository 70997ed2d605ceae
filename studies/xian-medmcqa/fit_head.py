"""Fit a multiple-choice head on MiniLM to the very items an experiment attacks.

The result is a stand-in for memorised knowledge: a victim that is right on nearly all items, so
that what an attack takes from it can be measured. Its accuracy on these items says nothing about
medicine, and it is no model to compare others with.

    python studies/xian-medmcqa/fit_head.py \
        --experiment studies/xian-medmcqa/medmcqa.toml --out runs/head-medmcqa

The same seed on the same machine with as many threads gives the same weights.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medstress.core.errors import MedstressError, UsageError
from medstress.core.hashing import content_hash
from medstress.core.items import Candidate, Question
from medstress.entities.encoders import minilm_folder
from medstress.experiment.plan.plan import Prepared
from medstress.kinds.prompted import head_template
from medstress.running.prepare import prepare
from medstress.training.batching import batches
from medstress.training.choice import (
    Example,
    accuracy,
    key_loss,
    option_scores,
    tokenised,
)
from medstress.version import __version__

WEIGHT_DECAY = 0.01
WARM_UP = 0.1
"""Share of all steps in which the learning rate rises; it falls to 0 in the others."""


def main() -> int:
    """Fit, save, and say how well."""
    args = arguments()
    out = Path(args.out)
    try:
        if out.exists() and any(out.iterdir()):
            raise UsageError(f"--out {out}: expected a new or an empty folder")
        prepared = prepare(args.experiment, limit=args.limit, overrides=args.set)
        items = attacked_items(prepared)
        template = head_template(args.prompt, prepared.base)
        texts = [str(template.render(Candidate(item=item))) for item in items]
    except MedstressError as error:
        print(f"fit_head: {error}", file=sys.stderr)
        return 2
    model, tokenizer = new_model(args.seed)
    examples = tokenised(items, texts, tokenizer)
    print(f"{len(items)} items, {sum(len(one.options) for one in examples)} pairs", flush=True)
    history = fit(model, examples, args)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    hashes = content_hash(sorted(item.hash for item in items))
    (out / "README.md").write_text(note(args, len(items), hashes, history), "utf-8")
    print(f"saved to {out}")
    return 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--experiment", required=True, help="the TOML file whose items are fitted")
    parser.add_argument("--set", action="append", default=[], help="as in medstress run")
    parser.add_argument("--limit", type=int, help="as in medstress run")
    parser.add_argument("--out", required=True, help="a new folder for the model")
    parser.add_argument("--prompt", default="question", help="template of the first text of a pair")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-4, help="the highest learning rate")
    parser.add_argument("--batch", type=int, default=16, help="items a step")
    return parser.parse_args()


def attacked_items(prepared: Prepared) -> list[Question]:
    """The items that some attack of the experiment asks about, in their order."""
    asked: dict[str, Question] = {}
    for dataset in prepared.datasets:
        for group in prepared.groups:
            for item in group.items(dataset):
                obstacles = (
                    part.attack.obstacle(item, group.resources) for part in prepared.attacks
                )
                if None in obstacles:
                    asked[item.hash] = item
    if not asked:
        raise UsageError("the experiment attacks no item")
    return list(asked.values())


def new_model(seed: int) -> tuple[Any, Any]:
    """MiniLM with a head of random weights, drawn by the seed."""
    import torch
    from transformers import AutoModelForMultipleChoice, AutoTokenizer

    torch.manual_seed(seed)
    where = str(minilm_folder())
    # What is to be learnt by heart is learnt sooner without dropout.
    model = AutoModelForMultipleChoice.from_pretrained(
        where, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, local_files_only=True
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device), AutoTokenizer.from_pretrained(where, local_files_only=True)


def fit(model: Any, examples: Sequence[Example], args: argparse.Namespace) -> list[float]:
    """Train; returns the accuracy before each step of every epoch, and at last after fitting."""
    import torch

    order = random.Random(args.seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=WEIGHT_DECAY)
    n_steps = args.epochs * math.ceil(len(examples) / args.batch)
    rises = max(1, round(WARM_UP * n_steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / rises, (n_steps - step) / max(1, n_steps - rises))
    )
    history = []
    for epoch in range(1, args.epochs + 1):
        started, losses, right = time.perf_counter(), [], 0
        model.train()
        for batch in batches(examples, args.batch, order, lambda one: one.longest):
            loss, n_right = key_loss(option_scores(model, batch), batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
            losses.append(loss.item())
            right += n_right
        history.append(right / len(examples))
        print(
            f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, accuracy before each step "
            f"{history[-1]:.3f} ({time.perf_counter() - started:.0f} s)",
            flush=True,
        )
    history.append(accuracy(model, examples, 4 * args.batch))
    print(f"accuracy after fitting: {history[-1]:.3f}", flush=True)
    return history


def note(args: argparse.Namespace, n_items: int, hashes: str, history: Sequence[float]) -> str:
    """What the folder holds, for whoever finds it; not part of a victim's fingerprint."""
    *during, after = history
    epochs = "\n".join(f"| {i} | {value:.4f} |" for i, value in enumerate(during, 1))
    return f"""# A stand-in for memorised knowledge

all-MiniLM-L6-v2 with a multiple-choice head, **fitted to the attacked items themselves** by
`scripts/fit_head.py` of medstress {__version__}. It is made to be right on them, so that a loss
under attack can be measured. It knows no medicine beyond them; its accuracy is no result.

* experiment: {Path(args.experiment).name}, {n_items} items, hash of their hashes {hashes}
* pairs: (prompt "{args.prompt}", option text)
* epochs {args.epochs}, seed {args.seed}, learning rate {args.lr:g}, {args.batch} items a step

| epoch | accuracy on the fitted items, before each step |
| --- | --- |
{epochs}
| after fitting | {after:.4f} |

Answers with `backend = "transformers"`, `answer_by = "head"`, `prompt = "{args.prompt}"`.
"""


if __name__ == "__main__":
    raise SystemExit(main())
