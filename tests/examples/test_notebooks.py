"""Notebooks hold no outputs and import public names; `make release-check` executes them."""

import ast
import json
from pathlib import Path

import pytest

from medstress import plugin

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def cells_of(path, kind):
    return [
        cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == kind
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_code_imports_public_names_alone(path):
    code = "\n".join("".join(cell["source"]) for cell in cells_of(path, "code"))
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
            assert all(not name.startswith("medstress.") for name in names)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("medstress"):
            assert node.module == "medstress.plugin"
            assert {each.name for each in node.names} <= set(vars(plugin))
