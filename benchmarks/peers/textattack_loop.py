"""Attack a model with TextAttack: its loop, our names, a wrapper around transformers.

python textattack_loop.py MODEL_FOLDER items.jsonl > letters.json
"""

import json
import sys
from pathlib import Path

import torch
from textattack import Attack, AttackArgs, Attacker
from textattack.datasets import Dataset
from textattack.goal_functions import UntargetedClassification
from textattack.models.wrappers import ModelWrapper
from textattack.search_methods import GreedySearch
from textattack.shared import AttackedText
from textattack.transformations import Transformation
from transformers import AutoModelForCausalLM, AutoTokenizer


class LetterModel(ModelWrapper):
    """Scores of the letters after each prompt."""

    def __init__(self, folder):
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.letters, self.found = "ABCD", {}

    def __call__(self, prompts):
        """Logits, one row a prompt."""
        inputs = self.tokenizer(list(prompts), padding=True, return_tensors="pt")
        ids = [self.tokenizer(f" {letter}").input_ids[0] for letter in self.letters]
        with torch.inference_mode():
            logits = self.model(**inputs, use_cache=False, logits_to_keep=1).logits[:, -1, ids]
        for prompt, row in zip(prompts, logits, strict=True):
            self.found[prompt] = self.letters[int(row.argmax())]
        return logits


class Forms(Transformation):
    """The changed prompts of a clean one."""

    def __init__(self, forms):
        self.forms = forms

    def _get_transformations(self, current_text, indices_to_modify):
        return [AttackedText(form) for form in self.forms.get(current_text.text, [])]


def load(folder):
    """The victim."""
    return LetterModel(folder)


def answer(victim, items, batch_size=16):
    """The letter of each prompt that the loop asks."""
    victim.letters, victim.found = items[0]["letters"], {}
    attack = Attack(
        UntargetedClassification(victim, model_batch_size=batch_size),
        [],
        Forms({item["prompts"][0]: item["prompts"][1:] for item in items}),
        GreedySearch(),
    )
    pairs = [(item["prompts"][0], item["letters"].index(item["key"])) for item in items]
    arguments = AttackArgs(num_examples=-1, disable_stdout=True, silent=True)
    Attacker(attack, Dataset(pairs), arguments).attack_dataset()
    return victim.found


if __name__ == "__main__":
    rows = [json.loads(line) for line in Path(sys.argv[2]).read_text("utf-8").splitlines()]
    print(json.dumps(answer(load(sys.argv[1]), rows)))
