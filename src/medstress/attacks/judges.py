"""Judges: what they answer on an item before any edit, and how they vote on edits of it.

There may be several: the roles `judge`, `judge.2`, `judge.3` and so on. A judge that misses the key
before any edit cannot tell whether an edit leaves the key right, so its votes on that item are set
aside (METHODS 2.8, gate 6). One whose votes cannot be read vouches for nothing either;
`medstress.metrics.judges` tells the two apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from medstress.attacks.role_session import RoleSession, replies
from medstress.calls import Decoding
from medstress.items import Question
from medstress.prompts import Category, PromptSet
from medstress.prompts.replies import CategoryVote, Unreadable, Vote
from medstress.queries import Steps

JUDGE = "judge"
N_VOTES = 3
"""Fewest votes on a text; more than half of all must pick the key (METHODS 2.8)."""
CLEAN_SAMPLE = 6_000_000
"""Sample indices of votes on clean items, the same for all who ask: an item and a judge have one
set of them, whatever the number of victims, runs, attempts and tests."""

Letters: TypeAlias = dict[str, list[str | None]]
"""Judge -> the letters it picked, None for a vote that nobody can read."""
_BESIDE = re.compile(r"^[\W_]+|[\W_]+$")


def is_judge(role: str) -> bool:
    """Whether a role is a judge, the only one or one of several.

    >>> is_judge("judge"), is_judge("judge.2"), is_judge("attacker")
    (True, True, False)
    """
    return role.partition(".")[0] == JUDGE


def judges_in(roles: Mapping[str, Decoding]) -> dict[str, Decoding]:
    """The judges among the roles, in their order."""
    return {name: decoding for name, decoding in roles.items() if is_judge(name)}


def votes_each(n_judges: int) -> int:
    """Votes of each judge: as few as make `N_VOTES` together.

    >>> [votes_each(n) for n in (1, 2, 3, 4)]
    [3, 2, 1, 1]
    """
    return -(-N_VOTES // n_judges)


def most_votes(n_judges: int) -> int:
    """The most votes on one text, whichever of so many judges vote; none without a judge.

    >>> [most_votes(n) for n in (0, 1, 2, 3, 5)]
    [0, 3, 4, 4, 5]
    """
    return max((n * votes_each(n) for n in range(1, n_judges + 1)), default=0)


def picks_key(letters: Sequence[str | None], key: str) -> bool:
    """Whether more than half of the votes are for the key; a vote nobody can read is not."""
    return letters.count(key) * 2 > len(letters)


def letter_voted(told: str, letters: str) -> str | None:
    """The option letter that a vote is, in either case and with marks around it; None for none.

    >>> [letter_voted(told, "ABCD") for told in ("B", "b", "B.", "(B)", "**B**", "B or C", "E")]
    ['B', 'B', 'B', 'B', 'B', None, None]
    """
    bare = _BESIDE.sub("", told).upper()
    return bare if len(bare) == 1 and bare in letters else None


def said_yes(vote: Vote | Unreadable) -> bool | None:
    """Whether a vote says YES or NO, in either case and with marks around it; None for neither."""
    told = "" if isinstance(vote, Unreadable) else _BESIDE.sub("", vote.answer).upper()
    return {"YES": True, "NO": False}.get(told)


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
        """What every judge answers about the item before any edit; asked once."""
        if self._clean is None:
            found: Letters = {}
            for name in self.judges:
                (found[name],) = yield from self._picked(
                    name, [self.item.question], N_VOTES, CLEAN_SAMPLE
                )
            self._clean = found
        return self._clean

    def votes(self, questions: Sequence[str], sample: int) -> Steps[list[Letters]]:
        """Ask about edited questions, side by side: those judges who know the item vote.

        Args:
            questions: context and stem of each.
            sample: index of the first vote on a question.

        Returns:
            The votes on each question; none where every judge misses the key before any edit.
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
        """The category that most of the judges who name one name, where more than half of all do.

        Else a word that is no category, or None for a vote that nobody can read. It takes no
        knowledge of the item, so every judge is asked.
        """
        listing = "\n".join(f"- {text}" for text in inserted)
        request = self._prompts.render("judge_categories", inserted=listing, categories=categories)
        names = {category.name.casefold(): category.name for category in categories}
        told: list[str | None] = []
        for name, decoding in self.judges.items():
            session = RoleSession(name, decoding, sample, self._prompts, self.item.letters)
            vote = yield from session.ask(request, CategoryVote)
            said = None if isinstance(vote, Unreadable) else vote.category
            told.append(said if said is None else names.get(said.strip().casefold(), said))
        known = [each for each in told if each in names.values()]
        if len(known) * 2 > len(told):
            return Counter(known).most_common(1)[0][0]
        return next(each for each in told if each not in known)

    def _picked(
        self, name: str, questions: Sequence[str], n: int, sample: int
    ) -> Steps[list[list[str | None]]]:
        """The letters of n votes of one judge on each question."""
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
