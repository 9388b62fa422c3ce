"""A file as a notebook shows it: roles, columns, the first records with sensitive values hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.drawing.face import Html, face, facts, paragraph, table

if TYPE_CHECKING:
    from sfumato.data.schema import Schema

HIDDEN = Html('<span class="soft">•••</span>')
MOST_COLUMNS = 60
MOST_SHOWN = 14


class Shown:
    """A piece of HTML that a notebook shows."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return "Shown(in a notebook)"


def face_of(data: Any, rows: int, *, hidden: bool) -> str:
    """``data`` is a Microdata (which this room is below)."""
    schema: Schema = data.schema
    names = data.columns
    roles = {r: v for r, v in schema.to_dict()["roles"].items() if v}
    secret = {schema.id, schema.household, *schema.sensitive} if hidden else set()
    first = data.head(rows)
    shown = [c for c in names if c in first.columns][:MOST_SHOWN]
    values = [
        [at, *(HIDDEN if c in secret else _plain(first[c][at]) for c in shown)] for at in range(first.height)
    ]
    note = ""
    if hidden and secret - {None}:
        note = "Ids and sensitive values are hidden; show(hidden=False) shows them."
    elif hidden:
        note = "No roles are set, so nothing is hidden: with_roles(keys=[…], sensitive=[…])."
    columns = [
        [
            c,
            schema.role_of(c) or "",
            data.kind(c),
            str(data.dtype(c)),
            schema[c].label or "",
            _codes(schema, c),
        ]
        for c in names
    ]
    more = f"{len(names) - len(shown)} more columns aren't shown here." if len(names) > len(shown) else ""
    return face(
        Html(f"<p><b>{len(data):,} records × {len(names)} columns</b></p>"),
        facts({role: value for role, value in roles.items()}),
        Html(
            "<details><summary>Columns</summary>"
            + table(["column", "role", "kind", "type", "label", "codes"], columns, most=MOST_COLUMNS)
            + "</details>"
        ),
        table(["", *shown], values),
        paragraph(f"{note} {more}".strip(), "soft") if note or more else "",
    )


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _codes(schema: Schema, column: str) -> str:
    variable = schema[column]
    said = [
        f"{word} {getattr(variable, word):g}"
        for word in ("top", "bottom")
        if getattr(variable, word) is not None
    ]
    if variable.missing:
        said.append(f"missing {', '.join(str(m) for m in variable.missing[:4])}")
    if variable.sum_of:
        said.append(f"= {' + '.join(variable.sum_of)}")
    return "; ".join(said)
