"""The text of a first plan: what was suggested, a default step, and a comment on each line's reason."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from sfumato.data.schema import SINGLE_ROLES, Range, Variable
from sfumato.errors import SfumatoError
from sfumato.plan.suggest.design import REPLICATES

if TYPE_CHECKING:
    from sfumato.plan.suggest.suggestion import Suggestion

_BARE: Final = re.compile(r"^[A-Za-z0-9_-]+$")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_WIDTH: Final = 100
_RELEASE_FORMATS: Final = {
    ".csv": "csv", ".gz": "csv", ".txt": "csv", ".dat": "csv", ".raw": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".xlsx": "xlsx", ".xlsm": "xlsx", ".xlsb": "xlsx", ".xls": "xlsx", ".ods": "xlsx", ".arrow": "arrow",
    ".rds": "csv", ".rdata": "csv", ".rda": "csv",
    ".feather": "arrow", ".ipc": "arrow", ".sav": "sav", ".zsav": "sav", ".dta": "dta", ".asc": "asc",
}  # fmt: skip
_ROLE_NOTES: Final = {
    "id": "tells records apart; never released",
    "keys": "what somebody may know of a person: risk is counted on these",
    "sensitive": "what nobody should learn about a person: these are masked",
    "geography": "areas, coarse to fine",
    "household": "records of one household share it",
    "weight": "how many people a record stands for",
    "strata": "",
}
_DETAILS: Final = ("kind", "missing", "top", "bottom", "unit", "sum_of", "residual", "ratio_of", "times",
                    "lies_in")  # fmt: skip
_MOST_REASONS: Final = 12
_WIDE: Final = 60
_LEAST_FAMILY: Final = 4
_NUMBERED: Final = re.compile(r"^(.*?)_?\d+$")
_WINDOW_PERCENT: Final = 5
_RATE_PERCENT: Final = 10
_MOST_ATTACKED: Final = {0: 20_000, 3: 100_000}
"""Up to how many records an attack is quick, by the least number of keys that he looks among."""
_SWAP: Final = f"{_RATE_PERCENT}% of the records exchange these values, pairwise at random"


def plan_text(
    data_path: str | os.PathLike[str],
    suggestion: Suggestion,
    *,
    work: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    audience: str | None = None,
) -> str:
    """A commented plan (TOML) for a data file, from what was suggested for it.

    ``data_path`` is written as it is given; a plan reads it relative to its own folder. ``work`` are the
    lines of steps, measures and limits that were found for the file (by default a first step of each kind),
    ``drop`` more columns that aren't released, ``audience`` whom the release is for.
    """
    path = PurePath(data_path)
    lines = [
        f"# A first plan for {comment(path.name)}: {suggestion.records:,} records, "
        f"{len(suggestion.types):,} columns.",
        "# Everything below is a suggestion, with its reason. Read it, mend it, then:",
        "#   sfumato check THIS_FILE      finds mistakes",
        "#   sfumato run THIS_FILE --out DIR   masks the data and writes the release",
        "",
        "format = 1",
        *([f"for = {quoted(audience)}"] if audience else []),
        f"data = {quoted(path.as_posix())}",
        "",
        *_roles(suggestion, work is not None),
        *_variables(suggestion),
        *([*_steps(suggestion), *_measures(suggestion)] if work is None else work),
        *_release(path, suggestion, drop),
    ]
    return "\n".join(lines).rstrip() + "\n"


# -- TOML -----------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A TOML basic string.

    >>> print(quoted("marital status"))
    "marital status"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """A TOML key: bare where it may be, quoted otherwise."""
    return name if _BARE.match(name) else quoted(name)


def comment(text: str) -> str:
    """Text that can stand in a comment: control characters (line ends too) are shown, not used."""
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", text)


def value(content: Any) -> str:
    """A TOML value."""
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, str):
        return quoted(content)
    if isinstance(content, Range):
        content = content.to_dict()
    if isinstance(content, Mapping):
        return "{ " + ", ".join(f"{key(str(k))} = {value(v)}" for k, v in content.items()) + " }"
    if isinstance(content, (list, tuple)):
        parts = [value(v) for v in content]
        flat = f"[{', '.join(parts)}]"
        if len(flat) <= _WIDTH:
            return flat
        return "[\n" + "".join(f"    {line}\n" for line in _filled(parts)) + "]"
    return repr(content)


def _filled(parts: Sequence[str]) -> list[str]:
    """Several values a line, each with its comma."""
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > _WIDTH - 6:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{part},"
    return lines


def _commented(texts: Iterable[str], indent: str = "# ") -> list[str]:
    return [f"{indent}{comment(t)}" for t in texts if t]


# -- the parts of a plan --------------------------------------------------------------------------


def _roles(found: Suggestion, searched: bool) -> list[str]:
    out = ["[roles]"]
    schema = found.schema
    for role, note in _ROLE_NOTES.items():
        said = getattr(schema, role)
        if not said:
            if role in SINGLE_ROLES or role in ("keys", "sensitive"):
                out.append(f"# {role}: none was found ({note})")
            continue
        columns = [said] if isinstance(said, str) else list(said)
        out += _commented([f"{role}: {note}" if note else role])
        out += _reasons(found, columns)
        out.append(f"{role} = {value(said if isinstance(said, str) else list(said))}")
    for part, columns_of in found.design.items():
        done = "the steps below say what is done to them" if searched else "released as they are"
        if searched and part == REPLICATES:
            done = "not released: they show who is in one cluster, and don't go with dealt records"
        out += _wrapped(f"{part}: {together(columns_of)} (no role; {done})")
    for fine, coarse in found.nested.items():
        out += _wrapped(f"{', '.join(coarse)}: coarser codes of {fine}, which move with it (`lies_in`)")
    for note in found.notes:
        out += _wrapped(note)
    if found.no_role:
        dealt = "the steps below say what is done to them" if searched else "they are released as they are"
        out += _wrapped(f"no role was found for {together(found.no_role)}: {dealt}")
    return [*out, ""]


def _reasons(found: Suggestion, columns: Sequence[str]) -> list[str]:
    """Why each column has its role: a line a column where they are few, a line a reason where many."""
    told = [c for c in columns if c in found.reasons]
    if len(told) <= _MOST_REASONS:
        return _commented((f"{c}: {'; '.join(found.reasons[c])}" for c in told), "#   ")
    groups: dict[str, list[str]] = {}
    for c in told:
        # "12 values" and "900 values" are one reason.
        groups.setdefault(re.sub(r"[:;] [\d,]+ (values|of them).*", "", found.reasons[c][0]), []).append(c)
    return [line for why, those in groups.items() for line in _wrapped(f"{why}: {together(those)}", "#   ")]


def together(names: Sequence[str]) -> str:
    """Names in a row, numbered families as their ends.

    >>> together(["WT1", "WT2", "WT3", "WT4", "SEX"])
    'WT1 … WT4 (4), SEX'
    """
    families: dict[str, list[str]] = {}
    for name in names:
        match = _NUMBERED.match(name)
        families.setdefault(match[1] if match else f"\0{name}", []).append(name)
    out = []
    for those in families.values():
        if len(those) >= _LEAST_FAMILY:
            out.append(f"{those[0]} … {those[-1]} ({len(those)})")
        else:
            out += those
    return ", ".join(out)


def _variables(found: Suggestion) -> list[str]:
    """A line a column; in a file of many columns those of the same details stand together."""
    rows: list[tuple[str, str, str]] = []
    for column in found.types:
        variable: Variable = found.schema[column]
        details = {n: getattr(variable, n) for n in _DETAILS if getattr(variable, n) not in (None, (), False)}
        if not details:
            continue
        reasons = found.reasons.get(column, ())
        reasons = reasons if found.schema.role_of(column) is None else reasons[1:]
        why = "; ".join([*([variable.label] if variable.label else []), *reasons])
        rows.append((key(column), value(details), why))
    if not rows:
        return []
    out = ["[variables]"]
    if len(found.types) <= _WIDE:
        for name, details_text, why in rows:
            out += [*_wrapped(why), f"{name} = {details_text}"] if why else [f"{name} = {details_text}"]
        return [*out, ""]
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, details_text, why in rows:
        plain = why if "sum_of" in details_text or "ratio_of" in details_text else ""
        groups.setdefault(f"{details_text}\0{plain}", []).append((name, details_text))
    for mark, those in groups.items():
        why = mark.partition("\0")[2]
        out += _wrapped(why) if why else []
        out += [f"{name} = {details_text}" for name, details_text in those]
    return [*out, ""]


def _wrapped(text: str, indent: str = "# ") -> list[str]:
    """A comment on as many lines as it needs."""
    lines = textwrap.wrap(comment(text), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"{indent}{'  ' if at else ''}{line}" for at, line in enumerate(lines)]


def _amounts(found: Suggestion) -> list[str]:
    """The sensitive numbers that a step masks: no codes, and no ratios, which follow by themselves."""
    schema, types = found.schema, found.types
    return [
        c for c in schema.sensitive
        if types[c].is_numeric() and schema[c].kind != "categorical" and c not in schema.ratios
    ]  # fmt: skip


def _steps(found: Suggestion) -> list[str]:
    schema = found.schema
    numbers = _amounts(found)
    texts = [c for c in schema.sensitive if c not in numbers and c not in schema.ratios]
    out: list[str] = []
    if numbers:
        out += _swap_numbers(found, numbers)
    if texts:
        table = {"id": "private", "mask": "random_swap", "columns": texts, "rate_percent": _RATE_PERCENT}
        out += _step(found, table, [_SWAP])
    if not out:
        out += _recode_keys(found)
    out = [*_years(found), *out]
    if not out:
        out += [
            "# No step could be suggested. For example:",
            "# [[step]]",
            '# mask = "random_swap"',
            '# columns = ["COLUMN"]',
            "# rate_percent = 10",
            "",
        ]
    return out


def _years(found: Suggestion) -> list[str]:
    """A day of birth finds nearly everybody; its year is what analysts use."""
    out: list[str] = []
    for day in (k for k in found.schema.keys if found.types[k].is_temporal()):
        out += _step(
            found,
            {"mask": "recode", "column": day, "period": "year"},
            [f"{comment(day)} has {found.distinct[day]:,} values; its year is enough for most analyses"],
        )
    return out


def _swap_numbers(found: Suggestion, numbers: list[str]) -> list[str]:
    why = [
        f"each value moves to a record whose rank is at most {_WINDOW_PERCENT}% of the records away:",
        "means stay, relations between columns nearly stay, single values don't",
    ]
    ranked = {"id": "amounts", "mask": "rank_swap", "columns": numbers, "window_percent": _WINDOW_PERCENT}
    done = _step(found, ranked, why)
    if done:
        return done
    in_sums = {c for total, parts in found.schema.sums.items() for c in (total, *parts)}
    tied = [c for c in numbers if c in in_sums]
    loose = [c for c in numbers if c not in in_sums]
    out: list[str] = []
    if loose:
        table = {"id": "amounts", "mask": "random_swap", "columns": loose, "rate_percent": _RATE_PERCENT}
        out += _step(found, table, [_SWAP])
    if tied:
        table = {"id": "sums", "mask": "random_swap", "columns": tied, "rate_percent": _RATE_PERCENT,
                 "together": True}  # fmt: skip
        out += _step(found, table, ["these add up, so they travel together"])
    return out


def _recode_keys(found: Suggestion) -> list[str]:
    """Nothing sensitive was found: coarsen a key with many values, else swap keys."""
    schema, types = found.schema, found.types
    keys = [k for k in schema.keys if k not in schema.geography]
    wide = [k for k in keys if types[k].is_integer() and found.distinct[k] > 20 and not schema[k].missing]
    if wide:
        table = {"id": "coarser", "mask": "recode", "column": wide[0], "width": 5}
        done = _step(
            found, table, [f"{wide[0]} has {found.distinct[wide[0]]} values; classes of 5 make fewer"]
        )
        if done:
            return done
    some = keys[:3] or list(schema.keys[:1]) or _any_column(found)
    if not some:
        return []
    table = {"id": "keys", "mask": "random_swap", "columns": some, "rate_percent": _RATE_PERCENT}
    return _step(found, table, ["nothing sensitive was found, so that some keys are swapped instead"])


def _any_column(found: Suggestion) -> list[str]:
    singles = {found.schema.id, found.schema.household, found.schema.weight, *found.drop}
    return [c for c, t in found.types.items() if c not in singles and found.distinct[c] and str(t) != "Null"][
        :1
    ]


def _step(found: Suggestion, table: dict[str, Any], why: list[str]) -> list[str]:
    """A [[step]] table, where the mask exists and finds no mistake in it."""
    from sfumato import registry

    cls = registry.masks().get(table["mask"])
    return _table(found, "step", "mask", cls, table, why)


def _measures(found: Suggestion) -> list[str]:
    from sfumato import registry

    there = registry.measures()
    schema = found.schema
    numbers = _amounts(found)
    keys = list(schema.keys[:5])
    out: list[str] = []
    if keys:
        table: dict[str, Any] = {"measure": "k_anonymity", "keys": keys}
        why = ["how many records share their keys with fewer than k − 1 others"]
        out += _table(found, "measure", "measure", there.get("k_anonymity"), table, why)
    if numbers:
        table = {"measure": "information_loss", "columns": numbers}
        why = ["how far means, variances and correlations move"]
        out += _table(found, "measure", "measure", there.get("information_loss"), table, why)
    return [*out, *_attack(found, numbers)]


def _attack(found: Suggestion, numbers: list[str]) -> list[str]:
    """A worst case, where it is quick: an intruder who has every original amount and the keys."""
    from sfumato import registry

    most = _MOST_ATTACKED[3 if len(found.schema.keys) >= 3 else 0]
    if not numbers or found.records > most:
        return []
    table: dict[str, Any] = {"measure": "distance_linkage", "known": numbers}
    if found.schema.keys:
        table["block_on"] = list(found.schema.keys)
    why = [
        "the worst case: somebody who has all these amounts as they were looks for the nearest record",
        "(`sfumato attack` tries stronger ones); a limit on it keeps an unsafe file from being released",
    ]
    out = _table(found, "measure", "measure", registry.measures().get("distance_linkage"), table, why)
    limit = ["# [limits]", "# distance_linkage.rate = { at_most = 0.10 }", ""]
    return [*out, *limit] if out else []


def _table(
    found: Suggestion, kind: str, word: str, cls: Any, table: dict[str, Any], why: list[str]
) -> list[str]:
    if cls is None:
        return []
    try:
        one = cls.from_dict({k: v for k, v in table.items() if k != word})
        if any(p.severity == "error" for p in one.check(found.schema, dict(found.types))):
            return []
    except SfumatoError:
        return []
    lines = [f"{name} = {value(content)}" for name, content in table.items()]
    return [*_commented(why), f"[[{kind}]]", *lines, ""]


def _release(path: PurePath, found: Suggestion, drop: Sequence[str]) -> list[str]:
    return [
        "[release]",
        "# ids and names go; a release gets new ids where it needs them",
        *_reasons(found, [c for c in found.drop if found.schema.role_of(c) is None]),
        f"drop = {value(list(dict.fromkeys([*found.drop, *drop])))}",
        "# the order of records could link the release to its source",
        "shuffle = true",
        *_format(path),
        "",
    ]


def _format(path: PurePath) -> list[str]:
    format_, said = release_format(path)
    return [*([f"# {said}"] if said else []), f"format = {value(format_)}"]


def release_format(path: PurePath) -> tuple[str, str]:
    """The release's format: the input's, or what it becomes, and then why."""
    suffix = path.suffix.casefold()
    format_ = _RELEASE_FORMATS.get(suffix, "parquet")
    said = ""
    if format_ == "xlsx" and importlib.util.find_spec("xlsxwriter") is None:
        format_, said = "csv", "spreadsheets are written by xlsxwriter, which isn't there: delimited text"
    elif format_ == "xlsx" and suffix != ".xlsx":
        said = f"a {suffix} file is read, but not written: the release is .xlsx"
    elif suffix in (".rds", ".rdata", ".rda"):
        said = "a file of R is read, but not written: the release is delimited text"
    elif suffix in (".por", ".sas7bdat", ".xpt", ".xport"):
        said = (
            f"a {suffix} file is read, but not written: the release is Parquet, with its dictionary beside it"
        )
    return format_, said
