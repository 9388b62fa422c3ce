"""Releases: whole or not at all, shuffled, with new ids, and without a secret."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.draws import Seed
from sfumato.errors import ReleaseError
from sfumato.release.order import CHUNK, in_order, release_order
from sfumato.release.write import check_release, released_columns

# These releases swap persons one by one in a file of households, which is cautioned.
pytestmark = pytest.mark.filterwarnings("ignore:.*masks persons one by one")

# The households are there for the release's own rules; one column is swapped person by person.
pytestmark = pytest.mark.filterwarnings("ignore:.*masks persons one by one")


def people(n: int = 300) -> sf.Microdata:
    frame = pl.DataFrame(
        {
            "ID": [f"P{k:05d}" for k in range(n)],
            "HH": [k // 3 for k in range(n)],
            "AREA": [("n", "s", "e")[k % 3] for k in range(n)],
            "INCOME": [float(k * 17 % 1009) for k in range(n)],
        }
    )
    schema = sf.Schema(
        id="ID", keys=["AREA"], sensitive=["INCOME"], household="HH", variables={"INCOME": {"top": 1000}}
    )
    return sf.Microdata(frame, schema)


def run(seed: Seed | int = 1, n: int = 300, **release) -> sf.Run:
    plan = sf.Plan(steps=[sf.RandomSwap(columns=["INCOME"], rate_percent=40)], release=release)
    return plan.run(people(n), seed=seed)


def files(folder) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_the_two_bundles(tmp_path) -> None:
    release = run().release(tmp_path / "r")
    assert {
        "public/data.parquet",
        "public/dictionary.json",
        "public/report.html",
        "public/MANIFEST.json",
    } <= files(release.folder)
    assert {
        "internal/plan.toml",
        "internal/seed-commitment.json",
        "internal/report.html",
        "internal/order.parquet",
    } <= files(release.folder)
    assert stat.S_IMODE(release.internal.stat().st_mode) == 0o700
    assert stat.S_IMODE((release.internal / "plan.toml").stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_the_manifest_is_of_what_is_there(tmp_path) -> None:
    import hashlib

    release = run().release(tmp_path / "r")
    for folder in (release.public, release.folder):
        name = "MANIFEST.json" if folder == release.public else "internal/MANIFEST.json"
        manifest = json.loads((folder / name).read_text())
        for path, entry in manifest["files"].items():
            assert hashlib.sha256((folder / path).read_bytes()).hexdigest() == entry["sha256"]
    assert set(json.loads((release.public / "MANIFEST.json").read_text())["files"]) == files(
        release.public
    ) - {"MANIFEST.json"}


def test_records_are_shuffled_and_ids_are_new(tmp_path) -> None:
    done = run()
    release = done.release(tmp_path / "r")
    back = pl.read_parquet(release.data)
    order = pl.read_parquet(release.internal / "order.parquet")["source_record"].to_numpy() - 1
    assert sorted(order) == list(range(300))
    assert (order == np.arange(300)).mean() < 0.1
    assert back["ID"].to_list() == [f"{k:03d}" for k in range(1, 301)]
    masked = done.masked.frame
    assert back["INCOME"].to_list() == masked["INCOME"].gather(order).to_list()
    # Households stay together, in a new order with new numbers, and their members are the same.
    assert back["HH"].to_list() == sorted(back["HH"].to_list())
    old = masked["HH"].gather(order).to_list()
    assert len(set(zip(old, back["HH"].to_list(), strict=True))) == 100
    assert old != sorted(old)


def test_dropped_columns_are_gone(tmp_path) -> None:
    release = run(drop=["ID", "HH"]).release(tmp_path / "r")
    assert pl.read_parquet(release.data).columns == ["AREA", "INCOME"]
    words = (release.public / "dictionary.json").read_text()
    assert "HH" not in words
    with pytest.raises(ReleaseError, match="every column is dropped"):
        run(drop=["ID", "HH", "AREA", "INCOME"]).release(tmp_path / "q")
    assert not (tmp_path / "q").exists()


def test_the_order_is_uniform() -> None:
    """The place of record 0 over 2,000 seeds: chi-square of 10 equal bins, 9 degrees of freedom."""
    plan = sf.Plan(steps=[])
    data = people(10).with_roles(household=None, id=None)
    places = np.zeros(10)
    for seed in range(2_000):
        fake = sf.Run(plan, data, data, [], sf.Results([]), [], 0.0, Seed.from_int(seed))
        places[int(np.flatnonzero(release_order(fake) == 0)[0])] += 1
    chi2 = float(((places - 200) ** 2 / 200).sum())
    assert chi2 < 33.7  # the 99.99% point


@pytest.mark.parametrize("format_", ["parquet", "csv", "tsv", "arrow", "sav", "dta"])
def test_every_format_can_be_released(tmp_path, format_: str) -> None:
    release = run(format=format_).release(tmp_path / "r")
    back = sf.read(release.data)
    assert len(back) == 300
    assert back.columns == ["ID", "HH", "AREA", "INCOME"]
    assert sorted(back.numbers("INCOME")) == sorted(people().numbers("INCOME"))


def test_the_same_seed_makes_the_same_public_bundle(tmp_path) -> None:
    one, two = run(5).release(tmp_path / "a"), run(5).release(tmp_path / "b")
    other = run(6).release(tmp_path / "c")
    for name in files(one.public):
        assert (one.public / name).read_bytes() == (two.public / name).read_bytes(), name
    assert one.data.read_bytes() != other.data.read_bytes()


def test_nothing_is_overwritten_unless_told(tmp_path) -> None:
    first = run(1).release(tmp_path / "r")
    before = first.data.read_bytes()
    with pytest.raises(ReleaseError, match="exists already"):
        run(2).release(tmp_path / "r")
    assert first.data.read_bytes() == before
    run(2).release(tmp_path / "r", overwrite=True)
    assert first.data.read_bytes() != before
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ReleaseError, match="is a file"):
        run(2).release(tmp_path / "file", overwrite=True)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_failed_limit_releases_nothing(tmp_path) -> None:
    plan = sf.Plan(
        steps=[sf.RandomSwap(columns=["INCOME"], rate_percent=40)],
        measures=[sf.InformationLoss(columns=["INCOME"])],
        limits={"information_loss.il1": {"at_most": 0.0}},
    )
    done = plan.run(people(), seed=1)
    with pytest.raises(ReleaseError, match=r"information_loss\.il1 at most 0: fails"):
        done.release(tmp_path / "r")
    assert not list(tmp_path.iterdir())
    assert done.release(tmp_path / "r", despite_limits=True).data.exists()


def secrets_of(seed: Seed, tmp_path) -> list[bytes]:
    seed.save(tmp_path / "the.seed")
    text = (tmp_path / "the.seed").read_text().strip()
    raw = bytes.fromhex(text)
    number = int.from_bytes(raw, "big"), int.from_bytes(raw, "little")
    return [text.encode(), raw, *(str(k).encode() for k in number)]


def test_the_seed_is_in_no_released_file(tmp_path) -> None:
    seed = Seed.new()
    release = run(seed).release(tmp_path / "r")
    secrets = secrets_of(seed, tmp_path)
    for name in files(release.folder):
        content = (release.folder / name).read_bytes()
        assert not any(s in content for s in secrets), name


def test_the_public_bundle_names_no_original_id_and_no_path(tmp_path) -> None:
    release = run().release(tmp_path / "r")
    for name in files(release.public):
        content = (release.public / name).read_bytes()
        assert b"P00017" not in content, name
        assert str(tmp_path).encode() not in content, name


def test_the_file_carries_no_metadata(tmp_path) -> None:
    import pyarrow.parquet as pq

    release = run().release(tmp_path / "r")
    assert set(pq.read_metadata(release.data).metadata or {}) <= {b"ARROW:schema"}


def test_the_look_back_catches_another_file(tmp_path) -> None:
    done = run()
    release = done.release(tmp_path / "r")
    columns = released_columns(done)
    from sfumato.release.order import digest_of
    from sfumato.release.write import _Written

    parts = list(in_order(done, columns))
    written = _Written([digest_of(p.frame) for p in parts], records=300, as_it_was=False)
    check_release(done, release.data, columns, written)
    frame = pl.read_parquet(release.data)
    bad = tmp_path / "bad.parquet"
    frame.with_columns(pl.col("INCOME").shift(1, fill_value=0.0)).write_parquet(bad)
    with pytest.raises(ReleaseError, match="isn't what was written"):
        check_release(done, bad, columns, written)
    frame.head(10).write_parquet(bad)
    with pytest.raises(ReleaseError, match="other columns or records"):
        check_release(done, bad, columns, written)
    with pytest.raises(ReleaseError, match="original order"):
        check_release(done, release.data, columns, replace(written, as_it_was=True))
    with pytest.raises(ReleaseError, match="the original ID"):
        check_release(done, release.data, columns, replace(written, same=Counter(ID=200)))


def test_a_file_of_several_chunks(tmp_path) -> None:
    n = CHUNK + 1000
    data = sf.Microdata(pl.DataFrame({"a": np.arange(n), "b": np.arange(n) % 7}))
    release = sf.Plan(steps=[]).run(data, seed=1).release(tmp_path / "r")
    back = pl.read_parquet(release.data)
    assert back.height == n
    assert back["a"].n_unique() == n
    assert (back["a"] % 7 == back["b"]).all()


WRITER = """
import sys, polars as pl, sfumato as sf
data = sf.read(sys.argv[1])
plan = sf.Plan(steps=[sf.RandomSwap(columns=["INCOME"], rate_percent=40)])
run = plan.run(data, seed=1)
print("ready", flush=True)
run.release(sys.argv[2])
"""


def test_a_killed_process_leaves_all_or_nothing(tmp_path) -> None:
    source = tmp_path / "source.parquet"
    people(60_000).frame.write_parquet(source)
    before = source.read_bytes()
    whole = 0
    script = tmp_path / "w.py"
    script.write_text(textwrap.dedent(WRITER))
    for attempt in range(8):
        folder = tmp_path / f"out{attempt}"
        process = subprocess.Popen(
            [sys.executable, str(script), str(source), str(folder / "r")], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.06 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        release = folder / "r"
        if release.exists():
            whole += 1
            manifest = json.loads((release / "internal/MANIFEST.json").read_text())
            assert set(manifest["files"]) == files(release) - {"internal/MANIFEST.json"}
            assert pl.read_parquet(release / "public/data.parquet").height == 60_000
        assert source.read_bytes() == before
    # What killed processes left beside the target is swept by the next release there.
    leftovers = [f for f in tmp_path.glob("out*") if any(p.name.startswith(".r.") for p in f.iterdir())]
    assert whole + len(leftovers) > 0
    for folder in leftovers:
        run().release(folder / "r", overwrite=True)
        assert [p.name for p in folder.iterdir()] == ["r"]


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path) -> None:
    done = run(n=20_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(ReleaseError, match="can't be written"):
            done.release(tmp_path / "r")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path) -> None:
    (tmp_path / "plain").write_text("x")
    with pytest.raises(ReleaseError, match="nothing was released"):
        run().release(tmp_path / "plain" / "r")
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(ReleaseError, match="permission"):
            run().release(tmp_path / "locked" / "r")


def test_a_release_can_be_made_beside_strange_names(tmp_path) -> None:
    release = run().release(tmp_path / "a release (1) é")
    assert release.data.exists()


@pytest.mark.parametrize("kind", [pl.Int32, pl.Float64, pl.String, pl.Categorical])
def test_who_has_no_household_gets_none_and_stands_anywhere(tmp_path, kind) -> None:
    data = people()
    home = pl.Series("HH", [None if k < 90 else k // 3 for k in range(300)]).cast(pl.String).cast(kind)
    plan = sf.Plan(steps=[sf.RandomSwap(columns=["INCOME"], rate_percent=40)])
    out = pl.read_parquet(plan.run(data.with_columns([home]), seed=1).release(tmp_path / "r").data)
    sizes = out.drop_nulls("HH").group_by("HH").len()
    assert out["HH"].null_count() == 90
    assert sizes["len"].to_list() == [3] * 70
    # Households stay together; those without one are no block of their own.
    places = np.flatnonzero(out["HH"].is_null())
    assert len(places) - 1 < places[-1] - places[0]
    assert int(out["HH"].rle_id().max()) + 1 > 75


def test_logs_of_steps_with_alike_names_are_all_kept(tmp_path) -> None:
    steps = [
        sf.ControlledDistortion(records=[7], shift={"INCOME": 9.0}, columns=["INCOME"], id=name)
        for name in ("a.b", "a/b")
    ]
    sf.Plan(steps=steps).run(people(), seed=1).release(tmp_path / "r")
    assert len(list((tmp_path / "r/internal/log").glob("*.parquet"))) == 2


@pytest.mark.parametrize("format_", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["n", "s", "e", "HIDDEN"])])
def test_categories_are_released_and_those_taken_out_are_nowhere(tmp_path, kind, format_) -> None:
    area = people().column("AREA").to_list()
    area[7] = "HIDDEN"
    data = people().with_columns([pl.Series("AREA", area, dtype=kind)])
    plan = sf.Plan(steps=[sf.LocalSuppress(keys=["AREA"], tolerance=3)], release={"format": format_})
    release = plan.run(data, seed=1).release(tmp_path / "r")
    assert sf.read(release.data).column("AREA").null_count() == 1
    for path in release.public.iterdir():
        assert b"HIDDEN" not in path.read_bytes(), path.name


@pytest.mark.parametrize("format_", ["csv", "sav", "dta", "asc"])
def test_labels_of_codes_that_were_taken_out_go_and_unused_ones_stay(tmp_path, format_) -> None:
    frame = pl.DataFrame({"JOB": [1, 2] * 20 + [9], "BAND": ["low", "high"] * 20 + ["HIDDEN"]})
    labels = {1: "clerk", 2: "nurse", 3: "unused", 9: "HIDDEN"}
    order = ["low", "high", "HIDDEN"]
    schema = sf.Schema(variables={"JOB": {"labels": labels}, "BAND": {"order": order, "kind": "ordinal"}})
    steps = [sf.LocalSuppress(key_sets=[["JOB"], ["BAND"]], tolerance=3)]
    plan = sf.Plan(steps=steps, release={"format": format_})
    public = plan.run(sf.Microdata(frame, schema), seed=1).release(tmp_path / "r").public
    for path in public.iterdir():
        assert b"HIDDEN" not in path.read_bytes(), path.name
    said = {c["name"]: c for c in json.loads((public / "dictionary.json").read_text())["columns"]}
    assert said["JOB"]["codes"] == {"1": "clerk", "2": "nurse", "3": "unused"}
    assert said["BAND"]["order"] == ["low", "high"]


def test_whole_numbers_wider_than_arrow_knows_are_released(tmp_path) -> None:
    data = people().with_columns([pl.Series("BIG", range(300), dtype=pl.Int128)])
    plan = sf.Plan(steps=[sf.RandomSwap(columns=["INCOME"], rate_percent=40)])
    release = plan.run(data, seed=1).release(tmp_path / "r")
    assert sorted(sf.read(release.data).column("BIG").to_list()) == list(range(300))


@pytest.mark.parametrize("what", ["mean", "median", "code"])
def test_the_dictionary_holds_no_value_that_only_a_coded_record_had(tmp_path, what) -> None:
    step = sf.TopBottomCode(columns=["INCOME"], top_percent=5, bottom_percent=5, replace=what)
    schema = sf.Schema(id="ID", sensitive=["INCOME"])
    done = sf.Plan(steps=[step]).run(sf.Microdata(people().frame, schema), seed=1)
    public = done.release(tmp_path / "r").public
    said = {c["name"]: c for c in json.loads((public / "dictionary.json").read_text())["columns"]}["INCOME"]
    released = done.masked.column("INCOME")
    assert said["top_code"] == released.max()
    assert said["bottom_code"] == released.min()


def test_an_original_order_is_cautioned() -> None:
    assert any("original order" in w for w in run(shuffle=False).warnings)
    assert not any("original order" in w for w in run().warnings)


@pytest.mark.parametrize("format_", ["csv", "tsv"])
def test_a_delimited_release_is_read_back_value_by_value(tmp_path, format_: str) -> None:
    """Quotes, breaks, empty and missing texts, missing numbers: all come back in the types they had."""
    from sfumato.release import write

    odd = ["x", 'a "b", c', "", "two\nlines", None, "tab\there"]
    frame = pl.DataFrame(
        {
            "A": [float(i) / 7 for i in range(60)],
            "B": [None if i % 5 == 0 else i for i in range(60)],
            "T": [odd[i % len(odd)] for i in range(60)],
            "F": [i % 3 == 0 for i in range(60)],
        }
    )
    plan = sf.Plan(steps=[sf.RankSwap(columns=["A"], window_percent=20)], release={"format": format_})
    done = plan.run(sf.Microdata(frame), seed=1)
    file = tmp_path / f"data.{format_}"
    order = release_order(done)
    places = tmp_path / "order.parquet"
    written = write._write_data(done, frame.columns, file, done.masked.schema, places)
    back = write._as_written(done, file, written)
    assert back is not None
    assert back.frame.equals(done.masked.frame[order.tolist()])
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("x", "y", 1), encoding="utf-8")  # one letter of one value
    assert write._as_written(done, file, written) is None
    file.write_text(text.replace("B", "C", 1), encoding="utf-8")  # one letter of the first line
    assert write._as_written(done, file, written) is None
