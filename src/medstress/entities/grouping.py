"""Which wrong options of a question mention an entity of a group (drugs, diseases)."""

from __future__ import annotations

from medstress.core.items import Question


def typed_options(item: Question, types: frozenset[str]) -> tuple[str, ...]:
    """Return the letters of the wrong options that mention an entity of one of `types`.

    An item belongs to a group, such as drug-mention questions, if there is at least one: the rule
    of Xian et al. (2025). The key does not count.

    >>> from medstress.core.items import Mention
    >>> span = Mention(field="B", start=0, end=4, type="T047")
    >>> item = Question(id="q", stem="?", options=("rest", "gout"), key="A", mentions=(span,))
    >>> typed_options(item, frozenset({"T047"}))
    ('B',)
    """
    mentioned = {mention.field for mention in item.mentions if mention.type in types}
    return tuple(letter for letter in item.letters if letter in mentioned and letter != item.key)
