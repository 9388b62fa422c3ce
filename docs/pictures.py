"""The pictures of the front page and the tutorials: run `python docs/pictures.py` to make them again.

The map of the front page is drawn from the table in methods/which-mask.md, which benchmarks/frontier.py made;
the others are made from the decks, by what the tutorials themselves run.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import sfumato as sf
from sfumato.drawing import Frame, dots, gallery, standalone

HERE = Path(__file__).parent
OUT = HERE / "pictures"
AMOUNTS = ["INCOME", "HOME_VAL", "MORTGAGE", "MAINTAIN", "TAXES"]
HOLDS = ("cluster shuffle", "synthesis")
PLACES = {
    "rank swap": (True, 4, False),
    "random swap": (True, 14, False),
    "cluster shuffle": (False, 16, False),
    "synthesis": (False, 4, True),
}
"""Where a mask's name stands: left of its point, how far down, at its last point."""


def save(name: str, svg: str) -> None:
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.svg").write_text(standalone(svg, dark=False) + "\n", encoding="utf-8")


def settings(page: str) -> dict[str, list[tuple[float, float, str]]]:
    """Mask → (loss, share linked, strength), from the page's table of all settings."""
    row = r"^\| ([a-z ]+), ([a-zA-Z %]+) \| ([\d.]+) \| \d+ \| ([\d.]+) \|.*\| ([\d.]+) \|$"
    rows = re.findall(row, page, re.M)
    out: dict[str, list[tuple[float, float, str]]] = {}
    for mask, unit, strength, link, loss in rows:
        word = unit.replace("%", "").strip()
        said = f"{word} {strength}{'%' if '%' in unit else ''}".strip()
        out.setdefault(mask.strip(), []).append((float(loss), float(link), said))
    return out


def front() -> str:
    found = settings((HERE / "methods" / "which-mask.md").read_text(encoding="utf-8"))
    f = Frame(860, 430, (0.0, 0.8), (0.0, 1.02), left=64, right=30, top=46)
    f.y_axis("records that the strongest attack finds", percents=True, about=5)
    f.x_axis("what analysts lose (0: nothing, 1: everything)", about=8)
    limit = f.py(0.05)
    f.line(f.x0, limit, f.x1, limit, stroke="move", width=2)
    f.text(f.x1, limit - 6, "5%: a usual limit", anchor="end", fill="soft")
    for mask, points in found.items():
        good = mask in HOLDS
        colour = "before" if good else "dim"
        places = sorted(points, key=lambda p: p[0])
        path = "M" + "L".join(f"{f.px(x):.1f},{f.py(y):.1f}" for x, y, _ in places)
        f.add(f'<path d="{path}" fill="none" class="line-{colour}" stroke-width="{2.5 if good else 1.2}"/>')
        for x, y, strength in places:
            tip = f"{mask}, {strength}: {100 * y:.0f}% found, loss {x:.2f}"
            f.dot(f.px(x), f.py(y), colour, tip, ring=not good, r=5 if good else 4)
        left, down, last = PLACES.get(mask, (False, 4, False))
        x, y, strength = places[-1 if last else 0]
        words = f"{mask} ({strength})"
        at = f.px(x) - 10 if left else f.px(x) + 10
        anchor = "end" if left else "start"
        f.text(at, f.py(y) + down, words, anchor=anchor, weight=600 if good else 400)
    f.head("Every mask on one map: down and left is better", 8, most=60)
    f.x1 = 836
    f.legend([("holds", "before", "dot"), ("classical", "dim", "ring")])
    return f.svg("Every mask on one map", "Map of masks: records found against loss; each line a mask")


def attacks(data: sf.Microdata) -> str:
    columns = ["REGION", "BEDROOMS", "BATHS", "YR_BLT", *AMOUNTS]
    masks: list[tuple[str, sf.Microdata | None, tuple[object, ...]]] = [("as collected", data, ())]
    for window in (5, 15, 40):
        mask = sf.RankSwap(columns=AMOUNTS, window_percent=window, far_values="code")
        masks.append((f"rank swap, window {window}%", mask.mask(data, seed=1), (mask,)))
    for k in (10, 30):
        deal = sf.ClusterShuffle(columns=columns, smallest=k, blind=[])
        masks.append((f"dealt among {k}", deal.mask(data, seed=1), (deal,)))
    rows = []
    for label, masked, steps in masks:
        best = sf.run_battery(data, masked, steps, finds="records").strongest.result
        low, high = best.interval or (None, None)
        found = {"name": label, "value": best.value, "low": low, "high": high}
        rows.append(found | {"baseline": best.figures["baseline"]})
    return dots(rows, "share of the records found by the strongest attack", title="What an intruder finds")


def main() -> None:
    warnings.simplefilter("ignore", sf.SfumatoWarning)
    save("front", front())
    deck = sf.decks.housing()
    data = deck.with_frame(deck.frame.head(2_000))
    columns = ["REGION", "BEDROOMS", "BATHS", "YR_BLT", *AMOUNTS]
    plan = sf.Plan(
        steps=[sf.ClusterShuffle(id="deal", columns=columns, smallest=30, blind=[])],
        release={"drop": ["IDNUM"]},
    )
    drawn = gallery(plan.run(data, seed=1).summary())
    # The first chart of a column is its distribution, the second how far values moved.
    home = next(c for c in drawn["columns"] if "HOME_VAL" in c)
    save("tutorial-distribution", home.partition("</svg>")[0] + "</svg>")
    save("tutorial-before", drawn["correlations"][0])
    save("tutorial-after", drawn["correlations"][1])
    people = sf.decks.persons(250)
    recode = sf.Plan(steps=[sf.Recode(column="AGE", width=10, highest=80)])
    small = people.with_roles(geography=["STATE"])
    save("tutorial-groups", gallery(recode.run(small, seed=1).summary())["groups"][0])
    save("tutorial-attacks", attacks(data))


if __name__ == "__main__":
    main()
