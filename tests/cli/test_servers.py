"""Victims behind a server, from the command line."""

import json

from fault_server import FaultServer
from medstress.api.run import Run

KEY = "sk-test-0123456789abcdef"


def with_server(bench, server: FaultServer, **keys: object) -> None:
    bench.tables["victim"] = [
        {"backend": "openai", "base_url": server.url, "model": server.model, **keys}
    ]


def test_the_key_is_in_nothing_that_a_run_writes(medstress, bench, monkeypatch):
    monkeypatch.setenv("THE_KEY", KEY)
    with FaultServer(key=KEY) as server:
        with_server(bench, server, api_key_env="THE_KEY")
        told = medstress("run", bench.write(), "--out", bench.out)
    assert told.code == 0
    assert server.log
    assert KEY not in told.out + told.err
    written = [path for path in bench.out.rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    assert server.url in json.dumps(Run(bench.out).manifest())
    assert medstress("report", bench.out).code == 0
    assert KEY not in (bench.out / "report.html").read_text("utf-8")


def test_a_finished_run_can_be_called_again_while_its_server_is_down(medstress, bench):
    with FaultServer() as server:
        with_server(bench, server)
        first = medstress("run", bench.write(), "--out", bench.out, "--quiet")
        assert first.code == 0
    again = medstress("run", bench.write(), "--out", bench.out, "--quiet")
    said, _, rest = again.out.partition("\n")
    assert again.code == 0
    assert said.startswith("Nothing was asked: this run was measured from ")
    assert rest == first.out
    before = Run(bench.out).manifest()
    bench.tables["experiment"]["seeds"] = [0, 1]
    assert medstress("run", bench.write(), "--out", bench.out, "--quiet").code == 2
    bench.tables["experiment"]["seeds"] = [0]
    told = medstress("run", bench.write(), "--out", bench.out, "--quiet", "--fresh")
    assert told.code == 2
    assert Run(bench.out).manifest() == before, "nothing is deleted either"


def test_without_its_extra_a_server_is_refused_before_data_are_read(medstress, monkeypatch):
    monkeypatch.setattr("medstress.core.extras.lacking_of", lambda _: ["openai is missing"])
    given = ("--data", "nowhere.csv", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    told = medstress("run", *given)
    assert (told.code, told.out) == (2, "")
    assert "install it with: pip install 'medstress[openai]'" in told.err
