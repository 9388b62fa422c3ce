"""Pages that are made, not written: a page for each mask and measure, and all commands, plan keys, classes.

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

from sfumato.plan.json_schema import plan_schema


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

    config["nav"] = with_all(filled(config["nav"]), docs)
    return config


def leaves(entry: Any) -> list[str]:
    """The pages that an entry of the navigation names, at any depth."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [leaf for part in parts for leaf in leaves(part)]


def with_all(nav: list[Any], docs: Path, under: str = "By job") -> list[Any]:
    """The navigation with pages that it doesn't name at the end of one entry: none can be forgotten."""
    named = set(leaves(nav))
    left = sorted(p.relative_to(docs).as_posix() for p in docs.rglob("*.md"))
    left = [name for name in left if name not in named]
    return [
        {under: [*entry[under], *left]} if isinstance(entry, dict) and under in entry else entry
        for entry in nav
    ]


def on_files(files: Files, config: Any) -> Files:
    from sfumato import registry

    for name, content in (("commands", commands()), ("plan", plan_keys()), ("classes", classes())):
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    for kind, word, there in (
        ("masks", "mask", registry.masks()),
        ("measures", "measure", registry.measures()),
    ):
        for name, cls in there.items():
            content = page(cls, word)
            files.append(File.generated(config, f"reference/{kind}/{name}.md", content=content))
        files.append(File.generated(config, f"reference/{kind}/index.md", content=index(kind, there)))
    return files


def commands() -> str:
    """Every command as its own help says it."""
    import importlib

    from sfumato.cli.command import parser_for
    from sfumato.cli.commands import present

    lines = [
        "# Commands",
        "",
        "Every command has `--help` with an example. Exit codes: 0 done, 1 a limit or guarantee failed,",
        "2 bad usage or input. `--json` prints one document where a program may read it.",
        "",
    ]
    for name, about_it in present().items():
        help_text = parser_for(name, importlib.import_module(f"sfumato.cli.{name}")).format_help()
        lines += [
            f"## sfumato {name}",
            "",
            f"{about_it[:1].upper()}{about_it[1:]}.",
            "",
            "```text",
            help_text.rstrip(),
        ]
        lines += ["```", ""]
    return "\n".join(lines)


def plan_keys() -> str:
    """Every key of a plan, from the JSON Schema that editors and `sfumato check` share."""
    lines = [
        "# Plan keys",
        "",
        "What a plan may say, from the schema that editors use; [plans](../plans.md) explains it. Steps and",
        "measures take the parameters of [their mask](masks/index.md) or [measure](measures/index.md).",
        "",
        "| key | type | what it is |",
        "|---|---|---|",
    ]
    lines += [f"| `{key}` | {kind} | {words} |" for key, kind, words in keys(plan_schema())]
    return "\n".join(lines) + "\n"


def keys(part: dict[str, Any], place: str = "") -> list[tuple[str, str, str]]:
    """The keys below this one, tables within tables as dotted names; NAME stands for a column or measure."""
    told = {"variables.NAME.": in_docstring("Variable")} | {"roles.": ROLE_WORDS}
    out: list[tuple[str, str, str]] = []
    for name, inner in part.get("properties", {}).items():
        key = f"{place}{name}"
        words = str(inner.get("description") or told.get(place, {}).get(name, "")).replace("|", "\\|")
        if "enum" in inner:
            words = f"{words} One of {', '.join(f'`{v}`' for v in inner['enum'])}.".strip()
        kind = inner.get("type") or (
            "a choice" if "enum" in inner else "text or list" if "anyOf" in inner else ""
        )
        out.append((key, str(kind), " ".join(words.split())))
        if name not in ("step", "measure"):
            out += keys(inner, f"{key}.")
    more = part.get("additionalProperties")
    for inner in [more] if isinstance(more, dict) else []:
        for shape in inner.get("anyOf", [inner]):
            out += keys(shape, f"{place}NAME.")
    return list(dict.fromkeys(out))


ROLE_WORDS = {
    "id": "The record's own number; never released as it is.",
    "keys": "Columns that somebody may know of a person.",
    "sensitive": "Columns that nobody should learn.",
    "geography": "Areas, coarse to fine.",
    "household": "The household's number.",
    "weight": "The sampling weight.",
    "strata": "Groups that nothing crosses.",
}


def in_docstring(name: str) -> dict[str, str]:
    """The parameters that a class of the schema explains in its docstring."""
    import sfumato as sf

    _, _, block = inspect.cleandoc(getattr(sf, name).__doc__ or "").partition("----------\n")
    out: dict[str, str] = {}
    names: list[str] = []
    for line in block.splitlines():
        if line and not line.startswith(" "):
            names = [n.strip() for n in line.split(",")]
        elif line.strip():
            for n in names:
                out[n] = f"{out.get(n, '')} {line.strip()}".strip()
    return out


def classes() -> str:
    """The public classes and functions that aren't masks or measures: docstring, signature, methods."""
    import sfumato as sf

    lines = [
        "# Classes and functions",
        "",
        "[Masks](masks/index.md) and [measures](measures/index.md) have pages of their own.",
        "",
    ]
    for name in sorted(sf._HOME, key=str.casefold):
        what = getattr(sf, name)
        lines += [f"## sf.{name}", "", "```python-signature", f"sf.{name}{signature(what)}", "```", ""]
        lines += [*described(what), ""]
        if not isinstance(what, type):
            continue
        for method, value in sorted(vars(what).items()):
            if method.startswith("_") or not (callable(value) or isinstance(value, (property, classmethod))):
                continue
            text = inspect.getdoc(getattr(what, method)) or ""
            call = "" if isinstance(value, property) else signature(getattr(what, method))
            first = text.split("\n\n")[0].replace("\n", " ") or "–"
            lines.append(f"- `{method}{call}`: {first}")
        lines.append("")
    return "\n".join(lines) + "\n"


def signature(what: Any) -> str:
    """The parameters and their defaults; what each is stands in the docstring."""
    try:
        there = inspect.signature(what).parameters.values()
    except (TypeError, ValueError):
        return "(…)"
    words, starred = [], False
    for p in there:
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not starred and not any(w.startswith("*") for w in words):
            words.append("*")
            starred = True
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = p.default
        simple = default is None or isinstance(default, (bool, int, float, str, tuple))
        shown = "" if default is p.empty else f"={default!r}" if simple else "=…"
        words.append(f"{star}{p.name}{shown}")
    return f"({', '.join(words)})"


def described(what: Any) -> list[str]:
    text, example = split_example(inspect.cleandoc(what.__doc__ or ""))
    text, found, block = text.partition("Parameters\n----------\n")
    if found:
        items = re.findall(r"^(\S[^\n]*)\n((?:[ ]{4}[^\n]*\n?)+)", block, re.M)
        text += "\n".join(f"- `{name}`: {' '.join(about_it.split())}" for name, about_it in items)
    return [text, *(["", "```pycon", example, "```"] if example else [])]


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
