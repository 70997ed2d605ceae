"""MedFuzz on servers that ignore or refuse schemas, resumed from what is committed at a call.

Once a schema was refused none is sent, so a resumed run has to know it.
"""

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from conversation_server import ConversationServer
from medstress.api.run import Run, run
from medstress.core.errors import OtherRunError
from medstress.store.database import FILE
from medstress.store.reader import RunReader
from medstress.testing import rule_target, scripted_attacker, tiny_questions
from question_rows import write_rows

ITEMS = tiny_questions(3)
IN_FLIGHT = 2


class Servers:
    """A target and an attacker; calls `at` before the answer with a number, counted over both.

    The attacker's insertions stand in a fence, and so follow no schema; or it takes none.
    """

    def __init__(self, folder, schemas):
        self.at, self.schemas = {}, schemas
        self.n = 0
        self.target = ConversationServer(
            rule_target(ITEMS, {"tiny-0": "teacher"}), model="t", faults=self._before
        )
        self.attacker = ConversationServer(
            scripted_attacker(ITEMS, ["He works as a clerk.", "He is a teacher."]),
            model="a",
            schemas=schemas,
            faults=self._before,
        )
        path = write_rows(folder / "items.jsonl", ITEMS)
        self.experiment = {
            "experiment": {"controls": False, "name": "fuzz", "seeds": [0]},
            "dataset": {"name": "table", "path": str(path)},
            "victim": {**_server(self.target), "answer_by": "generate"},
            "role": {"attacker": _server(self.attacker)},
            "attack": {"name": "medfuzz", "attempts": 2, "runs": 1},
        }

    def _before(self, asked):
        self.n += 1
        return self.at[self.n]() if self.n in self.at else None

    def asked(self):
        """The requests so far, by content; which ones are refused first is a matter of time."""
        log = [*self.target.log, *self.attacker.log]
        if not self.schemas:
            bare = [one for one in self.attacker.log if "response_format" not in one.body]
            log = [*self.target.log, *bare]
        return Counter(json.dumps(asked.body, sort_keys=True) for asked in log)


def _server(server):
    return {
        "backend": "openai",
        "base_url": server.url,
        "model": server.model,
        "max_in_flight": IN_FLIGHT,
    }


@pytest.fixture(params=[True, False], ids=["ignored", "refused"])
def servers(request, tmp_path):
    made = Servers(tmp_path, request.param)
    with made.target, made.attacker:
        yield made


def root(folder):
    with closing(RunReader(folder)) as reader:
        return reader.root()


def copied(folder, to):
    """Copy what a killed process would leave: all that is committed."""
    to.mkdir()
    with (
        closing(sqlite3.connect(folder / FILE)) as source,
        closing(sqlite3.connect(to / FILE)) as copy,
    ):
        source.backup(copy)


@pytest.mark.parametrize(
    "places", [(13, 30), pytest.param(range(2, 34), marks=pytest.mark.kills)], ids=["two", "every"]
)
def test_a_resumed_run_knows_what_became_of_schemas(servers, tmp_path, places):
    whole = tmp_path / "whole"
    for n in places:
        servers.at[n] = lambda n=n: copied(whole, tmp_path / f"{n}")
    run(servers.experiment, whole)
    asked = servers.asked()
    for n in places:
        run(servers.experiment, tmp_path / f"{n}")
        assert root(tmp_path / f"{n}") == root(whole) is not None
    assert servers.asked().keys() == asked.keys()
    (_, attacker) = Run(whole).manifest()["endpoints"]
    assert ("left_out" in attacker) is not servers.schemas


def test_whether_schemas_are_sent_is_changed_only_before_the_first_answer(servers, tmp_path):
    whole = tmp_path / "whole"
    servers.at[1] = lambda: copied(whole, tmp_path / "begun")
    run(servers.experiment, whole)
    for table in (servers.experiment["victim"], servers.experiment["role"]["attacker"]):
        table["structured"] = False
        with pytest.raises(OtherRunError, match=r"structured of .* was true, is false"):
            run(servers.experiment, whole)
        del table["structured"]
    servers.experiment["role"]["attacker"]["structured"] = False
    run(servers.experiment, tmp_path / "begun")
    del servers.experiment["role"]["attacker"]["structured"]
    with pytest.raises(OtherRunError, match="attacker' was false, is true"):
        run(servers.experiment, tmp_path / "begun")
