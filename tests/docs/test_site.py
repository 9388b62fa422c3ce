"""The site's own code: the home page is the README, and folders in the navigation are filled."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "hooks.py")
assert _spec is not None
assert _spec.loader is not None
hooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hooks)


def test_the_home_page_is_the_readme_with_links_of_the_site() -> None:
    text = hooks.home("[plans](docs/plans.md), [CONTRIBUTING](CONTRIBUTING.md), [paper](https://x.org/a.md)")
    assert text == "[plans](plans.md), CONTRIBUTING, [paper](https://x.org/a.md)"
    assert "](docs/" not in hooks.home((ROOT / "README.md").read_text(encoding="utf-8"))


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
