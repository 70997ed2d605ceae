"""UMLS semantic types, and the two groups of them that name drugs and diseases."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.errors import UsageError, did_you_mean

DRUGS: dict[str, str] = {
    "T103": "Chemical",
    "T104": "Chemical Viewed Structurally",
    "T109": "Organic Chemical",
    "T114": "Nucleic Acid, Nucleoside, or Nucleotide",
    "T116": "Amino Acid, Peptide, or Protein",
    "T120": "Chemical Viewed Functionally",
    "T121": "Pharmacologic Substance",
    "T122": "Biomedical or Dental Material",
    "T123": "Biologically Active Substance",
    "T125": "Hormone",
    "T126": "Enzyme",
    "T127": "Vitamin",
    "T129": "Immunologic Factor",
    "T130": "Indicator, Reagent, or Diagnostic Aid",
    "T131": "Hazardous or Poisonous Substance",
    "T192": "Receptor",
    "T195": "Antibiotic",
    "T196": "Element, Ion, or Isotope",
    "T197": "Inorganic Chemical",
    "T200": "Clinical Drug",
}
"""The 20 types of the UMLS semantic group Chemicals & Drugs."""

DISEASES: dict[str, str] = {
    "T019": "Congenital Abnormality",
    "T020": "Acquired Abnormality",
    "T033": "Finding",
    "T037": "Injury or Poisoning",
    "T046": "Pathologic Function",
    "T047": "Disease or Syndrome",
    "T048": "Mental or Behavioral Dysfunction",
    "T049": "Cell or Molecular Dysfunction",
    "T050": "Experimental Model of Disease",
    "T184": "Sign or Symptom",
    "T190": "Anatomical Abnormality",
    "T191": "Neoplastic Process",
}
"""The 12 types of the UMLS semantic group Disorders."""

GROUPS: dict[str, dict[str, str]] = {"drugs": DRUGS, "diseases": DISEASES}

# The 95 types of the other 13 groups: a user with a vocabulary of, say, procedures (T060,
# T061) may attack those.
_OTHER = """
001 002 004 005 007 008 010 011 012 013 014 015 016 017 018 021 022 023 024 025 026 028 029
030 031 032 034 038 039 040 041 042 043 044 045 051 052 053 054 055 056 057 058 059 060 061
062 063 064 065 066 067 068 069 070 071 072 073 074 075 077 078 079 080 081 082 083 085 086
087 088 089 090 091 092 093 094 095 096 097 098 099 100 101 102 167 168 169 170 171 185 194
201 203 204
"""

TYPE_IDENTIFIERS = frozenset(DRUGS) | frozenset(DISEASES) | {f"T{n}" for n in _OTHER.split()}
"""The identifiers of all 127 semantic types."""


def types_of(group_type: str | Sequence[str]) -> frozenset[str]:
    """Return the mention types that belong to an entity group.

    A group contains its own name too, so that mentions may be typed ``drugs`` or ``diseases``
    by users who have no UMLS identifiers. The two groups are those of the first paper that
    attacked with them (Xian et al. 2025): the UMLS groups Chemicals & Drugs, and Disorders.

    Args:
        group_type: ``drugs``, ``diseases``, or a list of UMLS type identifiers, which may
            hold the two names as well.

    Raises:
        UsageError: a type is unknown, or the list is empty.

    >>> len(types_of("drugs")), len(types_of("diseases"))
    (21, 13)
    >>> sorted(types_of(["T047", "T191"]))
    ['T047', 'T191']

    References:
        R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language
        models by query-efficient sampling attacks", TMLR, 2025. A. T. McCray et al.,
        "Aggregating UMLS semantic types for reducing conceptual complexity", MEDINFO, 2001.
    """
    wanted = [group_type] if isinstance(group_type, str) else list(group_type)
    expected = "expected drugs, diseases or a list of UMLS type identifiers such as T047"
    if not wanted:
        raise UsageError(f"entities, key 'type': {expected}; the list is empty")
    types: set[str] = set()
    for name in wanted:
        if name in GROUPS:
            types |= {name, *GROUPS[name]}
        elif name in TYPE_IDENTIFIERS:
            types.add(name)
        else:
            hint = did_you_mean(name, [*GROUPS, *sorted(TYPE_IDENTIFIERS)])
            raise UsageError(f"entities, key 'type': {expected}; got {name!r}{hint}")
    return frozenset(types)
