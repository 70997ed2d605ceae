"""What `brand_generic` finds in published questions."""

import json

from medstress.entities.alike import shipped_drug_names


def test_what_becomes_generic_in_medqa_are_brands_and_no_words(published):
    lines = published("qa/medqa_dev.jsonl").read_text("utf-8").splitlines()[:300]
    texts = [json.loads(line)["question"] for line in lines]
    assert sum("\nToday" in text or ". Today" in text for text in texts) > 1
    names = shipped_drug_names()
    found = {text[one.start : one.end] for text in texts for one in names.brands_in(text)}
    assert found == {"Tylenol"}
