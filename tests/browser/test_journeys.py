"""What a person does at the workbench, in a real browser: journeys, mishaps, every screen for everybody."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

import polars as pl
import pytest

from tests.browser.conftest import TOKEN, Place, shot
from tests.workbench.conftest import people, wait_read

SCREENS = ("data", "keys", "protect", "attack", "compare", "release")
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def violations(page: Any, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", AXE_TAGS)
    return [f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in found["violations"]]


def ready(place: Place, frame: pl.DataFrame | None = None, name: str = "people.csv") -> None:
    (people(240) if frame is None else frame).write_csv(place.folder / name)


def open_file(page: Any, place: Place, name: str = "people.csv") -> None:
    page.goto(place.url("/data"))
    page.fill("#path", name)
    page.click("form[action='/open'] button")
    page.wait_for_selector("#rail")
    wait_read(place.bench)
    page.wait_for_selector("#role-0")


def at(place: Place, name: str) -> int:
    assert place.bench.opened is not None
    return place.bench.opened.file.columns.index(name)  # type: ignore[union-attr]


def is_key(place: Place, column: int) -> bool:
    name = place.bench.opened.file.columns[column]  # type: ignore[union-attr]
    return name in place.bench.plan.schema.keys  # type: ignore[union-attr]


def unsafe(page: Any) -> int:
    return int(page.inner_text("#unsafe-now").replace(",", ""))


def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds; the page's policy forbids the browser's own way of waiting."""
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to hold")


def settled(place: Place, kind: str) -> Any:
    for _ in range(2400):
        job = place.bench.jobs.last(kind)
        if job is not None and not job.active:
            return job
        time.sleep(0.05)
    raise AssertionError(f"{kind} didn't end")


def test_from_a_file_to_a_signed_release_and_back(tab: Callable[..., Any], place: Place, axe: str) -> None:
    ready(place)
    page = tab()
    assert "No file is open" in page.inner_text("main")
    assert violations(page, axe) == []
    shot(page, "0-empty")
    open_file(page, place)
    # Roles: a column that was taken for something else, changed by hand; the page repaints in place.
    page.select_option(f"#role-{at(place, 'RENT')}", "none")
    page.wait_for_selector("text=RENT: no role")
    page.select_option(f"#role-{at(place, 'RENT')}", "sensitive")
    page.wait_for_selector("text=RENT: sensitive")
    assert violations(page, axe) == []
    shot(page, "1-data")
    # Unsafe cells, and a recode that makes them fewer.
    page.click("#roles-right")
    page.wait_for_selector("#matrix")
    before = unsafe(page)
    assert before == place.bench.view().unsafe > 0
    page.select_option(f"#rc-{at(place, 'AGE')}", index=1)
    until(lambda: page.evaluate(f"document.getElementById('unsafe-now').textContent !== '{before:,}'"))
    after = unsafe(page)
    assert after == place.bench.view().unsafe < before
    page.wait_for_selector("#helps table")
    assert violations(page, axe) == []
    shot(page, "2-keys")
    # A slider and its number are one value.
    page.fill("#toln", "4")
    until(lambda: page.evaluate("document.getElementById('tol').value === '4'"))
    assert place.bench.view().scenario.tolerance == 4
    # A rank swap from its form.
    page.goto(place.url("/protect"))
    page.select_option("#add", "rank_swap")
    page.click("form[aria-label='Add a step'] button")
    page.wait_for_selector("text=New step: rank swap")
    page.fill("#f-window_percent", "120")
    page.click("text=Add the step")
    page.wait_for_selector("text=at most 100, not 120")
    page.fill("#f-window_percent", "15")
    page.click("text=Add the step")
    page.wait_for_selector("text=rank_swap: rank swap")
    assert [s.name for s in place.bench.plan.steps][-1] == "rank_swap"
    page.select_option("#pc", label="WAGE")
    page.click("#preview-go")
    page.wait_for_selector("#preview svg.sf-chart")
    assert violations(page, axe) == []
    shot(page, "3-protect")
    # Run and attack: not safe, and why.
    page.goto(place.url("/release"))
    page.click("text=Limits of a research file")
    page.wait_for_selector("text=at least 3")
    page.goto(place.url("/attack"))
    page.click("text=Run and attack this plan")
    page.wait_for_selector("#attacks svg.sf-chart", timeout=90_000)
    assert page.inner_text("#verdict-h") == "Not safe"
    page.click("text=Fit both")
    page.wait_for_selector("#analyst svg.sf-chart")
    assert violations(page, axe) == []
    shot(page, "4-attack")
    # Compare: every value a point, a limit typed, one adopted.
    page.goto(place.url("/compare"))
    last = len(place.bench.plan.steps) - 1
    page.select_option("#vs", f"{last}.window_percent")
    page.wait_for_selector("input[name=parameter][value=window_percent]", state="attached")
    page.fill("#vw", "5, 40")
    page.fill("#vr", "1")
    page.click("#try-these")
    page.wait_for_selector("#point-C", timeout=60_000)
    page.fill("#most-loss", "0.9")
    page.keyboard.press("Tab")
    page.wait_for_selector("text=loss at most 0.9")
    # The line is the same limit, and keeps the focus: one arrow after another moves it.
    page.focus("#limit-loss")
    for wanted in ("0.895", "0.89"):
        page.keyboard.press("ArrowLeft")
        until(partial(page.evaluate, f"document.getElementById('most-loss').value === '{wanted}'"))
        has_focus(page, "#limit-loss")
    assert violations(page, axe) == []
    shot(page, "5-compare")
    page.click("#plans button:has-text('Adopt') >> nth=-1")
    page.wait_for_selector("text=Adopted")
    # Everything dealt among thirty: safe, signed, written.
    columns = [c for c in place.bench.data.columns if c != "ID"]  # type: ignore[union-attr]
    page.goto(place.url("/protect?add=cluster_shuffle"))
    for name in columns:
        page.check(f"#form input[name=columns][value={name}]")
    page.fill("#f-smallest", "30")
    page.click("text=Add the step")
    page.wait_for_selector("text=cluster_shuffle: cluster shuffle")
    page.click("text=Run and attack the plan")
    page.wait_for_selector("#attacks svg.sf-chart", timeout=90_000)
    settled(place, "run")
    page.goto(place.url("/release"))
    page.wait_for_selector("#sign-form", timeout=60_000)
    assert page.inner_text("#verdict-h") == "Safe by the limits you set"
    page.click("#sign-form button.primary")
    page.wait_for_selector("text=Still missing")
    page.check("input[name=read]")
    page.check("input[name=scenario]")
    page.fill("#by", "A. Steward")
    page.fill("#ap", "B. Board")
    page.click("#sign-form button.primary")
    page.wait_for_selector("text=Written: release/", timeout=60_000)
    assert (place.folder / "release" / "public").is_dir()
    assert violations(page, axe) == []
    shot(page, "6-release")
    # Every change can be taken back, by the keyboard, to the file as it was opened.
    page.goto(place.url("/keys"))
    for _ in range(40):
        if page.is_disabled("#undo"):
            break
        epoch = page.get_attribute("#work", "data-epoch")
        page.keyboard.press("Control+z")
        until(partial(page.evaluate, f"document.getElementById('work').dataset.epoch !== '{epoch}'"))
    assert place.bench.now.history.at == 0
    assert place.bench.plan.steps == ()
    page.keyboard.press("Control+Shift+z")
    page.wait_for_selector("text=Done again")


def test_every_screen_in_the_dark_wide_and_narrow(tab: Callable[..., Any], place: Place, axe: str) -> None:
    long = "NETTOEINKOMMEN_DER_HAUSHALTSBEZUGSPERSON_EINSCHL_TRANSFERLEISTUNGEN_2023_REVIDIERT"
    frame = (
        people(240)
        .rename({"RENT": long + "_" + long})
        .with_columns(**{f"X{i:03d}": pl.Series(["a", "b"] * 120) for i in range(200)})
    )
    ready(place, frame)
    page = tab(color_scheme="dark")
    open_file(page, place)
    page.goto(place.url("/release"))
    page.click("text=Limits of a public file")
    for screen in SCREENS:
        page.goto(place.url(f"/{screen}"))
        assert violations(page, axe) == [], screen
        for width in (1280, 1920, 820):
            page.set_viewport_size({"width": width, "height": 900})
            wider = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wider <= 0, (screen, width)
        page.set_viewport_size({"width": 1920, "height": 1080})
        shot(page, f"dark-1920-{screen}")
        page.set_viewport_size({"width": 1280, "height": 900})


def test_in_the_main_without_a_script(tab: Callable[..., Any], place: Place) -> None:
    ready(place)
    page = tab(java_script_enabled=False)
    open_file(page, place)
    wage = at(place, "WAGE")
    page.select_option(f"#role-{wage}", "key")
    page.click(f"tr:has(#role-{wage}) .why button")
    until(lambda: "WAGE" in place.bench.plan.schema.keys)  # type: ignore[union-attr]
    page.goto(place.url("/keys"))
    page.select_option(f"#rc-{at(place, 'AGE')}", index=1)
    page.click(f"tr:has(#rc-{at(place, 'AGE')}) button")
    until(lambda: len(place.bench.plan.steps) == 1)
    page.click("#undo")
    until(lambda: len(place.bench.plan.steps) == 0)
    page.wait_for_selector("text=Undone")


def test_strangers_are_kept_out(tab: Callable[..., Any], place: Place) -> None:
    ready(place)
    page = tab(token=False)
    for address in (place.url("/data"), place.url("/?token=wrong"), place.url("/keys")):
        page.goto(address)
        assert "without its token" in page.inner_text("body")
    page.goto(f"http://rebound.example:{place.port}/?token={TOKEN}")
    assert "isn't the workbench's address" in page.inner_text("body")
    known = tab()
    open_file(known, place)
    # A page of another origin posts a form: neither cookie nor Origin let it in.
    before = place.bench.now.text
    page.goto(
        "data:text/html,<form method=post action='"
        + place.url("/plan/steps")
        + "'><input name=do value=clear><button>x</button></form>"
    )
    page.click("button")
    assert "another page" in page.inner_text("body") or "token" in page.inner_text("body")
    assert place.bench.now.text == before


def test_a_hostile_file_is_only_text(tab: Callable[..., Any], place: Place, axe: str) -> None:
    hostile = "<script>window.hacked=1</script>"
    frame = pl.DataFrame(
        {
            hostile: ["a", hostile, "<img src=x onerror=window.hacked=1>"] * 30,
            '" autofocus onfocus="window.hacked=1': [1, 2, 3] * 30,
            "\u202etxt.exe": ["x", "y", "'"] * 30,
        }
    )
    ready(place, frame)
    page = tab()
    open_file(page, place)
    for k in range(3):
        page.select_option(f"#role-{k}", "key")
        until(partial(is_key, place, k))
        until(partial(page.evaluate, f"document.getElementById('role-{k}').value === 'key'"))
    for screen in (*SCREENS, "plan"):
        page.goto(place.url(f"/{screen}"))
        assert page.evaluate("window.hacked") is None
        assert violations(page, axe) == []
    page.goto(place.url("/keys"))
    assert "[U+202E]txt.exe" in page.inner_text("main")
    shot(page, "hostile-keys")


def test_two_tabs_and_a_slow_old_answer(tab: Callable[..., Any], place: Place) -> None:
    ready(place)
    page = tab()
    open_file(page, place)
    page.goto(place.url("/keys"))
    held: list[Any] = []

    def slowly(route: Any) -> None:
        if not held:
            held.append(route)  # the first answer waits
            return
        route.continue_()

    page.route("**/plan/scenario", slowly)
    page.fill("#toln", "9")
    for _ in range(100):
        if held:
            break
        page.wait_for_timeout(20)
    page.fill("#toln", "5")
    until(lambda: page.evaluate("document.getElementById('tol').value === '5'"))
    with contextlib.suppress(Exception):  # the page may have given the older request up itself
        held[0].continue_()
    page.wait_for_timeout(500)
    assert page.input_value("#toln") == "5"
    assert unsafe(page) == place.bench.view().unsafe
    page.unroute("**/plan/scenario")
    # Another tab changes the plan: this one follows, and its number is that of the new plan.
    other = tab()
    other.goto(place.url("/keys"))
    other.select_option(f"#rc-{at(place, 'AGE')}", index=1)
    other.wait_for_selector(".toast")
    until(
        lambda: page.evaluate(f"document.getElementById('work').dataset.plan === '{place.bench.now.hash()}'")
    )
    assert unsafe(page) == place.bench.view().unsafe


def test_a_killed_job_and_a_restart_in_the_middle(tab: Callable[..., Any], place: Place) -> None:
    ready(place)
    page = tab()
    open_file(page, place)
    page.goto(place.url("/release"))
    page.click("text=Limits of a research file")
    page.wait_for_selector("text=at least 3")
    page.goto(place.url("/attack"))
    page.click("text=Run and attack this plan")
    page.wait_for_selector("#rail [data-job]")
    lane = place.bench.jobs.lanes["long"]
    for _ in range(400):
        if lane.process is not None and lane.process.pid and place.bench.jobs.last("run").state == "running":
            break
        time.sleep(0.02)
    os.kill(lane.process.pid, signal.SIGKILL)
    page.wait_for_selector("text=its process ended (signal 9")
    assert page.inner_text("#verdict-h") in ("Not known yet", "Not safe")
    # What runs can be stopped.
    page.click("text=Run it again")
    page.wait_for_selector("#rail [data-job] button")
    page.click("#rail [data-job] button")
    page.wait_for_selector("text=Stopped. The plan is as it was.")
    text = place.bench.now.text
    place.stop()
    # Whoever looks at the page is told that nobody answers, and a click isn't lost in silence.
    page.click("#undo")
    page.wait_for_selector("text=The workbench doesn't answer")
    place.start()
    place.bench.open("people.toml")
    page.goto(place.url(f"/?token={TOKEN}"))
    page.goto(place.url("/protect"))
    assert place.bench.now.text == text
    assert "limits of a research file" in page.inner_text("main")
    page.click("#undo")
    page.wait_for_selector("text=Undone: limits of a research file")


def has_focus(page: Any, selector: str) -> None:
    """The focus comes to this element, if not at once."""
    for _ in range(50):
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"the focus isn't on {selector}")


def test_the_keyboard_has_short_ways(tab: Callable[..., Any], place: Place) -> None:
    ready(place)
    page = tab()
    open_file(page, place)
    page.keyboard.press("2")
    page.wait_for_selector("#matrix")
    page.wait_for_selector("#next-step")
    page.keyboard.press("n")
    has_focus(page, "#next-step")
    page.keyboard.press("/")
    has_focus(page, "input[type=search]")
    page.keyboard.type("1")  # in a field a digit is a digit
    page.wait_for_timeout(300)
    assert "/keys" in page.url
    page.keyboard.press("Escape")
    page.keyboard.press("v")
    has_focus(page, "#verdict")
    page.keyboard.press("?")
    page.wait_for_selector("text=Single letters act as keys")
