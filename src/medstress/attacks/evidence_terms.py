"""Words that make an insertion clinical evidence, by kind; matched as whole words, any case."""

from __future__ import annotations

import re

TERMS = {
    "a vital sign": (
        "blood pressure",
        "heart rate",
        "pulse",
        "pulse rate",
        "respiratory rate",
        "temperature",
        "febrile",
        "afebrile",
        "fever",
        "hypotensive",
        "hypertensive",
        "tachycardic",
        "bradycardic",
        "tachypneic",
        "oxygen saturation",
        "bmi",
        "body mass index",
    ),
    "a laboratory result": (
        "hemoglobin",
        "haemoglobin",
        "leukocyte count",
        "leukocytosis",
        "platelets",
        "creatinine",
        "sodium",
        "potassium",
        "glucose",
        "troponin",
        "serum",
        "plasma",
        "urinalysis",
        "biopsy",
        "culture grows",
        "blood test",
        "blood tests",
        "laboratory",
        "antibodies",
        "titer",
        "titre",
        "lumbar puncture",
        "cerebrospinal",
    ),
    "an imaging finding": (
        "x-ray",
        "radiograph",
        "ultrasound",
        "ultrasonography",
        "echocardiogram",
        "echocardiography",
        "ct",
        "mri",
        "computed tomography",
        "magnetic resonance",
        "electrocardiogram",
        "ecg",
        "ekg",
        "endoscopy",
        "colonoscopy",
        "angiography",
        "imaging",
    ),
    "a symptom or physical sign": (
        "pain",
        "ache",
        "aches",
        "nausea",
        "vomiting",
        "vomits",
        "diarrhea",
        "diarrhoea",
        "constipation",
        "cough",
        "coughs",
        "dyspnea",
        "shortness of breath",
        "rash",
        "edema",
        "oedema",
        "swelling",
        "jaundice",
        "murmur",
        "crackles",
        "wheezing",
        "wheezes",
        "tenderness",
        "weakness",
        "numbness",
        "seizure",
        "seizures",
        "syncope",
        "dizziness",
        "headache",
        "headaches",
        "bleeding",
        "bruising",
        "weight loss",
        "weight gain",
        "fatigue",
        "palpitations",
        "tremor",
        "lymphadenopathy",
        "hepatomegaly",
        "splenomegaly",
        "pallor",
        "cyanosis",
        "chills",
        "sweats",
        "itching",
        "pruritus",
        "hematuria",
        "dysuria",
    ),
    "a drug": (
        "medication",
        "medications",
        "drug",
        "drugs",
        "antibiotic",
        "antibiotics",
        "tablet",
        "tablets",
        "opioid",
        "opioids",
        "vaccine",
        "vaccinated",
        "vaccination",
        "prescription",
        "overdose",
        "supplement",
        "supplements",
    ),
    "a diagnosis": (
        "diagnosed",
        "diagnosis",
        "disease",
        "syndrome",
        "infection",
        "cancer",
        "tumor",
        "tumour",
        "allergy",
        "allergies",
        "allergic",
        "surgery",
        "transplant",
        "hospitalized",
        "hospitalised",
        "pregnant",
        "pregnancy",
    ),
}
"""Kind -> words and phrases."""
HISTORY = {
    "family history": (
        "family history",
        "mother had",
        "father had",
        "brother had",
        "sister had",
        "runs in the",
        "parents died",
        "mother died",
        "father died",
        "relatives with",
    ),
    "travel history": (
        "travel",
        "traveled",
        "travelled",
        "traveling",
        "travelling",
        "trip",
        "returned from",
        "vacation in",
        "abroad",
        "cruise",
    ),
}
"""The same for what `allow_history` lets through."""
_MEASURED = re.compile(
    r"\d+(?:[.,/]\d+)*\s?(?:%|°|mm\s?hg|mg|mcg|µg|g/|ml|mmol|meq|u/l|iu|bpm|kg|lb|cm\b|/min|/mm)",
    re.IGNORECASE,
)


def evidence_in(text: str, *, allow_history: bool) -> str | None:
    """The first piece of clinical evidence in a text, with its kind, or None.

    >>> evidence_in("who works as a teacher", allow_history=False)
    >>> evidence_in("who recently travelled far", allow_history=False)
    "travel history ('travelled')"
    >>> evidence_in("with a potassium of 6 mmol", allow_history=False)
    "a measurement ('6 mmol')"
    """
    if found := _MEASURED.search(text):
        return f"a measurement ({found.group()!r})"
    for kind, terms in ({} if allow_history else HISTORY).items() | TERMS.items():
        if found := _pattern(terms).search(text):
            return f"{kind} ({found.group()!r})"
    return None


def _pattern(terms: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, terms))})\b", re.IGNORECASE)
