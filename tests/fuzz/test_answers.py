"""Files of raters' answers with one thing wrong: read, or refused in one sentence."""

from random import Random

import pytest

from medstress.analyses.run import Run
from medstress.cli.app import medstress_cli
from medstress.report.review.room import make_room
from medstress.store.reviews import ReviewStore, stored_reviews

N = 150


@pytest.mark.release
def test_no_file_of_answers_with_one_thing_wrong_gives_a_traceback(
    workbench, mutate, tmp_path, monkeypatch, capsys
):
    made = workbench.Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    made.tables["attack"] = [made.attack("random")]
    assert made.run() == 0
    with ReviewStore(made.out) as store:
        room = make_room(Run.open(made.out), store)
    time, answers = "2026-01-31T09:30:00+00:00", {"key_right": "yes", "harmful": "no"}
    verdicts = [
        {"case": case, "answers": answers, "note": "plain", "time": time} for case in room.cases
    ]
    given = {"format": 1, "room": room.id, "rater": "Anna", "verdicts": verdicts}
    rng, path, codes = Random(34), tmp_path / "answers.json", []
    for _ in range(N):
        said, changed = mutate.mutated(rng, given)
        how, data = mutate.encoded(rng, mutate.json_text(changed))
        path.write_bytes(data)
        capsys.readouterr()
        code = medstress_cli(["review", str(made.out), "--import", str(path)])
        told = capsys.readouterr().err
        assert code in (0, 2), (said, how, told)
        assert told.count("\n") == (code == 2), (said, how, told)
        codes.append(code)
    assert 0.1 * N < sum(code == 2 for code in codes) < N
    # What was taken can be read, and every number made of it.
    assert stored_reviews(made.out)
    assert medstress_cli(["summary", str(made.out), "--json"]) == 0
    assert medstress_cli(["summary", str(made.out), "--wide"]) == 0
