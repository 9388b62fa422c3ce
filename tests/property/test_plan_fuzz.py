"""Whatever a plan's text says, the parser answers with problems, never with a traceback."""

from __future__ import annotations

import contextlib
import tomllib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato.errors import SfumatoError
from sfumato.plan import source as plan_source
from sfumato.plan.partly import read_plan
from sfumato.plan.plan import Plan

GOOD = """\
format = 1
data = "people.parquet"
[roles]
keys = ["AREA"]
[variables.INCOME]
missing = [-9, { from = -99, to = -90 }]
[[step]]
mask = "random_swap"
columns = ["INCOME"]
rate_percent = 20
[[measure]]
measure = "information_loss"
[limits]
information_loss.il1 = { at_most = 2.0 }
[release]
drop = ["ID"]
"""

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(max_size=200))
@example("\x00")
@example("[" * 50)
@example("a.b = 1\na = 2")
def test_any_text(text: str) -> None:
    plan, problems = read_plan(text)
    assert plan is not None or problems


@given(st.integers(0, len(GOOD)), st.integers(0, 20), st.text(max_size=6))
@settings(max_examples=200)
def test_a_damaged_plan(at: int, cut: int, more: str) -> None:
    text = GOOD[:at] + more + GOOD[at + cut :]
    plan, problems = read_plan(text)
    assert plan is not None or problems
    total = len(text.splitlines()) + 1
    assert all(0 <= p.line <= total for p in problems)


@given(
    st.sampled_from(
        ["format", "data", "read", "roles", "variables", "step", "measure", "limits", "release", "odd"]
    ),
    st.sampled_from([(), ("keys",), ("INCOME",), (0,), (0, "columns"), (0, "rate_percent"), ("drop",)]),
    values,
)
@settings(max_examples=200)
def test_any_value_anywhere(key: str, path: tuple[str | int, ...], value: object) -> None:
    content = tomllib.loads(GOOD)
    place: object = content
    full = (key, *path)
    try:
        for part in full[:-1]:
            place = place[part]  # type: ignore[index]
        place[full[-1]] = value  # type: ignore[index]
        text = plan_source.dump(content)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return  # such a value can't stand there in TOML at all
    with contextlib.suppress(SfumatoError):
        Plan.loads(text)
