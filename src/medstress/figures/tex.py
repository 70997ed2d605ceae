"""Captions as text beside each image, and one LaTeX document that shows everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from medstress.figures.outputs import Made, Skipped
from medstress.results.latex import PACKAGES, escape

DOCUMENT = "figures.tex"
_IMAGES = ("pdf", "png", "svg")
_OF_PDFLATEX = ("pdf", "png")

_HEAD = r"""% All tables and figures of a run, one to a page. In a paper, \input what you need.
\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{amssymb}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage{xcolor}
\usepackage[margin=2cm]{geometry}
% A character that the fonts lack is set as a question mark.
\makeatletter
\def\UTFviii@undefined@err#1{?}
\makeatother
% Cases and claims may be more floats than LaTeX keeps waiting.
\extrafloats{1000}
\begin{document}
"""


def with_captions(made: Made) -> Made:
    """Add a figure's caption: `NAME.txt`, and `NAME.tex`, which sets image, caption and label.

    Tables have their captions in their LaTeX already.
    """
    images = [form for form in _IMAGES if f"{made.name}.{form}" in made.files]
    if not images:
        return made
    files = {**made.files, f"{made.name}.txt": f"{made.caption}\n".encode()}
    if any(form in images for form in _OF_PDFLATEX):
        files[f"{made.name}.tex"] = _figure(made).encode()
    return replace(made, files=files)


def document(found: Iterable[Made | Skipped], doubts: Sequence[str] = ()) -> str:
    r"""Return a document that \input-s the LaTeX of everything made, after what is in doubt."""
    lines = [rf"\noindent {escape(each)}\par" for each in doubts]
    for each in found:
        if not isinstance(each, Made):
            continue
        if f"{each.name}.tex" in each.files:
            lines += [rf"\input{{{each.name}}}", r"\clearpage"]
        elif f"{each.name}.svg" in each.files:
            lines.append(f"% {each.name}: pdflatex reads pdf and png, not svg")
    return _HEAD + "\n".join(lines or ["Nothing was made."]) + "\n\\end{document}\n"


def _figure(made: Made) -> str:
    lines: Sequence[str] = (
        f"% medstress figures: {made.name}",
        PACKAGES + "{graphicx}",
        r"\begin{figure}",
        r"\centering",
        rf"\sbox0{{\includegraphics{{{made.name}}}}}%",
        # Shrinks only what is larger than the page.
        r"\ifdim\wd0>\linewidth\sbox0{\resizebox{\linewidth}{!}{\usebox0}}\fi",
        r"\ifdim\ht0>.75\textheight\sbox0{\resizebox{!}{.75\textheight}{\usebox0}}\fi",
        r"\usebox0",
        rf"\caption{{{escape(made.caption)}}}",
        rf"\label{{fig:medstress-{made.name}}}",
        r"\end{figure}",
    )
    return "\n".join(lines) + "\n"
