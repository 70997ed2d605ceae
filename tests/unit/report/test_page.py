from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from medstress.report import render_report

VOID = {"meta", "input", "br", "img", "link", "hr"}
FOREIGN = {"svg", "g", "defs", "path", "use", "text", "tspan", "clippath", "rect", "line"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; checks that tags nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.data: list[str] = []
        self._open: list[str] = []
        self._is_data = False
        self.feed(source)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._is_data = dict(attrs).get("type") == "application/json"
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in FOREIGN
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not self._open or self._open[-1] not in ("script", "style"):
            self.text.append(data)
        elif self._is_data:
            self.data.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


@pytest.fixture(scope="module")
def page(samples) -> Page:
    return Page(render_report(samples.summary(), samples.trials(), samples.manifest()))


@pytest.fixture(scope="module")
def hostile_source(samples) -> str:
    return render_report(*samples.hostile())


def partial(samples, **experiment):
    summary = samples.summary()
    summary["experiment"] |= {"complete": False, "finished": None, **experiment}
    return summary


def test_the_page_loads_nothing(page):
    for _, attrs in page.tags:
        assert not {"src", "srcset", "background", "poster", "action"} & set(attrs)
        assert (attrs.get("href") or "#").startswith("#")
    assert not page.named("link")


def digests(source: str, tag: str) -> list[str]:
    """The hashes of all elements of a kind that run or style, as a policy names them."""
    texts = re.findall(rf"<{tag}>(.*?)</{tag}>", source, flags=re.DOTALL)
    return [f"'sha256-{b64encode(sha256(t.encode()).digest()).decode()}'" for t in texts]


def test_the_policy_allows_its_own_scripts_and_styles_and_nothing_else(samples):
    source = render_report(samples.summary(), samples.trials(), {})
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', source)
    scripts, styles = digests(source, "script"), digests(source, "style")
    assert len(scripts) > 1
    assert policy == (
        f"default-src 'none'; script-src {' '.join(scripts)}; style-src {' '.join(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"<style>[^<]*(url\((?!#)|@import)", source)


@pytest.mark.release
def test_what_draws_is_there_only_where_something_is_drawn(samples):
    drawn = render_report(samples.summary(), [], {})
    empty = render_report(samples.summary(results=[], pooled=[], tests=[]), [], {})
    assert "vegaEmbed" in drawn
    assert "vegaEmbed" not in empty
    assert len(empty) < 200_000


def test_no_text_of_a_chart_ends_its_script(samples):
    text = "</script><b>bold</b>"
    rows = [samples.result("drugs", text, 0)]
    page = Page(render_report(samples.summary(results=rows, pooled=[]), [], {}))
    (spec,) = page.data[:1]
    assert text in json.dumps(json.loads(spec))


@pytest.mark.release
def test_the_page_is_a_pure_function(samples):
    arguments = (samples.summary(), samples.trials(), samples.manifest())
    before = repr(arguments)
    assert render_report(*arguments) == render_report(*arguments)
    assert repr(arguments) == before


VERDICT = {
    "sentence": "17 of 51 right answers (33 %, 21 to 48) were lost.",
    "others": ["large lost none."],
    "caveats": ["No validity was measured."],
    "arms": [],
}


def first_screen(source: str) -> str:
    """The part of a page above its contents."""
    return source[source.index("<header") : source.index("</header>") + 9]


def test_the_first_screen_has_the_verdict_first_and_no_table_and_no_time(samples):
    warnings = ["v is not above chance: its success rate cannot be told from guessing.", "Second."]
    summary = samples.summary(warnings=warnings, verdict=VERDICT)
    source = render_report(summary, [], {})
    first = first_screen(source)
    words = Page(first).words
    name, sentence = summary["experiment"]["name"], VERDICT["sentence"].replace(" %", "\xa0%")
    assert words.startswith(" ".join(f"{name} {sentence} large lost none.".split()))
    for text in ("No validity was measured.", "2 warnings"):
        assert text in words
    assert "<table" not in first
    assert "09:" not in words
    assert summary["experiment"]["fingerprint"] in words
    below = Page(source).words[len(words) :]
    assert all(warning in below for warning in warnings)


@pytest.mark.release
def test_the_first_picture_has_a_dot_for_every_known_value_and_none_for_unknown_ones(samples):
    rows = [samples.result("drugs", name, 0) for name in ("random", "far")]
    rows[1]["accuracy_after"] = samples.estimate(0, 0)
    page = Page(render_report(samples.summary(results=rows, pooled=[]), [], {}))
    spec = json.loads(page.data[0])
    (points,) = (layer for layer in spec["layer"] if layer["mark"]["type"] == "point")
    marks = spec["datasets"][points["data"]["name"]]
    assert [(mark["line"], mark["counts"]) for mark in marks] == [
        ("before any edit", "51 of 91"),
        ("after random", "34 of 91"),
    ]
    assert "after far unknown" in page.named("svg")[0]["aria-label"]


@pytest.mark.release
def test_names_are_words_with_their_key_in_the_tooltip(samples):
    rows = [samples.result("drugs", "entity_substitution n=-20", 0)]
    names = {"attacks": {"entity_substitution n=-20": "near names"}}
    summary = samples.summary(results=rows, pooled=[], names=names)
    page = Page(render_report(summary, [samples.trial(1, attack="entity_substitution n=-20")], {}))
    assert "near names" in page.words
    told = page.words[: page.words.index("Attacks and their parameters")]
    assert "entity_substitution n=-20" not in told
    titles = [attrs["title"] for attrs in page.named("th") if "title" in attrs]
    assert "entity_substitution n=-20 · sample · drugs · smollm2" in " ".join(titles)


@pytest.mark.release
def test_a_partial_run_says_how_many_trials_are_missing(samples):
    done = sum(row["n_trials"] for row in samples.summary()["results"])
    words = Page(render_report(partial(samples, n_planned=done + 12), [], {})).words
    assert f"Partial: 12 of {done + 12:,} planned trials are missing." in words
    assert "Partial: the run had not ended" in Page(render_report(partial(samples), [], {})).words


def test_what_was_run_is_one_paragraph(page):
    assert "1 victim (smollm2) answered 100 items from 1 data set (sample)" in page.words
    assert "3 attacks (random, pdws near, pdws far) in 2 entity groups" in page.words


def test_tables_have_captions_and_scopes(page):
    assert len(page.named("caption")) == len(page.named("table")) > 8
    assert {attrs.get("scope") for attrs in page.named("th")} == {"row", "col"}


def test_headings_descend_in_steps_and_every_link_has_its_target(page):
    assert len(page.named("h1")) == 1
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {attrs["href"] for attrs in page.named("a")}
    assert targets <= {f"#{name}" for name in ids}


def test_every_plot_has_a_name_and_its_numbers(page):
    plots = page.named("svg")
    assert len(plots) == 7
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in plots)
    assert page.words.count("The numbers of this plot") == 5


@pytest.mark.release
def test_several_victims_have_panels_of_their_own(samples):
    rows = [samples.result("drugs", "random", 0, victim=victim) for victim in ("small", "large")]
    source = render_report(samples.summary(results=rows, pooled=[]), [], {})
    assert "sample · drugs · small" in source
    assert len(Page(source).named("svg")) == 5


def test_one_query_an_item_makes_no_curve(samples):
    row = samples.result("drugs", "random", 0)
    row["asr_at"] = row["asr_at"][:1]
    assert row["asr_at"][0]["budget"] == 1
    source = render_report(samples.summary(results=[row], pooled=[]), [], {})
    page = Page(source)
    assert "Success within a budget" not in page.words
    assert len(page.named("svg")) == 3


@pytest.mark.release
def test_a_success_shows_what_changed_where_no_script_runs(samples):
    page = Page(render_report(samples.summary(), [samples.trial(1)], {}))
    assert "C: LoratadineNaproxen" in page.words
    assert "P(key).892 → .213" in page.words
    assert "answer A → C" in page.words
    assert "misled again" in page.words
    assert len(page.named("del")) == len(page.named("ins")) == 2


def test_failures_are_listed_with_their_errors(page):
    assert page.words.count("connection refused: 127.0.0.1:8000") == 2


@pytest.mark.release
def test_the_manifest_the_command_and_the_endpoints_are_there(samples):
    given = samples.manifest(endpoints=["https://api.example.org/v1"])
    words = Page(render_report(samples.summary(), [], given)).words
    assert " ".join(json.dumps(dict(sorted(given.items())), indent=2).split()) in words
    assert given["command"] in words
    assert "network endpoints: https://api.example.org/v1" in words
    split = samples.manifest(command=["medstress", "run", "a b.toml"])
    assert "medstress run 'a b.toml'" in Page(render_report(samples.summary(), [], split)).words


def test_glossary_and_citations_are_there(page):
    for term in ("ASR", "Budget", "Eligible", "Paid", "Ahead", "Gini-Simpson"):
        assert term in page.words
    assert "2402.10527" in page.words


@pytest.mark.release
def test_requirements_slices_and_variants_are_shown_where_there_are_any(samples):
    row = samples.result("drugs", "random", 0)
    classes = row["asr_by_variant"] | {"synonym": samples.estimate(2, 51)}
    required = {
        "metric": "asr", "at_budget": 8, "where": {"group": "drugs"}, "bound": {"max_high": 0.2},
        "estimate": row["asr"], "met": False,
    }  # fmt: skip
    summary = samples.summary(
        results=[row | {"asr_by_variant": classes}], pooled=[], requirements=[required],
        slices=[row | {"by": "type", "value": "T121"}],
    )  # fmt: skip
    words = Page(render_report(summary, [], {})).words
    missed = words.index("The criterion is missed: ASR at 8 queries of drugs")
    assert missed < words.index("Victims and attacks")
    assert "missed" in words
    assert "type = T121" in words
    assert "Key subset" in words


def test_a_run_without_trials_has_a_page(samples):
    summary = partial(samples, n_planned=600, seeds=[])
    summary |= {"results": [], "pooled": [], "tests": [], "performance": {}}
    del summary["warnings"]
    words = Page(render_report(summary, [], {})).words
    assert "Partial: 600 of 600 planned trials are missing." in words
    assert "No trial has ended yet" in words
    assert "No attack succeeded." in words
    assert "Failures" not in words


def test_a_run_without_successes_has_a_page(samples):
    rows = [samples.result("drugs", "random", 0, flipped=0)]
    source = render_report(samples.summary(results=rows, pooled=[]), [], {})
    assert "0/51" in source
    assert "<svg" in source
    assert "No attack succeeded." in source


def test_a_run_without_eligible_trials_has_a_page(samples):
    none = samples.estimate(0, 0)
    row = samples.result("drugs", "random", 0, flipped=0, n_eligible=0, n_held=0, n_failed=0)
    row |= dict.fromkeys(("asr", "asr_decided"), none) | {"asr_valid": None}
    row["asr_at"] = [{"budget": 1, **none}]
    source = render_report(samples.summary(results=[row], pooled=[]), [], {})
    page = Page(source)
    assert "No trial was eligible" in page.words
    assert "Success within a budget" not in page.words


def test_hostile_text_adds_no_element_and_no_attribute(samples, hostile_source):
    rows = [samples.result("drugs", "random", 0, victim=name) for name in ("a", "b")]
    rows.append(samples.result("drugs", "long " * 12, 0))
    summary = samples.summary()
    summary["results"] += rows
    tame = Page(render_report(summary, samples.trials(), samples.manifest()))
    page = Page(hostile_source)
    # A label of several lines has a `tspan` for each.
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in tame.tags} | {"tspan"}
    names = {name for _, attrs in page.tags for name in attrs}
    assert names <= {name for _, attrs in tame.tags for name in attrs} | {"x", "dy"}
    running = [attrs for attrs in page.named("script") if "type" not in attrs]
    assert len(running) == 4
    assert len(page.named("style")) == 2


def test_hostile_text_is_shown_as_it_is(samples, hostile_source):
    words = Page(hostile_source).words
    for text in samples.HOSTILE:
        shown = text.translate({0: 0xFFFD, 0x1B: 0xFFFD, 0xD800: 0xFFFD, 0xFFFE: 0xFFFD})
        assert " ".join(shown.split()) in words


def test_hostile_text_can_be_written_and_holds_no_control_character(hostile_source):
    hostile_source.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", hostile_source)
