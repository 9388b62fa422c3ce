"""What ``init`` says of columns that nothing is known of, and how it looks for unsafe files."""

from __future__ import annotations

import datetime as dt
import random

import polars as pl

import sfumato as sf
from sfumato.plan.suggest.roles import plan_text, suggest


def people(n: int = 400) -> pl.DataFrame:
    rng = random.Random(3)
    born = [dt.date(1930, 1, 1) + dt.timedelta(days=rng.randrange(25_000)) for _ in range(n)]
    return pl.DataFrame(
        {
            "ID": range(1, n + 1),
            "SEX": [rng.choice("MF") for _ in range(n)],
            "NASC": [f"{d:%d/%m/%Y}" for d in born],
            "BORN": born,
            "REMARK": [rng.choice(["", "x", "y"]) for _ in range(n)],
            "VISIT": [dt.date(2024, 1, 1 + k % 3) for k in range(n)],
            "INCOME": [round(rng.lognormvariate(9, 1), 2) for _ in range(n)],
        }
    )


def test_nearly_unique_text_and_dates_are_not_released_unasked() -> None:
    found = suggest(people())
    assert found.drop == ("ID", "NASC")
    assert "nearly every record has its own value" in found.reasons["NASC"][-1]
    # A column that is only left out of the roles is named.
    assert "VISIT" in found.no_role
    text = plan_text("people.csv", found)
    assert "#   NASC: no role" in text
    assert 'drop = ["ID", "NASC"]' in text
    run = sf.Plan.loads(text).run(people(), seed=1)
    assert run.warnings == []
    # A day of birth is a key, and no more than its year is released.
    assert "BORN" in found.schema.keys
    assert run.masked.frame["BORN"].n_unique() == len({d.year for d in people()["BORN"]})


def test_a_first_plan_attacks_where_that_is_quick() -> None:
    text = plan_text("people.csv", suggest(people()))
    plan = sf.Plan.loads(text)
    attack = next(m for m in plan.measures if m.name == "distance_linkage")
    assert attack.known == ("INCOME",)
    assert "# distance_linkage.rate = { at_most = 0.10 }" in text
    # Its limit works as soon as its comment sign is taken away.
    strict = text.replace("# [limits]", "[limits]").replace(
        "# distance_linkage.rate", "distance_linkage.rate"
    )
    run = sf.Plan.loads(strict).run(people(), seed=1)
    assert [x.limit.measure for x in run.limits] == ["distance_linkage"]
    large = pl.concat([people()] * 260).with_columns(ID=pl.int_range(400 * 260) + 1)
    assert "distance_linkage" not in plan_text("people.csv", suggest(large))


def test_init_tells_what_is_dropped_and_what_has_no_role(tmp_path, monkeypatch, capsys) -> None:
    from sfumato.cli import main

    monkeypatch.chdir(tmp_path)
    people().write_csv("people.csv")
    assert main(["init", "people.csv", "--no-search"]) == 0
    shown = capsys.readouterr().out
    assert "not released: ID, NASC\n" in shown
    assert "no role:" in shown
