"""What planted experiments share."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

KneeQuestions = Callable[[str, str, Iterable[str]], Path]


@pytest.fixture(scope="session")
def knee_questions(tmp_path_factory):
    """Make a folder with `q.jsonl`, a question about a sore knee for each name, and `roles.py`."""

    def make(folder, roles, names):
        made = tmp_path_factory.mktemp(folder)
        (made / "roles.py").write_text(roles, "utf-8")
        rows = [
            {
                "id": name.lower(),
                "context": f"A man called {name} comes to the clinic with a sore knee.",
                "stem": "What is the best next step?",
                "options": ["Rest", "Walking", "Swimming"],
                "answer_idx": "A",
            }
            for name in names
        ]
        (made / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
        return made

    return make
