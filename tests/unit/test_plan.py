"""Plans: TOML in and out, every mistake at once with its line, the nearest right name."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import InputError, ParameterError, PlanError
from sfumato.plan import source as plan_source
from sfumato.plan.json_schema import plan_schema
from sfumato.plan.partly import read_partly, read_plan
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan

GOOD = """\
# a plan with a comment
format = 1
data = "people.parquet"

[roles]
id = "ID"
keys = ["AREA"]          # what neighbours know
sensitive = ["INCOME"]

[variables.INCOME]
top = 100_000
missing = [-9, { from = -99, to = -90 }]

[[step]]
id = "incomes"
mask = "random_swap"
columns = ["INCOME"]
rate_percent = 20
within = ["AREA"]

[[measure]]
measure = "information_loss"
columns = ["INCOME"]

[limits]
information_loss.il1 = { at_most = 2.0 }

[release]
drop = ["ID"]
format = "csv"
"""


def people() -> pl.DataFrame:
    return pl.DataFrame(
        {"ID": range(40), "AREA": ["n", "s"] * 20, "INCOME": [float(100 * k) for k in range(40)]}
    )


def test_a_plan_is_read() -> None:
    plan = Plan.loads(GOOD)
    assert plan.step_ids() == ["incomes"]
    assert plan.steps[0] == sf.RandomSwap(id="incomes", columns=["INCOME"], rate_percent=20, within=["AREA"])
    assert plan.limits == (Limit("information_loss", "il1", at_most=2.0),)
    assert plan.release.drop == ("ID",)
    assert plan.schema is not None
    assert plan.schema["INCOME"].top == 100_000


def test_a_plan_survives_its_text() -> None:
    plan = Plan.loads(GOOD)
    assert plan.to_toml() == GOOD
    without_source = Plan.loads(plan_source.dump(plan.to_dict()))
    assert without_source == plan
    assert without_source.hash() == plan.hash()


def test_the_hash_is_of_what_is_said() -> None:
    plan = Plan.loads(GOOD)
    spelled = GOOD.replace("# a plan with a comment", "").replace(
        'data = "people.parquet"', 'data = "b.parquet"'
    )
    assert Plan.loads(spelled.replace("drop = [", "shuffle = true\ndrop = [")).hash() == plan.hash()
    assert Plan.loads(GOOD.replace("rate_percent = 20", "rate_percent = 21")).hash() != plan.hash()
    assert Plan.loads(GOOD.replace("top = 100_000", "top = 100_001")).hash() != plan.hash()


BAD = """\
format = 1
data = "people.parquet"
rolls = 1

[roles]
kees = ["AREA"]

[variables.INCOME]
top = "high"
tpo = 3

[[step]]
mask = "random_swop"

[[step]]
mask = "random_swap"
columns = ["INCOME"]
rate = 5

[[step]]
mask = "random_swap"
columns = [
  "INCOME",
  "OTHER",
]
rate_percent = 500

[[measure]]
columns = ["INCOME"]

[limits]
linkage.rate = { at_most = 0.1 }

[release]
shuffel = true
format = "xls"
"""


def test_every_mistake_is_found_at_once_with_its_line() -> None:
    plan, problems = read_plan(BAD)
    assert plan is None
    text = BAD.splitlines()
    found = {(text[p.line - 1].strip(), p.hint) for p in problems}
    assert ("rolls = 1", "did you mean 'roles'?") in found
    assert ('kees = ["AREA"]', "did you mean 'keys'?") in found
    assert ("tpo = 3", "did you mean 'top'?") in found
    assert ('mask = "random_swop"', "did you mean 'random_swap'?") in found
    assert ("rate = 5", "did you mean 'rate_percent'?") in found
    assert ("shuffel = true", "did you mean 'shuffle'?") in found
    lines = {text[p.line - 1].strip() for p in problems}
    assert {
        "rate_percent = 500",
        "[[measure]]",
        "linkage.rate = { at_most = 0.1 }",
        'format = "xls"',
    } <= lines
    assert len(problems) == 10
    with pytest.raises(PlanError, match="10 mistakes"):
        Plan.loads(BAD)


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = ", 1), ("format = 1\n[roles\n", 2), ('format = 1\nx = "\n', 2), ("a = 1\na = 2\n", 2)],
)
def test_bad_toml_says_where(text: str, line: int) -> None:
    plan, problems = read_plan(text)
    assert plan is None
    assert problems[0].line == line
    assert "TOML" in problems[0].message


def test_a_check_against_the_data(tmp_path) -> None:
    people().write_parquet(tmp_path / "people.parquet")
    path = tmp_path / "plan.toml"
    path.write_text(GOOD)
    assert Plan.load(path).check() == []
    path.write_text(
        GOOD.replace('within = ["AREA"]', 'within = ["AERA"]').replace('drop = ["ID"]', 'drop = ["Id"]')
    )
    problems = Plan.load(path).check()
    lines = path.read_text().splitlines()
    assert [lines[p.line - 1] for p in problems] == ['within = ["AERA"]', 'drop = ["Id"]']
    assert [p.hint for p in problems] == ["did you mean 'AREA'?", "did you mean 'ID'?"]
    path.write_text(GOOD.replace('keys = ["AREA"]', 'keys = ["AREAS"]'))
    (problem,) = Plan.load(path).check()
    assert problem.line == 7
    assert "AREAS" in problem.message


def test_columns_are_checked_beside_mistakes_of_the_text(tmp_path) -> None:
    """A plan with seven mistakes of three kinds: all of them at once, each on its own line."""
    people().write_parquet(tmp_path / "people.parquet")
    text = (
        GOOD.replace('mask = "random_swap"', 'mask = "random_swop"', 1)
        .replace("rate_percent = 20", "rate = 20", 1)
        .replace('keys = ["AREA"]', 'keys = ["AERA", "NOWHERE"]')
        .replace('within = ["AREA"]', 'within = ["AERA"]')
        .replace('drop = ["ID"]', 'drop = ["Id"]\nshuffel = true')
    )
    read = read_partly(text, base=tmp_path)
    assert read.plan is not None
    problems = sorted([*read.problems, *read.check()])
    lines = text.splitlines()
    said = sorted((lines[p.line - 1].partition("  #")[0].strip(), p.hint) for p in problems)
    assert said == sorted(
        [
            ('mask = "random_swop"', "did you mean 'random_swap'?"),
            ("rate = 20", "did you mean 'rate_percent'?"),
            ('keys = ["AERA", "NOWHERE"]', "did you mean 'AREA'?"),
            ('keys = ["AERA", "NOWHERE"]', "there is: ID, AREA, INCOME"),
            ('within = ["AERA"]', "did you mean 'AREA'?"),
            ('drop = ["Id"]', "did you mean 'ID'?"),
            ("shuffel = true", "did you mean 'shuffle'?"),
        ]
    )


def test_lines_follow_their_steps_where_one_cannot_be_read(tmp_path) -> None:
    people().write_parquet(tmp_path / "people.parquet")
    lost = 'data = "people.parquet"\n[[step]]\nmask = "nothing like it"\n'
    text = lost + '[[step]]\nmask = "pram"\ncolumns = ["AERA"]\nkeep_probability = 0.9\n'
    read = read_partly(text, base=tmp_path)
    assert read.plan is not None
    assert [p.line for p in read.problems] == [3]
    assert [p.line for p in read.check()] == [6]


def test_a_percentage_that_looks_like_a_share_is_a_warning() -> None:
    (problem,) = Plan(steps=[sf.RandomSwap(columns=["INCOME"], rate_percent=0.05)]).check(
        sf.Microdata(people())
    )
    assert (problem.severity, problem.hint) == ("warning", "percentages run from 0 to 100: for 5% write 5")
    for fine in (0, 0.5, 5):
        assert (
            Plan(steps=[sf.RandomSwap(columns=["INCOME"], rate_percent=fine)]).check(sf.Microdata(people()))
            == []
        )


@pytest.mark.parametrize(
    ("cls", "name", "given", "hint"),
    [
        (sf.RandomSwap, "rate_percent", "5%", "write 5, without quotes"),
        (sf.Pram, "keep_probability", "80%", "write 0.8, without quotes"),
        (sf.RandomSwap, "rate_percent", "some", None),
    ],
)
def test_a_number_in_quotes_gets_a_hint(cls, name, given, hint) -> None:
    with pytest.raises(ParameterError) as caught:
        cls(columns=["X"], **{name: given})
    assert caught.value.hint == hint


def test_a_data_file_given_as_a_plan_is_told_how_to_get_one() -> None:
    _, (problem,) = read_plan("ID,AREA\n1,n\n")
    assert "sfumato init" in str(problem.hint)


def test_a_step_that_would_mask_the_id_is_a_mistake() -> None:
    plan = Plan.loads(GOOD.replace('columns = ["INCOME"]\nrate', 'columns = ["ID"]\nrate'))
    (problem,) = [p for p in plan.check(sf.Microdata(people())) if p.severity == "error"]
    assert "which is the id" in problem.message


def test_a_plan_that_is_not_there() -> None:
    with pytest.raises(InputError, match="can't be read"):
        Plan.load("no/such/plan.toml")


def test_two_steps_of_one_id() -> None:
    step = '[[step]]\nid = "a"\nmask = "random_swap"\ncolumns = ["X"]\nrate_percent = 1\n'
    _, problems = read_plan(step + step)
    assert [(p.line, p.severity) for p in problems] == [(6, "error")]
    plan, problems = read_plan(step.replace('id = "a"\n', "") * 2)
    assert [p.severity for p in problems] == ["warning"]
    assert plan is not None
    assert plan.step_ids() == ["random_swap", "random_swap_2"]


def test_removing_a_step_leaves_the_others_draws() -> None:
    one = sf.RandomSwap(id="one", columns=["INCOME"], rate_percent=50)
    two = sf.RandomSwap(id="two", columns=["AREA"], rate_percent=50)
    data = sf.Microdata(people())
    both = sf.Plan(steps=[one, two]).run(data, seed=1).masked.frame
    turned = sf.Plan(steps=[two, one]).run(data, seed=1).masked.frame
    alone = sf.Plan(steps=[two]).run(data, seed=1).masked.frame
    assert both.equals(turned)
    assert both["AREA"].equals(alone["AREA"])
    assert alone["AREA"].to_list() == two.mask(data, seed=1).frame["AREA"].to_list()


def test_lines_in_awkward_plans() -> None:
    text = (
        'title = """\n[not.a.table]\nx = 1\n"""\n'
        '[variables."a.b"] # dotted\ntop = 1\n'
        "[variables]\n'c=d' = { top = 2 }\n"
        '[[step]]\nmask = "m" # x = 3\ncolumns = [ "[", # ]\n "]" ]\nwithin = []\n'
        "[[step]]\n[step.mapping]\na = 1\n"
    )
    lines = plan_source.lines_of(text)
    assert lines[("title",)] == 1
    assert ("not", "a", "table") not in lines
    assert lines[("variables", "a.b", "top")] == 6
    assert lines[("variables", "c=d")] == 8
    assert lines[("step", 0, "within")] == 13
    assert lines[("step", 1, "mapping", "a")] == 16


def test_the_json_schema_accepts_what_the_plan_accepts() -> None:
    schema = plan_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    content = json.loads(json.dumps(plan_source.parse(GOOD)))
    validator.validate(content)
    for path, value in ((("roles", "kees"), []), (("release", "format"), "xls"), (("format",), 2)):
        broken = json.loads(json.dumps(content))
        place = broken
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        assert not validator.is_valid(broken), path
    broken = json.loads(json.dumps(content))
    broken["step"][0]["rate_percent"] = 101
    assert not validator.is_valid(broken)


def test_every_mask_and_measure_is_in_the_schema() -> None:
    from sfumato import registry

    steps = plan_schema()["properties"]["step"]["items"]["properties"]["mask"]["enum"]
    assert steps == list(registry.masks())


def test_limits_are_judged() -> None:
    plan = Plan.loads(GOOD)
    run = plan.run(sf.Microdata(people()), seed=1)
    assert run.ok
    strict = Plan.loads(GOOD.replace("at_most = 2.0", "at_most = 0.0"))
    failed = strict.run(sf.Microdata(people()), seed=1)
    assert not failed.ok
    assert "fails" in failed.limits[0].text
    assert not Limit("m", "x", at_most=1).holds(float("nan"))
    assert Limit("m", "x", at_least=1, at_most=1).holds(1)


def test_a_limit_on_a_figure_that_is_not_there() -> None:
    plan = Plan.loads(GOOD.replace("information_loss.il1", "information_loss.il9"))
    with pytest.raises(sf.SfumatoError, match=r"no such figure") as caught:
        plan.run(sf.Microdata(people()), seed=1)
    assert "il1" in str(caught.value)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
def test_a_limit_holds_for_every_measure_of_its_kind() -> None:
    frame = pl.DataFrame({"A": np.arange(200.0), "B": np.arange(-100.0, 100.0) ** 3})
    plan = Plan(
        steps=[sf.AdditiveNoise(columns=["B"], variance_ratio=0.1)],
        measures=[
            sf.InformationLoss(columns=["A"], id="quiet"),
            sf.InformationLoss(columns=["B"], id="noisy"),
        ],
        limits={"information_loss.il1s": {"at_most": 0.01}},
    )
    found = plan.run(sf.Microdata(frame), seed=1)
    assert [(x.limit.measure, x.ok) for x in found.limits] == [("quiet", True), ("noisy", False)]
    assert not found.ok


def test_a_limit_without_its_measure_is_told() -> None:
    plan = Plan(steps=[], measures=[], limits={"linkage.rate": {"at_most": 0.1}})
    with pytest.raises(sf.SfumatoError, match="no such measure"):
        plan.run(sf.Microdata(people()), seed=1)


def test_the_files_of_a_step_are_relative_to_the_plan(tmp_path, monkeypatch):
    study = tmp_path / "study"
    (study / "codes").mkdir(parents=True)
    (study / "codes" / "jobs.csv").write_text("11;1;*\n12;1;*\n21;2;*\n")
    (study / "codes" / "jobs.grc").write_text("9: 11, 12\n8: 21\n")
    (study / "people.csv").write_text("A,B\n11,11\n12,12\n21,21\n")
    text = """data = "people.csv"
[[step]]
id = "by level"
mask = "recode"
column = "A"
hierarchy = "codes/jobs.csv"
level = 1
[[step]]
id = "by file"
mask = "recode"
column = "B"
mapping = "codes/jobs.grc"
"""
    (study / "plan.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    plan = Plan.load("study/plan.toml")
    assert not [p for p in plan.check() if p.severity == "error"]
    released = plan.run(seed=1).masked.frame
    assert released["A"].cast(str).to_list() == ["1", "1", "2"]
    assert released["B"].cast(str).to_list() == ["9", "9", "8"]
    # The paths stay as they were written: no folder of the owner's enters a report.
    assert plan.steps[0].hierarchy == "codes/jobs.csv"


@pytest.mark.parametrize(("code", "value"), [("bottom", 0), ("top", 0)])
def test_a_code_of_zero_is_a_code(code: str, value: int) -> None:
    """0 is no absence: a plan that says `bottom = 0` means it."""
    plan = Plan.loads(f"[variables]\nPAY = {{ {code} = {value} }}")
    data = plan.with_schema_of(sf.Microdata(pl.DataFrame({"PAY": [-5, 0, 5]})))
    assert getattr(data.schema["PAY"], code) == 0


def test_bottom_coded_zeros_stay_where_they_are() -> None:
    """The demo's plan promises it of INCOME; it moved 120 of 3,000 zeros."""
    from sfumato.cli.demo import PLAN

    plan = Plan.loads(PLAN)
    deck = sf.decks.housing()
    sample = sf.Microdata(deck.frame.head(3_000))  # without the deck's own schema: the plan must say it
    run = plan.run(sample, seed=1, measure=False)
    before, after = sample.frame["INCOME"], run.masked.frame["INCOME"]
    zero = before == 0
    assert zero.sum() > 100
    assert (after.filter(zero) == 0).all()
    assert (after != before).sum() > 500
