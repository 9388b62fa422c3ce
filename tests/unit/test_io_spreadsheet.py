# ruff: noqa: E501 (XML as the formats have it)
"""Spreadsheets: written here by hand as the formats say, so that no second library is needed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import InputError

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
Sheets = dict[str, list[list[object]]]


def xlsx(file: Path, sheets: Sheets) -> Path:
    def cell(at: str, value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return f'<c r="{at}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        return f'<c r="{at}"><v>{value}</v></c>'

    def sheet(rows: list[list[object]]) -> str:
        body = "".join(
            f'<row r="{r}">' + "".join(cell(f"{chr(65 + c)}{r}", v) for c, v in enumerate(row)) + "</row>"
            for r, row in enumerate(rows, 1)
        )
        return f'<worksheet xmlns="{MAIN}"><sheetData>{body}</sheetData></worksheet>'

    names = "".join(
        f'<sheet name="{escape(n)}" sheetId="{i}" r:id="rId{i}"/>' for i, n in enumerate(sheets, 1)
    )
    with zipfile.ZipFile(file, "w") as out:
        kinds = "".join(
            f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="application/vnd.openxmlformats-'
            'officedocument.spreadsheetml.worksheet+xml"/>'
            for i in range(1, len(sheets) + 1)
        )
        out.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
            'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.'
            f'openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>{kinds}</Types>',
        )
        package = "http://schemas.openxmlformats.org/package/2006/relationships"
        out.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}"><Relationship Id="r" Type="{REL}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        out.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{REL}"><sheets>{names}</sheets></workbook>'
        )
        links = "".join(
            f'<Relationship Id="rId{i}" Type="{REL}/worksheet" Target="worksheets/sheet{i}.xml"/>'
            for i in range(1, len(sheets) + 1)
        )
        out.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{package}">{links}</Relationships>'
        )
        for i, rows in enumerate(sheets.values(), 1):
            out.writestr(f"xl/worksheets/sheet{i}.xml", sheet(rows))
    return file


def ods(file: Path, sheets: Sheets) -> Path:
    end = "</table:table-cell>"

    def cell(value: object) -> str:
        if value is None:
            return "<table:table-cell/>"
        if isinstance(value, str):
            return f'<table:table-cell office:value-type="string"><text:p>{escape(value)}</text:p>{end}'
        return f'<table:table-cell office:value-type="float" office:value="{value}"><text:p>{value}</text:p>{end}'

    tables = "".join(
        f'<table:table table:name="{escape(n)}">'
        + "".join("<table:table-row>" + "".join(map(cell, row)) + "</table:table-row>" for row in rows)
        + "</table:table>"
        for n, rows in sheets.items()
    )
    base = "urn:oasis:names:tc:opendocument:xmlns:"
    content = (
        f'<office:document-content xmlns:office="{base}office:1.0" xmlns:table="{base}table:1.0" '
        f'xmlns:text="{base}text:1.0" office:version="1.2"><office:body><office:spreadsheet>{tables}'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        out.writestr("content.xml", content)
        out.writestr(
            "META-INF/manifest.xml",
            f'<manifest:manifest xmlns:manifest="{base}manifest:1.0"><manifest:file-entry manifest:full-path="/" '
            'manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/></manifest:manifest>',
        )
    return file


ROWS: list[list[object]] = [
    ["region", "age", "income", "code"],
    ["north", 34, 1200.5, "007"],
    ["south", 51, None, "12"],
    ["north", 7, 0, "x"],
]


@pytest.mark.parametrize(("write", "name"), [(xlsx, "p.xlsx"), (ods, "p.ods")])
def test_a_sheet_is_read(tmp_path, write, name):
    frame = sf.read(write(tmp_path / name, {"people": ROWS})).frame
    assert frame.to_dict(as_series=False) == {
        "region": ["north", "south", "north"],
        "age": [34, 51, 7],
        "income": [1200.5, None, 0.0],
        "code": ["007", "12", "x"],
    }
    assert frame["age"].dtype.is_integer()
    assert sf.read(tmp_path / name, columns=["age"]).columns == ["age"]


@pytest.mark.parametrize(("write", "name"), [(xlsx, "p.xlsx"), (ods, "p.ods")])
def test_of_several_sheets_one_has_to_be_named(tmp_path, write, name):
    file = write(tmp_path / name, {"notes": [["a"], [1]], "people": ROWS})
    with pytest.raises(InputError, match="2 sheets: notes, people"):
        sf.read(file)
    assert len(sf.read(file, sheet="people")) == 3
    with pytest.raises(InputError, match="no sheet 'peopel'"):
        sf.read(file, sheet="peopel")


def test_records_are_not_taken_for_names(tmp_path):
    with pytest.raises(InputError, match="holds numbers where names are expected"):
        sf.read(xlsx(tmp_path / "p.xlsx", {"s": [[34, 1, 5], [35, 2, 6], [36, 2, 7]]}))


def test_what_is_no_spreadsheet_is_told(tmp_path):
    (tmp_path / "p.xlsx").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(InputError, match="can't be read as a spreadsheet"):
        sf.read(tmp_path / "p.xlsx")


def test_init_gives_a_plan_that_check_accepts(tmp_path):
    rows: list[list[object]] = [["sex", "age", "income"]]
    rows += [[1 + i % 2, 20 + i % 60, 1000 + 37 * i % 911] for i in range(120)]
    file = xlsx(tmp_path / "p.xlsx", {"s": rows})
    assert main(["init", str(file), "--out", str(tmp_path / "p.toml")]) == 0
    assert main(["check", str(tmp_path / "p.toml")]) == 0
