"""How a delimited release is written: with the delimiter and decimal sign of its input, in UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.io.dialect import Spoken, spoken

if TYPE_CHECKING:
    from sfumato.run.run import Run

_SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}


def released_dialect(run: Run) -> Spoken | None:
    """How a delimited release is written: as its input, where that is delimited too."""
    format_, plan = run.plan.release.format, run.plan
    if format_ not in ("csv", "tsv"):
        return None
    plain_one = Spoken("\t" if format_ == "tsv" else ",")
    found = None if plan.data_path is None else spoken(plan.data_file(), plan.read_options)
    if found is None or (format_ == "tsv" and found.delimiter != "\t"):
        return plain_one
    return found


def how_written(run: Run) -> str:
    """The dialect of a delimited release in words; nothing of other formats."""
    dialect = released_dialect(run)
    if dialect is None:
        return ""
    sign = _SIGNS.get(dialect.delimiter, repr(dialect.delimiter))
    decimal = "a decimal comma" if dialect.decimal == "," else "a decimal point"
    was = f" (the input was in {dialect.encoding})" if dialect.encoding not in ("UTF-8", "UTF-8-SIG") else ""
    return f"{run.plan.release.format}, {sign} between values, {decimal}, UTF-8{was}"


def signs(run: Run) -> dict[str, Any]:
    """Delimiter and decimal sign of a delimited release: those of its input."""
    dialect = released_dialect(run)
    return {} if dialect is None else {"delimiter": dialect.delimiter, "decimal": dialect.decimal}


def dialect_told(run: Run) -> dict[str, Any]:
    """The dialect of a delimited release, and what of its input's it changed."""
    dialect = released_dialect(run)
    if dialect is None:
        return {}
    said = {"delimiter": dialect.delimiter, "decimal": dialect.decimal, "encoding": "UTF-8"}
    if dialect.encoding not in ("UTF-8", "UTF-8-SIG"):
        said["changed"] = f"the encoding, which was {dialect.encoding}"
    return {"dialect": said}
