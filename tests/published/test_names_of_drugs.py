"""What `brand_generic` finds in published questions."""

from __future__ import annotations

import medstress as ms
from medstress.entities.brand_pairs import shipped_drug_names


def test_what_becomes_generic_in_medqa_are_brands_and_no_words(published):
    names = shipped_drug_names()
    found = {
        text[each.start : each.end]
        for item in ms.load_dataset(published("qa/medqa_dev.jsonl"))
        for text in (item.question, *item.options)
        for each in names.brands_in(text)
    }
    assert found == {"Tylenol", "Prozac"}  # "Today" and "Luteinizing" were among them
