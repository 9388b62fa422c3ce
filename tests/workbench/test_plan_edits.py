"""Changes of a plan's text: the meaning is exact, and the person's comments stay."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.plan.plan import Plan
from sfumato.workbench import edits

PLAN = """# head
format = 1
data = "x.csv"

[roles]
# why these
keys = ["AGE", "SEX"]  # two
id = "ID"

# first one,
# in two lines
[[step]]
id = "a"
mask = "recode"  # hm
column = "AGE"
width = 5

# second
[[step]]
id = "b"
mask = "rank_swap"
columns = ["INC"]
window_percent = 5

[[measure]]
measure = "tolerance"

# limits
[limits]
battery.rate = { at_most = 0.05 }

[release]
drop = ["ID"]
"""


def comments(text: str) -> list[str]:
    return [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]


@pytest.mark.parametrize(
    "new",
    [
        edits.set_role(PLAN, "ID", "keys"),
        edits.set_role(PLAN, "REGION", "geography"),
        edits.set_detail(PLAN, "INC", "top", 100),
        edits.set_drop(PLAN, "INC", True),
        edits.set_limit(PLAN, "battery", "group", "at_least", 3),
        edits.set_limit(PLAN, "battery", "rate", "at_most", 0.1),
        edits.switch(PLAN, 0, False),
        edits.set_parameters(PLAN, "step", 1, {"window_percent": 8, "keep_zeros": True}),
        edits.add(PLAN, "step", {"id": "c", "mask": "random_swap", "columns": ["INC"], "rate_percent": 5}, 1),
        edits.move(PLAN, 0, 1),
        edits.move(PLAN, 1, 0),
    ],
)
def test_a_change_keeps_every_comment(new: str) -> None:
    assert new != PLAN
    assert sorted(comments(new)) == sorted(comments(PLAN))
    Plan.loads(new)


def test_comments_go_with_their_step() -> None:
    moved = edits.move(PLAN, 1, 0)
    assert (
        moved.index("# second")
        < moved.index('id = "b"')
        < moved.index("# first one")
        < moved.index('id = "a"')
    )
    removed = edits.remove(PLAN, "step", 0)
    assert "# first one" not in removed
    assert "# second" in removed


def test_a_step_that_is_off_stays_in_the_text_and_not_in_the_plan() -> None:
    off = edits.switch(PLAN, 0, False)
    plan = Plan.loads(off)
    assert [s.id for s in plan.steps] == ["b"]
    # What it says is what it does: the hash is that of the plan without the step.
    assert plan.hash() == Plan.loads(edits.remove(PLAN, "step", 0)).hash()
    assert edits.switch(off, 0, True) == PLAN


def test_the_mistakes_of_a_step_that_is_off_are_told() -> None:
    text = edits.switch(PLAN, 0, False).replace("width = 5", 'width = "wide"')
    with pytest.raises(Exception, match="width"):
        Plan.loads(text)
    with pytest.raises(Exception, match="`off` must be true or false"):
        Plan.loads(PLAN.replace("width = 5", "width = 5\noff = 3"))


def test_a_role_is_one_role() -> None:
    new = edits.set_role(PLAN, "AGE", "sensitive")
    roles = tomllib.loads(new)["roles"]
    assert roles == {"keys": ["SEX"], "id": "ID", "sensitive": ["AGE"]}
    assert "AGE" not in str(tomllib.loads(edits.set_role(new, "AGE", None))["roles"])


def test_a_limit_written_with_quotes_is_replaced() -> None:
    text = PLAN.replace("battery.rate = ", '"battery.rate" = ')
    new = edits.set_limit(text, "battery", "rate", "at_most", 0.2)
    assert [(x.figure, x.at_most) for x in Plan.loads(new).limits] == [("rate", 0.2)]


A = 'id = "a"\nmask = "recode"\ncolumn = "A"\n'
B = '[[step]]\nid = "b"\nmask = "recode"\ncolumn = "B"\nwidth = 3\n'
INLINE = '{ id = "%s", mask = "recode", column = "%s", width = 2 }'
ODD_WAYS = [
    f"step = [{INLINE % ('a', 'A')}, {INLINE % ('b', 'B')}]\n",
    f"[[step]]\n{A}width = 2\n[limits]\n{B}",
    f'[[step]]\n{A}[step.mapping]\n1 = "x"\n{B}',
    f'[[step]]\nid = "a"\nmask = "recode"\ncolumn = """\n[[step]]\n"""\nwidth = 2\n\n{B}',
]


@pytest.mark.parametrize("text", ODD_WAYS)
def test_odd_ways_of_writing_keep_their_meaning(text: str) -> None:
    before = tomllib.loads(text)["step"]
    assert tomllib.loads(edits.move(text, 0, 1))["step"] == before[::-1]
    assert tomllib.loads(edits.remove(text, "step", 0))["step"] == before[1:]
    more = {"id": "c", "mask": "recode", "column": "C", "width": 4}
    assert tomllib.loads(edits.add(text, "step", more, 1))["step"] == [before[0], more, before[1]]
    assert tomllib.loads(edits.switch(text, 1, False))["step"][1] == {**before[1], "off": True}
    assert tomllib.loads(edits.set_parameters(text, "step", 1, {"width": 9}))["step"][1]["width"] == 9


@given(
    moves=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8),
    names=st.lists(st.text(min_size=1, max_size=6), min_size=6, max_size=6, unique=True),
)
def test_moves_of_steps_are_moves_of_a_list(moves: list[tuple[int, int]], names: list[str]) -> None:
    text, wanted = "format = 1\n", []
    for name in names:
        table = {"id": f"s{len(wanted)}", "mask": "recode", "column": name, "width": 2}
        text = edits.add(text, "step", table)
        wanted.append(table)
    for at, to in moves:
        text = edits.move(text, at, to)
        wanted.insert(to, wanted.pop(at))
    assert tomllib.loads(text)["step"] == wanted


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=8), st.sampled_from(["keys", "sensitive", "id", None])),
        max_size=12,
    )
)
def test_any_name_can_have_any_role(said: list[tuple[str, str | None]]) -> None:
    text, held = "format = 1\n", {}
    for column, role in said:
        text = edits.set_role(text, column, role)
        if role == "id":
            held = {c: r for c, r in held.items() if r != "id"}
        held[column] = role
    roles = tomllib.loads(text).get("roles", {})
    listed = {
        c: r for r, columns in roles.items() for c in ([columns] if isinstance(columns, str) else columns)
    }
    assert listed == {c: r for c, r in held.items() if r is not None}
