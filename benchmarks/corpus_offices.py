"""Thirteen more small files, with the names that statistical offices give to their columns.

Written after the first twenty-five and read before any rule was mended for them, so that the first reading
says how ``init`` does on files that nobody made it for. Labels as in :mod:`corpus`; ``doubtful`` columns may have
any role or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

import sfumato as sf
from corpus import Labelled, _Maker


def _texts(m: _Maker, *choices: str, share: tuple[float, ...] | None = None) -> list[str]:
    return [choices[k] for k in m.rng.choice(len(choices), m.n, p=share)]


def _dates(m: _Maker, low: int = 1935, high: int = 2004) -> np.ndarray:
    """Dates of birth as whole numbers, yyyymmdd."""
    r = m.rng
    return r.integers(low, high, m.n) * 10_000 + r.integers(1, 13, m.n) * 100 + r.integers(1, 29, m.n)


def _pnadc(m: _Maker) -> None:
    """Brazil: the continuous household survey, whose household is three columns together."""
    home, place = m.households(3.0)
    k = home.max() + 1
    uf = m.rng.integers(11, 54, k // 12 + 1)[np.arange(k) // 12]
    m.add("Ano", "design", np.full(m.n, 2022))
    m.add("Trimestre", "design", np.full(m.n, 4))
    m.add("UF", "geography", uf[home])
    m.add("Capital", "doubtful", np.where(m.rng.random(k) < 0.3, uf, 0)[home])
    m.add("UPA", "design", (uf * 10_000_000 + 17 + np.arange(k) // 12 * 31)[home])
    m.add("Estrato", "design", (uf * 100_000 + 10_000 + np.arange(k) // 24 * 10)[home])
    m.add("V1008", "doubtful", (np.arange(k) % 12 + 1)[home])
    m.add("V1014", "design", m.rng.integers(8, 11, k // 12 + 1)[np.arange(k) // 12][home])
    m.add("V1022", "key", m.rng.integers(1, 3, k // 12 + 1)[np.arange(k) // 12][home])
    m.add("V1027", "design", np.round(m.rng.gamma(5, 60, k), 8)[home])
    m.add("V1028", "weight", np.round(m.rng.gamma(5, 61, k), 8)[home])
    m.add("V2001", "key", np.bincount(home)[home])
    m.add("V2003", "design", place)
    m.add("V2005", "key", np.where(place == 1, 1, m.codes(2, 15)))
    m.add("V2007", "key", m.codes(1, 2))
    m.add("V20082", "key", 2022 - m.ages())
    m.add("V2009", "key", 2022 - m.columns["V20082"])
    m.add("V2010", "key", m.codes(1, 5))
    m.add("V3009A", "key", [None if x > 12 else int(x) for x in m.codes(1, 15)])
    m.add(
        "V4010",
        "key",
        [None if m.rng.random() < 0.4 else int(x) for x in m.rng.choice(np.arange(1111, 9630, 61), m.n)],
    )
    m.add(
        "V4013",
        "key",
        [None if m.rng.random() < 0.4 else int(x) for x in m.rng.choice(np.arange(1101, 99001, 907), m.n)],
    )
    m.add("V403312", "sensitive", [None if x == 0 else int(x) for x in m.amounts(7.3, 0.8, 0.5, 10)])
    m.add(
        "V4039",
        "sensitive",
        [None if x == 0 else int(x) for x in m.rng.choice([0, 20, 30, 40, 44, 48, 12, 60, 36, 25, 8], m.n)],
    )
    m.add("VD3004", "doubtful", m.codes(1, 7))
    m.add("VD4002", "key", [None if x == 3 else int(x) for x in m.codes(1, 3)])
    m.add("VD4020", "sensitive", [None if x == 0 else int(x) for x in m.amounts(7.4, 0.8, 0.5)])


def _ipums(m: _Maker) -> None:
    """IPUMS USA: general and detailed codes, and codes of many nines that mean nothing."""
    home, place = m.households()
    k = home.max() + 1
    st = m.rng.choice([6, 12, 17, 36, 48, 53], k)
    m.add("YEAR", "design", np.full(m.n, 2019))
    m.add("SERIAL", "household", (home + 1) * 3 + 7)
    m.add("CBSERIAL", "doubtful", 2_019_000_000_000 + (home + 1) * 11)
    m.add("HHWT", "design", m.rng.integers(10, 400, k)[home])
    m.add("STATEFIP", "geography", st[home])
    m.add("PUMA", "geography", (st * 100 + m.rng.integers(1, 9, k) * 100 // 100)[home])
    m.add("GQ", "doubtful", m.codes(1, 3))
    m.add("OWNERSHP", "key", m.rng.integers(0, 3, k)[home])
    m.add("RENT", "sensitive", np.where(m.rng.random(k) < 0.6, 0, m.rng.integers(3, 30, k) * 100)[home])
    m.add(
        "HHINCOME", "sensitive", m.gone(m.amounts(11, 0.6, 0.02, 10), 9_999_999, 0.03), missing=(9_999_999,)
    )
    m.add("PERNUM", "design", place)
    m.add("PERWT", "weight", m.rng.integers(8, 500, m.n))
    m.add("FAMSIZE", "key", np.bincount(home)[home])
    m.add("RELATE", "key", np.where(place == 1, 1, m.codes(2, 12)))
    m.add("SEX", "key", m.codes(1, 2))
    m.add("AGE", "key", m.ages(96))
    m.add("MARST", "key", m.codes(1, 6))
    race = m.codes(1, 9)
    m.add("RACE", "coarser", race)
    m.add("RACED", "key", race * 100 + m.rng.integers(0, 5, m.n) * 10)
    bpl = m.rng.choice([1, 6, 36, 48, 150, 200, 414, 515], m.n)
    m.add("BPL", "coarser", bpl)
    m.add("BPLD", "key", bpl * 100 + m.rng.integers(0, 3, m.n) * 10)
    educ = m.codes(0, 11)
    m.add("EDUC", "coarser", educ)
    m.add("EDUCD", "key", educ * 10 + m.rng.integers(0, 3, m.n))
    m.add("EMPSTAT", "key", m.codes(0, 3))
    m.add("OCC", "key", m.rng.choice(np.arange(10, 9830, 70), m.n))
    m.add(
        "UHRSWORK",
        "sensitive",
        np.where(m.rng.random(m.n) < 0.4, 0, np.clip(np.round(m.rng.normal(39, 13, m.n)), 1, 99)).astype(int),
    )
    m.add("INCTOT", "sensitive", m.gone(m.amounts(10.2, 0.9, 0.1, 10), 9_999_999, 0.2), missing=(9_999_999,))
    m.add("INCWAGE", "sensitive", m.gone(m.amounts(10.2, 0.8, 0.35, 100), 999_999, 0.2), missing=(999_999,))


def _eu_lfs(m: _Maker) -> None:
    """The labour force survey of Eurostat: nines for nothing, ages by the middle of five years."""
    home, _ = m.households()
    k = home.max() + 1
    m.add("COUNTRY", "doubtful", np.full(m.n, "PL"))
    m.add("REFYEAR", "design", np.full(m.n, 2018))
    m.add("QUARTER", "design", m.codes(1, 4))
    m.add("HHNUM", "household", 10_000 + home)
    m.add(
        "REGION",
        "geography",
        np.array(["PL21", "PL22", "PL41", "PL51", "PL61", "PL71", "PL91"])[m.rng.integers(0, 7, k)][home],
    )
    m.add("DEGURBA", "key", m.rng.integers(1, 4, k)[home])
    m.add("SEX", "key", m.codes(1, 2))
    m.add("AGE", "key", m.ages() // 5 * 5 + 2)
    m.add("MARSTAT", "key", m.codes(0, 2))
    m.add("NATIONAL", "key", _texts(m, "000", "001", "002", "006", share=(0.94, 0.02, 0.02, 0.02)))
    m.add(
        "COUNTRYB",
        "key",
        _texts(m, "000", "001", "003", "006", "999", share=(0.9, 0.03, 0.03, 0.03, 0.01)),
        missing=("999",),
    )
    m.add("ILOSTAT", "key", m.codes(1, 4))
    m.add("STAPRO", "key", m.gone(m.rng.choice([0, 3, 4], m.n), 9, 0.4), missing=(9,))
    m.add("NACE1D", "key", _texts(m, "A", "C", "F", "G", "H", "J", "P", "Q", "9"), missing=("9",))
    m.add("ISCO3D", "key", m.gone(m.rng.choice(np.arange(111, 960, 9), m.n), 999, 0.4), missing=(999,))
    m.add("HATLEV1D", "key", _texts(m, "L", "M", "H", "9", share=(0.2, 0.5, 0.29, 0.01)), missing=("9",))
    m.add(
        "HWUSUAL",
        "sensitive",
        m.gone(np.clip(np.round(m.rng.normal(38, 9, m.n)), 1, 80).astype(int), 99, 0.45),
        missing=(99,),
    )
    m.add("INCDECIL", "sensitive", m.gone(m.codes(1, 10), 99, 0.5), missing=(99,))
    m.add("COEFF", "weight", np.round(m.rng.gamma(4, 0.15, m.n) + 0.02, 6))


def _dhs(m: _Maker) -> None:
    """Demographic and health survey, women's recode."""
    k = 60
    cluster = np.sort(m.rng.integers(1, k + 1, m.n))
    region = m.rng.integers(1, 9, k + 1)
    number = m.rng.integers(1, 40, m.n)
    m.add(
        "CASEID",
        "id",
        [f"{c:8d}{h:4d}{i % 3 + 1:3d}" for i, (c, h) in enumerate(zip(cluster, number, strict=True))],
    )
    m.add("V001", "design", cluster)
    m.add("V002", "doubtful", number)
    m.add("V003", "design", m.codes(1, 6))
    m.add("V005", "weight", m.rng.integers(300_000, 2_400_000, k + 1)[cluster])
    m.add("V007", "design", np.full(m.n, 2016))
    m.add("V010", "key", 2016 - m.rng.integers(15, 50, m.n))
    m.add("V012", "key", 2016 - m.columns["V010"])
    m.add("V013", "coarser", (m.columns["V012"] - 10) // 5)
    m.add("V021", "design", cluster)
    m.add("V022", "design", (region * 2 + m.rng.integers(0, 2, k + 1))[cluster])
    m.add("V024", "geography", region[cluster])
    m.add("V025", "key", m.rng.integers(1, 3, k + 1)[cluster])
    m.add("V106", "key", m.codes(0, 3))
    m.add("V130", "key", m.gone(m.codes(1, 6), 96, 0.02))
    m.add("V131", "key", m.codes(1, 11))
    m.add("V136", "key", np.clip(m.rng.poisson(4, m.n) + 1, 1, 20))
    m.add("V151", "key", m.codes(1, 2))
    m.add("V190", "doubtful", m.codes(1, 5))
    m.add("V201", "doubtful", np.clip(m.rng.poisson(2.5, m.n), 0, 14))
    m.add("V437", "sensitive", m.gone(m.rng.integers(350, 1100, m.n), 9999, 0.03), missing=(9999,))
    m.add(
        "V438",
        "sensitive",
        m.gone(np.round(m.rng.normal(1580, 60, m.n)).astype(int), 9999, 0.03),
        missing=(9999,),
    )
    m.add("V501", "key", m.codes(0, 5))
    m.add("V717", "key", m.codes(0, 9))
    m.add("V781", "sensitive", m.codes(0, 1))
    m.add("LATNUM", "id", np.round(m.rng.uniform(-3, 3, k + 1), 6)[cluster])
    m.add("LONGNUM", "id", np.round(m.rng.uniform(29, 35, k + 1), 6)[cluster])


def _nss_india(m: _Maker) -> None:
    home, place = m.households(4.0)
    k = home.max() + 1
    state = np.sort(m.rng.integers(1, 8, k))
    m.add("HHID", "household", [f"{s:02d}{h:05d}" for s, h in zip(state[home], home, strict=True)])
    m.add("Sector", "key", m.rng.integers(1, 3, k)[home])
    m.add("State", "geography", state[home])
    m.add("NSS_Region", "geography", (state * 10 + m.rng.integers(1, 4, k))[home])
    m.add("Stratum", "design", m.rng.integers(1, 30, k)[home])
    m.add("FSU", "design", (70_000 + np.arange(k) // 8)[home])
    m.add("Person_Srl_No", "design", place)
    m.add("Relation_to_Head", "key", np.where(place == 1, 1, m.codes(2, 9)))
    m.add("Sex", "key", m.codes(1, 2))
    m.add("Age", "key", m.ages())
    m.add("Marital_Status", "key", m.codes(1, 4))
    m.add("General_Education", "key", m.codes(1, 13))
    m.add("Social_Group", "key", m.rng.choice([1, 2, 3, 9], k)[home])
    m.add("Religion", "key", m.rng.choice([1, 2, 3, 4, 5, 9], k)[home])
    m.add("HH_Size", "key", np.bincount(home)[home])
    m.add("NIC_2008", "key", m.rng.choice(np.arange(1111, 96099, 911), k)[home])
    m.add("NCO_2004", "key", m.rng.choice(np.arange(111, 960, 13), k)[home])
    m.add(
        "Land_Possessed",
        "sensitive",
        np.where(m.rng.random(k) < 0.3, 0, m.rng.gamma(1, 900, k)).astype(int)[home],
    )
    m.add("MPCE_URP", "sensitive", np.round(m.rng.lognormal(7.4, 0.6, k), 2)[home])
    m.add("Wage_Cash", "sensitive", m.amounts(6.8, 0.6, 0.7, 10))
    m.add("MLT", "weight", m.rng.integers(2_000, 900_000, k)[home])


def _acs_person(m: _Maker) -> None:
    home, place = m.households()
    k = home.max() + 1
    st = m.rng.choice([4, 6, 8, 25, 42], k)
    m.add("RT", "design", np.full(m.n, "P"))
    m.add("SERIALNO", "household", [f"2019HU{h * 37 + 12:07d}" for h in home])
    m.add("SPORDER", "design", place)
    m.add("ST", "geography", st[home])
    m.add("PUMA", "doubtful", m.rng.integers(1, 40, k)[home] * 100 + 1)
    m.add("ADJINC", "design", np.full(m.n, 1_010_145))
    m.add("PWGTP", "weight", m.rng.integers(5, 300, m.n))
    m.add("AGEP", "key", m.ages(94))
    m.add("CIT", "key", m.codes(1, 5))
    m.add("COW", "key", [None if x == 9 else int(x) for x in m.codes(1, 9)])
    m.add("DIS", "sensitive", m.codes(1, 2))
    m.add("HICOV", "doubtful", m.codes(1, 2))
    m.add("HISP", "key", np.where(m.rng.random(m.n) < 0.8, 1, m.codes(2, 24)))
    m.add("JWMNP", "doubtful", [None if x < 5 else int(x) for x in np.round(m.rng.gamma(2, 14, m.n))])
    m.add("MAR", "key", m.codes(1, 5))
    m.add("OCCP", "key", m.rng.choice(np.arange(10, 9830, 70), m.n))
    m.add("SOCP", "doubtful", [f"{x}" for x in m.rng.choice(np.arange(111_011, 559_830, 4_511), m.n)])
    m.add("PINCP", "sensitive", m.amounts(10.1, 0.9, 0.1, 10))
    m.add("POVPIP", "sensitive", np.minimum(np.round(m.rng.gamma(3, 110, m.n)), 501).astype(int), top=501)
    m.add("RAC1P", "key", m.codes(1, 9))
    m.add("RELSHIPP", "key", np.where(place == 1, 20, m.codes(21, 38)))
    m.add("SCHL", "key", m.codes(1, 24))
    m.add("SEX", "key", m.codes(1, 2))
    m.add("WAGP", "sensitive", m.amounts(10.2, 0.8, 0.4, 100))
    hours = np.where(m.rng.random(m.n) < 0.02, 99, np.clip(np.round(m.rng.normal(39, 14, m.n)), 1, 98))
    m.add("WKHP", "sensitive", [None if m.rng.random() < 0.4 else int(x) for x in hours], top=99)
    for j in range(1, 21):
        m.add(
            f"PWGTP{j}",
            "design",
            np.maximum(np.round(m.columns["PWGTP"] * m.rng.uniform(0.2, 1.8, m.n)), 1).astype(int),
        )


def _spanish_budgets(m: _Maker) -> None:
    """A household file: its number is the record's; names of those who answered, telephones, remarks."""
    m.add("ANOENC", "design", np.full(m.n, 2020))
    m.add("NUMERO", "id", np.arange(1, m.n + 1))
    m.add("CCAA", "geography", [f"{x:02d}" for x in m.rng.integers(1, 20, m.n)])
    m.add("TAMAMU", "key", m.codes(1, 5))
    m.add("FACTOR", "weight", m.weights(900))
    m.add("NMIEMB", "key", np.clip(m.rng.poisson(1.7, m.n) + 1, 1, 11))
    m.add("EDADSP", "key", np.clip(m.ages(85), 18, 85), top=85)
    m.add("SEXOSP", "key", m.rng.choice([1, 6], m.n))
    m.add("NACIONASP", "key", m.codes(1, 3))
    m.add("ESTUDIOSSP", "key", m.codes(1, 8))
    m.add("OCUPASP", "key", m.codes(0, 9))
    m.add("REGTEN", "key", m.codes(1, 5))
    m.add("SUPERF", "doubtful", m.gone(m.rng.integers(35, 300, m.n), -9, 0.02))
    m.add("GASTOT", "sensitive", np.round(m.rng.lognormal(16.8, 0.5, m.n), 2))
    m.add("IMPEXAC", "sensitive", m.gone(m.amounts(7.5, 0.5, 0.0), -9, 0.02), missing=(-9,))
    m.add(
        "informante",
        "id",
        m.names(
            "José Carmen Francisco Antonio Josefa Manuel Dolores Pilar", "García López Martínez Sánchez Ruiz"
        ),
    )
    m.add("tlf_contacto", "id", [f"6{x}" for x in m.unique(10_000_000, 10_900_000)])
    m.add(
        "incidencias",
        "id",
        [
            ["", "vive con su hija Carmen Ruiz", "ausente", "volver por la tarde", "preguntar por D. Manuel"][
                j
            ]
            for j in m.rng.choice(5, m.n, p=[0.7, 0.05, 0.1, 0.1, 0.05])
        ],
    )


def _mikrozensus(m: _Maker) -> None:
    """German codes that mean nothing by themselves, with the labels that an SPSS file has."""
    home, place = m.households()
    k = home.max() + 1
    m.add("EF1", "geography", m.rng.integers(1, 17, k)[home])
    m.add("EF4s", "household", (np.arange(k) + 1)[home])
    m.add("EF5s", "design", place)
    m.add("EF44", "key", m.ages())
    m.add("EF46", "key", m.codes(1, 2))
    m.add("EF49", "key", m.codes(1, 4))
    m.add("EF310", "key", m.gone(m.codes(1, 6), 9, 0.03), missing=(9,))
    m.add("EF368", "key", m.codes(1, 3))
    m.add("EF436", "sensitive", m.gone(m.codes(1, 24), 99, 0.05), missing=(99,))
    m.add("EF739", "key", np.bincount(home)[home])
    m.add("EF492", "sensitive", m.gone(m.amounts(6.3, 0.4, 0.0), 9999, 0.04), missing=(9999,))
    m.add("EF952", "weight", np.round(m.rng.gamma(30, 0.035, m.n) + 0.2, 5))


_EF = {
    "EF1": "Bundesland", "EF4s": "Lfd. Nr. des Haushalts", "EF5s": "Lfd. Nr. der Person im Haushalt", "EF44": "Alter",
    "EF46": "Geschlecht", "EF49": "Familienstand", "EF310": "Höchster allgemeiner Schulabschluss",
    "EF368": "Staatsangehörigkeit", "EF436": "Persönliches Nettoeinkommen (Klassen)", "EF739": "Zahl der Personen im Haushalt",
    "EF492": "Gesamtmiete je Monat", "EF952": "Standardhochrechnungsfaktor Jahr (in 1000)",
}  # fmt: skip


def _istat(m: _Maker) -> None:
    """Italy: aspects of daily life, with the province NA (Naples) and remarks."""
    home, place = m.households()
    k = home.max() + 1
    provinces = np.array(["NA", "RM", "MI", "TO", "PA", "BA", "BO", "FI", "CT", "VE", "GE", "BG"])
    m.add("PROFAM", "household", (np.arange(k) + 1)[home])
    m.add("PROIND", "design", place)
    m.add("ANNO", "design", np.full(m.n, 2021))
    m.add("SIGLAPROV", "geography", provinces[m.rng.integers(0, 12, k)][home])
    m.add("NCOMP", "key", np.bincount(home)[home])
    m.add("RELPAR", "key", np.where(place == 1, 1, m.codes(2, 14)))
    m.add("SESSO", "key", m.codes(1, 2))
    m.add("ETAMi", "key", m.codes(1, 15))
    m.add("STCIVMi", "key", m.codes(1, 4))
    m.add("ISTRMi", "key", m.rng.choice([1, 7, 9, 10, 99], m.n, p=[0.2, 0.35, 0.3, 0.1, 0.05]), missing=(99,))
    m.add("CONDMi", "key", m.codes(1, 5))
    m.add("SALUTE", "sensitive", m.codes(1, 5))
    m.add("FUMO", "sensitive", m.codes(1, 3))
    m.add("SPESA_AFFITTO", "sensitive", [None if x == 0 else int(x) for x in m.amounts(6.1, 0.4, 0.7, 10)])
    m.add("REDDITO_NETTO", "sensitive", m.amounts(9.9, 0.6, 0.1))
    m.add("COEFIN", "weight", m.rng.integers(5_000, 60_000_000, m.n) // 1000)
    m.add(
        "CF",
        "id",
        [
            f"{a}{b:02d}{c}{d:02d}{e}"
            for a, b, c, d, e in zip(
                m.rng.choice(["RSSMRA", "BNCLGU", "VRDGNN", "FRRNNA"], m.n),
                m.rng.integers(30, 99, m.n),
                m.rng.choice(list("ABCDEHLMPRST"), m.n),
                m.rng.integers(1, 71, m.n),
                [f"F{x:03d}{'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[x % 26]}" for x in m.rng.integers(0, 999, m.n)],
                strict=True,
            )
        ],
    )


def _lisa(m: _Maker) -> None:
    """Sweden: a register with names, an address, personal numbers and amounts in hundreds."""
    m.add("LopNr", "id", m.unique(1, 900_000).astype(float))
    m.add(
        "PersonNr",
        "id",
        [
            f"{y}{mo:02d}{d:02d}-{x:04d}"
            for y, mo, d, x in zip(
                m.rng.integers(1935, 2003, m.n),
                m.rng.integers(1, 13, m.n),
                m.rng.integers(1, 29, m.n),
                m.rng.integers(0, 9999, m.n),
                strict=True,
            )
        ],
    )
    m.add(
        "Efternamn",
        "id",
        _texts(
            m,
            "Andersson",
            "Johansson",
            "Karlsson",
            "Nilsson",
            "Eriksson",
            "Larsson",
            "Olsson",
            "Persson",
            "Svensson",
            "Gustafsson",
            "Pettersson",
            "Jonsson",
            "Jansson",
            "Hansson",
        ),
    )
    m.add(
        "GatuAdress",
        "id",
        [
            f"{s} {x}"
            for s, x in zip(
                m.rng.choice(["Storgatan", "Kungsvägen", "Skolgatan", "Parkvägen"], m.n),
                m.rng.integers(1, 90, m.n),
                strict=True,
            )
        ],
    )
    lan = m.rng.integers(1, 25, m.n)
    m.add("Lan", "geography", [f"{x:02d}" for x in lan])
    m.add(
        "Kommun",
        "geography",
        [f"{x:02d}{y:02d}" for x, y in zip(lan, m.rng.integers(80, 92, m.n), strict=True)],
    )
    m.add("Kon", "key", m.codes(1, 2))
    m.add("FodelseAr", "key", m.rng.integers(1935, 2003, m.n))
    m.add(
        "FodelseLandNamn",
        "key",
        _texts(m, "Sverige", "Finland", "Irak", "Polen", "Syrien", "Iran", "Somalia"),
    )
    m.add("Civil", "key", _texts(m, "G", "OG", "S", "Ä", "RP"))
    m.add(
        "SUN2000Niva", "key", m.rng.choice([100, 200, 310, 320, 327, 330, 410, 520, 530, 540, 620, 640], m.n)
    )
    m.add("SSYK4", "key", m.rng.choice(np.arange(1111, 9630, 83), m.n))
    wage = m.add("LoneInk", "sensitive", m.amounts(7.8, 0.5, 0.25))
    care = m.add("SjukPP", "sensitive", m.amounts(5.5, 0.8, 0.85))
    m.add("SocBidr", "sensitive", m.amounts(6, 0.5, 0.93))
    m.add("SamInk", "sensitive", wage + care, sums=("LoneInk", "SjukPP"))


def _clinic(m: _Maker) -> None:
    """An English register: hashed ids, dates of birth as numbers, postcodes, coordinates, notes with names."""
    m.add("pseudo_id", "id", [hashlib.sha256(f"{x}".encode()).hexdigest() for x in m.unique(0, 900_000)])
    m.add("nhs_number", "id", m.unique(4_000_000_000, 4_000_900_000).astype(float))
    m.add("dob", "key", _dates(m))
    m.add(
        "postcode",
        "doubtful",
        [
            f"{a}{b} {c}{d}"
            for a, b, c, d in zip(
                m.rng.choice(["LS", "M", "SW", "B"], m.n),
                m.rng.integers(1, 20, m.n),
                m.rng.integers(1, 9, m.n),
                [
                    f"{x}{y}"
                    for x, y in zip(
                        m.rng.choice(list("ABDEFGHJ"), m.n), m.rng.choice(list("LNPQRSTU"), m.n), strict=True
                    )
                ],
                strict=True,
            )
        ],
    )
    m.add(
        "region", "geography", _texts(m, "North East", "North West", "London", "South East", "East Midlands")
    )
    m.add("sex", "key", _texts(m, "M", "F", "U", share=(0.49, 0.5, 0.01)))
    m.add("ethnic_cat", "key", _texts(m, *"ABCDEFGHJKLMNPRSZ"))
    m.add("x_coord", "id", np.round(m.rng.uniform(51.2, 54.9, m.n), 5))
    m.add("y_coord", "id", np.round(m.rng.uniform(-2.9, 0.1, m.n), 5))
    m.add(
        "gp_name",
        "id",
        _texts(
            m, "Dr A Smith", "Dr P Patel", "Dr J Jones", "Dr R Khan", "Dr S O'Neill", "Dr B Lewis", "Dr C Ali"
        ),
    )
    m.add(
        "contact_no",
        "id",
        [
            f"+44 7{x:03d} {y:06d}"
            for x, y in zip(m.rng.integers(100, 999, m.n), m.rng.integers(0, 999_999, m.n), strict=True)
        ],
    )
    m.add("diag_01", "sensitive", _texts(m, "I10X", "E119", "F329", "J459", "M545", "C509", "K219"))
    m.add("los_days", "sensitive", np.round(m.rng.lognormal(1, 0.9, m.n)).astype(int))
    m.add("cost_gbp", "sensitive", np.round(m.rng.lognormal(7.5, 0.9, m.n), 2))
    m.add(
        "clin_notes",
        "id",
        [
            ["", "pt stable", "discussed with daughter Mary Jones", "review 6/52", "Mr Ali declined"][j]
            for j in m.rng.choice(5, m.n, p=[0.6, 0.2, 0.05, 0.1, 0.05])
        ],
    )


def _cbs(m: _Maker) -> None:
    """Netherlands: names of the social statistical database."""
    home, _ = m.households()
    k = home.max() + 1
    m.add("RINPERSOON", "id", [f"{x:09d}" for x in m.unique(100_000_000, 100_900_000)])
    m.add("RINHUISHOUDEN", "household", (300_000 + np.arange(k) * 7)[home])
    m.add("GEM", "geography", [f"{x:04d}" for x in m.rng.integers(1, 60, k)[home] * 17])
    m.add("GBAGESLACHT", "key", m.codes(1, 2))
    m.add("GBAGEBOORTEJAAR", "key", 2020 - m.ages())
    m.add("GBAHERKOMSTGROEPERING", "key", m.rng.choice([0, 5022, 5024, 6043, 7024, 9014], m.n))
    m.add("GBABURGERLIJKESTAATNW", "key", _texts(m, "H", "O", "S", "W", "P"))
    m.add(
        "OPLNIVSOI2016AGG",
        "key",
        _texts(m, "1111", "1112", "2111", "2121", "3111", "3211", "----"),
        missing=("----",),
    )
    m.add(
        "INPBELI",
        "sensitive",
        m.gone(m.amounts(10.3, 0.5, 0.02), 9_999_999_999, 0.03),
        missing=(9_999_999_999,),
    )
    m.add("VEHW1000VERH", "sensitive", m.amounts(11, 1.2, 0.05) - 8_000)
    m.add("AANTALPERSHH", "key", np.bincount(home)[home])
    m.add("GEWICHT_PERSOON", "weight", np.round(m.rng.gamma(9, 40, m.n), 3))
    m.add(
        "Opmerking",
        "id",
        [
            ["", "gebeld met mevr. De Vries", "niet thuis", "tel 06-12345678"][j]
            for j in m.rng.choice(4, m.n, p=[0.8, 0.08, 0.07, 0.05])
        ],
    )


def _erfs(m: _Maker) -> None:
    """France: taxes and social incomes, with the survey's occupation codes and its weights."""
    home, place = m.households()
    k = home.max() + 1
    m.add("ident", "household", [f"19{h:06d}" for h in home])
    m.add("noi", "design", [f"{x:02d}" for x in place])
    m.add("wprm", "weight", np.round(m.rng.gamma(8, 110, k), 4)[home])
    m.add("reg", "geography", m.rng.choice([11, 24, 27, 28, 32, 44, 52, 53, 75, 76, 84, 93, 94], k)[home])
    m.add("tuu2010", "key", m.rng.integers(0, 9, k)[home])
    m.add("sexe", "key", m.codes(1, 2))
    m.add("ag", "key", m.ages())
    m.add("matri", "key", m.codes(1, 4))
    m.add("dip11", "key", m.rng.choice([10, 11, 30, 31, 33, 41, 42, 43, 50, 60, 70, 71], m.n))
    m.add("cstotr", "key", m.codes(1, 8))
    m.add(
        "nafg38un", "key", _texts(m, "AZ", "CA", "CH", "FZ", "GZ", "HZ", "JC", "MA", "OZ", "PZ", "QA", "00")
    )
    m.add("nbind", "key", np.bincount(home)[home])
    wages = m.add("zsali", "sensitive", m.amounts(9.7, 0.6, 0.45))
    dole = m.add("zchoi", "sensitive", m.amounts(8.5, 0.6, 0.9))
    pens = m.add("zrsti", "sensitive", m.amounts(9.5, 0.5, 0.75))
    m.add("revact", "sensitive", wages + dole + pens, sums=("zsali", "zchoi", "zrsti"))
    m.add("loyer", "sensitive", [None if x == 0 else int(x) for x in m.amounts(6.3, 0.4, 0.6)])
    m.add(
        "PRENOM",
        "id",
        _texts(
            m,
            "Marie",
            "Jean",
            "Pierre",
            "Michel",
            "Nathalie",
            "Isabelle",
            "Sylvie",
            "Philippe",
            "Alain",
            "Catherine",
            "Léa",
            "Hugo",
            "Chloé",
            "Lucas",
        ),
    )
    m.add(
        "NIR",
        "id",
        [
            f"{s}{y:02d}{mo:02d}{d:02d}{c:03d}{o:03d}"
            for s, y, mo, d, c, o in zip(
                m.rng.integers(1, 3, m.n),
                m.rng.integers(30, 99, m.n),
                m.rng.integers(1, 13, m.n),
                m.rng.integers(1, 95, m.n),
                m.rng.integers(1, 600, m.n),
                m.rng.integers(1, 600, m.n),
                strict=True,
            )
        ],
    )


_MAKERS: dict[str, tuple[Callable[[_Maker], None], int]] = {
    "pnadc": (_pnadc, 1400), "ipums": (_ipums, 1300), "eu_lfs": (_eu_lfs, 1200), "dhs": (_dhs, 1000),
    "nss_india": (_nss_india, 1300), "acs_person": (_acs_person, 1200), "spanish_budgets": (_spanish_budgets, 900),
    "mikrozensus": (_mikrozensus, 1300), "istat": (_istat, 1100), "lisa": (_lisa, 900), "clinic": (_clinic, 800),
    "cbs": (_cbs, 1100), "erfs": (_erfs, 1100),
}  # fmt: skip


def offices() -> list[Labelled]:
    """All thirteen files."""
    out = []
    for place, (name, (make, n)) in enumerate(_MAKERS.items()):
        maker = _Maker(name, n, 7000 + place)
        make(maker)
        one = maker.done()
        one.doubtful = frozenset(c for c, role in one.roles.items() if role == "doubtful")
        if name == "mikrozensus":
            said = {c: {"label": label} for c, label in _EF.items()}
            one.data = sf.Microdata(one.frame, sf.Schema(variables=said))
        out.append(one)
    return out
