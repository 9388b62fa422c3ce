"""What values say: given names, words for sexes, marital states, schooling, countries, areas, nothing.

Used on a column's distinct values: a column whose name tells nothing is known by what stands in it.
All words are lower case without accents (:func:`sfumato.plan.suggest.words.plain`).
"""

from __future__ import annotations

import re
from typing import Final

from sfumato.plan.suggest import vocabulary

_LISTS: Final = vocabulary.load()["values"]
GIVEN_NAMES: Final = frozenset(_LISTS["given_names"].split())
TITLES: Final = frozenset(_LISTS["titles"].split())
NOT_A_PERSON: Final = frozenset(_LISTS["not_a_person"].split())
COUNTRIES: Final = frozenset(_LISTS["countries"].split())
COUNTRY_CODES: Final = frozenset(_LISTS["country_codes"].split())
AREAS: Final = frozenset(_LISTS["areas"].split())
US_STATES: Final = frozenset(_LISTS["us_states"].split())
ITALIAN_PROVINCES: Final = frozenset(_LISTS["italian_provinces"].split())
SEXES: Final = tuple(vocabulary.phrases(_LISTS["sexes"]))
MISSING: Final = frozenset(vocabulary.phrases(_LISTS["missing"]))

MARITAL: Final = re.compile(
    r"\b(married|single|never.married|divorced|widow|separated|cohabit|marie|celibataire|divorce|veuf|veuve|pacs|"
    r"casad[oa]|solter[oa]|solteir[oa]|divorciad[oa]|viud[oa]|viuv[oa]|separad[oa]|coniugat|celibe|nubile|divorziat|"
    r"vedov|verheiratet|ledig|geschieden|verwitwet|zonat|zamezna|zonaty|kawaler|panna|rozwiedzion|wdow|gehuwd|"
    r"ongehuwd|gescheiden|verweduwd|gift|ogift|skild|anka|naimisissa|naimaton|eronnut|leski|svobodn|rozveden)"
)
SCHOOLING: Final = re.compile(
    r"\b(primary|secondary|tertiary|bachelor|master|doctora|phd|high.school|hs.grad|college|university|isced|"
    r"bac|brevet|licence|superieur|primaire|secondaire|diplome|primaria|secundaria|bachillerato|universitari|fp|eso|"
    r"grado|ensino|fundamental|medio|superior|licenciatura|mestrado|basico|elementare|media|diploma|laurea|"
    r"licenza|hauptschul|realschul|abitur|hochschul|fachhochschul|lehre|meister|grundschul|podstawow|gimnazjal|"
    r"zawodow|srednie|policealne|wyzsze|basisschool|vmbo|havo|vwo|mbo|hbo|wo|grundskola|gymnasium|hogskola|"
    r"peruskoulu|lukio|yliopisto|zakladni|maturit|vysokoskol|altalanos|erettsegi)"
)
RACES: Final = re.compile(
    r"\b(white|black|asian|hispanic|latino|latina|native.american|amer.indian|pacific.island|mixed|caucasian|"
    r"branca|preta|parda|amarela|indigena|mestizo|mulato|afro|roma|gypsy|arab)"
)
WORKING: Final = re.compile(
    r"\b(employed|unemployed|self.emp|retired|inactive|student|homemaker|private|government|state.gov|local.gov|"
    r"occupe|chomeur|retraite|etudiant|inactif|ocupad|parad|desempleado|jubilad|desocupado|aposentad|reformad|"
    r"occupat|disoccupat|pensionat|casaling|erwerbstatig|erwerbslos|rentner|arbeitslos|angestellt|selbst|beamte|"
    r"pracuj|bezrobot|emeryt|rencist|uczen|werkzaam|werkloos|gepensioneerd|manager|clerical|sales|technician|"
    r"labourer|laborer|craft|farm|operator|professional|service|empleado|patron|cuenta.propia)"
)

_MISSING_START: Final = re.compile(
    r"^(not in universe|not applicable|does not apply|niu\b|sans objet|no aplica|nao se aplica|nie dotyczy|"
    r"trifft nicht zu|keine angabe|niet van toepassing|non applicabile|brak danych)"
)
_MISSING_LABEL: Final = re.compile(
    r"\b(miss(ing)?|unknown|refus\w*|no answer|not (stated|asked|ascertained|known|available|reported)|"
    r"don'?t know|do not know|DK|NA|N/A|NIU|coding error|inapplicable|not applicable|not in universe|"
    r"no response|"
    r"ne sait pas|sans objet|non r[eé]ponse|inconnue?|no sabe|no contesta|no aplica|desconocid[oa]|"
    r"n[aã]o sabe|n[aã]o se aplica|sem resposta|ignorad[oa]|non sa|non risponde|mancante|keine angabe|"
    r"wei(ß|ss) nicht|trifft nicht zu|entf[aä]llt|unbekannt|nie dotyczy|brak danych|nie wiem|odmowa|"
    r"niet van toepassing|weet niet|onbekend|geen antwoord|vet (ej|inte|ikke)|uppgift saknas|uoplyst|ukendt|"
    r"ei tietoa|ei osaa sanoa)\b",
    re.IGNORECASE,
)


def says_missing(label: str) -> bool:
    """Whether the label of a code says that the value is missing."""
    return bool(_MISSING_LABEL.search(label))


def is_missing_text(text: str) -> bool:
    """Whether a (plain) text stands for nothing.

    >>> is_missing_text("not in universe or children"), is_missing_text("nie dotyczy"), is_missing_text("no")
    (True, True, False)
    """
    bare = text.strip()
    return bare in MISSING or bare.strip("()[]<>* ") in MISSING or bool(_MISSING_START.match(bare))
