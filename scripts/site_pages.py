"""Lay out the pages that the site is built from: README.md, docs/, and what they link.

    python scripts/site_pages.py    # writes build/pages; `make docs` builds build/site from it

README.md is the first page. Linked files of the repository (notebooks, studies, the changelog) come
along under `repository/`, Markdown and notebooks as pages, and links are turned there. A link to a
folder becomes plain text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
HOME = ROOT / "README.md"
OUT = ROOT / "build" / "pages"
PLACE = "repository"
PAGES = (".md", ".ipynb")
"""Endings of files that become pages."""
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
"""A link or picture with its words, its file, which may not be empty, and its anchor."""
CODE = re.compile(r"`[^`\n]+`")
FENCE = re.compile(r"^( *)(```+).*?^\1\2", re.MULTILINE | re.DOTALL)


def lay_out(out: Path = OUT) -> list[Path]:
    """Write the pages, and return the files outside docs/ that came along."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(DOCS, out)
    brought = list(_linked_elsewhere())
    for source in [HOME, *sorted(DOCS.rglob("*.md")), *brought]:
        target = out / _place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix in PAGES:
            target.write_text(_with_links_turned(source), "utf-8")
        else:
            shutil.copyfile(source, target)
    return brought


def _linked_elsewhere() -> Iterator[Path]:
    waiting = [HOME, *sorted(DOCS.rglob("*.md"))]
    seen = set(waiting)
    while waiting:
        for target in _targets(waiting.pop(0)):
            if target in seen or target.is_relative_to(DOCS) or target.name.startswith("."):
                continue
            seen.add(target)
            yield target
            if target.suffix in PAGES:
                waiting.append(target)


def _targets(path: Path) -> Iterator[Path]:
    for match in LINK.finditer(FENCE.sub("", _text(path))):
        there = (path.parent / match[2]).resolve()
        if there.is_file():
            yield there


def _place(path: Path) -> PurePosixPath:
    """Return the place of a file among the pages."""
    if path == HOME:
        return PurePosixPath("index.md")
    if path.is_relative_to(DOCS):
        return PurePosixPath(path.relative_to(DOCS).as_posix())
    name = PurePosixPath(PLACE, path.relative_to(ROOT).as_posix())
    return name.with_suffix(".md") if path.suffix == ".ipynb" else name


def _text(path: Path) -> str:
    """Return a page; a notebook as Markdown, without outputs."""
    if path.suffix != ".ipynb":
        return path.read_text("utf-8")
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def _with_links_turned(path: Path) -> str:
    def turned(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        there = (path.parent / target).resolve()
        if not there.exists():
            return match[0]
        if there.is_dir() or there.name.startswith("."):
            return words
        return f"[{words}]({os.path.relpath(_place(there), _place(path).parent)}{anchor})"

    return _outside_fences(_text(path), lambda text: _bars_in_code(LINK.sub(turned, text)))


def _bars_in_code(text: str) -> str:
    """Take the backslash before a bar in code, which GitHub wants in tables and MkDocs shows."""
    return CODE.sub(lambda match: match[0].replace("\\|", "|"), text)


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to what is between blocks of code."""
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


if __name__ == "__main__":
    lay_out()
