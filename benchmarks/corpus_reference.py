"""The roles of the reference data in ``../shared/data``, as a careful person gives them.

Only columns with a role are named; what a file's own metadata say isn't judged.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import sfumato as sf
from corpus import Labelled

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

LABELS: dict[str, dict[str, str]] = {
    "CASCrefmicrodata.csv": {
        "weight": "AFNLWGT",
        "sensitive": "AGI EMCONTRB FEDTAX PTOTVAL STATETAX TAXINC POTHVAL INTVAL PEARNVAL FICA WSALVAL ERNVAL",
        "sums": "PTOTVAL=PEARNVAL+POTHVAL",
    },
    "titanic_889.csv": {"id": "PassengerId", "key": "Pclass Sex Age SibSp Parch Embarked", "sensitive": "Survived Fare"},
    "smho_n874.csv": {
        "id": "id", "key": "FINDIRCT hosp_type", "sensitive": "EXPTOTAL BEDS SEENCNT EOYCNT",
    },
    "testdata.csv": {
        "household": "ori_hid", "weight": "sampling_weight|household_weights",
        "key": "urbrur roof walls electcon relat sex age hhcivil", "sensitive": "expend income savings",
    },
    "ahs/ahs_national_1989.csv": {
        "id": "CONTROL", "weight": "WEIGHT", "key": "TENURE INTSTATUS", "sensitive": "MARKETVAL HINCP TOTHCAMT",
        "top": "MARKETVAL=350000",
    },
    "ahs/ahs_national_1991.csv": {
        "id": "CONTROL", "weight": "WEIGHT", "key": "TENURE INTSTATUS", "sensitive": "MARKETVAL HINCP TOTHCAMT",
        "top": "MARKETVAL=350000",
    },
    "income/cps_taxunits_2013.csv": {
        "id": "recid", "household": "h_seq", "weight": "weight_x100", "geography": "state_fips",
        "key": "marital_filing n_persons age_head age_spouse n_under18 dependent_filer",
        "sensitive": "wages wages_head wages_spouse self_employment farm interest_taxable interest_exempt dividends "
        "pensions ira_distributions alimony unemployment social_security real_estate_tax mortgage_interest "
        "state_local_tax medical_expense charity_cash agi_bin total_income",
        "sums": "wages=wages_head+wages_spouse total_income=wages+self_employment+farm+interest_taxable+"
        "interest_exempt+dividends+pensions+ira_distributions+unemployment+social_security",
    },
    "census/acs2011_households.csv": {
        "id": "SERIALNO", "weight": "WGTP", "geography": "REGION DIVISION ST",
        "key": "PUMA NP BDSP BLD HFL RMSP TEN VEH YBL FPARC HHL HUPAC NOC PARTNER WKEXREL WORKSTAT",
        "sensitive": "CONP ELEP GASP INSP MHP MRGP RNTP SMP VALP WATP GRNTP GRPIP HINCP SMOCP OCPIP TAXP AGS FS",
    },
    "census/eusilcP_population.csv": {
        "id": "id", "household": "hid", "geography": "region",
        "key": "hsize age gender ecoStat citizenship",
        "sensitive": "eqIncome py010n py050n py090n py100n py110n py120n py130n py140n hy040n hy050n hy070n hy080n "
        "hy090n hy110n hy130n hy145n",
    },
    "census/eusilc_laeken.csv": {
        "id": "rb030", "household": "db030", "weight": "rb050|db090", "geography": "db040",
        "key": "hsize age rb090 pl030 pb220a",
        "sensitive": "eqIncome py010n py050n py090n py100n py110n py120n py130n py140n hy040n hy050n hy070n hy080n "
        "hy090n hy110n hy130n hy145n",
    },
    "census/MDarea_popA.csv.gz": {
        "geography": "TRACT", "key": "BLKGROUP Hispanic Gender Age", "sensitive": "y1 y2 y3 ins.cov hosp.stay",
    },
    "free1.csv": {
        "weight": "WEIGHT", "geography": "REGION",
        "key": "SEX AGE MARSTAT KINDPERS EDUC1 EDUC2 ETNI TENURE OCCUCODE NUMYOUNG NUMOLD AGEYOUNG",
        "sensitive": "INCOME MONEY ASSETS DEBTS",
    },
    "housing_deck.parquet": {
        "id": "IDNUM", "geography": "REGION", "key": "BEDROOMS BATHS YR_BLT",
        "sensitive": "INCOME HOME_VAL MORTGAGE MAINTAIN TAXES",
        "top": "INCOME=100000 HOME_VAL=350000 MORTGAGE=1800 MAINTAIN=9000 TAXES=62",
    },
    "formats_arx/adult.csv": {
        "key": "sex age race marital-status education native-country workclass occupation", "sensitive": "salary-class",
    },
    "formats_argus/hhdata/Samhh.asc": {
        "household": "hhnum", "weight": "weight", "geography": "province town",
        "key": "MarStat sex age employed agehh", "sensitive": "income",
    },
    "formats_stat/electric.sav": {
        "id": "CASEID", "key": "AGE EDUYR", "sensitive": "DBP58 CHOL58 HT58 WT58 CGT58 VITAL10 CHD FIRSTCHD FAMHXCVR",
    },
}  # fmt: skip
_UNLABELLED = frozenset({"missing code", "ratio"})


def reference() -> list[Labelled]:
    """The reference files that are there, read and labelled."""
    return [_labelled(name, listed) for name, listed in LABELS.items() if (DATA / name).is_file()]


def _labelled(name: str, listed: dict[str, str]) -> Labelled:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = sf.read(DATA / name)
    out = Labelled(name.split("/")[-1][:20], data.frame, {})
    out.data = data
    out.unjudged = _UNLABELLED | (frozenset() if "top" in listed else frozenset({"top code"}))
    if "sums" not in listed:
        out.unjudged |= {"sum"}
    for role in ("id", "household", "weight", "geography", "key", "sensitive"):
        for column in listed.get(role, "").split():
            for one in column.split("|"):
                out.roles[one] = role if one == column.split("|")[0] else "none"
    out.either = tuple(
        tuple(c.split("|")) for r in ("weight",) for c in listed.get(r, "").split() if "|" in c
    )
    out.sums = {t: tuple(p.split("+")) for t, p in (x.split("=") for x in listed.get("sums", "").split())}
    out.top = {c: float(v) for c, v in (x.split("=") for x in listed.get("top", "").split())}
    return out
