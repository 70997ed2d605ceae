"""Ask an attacker for an edit: insertions with their places, or else the whole question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from medstress.attacks.medfuzz.insertion_places import NoPlaceError, inserted
from medstress.attacks.medfuzz.item_edits import edits_between, hidden_in
from medstress.attacks.medfuzz.role_session import RoleSession
from medstress.core.items import Candidate, Question
from medstress.core.queries import Steps
from medstress.tasks.prompt_sets import INSERT, MODIFY, PromptSet
from medstress.tasks.replies import Addition, Insertions, Modification, Unreadable, read_reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """An attacker's edit of an item."""

    candidate: Candidate
    """The edited item."""
    options: Mapping[str, str]
    """As the attacker returned them; the item's own if it was not asked for them."""
    added: tuple[Addition, ...]
    """What the attacker says it inserted."""


def ask_edit(
    session: RoleSession, item: Question, prompts: PromptSet
) -> Steps[Edited | Unreadable]:
    """Ask for insertions, each with the words before it; if that fails, for the whole question.

    A reply in either form is accepted. A set of prompts that does not ask for insertions asks for
    the whole question at once.
    """
    reason = ""
    if prompts.asks_for_insertions:
        text = yield from session.say(prompts.render(INSERT, question=item.question), Insertions)
        found = _read(item, text)
        if not isinstance(found, Unreadable):
            return found
        reason = found.reason
    options = json.dumps(_options(item), ensure_ascii=False)
    request = prompts.render(MODIFY, question=item.question, options_json=options, reason=reason)
    reply = yield from session.ask(request, Modification, partial(_rewrite_fault, item))
    return reply if isinstance(reply, Unreadable) else _rewritten(item, reply)


def _read(item: Question, text: str) -> Edited | Unreadable:
    """Read a reply in either form."""
    if '"modified_item"' in text:
        question = read_reply(text, Modification, partial(_rewrite_fault, item))
        return question if isinstance(question, Unreadable) else _rewritten(item, question)
    insertions = read_reply(text, Insertions, partial(_insertions_fault, item))
    return insertions if isinstance(insertions, Unreadable) else _inserted(item, insertions)


def _options(item: Question) -> dict[str, str]:
    return dict(zip(item.letters, item.options, strict=True))


def _inserted(item: Question, reply: Insertions) -> Edited:
    candidate = inserted(item, [(each.after, each.text) for each in reply.added])
    return Edited(candidate=candidate, options=_options(item), added=reply.added)


def _rewritten(item: Question, reply: Modification) -> Edited:
    candidate = edits_between(item, reply.modified_item, [each.text for each in reply.added])
    return Edited(candidate=candidate, options=reply.options, added=reply.added)


def _insertions_fault(item: Question, reply: Insertions) -> str | None:
    """Say what is wrong with insertions: a hidden character, or words not found exactly once."""
    if hidden := _hidden_character([each.text for each in reply.added], item):
        return hidden
    try:
        inserted(item, [(each.after, each.text) for each in reply.added])
    except NoPlaceError as error:
        return str(error)
    return None


def _rewrite_fault(item: Question, reply: Modification) -> str | None:
    """Say which hidden character a rewritten question has; the gates compare the options."""
    return _hidden_character([reply.modified_item, *(each.text for each in reply.added)], item)


def _hidden_character(texts: Sequence[str], item: Question) -> str | None:
    found = hidden_in(" ".join(texts), item.question)
    return None if found is None else f"it holds the character {found}, which nobody can see"
