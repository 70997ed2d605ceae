from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from medstress.report import render_report

VOID = {"meta", "input", "br", "img", "link", "hr"}
FOREIGN = {"svg", "g", "defs", "path", "use", "text", "tspan", "clippath", "rect"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; checks that tags nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
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


def test_the_policy_allows_the_one_script_and_nothing_else(samples):
    source = render_report(samples.summary(), [], {})
    (script,) = re.findall(r"<script>(.*?)</script>", source, flags=re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', source)
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert not re.search(r"url\((?!#)|@import", source)


def test_the_page_is_a_pure_function(samples):
    arguments = (samples.summary(), samples.trials(), samples.manifest())
    before = repr(arguments)
    assert render_report(*arguments) == render_report(*arguments)
    assert repr(arguments) == before


def test_warnings_come_first_under_the_title(samples):
    warnings = ["v is not above chance: its success rate cannot be told from guessing.", "Second."]
    source = render_report(samples.summary(warnings=warnings), [], {})
    words = Page(source).words
    title = words.index("sample-near-far", words.index("medstress report sample"))
    first = words.index(warnings[0])
    assert words[title + len("sample-near-far") : first].strip() == ""
    assert first < words.index("Second.") < words.index("Complete") < words.index("Results")


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
    assert len(plots) == 3
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in plots)
    assert page.words.count("The numbers of this plot") == 3


def test_several_victims_have_panels_of_their_own(samples):
    rows = [samples.result("drugs", "random", 0, victim=victim) for victim in ("small", "large")]
    source = render_report(samples.summary(results=rows, pooled=[]), [], {})
    assert "sample · drugs · small" in source
    assert source.count("<svg") == 3


def test_one_query_an_item_makes_no_curve(samples):
    row = samples.result("drugs", "random", 0)
    row["asr_at"] = row["asr_at"][:1]
    assert row["asr_at"][0]["budget"] == 1
    source = render_report(samples.summary(results=[row], pooled=[]), [], {})
    assert "No attack has a success rate at more than one query." in source
    assert source.count("<svg") == 1


def test_a_success_shows_what_changed_where_no_script_runs(samples):
    page = Page(render_report(samples.summary(), [samples.trial(1)], {}))
    assert "C: LoratadineNaproxen" in page.words
    assert "P(key).892 → .213" in page.words
    assert "answer A → C" in page.words
    assert "misled again" in page.words
    assert len(page.named("del")) == len(page.named("ins")) == 2


def test_failures_are_listed_with_their_errors(page):
    assert page.words.count("connection refused: 127.0.0.1:8000") == 2


def test_the_manifest_the_command_and_the_endpoints_are_there(samples):
    given = samples.manifest(endpoints=["https://api.example.org/v1"])
    words = Page(render_report(samples.summary(), [], given)).words
    assert " ".join(json.dumps(given, indent=2).split()) in words
    assert given["command"] in words
    assert "network endpoints: https://api.example.org/v1" in words
    split = samples.manifest(command=["medstress", "run", "a b.toml"])
    assert "medstress run 'a b.toml'" in Page(render_report(samples.summary(), [], split)).words


def test_glossary_and_citations_are_there(page):
    for term in ("ASR", "Budget", "Eligible", "Paid", "Ahead", "Gini-Simpson"):
        assert term in page.words
    assert "2402.10527" in page.words


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
    assert words.index("The criterion is missed: ASR at 8 queries of drugs") < words.index(
        "Results"
    )
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
    assert "No trial failed." in words


def test_a_run_without_successes_has_a_page(samples):
    rows = [samples.result("drugs", "random", 0, flipped=0)]
    source = render_report(samples.summary(results=rows, pooled=[]), [], {})
    assert "0/51" in source
    assert "<svg" in source
    assert "No attack succeeded." in source


def test_a_run_without_eligible_trials_has_a_page(samples):
    none = samples.estimate(0, 0)
    row = samples.result("drugs", "random", 0, flipped=0, n_eligible=0, n_held=0, n_failed=0)
    row |= dict.fromkeys(("asr", "asr_decided", "asr_valid"), none)
    row["asr_at"] = [{"budget": 1, **none}]
    source = render_report(samples.summary(results=[row], pooled=[]), [], {})
    assert "No trial was eligible" in source
    assert "<svg" not in source


def test_hostile_text_adds_no_element_and_no_attribute(samples, hostile_source):
    tame = Page(render_report(samples.summary(), samples.trials(), samples.manifest()))
    page = Page(hostile_source)
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in tame.tags}
    names = {name for _, attrs in page.tags for name in attrs}
    assert names <= {name for _, attrs in tame.tags for name in attrs}
    code = [attrs for attrs in page.named("script") if "type" not in attrs]
    assert len(code) == len(page.named("style")) == 1


def test_hostile_text_is_shown_as_it_is(samples, hostile_source):
    words = Page(hostile_source).words
    for text in samples.HOSTILE:
        shown = text.translate({0: 0xFFFD, 0x1B: 0xFFFD, 0xD800: 0xFFFD, 0xFFFE: 0xFFFD})
        assert " ".join(shown.split()) in words


def test_hostile_text_can_be_written_and_holds_no_control_character(hostile_source):
    hostile_source.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", hostile_source)
