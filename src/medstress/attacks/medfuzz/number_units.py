"""Find the numbers of a text, each with its unit if a known one follows.

Any other word after a number is no part of it: "aged 45 comes" holds 45, whatever is inserted
after it.
"""

from __future__ import annotations

import re

_UNITS = (
    "% ‰ ° °C °F ºC ºF ℃ percent percentile degrees",
    "kg g mg µg μg ug mcg ng pg fg lb lbs oz",
    "kilograms kilogram grams gram milligrams milligram micrograms microgram nanograms",
    "pounds pound ounces ounce",
    "L l dL dl mL ml µL μL uL fL fl cc",
    "liters liter litres litre milliliters milliliter millilitres",
    "km m dm cm mm µm μm nm ft inches feet",
    "kilometers kilometres meters meter metres centimeters centimeter centimetres",
    "millimeters millimeter millimetres",
    "mm3 mm² mm³ cm2 cm² cm3 cm³ m2 m²",
    "mol mmol µmol μmol umol nmol pmol M mM µM μM nM Eq mEq Osm mOsm",
    "U mU µU μU IU mIU units Da kDa",
    "mmHg cmH2O H2O kPa Pa hPa",
    "J kJ cal kcal W kW V mV kV mA Hz kHz MHz dB Gy mGy cGy Sv mSv Bq Ci mCi rad",
    "s sec ms min h hr hrs d wk wks mo yo yr yrs bpm rpm",
    "seconds minutes hours days weeks months years decades",
    "second minute hour day week month year decade",
    "beats breaths cells copies drops puffs tablets packs cigarettes drinks",
    "pack-years pack-year",
)
_SPACED = ("mm Hg", "cm H2O", "pack years", "pack year")
"""Units that are written with a space."""


def _alternatives() -> str:
    # Longest first, because the first alternative that matches wins.
    found = {unit for line in _UNITS for unit in line.split()} | set(_SPACED)
    known = sorted(found, key=lambda unit: (-len(unit), unit))
    return "|".join(re.escape(unit) for unit in known)


_UNIT = rf"(?:{_alternatives()})(?:-old)?(?![\w])"
_PER = rf"(?:\s?/\s?{_UNIT})"
_NUMBER = re.compile(
    r"\d+(?:[.,/:]\d+)*"
    rf"(?:[\s-]?{_UNIT}{_PER}*|{_PER}+)?"
)


def numbers_in(text: str) -> list[str]:
    """Return the numbers of a text in order, as written, with their units.

    >>> numbers_in("A man aged 45 comes with 38.5 °C, 120/80 mm Hg, 90/min and 3 mg/dL.")
    ['45', '38.5 °C', '120/80 mm Hg', '90/min', '3 mg/dL']
    >>> numbers_in("A 45-year-old woman, case Q1, took 300 mg.")
    ['45-year-old', '1', '300 mg']
    """
    return _NUMBER.findall(text)
