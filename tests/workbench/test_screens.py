"""The screens and the changes, in process: what a person does, what the plan says, what the page counts."""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato import registry
from sfumato.cli import main
from sfumato.workbench.adopt import work_hash
from sfumato.workbench.bench import Workbench
from sfumato.workbench.forms import form_of, parsed
from sfumato.workbench.jobs import Jobs
from tests.workbench.conftest import Client, people, text_of

SCREENS = ("/data", "/keys", "/protect", "/attack", "/compare", "/release", "/plan", "/help")


def column(bench: Workbench, name: str) -> str:
    assert bench.opened is not None
    assert bench.opened.file is not None
    return str(bench.opened.file.columns.index(name))


def settled(bench: Workbench, kind: str, seconds: float = 120) -> Any:
    """The last job of a kind, when it is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job = bench.jobs.last(kind)
        if job is not None and not job.active:
            return job
        time.sleep(0.05)
    raise AssertionError(f"{kind} didn't end")


def test_every_screen_is_a_page_at_every_stage(client: Client) -> None:
    for path in SCREENS:
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert "can't be had" not in answer.text
        assert answer.text.count("<h1") == 1


def test_without_a_file_the_page_asks_for_one(tmp_path: Path) -> None:
    client = Client(Workbench(tmp_path))
    for path in SCREENS[:6]:
        assert "No file is open" in client.get(path).text


def test_roles_are_suggested_with_reasons_and_can_be_changed(client: Client) -> None:
    page = text_of(client.get("/data"))
    assert client.bench.now.kept["suggestion"]["reasons"]["ID"][0] in page
    assert client.bench.plan.schema is not None
    assert client.bench.plan.schema.id == "ID"
    client.post("/plan/role", {"column": column(client.bench, "RENT"), "role": "none"})
    assert "RENT" not in client.bench.plan.schema.sensitive
    client.post("/plan/role", {"column": column(client.bench, "RENT"), "role": "key"})
    assert "RENT" in client.bench.plan.schema.keys


def unsafe_by_hand(frame: pl.DataFrame, keys: list[str], tolerance: int) -> int:
    counts = frame.group_by(keys).len()
    return int(counts.filter(pl.col("len") < tolerance)["len"].sum())


def test_the_count_falls_as_counted_on_the_records(client: Client) -> None:
    bench, frame = client.bench, people()
    keys = ["AGE", "SEX", "REGION"]
    assert set(bench.view().scenario.keys) == set(keys)
    assert bench.view().unsafe == unsafe_by_hand(frame, keys, 3)
    rungs = bench.rungs(bench.view())["AGE"]
    answer = client.post("/plan/recode", {"column": column(bench, "AGE"), "level": str(rungs[0].level)})
    masked = bench.plan.run(bench.data, seed=1, measure=False).masked
    by_hand = unsafe_by_hand(masked.frame, keys, 3)
    assert bench.view().unsafe == by_hand
    assert f"{by_hand:,} unsafe records" in text_of(answer)
    client.post(
        "/plan/scenario", {"key": [column(bench, k) for k in keys], "dimension": "3", "tolerance_number": "7"}
    )
    assert bench.view().unsafe == unsafe_by_hand(masked.frame, keys, 7)
    client.post(
        "/plan/scenario",
        {"key": [column(bench, k) for k in keys[:2]], "dimension": "2", "tolerance_number": "7"},
    )
    assert bench.view().unsafe == unsafe_by_hand(masked.frame, keys[:2], 7)


def test_every_step_says_how_many_it_leaves_unsafe(client: Client) -> None:
    bench, keys = client.bench, ["AGE", "SEX", "REGION"]
    counts = [unsafe_by_hand(people(), keys, 3)]
    for key in ("AGE", "REGION"):
        rung = bench.rungs(bench.view())[key][0]
        client.post("/plan/recode", {"column": column(bench, key), "level": str(rung.level)})
        masked = bench.plan.run(bench.data, seed=1, measure=False).masked
        counts.append(unsafe_by_hand(masked.frame, keys, 3))
    client.post("/plan/steps", {"do": "blank"})
    said = text_of(client.get("/protect"))
    for before, after in itertools.pairwise([*counts, 0]):
        assert f"{before:,} → {after:,} unsafe records" in said


def test_who_deals_every_value_has_no_recode_recommended(client: Client) -> None:
    columns = [c for c in client.bench.data.columns if c != "ID"]
    form = {"do": "add", "mask": "cluster_shuffle", "filled": "1", "columns": columns, "smallest": "20"}
    client.post("/plan/steps", form)
    view = client.bench.view()
    assert (view.safe_by, view.dealt, view.untold, view.unsafe) == ("cluster_shuffle", 20, (), 0)
    said = text_of(client.get("/keys"))
    assert "deals every released value anew among 20 records or more" in said
    assert "Nothing more is needed" in said
    assert "next best" not in said.partition("What would help most")[2]


def test_a_limit_does_not_move_the_plan_off_the_map(client: Client) -> None:
    bench = client.bench
    point = {"label": "a plan", "text": bench.now.text, "hash": work_hash(bench.now.text), "from": "place"}
    bench.add_point({**point, "risk": 0.1, "risk_se": 0.01, "loss": 0.2, "loss_se": 0.0, "runs": 1})
    client.post("/plan/limits", {"rate": "30", "loss": "0.5", "back": "/compare"})
    said = text_of(client.get("/compare"))
    assert "a plan · the plan now" in said
    assert "Adopt" not in said
    client.post("/plan/steps", {"do": "blank"})
    assert "a plan · the plan now" not in text_of(client.get("/compare"))


def test_every_help_does_what_it_says(client: Client) -> None:
    bench = client.bench
    view = bench.view()
    found = bench.helps(view, patience=30)
    assert found is not None
    assert [h.bits for h in found] == sorted(h.bits for h in found)
    assert any(h.key is None for h in found)
    start = bench.now.text
    for one in [h for h in found if h.key is not None][:4]:
        client.post("/plan/recode", {"column": column(bench, one.key), "level": str(one.level)})
        masked = bench.plan.run(bench.data, seed=1, measure=False).masked
        assert one.unsafe == unsafe_by_hand(masked.frame, list(view.scenario.keys), 3)
        client.post("/history", {"do": "undo"})
        assert bench.now.text == start


def test_blanking_what_is_left_leaves_nothing_unsafe(client: Client) -> None:
    client.post("/plan/steps", {"do": "blank"})
    assert client.bench.view().unsafe == 0
    run = client.bench.plan.run(client.bench.data, seed=1)
    assert run.ok
    cells = run.masked.cells(list(client.bench.view().scenario.keys))
    assert cells.frequencies().min() >= 3


def test_a_swap_of_keys_after_the_blanks_takes_the_promise_back(client: Client) -> None:
    client.post("/plan/steps", {"do": "blank"})
    form = {"do": "add", "mask": "random_swap", "filled": "1", "columns": ["SEX"], "rate_percent": "50"}
    client.post("/plan/steps", form)
    assert [s.name for s in client.bench.plan.steps] == ["local_suppress", "random_swap"]
    view = client.bench.view()
    assert view.safe_by is None
    assert view.unsafe > 0


def test_steps_are_added_moved_switched_and_removed(client: Client) -> None:
    bench = client.bench
    start = bench.now.text
    form = {
        "do": "add",
        "mask": "rank_swap",
        "filled": "1",
        "columns": ["WAGE", "RENT"],
        "window_percent": "10",
    }
    client.post("/plan/steps", form)
    client.post("/plan/steps", {"do": "blank"})
    assert [s.name for s in bench.plan.steps] == ["local_suppress", "rank_swap"]
    client.post("/plan/steps", {"do": "down", "step": "0"})
    assert [s.name for s in bench.plan.steps] == ["rank_swap", "local_suppress"]
    client.post("/plan/steps", {"do": "switch", "step": "0"})
    assert [s.name for s in bench.plan.steps] == ["local_suppress"]
    assert "off: it is kept in the plan" in text_of(client.get("/protect"))
    client.post("/plan/steps", {"do": "switch", "step": "0", "on": "on"})
    client.post(
        "/plan/parameters",
        {"kind": "step", "at": "0", "columns": ["WAGE", "RENT"], "window_percent": "8", "adjust": "on"},
    )
    assert bench.plan.steps[0].window_percent == 8
    client.post("/plan/steps", {"do": "remove", "step": "1"})
    assert [s.name for s in bench.plan.steps] == ["rank_swap"]
    for _ in range(20):
        client.post("/history", {"do": "undo"})
    assert bench.now.history.at == 0
    for _ in range(20):
        client.post("/history", {"do": "redo"})
    assert [s.name for s in bench.plan.steps] == ["rank_swap"]
    assert bench.now.text != start


def test_a_parameter_out_of_bounds_is_said_and_the_plan_keeps_the_old(client: Client) -> None:
    form = {"do": "add", "mask": "rank_swap", "filled": "1", "columns": ["WAGE"], "window_percent": "10"}
    client.post("/plan/steps", form)
    before = client.bench.now.text
    wrong = {"kind": "step", "at": "0", "columns": ["WAGE"], "window_percent": "120", "adjust": "on"}
    answer = client.post("/plan/parameters", wrong)
    page = text_of(answer)
    assert "at most 100, not 120" in page
    assert "The plan still has 10" in page
    assert 'value="120"' in answer.text  # what was typed stays
    assert client.bench.now.text == before
    assert "isn't a number" in text_of(client.post("/plan/parameters", {**wrong, "window_percent": "wide"}))


@pytest.mark.parametrize("kind", ["mask", "measure"])
def test_every_mask_and_measure_has_a_form_that_says_what_it_holds(kind: str) -> None:
    """The form of the defaults, sent back as it is, changes nothing."""
    there = registry.masks() if kind == "mask" else registry.measures()

    class Sent(dict[str, Any]):
        def getlist(self, key: str) -> list[Any]:
            held = self.get(key, [])
            return list(held) if isinstance(held, (list, tuple)) else [held]

    for name, cls in there.items():
        fields = form_of(cls, {}, [("A", True), ("B", False)])
        assert {f.name for f in fields} == set(cls.parameters()) - {"id"}
        sent = Sent()
        for f in fields:
            assert f.help, (name, f.name)
            if f.kind == "switch":
                if f.value:
                    sent[f.name] = "on"
            elif f.kind == "columns":
                sent[f.name] = f.value
            elif f.kind == "column":
                sent[f.name] = f.value[0] if f.value else ""
            elif f.kind == "choice":
                sent[f.name] = {True: "yes", False: "no", None: ""}.get(f.value, f.value)
            else:
                sent[f.name] = "" if f.value is None else f.value
        values, _, errors = parsed(cls, sent)
        assert not errors, (name, errors)
        assert all(v is None for v in values.values()), (name, values)


def test_limits_typed_are_limits_in_the_plan(client: Client) -> None:
    client.post("/plan/limits", {"do": "research"})
    assert {(x.measure, x.figure) for x in client.bench.plan.limits} >= {
        ("battery", "rate"),
        ("battery", "group"),
    }
    client.post("/plan/limits", {"rate": "7.5", "loss": "0.2"})
    limits = {(x.measure, x.figure): x.at_most for x in client.bench.plan.limits}
    assert limits["battery", "rate"] == 0.075
    assert limits["analyst_loss", "value"] == 0.2
    before = client.bench.now.text
    for bad in ("-1", "101", "nan", "much"):
        client.post("/plan/limits", {"rate": bad})
    assert client.bench.now.text == before
    client.post("/plan/limits", {"loss": ""})
    assert ("analyst_loss", "value") not in {(x.measure, x.figure) for x in client.bench.plan.limits}


def test_nothing_is_called_safe_that_was_not_run(client: Client) -> None:
    client.post("/plan/limits", {"do": "research"})
    client.post("/plan/steps", {"do": "blank"})
    for path in SCREENS[:6]:
        assert "Safe by the limits" not in text_of(client.get(path))
    answer = client.post(
        "/sign",
        {
            "plan": client.bench.now.hash(),
            "read": "on",
            "scenario": "on",
            "prepared": "a",
            "approved": "b",
            "out": "release",
        },
    )
    assert "Not released" in text_of(answer)
    assert not (client.bench.folder / "release").exists()


def test_two_tabs(client: Client) -> None:
    seen = str(client.bench.now.epoch)
    wage, rent = column(client.bench, "WAGE"), column(client.bench, "RENT")
    client.post("/plan/role", {"column": wage, "role": "key", "epoch": seen, "tab": "one"})
    answer = client.post("/plan/role", {"column": rent, "role": "key", "epoch": seen, "tab": "two"})
    assert "Another tab is ahead" in answer.text
    assert "RENT" not in client.bench.plan.schema.keys
    client.post("/plan/role", {"column": rent, "role": "key", "tab": "two"})
    assert "RENT" in client.bench.plan.schema.keys


def test_two_hundred_columns_are_paged_and_found(made: Callable[..., Workbench]) -> None:
    words = pl.Series(["a", "b", "c"] * 20)
    frame = people(60).with_columns(**{f"X{i:03d}": words for i in range(200)})
    client = Client(made(frame, name="wide.csv"))
    page = client.get("/data").text
    assert page.count('scope="row"') <= 60
    assert "1 to 50 of 206" in text_of(client.get("/data"))
    assert "X123" in client.get("/data?find=x123").text
    assert 'name="role"' in client.get("/data?page=4").text


def test_a_restart_goes_on_with_plan_history_and_numbers(made: Callable[..., Workbench]) -> None:
    first = made()
    client = Client(first)
    client.post("/plan/limits", {"do": "research"})
    client.post("/plan/steps", {"do": "blank"})
    first.now.put(
        first.key(),
        "run",
        {
            "internal": {
                "verdict": {"safe": False, "head": "not safe", "reasons": ["x"], "do": []},
                "risk": [],
                "utility": [],
                "steps": [],
            },
            "public": {},
            "before": 0.5,
        },
    )
    text, hashed = first.now.text, first.now.hash()
    first.close()
    second = made()
    assert second.now.text == text
    assert second.result("run") is not None
    page = text_of(Client(second).get("/protect"))
    assert hashed[:8] in page
    assert "blank what is left" in page


def test_a_file_that_changes_is_said(client: Client) -> None:
    people(seed=2).write_csv(client.bench.folder / "people.csv")
    assert "The file has changed" in client.get("/keys").text
    client.post("/again")
    assert client.bench.opened is not None
    assert client.bench.opened.ready.wait(30)
    assert "The file has changed" not in client.get("/keys").text


def test_a_broken_file_is_explained_without_its_path(made: Callable[..., Workbench], tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    bench = Workbench(tmp_path, propose=False)
    bench.open("broken.parquet")
    assert bench.opened is not None
    assert bench.opened.ready.wait(30)
    page = Client(bench).get("/data").text
    assert "The file can&#39;t be read" in page or "The file can't be read" in page
    assert str(tmp_path) not in page
    bench.close()


# -- jobs: real processes ---------------------------------------------------------------------------------


def busy(task: Any, tell: Any, find: Any) -> Any:
    """A job for tests: counts, then does what it is told."""
    for k in range(5):
        tell(f"part {k}", k, 5)
        find("part", k)
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "wait":
        time.sleep(60)
    if task == "refuse":
        raise sf.errors.MeasureError("nothing to measure", hint="take another file")
    if task == "break":
        raise RuntimeError("4711 is a secret value")
    return task


def test_a_job_that_dies_refuses_or_breaks_says_why_and_the_next_one_runs() -> None:
    done: list[Any] = []
    found: list[Any] = []
    jobs = Jobs(busy, lambda job, value: done.append(value), lambda job, name, value: found.append(value))

    def over(job: Any) -> Any:
        end = time.monotonic() + 60
        while job.active and time.monotonic() < end:
            time.sleep(0.02)
        return job

    try:
        job = over(jobs.start("a", "A", "die", "k"))
        assert job.state == "failed"
        assert "signal 9" in job.problem
        job = over(jobs.start("a", "A", "refuse", "k"))
        assert (job.state, job.problem, job.hint) == ("failed", "nothing to measure", "take another file")
        job = over(jobs.start("a", "A", "break", "k"))
        assert job.state == "failed"
        assert "RuntimeError" in job.problem
        assert "4711" not in job.problem
        found.clear()
        waiting = jobs.start("a", "A", "wait", "k")
        end = time.monotonic() + 60
        while len(found) < 5 and time.monotonic() < end:
            time.sleep(0.02)
        jobs.stop(waiting.number)
        assert waiting.state == "stopped"
        again = jobs.start("b", "B", "fine", "k")
        assert over(again).state == "done"
        assert done == ["fine"]
        assert found[:5] == [0, 1, 2, 3, 4]
    finally:
        jobs.close()


def test_a_newer_job_takes_the_place_of_an_older_one() -> None:
    done: list[Any] = []
    jobs = Jobs(busy, lambda job, value: done.append((job.key, value)), lambda *_: None)
    try:
        old = jobs.start("a", "A", "wait", "old")
        new = jobs.start("a", "A", "new", "new")
        end = time.monotonic() + 60
        while new.active and time.monotonic() < end:
            time.sleep(0.02)
        assert old.state == "stopped"
        assert done == [("new", "new")]
    finally:
        jobs.close()


def test_from_file_to_release_and_the_same_bytes_from_the_command_line(
    made: Callable[..., Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = made()
    client = Client(bench)
    # Everything dealt among twenty: safe by a research file's limits.
    columns = [c for c in bench.data.columns if c != "ID"]
    form = {
        "do": "add",
        "mask": "cluster_shuffle",
        "filled": "1",
        "columns": columns,
        "smallest": "20",
        "keep": "moments",
    }
    client.post("/plan/steps", form)
    client.post("/plan/limits", {"do": "research"})
    client.post("/plan/roles-checked")
    client.post("/jobs", {"kind": "preview", "column": column(bench, "WAGE")})
    client.post("/jobs", {"kind": "run"})
    assert settled(bench, "run").state == "done"
    assert settled(bench, "preview").state == "done"
    assert bench.result("run")["internal"]["verdict"]["safe"], bench.result("run")["internal"]["verdict"][
        "text"
    ]
    assert "Safe by the limits you set" in text_of(client.get("/release"))
    assert "itself as collected" in text_of(client.get(f"/protect?column={column(bench, 'WAGE')}"))
    assert "What an intruder finds" in text_of(client.get("/attack"))
    for which in ("public", "internal"):
        answer = client.get(f"/report/{which}")
        assert answer.status_code == 200
        assert "sandbox" in answer.headers["content-security-policy"]
    signed = {
        "plan": bench.now.hash(),
        "prepared": "A. Steward",
        "approved": "B. Board",
        "out": "release",
        "seed": "on",
    }
    assert "Still missing" in text_of(client.post("/sign", signed))
    assert "plain name" in text_of(
        client.post("/sign", {**signed, "read": "on", "scenario": "on", "out": "../elsewhere"})
    )
    client.post("/sign", {**signed, "read": "on", "scenario": "on"})
    job = settled(bench, "release")
    assert job.state == "done", job.problem
    page = text_of(client.get("/release"))
    assert "for handing out" in page
    assert "A. Steward" in page
    folder = bench.folder
    seed = folder / bench.result("release")["seed"]
    assert seed.stat().st_mode & 0o777 == 0o600
    monkeypatch.chdir(folder)
    assert main(["run", "people.toml", "--seed-file", seed.name, "--out", "again", "--quiet"]) == 0
    data = re.escape(bench.plan.release.name)
    made_here = sorted(p for p in (folder / "release" / "public").iterdir() if re.match(data, p.name))
    assert made_here
    for path in made_here:
        assert path.read_bytes() == (folder / "again" / "public" / path.name).read_bytes()
    # A change of the plan takes the verdict and the signature away.
    client.post("/plan/limits", {"rate": "9"})
    assert "Safe by the limits" not in text_of(client.get("/release"))
    assert "of plan" in text_of(client.get("/release"))
    client.post("/history", {"do": "undo"})
    assert "Safe by the limits you set" in text_of(client.get("/release"))
