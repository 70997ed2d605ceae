"""Classes of drugs by the common stems of their generic names.

The stems are facts of the WHO's naming system (INN stems); the table was written for medstress and
holds those that exam questions use.
"""

from __future__ import annotations

import re

_STEM_TEXT = """
pril=ace inhibitor,angiotensin converting enzyme inhibitor
sartan=arb,angiotensin receptor blocker,angiotensin ii receptor blocker
olol=beta blocker,beta adrenergic blocker
dipine=calcium channel blocker,dihydropyridine
statin=statin,hmg coa reductase inhibitor
prazole=proton pump inhibitor,ppi
tidine=h2 blocker,h2 receptor antagonist
cillin=penicillin
cycline=tetracycline
floxacin=fluoroquinolone,quinolone
thromycin=macrolide
azole=azole,azole antifungal
triptan=triptan
gliptin=dpp 4 inhibitor
gliflozin=sglt2 inhibitor
glutide=glp 1 agonist,glp 1 receptor agonist
glitazone=thiazolidinedione,glitazone
setron=5 ht3 antagonist
azepam=benzodiazepine
azolam=benzodiazepine
barbital=barbiturate
oxetine=ssri
triptyline=tricyclic antidepressant,tca
pramine=tricyclic antidepressant,tca
dronate=bisphosphonate
dronic acid=bisphosphonate
tinib=tyrosine kinase inhibitor
ciclovir=antiviral
navir=protease inhibitor
tegravir=integrase inhibitor
thiazide=thiazide,thiazide diuretic
curium=neuromuscular blocker
curonium=neuromuscular blocker
caine=local anesthetic,local anaesthetic
terol=beta agonist,beta 2 agonist
zosin=alpha blocker,alpha 1 blocker
dopa=dopamine precursor
platin=platinum compound
rubicin=anthracycline
parin=low molecular weight heparin,heparin
xaban=factor xa inhibitor
coxib=cox 2 inhibitor
lukast=leukotriene receptor antagonist
mab=monoclonal antibody
penem=carbapenem
calciferol=vitamin d
"""
STEMS: dict[str, tuple[str, ...]] = {
    stem: tuple(classes.split(","))
    for stem, classes in (line.split("=") for line in _STEM_TEXT.strip().splitlines())
}
"""End of a generic name -> names of its class; the longest end that fits counts."""

_PREFIXES = {
    "cef": ("cephalosporin",),
    "ceph": ("cephalosporin",),
    "sulfa": ("sulfonamide",),
    "ferrous": ("iron",),
    "ferric": ("iron",),
    "auranofin": ("gold",),
    "aurothio": ("gold",),
    "calcitriol": ("vitamin d",),
    "calcifediol": ("vitamin d",),
}

_GROUP_WORDS = re.compile(
    r"\b(agents?|agonists?|antagonists?|antibiotics?|anticoagula\w+|antidepressants?|antiepileptics?"
    r"|antifungals?|antihistamines?|antihypertensives?|antimicrobials?|antipsychotics?|antivirals?"
    r"|blockers?|chemotherapy|contraceptives?|corticosteroids?|cart|haart|diuretics?|drugs?"
    r"|hormones?|inhibitors?|laxatives?|medications?|medicines?|nitrates?|nsaids?|opiates?|opioids?"
    r"|salts?|sedatives?|statins?|steroids?|sulfonylureas?|vaccines?|vitamins?)\b"
)


def classes_of(ingredient: str) -> tuple[str, ...]:
    """Return the classes of a generic name by its stem; empty if it has none of ours.

    >>> classes_of("lisinopril")[0], classes_of("cefalexin"), classes_of("aspirin")
    ('ace inhibitor', ('cephalosporin',), ())
    """
    fitting = [stem for stem in STEMS if ingredient.endswith(stem) and ingredient != stem]
    if fitting:
        return STEMS[max(fitting, key=len)]
    return next((found for start, found in _PREFIXES.items() if ingredient.startswith(start)), ())


ALL_CLASSES = frozenset(each for found in (*STEMS.values(), *_PREFIXES.values()) for each in found)


def class_name(text: str) -> str | None:
    """Return the class that a text names, in the singular, or None.

    >>> class_name("Beta-blockers"), class_name("metoprolol")
    ('beta blocker', None)
    """
    plain = " ".join(re.sub(r"[^a-z0-9 ]", " ", text.lower().replace("-", " ")).split())
    for form in (plain, plain.removesuffix("s")):
        if form in ALL_CLASSES:
            return form
    return None


def names_a_class(text: str) -> bool:
    """Whether a text speaks of some group of drugs, so that any drug may belong to it."""
    return class_name(text) is not None or bool(_GROUP_WORDS.search(text))
