"""Twenty-five small files with the traps that real ones have, each with the roles a careful person gives.

Made by fixed draws. A column is (values, role, details): the role is one of id, household, weight,
geography, key, sensitive, design or none; details are missing codes, top codes, sums and ratios.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

Rng = np.random.Generator


@dataclass
class Labelled:
    """A file with what is known of it."""

    name: str
    frame: pl.DataFrame
    roles: dict[str, str]
    missing: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    top: dict[str, float] = field(default_factory=dict)
    sums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ratios: dict[str, tuple[str, str]] = field(default_factory=dict)
    nested: dict[str, str] = field(default_factory=dict)
    """Finer column → coarser column."""
    unjudged: frozenset[str] = frozenset()
    """What isn't labelled in this file."""
    either: tuple[tuple[str, ...], ...] = ()
    """Columns of which any one may have the role that the first of them is given."""
    doubtful: frozenset[str] = frozenset()
    """Columns that may have any role or none."""
    data: Any = None
    """What is looked at: the frame, or a file as it is read with its metadata."""


class _Maker:
    def __init__(self, name: str, n: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.n, self.out = n, Labelled(name, pl.DataFrame(), {})
        self.columns: dict[str, Any] = {}

    def add(self, column: str, role: str, values: Any, **details: Any) -> Any:
        self.columns[column] = values
        self.out.roles[column] = role
        for what, value in details.items():
            getattr(self.out, what)[column] = value
        return values

    def done(self) -> Labelled:
        self.out.frame = self.out.data = pl.DataFrame(self.columns, strict=False)
        return self.out

    # -- what people are like ---------------------------------------------------------------------

    def households(self, mean: float = 2.4) -> tuple[np.ndarray, np.ndarray]:
        """Household and place of each record in it."""
        sizes: list[int] = []
        while sum(sizes) < self.n:
            sizes.append(int(min(1 + self.rng.poisson(mean - 1), 9)))
        home = np.repeat(np.arange(len(sizes)), sizes)[: self.n]
        place = np.concatenate([np.arange(1, s + 1) for s in sizes])[: self.n]
        return home, place

    def ages(self, top: int = 95) -> np.ndarray:
        r = self.rng
        mixed = np.where(r.random(self.n) < 0.8, r.uniform(0, 75, self.n), r.normal(70, 12, self.n))
        return np.clip(mixed, 0, top).astype(int)

    def amounts(self, mean: float = 9.5, spread: float = 0.8, zeros: float = 0.2, to: int = 1) -> np.ndarray:
        x = self.rng.lognormal(mean, spread, self.n)
        x = np.where(self.rng.random(self.n) < zeros, 0, x)
        return (np.round(x / to) * to).astype(int)

    def codes(self, low: int, high: int, sharp: float = 1.0) -> np.ndarray:
        k = high - low + 1
        p = self.rng.dirichlet(np.full(k, 2.0 / sharp))
        return self.rng.choice(np.arange(low, high + 1), self.n, p=p)

    def pick(self, *texts: str) -> list[str]:
        p = self.rng.dirichlet(np.full(len(texts), 3.0))
        return [str(t) for t in self.rng.choice(texts, self.n, p=p)]

    def weights(self, mean: float = 800.0) -> np.ndarray:
        return np.round(self.rng.gamma(6, mean / 6, self.n) + 0.05 * mean, 4)

    def names(self, first: str, last: str) -> list[str]:
        one, two = first.split(), last.split()
        return [f"{self.rng.choice(one)} {self.rng.choice(two)}" for _ in range(self.n)]

    def unique(self, low: int, high: int) -> np.ndarray:
        return self.rng.choice(np.arange(low, high), self.n, replace=False)

    def nested(self, coarse: np.ndarray, each: int) -> np.ndarray:
        return coarse * each + self.rng.integers(0, each, self.n)

    def gone(self, values: np.ndarray, code: Any, share: float = 0.05) -> np.ndarray:
        out = values.copy()
        out[self.rng.random(self.n) < share] = code
        return out


def _polish_budgets(m: _Maker) -> None:
    home, place = m.households()
    m.add("nr_gosp", "household", 1000 + home)
    m.add("nr_osoby", "design", place)
    woj = m.rng.integers(1, 17, home.max() + 1)[home] * 2
    m.add("woj", "geography", woj)
    m.add("klm", "key", m.rng.integers(1, 7, home.max() + 1)[home])
    m.add("plec", "key", m.codes(1, 2))
    m.add("wiek", "key", m.ages())
    m.add("stan_cywilny", "key", m.codes(1, 5))
    m.add("wykształcenie", "key", m.codes(1, 8))
    m.add("zawod", "key", m.rng.choice(np.arange(1111, 9630, 97), m.n))
    m.add("waga", "weight", m.weights(1100)[home])
    wage = m.add("wynagrodzenie", "sensitive", m.amounts(8.2, 0.6, 0.4))
    pension = m.add("emerytura", "sensitive", m.amounts(7.5, 0.4, 0.8))
    m.add("dochod_razem", "sensitive", wage + pension, sums=("wynagrodzenie", "emerytura"))
    m.add("czynsz", "sensitive", m.gone(m.amounts(6.5, 0.4, 0.1, 10), 99999), missing=(99999,))
    m.add("stan_zdrowia", "sensitive", m.codes(1, 5))
    m.add(
        "nazwisko_imie",
        "id",
        m.names("Anna Jan Piotr Maria Ewa Marek Zofia Adam", "Nowak Kowalska Wisniewski Lis"),
    )
    m.add(
        "PESEL",
        "id",
        [f"{x:011d}" for x in m.unique(40_000_000_000, 99_000_000_000 - 58_999_000_000 + 1_000_000)],
    )


def _portuguese_registers(m: _Maker) -> None:
    m.add("nif", "id", m.unique(100_000_000, 100_900_000) + 150_000_000)
    m.add(
        "nome_completo",
        "id",
        m.names("João Maria Ana Rui Inês Tiago Catarina", "Silva Santos Pereira Costa Lopes"),
    )
    nuts2 = m.rng.integers(1, 8, m.n)
    m.add("NUTSII", "geography", [f"PT1{k}" for k in nuts2])
    m.add("concelho", "geography", m.nested(nuts2, 9) + 100)
    m.add("sexo", "key", m.pick("Homem", "Mulher"))
    m.add(
        "data_nasc",
        "key",
        [str(dt.date(1940, 1, 1) + dt.timedelta(int(d))) for d in m.rng.integers(0, 400, m.n) * 60],
    )
    m.add("estado_civil", "key", m.pick("Solteiro", "Casado", "Divorciado", "Viúvo"))
    m.add(
        "escolaridade",
        "key",
        m.pick("Básico 1", "Básico 2", "Secundário", "Superior", "Sem resposta"),
        missing=("Sem resposta",),
    )
    m.add("nacionalidade", "key", m.pick("PT", "BR", "CV", "UA", "AO", "FR"))
    m.add("profissao", "key", m.codes(1, 9))
    gross = m.add("salario_bruto", "sensitive", m.amounts(7.2, 0.5, 0.0))
    tax = m.add("irs_pago", "sensitive", (gross * m.rng.uniform(0.05, 0.3, m.n)).astype(int))
    m.add("taxa_efetiva", "sensitive", np.round(tax / gross, 4), ratios=("irs_pago", "salario_bruto"))
    m.add("telemovel", "id", m.unique(910_000_000, 910_900_000))
    m.add(
        "observacoes",
        "id",
        [
            ["", "falar com Ana Silva", "mudou de casa", "ligar ao Sr. Costa", "ok"][k]
            for k in m.rng.choice(5, m.n, p=[0.8, 0.05, 0.05, 0.05, 0.05])
        ],
    )
    m.add("peso", "weight", m.weights(50))


def _french_census(m: _Maker) -> None:
    home, place = m.households()
    k = home.max() + 1
    reg = m.rng.integers(0, 6, k)
    dep = reg * 4 + m.rng.integers(0, 4, k)
    m.add("REG", "geography", np.array([11, 24, 27, 28, 32, 44])[reg][home])
    m.add("DEPT", "geography", np.array([f"{d + 1:02d}" for d in range(24)])[dep][home])
    m.add("ID_MENAGE", "household", (home * 7 + 100_003).astype(float))
    m.add("NUM_IND", "design", place)
    m.add("IPONDI", "weight", np.round(m.rng.gamma(20, 0.16, k) + 0.3, 6)[home])
    m.add("SEXE", "key", m.codes(1, 2))
    m.add("AGED", "key", m.ages())
    m.add("NATIONALITE", "key", m.codes(1, 6))
    m.add("DIPLOME", "key", m.codes(1, 9))
    m.add("ETAT_CIVIL", "key", m.codes(1, 5))
    m.add("CSP", "key", m.codes(1, 8))
    m.add("NBPI", "key", np.clip(m.rng.poisson(3, k) + 1, 1, 12)[home])
    m.add("NB_PERS", "key", np.bincount(home)[home])
    m.add("REVENU", "sensitive", m.amounts(9.8, 0.5, 0.05))
    m.add("LOYER", "sensitive", m.amounts(6.3, 0.4, 0.5))
    m.add("HANDICAP", "sensitive", m.codes(0, 1))


def _italian_wealth(m: _Maker) -> None:
    m.add("nquest", "id", m.unique(1000, 90_000))
    m.add("peso", "weight", np.round((w := m.rng.gamma(3, 1, m.n) + 0.1) / w.mean(), 6))
    provinces = ["MI", "RM", "NA", "TO", "PA", "GE", "BO", "FI", "BA", "CT", "VE", "VR", "ME", "PD", "TS"]
    prov = m.rng.integers(0, len(provinces), m.n)
    m.add("area3", "geography", prov // 5 + 1)
    m.add("prov", "geography", [provinces[p] for p in prov])
    m.add("sesso", "key", m.pick("M", "F"))
    m.add("eta", "key", np.clip(m.ages(), 18, 95))
    m.add("studio", "key", m.codes(1, 6))
    m.add("ncomp", "key", np.clip(m.rng.poisson(1.6, m.n) + 1, 1, 9))
    m.add("settore", "key", m.codes(1, 12))
    yl = m.add("yl", "sensitive", m.amounts(9.6, 0.6, 0.35))
    yt = m.add("yt", "sensitive", m.amounts(9.2, 0.5, 0.6))
    yc = m.add("yc", "sensitive", m.amounts(6.5, 1.0, 0.5))
    m.add("y", "sensitive", yl + yt + yc, sums=("yl", "yt", "yc"))
    m.add("debiti", "sensitive", m.amounts(9.0, 1.2, 0.75))
    m.add("risparmio", "sensitive", m.amounts(8, 1, 0.3) - 1500)


def _german_panel(m: _Maker) -> None:
    people = m.n // 3
    who = np.repeat(np.arange(people), 3)[: m.n]
    m.n = len(who)
    m.add("persnr", "id", 20_000 + who * 13)
    m.add("welle", "design", np.tile([1, 2, 3], people)[: m.n])
    m.add("bundesland", "geography", m.rng.integers(1, 17, people)[who])
    m.add("geschlecht", "key", m.rng.integers(1, 3, people)[who])
    m.add("gebjahr", "key", m.rng.integers(1930, 2003, people)[who])
    m.add("familienstand", "key", m.gone(m.codes(1, 5), -1, 0.03), missing=(-1,))
    m.add("schulabschluss", "key", m.gone(m.codes(1, 6), -2, 0.04), missing=(-2,))
    m.add("bruttolohn", "sensitive", m.gone(m.amounts(7.9, 0.5, 0.0), -1, 0.2), missing=(-1,))
    m.add("wochenstunden", "sensitive", np.clip(np.round(m.rng.normal(36, 11, m.n)), 1, 80).astype(int))
    m.add("zufriedenheit_gesundheit", "sensitive", m.codes(0, 10))
    m.add("phrf", "weight", m.weights(3000))
    m.add(
        "bemerkung",
        "id",
        [
            "Interview mit Frau Meyer abgebrochen" if x < 0.02 else ("" if x < 0.97 else "Termin verschoben")
            for x in m.rng.random(m.n)
        ],
    )


def _spanish_labour(m: _Maker) -> None:
    home, place = m.households()
    k = home.max() + 1
    ccaa = m.rng.integers(1, 18, k)
    m.add("CICLO", "design", np.full(m.n, 195))
    m.add("CCAA", "geography", ccaa[home])
    m.add("PROV", "geography", (ccaa * 3 + m.rng.integers(0, 3, k))[home])
    m.add("NVIVI", "household", 5_000 + home)
    m.add("NPERS", "design", place)
    m.add("EDAD5", "key", m.ages() // 5 * 5)
    m.add("SEXO1", "key", np.where(m.rng.random(m.n) < 0.5, 1, 6))
    m.add("ECIV1", "key", m.codes(1, 4))
    m.add("NAC1", "key", m.codes(1, 3))
    m.add("NFORMA", "key", m.pick("AN", "P1", "P2", "S1", "SG", "SP", "SU"))
    m.add("OCUP1", "key", m.codes(0, 9))
    m.add(
        "HORAS",
        "sensitive",
        m.gone(np.clip(np.round(m.rng.normal(37, 9, m.n)), 1, 80).astype(int), 99, 0.04),
        missing=(99,),
    )
    m.add("INGRESOS", "sensitive", m.amounts(7.1, 0.5, 0.3))
    m.add("FACTOREL", "weight", m.weights(350))
    m.add("DNI", "id", [f"{x}{'TRWAGMYFPDXBNJZSQVHLCKE'[x % 23]}" for x in m.unique(30_000_000, 31_000_000)])


def _us_census_income(m: _Maker) -> None:
    m.add("AAGE", "key", m.ages(90), top=90)
    m.add(
        "ACLSWKR",
        "key",
        m.pick("Not in universe", "Private", "Local government", "Self-employed"),
        missing=("Not in universe",),
    )
    major = m.rng.integers(0, 14, m.n)
    m.add("ADTIND", "key", m.nested(major, 4), nested="ADTMJIND")
    m.add("ADTMJIND", "coarser", [f"Industry group {chr(65 + k)}" for k in major])
    m.add("AHGA", "key", m.pick("High school graduate", "Bachelors degree", "Some college", "Children"))
    m.add("AMARITL", "key", m.pick("Never married", "Divorced", "Widowed", "Married-civilian spouse present"))
    m.add("ARACE", "key", m.pick("White", "Black", "Asian or Pacific Islander", "Other"))
    m.add("ASEX", "key", m.pick("Male", "Female"))
    gain = m.amounts(8.5, 1.0, 0.9)
    rich = m.rng.random(m.n) < 0.02
    m.add("CAPGAIN", "sensitive", np.where(rich, 99999, np.minimum(gain, 45_000)), top=99999)
    m.add(
        "DIVVAL",
        "sensitive",
        (m.amounts(6.5, 1.2, 0.6) + np.where(rich, m.rng.integers(4_000, 90_000, m.n), 0) + gain // 9).astype(
            int
        ),
    )
    m.add("WKSWORK", "sensitive", np.where(m.rng.random(m.n) < 0.4, 0, m.rng.integers(1, 53, m.n)))
    m.add("MARSUPWT", "weight", m.weights(1700))
    m.add(
        "PARENT",
        "key",
        m.pick("Both parents present", "Mother only present", "Not in universe"),
        missing=("Not in universe",),
    )
    m.add("PRCITSHP", "key", m.pick("Native", "Foreign born- US citizen", "Foreign born- Not a citizen"))


def _survey_of_finances(m: _Maker) -> None:
    homes = m.n // 5
    who = np.repeat(np.arange(1, homes + 1), 5)
    m.n = len(who)
    m.add("YY1", "household", who)
    m.add("Y1", "id", who * 10 + np.tile([1, 2, 3, 4, 5], homes))
    m.add("AGE", "key", m.rng.integers(18, 95, homes)[who - 1])
    m.add("HHSEX", "key", m.rng.integers(1, 3, homes)[who - 1])
    m.add("EDCL", "key", m.rng.integers(1, 5, homes)[who - 1])
    m.add("MARRIED", "key", m.rng.integers(1, 3, homes)[who - 1])
    m.add("KIDS", "key", m.rng.poisson(0.8, homes)[who - 1])
    m.add("WGT", "weight", np.round(m.rng.gamma(2, 3000, homes), 4)[who - 1])
    liquid = m.add("LIQ", "sensitive", m.amounts(8, 1.5, 0.1))
    house = m.add("HOUSES", "sensitive", m.amounts(11.5, 0.7, 0.4, 1000))
    stocks = m.add("STOCKS", "sensitive", m.amounts(9, 1.8, 0.7))
    m.add(
        "ASSET",
        "sensitive",
        liquid + house + stocks + m.amounts(9, 1.0, 0.7),
        sums=("LIQ", "HOUSES", "STOCKS"),
    )
    for r in range(1, 9):
        m.add(
            f"WT1B{r}",
            "design",
            np.round(m.columns["WGT"] * m.rng.choice([0.0, 1.0, 2.0, 1.0], m.n) + 0.5, 4),
        )


def _utilities(m: _Maker) -> None:
    firms = m.n // 6
    who = np.repeat(np.arange(firms), 6)
    m.n = len(who)
    start = [
        "Acme",
        "Boone",
        "Cedar",
        "Delta",
        "Eagle",
        "Fairfax",
        "Granite",
        "Harbor",
        "Iron",
        "Jasper",
        "Keystone",
        "Lakeland",
        "Mesa",
    ]
    kind = [
        "Electric Co",
        "Power Corp",
        "Light & Power",
        "Energy Inc",
        "Municipal Utility",
        "Electric Coop Inc",
    ]
    called = [
        f"{m.rng.choice(start)} {m.rng.choice(['Valley', 'River', 'County', 'City', 'Hills'])} {m.rng.choice(kind)}"
        for _ in range(firms)
    ]
    m.add("Utility Number", "id", (1_000 + m.rng.choice(20_000, firms, replace=False))[who])
    m.add("Utility Name", "id", [called[w] for w in who])
    m.add(
        "State",
        "geography",
        np.array(["TX", "CA", "NY", "OH", "PA", "IL", "GA", "NC", "MI", "VA", "WA", "AZ"])[
            m.rng.integers(0, 12, firms)
        ][who],
    )
    m.add(
        "Ownership",
        "key",
        np.array(["Investor Owned", "Municipal", "Cooperative", "Federal"])[m.rng.integers(0, 4, firms)][who],
    )
    m.add("Year", "design", np.tile(np.arange(2015, 2021), firms))
    sales = m.add("Sales", "sensitive", m.amounts(11, 1.3, 0.02))
    customers = m.add("Customers", "sensitive", m.amounts(8.5, 1.1, 0.0))
    m.add("Sales per Customer", "sensitive", sales / customers, ratios=("Sales", "Customers"))
    m.add(
        "Revenue",
        "sensitive",
        [
            str(x) if r > 0.06 else "N"
            for x, r in zip(m.amounts(9.5, 1.2, 0.0), m.rng.random(m.n), strict=True)
        ],
        missing=("N",),
    )


def _dutch_housing(m: _Maker) -> None:
    m.add("volgnr", "id", np.arange(1, m.n + 1))
    prov = m.rng.integers(20, 32, m.n)
    m.add("provincie", "geography", prov)
    m.add("gemeente", "geography", m.nested(prov, 12) + 1)
    m.add(
        "postcode",
        "geography",
        [f"{x}" for x in (m.columns["gemeente"] * 10 + m.rng.integers(0, 10, m.n) + 1000)],
    )
    m.add("geslacht", "key", m.pick("man", "vrouw"))
    m.add("leeftijd", "key", np.clip(m.ages(), 18, 99))
    m.add(
        "burgerlijke_staat",
        "key",
        m.pick("gehuwd", "ongehuwd", "gescheiden", "verweduwd", "onbekend"),
        missing=("onbekend",),
    )
    m.add("opleiding", "key", m.codes(1, 7))
    m.add("huishoudgrootte", "key", np.clip(m.rng.poisson(1.3, m.n) + 1, 1, 8))
    m.add("inkomen", "sensitive", m.amounts(10.2, 0.5, 0.02))
    rent = m.add("huur", "sensitive", m.amounts(6.5, 0.3, 0.0))
    energy = m.add("energiekosten", "sensitive", m.amounts(4.8, 0.4, 0.0))
    total = rent + energy
    total[m.rng.random(m.n) < 0.06] += 17
    m.add("woonlasten", "sensitive", total, sums=("huur", "energiekosten"))
    m.add("wegingsfactor", "weight", m.weights(400))


def _swedish_health(m: _Maker) -> None:
    m.add(
        "personnummer",
        "id",
        [
            f"19{y:02d}{mo:02d}{d:02d}-{s:04d}"
            for y, mo, d, s in zip(
                m.rng.integers(20, 99, m.n),
                m.rng.integers(1, 13, m.n),
                m.rng.integers(1, 29, m.n),
                m.rng.integers(0, 9999, m.n),
                strict=True,
            )
        ],
    )
    m.add(
        "fornamn",
        "id",
        [
            str(x)
            for x in m.rng.choice(
                [
                    "Erik",
                    "Lars",
                    "Anna",
                    "Karin",
                    "Maria",
                    "Anders",
                    "Johan",
                    "Eva",
                    "Nils",
                    "Kerstin",
                    "Sven",
                    "Birgitta",
                    "Olof",
                    "Astrid",
                    "Gunnar",
                ],
                m.n,
            )
        ],
    )
    m.add("lan", "geography", m.rng.integers(1, 22, m.n))
    m.add("kon", "key", m.codes(1, 2))
    m.add("alder", "key", m.ages())
    m.add("civilstand", "key", m.pick("gift", "ogift", "skild", "änka/änkling"))
    m.add("utbildning", "key", m.codes(1, 4))
    m.add("sysselsattning", "key", m.codes(1, 5))
    m.add("diagnos", "sensitive", m.pick("I10", "E11", "F32", "J45", "M54", "C50"))
    m.add("inkomst", "sensitive", m.amounts(12.2, 0.5, 0.05))
    m.add("rokning", "sensitive", m.codes(0, 2))
    m.add("vikt_kalibrerad", "weight", m.weights(120))


def _brazilian_households(m: _Maker) -> None:
    home, place = m.households(3.0)
    k = home.max() + 1
    uf = m.rng.choice([11, 21, 26, 29, 31, 33, 35, 41, 43, 53], k)
    upa = uf * 1000 + m.rng.integers(1, 25, k)
    m.add("Ano", "design", np.full(m.n, 2019))
    m.add("UF", "geography", uf[home])
    m.add("UPA", "design", upa[home])
    m.add("Estrato", "design", (uf * 10 + m.rng.integers(0, 4, k))[home])
    m.add("ID_DOMICILIO", "household", 700_000 + home)
    m.add("V2003", "design", place)
    m.add("V1028", "weight", np.round(m.rng.gamma(5, 60, k), 8)[home])
    m.add("V2007", "key", m.codes(1, 2))
    m.add("V2009", "key", m.ages())
    m.add("V2010", "key", m.gone(m.codes(1, 5), 9, 0.01), missing=(9,))
    m.add("VD3004", "key", m.codes(1, 7))
    m.add("VD4019", "sensitive", [None if x == 0 else int(x) for x in m.amounts(7.3, 0.8, 0.4, 10)])
    m.add("VD4035", "sensitive", np.clip(np.round(m.rng.normal(39, 10, m.n)), 1, 120).astype(int))


def _business_survey(m: _Maker) -> None:
    m.add("NIP", "id", m.unique(5_210_000_000, 5_210_900_000))
    m.add(
        "nazwa_firmy",
        "id",
        [
            f"{a}{b} {c}"
            for a, b, c in zip(
                m.rng.choice(
                    ["Alfa", "Beta", "Gamma", "Delta", "Omega", "Sigma", "Euro", "Pol", "Tech", "Bud"], m.n
                ),
                m.rng.choice(["pol", "bud", "tech", "mex", "trans", "med"], m.n),
                m.rng.choice(["Sp. z o.o.", "S.A.", "s.c.", "Sp. j."], m.n),
                strict=True,
            )
        ],
    )
    m.add(
        "wojewodztwo",
        "geography",
        m.pick("mazowieckie", "śląskie", "łódzkie", "opolskie", "lubelskie", "lubuskie"),
    )
    section = m.rng.integers(0, 8, m.n)
    m.add("pkd_sekcja", "coarser", [chr(67 + s) for s in section])
    m.add("nace4", "key", section * 1000 + 1010 + m.rng.integers(0, 40, m.n) * 10, nested="pkd_sekcja")
    m.add("liczba_zatrudnionych", "sensitive", np.round(m.rng.lognormal(3, 1.2, m.n)).astype(int) + 1)
    turnover = m.add("przychody", "sensitive", m.amounts(14, 1.2, 0.0))
    costs = m.add("koszty", "sensitive", (turnover * m.rng.uniform(0.6, 1.05, m.n)).astype(int))
    m.add("wynik", "sensitive", turnover - costs)
    m.add("stopa_zysku", "sensitive", np.round(100 * costs / turnover, 2), ratios=("koszty", "przychody"))
    m.out.sums["przychody"] = ("koszty", "wynik")


def _hospital_visits(m: _Maker) -> None:
    m.add("patient_id", "id", [f"P{x:06d}" for x in m.unique(0, 900_000)])
    m.add(
        "admission_date",
        "none",
        [dt.date(2022, 1, 1) + dt.timedelta(int(d)) for d in m.rng.integers(0, 90, m.n)],
    )
    m.add("zip3", "geography", [f"{x:03d}" for x in m.rng.integers(10, 60, m.n) * 7])
    m.add("gender", "key", m.pick("M", "F"))
    m.add("age_years", "key", m.ages())
    m.add("ethnicity", "key", m.pick("White", "Black", "Asian", "Hispanic", "Unknown"), missing=("Unknown",))
    m.add(
        "icd10",
        "sensitive",
        [f"{a}{b}" for a, b in zip(m.rng.choice(list("CEFIJKMN"), m.n), m.codes(10, 40), strict=True)],
    )
    m.add("length_of_stay", "sensitive", np.round(m.rng.lognormal(1.2, 0.9, m.n)).astype(int))
    m.add("total_charges", "sensitive", np.round(m.rng.lognormal(9, 1, m.n), 2))
    m.add(
        "attending_physician",
        "id",
        m.names("John Mary Robert Linda Susan David", "Smith Jones Patel Garcia Brown Lee Khan"),
    )
    m.add(
        "discharge_notes",
        "id",
        [
            f"Pt seen by Dr {w} on day {d}, stable and sent home"
            for w, d in zip(
                m.rng.choice(["Smith", "Jones", "Patel", "Garcia"], m.n), m.codes(1, 20), strict=True
            )
        ],
    )


def _school_children(m: _Maker) -> None:
    m.add("student_number", "id", m.unique(100_000, 999_999))
    m.add("email", "id", [f"user{x}@school.example.org" for x in m.unique(0, 90_000)])
    district = m.rng.integers(1, 9, m.n)
    m.add("district", "geography", district)
    m.add("school_code", "key", district * 100 + m.rng.integers(1, 12, m.n))
    m.add("grade", "key", m.codes(1, 12))
    m.add("sex", "key", m.codes(0, 1))
    m.add("birth_year", "key", 2020 - 6 - m.columns["grade"] - m.rng.integers(0, 2, m.n))
    m.add("home_language", "key", m.pick("English", "Spanish", "Polish", "Arabic", "Chinese"))
    m.add("disability", "sensitive", m.codes(0, 1))
    m.add("math_score", "sensitive", np.clip(np.round(m.rng.normal(500, 90, m.n)), 200, 800).astype(int))
    m.add("reading_score", "sensitive", np.clip(np.round(m.rng.normal(510, 85, m.n)), 200, 800).astype(int))
    m.add("free_lunch", "none", m.codes(0, 1))


def _agriculture(m: _Maker) -> None:
    district = m.rng.integers(1, 13, m.n)
    ea = district * 100 + m.rng.integers(1, 16, m.n)
    order = np.argsort(ea, kind="stable")
    district, ea = district[order], ea[order]
    m.add("holding", "id", np.arange(1, m.n + 1) + 40_000)
    m.add("district", "geography", district)
    m.add("ea_code", "geography", ea)
    m.add("head_sex", "key", m.codes(1, 2))
    m.add("head_age", "key", np.clip(m.ages(), 18, 95), top=95)
    m.add("hh_members", "key", np.clip(m.rng.poisson(4, m.n) + 1, 1, 18))
    maize = m.add("maize_ha", "sensitive", np.round(m.rng.gamma(1.2, 0.8, m.n), 2))
    beans = m.add(
        "beans_ha", "sensitive", np.round(np.where(m.rng.random(m.n) < 0.4, 0, m.rng.gamma(1, 0.5, m.n)), 2)
    )
    other = m.add(
        "other_ha", "sensitive", np.round(np.where(m.rng.random(m.n) < 0.5, 0, m.rng.gamma(1, 0.3, m.n)), 2)
    )
    total = m.add(
        "total_ha", "sensitive", np.round(maize + beans + other, 2), sums=("maize_ha", "beans_ha", "other_ha")
    )
    m.add(
        "share_maize",
        "sensitive",
        np.round(np.divide(maize, total, out=np.zeros(m.n), where=total > 0), 3),
        ratios=("maize_ha", "total_ha"),
    )
    m.add("lat", "id", np.round(m.rng.uniform(-16.9, -9.4, m.n), 5))
    m.add("lon", "id", np.round(m.rng.uniform(32.7, 35.8, m.n), 5))
    m.add("hhweight", "weight", m.weights(90))


def _eu_silc(m: _Maker) -> None:
    home, place = m.households()
    k = home.max() + 1
    m.add("RX030", "household", 100 + home)
    m.add("RB030", "id", (100 + home) * 100 + place)
    m.add("DB020", "key", np.full(m.n, "PL"))
    m.out.roles["DB020"] = "none"
    m.add(
        "DB040",
        "geography",
        np.array(["PL21", "PL22", "PL41", "PL51", "PL61", "PL71", "PL81", "PL91"])[m.rng.integers(0, 8, k)][
            home
        ],
    )
    m.add("DB100", "key", m.rng.integers(1, 4, k)[home])
    m.add("RB080", "key", 2020 - m.ages())
    m.add("RB090", "key", m.codes(1, 2))
    m.add("PB190", "key", m.codes(1, 5))
    m.add("PE040", "key", m.rng.choice([0, 100, 200, 344, 353, 354, 450, 500], m.n))
    m.add("PL031", "key", m.codes(1, 11))
    m.add("PH010", "sensitive", m.codes(1, 5))
    m.add("PY010G", "sensitive", m.amounts(9, 0.7, 0.5))
    hy = m.add("HY020", "sensitive", np.round(m.rng.lognormal(10, 0.6, k), 2)[home])
    scale = m.add(
        "HX050", "none", np.round(1 + 0.5 * m.rng.integers(0, 4, k) + 0.3 * m.rng.integers(0, 3, k), 1)[home]
    )
    m.add("HX090", "sensitive", hy / scale, ratios=("HY020", "HX050"))
    m.add("RB050", "weight", m.weights(700)[home])


def _opinions(m: _Maker) -> None:
    m.add("lfdn", "id", np.arange(1, m.n + 1).astype(float))
    m.add("land", "geography", m.codes(1, 16))
    m.add("sex", "key", m.pick("männlich", "weiblich"))
    m.add("alter", "key", np.clip(m.ages(), 18, 95))
    m.add("beruf", "key", m.codes(1, 12))
    m.add("konfession", "key", m.pick("katholisch", "evangelisch", "keine", "andere"))
    for k in range(1, 13):
        m.add(f"f{k}", "none", m.gone(m.codes(1, 5), 9, 0.03), missing=(9,))
    m.add("partei_wahl", "sensitive", m.codes(1, 7))
    m.add("haushaltseinkommen", "sensitive", m.gone(m.codes(1, 14), 99, 0.1), missing=(99,))
    m.add("gew", "weight", np.round((w := m.rng.gamma(5, 1, m.n)) / w.mean(), 5))


def _time_use(m: _Maker) -> None:
    m.add("caseid", "id", m.unique(20_190_101_000, 20_190_801_000))
    m.add("region", "geography", m.codes(1, 4))
    m.add("statefip", "geography", m.columns["region"] * 20 + m.rng.integers(0, 12, m.n))
    m.add("age", "key", np.clip(m.ages(), 15, 85), top=85)
    m.add("sex", "key", m.codes(1, 2))
    m.add("educ", "key", m.rng.choice([10, 20, 21, 30, 31, 40, 41, 42, 43], m.n))
    m.add(
        "uhrswork",
        "sensitive",
        np.where(
            (u := m.rng.random(m.n)) < 0.02,
            99,
            np.where(
                u < 0.3,
                40,
                np.where(
                    u < 0.34, m.rng.integers(60, 97, m.n), np.clip(np.round(m.rng.normal(40, 12, m.n)), 1, 90)
                ),
            ),
        ).astype(int),
        top=99,
    )
    sleep = m.add("sleep", "sensitive", np.round(m.rng.normal(510, 90, m.n)).astype(int))
    work = m.add(
        "work",
        "sensitive",
        np.where(m.rng.random(m.n) < 0.5, 0, np.round(m.rng.normal(420, 90, m.n))).astype(int),
    )
    care = m.add("care", "sensitive", np.where(m.rng.random(m.n) < 0.6, 0, m.rng.integers(5, 200, m.n)))
    m.add("accounted", "sensitive", sleep + work + care, sums=("sleep", "work", "care"))
    m.add("wt06", "weight", m.weights(6_000_000))


def _czech_incomes(m: _Maker) -> None:
    m.add(
        "rodne_cislo",
        "id",
        [f"{x:06d}/{y:04d}" for x, y in zip(m.unique(300_000, 999_999), m.codes(1000, 9999), strict=True)],
    )
    m.add(
        "jmeno",
        "id",
        [
            str(x)
            for x in m.rng.choice(
                ["Jan", "Petr", "Jana", "Eva", "Jiri", "Hana", "Tomas", "Lenka", "Pavel", "Marie", "Karel"],
                m.n,
            )
        ],
    )
    m.add(
        "prijmeni",
        "id",
        [
            str(x)
            for x in m.rng.choice(
                [
                    "Novak",
                    "Svoboda",
                    "Dvorak",
                    "Cerny",
                    "Prochazka",
                    "Kucera",
                    "Vesely",
                    "Horak",
                    "Nemec",
                    "Marek",
                    "Pospisil",
                    "Hajek",
                    "Kral",
                    "Ruzicka",
                ],
                m.n,
            )
        ],
    )
    kraj = m.rng.integers(1, 15, m.n)
    m.add("kraj", "geography", kraj)
    m.add("okres", "geography", m.nested(kraj, 5) + 3000)
    m.add("pohlavi", "key", m.pick("muz", "zena"))
    m.add("vek", "key", m.ages())
    m.add("vzdelani", "key", m.codes(1, 5))
    m.add("rodinny_stav", "key", m.codes(1, 4))
    m.add("mzda", "sensitive", m.amounts(10.3, 0.4, 0.2, 100))
    m.add("vydaje", "sensitive", m.amounts(9.9, 0.4, 0.0, 100))
    m.add("vaha", "weight", m.weights(900))


def _finnish_rents(m: _Maker) -> None:
    m.add("tunnus", "id", m.unique(1_000_000, 9_999_999))
    maakunta = m.rng.integers(1, 20, m.n)
    m.add("maakunta", "geography", maakunta)
    m.add("kunta", "geography", m.nested(maakunta, 8) + 5)
    m.add("sukupuoli", "key", m.codes(1, 2))
    m.add("ika", "key", np.clip(m.ages(), 18, 95))
    m.add("koulutus", "key", m.codes(1, 6))
    m.add("siviilisaaty", "key", m.codes(1, 4))
    m.add("palkka", "sensitive", m.amounts(8, 0.4, 0.3))
    m.add("vuokra", "sensitive", m.amounts(6.4, 0.3, 0.5))
    m.add("huoneet", "key", np.clip(m.rng.poisson(2, m.n) + 1, 1, 8))
    m.add("painokerroin", "weight", m.weights(220))
    m.add(
        "puhelin",
        "id",
        [
            f"+358 {a} {b:07d}"
            for a, b in zip(m.codes(40, 50), m.rng.integers(0, 9_999_999, m.n), strict=True)
        ],
    )


def _opaque_codes(m: _Maker) -> None:
    home, place = m.households()
    k = home.max() + 1
    m.add("v001", "household", home + 3_001)
    m.add("v002", "design", place)
    m.add("v003", "key", m.pick("male", "female"))
    m.add("v004", "key", m.ages())
    m.add("v005x", "key", m.pick("married", "single", "divorced", "widowed"))
    m.add("v006", "key", m.pick("primary", "lower secondary", "upper secondary", "tertiary"))
    m.add(
        "v007",
        "geography",
        np.array(["FR10", "FRB0", "FRC1", "FRC2", "FRD1", "FRE1", "FRF1"])[m.rng.integers(0, 7, k)][home],
    )
    m.add("v008", "sensitive", m.amounts(9.5, 0.7, 0.2))
    m.add("v009", "sensitive", np.round(m.rng.lognormal(6, 0.6, m.n), 2))
    m.add("v010x", "weight", np.round((w := m.rng.gamma(4, 1, k)) / w[home].mean(), 7)[home])
    m.add(
        "v011",
        "id",
        [
            f"{a}.{b}@mail.example"
            for a, b in zip(
                m.rng.choice(["anna", "peter", "maria", "ivan"], m.n), m.unique(0, 80_000), strict=True
            )
        ],
    )
    m.add("v012x", "id", m.unique(48_500_000_000, 48_500_900_000))


def _wide_panel(m: _Maker) -> None:
    m.add("SEQN", "id", np.arange(m.n) + 83_732)
    m.add("RIAGENDR", "key", m.codes(1, 2))
    m.add("RIDAGEYR", "key", m.ages(80), top=80)
    m.add("RIDRETH1", "key", m.codes(1, 5))
    m.add("DMDEDUC2", "key", m.gone(m.codes(1, 5), 9, 0.02), missing=(9,))
    m.add("SDMVPSU", "design", m.codes(1, 2))
    m.add("SDMVSTRA", "design", m.codes(119, 133))
    m.add("WTMEC2YR", "weight", m.weights(30_000))
    for k in range(1, 41):
        m.add(f"LBX{k:02d}", "sensitive", np.round(m.rng.lognormal(1 + k % 5, 0.5, m.n), 1 + k % 3))
    for k in range(1, 31):
        m.add(f"DRQ{k:03d}", "none", m.gone(m.codes(1, 4), 9, 0.03), missing=(9,))
    for k in range(1, 21):
        m.add(f"WTREP{k}", "design", np.round(m.columns["WTMEC2YR"] * m.rng.uniform(0.4, 1.6, m.n), 3))


def _argentinian_homes(m: _Maker) -> None:
    home, place = m.households(3.1)
    k = home.max() + 1
    letters = np.array(list("ABCDEFGHJKLMNPQRSTUVWXYZ"))
    codes = ["TQR" + "".join(m.rng.choice(letters, 12)) for _ in range(k)]
    m.add("CODUSU", "household", [codes[h] for h in home])
    m.add("COMPONENTE", "design", place)
    m.add("REGION", "geography", (r := m.rng.integers(0, 6, k))[home])
    m.add("AGLOMERADO", "geography", (r * 6 + m.rng.integers(0, 6, k) + 2)[home])
    m.add("PONDERA", "weight", m.rng.integers(40, 2500, k)[home])
    m.add("CH03", "key", np.where(place == 1, 1, m.codes(2, 10)))
    m.add("CH04", "key", m.codes(1, 2))
    m.add("CH06", "key", m.ages())
    m.add("CH07", "key", m.codes(1, 5))
    m.add("NIVEL_ED", "key", m.codes(1, 7))
    m.add("P21", "sensitive", m.gone(m.amounts(10, 0.7, 0.5, 100), -9, 0.08), missing=(-9,))
    m.add("ITF", "sensitive", m.amounts(11, 0.6, 0.02, 100)[home])
    m.add("IPCF", "sensitive", np.round(m.columns["ITF"] / np.bincount(home)[home], 2))
    m.add("IX_TOT", "key", np.bincount(home)[home])
    m.out.ratios["IPCF"] = ("ITF", "IX_TOT")


def _romanian_hungarian(m: _Maker) -> None:
    home, place = m.households()
    k = home.max() + 1
    m.add("haztartas_id", "household", 90_000 + home * 3)
    m.add("sorszam", "design", place)
    m.add("megye", "geography", m.rng.integers(1, 21, k)[home])
    m.add("nem", "key", m.pick("férfi", "nő"))
    m.add("eletkor", "key", m.ages())
    m.add("iskolai_vegzettseg", "key", m.codes(1, 8))
    m.add("csaladi_allapot", "key", m.gone(m.codes(1, 5), 9, 0.03), missing=(9,))
    m.add("foglalkozas", "key", m.codes(1, 9))
    m.add(
        "nev", "id", m.names("László István Katalin Erzsébet Zoltán Ilona", "Nagy Kovács Tóth Szabó Horváth")
    )
    m.add("taj_szam", "id", m.unique(10_000_000, 10_900_000) + 100_000_000)
    wage = m.add("kereset", "sensitive", m.amounts(12.2, 0.5, 0.4, 100))
    help_ = m.add("segely", "sensitive", m.amounts(10.5, 0.4, 0.7, 100))
    m.add("jovedelem", "sensitive", wage + help_, sums=("kereset", "segely"))
    m.add("lakber", "sensitive", m.gone(m.amounts(11, 0.4, 0.5, 100), 9_999_999, 0.05), missing=(9_999_999,))
    m.add("suly", "weight", m.weights(600)[home])


_MAKERS: dict[str, tuple[Callable[[_Maker], None], int]] = {
    "polish_budgets": (_polish_budgets, 900), "portuguese_registers": (_portuguese_registers, 800),
    "french_census": (_french_census, 1200), "italian_wealth": (_italian_wealth, 900),
    "german_panel": (_german_panel, 1200), "spanish_labour": (_spanish_labour, 1200),
    "us_census_income": (_us_census_income, 2000), "survey_of_finances": (_survey_of_finances, 1000),
    "utilities": (_utilities, 900), "dutch_housing": (_dutch_housing, 1000),
    "swedish_health": (_swedish_health, 800), "brazilian_households": (_brazilian_households, 1200),
    "business_survey": (_business_survey, 700), "hospital_visits": (_hospital_visits, 800),
    "school_children": (_school_children, 700), "agriculture": (_agriculture, 1000),
    "eu_silc": (_eu_silc, 1000), "opinions": (_opinions, 900), "time_use": (_time_use, 900),
    "czech_incomes": (_czech_incomes, 800), "finnish_rents": (_finnish_rents, 800),
    "opaque_codes": (_opaque_codes, 1000), "wide_panel": (_wide_panel, 900),
    "argentinian_homes": (_argentinian_homes, 1000), "romanian_hungarian": (_romanian_hungarian, 1000),
}  # fmt: skip


def corpus(only: str | None = None) -> list[Labelled]:
    """All files, or those of one half: "first" (even places) or "second" (held out while rules are made)."""
    out = []
    for place, (name, (make, n)) in enumerate(_MAKERS.items()):
        if only is not None and (place % 2 == 0) != (only == "first"):
            continue
        maker = _Maker(name, n, 1000 + place)
        make(maker)
        out.append(maker.done())
    return out
