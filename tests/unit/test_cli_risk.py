"""``sfumato risk``: the matrix before and after a plan's recodes, as text and as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from sfumato.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import argus_demo

PLAN = """
format = 1
data = "demo.parquet"

[roles]
keys = ["Region", "Sex", "Age"]
weight = "Weight"

[[step]]
id = "ages"
mask = "recode"
column = "Age"
mapping = { "-20" = 1, "21-30" = 2, "31-40" = 3, "41-50" = 4, "51-60" = 5, "61-" = 6 }

[[step]]
mask = "local_suppress"
tolerance = 4
key_sets = [["Region"], ["Region", "Sex"], ["Region", "Age"], ["Region", "Sex", "Age"]]
"""


@pytest.fixture
def plan(tmp_path, reference_data):
    argus_demo.demodata(reference_data).frame.write_parquet(tmp_path / "demo.parquet")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    return tmp_path / "plan.toml"


def test_json_has_the_published_counts(plan, capsys):
    assert main(["risk", str(plan), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tolerance"] == 4
    assert found["recodes"] == ["ages"]
    assert found["not_shown"] == ["local_suppress"]
    for part, want in (("before", [9, 50, 2588, 3164]), ("after", [9, 50, 463, 1183])):
        rows = {r["key_set"]: r["unsafe_combinations"] for r in found[part]["by_key_set"]}
        names = ["Region", "Region × Sex", "Region × Age", "Region × Sex × Age"]
        assert [rows[n] for n in names] == want
    assert found["after"]["levels"]["Age"] == 6
    age = found["after"]["by_key"][2]
    assert (age["key"], age["dimension_2"], age["dimension_3"]) == ("Age", 463, 1183)


def test_text_shows_the_matrix_and_the_change(plan, capsys):
    assert main(["risk", str(plan)]) == 0
    text = capsys.readouterr().out
    assert "2,588 → 463" in text
    assert "3,164 → 1,183" in text
    assert "60 → 6" in text
    assert "5.83 → 2.52" in text
    assert "unsafe records: 3,770 → 1,989 of 4,000" in text
    assert "mu-ARGUS's threshold 3" in text


def test_options_override_the_plan(plan, capsys):
    assert main(["risk", str(plan), "--json", "--tolerance", "2", "--max-dimension", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tolerance"] == 2
    assert {r["dimension"] for r in found["before"]["by_key_set"]} == {1}
    assert len(found["before"]["by_key_set"]) == 3


def test_bad_input_is_code_two(plan, tmp_path, capsys):
    assert main(["risk", str(plan), "--tolerance", "1"]) == 2
    assert "at least 2" in capsys.readouterr().err
    assert main(["risk", str(tmp_path / "none.toml")]) == 2
    bare = tmp_path / "bare.toml"
    bare.write_text('format = 1\ndata = "demo.parquet"\n', encoding="utf-8")
    assert main(["risk", str(bare)]) == 2
    assert "no key was named" in capsys.readouterr().err


def test_recodes_of_files_beside_the_plan_work_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hierarchy and a .grc file are sought beside the plan; `risk` forgot it outside its folder."""
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir(), away.mkdir()
    pl.DataFrame({"AREA": ["a", "b", "c"] * 4, "AGE": [1, 2, 3, 4] * 3}).write_csv(home / "p.csv")
    (home / "areas.csv").write_text("a;x\nb;x\nc;y\n")
    (home / "age.grc").write_text("1:1-2\n2:3-4\n")
    (home / "plan.toml").write_text(
        'data = "p.csv"\n[roles]\nkeys = ["AREA", "AGE"]\n'
        '[[step]]\nmask = "recode"\ncolumn = "AREA"\nhierarchy = "areas.csv"\nlevel = 1\n'
        '[[step]]\nid = "age"\nmask = "recode"\ncolumn = "AGE"\nmapping = "age.grc"\n'
    )
    monkeypatch.chdir(away)
    assert main(["risk", str(home / "plan.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recodes"] == ["recode", "age"]


PEOPLE = """
format = 1
data = "people.csv"

[roles]
keys = ["AREA", "SEX", "AGE"]
sensitive = ["ILL"]
weight = "W"
household = "HOME"

[[step]]
mask = "recode"
column = "AGE"
width = 20

[[measure]]
measure = "tolerance"
tolerance = 2

[[measure]]
measure = "k_anonymity"
k = 4

[[measure]]
id = "near"
measure = "t_closeness"
t = 0.4
"""


@pytest.fixture
def people(tmp_path):
    n = 120
    frame = pl.DataFrame(
        {
            "AREA": ["n", "s", "e"] * (n // 3),
            "SEX": ["f", "m"] * (n // 2),
            "AGE": [(i * 7) % 60 + 20 for i in range(n)],
            "ILL": ["flu", "cold", "flu", "hiv", "flu"] * (n // 5),
            "W": [10.0 + i % 3 for i in range(n)],
            "HOME": [i // 3 for i in range(n)],
        }
    )
    frame.write_csv(tmp_path / "people.csv")
    (tmp_path / "plan.toml").write_text(PEOPLE, encoding="utf-8")
    return tmp_path / "plan.toml"


def test_every_measure_is_there_by_name_with_what_it_assumes(people, capsys):
    assert main(["risk", str(people)]) == 0
    text = capsys.readouterr().out
    for name in ("k_anonymity", "individual_risk", "population_risk", "k_map", "l_diversity", "near", "suda"):
        assert f"    {name}: " in text
    assert text.count("assumes: ") >= 8
    assert "counted in the population" in text
    assert "what keys give away" in text
    assert "households expected to be at risk: " in text
    assert "(k = 4)" in text  # the plan's own k, said beside the figure
    assert "only a run can count" not in text


def test_steps_that_only_a_run_can_count_are_said(plan, capsys):
    assert main(["risk", str(plan)]) == 0
    assert "without local_suppress, which only a run can count" in capsys.readouterr().out


def test_the_figures_after_are_those_of_the_run(people, capsys):
    import sfumato as sf

    assert main(["risk", str(people), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    run = sf.Plan.load(people).run(seed=1)
    after = {one["measure"]: one["after"] for one in found["measures"] if one["of_plan"]}
    assert set(after) == {"tolerance", "k_anonymity", "near"}
    for name, shown in after.items():
        assert shown["value"] == run.results[name].value
        assert shown["figures"].keys() == run.results[name].figures.keys()
    # The matrix at the top is of the same measure: all three keys as one set, as the plan says.
    assert found["after"]["unsafe_records"] == run.results["tolerance"].value
    assert [r["key_set"] for r in found["after"]["by_key_set"]] == ["AREA × SEX × AGE"]


def test_risk_by_subgroup(people, capsys):
    words = ["risk", str(people), "--json", "--measures", "k_anonymity,individual_risk", "--by", "AREA,SEX"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)["measures"]
    assert [one["measure"] for one in found] == ["k_anonymity", "individual_risk"]
    for one in found:
        groups = one["groups"]
        assert sum(g["records"] for g in groups) == 120
        assert {g["group"] for g in groups} >= {"n × f", "s × m"}
        rates = [g["rate"] for g in groups]
        assert rates == sorted(rates, reverse=True)
    assert sum(g["at_risk"] for g in found[0]["groups"]) == found[0]["after"]["value"]
    expected = found[1]["after"]["figures"]["expected_reidentifications"]
    assert sum(g["at_risk"] for g in found[1]["groups"]) == pytest.approx(expected)
    assert main(["risk", str(people), "--measures", "k_map", "--by", "SEX"]) == 0
    assert "at risk" in capsys.readouterr().out


def test_unknown_measures_and_columns_are_told(people, capsys):
    assert main(["risk", str(people), "--measures", "k_anonymty"]) == 2
    assert "k_anonymity" in capsys.readouterr().err
    assert main(["risk", str(people), "--by", "AERA"]) == 2
    assert "AREA" in capsys.readouterr().err
    assert main(["risk", str(people), "--measures", "none"]) == 0
    assert "risk by measure" not in capsys.readouterr().out
    # A measure that the file can't give is named with the reason; the others stay.
    assert main(["risk", str(people), "--measures", "delta_presence,k_map"]) == 0
