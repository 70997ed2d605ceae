"""Names of the table of drugs that seldom speak of a drug in questions; written for medstress."""

from __future__ import annotations

from collections.abc import Collection

_OF_THE_BODY_TEXT = """
acetylcholine, acid alpha-glucosidase, adenosine, alcohol, alpha-glucosidase, amphetamine,
angiotensin ii, arginine, ascorbic acid, beta-carotene, betaine, biotin, caffeine, calcium,
carnitine, cocaine, collagenase, corticorelin, corticotropin, cortisol, cortisone, cysteine,
dehydroepiandrosterone, dinoprost, dopamine, epinephrine, erythropoietin, estradiol, estrone,
ethanol, folate, folic acid, glucagon, glucose, glutamine, glycerol, glycine, gonadorelin,
histamine, hyaluronidase, hydrogen peroxide, insulin-like growth factor 1, interferon gamma, lipase,
methamphetamine, niacin, nicotinamide, nicotine, nicotinic acid, nitric oxide, norepinephrine,
oxytocin, phylloquinone, progesterone, pyridoxine, riboflavin, secretin, sermorelin, somatotropin,
sulfur, testosterone, tetrahydrocannabinol, thiamine, thyroglobulin, thyrotropin, thyroxine,
tyrosine, urea, urokinase, vasopressin, water
"""
_OF_THE_BODY = frozenset(map(str.strip, _OF_THE_BODY_TEXT.split(",")))
"""In most questions these are measured, eaten, breathed or abused, not prescribed."""
_MEASURED = frozenset(("albumin", "gonadotropin", "hormone", "vitamin"))
"""Words of names of substances that the body or food holds."""

_WORDS_TEXT = """
acrescent amanda amen android artist blackhawk camden camila choice conserve copperas definity
delivert depot dial dynamos ella endometrion entrust fractal gaster hyperstat imagent impulsor
infed justice lactate linton luteinizing mammaton myelostat nikita nostril optimark pangram
performist periplum pesos prelay prink pronase reconcile reno resolor sector senior sensor soma
sonata stimul success sulla tabloid talion taxus teflon today tracer venter volley volumen
"""
WORDS = frozenset(_WORDS_TEXT.split())
"""Words, names of people and of places that the table has as names of drugs."""


def is_of_the_body(names: Collection[str]) -> bool:
    """Return whether a substance is one that the body, food or air holds, or a habit.

    >>> is_of_the_body(["albumin human", "albumin"]), is_of_the_body(["warfarin"])
    (True, False)
    """
    return any(name in _OF_THE_BODY or not _MEASURED.isdisjoint(name.split()) for name in names)
