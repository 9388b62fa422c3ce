"""What the classes of a chart look like, in light and in dark, and a chart that carries its style along.

The blue, orange and green are Okabe and Ito's, which everybody can tell apart. A page that holds many
charts (a report, the workbench) puts `rules` into its style sheet once; a chart that stands alone (a
notebook's cell, a file) takes it along by `standalone`. A chart paints its own paper, so that it can be
read on a page of any colour.
"""

from __future__ import annotations

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "before": "#0072b2",
    "after": "#d55e00",
    "move": "#009e73",
    "dim": "#767c85",
    "ink": "#22262b",
    "soft": "#555b63",
    "rule": "#dfe2e6",
    "paper": "#ffffff",
}
DARK: Mapping[str, str] = {
    "before": "#56b4e9",
    "after": "#f5894a",
    "move": "#35bd92",
    "dim": "#8d949d",
    "ink": "#e8eaed",
    "soft": "#adb4bd",
    "rule": "#353b43",
    "paper": "#14171a",
}
FONT = "system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
_ON_CELLS = {"on-light": "#22262b", "on-dark": "#ffffff"}  # the numbers in a heat map's cells

# Hosts that say which theme is on: JupyterLab and Notebook 7, VS Code, Material for MkDocs.
_DARK_HOSTS = ('[data-jp-theme-light="false"]', ".vscode-dark", '[data-md-color-scheme="slate"]')
_LIGHT_HOSTS = ('[data-jp-theme-light="true"]', ".vscode-light", '[data-md-color-scheme="default"]')


def rules(*, dark: bool = True, scope: str = ".sf-chart") -> str:
    """The style sheet of all charts; without ``dark`` they stay light whatever the machine prefers.

    ``scope`` selects what the colours are set on, so that HTML beside the charts can share them
    (``var(--sf-ink)``).

    >>> "prefers-color-scheme" in rules(), "prefers-color-scheme" in rules(dark=False)
    (True, False)
    """
    out = [f"{scope}{{{_tokens(LIGHT)};}}"]
    if dark:
        out += [
            f"@media (prefers-color-scheme:dark){{{scope}{{{_tokens(DARK)};}}}}",
            # What the host says counts more than what the machine prefers.
            ",".join(_under(h, scope) for h in _LIGHT_HOSTS) + f"{{{_tokens(LIGHT)};}}",
            ",".join(_under(h, scope) for h in _DARK_HOSTS) + f"{{{_tokens(DARK)};}}",
        ]
    out.append(
        f".sf-chart{{background:var(--sf-paper);font-family:{FONT};font-variant-numeric:tabular-nums;}}"
    )
    for colour in LIGHT:
        out.append(f".sf-chart .fill-{colour}{{fill:var(--sf-{colour});}}")
        out.append(f".sf-chart .line-{colour}{{stroke:var(--sf-{colour});}}")
    out += [f".sf-chart .fill-{name}{{fill:{colour};}}" for name, colour in _ON_CELLS.items()]
    return "\n".join(out)


def _under(host: str, scope: str) -> str:
    return ",".join(f"{host} {part.strip()}" for part in scope.split(","))


def _tokens(colours: Mapping[str, str]) -> str:
    return ";".join(f"--sf-{name}:{colour}" for name, colour in colours.items())


def standalone(svg: str, *, dark: bool = True) -> str:
    """The chart with its style inside: a file of its own, a page's picture, a notebook cell's output.

    >>> standalone('<svg class="sf-chart"><title>A</title></svg>').startswith('<svg class="sf-chart"><style>')
    True
    """
    head, end, rest = svg.partition(">")
    return f"{head}{end}<style>{rules(dark=dark)}</style>{rest}"
