"""Clean a reply: its lines without markup, reasoning, and what follows the answer."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import normalize

_THINKS = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z]+\s*/?>")
_BOXED = re.compile(r"\\boxed\s*\{")
_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{")
_MARKUP = str.maketrans({**dict.fromkeys('*_`$#{}"“”«»„「」|\\'), "’": "'", "【": "(", "】": ")"})
_BULLET = re.compile(r"^(?:[•·‣◦▪●✅✔☑👉➤\s]|[>-]\s)+")
_BRACKETED_WORD = re.compile(r"\[([^\W\d_]{2,})\]")
_NEXT = re.compile(r"(?:context|question|q|user|human)\s*\d*\s*:", re.IGNORECASE)
_END = re.compile(r"<\||</s>")


def cleaned_lines(text: str) -> list[str]:
    """Return the lines that are not empty, without markup; a boxed answer becomes `answer: ...`.

    >>> cleaned_lines("**Answer:** B\\n\\n$\\\\boxed{\\\\text{(B) Warfarin}}$")
    ['Answer: B', 'answer: (B) Warfarin']
    """
    plain = _LATEX.sub("{", _BOXED.sub("\nanswer: {", normalize("NFKC", text)))
    plain = _TAG.sub(" ", plain).translate(_MARKUP)
    lines = (_BULLET.sub("", _BRACKETED_WORD.sub(r"\1", line)) for line in plain.splitlines())
    return [line for line in (" ".join(each.split()) for each in lines) if line]


@lru_cache(maxsize=4096)
def normalised(text: str) -> str:
    """Return a text without markup, case and outer punctuation, to compare options and lines.

    >>> normalised(" *Vitamin D*.") == normalised("vitamin d")
    True
    """
    return " ".join(cleaned_lines(text)).casefold().strip(" .,;:!?。")


def is_thinking(text: str) -> bool:
    """Whether a text begins with tagged thoughts."""
    return _THINKS.match(text) is not None


def without_thoughts(text: str) -> str:
    """Return what is said after the tagged thoughts; nothing if they do not end.

    >>> without_thoughts("<think>A or B?</think> It is B.")
    'It is B.'
    >>> without_thoughts("<think>It may be A")
    ''
    >>> without_thoughts("It is B.")
    'It is B.'
    """
    first, *rest = _THOUGHT.split(text)
    kept, thinks = [first], False
    for tag, part in zip(rest[::2], rest[1::2], strict=True):
        if tag == "/" and not thinks:
            kept.clear()  # the opening tag was in the prompt
        thinks = tag != "/"
        if not thinks:
            kept.append(part)
    return "".join(kept).strip() if rest else text


def answer_lines(text: str) -> list[str]:
    """Return the lines after the thoughts, up to where the model begins the next question.

    >>> answer_lines("<think>A or B?</think>It is B.\\n[Question]: Which?\\n[Answer]: C")
    ['It is B.']
    >>> answer_lines("<think>It may be A, but")
    []
    """
    lines = []
    for line in cleaned_lines(_END.split(without_thoughts(text), maxsplit=1)[0]):
        if _NEXT.match(line):
            break
        lines.append(line)
    return lines
