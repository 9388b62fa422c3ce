"""The verdict on a run: safe only by limits on risk that were set, measured and met."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.plan.audience import AUDIENCES, PUBLIC, RESEARCH, audience
from sfumato.run.exposure import judged_rate, least_group
from sfumato.run.verdict import NO_LIMITS, NOT_SAFE, SAFE


def people(n: int = 400, seed: int = 1) -> sf.Microdata:
    rng = np.random.default_rng(seed)
    wage = np.round(np.exp(rng.normal(8, 1, n)), 2)
    frame = pl.DataFrame(
        {
            "SEX": rng.choice(["f", "m"], n),
            "AREA": rng.choice(["n", "s"], n),
            "WAGE": wage,
            "RENT": wage[::-1],
        }
    )
    return sf.Microdata(frame, sf.Schema(keys=["SEX", "AREA"], sensitive=["WAGE", "RENT"]))


def blurred(data: sf.Microdata) -> sf.Mask:
    """Numbers that say next to nothing: two means for all."""
    return sf.Microaggregate(columns=["WAGE", "RENT"], k=len(data) // 2)


def test_without_limits_nothing_is_safe_and_the_default_limits_say_why() -> None:
    data = people()
    verdict = sf.Plan().run(data).verdict
    assert (verdict.safe, verdict.head) == (False, NO_LIMITS)
    assert verdict.text.startswith(
        "no limits set: by the default limits of a public file this is not safe, because"
    )
    assert "no attack was run" in verdict.text
    assert "`sfumato protect`" in verdict.text


def test_a_limit_on_loss_alone_is_no_limit_on_risk() -> None:
    plan = sf.Plan(
        measures=[sf.InformationLoss(columns=["WAGE"])], limits={"information_loss.s0": {"at_most": 1.0}}
    )
    assert plan.run(people()).verdict.head == NO_LIMITS


def test_a_count_of_keys_alone_is_not_enough() -> None:
    """k = 50 holds, and every wage is released as it was."""
    plan = sf.Plan(measures=[sf.KAnonymity(k=10)], limits={"k_anonymity.value": {"at_most": 0}})
    run = plan.run(people())
    assert run.ok
    assert run.verdict.head == NOT_SAFE
    assert "no limit is set on what an attack finds" in run.verdict.text


ATTACK: dict[str, Any] = {
    "measures": [sf.DistanceLinkage(known=["WAGE", "RENT"], block_on=["SEX", "AREA"])],
    "limits": {"distance_linkage.rate": {"at_most": 0.05}},
}


def test_limits_that_hold_make_it_safe() -> None:
    data = people()
    verdict = sf.Plan(steps=[blurred(data)], **ATTACK).run(data, seed=1).verdict
    assert (verdict.safe, verdict.head, verdict.do) == (True, SAFE, ())
    assert verdict.text.startswith("safe by the limits you set: distance_linkage.rate is")


def test_limits_that_fail_make_it_unsafe() -> None:
    verdict = sf.Plan(**ATTACK).run(people(), seed=1).verdict
    assert (verdict.safe, verdict.head) == (False, NOT_SAFE)
    assert "distance_linkage.rate is 1 (allowed: at most 0.05)" in verdict.text


def test_a_name_that_goes_out_is_never_safe() -> None:
    data = people()
    named = data.with_columns({"NAME": pl.Series([f"person {i}" for i in range(len(data))])})
    run = sf.Plan(steps=[blurred(data)], **ATTACK).run(named, seed=1)
    assert run.ok
    assert not run.verdict.safe
    assert "nearly every record has its own value of NAME" in run.verdict.text
    dropped = sf.Plan(steps=[blurred(data)], release={"drop": ["NAME"]}, **ATTACK).run(named, seed=1)
    assert dropped.verdict.safe


def test_limits_on_the_battery_need_no_measure() -> None:
    data = people()
    text = """
    format = 1
    [limits]
    battery.rate = { at_most = 0.05 }
    battery.gain = { at_most = 0.1 }
    battery.group = { at_least = 3 }
    """
    plan = sf.Plan.loads(text)
    assert sf.Plan.loads(plan.to_toml()) == plan
    bare = plan.run(data, seed=1)
    assert [x.ok for x in bare.limits] == [False, False, True]
    assert bare.results["battery"].rate == 1.0
    assert bare.results["battery"].gain > 0.9
    held = sf.Plan(steps=[blurred(data)], limits=plan.limits).run(data, seed=1)
    assert held.verdict.safe, held.verdict.text


def test_a_figure_that_the_battery_has_not_is_refused() -> None:
    with pytest.raises(sf.PlanError, match="no figure 'rates'"):
        sf.Plan.loads("format = 1\n[limits]\nbattery.rates = { at_most = 0.05 }")


def test_the_least_group_is_counted_where_nothing_was_dealt() -> None:
    data = sf.Microdata(pl.DataFrame({"A": list("xxxyyz"), "B": list("pppppq")}), sf.Schema(keys=["A", "B"]))
    least, proved, how = least_group(data, data, [], [])
    assert (least, proved) == (1, False)
    assert "1" in how
    assert least_group(data, data, [], ["A"])[0] == 1
    assert least_group(data, data, [], ["A", "B"])[0] == 6


@pytest.mark.parametrize(
    ("measured", "group", "judged"),
    [
        (0.04, 20, 0.04),  # below what is proved
        (0.055, 20, 0.05),  # 0.05 + 3 · sqrt(.05 · .95 / 4000) = .0603
        (0.0605, 20, 0.0605),  # above it by more than luck: the attack counts
        (0.055, None, 0.055),  # nothing is proved
    ],
)
def test_a_proof_bears_the_luck_of_a_sample_and_no_more(
    measured: float, group: int | None, judged: float
) -> None:
    result = SimpleNamespace(value=measured, figures={"attacked": 4_000})
    battery: Any = SimpleNamespace(strongest=SimpleNamespace(result=result, label="attack"))
    assert judged_rate(battery, group)[0] == judged


def test_the_terminal_and_json_lead_with_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = people()
    data.frame.write_csv(tmp_path / "people.csv")
    plan = tmp_path / "plan.toml"
    roles = '[roles]\nkeys = ["SEX", "AREA"]\nsensitive = ["WAGE", "RENT"]\n'
    step = f'[[step]]\nmask = "microaggregate"\ncolumns = ["WAGE", "RENT"]\nk = {len(data) // 2}\n'
    limits = (
        '[[measure]]\nmeasure = "distance_linkage"\nknown = ["WAGE", "RENT"]\nblock_on = ["SEX", "AREA"]\n'
        "[limits]\ndistance_linkage.rate = { at_most = 0.05 }\n"
    )
    for content, safe in ((roles + step + limits, True), (roles + step, False)):
        plan.write_text(f'format = 1\ndata = "people.csv"\n{content}')
        out = tmp_path / f"release-{safe}"
        assert main(["run", str(plan), "--out", str(out), "--quiet"]) == 0
        said = capsys.readouterr().out
        assert said.startswith("VERDICT: SAFE BY THE LIMITS YOU SET" if safe else "VERDICT: NO LIMITS SET")
        assert ("(for handing out)" in said) == safe
        assert ("NOT cleared for handing out" in said) == (not safe)
        html = (out / "internal" / "report.html").read_text(encoding="utf-8")
        assert ("✓ safe by the limits you set" in html) == safe
        public = (out / "public" / "report.html").read_text(encoding="utf-8")
        assert ("✓ safe by the limits that were set" in public) == safe
        assert ("not cleared for handing out" in public) == (not safe)
        assert main(["run", str(plan), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["verdict"]
        assert found["safe"] == safe


def test_every_limit_of_an_audience_has_a_source_and_ours_is_marked() -> None:
    for one in AUDIENCES.values():
        named = {"group", "rate", "gain"} | ({"area"} if one.area else set())
        assert set(one.sources) == named
        assert one.sources["gain"].startswith("ours")
    assert (PUBLIC.group, PUBLIC.rate, PUBLIC.gain) == (10, 0.05, 0.10)
    assert (RESEARCH.group, RESEARCH.rate, RESEARCH.gain) == (3, 0.10, 0.25)
    assert PUBLIC.with_limits(rate=0.02).sources["rate"] == "set by you"
    with pytest.raises(sf.SfumatoError, match="there are no limits for 'pubic'"):
        audience("pubic")


def test_a_file_of_categories_alone_is_attacked_whole() -> None:
    """Every attack of the battery runs where there is no number to compare."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({c: rng.choice(list("abcdef"), 300) for c in ("A", "B", "C", "D")})
    data = sf.Microdata(frame, sf.Schema(keys=["A", "B", "C"], sensitive=["D"]))
    masked = sf.Pram(columns=["A", "D"], keep_probability=0.6).mask(data, seed=1)
    tried = sf.run_battery(data, masked).tried
    assert [t.label for t in tried if t.result is None] == []
    assert max(t.result.value for t in tried if t.result is not None) > 0.1


def test_the_board_sees_class_sizes_and_groups_counted_by_hand(tmp_path: Path) -> None:
    """30 records alike, and 20 of area s that are alone with their age."""
    frame = pl.DataFrame({"AREA": ["n"] * 30 + ["s"] * 20, "AGE": [40] * 30 + list(range(20))})
    data = sf.Microdata(frame, sf.Schema(keys=["AREA", "AGE"]))
    run = sf.Plan(steps=[sf.Recode(column="AGE", width=100)]).run(data)
    sizes = {r["size"]: (r["before"], r["after"]) for r in run.board["sizes"]}
    assert sizes["1"] == (0.4, 0.0)
    assert sizes["20 and more"] == (0.6, 1.0)
    assert run.board["groups"][0] == {"group": "AREA = s", "records": 20, "before": 1.0, "after": 0.0}
    release = run.release(tmp_path / "release")
    assert "For the review board" in (release.internal / "report.html").read_text(encoding="utf-8")
    assert "For the review board" not in release.report.read_text(encoding="utf-8")


def test_dealt_categories_alone_are_judged_too() -> None:
    """A shuffle of a file without numbers: the attacks that learn run, and the bound holds."""
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({c: rng.choice(list("abcdef"), 240) for c in ("A", "B", "C", "D")})
    data = sf.Microdata(frame, sf.Schema(keys=["A", "B", "C"], sensitive=["D"]))
    plan = sf.Plan(
        steps=[sf.ClusterShuffle(columns=list("ABCD"), smallest=20, blind=[])],
        limits={"battery.rate": {"at_most": 0.05}},
    )
    found = plan.run(data, seed=1).results["battery"]
    assert found.group >= 20
    assert found.measured <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 240)


def test_a_rate_that_is_proved_isnt_called_measured() -> None:
    """Judged by the bound of 5%, with 6% found in one sample: both are said."""
    from sfumato.run.run import judged_limits

    limits = sf.Plan.loads("format = 1\n[limits]\nbattery.rate = { at_most = 0.05 }").limits

    def outcome(rate: float, measured: float) -> str:
        found = sf.Result(
            rate, figures={"rate": rate, "measured": measured}, name="battery", measure="battery"
        )
        return judged_limits(limits, sf.Results([found]))[0].text

    assert "holds, at most 0.05 by proof (measured 0.06, within its sampling error)" in outcome(0.05, 0.06)
    assert outcome(0.04, 0.04).endswith("holds, measured 0.04")
    assert "fails" in outcome(float("nan"), float("nan"))
