"""A back end without a network: it scores a text by how common its words are in a file."""

import math
import re
from collections import Counter

from medstress.plugin import Backend, BackendTraits, ModelIdentity, Scored, UsageError, file_hash


class WordCounts(Backend):
    """Answers `Score` calls: log P(continuation) under independent words."""

    traits = BackendTraits(calls=frozenset({"score"}), batch_size=256, ahead=8)

    def __init__(self, path):
        self.identity = ModelIdentity(name=f"word counts of {path.name}", hash=file_hash(path))
        self._counts = Counter(words_of(path.read_text("utf-8")))

    def answer(self, calls):
        """One reply a call, in order."""
        return [self._score(call) for call in calls]

    def _score(self, call):
        texts = [words_of(text) for text in call.continuations]
        log_probs = (sum(map(self._log_prob, words)) for words in texts)
        return Scored(log_probs=tuple(log_probs), n_tokens=tuple(map(len, texts)))

    def _log_prob(self, word):
        return math.log((self._counts[word] + 1) / (self._counts.total() + 2))


def words_of(text):
    """The words of a text."""
    return re.findall(r"\w+", text.casefold())


def open_backend(options):
    """Open the file that `model` names."""
    if not options.model or not (options.base / options.model).is_file():
        raise UsageError(f"backend 'word_counts' needs model = a text file, got {options.model!r}")
    return WordCounts(options.base / options.model)
