"""The back end: its contract, and what it scores."""

import pytest
from medstress_example.word_counts import open_backend

from medstress.plugin import BackendOptions, Score, UsageError, check_backend

TEXTS = (" aspirin", " warfarin", " insulin")


@pytest.fixture
def backend(tmp_path):
    corpus = "aspirin helps; aspirin and warfarin do not mix"
    (tmp_path / "corpus.txt").write_text(corpus, encoding="utf-8")
    return open_backend(BackendOptions(model="corpus.txt", base=tmp_path))


def test_the_contract(backend):
    check_backend(backend, [Score(f"Question {i}?\nAnswer:", TEXTS) for i in range(6)])


def test_a_common_word_scores_higher(backend):
    (reply,) = backend.answer([Score("Which?", TEXTS)])
    assert sorted(reply.log_probs, reverse=True) == list(reply.log_probs)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"no\.txt"):
        open_backend(BackendOptions(model="no.txt", base=tmp_path))
