"""What against.py prints of each tool: rates, tokens, letters that agree, lines of code."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent / "peers"
OURS = "medstress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One way to ask, and what its user writes."""

    files: tuple[str, ...]
    """In peers/."""
    commands: int = 1
    """Lines typed into a shell."""

    @property
    def lines(self) -> int:
        """Of both."""
        texts = ((EXAMPLES / name).read_text("utf-8") for name in self.files)
        is_python = (name.endswith(".py") for name in self.files)
        return self.commands + sum(map(n_lines, texts, is_python))


TOOLS = {
    OURS: Tool(files=("medstress.toml",)),
    "hf": Tool(files=("hf_loop.py",)),
    "lm_eval": Tool(files=("forms.yaml",)),
    "llama_cpp": Tool(files=("llama_server.py",), commands=2),
}


def n_lines(text: str, is_python: bool) -> int:
    '''Lines that say something: no blank ones, comments or docstrings.

    >>> n_lines('"""What it does."""\\n\\n# so\\nx = (\\n    1,\\n)\\n', True)
    3
    >>> n_lines("# so\\n[a]\\n\\nb = 1\\n", False)
    2
    '''
    if not is_python:
        return sum(bool(line.strip()) and line.strip()[0] != "#" for line in text.splitlines())
    found: set[int] = set()
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in silent | {tokenize.ENDMARKER}:
            # A text that is a statement by itself is a docstring.
            begins |= token.type == tokenize.NEWLINE
            continue
        if not (begins and token.type == tokenize.STRING):
            found.update(range(token.start[0], token.end[0] + 1))
        begins = False
    return len(found)


def beside(
    lines: Sequence[Mapping[str, Any]], ours: Mapping[str, Any], tool: str, threads: int
) -> Iterator[dict[str, Any]]:
    """What is printed of a tool: rates, tokens, and the letters that agree with ours.

    `apart`: by how much our log probability of our letter is above that of theirs, at most.
    """
    for line in lines:
        if "could_not" in line:
            yield {"tool": tool, **line}
            continue
        known, letters = ours[line["dataset"]], line["letters"]
        agree = sum(letters[prompt] == known["letters"].get(prompt) for prompt in letters)
        scored = [(known["scores"].get(prompt, {}), letter) for prompt, letter in letters.items()]
        apart = max(
            (max(one.values()) - one[letter] for one, letter in scored if letter in one),
            default=0.0,
        )
        yield {
            "tool": tool,
            "version": line["version"],
            "dataset": line["dataset"],
            "queries": len(letters),
            "seconds": round(line["seconds"], 2),
            "queries_per_second": round(len(letters) / line["seconds"], 2),
            "tokens_forwarded": line["tokens_forwarded"],
            "tokens_unique": known["tokens_unique"],
            "tokens_of_all_prompts": known["tokens_of_all_prompts"],
            "letters_agree": agree,
            "apart": round(apart, 3),
            "lines_of_code": TOOLS[tool].lines,
            "threads": threads,
        }
