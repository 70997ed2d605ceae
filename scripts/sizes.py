"""Print how large the repository is against the guides of docs/design.md; fail far above one.

    make sizes

Code lines are lines of Python that hold more than a comment or a docstring. A figure may be a tenth
above its guide; beyond that docs/design.md needs a line under "Exceptions" that begins with its
name and says why. Exit code 1 where such a line is missing.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DESIGN = ROOT / "docs" / "design.md"
GUIDE = re.compile(r"^\| ([^|]+) \| ([\d,]+) \|", re.MULTILINE)
EXCEPTION = re.compile(r"^\* \*([^*]+)\*: \S", re.MULTILINE)
SLACK = 1.1
SILENT = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
)


def code_lines(text: str) -> int:
    '''Return how many lines hold code.

    >>> code_lines('"""What."""\\n\\n# why\\nx = (\\n    1,\\n)\\n"""Of x."""\\n')
    3
    '''
    silent = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    spoken: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT and token.string:
            spoken.update(range(token.start[0], token.end[0] + 1))
    return len(spoken - silent)


def figures() -> dict[str, int]:
    """Measure the tracked files of the working tree."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    counts = dict.fromkeys(
        ("source, code lines", "tests, lines", "docs, words", "benchmarks and scripts, lines"), 0
    )
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix not in (".py", ".md") or not path.is_file():
            continue
        text = path.read_text("utf-8")
        if path.suffix == ".md":
            counts["docs, words"] += 0 if "generated" in text[:200] else len(text.split())
        elif name.startswith("src/"):
            counts["source, code lines"] += code_lines(text)
        else:
            kind = "tests" if name.startswith("tests/") else "benchmarks and scripts"
            counts[f"{kind}, lines"] += text.count("\n")
    return counts


def main() -> int:
    """Print the figures; 1 where one is too large."""
    design = DESIGN.read_text("utf-8")
    guides = {name: int(number.replace(",", "")) for name, number in GUIDE.findall(design)}
    excused, code = set(EXCEPTION.findall(design)), 0
    for name, n in figures().items():
        guide = guides[name]
        print(f"{n:>8,}  of {guide:>7,}  {n / guide:>5.0%}  {name}")
        if n > SLACK * guide and name not in excused:
            print(f"{name}: say why in {DESIGN.relative_to(ROOT)}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
