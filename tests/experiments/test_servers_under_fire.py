"""What a run says of a server that does not take all it is sent, or does not read it."""

import re

from fault_server import FaultServer
from medstress.api.run import run
from medstress.experiment.verify import verify_folder


def key_of_case(prompt: str) -> str:
    """Always right."""
    found = re.search(r"case ([0-9]+)", prompt)
    assert found is not None
    return "ABCD"[int(found[1]) % 4]


def servers_victim(server: FaultServer, **keys: object) -> dict[str, object]:
    return {"backend": "openai", "base_url": server.url, "model": server.model, **keys}


def test_what_a_server_does_not_take_is_said_once_and_a_resumed_run_asks_the_same(bench, workbench):
    def plant(asked):
        if "seed" in asked.body:
            return 422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs"}]}
        if asked.body["messages"][0]["role"] == "system":
            return 400, {"error": {"message": "System role not supported"}}
        return None

    bench.write_items(workbench.questions(4))
    (bench.out.parent / "prompt.txt").write_text(
        "system: You are a doctor.\n---\n{question}\n{options}\nAnswer:", "utf-8"
    )
    with FaultServer(answer=key_of_case, plant=plant) as server:
        own = {"answer_by": "generate", "prompt": "prompt.txt"}
        bench.tables["victim"] = [servers_victim(server, name="m", **own)]
        bench.tables["experiment"].update(max_queries=3)
        assert not run(bench.write(), bench.out).manifest()["complete"]
        refused = len([asked for asked in server.log if "seed" in asked.body])
        n = len(server.log)
        del bench.tables["experiment"]["max_queries"]
        finished = run(bench.write(), bench.out)
    assert refused == 1
    assert finished.manifest()["complete"]
    assert all("seed" not in asked.body for asked in server.log[n:])
    assert {turn["role"] for asked in server.log[n:] for turn in asked.body["messages"]} == {"user"}
    said = [each["sentence"] for each in finished.summary()["warnings"]]
    assert sum("does not know seed" in sentence for sentence in said) == 1
    assert sum("head of the first user turn" in sentence for sentence in said) == 1
    assert verify_folder(bench.out).holds


def test_what_a_servers_context_does_not_hold_is_never_a_loss(bench, workbench):
    bench.write_items(workbench.questions(9))
    words = "This model's maximum context length is 120 tokens, but you asked for 123"

    def plant(asked):
        is_edited = "case 5" in asked.prompt and "tora5zumab" not in asked.prompt
        if "case 4" in asked.prompt or is_edited:
            return 400, {"error": {"message": words, "code": "context_length_exceeded"}}
        return None

    with FaultServer(answer=key_of_case, plant=plant) as server:
        bench.tables["victim"] = [servers_victim(server, name="m")]
        bench.tables["experiment"].update(max_failed=100)
        finished = run(bench.write(), bench.out)
        n = len(server.log)
        run(bench.write(), bench.out)
        assert len(server.log) == n, "the same command asks nothing again"
    assert verify_folder(bench.out).holds
    row = finished.summary()["results"][0]
    counts = [row[f"n_{name}"] for name in ("items", "not_attackable", "eligible", "flipped")]
    assert counts == [9, 2, 7, 0], "nothing to attack in q2; q4 is too long as it is"
    assert row["n_failed"] * 7 == row["n_trials"] - row["n_not_attackable"], "q5 once it is edited"
    assert (row["accuracy"]["value"], row["asr"]["value"], row["asr"]["worst"][0]) == (1, 0, 0)
    assert row["asr"]["worst"][1] > row["asr"]["high"], "q5 may be lost or not"
    said = [each["sentence"] for each in finished.summary()["warnings"]]
    assert sum("not attackable" in one and "lower max_new_tokens" in one for one in said) == 4


def test_a_server_that_cuts_prompts_is_said_in_the_line_on_trust(bench, workbench, monkeypatch):
    items = workbench.questions(8)
    bench.write_items(
        [item | {"context": "History:" + " calm" * 20 * i} for i, item in enumerate(items)]
    )
    with FaultServer(answer=key_of_case) as server:
        whole = server._answer

        def cut(asked):
            reply = whole(asked)
            reply["usage"]["prompt_tokens"] = min(reply["usage"]["prompt_tokens"], 90)
            return reply

        monkeypatch.setattr(server, "_answer", cut)
        bench.tables["victim"] = [servers_victim(server, name="m")]
        finished = run(bench.write(), bench.out)
    assert finished.manifest()["endpoints"][0]["reads_at_most"] == 90
    verdict = finished.summary()["verdict"]
    assert verdict["trust"]["level"] == "no"
    assert "the server reads 90 tokens of a prompt and cuts the rest" in verdict["lines"][-1]
    assert [each["rule"] for each in finished.summary()["warnings"]].count("window") == 1
