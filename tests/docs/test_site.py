"""The site's own code: the home page is the README, and folders in the navigation are filled."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "hooks.py")
assert _spec is not None
assert _spec.loader is not None
hooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hooks)


def test_every_command_key_and_class_is_in_the_reference() -> None:
    """From the code, so that nothing can be forgotten and nothing stays that is gone."""
    import sfumato as sf
    from sfumato.cli.commands import present
    from sfumato.data.schema import ROLES, Variable

    page = hooks.commands()
    for name in present():
        assert f"## sfumato {name}" in page
    assert "--released FILE" in page
    keys = {key for key, _, _ in hooks.keys(hooks.plan_schema())}
    assert {f"roles.{r}" for r in ROLES} <= keys
    assert {f"variables.NAME.{f.name}" for f in dataclasses.fields(Variable)} <= keys
    assert {"limits.NAME.NAME.at_most", "release.drop", "data"} <= keys
    classes = hooks.classes()
    for name in sf._HOME:
        assert f"## sf.{name}" in classes
    assert "`plot(" in classes


def test_pages_named_in_the_navigation_are_there_and_none_is_left_out() -> None:
    import yaml

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_load(text.replace("!!python/name:", ""))["nav"]
    named = set(hooks.leaves(nav))
    made = {"reference/plan.md", "reference/commands.md", "reference/classes.md"}
    for name in named - made - {n for n in named if n.endswith("/")}:
        assert (ROOT / "docs" / name).is_file(), name
    full = hooks.on_config({"docs_dir": str(ROOT / "docs"), "nav": nav})["nav"]
    there = hooks.leaves(full)
    assert len(there) == len(set(there))
    for path in (ROOT / "docs").rglob("*.md"):
        assert path.relative_to(ROOT / "docs").as_posix() in there


def test_a_page_that_nobody_named_stands_with_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("# x\n")
    (tmp_path / "scale.md").write_text("# x\n")
    nav = hooks.with_all([{"Home": "index.md"}, {"By job": ["index.md"]}], tmp_path)
    assert nav == [{"Home": "index.md"}, {"By job": ["index.md", "scale.md"]}]


def test_the_pictures_on_the_pages_are_there() -> None:
    """Made by docs/pictures.py; each with a style of its own and words for those who can't see it."""
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
    named = {m for p in pages for m in re.findall(r"pictures/([\w-]+\.svg)", p.read_text(encoding="utf-8"))}
    assert named
    for name in named:
        text = (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8")
        assert "<style>" in text
        assert "aria-label" in text


def test_folders_in_the_navigation_are_filled(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    for name in ("b.md", "index.md", "a.md"):
        (tmp_path / "papers" / name).write_text("# x\n")
    nav = [{"Home": "index.md"}, {"Papers": "papers/"}, {"Masks": "reference/masks/"}]
    filled = hooks.on_config({"docs_dir": str(tmp_path), "nav": nav})["nav"]
    assert filled[:2] == [
        {"Home": "index.md"},
        {"Papers": ["papers/index.md", "papers/a.md", "papers/b.md"]},
    ]
    assert "reference/masks/rank_swap.md" in filled[2]["Masks"]
