import pytest

from medstress.core.errors import UsageError
from medstress.entities.groups import GROUPS, SEMANTIC_TYPES, types_of


def test_the_two_groups_hold_20_and_12_of_127_types_without_overlap():
    drugs, diseases = GROUPS["drugs"], GROUPS["diseases"]
    assert (len(drugs), len(diseases), len(SEMANTIC_TYPES)) == (20, 12, 127)
    assert not drugs & diseases


def test_a_group_holds_its_own_name_and_a_list_names_groups_or_types():
    assert types_of("drugs") == {"drugs", *GROUPS["drugs"]}
    assert types_of("diseases") == {"diseases", *GROUPS["diseases"]}
    assert types_of("T047") == {"T047"}
    assert types_of(["T047", "T060"]) == {"T047", "T060"}
    assert types_of(["drugs", "T060"]) == {"drugs", "T060", *GROUPS["drugs"]}


@pytest.mark.parametrize("wanted", ["drug", ["T047", "T999"], []])
def test_an_unknown_type_is_refused(wanted, said):
    with pytest.raises(UsageError) as error:
        types_of(wanted)
    said(str(error.value), "entities, key 'type'")
