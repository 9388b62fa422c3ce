"""A release: two bundles, one to hand out and one to lock away, whole or not at all.

``public/`` has the masked file, its data dictionary, the public report and a manifest; ``internal/``
has the plan, the seed's commitment, the logs, the order of records and the full report. Records are
shuffled and ids are new, because order and ids lead back to the source. What was written is read
back and checked before it gets its name.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import polars as pl

from sfumato.contract.engine import InParts
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema, Variable
from sfumato.errors import GuaranteeError, InputError, ReleaseError
from sfumato.io.atomic import new_folder
from sfumato.plan.identifying import would_identify
from sfumato.release.dialect import dialect_told, released_dialect, signs
from sfumato.release.dictionary import dictionary
from sfumato.release.manifest import manifest
from sfumato.release.order import CHUNK, digest_of, in_order, place_type
from sfumato.release.parts import WrittenPart, check_parts, write_parts
from sfumato.run.derivable import WAY_OUT

if TYPE_CHECKING:
    from sfumato.run.run import Run

STREAMED: Final = ("parquet", "csv", "tsv", "arrow")
Progress = Callable[[str, float, int], None]
Tell = Callable[[int, int], None]
_PARTS: Final = 3  # put in order, written, read back


def _silent(part: int, done: int) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Release:
    """Where a release stands."""

    folder: Path
    data: Path

    @property
    def public(self) -> Path:
        return self.folder / "public"

    @property
    def internal(self) -> Path:
        return self.folder / "internal"

    @property
    def report(self) -> Path:
        return self.public / "report.html"


def write_release(
    run: Run,
    folder: Path,
    *,
    overwrite: bool = False,
    despite_limits: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Write a run's release into a new folder."""
    broken = [c for s in run.steps for c in s.checks if not c.ok]
    if broken:
        raise GuaranteeError("\n".join(f"{c.guarantee}: {c.detail}" for c in broken))
    back = [d for d in run.derivations if d.certain]
    if back:
        raise GuaranteeError(
            "nothing was released, because hidden values can be computed from the release:\n"
            + "\n".join(f"  {d}" for d in back),
            hint=WAY_OUT,
        )
    failed = [x for x in run.limits if not x.ok]
    if failed and not despite_limits:
        raise ReleaseError(
            "nothing was released, because a limit of the plan fails:\n"
            + "\n".join(f"  {x.text}" for x in failed),
            hint="mask more, or change the limit in the plan",
        )
    folder = Path(folder).absolute()
    _refuse_clash(run, folder)
    options = run.plan.release
    named = would_identify(run.masked, options)
    if named:
        raise ReleaseError(
            "nothing was released, because it would name people:\n"
            + "\n".join(f"  {p.message}" for p in named),
            hint=named[0].hint,
        )
    if isinstance(run.masked, InParts) and options.format != "parquet":
        raise ReleaseError(
            f"a release from a cluster is Parquet, not {options.format}; nothing was released",
            hint='say format = "parquet" under [release]',
        )
    columns, n = released_columns(run), len(run.masked)
    tell = _far(progress, n)
    name = f"{options.name}.{options.format}"
    inputs = [] if run.plan.data_path is None else [run.plan.data_file()]
    with new_folder(folder, overwrite=overwrite, inputs=inputs) as work:
        public, internal = work / "public", work / "internal"
        public.mkdir(mode=0o755)
        internal.mkdir(mode=0o700)
        schema = released_schema(run, columns)
        places = internal / "order.parquet"
        written = _write_data(run, columns, public / name, schema, places, tell)
        told = dictionary(schema, run.masked, columns, n)
        _write_json(public / "dictionary.json", told | dialect_told(run))
        _write_reports(run, public, internal)
        _write_internal(run, internal)
        known = check_release(run, public / name, columns, written, tell, places)
        _write_json(public / "MANIFEST.json", manifest(public, known, records=n, columns=len(columns)))
        _write_json(internal / "MANIFEST.json", manifest(work, known, plan=run.plan.hash()))
        for path in internal.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        work.chmod(0o755)
    return Release(folder, folder / "public" / name)


def _far(progress: Progress | None, records: int) -> Tell:
    """Says which part of the work is under way, and of how many records it is done."""
    words = ("putting the records in order", "writing the release", "reading it back")

    def tell(part: int, done: int) -> None:
        if progress is not None:
            progress(words[part], part + done / max(records, 1), _PARTS)

    return tell


def _refuse_clash(run: Run, folder: Path) -> None:
    """Refuse a release of people whom one beside it shows otherwise: the two together say more."""
    steps = [s for s in run.steps if s.notes.log is not None and type(s.mask).clashes is not Mask.clashes]
    if not steps or not folder.parent.is_dir():
        return
    for path in sorted(folder.parent.glob("*/internal/log/*.parquet")):
        beside = path.parents[2]
        if beside == folder:
            continue  # it is to be replaced
        try:
            earlier = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError):
            continue
        for step in steps:
            assert step.notes.log is not None
            if not set(step.notes.log.columns) & {"person"} & set(earlier.columns):
                continue
            why = step.mask.clashes(step.notes.log, earlier)
            if why is not None:
                raise ReleaseError(
                    f"nothing was released, because of the release {beside.name} beside it: {why}",
                    hint="release the same records in the same clusters, or say in the plan: again = true",
                )


# -- what is released, and in which order ---------------------------------------------------------


def released_columns(run: Run) -> list[str]:
    """The masked file's columns without the dropped ones."""
    dropped = set(run.plan.release.drop)
    if not run.plan.release.new_ids:
        dropped |= {run.masked.schema.id or ""}
    columns = [c for c in run.masked.columns if c not in dropped]
    if not columns:
        raise ReleaseError("every column is dropped; there is nothing to release")
    return columns


def released_schema(run: Run, columns: list[str]) -> Schema:
    """The schema of what is released, without the names of codes that the masks took out."""
    schema = run.masked.schema.restricted_to(columns)
    for column in columns:
        variable = schema[column]
        if column not in run.original.columns or not (variable.labels or variable.order):
            continue
        # A code list that names a value which no record has any more tells what was hidden; codes
        # that no record ever had are no secret, and stay.
        gone = _values(run.original, column) - _values(run.masked, column)
        if gone:
            labels = {c: text for c, text in variable.labels.items() if _spelt(c) not in gone}
            order = [c for c in variable.order if _spelt(c) not in gone]
            schema = schema.with_variable(column, labels=labels, order=order)
    for step in run.steps:
        if type(step.mask).released_variable is Mask.released_variable:
            continue
        for column, said in run.masked.at_once(_Said(step.mask, schema, columns)).items():
            if said != schema[column]:
                schema = schema.with_variable(column, **{f.name: getattr(said, f.name) for f in fields(said)})
    return schema


@dataclass(frozen=True)
class _Said:
    """What a step lets be said of the released columns."""

    mask: Mask
    schema: Schema
    columns: list[str]

    def __call__(self, masked: Microdata) -> dict[str, Variable]:
        return {c: self.mask.released_variable(c, self.schema[c], masked) for c in self.columns}


def _values(data: Microdata, column: str) -> set[str]:
    parts = data.aggregate(lambda block, _: block.column(column).drop_nulls().unique().to_list(), [column])
    return {_spelt(value) for part in parts for value in part}


def _spelt(code: Any) -> str:
    """A code as text, the same for 7, 7.0 and "7"."""
    return str(int(code)) if isinstance(code, float) and code.is_integer() else str(code)


# -- writing --------------------------------------------------------------------------------------


@dataclass
class _Written:
    """What went into the file: a digest per chunk, to compare with what is read back; whether all records
    stand where they did; how many ids are still the original's."""

    digests: list[int] = field(default_factory=list)
    records: int = 0
    as_it_was: bool = True
    same: Counter[str] = field(default_factory=Counter)
    types: dict[str, pl.DataType] = field(default_factory=dict)
    parts: list[WrittenPart] = field(default_factory=list)
    """Of a release that is a folder of files."""


def _write_data(
    run: Run,
    columns: list[str],
    path: Path,
    schema: Schema,
    places: Path,
    tell: Tell = _silent,
) -> _Written:
    from sfumato.io import write, write_chunks

    if isinstance(run.masked, InParts):
        tell(0, 0)
        return _all(write_parts(run, columns, path, places))
    out = _Written()

    def told(order: BinaryIO) -> Iterator[pl.DataFrame]:
        for part in in_order(run, columns, lambda done: tell(0, done)):
            tell(1, out.records)
            out.digests.append(digest_of(part.frame))
            out.as_it_was &= bool((part.source == np.arange(len(part.source)) + out.records).all())
            out.same.update(part.same)
            out.types.update(part.frame.schema)
            out.records += part.frame.height
            order.write((part.source + 1).astype(place_type(len(run.masked))).tobytes())
            yield part.frame

    format_ = run.plan.release.format
    try:
        with tempfile.TemporaryFile(dir=places.parent) as order:
            if format_ in STREAMED:
                write_chunks(path, told(order), schema, format_, **signs(run))
            else:
                write(Microdata(pl.concat(list(told(order))), schema), path, format=format_)
            _write_places(order, places, len(run.masked))
    except InputError as problem:
        # Writers of others wrap the system's error in words of their own; the disk's word counts.
        full = "os error 28" in problem.message or "No space left" in problem.message
        reason = "the disk is full" if full else problem.message.rpartition(": ")[2]
        raise ReleaseError(
            f"the release can't be written: {reason}; nothing was released", hint=problem.hint
        ) from None
    return out


def _all(parts: list[WrittenPart]) -> _Written:
    same: Counter[str] = Counter()
    for part in parts:
        same.update(part.same)
    records, as_it_was = sum(p.records for p in parts), all(p.as_it_was for p in parts)
    return _Written([], records, as_it_was, same, parts[0].types, parts)


def _write_places(order: BinaryIO, path: Path, records: int) -> None:
    """Where each released record stood, counted from 1."""
    from sfumato.io import write_chunks

    dtype = np.dtype(place_type(records))

    def parts() -> Iterator[pl.DataFrame]:
        order.seek(0)
        for _ in range(0, max(records, 1), CHUNK):
            yield pl.DataFrame({"source_record": np.frombuffer(order.read(CHUNK * dtype.itemsize), dtype)})

    # A random order doesn't compress; trying hard only costs time.
    write_chunks(path, parts(), format="parquet", compression="lz4")


def _write_reports(run: Run, public: Path, internal: Path) -> None:
    from sfumato import report

    _write_text(public / "report.html", report.html(report.summary(run, public=True)))
    full = report.summary(run, public=False)
    _write_text(internal / "report.html", report.html(full))
    _write_json(internal / "run.json", full)


def _write_internal(run: Run, internal: Path) -> None:
    _write_text(internal / "plan.toml", run.plan.to_toml())
    salt = secrets.token_bytes(16)
    commitment = {"algorithm": "BLAKE2b", "salt": salt.hex(), "commitment": run.seed.commitment(salt)}
    _write_json(internal / "seed-commitment.json", commitment)
    for number, step in enumerate(run.steps, 1):
        if step.notes.log is not None:
            (internal / "log").mkdir(exist_ok=True)
            safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in step.id)
            path = internal / "log" / f"{safe}.parquet"
            # Two ids may differ only in signs that a file name can't have.
            path = path.with_stem(f"{safe}-{number}") if path.exists() else path
            step.notes.log.write_parquet(path)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_json(path: Path, content: Any) -> None:
    _write_text(path, json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")


# -- the look back --------------------------------------------------------------------------------


def check_release(
    run: Run,
    path: Path,
    columns: list[str],
    written: _Written,
    tell: Tell = _silent,
    places: Path | None = None,
) -> dict[str, dict[str, Any]]:
    """Read the file back: the same values, no id, no order, no flag, no metadata of the source. Of what was
    read elsewhere, the manifest's lines.

    Values are compared where a format keeps types (Parquet, Arrow), and in a delimited file that gives the
    values back in the types they were written in; of others, columns and records.
    """
    from sfumato.io import read

    n = len(run.masked)
    if run.plan.release.shuffle and n >= 8 and written.as_it_was:
        raise ReleaseError("the records stand in their original order; nothing was released")
    declared = {c for step in run.steps for c in step.mask.changes(run.original)}
    for column in columns:
        if column not in run.original.columns and column not in declared:
            raise ReleaseError(f"the column {column} comes from no step; nothing was released")
    for role, same in written.same.items():
        if n >= 8 and 2 * same > n:
            raise ReleaseError(f"the released file still has the original {role}; nothing was released")
    if written.parts:
        assert places is not None
        if written.records != n:
            raise ReleaseError("the released file has other records than were written")
        tell(2, 0)
        return check_parts(run, path, places, columns, written.parts)
    streamed = run.plan.release.format in ("parquet", "arrow")
    try:
        back = _as_written(run, path, written)
        if back is None:
            back = read(path, lazy=True) if streamed else read(path, **signs(run))
    except Exception as problem:
        raise ReleaseError(
            f"the released file can't be read back ({type(problem).__name__}); nothing was released"
        ) from None
    if back.columns != columns or len(back) != n or written.records != n:
        raise ReleaseError("the released file has other columns or records than were written")
    if streamed:
        source = back._source
        for number, digest in enumerate(written.digests):
            tell(2, number * CHUNK)
            part = source.slice(number * CHUNK, CHUNK)
            frame = part.collect() if isinstance(part, pl.LazyFrame) else part
            if digest_of(frame) != digest:
                raise ReleaseError("the released file isn't what was written; nothing was released")
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(path).metadata or {}
        foreign = [k for k in metadata if k != b"ARROW:schema"]
        if foreign:
            raise ReleaseError("the released file carries metadata; nothing was released")
    return {}


def _as_written(run: Run, path: Path, written: _Written) -> Microdata | None:
    """A delimited file read in the types that were written: the very values, or None (look more closely)."""
    dialect = released_dialect(run)
    if dialect is None or not written.types:
        return None
    said: dict[str, Any] = {"separator": dialect.delimiter, "decimal_comma": dialect.decimal == ","}
    try:
        if pl.read_csv(path, n_rows=0, infer_schema=False, **said).columns != list(written.types):
            return None
        frame = pl.read_csv(path, schema=written.types, **said)
    except Exception:  # an odd type or sign: whoever reads the file in full will say
        return None
    parts = (frame.slice(number * CHUNK, CHUNK) for number in range(len(written.digests)))
    same = [digest_of(part) for part in parts] == list(written.digests)
    return Microdata(frame) if same else None
