import pytest

from medstress.core.errors import UsageError
from medstress.entities.groups import DISEASES, DRUGS, TYPE_IDENTIFIERS, types_of


def test_the_groups_hold_20_and_12_types_without_overlap():
    assert (len(DRUGS), len(DISEASES)) == (20, 12)
    assert not DRUGS.keys() & DISEASES.keys()


def test_there_are_127_semantic_types():
    assert len(TYPE_IDENTIFIERS) == 127


def test_a_group_contains_its_own_name():
    assert types_of("drugs") == {"drugs", *DRUGS}
    assert types_of("diseases") == {"diseases", *DISEASES}


def test_a_list_of_identifiers_is_taken_as_it_is():
    assert types_of(["T047", "T060"]) == {"T047", "T060"}
    assert types_of("T047") == {"T047"}


def test_a_list_may_name_whole_groups():
    assert types_of(["drugs", "T060"]) == {"drugs", "T060", *DRUGS}


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        (
            "drug",
            "entities, key 'type'",
        ),
        (
            ["T047", "T999"],
            "entities, key 'type'",
        ),
        (
            [],
            "entities, key 'type'",
        ),
    ],
)
def test_an_unknown_type_is_refused_with_a_suggestion(wanted, where, said):
    with pytest.raises(UsageError) as error:
        types_of(wanted)
    said(str(error.value), where)
