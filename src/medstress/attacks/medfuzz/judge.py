"""The judge: one question about evidence in what was inserted."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.attacks.medfuzz.roles import RoleSession
from medstress.core.calls import Decoding
from medstress.core.items import Question
from medstress.core.queries import Steps
from medstress.tasks.prompt_sets import Rules, lettered, say
from medstress.tasks.replies import Reply, Unreadable


class JudgedEvidence(Reply):
    """What a judge objects to."""

    evidence: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it calls evidence."""
        return self.evidence


def evidence(
    role: str,
    decoding: Decoding,
    item: Question,
    inserted: Sequence[str],
    rules: Rules,
    sample: int,
) -> Steps[JudgedEvidence | Unreadable]:
    """Ask a judge which of the inserted words are clinical evidence."""
    text = say(
        "judge_evidence",
        inserted="\n".join(f"- {one}" for one in inserted),
        question=item.question,
        options=lettered(zip(item.letters, item.options, strict=True)),
        forbidden="\n".join(f"- {one.name}: {one.description}" for one in rules.forbidden),
    )
    session = RoleSession(role, decoding, sample, item.letters)
    return (yield from session.ask(text, JudgedEvidence))
