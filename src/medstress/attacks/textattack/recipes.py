"""Recipes of TextAttack that need no download, and our victims as models that they attack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from medstress.machine.textattack import import_textattack, offline

RECIPES: Mapping[str, str] = {
    "deepwordbug": "DeepWordBugGao2018",
    "pruthi": "Pruthi2019",
}
"""Our name -> the class in `textattack.attack_recipes`. The others want word vectors, language
models, word nets or taggers that are downloaded, gradients, or another goal than a wrong label."""

Answer = Callable[[Sequence[Any]], Sequence[Sequence[float]]]
"""Inputs as TextAttack makes them -> a row of probabilities over the labels for each."""


def build_recipe(name: str, answer: Answer) -> Any:
    """Return a recipe of TextAttack (its `Attack`) on a model that a function answers for.

    *Differs from the recipe*: its stop words, which are never changed, are those shipped with
    medstress; nltk's would be downloaded, and a run would depend on whether they were.

    Raises:
        UsageError: TextAttack is not installed.
    """
    kind = getattr(import_textattack("textattack.attack_recipes"), RECIPES[name])
    wrapper: Any = import_textattack("textattack.models.wrappers").ModelWrapper

    class Victim(wrapper):  # type: ignore[misc, unused-ignore]
        """One of our victims, as TextAttack calls a model."""

        def __init__(self) -> None:
            self.model = self

        def __call__(self, text_input_list: Sequence[Any], **_: Any) -> Any:
            import numpy as np

            return np.asarray(answer(text_input_list), dtype=float)

    with offline():
        return kind.build(Victim())
