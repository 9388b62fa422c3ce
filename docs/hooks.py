"""Pages that are made, not written: the home page from the README, a page for each mask and measure.

The parts of the navigation that grow by themselves (benchmarks, rerun papers, reference) are filled
from what is there, so that no page can be forgotten.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_config(config: Any) -> Any:
    """Fill the entries of the navigation that name a folder."""
    from sfumato import registry

    docs = Path(config["docs_dir"])
    made = {
        "reference/masks/": ["index.md", *(f"{name}.md" for name in registry.masks())],
        "reference/measures/": ["index.md", *(f"{name}.md" for name in registry.measures())],
    }

    def filled(entry: Any) -> Any:
        if isinstance(entry, list):
            return [filled(e) for e in entry]
        if isinstance(entry, dict):
            return {title: filled(e) for title, e in entry.items()}
        if not entry.endswith("/"):
            return entry
        there = made.get(entry) or sorted(
            (p.name for p in (docs / entry).glob("*.md")), key=lambda name: (name != "index.md", name)
        )
        return [f"{entry}{name}" for name in there]

    config["nav"] = filled(config["nav"])
    return config


def home(readme: str) -> str:
    """The README as the site's first page: links into docs/ lose that folder, links beside it go."""
    text = re.sub(r"\]\(docs/", "](", readme)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[A-Z]+(\.md)?\)", r"\1", text)


def on_files(files: Files, config: Any) -> Files:
    from sfumato import registry

    readme = Path(config["config_file_path"]).with_name("README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=home(readme)))
    for kind, word, there in (
        ("masks", "mask", registry.masks()),
        ("measures", "measure", registry.measures()),
    ):
        for name, cls in there.items():
            content = page(cls, word)
            files.append(File.generated(config, f"reference/{kind}/{name}.md", content=content))
        files.append(File.generated(config, f"reference/{kind}/index.md", content=index(kind, there)))
    return files


def index(kind: str, there: dict[str, type]) -> str:
    title = {"masks": "All masks", "measures": "All measures and attacks"}[kind]
    lines = [f"# {title}", "", "| name in a plan | class | what it does |", "|---|---|---|"]
    for name, cls in there.items():
        lines.append(f"| [`{name}`]({name}.md) | `sf.{cls.__name__}` | {cls.summary()} |")
    return "\n".join(lines) + "\n"


def page(cls: Any, word: str) -> str:
    """One class: its docstring, its parameters, its plan form."""
    text, example = split_example(inspect.cleandoc(cls.__doc__ or ""))
    lines = [
        f"# {cls.__name__}",
        "",
        f'In a plan: `{word} = "{cls.name}"`. In Python: `sf.{cls.__name__}`.',
        "",
    ]
    if word == "measure":
        low, high = cls.bounds
        lines += [f"Better is {cls.direction}; values lie in [{low:g}, {high:g}]; a {cls.side} measure.", ""]
    lines += [text, ""]
    if example:
        lines += ["```pycon", example, "```", ""]
    lines += ["## Parameters", "", "| name | type | default | what it is |", "|---|---|---|---|"]
    for name, f in cls.parameters().items():
        lines.append(
            f"| `{name}` | {type_words(cls.parameter_types()[name])} | {default_of(f)} | {about(f)} |"
        )
    return "\n".join(lines) + "\n"


def split_example(text: str) -> tuple[str, str]:
    at = text.find(">>>")
    return (text, "") if at < 0 else (text[:at].rstrip(), text[at:].rstrip())


def default_of(f: dataclasses.Field[Any]) -> str:
    if f.default is not dataclasses.MISSING:
        return f"`{list(f.default) if isinstance(f.default, tuple) else f.default!r}`"
    return "`{}`" if f.default_factory is not dataclasses.MISSING else "required"


def about(f: dataclasses.Field[Any]) -> str:
    meta = f.metadata
    limits = [
        f"{limit.replace('_', ' ')} {meta[limit]:g}"
        for limit in ("at_least", "above", "at_most", "below")
        if meta.get(limit) is not None
    ]
    choices = [f"`{c}`" for c in meta.get("choices") or ()]
    tail = f" ({', '.join(limits)})" if limits else ""
    tail += f" One of {', '.join(choices)}." if choices else ""
    return (meta.get("doc", "") + tail).replace("|", "\\|")


def type_words(hint: Any) -> str:
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "").replace("collections.abc.", "").replace("|", "\\|")
