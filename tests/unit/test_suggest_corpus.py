"""What ``init`` sees in files whose roles are known: the corpus of ``benchmarks/corpus.py``."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.plan.suggest import codebooks, words
from sfumato.plan.suggest.roles import plan_text, suggest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from corpus import Labelled, corpus
from corpus_offices import offices
from init import score

LEAST = {"id": 0.95, "household": 0.95, "weight": 0.95, "geography": 0.95, "key": 0.85, "sensitive": 0.85}
FILES = {f.name: f for f in corpus()}


@pytest.fixture(scope="module")
def figures() -> dict[str, tuple[int, int, int]]:
    return score(list(FILES.values()))


@pytest.fixture(scope="module")
def figures_of_offices() -> dict[str, tuple[int, int, int]]:
    return score(offices())


@pytest.mark.parametrize("role", [*LEAST, "missing code", "sum"])
def test_roles_in_the_files_of_offices(figures_of_offices, role):
    right, found, there = figures_of_offices[role]
    assert there > 0
    assert right / found >= LEAST.get(role, 0.9), "too many were claimed"
    assert right / there >= LEAST.get(role, 0.9), "too few were found"


def test_a_book_counts_only_among_its_own_names():
    """v012 is an age in a demographic and health survey; elsewhere nobody knows."""
    dhs = ["V005", "V012", "V013", "V022", "V025", "V106", "V133", "V151", "V190", "V437", "V501"]
    with codebooks.opened(dhs):
        assert words.key_topic("V012") == "age"
        assert words.is_weight("V005")
        assert words.is_private("V437")
    assert words.key_topic("V012") is None
    with codebooks.opened(["v001", "v002", "v003", "v006", "v012", "income"]):
        assert words.key_topic("v012") is None


def test_days_of_birth_as_whole_numbers_are_a_key():
    rng = np.random.default_rng(8)
    days = rng.integers(1935, 2004, 400) * 10_000 + rng.integers(1, 13, 400) * 100 + rng.integers(1, 29, 400)
    found = suggest(
        pl.DataFrame({"dob": days, "sex": rng.integers(1, 3, 400), "pay": rng.lognormal(8, 1, 400)})
    )
    assert "dob" in found.schema.keys
    assert "dob" not in found.drop


def test_what_a_household_shares_is_no_hierarchy():
    """Each member has the industry of the head and the household's rent: no code lies in another."""
    rng = np.random.default_rng(9)
    home = np.repeat(np.arange(300), 3)
    found = suggest(pl.DataFrame({
        "hhid": home + 1000, "sex": rng.integers(1, 3, 900), "age": rng.integers(0, 90, 900),
        "nace": rng.integers(100, 400, 300)[home], "religion": rng.integers(1, 6, 300)[home],
        "tenure": rng.integers(1, 4, 300)[home],
    }))  # fmt: skip
    assert found.nested == {}
    assert {"nace", "religion", "tenure"} <= set(found.schema.keys)


def test_a_code_that_begins_anew_in_each_state_is_no_area_by_itself():
    rng = np.random.default_rng(10)
    found = suggest(pl.DataFrame({
        "state": rng.choice([4, 6, 8, 25, 42], 2000), "puma": rng.integers(1, 40, 2000),
        "sex": rng.integers(1, 3, 2000),
    }))  # fmt: skip
    assert found.schema.geography == ("state",)
    assert "puma" in found.schema.keys


@pytest.mark.parametrize("role", [*LEAST, "missing code", "sum", "ratio"])
def test_roles_are_found(figures, role):
    right, found, there = figures[role]
    assert there > 0
    assert right / found >= LEAST.get(role, 0.9), "too many were claimed"
    assert right / there >= LEAST.get(role, 0.9), "too few were found"


@pytest.mark.parametrize(
    "name", ["polish_budgets", "portuguese_registers", "hospital_visits", "opaque_codes"]
)
def test_no_plan_releases_a_name(name, tmp_path):
    """The plan of a file full of names is carried out, and none of them is in the release."""
    file = FILES[name]
    plan = sf.Plan.loads(plan_text("people.csv", suggest(file.frame)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = plan.run(file.frame, seed=1).release(tmp_path / "out")
    there = sf.read(release.data).columns
    assert not [c for c in there if file.roles[c] == "id"]


def test_names_are_hints_and_values_decide():
    """The same columns under names that tell nothing have the same roles, where values can tell."""
    file: Labelled = FILES["opaque_codes"]
    found = suggest(file.frame.rename({c: f"c{k}" for k, c in enumerate(file.frame.columns)}))
    assert {"c10", "c11"} <= set(found.drop), "e-mail addresses and telephone numbers"
    assert found.schema.household == "c0"
    assert {"c2", "c3", "c4", "c5"} <= set(found.schema.keys), "sex, age, marital status, schooling"
    assert found.schema.geography == ("c6",), "NUTS codes"
    assert found.schema.weight == "c9", "1 on average, the same in all of a household"


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("PARENT", "family"), ("wykształcenie", "education"), ("ESTADO_CIVIL", "marital status"),
        ("Geschlecht", "sex"), ("idade", "age"), ("età", "age"), ("nationalité", "citizenship or country"),
        ("siviilisääty", "marital status"), ("ocupação", "work"), ("huishoudgrootte", "household size"),
        ("nb_pers_menage", "household size"), ("Año_nacimiento", "birth"), ("sprak", "language or religion"),
    ],
)  # fmt: skip
def test_words_of_many_languages(name, topic):
    assert words.key_topic(name) == topic
    assert not words.is_money(name)


@pytest.mark.parametrize("name", ["poids", "peso", "waga", "V1028", "gewicht_hh", "painokerroin", "FACTOREL"])
def test_weights_of_many_languages(name):
    assert words.is_weight(name)
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"sex": rng.integers(1, 3, 300), name: np.round(rng.gamma(4, 100, 300), 3)})
    assert suggest(frame).schema.weight == name


@pytest.mark.parametrize("name", ["PARENT", "current", "AGENT", "stage", "kgewicht_geburt", "parental_leave"])
def test_substrings_do_not_mislead(name):
    assert not words.is_money(name)
    assert not words.is_weight(name)
    assert words.key_topic(name) != "age"


def test_a_plan_for_many_columns_can_be_read():
    """One line a column at most, families in a word, and still the plan that was meant."""
    rng = np.random.default_rng(5)
    n, frame = 300, {"SEX": np.tile([1, 2], 150), "AGE": rng.integers(18, 90, 300)}
    frame |= {f"Q{k:03d}": rng.integers(1, 6, n) for k in range(1, 201)}
    frame |= {f"AMT{k}": rng.lognormal(6, 1, n).astype(int) for k in range(1, 91)}
    frame |= {"WGT": rng.gamma(5, 100, n)} | {f"WGTREP{k}": rng.gamma(5, 100, n) for k in range(1, 58)}
    found = suggest(pl.DataFrame(frame))
    assert len(found.types) == 350
    text = plan_text("wide.csv", found)
    lines = text.split("\n")
    assert len(lines) < 350, "no more than a line a column"
    assert max(len(x) for x in lines) < 125
    assert "WGTREP1 … WGTREP57 (57)" in text
    assert "… Q200 (198)" in text, "two of them fill up the keys"
    schema = sf.Plan.loads(text).schema
    assert schema is not None
    assert (schema.weight, schema.sensitive) == ("WGT", tuple(f"AMT{k}" for k in range(1, 91)))


def test_the_lists_have_no_short_beginnings_and_endings():
    """Else PARENT would be a rent, and PACKAGE an age."""
    from sfumato.plan.suggest import vocabulary

    listed = [w for text in vocabulary.load()["names"].values() for w in text.split()]
    assert len(listed) > 3000
    assert not [w for w in listed if w.endswith("-") and len(w) < 5]
    assert not [w for w in listed if w.startswith("-") and len(w) < 6]
    assert all(words.plain(w) == w for w in listed if w.isascii())


def test_numbers_with_a_word_among_them_are_masked_as_numbers(tmp_path):
    """The plan that is suggested reads the column as it was judged: N is nothing, the rest are numbers."""
    rng = np.random.default_rng(2)
    pay = [str(x) if k % 9 else "N" for k, x in enumerate(rng.lognormal(7, 1, 200).astype(int))]
    pl.DataFrame({"sex": rng.integers(1, 3, 200), "pay": pay}).write_csv(tmp_path / "p.csv")
    found = suggest(sf.read(tmp_path / "p.csv"))
    assert found.schema["pay"].missing == ("N",)
    (tmp_path / "p.toml").write_text(plan_text("p.csv", found))
    plan = sf.Plan.load(tmp_path / "p.toml")
    assert not [p for p in plan.check() if p.severity == "error"]
    data = plan.data()
    assert data.is_numeric("pay")
    assert int(data.missing("pay").sum()) == 23
    assert len(plan.run(seed=1).masked) == 200


def test_few_names_of_people_are_names_all_the_same():
    n = 300
    frame = pl.DataFrame(
        {
            "efternamn": ["Andersson", "Lindqvist", "Öberg"] * (n // 3),
            "nume": ["Popescu", "Ionescu", "Radu"] * (n // 3),
            "land": ["SE", "RO", "SE"] * (n // 3),
            "lön": np.arange(n) * 137 % 4001,
        }
    )
    assert set(suggest(frame).drop) == {"efternamn", "nume"}
    # Beside no person's name, a name of few values may be a product's.
    assert not suggest(frame.drop("efternamn")).drop


def test_codes_with_letters_are_codes_and_a_word_among_digits_is_none():
    n = 400
    digits = [f"{i % 9 + 10}" for i in range(n)]
    corsica = ["2A" if i % 20 == 0 else "2B" if i % 20 == 1 else d for i, d in enumerate(digits)]
    frame = pl.DataFrame(
        {
            "departement": corsica,
            "SCHL": ["N" if i % 10 == 0 else f"{i % 7:02d}" for i in range(n)],
            "WKHP": ["N" if i % 3 == 0 else f"{i * 7 % 50 + 1:02d}" for i in range(n)],
            "DMDEDUC2": [[1, 2, 3, 4, 5, 5, 4, 3, 7, 9][i % 10] for i in range(n)],
            "answers": [[1, 2, 3, 4, 5, 6, 7, 8, 9, 9][i % 10] for i in range(n)],
        }
    )
    schema = suggest(frame).schema
    assert schema["departement"].missing == ()
    assert schema["SCHL"].missing == ("N",)
    assert schema["WKHP"].missing == ("N",)
    assert schema["WKHP"].kind == "continuous"
    assert schema["DMDEDUC2"].missing == (7, 9)
    assert schema["answers"].missing == ()


def test_replicate_weights_named_after_their_weight():
    rng = np.random.default_rng(2)
    weight = rng.lognormal(5, 0.5, 500).round(3)
    table = {"V2009": rng.integers(0, 90, 500), "VD4019": rng.lognormal(7, 1, 500).round(), "V1028": weight}
    table |= {f"V1028{i:03d}": weight * rng.poisson(1, 500) for i in range(1, 21)}
    found = suggest(pl.DataFrame(table))
    assert found.schema.weight == "V1028"
    assert len(found.design["replicate weights"]) == 20
    assert found.schema.sensitive == ("VD4019",)


def test_prefixes_of_surveys_are_borne_out_by_values():
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "TAGE": rng.integers(0, 88, 900),
            "ESEX": rng.integers(1, 3, 900),
            "EEDUC": rng.integers(31, 47, 900),
            "TWAGE": rng.lognormal(7, 1, 900).round(),
            "IMAGE": rng.lognormal(3, 1, 900).round(),
        }
    )
    schema = suggest(frame).schema
    assert schema.keys == ("TAGE", "ESEX", "EEDUC")
    assert schema.sensitive == ("TWAGE", "IMAGE")


def test_a_total_with_residual_is_found_beside_a_column_that_is_mostly_nothing():
    rng = np.random.default_rng(4)
    n = 800
    exports = np.where(rng.random(n) < 0.6, 0, rng.integers(1, 90_000, n))
    parts = rng.integers(1_000, 90_000, (n, 3))
    total = parts.sum(axis=1) + np.where(rng.random(n) < 0.06, rng.integers(1, 900, n), 0)
    frame = pl.DataFrame(
        {"exports": exports, "a": parts[:, 0], "b": parts[:, 1], "c": parts[:, 2], "t": total}
    )
    rule = suggest(frame).schema["t"]
    assert rule.sum_of == ("a", "b", "c")
    assert rule.residual


def test_what_is_divided_by_is_a_number_and_no_occupation():
    rng = np.random.default_rng(5)
    staff, sales = rng.integers(1, 90, 700), rng.lognormal(12, 1, 700).round()
    frame = pl.DataFrame({"employees": staff, "turnover": sales, "per_head": (sales / staff).round(2)})
    schema = suggest(frame).schema
    assert schema.ratios == {"per_head": ("turnover", "employees")}
    assert schema["employees"].kind != "categorical"


def test_amounts_that_zeros_fill_up_are_numbers(tmp_path):
    rng = np.random.default_rng(6)
    pay = [f"{v:06d}" for v in rng.integers(0, 90_000, 300)]
    frame = pl.DataFrame(
        {"sex": rng.choice(["m", "f"], 300), "income": pay, "code": [f"{i % 40:03d}" for i in range(300)]}
    )
    found = suggest(frame)
    assert found.schema["income"].kind == "continuous"
    assert "income" in found.schema.sensitive
    assert found.schema["code"].kind is None
    frame.write_csv(tmp_path / "a.csv")
    (tmp_path / "a.toml").write_text('data = "a.csv"\n[variables]\nincome = { kind = "continuous" }\n')
    plan = sf.Plan.load(tmp_path / "a.toml")
    assert plan.data().frame["income"].to_list() == [int(v) for v in pay]
