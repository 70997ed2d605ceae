"""Attack one question and look at what happened. The question is made up."""

from __future__ import annotations

import medstress as ms

OPTIONS = ("Warfarin", "Ibuprofen", "Loratadine", "Metformin")
QUESTION = ms.Question(
    id="made-up-1",
    stem="Which drug does the made-up guideline of Vell name first?",
    options=OPTIONS,
    key="A",
    mentions=tuple(
        ms.Mention(field=letter, start=0, end=len(text), type="drugs")
        for letter, text in zip("ABCD", OPTIONS, strict=True)
    ),
)


def answer(prompts: list[str]) -> list[str]:
    """Say A, unless an option ends in "mab": then the letter of that option."""
    return [_letter(prompt) for prompt in prompts]


def _letter(prompt: str) -> str:
    lines = [line for line in prompt.splitlines() if line.endswith("mab")]
    return f"The answer is {lines[0][0] if lines else 'A'}."


def main() -> None:
    """Try up to one hundred random drug names in place of the distractor nearest to the key."""
    trial = ms.attack_one(
        QUESTION,
        answer,
        ms.EntitySubstitution(sampler="random", budget=100),
        entities={"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        seed=0,
    )
    print(f"verdict: {trial['verdict']} after {trial['n_asked']} queries")
    print(f"option {trial['option']}: {trial['replaced']} -> {trial['replacement']}")
    print(f"answer: {trial['answer_before']} -> {trial['answer_after']}")
    print(trial["prompt_after"])


if __name__ == "__main__":
    main()
