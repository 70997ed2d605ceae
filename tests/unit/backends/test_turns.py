"""Chat templates that refuse a system turn, or want roles to alternate, get its text elsewhere."""

import logging

import pytest

from medstress.backends.turns import ChatTemplate, without_system
from medstress.core.calls import Message
from medstress.core.errors import PermanentBackendError, UsageError

TURNS = "{% for m in messages %}{GUARD}<{{ m.role }}>{{ m.content }}{% endfor %}<reply>"
PLAIN = TURNS.replace(
    "{GUARD}", "{% if m.role == 'tool' %}{{ raise_exception('none') }}{% endif %}"
)
NO_SYSTEM = TURNS.replace(
    "{GUARD}", "{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
)
ALTERNATE = TURNS.replace(
    "{GUARD}",
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif %}",
)
DROPS = (
    "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}<reply>"
)
CHAT = (Message("system", " Be brief. "), Message("user", "Why?"), Message("user", "Now?"))
LATER = (*CHAT, Message("assistant", "So."), Message("user", "Sure?"))


def template(source: str | None) -> ChatTemplate:
    return ChatTemplate(source, {}, "m")


@pytest.mark.parametrize("source", [ALTERNATE, NO_SYSTEM, DROPS])
def test_the_system_text_goes_to_the_first_user_turn_which_is_said_once(source, caplog):
    chat = template(source)
    with caplog.at_level(logging.WARNING):
        assert chat.text(CHAT) == "<user> Be brief. \n\nWhy?\n\nNow?<reply>"
        assert chat.text(LATER).endswith("Now?<assistant>So.<user>Sure?<reply>")
    assert len(caplog.records) == 1
    assert "head of the first user turn" in caplog.records[0].message


def test_a_conversation_that_the_template_takes_stays_as_it_is():
    assert template(PLAIN).text(CHAT) == "<system> Be brief. <user>Why?<user>Now?<reply>"
    assert template(ALTERNATE).text(CHAT[1:2]) == "<user>Why?<reply>"
    assert without_system(CHAT[1:2]) == CHAT[1:2]
    assert template(None).text("plain") == "plain"


def test_what_is_refused_either_way_fails_and_what_is_no_template_ends_the_run():
    with pytest.raises(PermanentBackendError, match="none; it refuses"):
        template(PLAIN).text((Message("tool", "x"),))
    with pytest.raises(UsageError, match="no chat template"):
        template(None).text(CHAT)
    with pytest.raises(UsageError, match="not a usable Jinja template"):
        template("{% if").text(CHAT)
