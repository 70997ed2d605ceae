"""A run on many machines, shown on one: Ray with four workers, and a victim of 5 ms a call.

    python benchmarks/many_machines.py --to many_machines.json [--parts leases exports ...]

Parts: `leases` (the lease table alone), `keeper` (the process that holds it), `owners` (two owners
of a shard), `exports` (1, 2 and 4 workers, 8 and 64 shards, against the run of one process),
`caps`, `kills` (SIGKILLs of workers, of the keeper and of the driver at moments drawn by lot),
`speed` (one worker and two), `tokens` (what the embedded model forwards; needs the extra
`transformers`). All but the first three need the extra `ray`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from medstress.api.results import Run
from medstress.core.calls import Choose, ModelIdentity, Request
from medstress.fleet.keeper_process import KeeperProcess
from medstress.fleet.leases import LeaseTable, Shipped, StaleLeaseError, State
from medstress.fleet.ledgers import digest_of

VICTIM = '''
"""Takes one call at a time, for 5 ms, and writes down when and what it was asked."""

import hashlib
import json
import os
import re
import time


def answer(prompts):
    lines = "".join(json.dumps([time.time(), os.getpid(), each]) + "\\n" for each in prompts)
    log = os.open(os.environ["VICTIM_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, lines.encode())
    os.close(log)
    time.sleep(0.005 * len(prompts))
    return [_answer(prompt) for prompt in prompts]


def _answer(prompt):
    key = "ABCD"[int(re.search(r"case +([0-9]+)", prompt)[1]) % 4]
    luck = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:2], "big") % 400
    return "ABCD"["BCDA".index(key)] if luck == 0 else key
'''
EXPERIMENT = """
[experiment]
name = "many"
seeds = [0]
controls = false
flip_check = false
{limits}

[[dataset]]
name = "jsonl"
path = "items.jsonl"
label = "cases"

[[entities]]
type = "drugs"
vocabulary = "names.txt"
embedding = "ngram"

[[victim]]
name = "careful"
backend = "python"
target = "victim.py:answer"
batch_size = 1

[[attack]]
name = "entity_substitution"
label = "random"
sampler = "random"
budget = {budget}
"""
LOCAL = """
[experiment]
name = "local"
seeds = [0]
controls = false

[[dataset]]
name = "sample"

[[entities]]
name = "drugs"
type = "drugs"
vocabulary = "drugs"

[[victim]]
name = "open_book"
backend = "transformers"
model = "smollm2"
answer_by = "text"
prompt = "open_book_cloze"

[[attack]]
name = "entity_substitution"
label = "random"
sampler = "random"
budget = 8
"""
PYTHON = """backend = "python"
target = "victim.py:answer"
batch_size = 1
"""
SERVER = """backend = "openai"
model = "{model}"
base_url = "{url}"
max_in_flight = 4
price_in = 100
price_out = 100
"""
KILLS = {"worker": 8, "keeper": 7, "driver": 5}
_SYLLABLES = ("abi", "bela", "cori", "dana", "evo", "fluda", "gra", "hepi", "ivo", "jura")
_ENDINGS = (
    "mycin",
    "prazole",
    "statin",
    "olol",
    "pril",
    "sartan",
    "azole",
    "cillin",
    "tide",
    "mab",
)


def make(root: Path, n_items: int, budget: int, limits: str = "") -> None:
    """Write an experiment of about n_items x (budget + 1) calls."""
    root.mkdir(parents=True, exist_ok=True)
    names = [a + b + c for a in _SYLLABLES for b in _SYLLABLES[:3] for c in _ENDINGS]
    (root / "names.txt").write_text("\n".join(names), "utf-8")
    (root / "victim.py").write_text(VICTIM, "utf-8")
    with (root / "items.jsonl").open("w") as stream:
        for i in range(n_items):
            options = [f"{kind}{i}zumab" for kind in ("tora", "ulo", "vexi", "wara")]
            mentions = [
                {"field": "ABCD"[j], "start": 0, "end": len(text), "type": "T121"}
                for j, text in enumerate(options)
            ]
            row = {"id": f"q{i}", "stem": f"What treats case {i}?", "options": options}
            stream.write(json.dumps({**row, "answer_idx": "ABCD"[i % 4], "mentions": mentions}))
            stream.write("\n")
    text = EXPERIMENT.format(limits=limits, budget=budget)
    (root / "experiment.toml").write_text(text, "utf-8")


def start(root: Path, out: str, *extra: str) -> subprocess.Popen[bytes]:
    """Start `medstress run` in a session of its own; its victims log to OUT.log."""
    cache = tempfile.mkdtemp(prefix="cache-", dir=root)  # nothing known from other runs
    own = {"VICTIM_LOG": str(root / f"{out}.log"), "MEDSTRESS_CACHE": cache}
    # Else Ray's workers give way to whatever else the machine does.
    environment = {**os.environ, **own, "RAY_worker_niceness": "0"}
    with (root / f"{out}.err").open("ab") as errors:
        return subprocess.Popen(
            [*(sys.executable, "-m", "medstress", "run", "experiment.toml"), "--out", out, *extra],
            cwd=root,
            env=environment,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )


def run(root: Path, out: str, *extra: str) -> float:
    """Run to the end, and return the seconds it took."""
    began = time.monotonic()
    code = start(root, out, *extra).wait(900)
    if code != 0:
        sys.exit(f"{out}: exit {code}\n{(root / f'{out}.err').read_text()[-3000:]}")
    return time.monotonic() - began


def ray(workers: int, shards: int, *extra: str) -> list[str]:
    """Return the flags of a run on Ray."""
    return ["--ray", "local", "--workers", str(workers), "--shards", str(shards), *extra]


def asked(root: Path, out: str) -> list[tuple[float, int, str]]:
    """Return (when, process, prompt) of every call of a run's victims."""
    return [tuple(json.loads(line)) for line in (root / f"{out}.log").read_text().splitlines()]


def identity(folder: Path) -> dict[str, str]:
    """Return what must be the same however a run was spread: all but times."""
    with tempfile.TemporaryDirectory() as scratch:
        digests = {}
        for table in ("trials", "items", "exchanges"):
            file = Path(scratch) / f"{table}.jsonl"
            Run(folder).export(table, file)
            rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            for row in rows:
                row.pop("seconds", None)
            digests[table] = _digest(rows)
    summary = json.loads(json.dumps(Run(folder).summary()))
    root = str(summary.get("root") or Run(folder).manifest().get("root") or "")
    for key in ("performance", "root"):
        summary.pop(key, None)
    for key in ("started", "finished", "folder", "command"):
        summary["experiment"].pop(key, None)
    for row in [*summary["results"], *summary["pooled"]]:
        for key in ("interrupted", "ahead"):
            row["queries"].pop(key)
    return {**digests, "summary": _digest(summary), "root": root}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def leases(root: Path, n: int = 100_000) -> dict[str, Any]:
    """Lease, renew and end every shard once."""
    table = LeaseTable(root / "leases.sqlite")
    table.begin(n, {"plan": "benchmark"})
    began = time.perf_counter()
    taken = []
    for i in range(n):
        found = table.take(f"worker {i}", 60.0)
        assert found is not None
        taken.append(found[0])
    took = time.perf_counter() - began
    for lease in taken[: n // 10]:
        table.renew(lease, 60.0, {"stored": 10})
    renewed = time.perf_counter() - began - took
    for lease in taken[: n // 10]:
        shipped = Shipped(name=f"{lease.shard}/1.sqlite", digest="0", calls=10)
        table.commit(lease, shipped, State.DONE, 60.0, {})
    ended = time.perf_counter() - began - took - renewed
    table.close()
    return {
        "leases": n,
        "leases_per_second": round(n / took),
        "renewals_per_second": round(n / 10 / renewed),
        "commits_per_second": round(n / 10 / ended),
    }


def keeper(root: Path, n: int = 3000, size: int = 10 << 20) -> dict[str, Any]:
    """Ask a keeper in a process of its own, as the driver does for every message of a worker."""
    process = KeeperProcess(root / "keeper", 60.0)
    process.ask("begin", shards=1, facts={"plan": "benchmark"}, caps={})
    lease = {**process.ask("lease", owner="one", left=None)[0]["lease"], "owner": "one"}
    report = {"used": {"queries": 1, "tokens": 1, "usd": 0.0}, "reported": {"stored": 1}}
    began = time.perf_counter()
    for _ in range(n):
        process.ask("renew", **lease, **report)
    renewed = time.perf_counter() - began
    ledger = os.urandom(size)
    told = {"state": "leased", "name": None, "digest": digest_of(ledger), "calls": 1}
    began = time.perf_counter()
    for _ in range(10):
        process.ask("ship", ledger, **lease, **report, **told)
    shipped = time.perf_counter() - began
    process.close()
    return {
        "messages_per_second": round(n / renewed),
        "shipped_mb_per_second": round(10 * size / shipped / 1e6),
    }


def owners(root: Path) -> dict[str, Any]:
    """Let a lease run out, give the shard to another, and let the first come back."""
    now = [0.0]
    table = LeaseTable(root / "owners.sqlite", clock=lambda: now[0])
    table.begin(1, {})
    first = table.take("first", 60.0)
    now[0] = 61.0
    second = table.take("second", 60.0)
    assert first is not None
    assert second is not None
    shipped = Shipped(name="1/1.sqlite", digest="0", calls=10)
    refused = {}
    for name, work in (
        ("renew", lambda lease: table.renew(lease, 60.0, {})),
        ("commit", lambda lease: table.commit(lease, shipped, State.DONE, 60.0, {})),
    ):
        try:
            work(first[0])
        except StaleLeaseError as error:
            refused[name] = str(error)
    table.commit(second[0], shipped, State.DONE, 60.0, {})
    table.close()
    return {"older_refused": len(refused) == 2, "epochs": [1, second[0].epoch], "said": refused}


def exports(root: Path) -> dict[str, Any]:
    """Run 1, 2 and 4 workers on 8 and 64 shards, and compare with one process."""
    make(root, n_items=100, budget=10)
    seconds = {"one process": run(root, "alone")}
    found = {"one process": identity(root / "alone")}
    calls = {"one process": len(asked(root, "alone"))}
    for workers in (1, 2, 4):
        for shards in (8, 64):
            name = f"{workers} workers, {shards} shards"
            out = f"w{workers}s{shards}"
            seconds[name] = run(root, out, *ray(workers, shards))
            found[name], calls[name] = identity(root / out), len(asked(root, out))
            print(name, found[name], round(seconds[name], 1), flush=True)
    return {
        "identical": len({json.dumps(each, sort_keys=True) for each in found.values()}) == 1,
        "runs": {
            name: {**each, "calls": calls[name], "seconds": round(seconds[name], 1)}
            for name, each in found.items()
        },
    }


def speed(root: Path) -> dict[str, Any]:
    """Compare one worker with two."""
    make(root, n_items=400, budget=60)
    found = {}
    for workers in (1, 2):
        out = f"speed{workers}"
        seconds = run(root, out, *ray(workers, 16))
        times = [when for when, *_ in asked(root, out)]
        found[workers] = {
            "calls": len(times),
            "command_seconds": round(seconds, 1),
            "asking_seconds": round(max(times) - min(times), 1),
        }
        print(workers, found[workers], flush=True)
    return {
        "workers": found,
        "ratio_of_commands": _ratio(found, "command_seconds"),
        "ratio_of_asking": _ratio(found, "asking_seconds"),
    }


def _ratio(found: dict[int, dict[str, float]], name: str) -> float:
    return round(found[2][name] / found[1][name], 3)


class History:
    """Every ledger that was committed, kept as it was, with when it was seen."""

    def __init__(self, shards: Path, to: Path) -> None:
        self._own, self._to = shards / ".fleet", to
        self.seen: dict[str, float] = {}
        to.mkdir()

    def look(self) -> None:
        """Keep the ledgers that were committed since."""
        file = self._own / "leases.sqlite"
        if not file.exists():
            return
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db,
        ):
            names = [name for (name,) in db.execute("SELECT ledger FROM shards WHERE ledger > ''")]
            for name in names:
                if name not in self.seen:
                    with suppress(OSError):
                        os.link(self._own / "ledgers" / name, self._to / name.replace("/", "_"))
                        self.seen[name] = time.time()

    def keys(self) -> dict[bytes, float]:
        """Return the keys of all answers that were shipped -> when they first were."""
        first: dict[bytes, float] = {}
        for name, when in sorted(self.seen.items(), key=lambda pair: pair[1]):
            with closing(sqlite3.connect(self._to / name.replace("/", "_"))) as db:
                for (key,) in db.execute("SELECT key FROM answers"):
                    first.setdefault(key, when)
        return first


def kills(root: Path) -> dict[str, Any]:
    """Kill each kind of process several times, and count what was asked twice."""
    make(root, n_items=400, budget=80)
    rng = random.Random(38)
    kinds = [kind for kind, n in KILLS.items() for _ in range(n)]
    rng.shuffle(kinds)
    flags = ray(4, 64, "--ship-every", "100")
    history = History(root / "killed-shards", root / "history")
    log, done = root / "killed.log", []
    began, process = time.time(), start(root, "killed", *flags)
    pending = list(kinds)
    next_at, n_lines = 0.0, 0
    while (code := process.poll()) is None or code < 0:
        if code is not None:  # the driver was killed: the same command again
            process = start(root, "killed", *flags)
            next_at = 0.0
        history.look()
        now = _n_lines(log)
        if now > n_lines and not next_at:  # work goes on (again)
            next_at = time.time() + rng.uniform(0.1, 3.0)
        n_lines = max(n_lines, now)
        if pending and next_at and time.time() >= next_at:
            kind = pending[0]
            pid = _one_of(kind, process.pid, rng)
            if pid is not None:
                history.look()
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    done.append({"kind": kind, "at": round(time.time() - began, 2), "calls": now})
                    pending.pop(0)
                    print(done[-1], flush=True)
                if kind == "driver":
                    process.wait()
                    _wait_for_end_of(process.pid)
                    n_lines = _n_lines(log)  # its workers went on for a moment
                next_at = 0.0
        time.sleep(0.02)
    if code != 0:
        sys.exit(f"kills: exit {code}\n{(root / 'killed.err').read_text()[-3000:]}")
    run(root, "alone")
    return {
        "kills": {kind: sum(each["kind"] == kind for each in done) for kind in KILLS},
        "moments": done,
        "identical": identity(root / "killed") == identity(root / "alone"),
        **_repeated(root, history),
        "said": [
            line
            for line in (root / "killed.err").read_text().splitlines()
            if "bought again" in line
        ],
    }


def _repeated(root: Path, history: History) -> dict[str, Any]:
    model = Run(root / "killed").manifest()["victims"]["careful"]
    who = ModelIdentity(name=model["model"], hash=model["model_hash"])
    shipped = history.keys()
    calls, once = Counter[str](), Counter(each[2] for each in asked(root, "alone"))
    repeated_after = 0
    for when, _, prompt in asked(root, "killed"):
        calls[prompt] += 1
        key = Request(Choose(prompt, "ABCD"), 0).key(who)
        repeated_after += shipped.get(key, float("inf")) < when
    with closing(sqlite3.connect(root / "killed" / "run.sqlite")) as db:
        (n_interrupted,) = db.execute("SELECT COUNT(*) FROM interrupted").fetchone()
    with closing(sqlite3.connect(root / "killed-shards" / ".fleet" / "leases.sqlite")) as db:
        n_deaths, n_lost = db.execute("SELECT TOTAL(deaths), TOTAL(lost) FROM shards").fetchone()
    return {
        "calls_of_one_process": sum(once.values()),
        "asked_once_by_one_process": max(once.values()) == 1,
        "answers_shipped": len(shipped),
        "answered_and_shipped_repeated": repeated_after,
        "repeated": sum(calls.values()) - len(calls),
        "leases_lost": int(n_deaths),
        "counted_as_lost": int(n_lost),
        "counted_as_interrupted": n_interrupted,
    }


def _n_lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def _processes() -> Iterator[tuple[int, int, int, str]]:
    """Yield number, parent, session and command of every process."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                after = (folder / "stat").read_text().rpartition(")")[2].split()
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if after[0] != "Z":
                    yield int(folder.name), int(after[1]), int(after[3]), words


def _one_of(kind: str, driver: int, rng: random.Random) -> int | None:
    """Return a process of a kind that belongs to a driver."""
    if kind == "driver":
        return driver
    everyone = list(_processes())
    parents = {pid: parent for pid, parent, *_ in everyone}

    def is_below(pid: int) -> bool:
        while pid > 1:
            if (pid := parents.get(pid, 0)) == driver:
                return True
        return False

    sign = "medstress.fleet.keeper" if kind == "keeper" else "ray::Actor"
    found = sorted(pid for pid, _, _, words in everyone if sign in words and is_below(pid))
    return rng.choice(found) if found else None


def _wait_for_end_of(session: int) -> None:
    """Wait until what a killed driver started has ended by itself; end what has not."""
    for _ in range(200):
        left = {pid: words for pid, _, its, words in _processes() if its == session and words}
        if not any("ray::Actor" in words for words in left.values()):
            break
        time.sleep(0.1)
    # Helpers of Ray's that take longer.
    print("ended by hand:", sorted(words[:40] for words in left.values()), flush=True)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def caps(root: Path) -> dict[str, Any]:
    """Reach each cap with four workers; tokens and dollars at a server that counts them."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "servers"))
    from fault_server import FaultServer

    found: dict[str, Any] = {}
    for name, cap in (("max_queries", 700), ("max_tokens", 9000), ("max_usd", 0.9)):
        folder = root / name
        make(folder, n_items=100, budget=30, limits=f"{name} = {cap}")
        with FaultServer(answer=lambda prompt: "A", seconds=0.005) as server:
            if name != "max_queries":
                file = folder / "experiment.toml"
                asked_there = SERVER.format(url=server.url, model=server.model)
                file.write_text(file.read_text().replace(PYTHON, asked_there))
            run(folder, "capped", *ray(4, 16))
            tokens = [each.tokens for each in server.log]
        said = (folder / "capped.err").read_text().splitlines()
        n_calls = len(tokens) if tokens else len(asked(folder, "capped"))
        spent = {"max_queries": n_calls, "max_tokens": sum(tokens), "max_usd": sum(tokens) / 10_000}
        found[name] = {
            "cap": cap,
            "spent": spent[name],
            "calls": n_calls,
            "largest_call": max(tokens, default=0),
            "said": [line for line in said if "never exceeded" in line or "limit" in line],
        }
        print(found[name], flush=True)
    return found


def tokens(root: Path) -> dict[str, Any]:
    """Compare the tokens that the embedded model forwards, in one process and in eight shards."""
    (root / "experiment.toml").write_text(LOCAL, "utf-8")
    run(root, "alone", "--limit", "24")
    run(root, "shared", "--limit", "24", *ray(2, 8))
    found = {
        out: Run(root / out).summary()["performance"]["tokens_forwarded"]
        for out in ("alone", "shared")
    }
    rows = [
        [(row.trial_id, str(row.verdict)) for row in Run(root / out).rows()]
        for out in ("alone", "shared")
    ]
    return {
        **found,
        "ratio": round(found["shared"] / found["alone"], 4),
        "trials": len(rows[0]),
        "verdicts_that_differ": sum(a != b for a, b in zip(*rows, strict=True)),
    }


PARTS = {
    "leases": leases,
    "keeper": keeper,
    "owners": owners,
    "exports": exports,
    "caps": caps,
    "kills": kills,
    "speed": speed,
    "tokens": tokens,
}


def main() -> None:
    """Run the parts that are asked for, and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    found = json.loads(args.to.read_text()) if args.to.exists() else {}
    for name in args.parts:
        with tempfile.TemporaryDirectory(prefix="many-") as folder:
            found[name] = PARTS[name](Path(folder))
        args.to.write_text(json.dumps(found, indent=1) + "\n")
        print(
            name, json.dumps({k: v for k, v in found[name].items() if k != "moments"}), flush=True
        )


if __name__ == "__main__":
    main()
