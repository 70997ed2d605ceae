"""`medstress card`: one content, several forms, and the card of every sort of run is honest."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from medstress.card import pages
from medstress.card.applied_model_card import FIELDS, NAMESPACE, applied_model_card
from medstress.card.content import card_of
from medstress.card.every_eval_ever import every_eval_ever
from medstress.card.model_index import model_index
from medstress.card.sections import sections
from medstress.results.load import open_run

FOLDERS = Path(__file__).parents[1] / "frozen" / "folders"
FORMS = (pages.markdown, pages.html, pages.as_json, applied_model_card, model_index)
XMLDSIG = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" '
    'targetNamespace="http://www.w3.org/2000/09/xmldsig#"><xs:element name="Signature"/>'
    "</xs:schema>"
)


def made(folder, victim=None):
    """The card of a run folder."""
    with open_run(folder) as run:
        return card_of(run, victim)


def judged_command(bench):
    """What the manifest says began the run."""
    with open_run(bench.out) as run:
        return run.manifest["command"]


def kept(name, to):
    """A run folder that earlier code made."""
    to.mkdir()
    packed = (FOLDERS / name / "run.sqlite.gz").read_bytes()
    (to / "run.sqlite").write_bytes(gzip.decompress(packed))
    return to


def words(card):
    """All sentences of a card."""
    return " ".join(line for each in sections(card) for line in each.lines)


@pytest.fixture(scope="module")
def judged(workbench, tmp_path_factory):
    """A complete run of two victims with a control, slices, and a criterion that is missed."""
    bench = workbench.Bench(tmp_path_factory.mktemp("card"))
    bench.tables["experiment"] |= {"controls": ["no_op"], "seeds": [0]}
    bench.tables["victim"].append({"name": "mock", "backend": "mock"})
    bench.tables["attack"] = bench.tables["attack"][:2]
    bench.tables["slices"] = {"by": ["key"]}
    bench.tables["require"] = [{"metric": "asr", "max_high": 0.01}]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bench.environment().items():
            patch.setenv(name, value)
        assert bench.run() == 3
    return bench


def test_its_numbers_are_those_of_the_summary(judged):
    card, summary = made(judged.out, "careful"), judged.summary()
    rows = {
        row["attack"]: row
        for row in summary["pooled"]
        if row["victim"] == "careful" and "control_of" not in row
    }
    assert {arm.attack for arm in card.arms} == set(rows)
    for arm in card.arms:
        row = rows[arm.attack]
        assert (arm.before, arm.after, arm.lost) == (
            row["accuracy"],
            row["accuracy_after"],
            row["asr"],
        )
        assert (arm.control_lost, arm.net) == (row["control"]["no_op"], row["asr_net"]["no_op"])
        assert (arm.n_lost, arm.n_unknown) == (row["n_flipped"], row["n_validity_unknown"])
        assert list(arm.valid_bounds) == row["asr_valid_bounds"]
    assert card.root == summary["root"]
    assert [each["met"] for each in card.criteria] == [False]
    assert {each["victim"] for each in card.slices} == {"careful"}
    assert card.command == judged_command(judged)


def test_all_forms_say_the_same(judged):
    card = made(judged.out, "careful")
    page, text = pages.html(card), pages.markdown(card)
    for each in (page, text, pages.as_json(card), model_index(card), applied_model_card(card)):
        assert card.root in each
    data = json.loads(pages.as_json(card))
    assert data == card.as_json()
    assert data["format"] == 1
    told = re.sub(r"\s+", " ", words(card))
    assert "is missed" in card.verdict
    assert "Missed: " in told
    assert "Fixed before the first query" in told
    assert "<script" not in page


def test_of_several_victims_it_names_the_one_it_is_about_and_the_others(judged):
    first = made(judged.out)
    assert first.victim == judged.summary()["verdict"]["arms"][0]["victim"]
    assert {first.victim, *first.others} == {"careful", "mock"}
    other = made(judged.out, first.others[0])
    assert first.others[0] in pages.markdown(other).splitlines()[0]
    # The first sentence is about this victim alone.
    assert first.victim not in other.sentences[0]


def test_criteria_on_another_victim_are_left_out(judged, workbench, tmp_path):
    bench = workbench.Bench(tmp_path)
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["victim"] = [{"name": name, "backend": "mock"} for name in ("one", "two")]
    bench.tables["attack"] = bench.tables["attack"][:1]
    bench.tables["require"] = [
        {"metric": "asr", "max_high": 0.01, "where": {"victim": "two"}},
    ]
    bench.run()
    assert len(made(bench.out, "two").criteria) == 1
    card = made(bench.out, "one")
    assert not card.criteria
    assert card.verdict is None
    assert "No control was asked: harmless edits may take as much." in card.limits


@pytest.mark.parametrize(
    "name",
    [
        "documents",
        "significance",
        "substitution",
        "substitution-format-1",
        "substitution-stopped",
    ],
)
def test_every_sort_of_folder_has_a_card(name, tmp_path):
    card = made(kept(name, tmp_path / name))
    for form in (*FORMS, every_eval_ever):
        assert form(card)
    told = words(card)
    if card.root is None:
        assert card.root_note
        assert card.root_note[1:] in told
    if not card.is_complete:
        assert "Partial" in told
    if not card.criteria:
        assert "nothing here passes or fails" in told
    if name == "documents":  # of scores nobody asks whether a key is still right
        assert "have rows of their own" in told
        assert "no loss" not in pages.markdown(card).partition("## Worst")[0].replace(
            "no loss of", ""
        )
    for arm in card.arms:
        if arm.n_lost and not arm.valid and arm.valid_bounds:
            assert f"unknown for {arm.n_unknown}" in pages.markdown(card)


def test_unknown_validity_is_said_and_never_a_number(judged):
    card = made(judged.out, "careful")
    assert any("nobody checked" in each for each in card.sentences)
    assert not any("nobody checked" in each for each in card.limits)
    assert "unknown for" in pages.markdown(card)
    assert "Nobody checked" in applied_model_card(card)


def test_the_block_of_chai_has_its_fields_in_order_and_values_as_json(judged):
    block = ElementTree.fromstring(applied_model_card(made(judged.out)))
    assert block.tag == f"{{{NAMESPACE}}}SafetyReliability"
    assert [each.tag.rpartition("}")[2] for each in block] == list(FIELDS)
    results = block.find(f"{{{NAMESPACE}}}Results")
    for result in results:
        label, value = result
        assert label.text
        assert json.loads(value.text).keys() >= {"value", "n", "low", "high", "method"}


def test_the_block_of_chai_is_valid_by_its_schema(judged, published):
    etree = pytest.importorskip("lxml.etree")
    text = published("schemas/chai/schema.xsd").read_text("utf-8")

    class Signature(etree.Resolver):
        def resolve(self, url, public, context):
            return self.resolve_string(XMLDSIG, context) if "xmldsig" in url else None

    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(Signature())
    block = '<xs:element name="SafetyReliability" type="mc:KeyMetricType"/></xs:schema>'
    schema = etree.XMLSchema(etree.fromstring(text.replace("</xs:schema>", block).encode(), parser))
    schema.assertValid(etree.fromstring(applied_model_card(made(judged.out)).encode()))


def test_the_record_of_every_eval_ever_is_valid_by_its_schema(judged, published, tmp_path):
    import jsonschema

    schema = json.loads(published("schemas/every_eval_ever/eval.schema.json").read_text("utf-8"))
    others = (kept(name, tmp_path / name) for name in ("documents", "significance"))
    for folder in (judged.out, *others):
        jsonschema.validate(json.loads(every_eval_ever(made(folder))), schema)


def test_a_record_of_every_eval_ever_holds_every_estimate_with_its_interval(judged):
    card = made(judged.out, "careful")
    record = json.loads(every_eval_ever(card))
    assert record["source_metadata"]["source_organization_name"] == "not stated"
    found = {each["evaluation_result_id"]: each for each in record["evaluation_results"]}
    # Before, after, lost, control, net; of losses the three bounds of their validity.
    n = 8 * len(card.arms) + sum(bool(each["asr"]["n"]) for each in card.slices)
    assert len(found) == len(record["evaluation_results"]) == n
    arm = card.arms[0]
    lost = found[f"{arm.dataset}/{arm.group}/{arm.attack}/attack_success_rate"]
    assert lost["score_details"]["score"] == arm.lost["value"]
    ends = lost["score_details"]["uncertainty"]["confidence_interval"]
    assert (ends["lower"], ends["upper"]) == (arm.lost["low"], arm.lost["high"])


@pytest.mark.skipif(
    importlib.util.find_spec("huggingface_hub") is None, reason="needs huggingface_hub"
)
def test_the_hub_reads_the_metadata(judged):
    from huggingface_hub import ModelCard

    card = made(judged.out, "careful")
    read = ModelCard(model_index(card) + "\n# A model\n").data
    assert read.tags == ["robustness", "medstress"]
    values = [each.metric_value for each in read.eval_results]
    assert [arm.lost["value"] for arm in card.arms if arm.lost["value"] in values]
    assert len(values) == 8 * len(card.arms) + sum(bool(one["asr"]["n"]) for one in card.slices)


def test_every_format_has_bounds_worst_slice_limits_and_command(judged):
    card = made(judged.out, "careful")
    arm, worst = card.arms[0], card.slices[0]
    ends = [arm.valid_bounds[0], arm.valid_bounds[2]]
    told = f"worst slice by {worst['by']}: {worst['by']} = {worst['value']}"
    limit = next(each for each in card.sentences if "nobody checked" in each)
    for form in (applied_model_card, model_index, every_eval_ever):
        text = re.sub(r"&[a-z]+;|\\\\", "", form(card))
        for each in (told, limit, card.command, card.warnings[0][:40], card.root):
            assert each in text, (form, each)
        assert f"for {arm.n_unknown} losses" in text or f'"unknown_validity": {arm.n_unknown}' in (
            text.replace("unknown_validity:", '"unknown_validity":')
        )
        assert all(str(end) in text for end in ends)
    assert "meant to leave the right answer" in applied_model_card(card)


def test_a_record_describes_each_number_by_itself_and_its_range(judged):
    card = made(judged.out, "careful")
    configs = {}
    for each in json.loads(every_eval_ever(card))["evaluation_results"]:
        config = each["metric_config"]
        configs[config["metric_name"]] = config
        assert config["min_score"] <= each["score_details"]["score"] <= config["max_score"]
    assert configs["accuracy"]["evaluation_description"].endswith("before any edit")
    assert "metric_parameters" not in configs["accuracy"]
    assert "harmless edits" in configs["attack_success_rate_of_control"]["evaluation_description"]
    least = {name: config["min_score"] for name, config in configs.items()}
    assert {name for name, end in least.items() if end} == {"attack_success_rate_net_of_control"}


def test_after_a_review_it_says_how_many_losses_were_judged_and_what_is_open(judged):
    card = made(judged.out, "careful")
    arm = card.arms[0]
    valid = {**arm.lost, "value": 0.29, "low": 0.14, "high": 0.45}
    valid |= {"n_labels": 17, "n_disputed": 3}
    bounds = [0.1, 0.4, 0.5]
    arm = replace(arm, valid=valid, valid_bounds=bounds, n_unknown=25, n_lost=42)
    text = pages.markdown(replace(card, arms=[arm]))
    assert "29 %, 14 to 45 (reviewers, 17 of 42; unknown for 25; between 10 and 50 %)" in text


def test_a_caution_of_a_criterion_stands_whole_below_limits(judged):
    card = made(judged.out, "careful")
    caution = "9 searches ended at a success that is not valid and " + 20 * "long " + "ending"
    criterion = {**card.criteria[0], "met": True, "caution": caution}
    card = replace(card, criteria=[criterion], cautions=[f"ASR at most 1 %: {caution}."])
    text = pages.markdown(card)
    assert text.count(caution) == 1
    assert text.index("## Limits") < text.index(caution)


def test_the_command_writes_what_the_name_of_the_file_says(medstress, judged, tmp_path):
    for name, begins in {
        "a.md": "# Robustness card",
        "a.json": "{",
        "a.html": "<!DOCTYPE html>",
        "a.xml": "<?xml",
        "a.yaml": "---",
    }.items():
        told = medstress("card", judged.out, "--victim", "mock", "--to", tmp_path / name)
        assert (told.code, told.err) == (0, "")
        assert (tmp_path / name).read_text("utf-8").startswith(begins)
    told = medstress("card", judged.out)
    assert told.out.startswith("# Robustness card")
    assert "--victim for" in told.err


def test_what_it_cannot_do_is_one_sentence(medstress, judged, tmp_path, said):
    for flags, named in (
        (("--victim", "mok"), "'mock'"),
        (("--to", tmp_path / "a.pdf"), ".html"),
        (("--to", tmp_path / "no" / "a.md"), "--to"),
    ):
        told = medstress("card", judged.out, *flags)
        assert told.code == 2
        assert told.err.count("\n") == 1
        said(told.err, named)


def test_a_hostile_name_is_text_everywhere(workbench, tmp_path):
    bench = workbench.Bench(tmp_path)
    name = "<b>&`x`|[a](b) ---"
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["victim"] = [{"name": name, "backend": "mock"}]
    bench.tables["attack"] = [{**bench.tables["attack"][0], "label": 'a: "b"\\ <i>'}]
    bench.run()
    card = made(bench.out)
    assert "<b>" not in pages.html(card)
    assert "<b>" not in pages.markdown(card)
    assert "<i>" not in pages.markdown(card)
    ElementTree.fromstring(applied_model_card(card))
    assert json.loads(every_eval_ever(card))["model_info"]["name"] == name
    yaml = pytest.importorskip("yaml")
    block = yaml.safe_load(model_index(card).strip().strip("-"))
    assert block["model-index"][0]["results"][0]["dataset"]["args"]["attack"] == 'a: "b"\\ <i>'
