"""Edit rules: what must hold between the columns of a record, or between members of a household.

An edit is a comparison, perhaps with a condition::

    TAX <= INCOME
    WAGE == 0 if AGE < 16
    AGE[RELATION == 3] <= AGE[RELATION == 1] - 12

The last says of every two members of a household, one of relation 3 and one of relation 1, that the first is
twelve years younger. A side is a column, a number, or a column with a number added or taken away. What is
missing breaks nothing.

>>> edit = parsed("AGE[RELATION == 3] <= AGE[RELATION == 1] - 12")
>>> edit.members, sorted(edit.columns)
(2, ['AGE', 'RELATION'])
>>> str(parsed("TAX <= INCOME + 5").literals[0])
'TAX <= INCOME + 5'
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from sfumato.errors import SchemaError

Place: TypeAlias = tuple[str, int]
"""A column, and of which member (0 where an edit speaks of one record)."""

_WORDS: Final = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_NOT: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_BACK: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_HOW: Final = 'write "A <= B", "A == 0 if B < 16", or "A[R == 3] <= A[R == 1] - 12" between members'


@dataclass(frozen=True)
class Literal:
    """column ⋛ other + constant, or column ⋛ constant (a number or a text)."""

    left: Place
    relation: str
    right: Place | None
    constant: float | str

    def __str__(self) -> str:
        if self.right is None:
            return f"{self.left[0]} {self.relation} {self.constant!r}"
        add = float(self.constant)
        tail = "" if add == 0 else f" {'+' if add > 0 else '-'} {abs(add):g}"
        return f"{self.left[0]} {self.relation} {self.right[0]}{tail}"

    def negated(self) -> Literal:
        return Literal(self.left, _NOT[self.relation], self.right, self.constant)


@dataclass(frozen=True)
class Edit:
    """An edit as a clause: one of its literals must be true."""

    text: str
    literals: tuple[Literal, ...]
    members: int
    """1 where it speaks of one record, else how many members of a household it speaks of."""

    @property
    def columns(self) -> set[str]:
        return {p[0] for z in self.literals for p in (z.left, z.right) if p is not None}

    def __str__(self) -> str:
        return self.text


def parsed(text: str) -> Edit:
    """An edit from its text."""
    if not isinstance(text, str):
        raise SchemaError(f"an edit must be text, not {text!r}", hint=_HOW, parameter="edits")
    rule, _, condition = text.partition(" if ")
    reader = _Reader(text)
    made = reader.comparisons(rule, ast.Or)
    if condition:
        made += [z.negated() for z in reader.comparisons(condition, ast.And)]
    made += [z.negated() for own in reader.selectors for z in own]
    members = max(len(reader.selectors), 1)
    alone = len(made) == 1 and made[0].relation == "==" and made[0].right is not None and members == 1
    if alone and made[0].constant == 0:
        one, two = made[0].left[0], made[0].right[0]  # type: ignore[index]
        raise SchemaError(
            f"the edit {text!r} says that two columns are equal",
            hint=f'say `sum_of = ["{two}"]` under variables.{one}: then {one} follows {two}',
            parameter="edits",
        )
    return Edit(text, tuple(made), members)


class _Reader:
    """Reads comparisons; each different selector is a member of its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.seen: list[str] = []
        self.selectors: list[list[Literal]] = []

    def comparisons(self, text: str, join: type[ast.boolop]) -> list[Literal]:
        plain = re.sub(r"(?<![<>=!])=(?!=)", "==", text.strip())
        try:
            tree = ast.parse(plain, mode="eval").body
        except SyntaxError:
            raise self._wrong(f"{text.strip()!r} is no comparison") from None
        parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, join) else [tree]
        return [z for part in parts for z in self._comparison(part)]

    def _comparison(self, node: ast.expr) -> list[Literal]:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in _WORDS:
            raise self._wrong("it has something that is no comparison of two sides")
        relation = _WORDS[type(node.ops[0])]
        left, add, right, more = *self._side(node.left), *self._side(node.comparators[0])
        if left is None and right is None:
            raise self._wrong("it compares no column")
        if left is None:
            left, right, add, more, relation = right, left, more, add, _BACK[relation]
        assert left is not None
        if isinstance(add, str) or (right is not None and isinstance(more, str)):
            raise self._wrong("it adds text to a column")
        return [Literal(left, relation, right, more if isinstance(more, str) else more - add)]

    def _side(self, node: ast.expr) -> tuple[Place | None, float | str]:
        """A column (None for a constant) and what is added to it."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
            return None, node.value if isinstance(node.value, str) else float(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            where, value = self._side(node.operand)
            if where is None and not isinstance(value, str):
                return None, -value
        if isinstance(node, ast.Name):
            return (node.id, 0), 0.0
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return (node.value.id, self._member(node.slice)), 0.0
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            where, value = self._side(node.left)
            other, step = self._side(node.right)
            if other is None and not isinstance(value, str) and not isinstance(step, str):
                return where, value + (step if isinstance(node.op, ast.Add) else -step)
        raise self._wrong("a side is a column, a number, or a column with a number added")

    def _member(self, node: ast.expr) -> int:
        key = ast.dump(node)
        if key not in self.seen:
            self.seen.append(key)
            self.selectors.append([])
            at = len(self.seen) - 1
            parts = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
            own = [z for part in parts for z in self._comparison(part)]
            if any(z.right is not None for z in own):
                raise self._wrong("a selector compares a column with a number or a text")
            self.selectors[at] = [Literal((z.left[0], at), z.relation, None, z.constant) for z in own]
        return self.seen.index(key)

    def _wrong(self, why: str) -> SchemaError:
        return SchemaError(f"the edit {self.text!r} can't be read: {why}", hint=_HOW, parameter="edits")
