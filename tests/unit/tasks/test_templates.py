from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.calls import Message
from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, listing
from medstress.tasks.templates import compile_template, load_template, stored_template
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import Instructed, Majority
from medstress.testing import ScriptedBackend

ITEM = Question(
    id="q",
    context="A man bleeds.",
    stem="Which drug?",
    options=("Aspirin", "Warfarin", "Heparin"),
    key="B",
)
BARE = Question(id="q", stem="Which drug?", options=("Aspirin", "Warfarin"), key="B")

LEAD = (
    "Choose the right option for this medical question. Reply with its letter and no explanation."
)
QSTAB = f"""{LEAD}
[Context]: A man bleeds.
[Question]: Which drug?
A: Aspirin
B: Warfarin
C: Heparin
[Answer]:"""
QSTAB_BARE = f"""{LEAD}
[Question]: Which drug?
A: Aspirin
B: Warfarin
[Answer]:"""
MEDMCQA = f"""{LEAD}
[Context]: A man bleeds. Which drug?
A: Aspirin
B: Warfarin
C: Heparin
[Answer]:"""
CLOZE = """Question: A man bleeds. Which drug?
Answer:"""
CHAT = """A man bleeds. Which drug?

A: Aspirin
B: Warfarin
C: Heparin"""


def test_a_passage_stands_first_and_a_question_without_one_leaves_no_trace():
    read = replace(BARE, passage="Heparin thins blood.")
    lead = "Read the passage and answer the question.\n\nPassage: Heparin thins blood.\n\n"
    asked = "Question: Which drug?\n\nAnswer:"
    template = load_template("open_book_cloze")
    assert template.render(read.candidate()) == lead + asked
    assert template.render(BARE.candidate()) == asked
    edit = Edit(field="passage", start=0, end=7, replacement="Warfarin")
    assert template.render(read.candidate((edit,))) == lead.replace("Heparin", "Warfarin") + asked


@pytest.mark.parametrize(
    ("name", "item", "text"),
    [
        ("qstab", ITEM, QSTAB),
        ("qstab", BARE, QSTAB_BARE),
        ("medmcqa", ITEM, MEDMCQA),
        ("cloze", ITEM, CLOZE),
    ],
)
def test_a_shipped_template_is_laid_out_like_this(name, item, text):
    assert load_template(name).render(Candidate(item=item)) == text


def test_the_chat_template_is_a_conversation():
    system, user = load_template("chat").render(Candidate(item=ITEM))
    assert isinstance(system, Message)
    assert isinstance(user, Message)
    assert (system.role, user.role) == ("system", "user")
    assert user.content == CHAT
    assert system.content == system.content.strip()


@pytest.mark.parametrize("name", ["qstab", "medmcqa", "chat", "untagged"])
def test_an_edited_option_context_and_stem_reach_the_prompt(name):
    edits = (
        Edit(field="A", start=0, end=7, replacement="<Digoxin & co>"),
        Edit(field="context", start=2, end=5, replacement="woman"),
        Edit(field="stem", start=0, end=5, replacement="What"),
    )
    text = listing(load_template(name), Candidate(item=ITEM, edits=edits))
    assert "A: <Digoxin & co>\n" in text
    assert "A woman bleeds." in text
    assert "What drug?" in text
    assert "Aspirin" not in text


def test_a_template_without_options_is_listed_as_qstab():
    assert not load_template("cloze").lists_options
    assert listing(load_template("cloze"), Candidate(item=ITEM)) == QSTAB


def test_a_template_of_the_user_is_a_file(tmp_path):
    (tmp_path / "mine.jinja").write_text("{{ question }}|{{ options[0][1] }}  \n", "utf-8")
    template = load_template("mine.jinja", tmp_path)
    assert template.name == "mine.jinja"
    assert template.summary == "a template of yours"
    assert template.render(Candidate(item=ITEM)) == "A man bleeds. Which drug?|Aspirin"


def test_an_unknown_template_is_refused_with_a_suggestion(tmp_path, said):
    with pytest.raises(UsageError) as caught:
        load_template("qstb", tmp_path)
    said(str(caught.value), "'qstb'", "'qstab'")


@pytest.mark.parametrize("source", ["{{ stm }}", "{% for x in options %}", "{{ stem | nothing }}"])
def test_a_template_that_does_not_compile_or_render_is_refused(source, said):
    with pytest.raises(UsageError) as caught:
        compile_template("mine.jinja", source)
    said(str(caught.value), "prompt 'mine.jinja' is not a usable Jinja template")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["{stem}", "{options}", "{end}", "{if passage}", "{{ stem }}", "{% if %}"]
)


@given(passage=TEXTS, context=TEXTS, stem=TEXTS, options=st.lists(TEXTS, min_size=2, max_size=6))
def test_texts_are_placed_as_they_are_even_if_they_look_like_places(
    passage, context, stem, options
):
    template = compile_template(
        "x", '<{if context}{context}|{end}{if passage}{passage}{end}|{stem}|{options}|{"a": 1}>'
    )
    stem, options = f"{stem}?", [f"{text}{i}" for i, text in enumerate(options)]
    item = Question(
        id="q", context=context, stem=stem, passage=passage, options=tuple(options), key="A"
    )
    lines = "\n".join(f"{letter}: {text}" for letter, text in zip("ABCDEF", options, strict=False))
    first = f"{context}|" if context else ""
    assert template.render(item.candidate()) == f'<{first}{passage}|{stem}|{lines}|{{"a": 1}}>'
    assert stored_template(template.as_json()).render(item.candidate()) == template.render(
        item.candidate()
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{quesion}", "did you mean 'question'"),
        ("{{ question }}", "does not end in .jinja"),
        ("{if context}{context}", "expected one {end} after every {if ...}"),
        ("{stem}{end}", "expected one {end}"),
        ("{if context}{if passage}x{end}{end}", "none of them nested"),
    ],
)
def test_a_placeholder_that_is_none_is_refused(source, reason):
    with pytest.raises(UsageError) as caught:
        compile_template("mine.txt", source)
    assert reason in str(caught.value)


def test_a_head_of_lines_makes_a_conversation():
    template = compile_template("mine.txt", "summary: mine\nsystem: Be brief.\n---\n{stem}\n")
    assert (template.summary, template.chat, template.lists_options) == ("mine", True, False)
    assert template.render(ITEM.candidate()) == (
        Message("system", "Be brief."),
        Message("user", "Which drug?"),
    )


@pytest.mark.parametrize("source", ["x" * 70_000, "{question}" * 200])
def test_a_strangers_prompt_that_would_make_too_much_text_is_not_shown(source):
    stored = {"name": "x", "source": source, "jinja": False, "lists_options": False}
    template = stored_template(stored)
    assert not template.is_shown
    assert template.render(ITEM.candidate()) == ""


def test_what_a_jinja_file_shows_is_what_its_text_names():
    read = compile_template("mine.jinja", "{{ passage | upper }} {{ question }}")
    blind = compile_template("mine.jinja", "{{ stem | upper }}")
    assert read.is_jinja
    assert not stored_template(read.as_json()).is_shown
    assert [read.shows(name) for name in ("passage", "context", "stem")] == [True, True, True]
    assert [blind.shows(name) for name in ("passage", "context", "stem")] == [False, False, True]


@pytest.mark.parametrize(
    ("prompt", "answer_by", "shown"),
    [
        ("open_book", AnswerBy.CHOICE, True),
        ("open_book_cloze", AnswerBy.TEXT, True),
        # A function is sent the listing, which for a prompt without options is qstab's.
        ("open_book_cloze", AnswerBy.CHOICE, True),
        ("qstab", AnswerBy.LETTER, False),
    ],
)
def test_a_victim_misses_what_its_prompt_does_not_show(prompt, answer_by, shown):
    inner = MultipleChoice(template=load_template(prompt), answer_by=answer_by)
    for task in (inner, Instructed(inner=Majority(inner=inner), text="Beware.")):
        victim = Victim(label="v", task=task, backend=ScriptedBackend())
        assert victim.shows("passage") == shown
        assert victim.misses({"passage"}) != shown
        assert not victim.misses({"passage", "stem"})
        assert not victim.misses(())


def test_a_text_that_holds_the_mark_of_an_edited_place_is_left_alone():
    item = Question(id="q", stem="What\0treats it?", options=("zinc", "iron"), key="A")
    edit = Edit(field="B", start=0, end=4, replacement="gold")
    for prompt in ("question", "qstab"):
        asked = load_template(prompt).render(Candidate(item=item, edits=(edit,)))
        assert "What\0treats it?" in asked
