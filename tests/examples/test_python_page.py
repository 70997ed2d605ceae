"""The code of docs/python.md runs from top to bottom, as the cells of one notebook."""

import linecache
import sys
from types import ModuleType


def test_the_page_runs_as_one_notebook(workplace, blocks, monkeypatch, capsys):
    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    for i, code in enumerate(blocks("docs/python.md", "python")):
        name = f"<cell {i} of docs/python.md>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        exec(compile(code, name, "exec"), vars(notebook))
    out = capsys.readouterr().out
    assert "did you mean 'path'?" in out
    assert (workplace / "runs" / "near-and-far" / "run.sqlite").is_file()
