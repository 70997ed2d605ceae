"""Judges: what they answer on an item before any edit, and how they vote on edits of it.

There may be several: the roles `judge`, `judge.2`, `judge.3` and so on. A judge that misses the key
before any edit cannot tell whether an edit leaves the key right, so its votes on that item are set
aside (METHODS 2.8, gate 6). A judge whose votes are unreadable vouches for nothing either;
`medstress.analyses.attempts` counts the two cases separately.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from medstress.attacks.medfuzz.role_session import RoleSession, replies
from medstress.core.calls import Decoding
from medstress.core.items import Question
from medstress.core.queries import Steps, is_judge
from medstress.tasks.prompt_sets import Category, PromptSet
from medstress.tasks.replies import CategoryVote, Unreadable, Vote

N_VOTES = 3
"""Fewest votes on a text; more than half of all must pick the key (METHODS 2.8)."""
CLEAN_SAMPLE = 6_000_000
"""First sample index of votes on clean items. All callers use the same: an item and a judge have
one set of votes, whatever the number of victims, runs, attempts and tests."""

Letters: TypeAlias = dict[str, list[str | None]]
"""Judge -> the letters it picked, None for an unreadable vote."""
_BESIDE = re.compile(r"^[\W_]+|[\W_]+$")


def judges_in(roles: Mapping[str, Decoding]) -> dict[str, Decoding]:
    """Return the judges among the roles, in order."""
    return {name: decoding for name, decoding in roles.items() if is_judge(name)}


def votes_each(n_judges: int) -> int:
    """Return the votes per judge: the fewest that make `N_VOTES` together.

    >>> [votes_each(n) for n in (1, 2, 3, 4)]
    [3, 2, 1, 1]
    """
    return -(-N_VOTES // n_judges)


def most_votes(n_judges: int) -> int:
    """Return the most votes on one text, however many of the judges vote; 0 without a judge.

    >>> [most_votes(n) for n in (0, 1, 2, 3, 5)]
    [0, 3, 4, 4, 5]
    """
    return max((n * votes_each(n) for n in range(1, n_judges + 1)), default=0)


def picks_key(letters: Sequence[str | None], key: str) -> bool:
    """Whether more than half of the votes are for the key; unreadable votes are not."""
    return letters.count(key) * 2 > len(letters)


def letter_voted(answer: str, letters: str) -> str | None:
    """Return the option letter of a vote, in either case and with marks around it, or None.

    >>> [letter_voted(vote, "ABCD") for vote in ("B", "b", "B.", "(B)", "**B**", "B or C", "E")]
    ['B', 'B', 'B', 'B', 'B', None, None]
    """
    bare = _BESIDE.sub("", answer).upper()
    return bare if len(bare) == 1 and bare in letters else None


def said_yes(vote: Vote | Unreadable) -> bool | None:
    """Return True for a vote of YES, False for NO, None otherwise; case and marks are ignored."""
    bare = "" if isinstance(vote, Unreadable) else _BESIDE.sub("", vote.answer).upper()
    return {"YES": True, "NO": False}.get(bare)


class Panel:
    """The judges of one item.

    Args:
        item: before any edit.
        prompts: what they are asked.
        judges: who they are, and how each generates.
    """

    def __init__(self, item: Question, prompts: PromptSet, judges: Mapping[str, Decoding]) -> None:
        self.item = item
        self.judges = dict(judges)
        self._prompts = prompts
        self._clean: Letters | None = None

    def clean(self) -> Steps[Letters]:
        """Return the votes of every judge on the item before any edit; asked once."""
        if self._clean is None:
            found: Letters = {}
            for name in self.judges:
                (found[name],) = yield from self._picked(
                    name, [self.item.question], N_VOTES, CLEAN_SAMPLE
                )
            self._clean = found
        return self._clean

    def votes(self, questions: Sequence[str], sample: int) -> Steps[list[Letters]]:
        """Ask about edited questions, all at once; only judges that know the item vote.

        Args:
            questions: context and stem of each.
            sample: index of the first vote on a question.

        Returns:
            The votes on each question; none if every judge misses the key before any edit.
        """
        clean = yield from self.clean()
        voting = [name for name, letters in clean.items() if picks_key(letters, self.item.key)]
        found: list[Letters] = [{} for _ in questions]
        for name in voting:
            picked = yield from self._picked(name, questions, votes_each(len(voting)), sample)
            for votes, letters in zip(found, picked, strict=True):
                votes[name] = letters
        return found

    def category(
        self, inserted: Sequence[str], categories: Collection[Category], sample: int
    ) -> Steps[str | None]:
        """Return the category that judges name most often, if more than half of them name one.

        Else return the first vote that is none: another word, or None if it is unreadable. Every
        judge is asked, because this takes no knowledge of the item.
        """
        listing = "\n".join(f"- {text}" for text in inserted)
        request = self._prompts.render("judge_categories", inserted=listing, categories=categories)
        names = {category.name.casefold(): category.name for category in categories}
        named: list[str | None] = []
        for name, decoding in self.judges.items():
            session = RoleSession(name, decoding, sample, self._prompts, self.item.letters)
            vote = yield from session.ask(request, CategoryVote)
            word = None if isinstance(vote, Unreadable) else vote.category
            named.append(word if word is None else names.get(word.strip().casefold(), word))
        known = [each for each in named if each in names.values()]
        if len(known) * 2 > len(named):
            return Counter(known).most_common(1)[0][0]
        return next(each for each in named if each not in known)

    def _picked(
        self, name: str, questions: Sequence[str], n: int, sample: int
    ) -> Steps[list[list[str | None]]]:
        """Return the letters of n votes of one judge on each question."""
        options = tuple(zip(self.item.letters, self.item.options, strict=True))
        texts = [
            self._prompts.render("judge_key", question=question, options=options)
            for question in questions
        ]
        votes = yield from replies(
            name,
            self.judges[name],
            sample,
            [text for text in texts for _ in range(n)],
            Vote,
            self.item.letters,
        )
        letters = [
            None if isinstance(vote, Unreadable) else letter_voted(vote.answer, self.item.letters)
            for vote in votes
        ]
        return [letters[i * n : (i + 1) * n] for i in range(len(questions))]
